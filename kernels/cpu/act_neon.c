/* Activations and cache units on neon. */
#include "kernels/cpu/v16_neon.h"
#include "kernels/cpu/v16_act.h"

void kn_quantize_neon(int8_t *q, float *d, int32_t *sum, const float *x, int n)
{
    quantize_v16(q, d, sum, x, n);
}

void kn_rmsnorm_neon(float *y, const float *x, const float *w, int n, float eps)
{
    rmsnorm_v16(y, x, w, n, eps);
}

void kn_silu_mul_neon(float *y, const float *gate, const float *up, int n)
{
    silu_mul_v16(y, gate, up, n);
}

void kn_add_neon(float *y, const float *x, int n)
{
    add_v16(y, x, n);
}

void kn_kv_pack_f16_neon(void *dst, const float *x, int head_dim)
{
    kv_pack_f16_v16(dst, x, head_dim);
}

void kn_kv_pack_q8_neon(void *dst, const float *x, int head_dim)
{
    kv_pack_q8_v16(dst, x, head_dim);
}

void kn_kv_pack_q4_neon(void *dst, const float *x, int head_dim)
{
    kv_pack_q4_v16(dst, x, head_dim);
}

void kn_kv_unpack_f16_neon(float *dst, const void *src, int head_dim)
{
    kv_unpack_f16_v16(dst, src, head_dim);
}

void kn_kv_unpack_q8_neon(float *dst, const void *src, int head_dim)
{
    kv_unpack_q8_v16(dst, src, head_dim);
}

void kn_kv_unpack_q4_neon(float *dst, const void *src, int head_dim)
{
    kv_unpack_q4_v16(dst, src, head_dim);
}
