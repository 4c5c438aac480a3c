#include "runtime/cuda/parts.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static int parts_of(int n, int size)
{
    return (n + size - 1) / size;
}

/* ---- memory ---------------------------------------------------------------------------------- */

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

static bool scores_here(const struct policy *p) /* scores that need no model */
{
    return p->scorer == POLICY_POSITION || p->scorer == POLICY_RANDOM;
}

static size_t step_bytes(const struct cuda_context *x, int n)
{
    size_t scores = scores_here(x->policy) ? (size_t)x->n_heads * (size_t)n : 0;
    return sizeof *x->step + ((size_t)x->n_heads + (size_t)n + scores) * 4;
}

static void take_act(struct cuda_act *act, int n, size_t chunk, struct arena *a)
{
    const size_t blocks = chunk * (size_t)parts_of(n, CUDA_BLOCK);
    act->q = arena_take(a, blocks, CUDA_BLOCK);
    act->scale = arena_take(a, blocks * 2, sizeof *act->scale);
}

static void take_rope(struct cuda_rope *r, size_t n, struct arena *a)
{
    r->cos = arena_take(a, n, sizeof *r->cos);
    r->sin = arena_take(a, n, sizeof *r->sin);
}

/* Floats of the retaining head's partial sums: for a chunk, or for one token in smaller parts. */
static size_t score_parts(const struct cuda_context *x)
{
    const int n = x->retaining->n_hidden;
    return (size_t)x->m->n_kv_head *
           larger((size_t)parts_of(n, CUDA_MATMUL_ROWS) * (size_t)x->chunk,
                  (size_t)parts_of(n, KN_PANEL));
}

static void plan_scratch(struct cuda_context *x, const struct cache_shape *s, struct arena *a)
{
    const struct model *m = x->m;
    const size_t chunk = (size_t)x->chunk, f = sizeof(float), embd = (size_t)m->n_embd;
    /* attend_decode reads the first tile's rows, even if the cache is smaller */
    const size_t rotations = larger((size_t)cache_head_max(s), CUDA_TILE) * (size_t)m->head_dim / 2;
    const int wide = m->n_ff > model_n_qkv(m) ? m->n_ff : model_n_qkv(m);
    const int narrow = m->n_embd > model_n_q(m) ? m->n_embd : model_n_q(m);
    x->step_bytes = step_bytes(x, x->chunk);
    x->stage_bytes = cuda_stage_bytes(x, s);
    x->n_partial =
        larger((size_t)(x->n_split * CUDA_ATTEND_COLS * m->n_kv_head), chunk * (size_t)m->n_head);
    x->step = arena_take(a, 1, x->step_bytes);
    take_rope(&x->rope, rotations, a);
    if (model_has_no_rope(m)) take_rope(&x->still, rotations, a);
    x->x = arena_take(a, chunk * embd, f);
    x->qkv = arena_take(a, chunk * (size_t)model_n_qkv(m), f);
    x->gate = arena_take(a, chunk * (size_t)m->n_ff, f);
    x->up = arena_take(a, chunk * (size_t)m->n_ff, f);
    if (m->layers[0].norms != MODEL_NORMS_BEFORE) x->added = arena_take(a, chunk * embd, f);
    x->logits = arena_take(a, (size_t)x->n_logits * (size_t)m->n_vocab, f);
    x->new_scores = arena_take(a, (size_t)x->n_heads * chunk, f);
    if (x->retaining) x->score_part = arena_take(a, score_parts(x), f);
    x->m_part = arena_take(a, x->n_partial, f);
    x->l_part = arena_take(a, x->n_partial, f);
    x->acc_part = arena_take(a, x->n_partial * (size_t)m->head_dim, f);
    take_act(&x->act, narrow, chunk, a);
    take_act(&x->wide, wide, chunk, a);
    x->tickets = arena_take(a, (size_t)m->n_kv_head + 1, sizeof *x->tickets);
    x->best = arena_take(a, 1, sizeof *x->best);
    x->top_id = arena_take(a, CUDA_TOP_MAX, sizeof *x->top_id);
    x->top_logit = arena_take(a, CUDA_TOP_MAX, f);
    x->n_top = arena_take(a, 1, sizeof *x->n_top);
    x->stage = arena_take(a, 1, x->stage_bytes);
}

