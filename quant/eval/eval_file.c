#include "quant/eval/eval_file.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "cli/print/report.h"
#include "quant/eval/eval_run.h"
#include "quant/eval/results.h"
#include "quant/files/questions.h"
#include "runtime/cache/policy.h"
#include "runtime/forward/engine.h"
#include "runtime/session/session.h"

bool eval_is_file(const char *argument)
{
    const char *dot = strrchr(argument, '.');
    return strchr(argument, '/') || (dot && (!strcmp(dot, ".json") || !strcmp(dot, ".jsonl")));
}

/* ---- scores ---------------------------------------------------------------------------------- */

static struct eval_group *group_named(struct eval_file_result *r, const char *name)
{
    for (int i = 0; i < r->n_groups; i++)
        if (!strcmp(str_get(&r->groups[i].name), name)) return &r->groups[i];
    r->groups = memory_grow(r->groups, (size_t)r->n_groups + 1, sizeof *r->groups);
    struct eval_group *g = &r->groups[r->n_groups++];
    *g = (struct eval_group){0};
    str_puts(&g->name, name);
    return g;
}

static int by_name(const void *a, const void *b)
{
    const struct eval_group *x = a, *y = b;
    return strcmp(str_get(&x->name), str_get(&y->name));
}

void eval_file_result_release(struct eval_file_result *r)
{
    for (int i = 0; i < r->n_groups; i++) str_release(&r->groups[i].name);
    free(r->groups);
    str_release(&r->task);
    *r = (struct eval_file_result){0};
}

/* ---- asking ---------------------------------------------------------------------------------- */

#define TEMPLATE_ROOM 64   /* tokens that a chat template adds to a message */
#define PIECE_BYTES   1600 /* of a document that is told as turns */

/* One question being asked. */
struct asking {
    const struct eval_file *f;
    const struct item *item;
    struct session *session;
    struct str answer;
    cJSON *recalled;  /* the passages that returned for it */
    int64_t n_tokens; /* of the prompt */
};

/* The result of an answered question. */
struct outcome {
    double score, n_tokens;
    struct eval_cost cost;
};

/* The end of a piece: after the last line, sentence or character that fits. */
static size_t piece_end(const char *text, size_t n)
{
    if (n <= PIECE_BYTES) return n;
    for (size_t i = PIECE_BYTES; i > PIECE_BYTES / 2; i--)
        if (text[i - 1] == '\n') return i;
    for (size_t i = PIECE_BYTES; i > PIECE_BYTES / 2; i--)
        if (text[i - 1] == ' ' && strchr(".!?", text[i - 2])) return i;
    size_t i = PIECE_BYTES;
    while (((unsigned char)text[i] & 0xC0) == 0x80) i--;
    return i;
}

static int tell_context(struct asking *a, struct err *e)
{
    const struct item *it = a->item;
    struct str piece = {0};
    int rc = 0;
    for (int i = 0; !rc && i + 1 < it->turns.n; i += 2)
        rc = eval_tell(a->session, it->turns.item[i], it->turns.item[i + 1], e);
    for (size_t at = 0, n; !rc && !it->turns.n && at < it->context.n; at += n) {
        n = piece_end(it->context.data + at, it->context.n - at);
        str_clear(&piece);
        if (at == 0) str_append(&piece, str_get(&it->before), it->before.n);
        str_append(&piece, it->context.data + at, n);
        rc = eval_tell(a->session, str_get(&piece), "Okay, I have read it.", e);
    }
    str_release(&piece);
    return rc;
}

/* The message with the question: the whole prompt, or the part after the document. */
static void put_message(const struct asking *a, struct str *out)
{
    const struct item *it = a->item;
    if (a->f->as == EVAL_AS_PROMPT) {
        str_append(out, str_get(&it->before), it->before.n);
        str_append(out, str_get(&it->context), it->context.n);
        str_append(out, str_get(&it->after), it->after.n);
    } else {
        const char *text = str_get(&it->after);
        str_puts(out, text + strspn(text, " \n"));
    }
}

static int say(struct asking *a, bool raw, struct err *e)
{
    const struct session_sink k = eval_sink(&a->answer);
    enum session_end end = SESSION_TURN_END;
    struct str message = {0};
    int rc = a->f->as == EVAL_AS_CONVERSATION ? tell_context(a, e) : 0;
    put_message(a, &message);
    if (raw) str_puts(&message, str_get(&a->item->prefix));
    if (!rc) rc = session_say(a->session, str_get(&message), message.n, &k, &end, e);
    if (!rc && end == SESSION_STOPPED) rc = err_set(e, ERR_STOP, "interrupted");
    str_release(&message);
    return rc;
}

