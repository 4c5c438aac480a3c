"""Train the retaining heads (Locret, Huang et al. 2024) on the frozen demo model.

One head per layer, W2 · silu(W1 · [q, k, v]) with q, k, v before RoPE, gives every cache unit the
score by which it is kept. Its label is the largest attention logit that any token of an answer, in
any query head of the group, gives the unit. Labels are standardised per layer and KV head: the
ranking is unchanged, and recall at 128 units goes from .71 to .90.

The model is the one the runtime computes with, its matrices rounded to Q4_0.
"""
import argparse
import random
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

import generate
import model as llama
from export import quantize
from tokenizer import PAD, Tokenizer
from train import encode

ROW, ROWS = 1024, 4
LEARNING_RATE, SMOOTHNESS = 2e-3, .0025      # the second: neighbours should not differ for nothing
CHUNK, STABILIZERS = 256, 32                 # of the runtime
EVICT_FROM = .3                              # share of the steps after which units get lost
STATISTICS = 16                              # batches that the labels' mean and deviation come from


class Heads(nn.Module):
    def __init__(self, c, hidden=128):
        super().__init__()
        n_in = (c.n_heads + 2 * c.n_kv) * c.head_dim
        self.first = nn.ParameterList(nn.Parameter(torch.randn(hidden, n_in) * n_in ** -.5)
                                      for _ in range(c.n_layers))
        self.second = nn.ParameterList(
            nn.Parameter(torch.randn(c.n_kv, hidden) * .1 * hidden ** -.5)
            for _ in range(c.n_layers))

    def forward(self, i, q, k, v):
        """q, k, v [rows, n, width] of layer i -> scores [rows, n, n_kv]"""
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


def row(tokenizer, r):
    """(ids, is it a token of an answer?, length of the context): facts in filler, then the
    questions."""
    kind = r.choices(('chat', 'passkey', 'key'), (.7, .15, .15))[0]
    n_facts = {'chat': r.randint(2, 12), 'passkey': 1, 'key': r.choice((8, 16, 24))}[kind]
    turns, questions = generate.memory(r, r.randint(ROW * 35 // 100, ROW * 75 // 100), n_facts,
                                       tokenizer.count, kind)
    if r.random() < .1:
        turns = generate.sloppy(r, turns)
        questions = [tuple(text for _, text in generate.sloppy(r, (('user', q), ('assistant', a))))
                     for q, a in questions]
    ids = encode(tokenizer, turns)[0]
    context, answer = len(ids), [False] * len(ids)
    for pair in questions:
        ask = encode(tokenizer, [('user', pair[0])])[0][1:]
        reply = encode(tokenizer, [('assistant', pair[1])])[0][1:]
        if len(ids) + len(ask) + len(reply) > ROW:
            break
        ids, answer = ids + ask + reply, answer + [False] * len(ask) + [True] * len(reply)
    short = ROW - len(ids)
    return ids + [PAD] * short, answer + [False] * short, context


def batch(tokenizer, r):
    rows = []
    while len(rows) < ROWS:
        made = row(tokenizer, r)
        if len(made[0]) == ROW and any(made[1]):
            rows.append(made)
    ids, answer = torch.tensor([x[0] for x in rows]), torch.tensor([x[1] for x in rows])
    return ids, answer, torch.arange(ROW) < torch.tensor([x[2] for x in rows])[:, None]


def evictor(heads, budget):
    """For Llama.hidden: from one chunk to the next every head keeps the best `budget` units, the
    newest among them, as the runtime does. Tokens then see a thinned past, as they will."""
    def evict(i, q, k, v):
        score = heads(i, q, k, v).transpose(1, 2)                 # [rows, n_kv, n]
        rows, n_kv, n = score.shape
        mask, gone = torch.zeros(rows, n_kv, n, n, dtype=q.dtype), torch.zeros_like(score)
        for start in range(CHUNK, n, CHUNK):
            now = score + gone
            now[:, :, start:] = -torch.inf
            now[:, :, start - STABILIZERS:start] = torch.inf
            worst = now.topk(budget, -1).values[:, :, -1:]
            gone[:, :, :start].masked_fill_(now[:, :, :start] < worst, -torch.inf)
            mask[:, :, start:start + CHUNK] = gone[:, :, None]
        return mask
    return evict


@torch.no_grad()
def watch(model, weights, tokenizer, r, evict=None):
    """For one batch: per layer ((q, k, v), labels [rows, n, n_kv]), and which tokens are
    context."""
    ids, answer, context = batch(tokenizer, r)
    seen, layers = [], []
    model.hidden(ids, lambda p: weights[id(p)], seen, evict)
    for q, k, v, logits in seen:
        # the largest over the answer's tokens and over the queries of the group
        label = torch.stack([of_row[:, :, mask].float().amax((1, 2)).T
                             for of_row, mask in zip(logits, answer)])
        layers.append(((q, k, v), label))
    return layers, context


def correlation(a, b):
    a, b = a - a.mean(0), b - b.mean(0)
    return ((a * b).sum(0) / (a.norm(dim=0) * b.norm(dim=0))).mean().item()


if __name__ == '__main__':
    parser = argparse.ArgumentParser()
    parser.add_argument('--model', required=True)
    parser.add_argument('--tokenizer', required=True)
    parser.add_argument('--out', required=True)
    parser.add_argument('--steps', type=int, default=250)
    parser.add_argument('--seed', type=int, default=5)
    a = parser.parse_args()
    torch.manual_seed(a.seed)
    r, tokenizer = random.Random(a.seed), Tokenizer.load(a.tokenizer)
    model = quantize(llama.load(a.model))
    weights = {id(p): p.bfloat16() for p in model.parameters()}
    heads, started = Heads(model.c), time.time()
    labels = [[] for _ in model.layers]
    for _ in range(STATISTICS):
        layers, context = watch(model, weights, tokenizer, r)
        for store, (_, label) in zip(labels, layers):
            store.append(label[context])
    mean = torch.stack([torch.cat(x).mean(0) for x in labels])      # [n_layers, n_kv]
    std = torch.stack([torch.cat(x).std(0) for x in labels])
    adam = torch.optim.AdamW(heads.parameters(), betas=(.9, .98), weight_decay=.01)
    for step in range(a.steps):
        # Labels know every unit, states only those that survive: first none is lost, then many.
        losing = step > a.steps * EVICT_FROM and r.random() < .5
        evict = evictor(heads, r.choice((64, 128, 256))) if losing else None
        layers, context = watch(model, weights, tokenizer, r, evict)
        loss, fit = 0, []
        for i, (qkv, label) in enumerate(layers):
            score, label = heads(i, *qkv), (label - mean[i]) / std[i]
            jump = (score[:, 1:] - score[:, :-1]).pow(2)[context[:, 1:]].mean()
            loss = loss + F.smooth_l1_loss(score[context], label[context]) + SMOOTHNESS * jump
            fit.append(correlation(score[context].detach(), label[context]))
        adam.param_groups[0]['lr'] = LEARNING_RATE * min((step + 1) / 30, 1,
                                                         max(.02, (1 - step / a.steps) / .7))
        adam.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(heads.parameters(), 5.)
        adam.step()
        if step % 25 == 24:
            by_layer = ' '.join(f'{x:.3f}' for x in fit)
            print(f'step {step + 1} loss {loss.item() / len(layers):.3f} correlation by layer '
                  f'{by_layer} {time.time() - started:.0f} s', flush=True)
    heads.save(a.out, mean, std)
