#include "runtime/context.h"

#include "runtime/base/pool.h"
#include "runtime/engine.h"
#include "runtime/evict.h"
#include "runtime/options.h"
#include "runtime/score.h"

int context_open(struct context *x, struct engine *g, const struct options *o, int n_logits,
                 struct err *e)
{
    const struct model *m = g->model;
    struct plan *p = &x->plan;
    *x = (struct context){.engine = g};
    int rc = plan_make(p, g->model, g->heads, o, n_logits, pool_n_threads(g->pool), e);
    if (!rc) rc = arena_init(&x->cache_arena, "cache", p->cache_bytes, e);
    if (!rc) rc = arena_init(&x->scratch, "scratch", p->scratch_bytes, e);
    if (rc) {
        context_release(x);
        return rc;
    }
    struct cache_shape shape = plan_shape(p, m);
    struct forward_opts fo = {
        .model = m,
        .heads = g->heads,
        .kernels = g->kernels,
        .pool = g->pool,
        .policy = &p->rules,
        .seed = o->sampling.seed,
        .shape = &shape,
        .chunk = p->chunk,
        .n_logits = p->n_logits,
        .n_threads = p->n_threads,
    };
    cache_plan(&x->cache, &shape, &x->cache_arena);
    forward_plan(&x->forward, &fo, &x->scratch);
    return 0;
}

void context_release(struct context *x)
{
    arena_release(&x->cache_arena);
    arena_release(&x->scratch);
}

int64_t context_evict(struct context *x)
{
    const struct plan *p = &x->plan;
    struct forward *f = &x->forward;
    struct evict_rule rule = {
        .budget = p->budget,
        .sinks = p->sinks,
        .stabilizers = p->stabilizers,
        .head_budget_max = p->budget_max,
        .policy = &p->rules,
        .seed = f->seed,
    };
    if (p->policy->scorer == POLICY_KEEP_ALL || !evict_needed(&x->cache, &rule)) return 0;
    score_values(f, &x->cache);
    return evict(&x->cache, &rule, x->engine->pool, f->slots);
}

double context_bytes_per_token(const struct context *x)
{
    const struct model *m = x->engine->model;
    double bytes = 0;
    for (int i = 0; i < m->n_items; i++) {
        const struct kn_weight *w = m->items[i].weight;
        if (w && (w != &m->embedding || m->tied))
            bytes += (double)kn_weight_bytes(w->type, w->n_out, w->n_in);
    }
    const struct heads *h = x->engine->heads;
    for (int i = 0; h && i < h->n_layer; i++)
        bytes += (double)kn_weight_bytes(h->layers[i].w1.type, h->n_hidden, h->n_in);
    return bytes + (double)cache_units(&x->cache) * (double)(x->cache.k_bytes + x->cache.v_bytes);
}
