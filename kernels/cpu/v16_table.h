/* The table of an instruction set whose kernels are those of the other v16 headers, which its file
 * has included before. `attend_kernel`: attend_v16 where attention is computed in fixed point
 * (v16_attend_fixed.h), else attend_float_v16. */
#ifndef RETAIN_KERNELS_CPU_V16_TABLE_H
#define RETAIN_KERNELS_CPU_V16_TABLE_H

#include "kernels/cpu/cpu.h"

/* The products with quantized weights. */
#define V16_PRODUCTS                                                                     \
    [KN_Q4] = matmul_q4_v16, [KN_Q8] = matmul_q8_v16, [KN_Q4A] = matmul_q4a_v16,         \
    [KN_Q5A] = matmul_q5a_v16, [KN_Q6] = matmul_q6_v16, [KN_IQ4] = matmul_iq4_v16,       \
    [KN_MX4] = matmul_mx4_v16, [KN_NV4] = matmul_nv4_v16, [KN_IQ4S] = matmul_iq4s_v16,   \
    [KN_Q4S] = matmul_q4s_v16, [KN_Q3S] = matmul_q3s_v16, [KN_Q2S] = matmul_q2s_v16,     \
    [KN_IQ3X] = matmul_iq3x_v16, [KN_IQ3S] = matmul_iq3s_v16, [KN_IQ2] = matmul_iq2_v16, \
    [KN_IQ1] = matmul_iq1_v16

/* A table of these alone: the rest is that of the next best instruction set (table.c). */
#define V16_PRODUCTS_TABLE(name)                \
    {                                           \
        .isa = name, .matmul = { V16_PRODUCTS } \
    }

#define V16_TABLE(name, attend_kernel)                                                          \
    {                                                                                           \
        .isa = name,                                                                            \
        .matmul = {[KN_F32] = matmul_f32_v16,                                                   \
                   [KN_F16] = matmul_f16_v16,                                                   \
                   [KN_BF16] = matmul_bf16_v16,                                                 \
                   V16_PRODUCTS},                                                               \
        .score = score_v16, .quantize = quantize_v16, .rmsnorm = rmsnorm_v16,                   \
        .silu_mul = silu_mul_v16, .silu_clamped_mul = silu_clamped_mul_v16,                     \
        .gelu_mul = gelu_mul_v16, .sigmoid_mul = sigmoid_mul_v16, .mix = mix_v16,               \
        .kv_pack =                                                                              \
            {                                                                                   \
                [KN_KV_F16] = kv_pack_f16_v16, [KN_KV_F32] = kn_kv_pack_f32_ref,                \
                [KN_KV_Q8] = kv_pack_q8_v16,   [KN_KV_Q4] = kv_pack_q4_v16,                     \
                [KN_KV_S4] = kv_pack_q4_v16,   [KN_KV_Q5] = kv_pack_q5_v16,                     \
                [KN_KV_S5] = kv_pack_q5_v16,                                                    \
            },                                                                                  \
        .pack_values = pack_values_v16, .key_centre = key_centre_v16, .hadamard = hadamard_v16, \
        .kv_unpack =                                                                            \
            {                                                                                   \
                [KN_KV_F16] = kv_unpack_f16_v16, [KN_KV_F32] = kn_kv_unpack_f32_ref,            \
                [KN_KV_Q8] = kv_unpack_q8_v16,   [KN_KV_Q4] = kv_unpack_q4_v16,                 \
                [KN_KV_S4] = kv_unpack_q4_v16,   [KN_KV_Q5] = kv_unpack_q5_v16,                 \
                [KN_KV_S5] = kv_unpack_q5_v16,                                                  \
            },                                                                                  \
        .attend = attend_kernel, .convolve = convolve_v16, .recur = recur_v16,                  \
    }

#endif
