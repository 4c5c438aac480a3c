#include "quant/heads/heads_fit.h"

#include <math.h>
#include <stdio.h>

#include "base/pool.h"
#include "cli/options/options.h"
#include "cli/options/paths.h"
#include "cli/print/report.h"
#include "quant/convert/encode.h"
#include "quant/convert/gguf_write.h"
#include "quant/heads/heads_text.h"
#include "quant/heads/heads_watch.h"
#include "runtime/forward/engine.h"

#define LENGTH 1600 /* tokens of a text and its questions at most, unless --length is given */
#define ROWS   16   /* rows that are read at most, unless --steps is given */
#define SINKS  4    /* the first units get attention whatever they say, and are kept anyway */
#define RIDGE  0.03 /* added to the variance of each standardised input */

struct fit {
    struct heads_linear *out;
    struct engine *engine;
    struct heads_watch watch;
    struct arena arena;
    int64_t n_units; /* of each head */
    /* Sums of products of a unit's numbers, followed by 1 and the label, of each head: the lower
     * triangle, [n_layer * n_kv_head][n_sums(n_unit + 2)]. */
    double *sums;
    double *squares; /* [n_layer][n_qkv] sums of squares of q, k and v */
};

static size_t n_sums(int n)
{
    return (size_t)n * (size_t)(n + 1) / 2;
}

/* ---- sums ------------------------------------------------------------------------------------ */

struct job {
    struct fit *f;
    const struct heads_rows *rows;
    int layer;
};

/* A unit's key and value, 1, and its label. */
static void unit_of(const struct job *j, int head, int t, double *out)
{
    const struct model *m = j->f->engine->model;
    const int dim = m->head_dim;
    const float *row = j->rows->x + (size_t)t * (size_t)model_n_qkv(m);
    const float *k = row + (m->n_head + head) * dim, *v = k + m->n_kv_head * dim;
    for (int i = 0; i < dim; i++) {
        out[i] = (double)k[i];
        out[dim + i] = (double)v[i];
    }
    out[2 * dim] = 1;
    out[2 * dim + 1] = (double)j->rows->label[t * m->n_kv_head + head];
}

static void add_head(void *ctx, int head, int thread)
{
    const struct job *j = ctx;
    const int n = j->f->out->n_unit + 2, index = j->layer * j->f->engine->model->n_kv_head + head;
    double *sums = j->f->sums + (size_t)index * n_sums(n), u[2 * KN_HEAD_DIM_MAX + 2];
    (void)thread;
    for (int t = SINKS; t < j->rows->n; t++) {
        double *row = sums;
        unit_of(j, head, t, u);
        for (int i = 0; i < n; row += ++i)
            for (int k = 0; k <= i; k++) row[k] += u[i] * u[k];
    }
}

static void add_squares(void *ctx, int begin, int end, int thread)
{
    const struct job *j = ctx;
    const size_t n = (size_t)model_n_qkv(j->f->engine->model);
    double *sums = j->f->squares + (size_t)j->layer * n;
    (void)thread;
    for (int t = SINKS; t < j->rows->n; t++)
        for (int i = begin; i < end; i++) {
            const double x = (double)j->rows->x[(size_t)t * n + (size_t)i];
            sums[i] += x * x;
        }
}

static void add_layer(void *ctx, int layer, struct heads_rows *rows)
{
    struct fit *f = ctx;
    struct job j = {f, rows, layer};
    const struct model *m = f->engine->model;
    pool_run(f->engine->pool, m->n_kv_head, add_head, &j);
    pool_run_spans(f->engine->pool, model_n_qkv(m), ENCODE_BLOCK, add_squares, &j);
    if (layer == 0) f->n_units += rows->n - SINKS;
}

/* ---- ridge regression ------------------------------------------------------------------------ */

/* Row i of the lower triangle. */
static double *row_of(double *sums, int i)
{
    return sums + n_sums(i);
}

/* Turns sums into covariances of standardised inputs, in place; the row of labels too. */
static void standardise(double *sums, int n, double units, double *scale)
{
    const double *ones = row_of(sums, n), *label = row_of(sums, n + 1);
    const double mean_label = label[n] / units;
    for (int i = 0; i < n; i++) {
        const double mean = ones[i] / units, var = row_of(sums, i)[i] / units - mean * mean;
        scale[i] = 1 / sqrt(var > 1e-12 ? var : 1e-12);
    }
    for (int i = 0; i < n; i++) {
        for (int k = 0; k <= i; k++)
            row_of(sums, i)[k] = (row_of(sums, i)[k] / units - ones[i] / units * ones[k] / units) *
                                 scale[i] * scale[k];
        row_of(sums, n + 1)[i] = (label[i] / units - ones[i] / units * mean_label) * scale[i];
        row_of(sums, i)[i] += RIDGE;
    }
}

/* The Cholesky factor of the lower triangle, in place: it is positive definite by the ridge. */
static void factor(double *a, int n)
{
    for (int i = 0; i < n; i++) {
        double *x = row_of(a, i);
        for (int k = 0; k <= i; k++) {
            const double *y = row_of(a, k);
            double sum = x[k];
            for (int l = 0; l < k; l++) sum -= x[l] * y[l];
            x[k] = k == i ? sqrt(sum) : sum / y[k];
        }
    }
}

/* Solves L L^T x = b in place. */
static void solve(double *a, int n, double *b)
{
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < i; k++) b[i] -= row_of(a, i)[k] * b[k];
        b[i] /= row_of(a, i)[i];
    }
    for (int i = n - 1; i >= 0; i--) {
        b[i] /= row_of(a, i)[i];
        for (int k = 0; k < i; k++) b[k] -= row_of(a, i)[k] * b[i];
    }
}

