/* The reference of packing and unpacking cache units, enum kn_kv in kernels.h. */
#include <math.h>
#include <string.h>

#include "kernels/cpu/cpu.h"

void kn_kv_pack_f16_ref(void *dst, const float *x, int head_dim)
{
    uint16_t *out = dst;
    for (int i = 0; i < head_dim; i++) out[i] = kn_half_saturated(x[i]);
}

void kn_kv_pack_f32_ref(void *dst, const float *x, int head_dim)
{
    memcpy(dst, x, (size_t)head_dim * sizeof *x);
}

void kn_kv_pack_q8_ref(void *dst, const float *x, int head_dim)
{
    struct kn_kv_q8 *out = dst;
    const size_t used = (size_t)(head_dim / KN_GROUP) * sizeof *out;

    for (int g = 0; g < head_dim / KN_GROUP; g++, out++, x += KN_GROUP) {
        float max = 0.0f;

        for (int i = 0; i < KN_GROUP; i++) max = fabsf(x[i]) > max ? fabsf(x[i]) : max;
        out->d = kn_half_saturated(max / 127.0f);

        const float d = kn_float_from_half(out->d);
        for (int i = 0; i < KN_GROUP; i++) {
            const float v = d > 0.0f ? rintf(x[i] / d) : 0.0f;
            out->q[i] = (int8_t)(v > 127.0f ? 127.0f : v > -127.0f ? v : -127.0f);
        }
    }
    /* rows are padded to 4 bytes, and equal units must have equal bytes */
    memset((uint8_t *)dst + used, 0, kn_kv_bytes(KN_KV_Q8, head_dim) - used);
}

/* Of n numbers, a power of two, which are overwritten. */
static float sum_halves(float *x, int n)
{
    for (int half = n / 2; half; half /= 2)
        for (int i = 0; i < half; i++) x[i] += x[i + half];
    return x[0];
}

static float code_of(float x, float low, float high)
{
    const float q = rintf(x);
    return q > high ? high : q > low ? q : low;
}

void kn_kv_pack_q5_ref(void *dst, const float *x, int head_dim)
{
    const int n = head_dim / KN_GROUP;
    uint8_t *out = dst;

    memset(dst, 0, kn_kv_bytes(KN_KV_Q5, head_dim));
    for (int g = 0; g < n; g++, x += KN_GROUP) {
        float min = x[0], max = x[0];
        uint32_t high = 0;

        for (int i = 1; i < KN_GROUP; i++) {
            min = x[i] < min ? x[i] : min;
            max = x[i] > max ? x[i] : max;
        }
        const uint16_t half = kn_half_saturated((max >= -min ? max : min) / -16.0f + 0.0f);
        const float d = kn_float_from_half(half);
        for (int i = 0; i < KN_GROUP && d != 0.0f; i++) {
            const unsigned q = (unsigned)(code_of(x[i] / d, -16.0f, 15.0f) + 16.0f);
            out[16 * g + i % 16] |= (uint8_t)((q & 15) << i / 16 * 4);
            high |= (uint32_t)(q >> 4) << i;
        }
        memcpy(out + 16 * n + 4 * g, &high, sizeof high);
        memcpy(out + kn_halves_at(true, n) + 2 * g, &half, sizeof half);
    }
}

/* d and m by least squares for the codes q of 32 numbers, unless that fails. */
static void fit(float *d, float *m, const float *x, const float *q)
{
    float s[4][KN_GROUP];

    for (int i = 0; i < KN_GROUP; i++) {
        s[0][i] = q[i];
        s[1][i] = q[i] * q[i];
        s[2][i] = x[i];
        s[3][i] = q[i] * x[i];
    }
    const float sq = sum_halves(s[0], KN_GROUP), sqq = sum_halves(s[1], KN_GROUP),
                sx = sum_halves(s[2], KN_GROUP), sqx = sum_halves(s[3], KN_GROUP);
    const float det = 32.0f * sqq - sq * sq; /* exact */
    const float fitted = (32.0f * sqx - sq * sx) / det;
    if (!(det > 0.0f && fitted > 0.0f && fitted < 65504.0f)) return;
    *d = fitted;
    *m = (sx - fitted * sq) / 32.0f;
}

static void codes_q4(float *q, const float *x, float d, float m)
{
    for (int i = 0; i < KN_GROUP; i++) q[i] = d > 0.0f ? code_of((x[i] - m) / d, 0.0f, 15.0f) : 0;
}

