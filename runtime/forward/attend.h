/* attend: appends a chunk's units to the cache and computes the attention of its queries.
 *
 * One token attends in parts of ATTEND_SPLIT slots, whose softmaxes are merged; many tokens attend
 * in blocks of ATTEND_TOKENS, each block to all slots it sees. Retaining heads (cis.h)
 * score the chunk in the same parallel job, since both read the projections and are independent. */
#ifndef RETAIN_RUNTIME_FORWARD_ATTEND_H
#define RETAIN_RUNTIME_FORWARD_ATTEND_H

#include <stdbool.h>

struct arena;
struct cache;
struct forward;
struct model;
struct model_layer;
struct model_op;

/* A chunk in one layer's operation. */
struct layer_step {
    struct forward *f;
    struct cache *c;
    const struct model_layer *layer;
    const struct model_op *op;
    int index;  /* of the layer in the KV cache */
    int n;      /* tokens in this chunk */
    bool tried; /* they may be taken back: forward_try */
};

/* Takes the memory of partial softmaxes; `longest`: the capacity of the largest head. */
void attend_plan(struct forward *f, int longest, struct arena *a);

/* Finishes q and k of f->qkv (norms), packs k and v after the units of every head, and computes the
 * attention output in f->att. The new units count as the heads' from then on. */
void attend_run(struct layer_step *s);

#endif
