#include "runtime/forward/forward_parts.h"

#include <math.h>
#include <string.h>

#include "base/pool.h"
#include "runtime/model/recurrent.h"

#define CHANNELS   256   /* per part of a convolution */
#define COLUMNS    64    /* of a head's state, per part of the recurrence */
#define LENGTH_EPS 1e-6f /* added to the square of a key's length, as in training */

/* ---- memory ---------------------------------------------------------------------------------- */

struct recurrent_state_shape recurrent_shape_of(const struct model *m)
{
    const struct model_recurrent_shape *s = &m->recurrent;
    if (s->n_layer == 0) return (struct recurrent_state_shape){0};
    return (struct recurrent_state_shape){
        .n_layer = s->n_layer,
        .n_window = recurrent_n_window(s),
        .n_matrices = recurrent_n_matrix(s),
        .n_hidden = m->n_embd,
        .n_step = s->n_channel + 2 * s->n_head,
    };
}

static void plan_tries(struct forward *f, struct arena *a)
{
    const struct recurrent_state_shape shape = recurrent_shape_of(f->model);
    struct recurrent_rows *r = &f->recurrent;
    r->n_try = f->n_logits < FORWARD_TRY_MAX ? f->n_logits : FORWARD_TRY_MAX;
    if (r->n_try < 2) return;
    r->before = arena_take(a, (size_t)(shape.n_window + shape.n_matrices), sizeof(float));
    r->tried =
        arena_take(a, (size_t)shape.n_layer * (size_t)(r->n_try * shape.n_step), sizeof(float));
}

void recurrent_plan(struct forward *f, struct arena *a)
{
    const struct model_recurrent_shape *s = &f->model->recurrent;
    struct recurrent_rows *r = &f->recurrent;
    const size_t chunk = (size_t)f->chunk, heads = chunk * (size_t)s->n_head;
    const size_t out = chunk * (size_t)recurrent_n_out(s);
    r->in = arena_take(a, chunk * (size_t)s->n_channel, sizeof(float));
    r->gate = arena_take(a, out, sizeof(float));
    r->y = arena_take(a, out, sizeof(float));
    r->rate = arena_take(a, heads, sizeof(float));
    r->decay = arena_take(a, heads, sizeof(float));
    plan_tries(f, a);
    r->q_scale = arena_take(a, (size_t)s->key_dim, sizeof(float));
    r->k_scale = arena_take(a, (size_t)s->key_dim, sizeof(float));
    /* A norm divides by the root of the mean square, which is the length over sqrt(key_dim). */
    for (int i = 0; r->q_scale && i < s->key_dim; i++) {
        r->q_scale[i] = 1.0f / (float)s->key_dim;
        r->k_scale[i] = 1.0f / sqrtf((float)s->key_dim);
    }
}

/* ---- a layer --------------------------------------------------------------------------------- */

static void project(struct layer_step *s)
{
    struct forward *f = s->f;
    const struct model_recurrent_shape *h = &f->model->recurrent;
    const struct model_recurrent *m = &s->layer->recurrent;
    struct recurrent_rows *r = &f->recurrent;
    struct linear l = {.f = f, .x = f->x, .norm = s->layer->attn_norm, .n = s->n, .scale = 1.0f};
    linear_add(&l, &m->in, NULL, r->in, h->n_channel);
    linear_add(&l, &m->gate, NULL, r->gate, recurrent_n_out(h));
    if (h->kind == MODEL_CONVOLUTION)
        linear_add(&l, &m->in_gate, NULL, r->y, h->n_channel);
    else
        linear_add(&l, &m->step, NULL, r->decay, h->n_head);
    if (h->kind == MODEL_DELTA) linear_add(&l, &m->beta, NULL, r->rate, h->n_head);
    linear_run(&l);
}

static float softplus(float x)
{
    return x > 20.0f ? x : log1pf(expf(x));
}

/* The decay and the rate of each head for one token. */
static void set_rates(const struct layer_step *s, int t)
{
    const struct model_recurrent_shape *h = &s->f->model->recurrent;
    const struct model_recurrent *m = &s->layer->recurrent;
    float *decay = s->f->recurrent.decay + t * h->n_head;
    float *rate = s->f->recurrent.rate + t * h->n_head;
    for (int i = 0; i < h->n_head; i++) {
        float step = softplus(decay[i] + m->step_bias[i]);
        rate[i] = h->kind == MODEL_DELTA ? 1.0f / (1.0f + expf(-rate[i])) : step;
        decay[i] = expf(m->a[i] * step);
    }
}

