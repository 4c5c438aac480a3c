/* avx2: the kernels of AVX2, FMA and F16C. All of them are v16's (v16.h) except the products with
 * quantized weights: half a panel, 8 rows, per register.
 *
 * vpmaddubsw multiplies unsigned with signed bytes and adds pairs, saturating at 16 bits.
 * Q4: a pair is at most 2 * 15 * 127, so that all 8 pairs of a group fit 16 bits together.
 * Q5A, Q6: 16 bits hold 4 pairs of 2 * 31 * 127, 2 of 2 * 63 * 127.
 * Q8: a pair of unsigned 255 * 127 would saturate; |w| <= 128 and the sign moved to x does not. The
 * types after Q6 are read as signed numbers in the same way.
 * Integer sums are exact, and the float sum of a row adds its groups in order, so tiles of any
 * height give the same bits. */
#include "kernels/cpu/v16_avx2.h"
#include "kernels/cpu/v16_act.h"
#include "kernels/cpu/v16_attend.h"
#include "kernels/cpu/v16_attend_fixed.h"
#include "kernels/cpu/v16_stats.h"
#include "kernels/cpu/v16_matmul.h"

enum {
    PANEL_TOK = 4,
    PANEL_CHUNK = 32,
    PANEL_ROWS = 1,
    PANEL_WIDE = 4,
    PANEL_STREAMS = 4,
};

#include "kernels/cpu/v16_panels.h"
#include "kernels/cpu/v16_score.h"
#include "kernels/cpu/v16_recur.h"
#include "kernels/cpu/v16_table.h"

V16_INLINE __m256i four_columns(const int8_t *q)
{
    int32_t four;
    memcpy(&four, q, sizeof four);
    return _mm256_set1_epi32(four);
}

/* dot[t] = sum over a group of w x for T tokens */
V16_INLINE void dot_nibbles(__m256i *dot, int T, const uint8_t (*qs)[KN_PANEL][4], int half,
                            const int8_t *q)
{
    const __m256i nibble = _mm256_set1_epi8(15), ones = _mm256_set1_epi16(1);
    __m256i pairs[PANEL_TOK];

#pragma GCC unroll 4
    for (int t = 0; t < T; t++) pairs[t] = _mm256_setzero_si256();
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++) {
        const __m256i both = _mm256_loadu_si256((const __m256i *)qs[j][8 * half]);
        const __m256i lo = _mm256_and_si256(both, nibble);
        const __m256i hi = _mm256_and_si256(_mm256_srli_epi16(both, 4), nibble);
#pragma GCC unroll 4
        for (int t = 0; t < T; t++) {
            const int8_t *x = q + t * KN_GROUP + 4 * j;
            const __m256i a = _mm256_maddubs_epi16(lo, four_columns(x));
            const __m256i b = _mm256_maddubs_epi16(hi, four_columns(x + 16));
            pairs[t] = _mm256_add_epi16(pairs[t], _mm256_add_epi16(a, b));
        }
    }
#pragma GCC unroll 4
    for (int t = 0; t < T; t++) dot[t] = _mm256_madd_epi16(pairs[t], ones);
}

/* Columns 4j to 4j + 3 of 8 rows of a Q5A or Q6 panel. */
V16_INLINE __m256i load_wide(enum kn_type type, const uint8_t *panel, int half, int j)
{
    const struct kn_q5a_panel *q5 = (const struct kn_q5a_panel *)panel;
    const struct kn_q6_panel *q6 = (const struct kn_q6_panel *)panel;
    const uint8_t(*qs)[KN_PANEL][4] = type == KN_Q5A ? q5->qs : q6->qs;
    const uint8_t(*qh)[4] = type == KN_Q5A ? q5->qh : q6->qh[j / 4];
    const int left = type == KN_Q5A ? 4 - j : 4 - 2 * (j % 4), mask = type == KN_Q5A ? 0x10 : 0x30;
    const __m256i both = _mm256_loadu_si256((const __m256i *)qs[j % 4][8 * half]);
    const __m256i bits = _mm256_loadu_si256((const __m256i *)qh[8 * half]);
    const __m256i low = j < 4 ? both : _mm256_srli_epi16(both, 4);
    const __m256i high = left >= 0 ? _mm256_slli_epi16(bits, left) : _mm256_srli_epi16(bits, -left);

    return _mm256_or_si256(_mm256_and_si256(low, _mm256_set1_epi8(15)),
                           _mm256_and_si256(high, _mm256_set1_epi8((char)mask)));
}

