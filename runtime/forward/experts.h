/* experts: the feed-forward of layers with experts (struct model_experts).
 *
 * A chunk's rows, one per token and chosen expert, are sorted by expert, so that the weights of an
 * expert are read once per chunk, and those that no token chose are not read. One token reads the
 * weights of its n_used experts. Which rows are computed together changes no bit. */
#ifndef RETAIN_RUNTIME_FORWARD_EXPERTS_H
#define RETAIN_RUNTIME_FORWARD_EXPERTS_H

#include <stdint.h>

struct arena;
struct forward;
struct forward_opts;
struct layer_step;
struct model_experts;

/* Takes scratch memory from `a`, if the model has experts. */
void experts_plan(struct forward *f, struct arena *a);

/* Computes the feed-forward of the step's layer, before its norm, to f->tmp. */
void experts_run(struct layer_step *s);

/* For layers on a GPU whose experts are in host memory: `f` has nothing but what experts_sum needs.
 * y[t] becomes the sum of the outputs of token t's chosen experts, times their weights. */
struct experts_chosen {
    int layer, n;
    const float *input;    /* [n][n_embd] of the experts, normed */
    const int32_t *chosen; /* [n][n_used], like weight */
    const float *weight;
};
void experts_plan_alone(struct forward *f, const struct forward_opts *o, struct arena *a);
void experts_sum(struct forward *f, const struct experts_chosen *c, float *y);

#endif
