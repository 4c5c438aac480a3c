#include "runtime/cuda/parts.h"

#include <math.h>

/* ---- shapes ---------------------------------------------------------------------------------- */

static struct cuda_units *units_of(struct cuda_context *x, const struct model_layer *l)
{
    return l->is_windowed ? &x->windows : &x->kv;
}

/* The layer's units, with the lengths that the step's first token sees. */
static struct cuda_cache cache_of(struct cuda_context *x, const struct model_layer *l)
{
    struct cuda_cache c = units_of(x, l)->layers[l->kv_layer];
    c.len += x->len_at;
    return c;
}

static const struct cuda_rope *rope_of(const struct cuda_context *x, const struct model_layer *l)
{
    return l->is_windowed ? &x->windowed : l->no_rope ? &x->still : &x->rope;
}

/* Whether the layer's attention has separate kernels. Their output is in x->act, where the
 * feed-forward's input is before a parallel layer adds it. */
static bool has_kernels(const struct cuda_context *x, const struct model_layer *l)
{
    const int dim = x->m->head_dim;
    const bool plain = !l->is_windowed && !l->is_gated && !l->is_parallel && !l->sinks &&
                       !x->m->latent.rank && x->m->attn_softcap <= 0.0f &&
                       kn_is_quantized(l->o.type);
    return plain && (dim == 64 || dim == 96 || dim == 128);
}

/* Units that attend_decode reads: the default ones. */
static bool is_default(const struct cuda_cache *c)
{
    return c->k_type == CUDA_KV_S5 && c->v_type == CUDA_KV_Q4;
}

/* The others share attend_any, and so do policies that need softmaxes' sums, and single tokens with
 * other than the default units: attend_chunk's launches depend on the lengths of heads,
 * which a graph must not. */
static bool attends_any(const struct cuda_context *x, const struct model_layer *l)
{
    const bool one = is_default(&x->kv.all) && model_group(x->m) <= CUDA_ATTEND_COLS;
    return !has_kernels(x, l) || ((x->n == 1 || x->tries) && !one);
}

/* ---- queries, keys and values ---------------------------------------------------------------- */

/* The operations of some families on queries, keys and values before they are rotated. */
void cuda_finish_heads(struct cuda_context *x, const struct model_layer *l)
{
    const struct model_heads h = model_heads(x->m, l->is_windowed);
    const bool rows = l->qk_norm == MODEL_QK_NORM_ROW, has_kv = !l->shares_kv;
    const bool values = l->norms_values && has_kv;
    const int n_kv = has_kv ? h.n_kv_head : 0, stride = heads_n_qkv(&h);
    const float still = 1.0f / (h.rope->magnitude * h.rope->magnitude);
    const struct cuda_heads job = {x->qkv,
                                   stride,
                                   h.n_head,
                                   n_kv,
                                   h.head_dim,
                                   rows ? NULL : l->q_norm,
                                   rows ? NULL : l->k_norm,
                                   x->m->norm_eps,
                                   l->no_rope ? 0 : h.rope->n_rot / 2,
                                   still,
                                   x->m->query_growth,
                                   h.rope->n_ctx_orig,
                                   heads_group(&h),
                                   cache_of(x, l).len};
    if (rows && l->q_norm) cuda_normalize(x, x->qkv, stride, l->q_norm, heads_n_q(&h), 1.0f, NULL);
    if (rows && l->k_norm && has_kv)
        cuda_normalize(x, x->qkv + heads_n_q(&h), stride, l->k_norm, heads_n_kv(&h), 1.0f, NULL);
    if (job.q_norm || job.k_norm || values || job.growth > 0.0f ||
        (still != 1.0f && job.n_pairs < h.head_dim / 2))
        LAUNCH(x, finish_heads, x->n, h.n_head + n_kv + (values ? n_kv : 0), 1, 32, 0, &job);
}

/* The step's scores of a layer, which were sent after its ids. */
static const float *sent_scores(const struct cuda_context *x, const struct model_layer *l)
{
    if (!cuda_scores_are_sent(x->policy) || l->is_windowed) return NULL;
    return x->sent + l->kv_layer * x->m->n_kv_head * x->n;
}

static void append(struct cuda_context *x, const struct model_layer *l)
{
    const struct model_heads h = model_heads(x->m, l->is_windowed);
    const float *k = x->qkv + heads_n_q(&h), *v = k + heads_n_kv(&h);
    const struct cuda_append job = {cache_of(x, l),    k,   v, heads_n_qkv(&h), x->pos,
                                    sent_scores(x, l), x->n};
    LAUNCH(x, kv_append, x->n, h.n_kv_head, 1, 128, 0, &job);
}

