/* recurrent: the recurrent part of a layer, in the order of struct model_recurrent.
 *
 * A chunk's tokens pass through the state one after the other, each head (and each 64 columns of
 * its state) in parallel: the recurrence is a few per cent of a layer's arithmetic, and the result
 * does not depend on how a text is split into chunks. */
#ifndef RETAIN_RUNTIME_FORWARD_RECURRENT_H
#define RETAIN_RUNTIME_FORWARD_RECURRENT_H

#include "runtime/cache/recurrent_state.h"

struct arena;
struct cache;
struct forward;
struct layer_step;
struct model;

struct recurrent_state_shape recurrent_shape_of(const struct model *m);

/* Takes the scratch memory from `a`. */
void recurrent_plan(struct forward *f, struct arena *a);

/* Runs a chunk: the input of the matrix `out` is in f->recurrent.y afterwards. The state of tokens
 * that are tried stays the one in front of them. */
void recurrent_run(struct layer_step *s);

/* Repeats the steps that the cache's state holds in `step`, in all layers from first_layer on: the
 * state becomes the one after that token. */
void recurrent_repeat(struct forward *f, struct cache *c);

/* Adds token i of those that were tried last to the state of all layers; those before it were
 * added. */
void recurrent_accept(struct forward *f, struct cache *c, int i);

#endif
