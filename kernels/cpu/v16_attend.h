/* Attention over cache units, fused: dequantization, RoPE by slot, Q K^T, online softmax, P V.
 *
 * Slots are processed in tiles of 64, a tile in bands of 32. The rotation of a key is split:
 * within its band a key is rotated by its place 0..31, and the query is rotated back by the
 * band's first slot, so that only rows 0..32 of the rope table, and one row per query and tile,
 * are ever read.
 *
 * A band's keys are transposed to columns (v16s of one number of a head: lane = slot), so that the
 * logits of 16 slots are one chain of FMAs without a horizontal sum. Values stay rows.
 *
 * Each number is a chain of operations that is the same for every n_tok and slot1: slots that are
 * invisible to a token add exact zeros. */
#ifndef RETAIN_KERNELS_CPU_V16_ATTEND_H
#define RETAIN_KERNELS_CPU_V16_ATTEND_H

#include "kernels/cpu/v16.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum {
    BAND = 32,
    BANDS = KN_TILE / BAND,
    ROWS = 8, /* rows (a token's query in one head) per pass over a tile */
    DIM_MAX = KN_HEAD_DIM_MAX,
    GROUPS_MAX = DIM_MAX / KN_GROUP,
};

/* The stack memory of a call. The largest arrays are only as long as head_dim needs, because
 * protected stacks are touched page by page. */
struct attend_tile {
    float *k;                                   /* [band][dim][32], rotated in the band */
    float *v;                                   /* [slot][v_stride] */
    _Alignas(64) float cos[DIM_MAX / 2 * BAND]; /* [dim / 2][32]: for the places in a band */
    float sin[DIM_MAX / 2 * BAND];
    uint32_t raw[DIM_MAX / 2 * 16]; /* 16 units as columns of dwords */
    float base[ROWS * DIM_MAX];     /* [row][dim]: queries rotated to the tile's first slot */
    float rotated[ROWS * DIM_MAX];  /* [row][dim]: rotated to a band's first slot */
    float p[ROWS * KN_TILE];        /* [row][slot]: logits, then their exponentials */
    float keep[ROWS];               /* factor of the old sums after a new maximum */
    int v_stride;                   /* head_dim rounded up to whole v16s */
};

/* ---- keys ----------------------------------------------------------------------------------- */

/* out[i * step + r] = dword i of row r, for 16 rows of n_dword dwords, `stride` bytes apart; only
 * n_row rows exist. out holds dwords. */
static inline void load_columns(void *out, int step, const void *rows, size_t stride, int n_dword,
                                int n_row)
{
    uint8_t padded[16 * DIM_MAX * sizeof(float)];
    const uint8_t *base = rows;

    if (n_row < 16) { /* rows beyond the end must not be read */
        memset(padded, 0, 16 * stride);
        if (n_row > 0) memcpy(padded, rows, (size_t)n_row * stride);
        base = padded;
    }
    for (int i = 0; i < n_dword; i += 4) {
        const int at = i + 4 <= n_dword ? i : n_dword - 4; /* the last block may overlap */
        v16i column[4];

        v16_load_columns(column, base + 4 * (size_t)at, stride);
        for (int c = 0; c < 4; c++)
            v16i_store((uint32_t *)out + (size_t)((at + c) * step), column[c]);
    }
}

static inline v16 half_column(const uint32_t *raw, int byte)
{
    return v16i_half(v16i_load(raw + byte / 4 * 16), byte % 4 ? 16 : 0);
}

static inline void expand_f16(float *k, const uint32_t *raw, int head_dim)
{
    for (int i = 0; i < head_dim; i++) v16_store(k + i * BAND, half_column(raw, 2 * i));
}

V16_INLINE v16 from_centre(v16 x, const struct kn_centre *centre, int c)
{
    return v16_fma(x, v16_set1(centre->scale[c]), v16_set1(centre->mean[c]));
}

