/* eval: what a policy still remembers. Each task tells a model something, lets much pass, and asks.
 *
 *   recall   facts told at the start of a conversation, filler until it has the wanted length, then
 *            questions, one turn each; greedy. An answer counts when it holds the exact value.
 *            The questions are not known when units are evicted, unless the policy says so
 *            (query_first): then they are asked once at the beginning too, in vain.
 *
 * Policies, budgets and lengths are lists and multiply out; one line per combination. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "quant/commands.h"
#include "quant/recall.h"
#include "quant/report.h"
#include "runtime/base/system.h"
#include "runtime/engine.h"
#include "runtime/options.h"
#include "runtime/policy.h"

/* One combination of the lists. */
struct trial {
    struct engine *engine;
    const struct options *options; /* of this combination: single policy and budget */
    int64_t length;                /* tokens of conversation before the questions */
    int n_facts, n_questions, n_seeds;
};

struct outcome {
    double accuracy, accuracy_spread; /* mean over seeds and their standard deviation */
    int64_t n_right, n_asked;
    int64_t cache_bytes, n_tokens, peak_bytes;
    int budget;
    double prefill_tok_s, decode_tok_s;
};

struct answer {
    struct str text;
};

static void take_text(void *ctx, const char *utf8, size_t n)
{
    struct answer *a = ctx;
    str_append(&a->text, utf8, n);
}

static bool stop(void *ctx)
{
    (void)ctx;
    return report_interrupted();
}

/* Does `text` hold `value` as whole words? 48213 is not in 148213. */
static bool holds(const char *text, const char *value)
{
    size_t n = strlen(value);
    for (const char *at = strstr(text, value); at; at = strstr(at + 1, value)) {
        unsigned char before = at > text ? (unsigned char)at[-1] : ' ';
        if (!isalnum(before) && !isalnum((unsigned char)at[n])) return true;
    }
    return false;
}

static int feed_turn(struct session *s, const struct recall_turn *t, const struct session_sink *k,
                     struct err *e)
{
    struct chat_message m[] = {{CHAT_USER, t->user}, {CHAT_ASSISTANT, t->assistant}};
    return session_feed(s, m, 2, k, e);
}

/* What a policy that knows its questions beforehand is shown of them. */
static int show_questions(const struct trial *t, struct recall *r, struct session *s,
                          const struct session_sink *k, struct err *e)
{
    int rc = 0;
    for (int i = 0; !rc && i < t->n_questions; i++) {
        const char *question, *expected, *value;
        recall_question(r, i, &question, &expected, &value);
        rc = feed_turn(s, &(struct recall_turn){question, "You haven't told me."}, k, e);
    }
    return rc;
}

/* Facts first, then filler up to the length. */
static int tell(const struct trial *t, struct recall *r, struct session *s,
                const struct session_sink *k, struct err *e)
{
    struct session_stats st;
    const struct policy *p = policy_named(t->options->policy);
    int rc = p && p->query_first ? show_questions(t, r, s, k, e) : 0;
    for (int i = 0; !rc && i < t->n_facts; i++) rc = feed_turn(s, recall_fact(r, i), k, e);
    for (session_stats(s, &st); !rc && st.n_tokens < t->length; session_stats(s, &st))
        rc = feed_turn(s, recall_filler(r), k, e);
    return rc;
}

static int ask(const struct trial *t, struct recall *r, struct session *s, int *n_right,
               struct err *e)
{
    for (int i = 0; i < t->n_questions; i++) {
        struct answer a = {0};
        struct session_sink k = {.ctx = &a, .text = take_text, .stop = stop};
        const char *question, *expected, *value;
        enum session_end end;
        recall_question(r, i, &question, &expected, &value);
        int rc = session_say(s, question, strlen(question), &k, &end, e);
        *n_right += !rc && holds(str_get(&a.text), value);
        str_release(&a.text);
        if (rc) return rc;
        if (end == SESSION_STOPPED) return err_set(e, ERR_STOP, "interrupted");
    }
    return 0;
}

static int run_seed(const struct trial *t, uint64_t seed, int *n_right, struct outcome *out,
                    struct err *e)
{
    struct options o = *t->options;
    struct session_sink k = {.stop = stop};
    struct session_stats st;
    struct recall *r = NULL;
    struct session *s = NULL;
    int64_t t0 = system_clock_ns();
    o.sampling.seed = seed;
    int rc = recall_open(&r, seed, t->n_facts) ? err_set(e, ERR_FAIL, "out of memory") : 0;
    if (!rc) rc = session_open(&s, t->engine, NULL, &o, NULL, e);
    if (!rc) rc = tell(t, r, s, &k, e);
    if (!rc) {
        session_stats(s, &st);
        out->prefill_tok_s += (double)st.n_tokens * 1e9 / (double)(system_clock_ns() - t0);
        rc = ask(t, r, s, n_right, e);
    }
    if (!rc) {
        session_stats(s, &st);
        out->decode_tok_s += st.decode_tok_s;
        out->cache_bytes = st.cache_bytes;
        out->n_tokens = st.n_tokens;
        out->budget = st.budget;
        out->peak_bytes = st.process_peak_bytes;
    }
    session_close(s);
    recall_close(r);
    return rc;
}

