#include "quant/eval/eval_run.h"

#include <stdio.h>
#include <string.h>

#include "base/system.h"
#include "cli/print/report.h"
#include "quant/eval/judge.h"
#include "quant/eval/perplexity.h"
#include "quant/eval/results.h"
#include "quant/eval/task.h"
#include "runtime/cache/policy.h"
#include "runtime/forward/context.h"
#include "runtime/forward/engine.h"
#include "runtime/session/session.h"

#define REPLY "I have read it." /* to what is told before forced answers */

/* One seed of an eval run. */
struct run {
    const struct eval_run *trial;
    struct session *session; /* of a talk */
    struct context x;        /* if the first words of answers are given; it reads ids */
    struct tokens ids;
    struct task_run *script;
    uint64_t seed;
    struct str answer;
    double right;
    int64_t n_asked;
    struct eval_cost cost;
    /* tokens and time of the text and of the answers */
    int64_t n_read, read_ns, n_decoded, decode_ns;
};

/* ---- talking --------------------------------------------------------------------------------- */

static void take_text(void *answer, const char *utf8, size_t n)
{
    str_append(answer, utf8, n);
}

static bool stop(void *ctx)
{
    (void)ctx;
    return report_interrupted();
}

struct session_sink eval_sink(struct str *answer)
{
    return (struct session_sink){.ctx = answer, .text = take_text, .stop = stop};
}

int eval_tell(struct session *s, const char *user, const char *assistant, struct err *e)
{
    const struct session_sink k = {.stop = stop};
    struct chat_message m[] = {{CHAT_USER, user}, {CHAT_ASSISTANT, assistant}};
    return session_feed(s, m, 2, &k, e);
}

cJSON *eval_passages(const struct session_recalled *r)
{
    cJSON *list = cJSON_CreateArray();
    for (int i = 0; r && i < r->n; i++)
        cJSON_AddItemToArray(list, cJSON_CreateString(r->windows[i].text));
    return list;
}

struct eval_cost eval_cost_of(const struct session *s)
{
    struct session_stats st;
    session_stats(s, &st);
    struct eval_cost c = {.n_units = st.budget,
                          .cache_bytes = st.cache_bytes,
                          .peak_bytes = st.process_peak_bytes,
                          .prefill_tok_s = st.prefill_tok_s,
                          .decode_tok_s = st.decode_tok_s};
    snprintf(c.kv, sizeof c.kv, "%s", st.kv);
    return c;
}

static void count_answer(struct run *r, const struct task_step *q, double right, double nats)
{
    r->right += right;
    r->n_asked++;
    const struct eval_answer a = {
        .seed = r->seed,
        .number = (int)r->n_asked,
        .question = q->user,
        .answer = str_get(&r->answer),
        .values = q->values,
        .n_values = q->n_values,
        .right = right,
        .nats = nats,
        .recalled = r->session ? session_recalled(r->session) : NULL,
    };
    if (r->trial->answered) r->trial->answered(r->trial->ctx, &a);
}

static int ask(struct run *r, const struct task_step *q, struct err *e)
{
    const struct session_sink k = eval_sink(&r->answer);
    struct session_stats st;
    enum session_end end;
    str_clear(&r->answer);
    int rc = session_say(r->session, q->user, strlen(q->user), &k, &end, e);
    if (rc) return rc;
    if (end == SESSION_STOPPED) return err_set(e, ERR_STOP, "interrupted");
    count_answer(r, q, judge_answer(str_get(&r->answer), q), 0);
    session_stats(r->session, &st);
    r->n_decoded++;
    if (st.decode_tok_s > 0) r->decode_ns += (int64_t)(1e9 / st.decode_tok_s);
    return 0;
}

static int talk(struct run *r, struct err *e)
{
    struct session_stats st;
    struct task_step step;
    int rc = 0;
    for (session_stats(r->session, &st); !rc && task_next(r->script, st.n_tokens, &step);) {
        const int64_t t0 = system_clock_ns(), before = st.n_tokens;
        rc =
            step.assistant ? eval_tell(r->session, step.user, step.assistant, e) : ask(r, &step, e);
        if (step.assistant) r->read_ns += system_clock_ns() - t0;
        session_stats(r->session, &st);
        if (step.assistant) r->n_read += st.n_tokens - before;
    }
    return rc;
}

/* i: of the seeds, from 0 */
static void open_script(struct run *r, int i)
{
    const struct eval_run *t = r->trial;
    const struct task_args args = {
        .seed = t->first_seed + (uint64_t)i,
        .length = t->length,
        .n_facts = t->n_facts ? t->n_facts : t->task->n_facts,
        .depth = t->depth >= 0 ? t->depth : (i + 0.5) / t->n_seeds,
        .essay = t->text,
    };
    r->seed = args.seed;
    r->script = task_open(t->task, &args);
}

