#!/usr/bin/env python3
"""Writes runtime/model/grids.bin: the tables of numbers that IQ1, IQ2 and IQ3 blocks refer to.

They are constants of the formats, which gguf-py has in the same packed form. Needs the package gguf
(0.19 or later).

    tests/golden/make_grids.py
"""
from pathlib import Path

from gguf import quants


def main():
    names = ("IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S", "IQ1_S")
    out = b"".join(bytes.fromhex(getattr(quants, name).grid_hex.decode()) for name in names)
    (Path(__file__).resolve().parents[2] / "runtime/model/grids.bin").write_bytes(out)


main()
