#include "runtime/forward/forward.h"

#include <assert.h>
#include <string.h>

#include "runtime/cache/evict.h"

/* ---- memory ---------------------------------------------------------------------------------- */

static void plan_rope(struct kn_rope *rope, int head_dim, const float *freq, int capacity,
                      struct arena *a)
{
    int half = head_dim / 2;
    float *cosines = arena_take(a, (size_t)capacity * (size_t)half, sizeof(float));
    float *sines = arena_take(a, (size_t)capacity * (size_t)half, sizeof(float));
    uint32_t *places = NULL;
    if (head_dim % KN_GROUP == 0) places = arena_take(a, KN_PLACES(head_dim), sizeof *places);
    *rope = (struct kn_rope){capacity, head_dim, cosines, sines, places};
    if (cosines) rope_table(cosines, sines, freq, half, capacity);
    if (places) kn_rope_places(places, rope);
}

static void plan_ropes(struct forward *f, const struct cache_shape *shape, int longest,
                       struct arena *a)
{
    const struct model *m = f->model;
    const struct model_windowed *w = &m->windowed;
    const int window = cache_windows_capacity(&shape->windows);
    plan_rope(&f->rope, m->head_dim, rope_freq(&m->rope, longest), longest, a);
    if (model_has(m).no_rope) plan_rope(&f->still, m->head_dim, rope_still, longest, a);
    if (w->n_layer) plan_rope(&f->windowed, w->head_dim, rope_freq(&w->rope, longest), window, a);
}

/* The results of a layer's operations, [chunk] rows each. */
static void plan_rows(struct forward *f, struct arena *a)
{
    const struct model *m = f->model;
    const struct model_widths n = model_widths(m);
    const size_t chunk = (size_t)f->chunk, embd = (size_t)m->n_embd;
    f->x = arena_take(a, chunk * embd, sizeof(float));
    f->norm = arena_take(a, chunk * embd, sizeof(float));
    f->qkv = arena_take(a, chunk * (size_t)n.qkv, sizeof(float));
    f->att = arena_take(a, chunk * (size_t)n.q, sizeof(float));
    f->gate = arena_take(a, chunk * (size_t)n.ff, sizeof(float));
    f->up = arena_take(a, chunk * (size_t)n.ff, sizeof(float));
    f->tmp = arena_take(a, chunk * embd, sizeof(float));
    if (model_has(m).gates) f->open = arena_take(a, chunk * (size_t)n.q, sizeof(float));
    if (m->recurrent.n_layer) recurrent_plan(f, a);
    if (m->layer_inputs.n) layer_inputs_plan(f, a);
    if (m->latent.rank) latent_plan(f, a);
    linear_plan(&f->act, n.in, chunk, a);
    experts_plan(f, a);
}

void forward_plan(struct forward *f, const struct forward_opts *o, struct arena *a)
{
    const struct model *m = o->model;
    const struct policy *p = o->policy;
    const int longest = cache_head_max(o->shape);
    *f = (struct forward){
        .model = m,
        .retaining = o->retaining,
        .kernels = o->kernels,
        .pool = o->pool,
        .policy = p,
        .seed = o->seed,
        .chunk = o->chunk,
        .n_logits = o->n_logits,
        .n_threads = o->n_threads,
    };
    plan_ropes(f, o->shape, longest, a);
    plan_rows(f, a);
    if (cis_used(f)) cis_plan(f, a);
    attend_plan(f, longest, a);
    f->logits = arena_take(a, (size_t)o->n_logits * (size_t)m->n_vocab, sizeof(float));
    if (p->scorer != POLICY_KEEP_ALL)
        f->slots = arena_take(a, cache_slots(o->shape), sizeof *f->slots);
    if (p->near_duplicates)
        f->derive = arena_take(a, (size_t)o->n_threads * (size_t)longest, sizeof(float));
}

/* ---- a layer --------------------------------------------------------------------------------- */

struct residual_job {
    const struct forward *f;
    const float *norm;
};

static void add_row(void *ctx, int t, int thread)
{
    const struct residual_job *j = ctx;
    const struct forward *f = j->f;
    const int n_embd = f->model->n_embd;
    float *y = f->tmp + (size_t)t * (size_t)n_embd;
    (void)thread;
    if (j->norm) f->kernels->rmsnorm(y, y, j->norm, n_embd, f->model->norm_eps);
    f->kernels->mix(f->x + (size_t)t * (size_t)n_embd, y, n_embd, 1.0f, f->model->residual_scale);
}

