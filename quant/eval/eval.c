/* eval: measures how much a policy remembers. Tasks (task.h), policies, budgets or compressions,
 * lengths and cache formats are lists; every combination gives one row, as a table, as JSON lines
 * or as CSV, all from one list of columns. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/commands/commands.h"
#include "cli/commands/input.h"
#include "cli/options/options.h"
#include "cli/options/options_policy.h"
#include "cli/print/report.h"
#include "quant/eval/eval_run.h"
#include "quant/eval/plans.h"
#include "quant/eval/task.h"
#include "quant/eval/task_params.h"
#include "runtime/cache/policy.h"
#include "runtime/forward/engine.h"
#include "runtime/session/session.h"

/* ---- rows ------------------------------------------------------------------------------------ */

struct row {
    const char *task, *policy, *allocator, *kv, *recall;
    const char *question; /* "first": the policy saw it before the text; "last": after */
    const char *protocol;
    int64_t budget, length, seed_count, question_count, cache_bytes, peak_bytes;
    double compression, accuracy, accuracy_spread, right_count, prefill_tok_s, decode_tok_s;
    double depth;      /* percent; negative = the task has no depths */
    double perplexity; /* 0 = not measured */
};

static const struct column {
    const char *key;
    int width; /* columns in the table; 0 = not shown there */
    enum { TEXT, INTEGER, DECIMAL } kind;
    int digits;
    size_t offset;
} columns[] = {
    {"task", -16, TEXT, 0, offsetof(struct row, task)},
    {"policy", -14, TEXT, 0, offsetof(struct row, policy)},
    {"allocator", 11, TEXT, 0, offsetof(struct row, allocator)},
    {"question", 8, TEXT, 0, offsetof(struct row, question)},
    {"protocol", 8, TEXT, 0, offsetof(struct row, protocol)},
    {"kv", 6, TEXT, 0, offsetof(struct row, kv)},
    {"recall", 6, TEXT, 0, offsetof(struct row, recall)},
    {"budget", 7, INTEGER, 0, offsetof(struct row, budget)},
    {"compression", 11, DECIMAL, 1, offsetof(struct row, compression)},
    {"length", 9, INTEGER, 0, offsetof(struct row, length)},
    {"depth", 6, DECIMAL, 0, offsetof(struct row, depth)},
    {"seed_count", 0, INTEGER, 0, offsetof(struct row, seed_count)},
    {"accuracy", 8, DECIMAL, 3, offsetof(struct row, accuracy)},
    {"accuracy_spread", 15, DECIMAL, 3, offsetof(struct row, accuracy_spread)},
    {"perplexity", 10, DECIMAL, 3, offsetof(struct row, perplexity)},
    {"right_count", 0, DECIMAL, 2, offsetof(struct row, right_count)},
    {"question_count", 14, INTEGER, 0, offsetof(struct row, question_count)},
    {"cache_bytes", 11, INTEGER, 0, offsetof(struct row, cache_bytes)},
    {"peak_bytes", 0, INTEGER, 0, offsetof(struct row, peak_bytes)},
    {"prefill_tok_s", 13, DECIMAL, 0, offsetof(struct row, prefill_tok_s)},
    {"decode_tok_s", 0, DECIMAL, 0, offsetof(struct row, decode_tok_s)},
};

enum { N_COLUMNS = sizeof columns / sizeof *columns };

static double number(const struct column *c, const struct row *r)
{
    const char *at = (const char *)r + c->offset;
    return c->kind == INTEGER ? (double)*(const int64_t *)(const void *)at
                              : *(const double *)(const void *)at;
}

/* Whether the row lacks this number: only grids have a depth, only texts a perplexity. */
static bool absent(const struct column *c, const struct row *r)
{
    return (c->offset == offsetof(struct row, depth) && r->depth < 0) ||
           (c->offset == offsetof(struct row, perplexity) && r->perplexity <= 0);
}

static const char *text(const struct column *c, const struct row *r)
{
    return *(const char *const *)(const void *)((const char *)r + c->offset);
}

static void print_json(const struct row *r)
{
    cJSON *o = cJSON_CreateObject();
    for (int i = 0; i < N_COLUMNS; i++) {
        const struct column *c = &columns[i];
        if (c->kind == TEXT)
            cJSON_AddStringToObject(o, c->key, text(c, r));
        else if (absent(c, r))
            cJSON_AddNullToObject(o, c->key);
        else
            cJSON_AddNumberToObject(o, c->key, number(c, r));
    }
    report_json(o);
}

/* No value contains a quote; a policy with keys has commas. */
static void csv_head(struct str *line)
{
    for (int i = 0; i < N_COLUMNS; i++) str_printf(line, "%s%s", i ? "," : "", columns[i].key);
}

