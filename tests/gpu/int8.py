"""Perplexity with exact attention and with the roundings of attend_int8 (docs/gpu.md), weights and units as floats.

    python3 tests/gpu/int8.py MODEL.gguf TEXT WINDOW [RETAIN]

The text is read WINDOW tokens at a time; RETAIN (build/retain) splits it into tokens. Needs PyTorch, transformers,
accelerate and gguf, and a model of the family llama.
"""

import math
import subprocess
import sys
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

TILE = 64
rounds = False


def int8(x, dims):
    step = x.abs().amax(dims, keepdim=True).clamp_min(1e-30) / 127
    return torch.round(x / step) * step


def halves(x):
    return x.half().float()


def exact(q, k, v, causal):
    return (q @ k.mT).masked_fill(~causal, -1e30).softmax(-1) @ v


def rounded(q, k, v, causal):
    """Keys less their mean, a step for a tile of 64; queries, a step for a row; a tile's sum of values as halves."""
    n, tiles = k.shape[2], -(-k.shape[2] // TILE)
    k = torch.nn.functional.pad(k - k.mean(2, keepdim=True), (0, 0, 0, tiles * TILE - n))
    k = int8(k.unflatten(2, (tiles, TILE)), (-1, -2)).flatten(2, 3)[:, :, :n]
    logits = (int8(q, -1) @ k.mT).masked_fill(~causal, -1e30)
    p = torch.exp(logits - logits.amax(-1, keepdim=True))
    parts = (halves(halves(a) @ halves(b)) for a, b in zip(p.split(TILE, -1), v.split(TILE, 2)))
    return sum(parts) / p.sum(-1, keepdim=True)


def attend(module, q, k, v, mask, scaling, **_):
    group, n = q.shape[1] // k.shape[1], q.shape[2]
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    causal = torch.ones(n, n, dtype=torch.bool).tril()
    return (rounded if rounds else exact)(q * scaling, k, v, causal).transpose(1, 2).contiguous(), None


@torch.no_grad()
def main(path, text, window, retain="build/retain"):
    global rounds
    said = subprocess.run([retain, "tokenize", "--ids", "-f", text, "-m", path], capture_output=True, check=True)
    ids = torch.tensor([int(i) for i in said.stdout.split()])
    ALL_ATTENTION_FUNCTIONS.register("compared", attend)
    model = AutoModelForCausalLM.from_pretrained(Path(path).parent, gguf_file=Path(path).name, dtype=torch.float32)
    model.set_attn_implementation("compared")
    loss, n = [0.0, 0.0], 0
    for part in ids.split(int(window)):
        if len(part) < int(window):
            break
        for kind in range(2):
            rounds = kind == 1
            logits = model(part[None], use_cache=False).logits[0, :-1].double()
            loss[kind] += torch.nn.functional.cross_entropy(logits, part[1:], reduction="sum").item()
        n += len(part) - 1
    a, b = (math.exp(x / n) for x in loss)
    print(f"{n} tokens: exact {a:.4f}, int8 {b:.4f}, {100 * (b / a - 1):+.3f} %")


if __name__ == "__main__":
    main(*sys.argv[1:])
