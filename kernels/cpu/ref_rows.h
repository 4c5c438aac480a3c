/* What the reference attention and its statistics read of a cache: one row as floats, and RoPE. */
#ifndef RETAIN_KERNELS_CPU_REF_ROWS_H
#define RETAIN_KERNELS_CPU_REF_ROWS_H

#include "kernels/cpu/cpu.h"

#include <assert.h>

/* Row `slot` of a head's keys or values to dst[head_dim]. */
static inline void ref_unpack(float *dst, enum kn_kv type, const void *rows, int slot, int head_dim)
{
    const uint8_t *src = (const uint8_t *)rows + (size_t)slot * kn_kv_bytes(type, head_dim);

    switch (type) {
    case KN_KV_F16: kn_kv_unpack_f16_ref(dst, src, head_dim); break;
    case KN_KV_F32: kn_kv_unpack_f32_ref(dst, src, head_dim); break;
    case KN_KV_Q8: kn_kv_unpack_q8_ref(dst, src, head_dim); break;
    case KN_KV_Q4: kn_kv_unpack_q4_ref(dst, src, head_dim); break;
    case KN_KV_TYPES: assert(0 && "no such cache type");
    }
}

/* dst may be x. */
static inline void ref_rotate(float *dst, const float *x, const struct kn_rope *rope, int pos)
{
    const int half = rope->head_dim / 2;
    const float *cos = rope->cos + (size_t)pos * (size_t)half;
    const float *sin = rope->sin + (size_t)pos * (size_t)half;

    for (int i = 0; i < half; i++) {
        const float a = x[i], b = x[i + half];
        dst[i] = a * cos[i] - b * sin[i];
        dst[i + half] = b * cos[i] + a * sin[i];
    }
}

#endif
