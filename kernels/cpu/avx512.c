/* avx512: the kernels of AVX-512 F, BW, VL, DQ and VNNI. All of them are v16's (v16.h) except the
 * products with quantized weights.
 *
 * A panel is 16 rows, one lane each. vpdpbusd multiplies 4 unsigned weights with 4 signed
 * activations per lane; one more dot product, of the offset (8, 32 or 128) with the sum of the
 * activations, corrects for the weights' offset. Integer sums are exact, and the float sum of a row
 * adds its groups in order, so tiles of any height give the same bits. */
#include "kernels/cpu/v16_avx512.h"
#include "kernels/cpu/v16_act.h"
#include "kernels/cpu/v16_attend.h"
#include "kernels/cpu/v16_attend_fixed.h"
#include "kernels/cpu/v16_stats.h"
#include "kernels/cpu/v16_matmul.h"

enum { PANEL_TOK = 8, PANEL_STREAMS = 8 };

#include "kernels/cpu/v16_panels.h"
#include "kernels/cpu/v16_score.h"
#include "kernels/cpu/v16_recur.h"
#include "kernels/cpu/v16_table.h"

/* -offset * sum as a product of 16-bit halves: |sum| is at most 32 * 127. */
V16_INLINE __m512i dot_offset(int offset, int32_t sum)
{
    const __m512i minus = _mm512_set1_epi32(-offset & 0xffff);
    return _mm512_dpwssd_epi32(_mm512_setzero_si512(), minus, _mm512_set1_epi32(sum));
}