/* dot[t] = sum over columns 16h to 16h + 15 of w x. 16 bits hold 4 pairs of Q5A, 2 of Q6. */
V16_INLINE void dot_wide(enum kn_type type, __m256i *dot, int T, const uint8_t *panel, int half,
                         int h, const int8_t *q)
{
    const __m256i ones = _mm256_set1_epi16(1);
    const int fit = type == KN_Q5A ? 4 : 2;
    __m256i pairs[PANEL_TOK];

#pragma GCC unroll 4
    for (int t = 0; t < T; t++) dot[t] = _mm256_setzero_si256();
#pragma GCC unroll 4
    for (int j = 4 * h; j < 4 * h + 4; j++) {
        const __m256i w = load_wide(type, panel, half, j);
#pragma GCC unroll 4
        for (int t = 0; t < T; t++) {
            const __m256i p = _mm256_maddubs_epi16(w, four_columns(q + t * KN_GROUP + 4 * j));
            pairs[t] = j % fit == 0 ? p : _mm256_add_epi16(pairs[t], p);
            if (j % fit == fit - 1)
                dot[t] = _mm256_add_epi32(dot[t], _mm256_madd_epi16(pairs[t], ones));
        }
    }
}

V16_INLINE void dot_q8(__m256i *dot, int T, const struct kn_q8_panel *panel, int half,
                       const int8_t *q)
{
    const __m256i flip = _mm256_set1_epi8(-128), ones = _mm256_set1_epi16(1);

#pragma GCC unroll 4
    for (int t = 0; t < T; t++) dot[t] = _mm256_setzero_si256();
#pragma GCC unroll 8
    for (int j = 0; j < 8; j++) {
        const __m256i raw = _mm256_loadu_si256((const __m256i *)panel->qs[j][8 * half]);
        const __m256i w = _mm256_xor_si256(raw, flip), abs = _mm256_abs_epi8(w);
#pragma GCC unroll 4
        for (int t = 0; t < T; t++) {
            const __m256i x = four_columns(q + t * KN_GROUP + 4 * j);
            const __m256i pairs = _mm256_maddubs_epi16(abs, _mm256_sign_epi8(x, w));
            dot[t] = _mm256_add_epi32(dot[t], _mm256_madd_epi16(pairs, ones));
        }
    }
}

/* Columns 4j to 4j + 3 of 8 rows of a type after Q6, group s of the panel. */
V16_INLINE __m256i load_nibbles(const uint8_t (*qs)[KN_PANEL][4], int half, int j)
{
    const __m256i both = _mm256_loadu_si256((const __m256i *)qs[j % 4][8 * half]);
    return _mm256_and_si256(j < 4 ? both : _mm256_srli_epi16(both, 4), _mm256_set1_epi8(15));
}

V16_INLINE __m256i values_of(const int8_t *values, __m256i codes)
{
    const __m256i table = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)values));
    return _mm256_shuffle_epi8(table, codes);
}

V16_INLINE __m256i load_codes(const int8_t *values, const uint8_t (*qs)[KN_PANEL][4], int half,
                              int j)
{
    return values_of(values, load_nibbles(qs, half, j));
}

V16_INLINE __m256i load_low_bits(const uint8_t (*ql)[KN_PANEL][4], int half, int j)
{
    const __m256i low = _mm256_loadu_si256((const __m256i *)ql[j / 4][8 * half]);
    return _mm256_and_si256(_mm256_srli_epi16(low, 2 * (j % 4)), _mm256_set1_epi8(3));
}

V16_INLINE __m256i load_three_bits(const struct kn_q3s_panel *panel, int s, int half, int j)
{
    const __m256i third = _mm256_loadu_si256((const __m256i *)panel->qh[s][8 * half]);
    const __m256i moved = j < 2 ? _mm256_slli_epi16(third, 2 - j) : _mm256_srli_epi16(third, j - 2);
    const __m256i high = _mm256_and_si256(moved, _mm256_set1_epi8(4));
    return _mm256_or_si256(load_low_bits(panel->ql[s], half, j), high);
}

