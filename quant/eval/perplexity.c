/* Computes how well ids are predicted, and the command that prints it. */
#include <math.h>
#include <string.h>

#include "cli/commands/commands.h"
#include "cli/commands/input.h"
#include "cli/options/options.h"
#include "cli/print/report.h"
#include "quant/eval/judge.h"
#include "quant/eval/perplexity.h"
#include "runtime/forward/context.h"
#include "runtime/forward/engine.h"
#include "runtime/token/sampler.h"

/* ---- perplexity ------------------------------------------------------------------------------ */

void text_count(struct text_tally *t, const float *logits, int n, int32_t id)
{
    const double nats = sampler_nats(logits, n, id);
    bool right = true;
    for (int i = 0; i < n; i++) right &= logits[i] <= logits[id];
    t->nats += nats;
    t->nats_squared += nats * nats;
    t->n_right += right;
    t->n++;
}

void text_distance(struct text_run *r, const float *first, const float *logits, int n)
{
    const double sum = sampler_nats(first, n, 0) + first[0];
    const double rest = sum - sampler_nats(logits, n, 0) - logits[0];
    int best_first = 0, best = 0;

    for (int i = 0; i < n; i++) {
        const double a = first[i], b = logits[i];
        r->divergence += exp(a - sum) * (a - b - rest);
        if (first[i] > first[best_first]) best_first = i;
        if (logits[i] > logits[best]) best = i;
    }
    r->n_same += best == best_first;
}

/* Runs ids[n], with a row of logits each. */
static int run_chunk(struct text_run *r, const int32_t *ids, int n, float **logits, struct err *e)
{
    int64_t n_evicted;
    int rc = context_evict(r->x, &n_evicted, e);
    if (!rc) rc = context_run(r->x, ids, n, n, e);
    return rc ? rc : context_logits(r->x, logits, e);
}

/* Runs n ids; counts the prediction of every id from `first` on. Evicts between chunks. */
static int text_predict(struct text_run *runs, int n_runs, const int32_t *ids, size_t n,
                        size_t first, struct err *e)
{
    const size_t n_vocab = (size_t)runs->x->engine->model->n_vocab;
    for (size_t at = 0, m; at < n && !report_interrupted(); at += m) {
        float *reference = NULL, *logits;
        m = (size_t)runs->x->plan.n_logits < n - at ? (size_t)runs->x->plan.n_logits : n - at;
        for (struct text_run *r = runs; r < runs + n_runs; r++) {
            int rc = run_chunk(r, ids + at, (int)m, &logits, e);
            if (rc) return rc;
            if (r == runs) reference = logits;
            for (size_t i = 0; i < m; i++) {
                const size_t next = at + i + 1, row = i * n_vocab;
                if (next < first || next >= n) continue;
                text_count(&r->tally, logits + row, (int)n_vocab, ids[next]);
                if (r > runs) text_distance(r, reference + row, logits + row, (int)n_vocab);
            }
        }
    }
    return 0;
}

/* What the command measures, in each format of --kv. */
struct measured {
    int n;
    struct text_run run[OPTIONS_LIST_MAX];
    struct context x[OPTIONS_LIST_MAX];
    struct judge_tally divergence[OPTIONS_LIST_MAX], same[OPTIONS_LIST_MAX]; /* of the windows */
};

static int run_window(struct measured *m, const int32_t *ids, size_t length, struct err *e)
{
    struct text_run before[OPTIONS_LIST_MAX];
    memcpy(before, m->run, sizeof before);
    for (int k = 0; k < m->n; k++) cache_clear(&m->x[k].cache);
    int rc = text_predict(m->run, m->n, ids, length, length / 2 + 1, e);
    if (rc || report_interrupted()) return rc;
    for (int k = 0; k < m->n; k++) {
        const struct text_run *r = &m->run[k], *b = &before[k];
        const double n = (double)(r->tally.n - b->tally.n);
        judge_add(&m->divergence[k], (r->divergence - b->divergence) / n);
        judge_add(&m->same[k], (double)(r->n_same - b->n_same) / n);
    }
    return 0;
}

/* Windows of `length` tokens, each with BOS in front; only the second half counts. Same measure as
 * llama.cpp's llama-perplexity, so results are directly comparable. */
static int run_windows(struct measured *m, struct tokens *ids, size_t length, struct err *e)
{
    const struct tokenizer *tokenizer = m->x->engine->tokenizer;
    size_t n_windows = ids->n / length;
    if (!n_windows)
        return err_set(e, ERR_USAGE,
                       "the text has %zu tokens, one window needs %zu; give more text "
                       "or a smaller --length",
                       ids->n, length);
    for (size_t w = 0; w < n_windows && !report_interrupted(); w++) {
        int32_t *window = ids->ids + w * length;
        if (tokenizer_add_bos(tokenizer)) window[0] = tokenizer_bos(tokenizer);
        int rc = run_window(m, window, length, e);
        if (rc) return rc;
    }
    return 0;
}