/* Splits of the cache when few tokens attend: twice as many blocks as processors, each of at least
 * one tile. Constant, so that sums have one order. */
static int splits_of(const struct cuda *g, const struct cuda_context_opts *o)
{
    int tiles = parts_of(cache_head_max(o->shape), CUDA_TILE);
    int n = parts_of(2 * g->device.n_sm, o->model->n_kv_head);
    return n < tiles ? n : tiles;
}

static struct cuda_context describe(const struct cuda *g, const struct cuda_context_opts *o)
{
    return (struct cuda_context){
        .m = o->model,
        .retaining = o->policy->scorer == POLICY_CIS ? o->retaining : NULL,
        .policy = o->policy,
        .seed = o->seed,
        .chunk = o->chunk,
        .n_logits = o->n_logits,
        .n_heads = o->model->n_layer * o->model->n_kv_head,
        .n_split = splits_of(g, o),
    };
}

void cuda_context_plan(const struct cuda *g, const struct cuda_context_opts *o, size_t *cache_bytes,
                       size_t *scratch_bytes)
{
    struct cuda_context x = describe(g, o);
    struct arena cache, scratch;
    arena_init_plan(&cache, "cache");
    arena_init_plan(&scratch, "scratch");
    plan_scratch(&x, o->shape, &scratch);
    cuda_cache_plan(&x, o->shape, &cache, &scratch);
    *cache_bytes = cache.used;
    *scratch_bytes = scratch.used;
}

/* ---- opening --------------------------------------------------------------------------------- */

static int send_rope(struct cuda_context *x, const struct cuda_rope *to, const float *freq,
                     int longest, struct err *e)
{
    const int half = x->m->head_dim / 2;
    const int n_pos = longest > CUDA_TILE ? longest : CUDA_TILE;
    const size_t n = (size_t)n_pos * (size_t)half;
    float *table = malloc(2 * n * sizeof *table);
    if (!table) return err_set(e, ERR_FAIL, "out of memory for the rotary table");
    rope_table(table, table + n, freq, half, n_pos);
    int rc = cuda_put(x->g, to->cos, table, n * sizeof *table, e);
    if (!rc) rc = cuda_put(x->g, to->sin, table + n, n * sizeof *table, e);
    if (!rc) rc = cuda_wait(x->g, e);
    free(table);
    return rc;
}

static int take_memory(struct cuda_context *x, const struct cache_shape *s, size_t cache_bytes,
                       size_t scratch_bytes, struct err *e)
{
    int rc = cuda_arena_init(x->g, &x->cache_arena, "the cache", cache_bytes, e);
    if (!rc) rc = cuda_arena_init(x->g, &x->scratch, "scratch", scratch_bytes, e);
    if (rc) return rc;
    plan_scratch(x, s, &x->scratch);
    cuda_cache_plan(x, s, &x->cache_arena, &x->scratch);
    size_t step = (x->step_bytes + 63) & ~(size_t)63;
    size_t scores = (size_t)x->n_heads * (size_t)x->chunk * sizeof *x->scores_host;
    size_t numbers = 3 * (size_t)x->n_heads * sizeof *x->numbers_host;
    rc = CUDA_DO(x->g, e, cuMemHostAlloc, &x->locked, step + x->stage_bytes + scores + numbers, 0);
    if (rc) return rc;
    x->step_host = x->locked;
    x->stage_host = (uint8_t *)x->locked + step;
    x->scores_host = (float *)(void *)(x->stage_host + x->stage_bytes);
    x->numbers_host = (int32_t *)(void *)((uint8_t *)x->scores_host + scores);
    rc = cuda_cache_open(x, s, e);
    if (rc) return rc;
    const int longest = cache_head_max(s);
    rc = send_rope(x, &x->rope, rope_freq(&x->m->rope, longest), longest, e);
    if (!rc && x->still.cos) rc = send_rope(x, &x->still, rope_still, longest, e);
    return rc;
}

