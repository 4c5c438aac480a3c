/* attend: a chunk's units go into the cache, and its queries attend to all units of their head.
 *
 * One token attends in parts of ATTEND_SPLIT slots, whose softmaxes are merged; many tokens attend
 * in blocks of FORWARD_ATTEND_TOKENS, each to all it sees. Retaining heads (cis.h) score the chunk
 * in the same run of the threads, since both read the projections and neither needs the other. */
#ifndef RETAIN_RUNTIME_FORWARD_ATTEND_H
#define RETAIN_RUNTIME_FORWARD_ATTEND_H

#include <stddef.h>

struct arena;
struct cache;
struct forward;
struct model;
struct model_layer;

/* A chunk in one layer. */
struct layer_step {
    struct forward *f;
    struct cache *c;
    const struct model_layer *layer;
    int index; /* of the layer */
    int n;     /* tokens in this chunk */
};

/* Takes the memory of partial softmaxes; `longest` head of the cache. */
void attend_plan(struct forward *f, int longest, struct arena *a);

/* Scratch of one thread for FORWARD_ATTEND_TOKENS queries: m, l and acc. */
float *attend_partial(const struct forward *f, int thread);

/* q and k of f->qkv are finished (norms), k and v packed behind the units of every head, and f->att
 * gets what the queries read. The units count as the heads' from then on. */
void attend_run(struct layer_step *s);

#endif
