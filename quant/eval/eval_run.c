#include "quant/eval/eval_run.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/system.h"
#include "cli/print/report.h"
#include "quant/eval/forced.h"
#include "quant/eval/judge.h"
#include "quant/eval/perplexity.h"
#include "quant/eval/results.h"
#include "quant/eval/task.h"
#include "runtime/cache/policy.h"
#include "runtime/forward/context.h"
#include "runtime/forward/engine.h"
#include "runtime/session/session.h"

/* One seed of an eval run. */
struct run {
    const struct eval_run *trial;
    struct session *session;
    struct task_run *script;
    uint64_t seed;
    struct str answer;
    double right;
    int64_t n_asked;
    double nats; /* of the values after given words */
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

static int feed(struct run *r, const struct task_step *step, struct err *e)
{
    int64_t t0 = system_clock_ns();
    int rc = eval_tell(r->session, step->user, step->assistant, e);
    r->read_ns += system_clock_ns() - t0;
    return rc;
}

static void report_answer(const struct run *r, const struct task_step *q, double right)
{
    const struct eval_answer a = {
        .seed = r->seed,
        .number = (int)r->n_asked,
        .question = q->user,
        .answer = str_get(&r->answer),
        .values = q->values,
        .n_values = q->n_values,
        .right = right,
        .nats = r->nats,
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
    double right = judge_answer(str_get(&r->answer), q);
    r->right += right;
    r->n_asked++;
    report_answer(r, q, right);
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
        rc = step.assistant ? feed(r, &step, e) : ask(r, &step, e);
        int64_t before = st.n_tokens;
        session_stats(r->session, &st);
        if (step.assistant) r->n_read += st.n_tokens - before;
    }
    return rc;
}

static void close_script(struct run *r)
{
    session_close(r->session);
    task_close(r->script);
    r->session = NULL;
    r->script = NULL;
}

/* i: of the seeds, from 0 */
static struct task_args args_of(const struct eval_run *t, int i)
{
    return (struct task_args){
        .seed = t->first_seed + (uint64_t)i,
        .length = t->length,
        .n_facts = t->n_facts ? t->n_facts : t->task->n_facts,
        .depth = t->depth >= 0 ? t->depth : (i + 0.5) / t->n_seeds,
        .essay = t->text,
    };
}

static int run_script(struct run *r, int i, struct err *e)
{
    const struct eval_run *t = r->trial;
    struct session_opts o = *t->session;
    const struct task_args args = args_of(t, i);
    r->seed = o.sampling.seed = args.seed;
    o.private_mode = true;
    if (!o.max_tokens) o.max_tokens = t->task->n_predict;
    r->script = task_open(t->task, &args);
    int rc = session_open(&r->session, t->engine, NULL, &o, NULL, e);
    if (!rc) rc = talk(r, e);
    if (!rc) r->cost = eval_cost_of(r->session);
    return rc;
}

static void take_cost(struct run *r, const struct context *x)
{
    r->cost.cache_bytes = (int64_t)x->plan.cache_bytes;
    r->cost.peak_bytes = system_process_peak_bytes();
    r->cost.n_units = x->plan.budget;
    plan_kv_text(&x->plan, r->cost.kv);
}

/* ---- answers whose first words are given ---- */

static void take_forced(void *ctx, const struct task_step *q, bool right, double nats)
{
    struct run *r = ctx;
    r->right += right;
    r->n_asked++;
    r->nats = nats;
    report_answer(r, q, right);
}

static int run_forced(struct run *r, int i, struct err *e)
{
    const struct eval_run *t = r->trial;
    const struct task_args args = args_of(t, i);
    struct context x = {0};
    r->seed = args.seed;
    r->script = task_open(t->task, &args);
    int rc = context_open(&x, t->engine, &t->session->plan, args.seed, TEXT_LOGIT_ROWS, e);
    if (!rc) rc = forced_run(&x, r->script, take_forced, r, e);
    if (!rc) take_cost(r, &x);
    context_release(&x);
    return rc;
}

/* ---- predicting ------------------------------------------------------------------------------ */

/* The ids of run i of the text, `length` of them from *first on. */
static int encode_part(const struct eval_run *t, int i, struct tokens *ids, size_t *first,
                       struct err *e)
{
    size_t length = (size_t)t->length;
    *first = (size_t)i * length;
    if (!t->text) return err_set(e, ERR_USAGE, "eval %s needs a text: give -f FILE", t->task->name);
    int rc = tokenizer_encode_text(t->engine->tokenizer, t->text, strlen(t->text), false, ids, e);
    if (!rc && *first + length > ids->n)
        rc = err_set(e, ERR_USAGE,
                     "the text has %zu tokens, run %d needs %zu: give more text, a smaller "
                     "--length or fewer --seeds",
                     ids->n, i + 1, *first + length);
    if (!rc && tokenizer_add_bos(t->engine->tokenizer))
        ids->ids[*first] = tokenizer_bos(t->engine->tokenizer);
    return rc;
}

/* `length` ids of the text, run by run further on, as one conversation. */
static int predict(struct run *r, int i, double *nats, struct err *e)
{
    const struct eval_run *t = r->trial;
    struct context x = {0};
    struct tokens ids = {0};
    struct text_run run = {.x = &x};
    size_t first;
    int rc = encode_part(t, i, &ids, &first, e);
    if (!rc)
        rc = context_open(&x, t->engine, &t->session->plan, t->first_seed + (uint64_t)i,
                          TEXT_LOGIT_ROWS, e);
    if (!rc) {
        int64_t t0 = system_clock_ns();
        rc = text_predict(&run, 1, ids.ids + first, (size_t)t->length, 1, e);
        r->read_ns = system_clock_ns() - t0;
        r->n_read = t->length;
        r->right = (double)run.tally.n_right;
        r->n_asked = run.tally.n;
        *nats = run.tally.nats / (double)run.tally.n;
        take_cost(r, &x);
        if (!rc && report_interrupted()) rc = err_set(e, ERR_STOP, "interrupted");
    }
    context_release(&x);
    tokens_release(&ids);
    return rc;
}

/* ---- seeds ----------------------------------------------------------------------------------- */

static double per_second(int64_t n, int64_t ns)
{
    return ns > 0 ? (double)n * 1e9 / (double)ns : 0;
}

/* The part of the result that one seed adds, as results keeps it. */
struct seed_result {
    double right, n_asked, nats;
    struct eval_cost cost;
};

static cJSON *seed_line(const struct seed_result *s)
{
    cJSON *o = cJSON_CreateObject();
    cJSON_AddNumberToObject(o, "right", s->right);
    cJSON_AddNumberToObject(o, "n_asked", s->n_asked);
    cJSON_AddNumberToObject(o, "nats", s->nats);
    results_put_cost(o, &s->cost);
    return o;
}

static struct seed_result read_seed(const cJSON *line)
{
    return (struct seed_result){results_number(line, "right"), results_number(line, "n_asked"),
                                results_number(line, "nats"), results_cost(line)};
}

static int run_seed(const struct eval_run *t, int i, struct seed_result *s, struct err *e)
{
    struct run r = {.trial = t};
    double nats = 0;
    int rc = t->task->forced  ? run_forced(&r, i, e)
             : t->task->write ? run_script(&r, i, e)
                              : predict(&r, i, &nats, e);
    close_script(&r);
    str_release(&r.answer);
    r.cost.prefill_tok_s = per_second(r.n_read, r.read_ns);
    r.cost.decode_tok_s = per_second(r.n_decoded, r.decode_ns);
    *s = (struct seed_result){r.right, (double)r.n_asked, nats, r.cost};
    return rc;
}

/* The speeds become means over n seeds. */
static void add_cost(struct eval_cost *sum, struct eval_cost c, double n)
{
    c.prefill_tok_s = sum->prefill_tok_s + c.prefill_tok_s / n;
    c.decode_tok_s = sum->decode_tok_s + c.decode_tok_s / n;
    if (c.peak_bytes < sum->peak_bytes) c.peak_bytes = sum->peak_bytes;
    *sum = c;
}

int eval_run_once(const struct eval_run *t, struct eval_result *out, struct err *e)
{
    struct judge_tally accuracy = {0};
    double n = t->n_seeds, nats = 0;
    *out = (struct eval_result){0};
    for (int i = 0; i < t->n_seeds; i++) {
        struct seed_result s;
        uint64_t seed = t->first_seed + (uint64_t)i;
        const cJSON *known = results_find(t->results, t->run, seed);
        int rc = 0;
        if (known)
            s = read_seed(known);
        else
            rc = run_seed(t, i, &s, e);
        if (!rc && !known) rc = results_add(t->results, t->run, seed, seed_line(&s), e);
        if (rc) return rc;
        judge_add(&accuracy, s.n_asked > 0 ? s.right / s.n_asked : 0);
        out->right += s.right;
        out->n_asked += (int64_t)s.n_asked;
        add_cost(&out->cost, s.cost, n);
        nats += s.nats / n;
    }
    out->accuracy = accuracy.mean;
    out->accuracy_spread = judge_spread(&accuracy);
    if (nats > 0) out->perplexity = exp(nats);
    return 0;
}
