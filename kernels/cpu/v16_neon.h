/* v16: sixteen floats, here in four 128-bit registers. v16.h defines each function. */
#ifndef RETAIN_KERNELS_CPU_V16_NEON_H
#define RETAIN_KERNELS_CPU_V16_NEON_H

#include "kernels/cpu/cpu.h"

#include <arm_neon.h>
#include <string.h>

typedef struct {
    float32x4_t r[4];
} v16;

typedef struct {
    uint32x4_t r[4];
} v16i;

/* 32 registers hold 8 v16s. */
enum {
    V16_DOT_CHAINS = 4, /* rows at once for a single token */
    V16_DOT_ROWS = 2,
    V16_DOT_TOK = 2, /* register tile of a float matrix product */
    V16_QK_ROWS = 2, /* rows of the register tile of Q K^T, two v16s wide */
    V16_PV_WIDE = 1, /* v16s of head_dim in the register tile of P V */
};

/* Applies an expression to four registers, one after the other. */
#define V16_EACH(expression)                                                     \
    v16 out;                                                                     \
    _Pragma("GCC unroll 4") for (int i = 0; i < 4; i++) out.r[i] = (expression); \
    return out

static inline v16 v16_set1(float x)
{
    V16_EACH(vdupq_n_f32(x));
}

static inline v16 v16_zero(void)
{
    return v16_set1(0.0f);
}

static inline v16 v16_load(const float *p)
{
    V16_EACH(vld1q_f32(p + 4 * i));
}

static inline void v16_store(float *p, v16 x)
{
    for (int i = 0; i < 4; i++) vst1q_f32(p + 4 * i, x.r[i]);
}

#define V16_OF_TWO(name, f)              \
    static inline v16 name(v16 x, v16 y) \
    {                                    \
        V16_EACH(f(x.r[i], y.r[i]));     \
    }
V16_OF_TWO(v16_add, vaddq_f32)
V16_OF_TWO(v16_sub, vsubq_f32)
V16_OF_TWO(v16_mul, vmulq_f32)
V16_OF_TWO(v16_div, vdivq_f32)

static inline v16 v16_abs(v16 x)
{
    V16_EACH(vabsq_f32(x.r[i]));
}

static inline v16 v16_fma(v16 x, v16 y, v16 z)
{
    V16_EACH(vfmaq_f32(z.r[i], x.r[i], y.r[i]));
}

static inline v16 v16_fnma(v16 x, v16 y, v16 z)
{
    V16_EACH(vfmsq_f32(z.r[i], x.r[i], y.r[i]));
}

/* fmax and fmin handle NaN differently: they would return the number, or neither. */
static inline float32x4_t v4_max(float32x4_t x, float32x4_t y)
{
    return vbslq_f32(vcgtq_f32(x, y), x, y);
}

static inline float32x4_t v4_min(float32x4_t x, float32x4_t y)
{
    return vbslq_f32(vcltq_f32(x, y), x, y);
}

V16_OF_TWO(v16_max, v4_max)
V16_OF_TWO(v16_min, v4_min)

/* Adds halves, quarters and so on, as on x86. */
static inline float v16_sum(v16 x)
{
    const float32x4_t a = vaddq_f32(x.r[0], x.r[2]), b = vaddq_f32(x.r[1], x.r[3]);
    const float32x4_t c = vaddq_f32(a, b);
    const float32x2_t d = vadd_f32(vget_low_f32(c), vget_high_f32(c));
    return vget_lane_f32(d, 0) + vget_lane_f32(d, 1);
}

#define ACROSS(name, op)                                                  \
    static inline float name(v16 x)                                       \
    {                                                                     \
        const float32x4_t a = op(x.r[0], x.r[2]), b = op(x.r[1], x.r[3]); \
        const float32x4_t c = op(a, b), d = op(c, vextq_f32(c, c, 2));    \
        return vgetq_lane_f32(op(d, vextq_f32(d, d, 1)), 0);              \
    }
ACROSS(v16_top, v4_max)
ACROSS(v16_bottom, v4_min)

#define FOUR(name, f)                                                 \
    static inline void name(float out[4], v16 a, v16 b, v16 c, v16 d) \
    {                                                                 \
        out[0] = f(a), out[1] = f(b), out[2] = f(c), out[3] = f(d);   \
    }
FOUR(v16_sum4, v16_sum)
FOUR(v16_top4, v16_top)

/* NEON has no masked loads: the end of a row is copied through the stack. */
static inline size_t v16_tail_bytes(int n)
{
    return n < 0 ? 0 : (n < 16 ? (size_t)n : 16) * sizeof(float);
}

static inline v16 v16_load_n(const float *p, int n)
{
    float full[16] = {0};

    memcpy(full, p, v16_tail_bytes(n));
    return v16_load(full);
}

static inline void v16_store_n(float *p, v16 x, int n)
{
    float full[16];

    v16_store(full, x);
    memcpy(p, full, v16_tail_bytes(n));
}

