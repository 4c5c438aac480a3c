"""Recall after long filler, with the whole cache and with a cache of fixed size: a reference
implementation in PyTorch for the C runtime.

Chunked prefill; every (layer, KV head) keeps its best units; keys are kept before RoPE and a
unit's position is its slot; nothing is evicted during the turn that asks. The cache holds 4-bit
keys and values (asymmetric, per token, groups of 32, scale and minimum in float16)."""
import argparse
import json
import math
import random
import time

import torch
import torch.nn.functional as F

import generate
import model as llama
from export import quantize
from generate import MARK
from heads import Heads
from model import rms, rope, rope_tables, swiglu
from tokenizer import ASSISTANT, BOS, END, PAD, USER, Tokenizer
from train import encode

ANSWER_MAX = 512      # tokens of a turn that asks: nothing is evicted during it


def round_kv(x, bits=4, group=32):
    """x [..., head_dim] after quantization and dequantization."""
    g = x.float().reshape(*x.shape[:-1], -1, group)
    low = g.amin(-1, keepdim=True).half().float()
    scale = ((g.amax(-1, keepdim=True) - low) / (2 ** bits - 1)).half().float().clamp_min(1e-6)
    code = ((g - low) / scale).round().clamp(0, 2 ** bits - 1)
    return (code * scale + low).reshape(x.shape).to(x.dtype)


class Cache:
    """One layer's cache: keys before RoPE and values [rows, n_kv, n, head_dim], scores and positions
    of the units [rows, n_kv, n]."""
    def __init__(self, rows, c, dtype):
        self.k = self.v = torch.zeros(rows, c.n_kv, 0, c.head_dim, dtype=dtype)
        self.score = torch.zeros(rows, c.n_kv, 0)
        self.position = torch.zeros(rows, c.n_kv, 0, dtype=torch.long)

    def rows(self, which):
        picked = object.__new__(Cache)
        picked.__dict__ = {name: t[which] for name, t in self.__dict__.items()}
        return picked

    def append(self, k, v, score, position):
        for name, new in (('k', k), ('v', v), ('score', score), ('position', position)):
            setattr(self, name, torch.cat([getattr(self, name), new], 2))

    def keep(self, score, budget):
        """The best `budget` units of every head, in their original order."""
        slots = score.topk(budget, -1).indices.sort(-1).values
        wide = slots[..., None].expand(-1, -1, -1, self.k.shape[3])
        self.k, self.v = self.k.gather(2, wide), self.v.gather(2, wide)
        self.score, self.position = self.score.gather(2, slots), self.position.gather(2, slots)


