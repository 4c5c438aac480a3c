/* parts: shared by the files of runtime/cuda; internal to them. */
#ifndef RETAIN_RUNTIME_CUDA_PARTS_H
#define RETAIN_RUNTIME_CUDA_PARTS_H

#include "kernels/cuda/args.h"
#include "kernels/cuda/list.h"
#include "runtime/cache/evict.h"
#include "runtime/cuda/cuda.h"
#include "runtime/cuda/driver.h"

enum cuda_kernel {
#define ENTRY(name, args) CUDA_KERNEL_##name,
    CUDA_KERNELS(ENTRY)
#undef ENTRY
        CUDA_N_KERNELS
};

/* A kernel for each type of weights, as entries of a table. */
#define CUDA_OF_FLOATS(kernel)                                                    \
    [KN_F32] = CUDA_KERNEL_##kernel##_f32, [KN_F16] = CUDA_KERNEL_##kernel##_f16, \
    [KN_BF16] = CUDA_KERNEL_##kernel##_bf16
#define CUDA_OF_QUANTS(kernel)                                                    \
    [KN_Q4] = CUDA_KERNEL_##kernel##_q4, [KN_Q8] = CUDA_KERNEL_##kernel##_q8,     \
    [KN_Q4A] = CUDA_KERNEL_##kernel##_q4a, [KN_Q5A] = CUDA_KERNEL_##kernel##_q5a, \
    [KN_Q6] = CUDA_KERNEL_##kernel##_q6

/* A retaining head on the device. */
struct cuda_head {
    struct kn_weight w1;
    const float *w2;
};

/* [position][head_dim / 2] each. */
struct cuda_rope {
    float *cos, *sin;
};

struct cuda {
    struct cuda_driver driver;
    struct cuda_device device;
    int handle; /* the driver's handle of the device */
    struct CUctx_st *context;
    struct CUmod_st *module;
    struct CUstream_st *stream;
    struct CUfunc_st *kernels[CUDA_N_KERNELS];
    struct arena weights, retaining; /* in device memory */
    struct cuda_head *heads;         /* [layers of the KV cache], or NULL */
};

/* Calls a driver function on g and checks the result; fills *e and returns its code. */
#define CUDA_DO(g, e, function, ...) \
    CUDA_CALL(&(g)->driver, (g)->device.ordinal, e, function, __VA_ARGS__)

/* Makes the device's context the calling thread's. */
int cuda_enter(struct cuda *g, struct err *e);

/* Device memory as an arena; messages use `tag` as the name of its purpose. */
int cuda_arena_init(struct cuda *g, struct arena *a, const char *tag, size_t bytes, struct err *e);
void cuda_arena_release(struct cuda *g, struct arena *a);

/* The cubin for a GPU and its driver, else the PTX, which the driver compiles; NULL: neither runs.
 * images: as those of cuda_images. */
struct cuda_image;
const struct cuda_image *cuda_choose_image(const struct cuda_image *images, int arch, int driver);

/* In the stream's order. With page-locked memory these return at once. */
int cuda_put(struct cuda *g, const void *to, const void *from, size_t bytes, struct err *e);
int cuda_get(struct cuda *g, void *to, const void *from, size_t bytes, struct err *e);
int cuda_wait(struct cuda *g, struct err *e);
int cuda_copy(struct cuda *g, void *to, const void *from, size_t bytes, struct err *e); /* on it */

/* ---- a conversation -------------------------------------------------------------------------- */

/* Numbers that change with every step, sent in one piece: this struct, then the lengths of all
 * heads, the step's ids, and its scores if these need no model, [head][token]. Of tried tokens the
 * scores are [token][head]; then follow the position and all lengths that each of them sees. */
struct cuda_step {
    uint32_t pos;       /* position of the first token */
    int32_t n_unscored; /* of the host's cache */
    int32_t len[];      /* of all heads, then of those with windows */
};

/* The pages of each head. The host assigns them; the device has a copy. */
struct cuda_pages {
    int32_t *table; /* [n_heads][per_head] */
    int32_t *n;     /* [n_heads] */
    int32_t *spare; /* [n_spare], a stack */
    int per_head, n_spare;
};

