/* What avx2.c and avxvnni.c share: products with quantized weights for 256-bit registers, 8 rows
 * each. They define panel_starts (v16_panels.h) and the functions below.
 *
 * v8_many.h has the products of more than 8 tokens. For fewer a tile is four panel rows or one, by
 * 2 or 4 tokens; the columns of a row are loaded once for both halves of its panel. Reading four
 * rows at once uses more of the memory's bandwidth. The integer sums of a group take 8 registers of
 * 16; the float sums stay in memory, or gcc would move the integers there. Integer sums are exact,
 * and the float sum of a row adds its groups in order, so tiles of any height give the same bits.
 */
#ifndef RETAIN_KERNELS_CPU_V8_PANELS_H
#define RETAIN_KERNELS_CPU_V8_PANELS_H

#include "kernels/cpu/v16_avx2.h"

enum {
    PANEL_TOK = 4,
    PANEL_CHUNK = 32,
    PANEL_ROWS = 4,
    PANEL_WIDE = 4,
    PANEL_STREAMS = 4,
};

#define PANEL_FEW 8
#include "kernels/cpu/v16_panels.h"
#include "kernels/cpu/v16_table.h"

/* Whether weights are read as signed numbers, else plus their offset. */
V16_INLINE int is_signed(enum kn_type type);
/* Whether sums begin with panel_starts, else with 0. */
V16_INLINE int has_start(enum kn_type type);
/* dot + the products of four columns; the sums as 32-bit integers, start being the second one. */
V16_INLINE __m256i dot_four(enum kn_type type, __m256i dot, __m256i w, __m256i x);
V16_INLINE __m256i dot_end(enum kn_type type, __m256i dot, int32_t start);

V16_INLINE __m256i four_columns(const int8_t *q)
{
    int32_t four;
    memcpy(&four, q, sizeof four);
    return _mm256_set1_epi32(four);
}

/* ---- weights -------------------------------------------------------------------------------- */

V16_INLINE __m256i load_nibbles(const uint8_t (*qs)[KN_PANEL][4], int half, int j)
{
    const __m256i both = _mm256_loadu_si256((const __m256i *)qs[j % 4][8 * half]);
    return _mm256_and_si256(j < 4 ? both : _mm256_srli_epi16(both, 4), _mm256_set1_epi8(15));
}

V16_INLINE __m256i load_low_bits(const uint8_t (*ql)[KN_PANEL][4], int half, int j)
{
    const __m256i low = _mm256_loadu_si256((const __m256i *)ql[j / 4][8 * half]);
    return _mm256_and_si256(_mm256_srli_epi16(low, 2 * (j % 4)), _mm256_set1_epi8(3));
}

/* w | bits of x under mask, after x is shifted left by n bits */
V16_INLINE __m256i or_bits(__m256i w, const void *x, int n, int mask)
{
    const __m256i bits = _mm256_loadu_si256(x);
    const __m256i moved = n >= 0 ? _mm256_slli_epi16(bits, n) : _mm256_srli_epi16(bits, -n);
    return _mm256_or_si256(w, _mm256_and_si256(moved, _mm256_set1_epi8((char)mask)));
}

/* From codes: values, plus their offset if they are read as unsigned numbers. */
V16_INLINE __m256i values_of(enum kn_type type, __m256i codes)
{
    const __m128i four = _mm_loadu_si128((const __m128i *)kn_code_values(type));
    const int offset = is_signed(type) ? 0 : panel_offset(type);
    const __m256i table =
        _mm256_add_epi8(_mm256_broadcastsi128_si256(four), _mm256_set1_epi8((char)offset));

    return _mm256_shuffle_epi8(table, codes);
}

V16_INLINE __m256i coded(enum kn_type type, const uint8_t (*qs)[KN_PANEL][4], int half, int j)
{
    return values_of(type, load_nibbles(qs, half, j));
}

V16_INLINE __m256i three_bits(const struct kn_q3s_panel *panel, int s, int half, int j)
{
    return or_bits(load_low_bits(panel->ql[s], half, j), panel->qh[s][8 * half], 2 - j, 4);
}

