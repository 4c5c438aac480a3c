#include "quant/eval/forced.h"

#include <string.h>

#include "cli/print/report.h"
#include "quant/eval/perplexity.h"
#include "quant/eval/task.h"
#include "runtime/forward/context.h"
#include "runtime/forward/engine.h"

#define REPLY "I have read it."

struct asking {
    struct context *x;
    struct tokens ids; /* of the conversation, then of a question */
    int32_t last;      /* of the conversation */
};

static int write(struct asking *a, enum chat_role role, const char *text, int32_t last,
                 struct err *e)
{
    const struct engine *g = a->x->engine;
    const struct chat_turn turn = {
        .role = role, .text = text, .n = strlen(text), .first = last < 0, .last = last};
    return chat_encode(g->template, g->tokenizer, &turn, &a->ids, e);
}

static int32_t last_of(const struct asking *a)
{
    return a->ids.n ? a->ids.ids[a->ids.n - 1] : -1;
}

static int say(struct asking *a, const char *text, struct err *e)
{
    const struct tokenizer_span span = {text, strlen(text), false};
    return tokenizer_encode(a->x->engine->tokenizer, &span, 1, false, &a->ids, e);
}

/* Runs the conversation's tokens; the policy evicts before each chunk and at the end. */
static int read_all(struct asking *a, struct err *e)
{
    struct context *x = a->x;
    int64_t n_evicted;
    int rc = 0;
    for (size_t at = 0; !rc && at < a->ids.n;) {
        const size_t left = a->ids.n - at, chunk = (size_t)x->plan.chunk;
        const int n = (int)(left < chunk ? left : chunk);
        rc = context_evict(x, &n_evicted, e);
        if (!rc && cache_room(&x->cache) < n)
            rc =
                err_set(e, ERR_USAGE,
                        "the conversation has %zu tokens, which the context cannot hold", a->ids.n);
        if (!rc) rc = context_run(x, a->ids.ids + at, n, 0, e);
        if (!rc && report_interrupted()) rc = err_set(e, ERR_STOP, "interrupted");
        at += (size_t)n;
    }
    a->last = last_of(a);
    return rc ? rc : context_evict(x, &n_evicted, e);
}

/* The question, the first words and the value; *n_value: the tokens of the value. */
static int write_question(struct asking *a, const struct task_step *q, size_t *n_value,
                          struct err *e)
{
    struct str answer = {0};
    a->ids.n = 0;
    int rc = write(a, CHAT_USER, q->user, a->last, e);
    const size_t n_turn = a->ids.n;
    if (!rc) rc = say(a, q->first, e);
    const size_t n_first = a->ids.n;
    a->ids.n = n_turn;
    str_printf(&answer, "%s %s", q->first, q->values[0]);
    if (!rc) rc = say(a, str_get(&answer), e);
    *n_value = a->ids.n - n_first;
    str_release(&answer);
    return rc;
}

static int ask(struct asking *a, const struct task_step *q, bool *right, double *nats,
               struct err *e)
{
    struct context *x = a->x;
    const int n_vocab = x->engine->model->n_vocab;
    size_t n_value;
    struct text_tally tally = {0};
    int rc = write_question(a, q, &n_value, e);
    if (rc) return rc;
    if ((int)a->ids.n > x->plan.chunk || (int)n_value > x->plan.n_logits)
        return err_set(e, ERR_USAGE, "the question \"%s\" does not fit into --chunk %d", q->user,
                       x->plan.chunk);
    rc = context_look(x, a->ids.ids, (int)a->ids.n - 1, (int)n_value, e);
    for (size_t i = 0; !rc && i < n_value; i++)
        text_count(&tally, x->forward.logits + i * (size_t)n_vocab, n_vocab,
                   a->ids.ids[a->ids.n - n_value + i]);
    *right = tally.n_right == tally.n;
    *nats = tally.nats;
    return rc;
}

/* Joins what is told to one message; its length counts piece by piece. */
static int write_told(struct asking *a, struct task_run *script, struct task_step *step, bool *more,
                      struct err *e)
{
    struct str told = {0};
    int64_t n = 0;
    int rc = 0;
    while (!rc && (*more = task_next(script, n, step)) && step->assistant) {
        str_printf(&told, "%s%s", told.n ? " " : "", step->user);
        rc = say(a, step->user, e);
        n += (int64_t)a->ids.n;
        a->ids.n = 0;
    }
    if (!rc) rc = write(a, CHAT_USER, str_get(&told), -1, e);
    if (!rc) rc = write(a, CHAT_ASSISTANT, REPLY, last_of(a), e);
    str_release(&told);
    return rc;
}

int forced_run(struct context *x, struct task_run *script, forced_answered *answered, void *ctx,
               struct err *e)
{
    struct asking a = {.x = x, .last = -1};
    struct task_step step = {0};
    bool more = false, right = false;
    double nats = 0;
    int rc = write_told(&a, script, &step, &more, e);
    if (!rc) rc = read_all(&a, e);
    for (; !rc && more; more = task_next(script, INT64_MAX, &step)) {
        rc = ask(&a, &step, &right, &nats, e);
        if (!rc) answered(ctx, &step, right, nats);
    }
    tokens_release(&a.ids);
    return rc;
}
