#include "quant/convert/calibrate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "cli/options/options.h"
#include "runtime/forward/context.h"
#include "runtime/forward/engine.h"

#define WINDOW 512

/* A column that is hardly active in this text may be active in another: it gets at least this share
 * of the mean. */
#define FLOOR 0.01

struct matrix {
    const struct kn_weight *weight;
    char name[64];
    int n_in;
    double *sum;       /* [n_in] sums of squares */
    float *importance; /* [n_in], set at the end */
    int64_t n;         /* activations summed */
};

struct calibration {
    struct matrix *matrices; /* sorted by weight while running */
    size_t n;
    int64_t n_tokens;
};

/* ---- collecting ------------------------------------------------------------------------------ */

static int by_weight(const void *a, const void *b)
{
    const struct matrix *x = a, *y = b;
    return (x->weight > y->weight) - (x->weight < y->weight);
}

static void watch(void *ctx, const struct kn_weight *w, const float *x, int n_tok)
{
    struct calibration *c = ctx;
    struct matrix want = {.weight = w};
    struct matrix *m = bsearch(&want, c->matrices, c->n, sizeof *m, by_weight);
    if (!m) return; /* also skips the output when it is the embedding */
    for (int t = 0; t < n_tok; t++)
        for (int i = 0; i < m->n_in; i++) {
            double v = x[(size_t)t * (size_t)m->n_in + (size_t)i];
            m->sum[i] += v * v;
        }
    m->n += n_tok;
}

static int list_matrices(struct calibration *c, const struct model *model, struct err *e)
{
    c->matrices = calloc((size_t)model->n_items, sizeof *c->matrices);
    if (!c->matrices) return err_set(e, ERR_FAIL, "out of memory for calibration");
    for (int i = 0; i < model->n_items; i++) {
        const struct model_load_item *it = &model->items[i];
        if (!it->weight) continue;
        struct matrix *m = &c->matrices[c->n++];
        *m = (struct matrix){.weight = it->weight, .n_in = it->weight->n_in};
        memcpy(m->name, it->tensor->name.data, it->tensor->name.n);
        m->sum = calloc((size_t)m->n_in, sizeof *m->sum);
        m->importance = calloc((size_t)m->n_in, sizeof *m->importance);
        if (!m->sum || !m->importance) return err_set(e, ERR_FAIL, "out of memory for calibration");
    }
    qsort(c->matrices, c->n, sizeof *c->matrices, by_weight);
    return 0;
}

/* Scales to a mean of 1: only the ratios matter, and floats can hold them. */
static void finish(struct matrix *m)
{
    double mean = 0;
    for (int i = 0; i < m->n_in; i++) mean += m->sum[i] / m->n_in;
    if (!(mean > 0)) m->n = 0;
    if (!m->n) return;
    for (int i = 0; i < m->n_in; i++)
        m->importance[i] = (float)((m->sum[i] / mean + FLOOR) / (1 + FLOOR));
}

/* ---- running --------------------------------------------------------------------------------- */

struct run {
    struct engine *engine;
    struct context context;
    struct tokens ids;
    int window;
    int (*progress)(void *, int64_t, int64_t);
    void *ctx;
};

static int open_model(struct run *r, const char *model, const struct options *given, struct err *e)
{
    const struct engine_opts o = {
        .model = model,
        .heads.none = true,
        .threads = given->engine.threads,
        .isa = given->engine.isa,
        .device.kind = ENGINE_DEVICE_CPU, /* only the CPU reports each matrix product */
    };
    struct plan_opts plan = plan_opts_default();
    plan.policy = policy_choice("full");
    plan.policy.context = WINDOW;
    plan.kv = (struct plan_kv){.given = true, .k = KN_KV_F16, .v = KN_KV_F16};
    int rc = engine_open(&r->engine, &o, &plan, 1, NULL, NULL, e);
    if (rc) return rc;
    r->window = r->engine->model->n_ctx < WINDOW ? r->engine->model->n_ctx : WINDOW;
    return context_open(&r->context, r->engine, &plan, 0, 1, e);
}

static int read_text(struct run *r, const char *path, struct err *e)
{
    struct str text = {0};
    int rc = file_read(path, FILE_DATA, &text, e);
    struct tokenizer_span span = {str_get(&text), text.n, false};
    if (!rc) rc = tokenizer_encode(r->engine->tokenizer, &span, 1, true, &r->ids, e);
    if (!rc && r->ids.n < 2)
        rc = err_set(e, ERR_USAGE, "--calibrate %s: the text is too short", path);
    str_release(&text);
    return rc;
}

static void run_window(struct run *r, int32_t *ids, size_t n)
{
    struct context *x = &r->context;
    if (tokenizer_add_bos(r->engine->tokenizer)) ids[0] = tokenizer_bos(r->engine->tokenizer);
    cache_clear(&x->cache);
    for (size_t at = 0; at < n;) {
        int m = x->plan.chunk < (int)(n - at) ? x->plan.chunk : (int)(n - at);
        forward_run(&x->forward, &x->cache, ids + at, m, 0);
        at += (size_t)m;
    }
}

static int run_text(struct run *r, struct calibration *c, struct err *e)
{
    size_t window = (size_t)r->window;
    r->context.forward.watch = watch;
    r->context.forward.watch_ctx = c;
    for (size_t at = 0; at < r->ids.n; at += window) {
        size_t n = r->ids.n - at < window ? r->ids.n - at : window;
        if (r->progress && r->progress(r->ctx, (int64_t)at, (int64_t)r->ids.n))
            return err_set(e, ERR_STOP, "calibration was interrupted");
        run_window(r, r->ids.ids + at, n);
        c->n_tokens += (int64_t)n;
    }
    return 0;
}

int calibrate(struct calibration **out, const char *model, const char *text,
              const struct options *o, int (*progress)(void *, int64_t, int64_t), void *ctx,
              struct err *e)
{
    struct run r = {.progress = progress, .ctx = ctx};
    struct calibration *c = calloc(1, sizeof *c);
    *out = NULL;
    if (!c) return err_set(e, ERR_FAIL, "out of memory for calibration");
    int rc = open_model(&r, model, o, e);
    if (!rc) rc = read_text(&r, text, e);
    if (!rc) rc = list_matrices(c, r.engine->model, e);
    if (!rc) rc = run_text(&r, c, e);
    for (size_t i = 0; !rc && i < c->n; i++) finish(&c->matrices[i]);
    context_release(&r.context);
    tokens_release(&r.ids);
    engine_close(r.engine);
    if (rc)
        calibration_close(c);
    else
        *out = c;
    return rc;
}

void calibration_close(struct calibration *c)
{
    if (!c) return;
    for (size_t i = 0; i < c->n; i++) {
        free(c->matrices[i].sum);
        free(c->matrices[i].importance);
    }
    free(c->matrices);
    free(c);
}

const float *calibration_find(const struct calibration *c, const char *name, int64_t n_in)
{
    for (size_t i = 0; c && i < c->n; i++)
        if (!strcmp(c->matrices[i].name, name))
            return c->matrices[i].n && c->matrices[i].n_in == n_in ? c->matrices[i].importance
                                                                   : NULL;
    return NULL;
}

int64_t calibration_n_tokens(const struct calibration *c)
{
    return c->n_tokens;
}
