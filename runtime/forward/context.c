#include "runtime/forward/context.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/memory.h"
#include "base/pool.h"
#include "runtime/cache/recall.h"
#include "runtime/cuda/cuda.h"
#include "runtime/forward/engine.h"

static int open_cpu(struct context *x, const struct forward_opts *fo, struct err *e)
{
    int rc = arena_init(&x->scratch, "scratch", x->plan.scratch_bytes, e);
    if (rc) return rc;
    forward_plan(&x->forward, fo, &x->scratch);
    mtp_plan(&x->mtp, fo, &x->scratch);
    return 0;
}

/* A GPU needs only room for its logits here. */
static int open_logits(struct context *x, const struct forward_opts *fo, struct err *e)
{
    const size_t n = (size_t)fo->n_logits, row = (size_t)fo->model->n_vocab * sizeof(float);
    int rc = 0;
    x->forward = (struct forward){.model = fo->model, .policy = fo->policy, .seed = fo->seed};
    while (arena_make(&x->scratch, "logits", &rc, e))
        x->forward.logits = arena_take(&x->scratch, n, row);
    return rc;
}

/* Scratch memory of a GPU that leaves scoring and evicting to the CPU. */
static int open_scoring(struct context *x, const struct forward_opts *fo, struct err *e)
{
    struct forward_opts one = *fo;
    int rc = 0;
    one.chunk = 1;
    while (arena_make(&x->scratch, "scratch", &rc, e)) forward_plan(&x->forward, &one, &x->scratch);
    return rc;
}

static int open_experts(struct context *x, const struct forward_opts *fo, struct err *e)
{
    int rc = 0;
    if (!model_n_host_experts(fo->model)) return 0;
    while (arena_make(&x->experts_arena, "scratch of experts", &rc, e))
        experts_plan_alone(&x->experts, fo, &x->experts_arena);
    return rc;
}

static int open_device(struct context *x, const struct forward_opts *fo, struct err *e)
{
    struct cuda_context_opts o = plan_device_opts(&x->plan, fo->model, fo->retaining, fo->shape);
    o.seed = fo->seed;
    o.experts = (struct cuda_host_experts){experts_sum, &x->experts};
    return cuda_context_open(&x->gpu, x->engine->gpu, &o, &x->cache, e);
}

/* The host's units are a window (cuda.h): its pages are often released, so they are small. */
static int open_gpu(struct context *x, const struct forward_opts *fo, struct err *e)
{
    int rc = cuda_leaves_eviction(fo->policy, fo->shape, fo->retaining) ? open_scoring(x, fo, e)
                                                                        : open_logits(x, fo, e);
    if (rc) return rc;
    madvise(x->cache_arena.base, x->cache_arena.bytes, MADV_NOHUGEPAGE);
    rc = open_device(x, fo, e);
    return rc || !fo->proposes ? rc
                               : mtp_open_device(&x->mtp, x->engine->gpu, fo->model, x->gpu, e);
}

/* Whether a GPU computes all layers; it may have only the first ones (model_place). */
static bool on_gpu(const struct context *x)
{
    return x->gpu && x->forward.first_layer == 0;
}

static int run_first(void *ctx, float *rows, int n)
{
    struct context *x = ctx;
    return cuda_run_rows(x->gpu, rows, n, x->tries, x->e);
}

/* The first layers on the GPU, the others here. */
static int open_split(struct context *x, const struct forward_opts *fo, struct err *e)
{
    int rc = open_cpu(x, fo, e);
    if (rc) return rc;
    x->forward.first_layer = fo->model->n_device;
    x->forward.run_first = run_first;
    x->forward.run_first_ctx = x;
    return open_device(x, fo, e);
}

size_t context_host_bytes(const struct engine *g, const struct plan *p)
{
    const struct cache_shape shape = plan_shape(p, g->model);
    const struct cuda_context_opts o = plan_device_opts(p, g->model, g->retaining, &shape);
    struct cache cache;
    struct arena a;
    arena_init_plan(&a, "cache");
    cache_plan(&cache, &shape, &a);
    arena_take(&a, (size_t)p->n_logits, (size_t)g->model->n_vocab * sizeof(float));
    if (p->proposes) arena_take(&a, 1, mtp_device_bytes(g->gpu, g->model).host);
    return a.used + p->state_bytes + p->host_bytes + cuda_context_plan(g->gpu, &o).locked;
}

static void repeat_step(void *ctx)
{
    struct context *x = ctx;
    if (x->gpu) cuda_repeat(x->gpu);
    if (!on_gpu(x)) recurrent_repeat(&x->forward, &x->cache);
}

