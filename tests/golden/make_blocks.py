#!/usr/bin/env python3
"""Writes blocks.bin: random blocks of every quantized type and their numbers, by gguf-py.

A record per type: int32 type, n, bytes; then the blocks, then n float32. Random bytes include NaN
and infinite scales. Needs the package gguf (0.19 or later).

    tests/golden/make_blocks.py              overwrites blocks.bin, two super-blocks per type
    tests/golden/make_blocks.py 200000 FILE  more numbers, to FILE
"""
import struct
import sys
from pathlib import Path

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType as T
from gguf.quants import dequantize

TYPES = [T.Q4_0, T.Q4_1, T.Q5_0, T.Q5_1, T.Q8_0, T.Q2_K, T.Q3_K, T.Q4_K, T.Q5_K, T.Q6_K, T.IQ4_NL,
         T.IQ4_XS, T.MXFP4, T.NVFP4, T.IQ3_XXS, T.IQ3_S, T.IQ2_XXS, T.IQ2_XS, T.IQ2_S, T.IQ1_S,
         T.IQ1_M, T.TQ1_0, T.TQ2_0]


def main():
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 512
    path = Path(sys.argv[2]) if len(sys.argv) > 2 else Path(__file__).parent / "blocks.bin"
    rng = np.random.default_rng(1)
    out = b""
    for t in TYPES:
        block, size = GGML_QUANT_SIZES[t]
        raw = rng.integers(0, 256, (n + block - 1) // block * size, dtype=np.uint8)
        with np.errstate(all="ignore"):
            numbers = dequantize(raw, t).astype(np.float32).ravel()
        out += struct.pack("<3i", t, len(numbers), len(raw)) + raw.tobytes() + numbers.tobytes()
    path.write_bytes(out)


main()
