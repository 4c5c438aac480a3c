/* Products with float weights, and the retaining head, over v16, see v16.h.
 *
 * Every sum over columns is one v16 of partial sums, 16 columns apart, folded at the end: the
 * shape of the register tile never shows in the result. */
#ifndef RETAIN_KERNELS_CPU_V16_MATMUL_H
#define RETAIN_KERNELS_CPU_V16_MATMUL_H

#include "kernels/cpu/v16.h"

#include <string.h>

/* Tokens of which x takes at most this much run against all rows before the next ones, so that
 * they stay in the second-level cache. */
#define ACT_BLOCK_BYTES (256 << 10)

/* A product of the rows [row0, row1) with its results at y[t * y_stride + r - row0]. */
typedef void matmul_range(const struct kn_matmul *job, float *y);

V16_INLINE v16 weight_load(enum kn_type type, const void *row, size_t k)
{
    if (type == KN_F32) return v16_load((const float *)row + k);
    if (type == KN_F16) return v16_load_half((const uint16_t *)row + k);
    return v16_load_bf16((const uint16_t *)row + k);
}

V16_INLINE v16 weight_load_n(enum kn_type type, const void *row, size_t k, int n)
{
    uint16_t full[16] = {0};

    if (type == KN_F32) return v16_load_n((const float *)row + k, n);
    memcpy(full, (const uint16_t *)row + k, (size_t)n * sizeof *full);
    return weight_load(type, full, 0);
}

/* The register tile: rows w[R] times tokens x, x + n_in, …; y[t * stride + r] for r < n_row. */
V16_INLINE void dot_tile(enum kn_type type, int R, int T, const uint8_t *const *w, const float *x,
                         size_t n_in, float *y, size_t stride, int n_row)
{
    v16 acc[16];
    size_t k = 0;

#pragma GCC unroll 16
    for (int i = 0; i < R * T; i++) acc[i] = v16_zero();
    for (; k + 16 <= n_in; k += 16) {
#pragma GCC unroll 8
        for (int r = 0; r < R; r++) {
            const v16 a = weight_load(type, w[r], k);
#pragma GCC unroll 8
            for (int t = 0; t < T; t++)
                acc[r * T + t] = v16_fma(a, v16_load(x + (size_t)t * n_in + k), acc[r * T + t]);
        }
    }
    const int rest = (int)(n_in - k);
    if (rest > 0) {
#pragma GCC unroll 8
        for (int r = 0; r < R; r++) {
            const v16 a = weight_load_n(type, w[r], k, rest);
#pragma GCC unroll 8
            for (int t = 0; t < T; t++) {
                const v16 b = v16_load_n(x + (size_t)t * n_in + k, rest);
                acc[r * T + t] = v16_fma(a, b, acc[r * T + t]);
            }
        }
    }
#pragma GCC unroll 8
    for (int r = 0; r < R; r++) {
#pragma GCC unroll 8
        for (int t = 0; t < T; t++)
            if (r < n_row) y[(size_t)t * stride + (size_t)r] = v16_sum(acc[r * T + t]);
    }
}

/* R rows from row r against tokens [t0, t1), T at a time. Rows past the range repeat the last. */
V16_INLINE void dot_rows(enum kn_type type, int R, int T, const struct kn_matmul *job, int r,
                         int t0, int t1, float *y)
{
    const size_t n_in = (size_t)job->w->n_in;
    const size_t row_bytes = n_in * (type == KN_F32 ? sizeof(float) : sizeof(uint16_t));
    const int n_row = job->row1 - r < R ? job->row1 - r : R;
    const uint8_t *w[8];

    for (int i = 0; i < R; i++)
        w[i] =
            (const uint8_t *)job->w->data + (size_t)(r + (i < n_row ? i : n_row - 1)) * row_bytes;
    for (int t = t0; t < t1; t += T)
        dot_tile(type, R, T, w, job->x->x + (size_t)t * n_in, n_in,
                 y + (size_t)t * job->y_stride + (size_t)(r - job->row0), job->y_stride, n_row);
}