static inline v16 v16_keep_n(v16 x, int n, v16 rest)
{
    static const int32_t iota[4] = {0, 1, 2, 3};
    const int32x4_t lane = vld1q_s32(iota);
    V16_EACH(vbslq_f32(vcgtq_s32(vdupq_n_s32(n - 4 * i), lane), x.r[i], rest.r[i]));
}

static inline v16 v16_round(v16 x)
{
    V16_EACH(vrndnq_f32(x.r[i]));
}

static inline float32x4_t v4_pow2(float32x4_t n)
{
    const int32x4_t e = vaddq_s32(vcvtq_s32_f32(n), vdupq_n_s32(127));
    return vreinterpretq_f32_s32(vshlq_n_s32(e, 23));
}

static inline v16 v16_pow2(v16 n)
{
    V16_EACH(v4_pow2(n.r[i]));
}

static inline float32x4_t v4_clear(float32x4_t x, uint32x4_t where)
{
    return vreinterpretq_f32_u32(vbicq_u32(vreinterpretq_u32_f32(x), where));
}

static inline v16 v16_zero_below(v16 x, v16 key, v16 limit)
{
    V16_EACH(v4_clear(x.r[i], vcltq_f32(key.r[i], limit.r[i])));
}

static inline float32x4_t v4_from_halves(uint16x4_t h)
{
    return vcvt_f32_f16(vreinterpret_f16_u16(h));
}

static inline v16 v16_load_half(const uint16_t *p)
{
    V16_EACH(v4_from_halves(vld1_u16(p + 4 * i)));
}

static inline void v16_store_half(uint16_t *p, v16 x)
{
    for (int i = 0; i < 4; i++) vst1_u16(p + 4 * i, vreinterpret_u16_f16(vcvt_f16_f32(x.r[i])));
}

static inline uint16_t v16_half_bits(float x)
{
    return vget_lane_u16(vreinterpret_u16_f16(vcvt_f16_f32(vdupq_n_f32(x))), 0);
}

static inline float v16_half_value(uint16_t h)
{
    return vgetq_lane_f32(v4_from_halves(vdup_n_u16(h)), 0);
}

static inline v16 v16_swap(v16 x, int step)
{
    V16_EACH(step == 1   ? vrev64q_f32(x.r[i])
             : step == 2 ? vextq_f32(x.r[i], x.r[i], 2)
                         : x.r[i ^ (step / 4)]);
}

static inline v16 v16_load_bf16(const uint16_t *p)
{
    V16_EACH(vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(p + 4 * i), 16)));
}

/* Rounds to 16 integers in byte range. */
static inline int8x16_t v16_narrow(v16 x)
{
    int16x4_t w[4];

    for (int i = 0; i < 4; i++) w[i] = vmovn_s32(vcvtnq_s32_f32(x.r[i]));
    return vcombine_s8(vmovn_s16(vcombine_s16(w[0], w[1])), vmovn_s16(vcombine_s16(w[2], w[3])));
}

static inline void v16_store_i8(int8_t *p, v16 x)
{
    vst1q_s8(p, v16_narrow(x));
}

static inline void v16_store_groups(int8_t q[4 * KN_GROUP], int32_t sum[4], const v16 x[8])
{
    for (int g = 0; g < 4; g++, q += KN_GROUP) {
        const int8x16_t lo = v16_narrow(x[2 * g]), hi = v16_narrow(x[2 * g + 1]);
        vst1q_s8(q, lo);
        vst1q_s8(q + 16, hi);
        sum[g] = vaddlvq_s8(lo) + vaddlvq_s8(hi);
    }
}

static inline void v16_store_nibbles(uint8_t *p, v16 lo, v16 hi)
{
    const uint8x16_t low = vreinterpretq_u8_s8(v16_narrow(lo));
    const uint8x16_t high = vreinterpretq_u8_s8(v16_narrow(hi));
    vst1q_u8(p, vorrq_u8(low, vshlq_n_u8(high, 4)));
}

static inline v16 v16_from_bytes(uint8x16_t x)
{
    const uint16x8_t a = vmovl_u8(vget_low_u8(x)), b = vmovl_u8(vget_high_u8(x));
    const v16 out = {
        {vcvtq_f32_u32(vmovl_u16(vget_low_u16(a))), vcvtq_f32_u32(vmovl_u16(vget_high_u16(a))),
         vcvtq_f32_u32(vmovl_u16(vget_low_u16(b))), vcvtq_f32_u32(vmovl_u16(vget_high_u16(b)))}};
    return out;
}

static inline void v16_unpack_q4(const uint8_t q[16], v16 d, v16 m, float *out)
{
    const uint8x16_t both = vld1q_u8(q);

    v16_store(out, v16_fma(v16_from_bytes(vandq_u8(both, vdupq_n_u8(15))), d, m));
    v16_store(out + 16, v16_fma(v16_from_bytes(vshrq_n_u8(both, 4)), d, m));
}

