#!/usr/bin/env python3
"""Writes runtime/model/grids.h: the tables of numbers that IQ1, IQ2 and IQ3 blocks refer to.

They are constants of the formats, which gguf-py has in the same packed form. Needs the package gguf
(0.19 or later).

    tests/golden/make_grids.py
"""
from pathlib import Path

import numpy as np
from gguf import quants

HEAD = """/* grids: the numbers that an index of the types IQ1, IQ2 and IQ3 stands for: constants of these
 * formats, in gguf-py's order. Made by tests/golden/make_grids.py.
 *
 * IQ1, IQ2: eight numbers of two bits, the first one lowest, each a place in -1 0 1 or in 8 25 43.
 * IQ3: four of four bits: a place in 4 12 20 28 36 44 52 62 (XXS) or in 1 3 5 7 9 11 13 15 (S). */
#ifndef RETAIN_RUNTIME_MODEL_GRIDS_H
#define RETAIN_RUNTIME_MODEL_GRIDS_H

#include <stdint.h>
"""


def main():
    out = HEAD
    for name in ("IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S", "IQ1_S"):
        grid = np.frombuffer(bytes.fromhex(getattr(quants, name).grid_hex.decode()), dtype="<u2")
        words = [f"0x{x:04x}" for x in grid]
        rows = ["    " + ", ".join(words[i:i + 12]) + "," for i in range(0, len(words), 12)]
        out += f"\nstatic const uint16_t grid_{name.lower()}[{len(grid)}] = {{\n"
        out += "\n".join(rows) + "\n};\n"
    path = Path(__file__).resolve().parents[2] / "runtime/model/grids.h"
    path.write_text(out + "\n#endif\n")


main()
