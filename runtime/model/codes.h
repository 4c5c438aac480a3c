/* codes: super-blocks of the types below 4 bits that are not plain integers: IQ1, IQ2, IQ3 (numbers
 * by index in a table of tuples, with signs), TQ1_0 and TQ2_0 (three values). Read to one form:
 *
 *   w[k] = half d * scale[k / 16] * unit * values[code[k]]
 *
 * exact in float, and the form of the kernels' panels (kernels.h). */
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

struct codes {
    uint16_t d;
    uint8_t scale[KN_SUPER / 16]; /* odd, up to 31 */
    uint8_t code[KN_SUPER];
    enum kn_type type; /* of the panels: IQ3X, IQ3S, IQ2, IQ1, or Q2S for three values */
};

/* Readers of one block. */
typedef void codes_read(struct codes *out, const uint8_t *block);
codes_read codes_read_iq1_s, codes_read_iq1_m, codes_read_iq2_xxs, codes_read_iq2_xs,
    codes_read_iq2_s, codes_read_iq3_xxs, codes_read_iq3_s, codes_read_tq1_0, codes_read_tq2_0;

void codes_to_float(float out[KN_SUPER], const struct codes *c);

/* As the block of the panels: struct kn_iq4s_block, kn_q3s_block or kn_q2s_block. */
void codes_to_block(uint8_t *out, const struct codes *c);

#endif
