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

static void plan_nets(struct heads_learn *l, const struct engine *g,
                      const struct heads_learn_opts *o, struct arena *a)
{
    const struct model *m = g->model;
    int n_in = model_n_qkv(m), n = g->gpu ? 1 : m->n_kv_layer;
    struct heads_net unused, *nets = arena_take(a, (size_t)n, sizeof *nets);
    for (int i = 0; i < n; i++)
        heads_net_plan(nets ? &nets[i] : &unused, n_in, o->hidden, m->n_kv_head, a);
    l->nets = nets;
    if (g->gpu) return;
    heads_work_plan(&l->work, o->length, n_in, o->hidden, m->n_kv_head, pool_n_threads(g->pool), a);
    l->work.kernels = g->kernels;
    l->work.pool = g->pool;
}

static void plan(struct heads_learn *l, const struct engine *g, const struct heads_learn_opts *o,
                 struct arena *a)
{
    const struct model *m = g->model;
    size_t n = (size_t)m->n_kv_layer * (size_t)m->n_kv_head;
    plan_nets(l, g, o, a);
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
    return a.used + (g->gpu ? heads_device_plan(g, o->kind, o->hidden, o->length).host
                            : heads_watch_bytes(g, o->length));
}

size_t heads_learn_device_bytes(const struct engine *g, const struct heads_learn_opts *o)
{
    return heads_device_plan(g, o->kind, o->hidden, o->length).device;
}

static bool on_gpu(const struct heads_learn *l)
{
    return l->engine->gpu != NULL;
}

static int init_net(struct heads_learn *l, uint64_t seed, int layer, struct err *e)
{
    struct heads_net *net = &l->nets[on_gpu(l) ? 0 : layer];
    heads_net_init(net, seed, layer + 1);
    return on_gpu(l)
               ? cuda_trainer_put(l->device.trainer, layer, CUDA_TRAINER_WEIGHTS, net->weights, e)
               : 0;
}

/* Shares of a name or number count as one (heads_sample.h); Locret's logits do not. */
static void join(const struct heads_learn *l, float *label)
{
    if (l->kind == HEADS_SHARE) heads_sample_join(l->sample, l->engine->model->n_kv_head, label);
}

static void join_device(void *ctx, float *label)
{
    join(ctx, label);
}

static int open_device(struct heads_learn *l, const struct heads_learn_opts *o, struct err *e)
{
    int rc = heads_device_open(&l->device, l->engine, o->kind, o->hidden, o->length, e);
    if (o->kind == HEADS_SHARE) l->device.change = join_device;
    l->device.change_ctx = l;
    return rc;
}

int heads_learn_open(struct heads_learn *l, struct engine *g, const struct heads_learn_opts *o,
                     uint64_t seed, struct err *e)
{
    struct arena a;
    *l = (struct heads_learn){.engine = g, .kind = o->kind, .layer = -1};
    arena_init_plan(&a, "training");
    plan(l, g, o, &a);
    int rc = arena_init(&l->arena, "training", a.used, e);
    if (!rc) plan(l, g, o, &l->arena);
    if (!rc && g->gpu)
        rc = open_device(l, o, e);
    else if (!rc)
        rc = heads_watch_open(&l->watch, g, o->kind, o->length, e);
    for (int i = 0; !rc && i < g->model->n_kv_layer; i++) rc = init_net(l, seed, i, e);
    return rc;
}

void heads_learn_close(struct heads_learn *l)
{
    heads_device_close(&l->device);
    heads_watch_close(&l->watch);
    arena_release(&l->arena);
}

int heads_learn_weights(struct heads_learn *l, int layer, const float **out, struct err *e)
{
    *out = l->nets[on_gpu(l) ? 0 : layer].weights;
    if (!on_gpu(l) || l->layer == layer) return 0;
    l->layer = layer;
    return cuda_trainer_get(l->device.trainer, layer, CUDA_TRAINER_WEIGHTS, l->nets->weights, e);
}

/* ---- the labels' scale ----------------------------------------------------------------------- */

static void add_labels(struct heads_learn *l, int layer, const float *label)
{
    int n_head = l->engine->model->n_kv_head;
    double *sums = l->sums + 2 * layer * n_head;
    for (int i = 0; i < l->sample->n_context * n_head; i++) {
        double y = (double)label[i];
        sums[2 * (i % n_head)] += y;
        sums[2 * (i % n_head) + 1] += y * y;
    }
}

static void measure_layer(void *ctx, int layer, struct heads_rows *rows)
{
    join(ctx, rows->label);
    add_labels(ctx, layer, rows->label);
}

static void measure_device(void *ctx, int layer, const float *label, const float *score)
{
    (void)score;
    add_labels(ctx, layer, label);
}

int heads_learn_measure(struct heads_learn *l, const struct heads_sample *s, struct err *e)
{
    l->sample = s;
    l->n_sums += s->n_context;
    if (on_gpu(l)) return heads_device_watch(&l->device, s, false, measure_device, l, e);
    heads_watch_run(&l->watch, s, measure_layer, l);
    return 0;
}

