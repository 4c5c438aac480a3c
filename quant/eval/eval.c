/* eval: measures how much a policy remembers. Tasks (task.h) and files (quant/files), policies,
 * budgets or compressions, lengths and cache formats are lists; every combination gives one row. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "cli/commands/commands.h"
#include "cli/commands/input.h"
#include "cli/options/options.h"
#include "cli/options/options_policy.h"
#include "cli/print/report.h"
#include "quant/eval/eval_file.h"
#include "quant/eval/eval_row.h"
#include "quant/eval/eval_run.h"
#include "quant/eval/results.h"
#include "quant/eval/task.h"
#include "quant/files/questions.h"
#include "runtime/cache/policy.h"
#include "runtime/forward/engine.h"
#include "runtime/session/session.h"

/* ---- lists ----------------------------------------------------------------------------------- */

/* What the command is asked to measure: a task, NAME or NAME:key=value,key=value, or a file. */
struct job {
    const char *argument;    /* as the user gave it */
    const struct task *task; /* NULL = a file */
    /* 0 = the task's own: facts to remember; places of a single fact, from the beginning to the
     * end, one row for each */
    int n_facts, n_depths;
};

struct plans {
    struct plan_opts *item;
    size_t n, max;
};

struct sweep {
    struct eval_run trial;
    struct eval_file file; /* path NULL = a task */
    struct results *results;
    const struct job *job;
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
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "task", w->trial.task->name);
    cJSON_AddStringToObject(o, "policy", str_get(&policy));
    cJSON_AddStringToObject(o, "recall", recall_chooser_name(one->recall.chooser));
    cJSON_AddNumberToObject(o, "budget", one->plan.budget);
    cJSON_AddNumberToObject(o, "length", (double)w->trial.length);
    cJSON_AddNumberToObject(o, "seed", (double)a->seed);
    cJSON_AddNumberToObject(o, "number", a->number);
    cJSON_AddStringToObject(o, "question", a->question);
    if (!w->trial.task->forced) cJSON_AddStringToObject(o, "answer", a->answer);
    cJSON_AddItemToObject(o, "values", cJSON_CreateStringArray(a->values, a->n_values));
    cJSON_AddItemToObject(o, "recalled", eval_passages(a->recalled));
    cJSON_AddNumberToObject(o, "recall_ms", a->recalled && a->recalled->n ? a->recalled->ms : 0);
    cJSON_AddNumberToObject(o, "right", a->right);
    if (w->trial.task->forced) cJSON_AddNumberToObject(o, "nats", a->nats);
    report_json(o);
    str_release(&policy);
}

/* With the columns that follow from the settings. */
static void print_row(struct sweep *w, struct eval_row *r)
{
    struct str policy = {0};
    spell_policy(w, &policy);
    r->policy = str_get(&policy);
    r->recall = recall_chooser_name(w->one.recall.chooser);
    r->kv = r->cost.kv;
    r->budget = (int64_t)(r->cost.n_units + 0.5);
    eval_row_print(r, w->options->json, !w->printed);
    w->printed = true;
    str_release(&policy);
}

/* A row for the file, and one for each of its groups. */
static void print_file(struct sweep *w, const struct eval_file_result *out)
{
    struct str task = {0};
    for (int i = -1; i < out->n_groups; i++) {
        const struct eval_group *g = i < 0 ? &out->all : &out->groups[i];
        str_clear(&task);
        str_puts(&task, str_get(&out->task));
        if (i >= 0) str_printf(&task, "/%s", str_get(&g->name));
        struct eval_row r = {.task = str_get(&task),
                             .metric = out->metric,
                             .compression = out->length / out->cost.n_units,
                             .length = (int64_t)(out->length + 0.5),
                             .depth = -1,
                             .seed_count = 1,
                             .accuracy = g->scores.mean,
                             .accuracy_spread = judge_error(&g->scores),
                             .right_count = g->scores.mean * g->scores.n,
                             .question_count = g->scores.n,
                             .cost = out->cost};
        print_row(w, &r);
    }
    str_release(&task);
}

static const char *given(const char *text)
{
    return text ? text : "";
}

/* The combination, as results keeps it: every setting that can change an answer. The caller deletes
 * it. */
