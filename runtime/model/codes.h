/* codes: super-blocks of 256 numbers as integers: of the k-types, and of the types below 4 bits
 * that are not plain integers: IQ1, IQ2, IQ3 (numbers by index in a table of tuples, with signs),
 * TQ1_0 and TQ2_0 (three values). Exact in float, and the form of the kernels' panels (kernels.h).
 */
#ifndef RETAIN_RUNTIME_MODEL_CODES_H
#define RETAIN_RUNTIME_MODEL_CODES_H

#include <stdint.h>

#include "kernels/kernels.h"

/* Little-endian numbers at any address. */
static inline uint16_t read_u16(const uint8_t *p)
{
    return (uint16_t)(p[0] | p[1] << 8);
}

static inline uint32_t read_u32(const uint8_t *p)
{
    return read_u16(p) | (uint32_t)read_u16(p + 2) << 16;
}

/* Number k is d scale[k / 16] (q[k] - offset) - m min[k / 16], or
 * d scale[k / 16] unit values[q[k]]. Readers get it zeroed. */
struct super_block {
    uint16_t d, m; /* halves */
    int8_t scale[KN_SUPER / 16];
    uint8_t min[KN_SUPER / 16];
    uint8_t q[KN_SUPER];
    int offset;
    const int8_t *values; /* NULL: numbers are integers */
    float unit;
};

/* Readers of one block. */
typedef void super_read(struct super_block *out, const uint8_t *block);
super_read codes_read_iq1_s, codes_read_iq1_m, codes_read_iq2_xxs, codes_read_iq2_xs,
    codes_read_iq2_s, codes_read_iq3_xxs, codes_read_iq3_s, codes_read_tq1_0, codes_read_tq2_0;

#endif