int cuda_context_open(struct cuda_context **out, struct cuda *g, const struct cuda_context_opts *o,
                      struct cache *c, struct err *e)
{
    struct cuda_context *x = malloc(sizeof *x);
    size_t cache_bytes, scratch_bytes;
    *out = NULL;
    if (!x) return err_set(e, ERR_FAIL, "out of memory for a conversation");
    *x = describe(g, o);
    x->g = g;
    x->cache = c;
    cuda_context_plan(g, o, &cache_bytes, &scratch_bytes);
    int rc = cuda_enter(g, e);
    if (!rc) rc = take_memory(x, o->shape, cache_bytes, scratch_bytes, e);
    if (rc) {
        cuda_context_close(x);
        return rc;
    }
    c->source = (struct cache_source){cuda_fetch, x};
    *out = x;
    return 0;
}

void cuda_context_close(struct cuda_context *x)
{
    if (!x) return;
    x->g->driver.cuCtxSetCurrent(x->g->context);
    if (x->graph) x->g->driver.cuGraphExecDestroy(x->graph);
    cuda_arena_release(x->g, &x->cache_arena);
    cuda_arena_release(x->g, &x->scratch);
    if (x->locked) x->g->driver.cuMemFreeHost(x->locked);
    cuda_cache_close(x);
    free(x);
}

/* ---- launches -------------------------------------------------------------------------------- */

void cuda_launch(struct cuda_context *x, enum cuda_kernel k, int grid_x, int grid_y, int grid_z,
                 int threads, size_t shared_bytes, const void *args)
{
    void *params[] = {(void *)args};
    if (x->rc) return;
    x->rc = CUDA_DO(x->g, x->e, cuLaunchKernel, x->g->kernels[k], (unsigned)grid_x,
                    (unsigned)grid_y, (unsigned)grid_z, (unsigned)threads, 1, 1,
                    (unsigned)shared_bytes, x->g->stream, params, NULL);
}

static void norm(struct cuda_context *x, const float *from, int stride, const float *w, int n,
                 int n_tok, struct cuda_act act)
{
    const struct cuda_norm job = {from, stride, w, n, x->m->norm_eps, act, NULL};
    LAUNCH(x, norm_quantize, n_tok, 1, 1, CUDA_NORM_THREADS, 32, &job);
}

/* Kernels by the type of their weights. */
static const enum cuda_kernel matvec_of[KN_TYPES] = {
    [KN_Q4] = CUDA_KERNEL_matvec_q4,   [KN_Q8] = CUDA_KERNEL_matvec_q8,
    [KN_Q4A] = CUDA_KERNEL_matvec_q4a, [KN_Q5A] = CUDA_KERNEL_matvec_q5a,
    [KN_Q6] = CUDA_KERNEL_matvec_q6,
};
static const enum cuda_kernel matmul_of[KN_TYPES] = {
    [KN_Q4] = CUDA_KERNEL_matmul_q4,   [KN_Q8] = CUDA_KERNEL_matmul_q8,
    [KN_Q4A] = CUDA_KERNEL_matmul_q4a, [KN_Q5A] = CUDA_KERNEL_matmul_q5a,
    [KN_Q6] = CUDA_KERNEL_matmul_q6,
};
static const enum cuda_kernel gate_of[KN_TYPES] = {
    [KN_Q4] = CUDA_KERNEL_matvec_gate_q4,   [KN_Q8] = CUDA_KERNEL_matvec_gate_q8,
    [KN_Q4A] = CUDA_KERNEL_matvec_gate_q4a, [KN_Q5A] = CUDA_KERNEL_matvec_gate_q5a,
    [KN_Q6] = CUDA_KERNEL_matvec_gate_q6,
};
static const enum cuda_kernel embed_of[KN_TYPES] = {
    [KN_Q4] = CUDA_KERNEL_embed_q4,   [KN_Q8] = CUDA_KERNEL_embed_q8,
    [KN_Q4A] = CUDA_KERNEL_embed_q4a, [KN_Q5A] = CUDA_KERNEL_embed_q5a,
    [KN_Q6] = CUDA_KERNEL_embed_q6,
};

