#include "quant/heads/heads_train.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/pool.h"
#include "base/system.h"
#include "cli/options/options.h"
#include "cli/print/num.h"
#include "cli/print/report.h"
#include "quant/heads/heads_data.h"
#include "quant/heads/heads_file.h"
#include "quant/heads/heads_learn.h"
#include "quant/heads/heads_sample.h"
#include "quant/heads/heads_schedule.h"
#include "runtime/forward/engine.h"

/* Locret's defaults: steps of one row of at most this many tokens, the rate. */
#define STEPS  3000
#define LENGTH 10240
#define HIDDEN 1024
#define RATE   5e-4f

/* Reading a row costs as much as training on it: the labels' mean and deviation come from a tenth
 * as many rows as are trained on, all validations together read another tenth. */
#define SHARE         10
#define STATISTICS    64 /* rows at most */
#define VALIDATIONS   10 /* per run at most, of VALID_MIN rows at least */
#define VALID_MIN     4
#define CHECKPOINT_NS 60000000000
#define SHOW_NS       200000000   /* on a terminal */
#define FIRST_LINE_NS 5000000000  /* without one: a line after so long, */
#define LINE_NS       60000000000 /* and each minute */

struct train {
    const struct options *options;
    struct engine *engine;
    struct heads_data data;
    struct heads_learn learn;
    struct heads_learn_opts opts;
    struct heads_sample *samples; /* [batch] */
    struct heads_schedule schedule;
    struct arena arena;
    int steps, batch;
    float rate;
    int step;           /* done */
    double loss;        /* of the last step */
    char settings[512]; /* settings that must be equal for a run to continue; a long path is cut */
    char checkpoint[4096];
    int64_t saved_ns, shown_ns;
    int64_t opened_ns; /* when the first row was read */
    int64_t began_ns;  /* and the step then */
    int began_step;
};

/* ---- rows ------------------------------------------------------------------------------------ */

static const char *labels_of(const struct train *t)
{
    const struct training_opts *o = &t->options->training;
    if (o->labels) return o->labels;
    return t->data.plain ? "repeat" : "answer";
}

static bool repeats(const struct train *t, int64_t i)
{
    return !strcmp(labels_of(t), "repeat") || (!strcmp(labels_of(t), "both") && i % 2);
}

/* ids.n is 0 for a row that is too short. */
static int read_row(struct train *t, struct heads_sample *s, int row, bool repeat, struct err *e)
{
    return heads_sample_read(s, &t->data, row, repeat, t->engine, t->opts.length, e);
}

static int at_most(int64_t n, int most)
{
    return n < most ? (int)n : most;
}

/* Rows that training reads, a tenth of them, but VALID_MIN at least. */
static int64_t tenth(const struct train *t)
{
    const int64_t n = (int64_t)t->steps * t->batch / SHARE;
    return n > VALID_MIN ? n : VALID_MIN;
}

static int n_validations(const struct train *t)
{
    return at_most(tenth(t) / VALID_MIN, VALIDATIONS);
}

/* Whether the state of the training is to be told now: often on a terminal, else each minute. */
static bool is_time(struct train *t)
{
    const int64_t now = system_clock_ns();
    const bool shown = t->shown_ns > 0;
    const int64_t wait = isatty(STDERR_FILENO) ? SHOW_NS : shown ? LINE_NS : FIRST_LINE_NS;
    if (now - (shown ? t->shown_ns : t->opened_ns) < wait) return false;
    t->shown_ns = now;
    return true;
}

static void tell(const char *text)
{
    if (isatty(STDERR_FILENO))
        report_status("%s", text);
    else
        report_note("%s", text);
}

/* Mean and deviation of the labels, over the first training rows. */
static int find_scale(struct train *t, struct err *e)
{
    struct heads_sample *s = t->samples;
    const int n = at_most(at_most(tenth(t), STATISTICS), t->data.n - t->schedule.n_valid);
    char text[80];
    for (int i = 0; i < n; i++) {
        snprintf(text, sizeof text, "training: measuring the labels, row %d of %d", i + 1, n);
        if (is_time(t)) tell(text);
        int rc = read_row(t, s, heads_schedule_row(&t->schedule, i), repeats(t, i), e);
        if (rc) return rc;
        if (s->ids.n) rc = heads_learn_measure(&t->learn, s, e);
        if (rc) return rc;
        if (report_interrupted()) return err_set(e, ERR_STOP, "interrupted before the first step");
    }
    if (t->learn.n_sums == 0)
        return err_set(e, ERR_FORMAT, "%s: no row is long enough to train on", t->data.name);
    return heads_learn_scale(&t->learn, e);
}

