/* Activations and cache units over v16, see v16.h. */
#ifndef RETAIN_KERNELS_CPU_V16_ACT_H
#define RETAIN_KERNELS_CPU_V16_ACT_H

#include "kernels/cpu/v16.h"

#include <math.h>
#include <string.h>

/* below this a reciprocal may be infinite, and a remainder may underflow */
#define SCALE_TINY 1e-24f

/* x / d as the nearest float, given 1 / d as the nearest float: the product is off by a few units
 * in its last place, the remainder x - q d is exact, and so the second q is right (Markstein).
 * Three short instructions are faster than a division. */
V16_INLINE v16 divide_again(v16 x, v16 d, v16 inverse)
{
    const v16 q = v16_mul(x, inverse);
    return v16_fma(v16_fnma(q, d, x), inverse, q);
}

/* A group with a tiny scale: zeros, or a d so coarse that max / d could be 190. */
static inline void quantize_small(int8_t *q, int32_t *sum, const float *x, float d)
{
    *sum = 0;
    memset(q, 0, KN_GROUP);
    for (int k = 0; d > 0.0f && k < KN_GROUP; k++) {
        q[k] = (int8_t)fmaxf(-127.0f, fminf(127.0f, rintf(x[k] / d)));
        *sum += q[k];
    }
}

/* G = 1 or 4 groups: four at once share the horizontal sums. */
V16_INLINE void quantize_groups(int G, int8_t *q, float *d, int32_t *sum, const float *x)
{
    v16 v[2 * 4], top[4];
    float tops[4], scale[4], inverse[4];

#pragma GCC unroll 4
    for (int g = 0; g < G; g++) {
        v[2 * g] = v16_load(x + g * KN_GROUP);
        v[2 * g + 1] = v16_load(x + g * KN_GROUP + 16);
        top[g] = v16_max(v16_abs(v[2 * g]), v16_abs(v[2 * g + 1]));
    }
    if (G == 4)
        v16_top4(tops, top[0], top[1], top[2], top[3]);
    else
        tops[0] = v16_top(top[0]);
    for (int g = 0; g < G; g++) scale[g] = tops[g] / 127.0f;
    for (int g = 0; g < G; g++) inverse[g] = 1.0f / scale[g];
    for (int g = 0; g < G; g++) d[g] = scale[g];
#pragma GCC unroll 4
    for (int g = 0; g < G; g++) {
        const v16 div = v16_set1(scale[g]), inv = v16_set1(inverse[g]);
        v[2 * g] = divide_again(v[2 * g], div, inv);
        v[2 * g + 1] = divide_again(v[2 * g + 1], div, inv);
    }
    if (G == 4)
        v16_store_groups(q, sum, v);
    else {
        v16_store_i8(q, v[0]);
        v16_store_i8(q + 16, v[1]);
        *sum = v16_sum_i8(q) + v16_sum_i8(q + 16);
    }
    for (int g = 0; g < G; g++)
        if (!(scale[g] > SCALE_TINY))
            quantize_small(q + g * KN_GROUP, sum + g, x + g * KN_GROUP, scale[g]);
}

static inline void quantize_v16(int8_t *q, float *d, int32_t *sum, const float *x, int n)
{
    const int n_group = n / KN_GROUP;
    int g = 0;

    for (; g + 4 <= n_group; g += 4)
        quantize_groups(4, q + g * KN_GROUP, d + g, sum + g, x + g * KN_GROUP);
    for (; g < n_group; g++) quantize_groups(1, q + g * KN_GROUP, d + g, sum + g, x + g * KN_GROUP);
}

static inline void rmsnorm_v16(float *y, const float *x, const float *w, int n, float eps)
{
    v16 a = v16_zero(), b = v16_zero();
    int i = 0;

    for (; i + 32 <= n; i += 32) {
        const v16 p = v16_load(x + i), q = v16_load(x + i + 16);
        a = v16_fma(p, p, a);
        b = v16_fma(q, q, b);
    }
    for (; i < n; i += 16) {
        const v16 p = v16_load_n(x + i, n - i);
        a = v16_fma(p, p, a);
    }

    const v16 inv = v16_set1(1.0f / sqrtf(v16_sum(v16_add(a, b)) / (float)n + eps));
    for (i = 0; i + 16 <= n; i += 16)
        v16_store(y + i, v16_mul(v16_mul(v16_load(x + i), inv), v16_load(w + i)));
    if (i < n) {
        const v16 last = v16_mul(v16_load_n(x + i, n - i), inv);
        v16_store_n(y + i, v16_mul(last, v16_load_n(w + i, n - i)), n - i);
    }
}

