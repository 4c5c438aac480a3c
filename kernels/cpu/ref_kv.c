/* Reference packing of cache units. */
#include "kernels/cpu/cpu.h"

#include <math.h>
#include <string.h>

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
    /* rows end on 4 bytes, and equal units must be equal bytes */
    memset((uint8_t *)dst + used, 0, kn_kv_bytes(KN_KV_Q8, head_dim) - used);
}

void kn_kv_pack_q4_ref(void *dst, const float *x, int head_dim)
{
    struct kn_kv_q4 *out = dst;

    for (int g = 0; g < head_dim / KN_GROUP; g++, out++, x += KN_GROUP) {
        float min = x[0], max = x[0];

        for (int i = 1; i < KN_GROUP; i++) {
            min = x[i] < min ? x[i] : min;
            max = x[i] > max ? x[i] : max;
        }
        out->d = kn_half_saturated((max - min) / 15.0f + 0.0f); /* -0 is 0 */
        out->m = kn_half_saturated(min + 0.0f);

        const float d = kn_float_from_half(out->d), m = kn_float_from_half(out->m);
        unsigned q[KN_GROUP];
        for (int i = 0; i < KN_GROUP; i++) {
            const float v = d > 0.0f ? rintf((x[i] - m) / d) : 0.0f;
            q[i] = (unsigned)(v > 15.0f ? 15.0f : v > 0.0f ? v : 0.0f);
        }
        for (int i = 0; i < KN_GROUP / 2; i++) out->q[i] = (uint8_t)(q[i] | q[i + 16] << 4);
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
