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

/* Squared error of 16 numbers with step d. */
static float error_s4(const float *x, float d)
{
    float square[16];

    for (int i = 0; i < 16; i++) {
        const float r = d * code_of(x[i] / d, -8.0f, 7.0f) - x[i];
        square[i] = r * r;
    }
    return sum_halves(square, 16);
}

static uint16_t step_s4(const float *x)
{
    float min = x[0], max = x[0];

    for (int i = 1; i < 16; i++) {
        min = x[i] < min ? x[i] : min;
        max = x[i] > max ? x[i] : max;
    }
    const float far = max >= -min ? max : min;
    const uint16_t a = kn_half_saturated(far / -8.0f + 0.0f), b = kn_half_saturated(far / 7.0f);
    if (!(a & 0x7fff)) return a;
    return error_s4(x, kn_float_from_half(b)) < error_s4(x, kn_float_from_half(a)) ? b : a;
}

void kn_kv_pack_s4_ref(void *dst, const float *x, int head_dim)
{
    struct kn_kv_s4 *out = dst;

    memset(dst, 0, kn_kv_bytes(KN_KV_S4, head_dim));
    for (int at = 0; at < head_dim; at += 16, x += 16) {
        const int g = at / KN_GROUP, high = at % KN_GROUP / 16;
        const float d = kn_float_from_half(out[g].d[high] = step_s4(x));

        for (int i = 0; i < 16 && d != 0.0f; i++)
            out[g].q[i] |= (uint8_t)((int)(code_of(x[i] / d, -8.0f, 7.0f) + 8.0f) << 4 * high);
    }
}

void kn_kv_pack_q5_ref(void *dst, const float *x, int head_dim)
{
    struct kn_kv_q5 *out = dst;

    memset(dst, 0, kn_kv_bytes(KN_KV_Q5, head_dim));
    for (int at = 0; at < head_dim; at += KN_GROUP, x += KN_GROUP, out++) {
        float min = x[0], max = x[0];

        for (int i = 1; i < KN_GROUP; i++) {
            min = x[i] < min ? x[i] : min;
            max = x[i] > max ? x[i] : max;
        }
        out->d = kn_half_saturated((max >= -min ? max : min) / -16.0f + 0.0f);
        const float d = kn_float_from_half(out->d);
        for (int i = 0; i < KN_GROUP && d != 0.0f; i++) {
            const unsigned q = (unsigned)(code_of(x[i] / d, -16.0f, 15.0f) + 16.0f);
            out->q[i % 16] |= (uint8_t)((q & 15) << i / 16 * 4);
            out->high[i / 16] |= (uint16_t)(q >> 4 << i % 16);
        }
    }
}

/* d and m by least squares for the codes q of 32 numbers; false: they stay. */
static bool fit(float *d, float *m, const float *x, const float *q)
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
    if (!(det > 0.0f)) return false;
    const float fitted = kn_float_from_half(kn_half_saturated((32.0f * sqx - sq * sx) / det));
    if (!(fitted > 0.0f && fitted < 65504.0f)) return false;
    *d = fitted;
    *m = kn_float_from_half(kn_half_saturated((sx - fitted * sq) / 32.0f + 0.0f));
    return true;
}

static void codes_q4(float *q, const float *x, float d, float m)
{
    for (int i = 0; i < KN_GROUP; i++) q[i] = d > 0.0f ? code_of((x[i] - m) / d, 0.0f, 15.0f) : 0;
}

/* n_fits times d and m are fitted to the codes, and the codes chosen again. */
static void pack_q4(void *dst, const float *x, int head_dim, int n_fits)
{
    struct kn_kv_q4 *out = dst;

    for (int at = 0; at < head_dim; at += KN_GROUP, x += KN_GROUP, out++) {
        float min = x[0], max = x[0], q[KN_GROUP];

        for (int i = 1; i < KN_GROUP; i++) {
            min = x[i] < min ? x[i] : min;
            max = x[i] > max ? x[i] : max;
        }
        /* -0 is 0 */
        float d = kn_float_from_half(kn_half_saturated((max - min) / 15.0f + 0.0f));
        float m = kn_float_from_half(kn_half_saturated(min + 0.0f));
        codes_q4(q, x, d, m);
        for (int i = 0; i < n_fits && fit(&d, &m, x, q); i++) codes_q4(q, x, d, m);
        out->d = kn_half_from_float(d);
        out->m = kn_half_from_float(m);
        for (int i = 0; i < KN_GROUP / 2; i++)
            out->q[i] = (uint8_t)((unsigned)q[i] | (unsigned)q[i + 16] << 4);
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
    const struct kn_kv_q4 *in = src;

    for (int g = 0; g < head_dim / KN_GROUP; g++, in++, dst += KN_GROUP) {
        const float d = kn_float_from_half(in->d), m = kn_float_from_half(in->m);
        for (int i = 0; i < KN_GROUP / 2; i++) {
            dst[i] = d * (float)(in->q[i] & 15) + m;
            dst[i + 16] = d * (float)(in->q[i] >> 4) + m;
        }
    }
}

void kn_kv_unpack_s4_ref(float *dst, const void *src, int head_dim)
{
    const struct kn_kv_s4 *in = src;

    for (int g = 0; g < head_dim / KN_GROUP; g++, in++, dst += KN_GROUP)
        for (int i = 0; i < KN_GROUP / 2; i++) {
            dst[i] = kn_float_from_half(in->d[0]) * (float)((in->q[i] & 15) - 8);
            dst[i + 16] = kn_float_from_half(in->d[1]) * (float)((in->q[i] >> 4) - 8);
        }
}

static int code_q5(const struct kn_kv_q5 *u, int i)
{
    const int nibble = u->q[i % 16] >> (i / 16 * 4) & 15;
    return (nibble | (u->high[i / 16] >> i % 16 & 1) << 4) - 16;
}

void kn_kv_unpack_q5_ref(float *dst, const void *src, int head_dim)
{
    const struct kn_kv_q5 *in = src;

    for (int i = 0; i < head_dim; i++)
        dst[i] = (float)code_q5(&in[i / KN_GROUP], i % KN_GROUP) *
                 kn_float_from_half(in[i / KN_GROUP].d);
}