/* y = scale * (W act + bias), or added to y. made.x: act is not ready, but computed from this; one
 * token. */
static void linear_made(struct cuda_context *x, const struct cuda_linear *l, struct cuda_act act,
                        struct cuda_input made, int n_tok, float scale, bool add, float *y,
                        int stride)
{
    for (int i = 0; i < l->n; i++) {
        const struct cuda_linear_part *p = &l->part[i];
        const struct cuda_matvec job = {p->m.w, act,         n_tok,  p->bias, scale,
                                        add,    y + p->row0, stride, made};
        const int rows = p->m.w.n_out;
        const size_t shared = made.x ? CUDA_MATVEC_SHARED_MADE(p->m.w.n_in) : CUDA_MATVEC_SHARED;
        if (n_tok <= CUDA_MATVEC_TOKENS)
            cuda_launch(x, matvec_of[p->m.type], parts_of(rows, KN_PANEL), 1, 1,
                        CUDA_MATVEC_THREADS, shared, &job);
        else
            cuda_launch(x, matmul_of[p->m.type], parts_of(rows, CUDA_MATMUL_ROWS),
                        parts_of(n_tok, CUDA_MATMUL_TOKENS), 1, CUDA_MATMUL_THREADS,
                        CUDA_MATMUL_SHARED, &job);
    }
}

static void linear(struct cuda_context *x, const struct cuda_linear *l, struct cuda_act act,
                   int n_tok, float scale, bool add, float *y, int stride)
{
    linear_made(x, l, act, (struct cuda_input){0}, n_tok, scale, add, y, stride);
}

/* For one token, blocks norm the residual stream themselves if it fits in shared memory next to
 * their sums. */
static bool makes_input(const struct cuda_context *x)
{
    return x->n == 1 && CUDA_MATVEC_SHARED_MADE(x->m->n_embd) <= 48 << 10;
}

/* The input of a layer's matrices: the residual stream, normed if w is given, in act or to be
 * computed. */
static struct cuda_input read_stream(struct cuda_context *x, const float *w)
{
    if (makes_input(x)) return (struct cuda_input){x->x, w, x->m->norm_eps};
    norm(x, x->x, x->m->n_embd, w, x->m->n_embd, x->n, x->act);
    return (struct cuda_input){0};
}

/* ---- a layer --------------------------------------------------------------------------------- */

/* RMSNorm of n numbers of each token, in place or added to y. */
static void norm_rows(struct cuda_context *x, float *from, int stride, const float *w, int n,
                      float scale, float *add_to)
{
    const struct cuda_norm_rows job = {
        from, stride, w, n, x->m->norm_eps, scale, add_to != NULL, add_to ? add_to : from, stride};
    LAUNCH(x, norm_rows, x->n, 1, 1, CUDA_NORM_THREADS, 32, &job);
}

/* What some families do to queries and keys before they are rotated. */
static void finish_heads(struct cuda_context *x, const struct cuda_layer *l)
{
    const struct model *m = x->m;
    const bool rows = l->qk_norm == MODEL_QK_NORM_ROW;
    const float still = 1.0f / (m->rope.magnitude * m->rope.magnitude);
    const struct cuda_heads job = {x->qkv,
                                   model_n_qkv(m),
                                   m->n_head,
                                   m->n_kv_head,
                                   m->head_dim,
                                   rows ? NULL : l->q_norm,
                                   rows ? NULL : l->k_norm,
                                   m->norm_eps,
                                   l->no_rope ? 0 : m->rope.n_rot / 2,
                                   still};
    if (rows) {
        norm_rows(x, x->qkv, model_n_qkv(m), l->q_norm, model_n_q(m), 1.0f, NULL);
        norm_rows(x, x->qkv + model_n_q(m), model_n_qkv(m), l->k_norm, model_n_kv(m), 1.0f, NULL);
    }
    if (job.q_norm || job.k_norm || (still != 1.0f && job.n_pairs < m->head_dim / 2))
        LAUNCH(x, finish_heads, x->n, m->n_head + m->n_kv_head, 1, 32, 0, &job);
}