/* Everything of a token before the convolution. */
static void prepare_row(void *ctx, int t, int thread)
{
    const struct layer_step *s = ctx;
    const struct model_recurrent_shape *h = &s->f->model->recurrent;
    const struct recurrent_rows *r = &s->f->recurrent;
    float *in = r->in + (size_t)t * (size_t)h->n_channel;
    (void)thread;
    if (h->kind != MODEL_CONVOLUTION) {
        set_rates(s, t);
        return;
    }
    const float *gate = r->y + (size_t)t * (size_t)h->n_channel;
    for (int i = 0; i < h->n_channel; i++) in[i] *= gate[i];
}

static void convolve_part(void *ctx, int part, int thread)
{
    const struct layer_step *s = ctx;
    const struct model_recurrent_shape *h = &s->f->model->recurrent;
    const int end = (part + 1) * CHANNELS;
    const struct kn_convolve job = {
        .n_channel = h->n_channel,
        .n_taps = h->n_taps,
        .n_tok = s->n,
        .c0 = part * CHANNELS,
        .c1 = end < h->n_channel ? end : h->n_channel,
        .silu = h->kind != MODEL_CONVOLUTION,
        .taps = s->layer->recurrent.taps,
        .bias = s->layer->recurrent.taps_bias,
        .state = recurrent_state_window(&s->c->recurrent, s->layer->state_layer),
        .x = s->f->recurrent.in,
    };
    (void)thread;
    s->f->kernels->convolve(&job);
}

/* Makes queries and keys of the delta rule vectors of length 1 (and 1 / sqrt(key_dim)). */
static void unit_row(void *ctx, int t, int thread)
{
    const struct layer_step *s = ctx;
    const struct forward *f = s->f;
    const struct model_recurrent_shape *h = &f->model->recurrent;
    const int dim = h->key_dim, n = h->n_key_head * dim;
    const float eps = LENGTH_EPS / (float)dim;
    float *q = f->recurrent.in + (size_t)t * (size_t)h->n_channel, *k = q + n;
    (void)thread;
    for (int i = 0; i < n; i += dim) {
        f->kernels->rmsnorm(q + i, q + i, f->recurrent.q_scale, dim, eps);
        f->kernels->rmsnorm(k + i, k + i, f->recurrent.k_scale, dim, eps);
    }
}

/* Part of a head's columns. */
static void recur_part(void *ctx, int part, int thread)
{
    const struct layer_step *s = ctx;
    const struct forward *f = s->f;
    const struct model_recurrent_shape *h = &f->model->recurrent;
    const struct recurrent_rows *r = &f->recurrent;
    const bool delta = h->kind == MODEL_DELTA;
    const int blocks = linear_parts(h->head_dim, COLUMNS), head = part / blocks;
    const int n_key = h->n_key_head * h->key_dim, n_out = h->n_head * h->head_dim;
    const int key =
        (h->tiled ? head % h->n_key_head : head / (h->n_head / h->n_key_head)) * h->key_dim;
    const int c0 = part % blocks * COLUMNS, end = c0 + COLUMNS;
    float *matrices = recurrent_state_matrices(&s->c->recurrent, s->layer->state_layer);
    const struct kn_recur job = {
        .key_dim = h->key_dim,
        .value_dim = h->head_dim,
        .n_tok = s->n,
        .c0 = c0,
        .c1 = end < h->head_dim ? end : h->head_dim,
        .delta = delta,
        .skip = s->layer->recurrent.skip ? s->layer->recurrent.skip[head] : 0.0f,
        .q = r->in + (delta ? 0 : n_out + n_key) + key,
        .k = r->in + (delta ? n_key : n_out) + key,
        .v = r->in + (delta ? 2 * n_key : 0) + head * h->head_dim,
        .stride = (size_t)h->n_channel,
        .decay = r->decay + head,
        .rate = r->rate + head,
        .rate_stride = (size_t)h->n_head,
        .state = matrices + (size_t)head * (size_t)(h->key_dim * h->head_dim),
        .y = r->y + head * h->head_dim,
        .y_stride = (size_t)n_out,
    };
    (void)thread;
    f->kernels->recur(&job);
}

