#include "runtime/forward/forward_parts.h"

#include <string.h>

#include "base/pool.h"
#include "base/system.h"
#include "runtime/cuda/cuda.h"
#include "runtime/forward/cis_net.h"

bool cis_used(const struct forward *f)
{
    return f->retaining && f->policy->scorer == POLICY_CIS;
}

void cis_plan(struct forward *f, struct arena *a)
{
    const int n_in = f->retaining->shape.n_in;
    const size_t n_layer = (size_t)f->model->n_kv_layer, n_batch = n_layer * FORWARD_SCORE_BATCH;
    const size_t n = n_batch > (size_t)f->chunk ? n_batch : (size_t)f->chunk;
    f->scores = arena_take(a, n * (size_t)f->model->n_kv_head, sizeof(float));
    f->score_scratch =
        arena_take(a, (size_t)f->n_threads * cis_net_floats(f->retaining), sizeof(float));
    linear_plan(&f->act_score, n_in, (size_t)f->chunk, a);
    f->unscored = arena_take(a, n_layer, sizeof *f->unscored);
    for (int i = 0; i < f->model->n_kv_layer; i++) {
        struct kn_act act = {.n_in = n_in};
        if (kn_is_quantized(f->retaining->layers[i].w1.type))
            linear_plan(&act, n_in, FORWARD_SCORE_BATCH, a);
        else
            act.x = arena_take(a, FORWARD_SCORE_BATCH * (size_t)n_in, sizeof(float));
        if (f->unscored) f->unscored[i] = act;
    }
}

/* The rows that the retaining heads read: q, k, v, or the input of attention's matrices, which
 * linear.c normed. */
static const float *input_of(const struct layer_step *s)
{
    const struct forward *f = s->f;
    if (!retaining_reads_hidden(f->retaining->shape.form)) return f->qkv;
    return s->layer->attn_norm ? f->norm : f->x;
}

static float *scratch_of(const struct forward *f, int thread)
{
    return f->score_scratch + (size_t)thread * cis_net_floats(f->retaining);
}

/* For f->score_ns: the time when scoring began, and the time since then. */
static int64_t clock_begin(const struct forward *f)
{
    return f->score_ns ? system_clock_ns() : 0;
}

static void clock_add(const struct forward *f, int64_t began_ns)
{
    if (f->score_ns) *f->score_ns += system_clock_ns() - began_ns;
}

/* Keeps an input of a layer's head as its ith. */
static void keep_row(const struct forward *f, int layer, int i, const float *x)
{
    struct kn_act *a = &f->unscored[layer];
    size_t at = (size_t)i * (size_t)a->n_in, g = at / KN_GROUP;
    if (a->q)
        f->kernels->quantize(a->q + at, a->d + g, a->sum + g, x, a->n_in);
    else
        memcpy((float *)a->x + at, x, (size_t)a->n_in * sizeof *a->x);
}

static void score_block(const struct layer_step *s, int block, int thread)
{
    const struct forward *f = s->f;
    const struct retaining_layer *l = &f->retaining->layers[s->index];
    const float *in = input_of(s);
    int t0 = block * CIS_NET_TOKENS, n = s->n - t0 < CIS_NET_TOKENS ? s->n - t0 : CIS_NET_TOKENS;
    int64_t began_ns = clock_begin(f);
    for (int t = t0; kn_is_quantized(l->w1.type) && t < t0 + n; t++)
        linear_quantize(f, &f->act_score, in, t);
    size_t at = (size_t)t0 * (size_t)f->act_score.n_in, g = at / KN_GROUP;
    struct kn_act x = {f->act_score.n_in, in + at, f->act_score.q + at, f->act_score.d + g,
                       f->act_score.sum + g};
    cis_net_score(f->retaining, s->index, f->kernels, &x, n, scratch_of(f, thread),
                  f->scores + (size_t)t0 * (size_t)f->retaining->shape.n_head);
    clock_add(f, began_ns);
}

int cis_parts(const struct forward *f, int n)
{
    return cis_used(f) ? linear_parts(n, CIS_NET_TOKENS) : 0;
}

void cis_part(const struct layer_step *s, int part, int thread)
{
    if (s->n > 1) {
        score_block(s, part, thread);
        return;
    }
    const int64_t began_ns = clock_begin(s->f); /* a generated token is scored later */
    keep_row(s->f, s->index, s->c->n_unscored, input_of(s));
    clock_add(s->f, began_ns);
}

void cis_write(const struct layer_step *s)
{
    const struct forward *f = s->f;
    if (!cis_used(f) || s->n == 1) return;
    for (int i = 0; i < f->model->n_kv_head; i++) {
        struct cache_head *h = cache_head(s->c, s->index, i);
        for (int t = 0; t < s->n; t++)
            h->score[h->len + t] = f->scores[t * f->model->n_kv_head + i];
    }
}

/* ---- units without scores -------------------------------------------------------------------- */

struct score_job {
    struct forward *f;
    struct cache *c;
    int first; /* layer of the cache */
    const struct cuda_head_inputs *given;
    int behind;
};

/* Scores the n inputs that were kept in a layer: units from slot len + ahead of each head on. */
static void score_kept(const struct score_job *j, int layer, int n, int ahead, int thread)
{
    const struct forward *f = j->f;
    const int n_head = f->retaining->shape.n_head;
    float *out = f->scores + (size_t)layer * FORWARD_SCORE_BATCH * (size_t)n_head;
    cis_net_score(f->retaining, layer, f->kernels, &f->unscored[layer], n, scratch_of(f, thread),
                  out);
    for (int i = 0; i < n_head; i++) {
        struct cache_head *h = cache_head(j->c, layer, i);
        for (int t = 0; t < n; t++) h->score[h->len + ahead + t] = out[t * n_head + i];
    }
}

static void score_layer(void *ctx, int part, int thread)
{
    const struct score_job *j = ctx;
    int64_t began_ns = clock_begin(j->f);
    score_kept(j, j->first + part, j->c->n_unscored, -j->c->n_unscored, thread);
    clock_add(j->f, began_ns);
}

static void score_given(void *ctx, int layer, int thread)
{
    const struct score_job *j = ctx;
    const struct cuda_head_inputs *g = j->given;
    const float *rows = g->rows + (size_t)layer * g->stride;
    const int n_in = j->f->retaining->shape.n_in;
    for (int t = 0, n; t < g->n; t += n) {
        n = g->n - t < FORWARD_SCORE_BATCH ? g->n - t : FORWARD_SCORE_BATCH;
        for (int i = 0; i < n; i++) keep_row(j->f, layer, i, rows + (size_t)(t + i) * (size_t)n_in);
        score_kept(j, layer, n, j->behind - g->n + t, thread);
    }
}

void cis_score_given(struct forward *f, struct cache *c, const struct cuda_head_inputs *in,
                     int behind)
{
    struct score_job j = {.f = f, .c = c, .given = in, .behind = behind};
    pool_run(f->pool, in->n_layer, score_given, &j);
}

void cis_score(struct forward *f, struct cache *c)
{
    struct score_job j = {
        .f = f, .c = c, .first = model_count_layers(f->model, f->first_layer).n_kv};
    if (c->n_unscored == 0) return;
    pool_run(f->pool, f->model->n_kv_layer - j.first, score_layer, &j);
    c->n_unscored = 0;
}
