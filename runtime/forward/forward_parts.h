/* forward_parts: the state of the CPU's forward pass and the functions that its files share. Others
 * use forward.h. */
#ifndef RETAIN_RUNTIME_FORWARD_FORWARD_PARTS_H
#define RETAIN_RUNTIME_FORWARD_FORWARD_PARTS_H

#include "runtime/cache/cache.h"
#include "runtime/cache/policy.h"
#include "runtime/forward/linear.h"
#include "runtime/model/model.h"
#include "runtime/model/retaining.h"

struct cuda_chosen;
struct cuda_head_inputs;
struct forward_opts;
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
    float *before; /* [n_window + n_matrices] a layer's state before them */
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
    float *partial;          /* softmaxes before merging: attend.c */
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

/* attend.c: appends a chunk's units to the cache and computes the attention of its queries.
 *
 * Few tokens attend to parts of the slots in parallel; many tokens attend in blocks of
 * ATTEND_TOKENS, each to one part after the other. Retaining heads score the chunk in the same
 * parallel job, since both read the projections and are independent.
 *
 * attend_plan takes the memory of partial softmaxes; `longest`: the capacity of the largest head.
 * attend_run finishes q and k of f->qkv (norms), packs k and v after the units of every head, and
 * computes the attention output in f->att. The new units count as the heads' from then on. */
void attend_plan(struct forward *f, int longest, struct arena *a);
void attend_run(struct layer_step *s);

/* latent.c: the products of latent attention (struct model_latent) that come before and after the
 * attention of one KV head: a chunk's queries and keys to f->qkv, its output from f->att to
 * f->latent.q, [n][n_head * n_value]. */
void latent_plan(struct forward *f, struct arena *a);
void latent_run(struct layer_step *s);
void latent_values(struct layer_step *s);

/* ---- scores ---------------------------------------------------------------------------------- */

/* cis.c: the scores that retaining heads predict (causal importance scores; Locret, arXiv
 * 2410.01805).
 *
 * A chunk's units are scored while it attends. A retaining head's weights are read completely
 * however few tokens it scores, so a generated token keeps its input and the score 0 until
 * FORWARD_SCORE_BATCH of them can be scored together, or until their scores are needed. */

/* Whether the policy evicts by these scores. */
bool cis_used(const struct forward *f);
/* Takes memory for the inputs of retaining heads: of a chunk, and of tokens not yet scored. */
void cis_plan(struct forward *f, struct arena *a);
/* Scoring of a chunk as parts of work; a part computes scores or, for one token, keeps its
 * input. */
int cis_parts(const struct forward *f, int n);
void cis_part(const struct layer_step *s, int part, int thread);
/* Writes the chunk's scores next to the units after the `len` of every head. */
void cis_write(const struct layer_step *s);
/* Scores the newest units that have no score yet. */
void cis_score(struct forward *f, struct cache *c);

/* Scores n units by inputs that a GPU computed. The last unit's slot is len + behind - 1 in each
 * head: 0 = it counts as the head's, n = none of the n units does yet. */
void cis_score_given(struct forward *f, struct cache *c, const struct cuda_head_inputs *in,
                     int behind);

/* score.c: the values by which a policy compares units. Scores that depend on a token alone (CIS,
 * position, random) are stored with its units. Scores of keys are computed here, and the CIS of
 * units that were read before there were heads.
 *
 * Near-duplicate keys split the attention that one of them would get. For policies with this
 * penalty, a score, the logarithm of a predicted share, is lowered by a quarter of the logarithm of
 * the number of the head's units with the same signs (kernels.h), averaged over two tables of eight
 * signs; factors of a half and one retained less (quant/eval/notes). So repeated text cannot
 * displace text that occurs once. */

/* Units before position `from` (0 = none) were read without heads. Their keys and values in the
 * cache are scored now, and again whenever units are compared, because a unit that recall returned
 * has no score of these heads. Only where context_can_adopt. */
void score_adopt(struct forward *f, struct cache *c, int64_t from);
/* Fills f->slots with the values by which units are compared. */
void score_values(struct forward *f, struct cache *c);

/* ---- layers with other parts ----------------------------------------------------------------- */

/* experts.c: the feed-forward of layers with experts (struct model_experts).
 *
 * A chunk's rows, one per token and chosen expert, are sorted by expert, so that the weights of an
 * expert are read once per chunk, and those that no token chose are not read. One token reads the
 * weights of its n_used experts. Which rows are computed together changes no bit.
 *
 * experts_run computes the feed-forward of the step's layer, before its norm, to f->tmp. */
void experts_plan(struct forward *f, struct arena *a); /* nothing without experts */
void experts_run(struct layer_step *s);

/* For layers on a GPU whose experts are in host memory: `f` has nothing but what experts_sum needs.
 * y[t] becomes the sum of the outputs of token t's chosen experts, times their weights. */
void experts_plan_alone(struct forward *f, const struct forward_opts *o, struct arena *a);
void experts_sum(void *forward, const struct cuda_chosen *c, float *y);

/* layer_inputs.c: the separate inputs of each layer, struct model_layer_inputs.
 *
 * layer_inputs_run computes the inputs of all layers for n tokens whose embeddings are in f->x,
 * layer_inputs_join f->gate [n][layer_inputs.n] = gelu(input_gate x) * input, the input of the
 * matrix input_out. */
void layer_inputs_plan(struct forward *f, struct arena *a);
void layer_inputs_run(struct forward *f, const int32_t *ids, int n);
void layer_inputs_join(struct layer_step *s);

/* recurrent.c: the recurrent part of a layer, in the order of struct model_recurrent.
 *
 * A chunk's tokens pass through the state one after the other, each head (and each 64 columns of
 * its state) in parallel: the recurrence is a few per cent of a layer's arithmetic, and the result
 * does not depend on how a text is split into chunks. */
struct recurrent_state_shape recurrent_shape_of(const struct model *m);
void recurrent_plan(struct forward *f, struct arena *a);
/* Runs a chunk: the input of the matrix `out` is in f->recurrent.y afterwards. The state of tokens
 * that are tried stays the state before them. */
void recurrent_run(struct layer_step *s);
/* Repeats the steps that the cache's state holds in `step`, in all layers from first_layer on: the
 * state becomes the one after that token. */
void recurrent_repeat(struct forward *f, struct cache *c);
/* Adds token i of those that were tried last to the state of all layers; those before it were
 * added. */
void recurrent_accept(struct forward *f, struct cache *c, int i);

#endif
