#!/usr/bin/env python3
"""Retaining heads that torch.save wrote (Locret, Fast KVzip) as safetensors, for `retain heads import`:

    quant/heads/to_safetensors.py HEADS.bin HEADS.safetensors

Needs PyTorch 2.5 or later, NumPy and safetensors. A tensor in a list or dictionary is named by the keys on the way
to it. The file is unpickled with weights_only, so no program in it runs.
"""
import codecs
import sys

import numpy
import torch
from safetensors.torch import save_file


def tensors(x, name=''):
    if isinstance(x, torch.Tensor):
        return {name[1:]: x.detach().clone(memory_format=torch.contiguous_format)}
    items = x.items() if isinstance(x, dict) else enumerate(x) if isinstance(x, list) else []
    return {k: t for key, value in items for k, t in tensors(value, f'{name}.{key}').items()}


rebuild = numpy.array(0).__reduce__()[0]  # of arrays, such as Fast KVzip's curves of loss
arrays = [rebuild, (rebuild, 'numpy.core.multiarray._reconstruct'), numpy.ndarray, numpy.dtype,
          numpy.dtypes.Float64DType, codecs.encode]
with torch.serialization.safe_globals(arrays):
    save_file(tensors(torch.load(sys.argv[1], map_location='cpu', weights_only=True)), sys.argv[2])