/* A cache on the device: that of all units, or that of the layers with windows. */
struct cuda_units {
    struct cache *host;        /* its lengths, positions and scores */
    struct cuda_cache all;     /* heads of all layers */
    struct cuda_cache *layers; /* [n_layer] the same, layer by layer */
    struct cuda_pages pages;
    int n_layer, n_heads, n_split;
    int chunk_splits; /* of a whole chunk, for which there is memory */
    size_t n_partial; /* rows of m_part, l_part and acc_part in its layers */
    int64_t oldest;   /* windows: the position in the first slot */
};

/* Scratch of a layer's chunk attention. */
struct cuda_expanded_units {
    struct cuda_expanded to; /* of no head yet */
    size_t n_tile;           /* tiles of all heads together */
    float *mean;             /* [n_kv_head][head_dim] */
    bool is_int8;            /* keys, instead of halves */
};

/* Scratch of experts.c; rows: the choices of a chunk's tokens, sorted by expert. */
struct cuda_experts_rows {
    float *logits, *weight, *shared; /* [chunk][n], [chunk][n_used], [chunk] */
    int32_t *chosen, *place, *from;  /* [chunk][n_used] */
    struct cuda_expert_rows *tiles;
    int32_t *n_tiles;
    float *gate, *up, *out; /* [rows][n_ff], [rows][n_embd] */
    struct cuda_act act;
    /* of layers with experts in host memory: numbers with which experts_combine takes a row each */
    float *ones;                     /* [chunk] */
    int32_t *same;                   /* [chunk] 0, 1, 2, … */
    struct {                         /* page-locked */
        float *input, *sum, *weight; /* [chunk][n_embd] each, [chunk][n_used] */
        int32_t *chosen;
    } host;
};

/* Scratch of recurrent.c, [chunk] rows each, and the state, as struct recurrent_state. */
struct cuda_recurrent_rows {
    float *in, *gate, *y, *rate, *decay;
    float *layers, *hidden, *step;
    float *tried;           /* [CUDA_TRY_MAX] steps of all layers, of tried tokens */
    float *untried;         /* a layer's state before them */
    size_t n_layer, n_step; /* floats of a layer, and of its step: in, rate, decay */
    size_t layers_bytes, steps_bytes, hidden_bytes;
};

/* Scratch of latent.c. */
struct cuda_latent_rows {
    float *down, *kv;    /* [chunk][q_rank], [chunk][head_dim] */
    float *q;            /* [chunk][n_head][numbers of a query, or of a head's output] */
    struct cuda_act act; /* [chunk][n_head] rows that the heads' matrices read */
};

struct cuda_context {
    /* called when q, k and v of a layer of the cache are in qkv (trainer.c), or NULL */
    void (*watch)(void *ctx, const struct model_layer *l, const struct cuda_rope *rope);
    void *watch_ctx;
    struct cuda *g;
    const struct model *m;
    const struct retaining *retaining; /* NULL = no scoring */
    const struct policy *policy;
    struct cache *cache; /* the host's */
    uint64_t seed;
    int chunk, n_logits, n_layer, n_mtp_rows;
    int n_recurrent;    /* recurrent layers, like n_layer those on the device */
    int n_head_in;      /* numbers that the CPU's retaining heads read of a token; 0 = none */
    bool reads_hidden;  /* these are the normed input of attention, not q, k and v */
    int n_heads, n_len; /* heads of `kv`; of both caches */
    bool broken;        /* host and device have diverged, because of `why` */
    struct err why;
    struct arena cache_arena, scratch;
    struct cuda_units kv, windows; /* windows.n_layer 0: there are none */
    /* graphs of one token, and of several tried ones */
    struct CUgraphExec_st *graphs[CUDA_TRY_MAX + 1];
    size_t window; /* bytes fetched since the window was released */

