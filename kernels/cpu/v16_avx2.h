/* v16: sixteen floats, here in two 256-bit registers. v16.h defines each function. */
#ifndef RETAIN_KERNELS_CPU_V16_AVX2_H
#define RETAIN_KERNELS_CPU_V16_AVX2_H

#include "kernels/cpu/cpu.h"

#include <immintrin.h>
#include <string.h>

typedef struct {
    __m256 a, b;
} v16;

typedef struct {
    __m256i a, b;
} v16i;

enum {
    V16_DOT_CHAINS = 4, /* rows at once for a single token */
    V16_DOT_ROWS = 2,
    V16_DOT_TOK = 2, /* register tile of a float matrix product */
    V16_QK_ROWS = 2, /* rows of the register tile of Q K^T, two v16s wide */
    V16_PV_WIDE = 1, /* v16s of head_dim in the register tile of P V */
    /* the same in words */
    V16_FIXED_SLOTS = 1, /* v16s of slots, by up to 4 rows */
    V16_FIXED_WIDE = 1,  /* v16s of head_dim */
};

static inline v16 v16_pair(__m256 a, __m256 b)
{
    const v16 x = {a, b};
    return x;
}

static inline v16 v16_zero(void)
{
    return v16_pair(_mm256_setzero_ps(), _mm256_setzero_ps());
}
static inline v16 v16_set1(float x)
{
    return v16_pair(_mm256_set1_ps(x), _mm256_set1_ps(x));
}
static inline v16 v16_load(const float *p)
{
    return v16_pair(_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8));
}

static inline void v16_store(float *p, v16 x)
{
    _mm256_storeu_ps(p, x.a);
    _mm256_storeu_ps(p + 8, x.b);
}

/* Operations that are one intrinsic on each half. */
#define OF_ONE(result, name, type, f)         \
    static inline result name(type x)         \
    {                                         \
        return result##_pair(f(x.a), f(x.b)); \
    }
#define OF_TWO(type, name, f)                         \
    static inline type name(type x, type y)           \
    {                                                 \
        return type##_pair(f(x.a, y.a), f(x.b, y.b)); \
    }
OF_TWO(v16, v16_add, _mm256_add_ps)
OF_TWO(v16, v16_sub, _mm256_sub_ps)
OF_TWO(v16, v16_mul, _mm256_mul_ps)
OF_TWO(v16, v16_div, _mm256_div_ps)
OF_TWO(v16, v16_max, _mm256_max_ps)
OF_TWO(v16, v16_min, _mm256_min_ps)

static inline v16 v16_fma(v16 x, v16 y, v16 z)
{
    return v16_pair(_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b));
}

static inline v16 v16_fnma(v16 x, v16 y, v16 z)
{
    return v16_pair(_mm256_fnmadd_ps(x.a, y.a, z.a), _mm256_fnmadd_ps(x.b, y.b, z.b));
}

static inline v16 v16_abs(v16 x)
{
    const __m256 sign = _mm256_set1_ps(-0.0f);
    return v16_pair(_mm256_andnot_ps(sign, x.a), _mm256_andnot_ps(sign, x.b));
}

/* Adds halves, quarters and so on, as _mm512_reduce_add_ps does; the same of maxima and minima. */
#define ACROSS(name, op)                                                                  \
    static inline float name(v16 x)                                                       \
    {                                                                                     \
        const __m256 y = _mm256_##op##_ps(x.a, x.b);                                      \
        __m128 z = _mm_##op##_ps(_mm256_castps256_ps128(y), _mm256_extractf128_ps(y, 1)); \
        z = _mm_##op##_ps(z, _mm_movehl_ps(z, z));                                        \
        return _mm_cvtss_f32(_mm_##op##_ss(z, _mm_movehdup_ps(z)));                       \
    }
ACROSS(v16_sum, add)
ACROSS(v16_top, max)
ACROSS(v16_bottom, min)

static inline __m256i v8_mask(int n)
{
    const __m256i iota = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), iota);
}

/* Masks only at the end of a row: AMD processors store masked registers slowly. */
static inline __m256 v8_load_n(const float *p, int n)
{
    if (n >= 8) return _mm256_loadu_ps(p);
    return n > 0 ? _mm256_maskload_ps(p, v8_mask(n)) : _mm256_setzero_ps();
}

