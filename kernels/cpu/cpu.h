/* kernels/cpu: what the CPU files show to table.c, and the few helpers they share.
 *
 * Names are kn_<op>_<format>_<isa>. A function's contract stands at its entry in kernels.h. */
#ifndef RETAIN_KERNELS_CPU_CPU_H
#define RETAIN_KERNELS_CPU_CPU_H

#include "kernels/kernels.h"

/* A group of 32 numbers in a cache unit, see enum kn_kv. */
struct kn_kv_q8 {
    uint16_t d;
    int8_t q[KN_GROUP];
};

struct kn_kv_q4 {
    uint16_t d, m;
    uint8_t q[KN_GROUP / 2];
};

_Static_assert(sizeof(struct kn_kv_q8) == 34, "no padding");
_Static_assert(sizeof(struct kn_kv_q4) == 20, "no padding");

/* Scales that outgrow a half saturate: an infinity in the cache would poison a conversation. */
static inline uint16_t kn_half_saturated(float x)
{
    const float max = 65504.0f;
    return kn_half_from_float(x > max ? max : x < -max ? -max : x);
}

void kn_matmul_f32_ref(const struct kn_matmul *job);
void kn_matmul_f16_ref(const struct kn_matmul *job);
void kn_matmul_bf16_ref(const struct kn_matmul *job);
void kn_matmul_q4_ref(const struct kn_matmul *job);
void kn_matmul_q8_ref(const struct kn_matmul *job);
void kn_matmul_q4a_ref(const struct kn_matmul *job);
void kn_matmul_q5a_ref(const struct kn_matmul *job);
void kn_matmul_q6_ref(const struct kn_matmul *job);
void kn_row_f32_ref(float *out, const struct kn_weight *w, int r);
void kn_row_f16_ref(float *out, const struct kn_weight *w, int r);
void kn_row_bf16_ref(float *out, const struct kn_weight *w, int r);
void kn_row_q4_ref(float *out, const struct kn_weight *w, int r);
void kn_row_q8_ref(float *out, const struct kn_weight *w, int r);
void kn_row_q4a_ref(float *out, const struct kn_weight *w, int r);
void kn_row_q5a_ref(float *out, const struct kn_weight *w, int r);
void kn_row_q6_ref(float *out, const struct kn_weight *w, int r);
void kn_score_ref(const struct kn_score *job);
void kn_quantize_ref(int8_t *q, float *d, int32_t *sum, const float *x, int n);
void kn_rmsnorm_ref(float *y, const float *x, const float *w, int n, float eps);
void kn_silu_mul_ref(float *y, const float *gate, const float *up, int n);
void kn_add_ref(float *y, const float *x, int n);
void kn_kv_pack_f16_ref(void *dst, const float *x, int head_dim);
void kn_kv_pack_f32_ref(void *dst, const float *x, int head_dim);
void kn_kv_pack_q8_ref(void *dst, const float *x, int head_dim);
void kn_kv_pack_q4_ref(void *dst, const float *x, int head_dim);
void kn_kv_unpack_f16_ref(float *dst, const void *src, int head_dim);
void kn_kv_unpack_f32_ref(float *dst, const void *src, int head_dim);
void kn_kv_unpack_q8_ref(float *dst, const void *src, int head_dim);
void kn_kv_unpack_q4_ref(float *dst, const void *src, int head_dim);
void kn_attend_ref(const struct kn_attend *job);
void kn_attend_stats_ref(const struct kn_stats *job);

/* AVX2, FMA, F16C */
void kn_matmul_f32_avx2(const struct kn_matmul *job);
void kn_matmul_f16_avx2(const struct kn_matmul *job);
void kn_matmul_bf16_avx2(const struct kn_matmul *job);
void kn_matmul_q4_avx2(const struct kn_matmul *job);
void kn_matmul_q8_avx2(const struct kn_matmul *job);
void kn_matmul_q4a_avx2(const struct kn_matmul *job);
void kn_matmul_q5a_avx2(const struct kn_matmul *job);
void kn_matmul_q6_avx2(const struct kn_matmul *job);
void kn_score_avx2(const struct kn_score *job);
void kn_quantize_avx2(int8_t *q, float *d, int32_t *sum, const float *x, int n);
void kn_rmsnorm_avx2(float *y, const float *x, const float *w, int n, float eps);
void kn_silu_mul_avx2(float *y, const float *gate, const float *up, int n);
void kn_add_avx2(float *y, const float *x, int n);
void kn_kv_pack_f16_avx2(void *dst, const float *x, int head_dim);
void kn_kv_pack_q8_avx2(void *dst, const float *x, int head_dim);
void kn_kv_pack_q4_avx2(void *dst, const float *x, int head_dim);
void kn_kv_unpack_f16_avx2(float *dst, const void *src, int head_dim);
void kn_kv_unpack_q8_avx2(float *dst, const void *src, int head_dim);
void kn_kv_unpack_q4_avx2(float *dst, const void *src, int head_dim);
void kn_attend_avx2(const struct kn_attend *job);
void kn_attend_stats_avx2(const struct kn_stats *job);

