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

static inline void mix_v16(float *y, const float *x, int n, float kept, float share)
{
    const v16 a = v16_set1(kept), b = v16_set1(share);
    int i = 0;

    for (; i + 16 <= n; i += 16)
        v16_store(y + i, v16_fma(b, v16_load(x + i), v16_mul(a, v16_load(y + i))));
    if (i < n) {
        const v16 old = v16_mul(a, v16_load_n(y + i, n - i));
        v16_store_n(y + i, v16_fma(b, v16_load_n(x + i, n - i), old), n - i);
    }
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

/* As kn_half_saturated, by the instruction set. */
static inline uint16_t half_of(float x)
{
    const float max = 65504.0f;
    return v16_half_bits(x > max ? max : x < -max ? -max : x);
}

static inline void kv_pack_q8_v16(void *dst, const float *x, int head_dim)
{
    const size_t used = (size_t)(head_dim / KN_GROUP) * sizeof(struct kn_kv_q8);
    const v16 top = v16_set1(127.0f), bottom = v16_set1(-127.0f);
    struct kn_kv_q8 *out = dst;

    for (int g = 0; g < head_dim / KN_GROUP; g++, out++, x += KN_GROUP) {
        const v16 a = v16_load(x), b = v16_load(x + 16);

        out->d = half_of(v16_top(v16_max(v16_abs(a), v16_abs(b))) / 127.0f);
        if (!(out->d & 0x7fff)) {
            memset(out->q, 0, KN_GROUP);
            continue;
        }
        const v16 d = v16_set1(v16_half_value(out->d));
        v16_store_i8(out->q, v16_max(bottom, v16_min(top, v16_round(v16_div(a, d)))));
        v16_store_i8(out->q + 16, v16_max(bottom, v16_min(top, v16_round(v16_div(b, d)))));
    }
    /* rows are padded to 4 bytes, and equal units must have equal bytes */
    memset((uint8_t *)dst + used, 0, kn_kv_bytes(KN_KV_Q8, head_dim) - used);
}

/* Two groups are packed at once, since one alone would mostly wait for its sums. The last one of a
 * unit may be alone: of two groups, n exist. */

/* The 4 x 16 numbers of two groups. */
V16_INLINE void load_two(v16 x[4], const float *p, int n)
{
    x[0] = v16_load(p);
    x[1] = v16_load(p + 16);
    x[2] = n > 1 ? v16_load(p + KN_GROUP) : v16_zero();
    x[3] = n > 1 ? v16_load(p + KN_GROUP + 16) : v16_zero();
}

/* The largest numbers of two groups; the least ones, negated. */
V16_INLINE void two_ends(float ends[4], const v16 x[4])
{
    const v16 zero = v16_zero();
    v16_top4(ends, v16_max(x[0], x[1]), v16_max(x[2], x[3]), v16_sub(zero, v16_min(x[0], x[1])),
             v16_sub(zero, v16_min(x[2], x[3])));
}

V16_INLINE void pack_two_q5(uint8_t *nibbles, uint8_t *fifths, uint8_t *halves, const float *from,
                            int n)
{
    static const float bit[16] = {0x1p0f,  0x1p1f,  0x1p2f,  0x1p3f, 0x1p4f,  0x1p5f,
                                  0x1p6f,  0x1p7f,  0x1p8f,  0x1p9f, 0x1p10f, 0x1p11f,
                                  0x1p12f, 0x1p13f, 0x1p14f, 0x1p15f};
    const v16 zero = v16_zero(), sixteen = v16_set1(16.0f);
    v16 x[4], high[4];
    float ends[4], sums[4];
    uint16_t half[2];

    load_two(x, from, n);
    two_ends(ends, x);
#pragma GCC unroll 2
    for (int i = 0; i < 2; i++)
        half[i] = half_of((ends[i] >= ends[2 + i] ? ends[i] : -ends[2 + i]) / -16.0f + 0.0f);
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        const float d = v16_half_value(half[i / 2]);
        const v16 code = v16_round(v16_div(x[i], v16_set1(d)));
        const v16 in = v16_min(v16_max(code, v16_set1(-16.0f)), v16_set1(15.0f));
        const v16 q = d != 0.0f ? v16_add(in, sixteen) : zero;
        high[i] = v16_zero_below(v16_load(bit), q, sixteen);
        x[i] = v16_sub(q, v16_zero_below(sixteen, q, sixteen));
    }
    v16_sum4(sums, high[0], high[1], high[2], high[3]);
#pragma GCC unroll 2
    for (int i = 0; i < n; i++) {
        const uint32_t fives = (uint32_t)sums[2 * i] | (uint32_t)sums[2 * i + 1] << 16;
        v16_store_nibbles(nibbles + 16 * i, x[2 * i], x[2 * i + 1]);
        memcpy(fifths + 4 * i, &fives, sizeof fives);
        memcpy(halves + 2 * i, &half[i], sizeof half[i]);
    }
}

