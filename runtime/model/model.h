/* model: hyper-parameters and weights of one transformer, bound by name and checked once.
 *
 * model_open reads metadata, lets the family bind its tensors and checks every shape; it reads no
 * weight. model_plan then counts the bytes, and model_load copies the weights into the layout that
 * the kernels read (kernels.h) and releases the file's pages: weights are in memory once.
 *
 * Rows of Q and K are put into the kernels' rotate-half order, in which number i of a head forms a
 * pair with i + head_dim / 2: families that rotate neighbouring pairs (GGUF "llama") or only the
 * first n_rot numbers of a head need no other handling. Retaining heads are trained in this order
 * too. */
#ifndef RETAIN_RUNTIME_MODEL_MODEL_H
#define RETAIN_RUNTIME_MODEL_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "kernels/kernels.h"
#include "runtime/model/gguf.h"
#include "runtime/model/rope.h"

struct pool;

#define MODEL_LAYERS_MAX  256
#define MODEL_EXPERTS_MAX 1024

/* The norms of half a layer: of its input, of its output, of both. */
enum model_norms { MODEL_NORMS_BEFORE, MODEL_NORMS_AFTER, MODEL_NORMS_BOTH };

/* The norms of queries and keys: none, one per head, one over the row of all heads. */
enum model_qk_norm { MODEL_QK_NORM_NONE, MODEL_QK_NORM_HEAD, MODEL_QK_NORM_ROW };

/* The function between gate, up and down. */
enum model_activation {
    MODEL_SWIGLU,
    MODEL_SWIGLU_CLAMPED, /* gpt-oss, see kernels.h */
    MODEL_GEGLU,          /* GELU instead of SiLU, its approximation with tanh */
    MODEL_SQUARED_RELU,   /* MODEL_RELU2 below; there is no gate, and `gate` is the matrix up */
};

/* Experts (arXiv 1701.06538): feed-forwards of which a router chooses n_used for each token.
 *
 *   s      = softmax or sigmoid(router h + router_bias)
 *   chosen = the n_used largest s + choice_bias; with groups, only of the n_groups_used groups of
 *            consecutive experts whose two largest (with softmax: whose largest) have the largest
 *            sums
 *   w      = scale * s of the chosen, divided by their sum if normalized, * weight_scale
 *   y      = sum of w expert(h) over the chosen, in the order of w
 *
 * In a layer with experts and a dense feed-forward (Gemma 4) each of the two has norms: the router
 * reads norm(x) * router_norm / sqrt(n_embd), experts read norm(x) * norm, and the layer adds
 * norm(dense) * dense_post_norm + norm(y) * post_norm.
 *
 * The matrices of all experts are stacked: rows e * n_ff to (e + 1) * n_ff - 1 of gate belong to
 * expert e. */
struct model_experts {
    int n, n_used;         /* n 0: the layer has none */
    int n_ff, n_ff_shared; /* of an expert; of the shared experts together, 0: none */
    bool sigmoid, normalized;
    bool beside; /* beside a dense feed-forward */
    float scale;
    int n_groups, n_groups_used;
    struct kn_weight router;                      /* [n][n_embd] */
    const float *router_bias, *choice_bias;       /* [n] */
    const float *weight_scale;                    /* [n], or NULL */
    struct kn_weight gate, up;                    /* [n * n_ff][n_embd] */
    struct kn_weight down;                        /* [n * n_embd][n_ff] */
    const float *gate_bias, *up_bias, *down_bias; /* [n][n_ff], [n][n_embd] */
    const float
        *shared_gate; /* [n_embd], or NULL: sigmoid(shared_gate . h) scales the shared ones */
    const float *router_norm, *norm, *post_norm, *dense_post_norm; /* [n_embd], if `beside` */
};

/* How a recurrent part of a layer computes its output from h; all of a model's compute the same
 * way.
 *
 * DELTA, the gated delta rule (arXiv 2412.06464):
 *   [q | k | v] = silu(convolution(in h)) over time, of each channel
 *   q, k        = q / |q| / sqrt(key_dim), k / |k|
 *   decay, rate = e^(a softplus(step h + step_bias)), sigmoid(beta h)      per head
 *   S           = decay S;  S += k (rate (v - S^T k))^T;  y = S^T q        S [key_dim][head_dim]
 *   output      = out (norm(y) * norm * silu(gate h))                      a norm per head
 * SCAN, Mamba-2 (arXiv 2405.21060):
 *   [v | k | q] = silu(convolution(in h) + taps_bias)
 *   decay, rate = e^(a rate), softplus(step h + step_bias)
 *   S           = decay S;  S += k (rate v)^T;  y = S^T q + skip v
 *   output      = out (norm(y * silu(gate h)) * norm)                      a norm per key head
 * CONVOLUTION (LFM2):
 *   output      = out (convolution((in h) * (in_gate h)) * (gate h)) */