/* AVX-512 F, BW, VL, DQ, VNNI */
void kn_matmul_f32_avx512(const struct kn_matmul *job);
void kn_matmul_f16_avx512(const struct kn_matmul *job);
void kn_matmul_bf16_avx512(const struct kn_matmul *job);
void kn_matmul_q4_avx512(const struct kn_matmul *job);
void kn_matmul_q8_avx512(const struct kn_matmul *job);
void kn_matmul_q4a_avx512(const struct kn_matmul *job);
void kn_matmul_q5a_avx512(const struct kn_matmul *job);
void kn_matmul_q6_avx512(const struct kn_matmul *job);
void kn_score_avx512(const struct kn_score *job);
void kn_quantize_avx512(int8_t *q, float *d, int32_t *sum, const float *x, int n);
void kn_rmsnorm_avx512(float *y, const float *x, const float *w, int n, float eps);
void kn_silu_mul_avx512(float *y, const float *gate, const float *up, int n);
void kn_add_avx512(float *y, const float *x, int n);
void kn_kv_pack_f16_avx512(void *dst, const float *x, int head_dim);
void kn_kv_pack_q8_avx512(void *dst, const float *x, int head_dim);
void kn_kv_pack_q4_avx512(void *dst, const float *x, int head_dim);
void kn_kv_unpack_f16_avx512(float *dst, const void *src, int head_dim);
void kn_kv_unpack_q8_avx512(float *dst, const void *src, int head_dim);
void kn_kv_unpack_q4_avx512(float *dst, const void *src, int head_dim);
void kn_attend_avx512(const struct kn_attend *job);
void kn_attend_stats_avx512(const struct kn_stats *job);

/* NEON of ARMv8.0 */
void kn_matmul_f32_neon(const struct kn_matmul *job);
void kn_matmul_f16_neon(const struct kn_matmul *job);
void kn_matmul_bf16_neon(const struct kn_matmul *job);
void kn_matmul_q4_neon(const struct kn_matmul *job);
void kn_matmul_q8_neon(const struct kn_matmul *job);
void kn_matmul_q4a_neon(const struct kn_matmul *job);
void kn_matmul_q5a_neon(const struct kn_matmul *job);
void kn_matmul_q6_neon(const struct kn_matmul *job);
void kn_score_neon(const struct kn_score *job);
void kn_quantize_neon(int8_t *q, float *d, int32_t *sum, const float *x, int n);
void kn_rmsnorm_neon(float *y, const float *x, const float *w, int n, float eps);
void kn_silu_mul_neon(float *y, const float *gate, const float *up, int n);
void kn_add_neon(float *y, const float *x, int n);
void kn_kv_pack_f16_neon(void *dst, const float *x, int head_dim);
void kn_kv_pack_q8_neon(void *dst, const float *x, int head_dim);
void kn_kv_pack_q4_neon(void *dst, const float *x, int head_dim);
void kn_kv_unpack_f16_neon(float *dst, const void *src, int head_dim);
void kn_kv_unpack_q8_neon(float *dst, const void *src, int head_dim);
void kn_kv_unpack_q4_neon(float *dst, const void *src, int head_dim);
void kn_attend_neon(const struct kn_attend *job);
void kn_attend_stats_neon(const struct kn_stats *job);

/* its dot products, ARMv8.2; the rest is NEON's */
void kn_matmul_q4_dotprod(const struct kn_matmul *job);
void kn_matmul_q8_dotprod(const struct kn_matmul *job);
void kn_matmul_q4a_dotprod(const struct kn_matmul *job);
void kn_matmul_q5a_dotprod(const struct kn_matmul *job);
void kn_matmul_q6_dotprod(const struct kn_matmul *job);
void kn_score_dotprod(const struct kn_score *job);

/* its integer matrix products, ARMv8.6; the rest is NEON's */
void kn_matmul_q4_i8mm(const struct kn_matmul *job);
void kn_matmul_q8_i8mm(const struct kn_matmul *job);
void kn_matmul_q4a_i8mm(const struct kn_matmul *job);
void kn_matmul_q5a_i8mm(const struct kn_matmul *job);
void kn_matmul_q6_i8mm(const struct kn_matmul *job);
void kn_score_i8mm(const struct kn_score *job);

#endif