/* An entry of the table that computes y = expression of a and b, number by number. */
#define ACT_ENTRY(name, expression)                                               \
    static inline void name(float *y, const float *x, const float *z, int n)      \
    {                                                                             \
        int i = 0;                                                                \
        for (; i + 16 <= n; i += 16) {                                            \
            const v16 a = v16_load(x + i), b = v16_load(z + i);                   \
            v16_store(y + i, expression);                                         \
        }                                                                         \
        if (i < n) {                                                              \
            const v16 a = v16_load_n(x + i, n - i), b = v16_load_n(z + i, n - i); \
            v16_store_n(y + i, expression, n - i);                                \
        }                                                                         \
    }
ACT_ENTRY(silu_mul_v16, v16_mul(v16_silu(a), b))
ACT_ENTRY(silu_clamped_mul_v16, v16_silu_clamped(a, b))
ACT_ENTRY(gelu_mul_v16, v16_mul(v16_gelu(a), b))
ACT_ENTRY(sigmoid_mul_v16, v16_mul(v16_sigmoid(a), b))

static inline void add_v16(float *y, const float *x, int n)
{
    int i = 0;

    for (; i + 16 <= n; i += 16) v16_store(y + i, v16_add(v16_load(y + i), v16_load(x + i)));
    if (i < n)
        v16_store_n(y + i, v16_add(v16_load_n(y + i, n - i), v16_load_n(x + i, n - i)), n - i);
}

static inline void kv_pack_f16_v16(void *dst, const float *x, int head_dim)
{
    uint16_t *out = dst;
    const v16 top = v16_set1(65504.0f), bottom = v16_set1(-65504.0f);
    int i = 0;

    for (; i + 16 <= head_dim; i += 16)
        v16_store_half(out + i, v16_max(bottom, v16_min(top, v16_load(x + i))));
    for (; i < head_dim; i++) out[i] = kn_half_saturated(x[i]);
}

static inline void kv_pack_q8_v16(void *dst, const float *x, int head_dim)
{
    const size_t used = (size_t)(head_dim / KN_GROUP) * sizeof(struct kn_kv_q8);
    const v16 top = v16_set1(127.0f), bottom = v16_set1(-127.0f);
    struct kn_kv_q8 *out = dst;

    for (int g = 0; g < head_dim / KN_GROUP; g++, out++, x += KN_GROUP) {
        const v16 a = v16_load(x), b = v16_load(x + 16);

        out->d = kn_half_saturated(v16_top(v16_max(v16_abs(a), v16_abs(b))) / 127.0f);
        if (!(out->d & 0x7fff)) {
            memset(out->q, 0, KN_GROUP);
            continue;
        }
        const v16 d = v16_set1(kn_float_from_half(out->d));
        v16_store_i8(out->q, v16_max(bottom, v16_min(top, v16_round(v16_div(a, d)))));
        v16_store_i8(out->q + 16, v16_max(bottom, v16_min(top, v16_round(v16_div(b, d)))));
    }
    /* rows are padded to 4 bytes, and equal units must have equal bytes */
    memset((uint8_t *)dst + used, 0, kn_kv_bytes(KN_KV_Q8, head_dim) - used);
}

static inline void kv_pack_q4_v16(void *dst, const float *x, int head_dim)
{
    const v16 top = v16_set1(15.0f), bottom = v16_zero();
    struct kn_kv_q4 *out = dst;

    for (int g = 0; g < head_dim / KN_GROUP; g++, out++, x += KN_GROUP) {
        const v16 a = v16_load(x), b = v16_load(x + 16);
        const float min = v16_bottom(v16_min(a, b)), max = v16_top(v16_max(a, b));

        out->d = kn_half_saturated((max - min) / 15.0f + 0.0f); /* -0 is 0 */
        out->m = kn_half_saturated(min + 0.0f);
        if (!(out->d & 0x7fff)) {
            memset(out->q, 0, sizeof out->q);
            continue;
        }
        const v16 d = v16_set1(kn_float_from_half(out->d));
        const v16 m = v16_set1(kn_float_from_half(out->m));
        const v16 qa = v16_round(v16_div(v16_sub(a, m), d));
        const v16 qb = v16_round(v16_div(v16_sub(b, m), d));
        v16_store_nibbles(out->q, v16_max(bottom, v16_min(top, qa)),
                          v16_max(bottom, v16_min(top, qb)));
    }
}

/* Squared error of 16 numbers with step d, whose codes are q. */
static inline float error_s4(v16 *q, v16 x, float d)
{
    const v16 code = v16_round(v16_div(x, v16_set1(d)));
    *q = v16_max(v16_set1(-8.0f), v16_min(v16_set1(7.0f), code));
    const v16 r = v16_sub(v16_mul(v16_set1(d), *q), x);
    return v16_sum(v16_mul(r, r));
}

/* The codes of 16 numbers, and their step. */
static inline v16 codes_s4(v16 x, uint16_t *d)
{
    const float max = v16_top(x), min = v16_bottom(x), far = max >= -min ? max : min;
    const uint16_t b = kn_half_saturated(far / 7.0f);
    v16 q, other;

    *d = kn_half_saturated(far / -8.0f + 0.0f);
    if (!(*d & 0x7fff)) return v16_zero();
    const float error = error_s4(&q, x, kn_float_from_half(*d));
    if (error_s4(&other, x, kn_float_from_half(b)) < error) {
        *d = b;
        q = other;
    }
    return v16_add(q, v16_set1(8.0f));
}

