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
 *   attend.h   units and attention            cis.h     scores of retaining heads
 *   score.h    all other scores */
#ifndef RETAIN_RUNTIME_FORWARD_FORWARD_H
#define RETAIN_RUNTIME_FORWARD_FORWARD_H

#include "runtime/cache/cache.h"
#include "runtime/cache/policy.h"
#include "runtime/model/model.h"
#include "runtime/model/retaining.h"

struct pool;
union evict_slot;

#define FORWARD_ATTEND_TOKENS 32 /* queries that share one pass over the keys of a head */
#define FORWARD_SCORE_BATCH   16 /* generated tokens that are scored together */
#define FORWARD_SURPRISE_ROWS 16 /* tokens whose surprisal is computed together */

struct forward {
    const struct model *model;
    const struct retaining *retaining; /* NULL = no CIS */
    const struct kernels *kernels;
    struct pool *pool;
    const struct policy *policy;
    uint64_t seed;
    int chunk, n_logits, n_threads;
    struct kn_rope rope;
    /* Gets the input of every matrix, x[n_tok][w->n_in], for calibration; NULL = not used. */
    void (*watch)(void *ctx, const struct kn_weight *w, const float *x, int n_tok);
    void *watch_ctx;
    /* adds up the time that scoring takes in all threads; NULL = not counted */
    _Atomic int64_t *score_ns;
    /* scratch, [chunk] rows each */
    float *x;      /* [n_embd] residual stream */
    float *norm;   /* [n_embd] */
    float *qkv;    /* [n_q + 2 n_kv] queries, keys, values before RoPE */
    float *att;    /* [n_q] */
    float *gate;   /* [n_ff] */
    float *up;     /* [n_ff] */
    float *tmp;    /* [n_embd] */
    float *scores; /* [n_kv_head] */
    struct kn_act act, act_qkv;
    struct kn_act *unscored; /* [n_layer] of FORWARD_SCORE_BATCH rows: like act_qkv */
    float *partial;          /* softmaxes before merging: attend.h */
    float *logits;           /* [n_logits][n_vocab]: of the last chunk's last tokens */
    /* for the policy; NULL if it needs none */
    union evict_slot *slots; /* [slots of the pool] for score_values and evict */
    float *lse;              /* [chunk][n_head]: log of each query's softmax sum */
    void *derive;            /* [n_threads][slots of the longest head] floats or signs */
    float *surprise;         /* [FORWARD_SURPRISE_ROWS][n_vocab] logits */
};

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
};

/* Takes the scratch memory from `a`, backed or only planned; fills the rotary table when backed. */
void forward_plan(struct forward *f, const struct forward_opts *o, struct arena *a);

/* Runs n (1 … chunk) tokens; every head of the cache must have room for them. Logits of the last
 * n_logits tokens are in f->logits afterwards, row by row. */
void forward_run(struct forward *f, struct cache *c, const int32_t *ids, int n, int n_logits);

/* Logits [n][n_vocab] of n rows of the residual stream. */
void forward_output(struct forward *f, const float *x, int n, float *logits);

#endif