static inline void v8_store_n(float *p, __m256 x, int n)
{
    if (n >= 8)
        _mm256_storeu_ps(p, x);
    else if (n > 0)
        _mm256_maskstore_ps(p, v8_mask(n), x);
}

static inline v16 v16_load_n(const float *p, int n)
{
    return v16_pair(v8_load_n(p, n), v8_load_n(p + 8, n - 8));
}

static inline void v16_store_n(float *p, v16 x, int n)
{
    v8_store_n(p, x.a, n);
    v8_store_n(p + 8, x.b, n - 8);
}

static inline v16 v16_keep_n(v16 x, int n, v16 rest)
{
    return v16_pair(_mm256_blendv_ps(rest.a, x.a, _mm256_castsi256_ps(v8_mask(n))),
                    _mm256_blendv_ps(rest.b, x.b, _mm256_castsi256_ps(v8_mask(n - 8))));
}

static inline v16 v16_round(v16 x)
{
    return v16_pair(_mm256_round_ps(x.a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC),
                    _mm256_round_ps(x.b, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

static inline __m256 v8_pow2(__m256 n)
{
    const __m256i e = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
    return _mm256_castsi256_ps(_mm256_slli_epi32(e, 23));
}

static inline v16 v16_pow2(v16 n)
{
    return v16_pair(v8_pow2(n.a), v8_pow2(n.b));
}

static inline v16 v16_zero_below(v16 x, v16 key, v16 limit)
{
    return v16_pair(_mm256_andnot_ps(_mm256_cmp_ps(key.a, limit.a, _CMP_LT_OQ), x.a),
                    _mm256_andnot_ps(_mm256_cmp_ps(key.b, limit.b, _CMP_LT_OQ), x.b));
}

static inline v16 v16_load_half(const uint16_t *p)
{
    return v16_pair(_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p)),
                    _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(p + 8))));
}

static inline void v16_store_half(uint16_t *p, v16 x)
{
    _mm_storeu_si128((__m128i *)p, _mm256_cvtps_ph(x.a, _MM_FROUND_TO_NEAREST_INT));
    _mm_storeu_si128((__m128i *)(p + 8), _mm256_cvtps_ph(x.b, _MM_FROUND_TO_NEAREST_INT));
}

static inline uint16_t v16_half_bits(float x)
{
    return _cvtss_sh(x, _MM_FROUND_TO_NEAREST_INT);
}

static inline float v16_half_value(uint16_t h)
{
    return _cvtsh_ss(h);
}

static inline v16 v16_swap(v16 x, int step)
{
    switch (step) {
    case 1: return v16_pair(_mm256_permute_ps(x.a, 0xb1), _mm256_permute_ps(x.b, 0xb1));
    case 2: return v16_pair(_mm256_permute_ps(x.a, 0x4e), _mm256_permute_ps(x.b, 0x4e));
    case 4:
        return v16_pair(_mm256_permute2f128_ps(x.a, x.a, 1), _mm256_permute2f128_ps(x.b, x.b, 1));
    default: return v16_pair(x.b, x.a);
    }
}

static inline __m256 v8_load_bf16(const uint16_t *p)
{
    const __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p));
    return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
}

static inline v16 v16_load_bf16(const uint16_t *p)
{
    return v16_pair(v8_load_bf16(p), v8_load_bf16(p + 8));
}

/* 16 dwords in byte range, narrowed in order. */
static inline __m128i v16_narrow(__m256i a, __m256i b)
{
    const __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(a, b), 0xd8);
    return _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
}

static inline void v16_store_i8(int8_t *p, v16 x)
{
    const __m128i q = v16_narrow(_mm256_cvtps_epi32(x.a), _mm256_cvtps_epi32(x.b));
    _mm_storeu_si128((__m128i *)p, q);
}

