#include "runtime/model/codes.h"

#include <stdbool.h>
#include <string.h>

#include "base/embed.h"
#include "runtime/model/grids.h"

EMBED(grids, "runtime/model/grids.bin");
_Static_assert(sizeof(struct grids) == 9216, "the bytes of grids.bin");

static void use_values(struct super_block *out, enum kn_type type)
{
    out->values = kn_code_values(type);
    out->unit = kn_code_unit(type);
}

/* Seven signs, and an eighth that makes their number even. */
static uint8_t eight_signs(uint32_t seven)
{
    uint32_t parity = seven ^ seven >> 4;
    parity ^= parity >> 2;
    parity ^= parity >> 1;
    return (uint8_t)(seven | (parity & 1) << 7);
}

/* Eight numbers of IQ2: places in 8 25 43, and signs. */
static void put_eight(uint8_t code[8], uint16_t entry, uint8_t signs)
{
    for (int j = 0; j < 8; j++) code[j] = (uint8_t)((entry >> 2 * j & 3) | (signs >> j & 1) << 2);
}

/* Four numbers of IQ3_XXS: places in its eight values, and signs. */
static void put_four(uint8_t code[4], uint16_t entry, int signs)
{
    for (int j = 0; j < 4; j++) code[j] = (uint8_t)((entry >> 4 * j & 7) | (signs >> j & 1) << 3);
}

/* Four of IQ3_S: the codes of -15, -13, … 15 */
static void put_odd(uint8_t code[4], uint16_t entry, int signs)
{
    for (int j = 0; j < 4; j++) {
        const int place = entry >> 4 * j & 7;
        code[j] = (uint8_t)(signs >> j & 1 ? 7 - place : 8 + place);
    }
}

/* Eight of IQ1: places in -1 0 1, with 1/8 added or subtracted. */
static void put_thirds(uint8_t code[8], uint16_t entry, bool less)
{
    for (int j = 0; j < 8; j++) code[j] = (uint8_t)((entry >> 2 * j & 3) | (less ? 0 : 4));
}

/* ---- IQ2 ------------------------------------------------------------------------------------- */

/* half d; of each 32 numbers four indices, then signs and a scale in 32 bits */
void codes_read_iq2_xxs(struct super_block *out, const uint8_t *p)
{
    use_values(out, KN_IQ2);
    out->d = read_u16(p);
    for (int g = 0; g < 8; g++) {
        const uint8_t *q = p + 2 + 8 * g;
        const uint32_t more = read_u32(q + 4);
        out->scale[2 * g] = out->scale[2 * g + 1] = (int8_t)(2 * (more >> 28) + 1);
        for (int l = 0; l < 4; l++)
            put_eight(out->q + 32 * g + 8 * l, grids.iq2_xxs[q[l]],
                      eight_signs(more >> 7 * l & 127));
    }
}

static void read_scales(int8_t scale[16], const uint8_t nibbles[8])
{
    for (int i = 0; i < 16; i++) scale[i] = (int8_t)(2 * (nibbles[i / 2] >> i % 2 * 4 & 15) + 1);
}

/* half d, u16[32] of an index and seven signs, scales[8] */
void codes_read_iq2_xs(struct super_block *out, const uint8_t *p)
{
    use_values(out, KN_IQ2);
    out->d = read_u16(p);
    read_scales(out->scale, p + 66);
    for (int i = 0; i < 32; i++) {
        const uint16_t q = read_u16(p + 2 + 2 * i);
        put_eight(out->q + 8 * i, grids.iq2_xs[q & 511], eight_signs(q >> 9));
    }
}

/* half d, indices[32], signs[32], two high bits of each index [8], scales[8] */
void codes_read_iq2_s(struct super_block *out, const uint8_t *p)
{
    use_values(out, KN_IQ2);
    out->d = read_u16(p);
    read_scales(out->scale, p + 74);
    for (int i = 0; i < 32; i++) {
        const int high = p[66 + i / 4] >> i % 4 * 2 & 3;
        put_eight(out->q + 8 * i, grids.iq2_s[p[2 + i] | high << 8], p[34 + i]);
    }
}

/* ---- IQ3 ------------------------------------------------------------------------------------- */

