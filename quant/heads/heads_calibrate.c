#include "quant/heads/heads_calibrate.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/pool.h"
#include "cli/options/options.h"
#include "cli/print/report.h"
#include "quant/heads/heads_data.h"
#include "quant/heads/heads_file.h"
#include "quant/heads/heads_sample.h"
#include "quant/heads/heads_watch.h"
#include "runtime/forward/engine.h"
#include "runtime/model/blocks.h"

#define ROWS     16   /* rows that are read, unless --steps is given */
#define LENGTH   2048 /* tokens of a row at most, unless --length is given */
#define BLOCK    64   /* tokens that are scored together */
#define FLATTEST 1e-3 /* smallest slope, in deviations of the label per deviation of the score */

struct sums {
    double n, score, label, score2, label2, product;
};

struct calibration {
    const struct options *options;
    struct engine *engine;
    struct heads_data data;
    struct heads_sample sample;
    struct heads_watch watch;
    struct sums *sums; /* [n_layer * n_kv_head] */
    float *mean, *std; /* the result, in the same order */
    struct scratch {
        int8_t *q; /* [BLOCK][n_in], with scales and sums as in kn_act */
        float *d;
        int32_t *sum;
        float *score; /* [BLOCK][n_kv_head] */
    } * scratch;      /* [n_threads] */
    struct arena arena;
    int length, n_rows;
};

/* ---- measuring ------------------------------------------------------------------------------- */

/* Scores n rows of x as the forward pass does. */
static void score(const struct calibration *c, int layer, const float *x, int n, struct scratch *s)
{
    const struct retaining *h = c->engine->retaining;
    const struct kernels *k = c->engine->kernels;
    const struct retaining_layer *l = &h->layers[layer];
    struct kn_act act = {h->n_in, x, s->q, s->d, s->sum};
    for (int t = 0; kn_is_quantized(l->w1.type) && t < n; t++) {
        size_t at = (size_t)t * (size_t)h->n_in, g = at / KN_GROUP;
        k->quantize(s->q + at, s->d + g, s->sum + g, x + at, h->n_in);
    }
    struct kn_score job = {&l->w1, l->w2, &act, n, h->n_head, s->score};
    k->score(&job);
}

static void add(struct sums *s, double x, double y)
{
    s->n++;
    s->score += x;
    s->label += y;
    s->score2 += x * x;
    s->label2 += y * y;
    s->product += x * y;
}

/* Adds the scores and labels of the row that was run, for one layer. */
static void measure_layer(void *ctx, int layer, int thread)
{
    const struct calibration *c = ctx;
    const struct heads_watch *w = &c->watch;
    struct scratch *s = &c->scratch[thread];
    int n_head = c->engine->retaining->n_head;
    const float *label = heads_watch_label(w, layer);
    for (int t0 = 0; t0 < w->n; t0 += BLOCK) {
        int n = w->n - t0 < BLOCK ? w->n - t0 : BLOCK;
        const float *x = heads_watch_x(w, layer) + (size_t)t0 * (size_t)c->engine->retaining->n_in;
        score(c, layer, x, n, s);
        for (int i = 0; i < n * n_head; i++)
            add(&c->sums[layer * n_head + i % n_head], (double)s->score[i],
                (double)label[t0 * n_head + i]);
    }
}

static int measure(struct calibration *c, struct err *e)
{
    struct report_bar p = report_bar("calibrating");
    int rc = 0, n = c->data.n < c->n_rows ? c->data.n : c->n_rows;
    for (int i = 0; !rc && i < n; i++) {
        int row = (int)((int64_t)i * c->data.n / n);
        heads_watch_clear(&c->watch);
        rc = heads_sample_read(&c->sample, &c->data, row, true, c->engine, c->length, e);
        if (rc || !c->sample.ids.n) continue;
        heads_watch_run(&c->watch, c->sample.ids.ids, c->sample.asks, (int)c->sample.ids.n,
                        c->sample.n_context);
        pool_run(c->engine->pool, c->engine->model->n_kv_layer, measure_layer, c);
        if (report_bar_show(&p, i + 1, n)) rc = err_set(e, ERR_STOP, "calibration was interrupted");
    }
    report_bar_end(&p);
    if (!rc && c->sums[0].n < 2)
        rc = err_set(e, ERR_FORMAT, "%s: no row is long enough to calibrate with", c->data.name);
    return rc;
}

/* The line of least squares through a head's scores and labels. */
static void fit(const struct sums *s, float *mean, float *std)
{
    double x = s->score / s->n, y = s->label / s->n;
    double xx = fmax(s->score2 / s->n - x * x, 1e-12), yy = fmax(s->label2 / s->n - y * y, 1e-12);
    double slope = fmax((s->product / s->n - x * y) / xx, FLATTEST * sqrt(yy / xx));
    *mean = (float)(y - slope * x);
    *std = (float)slope;
}

/* ---- the result ------------------------------------------------------------------------------ */