static inline void v16_store_groups(int8_t q[4 * KN_GROUP], int32_t sum[4], const v16 x[8])
{
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    const __m256i bytes = _mm256_set1_epi8(1), words = _mm256_set1_epi16(1);
    __m256i sums[4];

#pragma GCC unroll 4
    for (int g = 0; g < 4; g++) {
        const v16 lo = x[2 * g], hi = x[2 * g + 1];
        const __m256i a = _mm256_packs_epi32(_mm256_cvtps_epi32(lo.a), _mm256_cvtps_epi32(lo.b));
        const __m256i b = _mm256_packs_epi32(_mm256_cvtps_epi32(hi.a), _mm256_cvtps_epi32(hi.b));
        const __m256i all = _mm256_permutevar8x32_epi32(_mm256_packs_epi16(a, b), order);
        _mm256_storeu_si256((__m256i *)(q + g * KN_GROUP), all);
        sums[g] = _mm256_madd_epi16(_mm256_maddubs_epi16(bytes, all), words);
    }
    const __m256i ab = _mm256_hadd_epi32(sums[0], sums[1]);
    const __m256i cd = _mm256_hadd_epi32(sums[2], sums[3]);
    const __m256i abcd = _mm256_hadd_epi32(ab, cd);
    _mm_storeu_si128((__m128i *)sum, _mm_add_epi32(_mm256_castsi256_si128(abcd),
                                                   _mm256_extracti128_si256(abcd, 1)));
}

static inline void v16_store_nibbles(uint8_t *p, v16 lo, v16 hi)
{
    const __m128i low = v16_narrow(_mm256_cvtps_epi32(lo.a), _mm256_cvtps_epi32(lo.b));
    const __m128i high = v16_narrow(_mm256_cvtps_epi32(hi.a), _mm256_cvtps_epi32(hi.b));
    _mm_storeu_si128((__m128i *)p, _mm_or_si128(low, _mm_slli_epi16(high, 4)));
}

static inline void v16_unpack_q4(const uint8_t q[16], v16 d, v16 m, float *out)
{
    const __m128i both = _mm_loadu_si128((const __m128i *)q);
    const __m256i x = _mm256_cvtepu8_epi32(both);
    const __m256i y = _mm256_cvtepu8_epi32(_mm_unpackhi_epi64(both, both));
    const __m256i mask = _mm256_set1_epi32(15);
    const __m256 x_low = _mm256_cvtepi32_ps(_mm256_and_si256(x, mask));
    const __m256 y_low = _mm256_cvtepi32_ps(_mm256_and_si256(y, mask));

    _mm256_storeu_ps(out, _mm256_fmadd_ps(x_low, d.a, m.a));
    _mm256_storeu_ps(out + 8, _mm256_fmadd_ps(y_low, d.a, m.a));
    _mm256_storeu_ps(out + 16,
                     _mm256_fmadd_ps(_mm256_cvtepi32_ps(_mm256_srli_epi32(x, 4)), d.a, m.a));
    _mm256_storeu_ps(out + 24,
                     _mm256_fmadd_ps(_mm256_cvtepi32_ps(_mm256_srli_epi32(y, 4)), d.a, m.a));
}

static inline __m256 v8_load_i8(const int8_t *p)
{
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)p)));
}

static inline void v16_unpack_q8(const struct kn_kv_q8 *u, float *out)
{
    const __m256 d = _mm256_broadcastss_ps(_mm_cvtph_ps(_mm_cvtsi32_si128(u->d)));

    for (int i = 0; i < KN_GROUP; i += 8)
        _mm256_storeu_ps(out + i, _mm256_mul_ps(v8_load_i8(u->q + i), d));
}

/* Codes - 16: bits 4 to 7 are set where bit 4 is not. */
static inline void v16_widen_q5(int8_t out[32], const uint8_t q[16], uint32_t high)
{
    const __m128i both = _mm_loadu_si128((const __m128i *)q);
    const __m256i pair = _mm256_set_m128i(_mm_srli_epi16(both, 4), both);
    const __m256i low = _mm256_and_si256(pair, _mm256_set1_epi8(15));
    const __m256i index =
        _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
    const __m256i bit = _mm256_set1_epi64x((int64_t)0x8040201008040201);
    const __m256i bytes = _mm256_shuffle_epi8(_mm256_set1_epi32((int32_t)high), index);
    const __m256i set = _mm256_cmpeq_epi8(_mm256_and_si256(bytes, bit), bit);

    _mm256_storeu_si256((__m256i *)out,
                        _mm256_or_si256(low, _mm256_andnot_si256(set, _mm256_set1_epi8(-16))));
}

