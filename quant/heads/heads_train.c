#include "quant/heads/heads_train.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/system.h"
#include "cli/commands/input.h"
#include "cli/options/options.h"
#include "cli/print/report.h"
#include "quant/heads/heads_data.h"
#include "quant/heads/heads_file.h"
#include "quant/heads/heads_net.h"
#include "quant/heads/heads_sample.h"
#include "quant/heads/heads_schedule.h"
#include "quant/heads/heads_watch.h"
#include "runtime/forward/engine.h"

/* Locret's defaults: steps of one row of at most this many tokens, the rate, the smoothing. */
#define STEPS     3000
#define LENGTH    10240
#define HIDDEN    1024
#define RATE      5e-4f
#define SMOOTHING 0.0025f
#define CLIP      0.5f

#define STATISTICS    64 /* rows used for the labels' mean and deviation */
#define VALIDATIONS   10 /* number of validations per run */
#define CHECKPOINT_NS 60000000000
#define TOP_SHARE     10 /* validation measures the overlap of the best tenth */

struct train {
    const struct options *options;
    struct engine *engine;
    struct heads_data data;
    struct heads_watch watch;
    struct heads_sample sample;
    struct heads_net *nets; /* [n_layer] */
    struct heads_work work;
    struct arena arena;
    float *mean, *std; /* [n_layer * n_kv_head] mean and deviation of the labels */
    struct heads_schedule schedule;
    int steps, batch, hidden, length;
    float rate;
    int step;           /* done */
    double loss;        /* of the last step */
    char settings[512]; /* settings that must be equal for a run to continue; a long path is cut */
    char checkpoint[4096];
    int64_t saved_ns;
};

/* ---- rows ------------------------------------------------------------------------------------ */

static const char *labels_of(const struct train *t)
{
    const char *given = t->options->training.labels;
    return given ? given : t->data.plain ? "repeat" : "answer";
}

static bool repeats(const struct train *t, int64_t i)
{
    return !strcmp(labels_of(t), "repeat") || (!strcmp(labels_of(t), "both") && i % 2);
}

/* Adds the labels of row `row` to the batch; rows that are too short add nothing. */
static int watch_row(struct train *t, int row, bool repeat, struct err *e)
{
    struct heads_sample *s = &t->sample;
    int rc = heads_sample_read(s, &t->data, row, repeat, t->engine, t->length, e);
    if (!rc && s->ids.n)
        heads_watch_run(&t->watch, s->ids.ids, s->asks, (int)s->ids.n, s->n_context);
    return rc;
}

static struct heads_rows rows_of(const struct train *t, int layer)
{
    return (struct heads_rows){t->watch.n, heads_watch_x(&t->watch, layer),
                               heads_watch_label(&t->watch, layer), t->watch.next};
}

/* Scales the labels of all rows held to mean 0 and deviation 1. */
static void standardise(struct train *t)
{
    int n_head = t->engine->model->n_kv_head;
    for (int l = 0; l < t->engine->model->n_kv_layer; l++) {
        float *y = heads_watch_label(&t->watch, l);
        for (int i = 0; i < t->watch.n * n_head; i++) {
            int h = l * n_head + i % n_head;
            y[i] = (y[i] - t->mean[h]) / t->std[h];
        }
    }
}

/* Mean and deviation of the labels, over the first training rows. */
static int find_scale(struct train *t, struct err *e)
{
    int n_head = t->engine->model->n_kv_head, n = t->engine->model->n_kv_layer * n_head, rc = 0;
    int64_t rows = 0;
    double *sums = calloc((size_t)n * 2, sizeof *sums);
    if (!sums) return err_set(e, ERR_FAIL, "out of memory for training");
    for (int i = 0; !rc && i < STATISTICS && i < t->data.n - t->schedule.n_valid; i++) {
        heads_watch_clear(&t->watch);
        rc = watch_row(t, heads_schedule_row(&t->schedule, i), repeats(t, i), e);
        rows += t->watch.n;
        for (int h = 0; !rc && h < n; h++) {
            const float *y = heads_watch_label(&t->watch, h / n_head) + h % n_head;
            for (int k = 0; k < t->watch.n; k++, y += n_head) {
                sums[2 * h] += (double)*y;
                sums[2 * h + 1] += (double)*y * (double)*y;
            }
        }
    }
    if (!rc && rows == 0)
        rc = err_set(e, ERR_FORMAT, "%s: no row is long enough to train on", t->data.name);
    for (int h = 0; !rc && h < n; h++) {
        double mean = sums[2 * h] / (double)rows,
               var = sums[2 * h + 1] / (double)rows - mean * mean;
        t->mean[h] = (float)mean;
        t->std[h] = (float)sqrt(var > 1e-12 ? var : 1e-12);
    }
    free(sums);
    return rc;
}