int context_open(struct context *x, struct engine *g, const struct plan_opts *o, uint64_t seed,
                 int n_logits, struct err *e)
{
    struct plan *p = &x->plan;
    *x = (struct context){.engine = g};
    int rc = plan_make(p, g->model, g->retaining, g->gpu, o, n_logits, pool_n_threads(g->pool), e);
    if (rc) return rc;
    struct cache_shape shape = plan_shape(p, g->model);
    struct forward_opts fo = plan_forward_opts(p, g->model, g->retaining, &shape);
    fo.kernels = g->kernels;
    fo.pool = g->pool;
    fo.seed = seed;
    rc = arena_init(&x->cache_arena, "cache", cache_plan_bytes(&shape), e);
    if (!rc) rc = arena_init(&x->state_arena, "state", p->state_bytes, e);
    if (!rc) {
        const struct recurrent_state_shape state = recurrent_shape_of(g->model);
        cache_plan(&x->cache, &shape, &x->cache_arena);
        recurrent_state_plan(&x->cache.recurrent, &state, &x->state_arena);
        x->cache.recurrent.repeat = repeat_step;
        x->cache.recurrent.repeat_ctx = x;
        rc = open_experts(x, &fo, e);
        if (!rc)
            rc = model_is_split(g->model) ? open_split(x, &fo, e)
                 : g->gpu                 ? open_gpu(x, &fo, e)
                                          : open_cpu(x, &fo, e);
    }
    if (rc) context_release(x);
    return rc;
}

void context_release(struct context *x)
{
    cuda_context_close(x->gpu);
    mtp_close(&x->mtp);
    arena_release(&x->cache_arena);
    arena_release(&x->state_arena);
    arena_release(&x->scratch);
    arena_release(&x->experts_arena);
    x->gpu = NULL;
}

/* The CPU's part of scoring tokens that the GPU has run; `behind` as in cis_score_given. */
static void score_run(struct context *x, int behind)
{
    if (!x->gpu) return;
    const struct cuda_head_inputs in = cuda_head_inputs(x->gpu);
    if (in.rows) cis_score_given(&x->forward, &x->cache, &in, behind);
}

/* Tells the MTP layer that rows [row, row + n) of the last run are part of the conversation. */
static void tell_mtp(struct context *x, const int32_t *ids, int row, int n)
{
    const float *rows = on_gpu(x) ? cuda_stream(x->gpu) : x->forward.x;
    if (!mtp_is_open(&x->mtp)) return;
    mtp_ran(&x->mtp, &x->cache, ids, rows + (size_t)row * (size_t)x->engine->model->n_embd, n);
}

int context_run(struct context *x, const int32_t *ids, int n, int n_logits, struct err *e)
{
    x->row = 0;
    x->e = e;
    x->tries = false;
    int rc = on_gpu(x) ? cuda_run(x->gpu, ids, n, n_logits, e)
                       : forward_run(&x->forward, &x->cache, ids, n, n_logits);
    if (rc) return rc;
    score_run(x, 0);
    tell_mtp(x, ids, 0, n);
    return 0;
}

int context_look(struct context *x, const int32_t *ids, int n, int n_logits, struct err *e)
{
    x->row = 0;
    if (x->gpu || x->engine->model->recurrent.n_layer)
        return err_set(e, ERR_USAGE,
                       "a text that may follow can only be tried on the CPU, and "
                       "by a model without recurrent layers");
    context_score(x);
    return forward_look(&x->forward, &x->cache, ids, n, n_logits);
}

int context_try_max(const struct context *x)
{
    const int most = x->gpu ? CUDA_TRY_MAX : FORWARD_TRY_MAX;
    if (x->plan.n_logits < 2) return 0;
    return x->plan.n_logits < most ? x->plan.n_logits : most;
}

int context_try(struct context *x, const int32_t *ids, int n, struct err *e)
{
    int rc;
    assert(n > 1 && n <= context_try_max(x));
    x->e = e;
    x->tries = true;
    rc = on_gpu(x) ? cuda_try(x->gpu, ids, n, e) : forward_try(&x->forward, &x->cache, ids, n);
    if (rc) return rc;
    score_run(x, n);
    memcpy(x->tried, ids, (size_t)n * sizeof *ids);
    x->row = -1;
    context_accept(x);
    return 0;
}

void context_accept(struct context *x)
{
    x->row++;
    if (on_gpu(x))
        cache_accept(&x->cache);
    else
        forward_accept(&x->forward, &x->cache, x->row);
    if (x->gpu) cuda_accept(x->gpu, x->row);
    tell_mtp(x, x->tried + x->row, x->row, 1);
}

int context_logits(struct context *x, float **out, struct err *e)
{
    *out = x->forward.logits + (size_t)x->row * (size_t)x->engine->model->n_vocab;
    return on_gpu(x) ? cuda_logits(x->gpu, x->row, x->forward.logits, e) : 0;
}