/* vpsadbw sums unsigned bytes: with the top bit flipped they are 128 more than the signed ones. */
static inline int32_t v16_sum_i8(const int8_t q[16])
{
    const __m128i x = _mm_loadu_si128((const __m128i *)q);
    const __m128i sums = _mm_sad_epu8(_mm_xor_si128(x, _mm_set1_epi8(-128)), _mm_setzero_si128());
    return _mm_cvtsi128_si32(sums) + _mm_extract_epi16(sums, 4) - 16 * 128;
}

/* Rows i and 4 + i of 16 bytes: one 128-bit lane each. */
static inline __m256i v8_load_lanes(const uint8_t *base, size_t stride)
{
    const __m256i x = _mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)base));
    return _mm256_inserti128_si256(x, _mm_loadu_si128((const __m128i *)(base + 4 * stride)), 1);
}

static inline void v8_load_columns(__m256i out[4], const uint8_t *base, size_t stride)
{
    const __m256i a = v8_load_lanes(base, stride), b = v8_load_lanes(base + stride, stride);
    const __m256i c = v8_load_lanes(base + 2 * stride, stride);
    const __m256i d = v8_load_lanes(base + 3 * stride, stride);
    const __m256i ab0 = _mm256_unpacklo_epi32(a, b), ab1 = _mm256_unpackhi_epi32(a, b);
    const __m256i cd0 = _mm256_unpacklo_epi32(c, d), cd1 = _mm256_unpackhi_epi32(c, d);

    out[0] = _mm256_unpacklo_epi64(ab0, cd0);
    out[1] = _mm256_unpackhi_epi64(ab0, cd0);
    out[2] = _mm256_unpacklo_epi64(ab1, cd1);
    out[3] = _mm256_unpackhi_epi64(ab1, cd1);
}

/* Otherwise the columns would be written to memory twice. */
__attribute__((always_inline)) static inline void v16_load_columns(v16i out[4], const uint8_t *base,
                                                                   size_t stride)
{
    __m256i a[4], b[4];

    v8_load_columns(a, base, stride);
    v8_load_columns(b, base + 8 * stride, stride);
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        out[i].a = a[i];
        out[i].b = b[i];
    }
}

static inline v16i v16i_load(const void *p)
{
    const v16i x = {_mm256_loadu_si256((const __m256i *)p),
                    _mm256_loadu_si256((const __m256i *)p + 1)};
    return x;
}

static inline v16i v16i_load_once(const void *p)
{
    return v16i_load(p);
}

static inline void v16i_store(void *p, v16i x)
{
    _mm256_storeu_si256((__m256i *)p, x.a);
    _mm256_storeu_si256((__m256i *)p + 1, x.b);
}

static inline v16i v16i_shift(v16i x, int n)
{
    const v16i y = {_mm256_srli_epi32(x.a, n), _mm256_srli_epi32(x.b, n)};
    return y;
}

static inline v16 v16i_bits(v16i x, unsigned shift, int bits)
{
    const __m256i mask = _mm256_set1_epi32(bits);
    const __m256i a = _mm256_and_si256(_mm256_srli_epi32(x.a, (int)shift), mask);
    const __m256i b = _mm256_and_si256(_mm256_srli_epi32(x.b, (int)shift), mask);
    return v16_pair(_mm256_cvtepi32_ps(a), _mm256_cvtepi32_ps(b));
}

static inline v16 v16i_nibble(v16i x, unsigned shift)
{
    return v16i_bits(x, shift, 15);
}

static inline v16 v16i_seven(v16i x, unsigned shift)
{
    return v16i_bits(x, shift, 127);
}

static inline v16 v16i_byte(v16i x, unsigned shift)
{
    const __m256i a = _mm256_slli_epi32(x.a, 24 - (int)shift);
    const __m256i b = _mm256_slli_epi32(x.b, 24 - (int)shift);
    return v16_pair(_mm256_cvtepi32_ps(_mm256_srai_epi32(a, 24)),
                    _mm256_cvtepi32_ps(_mm256_srai_epi32(b, 24)));
}

static inline v16 v16i_half(v16i x, unsigned shift)
{
    const __m256i mask = _mm256_set1_epi32(0xffff);
    const __m256i a = _mm256_and_si256(_mm256_srli_epi32(x.a, (int)shift), mask);
    const __m256i b = _mm256_and_si256(_mm256_srli_epi32(x.b, (int)shift), mask);
    const __m256i words = _mm256_permute4x64_epi64(_mm256_packus_epi32(a, b), 0xd8);
    return v16_pair(_mm256_cvtph_ps(_mm256_castsi256_si128(words)),
                    _mm256_cvtph_ps(_mm256_extracti128_si256(words, 1)));
}