/* Adds f->tmp to the residual stream, normed if `norm` is not NULL, and scaled. */
static void add_rows(const struct layer_step *s, const float *norm)
{
    linear_each(s->f, s->n, add_row, &(struct residual_job){s->f, norm});
}

/* What an operation computed for MODEL_ADD. */
static const float *result_of(const struct forward *f, enum model_op_kind kind)
{
    switch (kind) {
    case MODEL_ATTEND: return f->att;
    case MODEL_VALUES: return f->latent.q;
    case MODEL_RECUR: return f->recurrent.y;
    default: return f->gate;
    }
}

static void add_output(struct layer_step *s)
{
    struct forward *f = s->f;
    const struct model_op *op = s->op;
    const float *norm = *op->norm;
    struct linear l = {.f = f,
                       .x = result_of(f, op->from),
                       .n = s->n,
                       .scale = norm ? 1.0f : f->model->residual_scale,
                       .add_to = norm ? NULL : f->x};
    linear_add(&l, op->w, *op->bias, f->tmp, f->model->n_embd);
    linear_run(&l);
    if (norm) add_rows(s, norm);
}

static void run_qkv(struct layer_step *s)
{
    struct forward *f = s->f;
    const struct model_layer *l = s->layer;
    const struct model_heads h = model_heads(f->model, l->is_windowed);
    int n_q = heads_n_q(&h), n_kv = heads_n_kv(&h), row = heads_n_qkv(&h);
    struct linear qkv = {.f = f, .x = f->x, .norm = l->attn_norm, .n = s->n, .scale = 1.0f};
    linear_add(&qkv, &l->q, l->q_bias, f->qkv, row);
    if (l->k.n_out) linear_add(&qkv, &l->k, l->k_bias, f->qkv + n_q, row);
    if (l->v.n_out) linear_add(&qkv, &l->v, l->v_bias, f->qkv + n_q + n_kv, row);
    if (l->is_gated) linear_add(&qkv, &l->attn_gate, NULL, f->open, n_q);
    linear_run(&qkv);
}

/* Multiplies a token's attention by its gate. */
static void open_row(void *ctx, int t, int thread)
{
    const struct layer_step *s = ctx;
    const struct forward *f = s->f;
    const struct model_heads h = model_heads(f->model, s->layer->is_windowed);
    const int n_q = heads_n_q(&h);
    float *a = f->att + (size_t)t * (size_t)n_q;
    (void)thread;
    f->kernels->sigmoid_mul(a, f->open + (size_t)t * (size_t)n_q, a, n_q);
}

static void run_attend(struct layer_step *s)
{
    attend_run(s);
    if (s->layer->is_gated) linear_each(s->f, s->n, open_row, s);
}

static void run_gate(struct layer_step *s)
{
    linear_gate(s->f, s->layer, s->n);
}

static void run_experts(struct layer_step *s)
{
    experts_run(s);
    add_rows(s, s->layer->ffn_post_norm);
}

static void scale(struct layer_step *s)
{
    linear_scale(s->f->x, *s->layer->out_scale, s->n * s->f->model->n_embd);
}

/* Subtracts the mean of a row of the residual stream. */
static void centre_row(void *ctx, int t, int thread)
{
    const struct forward *f = ctx;
    const int n_embd = f->model->n_embd;
    float *x = f->x + (size_t)t * (size_t)n_embd;
    double sum = 0.0;
    (void)thread;
    for (int i = 0; i < n_embd; i++) sum += (double)x[i];
    const float mean = (float)(sum / n_embd);
    for (int i = 0; i < n_embd; i++) x[i] -= mean;
}

static void centre(struct layer_step *s)
{
    linear_each(s->f, s->n, centre_row, s->f);
}

static void (*const run_op[MODEL_N_OPS])(struct layer_step *) = {
    [MODEL_RECUR] = recurrent_run,     [MODEL_QKV] = run_qkv,       [MODEL_ATTEND] = run_attend,
    [MODEL_GATE] = run_gate,           [MODEL_RELU2] = run_gate,    [MODEL_EXPERTS] = run_experts,
    [MODEL_INPUT] = layer_inputs_join, [MODEL_ADD] = add_output,    [MODEL_SCALE] = scale,
    [MODEL_CENTRE] = centre,           [MODEL_LATENT] = latent_run, [MODEL_VALUES] = latent_values,
};