enum model_recurrence { MODEL_NO_RECURRENCE, MODEL_DELTA, MODEL_SCAN, MODEL_CONVOLUTION };

/* The numbers of all recurrent parts. */
struct model_recurrent_shape {
    enum model_recurrence kind;
    int n_layer;            /* layers with a recurrent part */
    int n_taps, n_channel;  /* of the convolution */
    int n_key_head, n_head; /* several heads share a key head's k and q; 0 for CONVOLUTION */
    int key_dim, head_dim;
    bool tiled; /* head i has key head i % n_key_head, else i / (n_head / n_key_head) */
};

struct model_recurrent {
    struct kn_weight in, in_gate;      /* [n_channel][n_embd] */
    struct kn_weight gate;             /* [n_head * head_dim][n_embd]; CONVOLUTION: [n_channel] */
    struct kn_weight beta, step;       /* [n_head][n_embd] */
    struct kn_weight out;              /* [n_embd][rows of gate] */
    const float *taps, *taps_bias;     /* [n_taps][n_channel], [n_channel] or NULL */
    const float *a, *step_bias, *skip; /* [n_head] */
    const float *norm;                 /* [head_dim], or of all heads (SCAN); NULL = none */
};

/* Latent attention (MLA, arXiv 2405.04434), in its absorbed form: all query heads attend to one KV
 * head. The key of a token is its latent row c and the rotated part p, and is the value, too:
 *
 *   [c | p]      = matrix k of h, c normed with kv_norm
 *   [x | p] ...  = q h, or q (norm(down h) * q_norm), of each query head
 *   query        = [up x | p], up of the head
 *   output       = value (the part of attention's result that weighs c), value of the head
 *
 * A query or key of rank + n_rot numbers is in the kernels' order: half of p, half of c, the other
 * halves. Per-head matrices are stacked. */
#define MODEL_LATENT_EPS 1e-6f /* of both norms, whatever a model's other norms have */
struct model_latent {
    int rank;    /* of c; 0: attention has keys and values */
    int q_rank;  /* rows of `down`; 0: there is none */
    int n_plain; /* of x */
    int n_value; /* of a head's output */
};

struct model_latent_part {
    struct kn_weight down;         /* [q_rank][n_embd] */
    struct kn_weight up;           /* [n_head * rank][n_plain] */
    struct kn_weight value;        /* [n_head * n_value][rank] */
    const float *q_norm, *kv_norm; /* [q_rank], [rank] */
};

/* What a layer does to the residual stream x, which begins as embed_scale * embedding. model_open
 * lists the operations of each layer (ops.c); forward/forward.c and cuda/layer.c run the list, each
 * with a table of one function per operation, and never test for the family. A norm or bias whose
 * vector is NULL is left out; the input of a product is normed by the operation that multiplies. */
enum model_op_kind {
    /* h = norm(x) * attn_norm; r = struct model_recurrent of h, up to its matrix `out` */
    MODEL_RECUR,
    /* h       = norm(x) * attn_norm
     * q, k, v = matrices of h, plus biases
     * q, k    = norm(q) * q_norm, norm(k) * k_norm, of each head or of the row
     *           v is k before its norm if there is no matrix v, and normed per head if norms_values
     * q       = q * (1 + query_growth ln(1 + floor(slot / n_ctx_orig)))
     *           (retaining heads score q, k, v) */
    MODEL_QKV,
    MODEL_LATENT, /* q and k of struct model_latent */
    /* k and v are appended to the cache
     * a       = softmax(attn_scale * rotated q . rotated k) v; q and k as they are if no_rope. With
     *           attn_softcap c, logits are c tanh(logit / c). With sinks, a logit per head more is
     *           in the denominator. If is_windowed, over the newest n_window units only
     * a       = a * sigmoid(attn_gate h) */
    MODEL_ATTEND,
    MODEL_VALUES, /* a = the output of struct model_latent */
    /* h = norm(x) * ffn_norm; g = silu(gate h + gate_bias) * (up h + up_bias), or with GELU */
    MODEL_GATE,
    MODEL_RELU2, /* g = relu(gate h + gate_bias)^2 */
    /* x += residual_scale * norm(experts + gated feed-forward) * ffn_post_norm: struct
     * model_experts. The feed-forward is that of the shared experts and may be missing */
    MODEL_EXPERTS,
    MODEL_INPUT,  /* g = gelu(input_gate x) * the layer's input, struct model_layer_inputs */
    MODEL_ADD,    /* x += residual_scale * norm(w y + bias) * norm, y: the r, a or g above */
    MODEL_SCALE,  /* x = x * out_scale */
    MODEL_CENTRE, /* x = x - mean(x): norms of x are LayerNorms without bias then */
    MODEL_N_OPS
};