static inline v16 v16_load_i8(const int8_t *p)
{
    const int8x16_t x = vld1q_s8(p);
    const int16x8_t a = vmovl_s8(vget_low_s8(x)), b = vmovl_s8(vget_high_s8(x));
    const v16 out = {
        {vcvtq_f32_s32(vmovl_s16(vget_low_s16(a))), vcvtq_f32_s32(vmovl_s16(vget_high_s16(a))),
         vcvtq_f32_s32(vmovl_s16(vget_low_s16(b))), vcvtq_f32_s32(vmovl_s16(vget_high_s16(b)))}};
    return out;
}

static inline void v16_unpack_q8(const struct kn_kv_q8 *u, float *out)
{
    const v16 d = v16_set1(kn_float_from_half(u->d));

    v16_store(out, v16_mul(v16_load_i8(u->q), d));
    v16_store(out + 16, v16_mul(v16_load_i8(u->q + 16), d));
}

/* Codes - 16: bits 4 to 7 are set where bit 4 is not. */
static inline void v16_widen_q5(int8_t out[32], const uint8_t q[16], uint32_t high)
{
    static const uint8_t bits[16] = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
    const uint8x16_t bit = vld1q_u8(bits), both = vld1q_u8(q);
    const uint8x16_t code[2] = {vandq_u8(both, vdupq_n_u8(15)), vshrq_n_u8(both, 4)};

    for (int i = 0; i < 2; i++, high >>= 16) {
        const uint8x16_t set =
            vcombine_u8(vdup_n_u8((uint8_t)high), vdup_n_u8((uint8_t)(high >> 8)));
        const uint8x16_t rest = vbicq_u8(vdupq_n_u8(0xf0), vtstq_u8(set, bit));
        vst1q_s8(out + 16 * i, vreinterpretq_s8_u8(vorrq_u8(code[i], rest)));
    }
}

static inline int32_t v16_sum_i8(const int8_t q[16])
{
    return vaddlvq_s8(vld1q_s8(q));
}

/* out[i].r[k]: dword i of rows 4 k to 4 k + 3 */
static inline void v16_load_columns(v16i out[4], const uint8_t *base, size_t stride)
{
    for (int k = 0; k < 4; k++, base += 4 * stride) {
        const uint32x4_t a = vreinterpretq_u32_u8(vld1q_u8(base));
        const uint32x4_t b = vreinterpretq_u32_u8(vld1q_u8(base + stride));
        const uint32x4_t c = vreinterpretq_u32_u8(vld1q_u8(base + 2 * stride));
        const uint32x4_t d = vreinterpretq_u32_u8(vld1q_u8(base + 3 * stride));
        const uint32x4x2_t ac = vzipq_u32(a, c), bd = vzipq_u32(b, d);
        const uint32x4x2_t first = vzipq_u32(ac.val[0], bd.val[0]);
        const uint32x4x2_t last = vzipq_u32(ac.val[1], bd.val[1]);

        out[0].r[k] = first.val[0];
        out[1].r[k] = first.val[1];
        out[2].r[k] = last.val[0];
        out[3].r[k] = last.val[1];
    }
}

static inline v16i v16i_load(const void *p)
{
    v16i x;
    for (int i = 0; i < 4; i++)
        x.r[i] = vreinterpretq_u32_u8(vld1q_u8((const uint8_t *)p + 16 * i));
    return x;
}

static inline void v16i_store(void *p, v16i x)
{
    for (int i = 0; i < 4; i++) vst1q_u8((uint8_t *)p + 16 * i, vreinterpretq_u8_u32(x.r[i]));
}

static inline uint32x4_t v4i_shift(uint32x4_t x, int n)
{
    return vshlq_u32(x, vdupq_n_s32(-n));
}

static inline v16i v16i_shift(v16i x, int n)
{
    v16i y;
    for (int i = 0; i < 4; i++) y.r[i] = v4i_shift(x.r[i], n);
    return y;
}

static inline v16 v16i_nibble(v16i x, unsigned shift)
{
    V16_EACH(vcvtq_f32_u32(vandq_u32(v4i_shift(x.r[i], (int)shift), vdupq_n_u32(15))));
}

static inline v16 v16i_seven(v16i x, unsigned shift)
{
    V16_EACH(vcvtq_f32_u32(vandq_u32(v4i_shift(x.r[i], (int)shift), vdupq_n_u32(127))));
}

static inline float32x4_t v4i_byte(uint32x4_t x, unsigned shift)
{
    const int32x4_t top = vreinterpretq_s32_u32(vshlq_u32(x, vdupq_n_s32(24 - (int)shift)));
    return vcvtq_f32_s32(vshrq_n_s32(top, 24));
}

static inline v16 v16i_byte(v16i x, unsigned shift)
{
    V16_EACH(v4i_byte(x.r[i], shift));
}

static inline v16 v16i_half(v16i x, unsigned shift)
{
    V16_EACH(v4_from_halves(vmovn_u32(v4i_shift(x.r[i], (int)shift))));
}

#undef V16_EACH

#endif
