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
struct layer_step;
struct model_experts;

/* Takes scratch memory from `a`, if the model has experts. */
void experts_plan(struct forward *f, struct arena *a);

/* Computes the feed-forward of the step's layer, before its norm, to f->tmp. */
void experts_run(struct layer_step *s);

/* Chooses the experts of one token from the router's logits. */
void experts_choose(const struct model_experts *x, float *logits, int32_t *chosen, float *weight);

#endif