struct model_op {
    enum model_op_kind kind;
    /* of MODEL_ADD: MODEL_RECUR, MODEL_ATTEND, MODEL_VALUES or MODEL_GATE, whose result is y; the
     * matrix; its bias and norm, if any */
    enum model_op_kind from;
    const struct kn_weight *w;
    const float *const *bias, *const *norm;
};

#define MODEL_OPS_MAX 12

/* A layer as data, which a family fills in. After all layers, logits = logit_scale * (output
 * (norm(x) * output_norm) + output_bias), with logit_softcap c then c tanh(logit / c). Norms are
 * RMSNorms. Once weights are loaded, those of layers on a device (model_place) are device
 * addresses. */
struct model_layer {
    struct model_op ops[MODEL_OPS_MAX];
    int n_ops;
    enum model_norms norms;
    enum model_qk_norm qk_norm;
    bool no_attention, no_feed_forward;
    bool is_parallel;  /* attention and feed-forward read the same x */
    bool is_recurrent; /* has a recurrent part */
    bool is_gated;     /* attention's output is gated */
    bool shares_kv;    /* it has no keys and values, and attends to those of kv_layer */
    bool norms_values; /* values are normed per head, without weights */
    bool is_windowed;  /* its shapes and units are those of struct model_windowed */
    bool is_scaled;    /* has an out_scale */
    int kv_layer;      /* its layer of the KV cache, or of its windows; -1 without attention */
    int state_layer;   /* its layer of the recurrent state; -1 without a recurrent part */
    bool no_rope;      /* queries and keys are not rotated */
    const float *attn_norm, *attn_post_norm; /* [n_embd] */
    const float *ffn_norm, *ffn_post_norm;
    const float *q_norm, *k_norm; /* [head_dim], or of a row as q and k */
    struct kn_weight q, k, v;     /* [n_head * head_dim], [n_kv_head * head_dim] x n_embd */
    struct model_latent_part latent;
    struct kn_weight attn_gate; /* as q, if attention is gated */
    struct kn_weight o;         /* [n_embd][n_head * head_dim] */
    struct kn_weight gate, up;  /* [n_ff][n_embd]; n_out 0: only experts */
    struct kn_weight down;      /* [n_embd][n_ff] */
    enum model_activation activation;
    struct model_experts experts;
    const float *q_bias, *k_bias, *v_bias, *o_bias, *gate_bias, *up_bias, *down_bias;
    const float *sinks;                     /* [n_head], or NULL */
    struct kn_weight input_gate, input_out; /* [layer_inputs.n][n_embd] and transposed */
    const float *input_norm;                /* [n_embd] */
    const float *out_scale;                 /* [1], or NULL */
    struct model_recurrent recurrent;
};

/* Where a matrix or vector comes from: a tensor, or some of its rows. */
struct model_source {
    const char *name;
    int row0, n_rows; /* n_out rows from row0 of a tensor that has n_rows; n_rows 0: all rows */
    bool rotated;     /* rows of rotated heads, which must be put into the kernels' order */
    bool windowed;    /* of a layer with a window */
    int n_stack;      /* a tensor of so many matrices, one after another; 0: it is one */
    bool per_head;    /* these are of heads, not of experts */
    bool transposed; /* matrix i of n_stack is rows row0 + i * step on of a plain one, transposed */
    int group, step; /* groups of `group` rows, each `step` rows after the last; 0: one group */
};

/* One matrix or vector to be loaded from the file. */
struct model_load_item {
    struct kn_weight *weight; /* a matrix, or NULL and then */
    const float **vector;     /* a vector of floats */
    const struct gguf_tensor *tensor;
    struct model_source from; /* without the name */
    int n;                    /* numbers of a vector */
    int n_stack;              /* matrices, or vectors, that are stacked: one per expert; else 1 */
    int n_transposed;         /* n_stack of a transposed source; else 0 */
    bool by_column;           /* a vector that is a table in the file: column after column */
};