/* Columns 4j to 4j + 3 of 8 rows of group s of a panel. */
V16_INLINE __m256i columns(enum kn_type type, const uint8_t *panel, int s, int half, int j)
{
    const struct kn_q5a_panel *q5 = (const struct kn_q5a_panel *)panel;
    const struct kn_q6_panel *q6 = (const struct kn_q6_panel *)panel;
    const struct kn_q8_panel *q8 = (const struct kn_q8_panel *)panel;

    switch (type) {
    case KN_IQ4: return coded(type, ((const struct kn_q4_panel *)panel)->qs, half, j);
    case KN_MX4: return coded(type, ((const struct kn_mx4_panel *)panel)->qs, half, j);
    case KN_NV4: return coded(type, ((const struct kn_nv4_panel *)panel)->qs, half, j);
    case KN_IQ4S:
    case KN_IQ3X:
    case KN_IQ3S: return coded(type, ((const struct kn_iq4s_panel *)panel)->qs[s], half, j);
    case KN_Q4S: return load_nibbles(((const struct kn_q4s_panel *)panel)->qs[s], half, j);
    case KN_Q3S: return three_bits((const struct kn_q3s_panel *)panel, s, half, j);
    case KN_IQ2:
    case KN_IQ1: return values_of(type, three_bits((const struct kn_q3s_panel *)panel, s, half, j));
    case KN_Q2S: return load_low_bits(((const struct kn_q2s_panel *)panel)->ql[s], half, j);
    case KN_Q4: return load_nibbles(((const struct kn_q4_panel *)panel)->qs, half, j);
    case KN_Q4A: return load_nibbles(((const struct kn_q4a_panel *)panel)->qs, half, j);
    case KN_Q5A: return or_bits(load_nibbles(q5->qs, half, j), q5->qh[8 * half], 4 - j, 0x10);
    case KN_Q8: {
        const __m256i w = _mm256_loadu_si256((const __m256i *)q8->qs[j][8 * half]);
        return is_signed(type) ? _mm256_xor_si256(w, _mm256_set1_epi8(-128)) : w;
    }
    default: {
        const __m256i low = load_nibbles(q6->qs, half, j);
        return or_bits(low, q6->qh[j / 4][8 * half], 4 - 2 * (j % 4), 0x30);
    }
    }
}

