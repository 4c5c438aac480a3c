#include "quant/heads/heads_fit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/pool.h"
#include "cli/options/options.h"
#include "cli/options/paths.h"
#include "cli/print/report.h"
#include "quant/heads/heads_data.h"
#include "quant/heads/heads_file.h"
#include "quant/heads/heads_sample.h"
#include "quant/heads/heads_text.h"
#include "quant/heads/heads_watch.h"
#include "runtime/forward/engine.h"

#define LENGTH 1600 /* tokens of a text and its repetition at most, unless --length is given */
#define ROWS   16   /* rows that are read at most, unless --steps is given */
#define SINKS  4    /* the first units get attention whatever they say, and are kept anyway */
#define RIDGE  0.03 /* added to the variance of each standardised input */
#define SIDES  2    /* rows of W1 for each head */
/* A share below this is of no use: which units have a large share counts, not which have a tiny one
 * (quant/eval/notes/heads.md). */
#define SHARE_MIN (1.0 / 128)

struct fit {
    const struct options *options;
    struct engine *engine;
    struct heads_data data;
    struct heads_sample sample;
    struct heads_watch watch;
    struct arena arena;
    struct str out; /* the file */
    int length, n_rows;
    int n_in;        /* numbers of a unit: its key and its value */
    int64_t n_units; /* of each head */
    /* Sums of products of a unit's numbers, followed by 1 and the label, of each head: the lower
     * triangle, [n_layer * n_kv_head][n_sums(n_in + 2)]. */
    double *sums;
    float *weight;     /* [n_layer * n_kv_head][n_in], the result */
    float *mean, *std; /* [n_layer * n_kv_head] score * std + mean = label */
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
    const double share =
        exp((double)j->rows->label[t * m->n_kv_head + head]) - (double)HEADS_SHARE_NOISE;
    out[2 * dim + 1] = log(fmax(share, 0) + SHARE_MIN);
}

static void add_head(void *ctx, int head, int thread)
{
    const struct job *j = ctx;
    const int n = j->f->n_in + 2, index = j->layer * j->f->engine->model->n_kv_head + head;
    double *sums = j->f->sums + (size_t)index * n_sums(n), u[2 * KN_HEAD_DIM_MAX + 2];
    (void)thread;
    for (int t = SINKS; t < j->rows->n; t++) {
        double *row = sums;
        unit_of(j, head, t, u);
        for (int i = 0; i < n; row += ++i)
            for (int k = 0; k <= i; k++) row[k] += u[i] * u[k];
    }
}

static void add_layer(void *ctx, int layer, struct heads_rows *rows)
{
    struct fit *f = ctx;
    struct job j = {f, rows, layer};
    pool_run(f->engine->pool, f->engine->model->n_kv_head, add_head, &j);
    if (layer == 0) f->n_units += rows->n - SINKS;
}

static int read_rows(struct fit *f, struct err *e)
{
    struct report_bar p = report_bar("fitting heads");
    const int n = f->data.n < f->n_rows ? f->data.n : f->n_rows;
    int rc = 0;
    for (int i = 0; !rc && i < n; i++) {
        const int row = (int)((int64_t)i * f->data.n / n);
        rc = heads_sample_read(&f->sample, &f->data, row, f->data.plain, f->engine, f->length, e);
        if (!rc && f->sample.ids.n) heads_watch_run(&f->watch, &f->sample, add_layer, f);
        if (!rc && report_bar_show(&p, i + 1, n)) rc = err_set(e, ERR_STOP, "fit was interrupted");
    }
    report_bar_end(&p);
    if (!rc && f->n_units < 2)
        rc = err_set(e, ERR_FORMAT, "%s: no row is long enough to fit heads to", f->data.name);
    return rc;
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
    const int n = f->n_in;
    double scale[2 * KN_HEAD_DIM_MAX], *sums = f->sums + (size_t)index * n_sums(n + 2);
    double *label = row_of(sums, n + 1), *ones = row_of(sums, n);
    const double units = (double)f->n_units;
    double mean = label[n] / units;
    (void)thread;
    standardise(sums, n, units, scale);
    factor(sums, n);
    solve(sums, n, label);
    for (int i = 0; i < n; i++) {
        f->weight[index * n + i] = (float)(label[i] * scale[i]);
        mean -= label[i] * scale[i] * ones[i] / units;
    }
    f->mean[index] = (float)mean;
    f->std[index] = 1;
}

/* ---- the result ------------------------------------------------------------------------------ */

/* Rows w and -w of W1 for each head, with zeros where it has other heads' numbers; W2 joins them.
 */