static inline void kv_pack_q5_v16(void *dst, const float *x, int head_dim)
{
    const int n = head_dim / KN_GROUP;
    uint8_t *out = dst, *halves = out + kn_halves_at(true, n);

    if (n % 2) memset(halves + 2 * n, 0, 2);
    for (int g = 0; g < n; g += 2)
        pack_two_q5(out + 16 * g, out + 16 * n + 4 * g, halves + 2 * g, x + g * KN_GROUP,
                    n - g < 2 ? 1 : 2);
}

/* d and m of two groups, and the sums of their numbers. */
struct fitted {
    float d[2], m[2], sx[4];
};

/* Their codes. */
V16_INLINE void codes_q4(v16 q[4], const v16 x[4], const struct fitted *f)
{
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        const v16 d = v16_set1(f->d[i / 2]), m = v16_set1(f->m[i / 2]);
        const v16 code = v16_round(v16_div(v16_sub(x[i], m), d));
        q[i] = v16_max(v16_zero(), v16_min(v16_set1(15.0f), code));
        if (!(f->d[i / 2] > 0.0f)) q[i] = v16_zero();
    }
}

/* d and m by least squares for the codes q, unless that fails. */
V16_INLINE void fit(struct fitted *f, const v16 q[4], const v16 x[4])
{
    float s[4], sqq[4];

    v16_sum4(s, v16_add(q[0], q[1]), v16_add(q[2], q[3]),
             v16_add(v16_mul(q[0], x[0]), v16_mul(q[1], x[1])),
             v16_add(v16_mul(q[2], x[2]), v16_mul(q[3], x[3])));
    v16_sum4(sqq, v16_add(v16_mul(q[0], q[0]), v16_mul(q[1], q[1])),
             v16_add(v16_mul(q[2], q[2]), v16_mul(q[3], q[3])), v16_zero(), v16_zero());
#pragma GCC unroll 2
    for (int i = 0; i < 2; i++) {
        const float sq = s[i], sqx = s[2 + i], det = 32.0f * sqq[i] - sq * sq;
        const float d = (32.0f * sqx - sq * f->sx[i]) / det;
        if (!(det > 0.0f && d > 0.0f && d < 65504.0f)) continue;
        f->d[i] = d;
        f->m[i] = (f->sx[i] - d * sq) / 32.0f;
    }
}

V16_INLINE void pack_two_q4(uint8_t *nibbles, uint8_t *halves, const float *from, int n, int n_fits)
{
    const v16 zero = v16_zero();
    struct fitted f;
    float ends[4];
    v16 x[4], q[4];

    load_two(x, from, n);
    two_ends(ends, x);
    v16_sum4(f.sx, v16_add(x[0], x[1]), v16_add(x[2], x[3]), zero, zero);
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) ends[i] = ends[i] > 0.0f ? ends[i] : 0.0f;
#pragma GCC unroll 2
    for (int i = 0; i < 2; i++) {
        f.d[i] = (ends[i] + ends[2 + i]) / 15.0f;
        f.m[i] = -ends[2 + i];
    }
    for (int i = 0; i < n_fits; i++) {
        codes_q4(q, x, &f);
        fit(&f, q, x);
    }
#pragma GCC unroll 2
    for (int i = 0; i < n; i++) {
        const uint16_t half = kn_q4_half(half_of(f.d[i]), f.d[i], f.m[i]);
        memcpy(halves + 2 * i, &half, sizeof half);
        f.d[i] = v16_half_value(half);
        f.m[i] = kn_q4_min(half, f.d[i]);
    }
    codes_q4(q, x, &f);
    for (int i = 0; i < n; i++) v16_store_nibbles(nibbles + 16 * i, q[2 * i], q[2 * i + 1]);
}

