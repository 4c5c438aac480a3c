#include "quant/heads/heads_learn.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/pool.h"
#include "quant/heads/heads_sample.h"
#include "runtime/forward/engine.h"

#define SMOOTHING 0.0025f /* Locret's */
#define CLIP      0.5f
#define TOP_SHARE 10 /* found: the best tenth */

struct ranked {
    float value;
    int row;
};

/* ---- memory ---------------------------------------------------------------------------------- */

static void plan(struct heads_learn *l, const struct engine *g, const struct heads_learn_opts *o,
                 struct arena *a)
{
    const struct model *m = g->model;
    size_t n = (size_t)m->n_kv_layer * (size_t)m->n_kv_head;
    int n_in = model_n_qkv(m);
    struct heads_net unused, *nets = arena_take(a, (size_t)m->n_kv_layer, sizeof *nets);
    for (int i = 0; i < m->n_kv_layer; i++)
        heads_net_plan(nets ? &nets[i] : &unused, n_in, o->hidden, m->n_kv_head, a);
    heads_work_plan(&l->work, o->length, n_in, o->hidden, m->n_kv_head, pool_n_threads(g->pool), a);
    l->nets = nets;
    l->work.kernels = g->kernels;
    l->work.pool = g->pool;
    l->mean = arena_take(a, n, sizeof *l->mean);
    l->std = arena_take(a, n, sizeof *l->std);
    l->sums = arena_take(a, 2 * n, sizeof *l->sums);
    l->ranks = arena_take(a, 2 * (size_t)o->length, sizeof(struct ranked));
}

size_t heads_learn_bytes(const struct engine *g, const struct heads_learn_opts *o)
{
    struct heads_learn l;
    struct arena a;
    arena_init_plan(&a, "training");
    plan(&l, g, o, &a);
    return a.used + heads_watch_bytes(g, o->length);
}

int heads_learn_open(struct heads_learn *l, struct engine *g, const struct heads_learn_opts *o,
                     uint64_t seed, struct err *e)
{
    struct arena a;
    *l = (struct heads_learn){.engine = g};
    arena_init_plan(&a, "training");
    plan(l, g, o, &a);
    int rc = arena_init(&l->arena, "training", a.used, e);
    if (!rc) plan(l, g, o, &l->arena);
    if (!rc) rc = heads_watch_open(&l->watch, g, o->kind, o->length, e);
    for (int i = 0; !rc && i < g->model->n_kv_layer; i++) heads_net_init(&l->nets[i], seed, i + 1);
    return rc;
}

void heads_learn_close(struct heads_learn *l)
{
    heads_watch_close(&l->watch);
    arena_release(&l->arena);
}

/* ---- the labels' scale ----------------------------------------------------------------------- */

static void measure_layer(void *ctx, int layer, struct heads_rows *rows)
{
    struct heads_learn *l = ctx;
    int n_head = l->engine->model->n_kv_head;
    double *sums = l->sums + 2 * layer * n_head;
    for (int i = 0; i < rows->n * n_head; i++) {
        double y = (double)rows->label[i];
        sums[2 * (i % n_head)] += y;
        sums[2 * (i % n_head) + 1] += y * y;
    }
}

void heads_learn_measure(struct heads_learn *l, const struct heads_sample *s)
{
    heads_watch_run(&l->watch, s, measure_layer, l);
    l->n_sums += s->n_context;
}

void heads_learn_scale(struct heads_learn *l)
{
    const struct model *m = l->engine->model;
    for (int i = 0; i < m->n_kv_layer * m->n_kv_head; i++) {
        double mean = l->sums[2 * i] / (double)l->n_sums;
        double var = l->sums[2 * i + 1] / (double)l->n_sums - mean * mean;
        l->mean[i] = (float)mean;
        l->std[i] = (float)sqrt(var > 1e-12 ? var : 1e-12);
    }
}

/* ---- a step ---------------------------------------------------------------------------------- */

