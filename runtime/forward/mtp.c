#include "runtime/forward/mtp.h"

#include <math.h>
#include <string.h>

#include "runtime/token/sampler.h"

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
    out->n_device = out->n_device_experts = model_is_split(m) ? 0 : m->n_device;
    if (p->embedding.n_out) out->embedding = p->embedding;
    if (p->output.n_out) out->output = p->output;
    if (p->output_norm) out->output_norm = p->output_norm;
}

static struct cache_shape shape_of(const struct model *m, enum kn_kv type)
{
    return (struct cache_shape){.n_layer = 1,
                                .n_head = m->n_kv_head,
                                .head_dim = m->head_dim,
                                .k_type = type,
                                .v_type = m->latent.rank ? KN_KV_KEY : type,
                                .capacity = 2 * MTP_WINDOW};
}

static int combine(void *ctx, float *x, int n);

void mtp_plan(struct mtp *p, const struct forward_opts *o, struct arena *a)
{
    const size_t embd = (size_t)o->model->n_embd;
    *p = (struct mtp){.model_norm = o->model->output_norm};
    if (!o->proposes) return;
    set_model(&p->model, o->model);
    const struct cache_shape shape = shape_of(&p->model, KN_KV_F32);
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

static struct cuda_context_opts device_opts(const struct model *m, const struct cache_shape *shape)
{
    return (struct cuda_context_opts){.model = m,
                                      .policy = &keeps_all,
                                      .shape = shape,
                                      .chunk = MTP_CHUNK,
                                      .n_logits = 1,
                                      .n_mtp_rows = MTP_WINDOW};
}

struct mtp_bytes mtp_device_bytes(const struct cuda *g, const struct model *m)
{
    struct model own;
    set_model(&own, m);
    const struct cache_shape shape = shape_of(&own, KN_KV_F16);
    const struct cuda_context_opts o = device_opts(&own, &shape);
    const struct cuda_bytes n = cuda_context_plan(g, &o);
    return (struct mtp_bytes){n.cache + n.scratch, cache_plan_bytes(&shape) + n.locked};
}

int mtp_open_device(struct mtp *p, struct cuda *g, const struct model *m, struct cuda_context *of,
                    struct err *e)
{
    *p = (struct mtp){.model_norm = m->output_norm, .of = of};
    set_model(&p->model, m);
    const struct cache_shape shape = shape_of(&p->model, KN_KV_F16);
    const struct cuda_context_opts o = device_opts(&p->model, &shape);
    int rc = arena_init(&p->units, "MTP layer", cache_plan_bytes(&shape), e);
    if (rc) return rc;
    cache_plan(&p->cache, &shape, &p->units);
    rc = cuda_context_open(&p->gpu, g, &o, &p->cache, e);
    if (!rc) p->rows = cuda_mtp_rows(p->gpu);
    return rc;
}

void mtp_close(struct mtp *p)
{
    cuda_context_close(p->gpu);
    arena_release(&p->units);
    p->gpu = NULL;
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

/* Keeps the rows x of n <= MTP_WINDOW positions from `pos` on: at once up to the end of the
 * memory. */
static void keep_rows(struct mtp *p, int64_t pos, const float *x, int n)
{
    const size_t embd = (size_t)p->model.n_embd;
    for (int k; n > 0; n -= k, pos += k, x += (size_t)k * embd) {
        const int room = MTP_WINDOW - (int)(pos % MTP_WINDOW);
        k = n < room ? n : room;
        if (p->gpu)
            cuda_keep_rows(p->of, row_of(p, pos), x, k);
        else
            memcpy(row_of(p, pos), x, (size_t)k * embd * sizeof *x);
    }
}

void mtp_ran(struct mtp *p, const struct cache *c, const int32_t *ids, const float *x, int n)
{
    const int64_t first = c->n_pos - n;
    const int skipped = n > MTP_WINDOW ? n - MTP_WINDOW : 0;
    if (first != p->end || c->n_loads != p->n_loads) {
        p->begin = first;
        p->n_loads = c->n_loads;
        skip_to(p, first + 1);
    }
    for (int t = skipped; t < n; t++) p->ids[(first + t) % MTP_WINDOW] = ids[t];
    keep_rows(p, first + skipped, x + (size_t)skipped * (size_t)p->model.n_embd, n - skipped);
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

static int run(struct mtp *p, const int32_t *ids, int n, bool logits, struct err *e)
{
    const size_t newest = (size_t)(n - 1) * (size_t)p->model.n_embd;
    if (p->gpu) {
        const struct cuda_mtp_input in = {ids, p->before, p->norm};
        p->last = cuda_stream(p->gpu) + newest;
        return cuda_run_mtp(p->gpu, &in, n, logits, e);
    }
    forward_run(&p->forward, &p->cache, ids, n, logits);
    memcpy(p->last, p->forward.x + newest, (size_t)p->model.n_embd * sizeof *p->last);
    return 0;
}

/* Makes room for a chunk and for proposals. */
static int make_room(struct mtp *p, struct err *e)
{
    const int64_t oldest = p->cache.n_pos - p->cache.kv_heads[0].len;
    if (cache_room(&p->cache) >= MTP_CHUNK + FORWARD_TRY_MAX) return 0;
    int rc = cache_fetch(&p->cache, cache_len_max(&p->cache), e);
    if (rc) return rc;
    cache_drop(&p->cache, oldest, oldest + MTP_WINDOW);
    return p->gpu ? cuda_upload(p->gpu, e) : 0;
}

static int guess(struct mtp *p, struct mtp_guess *out, struct err *e)
{
    const struct sampling s = {.temperature = 1, .top_k = MTP_LIKELY, .repeat_penalty = 1};
    struct sampler_entry likely[MTP_LIKELY];
    double sum = 0;
    int n, rc;
    if (!p->gpu) {
        out->id = sampler_likeliest(p->forward.logits, p->model.n_vocab, &out->p);
        return 0;
    }
    rc = cuda_candidates(p->gpu, 0, &s, likely, &n, e);
    if (rc) return rc;
    for (int i = 0; i < n; i++) sum += exp((double)(likely[i].logit - likely[0].logit));
    *out = (struct mtp_guess){likely[0].id, 1 / sum};
    return 0;
}

int mtp_read(struct mtp *p, const struct cache *c, int32_t id, struct mtp_guess *out, struct err *e)
{
    int rc = 0;
    out->id = -1;
    if (p->end != c->n_pos || p->n_loads != c->n_loads || p->begin == p->end) return 0;
    for (; p->n_ran; p->n_ran--) cache_remove_newest(&p->cache);
    if (p->next <= p->end - MTP_WINDOW) skip_to(p, p->end - MTP_WINDOW + 1);
    p->ids[p->end % MTP_WINDOW] = id; /* in place of a token whose row alone is needed */
    p->norm = p->model_norm;
    p->n_newest = (int)(p->end + 1 - p->next);
    while (!rc && p->next <= p->end) {
        int32_t ids[MTP_CHUNK];
        int n = 0;
        rc = make_room(p, e);
        for (; n < MTP_CHUNK && p->next <= p->end; n++, p->next++) {
            ids[n] = p->ids[p->next % MTP_WINDOW];
            p->before[n] = row_of(p, p->next - 1);
        }
        if (!rc) rc = run(p, ids, n, p->next > p->end, e);
    }
    return rc ? rc : guess(p, out, e);
}

int mtp_read_proposal(struct mtp *p, int32_t id, struct mtp_guess *out, struct err *e)
{
    p->before[0] = p->last;
    p->norm = p->model.output_norm;
    int rc = run(p, &id, 1, true, e);
    if (rc) return rc;
    p->n_ran++;
    return guess(p, out, e);
}
