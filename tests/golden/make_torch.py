"""tests/golden/heads.bin: retaining heads as Locret publishes them, written by PyTorch itself, in the
demo model's shapes with 2 hidden numbers. Number i of a matrix is ((i * 37 + layer) % 256 - 128) / 64.
With a folder as argument: the same and other forms of it there, for tests/cli/test_heads.sh.
"""
import collections
import sys

import torch

LAYERS, N_IN, HIDDEN, HEADS = 4, 512, 2, 2


def matrix(layer, rows, columns):
    i = torch.arange(rows * columns)
    return (((i * 37 + layer) % 256 - 128) / 64).bfloat16().reshape(rows, columns)


heads = collections.OrderedDict()
for layer in range(LAYERS):
    name = f'model.layers.{layer}.self_attn.fc'
    heads[name + '1.weight'] = matrix(layer, HIDDEN, N_IN)
    heads[name + '2.weight'] = matrix(layer, HEADS, HIDDEN)
if len(sys.argv) == 1:
    torch.save(heads, 'tests/golden/heads.bin')
    sys.exit()
out = sys.argv[1] + '/'
torch.save(heads, out + 'plain.bin')
torch.save({k: torch.nn.Parameter(v) for k, v in heads.items()}, out + 'protocol4.bin',
           pickle_protocol=4)
torch.save({k: v.half() for k, v in heads.items()}, out + 'half.bin')
torch.save({k: v.t().contiguous().t() for k, v in heads.items()}, out + 'turned.bin')
torch.save({k: v for k, v in heads.items() if 'layers.3' not in k}, out + 'short.bin')
torch.save(torch.nn.Linear(3, 3), out + 'module.bin')
torch.save(heads, out + 'old.bin', _use_new_zipfile_serialization=False)
