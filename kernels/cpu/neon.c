/* neon: the kernels of ARMv8.0. All of them are v16's (v16.h) except the products with quantized
 * weights.
 *
 * smull and smlal multiply bytes into 16 bits, which hold 2 products of Q8 and IQ4 (128 * 127 each)
 * or 4 of the other types (63 * 127), before pairs of columns are added in 32 bits. */
#include "kernels/cpu/v16_neon.h"
#include "kernels/cpu/v16_act.h"
#include "kernels/cpu/v16_attend.h"
#include "kernels/cpu/v16_stats.h"
#include "kernels/cpu/v16_matmul.h"

enum { PANEL_TOK = 4, PANEL_STREAMS = 1 };

#include "kernels/cpu/v16_panels.h"
#include "kernels/cpu/v16_score.h"
#include "kernels/cpu/v16_recur.h"

#include "kernels/cpu/neon_panels.h"

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

V16_INLINE void panel_tile(enum kn_type type, int T, const uint8_t *panels, size_t ahead,
                           int n_group, const struct act_group *x, int n_tok, float *y,
                           size_t stride, int n_row, int first)
{
    tile_by_quarters(type, T, panels, ahead, n_group, x, n_tok, y, stride, n_row, first);
}

/* ---- the table ------------------------------------------------------------------------------- */

const struct kernels kn_neon = {
    .isa = "neon",
    .matmul =
        {
            [KN_F32] = matmul_f32_v16,
            [KN_F16] = matmul_f16_v16,
            [KN_BF16] = matmul_bf16_v16,
            [KN_Q4] = matmul_q4_v16,
            [KN_Q8] = matmul_q8_v16,
            [KN_Q4A] = matmul_q4a_v16,
            [KN_Q5A] = matmul_q5a_v16,
            [KN_Q6] = matmul_q6_v16,
            [KN_IQ4] = matmul_iq4_v16,
            [KN_MX4] = matmul_mx4_v16,
            [KN_NV4] = matmul_nv4_v16,
            [KN_IQ4S] = matmul_iq4s_v16,
            [KN_Q4S] = matmul_q4s_v16,
            [KN_Q3S] = matmul_q3s_v16,
            [KN_Q2S] = matmul_q2s_v16,
        },
    .score = score_v16,
    .row =
        {
            [KN_F32] = kn_row_f32_ref,
            [KN_F16] = kn_row_f16_ref,
            [KN_BF16] = kn_row_bf16_ref,
            [KN_Q4] = kn_row_q4_ref,
            [KN_Q8] = kn_row_q8_ref,
            [KN_Q4A] = kn_row_q4a_ref,
            [KN_Q5A] = kn_row_q5a_ref,
            [KN_Q6] = kn_row_q6_ref,
            [KN_IQ4] = kn_row_coded_ref,
            [KN_MX4] = kn_row_coded_ref,
            [KN_NV4] = kn_row_coded_ref,
            [KN_IQ4S] = kn_row_coded_ref,
            [KN_Q4S] = kn_row_coded_ref,
            [KN_Q3S] = kn_row_coded_ref,
            [KN_Q2S] = kn_row_coded_ref,
        },
    .quantize = quantize_v16,
    .rmsnorm = rmsnorm_v16,
    .silu_mul = silu_mul_v16,
    .silu_clamped_mul = silu_clamped_mul_v16,
    .gelu_mul = gelu_mul_v16,
    .sigmoid_mul = sigmoid_mul_v16,
    .add = add_v16,
    .kv_pack =
        {
            [KN_KV_F16] = kv_pack_f16_v16,
            [KN_KV_F32] = kn_kv_pack_f32_ref,
            [KN_KV_Q8] = kv_pack_q8_v16,
            [KN_KV_Q4] = kv_pack_q4_v16,
        },
    .kv_unpack =
        {
            [KN_KV_F16] = kv_unpack_f16_v16,
            [KN_KV_F32] = kn_kv_unpack_f32_ref,
            [KN_KV_Q8] = kv_unpack_q8_v16,
            [KN_KV_Q4] = kv_unpack_q4_v16,
        },
    .attend = attend_float_v16,
    .attend_stats = attend_stats_v16,
    .convolve = convolve_v16,
    .recur = recur_v16,
};
