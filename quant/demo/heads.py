"""Retaining heads trained in PyTorch from random weights, as the shipped heads were: with the rows in the
order of `retain heads train`, which begins with heads in closed form since 24 November 2026.

    heads.py --model retain-demo.gguf --data rows.jsonl [--length 4096 --steps 200 --batch 4 --rate .002]
             [--out heads.pt]

The shipped heads come from the C trainer; evaluate.py reads this file's output.
The model is computed in bfloat16, the heads in float32."""
import argparse
import json
import re
import struct

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

import model as llama
from tokenizer import ASSISTANT, BOS, END, FIRST_BYTE, SPECIALS, USER, Tokenizer

STATISTICS, VALIDATION = 64, 32
SMOOTHING, CLIP, NOISE = .0025, .5, 1 / 1024


class Heads(nn.Module):
    def __init__(self, c, seed, hidden=128):
        """Starts from the same numbers as quant/heads/heads_net.c."""
        super().__init__()
        n_in = (c.n_heads + 2 * c.n_kv) * c.head_dim
        self.first, self.second = nn.ParameterList(), nn.ParameterList()
        for i in range(c.n_layers):
            w = normal(seed, i + 1, hidden * (n_in + c.n_kv))
            w1, w2 = w[:hidden * n_in] * n_in ** -.5, w[hidden * n_in:] * .1 * hidden ** -.5
            self.first.append(nn.Parameter(w1.reshape(hidden, n_in)))
            self.second.append(nn.Parameter(w2.reshape(c.n_kv, hidden)))

    def forward(self, i, q, k, v):
        """q, k, v [..., width] of layer i -> scores [..., n_kv]"""
        x = torch.cat([q, k, v], -1).float()
        return F.linear(F.silu(F.linear(x, self.first[i])), self.second[i])

    def save(self, path, mean, std):
        torch.save({'first': [p.detach() for p in self.first],
                    'second': [p.detach() for p in self.second], 'mean': mean, 'std': std}, path)

    @staticmethod
    def load(path):
        saved = torch.load(path)
        heads = object.__new__(Heads)
        nn.Module.__init__(heads)
        heads.first = nn.ParameterList(nn.Parameter(p) for p in saved['first'])
        heads.second = nn.ParameterList(nn.Parameter(p) for p in saved['second'])
        return heads.requires_grad_(False)


# ------------------------------------------------------------------------------------ the GGUF file
class Reader:
    FORMATS = {0: 'B', 1: 'b', 2: 'H', 3: 'h', 4: 'I', 5: 'i', 6: 'f', 7: '?', 10: 'Q', 11: 'q',
               12: 'd'}
    STRING, ARRAY = 8, 9

    def __init__(self, data):
        self.data, self.at = data, 4

    def number(self, form):
        size = struct.calcsize(form)
        self.at += size
        return struct.unpack('<' + form, self.data[self.at - size:self.at])[0]

    def string(self):
        n = self.number('Q')
        self.at += n
        return self.data[self.at - n:self.at].decode()

    def value(self, kind):
        if kind == self.STRING:
            return self.string()
        if kind == self.ARRAY:
            kind, n = self.number('I'), self.number('Q')
            return [self.value(kind) for _ in range(n)]
        return self.number(self.FORMATS[kind])