static cJSON *describe_run(const struct sweep *w)
{
    const struct engine *g = w->trial.engine;
    const struct plan_opts *p = &w->one.plan;
    const struct text_opts *text = &w->options->text;
    struct str policy = {0};
    cJSON *o = cJSON_CreateObject();
    spell_policy(w, &policy);
    cJSON_AddStringToObject(o, "task", w->job->argument);
    cJSON_AddBoolToObject(o, "conversation", w->file.path && w->file.as == EVAL_AS_CONVERSATION);
    cJSON_AddStringToObject(o, "model", g->model_digest);
    cJSON_AddStringToObject(o, "heads", g->heads_digest);
    cJSON_AddStringToObject(o, "policy", str_get(&policy));
    cJSON_AddStringToObject(o, "keys", p->kv.given ? plan_kv_name(p->kv.k) : "");
    cJSON_AddStringToObject(o, "values", p->kv.given ? plan_kv_name(p->kv.v) : "");
    cJSON_AddStringToObject(o, "recall", recall_chooser_name(w->one.recall.chooser));
    cJSON_AddNumberToObject(o, "budget", w->file.compression ? 0 : p->budget);
    cJSON_AddNumberToObject(o, "compression", (double)w->file.compression);
    cJSON_AddNumberToObject(o, "chunk", p->chunk);
    cJSON_AddStringToObject(o, "template", given(w->options->engine.template_name));
    cJSON_AddStringToObject(o, "text", given(text->files.n ? text->files.item[0] : text->prompt));
    cJSON_AddBoolToObject(o, "raw", w->one.raw);
    cJSON_AddNumberToObject(o, "think", w->one.think);
    cJSON_AddNumberToObject(o, "max_tokens", w->one.max_tokens);
    if (w->file.path) cJSON_AddNumberToObject(o, "seed", (double)w->one.sampling.seed);
    cJSON_AddNumberToObject(o, "length", (double)w->trial.length);
    cJSON_AddNumberToObject(o, "depth", w->file.path ? -1 : w->trial.depth);
    str_release(&policy);
    return o;
}

static int run_file(struct sweep *w, struct err *e)
{
    struct eval_file_result out = {0};
    cJSON *run = describe_run(w);
    w->file.run = run;
    w->file.length = w->trial.length;
    int rc = eval_file_run(&w->file, &out, e);
    if (!rc) print_file(w, &out);
    eval_file_result_release(&out);
    cJSON_Delete(run);
    return rc;
}

#define ANSWER_ROOM   1024 /* tokens after the text */
#define SAMPLE_BUDGET 256

/* Runs depth by depth if the task is a grid or its key depths is given. */
static int run_depths(struct sweep *w, struct err *e)
{
    struct eval_row out;
    if (w->plans) {
        struct plans *p = w->plans;
        p->item = memory_more(p->item, p->n, &p->max, sizeof *p->item);
        p->item[p->n++] = w->one.plan;
        return 0;
    }
    if (w->file.path) return run_file(w, e);
    int n = w->job->n_depths ? w->job->n_depths : w->trial.task->n_depths, rc = 0;
    if (n > 0 && w->trial.task->n_facts != 1)
        return err_set(e, ERR_USAGE, "eval %s has no depths: it hides more than one thing",
                       w->trial.task->name);
    for (int i = 0; !rc && i < (n > 0 ? n : 1); i++) {
        w->trial.depth = n > 1 ? (double)i / (n - 1) : n == 1 ? 0.5 : -1;
        cJSON *run = describe_run(w);
        w->trial.run = run;
        rc = eval_run_once(&w->trial, &out, e);
        if (!rc) print_row(w, &out);
        cJSON_Delete(run);
    }
    return rc;
}

