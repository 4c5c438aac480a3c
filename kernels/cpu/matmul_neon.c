/* Matrix products on NEON, ARMv8.0.
 *
 * smull and smlal multiply bytes into 16 bits, where 2 products of Q8 (128 * 127 each) or 4 of the
 * other types (63 * 127) fit, before pairs of columns are added in 32 bits. */
#include "kernels/cpu/v16_neon.h"
#include "kernels/cpu/v16_matmul.h"

enum { PANEL_TOK = 4, PANEL_STREAMS = 1 };

#include "kernels/cpu/v16_panels.h"

#include "kernels/cpu/neon_panels.h"

V16_INLINE int8x16_t four_columns(const int8_t *q)
{
    int32_t four;
    memcpy(&four, q, sizeof four);
    return vreinterpretq_s8_s32(vdupq_n_s32(four));
}

/* 16 bits hold w x of the columns 4j + i; pairs of columns then become one number. */
V16_INLINE int32x4_t add_columns(int32x4_t dot, int16x8_t two_rows, int16x8_t next_two)
{
    return vaddq_s32(dot, vpaddq_s32(vpaddlq_s16(two_rows), vpaddlq_s16(next_two)));
}

V16_INLINE void dot_half(enum kn_type type, int32x4_t *dot, int T, const int8x16_t w[8],
                         const int8_t *q, int h)
{
    const int fit = type == KN_Q8 ? 2 : 4;

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

V16_INLINE void panel_tile(enum kn_type type, const uint8_t *panels, size_t ahead, int n_group,
                           const struct act_group *x, int n_tok, float *y, size_t stride, int n_row,
                           int first)
{
    tile_by_quarters(type, panels, ahead, n_group, x, n_tok, y, stride, n_row, first);
}

static void matmul_q8(const struct kn_matmul *job, float *y)
{
    matmul_panels(KN_Q8, job, y);
}

void kn_matmul_q4_neon(const struct kn_matmul *job)
{
    matmul_panels(KN_Q4, job, job->y + job->row0);
}

void kn_matmul_q8_neon(const struct kn_matmul *job)
{
    matmul_q8(job, job->y + job->row0);
}

void kn_matmul_q4a_neon(const struct kn_matmul *job)
{
    matmul_panels(KN_Q4A, job, job->y + job->row0);
}

void kn_matmul_q5a_neon(const struct kn_matmul *job)
{
    matmul_panels(KN_Q5A, job, job->y + job->row0);
}

void kn_matmul_q6_neon(const struct kn_matmul *job)
{
    matmul_panels(KN_Q6, job, job->y + job->row0);
}

void kn_matmul_f32_neon(const struct kn_matmul *job)
{
    matmul_f32_v16(job, job->y + job->row0);
}

void kn_matmul_f16_neon(const struct kn_matmul *job)
{
    matmul_f16_v16(job, job->y + job->row0);
}

void kn_matmul_bf16_neon(const struct kn_matmul *job)
{
    matmul_bf16_v16(job, job->y + job->row0);
}

void kn_score_neon(const struct kn_score *job)
{
    score_v16(job, matmul_q8);
}