/* ---- validation ------------------------------------------------------------------------------ */

struct ranked {
    float value;
    int row;
};

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

/* The share of units with the best labels that also have the best scores, averaged over KV
 * heads. */
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

/* Mean overlap over the rows held back and over layers. */
static int validate(struct train *t, double *out, struct err *e)
{
    const struct model *m = t->engine->model;
    struct ranked *tmp = calloc((size_t)t->length * 2, sizeof *tmp);
    int n = 0, rc = tmp ? 0 : err_set(e, ERR_FAIL, "out of memory for validation");
    double sum = 0;
    for (int i = 0; !rc && i < t->schedule.n_valid; i++) {
        heads_watch_clear(&t->watch);
        rc = watch_row(t, t->schedule.order[i], repeats(t, i), e);
        if (rc || !t->watch.n) continue;
        for (int l = 0; l < m->n_kv_layer; l++) {
            struct heads_rows rows = rows_of(t, l);
            heads_net_score(&t->nets[l], &rows, &t->work);
            sum += overlap(t->work.score, rows.label, m->n_kv_head, rows.n, tmp) / m->n_kv_layer;
        }
        n++;
    }
    free(tmp);
    *out = n ? sum / n : 0;
    return rc;
}

/* ---- checkpoints ----------------------------------------------------------------------------- */

/* Writes or reads all state that a step changes, in one order. write: to the file, else from it. */
static bool transfer(struct train *t, FILE *f, bool write)
{
    const struct model *m = t->engine->model;
    size_t n = (size_t)m->n_kv_layer * (size_t)m->n_kv_head;
    bool ok = true;
#define PART(p, count) \
    ok = ok &&         \
         (write ? fwrite(p, sizeof *(p), count, f) : fread(p, sizeof *(p), count, f)) == (count)
    PART(&t->step, 1);
    PART(t->mean, n);
    PART(t->std, n);
    for (int l = 0; l < m->n_kv_layer; l++) {
        PART(t->nets[l].weights, t->nets[l].n);
        PART(t->nets[l].first, t->nets[l].n);
        PART(t->nets[l].second, t->nets[l].n);
    }
#undef PART
    return ok;
}

static int save(struct train *t, struct err *e)
{
    char tmp[sizeof t->checkpoint + 4];
    snprintf(tmp, sizeof tmp, "%s.tmp", t->checkpoint);
    FILE *f = fopen(tmp, "wb");
    bool ok = f && fwrite(t->settings, sizeof t->settings, 1, f) == 1 && transfer(t, f, true) &&
              fflush(f) == 0 && fsync(fileno(f)) == 0;
    if (f && fclose(f)) ok = false;
    if (!ok || rename(tmp, t->checkpoint)) {
        unlink(tmp);
        return err_set(e, ERR_FAIL, "%s cannot be written: %m", t->checkpoint);
    }
    t->saved_ns = system_clock_ns();
    return 0;
}

/* Continues from a checkpoint, if there is one. */
static int resume(struct train *t, bool *found, struct err *e)
{
    char settings[sizeof t->settings];
    FILE *f = fopen(t->checkpoint, "rb");
    *found = f != NULL;
    if (!f) return 0;
    int rc = 0;
    if (fread(settings, sizeof settings, 1, f) != 1 ||
        memcmp(settings, t->settings, sizeof settings))
        rc = err_set(e, ERR_USAGE,
                     "%s belongs to a training with other settings; repeat the original command, "
                     "or remove that file",
                     t->checkpoint);
    else if (!transfer(t, f, false) || t->step < 0 || t->step > t->steps || fgetc(f) != EOF)
        rc = err_set(e, ERR_FORMAT, "%s is damaged; remove it to start again", t->checkpoint);
    fclose(f);
    if (!rc) report_note("continuing after step %d of %d", t->step, t->steps);
    return rc;
}

/* ---- steps ----------------------------------------------------------------------------------- */