/* Q8, or S5 that is widened to it if there is a centre. */
V16_INLINE void expand_q8(float *k, const uint32_t *raw, const struct kn_centre *centre,
                          int head_dim)
{
    for (int g = 0; g < head_dim / KN_GROUP; g++) {
        const int at = g * (int)sizeof(struct kn_kv_q8);
        const v16 d = half_column(raw, at);

        for (int i = 0; i < KN_GROUP; i++, k += BAND) {
            const int byte = at + 2 + i, c = g * KN_GROUP + i;
            const v16i four = v16i_load(raw + byte / 4 * 16);
            const v16 x = v16_mul(v16i_byte(four, (unsigned)(byte % 4) * 8), d);
            v16_store(k, centre ? from_centre(x, centre, c) : x);
        }
    }
}

/* d and m of a group of Q4: x = q d + m. */
struct affine {
    v16 d, m;
};

/* both: the halves of two groups, of which `group` is one. */
V16_INLINE struct affine affine_of(v16i both, int group)
{
    const unsigned at = (unsigned)group % 2 * 16;
    const v16 d = v16i_half(both, at), z = v16i_seven(both, at);
    return (struct affine){d, v16_mul(v16_mul(z, v16_set1(-0.125f)), d)};
}

/* Of the group in columns of 16 units. */
V16_INLINE struct affine affine_in(const uint32_t *raw, int group, int n_group)
{
    return affine_of(v16i_load(raw + (n_group * 4 + group / 2) * 16), group);
}

/* The number of channel c, with the centre if there is one. */
V16_INLINE v16 number_of(v16 q, struct affine a, const struct kn_centre *centre, int c)
{
    const v16 x = v16_fma(q, a.d, a.m);
    return centre ? from_centre(x, centre, c) : x;
}

/* Q4, or S4 if there is a centre. */
V16_INLINE void expand_q4(float *k, const uint32_t *raw, const struct kn_centre *centre,
                          int head_dim)
{
    for (int g = 0; g < head_dim / KN_GROUP; g++) {
        const struct affine a = affine_in(raw, g, head_dim / KN_GROUP);

        for (int i = 0; i < KN_GROUP; i++, k += BAND) {
            const v16i four = v16i_load(raw + (4 * g + i % 16 / 4) * 16);
            const v16 q = v16i_nibble(four, (unsigned)(i % 4 * 8 + i / 16 * 4));
            v16_store(k, number_of(q, a, centre, g * KN_GROUP + i));
        }
    }
}

/* The key of position 0 in the first column: at place 0 it is not rotated. */
static inline void lift_first(float *k, const struct kn_centre *centre, int head_dim)
{
    for (int i = 0; i < head_dim; i++) k[i * BAND] += centre->first[i] - centre->mean[i];
}

V16_INLINE void store_rotated(float *k, int half, v16 x, v16 y, const float *cos, const float *sin)
{
    const v16 c = v16_load(cos), s = v16_load(sin);

    v16_store(k, v16_fnma(y, s, v16_mul(x, c)));
    v16_store(k + half * BAND, v16_fma(x, s, v16_mul(y, c)));
}

/* Rotates the columns of 16 slots by their places in the band. */
static inline void rotate_columns(float *k, const float *cos, const float *sin, int head_dim)
{
    const int half = head_dim / 2;

    for (int i = 0; i < half; i++, k += BAND, cos += BAND, sin += BAND)
        store_rotated(k, half, v16_load(k), v16_load(k + half * BAND), cos, sin);
}

/* expand_q4 and rotate_columns in one pass, if the numbers of RoPE pairs have the same place in two
 * groups: head_dim a multiple of 64. */
