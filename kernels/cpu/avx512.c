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
#include "kernels/cpu/v16_matmul.h"

enum {
    PANEL_TOK = 12,
    PANEL_CHUNK = 32,
    PANEL_ROWS = 2,
    PANEL_WIDE = 6,
    PANEL_STREAMS = 8,
};

#include "kernels/cpu/v16_panels.h"
#include "kernels/cpu/v16_score.h"
#include "kernels/cpu/v16_recur.h"
#include "kernels/cpu/v16_table.h"

V16_INLINE void panel_starts(enum kn_type type, int32_t start[2], const int8_t *q, int32_t sum,
                             int32_t first)
{
    (void)q;
    offset_starts(start, panel_offset(type), sum, first);
}

/* Columns 4j to 4j + 3 of 16 rows, from nibbles. */
V16_INLINE __m512i nibbles(const uint8_t (*qs)[KN_PANEL][4], int j)
{
    const __m512i both = _mm512_loadu_si512(qs[j % 4]);
    return _mm512_and_si512(j < 4 ? both : _mm512_srli_epi16(both, 4), _mm512_set1_epi8(15));
}

/* w | bits of x under mask, after x is shifted left by n bits */
V16_INLINE __m512i or_bits(__m512i w, const void *x, int n, int mask)
{
    const __m512i bits = _mm512_loadu_si512(x);
    const __m512i moved =
        n >= 0 ? _mm512_slli_epi16(bits, (unsigned)n) : _mm512_srli_epi16(bits, (unsigned)-n);
    return _mm512_or_si512(w, _mm512_and_si512(moved, _mm512_set1_epi8((char)mask)));
}

/* From codes: values plus their offset. */
V16_INLINE __m512i values_of(enum kn_type type, __m512i codes)
{
    const __m128i four = _mm_loadu_si128((const __m128i *)kn_code_values(type));
    const __m512i table =
        _mm512_add_epi8(_mm512_broadcast_i32x4(four), _mm512_set1_epi8((char)panel_offset(type)));

    return _mm512_shuffle_epi8(table, codes);
}

V16_INLINE __m512i coded(enum kn_type type, const uint8_t (*qs)[KN_PANEL][4], int j)
{
    return values_of(type, nibbles(qs, j));
}

V16_INLINE __m512i low_bits(const uint8_t (*ql)[KN_PANEL][4], int j)
{
    const __m512i four = _mm512_loadu_si512(ql[j / 4]);
    return _mm512_and_si512(_mm512_srli_epi16(four, (unsigned)(2 * (j % 4))), _mm512_set1_epi8(3));
}