static struct session_opts item_opts(const struct asking *a)
{
    const struct eval_file *f = a->f;
    struct session_opts o = *f->session;
    o.private_mode = true;
    o.sampling.temperature = 0;
    o.sampling.repeat_penalty = 1;
    o.raw = o.raw || (a->item->raw && f->as == EVAL_AS_PROMPT);
    if (!o.raw && a->item->prefix.n) o.begin = str_get(&a->item->prefix);
    if (!o.system && a->item->system.n) o.system = str_get(&a->item->system);
    if (!o.max_tokens) o.max_tokens = a->item->n_predict;
    if (f->compression) {
        int64_t budget = a->n_tokens / f->compression;
        o.plan.budget = budget < PLAN_BUDGET_MIN ? PLAN_BUDGET_MIN : (int)budget;
    }
    const struct policy *row = o.plan.policy.row;
    if (o.plan.policy.context < 0 && row && row->scorer == POLICY_KEEP_ALL) {
        /* turns add the template's marks and a reply to each piece */
        int64_t room = f->as == EVAL_AS_PROMPT ? 0 : a->n_tokens / 2;
        int64_t all = a->n_tokens + room + 4 * TEMPLATE_ROOM + o.max_tokens +
                      (o.system ? (int64_t)strlen(o.system) / 2 : 0);
        o.plan.policy.context = all < PLAN_BUDGET_MAX ? (int)all : PLAN_BUDGET_MAX;
    }
    return o;
}

static int ask(struct asking *a, struct outcome *out, struct err *e)
{
    struct session_opts o = item_opts(a);
    int rc = session_open(&a->session, a->f->engine, NULL, &o, NULL, e);
    if (!rc) rc = say(a, o.raw, e);
    if (!rc)
        *out = (struct outcome){metric_score(a->item->metric, str_get(&a->answer),
                                             a->item->answers.item, a->item->answers.n),
                                (double)a->n_tokens, eval_cost_of(a->session)};
    if (!rc) a->recalled = eval_passages(session_recalled(a->session));
    session_close(a->session);
    a->session = NULL;
    return rc;
}

/* ---- lines ----------------------------------------------------------------------------------- */

static cJSON *make_line(const struct item *it, const char *answer, const struct outcome *out)
{
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "id", str_get(&it->id));
    cJSON_AddNumberToObject(o, "line", (double)it->line);
    cJSON_AddStringToObject(o, "group", str_get(&it->group));
    cJSON_AddStringToObject(o, "metric", it->metric->name);
    cJSON_AddNumberToObject(o, "score", out->score);
    cJSON_AddStringToObject(o, "prediction", answer);
    cJSON_AddItemToObject(o, "answers", cJSON_CreateStringArray(it->answers.item, it->answers.n));
    cJSON_AddNumberToObject(o, "n_tokens", out->n_tokens);
    results_put_cost(o, &out->cost);
    return o;
}

/* ---- a file ---------------------------------------------------------------------------------- */

static void count(struct eval_file_result *r, const struct item *it, const struct outcome *o)
{
    double n = (double)r->all.scores.n + 1;
    judge_add(&r->all.scores, o->score);
    if (it->group.n) judge_add(&group_named(r, str_get(&it->group))->scores, o->score);
    r->length += (o->n_tokens - r->length) / n;
    eval_cost_add(&r->cost, o->cost, n);
    r->metric = it->metric->name;
}

static int answer_item(const struct eval_file *f, struct item *it, struct outcome *out,
                       struct err *e)
{
    struct asking a = {.f = f, .item = it};
    int rc = f->length ? item_cut(it, f->engine->tokenizer, f->length, e) : 0;
    if (!rc) rc = item_count(it, f->engine->tokenizer, &a.n_tokens, e);
    if (!rc) rc = ask(&a, out, e);
    if (!rc) {
        cJSON *line = make_line(it, str_get(&a.answer), out);
        cJSON_AddItemToObject(line, "recalled", a.recalled);
        if (f->print) report_json(cJSON_Duplicate(line, true));
        rc = results_add(f->results, f->run, (uint64_t)it->number, line, e);
    }
    str_release(&a.answer);
    return rc;
}

int eval_file_run(const struct eval_file *f, struct eval_file_result *r, struct err *e)
{
    struct questions file;
    struct item item = {0};
    int rc = questions_open(&file, f->path, e);
    if (rc) return rc;
    str_puts(&r->task, str_get(&file.name));
    while ((!f->n_items || r->all.scores.n < f->n_items) &&
           (rc = questions_next(&file, &item, e)) == 1) {
        const cJSON *known = results_find(f->results, f->run, (uint64_t)item.number);
        struct outcome out = {0};
        if (known)
            out = (struct outcome){results_number(known, "score"),
                                   results_number(known, "n_tokens"), results_cost(known)};
        else
            rc = answer_item(f, &item, &out, e);
        if (rc < 0) break;
        count(r, &item, &out);
        rc = 0;
        report_status("%s: %d answered, score %.1f", str_get(&r->task), r->all.scores.n,
                      100 * r->all.scores.mean);
    }
    report_status_end();
    if (r->n_groups) qsort(r->groups, (size_t)r->n_groups, sizeof *r->groups, by_name);
    item_release(&item);
    questions_close(&file);
    return rc < 0 ? rc : 0;
}
