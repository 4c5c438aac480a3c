/* eval: measures how much a policy remembers. Tasks (task.h), policies, budgets or compressions,
 * lengths and cache formats are lists; every combination gives one row, as a table, as JSON lines
 * or as CSV, all from one list of columns. */
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/input.h"
#include "cli/options.h"
#include "cli/report.h"
#include "quant/eval/eval_run.h"
#include "quant/eval/task.h"
#include "runtime/cache/policy.h"
#include "runtime/forward/engine.h"

/* ---- rows -------------------------------------------------------------------------------------
 */

struct row {
    const char *task, *policy, *allocator, *kv;
    const char *question; /* "first": the policy saw it before the text; "last": after */
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
    {"kv", 6, TEXT, 0, offsetof(struct row, kv)},
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

/* No value contains a comma or a quote. */
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
            str_puts(line, text(c, r));
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

/* ---- lists ------------------------------------------------------------------------------------
 */

/* The lists to combine, from the outermost to the innermost. */
struct sweep {
    struct eval_run trial;
    struct options one; /* the options of one combination */
    const char *lengths, *sizes;
    bool compressed; /* sizes are compressions, not budgets */
    char budget[32];
    bool printed;
};

static void print_row(struct sweep *w, const struct eval_result *out)
{
    const struct eval_run *t = &w->trial;
    const struct policy *p = policy_named(w->one.policy);
    struct row r = {
        .task = t->task->name,
        .policy = w->one.policy,
        .allocator = w->one.allocator ? w->one.allocator
                     : p              ? policy_allocator_name(p->allocator)
                                      : "-",
        .question = p && p->query_first ? "first" : "last",
        .kv = out->kv,
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
    if (w->one.json)
        print_json(&r);
    else if (w->one.csv)
        print_columns(&r, true, !w->printed);
    else
        print_columns(&r, false, !w->printed);
    w->printed = true;
}

/* Runs depth by depth if the task is a grid or --depths is given. */
static int run_depths(struct sweep *w, struct err *e)
{
    struct eval_result out;
    int n = w->one.depths > 0 ? w->one.depths : w->trial.task->n_depths, rc = 0;
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

#define ANSWER_ROOM 1024 /* tokens after the text */

/* Runs all budgets, or compressions, of one length. */
static int run_sizes(struct sweep *w, struct err *e)
{
    int64_t size;
    bool all = !strcmp(w->one.policy, "full");
    w->one.context = w->trial.length + ANSWER_ROOM;
    for (int i = 0; !all || i < 1; i++) { /* policy full has no budget: run it once */
        int rc =
            input_number(w->sizes, i, w->compressed ? "--compression" : "--budget", 1, &size, e);
        if (rc) return rc < 0 ? rc : 0;
        snprintf(w->budget, sizeof w->budget, "%" PRId64,
                 w->compressed ? w->trial.length / size : size);
        w->one.budget = w->budget;
        rc = run_depths(w, e);
        if (rc) return rc;
    }
    return 0;
}

static int run_lengths(struct sweep *w, struct err *e)
{
    for (int i = 0;; i++) {
        int rc = input_number(w->lengths, i, "--length", 1, &w->trial.length, e);
        if (!rc) rc = run_sizes(w, e);
        if (rc) return rc < 0 ? rc : 0;
    }
}

static int run_formats(struct sweep *w, const char *formats, struct err *e)
{
    char kv[16];
    int rc = 0;
    w->one.kv = NULL;
    if (!formats) return run_lengths(w, e);
    for (int i = 0; !rc && options_list_item(formats, i, kv, sizeof kv); i++) {
        w->one.kv = kv;
        rc = run_lengths(w, e);
    }
    return rc;
}

static int run_policies(struct sweep *w, const char *policies, const char *formats, struct err *e)
{
    char policy[32];
    int rc = 0;
    for (int i = 0; !rc && options_list_item(policies, i, policy, sizeof policy); i++) {
        w->one.policy = policy;
        rc = run_formats(w, formats, e);
    }
    return rc;
}

/* The lists as they are when nobody gives them. */
static const char *lengths_of(const struct options *o)
{
    return o->length ? o->length : "2048";
}

static const char *sizes_of(const struct options *o)
{
    return o->compression ? o->compression : o->budget ? o->budget : "256";
}

/* Adds the budgets of one length to a list. */
static int add_budgets(const struct options *o, int64_t length, struct str *budgets, struct err *e)
{
    const char *option = o->compression ? "--compression" : "--budget";
    int64_t size;
    for (int i = 0;; i++) {
        int rc = input_number(sizes_of(o), i, option, 1, &size, e);
        if (rc) return rc < 0 ? rc : 0;
        str_printf(budgets, "%s%" PRId64, budgets->n ? "," : "",
                   o->compression ? length / size : size);
    }
}

/* The options as the engine plans with them: every budget, and room for the longest text. */
static int options_of_all(const struct options *o, struct options *all, struct str *budgets,
                          struct err *e)
{
    int64_t length;
    *all = *o;
    for (int i = 0;; i++) {
        int rc = input_number(lengths_of(o), i, "--length", 1, &length, e);
        if (!rc) rc = add_budgets(o, length, budgets, e);
        all->budget = str_get(budgets);
        if (rc) return rc < 0 ? rc : 0;
        if (length + ANSWER_ROOM > all->context) all->context = length + ANSWER_ROOM;
    }
}

static int run_tasks(struct engine *g, const struct options *o, const char *essay, struct err *e)
{
    const char *policies = o->policy  ? o->policy
                           : g->heads ? "locret,keydiff+global,sink,random"
                                      : "keydiff+global,sink,random";
    struct sweep w = {.one = *o,
                      .lengths = lengths_of(o),
                      .sizes = sizes_of(o),
                      .compressed = o->compression != NULL};
    int rc = 0;
    w.one.sampling.temperature = 0;
    w.trial = (struct eval_run){
        .engine = g, .options = &w.one, .text = essay, .n_seeds = o->seeds ? o->seeds : 3};
    for (int i = 0; !rc && i < o->n_args; i++)
        for (int k = 0; !rc && (w.trial.task = task_named(o->args[i], k)); k++)
            rc = run_policies(&w, policies, o->kv, e);
    return rc;
}

/* ---- the command ------------------------------------------------------------------------------
 */

void cmd_eval_help(struct str *out)
{
    const struct task *t;
    str_puts(out, "Tasks; ruler is all of RULER's:\n");
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
    for (int i = 0; !rc && i < o->n_args; i++)
        if (!task_named(o->args[i], 0))
            rc = err_set(e, ERR_USAGE, "eval %s is not known; known are: %s", o->args[i],
                         str_get(&names));
    str_release(&names);
    if (!rc && o->budget && o->compression)
        rc = err_set(e, ERR_USAGE, "--budget and --compression set the same thing; give one");
    return rc;
}

int cmd_eval(const struct options *o)
{
    struct engine *g = NULL;
    struct str essay = {0}, budgets = {0};
    struct options all;
    struct err e;
    bool has_text = o->file || o->prompt;
    int rc = check_tasks(o, &e);
    if (!rc) rc = options_of_all(o, &all, &budgets, &e);
    if (!rc && has_text) rc = input_text(o, &essay, &e);
    report_catch_interrupt();
    if (!rc) rc = engine_open(&g, &all, NULL, NULL, NULL, &e);
    if (!rc && *g->device_notice) report_note("%s", g->device_notice);
    if (!rc) rc = run_tasks(g, o, has_text ? str_get(&essay) : NULL, &e);
    engine_close(g);
    str_release(&essay);
    str_release(&budgets);
    return rc ? report_error(&e) : 0;
}