/* n_fits times d and m are fitted to the codes. */
static void pack_q4(void *dst, const float *x, int head_dim, int n_fits)
{
    const int n = head_dim / KN_GROUP;
    uint8_t *out = dst;

    memset(dst, 0, kn_kv_bytes(KN_KV_Q4, head_dim));
    for (int g = 0; g < n; g++, x += KN_GROUP, out += KN_GROUP / 2) {
        float min = 0.0f, max = 0.0f, q[KN_GROUP];

        for (int i = 0; i < KN_GROUP; i++) {
            min = x[i] < min ? x[i] : min;
            max = x[i] > max ? x[i] : max;
        }
        float d = (max - min) / 15.0f, m = min;
        for (int i = 0; i < n_fits; i++) {
            codes_q4(q, x, d, m);
            fit(&d, &m, x, q);
        }
        const uint16_t half = kn_q4_half(kn_half_saturated(d), d, m);
        d = kn_float_from_half(half);
        codes_q4(q, x, d, kn_q4_min(half, d));
        memcpy((uint8_t *)dst + kn_halves_at(false, n) + 2 * g, &half, sizeof half);
        for (int i = 0; i < KN_GROUP / 2; i++)
            out[i] = (uint8_t)((unsigned)q[i] | (unsigned)q[i + 16] << 4);
    }
}

void kn_kv_pack_q4_ref(void *dst, const float *x, int head_dim)
{
    pack_q4(dst, x, head_dim, 0);
}

void kn_pack_values_ref(void *dst, const float *x, int head_dim)
{
    pack_q4(dst, x, head_dim, KN_FITS);
}

void kn_key_centre_ref(float *k, const struct kn_centre *c, bool first, int head_dim)
{
    const float *mean = first ? c->first : c->mean;

    for (int i = 0; i < head_dim; i++) {
        const float x = (k[i] - mean[i]) / c->scale[i];
        k[i] = x > KN_CENTRE_FAR ? KN_CENTRE_FAR : x > -KN_CENTRE_FAR ? x : -KN_CENTRE_FAR;
    }
}

/* Sums and differences of numbers that are `step` apart. */
static void add_pairs(float *y, int step)
{
    for (int i = 0; i < KN_GROUP; i++) {
        const float a = y[i], b = y[i ^ step];
        if (i & step) continue;
        y[i] = a + b;
        y[i ^ step] = a - b;
    }
}

void kn_hadamard_ref(float *x, int n)
{
    for (int at = 0; at < n; at += KN_GROUP, x += KN_GROUP) {
        for (int step = 1; step < KN_GROUP; step *= 2) add_pairs(x, step);
        for (int i = 0; i < KN_GROUP; i++) x[i] *= 0.17677669529663687f; /* 1 / sqrt(32) */
    }
}

void kn_kv_unpack_f16_ref(float *dst, const void *src, int head_dim)
{
    const uint16_t *in = src;
    for (int i = 0; i < head_dim; i++) dst[i] = kn_float_from_half(in[i]);
}

void kn_kv_unpack_f32_ref(float *dst, const void *src, int head_dim)
{
    memcpy(dst, src, (size_t)head_dim * sizeof *dst);
}

void kn_kv_unpack_q8_ref(float *dst, const void *src, int head_dim)
{
    const struct kn_kv_q8 *in = src;

    for (int g = 0; g < head_dim / KN_GROUP; g++, in++, dst += KN_GROUP) {
        const float d = kn_float_from_half(in->d);
        for (int i = 0; i < KN_GROUP; i++) dst[i] = d * (float)in->q[i];
    }
}

void kn_kv_unpack_q4_ref(float *dst, const void *src, int head_dim)
{
    const uint8_t *in = src, *halves = in + kn_halves_at(false, head_dim / KN_GROUP);

    for (int i = 0; i < head_dim; i++) {
        const int g = i / KN_GROUP;
        const float d = kn_float_from_half(kn_half_at(halves + 2 * g));
        const int q = in[16 * g + i % 16] >> (i / 16 % 2 * 4) & 15;
        dst[i] = d * (float)q + kn_q4_min(kn_half_at(halves + 2 * g), d);
    }
}

void kn_kv_unpack_q5_ref(float *dst, const void *src, int head_dim)
{
    const int n = head_dim / KN_GROUP;
    const uint8_t *in = src, *halves = in + kn_halves_at(true, n);

    for (int i = 0; i < head_dim; i++) {
        const int g = i / KN_GROUP, nibble = in[16 * g + i % 16] >> (i / 16 % 2 * 4) & 15;
        const uint32_t high = kn_dword_at(in + 16 * n + 4 * g) >> i % KN_GROUP & 1;
        dst[i] = (float)((nibble | (int)high << 4) - 16) *
                 kn_float_from_half(kn_half_at(halves + 2 * g));
    }
}