    /* in device memory */
    struct cuda_step *step;
    struct cuda_rope rope;
    struct cuda_rope still; /* of layers that do not rotate; NULL if all rotate */
    struct cuda_rope windowed;
    float *x, *qkv, *gate, *up, *logits, *score_part;
    float *mtp_rows;     /* [n_mtp_rows] as in cuda.h; NULL: it is no MTP layer */
    float *mtp_in;       /* [n][2 n_embd] what its projection reads */
    float *norm;         /* the normed stream, for float weights */
    float *att;          /* attention's output where it is not quantized at once */
    float *open;         /* [n_q] gates of attention */
    float *layer_inputs; /* [n_layer * n] of each token */
    float *layer_own;    /* the same, of the tokens alone */
    float *head_in;      /* [kv.n_layer][n][n_head_in] */
    float *added;        /* what half a layer adds, before its norm; NULL where layers have none */
    float *new_scores;   /* [n_layer * n_kv_head][n] of the step, or of those scored later */
    struct cuda_act unscored; /* [kv.n_layer][CACHE_UNSCORED_MAX] inputs of retaining heads */
    float *m_part, *l_part, *acc_part;
    struct cuda_expanded_units expanded;
    struct cuda_act act, wide;
    struct cuda_experts_rows experts;
    struct cuda_host_experts host_experts; /* sum NULL: all experts are on the device */
    struct cuda_recurrent_rows recurrent;
    struct cuda_latent_rows latent;
    uint32_t *tickets; /* zeros between launches; the last is the chain's */
    struct {
        struct cuda_chain job; /* products that were not launched yet */
        enum kn_type type;     /* of the first one's weights */
        bool records;          /* they are collected; else each is launched at once */
        bool off;              /* for tests: they never are */
    } chain;
    struct {
        uint32_t *key;         /* [slots] values of units */
        float *std, *mean;     /* [n_heads] deviation and mean of the retaining heads' labels */
        struct cuda_pin *pins; /* [EVICT_PINS_MAX] */
        float *part;           /* as in struct cuda_values; NULL where keys are not compared */
        int32_t *keep;         /* these as in struct cuda_evict */
        uint32_t *total, *last, *stays;
    } evict;
    int32_t *best, *top_id, *n_top; /* top_…: of the vocabulary's parts, then of all */
    float *top_logit;
    uint8_t *stage;

    /* page-locked host memory */
    void *locked;
    float *head_in_host;
    float *rows_host; /* [chunk][n_embd] the stream before and after the device's layers; NULL = it
                         has all */
    struct cuda_step *step_host;
    uint8_t *stage_host;
    float *scores_host; /* as new_scores */
    int32_t *keep_host; /* as evict.keep */
    size_t step_bytes, stage_bytes;

    /* the current step: after a failed launch, later launches do nothing */
    int n, rows;               /* tokens; rows of logits */
    const struct model_op *op; /* that runs */
    bool tries;                /* each token is computed as if it were run alone (cuda_try) */
    const uint32_t *pos;       /* position of the first token, in device memory */
    const float *sent;         /* its scores that need no model */
    int len_at;                /* where its lengths are in step->len */
    struct err *e;
    int rc;
};

/* run.c: launches and small copies back. After a failed launch they do nothing. */
int cuda_begin(struct cuda_context *x, struct err *e);
void cuda_launch(struct cuda_context *x, enum cuda_kernel k, int grid_x, int grid_y, int grid_z,
                 int threads, size_t shared_bytes, const void *args);
void cuda_launch_together(struct cuda_context *x, enum cuda_kernel k, int grid, int threads,
                          size_t shared_bytes, const void *args); /* all blocks at one time */
int cuda_get_now(struct cuda_context *x, void *to, const void *from, size_t bytes);
int cuda_put_lengths(struct cuda_context *x); /* sends the lengths of the host's cache */

static inline size_t cuda_larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

static inline int cuda_parts_of(int n, int size)
{
    return (n + size - 1) / size;
}