static void csv_row(const struct row *r, struct str *line)
{
    for (int i = 0; i < N_COLUMNS; i++) {
        const struct column *c = &columns[i];
        if (i) str_puts(line, ",");
        if (c->kind == TEXT)
            str_printf(line, strchr(text(c, r), ',') ? "\"%s\"" : "%s", text(c, r));
        else if (!absent(c, r))
            str_printf(line, "%.*f", c->digits ? c->digits + 1 : 0, number(c, r));
    }
}

static void table_head(struct str *line)
{
    for (int i = 0; i < N_COLUMNS; i++)
        if (columns[i].width) str_printf(line, "%*s ", columns[i].width, columns[i].key);
}

static void table_row(const struct row *r, struct str *line)
{
    for (int i = 0; i < N_COLUMNS; i++) {
        const struct column *c = &columns[i];
        if (!c->width) continue;
        if (c->kind == TEXT)
            str_printf(line, "%*s ", c->width, text(c, r));
        else if (absent(c, r))
            str_printf(line, "%*s ", c->width, "-");
        else
            str_printf(line, "%*.*f ", c->width, c->digits, number(c, r));
    }
}

static void print_columns(const struct row *r, bool csv, bool first)
{
    struct str line = {0};
    if (first) {
        (csv ? csv_head : table_head)(&line);
        report_line("%s", str_get(&line));
        str_clear(&line);
    }
    (csv ? csv_row : table_row)(r, &line);
    report_line("%s", str_get(&line));
    str_release(&line);
}

/* ---- lists ----------------------------------------------------------------------------------- */

/* The lists to combine, from the outermost to the innermost. */
struct sweep {
    struct eval_run trial;
    struct task_params params;
    struct session_opts one; /* of one combination */
    const struct options *options;
    struct sweep_opts lists; /* with the defaults */
    struct plans *plans;     /* collects plans instead of running them; NULL = runs them */
    int context;             /* of the policy as the user gave it */
    bool printed;
};

/* As the user gave it. */
static void spell_policy(const struct sweep *w, struct str *out)
{
    struct policy_choice c = w->one.plan.policy;
    c.context = w->context;
    options_policy_print(&c, out);
}

/* For comparing two runs question by question, as quant/eval/paired.py does. */
static void print_answer(void *ctx, const struct eval_answer *a)
{
    const struct sweep *w = ctx;
    const struct session_opts *one = &w->one;
    struct str policy = {0};
    spell_policy(w, &policy);
    cJSON *o = cJSON_CreateObject(), *values = cJSON_CreateArray(), *passages = cJSON_CreateArray();
    for (int i = 0; i < a->n_values; i++)
        cJSON_AddItemToArray(values, cJSON_CreateString(a->values[i]));
    for (int i = 0; i < a->recalled->n; i++)
        cJSON_AddItemToArray(passages, cJSON_CreateString(a->recalled->windows[i].text));
    cJSON_AddStringToObject(o, "task", w->trial.task->name);
    cJSON_AddStringToObject(o, "policy", str_get(&policy));
    cJSON_AddStringToObject(o, "recall", recall_chooser_name(one->recall.chooser));
    cJSON_AddNumberToObject(o, "budget", one->plan.budget);
    cJSON_AddNumberToObject(o, "length", (double)w->trial.length);
    cJSON_AddNumberToObject(o, "seed", (double)a->seed);
    cJSON_AddNumberToObject(o, "number", a->number);
    cJSON_AddStringToObject(o, "question", a->question);
    cJSON_AddStringToObject(o, "answer", a->answer);
    cJSON_AddItemToObject(o, "values", values);
    cJSON_AddItemToObject(o, "recalled", passages);
    cJSON_AddNumberToObject(o, "recall_ms", a->recalled->n ? a->recalled->ms : 0);
    cJSON_AddNumberToObject(o, "right", a->right);
    report_json(o);
    str_release(&policy);
}

static bool evicts_once(const struct sweep *w)
{
    return w->one.plan.protocol == PLAN_ONCE;
}