/* Writes the retaining head's scores into the slots that kv_append is about to fill. */
static void score_one(struct cuda_context *x, const struct cuda_layer *l, int layer)
{
    const struct retaining *h = x->retaining;
    const struct cuda_cache *c = &x->layers[layer];
    const struct cuda_score_one job = {l->w1.w,
                                       l->w2,
                                       x->qkv,
                                       x->score_part,
                                       x->tickets + h->n_head,
                                       *c,
                                       x->new_scores + layer * h->n_head};
    LAUNCH(x, score_one, parts_of(h->n_hidden, KN_PANEL), 1, 1, CUDA_MATVEC_THREADS,
           CUDA_MATVEC_SHARED_MADE(h->n_in), &job);
}

static void score(struct cuda_context *x, const struct cuda_layer *l, int layer)
{
    const struct retaining *h = x->retaining;
    const struct cuda_cache *c = &x->layers[layer];
    const int parts = parts_of(h->n_hidden, CUDA_MATMUL_ROWS);
    const struct cuda_score job = {l->w1.w, l->w2, x->wide, x->n, h->n_head, x->score_part};
    const struct cuda_score_sum sum = {x->score_part, parts, x->n, *c,
                                       x->new_scores + layer * h->n_head * x->n};
    norm(x, x->qkv, model_n_qkv(x->m), NULL, model_n_qkv(x->m), x->n, x->wide);
    LAUNCH(x, score_q8, parts, parts_of(x->n, CUDA_MATMUL_TOKENS), 1, CUDA_MATMUL_THREADS,
           CUDA_SCORE_SHARED, &job);
    LAUNCH(x, score_sum, parts_of(x->n * h->n_head, 128), 1, 1, 128, 0, &sum);
}

/* The step's scores of a layer, which were sent after its ids. */
static const float *sent_scores(const struct cuda_context *x, int layer)
{
    if (!scores_here(x->policy)) return NULL;
    const int32_t *scores = x->step->len + x->n_heads + x->n;
    return (const float *)(const void *)scores + layer * x->m->n_kv_head * x->n;
}

static void append(struct cuda_context *x, int layer)
{
    const struct model *m = x->m;
    const float *k = x->qkv + model_n_q(m), *v = k + model_n_kv(m);
    const struct cuda_append job = {x->layers[layer],      k,   v, model_n_qkv(m), &x->step->pos,
                                    sent_scores(x, layer), x->n};
    LAUNCH(x, kv_append, x->n, m->n_kv_head, 1, 128, 0, &job);
}

/* By head size: 64, 96, 128. */
static const enum cuda_kernel decode_of[] = {
    CUDA_KERNEL_attend_decode_64, CUDA_KERNEL_attend_decode_96, CUDA_KERNEL_attend_decode_128};
static const enum cuda_kernel chunk_of[] = {
    CUDA_KERNEL_attend_chunk_64, CUDA_KERNEL_attend_chunk_96, CUDA_KERNEL_attend_chunk_128};

static const enum cuda_kernel one_of[] = {CUDA_KERNEL_attend_one_64, CUDA_KERNEL_attend_one_96,
                                          CUDA_KERNEL_attend_one_128};

static const struct cuda_rope *rope_of(const struct cuda_context *x, int layer)
{
    return x->m->layers[layer].no_rope ? &x->still : &x->rope;
}

/* One token with 4-bit units: appended, attended to and merged in one launch. */
static bool attend_one(struct cuda_context *x, int layer)
{
    const struct model *m = x->m;
    const struct cuda_cache *c = &x->layers[layer];
    const struct cuda_rope *rope = rope_of(x, layer);
    const float *k = x->qkv + model_n_q(m), *v = k + model_n_kv(m);
    const struct cuda_attend_one job = {.at = {*c, x->qkv, model_n_qkv(m), rope->cos, rope->sin, 1,
                                               model_group(m), x->n_split, m->attn_scale, x->m_part,
                                               x->l_part, x->acc_part},
                                        .k = k,
                                        .v = v,
                                        .pos = &x->step->pos,
                                        .score = sent_scores(x, layer),
                                        .ticket = x->tickets,
                                        .act = x->act};
    if (x->n > 1 || model_group(m) > CUDA_ATTEND_COLS || c->k_type || c->v_type) return false;
    cuda_launch(x, one_of[m->head_dim / 32 - 2], x->n_split, m->n_kv_head, 1, CUDA_ATTEND_THREADS,
                CUDA_DECODE_SHARED((size_t)m->head_dim), &job);
    return true;
}