/* gcc would first broadcast into a separate register, which costs 8 % in prefill. */
V16_INLINE __m512i dot_columns(__m512i sum, __m512i w, const int8_t *q)
{
    __asm__("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(sum) : "v"(w), "m"(*(const int8_t(*)[4])q));
    return sum;
}

/* w[j]: columns 4j to 4j + 3 of 16 rows, from nibbles. */
V16_INLINE void unpack_nibbles(__m512i w[8], const uint8_t (*qs)[KN_PANEL][4])
{
    const __m512i nibble = _mm512_set1_epi8(15);

#pragma GCC unroll 4
    for (int j = 0; j < 4; j++) {
        const __m512i both = _mm512_loadu_si512(qs[j]);
        w[j] = _mm512_and_si512(both, nibble);
        w[4 + j] = _mm512_and_si512(_mm512_srli_epi16(both, 4), nibble);
    }
}

/* w | bits of x under mask, after x is shifted left by n bits */
V16_INLINE __m512i or_bits(__m512i w, __m512i x, int n, int mask)
{
    const __m512i moved =
        n >= 0 ? _mm512_slli_epi16(x, (unsigned)n) : _mm512_srli_epi16(x, (unsigned)-n);
    return _mm512_or_si512(w, _mm512_and_si512(moved, _mm512_set1_epi8((char)mask)));
}

V16_INLINE void unpack_q8(__m512i w[8], const struct kn_q8_panel *panel)
{
#pragma GCC unroll 8
    for (int j = 0; j < 8; j++) w[j] = _mm512_loadu_si512(panel->qs[j]);
}

V16_INLINE void unpack_q5a(__m512i w[8], const struct kn_q5a_panel *panel)
{
    const __m512i fifth = _mm512_loadu_si512(panel->qh);

    unpack_nibbles(w, panel->qs);
#pragma GCC unroll 8
    for (int j = 0; j < 8; j++) w[j] = or_bits(w[j], fifth, 4 - j, 0x10);
}

V16_INLINE void unpack_q6(__m512i w[8], const struct kn_q6_panel *panel)
{
    const __m512i high[2] = {_mm512_loadu_si512(panel->qh[0]), _mm512_loadu_si512(panel->qh[1])};

    unpack_nibbles(w, panel->qs);
#pragma GCC unroll 8
    for (int j = 0; j < 8; j++) w[j] = or_bits(w[j], high[j / 4], 4 - 2 * (j % 4), 0x30);
}

/* The same from codes: values plus their offset. */
V16_INLINE void unpack_values(enum kn_type type, __m512i w[8], const uint8_t (*qs)[KN_PANEL][4])
{
    const int8_t *values = type == KN_IQ4 || type == KN_IQ4S ? kn_values_iq4 : kn_values_e2m1;
    const __m128i four = _mm_loadu_si128((const __m128i *)values);
    const __m512i table =
        _mm512_add_epi8(_mm512_broadcast_i32x4(four), _mm512_set1_epi8((char)panel_offset(type)));

    unpack_nibbles(w, qs);
#pragma GCC unroll 8
    for (int j = 0; j < 8; j++) w[j] = _mm512_shuffle_epi8(table, w[j]);
}

V16_INLINE void unpack_low_bits(__m512i w[8], const uint8_t (*ql)[KN_PANEL][4])
{
    const __m512i low[2] = {_mm512_loadu_si512(ql[0]), _mm512_loadu_si512(ql[1])};

#pragma GCC unroll 8
    for (int j = 0; j < 8; j++)
        w[j] = _mm512_and_si512(_mm512_srli_epi16(low[j / 4], (unsigned)(2 * (j % 4))),
                                _mm512_set1_epi8(3));
}

V16_INLINE void unpack_q3s(__m512i w[8], const struct kn_q3s_panel *panel, int s)
{
    const __m512i third = _mm512_loadu_si512(panel->qh[s]);

    unpack_low_bits(w, panel->ql[s]);
#pragma GCC unroll 8
    for (int j = 0; j < 8; j++) w[j] = or_bits(w[j], third, 2 - j, 4);
}

/* Group s of the panel. */
V16_INLINE void unpack(enum kn_type type, __m512i w[8], const uint8_t *panel, int s)
{
    switch (type) {
    case KN_IQ4: unpack_values(type, w, ((const struct kn_q4_panel *)panel)->qs); break;
    case KN_MX4: unpack_values(type, w, ((const struct kn_mx4_panel *)panel)->qs); break;
    case KN_NV4: unpack_values(type, w, ((const struct kn_nv4_panel *)panel)->qs); break;
    case KN_IQ4S: unpack_values(type, w, ((const struct kn_iq4s_panel *)panel)->qs[s]); break;
    case KN_Q4S: unpack_nibbles(w, ((const struct kn_q4s_panel *)panel)->qs[s]); break;
    case KN_Q3S: unpack_q3s(w, (const struct kn_q3s_panel *)panel, s); break;
    case KN_Q2S: unpack_low_bits(w, ((const struct kn_q2s_panel *)panel)->ql[s]); break;
    case KN_Q4: unpack_nibbles(w, ((const struct kn_q4_panel *)panel)->qs); break;
    case KN_Q8: unpack_q8(w, (const struct kn_q8_panel *)panel); break;
    case KN_Q4A: unpack_nibbles(w, ((const struct kn_q4a_panel *)panel)->qs); break;
    case KN_Q5A: unpack_q5a(w, (const struct kn_q5a_panel *)panel); break;
    default: unpack_q6(w, (const struct kn_q6_panel *)panel); break;
    }
}

V16_INLINE __m512 load_halves(const void *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256(p));
}

V16_INLINE __m512 load_bytes(const void *p)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128(p)));
}

V16_INLINE __m512 load_signed(const void *p)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(p)));
}

/* An exponent of 0 or 1 becomes the bits of 0. */
V16_INLINE __m512 load_exponents(const uint8_t *p)
{
    const __m512i e = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)p));
    const __m512i bits =
        _mm512_sub_epi32(_mm512_max_epi32(e, _mm512_set1_epi32(1)), _mm512_set1_epi32(1));
    return _mm512_castsi512_ps(_mm512_slli_epi32(bits, 23));
}