/* ---- attention ------------------------------------------------------------------------------- */

/* By head size: 64, 96, 128. */
static const enum cuda_kernel decode_of[] = {
    CUDA_KERNEL_attend_decode_64, CUDA_KERNEL_attend_decode_96, CUDA_KERNEL_attend_decode_128};
static const enum cuda_kernel chunk_of[] = {
    CUDA_KERNEL_attend_chunk_64, CUDA_KERNEL_attend_chunk_96, CUDA_KERNEL_attend_chunk_128};
static const enum cuda_kernel int8_of[] = {CUDA_KERNEL_attend_int8_64, CUDA_KERNEL_attend_int8_96,
                                           CUDA_KERNEL_attend_int8_128};
static const enum cuda_kernel one_of[] = {CUDA_KERNEL_attend_one_64, CUDA_KERNEL_attend_one_96,
                                          CUDA_KERNEL_attend_one_128};

static struct cuda_attend attend_job(struct cuda_context *x, const struct model_layer *l,
                                     int splits)
{
    const struct model_heads h = model_heads(x->m, l->is_windowed);
    const struct cuda_rope *rope = rope_of(x, l);
    return (struct cuda_attend){cache_of(x, l), x->qkv,    heads_n_qkv(&h), rope->cos,
                                rope->sin,      x->n,      heads_group(&h), splits,
                                h.scale,        x->m_part, x->l_part,       x->acc_part,
                                x->expanded.to};
}

/* One token with 4-bit units: appended, attended to and merged in one launch. */
static void attend_one(struct cuda_context *x, const struct model_layer *l)
{
    const struct model *m = x->m;
    const float *k = x->qkv + model_n_q(m), *v = k + model_n_kv(m);
    const struct cuda_attend_one job = {.at = attend_job(x, l, x->kv.n_split),
                                        .k = k,
                                        .v = v,
                                        .pos = x->pos,
                                        .score = sent_scores(x, l),
                                        .ticket = x->tickets,
                                        .act = x->act,
                                        .kept = cuda_kept_input(x, l)};
    cuda_launch(x, one_of[m->head_dim / 32 - 2], x->kv.n_split, m->n_kv_head, 1,
                CUDA_ATTEND_THREADS, CUDA_DECODE_SHARED((size_t)m->head_dim), &job);
}

/* Limited by the memory of partial results. */
static int chunk_splits(const struct cuda_context *x, const struct cuda_units *u, int blocks,
                        int at_once)
{
    const int most = (int)(u->n_partial / (size_t)(x->n * x->m->n_head));
    return cuda_chunk_splits(at_once * x->g->device.n_sm, blocks,
                             most < u->n_split ? most : u->n_split);
}

/* Heads from to->head0 on whose units fit into the scratch; to->n_tile: the most tiles of one. */
static int heads_that_fit(const struct cuda_context *x, const struct model_layer *l,
                          struct cuda_expanded *to)
{
    const int all = x->m->n_kv_head;
    const struct cache_head *heads = x->kv.host->kv_heads + l->kv_layer * all;
    int n = 0;
    to->n_tile = 0;
    while (to->head0 + n < all) {
        int tiles = cuda_parts_of(heads[to->head0 + n].len + x->n, CUDA_TILE);
        if (tiles < to->n_tile) tiles = to->n_tile;
        if ((size_t)tiles * (size_t)(n + 1) > x->expanded.n_tile) break;
        to->n_tile = tiles;
        n++;
    }
    return n;
}

/* Rotates and dequantizes the units of some heads, and attends to them. */
static void attend_heads(struct cuda_context *x, const struct cuda_attend *at, int n_heads)
{
    const struct cuda_expand expand = {at->cache, at->cos,   at->sin,
                                       x->n,      at->units, x->expanded.mean};
    const int dim = x->m->head_dim, size = dim / 32 - 2;
    const int blocks = cuda_parts_of(x->n * at->n_group, CUDA_ATTEND_ROWS);
    const bool int8 = x->expanded.is_int8;
    if (int8 && !at->units.head0)
        LAUNCH(x, expand_mean, x->m->n_kv_head, 1, 1, CUDA_ATTEND_THREADS, CUDA_EXPAND_SHARED,
               &expand);
    cuda_launch(x, int8 ? CUDA_KERNEL_expand_int8 : CUDA_KERNEL_expand_f16, at->units.n_tile,
                n_heads, 1, CUDA_ATTEND_THREADS, CUDA_EXPAND_SHARED, &expand);
    cuda_launch(x, int8 ? int8_of[size] : chunk_of[size], blocks, n_heads, at->n_split,
                CUDA_CHUNK_THREADS, CUDA_CHUNK_SHARED((size_t)dim, int8 ? 1u : 2u), at);
}

