#include "runtime/session/session_parts.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/system.h"
#include "runtime/forward/engine.h"

/* ---- numbers --------------------------------------------------------------------------------- */

static double per_second(int64_t n, int64_t ns)
{
    return ns > 0 ? (double)n * 1e9 / (double)ns : 0.0;
}

void session_stats(const struct session *s, struct session_stats *out)
{
    const struct model *m = s->engine->model;
    const struct cache *c = &s->ctx.cache;
    const struct archive *x = session_recall_archive(s);
    *out = (struct session_stats){
        .scored = s->ctx.plan.policy->scorer == POLICY_CIS,
        .n_layer = m->n_kv_layer,
        .n_kv_head = m->n_kv_head,
        .budget = s->ctx.plan.budget,
        .now = s->opts,
        .n_tokens = s->n_tokens,
        .n_turns = s->n_turns,
        .pinned = s->state.pinned,
        .forgotten = s->state.forgotten,
        .n_reread = s->n_reread,
        .units_kept = cache_units(c),
        .units_seen = c->n_pos * m->n_kv_layer * m->n_kv_head,
        .units_evicted = c->n_evicted,
        .units_returned = c->n_returned,
        .unit_bytes = (int64_t)s->ctx.plan.unit_bytes,
        .weights_bytes = (int64_t)(s->ctx.plan.weights_bytes + s->ctx.plan.heads_bytes),
        .cache_bytes = (int64_t)s->ctx.plan.cache_bytes,
        .state_bytes = (int64_t)s->ctx.plan.state_bytes,
        .scratch_bytes = (int64_t)s->ctx.plan.scratch_bytes,
        .process_bytes = system_process_bytes(),
        .process_peak_bytes = system_process_peak_bytes(),
        .machine_bytes = system_memory_bytes(),
        .prefill_tok_s = per_second(s->n_read, s->read_ns),
        .decode_tok_s = per_second(s->n_decoded, s->decode_ns),
        .first_token_ms = s->first_token_ms,
        .n_decoded = s->n_decoded,
        .n_proposed = s->proposals.n_proposed,
        .n_accepted = s->proposals.n_accepted,
        .bytes_per_token = context_bytes_per_token(&s->ctx),
    };
    if (x) out->archive_bytes = (int64_t)x->position_bytes * x->n_units;
    if (x) out->archive_max_bytes = (int64_t)x->position_bytes * x->n_max;
    if (x) out->archive_max_tokens = x->n_max;
    out->now.plan.chunk = s->ctx.plan.chunk;
    out->cache_used_bytes = out->unit_bytes * context_slots_in_use(&s->ctx);
    const struct cache *w = c->windows;
    if (w) out->cache_used_bytes += cache_units(w) * (int64_t)(w->k_bytes + w->v_bytes);
    snprintf(out->model, sizeof out->model, "%s", m->name);
    snprintf(out->weights, sizeof out->weights, "%s", m->type);
    plan_kv_text(&s->ctx.plan, out->kv);
    snprintf(out->policy, sizeof out->policy, "%s", s->ctx.plan.policy->name);
    engine_device_name(s->engine, out->device, sizeof out->device);
    snprintf(out->gpu_bus, sizeof out->gpu_bus, "%s", engine_gpu_bus(s->engine));
}

struct retention *retention_new(const struct session *s)
{
    const struct cache_shape *shape = &s->ctx.cache.shape;
    size_t n = (size_t)(shape->n_layer * shape->n_head) * RETENTION_COLS;
    struct retention *r = memory_new(1, sizeof *r);
    r->kept = memory_new(n, sizeof *r->kept);
    return r;
}

/* A model with layers of one kind needs no table. */
static void put_layers(const struct model *m, struct retention *out)
{
    bool mixed = m->recurrent.n_layer > 0 || m->windowed.n_layer > 0;
    out->n_all = mixed && m->n_layer <= RETENTION_LAYERS ? m->n_layer : 0;
    for (int i = 0; i < out->n_all; i++) {
        const struct model_layer *l = &m->layers[i];
        bool units = l->kv_layer >= 0 && !l->is_windowed;
        out->layers[i] = (struct retention_layer){.kind = units            ? RETENTION_UNITS
                                                          : l->is_windowed ? RETENTION_WINDOW
                                                                           : RETENTION_STATE,
                                                  .kv_layer = (int16_t)(units ? l->kv_layer : -1),
                                                  .window = m->windowed.n_units};
    }
}

/* While units are only appended, the counts of earlier positions stay. */
static void count_heads(const struct session *s, struct retention *out)
{
    const struct cache *c = &s->ctx.cache;
    const int64_t n_changes = c->n_evictions + c->n_returns + c->n_loads;
    const bool same = out->heads && out->n_changes == n_changes && out->n_pos <= c->n_pos;
    const int64_t from = same ? out->n_pos : 0;
    retention_reserve(out, c->n_pos);
    if (c->n_pos > from) session_kept(s, from, (int)(c->n_pos - from), out->heads + from);
    out->n_changes = n_changes;
}

void session_retention(const struct session *s, struct retention *out)
{
    const struct cache *c = &s->ctx.cache;
    const struct cache_shape *shape = &c->shape;
    count_heads(s, out);
    out->n_layer = shape->n_layer;
    out->n_head = shape->n_head;
    out->n_pos = c->n_pos;
    out->col_width = c->col_width;
    out->n_cols = (int)((c->n_pos + c->col_width - 1) / c->col_width);
    out->n_evictions = c->n_evictions;
    out->n_evicted = c->n_evicted;
    out->n_returned = c->n_returned;
    out->n_sink = s->ctx.plan.sinks;
    out->n_stabilizer = s->ctx.plan.stabilizers;
    put_layers(s->engine->model, out);
    memcpy(out->kept, c->kept,
           (size_t)(shape->n_layer * shape->n_head) * RETENTION_COLS * sizeof *out->kept);
    retention_find_whole(out);
}

int session_past(const struct session *s, void (*each)(void *ctx, const struct retention *r),
                 void *ctx, struct err *e)
{
    struct retention *now = retention_new(s), *out = retention_new(s);
    int rc = 0;
    session_retention(s, now);
    if (s->save) rc = save_past(s->save, &s->ctx.cache, now, out, each, ctx, e);
    retention_free(now);
    retention_free(out);
    return rc;
}

void session_kept(const struct session *s, int64_t pos, int n, uint16_t *out)
{
    const struct cache *c = &s->ctx.cache;
    memset(out, 0, (size_t)n * sizeof *out);
    for (int i = 0; i < c->shape.n_layer * c->shape.n_head; i++)
        cache_count(&c->kv_heads[i], pos, n, out);
}
