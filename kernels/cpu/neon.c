/* neon: the kernels of ARMv8.0. All of them are v16's (v16.h) except the products with quantized
 * weights.
 *
 * smull and smlal multiply bytes into 16 bits, which hold 2 products of Q8 and IQ4 (128 * 127 each)
 * or 4 of the other types (63 * 127), before pairs of columns are added in 32 bits. */
enum { PANEL_TOK = 4 };

#include "kernels/cpu/neon_panels.h"
#include "kernels/cpu/v16_act.h"
#include "kernels/cpu/v16_attend.h"
#include "kernels/cpu/v16_matmul.h"
#include "kernels/cpu/v16_recur.h"
#include "kernels/cpu/v16_score.h"

V16_INLINE int8x16_t four_columns(const int8_t *q)
{
    int32_t four;
    memcpy(&four, q, sizeof four);
    return vreinterpretq_s8_s32(vdupq_n_s32(four));
}

/* 16 bits hold w x of the columns 4j + i; pairs of columns are then added to one number. */
V16_INLINE int32x4_t add_columns(int32x4_t dot, int16x8_t two_rows, int16x8_t next_two)
{
    return vaddq_s32(dot, vpaddq_s32(vpaddlq_s16(two_rows), vpaddlq_s16(next_two)));
}

V16_INLINE void dot_half(enum kn_type type, int32x4_t *dot, int T, const int8x16_t w[8],
                         const int8_t *q, int h)
{
    const int fit = type == KN_Q8 || type == KN_IQ4 || type == KN_IQ4S ? 2 : 4;

#pragma GCC unroll 4
    for (int t = 0; t < T; t++) {
        int16x8_t low = vdupq_n_s16(0), high = vdupq_n_s16(0);

#pragma GCC unroll 4
        for (int j = 0; j < 4; j++) {
            const int8x16_t four = four_columns(q + t * KN_GROUP + 16 * h + 4 * j);
            const int8x16_t v = w[4 * h + j];

            low = j % fit == 0 ? vmull_s8(vget_low_s8(v), vget_low_s8(four))
                               : vmlal_s8(low, vget_low_s8(v), vget_low_s8(four));
            high = j % fit == 0 ? vmull_high_s8(v, four) : vmlal_high_s8(high, v, four);
            if (j % fit == fit - 1) dot[t] = add_columns(dot[t], low, high);
        }
    }
}

V16_INLINE void panel_tile(enum kn_type type, int R, int T, const struct panel_job *job)
{
    (void)R;
    tile_by_quarters(type, T, job);
}

const struct kernels kn_neon = V16_TABLE("neon", attend_float_v16);