/* The layers that attend to the newest n_units units, with the token's own. They keep exactly
 * those: no policy applies to them, and they are not layers of the KV cache. */
struct model_windowed {
    int n_layer, n_units; /* n_layer 0 = there are none */
    int n_kv_head, head_dim;
    struct rope rope;
    float attn_scale;
    const struct kn_centre *centres; /* as in struct model */
};

/* Inputs of every layer, n numbers of each token (Gemma 3n and 4, per-layer embeddings): of token
 * id with embedding e, (norm(projection e / sqrt(n_embd)) * norm, per layer, + sqrt(n)
 * embedding[id]) / sqrt(2) */
struct model_layer_inputs {
    int n;                       /* 0 = none */
    struct kn_weight embedding;  /* [n_vocab][n_layer * n] */
    struct kn_weight projection; /* [n_layer * n][n_embd] */
    const float *norm;           /* [n] */
};

/* The MTP layer (multi-token prediction, arXiv 2412.19437, section 2.2) proposes the token after
 * the next. For token t with embedding e, and h, the model's output_norm(x) of the token before t:
 *
 *   x = project [norm(e) * embedding_norm, norm(h) * hidden_norm], then the layer, which attends to
 *       earlier x; output_norm(x) and `output` give the logits of the token after t
 *
 * forward/mtp.h runs it. */
struct model_mtp {
    struct model_layer *layer; /* NULL = there is none */
    struct kn_weight project;  /* [n_embd][2 n_embd] */
    const float *embedding_norm, *hidden_norm;
    struct kn_weight embedding, output; /* n_out 0: those of the model */
    const float *output_norm;           /* NULL: that of the model */
    int item0;                          /* its items are those from here on */
};

struct model {
    struct gguf *file;
    const struct model_family *family;
    char arch[24]; /* the file's name for it, before its keys: the family's, or another (model.c) */
    bool as_f32;   /* matrices are expanded to float32 */
    char name[96]; /* of the file, without ".gguf"; the title where there is no file */
    char title[96]; /* that the file gives itself */
    char type[16];  /* the file's own, or that of most bytes: "Q4_K_M" */
    int n_vocab, n_embd, n_layer, n_head, n_kv_head, head_dim, n_ff;
    int n_mtp;  /* MTP layers of the file, after the others */
    int n_ctx;  /* positions that it was trained on, and that this program computes */
    int window; /* positions that a token attended to in training; not applied */
    float norm_eps;
    bool is_centred; /* the means of the residual stream's rows are subtracted */
    struct rope rope;
    /* scale of the products of queries and keys; usually 1 / sqrt(head_dim) */
    float attn_scale;
    /* the query at slot p is scaled by 1 + query_growth ln(1 + floor(p / rope.n_ctx_orig)) */
    float query_growth; /* 0 = none, like the next two */
    float attn_softcap, logit_softcap;
    float embed_scale; /* scale of embeddings; usually 1, like the next two */
    /* scale of the outputs that attention and feed-forward add to the residual stream */
    float residual_scale;
    float logit_scale;
    struct kn_weight embedding; /* [n_vocab][n_embd] */
    struct kn_weight output;    /* [n_vocab][n_embd] */
    bool tied;                  /* the output matrix is the embedding */
    bool has_factors;           /* some matrices have factors (kn_weight) */
    const float *output_norm;
    const float *output_bias;   /* or NULL */
    struct model_layer *layers; /* [n_layer + 1]: the last is that of mtp */
    struct model_mtp mtp;
    /* of 4-bit keys [n_kv_layer][n_kv_head], once forward/centre.h has them; or NULL */
    const struct kn_centre *centres;
    int n_kv_layer; /* layers of the KV cache: those with attention to all units, in their order */
    const struct model_layer *kv_layers[MODEL_LAYERS_MAX];
    struct model_windowed windowed;
    struct model_layer_inputs layer_inputs;
    struct model_latent latent;
    struct model_recurrent_shape recurrent;
    struct model_load_item *items;
    int n_items;
    size_t items_max;
    int n_device, n_device_experts; /* set by model_place */
    bool maps_experts; /* experts in host memory are read from the packed copy's file when used */
};

/* What files of a family leave out about layers with windows. */
struct model_windows {
    int n_units;     /* 0: without a number in the file, no layer has a window */
    int step;        /* every step-th layer has no window */
    bool plain;      /* the rotation of layers with windows is not scaled */
    float rope_base; /* and has this base; 0: that of the others */
};

