#include "quant/heads/heads_watch.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/pool.h"
#include "runtime/forward/engine.h"

#define ASK_TOKENS 16 /* queries whose logits are computed together */

/* ---- memory ---------------------------------------------------------------------------------- */

static int n_group(const struct model *m)
{
    return m->n_head / m->n_kv_head;
}

static void plan(struct heads_watch *w, const struct model *m, int n_threads, struct arena *a)
{
    size_t n = (size_t)w->n_max, layers = (size_t)m->n_kv_layer, threads = (size_t)n_threads;
    size_t rows = (size_t)(ASK_TOKENS * n_group(m)), dim = (size_t)m->head_dim;
    w->x = arena_take(a, layers * n * (size_t)heads_watch_n_in(m), sizeof(float));
    w->label = arena_take(a, layers * n * (size_t)m->n_kv_head, sizeof(float));
    w->next = arena_take(a, n, 1);
    w->keys = arena_take(a, threads * (size_t)w->n_text * dim, sizeof(float));
    w->queries = arena_take(a, threads * rows * dim, sizeof(float));
    w->logits = arena_take(a, threads * rows * (size_t)w->n_text, sizeof(float));
}

int heads_watch_open(struct heads_watch *w, struct engine *g, enum heads_label kind, int n_text,
                     int n_texts, struct err *e)
{
    struct arena a;
    int n_threads = pool_n_threads(g->pool);
    *w = (struct heads_watch){
        .engine = g, .kind = kind, .n_text = n_text, .n_max = n_text * n_texts};
    struct plan_opts o = plan_opts_default();
    o.policy = policy_choice("full");
    o.policy.context = n_text;
    int rc = context_open(&w->context, g, &o, 0, 1, e);
    arena_init_plan(&a, "labels");
    plan(w, g->model, n_threads, &a);
    if (!rc) rc = arena_init(&w->arena, "labels", a.used, e);
    if (!rc) plan(w, g->model, n_threads, &w->arena);
    return rc;
}

void heads_watch_close(struct heads_watch *w)
{
    context_release(&w->context);
    arena_release(&w->arena);
}

void heads_watch_clear(struct heads_watch *w)
{
    w->n = 0;
}

/* ---- collecting ------------------------------------------------------------------------------ */

/* Called before each product. Before the output projection, attention is complete and f->qkv holds
 * the chunk's q, k, v as attention used them. */
static void watch(void *ctx, const struct kn_weight *weight, const float *x, int n_tok)
{
    struct heads_watch *w = ctx;
    const struct forward *f = &w->context.forward;
    size_t row = (size_t)heads_watch_n_in(f->model);
    (void)x;
    for (int i = 0; i < f->model->n_kv_layer; i++)
        if (weight == &f->model->kv_layers[i]->o)
            memcpy(heads_watch_x(w, i) + (size_t)(w->n + w->at) * row, f->qkv,
                   (size_t)n_tok * row * sizeof(float));
}

/* ---- labels ---------------------------------------------------------------------------------- */

struct job {
    struct heads_watch *w;
    const uint8_t *asks;
    int n, n_context;
};

/* One head's query or key at position p, rotated as attention does. */
static void rotate(float *out, const float *x, const struct kn_rope *rope, int p)
{
    int half = rope->head_dim / 2;
    const float *c = rope->cos + (size_t)p * (size_t)half,
                *s = rope->sin + (size_t)p * (size_t)half;
    for (int i = 0; i < half; i++) {
        out[i] = x[i] * c[i] - x[i + half] * s[i];
        out[i + half] = x[i + half] * c[i] + x[i] * s[i];
    }
}

/* Updates the labels with the products of one query at position p with the keys of slots 0 … p,
 * which become logits. sink: as in struct model_layer, or NULL. */
