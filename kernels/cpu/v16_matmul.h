/* Products with float weights over v16, see v16.h.
 *
 * Every sum over columns is one v16 of partial sums, 16 columns apart, added at the end: the shape
 * of the register tile never changes the result. */
#ifndef RETAIN_KERNELS_CPU_V16_MATMUL_H
#define RETAIN_KERNELS_CPU_V16_MATMUL_H

#include "kernels/cpu/v16.h"

#include <string.h>

/* Tokens whose x takes at most this much are computed with all rows before the next tokens, so that
 * x stays in the second-level cache. */
#define ACT_BLOCK_BYTES (256 << 10)

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

/* Computes R rows from row r with tokens [t0, t1), T at a time. Rows past the range repeat the
 * last. */
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

#define FLOAT_ENTRY(name, type)                          \
    static inline void name(const struct kn_matmul *job) \
    {                                                    \
        matmul_float(type, job, job->y + job->row0);     \
    }
FLOAT_ENTRY(matmul_f32_v16, KN_F32)
FLOAT_ENTRY(matmul_f16_v16, KN_F16)
FLOAT_ENTRY(matmul_bf16_v16, KN_BF16)

#endif
