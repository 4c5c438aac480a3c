/* The retaining head over v16, see v16.h: two layers; the hidden layer is computed one tile at a
 * time. */
#ifndef RETAIN_KERNELS_CPU_V16_SCORE_H
#define RETAIN_KERNELS_CPU_V16_SCORE_H

#include "kernels/cpu/v16_matmul.h"
#include "kernels/cpu/v16_panels.h"

#include <string.h>

enum { SCORE_TOK = 64, SCORE_HIDDEN = 128 }; /* hidden tile: 32 KB of stack */

V16_INLINE float score_dot(const float *w2, const float *hidden, int n)
{
    v16 acc = v16_zero();
    int j = 0;

    for (; j + 16 <= n; j += 16) acc = v16_fma(v16_load(w2 + j), v16_load(hidden + j), acc);
    if (j < n) acc = v16_fma(v16_load_n(w2 + j, n - j), v16_load_n(hidden + j, n - j), acc);
    return v16_sum(acc);
}

/* Second layer: adds the contribution of hidden units [j0, j0 + n) for n_tok tokens to out. */
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

static inline void score_v16(const struct kn_score *job)
{
    const size_t n_in = (size_t)job->w1->n_in, n_group = n_in / KN_GROUP;
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
            if (n % 16) memset(hidden, 0, sizeof hidden); /* zeros after the last unit */
            if (job->w1->type == KN_Q8)
                matmul_panels(KN_Q8, &layer1, hidden);
            else
                matmul_float(KN_F32, &layer1, hidden);
            score_tile(job, hidden, j, n, n_tok, job->out + t * (size_t)job->n_head);
        }
    }
}

#endif