/* Norm and gate of a token's output. */
static void finish_row(void *ctx, int t, int thread)
{
    const struct layer_step *s = ctx;
    const struct forward *f = s->f;
    const struct model_recurrent_shape *h = &f->model->recurrent;
    const struct recurrent_rows *r = &f->recurrent;
    const float *w = s->layer->recurrent.norm;
    const int n = recurrent_n_out(h);
    float *y = r->y + (size_t)t * (size_t)n;
    const float *gate = r->gate + (size_t)t * (size_t)n, *in = r->in + (size_t)t * (size_t)n;
    (void)thread;
    if (h->kind == MODEL_CONVOLUTION)
        for (int i = 0; i < n; i++) y[i] = in[i] * gate[i];
    if (h->kind == MODEL_DELTA) linear_norm(f, y, n, h->head_dim, w, true);
    if (h->kind != MODEL_CONVOLUTION) f->kernels->silu_mul(y, gate, y, n);
    if (h->kind == MODEL_SCAN && w) linear_norm(f, y, n, n / h->n_key_head, w, false);
}

/* The state's part of a layer: from inputs and rates to y. */
static void step(struct layer_step *s)
{
    struct forward *f = s->f;
    const struct model_recurrent_shape *h = &f->model->recurrent;
    const int blocks = linear_parts(h->head_dim, COLUMNS);
    pool_run(f->pool, linear_parts(h->n_channel, CHANNELS), convolve_part, s);
    if (h->kind == MODEL_DELTA) linear_each(f, s->n, unit_row, s);
    if (h->kind != MODEL_CONVOLUTION) pool_run(f->pool, h->n_head * blocks, recur_part, s);
}

/* The inputs of a token's step, in the order of `step` of the state: copied out of row t,
 * or back. */
static void copy_step(const struct layer_step *s, int t, float *kept, bool back)
{
    const struct model_recurrent_shape *h = &s->f->model->recurrent;
    const struct recurrent_rows *r = &s->f->recurrent;
    float *parts[] = {r->in, r->rate, r->decay};
    const int n[] = {h->n_channel, h->n_head, h->n_head};
    for (int i = 0; i < 3; kept += n[i++]) {
        float *row = parts[i] + (size_t)t * (size_t)n[i];
        memcpy(back ? row : kept, back ? kept : row, (size_t)n[i] * sizeof *kept);
    }
}

static float *tried_step(const struct forward *f, const struct cache *c, int layer, int t)
{
    const struct recurrent_rows *r = &f->recurrent;
    return r->tried + (size_t)(layer * r->n_try + t) * (size_t)c->recurrent.shape.n_step;
}

/* The state takes the tokens and is put back, so that each can be added when it is accepted. */
static void try_step(struct layer_step *s)
{
    struct forward *f = s->f;
    const struct recurrent_state *state = &s->c->recurrent;
    const size_t bytes =
        (size_t)(state->shape.n_window + state->shape.n_matrices) * sizeof *state->layers;
    float *own = recurrent_state_window(state, s->layer->state_layer);
    for (int t = 0; t < s->n; t++)
        copy_step(s, t, tried_step(f, s->c, s->layer->state_layer, t), false);
    memcpy(f->recurrent.before, own, bytes);
    step(s);
    memcpy(own, f->recurrent.before, bytes);
}

void recurrent_run(struct layer_step *s)
{
    project(s);
    linear_each(s->f, s->n, prepare_row, s);
    if (s->n == 1)
        copy_step(s, 0, recurrent_state_step(&s->c->recurrent, s->layer->state_layer), false);
    if (s->tried)
        try_step(s);
    else
        step(s);
    linear_each(s->f, s->n, finish_row, s);
}

void recurrent_repeat(struct forward *f, struct cache *c)
{
    for (int i = f->first_layer; i < f->model->n_layer; i++) {
        const struct model_layer *l = &f->model->layers[i];
        struct layer_step s = {.f = f, .c = c, .layer = l, .index = l->kv_layer, .n = 1};
        if (!l->is_recurrent) continue;
        copy_step(&s, 0, recurrent_state_step(&c->recurrent, l->state_layer), true);
        step(&s);
    }
}

void recurrent_accept(struct forward *f, struct cache *c, int i)
{
    const struct recurrent_state *state = &c->recurrent;
    const size_t n_embd = (size_t)f->model->n_embd;
    for (int l = model_count_layers(f->model, f->first_layer).n_recurrent; l < state->shape.n_layer;
         l++)
        memcpy(recurrent_state_step(state, l), tried_step(f, c, l, i),
               (size_t)state->shape.n_step * sizeof *state->step);
    recurrent_repeat(f, c);
    memcpy(state->hidden, f->x + (size_t)i * n_embd, n_embd * sizeof *f->x);
}
