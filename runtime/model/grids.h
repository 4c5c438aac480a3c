/* grids: the numbers that an index of the types IQ1, IQ2 and IQ3 stands for: constants of these
 * formats, in gguf-py's order. grids.bin, which tests/golden/make_grids.py writes, little-endian.
 *
 * IQ1, IQ2: eight numbers of two bits, the first one lowest, each a place in -1 0 1 or in 8 25 43.
 * IQ3: four of four bits: a place in 4 12 20 28 36 44 52 62 (XXS) or in 1 3 5 7 9 11 13 15 (S). */
#ifndef RETAIN_RUNTIME_MODEL_GRIDS_H
#define RETAIN_RUNTIME_MODEL_GRIDS_H

#include <stdint.h>

extern const struct grids {
    uint16_t iq2_xxs[256], iq2_xs[512], iq2_s[1024], iq3_xxs[256], iq3_s[512], iq1_s[2048];
} grids;

#endif