/* The share of the best tenth found in the rows held back. */
static int validate(struct train *t, double *out, struct err *e)
{
    struct heads_sample *s = t->samples;
    int n = 0, rc = 0;
    double sum = 0;
    const int n_rows = at_most(tenth(t) / n_validations(t), t->schedule.n_valid);
    for (int i = 0; !rc && i < n_rows; i++) {
        rc = read_row(t, s, t->schedule.order[i], repeats(t, i), e);
        if (rc || !s->ids.n) continue;
        double share;
        rc = heads_learn_found(&t->learn, s, &share, e);
        sum += share;
        n++;
    }
    *out = n ? sum / n : 0;
    return rc;
}

/* ---- checkpoints ----------------------------------------------------------------------------- */

static int save(struct train *t, struct err *e)
{
    char tmp[sizeof t->checkpoint + 4];
    snprintf(tmp, sizeof tmp, "%s.tmp", t->checkpoint);
    FILE *f = fopen(tmp, "wb");
    bool ok = f && fwrite(t->settings, sizeof t->settings, 1, f) == 1 &&
              fwrite(&t->step, sizeof t->step, 1, f) == 1;
    int rc = ok ? heads_learn_transfer(&t->learn, f, true, e) : 0;
    ok = ok && !rc && fflush(f) == 0 && fsync(fileno(f)) == 0;
    if (f && fclose(f)) ok = false;
    if (!ok || rename(tmp, t->checkpoint)) {
        unlink(tmp);
        if (rc && rc != ERR_FORMAT) return rc;
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
    else if (fread(&t->step, sizeof t->step, 1, f) != 1 ||
             (rc = heads_learn_transfer(&t->learn, f, false, e)) == ERR_FORMAT || t->step < 0 ||
             t->step > t->steps || (!rc && fgetc(f) != EOF))
        rc = err_set(e, ERR_FORMAT, "%s is damaged; remove it to start again", t->checkpoint);
    fclose(f);
    if (!rc) report_note("continuing after step %d of %d", t->step, t->steps);
    return rc;
}

/* ---- steps ----------------------------------------------------------------------------------- */

static int take_step(struct train *t, struct err *e)
{
    int n_rows = 0, n_texts = 0;
    for (int i = 0; i < t->batch; i++) {
        int64_t at = (int64_t)t->step * t->batch + i;
        struct heads_sample *s = &t->samples[i];
        int rc = read_row(t, s, heads_schedule_row(&t->schedule, at), repeats(t, at), e);
        if (rc) return rc;
        n_rows += s->ids.n ? s->n_context : 0;
        n_texts += s->ids.n > 0;
    }
    t->step++;
    t->loss = 0;
    if (!n_texts) return 0;
    int rc = 0;
    for (int i = 0; !rc && i < t->batch; i++)
        if (t->samples[i].ids.n)
            rc = heads_learn_add(&t->learn, &t->samples[i], n_rows, n_texts, &t->loss, e);
    const float rate = heads_schedule_rate(t->rate, t->step, t->steps);
    return rc ? rc : heads_learn_step(&t->learn, rate, t->step, e);
}

/* "about 3 min", from the steps since the command began. */
static const char *time_left(const struct train *t, char out[32])
{
    double s = (double)(system_clock_ns() - t->began_ns) / 1e9;
    double left = s / (t->step - t->began_step) * (t->steps - t->step);
    if (left < 90)
        snprintf(out, 32, "about %.0f s", left);
    else if (left < 5400)
        snprintf(out, 32, "about %.0f min", left / 60);
    else
        snprintf(out, 32, "about %.1f h", left / 3600);
    return out;
}

static void show(struct train *t)
{
    char left[32], text[128];
    if (!is_time(t)) return;
    snprintf(text, sizeof text, "training: step %d of %d, loss %.4f, %s left", t->step, t->steps,
             t->loss, time_left(t, left));
    tell(text);
}

static int report_validation(struct train *t, double *share, struct err *e)
{
    char left[32];
    int rc = validate(t, share, e);
    report_status_end();
    if (rc) return rc;
    if (t->step == t->steps || t->step == t->began_step)
        report_note("step %d of %d: loss %.4f, %.1f %% of the best tenth found", t->step, t->steps,
                    t->loss, 100 * *share);
    else
        report_note("step %d of %d: loss %.4f, %.1f %% of the best tenth found, %s left", t->step,
                    t->steps, t->loss, 100 * *share, time_left(t, left));
    return 0;
}

static int run(struct train *t, double *share, struct err *e)
{
    int every = (t->steps + n_validations(t) - 1) / n_validations(t), rc = 0;
    t->saved_ns = t->began_ns = system_clock_ns();
    t->began_step = t->step;
    while (!rc && t->step < t->steps) {
        rc = take_step(t, e);
        if (!rc) show(t);
        bool stopped = report_interrupted();
        if (!rc && t->step % every == 0 && t->step < t->steps) rc = report_validation(t, share, e);
        if (!rc && (stopped || system_clock_ns() - t->saved_ns > CHECKPOINT_NS)) rc = save(t, e);
        if (!rc && stopped)
            rc = err_set(e, ERR_STOP,
                         "interrupted after step %d; %s is kept, and the same command continues",
                         t->step, t->checkpoint);
    }
    return rc ? rc : report_validation(t, share, e);
}

/* ---- the result ------------------------------------------------------------------------------ */

static int weight_row(void *ctx, int layer, enum retaining_part part, int r, float *out,
                      struct err *e)
{
    struct train *t = ctx;
    const struct heads_net *net = t->learn.nets;
    const bool second = part == RETAINING_W2;
    const size_t n_in = (size_t)net->n_in, n = second ? (size_t)net->n_hidden : n_in;
    const size_t at = second ? (size_t)net->n_hidden * n_in : 0;
    const float *w;
    int rc = heads_learn_weights(&t->learn, layer, &w, e);
    if (!rc) memcpy(out, w + at + (size_t)r * n, n * sizeof *out);
    return rc;
}

static int write_heads(struct train *t, char hex[65], struct err *e)
{
    const struct model *m = t->engine->model;
    struct heads_file f = {
        .model = m,
        .base_digest = t->engine->model_digest,
        .shape = {RETAINING_SILU, m->n_kv_layer, model_n_qkv(m), t->opts.hidden, m->n_kv_head, 0,
                  0},
        .settings = {-1, -1, -1, -1},
        .label = t->opts.kind == HEADS_SHARE ? "share" : "logit",
        .mean = t->learn.mean,
        .std = t->learn.std,
        .row = weight_row,
        .ctx = t,
    };
    return heads_file_write(&f, t->options->training.out, t->options->force, hex, e);
}

/* ---- opening and closing --------------------------------------------------------------------- */

static int choose_settings(struct train *t, struct err *e)
{
    const struct options *o = t->options;
    const struct model *m = t->engine->model;
    t->steps = o->training.steps ? o->training.steps : STEPS;
    t->batch = o->training.batch ? o->training.batch : 1;
    t->rate = o->training.rate > 0 ? o->training.rate : RATE;
    int64_t length = m->n_ctx < LENGTH ? m->n_ctx : LENGTH;
    if (o->sweep.lengths.n) length = o->sweep.lengths.item[0];
    if (length < 64 || length > m->n_ctx)
        return err_set(e, ERR_USAGE, "--length %lld: expected a number of tokens from 64 to %d",
                       (long long)length, m->n_ctx);
    t->opts = (struct heads_learn_opts){
        .kind = !strcmp(labels_of(t), "logit") ? HEADS_LOGIT : HEADS_SHARE,
        .hidden = o->training.hidden ? o->training.hidden : HIDDEN,
        .length = (int)length,
    };
    bool repeats = !strcmp(labels_of(t), "repeat") || !strcmp(labels_of(t), "logit");
    if (t->data.plain && !repeats)
        return err_set(e, ERR_USAGE,
                       "--labels %s: text has no answers; take repeat or logit, or --data",
                       labels_of(t));
    return 0;
}

static void name_settings(struct train *t)
{
    const struct options *o = t->options;
    snprintf(t->settings, sizeof t->settings,
             "%s%s %s steps %d batch %d hidden %d length %d rate %g seed %llu %zu %s",
             t->engine->model_digest, t->engine->gpu ? " gpu" : "", labels_of(t), t->steps,
             t->batch, t->opts.hidden, t->opts.length, (double)t->rate,
             (unsigned long long)o->session.sampling.seed, t->data.text.n, t->data.name);
}

/* Takes the GPU if the whole model and the training fit there, which --device cuda insists on. */
static int choose_device(struct train *t, struct engine_opts *alone, struct err *e)
{
    struct engine *g = t->engine;
    struct plan_opts o = heads_watch_plan(t->opts.length, t->options->session.plan.memory);
    const bool forced = alone->device.kind == ENGINE_DEVICE_CUDA;
    if (alone->device.kind == ENGINE_DEVICE_CPU) return 0;
    if (t->opts.hidden % 8 && !forced) return 0;
    if (t->opts.hidden % 8)
        return err_set(e, ERR_USAGE, "--hidden %d: a GPU needs a multiple of 8", t->opts.hidden);
    o.besides = (int64_t)heads_learn_device_bytes(g, &t->opts);
    alone->gpu_layers = g->model->n_layer;
    int rc = engine_choose_device(g, alone, &o, 1, NULL, NULL, e);
    if (rc) return err_prefix(e, "training");
    if (*g->device_notice) report_note("%s", g->device_notice);
    return 0;
}

/* The host's part of a training on a GPU, whose own part was planned while it was chosen. */
static int check_host(const struct train *t, struct err *e)
{
    const struct plan_opts o = heads_watch_plan(t->opts.length, 0);
    struct plan p;
    char needs[NUM_MAX], has[NUM_MAX];
    int rc = plan_make(&p, t->engine->model, NULL, t->engine->gpu, &o, 1, 1, e);
    if (rc) return rc;
    const int64_t limit = system_available_bytes();
    const int64_t total =
        (int64_t)(context_host_bytes(t->engine, &p) + heads_learn_bytes(t->engine, &t->opts));
    if (limit < 0 || total <= limit) return 0;
    return err_set(e, ERR_FIT,
                   "training on the GPU needs %s of host memory, %s is available; a smaller "
                   "--length or --hidden takes less",
                   num_bytes(total, needs), num_bytes(limit, has));
}

/* Refuses a training that does not fit, before a weight is read. */
static int check_memory(const struct train *t, struct err *e)
{
    if (t->engine->gpu) return check_host(t, e);
    struct plan_opts o = heads_watch_plan(t->opts.length, t->options->session.plan.memory);
    struct plan p;
    char needs[NUM_MAX], model[NUM_MAX], text[NUM_MAX], heads[NUM_MAX], has[NUM_MAX];
    int rc = plan_make(&p, t->engine->model, NULL, NULL, &o, 1, pool_n_threads(t->engine->pool), e);
    if (rc) return rc;
    int64_t training = (int64_t)heads_learn_bytes(t->engine, &t->opts);
    int64_t total = (int64_t)plan_total_bytes(&p) + training, limit = o.memory;
    if (!limit) limit = system_available_bytes();
    if (limit < 0 || total <= limit) return 0;
    return err_set(e, ERR_FIT,
                   "training needs %s of memory (weights %s, a text of %d tokens %s, heads %s), %s "
                   "may be used; a smaller --length or --hidden takes less",
                   num_bytes(total, needs), num_bytes((int64_t)p.weights_bytes, model),
                   t->opts.length, num_bytes((int64_t)(p.cache_bytes + p.scratch_bytes), text),
                   num_bytes(training, heads), num_bytes(limit, has));
}

static int take_memory(struct train *t, struct err *e)
{
    struct arena a;
    arena_init_plan(&a, "rows");
    heads_schedule_plan(&t->schedule, t->data.n, &a);
    t->samples = calloc((size_t)t->batch, sizeof *t->samples);
    int rc = t->samples ? arena_init(&t->arena, "rows", a.used, e)
                        : err_set(e, ERR_FAIL, "out of memory for training");
    if (!rc) heads_schedule_plan(&t->schedule, t->data.n, &t->arena);
    return rc;
}

/* Everything before weights are read. */
static int prepare(struct train *t, struct engine_opts *alone, struct err *e)
{
    int rc = heads_data_open(&t->data, t->options, e);
    if (!rc) rc = engine_prepare(&t->engine, alone, e);
    if (!rc) rc = choose_settings(t, e);
    if (!rc) rc = choose_device(t, alone, e);
    if (!rc) rc = check_memory(t, e);
    if (!rc)
        rc = heads_data_cut(&t->data, t->engine->tokenizer, heads_sample_half(t->opts.length), e);
    return rc;
}

static int begin(struct train *t, struct err *e)
{
    const struct options *o = t->options;
    const uint64_t seed = o->session.sampling.seed;
    bool found = false;
    struct engine_opts alone = o->engine;
    alone.heads = (struct engine_heads){.none = true};
    alone.verify = IDENTITY_VERIFY_FULL; /* the heads will be bound to the file's digest */
    int rc = prepare(t, &alone, e);
    if (!rc) rc = engine_load(t->engine, NULL, NULL, e);
    if (!rc) rc = take_memory(t, e);
    if (!rc) rc = heads_learn_open(&t->learn, t->engine, &t->opts, seed, e);
    if (rc) return rc;
    name_settings(t);
    t->opened_ns = system_clock_ns();
    if (!isatty(STDERR_FILENO))
        report_note("training: %d steps of %d rows of at most %d tokens", t->steps, t->batch,
                    t->opts.length);
    heads_schedule_init(&t->schedule, seed);
    rc = resume(t, &found, e);
    return rc || found ? rc : find_scale(t, e);
}

static void end(struct train *t)
{
    heads_learn_close(&t->learn);
    for (int i = 0; t->samples && i < t->batch; i++) heads_sample_release(&t->samples[i]);
    free(t->samples);
    heads_data_close(&t->data);
    arena_release(&t->arena);
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