static int take_step(struct train *t, struct err *e)
{
    const struct model *m = t->engine->model;
    float fit = 1 / (float)m->n_kv_layer;
    float rate = heads_schedule_rate(t->rate, t->step + 1, t->steps);
    heads_watch_clear(&t->watch);
    for (int i = 0; i < t->batch; i++) {
        int64_t at = (int64_t)t->step * t->batch + i;
        int rc = watch_row(t, heads_schedule_row(&t->schedule, at), repeats(t, at), e);
        if (rc) return rc;
    }
    t->step++;
    t->loss = 0;
    if (!t->watch.n) return 0;
    standardise(t);
    for (int l = 0; l < m->n_kv_layer; l++) {
        struct heads_rows rows = rows_of(t, l);
        t->loss += heads_net_gradient(&t->nets[l], &rows, fit, SMOOTHING, &t->work);
        heads_net_step(&t->nets[l], rate, CLIP, t->step, t->engine->pool);
    }
    return 0;
}

static int report_validation(struct train *t, const struct report_bar *p, double *share,
                             struct err *e)
{
    int rc = validate(t, share, e);
    report_bar_end(p);
    if (!rc)
        report_note("step %d of %d: loss %.4f, %.1f %% of the best tenth found", t->step, t->steps,
                    t->loss, 100 * *share);
    return rc;
}

static int run(struct train *t, double *share, struct err *e)
{
    struct report_bar p = report_bar("training");
    int every = (t->steps + VALIDATIONS - 1) / VALIDATIONS, rc = 0;
    t->saved_ns = system_clock_ns();
    while (!rc && t->step < t->steps) {
        rc = take_step(t, e);
        bool stopped = report_bar_show(&p, t->step, t->steps) != 0;
        if (!rc && t->step % every == 0 && t->step < t->steps)
            rc = report_validation(t, &p, share, e);
        if (!rc && (stopped || system_clock_ns() - t->saved_ns > CHECKPOINT_NS)) rc = save(t, e);
        if (!rc && stopped)
            rc = err_set(e, ERR_STOP,
                         "interrupted after step %d; %s is kept, and the same command continues",
                         t->step, t->checkpoint);
    }
    return rc ? rc : report_validation(t, &p, share, e);
}

/* ---- the result ------------------------------------------------------------------------------ */

static int weight_row(void *ctx, int layer, int which, int r, float *out, struct err *e)
{
    const struct train *t = ctx;
    const struct heads_net *net = &t->nets[layer];
    size_t n = (size_t)(which ? net->n_hidden : net->n_in);
    (void)e;
    memcpy(out, (which ? heads_net_w2(net) : net->weights) + (size_t)r * n, n * sizeof *out);
    return 0;
}

static int write_heads(struct train *t, char hex[65], struct err *e)
{
    const struct model *m = t->engine->model;
    char name[128];
    snprintf(name, sizeof name, "retaining heads of %.96s", m->name);
    struct heads_file f = {
        .name = name,
        .base_digest = t->engine->model_digest,
        .n_layer = m->n_kv_layer,
        .n_in = heads_watch_n_in(m),
        .n_hidden = t->hidden,
        .n_head = m->n_kv_head,
        .label = t->watch.kind == HEADS_SHARE ? "share" : "logit",
        .mean = t->mean,
        .std = t->std,
        .row = weight_row,
        .ctx = t,
    };
    return heads_file_write(&f, t->options->training.out, t->options->force, hex, e);
}

/* ---- opening and closing --------------------------------------------------------------------- */

static void plan(struct train *t, struct arena *a)
{
    const struct model *m = t->engine->model;
    size_t n = (size_t)m->n_kv_layer * (size_t)m->n_kv_head;
    int n_in = heads_watch_n_in(m);
    for (int l = 0; l < m->n_kv_layer; l++)
        heads_net_plan(&t->nets[l], n_in, t->hidden, m->n_kv_head, a);
    heads_work_plan(&t->work, t->batch * t->length, n_in, t->hidden, m->n_kv_head, a);
    t->work.kernels = t->engine->kernels;
    t->work.pool = t->engine->pool;
    t->mean = arena_take(a, n, sizeof *t->mean);
    t->std = arena_take(a, n, sizeof *t->std);
    heads_schedule_plan(&t->schedule, t->data.n, a);
}

static int take_memory(struct train *t, struct err *e)
{
    struct arena a;
    t->nets = calloc((size_t)t->engine->model->n_kv_layer, sizeof *t->nets);
    if (!t->nets) return err_set(e, ERR_FAIL, "out of memory for training");
    arena_init_plan(&a, "training");
    plan(t, &a);
    int rc = arena_init(&t->arena, "training", a.used, e);
    if (rc) return rc;
    plan(t, &t->arena);
    return 0;
}