V16_INLINE __m256i load_coded(enum kn_type type, const uint8_t *p, int s, int half, int j)
{
    switch (type) {
    case KN_IQ4: return load_codes(kn_values_iq4, ((const struct kn_q4_panel *)p)->qs, half, j);
    case KN_MX4: return load_codes(kn_values_e2m1, ((const struct kn_mx4_panel *)p)->qs, half, j);
    case KN_NV4: return load_codes(kn_values_e2m1, ((const struct kn_nv4_panel *)p)->qs, half, j);
    case KN_IQ4S:
    case KN_IQ3X:
    case KN_IQ3S:
        return load_codes(kn_code_values(type), ((const struct kn_iq4s_panel *)p)->qs[s], half, j);
    case KN_Q4S: return load_nibbles(((const struct kn_q4s_panel *)p)->qs[s], half, j);
    case KN_Q3S: {
        const __m256i q = load_three_bits((const struct kn_q3s_panel *)p, s, half, j);
        return _mm256_sub_epi8(q, _mm256_set1_epi8(4));
    }
    case KN_IQ2:
    case KN_IQ1:
        return values_of(kn_code_values(type),
                         load_three_bits((const struct kn_q3s_panel *)p, s, half, j));
    default: return load_low_bits(((const struct kn_q2s_panel *)p)->ql[s], half, j);
    }
}

/* dot[t] = sum over columns 4 j0 to 4 j1 - 1 of w x. 16 bits hold one pair of numbers of IQ4, IQ3X
 * and IQ2, eight of the others'. */
V16_INLINE void dot_coded(enum kn_type type, __m256i *dot, int T, const uint8_t *panel, int s,
                          int half, int j0, int j1, const int8_t *q)
{
    const __m256i ones = _mm256_set1_epi16(1);
    const int fit = type == KN_IQ4 || type == KN_IQ4S || type == KN_IQ3X || type == KN_IQ2 ? 1 : 8;
    const int is_signed = type != KN_Q4S && type != KN_Q2S;
    __m256i pairs[PANEL_TOK];

#pragma GCC unroll 4
    for (int t = 0; t < T; t++) dot[t] = pairs[t] = _mm256_setzero_si256();
#pragma GCC unroll 8
    for (int j = j0; j < j1; j++) {
        const __m256i w = load_coded(type, panel, s, half, j);
        const __m256i abs = is_signed ? _mm256_abs_epi8(w) : w;
#pragma GCC unroll 4
        for (int t = 0; t < T; t++) {
            const __m256i x = four_columns(q + t * KN_GROUP + 4 * j);
            const __m256i p = _mm256_maddubs_epi16(abs, is_signed ? _mm256_sign_epi8(x, w) : x);
            pairs[t] = fit == 1 || j == j0 ? p : _mm256_add_epi16(pairs[t], p);
            if (fit == 1 || j == j1 - 1)
                dot[t] = _mm256_add_epi32(dot[t], _mm256_madd_epi16(pairs[t], ones));
        }
    }
}

V16_INLINE __m256 load_halves(const void *p)
{
    return _mm256_cvtph_ps(_mm_loadu_si128(p));
}

V16_INLINE __m256 load_bytes(const void *p)
{
    return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64(p)));
}

V16_INLINE __m256 load_signed(const void *p)
{
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(p)));
}

/* An exponent of 0 or 1 becomes the bits of 0. */
V16_INLINE __m256 load_exponents(const void *p)
{
    const __m256i one = _mm256_set1_epi32(1);
    const __m256i e = _mm256_max_epi32(_mm256_cvtepu8_epi32(_mm_loadl_epi64(p)), one);
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_sub_epi32(e, one), 23));
}

V16_INLINE __m256 load_e4m3(const void *p)
{
    const __m128i bits = _mm_slli_epi16(_mm_cvtepu8_epi16(_mm_loadl_epi64(p)), 7);
    return _mm256_mul_ps(_mm256_cvtph_ps(bits), _mm256_set1_ps(128.0f));
}

V16_INLINE __m256 load_nibble(const void *p, int shift)
{
    const __m256i x = _mm256_srli_epi32(_mm256_cvtepu8_epi32(_mm_loadl_epi64(p)), shift);
    return _mm256_cvtepi32_ps(_mm256_and_si256(x, _mm256_set1_epi32(15)));
}