static int run_script(struct run *r, int i, struct err *e)
{
    const struct eval_run *t = r->trial;
    struct session_opts o = *t->session;
    open_script(r, i);
    o.sampling.seed = r->seed;
    o.private_mode = true;
    if (!o.max_tokens) o.max_tokens = t->task->n_predict;
    int rc = session_open(&r->session, t->engine, NULL, &o, NULL, e);
    if (!rc) rc = talk(r, e);
    if (!rc) r->cost = eval_cost_of(r->session);
    return rc;
}

/* ---- answers whose first words are given ----------------------------------------------------- */

static int add_text(struct run *r, const char *text, struct err *e)
{
    const struct tokenizer_span span = {text, strlen(text), false};
    return tokenizer_encode(r->trial->engine->tokenizer, &span, 1, false, &r->ids, e);
}

/* last: the token before it, -1 = none. */
static int add_turn(struct run *r, enum chat_role role, const char *text, int32_t last,
                    struct err *e)
{
    const struct engine *g = r->trial->engine;
    const struct chat_turn turn = {
        .role = role, .text = text, .n = strlen(text), .first = last < 0, .last = last};
    return chat_encode(g->template, g->tokenizer, &turn, &r->ids, e);
}

/* Joins what is told to one message, whose length counts piece by piece. *step is the first
 * question, if there is one (*more). */
static int add_told(struct run *r, struct task_step *step, bool *more, struct err *e)
{
    struct str told = {0};
    int64_t n = 0;
    int rc = 0;
    while (!rc && (*more = task_next(r->script, n, step)) && step->assistant) {
        str_printf(&told, "%s%s", told.n ? " " : "", step->user);
        rc = add_text(r, step->user, e);
        n += (int64_t)r->ids.n;
        r->ids.n = 0;
    }
    if (!rc) rc = add_turn(r, CHAT_USER, str_get(&told), -1, e);
    if (!rc) rc = add_turn(r, CHAT_ASSISTANT, REPLY, r->ids.n ? r->ids.ids[r->ids.n - 1] : -1, e);
    str_release(&told);
    return rc;
}

/* Runs what was told; the policy evicts before each chunk and at the end. */
static int read_told(struct run *r, struct err *e)
{
    struct context *x = &r->x;
    int64_t n_evicted;
    int rc = 0;
    for (size_t at = 0; !rc && at < r->ids.n;) {
        const size_t left = r->ids.n - at, chunk = (size_t)x->plan.chunk;
        const int n = (int)(left < chunk ? left : chunk);
        rc = context_evict(x, &n_evicted, e);
        if (!rc && cache_room(&x->cache) < n)
            rc =
                err_set(e, ERR_USAGE,
                        "the conversation has %zu tokens, which the context cannot hold", r->ids.n);
        if (!rc) rc = context_run(x, r->ids.ids + at, n, 0, e);
        if (!rc && report_interrupted()) rc = err_set(e, ERR_STOP, "interrupted");
        at += (size_t)n;
    }
    return rc ? rc : context_evict(x, &n_evicted, e);
}

/* The question after token `last`, the first words and the value; *n_value: tokens of the value. */
static int write_question(struct run *r, const struct task_step *q, int32_t last, size_t *n_value,
                          struct err *e)
{
    struct str answer = {0};
    r->ids.n = 0;
    int rc = add_turn(r, CHAT_USER, q->user, last, e);
    const size_t n_turn = r->ids.n;
    if (!rc) rc = add_text(r, q->first, e);
    const size_t n_first = r->ids.n;
    r->ids.n = n_turn;
    str_printf(&answer, "%s %s", q->first, q->values[0]);
    if (!rc) rc = add_text(r, str_get(&answer), e);
    *n_value = r->ids.n - n_first;
    str_release(&answer);
    return rc;
}

/* An answer is right if every token of its value is the most likely one after the first words and
 * the tokens of the value before it. The question leaves the cache as it was. */
static int ask_forced(struct run *r, const struct task_step *q, int32_t last, struct err *e)
{
    struct context *x = &r->x;
    const int n_vocab = x->engine->model->n_vocab;
    size_t n_value;
    struct text_tally tally = {0};
    int rc = write_question(r, q, last, &n_value, e);
    if (rc) return rc;
    if ((int)r->ids.n > x->plan.chunk || (int)n_value > x->plan.n_logits)
        return err_set(e, ERR_USAGE, "the question \"%s\" does not fit into --chunk %d", q->user,
                       x->plan.chunk);
    rc = context_look(x, r->ids.ids, (int)r->ids.n - 1, (int)n_value, e);
    for (size_t i = 0; !rc && i < n_value; i++)
        text_count(&tally, x->forward.logits + i * (size_t)n_vocab, n_vocab,
                   r->ids.ids[r->ids.n - n_value + i]);
    if (!rc) count_answer(r, q, tally.n_right == tally.n, tally.nats);
    return rc;
}