class Runtime:
    """policy: full, cis (retaining heads), sink (StreamingLLM) or random."""
    def __init__(self, model, policy, heads=None, budget=256, stabilizers=32, sinks=4, chunk=256,
                 bits=4, dtype=torch.bfloat16, seed=0):
        self.m, self.policy, self.heads = model, policy, heads
        self.budget, self.stabilizers, self.sinks = budget, stabilizers, sinks
        self.chunk, self.bits, self.dtype = chunk, bits, dtype
        self.weights = {id(p): p.detach().to(dtype) for p in model.parameters()}
        self.draw = torch.Generator().manual_seed(seed)
        n_slots = 1 << 16 if policy == 'full' else budget + chunk + ANSWER_MAX
        self.cos, self.sin = rope_tables(n_slots, model.c.head_dim, model.c.theta)
        self.caches, self.seen = None, 0

    def attend(self, q, k, v):
        """q [rows, n_heads, n, d] against k, v [rows, n_kv, m, d]; the newest n of them are q's own."""
        c, n, m, rows = self.m.c, q.shape[2], k.shape[2], q.shape[0]
        q = rope(q.float(), self.cos[m - n:m], self.sin[m - n:m]) * c.head_dim ** -.5
        k = rope(k.float(), self.cos[:m], self.sin[:m]).to(self.dtype)
        q = q.to(self.dtype).reshape(rows * c.n_kv, -1, c.head_dim)
        logits = torch.bmm(q, k.reshape(rows * c.n_kv, m, -1).transpose(1, 2)).float()
        mask = torch.full((n, m), float('-inf')).triu_(m - n + 1)
        p = torch.softmax(logits.view(rows * c.n_kv, -1, n, m) + mask, -1).to(self.dtype)
        o = torch.bmm(p.view(rows * c.n_kv, -1, m), v.reshape(rows * c.n_kv, m, -1))
        return o.view(rows, c.n_heads, n, c.head_dim).transpose(1, 2).reshape(rows, n, -1)

    def score(self, i, q, k, v):
        rows, n = q.shape[:2]
        if self.policy == 'cis':
            return self.heads(i, q, k, v).transpose(1, 2)
        shape = rows, self.m.c.n_kv, n
        if self.policy == 'random':
            return torch.rand(shape, generator=self.draw)
        return torch.zeros(shape)

    @torch.no_grad()
    def run(self, ids, evict):
        """Runs one chunk [rows, n] through the model and into the cache -> logits."""
        c, w, (rows, n) = self.m.c, self.weights, ids.shape
        x = F.embedding(ids, w[id(self.m.emb)]) * math.sqrt(c.d)
        position = torch.arange(self.seen, self.seen + n).expand(rows, c.n_kv, n)
        self.seen += n
        if self.caches is None:
            self.caches = [Cache(rows, c, self.dtype) for _ in self.m.layers]
        for i, (layer, cache) in enumerate(zip(self.m.layers, self.caches)):
            h = rms(x, w[id(layer.attn_norm)], c.eps)
            q, k, v = (F.linear(h, w[id(p)]) for p in (layer.q, layer.k, layer.v))
            kh, vh = (t.view(rows, n, c.n_kv, c.head_dim).transpose(1, 2) for t in (k, v))
            if self.bits:
                kh, vh = round_kv(kh, self.bits), round_kv(vh, self.bits)
            cache.append(kh, vh, self.score(i, q, k, v), position)
            qh = q.view(rows, n, c.n_heads, c.head_dim).transpose(1, 2)
            o = self.attend(qh, cache.k, cache.v)
            x = x + F.linear(o, w[id(layer.out)])
            h = rms(x, w[id(layer.ffn_norm)], c.eps)
            x = x + F.linear(swiglu(F.linear(h, w[id(layer.gate)]), F.linear(h, w[id(layer.up)])),
                             w[id(layer.down)])
            if evict and self.policy != 'full' and cache.k.shape[2] > self.budget:
                self.evict(cache)
        return F.linear(rms(x, w[id(self.m.norm)], c.eps), w[id(self.m.emb)]).float()

    def evict(self, cache):
        score, n = cache.score.clone(), cache.k.shape[2]
        if self.policy == 'sink':
            score = cache.position.float()
        else:
            score[:, :, n - min(self.stabilizers, self.budget // 2):] = math.inf
        score[cache.position < self.sinks] = math.inf
        cache.keep(score, self.budget)

    def prefill(self, ids):
        for i in range(0, ids.shape[1], self.chunk):
            self.run(ids[:, i:i + self.chunk], True)
        return self

    def ask(self, rows, questions, tokenizer):
        """rows[i]: the conversation of question i -> (answer exact, value right) for each.

        The expected answer is fed and compared with the most likely token at every step: as long as
        all agree, this equals greedy decoding."""
        asked = [question_ids(tokenizer, *pair) for pair in questions]
        width = max(len(a[0]) for a in asked)
        ids = torch.tensor([a[0] + [PAD] * (width - len(a[0])) for a in asked])
        whole, seen = self.caches, self.seen
        self.caches = [cache.rows(torch.tensor(rows)) for cache in whole]
        said = self.run(ids, False).argmax(-1)
        self.caches, self.seen = whole, seen
        results = []
        for row, (want, start, of_value) in zip(said, asked):
            right = [int(row[i - 1]) == want[i] for i in range(start, len(want))]
            results.append((all(right), all(ok for ok, v in zip(right, of_value) if v)))
        return results

    def say(self, text, tokenizer, n_max=60):
        """One turn of a chat, greedy; evicts when the turn ends."""
        ids = [USER] + tokenizer.encode(' ' + text) + [END, ASSISTANT]
        logits = self.run(torch.tensor([ids]), False)
        out = []
        while True:
            out.append(int(logits[0, -1].argmax()))
            last = out[-1] == END or len(out) == n_max
            logits = self.run(torch.tensor([out[-1:]]), last)
            if last:
                return tokenizer.decode(out).replace('<|end|>', '').strip()


def question_ids(tokenizer, question, answer):
    """(ids of both turns, index of the answer's first token, for each of its tokens: part of the
    value?)"""
    ids = [USER] + tokenizer.encode(' ' + question) + [END, ASSISTANT]
    start, of_value = len(ids), []
    for i, part in enumerate(answer.split(MARK)):
        part = tokenizer.encode(' ' + part if i == 0 and part else part)
        ids += part
        of_value += [i % 2] * len(part)
    return ids + [END], start, of_value + [0]


def conversations(tokenizer, n_rows, n_tokens, n_facts, kind, scatter, seed):
    """(ids [n_rows, n_tokens], questions, row of every question)"""
    r = random.Random(seed)
    greeting = encode(tokenizer, [('user', 'Hello!'),
                                  ('assistant', 'Hello! How can I help you today?')])[0][1:]
    ids, questions, rows = [], [], []
    for i in range(n_rows):
        turns, asked = generate.memory(r, n_tokens - 12, n_facts, tokenizer.count, kind, scatter)
        row = [BOS]
        for turn in turns:                       # whole turns only, then greetings up to the length
            more = encode(tokenizer, [turn])[0][1:]
            if len(row) + len(more) > n_tokens:
                break
            row += more
        while len(row) < n_tokens:
            row = row[:1] + greeting[:n_tokens - len(row)] + row[1:]
        ids.append(row)
        questions += asked[:n_facts]
        rows += [i] * len(asked[:n_facts])
    return torch.tensor(ids), questions, rows


SCRIPT = """Hello!
Hi, I'm Marta and I live in Lisbon.
My dog is called Biscuit.
Please remember that my locker code is 48213.
My sister's locker code is 77105.
I left my keys in the blue drawer.
My favourite colour is teal.
What does an owl eat?
Tell me a story about a fox.
Tell me about cats.
What is my locker code?
What is seven plus five?
What is my sister's locker code?
Where are my keys?
What is the capital of France?
Actually, my locker code is now 90817.
How are you?
What is my dog's name?
What is my locker code?
Who am I?
Where do I live?
What is my favourite colour?
What is my birthday?
my wifi password is zukimo77
what is my wifi password
Repeat after me: the purple lantern sang
Thank you!
Goodbye!""".splitlines()


def numbers(text):
    return [int(x) for x in text.split(',')]


if __name__ == '__main__':
    parser = argparse.ArgumentParser()
    parser.add_argument('--model', required=True)
    parser.add_argument('--tokenizer', required=True)
    parser.add_argument('--heads')
    parser.add_argument('--policy', default='full')
    parser.add_argument('--budget', type=numbers, default=[128, 256, 512])
    parser.add_argument('--length', type=numbers, default=[2048, 8192, 16384])
    parser.add_argument('--rows', type=int, default=12, help='conversations per length')
    parser.add_argument('--facts', type=int, default=10)
    parser.add_argument('--kind', default='chat', help='chat, passkey, key or grass')
    parser.add_argument('--scatter', action='store_true', help='facts anywhere, not at the start')
    parser.add_argument('--bits', type=int, default=4, help='of the cache; 0: bfloat16')
    parser.add_argument('--stabilizers', type=int, default=32)
    parser.add_argument('--float', action='store_true', help='weights as trained, not as exported')
    parser.add_argument('--seed', type=int, default=77)
    parser.add_argument('--chat', action='store_true', help='play a script instead')
    a = parser.parse_args()
    model, tokenizer = llama.load(a.model), Tokenizer.load(a.tokenizer)
    if not a.float:
        quantize(model)
    heads = Heads.load(a.heads) if a.heads else None
    if a.chat:
        policy = 'cis' if heads else 'full'
        chat = Runtime(model, policy, heads, a.budget[0], a.stabilizers, bits=a.bits)
        chat.prefill(torch.tensor([[BOS]]))
        for line in SCRIPT:
            print(f'> {line}\n{chat.say(line, tokenizer)}')
        raise SystemExit
    for length in a.length:
        ids, questions, rows = conversations(tokenizer, a.rows, length, a.facts, a.kind, a.scatter,
                                             a.seed)
        for policy in a.policy.split(','):
            for budget in [0] if policy == 'full' else a.budget:
                started = time.time()
                run = Runtime(model, policy, heads, budget, a.stabilizers, bits=a.bits).prefill(ids)
                results = run.ask(rows, questions, tokenizer)
                exact, right = (sum(x) / len(results) for x in zip(*results))
                report = {'kind': a.kind, 'length': length, 'policy': policy, 'budget': budget,
                          'exact': round(exact, 3), 'value': round(right, 3),
                          'questions': len(results), 'seconds': round(time.time() - started)}
                print(json.dumps(report), flush=True)