/* ---- a chunk --------------------------------------------------------------------------------- */

void forward_output(struct forward *f, const float *x, int n, float *logits)
{
    const struct model *m = f->model;
    struct linear l = {.f = f,
                       .x = x,
                       .norm = m->output_norm,
                       .n = n,
                       .scale = m->logit_scale,
                       .softcap = m->logit_softcap};
    linear_add(&l, &m->output, m->output_bias, logits, m->n_vocab);
    linear_run(&l);
}

static void embed(struct forward *f, const int32_t *ids, int n)
{
    const struct model *m = f->model;
    for (int t = 0; t < n; t++) {
        assert(ids[t] >= 0 && ids[t] < m->n_vocab);
        float *x = f->x + (size_t)t * (size_t)m->n_embd;
        kn_row(x, &m->embedding, ids[t]);
        if (m->embed_scale != 1.0f) linear_scale(x, m->embed_scale, m->n_embd);
    }
}

static int run_layers(struct forward *f, struct cache *c, const int32_t *ids, int n, bool tried)
{
    assert(n >= 1 && n <= f->chunk && cache_room(c) >= n);
    if (n > 1) cis_score(f, c);
    embed(f, ids, n);
    if (f->model->is_centred) centre(&(struct layer_step){.f = f, .n = n});
    if (f->layer_inputs) layer_inputs_run(f, ids, n);
    cache_windows_make_room(c, n);
    int rc = f->run_first ? f->run_first(f->run_first_ctx, f->x, n) : 0;
    for (int i = f->first_layer; !rc && i < f->model->n_layer; i++) {
        const struct model_layer *l = &f->model->layers[i];
        struct cache *units = l->is_windowed ? c->windows : c;
        for (int k = 0; k < l->n_ops; k++) {
            struct layer_step s = {f, units, l, &l->ops[k], l->kv_layer, n, tried};
            run_op[s.op->kind](&s);
        }
    }
    return rc;
}

int forward_run(struct forward *f, struct cache *c, const int32_t *ids, int n, int n_logits)
{
    assert(n_logits <= f->n_logits && n_logits <= n);
    int rc = run_layers(f, c, ids, n, false);
    if (rc) return rc;
    cache_appended(c, n);
    /* After a crash, units without scores are run again, which a recurrent state does not allow: it
     * would see their tokens twice. */
    const int batch = f->model->recurrent.n_layer ? 1 : FORWARD_SCORE_BATCH;
    if (cis_used(f) && n == 1 && ++c->n_unscored == batch) cis_score(f, c);
    if (c->recurrent.hidden)
        memcpy(c->recurrent.hidden, f->x + (size_t)(n - 1) * (size_t)f->model->n_embd,
               (size_t)f->model->n_embd * sizeof *f->x);
    if (n_logits)
        forward_output(f, f->x + (size_t)(n - n_logits) * (size_t)f->model->n_embd, n_logits,
                       f->logits);
    return 0;
}

int forward_try(struct forward *f, struct cache *c, const int32_t *ids, int n)
{
    assert(n > 1 && n <= f->n_logits);
    int rc = run_layers(f, c, ids, n, true);
    if (rc) return rc;
    cache_take_back(c, n);
    forward_output(f, f->x, n, f->logits);
    return 0;
}

/* Windows make their room first, so that n units can be taken back. */
int forward_look(struct forward *f, struct cache *c, const int32_t *ids, int n, int n_logits)
{
    const size_t n_embd = (size_t)f->model->n_embd;
    assert(n_logits <= f->n_logits && n_logits <= n && !f->model->recurrent.n_layer);
    cache_windows_make_room(c, f->chunk);
    int rc = run_layers(f, c, ids, n, true);
    if (rc) return rc;
    cache_take_back(c, n);
    cache_take_back(c, 0); /* none of them is added */
    forward_output(f, f->x + (size_t)(n - n_logits) * n_embd, n_logits, f->logits);
    return 0;
}

void forward_accept(struct forward *f, struct cache *c, int i)
{
    cache_accept(c);
    if (c->recurrent.hidden) recurrent_accept(f, c, i);
}
