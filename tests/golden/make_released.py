"""tests/golden/released/: retaining heads with the names that others release, as safetensors with random
numbers, in the shapes of families/qwen3.gguf, and the scores that their formulas give in PyTorch, double
precision. For tests/unit/test_heads_released.c. tests/golden/heads.safetensors: heads with Locret's names in
the demo model's shapes, for scripts. Needs PyTorch and safetensors.

    python3 tests/golden/make_released.py            # seconds
    python3 tests/golden/make_released.py FOLDER     # and files that must be refused, there

Names and shapes are those of github.com/huangyuxiang03/Locret (locret/train/convert.py),
NVIDIA/kvpress (kvpress/presses/kvzap_press.py) and Janghyun1230/FastKVzip (optim.py); the formulas
are written from the papers.
"""
import json
import sys
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import save_file

LAYERS, WIDTH, HEADS, KV, DIM, ROWS = 2, 64, 4, 2, 32, 6
HIDDEN, RANK, SINKS = 12, 4, 3
GROUP, QKV = HEADS // KV, (HEADS + 2 * KV) * DIM
OUT = Path(__file__).parent / 'released'

torch.manual_seed(3)


def grid(n, salt):
    """Multiples of 1/64 that int8 with a scale per 32 holds: 127/64 is in each group."""
    i = torch.arange(n)
    return torch.where(i % 32 == 0, 127, (i * 37 + salt * 11) % 255 - 127).float() / 64


def rows(n):
    return torch.stack([grid(n, t) for t in range(ROWS)]).double()


def weight(*shape, scale=.1):
    return (torch.randn(*shape) * scale).bfloat16()


def locret():
    """fc1 is on the grid, since it is stored as Q8_0."""
    heads, scores, x = {}, [], rows(QKV)
    for i in range(LAYERS):
        w1 = torch.stack([grid(QKV, 5 * i + r) for r in range(HIDDEN)]).bfloat16()
        w2 = weight(KV, HIDDEN)
        name = f'model.layers.{i}.self_attn.fc'
        heads |= {name + '1.weight': w1, name + '2.weight': w2}
        scores.append(F.silu(x @ w1.double().T) @ w2.double().T)
    return heads, scores


def kvzap(mlp):
    heads, scores, x = {}, [], rows(WIDTH)
    for i in range(LAYERS):
        if mlp:
            w1, b1 = weight(HIDDEN, WIDTH).float(), weight(HIDDEN).float()
            w2, b2 = weight(KV, HIDDEN, scale=1).float(), weight(KV, scale=1).float()
            heads |= {f'layers.{i}.0.weight': w1, f'layers.{i}.0.bias': b1,
                      f'layers.{i}.2.weight': w2, f'layers.{i}.2.bias': b2}
            h = F.gelu(x @ w1.double().T + b1.double())
            scores.append(h @ w2.double().T + b2.double())
        else:
            w, b = weight(KV, WIDTH), weight(KV, scale=1)
            heads |= {f'layers.{i}.weight': w, f'layers.{i}.bias': b}
            scores.append(x @ w.double().T + b.double())
    return heads, scores


def fast_kvzip():
    """The share that the unit gets beside SINKS other keys, averaged over the queries of its group;
    as a logarithm. RMSNorms have epsilon 1e-6."""
    def norm(v, w):
        return v / (v.pow(2).mean(-1, keepdim=True) + 1e-6).sqrt() * w.double()
    heads, scores, x = {}, [], rows(WIDTH)
    for i in range(LAYERS):
        m = {'k_base': torch.randn(KV, 1, SINKS, RANK), 'b': weight(KV, 1, GROUP, scale=1),
             'q_proj.weight': weight(KV * GROUP * RANK, WIDTH), 'q_proj.bias': weight(KV * GROUP * RANK),
             'k_proj.weight': weight(KV * RANK, WIDTH),
             'q_norm.weight': 1 + torch.randn(RANK) / 4, 'k_norm.weight': 1 + torch.randn(RANK) / 4}
        d = {k: v.double() for k, v in m.items()}
        q = norm((x @ d['q_proj.weight'].T + d['q_proj.bias']).view(ROWS, KV, GROUP, RANK),
                 m['q_norm.weight'])
        k = norm((x @ d['k_proj.weight'].T).view(ROWS, KV, RANK), m['k_norm.weight'])
        own = torch.einsum('thgr,thr->thg', q, k) / RANK ** .5 + d['b'][:, 0]
        base = torch.einsum('thgr,hsr->thgs', q, d['k_base'][:, 0]) / RANK ** .5
        share = torch.cat([own[..., None], base], -1).softmax(-1)[..., 0]
        scores.append(share.mean(-1).log())
        heads |= {f'module.{i}.{k}': v for k, v in m.items()}
    return heads, scores


def demo():
    """Number i of a matrix of layer n is ((i * 37 + n) % 256 - 128) / 64."""
    return {f'model.layers.{n}.self_attn.fc{k}.weight':
            (((torch.arange(size) * 37 + n) % 256 - 128) / 64).bfloat16().reshape(2, -1)
            for n in range(4) for k, size in ((1, 2 * 512), (2, 2 * 2))}


OUT.mkdir(exist_ok=True)
released = {'locret': locret(), 'kvzap-mlp': kvzap(True), 'kvzap-linear': kvzap(False),
            'fast-kvzip': fast_kvzip()}
if len(sys.argv) > 1:
    bad = Path(sys.argv[1])
    gate, mlp = released['fast-kvzip'][0], released['kvzap-mlp'][0]
    second = {k: v for k, v in gate.items() if k.startswith('module.1.')}
    save_file({k: v for k, v in gate.items() if k not in second}, bad / 'short.safetensors')
    save_file(gate | {k.replace('1', '2', 1): v.clone() for k, v in second.items()}, bad / 'long.safetensors')
    save_file(gate | {'module.1.k_base': torch.zeros(KV, 1, SINKS, RANK + 1)}, bad / 'base.safetensors')
    save_file({k: v.T.contiguous() if '0.weight' in k else v for k, v in mlp.items()},
              bad / 'turned.safetensors')
    sys.exit()
for name, (heads, _) in released.items():
    save_file(heads, OUT / f'{name}.safetensors')
save_file(demo(), OUT.parent / 'heads.safetensors')
scores = {f'{name}.safetensors': [float(f'{v:.7g}') for layer in s for v in layer.flatten().tolist()]
          for name, (_, s) in released.items()}
(OUT / 'scores.json').write_text(json.dumps(scores) + '\n')
