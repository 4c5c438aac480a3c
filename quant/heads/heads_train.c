#include "quant/heads/heads_train.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/pool.h"
#include "base/system.h"
#include "cli/options/options.h"
#include "cli/print/num.h"
#include "cli/print/report.h"
#include "quant/convert/gguf_write.h"
#include "quant/heads/heads_file.h"
#include "quant/heads/heads_fit.h"
#include "quant/heads/heads_learn.h"
#include "quant/heads/heads_sample.h"
#include "quant/heads/heads_schedule.h"
#include "quant/heads/heads_text.h"
#include "runtime/forward/engine.h"
#include "runtime/token/sampler.h"

/* SmolLM2 reads STEPS rows of LENGTH tokens in 15 minutes of one core. */
#define STEPS  256
#define LENGTH 1600
#define HIDDEN 128
#define RATE   1e-3f

#define SHARE         20   /* each of two comparisons reads one row in so many */
#define FIT_TOKENS    9000 /* about: for the time that is left */
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
    /* tokens that are read in all, were read, and had been when the clock started */
    double total, done, began;
    int64_t began_ns;
};

/* ---- progress -------------------------------------------------------------------------------- */

/* Tells what is done and the time left, from the tokens read since the clock started: often on a
 * terminal, else each minute. */
static void show(struct train *t, const char *what)
{
    const int64_t now = system_clock_ns();
    const bool tty = isatty(STDERR_FILENO), shown = t->shown_ns > 0;
    const int64_t wait = tty ? SHOW_NS : shown ? LINE_NS : FIRST_LINE_NS;
    if (now - (shown ? t->shown_ns : t->began_ns) < wait || t->done <= t->began) return;
    t->shown_ns = now;
    char left[NUM_MAX];
    const double s = (double)(now - t->began_ns) / 1e9;
    num_left(s / (t->done - t->began) * fmax(t->total - t->done, 0), left);
    if (tty)
        report_status("training: %s, about %s", what, left);
    else
        report_note("training: %s, about %s", what, left);
}

/* A layer of a row was read. */
static void on_layer(void *ctx)
{
    struct train *t = ctx;
    char what[96];
    const int n = snprintf(what, sizeof what, "step %d of %d", t->step, t->steps);
    if (t->loss > 0) snprintf(what + n, sizeof what - (size_t)n, ", loss %.4f", t->loss);
    t->done += (double)t->opts.length / t->engine->model->n_kv_layer;
    show(t, what);
}

static int on_fit(void *ctx, int64_t done, int64_t total)
{
    struct train *t = ctx;
    t->done = (double)FIT_TOKENS * (double)done / (double)total;
    show(t, "fitting the heads to begin with");
    return report_interrupted();
}

