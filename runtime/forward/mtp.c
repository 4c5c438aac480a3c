#include "runtime/forward/mtp.h"

#include <string.h>

#include "runtime/forward/linear.h"

static const struct policy keeps_all = {.scorer = POLICY_KEEP_ALL};

/* ---- memory ---------------------------------------------------------------------------------- */

static void set_model(struct model *out, const struct model *m)
{
    const struct model_mtp *p = &m->mtp;
    *out = *m;
    out->layers = p->layer;
    out->n_layer = out->n_kv_layer = 1;
    out->kv_layers[0] = p->layer;
    out->windowed = (struct model_windowed){0};
    out->recurrent = (struct model_recurrent_shape){0};
    if (p->embedding.n_out) out->embedding = p->embedding;
    if (p->output.n_out) out->output = p->output;
    if (p->output_norm) out->output_norm = p->output_norm;
}

static int combine(void *ctx, float *x, int n);

void mtp_plan(struct mtp *p, const struct forward_opts *o, struct arena *a)
{
    const size_t embd = (size_t)o->model->n_embd;
    *p = (struct mtp){.model_norm = o->model->output_norm};
    if (!o->proposes) return;
    set_model(&p->model, o->model);
    const struct cache_shape shape = {.n_layer = 1,
                                      .n_head = p->model.n_kv_head,
                                      .head_dim = p->model.head_dim,
                                      .k_type = KN_KV_F32,
                                      .v_type =
                                          o->shape->v_type == KN_KV_KEY ? KN_KV_KEY : KN_KV_F32,
                                      .capacity = 2 * MTP_WINDOW};
    const struct forward_opts own = {.model = &p->model,
                                     .kernels = o->kernels,
                                     .pool = o->pool,
                                     .policy = &keeps_all,
                                     .shape = &shape,
                                     .chunk = MTP_CHUNK,
                                     .n_logits = 1,
                                     .n_threads = o->n_threads};
    cache_plan(&p->cache, &shape, a);
    forward_plan(&p->forward, &own, a);
    if (p->forward.act.n_in < 2 * o->model->n_embd)
        linear_plan(&p->forward.act, 2 * o->model->n_embd, MTP_CHUNK, a);
    p->forward.run_first = combine;
    p->forward.run_first_ctx = p;
    p->rows = arena_take(a, MTP_WINDOW * embd, sizeof *p->rows);
    p->last = arena_take(a, embd, sizeof *p->last);
    p->both = arena_take(a, MTP_CHUNK * 2 * embd, sizeof *p->both);
}

/* ---- the conversation ------------------------------------------------------------------------ */

static float *row_of(const struct mtp *p, int64_t pos)
{
    return p->rows + (size_t)(pos % MTP_WINDOW) * (size_t)p->model.n_embd;
}

static void skip_to(struct mtp *p, int64_t next)
{
    cache_clear(&p->cache);
    p->next = next;
    p->n_ran = 0;
}

void mtp_ran(struct mtp *p, const struct cache *c, const int32_t *ids, const float *x, int n)
{
    const size_t embd = (size_t)p->model.n_embd;
    const int64_t first = c->n_pos - n;
    if (first != p->end || c->n_loads != p->n_loads) {
        p->begin = first;
        p->n_loads = c->n_loads;
        skip_to(p, first + 1);
    }
    for (int t = n > MTP_WINDOW ? n - MTP_WINDOW : 0; t < n; t++) {
        memcpy(row_of(p, first + t), x + (size_t)t * embd, embd * sizeof *x);
        p->ids[(first + t) % MTP_WINDOW] = ids[t];
    }
    p->end = c->n_pos;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Replaces n embeddings by what the layer reads. */
static int combine(void *ctx, float *x, int n)
{
    struct mtp *p = ctx;
    struct forward *f = &p->forward;
    const struct model_mtp *w = &p->model.mtp;
    const int embd = p->model.n_embd;
    const float eps = p->model.norm_eps;
    for (int t = 0; t < n; t++) {
        float *e = p->both + (size_t)t * 2 * (size_t)embd, *h = e + embd;
        f->kernels->rmsnorm(e, x + (size_t)t * (size_t)embd, w->embedding_norm, embd, eps);
        f->kernels->rmsnorm(h, p->before[t], p->norm, embd, eps);
        f->kernels->rmsnorm(h, h, w->hidden_norm, embd, eps);
    }
    struct linear l = {.f = f, .x = p->both, .n = n, .scale = 1.0f};
    linear_add(&l, &w->project, NULL, x, embd);
    linear_run(&l);
    return 0;
}

static void run(struct mtp *p, const int32_t *ids, int n, bool logits)
{
    const size_t embd = (size_t)p->model.n_embd;
    forward_run(&p->forward, &p->cache, ids, n, logits);
    memcpy(p->last, p->forward.x + (size_t)(n - 1) * embd, embd * sizeof *p->last);
}

/* Makes room for a chunk and for proposals. */
static void make_room(struct mtp *p)
{
    const int64_t oldest = p->cache.n_pos - p->cache.kv_heads[0].len;
    if (cache_room(&p->cache) < MTP_CHUNK + FORWARD_TRY_MAX)
        cache_drop(&p->cache, oldest, oldest + MTP_WINDOW);
}

const float *mtp_read(struct mtp *p, const struct cache *c, int32_t id)
{
    if (p->end != c->n_pos || p->n_loads != c->n_loads || p->begin == p->end) return NULL;
    for (; p->n_ran; p->n_ran--) cache_remove_newest(&p->cache);
    if (p->next <= p->end - MTP_WINDOW) skip_to(p, p->end - MTP_WINDOW + 1);
    p->ids[p->end % MTP_WINDOW] = id; /* in place of a token whose row alone is needed */
    p->norm = p->model_norm;
    p->n_newest = (int)(p->end + 1 - p->next);
    while (p->next <= p->end) {
        int32_t ids[MTP_CHUNK];
        int n = 0;
        make_room(p);
        for (; n < MTP_CHUNK && p->next <= p->end; n++, p->next++) {
            ids[n] = p->ids[p->next % MTP_WINDOW];
            p->before[n] = row_of(p, p->next - 1);
        }
        run(p, ids, n, p->next > p->end);
    }
    return p->forward.logits;
}

const float *mtp_read_proposal(struct mtp *p, int32_t id)
{
    p->before[0] = p->last;
    p->norm = p->model.output_norm;
    run(p, &id, 1, true);
    p->n_ran++;
    return p->forward.logits;
}