static void attend(struct cuda_context *x, const struct model_layer *l)
{
    const struct model *m = x->m;
    const int rows = x->n * model_group(m), size = m->head_dim / 32 - 2;
    const int blocks = cuda_parts_of(rows, CUDA_ATTEND_ROWS);
    const bool few = rows <= CUDA_ATTEND_COLS && is_default(&x->kv.all);
    const int splits = few ? x->kv.n_split : chunk_splits(x, &x->kv, blocks * m->n_kv_head, 1);
    struct cuda_attend job = attend_job(x, l, splits);
    const struct cuda_merge merge = {x->m_part,
                                     x->l_part,
                                     x->acc_part,
                                     splits,
                                     x->n,
                                     model_group(m),
                                     m->n_kv_head,
                                     m->head_dim,
                                     x->act,
                                     NULL,
                                     few ? job.cache.len : NULL,
                                     CUDA_KV_CENTRED(job.cache.k_type)};
    if (few)
        cuda_launch(x, decode_of[size], splits, m->n_kv_head, 1, CUDA_ATTEND_THREADS,
                    CUDA_DECODE_SHARED((size_t)m->head_dim), &job);
    for (int n; !few && job.units.head0 < m->n_kv_head; job.units.head0 += n) {
        n = heads_that_fit(x, l, &job.units);
        attend_heads(x, &job, n);
    }
    LAUNCH(x, attend_merge, cuda_parts_of(rows, 4), m->n_kv_head, 1, 128, 0, &merge);
}

/* Attention of any layer; the output is in x->att. */
static void attend_any(struct cuda_context *x, const struct model_layer *l)
{
    static const enum cuda_kernel kernels[] = {
        CUDA_KERNEL_attend_any_64, CUDA_KERNEL_attend_any_128, CUDA_KERNEL_attend_any_256,
        CUDA_KERNEL_attend_any_512, CUDA_KERNEL_attend_any_576};
    const struct model_heads h = model_heads(x->m, l->is_windowed);
    const struct cuda_units *u = units_of(x, l);
    int size = 0;
    while (64 << size < h.head_dim) size++;
    const int rows = x->n * heads_group(&h), most = 64 << size;
    const int blocks = cuda_parts_of(rows, CUDA_ANY_ROWS(most));
    const int splits = chunk_splits(x, u, blocks * h.n_kv_head, 2);
    const struct cuda_attend_any job = {attend_job(x, l, splits), h.window, x->m->attn_softcap};
    const struct cuda_cache *c = &job.at.cache;
    const struct cuda_merge_any merge = {x->m_part,   x->l_part,
                                         x->acc_part, splits,
                                         x->n,        heads_group(&h),
                                         h.n_kv_head, h.head_dim,
                                         l->sinks,    l->is_gated ? x->open : NULL,
                                         x->att,      CUDA_KV_CENTRED(c->k_type)};
    cuda_launch(x, kernels[size], blocks, h.n_kv_head, splits, CUDA_ATTEND_THREADS,
                CUDA_ANY_SHARED(most, (size_t)h.head_dim, c->k_bytes + c->v_bytes), &job);
    LAUNCH(x, merge_any, rows, h.n_kv_head, 1, 128, 0, &merge);
}

/* Keeps the step's inputs of retaining heads that the CPU runs. */
static void keep_head_in(struct cuda_context *x, const struct model_layer *l, const float *from)
{
    const size_t n = (size_t)x->n * (size_t)x->n_head_in;
    cuda_end_chain(x);
    if (!x->rc)
        x->rc = cuda_copy(x->g, x->head_in + (size_t)l->kv_layer * n, from, n * sizeof *from, x->e);
}

/* What reads a layer's queries, keys and values besides attention. Of tokens run alone, attend_one
 * keeps the retaining head's input. */
void cuda_observe(struct cuda_context *x, const struct model_layer *l)
{
    if (x->n_head_in && !x->reads_hidden) keep_head_in(x, l, x->qkv);
    if (x->watch) x->watch(x->watch_ctx, l, rope_of(x, l));
    if (!x->retaining) return;
    if (!cuda_scores_later(x))
        cuda_score_step(x, l);
    else if (attends_any(x, l))
        cuda_keep_input(x, l);
}