V16_INLINE void expand_q4_rotated(float *k, const uint32_t *raw, const struct kn_centre *centre,
                                  const float *cos, const float *sin, int head_dim)
{
    const int half = head_dim / 2, apart = half / KN_GROUP;

    for (int c = 0; c < half;) {
        const int g = c / KN_GROUP, high = c % KN_GROUP / 16 * 4;
        const struct affine ax = affine_in(raw, g, 2 * apart),
                            ay = affine_in(raw, g + apart, 2 * apart);

        for (int j = 0; j < 4; j++) { /* 4 numbers: a nibble each of 4 bytes */
            const v16i x = v16i_shift(v16i_load(raw + (4 * g + j) * 16), high);
            const v16i y = v16i_shift(v16i_load(raw + (4 * (g + apart) + j) * 16), high);

#pragma GCC unroll 4
            for (unsigned b = 0; b < 4; b++, c++, k += BAND, cos += BAND, sin += BAND)
                store_rotated(k, half, number_of(v16i_nibble(x, 8 * b), ax, centre, c),
                              number_of(v16i_nibble(y, 8 * b), ay, centre, c + half), cos, sin);
        }
    }
}

/* The keys of 16 slots, 4 bits each, which are in tile->raw. */
V16_INLINE void expand_4_bits(float *k, const struct attend_tile *tile,
                              const struct kn_centre *centre, const float *cos, const float *sin,
                              int dim)
{
    if (dim % 64 == 0) {
        expand_q4_rotated(k, tile->raw, centre, cos, sin, dim);
        return;
    }
    expand_q4(k, tile->raw, centre, dim);
    rotate_columns(k, cos, sin, dim);
}

static inline bool is_q5(enum kn_kv type)
{
    return type == KN_KV_Q5 || type == KN_KV_S5;
}

/* raw = the dwords of n_row <= 16 units of Q5 or S5, widened to Q8. */
static inline void load_wide(uint32_t *raw, const uint8_t *rows, int n_row, int dim)
{
    const size_t narrow = kn_kv_bytes(KN_KV_Q5, dim), stride = kn_kv_bytes(KN_KV_Q8, dim);
    uint8_t wide[16 * GROUPS_MAX * sizeof(struct kn_kv_q8)];

    for (int r = 0; r < n_row; r++)
        for (int g = 0; g < dim / KN_GROUP; g++)
            widen_q5((struct kn_kv_q8 *)(wide + (size_t)r * stride) + g, rows + (size_t)r * narrow,
                     g, dim / KN_GROUP);
    load_columns(raw, 16, wide, stride, (int)(stride / 4), n_row);
}

/* Fills k with the keys of the band at slot p0; only slots below slot1 exist. */
static inline void load_keys(float *k, struct attend_tile *tile, const struct kn_attend *job,
                             int p0, int slot1)
{
    const int dim = job->head_dim;
    const size_t stride = kn_kv_bytes(job->k_type, dim);
    const uint8_t *rows = (const uint8_t *)job->k + (size_t)p0 * stride;

    for (int i = 0; i < BAND && p0 + i < slot1; i += 16, k += 16, rows += 16 * stride) {
        const int n_row = slot1 - p0 - i < 16 ? slot1 - p0 - i : 16;
        const float *cos = tile->cos + i, *sin = tile->sin + i;

        if (job->k_type == KN_KV_F32)
            load_columns(k, BAND, rows, stride, dim, n_row);
        else if (is_q5(job->k_type))
            load_wide(tile->raw, rows, n_row, dim);
        else
            load_columns(tile->raw, 16, rows, stride, (int)(stride / 4), n_row);
        if (job->k_type == KN_KV_S4) {
            const struct kn_centre centre = *job->centre;
            expand_4_bits(k, tile, &centre, cos, sin, dim);
            if (job->first && p0 + i == 0) lift_first(k, &centre, dim);
            continue;
        }
        if (job->k_type == KN_KV_Q4) {
            expand_4_bits(k, tile, NULL, cos, sin, dim);
            continue;
        }
        if (job->k_type == KN_KV_S5) {
            const struct kn_centre centre = *job->centre;
            expand_q8(k, tile->raw, &centre, dim);
        } else if (job->k_type == KN_KV_Q8 || job->k_type == KN_KV_Q5) {
            expand_q8(k, tile->raw, NULL, dim);
        } else if (job->k_type == KN_KV_F16) {
            expand_f16(k, tile->raw, dim);
        }
        rotate_columns(k, cos, sin, dim);
        if (job->k_type == KN_KV_S5 && job->first && p0 + i == 0) lift_first(k, job->centre, dim);
    }
}

