#include "quant/heads/heads_calibrate.h"

#include <math.h>

#include "base/pool.h"
#include "cli/options/options.h"
#include "cli/print/report.h"
#include "quant/convert/gguf_write.h"
#include "quant/heads/heads_file.h"
#include "quant/heads/heads_text.h"
#include "quant/heads/heads_watch.h"
#include "runtime/forward/cis_net.h"
#include "runtime/forward/engine.h"
#include "runtime/forward/linear.h"
#include "runtime/model/blocks.h"

#define ROWS     16   /* rows that are read, unless --steps is given */
#define LENGTH   2048 /* tokens of a row at most, unless --length is given */
#define FLATTEST 1e-3 /* smallest slope, in deviations of the label per deviation of the score */

struct sums {
    double n, score, label, score2, label2, product;
};

struct calibration {
    const struct options *options;
    struct engine *engine;
    struct heads_data data;
    struct heads_watch watch;
    struct sums *sums; /* [n_layer * n_kv_head] */
    float *mean, *std; /* the result, in the same order */
    float *score;      /* [length][n_kv_head] of the layer that runs */
    struct scratch {
        struct kn_act act; /* CIS_NET_TOKENS quantized rows */
        float *net;        /* of cis_net.h */
    } * scratch;           /* [n_threads] */
    struct arena arena;
    int length, n_rows;
};

/* ---- measuring ------------------------------------------------------------------------------- */

static void add(struct sums *s, double x, double y)
{
    s->n++;
    s->score += x;
    s->label += y;
    s->score2 += x * x;
    s->label2 += y * y;
    s->product += x * y;
}

struct job {
    const struct calibration *c;
    const struct heads_rows *rows;
    int layer;
};

/* Scores some tokens as the forward pass does. */
static void score_part(void *ctx, int part, int thread)
{
    const struct job *j = ctx;
    const struct calibration *c = j->c;
    const struct retaining *h = c->engine->retaining;
    const struct kernels *k = c->engine->kernels;
    const struct scratch *s = &c->scratch[thread];
    int t0 = part * CIS_NET_TOKENS, left = j->rows->n - t0;
    int n = left < CIS_NET_TOKENS ? left : CIS_NET_TOKENS, n_in = h->shape.n_in;
    struct kn_act x = s->act;
    x.x = j->rows->x + (size_t)t0 * (size_t)n_in;
    for (int t = 0; kn_is_quantized(h->layers[j->layer].w1.type) && t < n; t++) {
        size_t at = (size_t)t * (size_t)n_in, g = (size_t)t * (size_t)(n_in / KN_GROUP);
        k->quantize(x.q + at, x.d + g, x.sum + g, x.x + at, n_in);
    }
    cis_net_score(h, j->layer, k, &x, n, s->net, c->score + t0 * h->shape.n_head);
}

/* Adds the scores and labels of a layer. */
static void measure_layer(void *ctx, int layer, struct heads_rows *rows)
{
    struct calibration *c = ctx;
    struct job j = {c, rows, layer};
    int n_head = c->engine->retaining->shape.n_head;
    pool_run(c->engine->pool, (rows->n + CIS_NET_TOKENS - 1) / CIS_NET_TOKENS, score_part, &j);
    for (int i = 0; i < rows->n * n_head; i++)
        add(&c->sums[layer * n_head + i % n_head], (double)c->score[i], (double)rows->label[i]);
}

static int measure(struct calibration *c, struct err *e)
{
    struct report_bar p = report_bar("calibrating");
    int rc =
        heads_watch_rows(&c->watch, &c->data, c->n_rows, measure_layer, c, report_bar_show, &p, e);
    report_bar_end(&p);
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

static int weight_row(void *ctx, int layer, enum retaining_part part, int r, float *out,
                      struct err *e)
{
    const struct calibration *c = ctx;
    const struct gguf_tensor *t = c->engine->retaining->tensors[layer][part];
    size_t bytes = t->bytes / (size_t)t->ne[1];
    (void)e;
    blocks_to_float(out, t->type, (const char *)t->data + (size_t)r * bytes, (size_t)t->ne[0]);
    return 0;
}

static int write_heads(struct calibration *c, char hex[65], struct err *e)
{
    const struct retaining *h = c->engine->retaining;
    struct heads_file f = {
        .model = c->engine->model,
        .base_digest = *h->base_digest ? h->base_digest : NULL,
        .author = h->author,
        .shape = h->shape,
        .settings = h->settings,
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
    size_t n = (size_t)h->shape.n_layer * (size_t)h->shape.n_head;
    int n_threads = pool_n_threads(c->engine->pool);
    c->sums = arena_take(a, n, sizeof *c->sums);
    c->mean = arena_take(a, n, sizeof *c->mean);
    c->std = arena_take(a, n, sizeof *c->std);
    c->score = arena_take(a, (size_t)c->length * (size_t)h->shape.n_head, sizeof *c->score);
    c->scratch = arena_take(a, (size_t)n_threads, sizeof *c->scratch);
    for (int i = 0; i < n_threads; i++) {
        struct scratch s;
        linear_plan(&s.act, h->shape.n_in, CIS_NET_TOKENS, a);
        s.net = arena_take(a, cis_net_floats(h), sizeof(float));
        if (a->base) c->scratch[i] = s;
    }
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
    c->n_rows = o->training.steps ? o->training.steps : ROWS;
    return heads_data_length(o, c->engine->model->n_ctx, LENGTH, &c->length, e);
}

static int begin(struct calibration *c, struct err *e)
{
    int rc = heads_data_open(&c->data, c->options, e);
    if (!rc) rc = open_heads(c, e);
    if (!rc) rc = heads_data_cut(&c->data, c->engine->tokenizer, heads_text_tokens(c->length), e);
    while (!rc && arena_make(&c->arena, "calibration", &rc, e)) plan(c, &c->arena);
    if (!rc) rc = heads_watch_open(&c->watch, c->engine, c->length, e);
    if (!rc) c->watch.reads_hidden = retaining_reads_hidden(c->engine->retaining->shape.form);
    return rc;
}

static void end(struct calibration *c)
{
    heads_watch_close(&c->watch);
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
    else
        rc = gguf_write_check(o->training.out, o->force, &e);
    report_catch_interrupt();
    if (!rc) rc = begin(&c, &e);
    if (!rc) rc = measure(&c, &e);
    for (int i = 0;
         !rc && i < c.engine->retaining->shape.n_layer * c.engine->retaining->shape.n_head; i++)
        fit(&c.sums[i], &c.mean[i], &c.std[i]);
    if (!rc) rc = write_heads(&c, hex, &e);
    end(&c);
    if (rc) return report_error(&e);
    report_line("%s  %s", hex, o->training.out);
    return 0;
}
