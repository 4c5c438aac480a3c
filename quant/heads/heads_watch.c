#include "quant/heads/heads_watch.h"

#include <assert.h>
#include <math.h>

#include "base/pool.h"
#include "quant/heads/heads_sample.h"
#include "runtime/forward/engine.h"

#define ASK_TOKENS 16 /* queries whose logits are computed together */
#define SLICES     8  /* parts of work per KV head; the labels do not depend on it */

/* ---- memory ---------------------------------------------------------------------------------- */

static void plan(struct heads_watch *w, const struct engine *g, struct arena *a)
{
    const struct model *m = g->model;
    size_t n = (size_t)w->n_text, heads = (size_t)m->n_kv_head, dim = (size_t)m->head_dim;
    size_t rows = (size_t)pool_n_threads(g->pool) * (size_t)(ASK_TOKENS * model_group(m));
    w->label = arena_take(a, n * heads, sizeof(float));
    w->asked = arena_take(a, n, sizeof *w->asked);
    w->keys = arena_take(a, heads * n * dim, sizeof(float));
    w->slices = arena_take(a, heads * SLICES * n, sizeof(float));
    w->queries = arena_take(a, rows * dim, sizeof(float));
    w->logits = arena_take(a, rows * n, sizeof(float));
}

size_t heads_watch_bytes(const struct engine *g, int n_text)
{
    struct heads_watch w = {.n_text = n_text};
    struct arena a;
    arena_init_plan(&a, "labels");
    plan(&w, g, &a);
    return a.used;
}

struct plan_opts heads_watch_plan(int n_text, int64_t memory)
{
    struct plan_opts o = plan_opts_default();
    o.policy = policy_choice("full");
    o.policy.context = n_text;
    o.chunk = n_text;
    o.speculate.off = true;
    o.memory = memory;
    return o;
}

int heads_watch_open(struct heads_watch *w, struct engine *g, int n_text, struct err *e)
{
    *w = (struct heads_watch){.engine = g, .n_text = n_text};
    struct plan_opts o = heads_watch_plan(n_text, 0);
    int rc = context_open(&w->context, g, &o, 0, 1, e);
    if (!rc) rc = arena_init(&w->arena, "labels", heads_watch_bytes(g, n_text), e);
    if (!rc) plan(w, g, &w->arena);
    return rc;
}

void heads_watch_close(struct heads_watch *w)
{
    context_release(&w->context);
    arena_release(&w->arena);
}

/* ---- labels ---------------------------------------------------------------------------------- */