/* ---- values --------------------------------------------------------------------------------- */

static inline void load_values(struct attend_tile *tile, const struct kn_attend *job, int p0,
                               int n_slot)
{
    const int dim = job->head_dim;
    const size_t stride = kn_kv_bytes(job->v_type, dim);
    const uint8_t *src = (const uint8_t *)job->v + (size_t)p0 * stride;
    float *v = tile->v;

    for (int s = 0; s < n_slot; s++, src += stride, v += tile->v_stride) {
        if (job->v_type == KN_KV_Q4)
            kv_unpack_q4_v16(v, src, dim);
        else if (job->v_type == KN_KV_Q8)
            kv_unpack_q8_v16(v, src, dim);
        else if (is_q5(job->v_type))
            kv_unpack_q5_v16(v, src, dim);
        else if (job->v_type == KN_KV_F16)
            kv_unpack_f16_v16(v, src, dim);
        else
            memcpy(v, src, (size_t)dim * sizeof *v);
    }
}

/* ---- queries -------------------------------------------------------------------------------- */

/* Rotates n numbers a and their partners b by the angles of n numbers of a rope row. */
V16_INLINE void rotate(float *a_out, float *b_out, v16 a, v16 b, v16 cos, v16 sin, int n)
{
    const v16 x = v16_fnma(b, sin, v16_mul(a, cos)), y = v16_fma(a, sin, v16_mul(b, cos));

    if (n >= 16) {
        v16_store(a_out, x);
        v16_store(b_out, y);
    } else {
        v16_store_n(a_out, x, n);
        v16_store_n(b_out, y, n);
    }
}

V16_INLINE v16 load_upto16(const float *p, int n)
{
    return n >= 16 ? v16_load(p) : v16_load_n(p, n);
}

/* Row r of the job: group r % n_group of token r / n_group. */
static inline const float *query_of(const struct kn_attend *job, int r)
{
    const int t = r / job->n_group, g = r % job->n_group;
    return job->q + (size_t)t * job->q_stride + (size_t)(g * job->head_dim);
}

/* base = row r, scaled and rotated to slot p0. */
static inline void rotate_query(float *base, const struct kn_attend *job, int r, int p0)
{
    const int half = job->head_dim / 2;
    const float *q = query_of(job, r);
    const int past =
        job->pos0 + r / job->n_group - p0; /* < 0: no slot of the tile is visible to this token */
    const size_t at = (size_t)(past > 0 ? past : 0) * (size_t)half;
    const v16 scale = v16_set1(job->scale);

    for (int i = 0; i < half; i += 16) {
        const int n = half - i;
        const v16 a = v16_mul(load_upto16(q + i, n), scale);
        const v16 b = v16_mul(load_upto16(q + half + i, n), scale);

        rotate(base + i, base + half + i, a, b, load_upto16(job->rope->cos + at + i, n),
               load_upto16(job->rope->sin + at + i, n), n);
    }
}

/* tile->rotated = tile->base, rotated back by `back` slots. */
static inline void rotate_back(struct attend_tile *tile, const struct kn_attend *job, int n_row,
                               int back)
{
    const int dim = job->head_dim, half = dim / 2;
    const float *cos = job->rope->cos + back * half, *sin = job->rope->sin + back * half;

    for (int i = 0; i < half; i += 16) {
        const int n = half - i;
        const v16 c = load_upto16(cos + i, n);
        const v16 s = v16_sub(v16_zero(), load_upto16(sin + i, n));

        for (int r = 0; r < n_row; r++) {
            const float *a = tile->base + r * dim + i;
            float *out = tile->rotated + r * dim + i;

            rotate(out, out + half, load_upto16(a, n), load_upto16(a + half, n), c, s, n);
        }
    }
}

/* ---- Q K^T ---------------------------------------------------------------------------------- */