V16_INLINE __m512 load_e4m3(const uint8_t *p)
{
    const __m256i bits =
        _mm256_slli_epi16(_mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)p)), 7);
    return _mm512_mul_ps(_mm512_cvtph_ps(bits), _mm512_set1_ps(128.0f));
}

V16_INLINE __m512 load_low_nibbles(const uint8_t *p)
{
    const __m128i low = _mm_and_si128(_mm_loadu_si128((const __m128i *)p), _mm_set1_epi8(15));
    return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(low));
}

V16_INLINE __m512 load_high_nibbles(const uint8_t *p)
{
    const __m128i x = _mm_srli_epi16(_mm_loadu_si128((const __m128i *)p), 4);
    return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_and_si128(x, _mm_set1_epi8(15))));
}

/* The scales of group s, or of its half h. Most panels begin with 16 halves. */
V16_INLINE __m512 panel_scales(enum kn_type type, const uint8_t *panel, int s, int h)
{
    const __m512 d = type == KN_MX4 || type == KN_NV4 ? v16_zero() : load_halves(panel);

    switch (type) {
    case KN_Q6: return load_halves(((const struct kn_q6_panel *)panel)->d[h]);
    case KN_MX4: return load_exponents(panel);
    case KN_NV4: return load_e4m3(((const struct kn_nv4_panel *)panel)->d[h]);
    case KN_IQ4S: return v16_mul(d, load_signed(((const struct kn_iq4s_panel *)panel)->scale[s]));
    case KN_Q4S: return v16_mul(d, load_bytes(((const struct kn_q4s_panel *)panel)->scale[s]));
    case KN_Q3S:
        return v16_mul(d, load_signed(((const struct kn_q3s_panel *)panel)->scale[2 * s + h]));
    case KN_Q2S:
        return v16_mul(d, load_low_nibbles(((const struct kn_q2s_panel *)panel)->scale[2 * s + h]));
    default: return d;
    }
}

/* The offset of each weight: 16 more halves, in super-groups times a negative integer. */
V16_INLINE __m512 panel_mins(enum kn_type type, const uint8_t *panel, int s, int h)
{
    const struct kn_q4s_panel *q4 = (const struct kn_q4s_panel *)panel;
    const struct kn_q2s_panel *q2 = (const struct kn_q2s_panel *)panel;
    const __m512 m = load_halves(panel + 2 * KN_PANEL);

    if (type == KN_Q4S) return _mm512_fnmadd_ps(m, load_bytes(q4->min[s]), v16_zero());
    if (type == KN_Q2S)
        return _mm512_fnmadd_ps(m, load_high_nibbles(q2->scale[2 * s + h]), v16_zero());
    return m;
}

/* The integer dot products of T tokens with columns 4 j0 to 4 j1 - 1. Their chains are interleaved:
 * one after another they would fill the scheduler before the ports. */
V16_INLINE void dot_tile_columns(__m512i *dot, int T, const __m512i w[8], const int8_t *q, int j0,
                                 int j1)
{
#pragma GCC unroll 8
    for (int j = j0; j < j1; j++)
#pragma GCC unroll 8
        for (int t = 0; t < T; t++) dot[t] = dot_columns(dot[t], w[j], q + t * KN_GROUP + 4 * j);
}

/* acc[t] + dot[t] * scale * d[t] */
V16_INLINE void add_scaled(__m512 *acc, int T, const __m512i *dot, __m512 scale, const float *d)
{
#pragma GCC unroll 8
    for (int t = 0; t < T; t++)
        acc[t] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot[t]),
                                 _mm512_mul_ps(scale, _mm512_set1_ps(d[t])), acc[t]);
}

/* Two scales per group: each half separately; the sum of the half corrects for the offset. */
V16_INLINE void add_halves(enum kn_type type, __m512 *acc, int T, const uint8_t *panel, int s,
                           struct act_at x)
{
    __m512i w[8], dot[PANEL_TOK];