int context_draw(struct context *x, const struct sampling *s, const int32_t *recent, int n_recent,
                 uint64_t position, struct sampler_entry *scratch, int32_t *id, struct err *e)
{
    float *logits;
    int n = 0, rc = on_gpu(x) ? cuda_candidates(x->gpu, x->row, s, scratch, &n, e) : 0;
    if (!rc && n) *id = sampler_draw_sorted(s, scratch, n, position);
    if (rc || n) return rc;
    rc = context_logits(x, &logits, e);
    if (!rc)
        *id =
            sampler_draw(s, logits, x->engine->model->n_vocab, recent, n_recent, position, scratch);
    return rc;
}

int context_run_again(struct context *x, int32_t id, struct err *e)
{
    struct cache *c = &x->cache;
    x->row = 0;
    if (c->recurrent.hidden) { /* the state must not see the token twice */
        c->n_tried = 0;
        if (on_gpu(x)) return cuda_run_again(x->gpu, e);
        forward_output(&x->forward, c->recurrent.hidden, 1, x->forward.logits);
        return 0;
    }
    int rc, n_heads = cache_n_heads(c);
    float *scores = malloc((size_t)n_heads * sizeof *scores);
    if (!scores) return err_set(e, ERR_FAIL, "out of memory for running a token again");
    context_score(x);
    for (int i = 0; i < n_heads; i++) scores[i] = c->kv_heads[i].score[c->kv_heads[i].len - 1];
    cache_remove_newest(c);
    rc = context_run(x, &id, 1, 1, e);
    context_score(x);
    for (int i = 0; !rc && i < n_heads; i++)
        c->kv_heads[i].score[c->kv_heads[i].len - 1] = scores[i];
    free(scores);
    return rc;
}

void context_score(struct context *x)
{
    on_gpu(x) ? cuda_score(x->gpu) : cis_score(&x->forward, &x->cache);
}

/* Whether scores are logarithms of shares of attention in every head. */
static bool scores_compare(const struct context *x)
{
    const struct retaining *h = x->engine->retaining;
    return x->plan.policy->scorer == POLICY_CIS && h && retaining_comparable(h);
}

bool context_can_adopt(const struct context *x)
{
    return scores_compare(x) && retaining_can_adopt(x->engine->retaining, x->gpu);
}

void context_adopt(struct context *x, int64_t from)
{
    score_adopt(&x->forward, &x->cache, from);
}

static struct evict_rule rule_of(const struct context *x)
{
    const struct plan *p = &x->plan;
    return (struct evict_rule){
        .budget = p->budget,
        .sinks = p->sinks,
        .stabilizers = p->stabilizers,
        .head_budget_max = p->budget_max,
        .floor_pct = p->rules.floor_pct,
        .recency = scores_compare(x) ? p->rules.recency : 0,
        .pins = x->pins,
        .n_pins = x->n_pins,
    };
}

int context_pins_max(const struct context *x)
{
    struct evict_rule rule = rule_of(x);
    return evict_pins_max(&rule);
}

bool context_over_budget(const struct context *x)
{
    struct evict_rule rule = rule_of(x);
    return x->plan.policy->scorer != POLICY_KEEP_ALL && evict_needed(&x->cache, &rule);
}

/* A cache that evicts has reached its size: from now on the process must not grow, by the slots of
 * a head that is longer than before, by scratch that is used for the first time, or by a longer
 * string. */
static void use_all(struct context *x)
{
    if (x->used || x->gpu) return;
    x->used = true;
    arena_use_all(&x->cache_arena);
    arena_use_all(&x->state_arena);
    arena_use_all(&x->scratch);
    memory_use_free();
}

uint32_t context_newest(const struct context *x)
{
    const struct evict_rule rule = rule_of(x);
    const int64_t from = x->cache.n_pos - evict_newest(&rule);
    return from > 0 ? (uint32_t)from : 0;
}

void context_set_aside(struct context *x, const struct recall_aside *aside)
{
    const struct evict_rule rule = rule_of(x);
    recall_set_aside(&x->cache, &rule, aside, x->engine->pool);
}

int context_put_back(struct context *x, struct err *e)
{
    if (!recall_is_aside(&x->cache)) return 0;
    int rc = cache_fetch(&x->cache, cache_len_max(&x->cache), e);
    if (!rc) recall_put_back(&x->cache, x->engine->pool);
    return rc ? rc : context_loaded(x, e);
}

