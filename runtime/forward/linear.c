#include "runtime/forward/forward_parts.h"

#include <math.h>

#include "base/pool.h"

/* One token: as many panels per span as kernels read at once. Many tokens: more, since each span
 * packs the tokens' numbers again. */
#define SPAN_ONE  8
#define SPAN_MANY 16
#define TOKENS    16 /* per part of work that is split by tokens */

struct each {
    void (*fn)(void *ctx, int t, int thread);
    void *ctx;
    int n;
};

static void each_part(void *ctx, int part, int thread)
{
    const struct each *j = ctx;
    for (int t = part * TOKENS; t < (part + 1) * TOKENS && t < j->n; t++) j->fn(j->ctx, t, thread);
}

void linear_each(const struct forward *f, int n, void (*fn)(void *ctx, int t, int thread),
                 void *ctx)
{
    pool_run(f->pool, linear_parts(n, TOKENS), each_part, &(struct each){fn, ctx, n});
}

/* ---- the input ------------------------------------------------------------------------------- */

void linear_scale(float *x, float scale, int n)
{
    for (int i = 0; i < n; i++) x[i] *= scale;
}

void linear_norm(const struct forward *f, float *y, int n, int size, const float *w, bool same)
{
    for (int i = 0; i < n; i += size)
        f->kernels->rmsnorm(y + i, y + i, same ? w : w + i, size, f->model->norm_eps);
}

void linear_plan(struct kn_act *act, int n_in, size_t n_tok, struct arena *a)
{
    act->n_in = n_in;
    act->q = arena_take(a, n_tok, (size_t)n_in);
    act->d = arena_take(a, n_tok * (size_t)(n_in / KN_GROUP + 1), sizeof(float));
    act->sum = arena_take(a, n_tok * (size_t)(n_in / KN_GROUP + 1), sizeof(int32_t));
}

/* The scales' stride follows from n_in. */
void linear_quantize(const struct forward *f, const struct kn_act *act, const float *x, int t)
{
    size_t n = (size_t)act->n_in, g = n / KN_GROUP;
    f->kernels->quantize(act->q + (size_t)t * n, act->d + (size_t)t * g, act->sum + (size_t)t * g,
                         x + (size_t)t * n, act->n_in);
}

static bool reads_integers(const struct linear *l)
{
    for (int i = 0; i < l->n_matrices; i++)
        if (kn_is_quantized(l->m[i].w->type)) return true;
    return false;
}

static void prepare_row(void *ctx, int t, int thread)
{
    (void)thread;
    const struct linear *l = ctx;
    struct forward *f = l->f;
    size_t at = (size_t)t * (size_t)f->act.n_in;
    if (l->norm)
        f->kernels->rmsnorm(f->norm + at, l->x + at, l->norm, f->act.n_in, f->model->norm_eps);
    if (l->integers || reads_integers(l)) linear_quantize(f, &f->act, f->act.x, t);
}

void linear_prepare(struct linear *l, int n_in)
{
    struct forward *f = l->f;
    f->act.n_in = n_in;
    f->act.x = l->norm ? f->norm : l->x;
    linear_each(f, l->n, prepare_row, l);
}

/* ---- the products ---------------------------------------------------------------------------- */

static void multiply_rows(const struct linear *l, int i, int row0, int row1)
{
    struct kn_matmul m = l->m[i];
    m.row0 = row0;
    m.row1 = row1;
    l->f->kernels->matmul[m.w->type](&m);
    for (int t = 0; t < m.n_tok; t++) {
        float *y = m.y + (size_t)t * m.y_stride + (size_t)row0;
        if (m.w->factors) linear_scale(y, *m.w->factors, row1 - row0);
        if (l->bias[i]) l->f->kernels->mix(y, l->bias[i] + row0, row1 - row0, 1.0f, 1.0f);
        if (l->scale != 1.0f) linear_scale(y, l->scale, row1 - row0);
        for (int k = 0; l->softcap > 0.0f && k < row1 - row0; k++)
            y[k] = l->softcap * tanhf(y[k] / l->softcap);
    }
}

/* Computes rows [row0, row1) of matrix i and finishes them (bias, scale, sums). */
static void finish_rows(const struct linear *l, int i, int row0, int row1)
{
    const struct kn_matmul *m = &l->m[i], *value = &l->m[l->n_matrices > 1];
    multiply_rows(l, i, row0, row1);
    if (l->gated && value != m) multiply_rows(l, 1, row0, row1);
    for (int t = 0; t < m->n_tok; t++) {
        size_t at = (size_t)t * m->y_stride + (size_t)row0;
        if (l->gated) l->gated(m->y + at, m->y + at, value->y + at, row1 - row0);
        if (l->add_to) l->f->kernels->mix(l->add_to + at, m->y + at, row1 - row0, 1.0f, 1.0f);
    }
}

/* Panels [begin, end), counted over all matrices. */
static void run_panels(void *ctx, int begin, int end, int thread)
{
    const struct linear *l = ctx;
    (void)thread;
    for (int i = 0; i < l->n_matrices && end > 0; i++) {
        int n_out = l->m[i].w->n_out, n = linear_parts(n_out, KN_PANEL);
        int row0 = begin * KN_PANEL, row1 = end < n ? end * KN_PANEL : n_out;
        if (begin < n) finish_rows(l, i, row0, row1);
        begin = begin > n ? begin - n : 0;
        end -= n;
    }
}

void linear_add(struct linear *l, const struct kn_weight *w, const float *bias, float *y,
                int y_stride)
{
    l->bias[l->n_matrices] = bias;
    l->m[l->n_matrices++] = (struct kn_matmul){
        .w = w, .x = &l->f->act, .n_tok = l->n, .y = y, .y_stride = (size_t)y_stride};
}

static void relu_mul(float *y, const float *gate, const float *up, int n)
{
    for (int i = 0; i < n; i++) y[i] = gate[i] > 0.0f ? gate[i] * up[i] : 0.0f;
}

linear_gated *linear_activation(const struct forward *f, const struct model_layer *l)
{
    switch (l->activation) {
    case MODEL_SWIGLU: return f->kernels->silu_mul;
    case MODEL_SWIGLU_CLAMPED: return f->kernels->silu_clamped_mul;
    case MODEL_GEGLU: return f->kernels->gelu_mul;
    default: return relu_mul;
    }
}

void linear_run(struct linear *l)
{
    const struct forward *f = l->f;
    int panels = 0, n = l->gated ? 1 : l->n_matrices;
    linear_prepare(l, l->m[0].w->n_in);
    for (int i = 0; f->watch && i < l->n_matrices; i++)
        f->watch(f->watch_ctx, l->m[i].w, f->act.x, l->n);
    for (int i = 0; i < n; i++) panels += linear_parts(l->m[i].w->n_out, KN_PANEL);
    pool_run_spans(f->pool, panels, l->n == 1 ? SPAN_ONE : SPAN_MANY, run_panels, l);
}

void linear_gate(struct forward *f, const struct model_layer *l, int n)
{
    struct linear gate = {.f = f,
                          .x = f->x,
                          .norm = l->ffn_norm,
                          .n = n,
                          .scale = 1.0f,
                          .gated = linear_activation(f, l)};
    linear_add(&gate, &l->gate, l->gate_bias, f->gate, l->gate.n_out);
    if (l->up.n_out) linear_add(&gate, &l->up, l->up_bias, f->up, l->up.n_out);
    linear_run(&gate);
}