def read_gguf(path):
    """(metadata, {name: float32 array}) of a file with F32, Q4_0 and Q8_0 tensors, as export.py
    writes."""
    with open(path, 'rb') as f:
        r = Reader(f.read())
    r.number('I')
    n_tensors, n_keys = r.number('Q'), r.number('Q')
    keys = {}
    for _ in range(n_keys):
        name = r.string()
        keys[name] = r.value(r.number('I'))
    infos = [(r.string(), [r.number('Q') for _ in range(r.number('I'))][::-1], r.number('I'),
              r.number('Q')) for _ in range(n_tensors)]
    start, tensors = r.at + -r.at % 32, {}
    for name, shape, kind, offset in infos:
        n, at = int(np.prod(shape)), start + offset
        if kind == 0:
            tensors[name] = np.frombuffer(r.data, np.float32, n, at).reshape(shape)
        elif kind == 2:
            blocks = np.frombuffer(r.data, np.uint8, n // 32 * 18, at).reshape(-1, 18)
            scale = blocks[:, :2].copy().view(np.float16).astype(np.float32)
            codes = np.concatenate([blocks[:, 2:] & 15, blocks[:, 2:] >> 4], 1).astype(np.float32)
            tensors[name] = (scale * (codes - 8)).reshape(shape)
        else:
            assert kind == 8, name
            blocks = np.frombuffer(r.data, np.uint8, n // 32 * 34, at).reshape(-1, 34)
            scale = blocks[:, :2].copy().view(np.float16).astype(np.float32)
            codes = blocks[:, 2:].copy().view(np.int8).astype(np.float32)
            tensors[name] = (scale * codes).reshape(shape)
    return keys, tensors


def together(w, n_heads):
    """Rows of heads from interleaved RoPE order back to rotate-half."""
    return w.reshape(n_heads, -1, 2, w.shape[-1]).transpose(0, 2, 1, 3).reshape(w.shape)


def read_model(path):
    keys, t = read_gguf(path)
    c = llama.Config()
    model = llama.Llama(c)
    put = lambda p, w: p.data.copy_(torch.tensor(np.ascontiguousarray(w)))
    put(model.emb, t['token_embd.weight'] / c.d ** .5)
    for i, layer in enumerate(model.layers):
        put(layer.q, together(t[f'blk.{i}.attn_q.weight'], c.n_heads))
        put(layer.k, together(t[f'blk.{i}.attn_k.weight'], c.n_kv))
        for name, tensor in (('v', 'attn_v'), ('out', 'attn_output'), ('gate', 'ffn_gate'),
                             ('up', 'ffn_up'), ('down', 'ffn_down'), ('attn_norm', 'attn_norm'),
                             ('ffn_norm', 'ffn_norm')):
            put(getattr(layer, name), t[f'blk.{i}.{tensor}.weight'])
    return model.requires_grad_(False), read_tokenizer(keys)


def read_tokenizer(keys):
    """Merges are words of GPT-2's byte alphabet; Tokenizer needs ids."""
    id_of = {piece: i for i, piece in enumerate(keys['tokenizer.ggml.tokens'])}
    tokenizer = Tokenizer([[id_of[x] for x in m.split(' ')] for m in keys['tokenizer.ggml.merges']])
    assert len(tokenizer) == len(id_of) and FIRST_BYTE == len(SPECIALS)
    return tokenizer


# --------------------------------------------------------------------------------------------- rows
def random_at(seed, stream, index):
    """As in base/random.c."""
    mask = (1 << 64) - 1

    def mix(z):
        z = (z + 0x9e3779b97f4a7c15) & mask
        z = ((z ^ z >> 30) * 0xbf58476d1ce4e5b9) & mask
        z = ((z ^ z >> 27) * 0x94d049bb133111eb) & mask
        return z ^ z >> 31
    return (mix(mix(mix(seed) + stream & mask) + index & mask) >> 11) * 2 ** -53


def normal(seed, stream, n):
    """Box-Muller, as quant/heads/heads_net.c"""
    i = np.arange(n, dtype=np.uint64)
    u, v = 1 - random_at(seed, stream, 2 * i), random_at(seed, stream, 2 * i + 1)
    return torch.tensor(np.sqrt(-2 * np.log(u)) * np.cos(2 * np.pi * v), dtype=torch.float)


def shuffled(rows, seed, stream):
    rows = list(rows)
    for i in range(len(rows) - 1, 0, -1):
        j = int(random_at(seed, stream, i) * (i + 1))
        rows[i], rows[j] = rows[j], rows[i]
    return rows


def encode(tokenizer, row, length):
    """(ids, asking tokens, context, names) as in quant/heads/heads_sample.c; None when nothing fits."""
    ids = [BOS]
    for i, text in enumerate(row['document']):
        ids += [ASSISTANT if i % 2 else USER] + tokenizer.encode(' ' + text) + [END]
    asks, context = [False] * len(ids), 0
    for question, answer in zip(row['question'], row['answer']):
        q = [USER] + tokenizer.encode(' ' + question) + [END, ASSISTANT]
        a = tokenizer.encode(' ' + answer)
        end = [END] if context else []
        if len(ids) + len(end) + len(q) + len(a) > length:
            break
        ids, asks = ids + end + q + a, asks + [False] * (len(end) + len(q) - 1) + [True] * (len(a) + 1)
        context = context or len(ids) - len(a)
    return (ids, asks, context, runs(tokenizer, ids[:context])) if context >= 16 else None


def runs(tokenizer, ids):
    """The tokens of each name or number, [begin, end), as in quant/heads/heads_sample.c."""
    text = [tokenizer.pieces[i].decode('latin1') if i >= FIRST_BYTE else '' for i in ids]
    out, t = [], 0
    while t < len(ids):
        end = t + 1
        while text[t] and end < len(ids) and re.match('[0-9A-Za-z]', text[end]):
            end += 1
        if re.search('[A-Z]', text[t]) or re.search('[0-9]', ''.join(text[t:end])):
            out.append((t, end))
        t = end
    return out


@torch.no_grad()
def watch(model, weights, sample):
    """Per layer (q, k, v of the context, labels [n, n_kv])."""
    ids, asks, n, names = sample
    seen, asks = [], torch.tensor(asks)
    future = torch.ones(len(ids), len(ids), dtype=torch.bool).triu_(1)[asks]
    model.hidden(torch.tensor([ids]), lambda p: weights[id(p)], seen)
    layers = []
    for q, k, v, logits in seen:
        share = logits[0][:, :, asks].float().masked_fill(future, -torch.inf).log_softmax(-1)
        label = share[..., :n].amax((1, 2)).exp().add(NOISE).log()
        for begin, end in names:
            label[:, begin:end] = label[:, begin:end].amax(1, keepdim=True)
        layers.append(((q[0, :n], k[0, :n], v[0, :n]), label.T))
    return layers


def overlap(score, label):
    """Of the best tenth, averaged over KV heads."""
    n = -(-len(label) // 10)
    found = [len(set(a.topk(n).indices.tolist()) & set(b.topk(n).indices.tolist())) / n
             for a, b in zip(score.T, label.T)]
    return sum(found) / len(found)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--model', required=True)
    parser.add_argument('--data', required=True)
    parser.add_argument('--out')
    parser.add_argument('--length', type=int, default=4096, help='tokens of a row, at most')
    parser.add_argument('--steps', type=int, default=200)
    parser.add_argument('--batch', type=int, default=4)
    parser.add_argument('--rate', type=float, default=2e-3)
    parser.add_argument('--seed', type=int, default=0, help="the C program's --seed")
    a = parser.parse_args()
    model, tokenizer = read_model(a.model)
    weights = {id(p): p.bfloat16() for p in model.parameters()}
    with open(a.data) as f:
        rows = [json.loads(line) for line in f]
    order = shuffled(range(len(rows)), a.seed, (1 << 64) - 1)
    n_valid = max(1, min(VALIDATION, len(rows) // 10))
    valid, rest = order[:n_valid], order[n_valid:]
    turns = []
    while len(turns) < max(a.steps * a.batch, STATISTICS):
        turns += shuffled(rest, a.seed, len(turns) // len(rest))
    samples = lambda which: filter(None, (encode(tokenizer, rows[i], a.length) for i in which))

    labels = [[] for _ in model.layers]
    for sample in samples(turns[:STATISTICS]):
        for store, (_, label) in zip(labels, watch(model, weights, sample)):
            store.append(label)
    mean = torch.stack([torch.cat(x).mean(0) for x in labels])      # [n_layers, n_kv]
    std = torch.stack([torch.cat(x).std(0, unbiased=False) for x in labels])

    heads = Heads(model.c, a.seed)
    adam = torch.optim.AdamW(heads.parameters(), betas=(.9, .95), weight_decay=.01)
    for step in range(1, a.steps + 1):
        batch = [watch(model, weights, s) for s in samples(turns[(step - 1) * a.batch:step * a.batch])]
        if not batch:  # all too long
            continue
        loss, n_layers = 0, len(heads.first)
        for i in range(n_layers):
            score = [heads(i, *layers[i][0]) for layers in batch]
            label = [(layers[i][1] - mean[i]) / std[i] for layers in batch]
            jump = torch.cat([s[1:] - s[:-1] for s in score]).pow(2).mean()
            loss = loss + SMOOTHING * jump + \
                F.smooth_l1_loss(torch.cat(score), torch.cat(label)) / n_layers
        warm = a.steps * 2 // 3
        adam.param_groups[0]['lr'] = a.rate * (step / warm if step <= warm else
                                               (a.steps - step + 1) / (a.steps - warm))
        adam.zero_grad()
        loss.backward()
        nn.utils.clip_grad_value_(heads.parameters(), CLIP)
        adam.step()
        if step % 25 == 0:
            print(f'step {step} loss {loss.item():.4f}', flush=True)
    found = [overlap(heads(i, *qkv).detach(), label)
             for s in samples(valid) for i, (qkv, label) in enumerate(watch(model, weights, s))]
    print(f'{100 * sum(found) / len(found):.1f} % of the best tenth found')
    if a.out:
        heads.save(a.out, mean, std)


if __name__ == '__main__':
    main()