/* Scales the labels to mean 0 and deviation 1. */
static void standardise(const struct heads_learn *l, int layer, struct heads_rows *rows)
{
    int n_head = l->engine->model->n_kv_head;
    const float *mean = l->mean + layer * n_head, *std = l->std + layer * n_head;
    for (int i = 0; i < rows->n * n_head; i++)
        rows->label[i] = (rows->label[i] - mean[i % n_head]) / std[i % n_head];
}

static void add_layer(void *ctx, int layer, struct heads_rows *rows)
{
    struct heads_learn *l = ctx;
    standardise(l, layer, rows);
    l->loss += heads_net_gradient(&l->nets[layer], rows, &l->terms, &l->work);
}

double heads_learn_add(struct heads_learn *l, const struct heads_sample *s, int n_rows, int n_texts)
{
    const struct model *m = l->engine->model;
    float n = (float)(n_rows * m->n_kv_head), n_next = (float)((n_rows - n_texts) * m->n_kv_head);
    l->terms = (struct heads_terms){1 / (float)m->n_kv_layer / n, SMOOTHING / n_next};
    l->loss = 0;
    heads_watch_run(&l->watch, s, add_layer, l);
    return l->loss;
}

void heads_learn_step(struct heads_learn *l, float rate, int step)
{
    for (int i = 0; i < l->engine->model->n_kv_layer; i++)
        heads_net_step(&l->nets[i], rate, CLIP, step, l->engine->pool);
}

/* ---- the share found ------------------------------------------------------------------------- */

static int by_value(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;
    if (x->value != y->value) return x->value < y->value ? 1 : -1;
    return x->row - y->row;
}

static int by_row(const void *a, const void *b)
{
    return ((const struct ranked *)a)->row - ((const struct ranked *)b)->row;
}

/* The best tenth of n values, `stride` apart, sorted by row. Returns their number. */
static int best(struct ranked *out, const float *values, int stride, int n)
{
    int top = (n + TOP_SHARE - 1) / TOP_SHARE;
    for (int i = 0; i < n; i++) out[i] = (struct ranked){values[i * stride], i};
    qsort(out, (size_t)n, sizeof *out, by_value);
    qsort(out, (size_t)top, sizeof *out, by_row);
    return top;
}

/* The overlap of the best scores and the best labels, averaged over KV heads. */
static double overlap(const float *score, const float *label, int n_head, int n, struct ranked *tmp)
{
    struct ranked *a = tmp, *b = tmp + n;
    double sum = 0;
    for (int h = 0; h < n_head; h++) {
        int top = best(a, score + h, n_head, n), both = 0;
        best(b, label + h, n_head, n);
        for (int i = 0, k = 0; i < top && k < top;) {
            both += a[i].row == b[k].row;
            if (a[i].row == b[k].row)
                i++, k++;
            else if (a[i].row < b[k].row)
                i++;
            else
                k++;
        }
        sum += (double)both / top / n_head;
    }
    return sum;
}

static void find_layer(void *ctx, int layer, struct heads_rows *rows)
{
    struct heads_learn *l = ctx;
    const struct model *m = l->engine->model;
    heads_net_score(&l->nets[layer], rows, &l->work);
    l->found +=
        overlap(l->work.score, rows->label, m->n_kv_head, rows->n, l->ranks) / m->n_kv_layer;
}

double heads_learn_found(struct heads_learn *l, const struct heads_sample *s)
{
    l->found = 0;
    heads_watch_run(&l->watch, s, find_layer, l);
    return l->found;
}

/* ---- checkpoints ----------------------------------------------------------------------------- */

bool heads_learn_transfer(struct heads_learn *l, FILE *f, bool write)
{
    const struct model *m = l->engine->model;
    size_t n = (size_t)m->n_kv_layer * (size_t)m->n_kv_head;
    bool ok = true;
#define PART(p, count) \
    ok = ok &&         \
         (write ? fwrite(p, sizeof *(p), count, f) : fread(p, sizeof *(p), count, f)) == (count)
    PART(l->mean, n);
    PART(l->std, n);
    for (int i = 0; i < m->n_kv_layer; i++) {
        PART(l->nets[i].weights, l->nets[i].n);
        PART(l->nets[i].first, l->nets[i].n);
        PART(l->nets[i].second, l->nets[i].n);
    }
#undef PART
    return ok;
}