static void take_cost(struct run *r)
{
    const struct plan *p = &r->x.plan;
    r->cost.cache_bytes = (int64_t)p->cache_bytes;
    r->cost.peak_bytes = system_process_peak_bytes();
    r->cost.n_units = p->budget;
    plan_kv_text(p, r->cost.kv);
}

/* What is told is one message, read as a chat reads it and cut to the budget; then every question
 * is asked of that same cache. */
static int run_forced(struct run *r, int i, struct err *e)
{
    struct task_step step = {0};
    bool more = false;
    open_script(r, i);
    int rc = context_open(&r->x, r->trial->engine, &r->trial->session->plan, r->seed,
                          TEXT_LOGIT_ROWS, e);
    if (!rc) rc = add_told(r, &step, &more, e);
    if (!rc) rc = read_told(r, e);
    const int32_t last = r->ids.n ? r->ids.ids[r->ids.n - 1] : -1;
    for (; !rc && more; more = task_next(r->script, INT64_MAX, &step))
        rc = ask_forced(r, &step, last, e);
    if (!rc) take_cost(r);
    return rc;
}

/* ---- seeds ----------------------------------------------------------------------------------- */

static double per_second(int64_t n, int64_t ns)
{
    return ns > 0 ? (double)n * 1e9 / (double)ns : 0;
}

/* The part of the result that one seed adds, as results keeps it. */
struct seed_result {
    double right, n_asked;
    struct eval_cost cost;
};

static cJSON *seed_line(const struct seed_result *s)
{
    cJSON *o = cJSON_CreateObject();
    cJSON_AddNumberToObject(o, "right", s->right);
    cJSON_AddNumberToObject(o, "n_asked", s->n_asked);
    results_put_cost(o, &s->cost);
    return o;
}

static int run_seed(const struct eval_run *t, int i, struct seed_result *s, struct err *e)
{
    struct run r = {.trial = t};
    int rc = t->task->forced ? run_forced(&r, i, e) : run_script(&r, i, e);
    session_close(r.session);
    context_release(&r.x);
    task_close(r.script);
    tokens_release(&r.ids);
    str_release(&r.answer);
    r.cost.prefill_tok_s = per_second(r.n_read, r.read_ns);
    r.cost.decode_tok_s = per_second(r.n_decoded, r.decode_ns);
    *s = (struct seed_result){r.right, (double)r.n_asked, r.cost};
    return rc;
}

void eval_cost_add(struct eval_cost *all, struct eval_cost c, double n)
{
    c.n_units = all->n_units + (c.n_units - all->n_units) / n;
    c.prefill_tok_s = all->prefill_tok_s + (c.prefill_tok_s - all->prefill_tok_s) / n;
    c.decode_tok_s = all->decode_tok_s + (c.decode_tok_s - all->decode_tok_s) / n;
    if (c.cache_bytes < all->cache_bytes) c.cache_bytes = all->cache_bytes;
    if (c.peak_bytes < all->peak_bytes) c.peak_bytes = all->peak_bytes;
    *all = c;
}

int eval_run_once(const struct eval_run *t, struct eval_row *out, struct err *e)
{
    struct judge_tally accuracy = {0};
    *out = (struct eval_row){.task = t->task->name,
                             .metric = "values",
                             .length = t->length,
                             .depth = t->depth >= 0 ? 100 * t->depth : -1,
                             .seed_count = t->n_seeds};
    for (int i = 0; i < t->n_seeds; i++) {
        struct seed_result s;
        uint64_t seed = t->first_seed + (uint64_t)i;
        const cJSON *known = results_find(t->results, t->run, seed);
        int rc = 0;
        if (known)
            s = (struct seed_result){results_number(known, "right"),
                                     results_number(known, "n_asked"), results_cost(known)};
        else
            rc = run_seed(t, i, &s, e);
        if (!rc && !known) rc = results_add(t->results, t->run, seed, seed_line(&s), e);
        if (rc) return rc;
        judge_add(&accuracy, s.n_asked > 0 ? s.right / s.n_asked : 0);
        out->right_count += s.right;
        out->question_count += (int64_t)s.n_asked;
        eval_cost_add(&out->cost, s.cost, i + 1);
    }
    out->compression = (double)t->length / out->cost.n_units;
    out->accuracy = accuracy.mean;
    out->accuracy_spread = judge_spread(&accuracy);
    return 0;
}