/* Of format k: all but the first are compared with the first. */
static void print_perplexity(const struct measured *m, int k, const struct options *o,
                             size_t length)
{
    const struct context *x = &m->x[k];
    const struct text_tally *t = &m->run[k].tally;
    double n = (double)t->n, mean = t->nats / n;
    double var = n > 1 ? (t->nats_squared / n - mean * mean) / (n - 1) : 0;
    double ppl = exp(mean), error = ppl * sqrt(var > 0 ? var : 0);
    char kv[16], first[16];
    plan_kv_text(&x->plan, kv);
    plan_kv_text(&m->x->plan, first);
    if (!o->json) {
        report_line("perplexity %.4f +/- %.4f  (%lld tokens, policy %s, kv %s)", ppl, error,
                    (long long)t->n, x->plan.policy->name, kv);
        if (k)
            report_line("  compared with %s: KL divergence %.5f +/- %.5f, "
                        "equal top tokens %.2f +/- %.2f %%",
                        first, m->divergence[k].mean, judge_error(&m->divergence[k]),
                        100 * m->same[k].mean, 100 * judge_error(&m->same[k]));
        return;
    }
    cJSON *j = cJSON_CreateObject();
    cJSON_AddStringToObject(j, "task", "perplexity");
    cJSON_AddStringToObject(j, "model", x->engine->model->name);
    cJSON_AddStringToObject(j, "policy", x->plan.policy->name);
    cJSON_AddStringToObject(j, "kv", kv);
    cJSON_AddNumberToObject(j, "budget", x->plan.budget);
    cJSON_AddNumberToObject(j, "length", (double)length);
    cJSON_AddNumberToObject(j, "n_tokens", (double)t->n);
    cJSON_AddNumberToObject(j, "perplexity", ppl);
    cJSON_AddNumberToObject(j, "perplexity_error", error);
    cJSON_AddNumberToObject(j, "cache_bytes", (double)x->plan.cache_bytes);
    if (k) {
        cJSON_AddStringToObject(j, "compared_with", first);
        cJSON_AddNumberToObject(j, "kl_divergence", m->divergence[k].mean);
        cJSON_AddNumberToObject(j, "kl_divergence_error", judge_error(&m->divergence[k]));
        cJSON_AddNumberToObject(j, "equal_top", m->same[k].mean);
        cJSON_AddNumberToObject(j, "equal_top_error", judge_error(&m->same[k]));
    }
    report_json(j);
}

/* Loads the model and opens a cache of each format. */
static int open_formats(struct measured *m, struct engine **g, const struct options *o,
                        struct plan_opts *plan, struct err *e)
{
    struct plan_opts plans[OPTIONS_LIST_MAX];
    m->n = o->sweep.kvs.n ? o->sweep.kvs.n : 1;
    for (int k = 0; k < m->n; k++) {
        plans[k] = *plan;
        plans[k].kv = o->sweep.kvs.item[k];
    }
    int rc = engine_open(g, &o->engine, plans, m->n, NULL, NULL, e);
    for (int k = 0; !rc && k < m->n; k++) {
        m->run[k].x = &m->x[k];
        rc = context_open(&m->x[k], *g, &plans[k], o->session.sampling.seed, TEXT_LOGIT_ROWS, e);
    }
    return rc;
}

/* Without --policy: windows under the full cache. With one: the whole text as one conversation, so
 * that evicted units are missing. */
int cmd_perplexity(const struct options *o)
{
    static struct measured m;
    struct engine *g = NULL;
    struct str text = {0};
    struct tokens ids = {0};
    struct err e;
    struct plan_opts plan = o->session.plan;
    bool windows = !o->sweep.policies.n || plan.policy.row == policy_named("full");
    size_t length = o->sweep.lengths.n ? (size_t)o->sweep.lengths.item[0] : 512;
    if (windows) {
        plan.policy = policy_choice("full");
        plan.policy.context = length < PLAN_BUDGET_MAX ? (int)length : PLAN_BUDGET_MAX;
    }
    report_catch_interrupt();
    int rc = input_text(o, &text, &e);
    if (!rc && length < 4) rc = err_set(&e, ERR_USAGE, "--length %zu: expected 4 or more", length);
    if (!rc && !windows && o->sweep.kvs.n > 1)
        rc = err_set(&e, ERR_USAGE, "--kv: formats are compared without --policy only");
    if (!rc) rc = open_formats(&m, &g, o, &plan, &e);
    if (!rc) rc = tokenizer_encode_text(g->tokenizer, str_get(&text), text.n, false, &ids, &e);
    if (!rc && windows)
        rc = run_windows(&m, &ids, length, &e);
    else if (!rc)
        rc = text_predict(m.run, 1, ids.ids, ids.n, 1, &e);
    if (!rc && m.run->tally.n == 0)
        rc = err_set(&e, ERR_USAGE, "the text is too short to predict anything");
    for (int k = 0; !rc && k < m.n; k++) print_perplexity(&m, k, o, windows ? length : ids.n);
    for (int k = 0; k < m.n; k++) context_release(&m.x[k]);
    tokens_release(&ids);
    str_release(&text);
    engine_close(g);
    if (rc) return report_error(&e);
    return report_interrupted() ? 130 : 0;
}
