/* cpu: the tables of the instruction sets, and helpers shared by their files. kernels.h defines the
 * contract of each entry; grep for a function's name to find the table that holds it. */
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

struct kn_kv_s4 {
    uint16_t d[2];
    uint8_t q[KN_GROUP / 2];
};

struct kn_kv_q5 {
    uint16_t d, high[2];
    uint8_t q[KN_GROUP / 2];
};

_Static_assert(sizeof(struct kn_kv_q8) == 34, "no padding");
_Static_assert(sizeof(struct kn_kv_q4) == 20, "no padding");
_Static_assert(sizeof(struct kn_kv_s4) == 20, "no padding");
_Static_assert(sizeof(struct kn_kv_q5) == 22, "no padding");

/* of silu_clamped_mul */
#define KN_SILU_LIMIT 7.0f
#define KN_SILU_SLOPE 1.702f

/* Scales that overflow a half saturate: an infinity in the cache would spoil a conversation. */
static inline uint16_t kn_half_saturated(float x)
{
    const float max = 65504.0f;
    return kn_half_from_float(x > max ? max : x < -max ? -max : x);
}

/* In the table of every instruction set: never a bottleneck. */
void kn_kv_pack_f32_ref(void *dst, const float *x, int head_dim);
void kn_kv_unpack_f32_ref(float *dst, const void *src, int head_dim);
void kn_kv_pack_q5_ref(void *dst, const float *x, int head_dim);

/* In the reference's table alone (ref_units.c). */
void kn_kv_pack_f16_ref(void *dst, const float *x, int head_dim);
void kn_kv_pack_q8_ref(void *dst, const float *x, int head_dim);
void kn_kv_pack_q4_ref(void *dst, const float *x, int head_dim);
void kn_kv_pack_s4_ref(void *dst, const float *x, int head_dim);
void kn_pack_values_ref(void *dst, const float *x, int head_dim);
void kn_key_centre_ref(float *k, const struct kn_centre *c, bool first, int head_dim);
void kn_hadamard_ref(float *x, int n);
void kn_kv_unpack_f16_ref(float *dst, const void *src, int head_dim);
void kn_kv_unpack_q8_ref(float *dst, const void *src, int head_dim);
void kn_kv_unpack_q4_ref(float *dst, const void *src, int head_dim);
void kn_kv_unpack_s4_ref(float *dst, const void *src, int head_dim);
void kn_kv_unpack_q5_ref(float *dst, const void *src, int head_dim);

/* For heads smaller than a register. */
void kn_attend_ref(const struct kn_attend *job);

/* One table per file, maybe of products alone (table.c). A file's name is its instruction set; the
 * Makefile derives the compiler flags from it. */
extern const struct kernels kn_ref;
extern const struct kernels kn_avx2, kn_avxvnni, kn_avx512; /* x86-64 */
extern const struct kernels kn_neon, kn_dotprod, kn_i8mm;   /* aarch64 */

#endif
