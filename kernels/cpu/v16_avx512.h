/* v16: sixteen floats, here in one 512-bit register. v16.h defines each function. */
#ifndef RETAIN_KERNELS_CPU_V16_AVX512_H
#define RETAIN_KERNELS_CPU_V16_AVX512_H

#include "kernels/cpu/cpu.h"

#include <immintrin.h>

typedef __m512 v16;
typedef __m512i v16i;

enum {
    V16_DOT_CHAINS = 8, /* rows at once for a single token */
    V16_DOT_ROWS = 4,
    V16_DOT_TOK = 4, /* register tile of a float matrix product */
    V16_QK_ROWS = 8, /* rows of the register tile of Q K^T, two v16s wide */
    V16_PV_WIDE = 4, /* v16s of head_dim in the register tile of P V, 4 rows high */
    /* the same in words */
    V16_FIXED_SLOTS = 4, /* v16s of slots, by up to 4 rows */
    V16_FIXED_WIDE = 4,  /* v16s of head_dim */
};

static inline v16 v16_zero(void)
{
    return _mm512_setzero_ps();
}
static inline void v16_store(float *p, v16 x)
{
    _mm512_storeu_ps(p, x);
}

/* Operations that are one intrinsic. */
#define OF_ONE(result, name, type, f) \
    static inline result name(type x) \
    {                                 \
        return f(x);                  \
    }
#define OF_TWO(type, name, f)               \
    static inline type name(type x, type y) \
    {                                       \
        return f(x, y);                     \
    }
OF_ONE(v16, v16_set1, float, _mm512_set1_ps)
OF_ONE(v16, v16_load, const float *, _mm512_loadu_ps)
OF_ONE(v16, v16_abs, v16, _mm512_abs_ps)
OF_ONE(float, v16_sum, v16, _mm512_reduce_add_ps)
OF_ONE(float, v16_half_value, uint16_t, _cvtsh_ss)
OF_ONE(float, v16_top, v16, _mm512_reduce_max_ps)
OF_ONE(float, v16_bottom, v16, _mm512_reduce_min_ps)
OF_ONE(v16, v16_exponent, v16, _mm512_getexp_ps)
OF_ONE(v16i, v16i_load, const void *, _mm512_loadu_si512)
OF_ONE(v16i, v16i_round, v16, _mm512_cvtps_epi32)
OF_ONE(v16, v16_from_ints, v16i, _mm512_cvtepi32_ps)
OF_TWO(v16, v16_add, _mm512_add_ps)
OF_TWO(v16, v16_sub, _mm512_sub_ps)
OF_TWO(v16, v16_mul, _mm512_mul_ps)
OF_TWO(v16, v16_div, _mm512_div_ps)
OF_TWO(v16, v16_max, _mm512_max_ps)
OF_TWO(v16, v16_min, _mm512_min_ps)
OF_TWO(v16, v16_scale2, _mm512_scalef_ps)
OF_TWO(v16i, v16i_add_words, _mm512_add_epi16)
OF_TWO(v16i, v16i_sub_words, _mm512_sub_epi16)
OF_TWO(v16i, v16i_mul_words, _mm512_mulhrs_epi16)
OF_TWO(v16i, v16i_xor, _mm512_xor_si512)

static inline v16 v16_fma(v16 a, v16 b, v16 c)
{
    return _mm512_fmadd_ps(a, b, c);
}
static inline v16 v16_fnma(v16 a, v16 b, v16 c)
{
    return _mm512_fnmadd_ps(a, b, c);
}
static inline __mmask16 v16_mask(int n)
{
    const unsigned lanes = n < 0 ? 0 : n < 16 ? (unsigned)n : 16;
    return (__mmask16)((1u << lanes) - 1);
}

static inline v16 v16_load_n(const float *p, int n)
{
    return _mm512_maskz_loadu_ps(v16_mask(n), p);
}
static inline void v16_store_n(float *p, v16 x, int n)
{
    _mm512_mask_storeu_ps(p, v16_mask(n), x);
}

static inline v16 v16_keep_n(v16 x, int n, v16 rest)
{
    return _mm512_mask_blend_ps(v16_mask(n), rest, x);
}

