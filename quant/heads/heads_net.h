/* heads_net: a retaining head in training: W2 · silu(W1 · x), its loss, gradient and AdamW step.
 *
 * For rows t of one layer, with score s[t][h] and label y[t][h]:
 *
 *   loss = weight * sum over t and h of SmoothL1(s - y)           (beta 1)
 *
 * Locret (arXiv 2410.01805, eq. 5) also brings scores of neighbours together; on real models smooth
 * scores keep fewer answers (quant/eval/notes/heads.md). Uses the kernels' float products; every
 * sum has a fixed order, whatever the number of threads. Independent of models and files. */
#ifndef RETAIN_QUANT_HEADS_HEADS_NET_H
#define RETAIN_QUANT_HEADS_HEADS_NET_H

#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "kernels/kernels.h"

struct pool;

#define HEADS_NET_COLUMNS (2 * KN_PANEL)

struct heads_net {
    int n_in, n_hidden, n_head; /* n_head: KV heads, one score each */
    size_t n;                   /* numbers in each of the following arrays */
    float *weights;             /* W1 [n_hidden][n_in], W2 [n_head][n_hidden] */
    float *gradient;            /* zero after a step */
    float *first, *second;      /* AdamW's running means of the gradient and of its square */
    const float *pace;          /* [n_in] factor of the rate in each column of W1; NULL = 1 */
};

/* Takes the memory for one net from an arena, backed or only planned; zeroed when backed. */
void heads_net_plan(struct heads_net *net, int n_in, int n_hidden, int n_head, struct arena *a);

/* Initialises W1 with normal numbers of deviation n_in^-1/2 times the column's pace, and W2 with 0;
 * a function of seed and stream. */
void heads_net_init(struct heads_net *net, uint64_t seed, int stream);

static inline float *heads_net_w2(const struct heads_net *net)
{
    return net->weights + (size_t)net->n_hidden * (size_t)net->n_in;
}

/* Scratch for up to n_rows rows, shared by all layers. */
struct heads_work {
    int n_rows;
    float *x_t;     /* [n_in][n] */
    float *z, *a;   /* [n][n_hidden] before and after silu */
    float *dz_t;    /* [n_hidden][n] */
    float *score;   /* [n][n_head] */
    float *d_score; /* [n][n_head] */
    float *part;    /* [n_threads][n_hidden][HEADS_NET_COLUMNS] of a gradient */
    const struct kernels *kernels;
    struct pool *pool;
};
void heads_work_plan(struct heads_work *w, int n_rows, int n_in, int n_hidden, int n_head,
                     int n_threads, struct arena *a);

struct heads_rows {
    int n;          /* at most heads_work.n_rows */
    const float *x; /* [n][n_in] */
    float *label;   /* [n][n_head] */
};

/* Adds the gradient to net->gradient and returns the rows' part of the loss. */
double heads_net_gradient(struct heads_net *net, const struct heads_rows *rows, float weight,
                          struct heads_work *w);

/* Decoupled weight decay .01, betas .9 and .95, epsilon 1e-8; gradients are clipped to ±clip first.
 * step counts from 1. Clears the gradient. */
void heads_net_step(struct heads_net *net, float rate, float clip, int step, struct pool *p);

#endif
