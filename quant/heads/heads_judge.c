#include "quant/heads/heads_judge.h"

#include "runtime/forward/context.h"
#include "runtime/forward/engine.h"
#include "runtime/token/sampler.h"

#define KEPT 16 /* a unit for so many tokens of a row, of which the text is three quarters */

struct plan_opts heads_judge_plan(int n_max)
{
    struct plan_opts o = plan_opts_default();
    o.policy = policy_choice("keeper");
    o.budget = n_max / KEPT > PLAN_BUDGET_MIN ? n_max / KEPT : PLAN_BUDGET_MIN;
    o.speculate.off = true;
    return o;
}

/* Adds the tokens that follow the asking ones of n tokens from `at` on, of which the last n_logits
 * have logits. */
static int add_answers(struct context *x, const struct heads_sample *s, size_t at, int n,
                       int n_logits, struct heads_judged *sum, struct err *e)
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

int heads_judge_row(struct context *x, const struct heads_sample *s, struct heads_judged *sum,
                    struct err *e)
{
    const size_t n_context = (size_t)s->n_context;
    int rc = 0;
    cache_clear(&x->cache);
    for (size_t at = 0, n; !rc && at < s->ids.n; at += n) {
        const bool answers = at >= n_context;
        const size_t most = answers ? HEADS_JUDGE_LOGITS : (size_t)x->plan.chunk;
        const size_t left = (answers ? s->ids.n : n_context) - at;
        int64_t n_evicted;
        n = left < most ? left : most;
        const int n_logits = answers ? (int)n : at + n == n_context;
        rc = context_evict(x, &n_evicted, e);
        if (!rc) rc = context_run(x, s->ids.ids + at, (int)n, n_logits, e);
        if (!rc && n_logits) rc = add_answers(x, s, at, (int)n, n_logits, sum, e);
    }
    return rc;
}