/* ---- operations ------------------------------------------------------------------------------ */

void cuda_keep_hidden_in(struct cuda_context *x, const struct model_layer *l)
{
    if (x->reads_hidden) keep_head_in(x, l, cuda_ready_stream(x, l->attn_norm).x);
}

static void run_qkv(struct cuda_context *x, const struct model_layer *l)
{
    const bool is_scored = !l->is_windowed && !l->shares_kv;
    if (is_scored) cuda_keep_hidden_in(x, l);
    const struct cuda_rows in = cuda_read_stream(
        x, l->attn_norm,
        (const struct kn_weight *const[CUDA_READERS]){&l->q, &l->k, &l->v, &l->attn_gate});
    cuda_multiply_qkv(x, l, &in);
    if (l->is_gated) cuda_multiply(x, &l->attn_gate, NULL, &in, 1.0f, x->open);
    cuda_finish_heads(x, l);
    if (is_scored) cuda_observe(x, l);
}

/* Appends the step's units, and attends to all. */
static void append_and_attend(struct cuda_context *x, const struct model_layer *l)
{
    const bool any = attends_any(x, l);
    if (x->n == 1 && !any) {
        attend_one(x, l);
        return;
    }
    if (!l->shares_kv) append(x, l);
    any ? attend_any(x, l) : attend(x, l);
}

/* Tried tokens attend one by one. */
static void run_attend(struct cuda_context *x, const struct model_layer *l)
{
    const struct model_heads h = model_heads(x->m, l->is_windowed);
    if (!x->tries) append_and_attend(x, l);
    for (int t = 0; x->tries && t < x->n; t++) {
        struct cuda_context one = cuda_alone(x, &h, t);
        append_and_attend(&one, l);
        x->rc = one.rc;
    }
}

enum cuda_activation cuda_activation_of(const struct model_layer *l)
{
    return (enum cuda_activation)l->activation;
}

_Static_assert((int)CUDA_SILU == (int)MODEL_SWIGLU && (int)CUDA_GELU == (int)MODEL_GEGLU &&
                   (int)CUDA_SILU_CLAMPED == (int)MODEL_SWIGLU_CLAMPED &&
                   (int)CUDA_RELU == (int)MODEL_SQUARED_RELU,
               "the device's numbers are the model's");

/* A few tokens: gate, up, the function between them and the input of `down` in one launch. */
static bool gate_at_once(struct cuda_context *x, const struct model_layer *l,
                         const struct cuda_rows *in)
{
    const struct cuda_matvec_gate job = {cuda_weight_of(&l->gate),
                                         cuda_weight_of(&l->up),
                                         in->act,
                                         x->n,
                                         l->gate_bias,
                                         l->up_bias,
                                         x->wide,
                                         in->made,
                                         cuda_activation_of(l)};
    if (x->n > CUDA_MATVEC_TOKENS || l->gate.type != l->up.type || !kn_is_quantized(l->gate.type) ||
        !kn_is_quantized(l->down.type))
        return false;
    cuda_add_gate(x, l->gate.type, &job);
    return true;
}

/* The result of MODEL_GATE, as `down` reads it. */
static struct cuda_rows gated_rows(const struct cuda_context *x)
{
    return (struct cuda_rows){x->n, x->wide, x->gate, {0}};
}

struct cuda_rows cuda_run_gate(struct cuda_context *x, const struct model_layer *l,
                               const struct cuda_rows *in)
{
    const int n = l->gate.n_out;
    const float *up = l->up.n_out ? x->up : x->gate;
    const struct cuda_gate job = {x->gate, up, n, x->wide, cuda_activation_of(l)};
    if (gate_at_once(x, l, in)) return gated_rows(x);
    cuda_multiply(x, &l->gate, l->gate_bias, in, 1.0f, x->gate);
    cuda_multiply(x, &l->up, l->up_bias, in, 1.0f, x->up);
    if (kn_is_quantized(l->down.type))
        LAUNCH(x, gate_quantize, x->n, cuda_parts_of(n, CUDA_NORM_THREADS * 4), 1,
               CUDA_NORM_THREADS, 0, &job);
    else
        cuda_gated(x, &l->down, up, n, n, cuda_activation_of(l));
    return gated_rows(x);
}