static void take(const struct job *j, float *label, float *logits, const float *sink, int p)
{
    const struct model *m = j->w->context.forward.model;
    const int n_head = m->n_kv_head;
    const float cap = m->attn_softcap;
    float sum = 0, max = sink ? *sink : -INFINITY, base = 0;
    for (int s = 0; s <= p || s < j->n_context; s++) {
        logits[s] *= m->attn_scale;
        if (cap > 0.0f) logits[s] = cap * tanhf(logits[s] / cap);
    }
    if (j->w->kind == HEADS_SHARE) {
        for (int s = 0; s <= p; s++) max = fmaxf(max, logits[s]);
        for (int s = 0; s <= p; s++) sum += expf(logits[s] - max);
        if (sink) sum += expf(*sink - max);
        base = max + logf(sum);
    }
    for (int s = 0; s < j->n_context; s++) {
        float y = logits[s] - base;
        if (y > label[s * n_head]) label[s * n_head] = y;
    }
}

/* Computes the labels of one KV head of one layer. */
static void label_part(void *ctx, int part, int thread)
{
    const struct job *j = ctx;
    struct heads_watch *w = j->w;
    const struct forward *f = &w->context.forward;
    const struct model *m = f->model;
    int layer = part / m->n_kv_head, head = part % m->n_kv_head, group = n_group(m);
    const struct kn_rope *rope = forward_rope(f, m->kv_layers[layer]);
    const float *sinks = m->kv_layers[layer]->sinks;
    int dim = m->head_dim, row = heads_watch_n_in(m), n_rows = 0, at[ASK_TOKENS];
    size_t rows = (size_t)(ASK_TOKENS * group);
    const float *x = heads_watch_x(w, layer) + (size_t)w->n * (size_t)row;
    float *label = heads_watch_label(w, layer) + w->n * m->n_kv_head + head;
    float *keys = w->keys + (size_t)thread * (size_t)w->n_text * (size_t)dim;
    float *queries = w->queries + (size_t)thread * rows * (size_t)dim;
    float *logits = w->logits + (size_t)thread * rows * (size_t)w->n_text;
    struct kn_weight k = {KN_F32, j->n, dim, keys};
    struct kn_act q = {.n_in = dim, .x = queries};
    for (int t = 0; t < j->n; t++)
        rotate(keys + t * dim, x + (size_t)t * (size_t)row + (m->n_head + head) * dim, rope, t);
    for (int s = 0; s < j->n_context; s++) label[s * m->n_kv_head] = -INFINITY;
    for (int t = 0; t <= j->n; t++) {
        if (n_rows && (t == j->n || n_rows == ASK_TOKENS)) {
            struct kn_matmul product = {&k, &q, n_rows * group, 0, j->n, logits, (size_t)j->n};
            f->kernels->matmul[KN_F32](&product);
            for (int i = 0; i < n_rows * group; i++)
                take(j, label, logits + (size_t)i * (size_t)j->n,
                     sinks ? sinks + head * group + i % group : NULL, at[i / group]);
            n_rows = 0;
        }
        if (t == j->n || !j->asks[t]) continue;
        for (int g = 0; g < group; g++)
            rotate(queries + (n_rows * group + g) * dim,
                   x + (size_t)t * (size_t)row + (head * group + g) * dim, rope, t);
        at[n_rows++] = t;
    }
    for (int s = 0; w->kind == HEADS_SHARE && s < j->n_context; s++) {
        float *y = label + s * m->n_kv_head;
        *y = logf(expf(*y) + HEADS_SHARE_NOISE);
    }
}

/* ---- a text ---------------------------------------------------------------------------------- */

void heads_watch_run(struct heads_watch *w, const int32_t *ids, const uint8_t *asks, int n,
                     int n_context)
{
    struct context *c = &w->context;
    struct job j = {w, asks, n, n_context};
    assert(n <= w->n_text && w->n + n <= w->n_max);
    c->forward.watch = watch;
    c->forward.watch_ctx = w;
    cache_clear(&c->cache);
    for (w->at = 0; w->at < n;) {
        int part = c->plan.chunk < n - w->at ? c->plan.chunk : n - w->at;
        forward_run(&c->forward, &c->cache, ids + w->at, part, 0);
        w->at += part;
    }
    pool_run(w->engine->pool, c->engine->model->n_kv_layer * c->engine->model->n_kv_head,
             label_part, &j);
    memset(w->next + w->n, 1, (size_t)n_context);
    w->n += n_context;
    w->next[w->n - 1] = 0;
}