int heads_learn_scale(struct heads_learn *l, struct err *e)
{
    const struct model *m = l->engine->model;
    for (int i = 0; i < m->n_kv_layer * m->n_kv_head; i++) {
        double mean = l->sums[2 * i] / (double)l->n_sums;
        double var = l->sums[2 * i + 1] / (double)l->n_sums - mean * mean;
        l->mean[i] = (float)mean;
        l->std[i] = (float)sqrt(var > 1e-12 ? var : 1e-12);
    }
    return on_gpu(l) ? cuda_trainer_scale(l->device.trainer, l->mean, l->std, e) : 0;
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
    join(l, rows->label);
    standardise(l, layer, rows);
    l->loss += heads_net_gradient(&l->nets[layer], rows, &l->terms, &l->work);
}

int heads_learn_add(struct heads_learn *l, const struct heads_sample *s, int n_rows, int n_texts,
                    double *loss, struct err *e)
{
    const struct model *m = l->engine->model;
    float n = (float)(n_rows * m->n_kv_head), n_next = (float)((n_rows - n_texts) * m->n_kv_head);
    int rc = 0;
    l->sample = s;
    l->terms = (struct heads_terms){1 / (float)m->n_kv_layer / n, SMOOTHING / n_next};
    l->loss = 0;
    if (on_gpu(l))
        rc = heads_device_add(&l->device, s, &l->terms, &l->loss, e);
    else
        heads_watch_run(&l->watch, s, add_layer, l);
    *loss += l->loss;
    return rc;
}

int heads_learn_step(struct heads_learn *l, float rate, int step, struct err *e)
{
    l->layer = -1;
    if (on_gpu(l)) return cuda_trainer_step(l->device.trainer, rate, CLIP, step, e);
    for (int i = 0; i < l->engine->model->n_kv_layer; i++)
        heads_net_step(&l->nets[i], rate, CLIP, step, l->engine->pool);
    return 0;
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

static void find(struct heads_learn *l, const float *label, const float *score)
{
    const struct model *m = l->engine->model;
    l->found += overlap(score, label, m->n_kv_head, l->sample->n_context, l->ranks) / m->n_kv_layer;
}

static void find_layer(void *ctx, int layer, struct heads_rows *rows)
{
    struct heads_learn *l = ctx;
    heads_net_score(&l->nets[layer], rows, &l->work);
    join(l, rows->label);
    find(l, rows->label, l->work.score);
}

static void find_device(void *ctx, int layer, const float *label, const float *score)
{
    (void)layer;
    find(ctx, label, score);
}

int heads_learn_found(struct heads_learn *l, const struct heads_sample *s, double *share,
                      struct err *e)
{
    int rc = 0;
    l->sample = s;
    l->found = 0;
    if (on_gpu(l))
        rc = heads_device_watch(&l->device, s, true, find_device, l, e);
    else
        heads_watch_run(&l->watch, s, find_layer, l);
    *share = l->found;
    return rc;
}

/* ---- checkpoints ----------------------------------------------------------------------------- */

static int transfer(FILE *f, bool write, float *p, size_t n, struct err *e)
{
    if ((write ? fwrite(p, sizeof *p, n, f) : fread(p, sizeof *p, n, f)) == n) return 0;
    return err_set(e, ERR_FORMAT, "the checkpoint ends early");
}

/* On a GPU, by the memory of one net. */
static int transfer_part(struct heads_learn *l, FILE *f, bool write, int layer,
                         enum cuda_trainer_part part, struct err *e)
{
    struct heads_net *net = &l->nets[on_gpu(l) ? 0 : layer];
    float *p = part == CUDA_TRAINER_FIRST    ? net->first
               : part == CUDA_TRAINER_SECOND ? net->second
                                             : net->weights;
    int rc = 0;
    if (on_gpu(l) && write) rc = cuda_trainer_get(l->device.trainer, layer, part, p, e);
    if (!rc) rc = transfer(f, write, p, net->n, e);
    if (!rc && on_gpu(l) && !write) rc = cuda_trainer_put(l->device.trainer, layer, part, p, e);
    return rc;
}

int heads_learn_transfer(struct heads_learn *l, FILE *f, bool write, struct err *e)
{
    const struct model *m = l->engine->model;
    size_t n = (size_t)m->n_kv_layer * (size_t)m->n_kv_head;
    int rc = transfer(f, write, l->mean, n, e);
    if (!rc) rc = transfer(f, write, l->std, n, e);
    l->layer = -1;
    for (int i = 0; !rc && i < m->n_kv_layer; i++) {
        rc = transfer_part(l, f, write, i, CUDA_TRAINER_WEIGHTS, e);
        if (!rc) rc = transfer_part(l, f, write, i, CUDA_TRAINER_FIRST, e);
        if (!rc) rc = transfer_part(l, f, write, i, CUDA_TRAINER_SECOND, e);
    }
    if (!rc && on_gpu(l) && !write) rc = cuda_trainer_scale(l->device.trainer, l->mean, l->std, e);
    return rc;
}