static int run_trial(const struct trial *t, struct outcome *out, struct err *e)
{
    double sum = 0, squares = 0, n = t->n_seeds;
    *out = (struct outcome){0};
    for (int seed = 1; seed <= t->n_seeds; seed++) {
        int right = 0;
        int rc = run_seed(t, (uint64_t)seed, &right, out, e);
        if (rc) return rc;
        double accuracy = (double)right / t->n_questions;
        sum += accuracy;
        squares += accuracy * accuracy;
        out->n_right += right;
        out->n_asked += t->n_questions;
    }
    out->accuracy = sum / n;
    double var = n > 1 ? (squares - sum * sum / n) / (n - 1) : 0;
    out->accuracy_spread = sqrt(var > 0 ? var : 0);
    out->prefill_tok_s /= n;
    out->decode_tok_s /= n;
    return 0;
}

static void print_json(const struct trial *t, const char *task, const char *policy,
                       const struct outcome *r)
{
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "task", task);
    cJSON_AddStringToObject(o, "policy", policy);
    cJSON_AddNumberToObject(o, "budget", r->budget);
    cJSON_AddNumberToObject(o, "compression", (double)t->length / r->budget);
    cJSON_AddNumberToObject(o, "length", (double)t->length);
    cJSON_AddNumberToObject(o, "seed_count", t->n_seeds);
    cJSON_AddNumberToObject(o, "accuracy", r->accuracy);
    cJSON_AddNumberToObject(o, "accuracy_spread", r->accuracy_spread);
    cJSON_AddNumberToObject(o, "right_count", (double)r->n_right);
    cJSON_AddNumberToObject(o, "question_count", (double)r->n_asked);
    cJSON_AddNumberToObject(o, "cache_bytes", (double)r->cache_bytes);
    cJSON_AddNumberToObject(o, "peak_bytes", (double)r->peak_bytes);
    cJSON_AddNumberToObject(o, "prefill_tok_s", r->prefill_tok_s);
    cJSON_AddNumberToObject(o, "decode_tok_s", r->decode_tok_s);
    report_json(o);
}

static void print_row(const struct trial *t, const char *task, const char *policy,
                      const struct outcome *r, bool first)
{
    if (first)
        printf("%-7s %-14s %7s %9s %6s %9s %9s %11s %11s\n", "task", "policy", "budget", "length",
               "seeds", "accuracy", "+/-", "cache KiB", "prefill t/s");
    printf("%-7s %-14s %7d %9lld %6d %9.3f %9.3f %11.1f %11.0f\n", task, policy, r->budget,
           (long long)t->length, t->n_seeds, r->accuracy, r->accuracy_spread,
           (double)r->cache_bytes / 1024, r->prefill_tok_s);
    fflush(stdout);
}

/* An item of a list of numbers, or ERR_USAGE naming the option. */
static int number_item(const char *list, int i, const char *option, int64_t *out, struct err *e)
{
    char text[32], *end;
    if (!options_list_item(list, i, text, sizeof text)) return 1;
    *out = strtoll(text, &end, 10);
    if (end == text || *end || *out < 1)
        return err_set(e, ERR_USAGE, "%s: \"%s\" is not a positive number", option, text);
    return 0;
}

/* All budgets and lengths of one policy. */
static int run_policy(struct trial *t, struct options *o, const char *lengths, const char *budgets,
                      bool *first, struct err *e)
{
    char budget[32];
    for (int b = 0; options_list_item(budgets, b, budget, sizeof budget); b++) {
        if (*budget) o->budget = budget;
        for (int l = 0;; l++) {
            struct outcome r;
            int rc = number_item(lengths, l, "--length", &t->length, e);
            if (rc == 1) break;
            if (!strcmp(o->policy, "full")) o->context = t->length + 1024;
            if (!rc) rc = run_trial(t, &r, e);
            if (rc) return rc;
            if (t->options->json)
                print_json(t, "recall", o->policy, &r);
            else
                print_row(t, "recall", o->policy, &r, *first);
            *first = false;
        }
    }
    return 0;
}

static int run_all(struct engine *g, const struct options *o, struct err *e)
{
    struct options one = *o;
    struct trial t = {.engine = g, .options = &one, .n_seeds = 3};
    int64_t seeds = 3;
    bool first = true;
    char policy[32];
    int rc = o->seeds ? number_item(o->seeds, 0, "--seeds", &seeds, e) : 0;
    t.n_seeds = (int)seeds;
    t.n_facts = o->facts > 0 ? o->facts : 8;
    t.n_questions = o->questions > 0 && o->questions < t.n_facts ? o->questions : t.n_facts;
    one.private_mode = true;
    one.sampling.temperature = 0;
    one.n_predict = 64;
    const char *policies = o->policy ? o->policy : g->heads ? "locret,sink,random" : "sink,random";
    for (int i = 0; !rc && options_list_item(policies, i, policy, sizeof policy); i++) {
        one.policy = policy;
        rc = run_policy(&t, &one, o->length ? o->length : "2048", o->budget ? o->budget : "256",
                        &first, e);
    }
    return rc;
}

int quant_eval(const struct options *o)
{
    struct engine *g = NULL;
    struct err e;
    int rc = 0;
    if (o->n_args == 0) rc = err_set(&e, ERR_USAGE, "which task? known are: recall");
    for (int i = 0; i < o->n_args; i++)
        if (strcmp(o->args[i], "recall"))
            rc = err_set(&e, ERR_USAGE, "eval %s is not known; known are: recall", o->args[i]);
    report_catch_interrupt();
    if (!rc) rc = engine_open(&g, o, NULL, NULL, NULL, &e);
    if (!rc) rc = run_all(g, o, &e);
    engine_close(g);
    return rc ? report_error(&e) : 0;
}