/* The scales of group s, or of its part h. Most panels begin with 16 halves. */
V16_INLINE __m256 panel_scales(enum kn_type type, const uint8_t *panel, int s, int h, int half)
{
    const struct kn_nv4_panel *nv4 = (const struct kn_nv4_panel *)panel;
    const struct kn_iq4s_panel *iq4s = (const struct kn_iq4s_panel *)panel;
    const struct kn_q4s_panel *q4s = (const struct kn_q4s_panel *)panel;
    const struct kn_q3s_panel *q3s = (const struct kn_q3s_panel *)panel;
    const struct kn_q2s_panel *q2s = (const struct kn_q2s_panel *)panel;
    const int at = 8 * half;

    switch (type) {
    case KN_Q6: return load_halves(((const struct kn_q6_panel *)panel)->d[h] + at);
    case KN_MX4: return load_exponents(panel + at);
    case KN_NV4: return load_e4m3(nv4->d[h] + at);
    case KN_IQ4S:
    case KN_IQ3S: return _mm256_mul_ps(load_halves(iq4s->d + at), load_signed(iq4s->scale[s] + at));
    case KN_IQ3X:
        return _mm256_mul_ps(
            _mm256_mul_ps(load_halves(iq4s->d + at), _mm256_set1_ps(kn_code_unit(type))),
            load_signed(iq4s->scale[s] + at));
    case KN_Q4S: return _mm256_mul_ps(load_halves(q4s->d + at), load_bytes(q4s->scale[s] + at));
    case KN_Q3S:
        return _mm256_mul_ps(load_halves(q3s->d + at), load_signed(q3s->scale[2 * s + h] + at));
    case KN_IQ2:
    case KN_IQ1:
        return _mm256_mul_ps(
            _mm256_mul_ps(load_halves(q3s->d + at), _mm256_set1_ps(kn_code_unit(type))),
            load_signed(q3s->scale[2 * s + h] + at));
    case KN_Q2S:
        return _mm256_mul_ps(load_halves(q2s->d + at), load_nibble(q2s->scale[2 * s + h] + at, 0));
    default: return load_halves((const uint16_t *)panel + at);
    }
}

/* The offset of each weight: 16 more halves, in super-groups times a negative integer. */
V16_INLINE __m256 panel_mins(enum kn_type type, const uint8_t *panel, int s, int h, int half)
{
    const struct kn_q4s_panel *q4 = (const struct kn_q4s_panel *)panel;
    const struct kn_q2s_panel *q2 = (const struct kn_q2s_panel *)panel;
    const int at = 8 * half;
    const __m256 m = load_halves((const uint16_t *)panel + KN_PANEL + at),
                 zero = _mm256_setzero_ps();

    if (type == KN_Q4S) return _mm256_fnmadd_ps(m, load_bytes(q4->min[s] + at), zero);
    if (type == KN_Q2S) return _mm256_fnmadd_ps(m, load_nibble(q2->scale[2 * s + h] + at, 4), zero);
    return m;
}

/* acc[t] + dot[t] * scale * d[t] */
V16_INLINE void add_scaled(__m256 *acc, int T, const __m256i *dot, __m256 scale, const float *d)
{
#pragma GCC unroll 4
    for (int t = 0; t < T; t++)
        acc[t] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(dot[t]),
                                 _mm256_mul_ps(scale, _mm256_set1_ps(d[t])), acc[t]);
}

/* acc[t] + group s of a panel of a type after Q6; part h of the group has a scale. */
V16_INLINE void add_coded(enum kn_type type, __m256 *acc, int T, const uint8_t *panel, int s,
                          int half, struct act_at x)
{
    const int parts = panel_halves(type) ? 2 : 1, n = 8 / parts;
    __m256i dot[PANEL_TOK];

#pragma GCC unroll 2
    for (int h = 0; h < parts; h++) {
        dot_coded(type, dot, T, panel, s, half, n * h, n * h + n, x.q);
        add_scaled(acc, T, dot, panel_scales(type, panel, s, h, half), x.d);
        if (!panel_minima(type)) continue;

        const __m256 min = panel_mins(type, panel, s, h, half);
#pragma GCC unroll 4
        for (int t = 0; t < T; t++) {
            const int32_t sum = h == 1 ? x.sum[t] - x.first[t] : parts == 2 ? x.first[t] : x.sum[t];
            acc[t] = _mm256_fmadd_ps(min, _mm256_set1_ps(x.d[t] * (float)sum), acc[t]);
        }
    }
}

/* Two scales per group: each half separately; the sum of the half corrects for the offset 32. */
V16_INLINE void add_group_q6(__m256 *acc, int T, const uint8_t *panel, int half, struct act_at x)
{
#pragma GCC unroll 2
    for (int h = 0; h < 2; h++) {
        __m256i dot[PANEL_TOK];

        dot_wide(KN_Q6, dot, T, panel, half, h, x.q);
#pragma GCC unroll 4
        for (int t = 0; t < T; t++) {
            const int32_t sum = h == 0 ? x.first[t] : x.sum[t] - x.first[t];
            dot[t] = _mm256_sub_epi32(dot[t], _mm256_set1_epi32(32 * sum));
        }
        add_scaled(acc, T, dot, panel_scales(KN_Q6, panel, 0, h, half), x.d);
    }
}