V16_INLINE void matmul_float(enum kn_type type, const struct kn_matmul *job, float *y)
{
    const int fit = (int)(ACT_BLOCK_BYTES / ((size_t)job->w->n_in * sizeof(float)));
    const int block = fit < V16_DOT_TOK ? V16_DOT_TOK : fit - fit % V16_DOT_TOK;

    for (int t0 = 0; t0 < job->n_tok; t0 += block) {
        const int t1 = t0 + block < job->n_tok ? t0 + block : job->n_tok;
        const int tiled = t1 - (t1 - t0) % V16_DOT_TOK;

        if (tiled > t0)
            for (int r = job->row0; r < job->row1; r += V16_DOT_ROWS)
                dot_rows(type, V16_DOT_ROWS, V16_DOT_TOK, job, r, t0, tiled, y);
        if (tiled < t1)
            for (int r = job->row0; r < job->row1; r += V16_DOT_CHAINS)
                dot_rows(type, V16_DOT_CHAINS, 1, job, r, tiled, t1, y);
    }
}

static inline void matmul_f32_v16(const struct kn_matmul *job, float *y)
{
    matmul_float(KN_F32, job, y);
}

static inline void matmul_f16_v16(const struct kn_matmul *job, float *y)
{
    matmul_float(KN_F16, job, y);
}

static inline void matmul_bf16_v16(const struct kn_matmul *job, float *y)
{
    matmul_float(KN_BF16, job, y);
}

/* ---- retaining head ------------------------------------------------------------------------- */

enum { SCORE_TOK = 64, SCORE_HIDDEN = 128 }; /* hidden tile: 32 KB of stack */

V16_INLINE float score_dot(const float *w2, const float *hidden, int n)
{
    v16 acc = v16_zero();
    int j = 0;

    for (; j + 16 <= n; j += 16) acc = v16_fma(v16_load(w2 + j), v16_load(hidden + j), acc);
    if (j < n) acc = v16_fma(v16_load_n(w2 + j, n - j), v16_load_n(hidden + j, n - j), acc);
    return v16_sum(acc);
}

/* Second layer: adds what the hidden units [j0, j0 + n) say about n_tok tokens to out. */
static inline void score_tile(const struct kn_score *job, float *hidden, int j0, int n, int n_tok,
                              float *out)
{
    const size_t n_hidden = (size_t)job->w1->n_out;

    for (int t = 0; t < n_tok; t++, hidden += SCORE_HIDDEN, out += job->n_head) {
        for (int j = 0; j < n; j += 16) /* the tile is a multiple of 16 wide */
            v16_store(hidden + j, v16_silu(v16_load(hidden + j)));
        for (int h = 0; h < job->n_head; h++)
            out[h] += score_dot(job->w2 + (size_t)h * n_hidden + (size_t)j0, hidden, n);
    }
}

static inline void score_v16(const struct kn_score *job, matmul_range *matmul_q8)
{
    const size_t n_in = (size_t)job->w1->n_in, n_group = n_in / KN_GROUP;
    matmul_range *const matmul = job->w1->type == KN_Q8 ? matmul_q8 : matmul_f32_v16;
    _Alignas(64) float hidden[SCORE_TOK * SCORE_HIDDEN];

    memset(job->out, 0, (size_t)job->n_tok * (size_t)job->n_head * sizeof *job->out);
    for (int t0 = 0; t0 < job->n_tok; t0 += SCORE_TOK) {
        const size_t t = (size_t)t0;
        const struct kn_act x = {
            .n_in = job->x->n_in,
            .x = job->x->x ? job->x->x + t * n_in : NULL,
            .q = job->x->q ? job->x->q + t * n_in : NULL,
            .d = job->x->d ? job->x->d + t * n_group : NULL,
            .sum = job->x->sum ? job->x->sum + t * n_group : NULL,
        };
        const int n_tok = job->n_tok - t0 < SCORE_TOK ? job->n_tok - t0 : SCORE_TOK;

        for (int j = 0; j < job->w1->n_out; j += SCORE_HIDDEN) {
            const int left = job->w1->n_out - j, n = left < SCORE_HIDDEN ? left : SCORE_HIDDEN;
            const struct kn_matmul layer1 = {
                .w = job->w1,
                .x = &x,
                .n_tok = n_tok,
                .row0 = j,
                .row1 = j + n,
                .y_stride = SCORE_HIDDEN,
            };
            if (n % 16) memset(hidden, 0, sizeof hidden); /* behind the last unit */
            matmul(&layer1, hidden);
            score_tile(job, hidden, j, n, n_tok, job->out + t * (size_t)job->n_head);
        }
    }
}

#endif
