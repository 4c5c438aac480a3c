/* Computes how well ids are predicted, and the command that prints it. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/commands/commands.h"
#include "cli/commands/input.h"
#include "cli/options/options.h"
#include "cli/print/report.h"
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

int text_predict(struct context *x, const int32_t *ids, size_t n, size_t first,
                 struct text_tally *t, struct err *e)
{
    int n_vocab = x->engine->model->n_vocab;
    for (size_t at = 0; at < n && !report_interrupted();) {
        int m = x->plan.n_logits < (int)(n - at) ? x->plan.n_logits : (int)(n - at);
        float *logits;
        int64_t n_evicted;
        int rc = context_evict(x, &n_evicted, e);
        if (!rc) rc = context_run(x, ids + at, m, m, e);
        if (!rc) rc = context_logits(x, &logits, e);
        if (rc) return rc;
        for (int i = 0; i < m; i++) {
            size_t next = at + (size_t)i + 1;
            if (next >= first && next < n)
                text_count(t, logits + (size_t)i * (size_t)n_vocab, n_vocab, ids[next]);
        }
        at += (size_t)m;
    }
    return 0;
}

/* Windows of `length` tokens, each with BOS in front; only the second half counts. Same measure as
 * llama.cpp's llama-perplexity, so results are directly comparable. */
static int run_windows(struct context *x, struct tokens *ids, size_t length, struct text_tally *t,
                       struct err *e)
{
    size_t n_windows = ids->n / length;
    int32_t bos = tokenizer_bos(x->engine->tokenizer);
    if (!n_windows)
        return err_set(e, ERR_USAGE,
                       "the text has %zu tokens, one window needs %zu; give more text "
                       "or a smaller --length",
                       ids->n, length);
    for (size_t w = 0; w < n_windows && !report_interrupted(); w++) {
        int32_t *window = ids->ids + w * length;
        if (tokenizer_add_bos(x->engine->tokenizer)) window[0] = bos;
        cache_clear(&x->cache);
        int rc = text_predict(x, window, length, length / 2 + 1, t, e);
        if (rc) return rc;
    }
    return 0;
}

static void print_perplexity(const struct context *x, const struct options *o,
                             const struct text_tally *t, size_t length)
{
    double n = (double)t->n, mean = t->nats / n;
    double var = n > 1 ? (t->nats_squared / n - mean * mean) / (n - 1) : 0;
    double ppl = exp(mean), error = ppl * sqrt(var > 0 ? var : 0);
    char kv[16];
    plan_kv_text(&x->plan, kv);
    if (!o->json) {
        report_line("perplexity %.4f +/- %.4f  (%lld tokens, policy %s, kv %s)", ppl, error,
                    (long long)t->n, x->plan.policy->name, kv);
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
    report_json(j);
}

/* Without --policy: windows under the full cache. With one: the whole text as one conversation, so
 * that evicted units are missing. */
int cmd_perplexity(const struct options *o)
{
    struct engine *g = NULL;
    struct context x = {0};
    struct str text = {0};
    struct tokens ids = {0};
    struct text_tally t = {0};
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
    if (!rc) rc = engine_open(&g, &o->engine, &plan, 1, NULL, NULL, &e);
    if (!rc) rc = tokenizer_encode_text(g->tokenizer, str_get(&text), text.n, false, &ids, &e);
    if (!rc) rc = context_open(&x, g, &plan, o->session.sampling.seed, TEXT_LOGIT_ROWS, &e);
    if (!rc && windows)
        rc = run_windows(&x, &ids, length, &t, &e);
    else if (!rc)
        rc = text_predict(&x, ids.ids, ids.n, 1, &t, &e);
    if (!rc && t.n == 0) rc = err_set(&e, ERR_USAGE, "the text is too short to predict anything");
    if (!rc) print_perplexity(&x, o, &t, windows ? length : ids.n);
    context_release(&x);
    tokens_release(&ids);
    str_release(&text);
    engine_close(g);
    if (rc) return report_error(&e);
    return report_interrupted() ? 130 : 0;
}