static void print_row(struct sweep *w, const struct eval_result *out)
{
    const struct eval_run *t = &w->trial;
    const struct policy_choice *c = &w->one.plan.policy;
    struct str policy = {0};
    spell_policy(w, &policy);
    struct row r = {
        .task = t->task->name,
        .policy = str_get(&policy),
        .allocator = c->allocator >= 0 ? policy_allocator_name((enum policy_allocator)c->allocator)
                     : c->row          ? policy_allocator_name(c->row->allocator)
                                       : "-",
        .question = c->row && c->row->query_first ? "first" : "last",
        .protocol = evicts_once(w) ? "once" : "stream",
        .kv = out->kv,
        .recall = recall_chooser_name(w->one.recall.chooser),
        .budget = out->budget,
        .compression = (double)t->length / out->budget,
        .length = t->length,
        .depth = t->depth >= 0 ? 100 * t->depth : -1,
        .seed_count = t->n_seeds,
        .accuracy = out->accuracy,
        .accuracy_spread = out->accuracy_spread,
        .perplexity = out->perplexity,
        .right_count = out->right,
        .question_count = out->n_asked,
        .cache_bytes = out->cache_bytes,
        .peak_bytes = out->peak_bytes,
        .prefill_tok_s = out->prefill_tok_s,
        .decode_tok_s = out->decode_tok_s,
    };
    if (w->options->json)
        print_json(&r);
    else if (w->options->eval.csv)
        print_columns(&r, true, !w->printed);
    else
        print_columns(&r, false, !w->printed);
    w->printed = true;
    str_release(&policy);
}

/* Runs depth by depth if the task is a grid or its key depths is given. */
static int run_depths(struct sweep *w, struct err *e)
{
    struct eval_result out;
    if (w->plans) return plans_add(w->plans, &w->one.plan, e);
    int n = w->params.n_depths ? w->params.n_depths : w->trial.task->n_depths, rc = 0;
    if (n > 0 && w->trial.task->n_facts != 1)
        return err_set(e, ERR_USAGE, "eval %s has no depths: it hides more than one thing",
                       w->trial.task->name);
    for (int i = 0; !rc && i < (n > 0 ? n : 1); i++) {
        w->trial.depth = n > 1 ? (double)i / (n - 1) : n == 1 ? 0.5 : -1;
        rc = eval_run_once(&w->trial, &out, e);
        if (!rc) print_row(w, &out);
    }
    return rc;
}

static int run_compression(struct sweep *w, int64_t compression, struct err *e)
{
    int64_t budget = w->trial.length / compression;
    if (budget < PLAN_BUDGET_MIN || budget > PLAN_BUDGET_MAX)
        return err_set(e, ERR_USAGE,
                       "--compression %lld of %lld tokens leaves %lld units per head; the least is "
                       "%d",
                       (long long)compression, (long long)w->trial.length, (long long)budget,
                       PLAN_BUDGET_MIN);
    w->one.plan.budget = (int)budget;
    return run_depths(w, e);
}

#define ANSWER_ROOM 1024 /* tokens after the text */

/* Runs all budgets, or compressions, of one length; policy full has no budget: it is run once. */
static int run_sizes(struct sweep *w, struct err *e)
{
    struct policy_choice *c = &w->one.plan.policy;
    const struct options_numbers *budgets = &w->lists.budgets, *parts = &w->lists.compressions;
    bool all = c->row && c->row->scorer == POLICY_KEEP_ALL;
    int64_t context = w->trial.length + ANSWER_ROOM;
    int rc = 0;
    w->context = c->context;
    if (w->context < 0 && (all || evicts_once(w)))
        c->context = context < PLAN_BUDGET_MAX ? (int)context : PLAN_BUDGET_MAX;
    if (all) rc = run_depths(w, e);
    for (int i = 0; !rc && !all && i < parts->n; i++) rc = run_compression(w, parts->item[i], e);
    for (int i = 0; !rc && !all && i < budgets->n; i++) {
        w->one.plan.budget = (int)budgets->item[i];
        rc = run_depths(w, e);
    }
    c->context = w->context;
    return rc;
}

static int run_lengths(struct sweep *w, struct err *e)
{
    int rc = 0;
    for (int i = 0; !rc && i < w->lists.lengths.n; i++) {
        w->trial.length = w->lists.lengths.item[i];
        rc = run_sizes(w, e);
    }
    return rc;
}

static int run_recalls(struct sweep *w, struct err *e)
{
    int rc = 0;
    for (int i = 0; !rc && i < w->lists.recalls.n; i++) {
        w->one.recall.chooser = w->lists.recalls.item[i];
        w->one.plan.recalls = w->one.recall.chooser != RECALL_OFF;
        rc = run_lengths(w, e);
    }
    return rc;
}

static int run_policies(struct sweep *w, struct err *e)
{
    int rc = 0;
    for (int i = 0; !rc && i < w->lists.policies.n; i++)
        for (int k = 0; !rc && k < w->lists.kvs.n; k++) {
            w->one.plan.policy = w->lists.policies.item[i];
            w->one.plan.kv = w->lists.kvs.item[k];
            rc = run_recalls(w, e);
        }
    return rc;
}

static void add_default(struct options_numbers *list, int64_t n)
{
    if (!list->n) list->item[list->n++] = n;
}