/* R rows against a band: p[r][32]. q: [row][dim], k: [dim][32]. */
V16_INLINE void logit_tile(int R, float *p, const float *q, const float *k, int dim)
{
    v16 acc[2 * V16_QK_ROWS];

#pragma GCC unroll 8
    for (int r = 0; r < R; r++) acc[2 * r] = acc[2 * r + 1] = v16_zero();
    for (int d = 0; d < dim; d++, k += BAND) {
        const v16 a = v16_load(k), b = v16_load(k + 16);

#pragma GCC unroll 8
        for (int r = 0; r < R; r++) {
            const v16 x = v16_set1(q[r * dim + d]);
            acc[2 * r] = v16_fma(x, a, acc[2 * r]);
            acc[2 * r + 1] = v16_fma(x, b, acc[2 * r + 1]);
        }
    }
#pragma GCC unroll 8
    for (int r = 0; r < R; r++) {
        v16_store(p + r * KN_TILE, acc[2 * r]);
        v16_store(p + r * KN_TILE + 16, acc[2 * r + 1]);
    }
}

static inline void logits(float *p, const float *q, const float *k, int n_row, int dim)
{
    int r = 0;

    for (; r + V16_QK_ROWS <= n_row; r += V16_QK_ROWS)
        logit_tile(V16_QK_ROWS, p + r * KN_TILE, q + r * dim, k, dim);
    for (; r + V16_QK_ROWS / 2 <= n_row; r += V16_QK_ROWS / 2)
        logit_tile(V16_QK_ROWS / 2, p + r * KN_TILE, q + r * dim, k, dim);
    for (; r < n_row; r++) logit_tile(1, p + r * KN_TILE, q + r * dim, k, dim);
}

/* ---- softmax -------------------------------------------------------------------------------- */

/* Number of slots of the tile at p0 that are visible to row r of the job: 0..64. */
static inline int visible(const struct kn_attend *job, int r, int p0)
{
    const int end = job->pos0 + r / job->n_group + 1;
    const int n = (end < job->slot1 ? end : job->slot1) - p0;
    return n < 0 ? 0 : n < KN_TILE ? n : KN_TILE;
}

/* Number of the tile's first slots that are before the window of row r. */
static inline int outside(const struct kn_attend *job, int r, int p0)
{
    const int n = job->pos0 + r / job->n_group + 1 - job->window - p0;
    return job->window && n > 0 ? n : 0;
}

/* The first so many of the rows have windows that reach the tile at p0. */
static inline int rows_in_reach(const struct kn_attend *job, int rows, int p0)
{
    const int n = (p0 + KN_TILE - 1 + job->window - job->pos0) * job->n_group;
    return !job->window || n >= rows ? rows : n < 0 ? 0 : n;
}

/* The first tile that row r and later ones see. */
static inline int first_tile(const struct kn_attend *job, int r)
{
    const int p0 = outside(job, r, 0) / KN_TILE * KN_TILE;
    return p0 > job->slot0 ? p0 : job->slot0;
}

/* Rows [r0, r0 + n_row): slots outside a row's window get a logit that counts for nothing. */
static inline void hide_outside(float *p, const struct kn_attend *job, int r0, int n_row, int p0)
{
    for (int r = 0; r < n_row; r++) {
        const int n = outside(job, r0 + r, p0);
        for (int s = 0; s < n && s < KN_TILE; s++) p[r * KN_TILE + s] = -INFINITY;
    }
}

/* Converts the logits of n_lane slots, a multiple of 16, to exponentials, of which the first n_slot
 * count, and updates the running maximum and sum. Returns the factor for sums under the old
 * maximum. */