/* A chunk is split only as long as processors would otherwise be idle. */
static int chunk_splits(const struct cuda_context *x, int blocks)
{
    int n = 2 * x->g->device.n_sm / blocks,
        most = (int)(x->n_partial / (size_t)(x->n * x->m->n_head));
    if (n > most) n = most;
    if (n > x->n_split) n = x->n_split;
    return n > 1 ? n : 1;
}

static void attend(struct cuda_context *x, int layer)
{
    const struct model *m = x->m;
    const int rows = x->n * model_group(m), size = m->head_dim / 32 - 2;
    const int blocks = parts_of(rows, CUDA_ATTEND_ROWS);
    const struct cuda_cache *c = &x->layers[layer];
    const struct cuda_rope *rope = rope_of(x, layer);
    const bool few = rows <= CUDA_ATTEND_COLS && !c->k_type && !c->v_type; /* 4-bit */
    const int splits = few ? x->n_split : chunk_splits(x, blocks * m->n_kv_head);
    const struct cuda_attend job = {
        *c,     x->qkv,        model_n_qkv(m), rope->cos, rope->sin,  x->n, model_group(m),
        splits, m->attn_scale, x->m_part,      x->l_part, x->acc_part};
    const struct cuda_merge merge = {x->m_part, x->l_part,      x->acc_part,  splits,
                                     x->n,      model_group(m), m->n_kv_head, m->head_dim,
                                     x->act,    NULL,           NULL};
    if (few)
        cuda_launch(x, decode_of[size], splits, m->n_kv_head, 1, CUDA_ATTEND_THREADS,
                    CUDA_DECODE_SHARED((size_t)m->head_dim), &job);
    else
        cuda_launch(x, chunk_of[size], blocks, m->n_kv_head, splits, CUDA_ATTEND_THREADS,
                    CUDA_CHUNK_SHARED((size_t)m->head_dim, (size_t)c->k_bytes, (size_t)c->v_bytes),
                    &job);
    LAUNCH(x, attend_merge, rows, m->n_kv_head, 1, 128, 0, &merge);
}

/* act is the normed input; wide becomes the input of `down`. */
static void gate(struct cuda_context *x, const struct cuda_layer *l, struct cuda_input made)
{
    const struct cuda_linear_part *g = &l->gate.part[0], *u = &l->up.part[0];
    const int n_ff = x->m->n_ff;
    if (x->n <= CUDA_MATVEC_TOKENS && g->m.type == u->m.type) {
        const struct cuda_matvec_gate job = {g->m.w,  u->m.w,  x->act,  x->n,
                                             g->bias, u->bias, x->wide, made};
        const size_t shared = made.x ? CUDA_MATVEC_SHARED_MADE(x->m->n_embd) : CUDA_MATVEC_SHARED;
        cuda_launch(x, gate_of[g->m.type], n_ff / 32, 1, 1, CUDA_MATVEC_THREADS, shared, &job);
        return;
    }
    const struct cuda_gate job = {x->gate, x->up, n_ff, x->wide};
    linear_made(x, &l->gate, x->act, made, x->n, 1.0f, false, x->gate, n_ff);
    linear_made(x, &l->up, x->act, made, x->n, 1.0f, false, x->up, n_ff);
    LAUNCH(x, gate_quantize, x->n, 1, 1, CUDA_NORM_THREADS, 0, &job);
}

/* Adds the output of half a layer to the residual stream: the product with its last matrix, normed
 * if it has a norm. */
static void add_output(struct cuda_context *x, const struct cuda_linear *l, struct cuda_act act,
                       const float *w)
{
    const int n = x->m->n_embd;
    const float scale = x->m->residual_scale;
    linear(x, l, act, x->n, w ? 1.0f : scale, !w, w ? x->added : x->x, n);
    if (w) norm_rows(x, x->added, n, w, n, scale, x->x);
}