static struct sweep_opts with_defaults(const struct options *o)
{
    struct sweep_opts s = o->sweep;
    if (!s.policies.n) s.policies.item[s.policies.n++] = policy_choice(NULL);
    if (!s.recalls.n) s.recalls.item[s.recalls.n++] = RECALL_OFF;
    if (!s.kvs.n) s.kvs.n = 1; /* as the plan chooses */
    if (!s.compressions.n) add_default(&s.budgets, 256);
    add_default(&s.lengths, 2048);
    return s;
}

/* Without --policy: a few to compare. */
static void default_policies(struct options_policies *out, bool has_heads)
{
    static const char *const names[] = {"locret", "keydiff+global", "sink", "random"};
    out->n = 0;
    for (int i = has_heads ? 0 : 1; i < 4; i++) out->item[out->n++] = policy_choice(names[i]);
}

static int collect_plans(const struct options *o, struct plans *out, struct err *e)
{
    struct sweep w = {.one = o->session, .lists = with_defaults(o), .plans = out};
    return run_policies(&w, e);
}

static int check_talk(const char *text, struct err *e)
{
    if (text) return task_talk_check(text, e);
    return err_set(e, ERR_USAGE, "eval talk needs conversations: give -f FILE");
}

static int run_tasks(struct engine *g, const struct options *o, const char *essay, struct err *e)
{
    struct sweep w = {.one = o->session, .options = o, .lists = with_defaults(o)};
    int rc = 0;
    if (!o->sweep.policies.n) default_policies(&w.lists.policies, g->retaining);
    w.one.sampling.temperature = 0;
    w.trial = (struct eval_run){
        .engine = g,
        .params = &w.params,
        .session = &w.one,
        .text = essay,
        .first_seed = o->session.sampling.seed ? o->session.sampling.seed : 1,
        .n_seeds = o->eval.seeds ? o->eval.seeds : 3,
        .answered = o->eval.answers ? print_answer : NULL,
        .ctx = &w,
    };
    for (int i = 0; !rc && i < o->n_args; i++) {
        rc = task_params_read(o->args[i], &w.params, e);
        if (!rc && !strcmp(w.params.name, "talk")) rc = check_talk(essay, e);
        for (int k = 0; !rc && (w.trial.task = task_named(w.params.name, k)); k++)
            rc = run_policies(&w, e);
    }
    return rc;
}

/* ---- the command ----------------------------------------------------------------------------- */

void cmd_eval_help(struct str *out)
{
    const struct task *t;
    str_puts(out,
             "Tasks; ruler is all of RULER's; TASK:key=value sets facts=N (things to remember),\n"
             "thoughts=N (words that the model thinks before each answer it reads),\n"
             "depths=N (places of a single thing, one row each), wording=demo|papers,\n"
             "report=N (print speed and memory every N tokens):\n");
    for (int i = 0; (t = task_at(i)); i++) str_printf(out, "  %-16s %s\n", t->name, t->about);
    str_puts(out, "The text is evicted before the questions are known, unless the policy is meant "
                  "to know them\n(locret-q): then they are also asked once at the beginning.\n");
}

static int check_tasks(const struct options *o, struct err *e)
{
    struct str names = {0};
    const struct task *t;
    int rc = 0;
    for (int i = 0; (t = task_at(i)); i++) str_printf(&names, "%s, ", t->name);
    str_puts(&names, "ruler");
    if (o->n_args == 0) rc = err_set(e, ERR_USAGE, "no task given; known are: %s", str_get(&names));
    for (int i = 0; !rc && i < o->n_args; i++) {
        struct task_params params;
        rc = task_params_read(o->args[i], &params, e);
        if (!rc && !task_named(params.name, 0))
            rc = err_set(e, ERR_USAGE, "eval %s is not known; known are: %s", params.name,
                         str_get(&names));
    }
    str_release(&names);
    if (!rc && o->sweep.budgets.n && o->sweep.compressions.n)
        rc = err_set(e, ERR_USAGE, "--budget and --compression set the same thing; give one");
    return rc;
}

int cmd_eval(const struct options *o)
{
    struct engine *g = NULL;
    struct str essay = {0};
    struct plans plans = {0};
    struct err e;
    bool has_text = o->text.file || o->text.prompt;
    int rc = check_tasks(o, &e);
    if (!rc) rc = collect_plans(o, &plans, &e);
    if (!rc && has_text) rc = input_text(o, &essay, &e);
    report_catch_interrupt();
    if (!rc) rc = engine_open(&g, &o->engine, plans.item, plans.n, NULL, NULL, &e);
    if (!rc && *g->device_notice) report_note("%s", g->device_notice);
    if (!rc) rc = run_tasks(g, o, has_text ? str_get(&essay) : NULL, &e);
    engine_close(g);
    plans_release(&plans);
    str_release(&essay);
    return rc ? report_error(&e) : 0;
}