static inline float online_softmax(float *p, int n_slot, int n_lane, float *m, float *l)
{
    v16 top = v16_set1(-INFINITY), sum = v16_zero();

    if (n_slot == 0) {
        memset(p, 0, (size_t)n_lane * sizeof *p);
        return 1.0f;
    }
    for (int i = 0; i < n_lane; i += 16) {
        if (i + 16 > n_slot)
            v16_store(p + i, v16_keep_n(v16_load(p + i), n_slot - i, v16_set1(-INFINITY)));
        top = v16_max(top, v16_load(p + i));
    }
    const float tile_max = v16_top(top), max = tile_max > *m ? tile_max : *m;
    for (int i = 0; i < n_lane; i += 16) {
        const v16 e = v16_exp(v16_sub(v16_load(p + i), v16_set1(max)));
        v16_store(p + i, e);
        sum = v16_add(sum, e);
    }
    const float keep = *m == max ? 1.0f : *m == -INFINITY ? 0.0f : expf(*m - max);
    *m = max;
    *l = *l * keep + v16_sum(sum);
    return keep;
}

/* ---- P V ------------------------------------------------------------------------------------ */

/* R rows by W v16s of head_dim: acc[r * dim + ..] = acc * keep[r] + sum over slots of p v. If W is
 * 1, only the first n numbers exist. */
V16_INLINE void value_tile(int R, int W, float *acc, const float *p, const float *keep,
                           const float *v, size_t v_stride, int n_slot, int dim, int n)
{
    v16 sum[16];

#pragma GCC unroll 4
    for (int r = 0; r < R; r++)
#pragma GCC unroll 4
        for (int w = 0; w < W; w++) {
            const float *at = acc + r * dim + 16 * w;
            sum[r * W + w] = v16_mul(W == 1 ? v16_load_n(at, n) : v16_load(at), v16_set1(keep[r]));
        }
    for (int s = 0; s < n_slot; s++, v += v_stride) {
        v16 x[4];

#pragma GCC unroll 4
        for (int w = 0; w < W; w++) x[w] = v16_load(v + 16 * w);
#pragma GCC unroll 4
        for (int r = 0; r < R; r++) {
            const v16 weight = v16_set1(p[r * KN_TILE + s]);
#pragma GCC unroll 4
            for (int w = 0; w < W; w++) sum[r * W + w] = v16_fma(weight, x[w], sum[r * W + w]);
        }
    }
#pragma GCC unroll 4
    for (int r = 0; r < R; r++)
#pragma GCC unroll 4
        for (int w = 0; w < W; w++) {
            float *at = acc + r * dim + 16 * w;
            if (W == 1)
                v16_store_n(at, sum[r * W + w], n);
            else
                v16_store(at, sum[r * W + w]);
        }
}

V16_INLINE void value_rows(int R, const struct attend_tile *tile, float *acc, int r0, int n_slot,
                           int dim)
{
    enum { WIDE = 16 * V16_PV_WIDE };
    const float *p = tile->p + r0 * KN_TILE, *keep = tile->keep + r0;
    const size_t stride = (size_t)tile->v_stride;
    int d = 0;

    acc += r0 * dim;
    for (; d + WIDE <= dim; d += WIDE)
        value_tile(R, V16_PV_WIDE, acc + d, p, keep, tile->v + d, stride, n_slot, dim, 16);
    for (; d < dim; d += 16)
        value_tile(R, 1, acc + d, p, keep, tile->v + d, stride, n_slot, dim, dim - d);
}

static inline void values(const struct attend_tile *tile, float *acc, int n_row, int n_slot,
                          int dim)
{
    int r = 0;

    for (; r + 4 <= n_row; r += 4) value_rows(4, tile, acc, r, n_slot, dim);
    for (; r + 2 <= n_row; r += 2) value_rows(2, tile, acc, r, n_slot, dim);
    if (r < n_row) value_rows(1, tile, acc, r, n_slot, dim);
}

/* ---- all tiles ------------------------------------------------------------------------------ */

/* No slot was seen yet. */
static inline void clear_sums(const struct kn_attend *job)
{
    const size_t rows = (size_t)job->n_tok * (size_t)job->n_group;

    for (size_t r = 0; r < rows; r++) {
        job->m[r] = -INFINITY;
        job->l[r] = 0.0f;
    }
    memset(job->acc, 0, rows * (size_t)job->head_dim * sizeof *job->acc);
}