static int weight_row(void *ctx, int layer, enum retaining_part part, int r, float *out,
                      struct err *e)
{
    const struct fit *f = ctx;
    const struct model *m = f->engine->model;
    const int dim = m->head_dim, head = r / SIDES;
    const float *w = f->weight + (layer * m->n_kv_head + head) * f->n_in;
    const float side = r % SIDES ? -1 : 1;
    (void)e;
    memset(out, 0,
           (size_t)(part == RETAINING_W2 ? SIDES * m->n_kv_head : model_n_qkv(m)) * sizeof *out);
    if (part == RETAINING_W2) {
        out[SIDES * r] = 1;
        out[SIDES * r + 1] = -1;
        return 0;
    }
    for (int i = 0; i < dim; i++) {
        out[(m->n_head + head) * dim + i] = side * w[i];
        out[(m->n_head + m->n_kv_head + head) * dim + i] = side * w[dim + i];
    }
    return 0;
}

static int write_heads(struct fit *f, char hex[65], struct err *e)
{
    const struct model *m = f->engine->model;
    struct heads_file file = {
        .model = m,
        .shape = {RETAINING_SILU, m->n_kv_layer, model_n_qkv(m), SIDES * m->n_kv_head, m->n_kv_head,
                  0, 0},
        .settings = {-1, -1, -1, -1},
        .n_unit = f->n_in,
        .label = "share",
        .mean = f->mean,
        .std = f->std,
        .row = weight_row,
        .ctx = f,
    };
    return heads_file_write(&file, str_get(&f->out), f->options->force, hex, e);
}

/* ---- opening and closing --------------------------------------------------------------------- */

static void plan(struct fit *f, struct arena *a)
{
    const struct model *m = f->engine->model;
    const size_t n = (size_t)m->n_kv_layer * (size_t)m->n_kv_head;
    f->sums = arena_take(a, n * n_sums(f->n_in + 2), sizeof *f->sums);
    f->weight = arena_take(a, n * (size_t)f->n_in, sizeof *f->weight);
    f->mean = arena_take(a, n, sizeof *f->mean);
    f->std = arena_take(a, n, sizeof *f->std);
}

static int take_memory(struct fit *f, struct err *e)
{
    struct arena a;
    arena_init_plan(&a, "fit");
    plan(f, &a);
    int rc = arena_init(&f->arena, "fit", a.used, e);
    if (!rc) plan(f, &f->arena);
    return rc;
}

/* --out, or the file that chats with the model look for. */
static int name_file(struct fit *f, struct err *e)
{
    const struct options *o = f->options;
    char key[65], name[sizeof key + 16];
    int rc = 0;
    retaining_key(f->engine->model, key);
    snprintf(name, sizeof name, "heads/%s.gguf", key);
    if (o->training.out)
        str_puts(&f->out, o->training.out);
    else
        rc = path_state(name, &f->out, e);
    if (!rc && !o->force && access(str_get(&f->out), F_OK) == 0)
        rc = err_set(e, ERR_USAGE, "%s already exists; --force replaces it", str_get(&f->out));
    return rc;
}

static int open_model(struct fit *f, struct err *e)
{
    const struct options *o = f->options;
    struct engine_opts alone = o->engine;
    alone.heads = (struct engine_heads){.none = true};
    alone.device.kind = ENGINE_DEVICE_CPU; /* whose keys and values can be watched */
    int rc = engine_open(&f->engine, &alone, NULL, 0, NULL, NULL, e);
    if (rc) return rc;
    const int n_ctx = f->engine->model->n_ctx;
    const int64_t length = o->sweep.lengths.n ? o->sweep.lengths.item[0]
                           : n_ctx < LENGTH   ? n_ctx
                                              : LENGTH;
    if (length < 64 || length > n_ctx)
        return err_set(e, ERR_USAGE, "--length %lld: expected a number of tokens from 64 to %d",
                       (long long)length, n_ctx);
    f->length = (int)length;
    f->n_rows = o->training.steps ? o->training.steps : ROWS;
    f->n_in = 2 * f->engine->model->head_dim;
    return name_file(f, e);
}

static int begin(struct fit *f, struct err *e)
{
    int rc = f->options->training.text ? heads_data_open(&f->data, f->options, e)
                                       : heads_text_open(&f->data, e);
    if (!rc) rc = open_model(f, e);
    if (!rc) rc = heads_data_cut(&f->data, f->engine->tokenizer, heads_sample_half(f->length), e);
    if (!rc) rc = take_memory(f, e);
    if (!rc) rc = heads_watch_open(&f->watch, f->engine, HEADS_SHARE, f->length, e);
    return rc;
}

static void end(struct fit *f)
{
    heads_watch_close(&f->watch);
    heads_sample_release(&f->sample);
    heads_data_close(&f->data);
    arena_release(&f->arena);
    engine_close(f->engine);
    str_release(&f->out);
}

int heads_fit(const struct options *o)
{
    struct fit f = {.options = o};
    struct err e;
    char hex[65];
    report_catch_interrupt();
    int rc = begin(&f, &e);
    if (!rc) rc = read_rows(&f, &e);
    if (!rc) {
        const struct model *m = f.engine->model;
        pool_run(f.engine->pool, m->n_kv_layer * m->n_kv_head, solve_head, &f);
        rc = write_heads(&f, hex, &e);
    }
    if (!rc) report_line("%s  %s", hex, str_get(&f.out));
    end(&f);
    return rc ? report_error(&e) : 0;
}