/* In the order of struct model_layer. Six launches for a token where only inputs are normed: q, k
 * and v; scores; attention; output; gate; down. */
static void run_layer(struct cuda_context *x, int i)
{
    const struct cuda_layer *l = &x->g->model.layers[i];
    struct cuda_input made = read_stream(x, l->attn_norm);
    linear_made(x, &l->qkv, x->act, made, x->n, 1.0f, false, x->qkv, model_n_qkv(x->m));
    finish_heads(x, l);
    if (x->retaining && x->n == 1)
        score_one(x, l, i);
    else if (x->retaining)
        score(x, l, i);
    if (!attend_one(x, i)) {
        append(x, i);
        attend(x, i);
    }
    add_output(x, &l->o, x->act, l->attn_post_norm);
    made = read_stream(x, l->ffn_norm);
    gate(x, l, made);
    add_output(x, &l->down, x->wide, l->ffn_post_norm);
}

/* ---- a step ---------------------------------------------------------------------------------- */

/* Writes to page-locked memory, which the copy (or the graph's copy) reads. */
static void write_step(struct cuda_context *x, const int32_t *ids, int n)
{
    const struct cache *c = x->cache;
    struct cuda_step *s = x->step_host;
    s->pos = (uint32_t)c->n_pos;
    s->col_width = (uint32_t)c->col_width;
    for (int i = 0; i < x->n_heads; i++) s->len[i] = c->kv_heads[i].len;
    if (n) memcpy(s->len + x->n_heads, ids, (size_t)n * sizeof *ids);
    if (!n || !scores_here(x->policy)) return;
    float *scores = (float *)(void *)(s->len + x->n_heads + n);
    for (int i = 0; i < x->n_heads; i++)
        for (int t = 0; t < n; t++)
            scores[i * n + t] = policy_score(x->policy, x->seed, i, c->n_pos + t);
}

static void run_logits(struct cuda_context *x)
{
    const struct model *m = x->m;
    const struct cuda_argmax best = {x->logits + (size_t)(x->rows - 1) * (size_t)m->n_vocab,
                                     m->n_vocab, x->best};
    norm(x, x->x + (size_t)(x->n - x->rows) * (size_t)m->n_embd, m->n_embd, x->g->model.output_norm,
         m->n_embd, x->rows, x->act);
    linear(x, &x->g->model.output, x->act, x->rows, m->logit_scale, false, x->logits, m->n_vocab);
    LAUNCH(x, argmax, 1, 1, 1, 1024, 256, &best);
}

static void run_step(struct cuda_context *x)
{
    const struct model *m = x->m;
    const struct cuda_matrix *embedding = &x->g->model.embedding;
    const struct cuda_embed embed = {embedding->w, x->step->len + x->n_heads, m->embed_scale, x->x};
    if (!x->rc) x->rc = cuda_put(x->g, x->step, x->step_host, step_bytes(x, x->n), x->e);
    cuda_launch(x, embed_of[embedding->type], x->n, 1, 1, 128, 0, &embed);
    for (int i = 0; i < m->n_layer; i++) run_layer(x, i);
    if (x->rows) run_logits(x);
    if (x->retaining && !x->rc)
        x->rc = cuda_get(x->g, x->scores_host, x->new_scores,
                         (size_t)x->n_heads * (size_t)x->n * sizeof *x->new_scores, x->e);
}

/* Records the step of one token; the numbers that change from token to token are in device
 * memory. */
static void record(struct cuda_context *x)
{
    struct cuda *g = x->g;
    struct CUgraph_st *graph = NULL;
    struct err e;
    x->rc = CUDA_DO(g, x->e, cuStreamBeginCapture, g->stream, CUDA_CAPTURE_THREAD_LOCAL);
    if (x->rc) return;
    run_step(x);
    int rc = CUDA_DO(g, x->rc ? &e : x->e, cuStreamEndCapture, g->stream, &graph);
    if (!x->rc) x->rc = rc;
    if (!x->rc) x->rc = CUDA_DO(g, x->e, cuGraphInstantiateWithFlags, &x->graph, graph, 0);
    if (graph) g->driver.cuGraphDestroy(graph);
}