static void start_clock(struct train *t)
{
    t->began_ns = system_clock_ns();
    t->shown_ns = 0;
    t->began = t->done;
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* Rows that are read with fitted and with trained heads. */
static int n_judged(const struct train *t)
{
    const int64_t n = (int64_t)t->steps * t->batch / SHARE;
    return n < 1 ? 1 : n < t->schedule.n_valid ? (int)n : t->schedule.n_valid;
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
    const int n_trained = t->schedule.n_rows - t->schedule.n_valid;
    int n_rows = 0;
    for (int i = 0; i < t->batch; i++) {
        int64_t at = (int64_t)t->step * t->batch + i;
        struct heads_sample *s = &t->samples[i];
        int rc = heads_sample_read(s, &t->data, heads_schedule_row(&t->schedule, at), false,
                                   (uint64_t)(at / n_trained), t->engine, t->opts.length, e);
        if (rc) return rc;
        n_rows += s->ids.n ? s->n_context : 0;
    }
    t->step++;
    double loss = 0;
    if (!n_rows) return 0;
    int rc = 0;
    for (int i = 0; !rc && i < t->batch; i++)
        if (t->samples[i].ids.n) rc = heads_learn_add(&t->learn, &t->samples[i], n_rows, &loss, e);
    t->loss = loss;
    const float rate = heads_schedule_rate(t->rate, t->step, t->steps);
    return rc ? rc : heads_learn_step(&t->learn, rate, t->step, e);
}

static int run(struct train *t, struct err *e)
{
    const int first = t->step;
    int rc = 0;
    while (!rc && t->step < t->steps) {
        rc = take_step(t, e);
        const bool stopped = report_interrupted();
        if (!rc && (stopped || system_clock_ns() - t->saved_ns > CHECKPOINT_NS)) rc = save(t, e);
        if (!rc && stopped)
            rc = err_set(e, ERR_STOP,
                         "interrupted after step %d; %s is kept, and the same command continues",
                         t->step, t->checkpoint);
    }
    if (!rc && t->step > first && t->loss <= 0)
        rc = err_set(e, ERR_FORMAT,
                     "%s: no row of at most %d tokens can be trained on; try a larger --length",
                     t->data.name, t->opts.length);
    return rc ? rc : save(t, e);
}

/* ---- the result ------------------------------------------------------------------------------ */

static void release(struct train *t)
{
    heads_learn_close(&t->learn);
    t->learn = (struct heads_learn){0};
    engine_close(t->engine);
    t->engine = NULL;
}

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

static int write_trained(struct train *t, const char *path, char hex[65], struct err *e)
{
    const struct model *m = t->engine->model;
    struct heads_file f = {
        .model = m,
        .shape = {RETAINING_SILU, m->n_kv_layer, model_n_qkv(m), t->opts.hidden, m->n_kv_head, 0,
                  0},
        .settings = {-1, -1, -1, -1},
        .label = "share",
        .mean = t->learn.start.mean,
        .std = t->learn.start.std,
        .row = weight_row,
        .ctx = t,
    };
    return heads_file_write(&f, path, true, hex, e);
}

/* ---- comparing ------------------------------------------------------------------------------- */

/* What heads are worth: how well a model predicts the answers about a text of which most units were
 * evicted by these heads (policy keeper). Labels of attention do not say: heads that guess them
 * better can keep fewer answers (quant/eval/notes/heads.md). */

#define KEPT         16 /* a unit for so many tokens of a row, of which the text is three quarters */
#define JUDGE_LOGITS 64 /* rows of logits of the context */

struct judged {
    double nats; /* -log p summed over the answers' tokens */
    int64_t n;   /* tokens */
};

/* About a twelfth of a row's text is kept. */
static struct plan_opts judge_plan(const struct train *t)
{
    const int budget = t->opts.length / KEPT;
    struct plan_opts o = plan_opts_default();
    o.policy = policy_choice("keeper");
    o.budget = budget > PLAN_BUDGET_MIN ? budget : PLAN_BUDGET_MIN;
    o.speculate.off = true;
    return o;
}

/* Adds the tokens that follow the asking ones of n tokens from `at` on, of which the last n_logits
 * have logits. */
static int judge_answers(struct context *x, const struct heads_sample *s, size_t at, int n,
                         int n_logits, struct judged *sum, struct err *e)
{
    const int n_vocab = x->engine->model->n_vocab;
    float *logits;
    int rc = context_logits(x, &logits, e);
    for (int i = 0; !rc && i < n_logits; i++) {
        const size_t t = at + (size_t)(n - n_logits + i);
        if (!s->asks[t] || t + 1 == s->ids.n) continue;
        sum->nats += sampler_nats(logits + (size_t)i * (size_t)n_vocab, n_vocab, s->ids.ids[t + 1]);
        sum->n++;
    }
    return rc;
}

/* Reads a row, evicting before each chunk as a chat does, and adds its answers. */
static int judge_row(struct context *x, const struct heads_sample *s, struct judged *sum,
                     struct err *e)
{
    const size_t n_context = (size_t)s->n_context;
    int rc = 0;
    cache_clear(&x->cache);
    for (size_t at = 0, n; !rc && at < s->ids.n; at += n) {
        const bool answers = at >= n_context;
        const size_t most = answers ? JUDGE_LOGITS : (size_t)x->plan.chunk;
        const size_t left = (answers ? s->ids.n : n_context) - at;
        int64_t n_evicted;
        n = left < most ? left : most;
        const int n_logits = answers ? (int)n : at + n == n_context;
        rc = context_evict(x, &n_evicted, e);
        if (!rc) rc = context_run(x, s->ids.ids + at, (int)n, n_logits, e);
        if (!rc && n_logits) rc = judge_answers(x, s, at, (int)n, n_logits, sum, e);
    }
    return rc;
}

/* Answers of the rows held back, after these heads evicted. */
static int judge_rows(struct train *t, struct judged *out, struct err *e)
{
    const struct plan_opts o = judge_plan(t);
    struct context x;
    int rc = context_open(&x, t->engine, &o, 0, JUDGE_LOGITS, e);
    for (int i = 0; !rc && i < n_judged(t); i++) {
        struct heads_sample *s = t->samples;
        rc = heads_sample_read(s, &t->data, t->schedule.order[i], true, 0, t->engine,
                               t->opts.length, e);
        if (!rc && s->ids.n) rc = judge_row(&x, s, out, e);
        t->done += t->opts.length;
        show(t, "comparing heads in rows held back");
        if (!rc && report_interrupted())
            rc = err_set(e, ERR_STOP, "interrupted; %s is kept, and the same command continues",
                         t->checkpoint);
    }
    context_release(&x);
    return rc;
}

static int judge(struct train *t, const char *heads, struct judged *out, struct err *e)
{
    struct engine_opts with = t->options->engine;
    const struct plan_opts o = judge_plan(t);
    *out = (struct judged){0};
    with.heads = (struct engine_heads){.path = heads};
    int rc = engine_open(&t->engine, &with, &o, 1, NULL, NULL, e);
    if (!rc) rc = judge_rows(t, out, e);
    engine_close(t->engine);
    t->engine = NULL;
    return rc;
}

static int compare(struct train *t, const char *fitted, const char *trained, bool *better,
                   struct err *e)
{
    struct judged f, h;
    int rc = judge(t, fitted, &f, e);
    if (!rc) rc = judge(t, trained, &h, e);
    report_status_end();
    if (rc) return rc;
    *better = h.nats < f.nats;
    const char *which = *better ? "trained" : "fitted";
    if (f.n == 0)
        report_note("no row held back is long enough to compare: the fitted heads are written");
    else
        report_note("answers in %d rows held back, after a twelfth of the units was kept: %.3f "
                    "nats a token with fitted heads, %.3f with trained heads; the %s heads are "
                    "written",
                    n_judged(t), f.nats / (double)f.n, h.nats / (double)h.n, which);
    return 0;
}

/* Writes the trained heads if they keep more of the answers than the closed form does, else the
 * closed form. The weights of the training are released: the model is opened again. */
static int write_better(struct train *t, char hex[65], struct err *e)
{
    const char *out = t->options->training.out;
    char fitted[sizeof t->checkpoint], trained[sizeof fitted], hex_trained[65];
    bool better = false;
    snprintf(fitted, sizeof fitted, "%s.fitted", out);
    snprintf(trained, sizeof trained, "%s.trained", out);
    int rc = heads_linear_write(&t->learn.start, fitted, true, hex, e);
    if (!rc) rc = write_trained(t, trained, hex_trained, e);
    release(t);
    if (!rc) rc = compare(t, fitted, trained, &better, e);
    if (!rc && better) memcpy(hex, hex_trained, sizeof hex_trained);
    if (!rc && rename(better ? trained : fitted, out))
        rc = err_set(e, ERR_FAIL, "%s cannot be written: %m", out);
    unlink(fitted);
    unlink(trained);
    return rc;
}

/* ---- opening and closing --------------------------------------------------------------------- */

static int choose_settings(struct train *t, struct err *e)
{
    const struct options *o = t->options;
    const struct model *m = t->engine->model;
    t->steps = o->training.steps ? o->training.steps : STEPS;
    t->batch = o->training.batch ? o->training.batch : 1;
    t->rate = o->training.rate > 0 ? o->training.rate : RATE;
    const int linear = HEADS_LINEAR_SIDES * m->n_kv_head;
    int length, rc = heads_data_length(o, m->n_ctx, LENGTH, &length, e);
    if (rc) return rc;
    t->opts = (struct heads_learn_opts){
        .hidden = o->training.hidden    ? o->training.hidden
                  : 2 * linear > HIDDEN ? 2 * linear
                                        : HIDDEN,
        .length = length,
    };
    if (t->opts.hidden < linear)
        return err_set(e, ERR_USAGE, "--hidden %d: this model needs %d or more", t->opts.hidden,
                       linear);
    return 0;
}

static void name_settings(struct train *t)
{
    const struct options *o = t->options;
    snprintf(t->settings, sizeof t->settings,
             "%s%s steps %d batch %d hidden %d length %d rate %g seed %llu %zu %s",
             t->engine->model_digest, t->engine->gpu ? " gpu" : "", t->steps, t->batch,
             t->opts.hidden, t->opts.length, (double)t->rate,
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

/* Refuses a training that does not fit, before a weight is read. The GPU's own part was planned
 * while the GPU was chosen. */
static int check_memory(const struct train *t, struct err *e)
{
    const struct engine *g = t->engine;
    const struct plan_opts o =
        heads_watch_plan(t->opts.length, g->gpu ? 0 : t->options->session.plan.memory);
    struct plan p;
    char needs[NUM_MAX], heads[NUM_MAX], has[NUM_MAX];
    int rc = plan_make(&p, g->model, NULL, g->gpu, &o, 1, g->gpu ? 1 : pool_n_threads(g->pool), e);
    if (rc) return rc;
    const int64_t training = (int64_t)heads_learn_bytes(g, &t->opts);
    const size_t model = g->gpu ? context_host_bytes(g, &p) : plan_total_bytes(&p);
    const int64_t total = (int64_t)model + training;
    const int64_t limit = o.memory ? o.memory : system_available_bytes();
    if (limit < 0 || total <= limit) return 0;
    return err_set(
        e, ERR_FIT,
        "training needs %s of %s memory (heads %s, the rest for the model and a text of %d "
        "tokens), %s may be used; a smaller --length or --hidden takes less",
        num_bytes(total, needs), g->gpu ? "the host's" : "the machine's",
        num_bytes(training, heads), t->opts.length, num_bytes(limit, has));
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
        rc = heads_data_cut(&t->data, t->engine->tokenizer, heads_text_tokens(t->opts.length), e);
    return rc;
}

/* To no more rows than the training reads, on the CPU, whose keys and values can be watched. */
static int fit(struct train *t, struct heads_linear *out, const struct engine_opts *alone,
               struct err *e)
{
    struct engine *own = NULL;
    const int n_rows = t->steps < INT_MAX / t->batch ? t->steps * t->batch : INT_MAX;
    struct engine_opts on_cpu = *alone;
    on_cpu.device.kind = ENGINE_DEVICE_CPU;
    on_cpu.gpu_layers = 0;
    int rc = t->engine->gpu ? engine_open(&own, &on_cpu, NULL, 0, NULL, NULL, e) : 0;
    if (!rc) rc = heads_fit_built_in(out, own ? own : t->engine, n_rows, on_fit, t, e);
    engine_close(own);
    return rc;
}

/* The heads in closed form, and what they find. */
static int start(struct train *t, const struct engine_opts *alone, struct err *e)
{
    struct heads_linear fitted;
    struct arena memory = {0};
    int rc = 0;
    while (arena_make(&memory, "heads", &rc, e))
        heads_linear_plan(&fitted, t->engine->model, &memory);
    if (rc) return rc;
    rc = fit(t, &fitted, alone, e);
    if (!rc) rc = heads_learn_start(&t->learn, &fitted, t->options->session.sampling.seed, e);
    arena_release(&memory);
    return rc ? rc : save(t, e);
}

static int begin(struct train *t, struct err *e)
{
    const struct options *o = t->options;
    bool found = false;
    struct engine_opts alone = o->engine;
    alone.heads = (struct engine_heads){.none = true};
    alone.verify = IDENTITY_VERIFY_FULL; /* a checkpoint belongs to the file's digest */
    int rc = prepare(t, &alone, e);
    if (!rc) rc = engine_load(t->engine, NULL, NULL, e);
    while (!rc && arena_make(&t->arena, "rows", &rc, e))
        heads_schedule_plan(&t->schedule, t->data.n, &t->arena);
    t->samples = memory_new((size_t)t->batch, sizeof *t->samples);
    if (!rc) rc = heads_learn_open(&t->learn, t->engine, &t->opts, e);
    if (rc) return rc;
    t->learn.tick = on_layer;
    t->learn.tick_ctx = t;
    name_settings(t);
    if (!isatty(STDERR_FILENO))
        report_note("training: %d steps of %d rows of at most %d tokens", t->steps, t->batch,
                    t->opts.length);
    heads_schedule_init(&t->schedule, o->session.sampling.seed);
    const double rows = (double)t->steps * t->batch + 2 * n_judged(t);
    t->total = FIT_TOKENS + rows * t->opts.length;
    start_clock(t);
    rc = resume(t, &found, e);
    if (!rc && !found) rc = start(t, &alone, e);
    if (rc || !found) return rc;
    const double left = (double)(t->steps - t->step) * t->batch + 2 * n_judged(t);
    t->done = t->total - left * t->opts.length;
    start_clock(t);
    return 0;
}

static void end(struct train *t)
{
    release(t);
    for (int i = 0; t->samples && i < t->batch; i++) heads_sample_release(&t->samples[i]);
    free(t->samples);
    heads_data_close(&t->data);
    arena_release(&t->arena);
    report_status_end();
}

int heads_train(const struct options *o)
{
    struct train t = {.options = o};
    struct err e;
    char hex[65];
    int rc = 0;
    if (!o->training.out)
        rc = err_set(&e, ERR_USAGE, "heads train needs --text FILE or --data FILE, and --out FILE");
    else
        rc = gguf_write_check(o->training.out, o->force, &e);
    if (!rc) snprintf(t.checkpoint, sizeof t.checkpoint, "%s.part", o->training.out);
    report_catch_interrupt();
    if (!rc) rc = begin(&t, &e);
    if (!rc) rc = run(&t, &e);
    if (!rc) rc = write_better(&t, hex, &e);
    if (!rc) {
        unlink(t.checkpoint);
        report_line("%s  %s", hex, o->training.out);
    }
    end(&t);
    return rc ? report_error(&e) : 0;
}