int context_evict(struct context *x, int64_t *n_evicted, struct err *e)
{
    struct evict_rule rule = rule_of(x);
    *n_evicted = 0;
    int rc = context_put_back(x, e);
    if (rc || !context_over_budget(x)) return rc;
    use_all(x);
    context_score(x);
    if (on_gpu(x) && !cuda_leaves_eviction(&x->plan.rules, &x->cache.shape, x->engine->retaining))
        return cuda_evict(x->gpu, &rule, x->engine->pool, n_evicted, e);
    /* a split model's heads may share one budget: all are evicted here */
    rc = cache_fetch(&x->cache, cache_len_max(&x->cache), e);
    if (rc) return rc;
    score_values(&x->forward, &x->cache);
    *n_evicted = evict(&x->cache, &rule, x->engine->pool, x->forward.slots);
    return context_loaded(x, e);
}

int context_drop(struct context *x, int64_t from, int64_t end, int64_t *n_evicted, struct err *e)
{
    *n_evicted = 0;
    int rc = context_put_back(x, e);
    if (rc || !cache_holds(&x->cache, from, end)) return rc;
    context_score(x);
    rc = cache_fetch(&x->cache, cache_len_max(&x->cache), e);
    if (!rc) *n_evicted = cache_drop(&x->cache, from, end);
    return rc ? rc : context_loaded(x, e);
}

int context_loaded(struct context *x, struct err *e)
{
    return x->gpu ? cuda_upload(x->gpu, e) : 0;
}

int64_t context_slots_in_use(const struct context *x)
{
    return on_gpu(x) ? cuda_slots_in_use(x->gpu) : cache_units(&x->cache);
}

/* The part of an item's matrix that a token reads: of the experts, those it is routed to. */
static double share_read(const struct model *m, const struct model_load_item *it)
{
    const struct model_experts *e = it->n_stack > 1 ? model_experts_of(m) : NULL;
    return e ? (double)e->n_used / e->n : 1.0;
}

/* Whether each token reads the whole matrix, not only one row. */
static bool reads_all(const struct model *m, const struct kn_weight *w)
{
    return w != &m->layer_inputs.embedding && (w != &m->embedding || m->tied);
}

/* Units that layers with windows read for a token. */
static int64_t units_in_windows(const struct context *x)
{
    const struct cache *w = x->cache.windows;
    const int64_t n = x->cache.shape.windows.n_units;
    return w ? (w->n_pos < n ? w->n_pos : n) * w->shape.n_layer * w->shape.n_head : 0;
}

/* Bytes of matrices that a token reads, on the GPU or not. */
static double matrix_bytes(const struct model *m, bool on_device)
{
    double bytes = 0;
    for (int i = 0; i < model_n_read(m); i++) {
        const struct model_load_item *it = &m->items[i];
        const struct kn_weight *w = it->weight;
        if (w && reads_all(m, w) && model_on_device(m, it) == on_device)
            bytes += share_read(m, it) * (double)kn_weight_bytes(w->type, w->n_out, w->n_in);
    }
    return bytes;
}

double context_host_bytes_per_token(const struct context *x)
{
    return x->engine->gpu ? matrix_bytes(x->engine->model, false) : 0;
}

double context_bytes_per_token(const struct context *x)
{
    const struct model *m = x->engine->model;
    double bytes = matrix_bytes(m, true) + matrix_bytes(m, false);
    const struct retaining *h = x->engine->retaining;
    int batch = on_gpu(x) ? CACHE_UNSCORED_MAX : FORWARD_SCORE_BATCH;
    for (int i = 0; h && i < h->shape.n_layer; i++)
        bytes +=
            (double)kn_weight_bytes(h->layers[i].w1.type, h->shape.n_hidden, h->shape.n_in) / batch;
    bytes += 2.0 * (double)recurrent_state_bytes(&x->cache.recurrent); /* read and written */
    const struct cache *w = x->cache.windows;
    if (w) bytes += (double)units_in_windows(x) * (double)(w->k_bytes + w->v_bytes);
    return bytes + (double)cache_units(&x->cache) * (double)(x->cache.k_bytes + x->cache.v_bytes);
}

double context_operations_per_token(const struct context *x)
{
    const struct model *m = x->engine->model;
    const struct retaining *h = x->engine->retaining;
    double n = 0;
    for (int i = 0; i < model_n_read(m); i++) {
        const struct kn_weight *w = m->items[i].weight;
        if (w && reads_all(m, w)) n += share_read(m, &m->items[i]) * 2.0 * w->n_out * w->n_in;
    }
    for (int i = 0; h && i < h->shape.n_layer; i++) n += 2.0 * h->shape.n_hidden * h->shape.n_in;
    /* each unit: its key and its value with each query head of its group */
    const struct model_heads w = model_heads(m, m->windowed.n_layer > 0);
    n += (double)units_in_windows(x) * 4.0 * w.head_dim * heads_group(&w);
    return n + (double)cache_units(&x->cache) * 4.0 * m->head_dim * (m->n_head / m->n_kv_head);
}