/* ---- scales --------------------------------------------------------------------------------- */

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

    if (type == KN_MX4) return load_exponents(panel + at);
    if (type == KN_NV4) return load_e4m3(nv4->d[h] + at);

    const int first = type == KN_Q6 ? KN_PANEL * h : 0;
    const float unit = kn_code_unit(type);
    const __m256 own = load_halves((const uint16_t *)panel + first + at);
    const __m256 d = unit == 1.0f ? own : _mm256_mul_ps(own, _mm256_set1_ps(unit));

    switch (type) {
    case KN_IQ4S:
    case KN_IQ3X:
    case KN_IQ3S: return _mm256_mul_ps(d, load_signed(iq4s->scale[s] + at));
    case KN_Q4S: return _mm256_mul_ps(d, load_bytes(q4s->scale[s] + at));
    case KN_Q3S:
    case KN_IQ2:
    case KN_IQ1: return _mm256_mul_ps(d, load_signed(q3s->scale[2 * s + h] + at));
    case KN_Q2S: return _mm256_mul_ps(d, load_nibble(q2s->scale[2 * s + h] + at, 0));
    default: return d;
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

/* ---- tiles ---------------------------------------------------------------------------------- */

/* gcc would start later sums and loads early and run out of registers; clang runs out of them with
 * these barriers. */
#ifndef __clang__
#define V8_KEEP(a, b) __asm__ volatile("" : "+x"(a), "+x"(b))
#define V8_IN_ORDER() __asm__ volatile("" : : : "memory")
#else
#define V8_KEEP(a, b) (void)0
#define V8_IN_ORDER() (void)0
#endif

V16_INLINE void start_dots(enum kn_type type, __m256i dot[][2], int T, const int32_t *start)
{
#pragma GCC unroll 4
    for (int t = 0; t < T; t++)
        dot[t][0] = dot[t][1] =
            has_start(type) ? _mm256_set1_epi32(start[t]) : _mm256_setzero_si256();
}

/* Adds to 8 rows of the sums, from `row` on, dot[t][k] with the scales of part h of a group. */
V16_INLINE void add_scaled(enum kn_type type, float (*sums)[KN_PANEL], int row, int T,
                           __m256i dot[][2], int k, __m256 scale, __m256 min, int h,
                           struct act_at x)
{
#pragma GCC unroll 4
    for (int t = 0; t < T; t++) {
        float *sum = sums[t] + row;
        const __m256i all = dot_end(type, dot[t][k], has_start(type) ? x.start[1][t] : 0);
        const __m256 d = _mm256_mul_ps(scale, _mm256_set1_ps(x.d[t]));
        __m256 acc = _mm256_fmadd_ps(_mm256_cvtepi32_ps(all), d, _mm256_loadu_ps(sum));

        if (panel_minima(type)) acc = _mm256_fmadd_ps(min, _mm256_set1_ps(x.total[h][t]), acc);
        _mm256_storeu_ps(sum, acc);
    }
}

/* The integer dot products of H halves of a panel, from `half` on, and T tokens, over part h of a
 * group. */
V16_INLINE void dot_columns(enum kn_type type, __m256i dot[][2], int H, int T, const uint8_t *panel,
                            int s, int h, int half, struct act_at x)
{
    const int n = panel_halves(type) ? 4 : 8;

    start_dots(type, dot, T, x.start[h]);
#pragma GCC unroll 8
    for (int i = 0; i < n; i++) {
        /* both nibbles of a register, one after the other */
        const int j = n == 4 ? 4 * h + i : type == KN_Q8 ? i : i / 2 + i % 2 * 4;
        __m256i w[2];

#pragma GCC unroll 2
        for (int k = 0; k < H; k++) w[k] = columns(type, panel, s, half + k, j);
#pragma GCC unroll 4
        for (int t = 0; t < T; t++) {
            const __m256i four = four_columns(x.q + t * KN_GROUP + 4 * j);

#pragma GCC unroll 2
            for (int k = 0; k < H; k++) dot[t][k] = dot_four(type, dot[t][k], w[k], four);
            V8_KEEP(dot[t][0], dot[t][H - 1]);
            if (T > 1 || i % 4 == 3) V8_IN_ORDER();
        }
    }
}

/* Whether weights come from a table and have magnitudes or a third bit. */
V16_INLINE int needs_registers(enum kn_type type)
{
    return (is_signed(type) && type != KN_Q8) || type == KN_IQ1;
}

/* sums[t] + part h of group s of a panel times T tokens; a part, the group or a half of it, has its
 * own scale. */
V16_INLINE void add_part(enum kn_type type, float (*sums)[KN_PANEL], int T, const uint8_t *panel,
                         int s, int h, struct act_at x)
{
    const int H = (T > 2 && needs_registers(type)) || type == KN_IQ1 ? 1 : 2;

#pragma GCC unroll 2
    for (int half = 0; half < 2; half += H) {
        __m256i dot[PANEL_TOK][2];

        dot_columns(type, dot, H, T, panel, s, h, half, x);
#pragma GCC unroll 2
        for (int k = 0; k < H; k++) {
            const __m256 scale = panel_scales(type, panel, s, h, half + k);
            const __m256 min = panel_minima(type) ? panel_mins(type, panel, s, h, half + k) : scale;

            add_scaled(type, sums, 8 * (half + k), T, dot, k, scale, min, h, x);
        }
        __asm__ volatile("" : : : "memory"); /* the sums stay there */
    }
}

V16_INLINE void add_group(enum kn_type type, float (*sums)[KN_PANEL], int T, const uint8_t *panel,
                          int s, struct act_at x)
{
    add_part(type, sums, T, panel, s, 0, x);
    if (panel_halves(type)) add_part(type, sums, T, panel, s, 1, x);
}

V16_INLINE void tile_groups(enum kn_type type, int T, const struct panel_job *job, int R,
                            float (*sums)[KN_PANEL])
{
    const uint8_t *panels = job->panels;
    const ptrdiff_t jump = job->ahead - (ptrdiff_t)panels_bytes(type, (size_t)job->n_group);

    for (int g = 0; g < job->n_group; panels += panel_step(type, g++)) {
        const struct act_at x = act_in_tile(job->x + g, job->t0);
        const ptrdiff_t ahead =
            R == 1 || job->ahead == 0 ? job->ahead : panel_ahead(type, jump, g, job->n_group);

#pragma GCC unroll 1
        for (int r = 0; r < R; r++) {
            const uint8_t *panel = panels + (size_t)r * job->step;

            panel_prefetch(type, panel + ahead, g);
            add_group(type, sums + r * T, T, panel, g % panel_groups(type), x);
        }
    }
}

V16_INLINE void stream_groups(enum kn_type type, int P, const uint8_t *panels, size_t step,
                              int n_group, const struct kn_act *x, float (*sums)[KN_PANEL])
{
    for (int g = 0; g < n_group; panels += panel_step(type, g++)) {
        struct act_one one;
        const struct act_at at = act_of_token(type, x, g, &one);
        const ptrdiff_t ahead = panel_ahead(type, (P - 1) * (ptrdiff_t)step, g, n_group);

#pragma GCC unroll 4
        for (int p = 0; p < P; p++) {
            panel_prefetch_share(type, P, p, panels + ahead, step, g);
            add_group(type, sums + p, 1, panels + (size_t)p * step, g % panel_groups(type), at);
        }
    }
}

/* The loops over groups, apart: inside a larger function gcc keeps other things in registers. */
/* clang-format off */
#define V8_TYPES(X)                                                                               \
    X(KN_Q4) X(KN_Q8) X(KN_Q4A) X(KN_Q5A) X(KN_Q6) X(KN_IQ4) X(KN_MX4) X(KN_NV4) X(KN_IQ4S)        \
    X(KN_Q4S) X(KN_Q3S) X(KN_Q2S) X(KN_IQ3X) X(KN_IQ3S) X(KN_IQ2) X(KN_IQ1)
/* clang-format on */

#define V8_TILE_LOOP(T, type)                                                                    \
    V16_APART void tile_##T##_##type(const struct panel_job *job, int R, float(*sums)[KN_PANEL]) \
    {                                                                                            \
        tile_groups(type, T, job, R, sums);                                                      \
    }
#define V8_STREAM_LOOP(P, type)                                                         \
    V16_APART void stream_##P##_##type(const uint8_t *panels, size_t step, int n_group, \
                                       const struct kn_act *x, float(*sums)[KN_PANEL])  \
    {                                                                                   \
        stream_groups(type, P, panels, step, n_group, x, sums);                         \
    }