/* half d, indices[64], then signs and a scale of each 32 numbers in 32 bits */
void codes_read_iq3_xxs(struct super_block *out, const uint8_t *p)
{
    use_values(out, KN_IQ3X);
    out->d = read_u16(p);
    for (int g = 0; g < 8; g++) {
        const uint32_t more = read_u32(p + 66 + 4 * g);
        out->scale[2 * g] = out->scale[2 * g + 1] = (int8_t)(2 * (more >> 28) + 1);
        for (int i = 0; i < 8; i++) {
            const int signs = eight_signs(more >> 7 * (i / 2) & 127) >> 4 * (i % 2);
            put_four(out->q + 32 * g + 4 * i, grids.iq3_xxs[p[2 + 8 * g + i]], signs);
        }
    }
}

/* half d, indices[64], a ninth bit of each [8], signs[32], scales[4] */
void codes_read_iq3_s(struct super_block *out, const uint8_t *p)
{
    use_values(out, KN_IQ3S);
    out->d = read_u16(p);
    for (int g = 0; g < 8; g++)
        out->scale[2 * g] = out->scale[2 * g + 1] =
            (int8_t)(2 * (p[106 + g / 2] >> g % 2 * 4 & 15) + 1);
    for (int i = 0; i < 64; i++) {
        const int high = p[66 + i / 8] >> i % 8 & 1;
        put_odd(out->q + 4 * i, grids.iq3_s[p[2 + i] | high << 8], p[74 + i / 2] >> 4 * (i % 2));
    }
}

/* ---- IQ1 ------------------------------------------------------------------------------------- */

/* half d, indices[32], u16[8] of three high bits of four indices, a scale and a sign */
void codes_read_iq1_s(struct super_block *out, const uint8_t *p)
{
    use_values(out, KN_IQ1);
    out->d = read_u16(p);
    for (int g = 0; g < 8; g++) {
        const uint16_t more = read_u16(p + 34 + 2 * g);
        out->scale[2 * g] = out->scale[2 * g + 1] = (int8_t)(2 * (more >> 12 & 7) + 1);
        for (int l = 0; l < 4; l++)
            put_thirds(out->q + 32 * g + 8 * l,
                       grids.iq1_s[p[2 + 4 * g + l] | (more >> 3 * l & 7) << 8], more >> 15);
    }
}

/* indices[32], nibbles[16] of three high bits and a sign each, u16[4] of four scales and four bits
 * of the half d */
void codes_read_iq1_m(struct super_block *out, const uint8_t *p)
{
    uint32_t d = 0;
    use_values(out, KN_IQ1);
    for (int i = 0; i < 4; i++) d |= (uint32_t)(read_u16(p + 48 + 2 * i) >> 12) << 4 * i;
    out->d = (uint16_t)d;
    for (int i = 0; i < 16; i++)
        out->scale[i] = (int8_t)(2 * (read_u16(p + 48 + i / 4 * 2) >> i % 4 * 3 & 7) + 1);
    for (int i = 0; i < 32; i++) {
        const int more = p[32 + i / 2] >> i % 2 * 4 & 15;
        put_thirds(out->q + 8 * i, grids.iq1_s[p[i] | (more & 7) << 8], more >> 3);
    }
}

/* ---- three values ---------------------------------------------------------------------------- */

/* d q - d */
static void use_three(struct super_block *out, uint16_t d)
{
    static const int8_t values[4] = {-1, 0, 1, 2};
    out->values = values;
    out->unit = 1;
    out->d = out->m = d;
    memset(out->scale, 1, sizeof out->scale);
    memset(out->min, 1, sizeof out->min);
}

/* Base-3 digits: n bytes of `digits` numbers each, digit by digit. */
static uint8_t *put_digits(uint8_t *code, const uint8_t *q, int n, int digits)
{
    for (int k = 0, power = 1; k < digits; k++, power *= 3)
        for (int i = 0; i < n; i++) *code++ = (uint8_t)((uint8_t)(q[i] * power) * 3 >> 8);
    return code;
}

/* five digits in 32 bytes, in 16 bytes, four in 4 bytes, half d */
void codes_read_tq1_0(struct super_block *out, const uint8_t *p)
{
    use_three(out, read_u16(p + 52));
    put_digits(put_digits(put_digits(out->q, p, 32, 5), p + 32, 16, 5), p + 48, 4, 4);
}

/* two bits each in 64 bytes, half d */
void codes_read_tq2_0(struct super_block *out, const uint8_t *p)
{
    use_three(out, read_u16(p + 64));
    for (int k = 0; k < KN_SUPER; k++) out->q[k] = p[k / 128 * 32 + k % 32] >> k % 128 / 32 * 2 & 3;
}