V16_INLINE void dot_q5a(__m256i *dot, int T, const uint8_t *panel, int half, const int8_t *q)
{
    __m256i second[PANEL_TOK];

    dot_wide(KN_Q5A, dot, T, panel, half, 0, q);
    dot_wide(KN_Q5A, second, T, panel, half, 1, q);
#pragma GCC unroll 4
    for (int t = 0; t < T; t++) dot[t] = _mm256_add_epi32(dot[t], second[t]);
}

/* acc[t] + group s of a panel, 8 rows, times T tokens */
V16_INLINE void add_group(enum kn_type type, __m256 *acc, int T, const uint8_t *panel, int s,
                          int half, struct act_at x)
{
    const struct kn_q8_panel *q8 = (const struct kn_q8_panel *)panel;
    __m256i dot[PANEL_TOK];

    switch (type) {
    case KN_Q4: dot_nibbles(dot, T, ((const struct kn_q4_panel *)panel)->qs, half, x.q); break;
    case KN_Q8: dot_q8(dot, T, q8, half, x.q); break;
    case KN_Q4A: dot_nibbles(dot, T, ((const struct kn_q4a_panel *)panel)->qs, half, x.q); break;
    case KN_Q5A: dot_q5a(dot, T, panel, half, x.q); break;
    case KN_Q6: add_group_q6(acc, T, panel, half, x); return;
    default: add_coded(type, acc, T, panel, s, half, x); return;
    }
#pragma GCC unroll 4
    for (int t = 0; t < T && type == KN_Q4; t++)
        dot[t] = _mm256_sub_epi32(dot[t], _mm256_set1_epi32(8 * x.sum[t]));
    add_scaled(acc, T, dot, panel_scales(type, panel, s, 0, half), x.d);
    if (!panel_minima(type)) return;

    const __m256 min = panel_mins(type, panel, s, 0, half);
#pragma GCC unroll 4
    for (int t = 0; t < T; t++) acc[t] = _mm256_fmadd_ps(min, _mm256_set1_ps(x.total[t]), acc[t]);
}

V16_INLINE void panel_tile(enum kn_type type, int R, int T, const struct panel_job *job)
{
    (void)R;
    for (int half = 0; half < 2; half++) {
        const int left = job->n_row - 8 * half, n = left < 8 ? left : 8;
        const uint8_t *panel = job->panels;
        float *y = job->y + 8 * half;
        __m256 acc[PANEL_TOK];

#pragma GCC unroll 4
        for (int t = 0; t < T; t++)
            acc[t] = v8_load_n(y + (size_t)t * job->stride, job->first || t >= job->n_tok ? 0 : n);
        for (int g = 0; g < job->n_group; panel += panel_step(type, g++)) {
            panel_prefetch(type, panel + job->ahead, g);
            add_group(type, acc, T, panel, g % panel_groups(type), half,
                      act_in_tile(job->x + g, job->t0));
        }
#pragma GCC unroll 4
        for (int t = 0; t < T; t++)
            v8_store_n(y + (size_t)t * job->stride, acc[t], t < job->n_tok ? n : 0);
    }
}

V16_INLINE void panel_stream(enum kn_type type, int P, const uint8_t *panels, size_t step,
                             int n_group, const struct kn_act *x, float *y, int n_row)
{
    __m256 acc[PANEL_STREAMS][2];

#pragma GCC unroll 4
    for (int p = 0; p < P; p++) acc[p][0] = acc[p][1] = _mm256_setzero_ps();
    for (int g = 0; g < n_group; panels += panel_step(type, g++)) {
        struct act_one one;
        const struct act_at at = act_of_token(type, x, g, &one);
        const size_t ahead = panel_ahead(type, P, step, g, n_group);

#pragma GCC unroll 4
        for (int p = 0; p < P; p++) {
            const uint8_t *panel = panels + (size_t)p * step;

            panel_prefetch_share(type, P, p, panels + ahead, step, g);
            add_group(type, &acc[p][0], 1, panel, g % panel_groups(type), 0, at);
            add_group(type, &acc[p][1], 1, panel, g % panel_groups(type), 1, at);
        }
    }
#pragma GCC unroll 4
    for (int p = 0; p < P; p++)
        v16_store_n(y + p * KN_PANEL, v16_pair(acc[p][0], acc[p][1]), n_row);
}

const struct kernels kn_avx2 = V16_TABLE("avx2", attend_v16);