static int weight_row(void *ctx, int layer, int which, int r, float *out, struct err *e)
{
    const struct calibration *c = ctx;
    const struct gguf_tensor *t = c->engine->retaining->tensors[2 * layer + which];
    size_t bytes = t->bytes / (size_t)t->ne[1];
    (void)e;
    blocks_to_float(out, t->type, (const char *)t->data + (size_t)r * bytes, (size_t)t->ne[0]);
    return 0;
}

static int write_heads(struct calibration *c, char hex[65], struct err *e)
{
    const struct retaining *h = c->engine->retaining;
    char name[128];
    snprintf(name, sizeof name, "retaining heads of %.96s", c->engine->model->name);
    struct heads_file f = {
        .name = name,
        .base_digest = h->base_digest,
        .n_layer = h->n_layer,
        .n_in = h->n_in,
        .n_hidden = h->n_hidden,
        .n_head = h->n_head,
        .label = "share",
        .mean = c->mean,
        .std = c->std,
        .row = weight_row,
        .ctx = c,
    };
    return heads_file_write(&f, c->options->training.out, c->options->force, hex, e);
}

/* ---- opening and closing --------------------------------------------------------------------- */

static void plan(struct calibration *c, struct arena *a)
{
    const struct retaining *h = c->engine->retaining;
    size_t n = (size_t)h->n_layer * (size_t)h->n_head, in = BLOCK * (size_t)h->n_in;
    int n_threads = pool_n_threads(c->engine->pool);
    c->sums = arena_take(a, n, sizeof *c->sums);
    c->mean = arena_take(a, n, sizeof *c->mean);
    c->std = arena_take(a, n, sizeof *c->std);
    c->scratch = arena_take(a, (size_t)n_threads, sizeof *c->scratch);
    for (int i = 0; i < n_threads; i++) {
        struct scratch s = {
            .q = arena_take(a, in, 1),
            .d = arena_take(a, in / KN_GROUP + 1, sizeof(float)),
            .sum = arena_take(a, in / KN_GROUP + 1, sizeof(int32_t)),
            .score = arena_take(a, BLOCK * (size_t)h->n_head, sizeof(float)),
        };
        if (a->base) c->scratch[i] = s;
    }
}

static int take_memory(struct calibration *c, struct err *e)
{
    struct arena a;
    arena_init_plan(&a, "calibration");
    plan(c, &a);
    int rc = arena_init(&c->arena, "calibration", a.used, e);
    if (!rc) plan(c, &c->arena);
    return rc;
}

static int open_heads(struct calibration *c, struct err *e)
{
    const struct options *o = c->options;
    struct engine_opts on_cpu = o->engine;
    on_cpu.device.kind = ENGINE_DEVICE_CPU; /* whose q, k and v can be watched */
    int rc = engine_open(&c->engine, &on_cpu, NULL, 0, NULL, NULL, e);
    if (!rc && !c->engine->retaining)
        rc = err_set(e, ERR_USAGE, "heads calibrate needs retaining heads; give them with --heads");
    if (rc) return rc;
    int n_ctx = c->engine->model->n_ctx;
    int64_t length = o->sweep.lengths.n ? o->sweep.lengths.item[0]
                     : n_ctx < LENGTH   ? n_ctx
                                        : LENGTH;
    if (length < 64 || length > n_ctx)
        return err_set(e, ERR_USAGE, "--length %lld: expected a number of tokens from 64 to %d",
                       (long long)length, n_ctx);
    c->length = (int)length;
    c->n_rows = o->training.steps ? o->training.steps : ROWS;
    return 0;
}

static int begin(struct calibration *c, struct err *e)
{
    int rc = heads_data_open(&c->data, c->options, e);
    if (!rc) rc = open_heads(c, e);
    if (!rc) rc = heads_data_cut(&c->data, c->engine->tokenizer, heads_sample_half(c->length), e);
    if (!rc) rc = take_memory(c, e);
    if (!rc) rc = heads_watch_open(&c->watch, c->engine, HEADS_SHARE, c->length, 1, e);
    return rc;
}

static void end(struct calibration *c)
{
    heads_watch_close(&c->watch);
    heads_sample_release(&c->sample);
    heads_data_close(&c->data);
    arena_release(&c->arena);
    engine_close(c->engine);
}

int heads_calibrate(const struct options *o)
{
    struct calibration c = {.options = o};
    struct err e;
    char hex[65];
    int rc = 0;
    if (!o->training.out)
        rc = err_set(&e, ERR_USAGE, "heads calibrate needs --text FILE and --out FILE");
    else if (!o->force && access(o->training.out, F_OK) == 0)
        rc = err_set(&e, ERR_USAGE, "%s already exists; --force replaces it", o->training.out);
    report_catch_interrupt();
    if (!rc) rc = begin(&c, &e);
    if (!rc) rc = measure(&c, &e);
    for (int i = 0; !rc && i < c.engine->retaining->n_layer * c.engine->retaining->n_head; i++)
        fit(&c.sums[i], &c.mean[i], &c.std[i]);
    if (!rc) rc = write_heads(&c, hex, &e);
    if (!rc) report_line("%s  %s", hex, o->training.out);
    end(&c);
    return rc ? report_error(&e) : 0;
}