static void run_gate(struct cuda_context *x, const struct model_layer *l)
{
    const struct cuda_rows in = cuda_read_stream(
        x, l->ffn_norm, (const struct kn_weight *const[CUDA_READERS]){&l->gate, &l->up});
    cuda_run_gate(x, l, &in);
}

/* The result of an operation, as the matrix of MODEL_ADD reads it. */
static struct cuda_rows result_of(struct cuda_context *x, const struct model_layer *l)
{
    const struct kn_weight *w = x->op->w;
    if (x->op->from == MODEL_GATE) return gated_rows(x);
    if (x->op->from == MODEL_RECUR)
        return cuda_rows_of(x, x->recurrent.y, NULL, w->n_in, x->n, w, x->wide);
    if (x->op->from == MODEL_VALUES)
        return cuda_rows_of(x, x->latent.q, NULL, w->n_in, x->n, w, x->wide);
    if (attends_any(x, l)) return cuda_rows_of(x, x->att, NULL, w->n_in, x->n, w, x->act);
    return (struct cuda_rows){.n = x->n, .act = x->act};
}

static void add_output(struct cuda_context *x, const struct model_layer *l)
{
    const struct model_op *op = x->op;
    const struct cuda_rows in = result_of(x, l);
    const float scale = x->m->residual_scale, *norm = *op->norm;
    if (!norm) {
        cuda_multiply_add(x, op->w, *op->bias, &in, scale);
        return;
    }
    cuda_multiply(x, op->w, *op->bias, &in, 1.0f, x->added);
    cuda_normalize(x, x->added, x->m->n_embd, norm, x->m->n_embd, scale, x->x);
}

void cuda_run_layer_inputs(struct cuda_context *x)
{
    const struct model *m = x->m;
    const struct model_layer_inputs *p = &m->layer_inputs;
    const struct cuda_rows in =
        cuda_rows_of(x, x->x, NULL, m->n_embd, x->n, &p->projection, x->act);
    const struct cuda_layer_inputs job = {x->layer_inputs, x->layer_own, p->norm,           p->n,
                                          m->n_layer,      m->norm_eps,  sqrtf((float)p->n)};
    cuda_multiply(x, &p->projection, NULL, &in, 1.0f / sqrtf((float)m->n_embd), x->layer_inputs);
    cuda_embed_ids(x, &p->embedding, 1.0f, x->layer_own);
    LAUNCH(x, layer_inputs, x->n, m->n_layer, 1, 32, 0, &job);
}

static void run_input(struct cuda_context *x, const struct model_layer *l)
{
    const int n = x->m->layer_inputs.n, index = (int)(l - x->m->layers);
    const struct cuda_rows in =
        cuda_rows_of(x, x->x, NULL, x->m->n_embd, x->n, &l->input_gate, x->act);
    cuda_multiply(x, &l->input_gate, NULL, &in, 1.0f, x->gate);
    cuda_gated(x, &l->input_out, x->layer_inputs + index * n, x->m->n_layer * n, n, CUDA_GELU);
}

static void scale(struct cuda_context *x, const struct model_layer *l)
{
    cuda_scale_floats(x, x->x, (int64_t)x->n * x->m->n_embd, l->out_scale, 1.0f, 0.0f);
}

void cuda_centre(struct cuda_context *x, const struct model_layer *l)
{
    const struct cuda_centre_rows job = {x->x, x->m->n_embd};
    (void)l;
    LAUNCH(x, centre_rows, x->n, 1, 1, 256, 32, &job);
}

static void (*const run_op[MODEL_N_OPS])(struct cuda_context *, const struct model_layer *) = {
    [MODEL_RECUR] = cuda_run_recurrent,
    [MODEL_QKV] = run_qkv,
    [MODEL_ATTEND] = run_attend,
    [MODEL_GATE] = run_gate,
    [MODEL_RELU2] = run_gate,
    [MODEL_EXPERTS] = cuda_run_experts,
    [MODEL_INPUT] = run_input,
    [MODEL_ADD] = add_output,
    [MODEL_SCALE] = scale,
    [MODEL_CENTRE] = cuda_centre,
    [MODEL_LATENT] = cuda_run_latent,
    [MODEL_VALUES] = cuda_run_values,
};

/* Two launches for a token where only inputs are normed: attention; output, gate, down and the next
 * q, k and v (chain.c). */
void cuda_run_ops(struct cuda_context *x, const struct model_layer *l)
{
    for (int i = 0; i < l->n_ops; i++) {
        x->op = &l->ops[i];
        run_op[x->op->kind](x, l);
    }
}
