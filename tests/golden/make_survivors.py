#!/usr/bin/env python3
"""Writes windows.txt: the units that policies keep in layers without windows and of latent rows, by the formulas of
docs/policies.md from keys of Hugging Face's implementation in double precision.

192 tokens, then one eviction. A line for each head: model, policy, budget, layer, head, positions
that stay. Needs PyTorch, NumPy and transformers 5.

    tests/golden/make_survivors.py       takes seconds, overwrites windows.txt
"""
from pathlib import Path

import numpy as np
import torch
import make_latent
from make_families import N_VOCAB
from make_windows import load, models

N, BUDGET, WINDOW = 192, 48, 8


def keys_of(model, ids):
    """Of each layer the keys before RoPE, [token][KV head][number]."""
    keys, hooks = {}, []
    for i, layer in enumerate(model.model.layers):
        a = layer.self_attn
        part = getattr(a, "k_norm", None) or getattr(a, "k_proj", None)
        if part is not None:
            hooks.append(part.register_forward_hook(
                lambda _m, _x, y, i=i, d=a.head_dim: keys.__setitem__(i, y.reshape(N, -1, d).numpy())))
    with torch.no_grad():
        model(ids, use_cache=False)
    for h in hooks:
        h.remove()
    return keys


def latent_rows(model, ids):
    """Of each layer the keys of the one KV head: normed latent rows with their rotated parts."""
    parts, rank = {}, model.config.kv_lora_rank
    for i, layer in enumerate(model.model.layers):
        a = layer.self_attn
        a.kv_a_proj_with_mqa.register_forward_hook(
            lambda _m, _x, y, i=i: parts.__setitem__((i, "rotated"), y[..., rank:]))
        a.kv_a_layernorm.register_forward_hook(lambda _m, _x, y, i=i: parts.__setitem__((i, "row"), y))
    with torch.no_grad():
        model(ids, use_cache=False)
    return [torch.cat([parts[i, "row"], parts[i, "rotated"]], -1).reshape(N, 1, -1).numpy()
            for i in range(len(model.model.layers))]


def best(scores, n, safe):
    """The n units with the highest scores, those in `safe` first."""
    order = sorted(range(N), key=lambda i: (i not in safe, -scores[i], i))
    low, high = scores[order[n - 1]], scores[order[n]]
    assert abs(low - high) > 1e-6 * abs(low), (low, high)  # rounding must not decide
    return sorted(order[:n])


def compete(scores, safe):
    """Heads share their budgets; each keeps its best fifth of one."""
    first = [best(s, BUDGET // 5, safe) for s in scores]
    keep = [set(safe) | set(f) for f in first]
    rest = sorted(((-s[i], h, i) for h, s in enumerate(scores) for i in range(N) if i not in keep[h]))
    n = len(scores) * BUDGET - sum(map(len, keep))
    assert rest[n][0] - rest[n - 1][0] > 1e-6 * abs(rest[n][0])
    for _, h, i in rest[:n]:
        keep[h].add(i)
    return [sorted(k) for k in keep]


def policies(keys):
    n_kv = keys.shape[1]
    unit = keys / np.linalg.norm(keys, axis=2, keepdims=True)
    mean = unit.mean(0)
    diff = [-(unit[:, h] @ mean[h]) / np.linalg.norm(mean[h]) for h in range(n_kv)]
    newest, ends = set(range(N - WINDOW, N)), lambda n: set(range(4)) | set(range(N - n, N))
    yield "keydiff", [best(s, BUDGET, ends(BUDGET * 12 // 100)) for s in diff]
    yield "keydiff+global", compete(diff, ends(BUDGET * 25 // 100))
    yield "sink", [sorted(ends(BUDGET - 4))] * n_kv


def rows(name, layer, keys):
    for policy, heads in policies(keys):
        for h, positions in enumerate(heads):
            yield f"{name} {policy} {BUDGET} {layer} {h} " + " ".join(map(str, positions))


def main():
    torch.set_num_threads(1)
    ids = torch.tensor([[(i * 2654435761 + 12345) % 2**32 // 65536 % N_VOCAB for i in range(N)]])
    lines = ["# model, policy, budget, layer, head, positions that stay; see make_survivors.py"]
    for m in models():
        if m.name not in ("gemma3", "gemma4-e2b", "gpt-oss"):
            continue
        keys, layer = keys_of(load(m)[0], ids), m.config["layer_types"].index("full_attention")
        lines += rows(m.name, layer, keys[layer])
    for name, kind, config in make_latent.models():
        if name == "glm47flash":
            keys = latent_rows(make_latent.load(kind, config)[0], ids)[1]
            # its two layers would compete
            lines += [row for row in rows(name, 1, keys) if "global" not in row]
    (Path(__file__).parent / "windows.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
