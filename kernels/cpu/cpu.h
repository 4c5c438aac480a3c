/* cpu: the tables of the instruction sets, and helpers shared by their files. kernels.h defines the
 * contract of each entry; grep for a function's name to find the table that holds it. */
#ifndef RETAIN_KERNELS_CPU_CPU_H
#define RETAIN_KERNELS_CPU_CPU_H

#include <math.h>
#include <string.h>

#include "kernels/kernels.h"

/* A group of 32 numbers in a cache unit, see enum kn_kv. */
struct kn_kv_q8 {
    uint16_t d;
    int8_t q[KN_GROUP];
};

_Static_assert(sizeof(struct kn_kv_q8) == 34, "no padding");

/* Where units of Q4 and Q5 have the halves of their n groups; bits 4 are at 16 n. */
static inline size_t kn_halves_at(bool five, int n)
{
    return (size_t)n * (five ? 20 : 16);
}

static inline uint16_t kn_half_at(const void *p)
{
    uint16_t half;
    memcpy(&half, p, sizeof half);
    return half;
}

static inline uint32_t kn_dword_at(const void *p)
{
    uint32_t dword;
    memcpy(&dword, p, sizeof dword);
    return dword;
}

/* -z / 8 d of a half d of Q4: x = d q + this. */
static inline float kn_q4_min(uint16_t half, float d)
{
    return (float)(half & 127) * -0.125f * d;
}

/* of silu_clamped_mul */
#define KN_SILU_LIMIT 7.0f
#define KN_SILU_SLOPE 1.702f

/* Scales that overflow a half saturate: an infinity in the cache would spoil a conversation. */
static inline uint16_t kn_half_saturated(float x)
{
    const float max = 65504.0f;
    return kn_half_from_float(x > max ? max : x < -max ? -max : x);
}

/* The half of Q4 that is nearest to d, which as a half is `half`, and whose z is nearest to m. */
static inline uint16_t kn_q4_half(uint16_t half, float d, float m)
{
    const float z = d > 0.0f ? rintf(m / d * -8.0f) : 0.0f;
    const int last = (int)(z > 0.0f ? z < 127.0f ? z : 127.0f : 0.0f);
    const int first = (half + 64 - last) / 128;
    return (uint16_t)((first < 0xf7 ? first : 0xf7) * 128 + last);
}

/* In the table of every instruction set: never a bottleneck. */
void kn_kv_pack_f32_ref(void *dst, const float *x, int head_dim);
void kn_kv_unpack_f32_ref(float *dst, const void *src, int head_dim);

/* In the reference's table alone (ref_units.c). */
void kn_kv_pack_f16_ref(void *dst, const float *x, int head_dim);
void kn_kv_pack_q8_ref(void *dst, const float *x, int head_dim);
void kn_kv_pack_q4_ref(void *dst, const float *x, int head_dim);
void kn_kv_pack_q5_ref(void *dst, const float *x, int head_dim);
void kn_pack_values_ref(void *dst, const float *x, int head_dim);
void kn_key_centre_ref(float *k, const struct kn_centre *c, bool first, int head_dim);
void kn_hadamard_ref(float *x, int n);
void kn_kv_unpack_f16_ref(float *dst, const void *src, int head_dim);
void kn_kv_unpack_q8_ref(float *dst, const void *src, int head_dim);
void kn_kv_unpack_q4_ref(float *dst, const void *src, int head_dim);
void kn_kv_unpack_q5_ref(float *dst, const void *src, int head_dim);

/* For heads smaller than a register. */
void kn_attend_ref(const struct kn_attend *job);

/* One table per file, maybe of products alone (table.c). A file's name is its instruction set; the
 * Makefile derives the compiler flags from it. */
extern const struct kernels kn_ref;
extern const struct kernels kn_avx2, kn_avxvnni, kn_avx512; /* x86-64 */
extern const struct kernels kn_neon, kn_dotprod, kn_i8mm;   /* aarch64 */

#endif
