/* forward: runs tokens through the model on the CPU, one chunk at a time, appending to the cache.
 *
 * struct model_layer defines the order of a layer. A chunk's units are packed into the cache before
 * it attends, so it attends to its own units as they are stored, and the result does not depend on
 * how a text is split into chunks.
 *
 * q, k and v are taken as attention uses them, just before RoPE: with biases added and, in some
 * families, normed. The cache keeps them in this form, and retaining heads read it. If only a part
 * of a head is rotated and the rotation has a magnitude (Phi-4-mini), the rest of q is divided by
 * the square of the magnitude.
 *
 *   forward.c  a chunk, a layer, logits       linear.h  products with matrices
 *   attend.c   units and attention            cis.c     scores of retaining heads
 *   score.c    all other scores               mtp.h     the layer that proposes tokens */
#ifndef RETAIN_RUNTIME_FORWARD_FORWARD_H
#define RETAIN_RUNTIME_FORWARD_FORWARD_H

#include "runtime/forward/forward_parts.h"

struct forward_opts {
    const struct model *model;
    const struct retaining *retaining;
    const struct kernels *kernels; /* may be NULL while planning */
    struct pool *pool;             /* may be NULL while planning */
    const struct policy *policy;
    uint64_t seed;
    const struct cache_shape *shape;
    int chunk;    /* maximum tokens per forward_run */
    int n_logits; /* maximum rows of logits */
    int n_threads;
    bool proposes; /* the MTP layer runs beside it: mtp.h */
};

/* Takes the scratch memory from `a`, backed or only planned; fills the rotary table when backed. */
void forward_plan(struct forward *f, const struct forward_opts *o, struct arena *a);

/* Runs n (1 … chunk) tokens; every head of the cache must have room for them. Logits of the last
 * n_logits tokens are in f->logits afterwards, row by row. Returns 0, or what run_first returned:
 * then nothing has changed. */
int forward_run(struct forward *f, struct cache *c, const int32_t *ids, int n, int n_logits);

/* Speculation: runs a token and proposals for the tokens after it, n (2 … FORWARD_TRY_MAX) in all,
 * with logits of all. Their units stay after the newest ones, and the inputs of their recurrent
 * steps in scratch memory, until something else is run; forward_accept adds token i = 0, 1, … to
 * the cache. Every bit is as if each token had been run alone. Returns as forward_run. */
int forward_try(struct forward *f, struct cache *c, const int32_t *ids, int n);
void forward_accept(struct forward *f, struct cache *c, int i);

/* The logits of a text that may follow: runs n (1 … chunk) tokens as forward_run does, but leaves
 * cache and policy as they were. Not for models with recurrent layers. */
int forward_look(struct forward *f, struct cache *c, const int32_t *ids, int n, int n_logits);

/* Logits [n][n_vocab] of n rows of the residual stream. */
void forward_output(struct forward *f, const float *x, int n, float *logits);

#endif
