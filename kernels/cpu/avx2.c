/* avx2: the kernels of AVX2, FMA and F16C. All of them are v16's (v16.h) except the products with
 * quantized weights, v8's (v8_panels.h).
 *
 * vpmaddubsw multiplies unsigned with signed bytes and adds pairs, saturating at 16 bits, so a pair
 * of weights up to 63 fits. Two 16-bit lanes of a row then add all pairs of a group, or of half a
 * group if the halves have separate scales. A lane starts at -offset times the sum of its
 * activations, so that it ends at the sum of (w - offset) x: at most 16 * 16 * 127 (Q5A), or
 * 8 * 32 * 127 for half a group (Q6). Larger weights are signed numbers of at most 128: their signs
 * are moved to x, and each pair is added to 32 bits. */
#include "kernels/cpu/v8_panels.h"
#include "kernels/cpu/v16_act.h"
#include "kernels/cpu/v16_attend_fixed.h"
#include "kernels/cpu/v16_matmul.h"
#include "kernels/cpu/v16_recur.h"
#include "kernels/cpu/v16_score.h"

V16_INLINE int is_signed(enum kn_type type)
{
    return type == KN_Q8 || type == KN_IQ4 || type == KN_IQ4S || type == KN_IQ3X || type == KN_IQ2;
}

/* The number that 16-bit sums subtract from each weight. Sums of Q5A add it again at the end. */
V16_INLINE int middle(enum kn_type type)
{
    return type == KN_Q5A ? 16 : is_signed(type) ? 0 : panel_offset(type);
}

V16_INLINE int has_start(enum kn_type type)
{
    return middle(type) != 0;
}

/* The starts of both lanes. Q5A has one sum; start[1] is added to it at the end. */
V16_INLINE void panel_starts(enum kn_type type, int32_t start[2], const int8_t *q, int32_t sum,
                             int32_t first)
{
    (void)first;
    if (!has_start(type)) return;
    const __m256i x = _mm256_loadu_si256((const __m256i *)q);
    const __m256i pairs = _mm256_maddubs_epi16(_mm256_set1_epi8((char)middle(type)), x);
    const __m256i four = _mm256_add_epi16(pairs, _mm256_shuffle_epi32(pairs, 0x4e));
    const __m256i all = _mm256_add_epi16(four, _mm256_shuffle_epi32(four, 0xb1));
    const __m256i minus = _mm256_sub_epi16(_mm256_setzero_si256(), all);
    const __m128i a = _mm256_castsi256_si128(minus), b = _mm256_extracti128_si256(minus, 1);

    start[0] = _mm_cvtsi128_si32(panel_halves(type) ? a : _mm_add_epi16(a, b));
    start[1] = type == KN_Q5A ? middle(type) * sum : _mm_cvtsi128_si32(b);
}

V16_INLINE __m256i dot_four(enum kn_type type, __m256i dot, __m256i w, __m256i x)
{
    if (!is_signed(type)) return _mm256_add_epi16(dot, _mm256_maddubs_epi16(w, x));

    const __m256i pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w));
    return _mm256_add_epi32(dot, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}

V16_INLINE __m256i dot_end(enum kn_type type, __m256i dot, int32_t back)
{
    if (is_signed(type)) return dot;
    const __m256i all = _mm256_madd_epi16(dot, _mm256_set1_epi16(1));
    return type == KN_Q5A ? _mm256_add_epi32(all, _mm256_set1_epi32(back)) : all;
}

const struct kernels kn_avx2 = V16_TABLE("avx2", attend_v16);