struct job {
    struct heads_watch *w;
    const float *qkv; /* [n][n_qkv] */
    int layer, n, n_context;
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

/* The keys of some tokens, of all heads. */
static void keys_part(void *ctx, int begin, int end, int thread)
{
    const struct job *j = ctx;
    const struct heads_watch *w = j->w;
    const struct model *m = w->engine->model;
    const struct kn_rope *rope = forward_rope(&w->context.forward, m->kv_layers[j->layer]);
    size_t dim = (size_t)m->head_dim, row = (size_t)model_n_qkv(m), n_text = (size_t)w->n_text;
    (void)thread;
    for (int t = begin; t < end; t++)
        for (int i = 0; i < m->n_kv_head; i++)
            rotate(w->keys + ((size_t)i * n_text + (size_t)t) * dim,
                   j->qkv + (size_t)t * row + (size_t)(m->n_head + i) * dim, rope, t);
}

/* Updates the labels with the products of one query at position p with the keys of slots 0 … p,
 * which become logits. sink: as in struct model_layer, or NULL. */
static void take(const struct job *j, float *label, float *logits, const float *sink, int p)
{
    const struct model *m = j->w->engine->model;
    const float cap = m->attn_softcap;
    float sum = 0, max = sink ? *sink : -INFINITY;
    for (int s = 0; s <= p; s++) {
        logits[s] *= m->attn_scale;
        if (cap > 0.0f) logits[s] = cap * tanhf(logits[s] / cap);
    }
    for (int s = 0; s <= p; s++) max = fmaxf(max, logits[s]);
    for (int s = 0; s <= p; s++) sum += expf(logits[s] - max);
    if (sink) sum += expf(*sink - max);
    const float base = max + logf(sum);
    for (int s = 0; s < j->n_context && s <= p; s++) label[s] = fmaxf(label[s], logits[s] - base);
}

/* The labels of one KV head from some blocks of asking tokens. */
static void slice_part(void *ctx, int part, int thread)
{
    const struct job *j = ctx;
    const struct heads_watch *w = j->w;
    const struct forward *f = &w->context.forward;
    const struct model *m = f->model;
    const struct model_layer *layer = m->kv_layers[j->layer];
    const int head = part / SLICES, group = model_group(m), dim = m->head_dim, n = w->n_text;
    const size_t rows = (size_t)(ASK_TOKENS * group), row = (size_t)model_n_qkv(m);
    float *label = w->slices + (size_t)part * (size_t)n;
    float *queries = w->queries + (size_t)thread * rows * (size_t)dim;
    float *logits = w->logits + (size_t)thread * rows * (size_t)n;
    const struct kn_weight keys = {.type = KN_F32,
                                   .n_out = j->n,
                                   .n_in = dim,
                                   .data = w->keys + (size_t)head * (size_t)(n * dim)};
    const struct kn_act x = {.n_in = dim, .x = queries};
    for (int s = 0; s < j->n_context; s++) label[s] = -INFINITY;
    for (int at = part % SLICES * ASK_TOKENS; at < w->n_asked; at += SLICES * ASK_TOKENS) {
        int n_asked = w->n_asked - at < ASK_TOKENS ? w->n_asked - at : ASK_TOKENS;
        int last = w->asked[at + n_asked - 1];
        for (int i = 0; i < n_asked * group; i++) {
            int t = w->asked[at + i / group];
            rotate(queries + i * dim,
                   j->qkv + (size_t)t * row + (size_t)((head * group + i % group) * dim),
                   forward_rope(f, layer), t);
        }
        struct kn_matmul product = {&keys, &x, n_asked * group, 0, last + 1, logits, (size_t)j->n};
        f->kernels->matmul[KN_F32](&product);
        for (int i = 0; i < n_asked * group; i++)
            take(j, label, logits + (size_t)i * (size_t)j->n,
                 layer->sinks ? layer->sinks + head * group + i % group : NULL,
                 w->asked[at + i / group]);
    }
}

static void join_slices(const struct job *j)
{
    const struct heads_watch *w = j->w;
    const int n_head = w->engine->model->n_kv_head;
    for (int i = 0; i < j->n_context * n_head; i++) {
        const float *slice = w->slices + (size_t)(i % n_head * SLICES) * (size_t)w->n_text;
        float y = -INFINITY;
        for (int k = 0; k < SLICES; k++) y = fmaxf(y, slice[k * w->n_text + i / n_head]);
        w->label[i] = logf(expf(y) + HEADS_SHARE_NOISE);
    }
}

/* ---- a text ---------------------------------------------------------------------------------- */

/* Called before each product. Before the output projection, attention is complete and f->qkv holds
 * the text's q, k, v as attention used them, f->norm its normed input. */
static void watch(void *ctx, const struct kn_weight *weight, const float *x, int n_tok)
{
    struct heads_watch *w = ctx;
    const struct forward *f = &w->context.forward;
    const struct model *m = f->model;
    struct job j = {.w = w, .qkv = f->qkv, .n = n_tok, .n_context = w->sample->n_context};
    (void)x;
    while (j.layer < m->n_kv_layer && weight != &m->kv_layers[j.layer]->o) j.layer++;
    if (j.layer == m->n_kv_layer) return;
    pool_run_spans(w->engine->pool, n_tok, ASK_TOKENS, keys_part, &j);
    pool_run(w->engine->pool, m->n_kv_head * SLICES, slice_part, &j);
    join_slices(&j);
    const float *hidden = m->kv_layers[j.layer]->attn_norm ? f->norm : f->x;
    struct heads_rows rows = {j.n_context, w->reads_hidden ? hidden : f->qkv, w->label};
    w->visit(w->visit_ctx, j.layer, &rows);
}

void heads_watch_run(struct heads_watch *w, const struct heads_sample *s, heads_visit *visit,
                     void *ctx)
{
    struct context *c = &w->context;
    assert((int)s->ids.n <= w->n_text);
    w->sample = s;
    w->visit = visit;
    w->visit_ctx = ctx;
    w->n_asked = 0;
    for (int t = 0; t < (int)s->ids.n; t++)
        if (s->asks[t]) w->asked[w->n_asked++] = t;
    c->forward.watch = watch;
    c->forward.watch_ctx = w;
    cache_clear(&c->cache);
    forward_run(&c->forward, &c->cache, s->ids.ids, (int)s->ids.n, 0);
}

int heads_watch_rows(struct heads_watch *w, const struct heads_data *d, int n_rows,
                     heads_visit *visit, void *ctx, heads_show *show, void *show_ctx, struct err *e)
{
    struct heads_sample s = {0};
    const int n = d->n < n_rows ? d->n : n_rows;
    int rc = 0, n_read = 0;
    for (int i = 0; !rc && i < n; i++) {
        const int row = (int)((int64_t)i * d->n / n);
        rc = heads_sample_read(&s, d, row, false, 0, w->engine, w->n_text, e);
        if (rc || !s.ids.n) continue;
        heads_watch_run(w, &s, visit, ctx);
        n_read++;
        if (show(show_ctx, i + 1, n)) rc = err_set(e, ERR_STOP, "interrupted");
    }
    heads_sample_release(&s);
    if (rc || n_read) return rc;
    return err_set(e, ERR_FORMAT, "%s: no row is long enough", d->name);
}