#define LAUNCH(x, name, grid_x, grid_y, grid_z, threads, shared, args) \
    cuda_launch(x, CUDA_KERNEL_##name, grid_x, grid_y, grid_z, threads, shared, args)

/* The context of a step of tried tokens as its token t sees it, in a layer with these heads: its
 * rows, lengths and position. */
struct cuda_context cuda_alone(const struct cuda_context *x, const struct model_heads *h, int t);

/* Whether a unit's first score needs no model, so that the host sends it with the step. */
bool cuda_scores_are_sent(const struct policy *p);
/* Marks the context as broken by the error in *e. */
int cuda_break(struct cuda_context *x, const struct err *e);
/* Takes memory for the int8 form of n_row rows of n numbers. */
void cuda_take_act(struct cuda_act *act, int n, size_t n_row, struct arena *a);

/* chain.c: products of one token that follow each other become one launch, at the next other launch
 * or at cuda_end_chain, which must precede every copy of their results. waits: the product reads
 * what the one before wrote. */
void cuda_add_product(struct cuda_context *x, enum kn_type type, const struct cuda_matvec *job,
                      bool waits);
void cuda_add_gate(struct cuda_context *x, enum kn_type type, const struct cuda_matvec_gate *job);
void cuda_end_chain(struct cuda_context *x);

/* linear.c: matrices, and n rows between them. The input of matrices: int8 for quantized ones,
 * floats for others, or the residual stream, which one token's matrices norm and quantize
 * themselves. */
struct cuda_rows {
    int n;
    struct cuda_act act;
    const float *x;
    struct cuda_input made;
};

static inline struct cuda_weight cuda_weight_of(const struct kn_weight *w)
{
    return (struct cuda_weight){w->data, w->scales, w->n_out, w->n_in};
}

/* Whether the blocks of a matrix norm and quantize the row of a step's only token themselves: where
 * it fits in shared memory next to their sums. */
bool cuda_makes_row(const struct cuda_context *x, const struct kn_weight *reader);
/* Prepares n_tok rows of n numbers for a reader that is multiplied next, normed if w is given: as
 * int8 in act if it needs them, unless it makes its row. */
struct cuda_rows cuda_rows_of(struct cuda_context *x, const float *from, const float *w, int n,
                              int n_tok, const struct kn_weight *reader, struct cuda_act act);
/* The residual stream, normed if w is given, for several readers; NULL ends the list. */
#define CUDA_READERS 5
struct cuda_rows cuda_read_stream(struct cuda_context *x, const float *w,
                                  const struct kn_weight *const readers[CUDA_READERS]);
/* The same as int8 and floats. */
struct cuda_rows cuda_ready_stream(struct cuda_context *x, const float *w);
/* y = scale * (W in + bias); nothing if there is no W. */
void cuda_multiply(struct cuda_context *x, const struct kn_weight *w, const float *bias,
                   const struct cuda_rows *in, float scale, float *y);
/* The same, added to the residual stream. */
void cuda_multiply_add(struct cuda_context *x, const struct kn_weight *w, const float *bias,
                       const struct cuda_rows *in, float scale);
/* A layer's queries, keys and values, to x->qkv. */
void cuda_multiply_qkv(struct cuda_context *x, const struct model_layer *l,
                       const struct cuda_rows *in);
/* Pieces of their units, at most so many, into which the blocks of a chunk's attention are cut, so
 * that the last wave of `places` blocks leaves few idle; each piece more costs a merge. */
int cuda_chunk_splits(int places, int blocks, int most);

/* The product of a float matrix. */
void cuda_multiply_floats(struct cuda_context *x, enum kn_type type, const struct cuda_floats *job);
void cuda_norm_quantize(struct cuda_context *x, const float *from, int stride, const float *w,
                        int n, int n_tok, struct cuda_act act, float *floats);
/* RMSNorm of n numbers of each token, times scale, in place or added to y. */
void cuda_normalize(struct cuda_context *x, float *from, int stride, const float *w, int n,
                    float scale, float *add_to);
void cuda_embed_ids(struct cuda_context *x, const struct kn_weight *w, float scale, float *to);
/* x->gate = f(x->gate) * up, rows of n numbers, and as int8 in x->wide if the reader needs them. */
void cuda_gated(struct cuda_context *x, const struct kn_weight *reader, const float *up,
                int up_stride, int n, enum cuda_activation f);
void cuda_scale_floats(struct cuda_context *x, float *y, int64_t n, const float *by, float scale,
                       float softcap);

/* weights.c: how q, k and v are one matrix if they are adjacent in memory. */
size_t cuda_quant_bytes(const struct kn_weight *w);
size_t cuda_scale_bytes(const struct kn_weight *w);

/* layer.c */
void cuda_run_ops(struct cuda_context *x, const struct model_layer *l);
void cuda_run_layer_inputs(struct cuda_context *x);
void cuda_centre(struct cuda_context *x, const struct model_layer *l); /* MODEL_CENTRE */
void cuda_run_logits(struct cuda_context *x);                          /* run.c */
/* Gate, up and the function between them: the input of `down`, in x->gate and x->wide. */
struct cuda_rows cuda_run_gate(struct cuda_context *x, const struct model_layer *l,
                               const struct cuda_rows *in);
enum cuda_activation cuda_activation_of(const struct model_layer *l);
/* Queries, keys and values before they are rotated, in x->qkv: their norms, then what else reads
 * them. */
void cuda_finish_heads(struct cuda_context *x, const struct model_layer *l);
void cuda_observe(struct cuda_context *x, const struct model_layer *l);
void cuda_keep_hidden_in(struct cuda_context *x, const struct model_layer *l);

/* mtp.c: the stream of the MTP layer, from embeddings. */
void cuda_mtp_plan(struct cuda_context *x, struct arena *a);
void cuda_mtp_begin(struct cuda_context *x);

/* latent.c: MODEL_LATENT and MODEL_VALUES, whose result is in x->latent.q. */
void cuda_latent_plan(struct cuda_context *x, struct arena *a);
void cuda_run_latent(struct cuda_context *x, const struct model_layer *l);
void cuda_run_values(struct cuda_context *x, const struct model_layer *l);

/* scores.c: retaining heads. Scores a step's tokens, or keeps the input of one. */
bool cuda_scores_later(const struct cuda_context *x);
void cuda_scores_plan(struct cuda_context *x, struct arena *a);
void cuda_score_step(struct cuda_context *x, const struct model_layer *l);
struct cuda_kept cuda_kept_input(struct cuda_context *x, const struct model_layer *l);
void cuda_keep_input(struct cuda_context *x,
                     const struct model_layer *l); /* in a launch of its own */

/* recurrent.c: the recurrent part of a layer up to y, the input of `out`; the state. */
void cuda_recurrent_plan(struct cuda_context *x, struct arena *cache, struct arena *scratch);
void cuda_run_recurrent(struct cuda_context *x, const struct model_layer *l);
void cuda_keep_hidden(struct cuda_context *x); /* after all layers */
void cuda_put_state(struct cuda_context *x);   /* from the host's cache, if it was changed there */
int cuda_get_state(struct cuda_context *x);    /* to the host's cache */
void cuda_get_steps(struct cuda_context *x);   /* of the newest token, to the host's cache */

/* experts.c: the feed-forward of a layer with experts; its page-locked memory and constants, if
 * some are in host memory. */
void cuda_experts_plan(struct cuda_context *x, struct arena *a);
void cuda_experts_plan_host(struct cuda_context *x, struct arena *a);
int cuda_experts_open(struct cuda_context *x, struct err *e);
void cuda_run_experts(struct cuda_context *x, const struct model_layer *l);
/* y = the stacked matrices of the heads times their rows of the step's tokens. */
void cuda_multiply_heads(struct cuda_context *x, const struct kn_weight *w,
                         const struct cuda_rows *in, float *y);

/* units.c: the units of all heads in one pool, and their eviction. */
void cuda_cache_plan(struct cuda_context *x, const struct cache_shape *s, struct arena *cache,
                     struct arena *scratch);
size_t cuda_stage_bytes(const struct cuda_context *x);
int cuda_cache_open(struct cuda_context *x, const struct cache_shape *s, struct err *e);
void cuda_cache_close(struct cuda_context *x);

int cuda_fetch(void *ctx, int n, struct err *e); /* as in struct cache_source */
int cuda_fetch_state(void *ctx, struct err *e);

/* Call before appending n tokens, or sending units of the host's cache: assigns pages to every
 * head, and drops the pages that no window reaches any more. */
int cuda_cache_room(struct cuda_context *x, int n);

#endif