/* A family of models: the value of general.architecture, what its layers are like, and how its
 * tensors are bound. */
struct model_family {
    const char *arch;
    bool rope_pairs; /* in its files, the two rows of a rotated pair are adjacent */
    bool experts;    /* its layers have experts if the file says how many */
    bool mtp;        /* the first block after its layers is an MTP layer */
    bool latent;     /* its attention is that of struct model_latent */
    const struct model_windows *windows; /* NULL = windows are not applied */
    struct model_layer layer;            /* set in every layer before its tensors are bound */
    int (*bind)(struct model *m, struct err *e);
};

/* The shapes of attention in a layer. */
struct model_heads {
    int n_head, n_kv_head, head_dim, window; /* window 0 = none */
    const struct rope *rope;
    float scale;
};

static inline struct model_heads model_heads(const struct model *m, bool is_windowed)
{
    const struct model_windowed *w = &m->windowed;
    if (is_windowed)
        return (struct model_heads){m->n_head,  w->n_kv_head, w->head_dim,
                                    w->n_units, &w->rope,     w->attn_scale};
    return (struct model_heads){m->n_head, m->n_kv_head, m->head_dim, 0, &m->rope, m->attn_scale};
}
static inline int heads_n_q(const struct model_heads *h)
{
    return h->n_head * h->head_dim;
}
static inline int heads_n_kv(const struct model_heads *h)
{
    return h->n_kv_head * h->head_dim;
}
static inline int heads_n_qkv(const struct model_heads *h)
{
    return heads_n_q(h) + 2 * heads_n_kv(h);
}
static inline int heads_group(const struct model_heads *h)
{
    return h->n_head / h->n_kv_head;
}

/* The same in layers of the KV cache: numbers of a token's queries, of its keys (or values), of all
 * three; query heads per KV head. */
static inline int model_n_q(const struct model *m)
{
    return m->n_head * m->head_dim;
}
static inline int model_n_kv(const struct model *m)
{
    return m->n_kv_head * m->head_dim;
}
static inline int model_n_qkv(const struct model *m)
{
    return model_n_q(m) + 2 * model_n_kv(m);
}
static inline int model_group(const struct model *m)
{
    return m->n_head / m->n_kv_head;
}

/* Numbers of a latent query before it is absorbed. */
static inline int model_latent_query(const struct model *m)
{
    return m->latent.n_plain + m->rope.n_rot;
}

/* The widest rows between the matrices of a layer: queries, queries with keys and values, gates; of
 * all inputs. */
struct model_widths {
    int q, qkv, ff, in;
};
struct model_widths model_widths(const struct model *m);

/* Lists the operations of all layers, once their tensors are bound (ops.c). */
void model_list_ops(struct model *m);

/* The experts of the first layer that has some; all layers with experts have the same shape. NULL:
 * the model has none. */
static inline const struct model_experts *model_experts_of(const struct model *m)
{
    for (int i = 0; i < m->n_layer; i++)
        if (m->layers[i].experts.n) return &m->layers[i].experts;
    return NULL;
}

/* The number of items that every token reads: all but those of the MTP layer. */
static inline int model_n_read(const struct model *m)
{
    return m->mtp.layer ? m->mtp.item0 : m->n_items;
}

/* What any layer has; no_rope: without a window. */
struct model_has {
    bool no_rope, gates, normed_values, shared_units;
};
static inline struct model_has model_has(const struct model *m)
{
    struct model_has has = {false, false, false, false};
    for (int i = 0; i < m->n_layer; i++) {
        const struct model_layer *l = &m->layers[i];
        has.no_rope |= l->no_rope && !l->is_windowed;
        has.gates |= l->is_gated;
        has.normed_values |= l->norms_values;
        has.shared_units |= l->shares_kv;
    }
    return has;
}

/* Takes ownership of `file`, also on error. ERR_FORMAT for unsupported models. as_f32: matrices are
 * expanded to float32, exactly (option --weights f32). */
int model_open(struct model **out, struct gguf *file, bool as_f32, struct err *e);
void model_close(struct model *m);
/* The name of a model file: without folder, ".gguf" and "-00001-of-00003". false: it is none. */
bool model_stem(const char *path, char *out, size_t bytes);

/* ---- where weights are (place.c) ------------------------------------------------------------- */

