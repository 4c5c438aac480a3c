/* linear: products of a chunk's tokens with up to four matrices that read the same input,
 * distributed over the threads by panels of rows.
 *
 *   struct linear l = {.f = f, .x = x, .norm = w, .n = n, .scale = 1};
 *   linear_add(&l, matrix, bias, y, y_stride);
 *   linear_run(&l);
 *
 * The input is normed and quantized once for all of them; each output then gets its bias and the
 * common scale. */
#ifndef RETAIN_RUNTIME_FORWARD_LINEAR_H
#define RETAIN_RUNTIME_FORWARD_LINEAR_H

#include <stdbool.h>
#include <stddef.h>

#include "kernels/kernels.h"

struct arena;
struct forward;
struct model_layer;

#define LINEAR_MAX 4

/* y = f(gate) * up, for n numbers; y may be gate. */
typedef void linear_gated(float *y, const float *gate, const float *up, int n);

struct linear {
    struct forward *f;
    const float *x;    /* [n][n_in of the matrices] */
    const float *norm; /* [n_in] weights of an RMSNorm of x, or NULL */
    int n;             /* tokens */
    float scale;       /* scale of y, including the bias; usually 1 */
    float *add_to;     /* [n][y_stride]: y is added to this afterwards; NULL = not added */
    /* matrix 0 is the gate, matrix 1 the value: y0 = gated(y0, y1), of one matrix gated(y0, y0);
     * NULL = they are not */
    linear_gated *gated;
    bool integers; /* quantize the input, even if no matrix is */
    float softcap; /* above 0: y becomes softcap * tanh(y / softcap) */
    /* filled by linear_add */
    struct kn_matmul m[LINEAR_MAX];
    const float *bias[LINEAR_MAX]; /* [n_out] or NULL */
    int n_matrices;
};

static inline int linear_parts(int n, int size) /* parts of n items, `size` items each */
{
    return (n + size - 1) / size;
}

/* Calls fn for n tokens, or rows, on the pool's threads. */
void linear_each(const struct forward *f, int n, void (*fn)(void *ctx, int t, int thread),
                 void *ctx);

/* x[i] *= scale, for n numbers. */
void linear_scale(float *x, float scale, int n);

/* RMSNorm of n numbers, `size` of them at a time, with the same weights or each with its own. */
void linear_norm(const struct forward *f, float *y, int n, int size, const float *w, bool same);

/* Takes memory from `a` for the int8 form of n_tok rows of n_in numbers. */
void linear_plan(struct kn_act *act, int n_in, size_t n_tok, struct arena *a);

/* Fills row t of the int8 form from row t of x. */
void linear_quantize(const struct forward *f, const struct kn_act *act, const float *x, int t);

/* Adds a matrix, whose output is written to y [n][y_stride]. */
void linear_add(struct linear *l, const struct kn_weight *w, const float *bias, float *y,
                int y_stride);

/* Norms and quantizes the input, n_in numbers of each token, to f->act; linear_run does so, too. */
void linear_prepare(struct linear *l, int n_in);

void linear_run(struct linear *l);

/* The kernel of a layer's activation. */
linear_gated *linear_activation(const struct forward *f, const struct model_layer *l);

/* Gate and up of a layer's dense feed-forward or shared experts for n tokens, to f->gate. */
void linear_gate(struct forward *f, const struct model_layer *l, int n);

#endif