    unpack(type, w, panel, s);
#pragma GCC unroll 2
    for (int h = 0; h < 2; h++) {
#pragma GCC unroll 8
        for (int t = 0; t < T; t++)
            dot[t] = panel_offset(type) ? dot_offset(panel_offset(type),
                                                     h == 0 ? x.first[t] : x.sum[t] - x.first[t])
                                        : _mm512_setzero_si512();
        dot_tile_columns(dot, T, w, x.q, 4 * h, 4 * h + 4);
        add_scaled(acc, T, dot, panel_scales(type, panel, s, h), x.d);
        if (!panel_minima(type)) continue;

        const __m512 min = panel_mins(type, panel, s, h);
#pragma GCC unroll 8
        for (int t = 0; t < T; t++) {
            const int32_t sum = h == 0 ? x.first[t] : x.sum[t] - x.first[t];
            acc[t] = _mm512_fmadd_ps(min, _mm512_set1_ps(x.d[t] * (float)sum), acc[t]);
        }
    }
}

/* acc[t] + group s of a panel, 16 rows, times T tokens */
V16_INLINE void add_group(enum kn_type type, __m512 *acc, int T, const uint8_t *panel, int s,
                          struct act_at x)
{
    __m512i w[8], dot[PANEL_TOK];

    if (panel_halves(type)) {
        add_halves(type, acc, T, panel, s, x);
        return;
    }
    unpack(type, w, panel, s);
#pragma GCC unroll 8
    for (int t = 0; t < T; t++)
        dot[t] = panel_offset(type) ? _mm512_set1_epi32(x.start[t]) : _mm512_setzero_si512();
    dot_tile_columns(dot, T, w, x.q, 0, 8);
    add_scaled(acc, T, dot, panel_scales(type, panel, s, 0), x.d);
    if (!panel_minima(type)) return;

    const __m512 min = panel_mins(type, panel, s, 0);
#pragma GCC unroll 8
    for (int t = 0; t < T; t++) acc[t] = _mm512_fmadd_ps(min, _mm512_set1_ps(x.total[t]), acc[t]);
}

V16_INLINE void panel_tile(enum kn_type type, int T, const uint8_t *panels, size_t ahead,
                           int n_group, const struct act_group *x, int n_tok, float *y,
                           size_t stride, int n_row, int first)
{
    __m512 acc[PANEL_TOK];

#pragma GCC unroll 8
    for (int t = 0; t < T; t++)
        acc[t] = v16_load_n(y + (size_t)t * stride, first || t >= n_tok ? 0 : n_row);
    for (int g = 0; g < n_group; panels += panel_step(type, g++), x++) {
        if (ahead) panel_prefetch(type, panels + ahead, g);
        add_group(type, acc, T, panels, g % panel_groups(type), act_in_tile(x));
    }
#pragma GCC unroll 8
    for (int t = 0; t < T; t++) v16_store_n(y + (size_t)t * stride, acc[t], t < n_tok ? n_row : 0);
}

V16_INLINE void panel_stream(enum kn_type type, int P, const uint8_t *panels, size_t step,
                             int n_group, const struct kn_act *x, float *y, int n_row)
{
    __m512 acc[PANEL_STREAMS];

#pragma GCC unroll 8
    for (int p = 0; p < P; p++) acc[p] = _mm512_setzero_ps();
    for (int g = 0; g < n_group; panels += panel_step(type, g++)) {
        struct act_one one;
        const struct act_at at = act_of_token(type, x, g, &one);
        const size_t ahead = panel_ahead(type, P, step, g, n_group);

#pragma GCC unroll 8
        for (int p = 0; p < P; p++) {
            panel_prefetch_share(type, P, p, panels + ahead, step, g);
            add_group(type, &acc[p], 1, panels + (size_t)p * step, g % panel_groups(type), at);
        }
    }
#pragma GCC unroll 8
    for (int p = 0; p < P; p++) v16_store_n(y + p * KN_PANEL, acc[p], n_row);
}

const struct kernels kn_avx512 = V16_TABLE("avx512", attend_v16);