static inline v16 v16_round(v16 x)
{
    return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

static inline v16 v16_pow2(v16 n)
{
    const __m512i e = _mm512_add_epi32(_mm512_cvtps_epi32(n), _mm512_set1_epi32(127));
    return _mm512_castsi512_ps(_mm512_slli_epi32(e, 23));
}

static inline v16 v16_zero_below(v16 x, v16 key, v16 limit)
{
    return _mm512_mask_mov_ps(x, _mm512_cmp_ps_mask(key, limit, _CMP_LT_OQ), _mm512_setzero_ps());
}

static inline v16 v16_load_half(const uint16_t *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
}

static inline void v16_store_half(uint16_t *p, v16 x)
{
    _mm256_storeu_si256((__m256i *)p, _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
}

static inline uint16_t v16_half_bits(float x)
{
    return _cvtss_sh(x, _MM_FROUND_TO_NEAREST_INT);
}

static inline v16 v16_swap(v16 x, int step)
{
    switch (step) {
    case 1: return _mm512_permute_ps(x, 0xb1);
    case 2: return _mm512_permute_ps(x, 0x4e);
    case 4: return _mm512_shuffle_f32x4(x, x, 0xb1);
    default: return _mm512_shuffle_f32x4(x, x, 0x4e);
    }
}

static inline v16 v16_load_bf16(const uint16_t *p)
{
    const __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p));
    return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}

static inline void v16_store_i8(int8_t *p, v16 x)
{
    _mm_storeu_si128((__m128i *)p, _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(x)));
}

/* 64 dwords in byte range, narrowed in order. */
static inline __m512i v16_narrow4(__m512i a, __m512i b, __m512i c, __m512i d)
{
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    const __m512i ab = _mm512_packs_epi32(a, b), cd = _mm512_packs_epi32(c, d);
    return _mm512_permutexvar_epi32(order, _mm512_packs_epi16(ab, cd));
}

static inline void v16_store_groups(int8_t q[4 * KN_GROUP], int32_t sum[4], const v16 x[8])
{
    const __m512i one = _mm512_set1_epi8(1), zero = _mm512_setzero_si512();
    __m512i i[8];

#pragma GCC unroll 8
    for (int k = 0; k < 8; k++) i[k] = _mm512_cvtps_epi32(x[k]);
    const __m512i a = v16_narrow4(i[0], i[1], i[2], i[3]), b = v16_narrow4(i[4], i[5], i[6], i[7]);
    const __m512i as = _mm512_dpbusd_epi32(zero, one, a), bs = _mm512_dpbusd_epi32(zero, one, b);
    const __m512i pairs =
        _mm512_add_epi32(_mm512_unpacklo_epi64(as, bs), _mm512_unpackhi_epi64(as, bs));
    const __m512i lanes = _mm512_add_epi32(pairs, _mm512_shuffle_epi32(pairs, 0xb1));
    const __m512i all = _mm512_add_epi32(lanes, _mm512_shuffle_i64x2(lanes, lanes, 0xb1));

    _mm512_storeu_si512(q, a);
    _mm512_storeu_si512(q + 64, b);
    _mm_storeu_si128((__m128i *)sum, _mm_blend_epi32(_mm512_castsi512_si128(all),
                                                     _mm512_extracti32x4_epi32(all, 2), 0xa));
}

static inline void v16_store_nibbles(uint8_t *p, v16 lo, v16 hi)
{
    const __m512i high = _mm512_slli_epi32(_mm512_cvtps_epi32(hi), 4);
    const __m512i both = _mm512_or_si512(_mm512_cvtps_epi32(lo), high);
    _mm_storeu_si128((__m128i *)p, _mm512_cvtepi32_epi8(both));
}

static inline __m512 v16_iota(void)
{
    return _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
}

/* The 16 possible values of a nibble fit in one register; a permutation looks them up and reads
 * only the low 4 bits of an index, so that no mask is needed. */
static inline void v16_unpack_q4(const uint8_t q[16], v16 d, v16 m, float *out)
{
    const __m512 value = _mm512_fmadd_ps(v16_iota(), d, m);
    const __m512i index = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)q));

    _mm512_storeu_ps(out, _mm512_permutexvar_ps(index, value));
    _mm512_storeu_ps(out + 16, _mm512_permutexvar_ps(_mm512_srli_epi32(index, 4), value));
}

static inline __m512 v16_load_i8(const int8_t *p)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)p)));
}

static inline void v16_unpack_q8(const struct kn_kv_q8 *u, float *out)
{
    const __m512 d = _mm512_broadcastss_ps(_mm_cvtph_ps(_mm_cvtsi32_si128(u->d)));

    _mm512_storeu_ps(out, _mm512_mul_ps(v16_load_i8(u->q), d));
    _mm512_storeu_ps(out + 16, _mm512_mul_ps(v16_load_i8(u->q + 16), d));
}