V16_INLINE void pack_q4(void *dst, const float *x, int head_dim, int n_fits)
{
    const int n = head_dim / KN_GROUP;
    uint8_t *out = dst, *halves = out + kn_halves_at(false, n);

    if (n % 2) memset(halves + 2 * n, 0, 2);
    for (int g = 0; g < n; g += 2, x += 2 * KN_GROUP, out += KN_GROUP, halves += 4)
        pack_two_q4(out, halves, x, n - g < 2 ? 1 : 2, n_fits);
}

static inline void kv_pack_q4_v16(void *dst, const float *x, int head_dim)
{
    pack_q4(dst, x, head_dim, 0);
}

static inline void pack_values_v16(void *dst, const float *x, int head_dim)
{
    pack_q4(dst, x, head_dim, KN_FITS);
}

static inline void key_centre_v16(float *k, const struct kn_centre *c, bool first, int head_dim)
{
    const float *mean = first ? c->first : c->mean;
    const v16 top = v16_set1(KN_CENTRE_FAR), bottom = v16_set1(-KN_CENTRE_FAR);

    for (int i = 0; i < head_dim; i += 16) {
        const v16 x = v16_div(v16_sub(v16_load(k + i), v16_load(mean + i)), v16_load(c->scale + i));
        v16_store(k + i, v16_min(v16_max(x, bottom), top));
    }
}

/* Sums and differences of numbers that are 1, 2, 4 and 8 apart. */
V16_INLINE v16 add_pairs(v16 x)
{
    static const float sign[4][16] = {
        {1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1},
        {1, 1, -1, -1, 1, 1, -1, -1, 1, 1, -1, -1, 1, 1, -1, -1},
        {1, 1, 1, 1, -1, -1, -1, -1, 1, 1, 1, 1, -1, -1, -1, -1},
        {1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1, -1, -1, -1},
    };

    x = v16_fma(x, v16_load(sign[0]), v16_swap(x, 1));
    x = v16_fma(x, v16_load(sign[1]), v16_swap(x, 2));
    x = v16_fma(x, v16_load(sign[2]), v16_swap(x, 4));
    return v16_fma(x, v16_load(sign[3]), v16_swap(x, 8));
}

static inline void hadamard_v16(float *x, int n)
{
    const v16 scale = v16_set1(0.17677669529663687f); /* 1 / sqrt(32) */

    for (int i = 0; i < n; i += KN_GROUP) {
        const v16 a = add_pairs(v16_load(x + i)), b = add_pairs(v16_load(x + i + 16));
        v16_store(x + i, v16_mul(v16_add(a, b), scale));
        v16_store(x + i + 16, v16_mul(v16_sub(a, b), scale));
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

/* Group g of n of a unit of Q5 as a group of Q8. */
V16_INLINE void widen_q5(struct kn_kv_q8 *out, const uint8_t *unit, int g, int n)
{
    out->d = kn_half_at(unit + kn_halves_at(true, n) + 2 * g);
    v16_widen_q5(out->q, unit + 16 * g, kn_dword_at(unit + 16 * n + 4 * g));
}

static inline void kv_unpack_q5_v16(float *dst, const void *src, int head_dim)
{
    const int n = head_dim / KN_GROUP;
    struct kn_kv_q8 wide;

    for (int g = 0; g < n; g++) {
        widen_q5(&wide, src, g, n);
        v16_unpack_q8(&wide, dst + g * KN_GROUP);
    }
}

static inline void kv_unpack_q4_v16(float *dst, const void *src, int head_dim)
{
    const int n = head_dim / KN_GROUP;
    const uint8_t *in = src, *halves = in + kn_halves_at(false, n);

    for (int g = 0; g < n; g++) {
        const uint16_t half = kn_half_at(halves + 2 * g);
        const float d = v16_half_value(half);
        v16_unpack_q4(in + 16 * g, v16_set1(d), v16_set1(kn_q4_min(half, d)), dst + g * KN_GROUP);
    }
}

#endif
