/* forward_parts: the state of the CPU's forward pass, which its files share: forward.c, linear.c,
 * attend.c, cis.c and score.c. Others use forward.h. */
#ifndef RETAIN_RUNTIME_FORWARD_FORWARD_PARTS_H
#define RETAIN_RUNTIME_FORWARD_FORWARD_PARTS_H

#include "runtime/cache/cache.h"
#include "runtime/cache/policy.h"
#include "runtime/model/model.h"
#include "runtime/model/retaining.h"

struct pool;
union evict_slot;

#define FORWARD_SCORE_BATCH 16 /* generated tokens that are scored together */
#define FORWARD_TRY_MAX     16 /* tokens that forward_try runs at most */

/* Scratch of a layer's recurrent part, [chunk] rows each. */
struct recurrent_rows {
    float *in;                /* [n_channel] of the convolution, then its result */
    float *gate;              /* [n_out] */
    float *rate, *decay;      /* [n_head] */
    float *y;                 /* [n_out]; CONVOLUTION: first the gate of the input */
    float *q_scale, *k_scale; /* [key_dim] weights of norms that make vectors of length 1 */
    /* of tokens that are tried (forward_try); NULL if none can be */
    float *before; /* [n_window + n_matrices] a layer's state in front of them */
    float *tried;  /* [n_layer][n_try][n_step] the inputs of their steps */
    int n_try;
};

/* Scratch of latent.c. */
struct latent_rows {
    float *down;       /* [chunk][q_rank] */
    float *q;          /* [chunk][n_head * query], then the outputs [chunk][n_head * n_value] */
    float *kv;         /* [chunk][rank + n_rot] */
    float *in, *out;   /* of each thread: a block of tokens in one head */
    struct kn_act act; /* of `in` */
};

/* Scratch of experts.c; rows = chunk * n_used. */
struct experts {
    float *logits;   /* [chunk][n] of the router */
    int32_t *chosen; /* [chunk][n_used] experts, by falling weight */
    float *weight;   /* [chunk][n_used] */
    float *shared;   /* [chunk] factors of the shared experts' output */
    int32_t *row;    /* [chunk][n_used] where the row of a choice was sorted to */
    int32_t *token;  /* [rows] */
    int32_t *first;  /* [n + 1] first row of each expert */
    int32_t *active; /* [n_active] experts with rows */
    int n_active;
    float *x;                  /* [rows][n_embd] inputs, then outputs */
    float *gate, *up;          /* [rows][n_ff] */
    struct kn_act in, in_down; /* rows of x, of gate */
};

struct forward {
    const struct model *model;
    const struct retaining *retaining; /* NULL = no CIS */
    const struct kernels *kernels;
    struct pool *pool;
    int64_t heads_from; /* units of earlier positions were read without heads; 0 = none */
    const struct policy *policy;
    uint64_t seed;
    int chunk, n_logits, n_threads;
    /* Layers below first_layer are computed elsewhere: run_first runs n rows x of the residual
     * stream through them, in place, and appends their units; it returns 0 or an error code. NULL:
     * there are none. */
    int first_layer;
    int (*run_first)(void *ctx, float *x, int n);
    void *run_first_ctx;
    struct kn_rope rope;
    struct kn_rope windowed; /* of layers with windows; empty if there are none */
    struct kn_rope still;    /* angles of 0, for layers that do not rotate; empty if all rotate */
    /* Gets the input of every matrix, x[n_tok][w->n_in], for calibration; NULL = not used. */
    void (*watch)(void *ctx, const struct kn_weight *w, const float *x, int n_tok);
    void *watch_ctx;
    /* adds up the time that scoring takes in all threads; NULL = not counted */
    _Atomic int64_t *score_ns;
    /* scratch, [chunk] rows each */
    float *x;             /* [n_embd] residual stream */
    float *norm;          /* [n_embd] */
    float *qkv;           /* [n_q + 2 n_kv] queries, keys, values before RoPE */
    float *att;           /* [n_q] */
    float *gate;          /* [n_ff] */
    float *up;            /* [n_ff] */
    float *tmp;           /* [n_embd] */
    float *layer_inputs;  /* [n_layer * layer_inputs.n]; NULL = layers have none */
    float *layer_rows;    /* [n_threads] rows of the same size */
    const float *ones;    /* weights of norms without weights; NULL = not needed */
    float *open;          /* [n_q] gates of attention; NULL = no layer has them */
    float *scores;        /* [n_kv_head] */
    float *score_scratch; /* [n_threads] of cis_net.h */
    struct recurrent_rows recurrent;
    struct latent_rows latent;
    struct experts experts;
    struct kn_act act, act_score;
    struct kn_act *unscored; /* [n_layer] of FORWARD_SCORE_BATCH rows: like act_score */
    float *partial;          /* softmaxes before merging: attend.h */
    float *logits;           /* [n_logits][n_vocab]: of the last chunk's last tokens */
    /* for the policy; NULL if it needs none */
    union evict_slot *slots; /* [slots of the pool] for score_values and evict */
    void *derive;            /* [n_threads][slots of the longest head] floats or signs */
};

/* The centre of a head's keys. */
static inline const struct kn_centre *forward_centre(const struct forward *f,
                                                     const struct model_layer *l, int head)
{
    const struct model *m = f->model;
    return l->is_windowed ? m->windowed.centres + l->kv_layer * m->windowed.n_kv_head + head
                          : m->centres + l->kv_layer * m->n_kv_head + head;
}

/* The rotation of queries and keys in a layer. */
static inline const struct kn_rope *forward_rope(const struct forward *f,
                                                 const struct model_layer *l)
{
    return l->is_windowed ? &f->windowed : l->no_rope ? &f->still : &f->rope;
}

#endif