#define V8_LOOPS(type)      \
    V8_TILE_LOOP(2, type)   \
    V8_TILE_LOOP(4, type)   \
    V8_STREAM_LOOP(1, type) \
    V8_STREAM_LOOP(4, type)
V8_TYPES(V8_LOOPS)

/* Sums of T tokens, from y and back to it; the sums of tokens after n_tok are 0. */
V16_INLINE void load_sums(float (*sums)[KN_PANEL], int T, const float *y, size_t stride, int n_tok,
                          int n_row)
{
    for (int t = 0; t < T; t++)
        v16_store(sums[t], t < n_tok ? v16_load_n(y + (size_t)t * stride, n_row) : v16_zero());
}

V16_INLINE void store_sums(const float (*sums)[KN_PANEL], float *y, size_t stride, int n_tok,
                           int n_row)
{
    for (int t = 0; t < n_tok; t++) v16_store_n(y + (size_t)t * stride, v16_load(sums[t]), n_row);
}

#define V8_TILE(type) \
    case type: (T == 2 ? tile_2_##type : tile_4_##type)(job, R, sums); break;

V16_INLINE void panel_tile(enum kn_type type, int R, int T, const struct panel_job *job)
{
    _Alignas(32) float sums[PANEL_ROWS * PANEL_WIDE][KN_PANEL];
    const int n_row = R == 1 ? job->n_row : KN_PANEL;

    for (int r = 0; r < R; r++)
        load_sums(sums + r * T, T, job->y + r * KN_PANEL, job->stride, job->first ? 0 : job->n_tok,
                  n_row);
    switch (type) {
        V8_TYPES(V8_TILE)
    default: break;
    }
    for (int r = 0; r < R; r++)
        store_sums(sums + r * T, job->y + r * KN_PANEL, job->stride, job->n_tok, n_row);
}

#define V8_STREAM(type) \
    case type: (P == 1 ? stream_1_##type : stream_4_##type)(panels, step, n_group, x, sums); break;

V16_INLINE void panel_stream(enum kn_type type, int P, const uint8_t *panels, size_t step,
                             int n_group, const struct kn_act *x, float *y, int n_row)
{
    _Alignas(32) float sums[PANEL_STREAMS][KN_PANEL] = {{0}};

    switch (type) {
        V8_TYPES(V8_STREAM)
    default: break;
    }
    for (int p = 0; p < P; p++) v16_store_n(y + p * KN_PANEL, v16_load(sums[p]), n_row);
}

#include "kernels/cpu/v8_many.h"

#endif
