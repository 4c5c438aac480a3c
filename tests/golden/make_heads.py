"""Golden values for tests/unit/test_heads.c: loss, gradient and AdamW steps of one retaining head in
PyTorch, float64. Prints tests/golden/heads.json.

    python3 tests/golden/make_heads.py > tests/golden/heads.json
"""
import json
import sys

import numpy
import torch
import torch.nn.functional as F

N, N_IN, HIDDEN, HEADS, STEPS = 70, 16, 32, 3, 3    # 70 rows: more than one part, not a multiple
WEIGHT, RATE, CLIP = .5 / (N * HEADS), .01, .0035  # the clip catches about half of the gradient

torch.manual_seed(1)
torch.set_default_dtype(torch.float64)


def rounded(*shape, scale):
    """Numbers that float32 holds, so that both sides start equal."""
    return (torch.randn(*shape) * scale * 1024).round() / 1024


x = rounded(N, N_IN, scale=1)
label = rounded(N, HEADS, scale=2)
w1 = rounded(HIDDEN, N_IN, scale=.3).requires_grad_()
w2 = rounded(HEADS, HIDDEN, scale=.3).requires_grad_()
out = {'n': N, 'n_in': N_IN, 'n_hidden': HIDDEN, 'n_head': HEADS, 'weight': WEIGHT,
       'rate': RATE, 'clip': CLIP, 'x': x.flatten().tolist(), 'label': label.flatten().tolist(),
       'w1': w1.flatten().tolist(), 'w2': w2.flatten().tolist()}
adam = torch.optim.AdamW([w1, w2], lr=RATE, betas=(.9, .95), eps=1e-8, weight_decay=.01)
for step in range(STEPS):
    score = F.linear(F.silu(F.linear(x, w1)), w2)
    loss = WEIGHT * F.smooth_l1_loss(score, label, reduction='sum')
    adam.zero_grad()
    loss.backward()
    if step == 0:
        out |= {'score': score.flatten().tolist(), 'loss': loss.item(),
                'g1': w1.grad.flatten().tolist(), 'g2': w2.grad.flatten().tolist()}
        clipped = (w1.grad.abs() > CLIP).double().mean().item()
        print(f'{clipped:.2f} of the first gradient is clipped', file=sys.stderr)
    torch.nn.utils.clip_grad_value_([w1, w2], CLIP)
    adam.step()
out |= {'steps': STEPS, 'w1_after': w1.flatten().tolist(), 'w2_after': w2.flatten().tolist()}
print(json.dumps({k: [float(str(numpy.float32(v))) for v in a] if isinstance(a, list) else a
                  for k, a in out.items()}, separators=(',', ':')))
