/* dotprod: the kernels of ARMv8.2 with dot products. Differs from neon.c only in the products with
 * quantized weights: sdot adds 4 products of signed bytes to a row. */
#include "kernels/cpu/v16_neon.h"
#include "kernels/cpu/v16_act.h"
#include "kernels/cpu/v16_attend.h"
#include "kernels/cpu/v16_stats.h"
#include "kernels/cpu/v16_matmul.h"

enum { PANEL_TOK = 8, PANEL_STREAMS = 1 };

#include "kernels/cpu/v16_panels.h"
#include "kernels/cpu/v16_score.h"
#include "kernels/cpu/v16_recur.h"

#include "kernels/cpu/neon_sdot.h"

V16_INLINE void panel_tile(enum kn_type type, int T, const uint8_t *panels, size_t ahead,
                           int n_group, const struct act_group *x, int n_tok, float *y,
                           size_t stride, int n_row, int first)
{
    tile_by_quarters(type, T, panels, ahead, n_group, x, n_tok, y, stride, n_row, first);
}

/* ---- the table ------------------------------------------------------------------------------- */

const struct kernels kn_dotprod = {
    .isa = "dotprod",
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