static inline void attend_init(struct attend_tile *tile, const struct kn_attend *job)
{
    const int half = job->head_dim / 2, n_pos = job->rope->n_pos;
    const size_t stride = (size_t)half * sizeof(float);

    clear_sums(job);
    for (int i = 0; i < BAND && i < n_pos; i += 16) {
        const int n_row = n_pos - i < 16 ? n_pos - i : 16;
        load_columns(tile->cos + i, BAND, job->rope->cos + i * half, stride, half, n_row);
        load_columns(tile->sin + i, BAND, job->rope->sin + i * half, stride, half, n_row);
    }
}

/* Computes rows [r0, r0 + n_row) of the job with the tile at p0. Keys that are not loaded yet are
 * loaded band by band into the first band, to use less of the first-level cache. */
static inline void attend_rows(struct attend_tile *tile, const struct kn_attend *job, int r0,
                               int n_row, int p0, int loaded)
{
    const int dim = job->head_dim, n_slot = visible(job, r0 + n_row - 1, p0);

    if (n_slot == 0) return; /* rows are in token order: no earlier row sees more */
    for (int r = 0; r < n_row; r++) rotate_query(tile->base + r * dim, job, r0 + r, p0);
    for (int at = 0; at < n_slot; at += BAND) {
        float *k = tile->k + (loaded ? at * dim : 0);

        if (!loaded) load_keys(k, tile, job, p0 + at, p0 + n_slot);
        if (at > 0) rotate_back(tile, job, n_row, at);
        logits(tile->p + at, at > 0 ? tile->rotated : tile->base, k, n_row, dim);
    }
    const int n_lane = (n_slot + 15) / 16 * 16;
    for (int i = 0; job->softcap > 0.0f && i < n_row * KN_TILE; i += 16)
        if (i % KN_TILE < n_lane)
            v16_store(tile->p + i, v16_softcap(v16_load(tile->p + i), job->softcap));
    if (job->window) hide_outside(tile->p, job, r0, n_row, p0);
    for (int r = 0; r < n_row; r++)
        tile->keep[r] = online_softmax(tile->p + r * KN_TILE, visible(job, r0 + r, p0), n_lane,
                                       job->m + r0 + r, job->l + r0 + r);
    values(tile, job->acc + (size_t)r0 * (size_t)dim, n_row, n_slot, dim);
}

static inline void attend_tiles(const struct kn_attend *job)
{
    const int rows = job->n_tok * job->n_group, last = job->pos0 + job->n_tok;
    const int end = last < job->slot1 ? last : job->slot1, dim = job->head_dim;

    assert(dim > 0 && dim <= KN_HEAD_DIM_MAX && job->slot0 % KN_TILE == 0);
    const int v_stride = (dim + 15) / 16 * 16;
    v16 k[BANDS * dim * BAND / 16], v[KN_TILE * v_stride / 16];
    struct attend_tile tile;
    tile.k = (float *)(void *)k;
    tile.v = (float *)(void *)v;
    tile.v_stride = v_stride;
    attend_init(&tile, job);
    for (int p0 = first_tile(job, 0); p0 < end; p0 += KN_TILE) {
        const int n_slot = end - p0 < KN_TILE ? end - p0 : KN_TILE,
                  reach = rows_in_reach(job, rows, p0);

        load_values(&tile, job, p0, n_slot);
        for (int at = 0; rows > ROWS && at < n_slot; at += BAND)
            load_keys(tile.k + at * dim, &tile, job, p0 + at, p0 + n_slot);
        for (int r = 0; r < reach; r += ROWS)
            attend_rows(&tile, job, r, reach - r < ROWS ? reach - r : ROWS, p0, rows > ROWS);
    }
}

static inline void attend_float_v16(const struct kn_attend *job)
{
    if (job->head_dim < 8) /* a row is shorter than the 16 bytes that a load takes */
        kn_attend_ref(job);
    else
        attend_tiles(job);
}

#endif