static inline void kv_pack_s4_v16(void *dst, const float *x, int head_dim)
{
    struct kn_kv_s4 *out = dst;

    for (int g = 0; g < head_dim / KN_GROUP; g++, out++, x += KN_GROUP) {
        const v16 low = codes_s4(v16_load(x), &out->d[0]);
        v16_store_nibbles(out->q, low, codes_s4(v16_load(x + 16), &out->d[1]));
    }
}

static inline v16 codes_q4(v16 x, float d, float m)
{
    if (!(d > 0.0f)) return v16_zero();
    const v16 q = v16_round(v16_div(v16_sub(x, v16_set1(m)), v16_set1(d)));
    return v16_max(v16_zero(), v16_min(v16_set1(15.0f), q));
}

/* As fit of ref_units.c; sx: the sum of both. */
static inline bool fit(float *d, float *m, v16 a, v16 b, float sx, v16 qa, v16 qb)
{
    const float sq = v16_sum(v16_add(qa, qb));
    const float sqq = v16_sum(v16_add(v16_mul(qa, qa), v16_mul(qb, qb)));
    const float sqx = v16_sum(v16_add(v16_mul(qa, a), v16_mul(qb, b)));
    const float det = 32.0f * sqq - sq * sq;
    if (!(det > 0.0f)) return false;
    const float fitted = kn_float_from_half(kn_half_saturated((32.0f * sqx - sq * sx) / det));
    if (!(fitted > 0.0f && fitted < 65504.0f)) return false;
    *d = fitted;
    *m = kn_float_from_half(kn_half_saturated((sx - fitted * sq) / 32.0f + 0.0f));
    return true;
}

static inline void pack_values_v16(void *dst, const float *x, int head_dim)
{
    struct kn_kv_q4 *out = dst;

    for (int g = 0; g < head_dim / KN_GROUP; g++, out++, x += KN_GROUP) {
        const v16 a = v16_load(x), b = v16_load(x + 16);
        const float min = v16_bottom(v16_min(a, b)), max = v16_top(v16_max(a, b));
        const float sx = v16_sum(v16_add(a, b));
        float d = kn_float_from_half(kn_half_saturated((max - min) / 15.0f + 0.0f));
        float m = kn_float_from_half(kn_half_saturated(min + 0.0f));
        v16 qa = codes_q4(a, d, m), qb = codes_q4(b, d, m);

        for (int i = 0; i < KN_FITS && fit(&d, &m, a, b, sx, qa, qb); i++) {
            qa = codes_q4(a, d, m);
            qb = codes_q4(b, d, m);
        }
        out->d = kn_half_from_float(d);
        out->m = kn_half_from_float(m);
        v16_store_nibbles(out->q, qa, qb);
    }
}

static inline void kv_unpack_f16_v16(float *dst, const void *src, int head_dim)
{
    const uint16_t *in = src;
    int i = 0;

    for (; i + 16 <= head_dim; i += 16) v16_store(dst + i, v16_load_half(in + i));
    for (; i < head_dim; i++) dst[i] = kn_float_from_half(in[i]);
}

static inline void kv_unpack_q8_v16(float *dst, const void *src, int head_dim)
{
    const struct kn_kv_q8 *in = src;

    for (int i = 0; i < head_dim; i += KN_GROUP, in++) v16_unpack_q8(in, dst + i);
}

static inline void kv_unpack_q5_v16(float *dst, const void *src, int head_dim)
{
    const struct kn_kv_q5 *in = src;

    for (int i = 0; i < head_dim; i += KN_GROUP, in++) {
        struct kn_kv_q8 wide;
        v16_widen_q5(&wide, in);
        v16_unpack_q8(&wide, dst + i);
    }
}

static inline void kv_unpack_q4_v16(float *dst, const void *src, int head_dim)
{
    const struct kn_kv_q4 *in = src;

    for (int i = 0; i < head_dim; i += KN_GROUP, in++)
        v16_unpack_q4(in->q, v16_set1(kn_float_from_half(in->d)),
                      v16_set1(kn_float_from_half(in->m)), dst + i);
}

static inline void kv_unpack_s4_v16(float *dst, const void *src, int head_dim)
{
    const struct kn_kv_s4 *in = src;

    for (int i = 0; i < head_dim; i += KN_GROUP, in++, dst += KN_GROUP) {
        v16_unpack_q4(in->q, v16_set1(1.0f), v16_set1(-8.0f), dst);
        for (int h = 0; h < 2; h++)
            v16_store(dst + 16 * h,
                      v16_mul(v16_load(dst + 16 * h), v16_set1(kn_float_from_half(in->d[h]))));
    }
}

#endif
