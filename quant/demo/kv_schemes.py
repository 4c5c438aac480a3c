"""The error that 4-bit keys and values cause in attention, by scheme, on the demo model's own keys: quant/eval/notes/units.md.

    kv_schemes.py --model retain-demo.gguf --data rows.jsonl [--rows 8]

KL: mean over queries and heads of KL(softmax with exact keys || with quantized ones), in 1e-3 nats.
error: of attention's output with quantized values, |o - o'| / |o|, in percent. Keys before RoPE.
"""
import argparse
import json
import math

import torch

import heads
import model as llama


def rounded(x, bits, dim, symmetric=False):
    """x in steps between its minimum and maximum over dim (largest magnitude, if symmetric)."""
    top = 2 ** bits - 1
    if symmetric:
        size = x.abs().amax(dim, True) / (top // 2)
        return (x / size.clamp_min(1e-9)).round() * size
    low = x.amin(dim, True)
    step = (x.amax(dim, True) - low) / top
    return ((x - low) / step.clamp_min(1e-9)).round() * step + low


def per_token(x, bits, width, symmetric=False):
    return rounded(x.unflatten(-1, (-1, width)), bits, -1, symmetric).flatten(-2)


def per_channel(x, bits, n=32):
    """KIVI: each number has its own scale over n tokens."""
    whole = x.shape[-2] // n * n
    blocks = rounded(x[..., :whole, :].unflatten(-2, (-1, n)), bits, -2).flatten(-3, -2)
    return torch.cat([blocks, x[..., whole:, :]], -2)


def turned(x, width=32):
    h = torch.ones(1, 1)
    while len(h) < width:
        h = torch.cat([torch.cat([h, h], 1), torch.cat([h, -h], 1)]) / math.sqrt(2)
    return (x.unflatten(-1, (-1, width)) @ h).flatten(-2)


SCHEMES = (  # name, bits per number with scales in half precision, function of x [..., n, head_dim]
    ('`q8`: per token, groups of 32', 8.5, lambda x: per_token(x, 8, 32, True)),
    ('`q4`: per token, groups of 32, minimum and step', 5, lambda x: per_token(x, 4, 32)),
    ('`q4`, Hadamard-turned', 5, lambda x: turned(per_token(turned(x), 4, 32))),
    ('per token, groups of 64, minimum and step', 4.5, lambda x: per_token(x, 4, 64)),
    ('per token, groups of 32, symmetric', 4.5, lambda x: per_token(x, 4, 32, True)),
    ('per channel, over 32 tokens (KIVI)', 5, lambda x: per_channel(x, 4)),
    ('per channel, over the whole text', 4, lambda x: rounded(x, 4, -2)),
    ('3 bits per token, groups of 32', 4, lambda x: per_token(x, 3, 32)),
)


def attention(q, k, cos, sin, mask):
    """q [kv, group, n, dim], k [kv, 1, n, dim] -> log-probabilities"""
    logits = llama.rope(q, cos, sin) @ llama.rope(k, cos, sin).transpose(-1, -2)
    return (logits * q.shape[-1] ** -.5 + mask).log_softmax(-1)


@torch.no_grad()
def measure(model, ids, sums):
    c, seen, n = model.c, [], len(ids)
    model.hidden(torch.tensor([ids]), watch=seen)
    cos, sin = llama.rope_tables(n, c.head_dim, c.theta)
    mask = torch.full((n, n), -1e9).triu_(1)
    for q, k, v, _ in seen:
        q, k, v = (x[0].view(n, c.n_kv, -1, c.head_dim).permute(1, 2, 0, 3) for x in (q, k, v))
        p = attention(q, k, cos, sin, mask)
        out = p.exp() @ v
        for i, (_, _, f) in enumerate(SCHEMES):
            other = attention(q, f(k), cos, sin, mask)
            sums[i][0] += (p.exp() * (p - other)).sum(-1).mean().item()
            sums[i][1] += ((p.exp() @ f(v) - out).norm(dim=-1) / out.norm(dim=-1)).mean().item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--model', required=True)
    parser.add_argument('--data', required=True)
    parser.add_argument('--rows', type=int, default=8)
    a = parser.parse_args()
    model, tokenizer = heads.read_model(a.model)
    sums = [[0, 0] for _ in SCHEMES]
    with open(a.data) as f:
        rows = [heads.encode(tokenizer, json.loads(next(f)))[0] for _ in range(a.rows)]
    for ids in rows:
        measure(model, ids, sums)
    n = len(rows) * model.c.n_layers
    print('| scheme | bits | keys: KL, 1e-3 nats | values: error |\n|---|---|---|---|')
    for (name, bits, _), (kl, error) in zip(SCHEMES, sums):
        print(f'| {name} | {bits} | {1e3 * kl / n:.2f} | {100 * error / n:.2f} % |')


if __name__ == '__main__':
    main()