/* Says which weights are on a device: those of the first n layers, of all that there is with
 * MODEL_WHOLE, or none with 0; but the experts of only the first n_experts of these layers: the CPU
 * computes with the others, in host memory. Chooses the layouts: those that a GPU computes, or the
 * CPU's, as after model_open. The other functions leave out weights on a device. Before
 * model_plan. */
#define MODEL_WHOLE (MODEL_LAYERS_MAX + 1)
void model_place(struct model *m, int n, int n_experts);
bool model_on_device(const struct model *m, const struct model_load_item *it);

/* Whether a layer on a device has its experts in host memory; the number of such layers; the bytes
 * of all experts in host memory. */
bool model_experts_on_host(const struct model *m, int layer);
int model_n_host_experts(const struct model *m);
size_t model_host_experts_bytes(const struct model *m);

/* Layers whose parts are on a device. */
static inline int model_n_device(const struct model *m)
{
    return m->n_device < m->n_layer ? m->n_device : m->n_layer;
}
/* How many of the first n layers have units in the KV cache, units in windows, and a recurrent
 * state. */
struct model_counts {
    int n_kv, n_windowed, n_recurrent;
};
struct model_counts model_count_layers(const struct model *m, int n);

/* Whether a device has some layers and this CPU the others. */
static inline bool model_is_split(const struct model *m)
{
    return m->n_device > 0 && m->n_device <= m->n_layer;
}

/* Takes the weights' memory from `a`; if `a` only plans, loaded weights are kept. */
void model_plan(struct model *m, struct arena *a);

/* After model_plan on a backed arena: fills it, in parallel. progress as in engine_open. */
int model_load(struct model *m, struct pool *p, int (*progress)(void *, int64_t, int64_t),
               void *ctx, struct err *e);

/* Whether the weights in memory equal those that model_load would write. Checks the vectors and one
 * panel of every matrix, or everything if `all`. */
bool model_holds(const struct model *m, struct pool *p, bool all);

/* The parts of model_load: fills one item, whose memory must be set; and the bytes of the file that
 * this reads. */
void model_load_item(const struct model *m, int i, struct pool *p);
int64_t model_item_bytes(const struct model_load_item *it);

/* The input embedding of token id, [n_embd], without embed_scale: the same bits wherever the
 * weights are. If a device has the matrix, the row is packed again from the file, in `packed`:
 * model_embedding_bytes bytes, 0 if none are needed. After model_load. */
void model_embedding(const struct model *m, int32_t id, void *packed, float *out);
size_t model_embedding_bytes(const struct model *m);

/* ---- for families --------------------------------------------------------------------------- */

/* Binds a matrix [n_out][n_in], or a vector of n numbers. */
int model_bind_matrix(struct model *m, struct kn_weight *w, const struct model_source *s, int n_out,
                      int n_in, struct err *e);
int model_bind_vector(struct model *m, const float **v, const struct model_source *s, int n,
                      struct err *e);
/* Binds a table [n_rows][n_columns] of floats; by_column: as [n_columns][n_rows]. */
int model_bind_table(struct model *m, const float **v, const char *name, int n_rows, int n_columns,
                     bool by_column, struct err *e);

/* Metadata "ARCH.suffix"; ERR_FORMAT when it is outside [min, max], or missing; optional: *out then
 * stays as it is. */
int model_get_int(const struct model *m, const char *suffix, int min, int max, int *out,
                  struct err *e);
int model_get_optional(const struct model *m, const char *suffix, int min, int max, int *out,
                       struct err *e);
bool model_get_float(const struct model *m, const char *suffix, float *out);
/* A number above 0; missing or 0: *out stays as it is. */
int model_get_scale(const struct model *m, const char *suffix, float *out, struct err *e);
/* An array with one element per layer; false when it is missing or has another length. */
bool model_get_layers(const struct model *m, const char *suffix, struct gguf_array *out);

extern const struct model_family family_deepseek2, family_dots1, family_ernie4_5, family_glm4,
    family_glm4moe, family_granite, family_granitehybrid, family_granitemoe, family_lfm2,
    family_lfm2moe, family_llama, family_minicpm, family_minicpm3, family_mistral3, family_olmo2,
    family_olmoe, family_phi3, family_qwen2, family_qwen2moe, family_qwen3, family_qwen35,
    family_qwen35moe, family_qwen3moe, family_qwen3next, family_seed_oss, family_smollm3;
extern const struct model_family family_cohere2, family_exaone4, family_falcon_h1, family_gemma2,
    family_gemma3, family_gemma4, family_gpt_oss, family_nemotron_h;

#endif