/* Columns 4j to 4j + 3 of group s of a panel, as unsigned bytes. */
V16_INLINE __m512i columns(enum kn_type type, const uint8_t *panel, int s, int j)
{
    const struct kn_q5a_panel *q5 = (const struct kn_q5a_panel *)panel;
    const struct kn_q6_panel *q6 = (const struct kn_q6_panel *)panel;
    const struct kn_q3s_panel *q3 = (const struct kn_q3s_panel *)panel;

    switch (type) {
    case KN_IQ4: return coded(type, ((const struct kn_q4_panel *)panel)->qs, j);
    case KN_MX4: return coded(type, ((const struct kn_mx4_panel *)panel)->qs, j);
    case KN_NV4: return coded(type, ((const struct kn_nv4_panel *)panel)->qs, j);
    case KN_IQ4S:
    case KN_IQ3X:
    case KN_IQ3S: return coded(type, ((const struct kn_iq4s_panel *)panel)->qs[s], j);
    case KN_Q4S: return nibbles(((const struct kn_q4s_panel *)panel)->qs[s], j);
    case KN_Q3S: return or_bits(low_bits(q3->ql[s], j), q3->qh[s], 2 - j, 4);
    case KN_IQ2:
    case KN_IQ1: return values_of(type, or_bits(low_bits(q3->ql[s], j), q3->qh[s], 2 - j, 4));
    case KN_Q2S: return low_bits(((const struct kn_q2s_panel *)panel)->ql[s], j);
    case KN_Q4: return nibbles(((const struct kn_q4_panel *)panel)->qs, j);
    case KN_Q8: return _mm512_loadu_si512(((const struct kn_q8_panel *)panel)->qs[j]);
    case KN_Q4A: return nibbles(((const struct kn_q4a_panel *)panel)->qs, j);
    case KN_Q5A: return or_bits(nibbles(q5->qs, j), q5->qh, 4 - j, 0x10);
    default: return or_bits(nibbles(q6->qs, j), q6->qh[j / 4], 4 - 2 * (j % 4), 0x30);
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
    const float unit = kn_code_unit(type);
    const __m512 half = type == KN_MX4 || type == KN_NV4 ? v16_zero() : load_halves(panel);
    const __m512 d = unit == 1.0f ? half : _mm512_mul_ps(half, _mm512_set1_ps(unit));

    switch (type) {
    case KN_Q6: return load_halves(((const struct kn_q6_panel *)panel)->d[h]);
    case KN_MX4: return load_exponents(panel);
    case KN_NV4: return load_e4m3(((const struct kn_nv4_panel *)panel)->d[h]);
    case KN_IQ4S:
    case KN_IQ3X:
    case KN_IQ3S: return v16_mul(d, load_signed(((const struct kn_iq4s_panel *)panel)->scale[s]));
    case KN_Q4S: return v16_mul(d, load_bytes(((const struct kn_q4s_panel *)panel)->scale[s]));
    case KN_Q3S:
    case KN_IQ2:
    case KN_IQ1:
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

/* A tile's sums, [panel row][token]. */
typedef __m512i dots[PANEL_ROWS][PANEL_WIDE];
typedef __m512 sums[PANEL_ROWS][PANEL_WIDE];

/* The integer dot products of R panel rows, `step` bytes apart, and T tokens over columns 4 j0 to
 * 4 j1 - 1. Two rows share the load of a token's columns: the ports that load are as busy as those
 * that multiply otherwise. The chains are interleaved: one after another they would fill the
 * scheduler before the ports. */
V16_INLINE void dot_columns(enum kn_type type, dots dot, int R, int T, const uint8_t *panel,
                            size_t step, int s, const int8_t *q, int j0, int j1)
{
#pragma GCC unroll 8
    for (int j = j0; j < j1; j++) {
        __m512i w[PANEL_ROWS];

#pragma GCC unroll 2
        for (int r = 0; r < R; r++) w[r] = columns(type, panel + (size_t)r * step, s, j);
#pragma GCC unroll 8
        for (int t = 0; t < T; t++) {
            const int8_t(*x)[4] = (const int8_t(*)[4])(q + t * KN_GROUP + 4 * j);
            __m512i four;

            if (R == 1) { /* gcc would first load it into a register, which costs 8 % */
                __asm__("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(dot[0][t]) : "v"(w[0]), "m"(*x));
                continue;
            }
            __asm__("vpbroadcastd %1, %0" : "=v"(four) : "m"(*x));
#pragma GCC unroll 2
            for (int r = 0; r < R; r++) dot[r][t] = _mm512_dpbusd_epi32(dot[r][t], w[r], four);
        }
    }
}

/* acc[t] + dot[t] * scale * d[t] */
V16_INLINE void add_scaled(__m512 *acc, int T, const __m512i *dot, __m512 scale, const float *d)
{
#pragma GCC unroll 8
    for (int t = 0; t < T; t++)
        acc[t] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot[t]),
                                 _mm512_mul_ps(scale, _mm512_set1_ps(d[t])), acc[t]);
}

/* acc + columns 4 j0 to 4 j1 - 1 of R panel rows times T tokens: part h of group s, the group or a
 * half of it, has its own scale; the sum of the part corrects for the offset. */
V16_INLINE void add_part(enum kn_type type, sums acc, int R, int T, const uint8_t *panel,
                         size_t step, int s, struct act_at x, int h, int j0, int j1)
{
    dots dot;

#pragma GCC unroll 8
    for (int t = 0; t < T; t++)
        for (int r = 0; r < R; r++)
            dot[r][t] =
                panel_offset(type) ? _mm512_set1_epi32(x.start[h][t]) : _mm512_setzero_si512();
    dot_columns(type, dot, R, T, panel, step, s, x.q, j0, j1);
#pragma GCC unroll 2
    for (int r = 0; r < R; r++, panel += step) {
        add_scaled(acc[r], T, dot[r], panel_scales(type, panel, s, h), x.d);
        if (!panel_minima(type)) continue;

        const __m512 min = panel_mins(type, panel, s, h);
#pragma GCC unroll 8
        for (int t = 0; t < T; t++)
            acc[r][t] = _mm512_fmadd_ps(min, _mm512_set1_ps(x.total[h][t]), acc[r][t]);
    }
}

/* acc + group s of R panel rows times T tokens */
V16_INLINE void add_group(enum kn_type type, sums acc, int R, int T, const uint8_t *panel,
                          size_t step, int s, struct act_at x)
{
    const int part = panel_halves(type) ? 4 : 8;

    add_part(type, acc, R, T, panel, step, s, x, 0, 0, part);
    if (panel_halves(type)) add_part(type, acc, R, T, panel, step, s, x, 1, part, 8);
}

V16_INLINE void panel_tile(enum kn_type type, int R, int T, const struct panel_job *job)
{
    const uint8_t *panels = job->panels;
    sums acc;

#pragma GCC unroll 2
    for (int r = 0; r < R; r++)
#pragma GCC unroll 8
        for (int t = 0; t < T; t++)
            acc[r][t] = v16_load_n(job->y + (size_t)t * job->stride + r * KN_PANEL,
                                   job->first || t >= job->n_tok ? 0 : job->n_row - r * KN_PANEL);
    for (int g = 0; g < job->n_group; panels += panel_step(type, g++)) {
        for (int r = job->ahead_from; job->ahead && r < job->ahead_to; r++)
            panel_prefetch(type, panels + job->ahead + (ptrdiff_t)((size_t)r * job->step), g);
        add_group(type, acc, R, T, panels, job->step, g % panel_groups(type),
                  act_in_tile(job->x + g, job->t0));
    }
#pragma GCC unroll 2
    for (int r = 0; r < R; r++)
#pragma GCC unroll 8
        for (int t = 0; t < T; t++)
            v16_store_n(job->y + (size_t)t * job->stride + r * KN_PANEL, acc[r][t],
                        t < job->n_tok ? job->n_row - r * KN_PANEL : 0);
}

V16_INLINE void panel_stream(enum kn_type type, int P, const uint8_t *panels, size_t step,
                             int n_group, const struct kn_act *x, float *y, int n_row)
{
    sums acc[PANEL_STREAMS]; /* of each only the first */

#pragma GCC unroll 8
    for (int p = 0; p < P; p++) acc[p][0][0] = _mm512_setzero_ps();
    for (int g = 0; g < n_group; panels += panel_step(type, g++)) {
        struct act_one one;
        const struct act_at at = act_of_token(type, x, g, &one);
        const ptrdiff_t ahead = panel_ahead(type, (P - 1) * (ptrdiff_t)step, g, n_group);

#pragma GCC unroll 8
        for (int p = 0; p < P; p++) {
            panel_prefetch_share(type, P, p, panels + ahead, step, g);
            add_group(type, acc[p], 1, 1, panels + (size_t)p * step, 0, g % panel_groups(type), at);
        }
    }
#pragma GCC unroll 8
    for (int p = 0; p < P; p++) v16_store_n(y + p * KN_PANEL, acc[p][0][0], n_row);
}

const struct kernels kn_avx512 = V16_TABLE("avx512", attend_v16);