/* ---- 32 words ------------------------------------------------------------------------------- */

static inline v16i v16i_pair(__m256i a, __m256i b)
{
    const v16i x = {a, b};
    return x;
}

static inline v16i v16i_set1(uint32_t x)
{
    return v16i_pair(_mm256_set1_epi32((int)x), _mm256_set1_epi32((int)x));
}

OF_ONE(v16i, v16i_round, v16, _mm256_cvtps_epi32)
OF_ONE(v16, v16_from_ints, v16i, _mm256_cvtepi32_ps)

static inline v16 v16_scale2(v16 x, v16 n)
{
    return v16_mul(x, v16_pow2(n));
}

static inline __m256 v8_exponent(__m256 x)
{
    const __m256i e = _mm256_srli_epi32(_mm256_castps_si256(x), 23);
    return _mm256_cvtepi32_ps(_mm256_sub_epi32(e, _mm256_set1_epi32(127)));
}

OF_ONE(v16, v16_exponent, v16, v8_exponent)

static inline v16i v16i_words(v16i low, v16i high)
{
    return v16i_pair(_mm256_blend_epi16(low.a, _mm256_slli_epi32(high.a, 16), 0xaa),
                     _mm256_blend_epi16(low.b, _mm256_slli_epi32(high.b, 16), 0xaa));
}

OF_TWO(v16i, v16i_add_words, _mm256_add_epi16)
OF_TWO(v16i, v16i_sub_words, _mm256_sub_epi16)
OF_TWO(v16i, v16i_mul_words, _mm256_mulhrs_epi16)
OF_TWO(v16i, v16i_xor, _mm256_xor_si256)

/* The additions as assembly: gcc 12 would copy every sum of a loop back and forth. */
static inline v16i v16i_dot_words(v16i sum, v16i x, v16i y)
{
    __asm__("vpaddd %1, %0, %0" : "+x"(sum.a) : "x"(_mm256_madd_epi16(x.a, y.a)));
    __asm__("vpaddd %1, %0, %0" : "+x"(sum.b) : "x"(_mm256_madd_epi16(x.b, y.b)));
    return sum;
}

static inline __m256i v8_top_nibbles(__m256i x, unsigned left)
{
    const __m256i moved = left ? _mm256_slli_epi16(x, (int)left) : x;
    return left == 12 ? moved : _mm256_and_si256(moved, _mm256_set1_epi16((short)0xf000));
}

static inline v16i v16i_top_nibbles(v16i x, unsigned left)
{
    return v16i_pair(v8_top_nibbles(x.a, left), v8_top_nibbles(x.b, left));
}

static inline __m256i v8_top_fives(__m256i x, int left, __m256i high, unsigned bit)
{
    const __m256i moved = left ? _mm256_slli_epi16(x, left - 1) : _mm256_srli_epi16(x, 1);
    const __m256i top = _mm256_slli_epi16(high, 15 - (int)bit), four = _mm256_set1_epi16(0x7800);
    return _mm256_or_si256(_mm256_and_si256(four, moved), _mm256_andnot_si256(four, top));
}

static inline v16i v16i_top_fives(v16i x, int left, v16i high, unsigned bit)
{
    return v16i_pair(v8_top_fives(x.a, left, high.a, bit), v8_top_fives(x.b, left, high.b, bit));
}

/* bits: the words' bit of each lane. */
static inline __m256i v8_fifth_bits(__m256i x, __m256i both, __m256i bits)
{
    const __m256i set = _mm256_cmpeq_epi16(_mm256_and_si256(both, bits), bits);
    return _mm256_or_si256(x, _mm256_and_si256(set, _mm256_set1_epi16(16)));
}

static inline v16i v16i_fifth_bits(v16i x, uint16_t low, uint16_t high)
{
    const __m256i both = _mm256_set1_epi32((int)(low | (uint32_t)high << 16));
    const __m256i bits = _mm256_setr_epi32(0x10001, 0x20002, 0x40004, 0x80008, 0x100010, 0x200020,
                                           0x400040, 0x800080);
    return v16i_pair(v8_fifth_bits(x.a, both, bits),
                     v8_fifth_bits(x.b, both, _mm256_slli_epi16(bits, 8)));
}