int cuda_begin(struct cuda_context *x, struct err *e)
{
    x->e = e;
    x->rc = x->broken ? err_set(e, ERR_FAIL,
                                "cuda:%d failed during an eviction; open the conversation again",
                                x->g->device.ordinal)
                      : cuda_enter(x->g, e);
    return x->rc;
}

int cuda_run(struct cuda_context *x, const int32_t *ids, int n, int n_logits, struct err *e)
{
    struct cache *c = x->cache;
    assert(n >= 1 && n <= x->chunk && n_logits <= x->n_logits && n_logits <= n);
    assert(cache_room(c) >= n);
    if (cuda_begin(x, e) || cuda_cache_room(x, n)) return x->rc;
    x->n = n;
    x->rows = n_logits;
    write_step(x, ids, n);
    if (n == 1 && n_logits == 1) {
        if (!x->graph) record(x);
        if (!x->rc) x->rc = CUDA_DO(x->g, e, cuGraphLaunch, x->graph, x->g->stream);
    } else {
        run_step(x);
    }
    if (!x->rc) x->rc = cuda_wait(x->g, e);
    if (x->rc) return x->rc;
    for (int i = 0; i < x->n_heads; i++) {
        struct cache_head *h = &c->kv_heads[i];
        for (int t = 0; t < n; t++) {
            h->pos[h->len + t] = (uint32_t)(c->n_pos + t);
            h->score[h->len + t] = x->retaining ? x->scores_host[i * n + t]
                                                : policy_score(x->policy, x->seed, i, c->n_pos + t);
        }
        h->len += n;
    }
    cache_appended(c, n);
    return 0;
}

/* ---- copies to the host ---------------------------------------------------------------------- */

int cuda_get_now(struct cuda_context *x, void *to, const void *from, size_t bytes)
{
    if (!x->rc) x->rc = cuda_get(x->g, to, from, bytes, x->e);
    if (!x->rc) x->rc = cuda_wait(x->g, x->e);
    return x->rc;
}

int cuda_logits(struct cuda_context *x, float *out, struct err *e)
{
    if (cuda_begin(x, e)) return x->rc;
    return cuda_get_now(x, out, x->logits, (size_t)x->rows * (size_t)x->m->n_vocab * sizeof *out);
}

int cuda_candidates(struct cuda_context *x, const struct sampling *s, struct sampler_entry *out,
                    int *n, struct err *e)
{
    int32_t ids[CUDA_TOP_MAX];
    float logits[CUDA_TOP_MAX];
    const struct cuda_top job = {x->logits + (size_t)(x->rows - 1) * (size_t)x->m->n_vocab,
                                 x->m->n_vocab,
                                 s->top_k,
                                 x->top_id,
                                 x->top_logit,
                                 x->n_top};
    *n = 0;
    if (s->repeat_penalty != 1) return 0;
    if (cuda_begin(x, e)) return x->rc;
    if (s->temperature <= 0) {
        *n = 1;
        out->logit = 0;
        return cuda_get_now(x, &out->id, x->best, sizeof out->id);
    }
    if (s->top_k <= 0 || s->top_k > CUDA_TOP_MAX || s->top_k >= x->m->n_vocab) return 0;
    LAUNCH(x, top_k, 1, 1, 1, 1024, CUDA_TOP_SHARED, &job);
    if (!x->rc) x->rc = cuda_get(x->g, ids, x->top_id, (size_t)s->top_k * sizeof *ids, e);
    if (!x->rc) x->rc = cuda_get(x->g, logits, x->top_logit, (size_t)s->top_k * sizeof *logits, e);
    if (cuda_get_now(x, n, x->n_top, sizeof *n)) return x->rc;
    for (int i = 0; i < *n; i++) out[i] = (struct sampler_entry){logits[i], ids[i]};
    return 0;
}

int cuda_put_lengths(struct cuda_context *x)
{
    write_step(x, NULL, 0);
    if (!x->rc) x->rc = cuda_put(x->g, x->step, x->step_host, step_bytes(x, 0), x->e);
    return x->rc;
}