static int choose_settings(struct train *t, struct err *e)
{
    const struct options *o = t->options;
    const struct model *m = t->engine->model;
    t->steps = o->training.steps ? o->training.steps : STEPS;
    t->batch = o->training.batch ? o->training.batch : 1;
    t->hidden = o->training.hidden ? o->training.hidden : HIDDEN;
    t->rate = o->training.rate > 0 ? o->training.rate : RATE;
    int64_t length = m->n_ctx < LENGTH ? m->n_ctx : LENGTH;
    if (o->sweep.lengths.n) length = o->sweep.lengths.item[0];
    if (length < 64 || length > m->n_ctx)
        return err_set(e, ERR_USAGE, "--length %lld: expected a number of tokens from 64 to %d",
                       (long long)length, m->n_ctx);
    t->length = (int)length;
    if (t->data.plain && (!strcmp(labels_of(t), "answer") || !strcmp(labels_of(t), "both")))
        return err_set(e, ERR_USAGE,
                       "--labels %s: text has no answers; take repeat or logit, or --data",
                       labels_of(t));
    snprintf(t->settings, sizeof t->settings,
             "%s %s steps %d batch %d hidden %d length %d rate %g smoothing %g seed %llu %zu %s",
             t->engine->model_digest, labels_of(t), t->steps, t->batch, t->hidden, t->length,
             (double)t->rate, (double)SMOOTHING, (unsigned long long)o->session.sampling.seed,
             t->data.text.n, t->data.name);
    return 0;
}

static int begin(struct train *t, struct err *e)
{
    const struct options *o = t->options;
    bool found = false;
    struct engine_opts alone = o->engine;
    alone.heads = (struct engine_heads){.none = true};
    alone.verify = IDENTITY_VERIFY_FULL;   /* the heads will be bound to the file's digest */
    alone.device.kind = ENGINE_DEVICE_CPU; /* whose q, k and v can be watched */
    if (o->engine.device.kind == ENGINE_DEVICE_CUDA)
        report_note("heads train runs on the CPU; --device cuda has no effect");
    int rc = heads_data_open(&t->data, o, e);
    if (!rc) rc = engine_open(&t->engine, &alone, NULL, 0, NULL, NULL, e);
    if (!rc) rc = choose_settings(t, e);
    if (!rc) rc = heads_data_cut(&t->data, t->engine->tokenizer, heads_sample_half(t->length), e);
    if (!rc) rc = take_memory(t, e);
    enum heads_label kind = !strcmp(labels_of(t), "logit") ? HEADS_LOGIT : HEADS_SHARE;
    if (!rc) rc = heads_watch_open(&t->watch, t->engine, kind, t->length, t->batch, e);
    if (rc) return rc;
    heads_schedule_init(&t->schedule, o->session.sampling.seed);
    for (int l = 0; l < t->engine->model->n_kv_layer; l++)
        heads_net_init(&t->nets[l], o->session.sampling.seed, l + 1);
    rc = resume(t, &found, e);
    return rc || found ? rc : find_scale(t, e);
}

static void end(struct train *t)
{
    heads_watch_close(&t->watch);
    heads_sample_release(&t->sample);
    heads_data_close(&t->data);
    arena_release(&t->arena);
    free(t->nets);
    engine_close(t->engine);
}

int heads_train(const struct options *o)
{
    struct train t = {.options = o};
    struct err e;
    char hex[65];
    double share = 0;
    int rc = 0;
    if (!o->training.out)
        rc = err_set(&e, ERR_USAGE, "heads train needs --text FILE or --data FILE, and --out FILE");
    else if (!o->force && access(o->training.out, F_OK) == 0)
        rc = err_set(&e, ERR_USAGE, "%s already exists; --force replaces it", o->training.out);
    else
        snprintf(t.checkpoint, sizeof t.checkpoint, "%s.part", o->training.out);
    report_catch_interrupt();
    if (!rc) rc = begin(&t, &e);
    if (!rc) rc = run(&t, &share, &e);
    if (!rc) rc = write_heads(&t, hex, &e);
    if (!rc) {
        unlink(t.checkpoint);
        report_line("%s  %s", hex, o->training.out);
    }
    end(&t);
    return rc ? report_error(&e) : 0;
}