static inline v16i v16i_low_nibbles(v16i x, unsigned right)
{
    const __m256i mask = _mm256_set1_epi16(15);
    return v16i_pair(_mm256_and_si256(_mm256_srli_epi16(x.a, (int)right), mask),
                     _mm256_and_si256(_mm256_srli_epi16(x.b, (int)right), mask));
}

static inline void v16_store_words(void *p, v16 x)
{
    const __m256i a = _mm256_shuffle_epi32(_mm256_cvtps_epi32(x.a), 0xd8);
    const __m256i b = _mm256_shuffle_epi32(_mm256_cvtps_epi32(x.b), 0xd8);
    _mm256_storeu_si256((__m256i *)p, _mm256_permute4x64_epi64(_mm256_packs_epi32(a, b), 0xd8));
}

static inline v16i v16i_load_quads(const uint8_t *a, const uint8_t *b, const uint8_t *c,
                                   const uint8_t *d)
{
    const __m128i s = _mm_loadu_si128((const __m128i *)a), t = _mm_loadu_si128((const __m128i *)b);
    const __m128i u = _mm_loadu_si128((const __m128i *)c), v = _mm_loadu_si128((const __m128i *)d);
    const __m128i st0 = _mm_unpacklo_epi8(s, t), st1 = _mm_unpackhi_epi8(s, t);
    const __m128i uv0 = _mm_unpacklo_epi8(u, v), uv1 = _mm_unpackhi_epi8(u, v);
    return v16i_pair(_mm256_set_m128i(_mm_unpackhi_epi16(st0, uv0), _mm_unpacklo_epi16(st0, uv0)),
                     _mm256_set_m128i(_mm_unpackhi_epi16(st1, uv1), _mm_unpacklo_epi16(st1, uv1)));
}

static inline int v8_dword(const uint8_t *p)
{
    int x;
    memcpy(&x, p, sizeof x);
    return x;
}

static inline __m256i v8_load_strided(const uint8_t *p, size_t n)
{
    return _mm256_setr_epi32(v8_dword(p), v8_dword(p + n), v8_dword(p + 2 * n), v8_dword(p + 3 * n),
                             v8_dword(p + 4 * n), v8_dword(p + 5 * n), v8_dword(p + 6 * n),
                             v8_dword(p + 7 * n));
}

/* Some processors gather a dword at a time in microcode. */
static inline v16i v16i_load_strided(const uint8_t *base, size_t stride)
{
    return v16i_pair(v8_load_strided(base, stride), v8_load_strided(base + 8 * stride, stride));
}

/* v16_sum and v16_top of four at once. */
#define ACROSS_FOUR(name, op)                                                                      \
    static inline void name(float out[4], v16 a, v16 b, v16 c, v16 d)                              \
    {                                                                                              \
        const __m256 w = _mm256_##op##_ps(a.a, a.b), x = _mm256_##op##_ps(b.a, b.b);               \
        const __m256 y = _mm256_##op##_ps(c.a, c.b), z = _mm256_##op##_ps(d.a, d.b);               \
        const __m256 wx = _mm256_##op##_ps(_mm256_permute2f128_ps(w, x, 0x20),                     \
                                           _mm256_permute2f128_ps(w, x, 0x31));                    \
        const __m256 yz = _mm256_##op##_ps(_mm256_permute2f128_ps(y, z, 0x20),                     \
                                           _mm256_permute2f128_ps(y, z, 0x31));                    \
        const __m256 two =                                                                         \
            _mm256_##op##_ps(_mm256_shuffle_ps(wx, yz, 0x44), _mm256_shuffle_ps(wx, yz, 0xee));    \
        const __m256 one = _mm256_##op##_ps(two, _mm256_movehdup_ps(two));                         \
        const __m128 wy = _mm256_castps256_ps128(one), xz = _mm256_extractf128_ps(one, 1);         \
        _mm_storeu_ps(out, _mm_unpacklo_ps(_mm_shuffle_ps(wy, wy, 8), _mm_shuffle_ps(xz, xz, 8))); \
    }
ACROSS_FOUR(v16_sum4, add)
ACROSS_FOUR(v16_top4, max)

#endif