/* Codes - 16: bits 4 to 7 are set where bit 4 is not. */
static inline void v16_widen_q5(int8_t out[32], const uint8_t q[16], uint32_t high)
{
    const __m128i both = _mm_loadu_si128((const __m128i *)q);
    const __m256i pair = _mm256_set_m128i(_mm_srli_epi16(both, 4), both);
    const __m256i low = _mm256_and_si256(pair, _mm256_set1_epi8(15));

    _mm256_storeu_si256((__m256i *)out,
                        _mm256_mask_sub_epi8(low, ~high, low, _mm256_set1_epi8(16)));
}

/* vpsadbw sums unsigned bytes: with the top bit flipped they are 128 more than the signed ones. */
static inline int32_t v16_sum_i8(const int8_t q[16])
{
    const __m128i x = _mm_loadu_si128((const __m128i *)q);
    const __m128i sums = _mm_sad_epu8(_mm_xor_si128(x, _mm_set1_epi8(-128)), _mm_setzero_si128());
    return _mm_cvtsi128_si32(sums) + _mm_extract_epi16(sums, 4) - 16 * 128;
}

/* Rows i, 4 + i, 8 + i, 12 + i of 16 bytes: one 128-bit lane each. */
static inline __m512i v16_load_lanes(const uint8_t *base, size_t stride)
{
    __m512i x = _mm512_castsi128_si512(_mm_loadu_si128((const __m128i *)base));

    x = _mm512_inserti32x4(x, _mm_loadu_si128((const __m128i *)(base + 4 * stride)), 1);
    x = _mm512_inserti32x4(x, _mm_loadu_si128((const __m128i *)(base + 8 * stride)), 2);
    return _mm512_inserti32x4(x, _mm_loadu_si128((const __m128i *)(base + 12 * stride)), 3);
}

static inline void v16_load_columns(v16i out[4], const uint8_t *base, size_t stride)
{
    const __m512i a = v16_load_lanes(base, stride), b = v16_load_lanes(base + stride, stride);
    const __m512i c = v16_load_lanes(base + 2 * stride, stride);
    const __m512i d = v16_load_lanes(base + 3 * stride, stride);
    const __m512i ab0 = _mm512_unpacklo_epi32(a, b), ab1 = _mm512_unpackhi_epi32(a, b);
    const __m512i cd0 = _mm512_unpacklo_epi32(c, d), cd1 = _mm512_unpackhi_epi32(c, d);

    out[0] = _mm512_unpacklo_epi64(ab0, cd0);
    out[1] = _mm512_unpackhi_epi64(ab0, cd0);
    out[2] = _mm512_unpacklo_epi64(ab1, cd1);
    out[3] = _mm512_unpackhi_epi64(ab1, cd1);
}

/* gcc 12 would load x again for each product: 18 loads for 12 products. */
static inline v16i v16i_load_once(const void *p)
{
    v16i x = v16i_load(p);
    __asm__("" : "+v"(x));
    return x;
}
static inline void v16i_store(void *p, v16i x)
{
    _mm512_storeu_si512(p, x);
}

static inline v16i v16i_shift(v16i x, int n)
{
    return _mm512_srlv_epi32(x, _mm512_set1_epi32(n));
}

static inline v16 v16i_nibble(v16i x, unsigned shift)
{
    const __m512i index = _mm512_srlv_epi32(x, _mm512_set1_epi32((int)shift));
    return _mm512_permutexvar_ps(index, v16_iota());
}

static inline v16 v16i_seven(v16i x, unsigned shift)
{
    const __m512i low = _mm512_srlv_epi32(x, _mm512_set1_epi32((int)shift));
    return _mm512_cvtepi32_ps(_mm512_and_si512(low, _mm512_set1_epi32(127)));
}

static inline v16 v16i_byte(v16i x, unsigned shift)
{
    const __m512i high = _mm512_sllv_epi32(x, _mm512_set1_epi32(24 - (int)shift));
    return _mm512_cvtepi32_ps(_mm512_srai_epi32(high, 24));
}

static inline v16 v16i_half(v16i x, unsigned shift)
{
    const __m512i low = _mm512_srlv_epi32(x, _mm512_set1_epi32((int)shift));
    return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(low));
}

/* ---- 32 words ------------------------------------------------------------------------------- */

static inline v16i v16i_set1(uint32_t x)
{
    return _mm512_set1_epi32((int)x);
}