/* The budget of a question from a file follows from the length of that prompt. */
static int run_compression(struct sweep *w, int64_t compression, struct err *e)
{
    if (w->file.path) {
        int64_t about = w->trial.length / compression; /* for the plan that is checked in advance */
        w->file.compression = compression;
        w->one.plan.budget = about < PLAN_BUDGET_MIN ? PLAN_BUDGET_MIN : (int)about;
        int rc = run_depths(w, e);
        w->file.compression = 0;
        return rc;
    }
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

/* Runs all budgets, or compressions, of one length; policy full has no budget: it is run once. */
static int run_sizes(struct sweep *w, struct err *e)
{
    struct policy_choice *c = &w->one.plan.policy;
    const struct options_numbers *budgets = &w->lists.budgets, *parts = &w->lists.compressions;
    bool all = c->row && c->row->scorer == POLICY_KEEP_ALL;
    int64_t context = w->trial.length + ANSWER_ROOM;
    int rc = 0;
    w->context = c->context;
    if (w->context < 0 && (!w->file.path || w->plans) && all)
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

/* Runs all combinations, from the outermost list to the innermost. */
static int run_all(struct sweep *w, struct err *e)
{
    const struct sweep_opts *l = &w->lists;
    struct session_opts *one = &w->one;
    int rc = 0;
    for (int i = 0; !rc && i < l->policies.n; i++)
        for (int k = 0; !rc && k < l->kvs.n; k++)
            for (int r = 0; !rc && r < l->recalls.n; r++)
                for (int n = 0; !rc && n < l->lengths.n; n++) {
                    one->plan.policy = l->policies.item[i];
                    one->plan.kv = l->kvs.item[k];
                    one->recall.chooser = l->recalls.item[r];
                    w->trial.length = l->lengths.item[n];
                    rc = run_sizes(w, e);
                }
    return rc;
}

static void add_default(struct options_numbers *list, int64_t n)
{
    if (!list->n) list->item[list->n++] = n;
}

/* Without --policy: a few to compare. */
static void default_policies(struct options_policies *out, bool has_heads)
{
    static const char *const names[] = {"locret", "keydiff+global", "sink", "random"};
    out->n = 0;
    for (int i = has_heads ? 0 : 1; i < 4; i++) out->item[out->n++] = policy_choice(names[i]);
}

/* file: prompts have the length they have, unless --length limits it. */
static struct sweep_opts with_defaults(const struct options *o, bool has_heads, bool file)
{
    struct sweep_opts s = o->sweep;
    if (!s.policies.n) default_policies(&s.policies, has_heads);
    if (!s.recalls.n) s.recalls.item[s.recalls.n++] = RECALL_OFF;
    if (!s.kvs.n) s.kvs.n = 1; /* as the plan chooses */
    if (!s.compressions.n) add_default(&s.budgets, SAMPLE_BUDGET);
    add_default(&s.lengths, file ? 0 : 2048);
    return s;
}

struct jobs {
    struct job *item;
    int n;
    bool has_file, has_task;
    bool asks_twice;  /* a task does, which only the CPU can */
    int64_t n_tokens; /* of the longest prompt of the files, about */
};

/* The plans of all combinations, so that the device can run each of them. */
static int collect_plans(const struct jobs *jobs, const struct options *o, struct plans *out,
                         struct err *e)
{
    int rc = 0;
    for (int file = 0; !rc && file < 2; file++) {
        struct sweep w = {.one = o->session, .lists = with_defaults(o, false, file), .plans = out};
        if (file) w.file.path = "";
        if (file && !o->sweep.lengths.n) w.lists.lengths.item[0] = jobs->n_tokens;
        if (file ? jobs->has_file : jobs->has_task) rc = run_all(&w, e);
    }
    return rc;
}

static int run_jobs(const struct jobs *jobs, struct engine *g, const struct options *o,
                    const char *essay, struct results *results, struct err *e)
{
    struct sweep w = {.one = o->session, .options = o};
    int rc = 0;
    w.one.sampling.temperature = 0;
    w.one.sampling.repeat_penalty = 1;
    w.trial = (struct eval_run){
        .engine = g,
        .session = &w.one,
        .text = essay,
        .first_seed = o->session.sampling.seed ? o->session.sampling.seed : 1,
        .n_seeds = o->eval.seeds ? o->eval.seeds : 3,
        .results = results,
        .answered = o->eval.answers ? print_answer : NULL,
        .ctx = &w,
    };
    for (int i = 0; !rc && i < jobs->n; i++) {
        const struct job *j = &jobs->item[i];
        w.job = j;
        w.trial.task = j->task;
        w.trial.n_facts = j->n_facts;
        w.lists = with_defaults(o, g->retaining != NULL, !j->task);
        w.file = (struct eval_file){
            .path = j->task ? NULL : j->argument,
            .as = o->eval.as == OPTIONS_AS_CONVERSATION ? EVAL_AS_CONVERSATION : EVAL_AS_PROMPT,
            .n_items = o->eval.items,
            .engine = g,
            .session = &w.one,
            .results = results,
            .print = o->eval.answers,
        };
        if (j->task && !strcmp(j->task->name, "talk"))
            rc = essay ? task_talk_check(essay, e)
                       : err_set(e, ERR_USAGE, "eval talk needs conversations: give -f FILE");
        if (!rc) rc = run_all(&w, e);
    }
    return rc;
}

/* ---- the command ----------------------------------------------------------------------------- */

void cmd_eval_help(struct str *out)
{
    const struct task *t;
    str_puts(out, "Tasks; TASK:key=value sets facts=N (things to remember),\n"
                  "depths=N (places of a single thing, one row each):\n");
    for (int i = 0; (t = task_at(i)); i++) str_printf(out, "  %-16s %s\n", t->name, t->about);
    str_puts(out, "The text is evicted before the questions are known.\n"
                  "A file (.jsonl, .json, or a path with a slash) holds documents, questions and\n"
                  "answers. Metrics of its questions:\n");
    for (int i = 0; metric_at(i); i++)
        str_printf(out, "  %-16s %s\n", metric_at(i)->name, metric_at(i)->about);
}

enum { BYTES_PER_TOKEN = 3 }; /* fewer than texts have, so that memory is not underestimated */

/* "facts=8" */
static int read_key(char *text, struct job *out, struct err *e)
{
    int64_t n = 0;
    char *value = strchr(text, '=');
    if (!value) return err_set(e, ERR_USAGE, "\"%s\": expected key=value after the task", text);
    *value++ = 0;
    const struct {
        const char *key;
        int64_t max;
        int *out;
    } numbers[] = {{"facts", 64, &out->n_facts}, {"depths", 1000, &out->n_depths}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        if (strcmp(text, numbers[i].key)) continue;
        if (!options_size(value, &n) || n < 1 || n > numbers[i].max)
            return err_set(e, ERR_USAGE, "%s=%s: expected a whole number from 1 to %lld", text,
                           value, (long long)numbers[i].max);
        *numbers[i].out = (int)n;
        return 0;
    }
    return err_set(e, ERR_USAGE, "a task has no key %s; known are: facts, depths", text);
}

/* name NULL: none was given. */
static int unknown_task(const char *name, struct err *e)
{
    struct str known = {0};
    task_names(&known);
    int rc = name ? err_set(e, ERR_USAGE,
                            "eval %s is not known; known are: %s; a file ends in .jsonl or .json, "
                            "or has a slash in its path",
                            name, str_get(&known))
                  : err_set(e, ERR_USAGE, "no task and no file given; known tasks are: %s",
                            str_get(&known));
    str_release(&known);
    return rc;
}

static int read_task(const char *text, struct job *out, struct err *e)
{
    char name[32], item[64];
    const char *keys = strchr(text, ':');
    int rc = 0;
    snprintf(name, sizeof name, "%.*s", (int)strcspn(text, ":"), text);
    out->task = task_named(name);
    for (int i = 0; !rc && keys && options_list_item(keys + 1, i, item, sizeof item); i++)
        rc = read_key(item, out, e);
    return rc || out->task ? rc : unknown_task(name, e);
}

/* Each file is read to its end before the model is loaded. */
static int read_job(struct jobs *jobs, const char *argument, struct err *e)
{
    struct questions_size size = {0};
    struct job *j = &jobs->item[jobs->n++];
    const bool is_file = eval_is_file(argument);
    *j = (struct job){.argument = argument};
    int rc = is_file ? questions_check(argument, &size, e) : read_task(argument, j, e);
    const int64_t n = (int64_t)(size.prompt_bytes / BYTES_PER_TOKEN);
    if (n > jobs->n_tokens) jobs->n_tokens = n;
    jobs->has_file |= is_file;
    jobs->has_task |= !is_file;
    jobs->asks_twice |= j->task && j->task->forced;
    return rc;
}

static int read_jobs(struct jobs *jobs, const struct options *o, struct err *e)
{
    int rc = o->n_args ? 0 : unknown_task(NULL, e);
    *jobs = (struct jobs){.n_tokens = SAMPLE_BUDGET};
    jobs->item = memory_new((size_t)o->n_args + 1, sizeof *jobs->item);
    for (int i = 0; !rc && i < o->n_args; i++) rc = read_job(jobs, o->args[i], e);
    if (!rc && o->sweep.budgets.n && o->sweep.compressions.n)
        rc = err_set(e, ERR_USAGE, "--budget and --compression set the same thing; give one");
    /* a task that asks twice runs the model without a conversation, so nothing returns */
    for (int i = 0; !rc && jobs->asks_twice && i < o->sweep.recalls.n; i++)
        if (o->sweep.recalls.item[i] != RECALL_OFF)
            rc = err_set(e, ERR_USAGE,
                         "--recall: the tasks told and told-heldout ask without a "
                         "conversation, so nothing can return; use recall or talk");
    return rc;
}

int cmd_eval(const struct options *o)
{
    struct engine *g = NULL;
    struct str essay = {0};
    struct plans plans = {0};
    struct results *results = NULL;
    struct err e;
    bool has_text = o->text.files.n || o->text.prompt;
    struct engine_opts engine = o->engine;
    struct jobs jobs;
    int rc = read_jobs(&jobs, o, &e);
    if (!rc) rc = collect_plans(&jobs, o, &plans, &e);
    if (!rc && engine.device.kind == ENGINE_DEVICE_AUTO && jobs.asks_twice)
        engine.device.kind = ENGINE_DEVICE_CPU;
    if (!rc && has_text) rc = input_text(o, &essay, &e);
    if (!rc && o->eval.results) rc = results_open(&results, o->eval.results, &e);
    report_catch_interrupt();
    if (!rc) rc = engine_open(&g, &engine, plans.item, (int)plans.n, NULL, NULL, &e);
    if (!rc && *g->device_notice) report_note("%s", g->device_notice);
    if (!rc) rc = run_jobs(&jobs, g, o, has_text ? str_get(&essay) : NULL, results, &e);
    engine_close(g);
    results_close(results);
    str_release(&essay);
    free(plans.item);
    free(jobs.item);
    return rc ? report_error(&e) : 0;
}