static void solve_head(void *ctx, int index, int thread)
{
    struct fit *f = ctx;
    const int n = f->out->n_unit;
    double scale[2 * KN_HEAD_DIM_MAX], *sums = f->sums + (size_t)index * n_sums(n + 2);
    double *label = row_of(sums, n + 1), *ones = row_of(sums, n);
    const double units = (double)f->n_units;
    double mean = label[n] / units;
    (void)thread;
    standardise(sums, n, units, scale);
    factor(sums, n);
    solve(sums, n, label);
    for (int i = 0; i < n; i++) {
        f->out->weight[index * n + i] = (float)(label[i] * scale[i]);
        mean -= label[i] * scale[i] * ones[i] / units;
    }
    f->out->mean[index] = (float)mean;
}

static void finish(struct fit *f)
{
    const struct model *m = f->engine->model;
    pool_run(f->engine->pool, m->n_kv_layer * m->n_kv_head, solve_head, f);
    for (int i = 0; i < m->n_kv_layer * model_n_qkv(m); i++)
        f->out->size[i] = (float)sqrt(f->squares[i] / (double)f->n_units);
}

/* ---- fitting to texts ------------------------------------------------------------------------ */

static void plan(struct fit *f, const struct model *m, struct arena *a)
{
    const size_t layers = (size_t)m->n_kv_layer, n = layers * (size_t)m->n_kv_head;
    f->sums = arena_take(a, n * n_sums(2 * m->head_dim + 2), sizeof *f->sums);
    f->squares = arena_take(a, layers * (size_t)model_n_qkv(m), sizeof *f->squares);
}

/* Fits heads to at most n_rows rows of `length` tokens each. The engine has no GPU. */
static int fit_rows(struct heads_linear *out, struct engine *g, const struct heads_data *d,
                    int length, int n_rows, heads_show *show, void *ctx, struct err *e)
{
    struct fit f = {.out = out, .engine = g};
    int rc = 0;
    while (arena_make(&f.arena, "fit", &rc, e)) plan(&f, g->model, &f.arena);
    if (!rc) rc = heads_watch_open(&f.watch, g, length, e);
    if (!rc) rc = heads_watch_rows(&f.watch, d, n_rows, add_layer, &f, show, ctx, e);
    if (!rc) finish(&f);
    heads_watch_close(&f.watch);
    arena_release(&f.arena);
    return rc;
}

int heads_fit_built_in(struct heads_linear *out, struct engine *g, int n_rows, heads_show *show,
                       void *ctx, struct err *e)
{
    struct heads_data d;
    const int n_ctx = g->model->n_ctx;
    int rc = heads_text_open(&d, e);
    if (!rc) rc = fit_rows(out, g, &d, n_ctx < LENGTH ? n_ctx : LENGTH, n_rows, show, ctx, e);
    heads_data_close(&d);
    return rc;
}

/* ---- the command ----------------------------------------------------------------------------- */

struct command {
    const struct options *options;
    struct engine *engine;
    struct heads_data data;
    struct heads_linear fitted;
    struct arena arena;
    struct str out; /* the file */
    int length;
};

/* --out, or the file that chats with the model look for. */
static int name_file(struct command *f, struct err *e)
{
    const struct options *o = f->options;
    char key[65], name[sizeof key + 16];
    int rc = 0;
    retaining_key(f->engine->model, key);
    snprintf(name, sizeof name, "heads/%s.gguf", key);
    if (o->training.out)
        str_puts(&f->out, o->training.out);
    else
        rc = path_make(PATH_STATE, name, &f->out, e);
    return rc ? rc : gguf_write_check(str_get(&f->out), o->force, e);
}

static int open_model(struct command *f, struct err *e)
{
    const struct options *o = f->options;
    struct engine_opts alone = o->engine;
    alone.heads = (struct engine_heads){.none = true};
    alone.device.kind = ENGINE_DEVICE_CPU; /* whose keys and values can be watched */
    int rc = engine_open(&f->engine, &alone, NULL, 0, NULL, NULL, e);
    if (!rc) rc = heads_data_length(o, f->engine->model->n_ctx, LENGTH, &f->length, e);
    return rc ? rc : name_file(f, e);
}

static int begin(struct command *f, struct err *e)
{
    int rc = f->options->training.text ? heads_data_open(&f->data, f->options, e)
                                       : heads_text_open(&f->data, e);
    if (!rc) rc = open_model(f, e);
    if (!rc) rc = heads_data_cut(&f->data, f->engine->tokenizer, heads_text_tokens(f->length), e);
    while (!rc && arena_make(&f->arena, "heads", &rc, e))
        heads_linear_plan(&f->fitted, f->engine->model, &f->arena);
    return rc;
}

static void end(struct command *f)
{
    heads_data_close(&f->data);
    arena_release(&f->arena);
    engine_close(f->engine);
    str_release(&f->out);
}

int heads_fit(const struct options *o)
{
    struct command f = {.options = o};
    struct report_bar p = report_bar("fitting heads");
    struct err e;
    char hex[65];
    report_catch_interrupt();
    int rc = begin(&f, &e);
    if (!rc)
        rc = fit_rows(&f.fitted, f.engine, &f.data, f.length,
                      o->training.steps ? o->training.steps : ROWS, report_bar_show, &p, &e);
    report_bar_end(&p);
    if (!rc) rc = heads_linear_write(&f.fitted, str_get(&f.out), o->force, hex, &e);
    if (!rc) report_line("%s  %s", hex, str_get(&f.out));
    end(&f);
    return rc ? report_error(&e) : 0;
}