static inline v16i v16i_words(v16i low, v16i high)
{
    return _mm512_mask_blend_epi16(0xaaaaaaaa, low, _mm512_slli_epi32(high, 16));
}

/* Around the intrinsic gcc 12 would copy every sum of a loop back and forth: twice the time. */
static inline v16i v16i_dot_words(v16i sum, v16i a, v16i b)
{
    __asm__("vpdpwssd %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));
    return sum;
}

static inline v16i v16i_top_nibbles(v16i x, unsigned left)
{
    const __m512i moved = left ? _mm512_slli_epi16(x, left) : x;
    return left == 12 ? moved : _mm512_and_si512(moved, _mm512_set1_epi16((short)0xf000));
}

static inline v16i v16i_top_fives(v16i x, int left, v16i high, unsigned bit)
{
    const __m512i moved = left ? _mm512_slli_epi16(x, (unsigned)left - 1) : _mm512_srli_epi16(x, 1);
    const __m512i top = _mm512_slli_epi16(high, 15 - bit), four = _mm512_set1_epi16(0x7800);
    return _mm512_ternarylogic_epi32(four, moved, top, 0xca); /* four ? moved : top */
}

static inline v16i v16i_fifth_bits(v16i x, uint16_t low, uint16_t high)
{
    const __m512i y = _mm512_mask_or_epi32(x, low, x, _mm512_set1_epi32(16));
    return _mm512_mask_or_epi32(y, high, y, _mm512_set1_epi32(16 << 16));
}

static inline v16i v16i_low_nibbles(v16i x, unsigned right)
{
    const __m512i moved = right ? _mm512_srli_epi16(x, right) : x;
    return right == 12 ? moved : _mm512_and_si512(moved, _mm512_set1_epi16(15));
}

static inline void v16_store_words(void *p, v16 x)
{
    const __m512i order = _mm512_shuffle_epi32(_mm512_cvtps_epi32(x), _MM_PERM_DBCA);
    _mm256_storeu_si256((__m256i *)p, _mm512_cvtepi32_epi16(order));
}

static inline v16i v16i_load_quads(const uint8_t *a, const uint8_t *b, const uint8_t *c,
                                   const uint8_t *d)
{
    const __m512i dwords = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    const __m512i bytes =
        _mm512_broadcast_i32x4(_mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
    __m512i x = _mm512_castsi128_si512(_mm_loadu_si128((const __m128i *)a));

    x = _mm512_inserti32x4(x, _mm_loadu_si128((const __m128i *)b), 1);
    x = _mm512_inserti32x4(x, _mm_loadu_si128((const __m128i *)c), 2);
    x = _mm512_inserti32x4(x, _mm_loadu_si128((const __m128i *)d), 3);
    return _mm512_shuffle_epi8(_mm512_permutexvar_epi32(dwords, x), bytes);
}

static inline v16i v16i_load_strided(const uint8_t *base, size_t stride)
{
    const __m512i row = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const __m512i at = _mm512_mullo_epi32(row, _mm512_set1_epi32((int)stride));
    return _mm512_i32gather_epi32(at, base, 1);
}

/* v16_sum and v16_top of four at once. */
#define ACROSS_FOUR(name, op)                                                                     \
    static inline void name(float out[4], v16 a, v16 b, v16 c, v16 d)                             \
    {                                                                                             \
        const __m512 ab =                                                                         \
            _mm512_##op##_ps(_mm512_shuffle_f32x4(a, b, 0x44), _mm512_shuffle_f32x4(a, b, 0xee)); \
        const __m512 cd =                                                                         \
            _mm512_##op##_ps(_mm512_shuffle_f32x4(c, d, 0x44), _mm512_shuffle_f32x4(c, d, 0xee)); \
        const __m512 four = _mm512_##op##_ps(_mm512_shuffle_f32x4(ab, cd, 0x88),                  \
                                             _mm512_shuffle_f32x4(ab, cd, 0xdd));                 \
        const __m512 two = _mm512_##op##_ps(four, _mm512_permute_ps(four, 0x4e));                 \
        const __m512 one = _mm512_##op##_ps(two, _mm512_permute_ps(two, 0xb1));                   \
        _mm_storeu_ps(out, _mm512_castps512_ps128(_mm512_maskz_compress_ps(0x1111, one)));        \
    }
ACROSS_FOUR(v16_sum4, add)
ACROSS_FOUR(v16_top4, max)

#endif
