/* heads_net: a retaining head in training: W2 · silu(W1 · x), its loss, gradient and AdamW step.
 *
 * For rows t of one layer, with score s[t][h] and label y[t][h]:
 *
 *   loss = fit    * mean over t and h of SmoothL1(s - y)           (beta 1)
 *        + smooth * mean over neighbours t, t+1 and h of (s[t+1] - s[t])^2
 *
 * (Locret, arXiv 2410.01805, eq. 5; its code averages the first term over layers and KV heads and
 * sums the second over layers, which is fit = 1 / layers, smooth = alpha.) Uses the kernels' float
 * products; every sum has a fixed order, whatever the number of threads. Independent of models and
 * files. */
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
};

/* Takes the memory for one net from an arena, backed or only planned; zeroed when backed. */
void heads_net_plan(struct heads_net *net, int n_in, int n_hidden, int n_head, struct arena *a);

/* Initialises with normal numbers, W1 of deviation n_in^-1/2, W2 of a tenth of n_hidden^-1/2; a
 * function of seed and stream. */
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
    int n;               /* at most heads_work.n_rows */
    const float *x;      /* [n][n_in] */
    float *label;        /* [n][n_head] */
    const uint8_t *next; /* [n]: is row t + 1 the token after row t? */
};

/* Scores only, into w->score. */
void heads_net_score(const struct heads_net *net, const struct heads_rows *rows,
                     struct heads_work *w);

/* The weights of one term of both sums: with several texts in a step, the means are over all. */
struct heads_terms {
    float fit, smooth;
};

/* Adds the gradient to net->gradient and returns the rows' part of the loss. */
double heads_net_gradient(struct heads_net *net, const struct heads_rows *rows,
                          const struct heads_terms *terms, struct heads_work *w);

/* Decoupled weight decay .01, betas .9 and .95, epsilon 1e-8; gradients are clipped to ±clip first.
 * step counts from 1. Clears the gradient. */
void heads_net_step(struct heads_net *net, float rate, float clip, int step, struct pool *p);

#endif
