#include "quant/files/formats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const cJSON *format_member(const cJSON *o, const char *name)
{
    return cJSON_GetObjectItemCaseSensitive(o, name);
}

const char *format_string(const cJSON *o, const char *name)
{
    const cJSON *node = format_member(o, name);
    return cJSON_IsString(node) ? node->valuestring : NULL;
}

bool format_text(const cJSON *node, struct str *out)
{
    str_clear(out);
    if (cJSON_IsString(node))
        str_puts(out, node->valuestring);
    else if (cJSON_IsBool(node))
        str_puts(out, cJSON_IsTrue(node) ? "True" : "False");
    else if (cJSON_IsNumber(node) && node->valuedouble == floor(node->valuedouble))
        str_printf(out, "%.0f", node->valuedouble);
    else if (cJSON_IsNumber(node))
        str_printf(out, "%.17g", node->valuedouble);
    else
        return false;
    return true;
}

static int missing(struct err *e, const char *name)
{
    return err_set(e, ERR_FORMAT, "there is no text \"%s\"", name);
}

/* ---- InfiniteBench --------------------------------------------------------------------------- */

static int put_option(const cJSON *record, int i, struct str *out, struct err *e)
{
    const cJSON *options = format_member(record, "options");
    const cJSON *option = cJSON_GetArrayItem(options, i);
    if (cJSON_GetArraySize(options) != 4 || !cJSON_IsString(option))
        return err_set(e, ERR_FORMAT, "\"options\" is no list of four texts");
    str_puts(out, option->valuestring);
    return 0;
}

/* The first func_N(N) of the question; its name only, or all of it. */
static int put_call(const char *input, bool whole, struct str *out, struct err *e)
{
    static const char digits[] = "0123456789";
    for (const char *at = strstr(input, "func_"); at; at = strstr(at + 1, "func_")) {
        size_t name = 5 + strspn(at + 5, digits);
        if (name == 5 || at[name] != '(') continue;
        size_t sign = at[name + 1] == '-', n = strspn(at + name + 1 + sign, digits);
        if (!n || at[name + 1 + sign + n] != ')') continue;
        str_append(out, at, whole ? name + 2 + sign + n : name);
        return 0;
    }
    return err_set(e, ERR_FORMAT, "\"input\" has no call such as func_1(2)");
}

/* "What is the largest number in the following list?", from "The largest number of …". */
static int put_target(const char *input, struct str *out, struct err *e)
{
    const char *line = strstr(input, "The "), *end = line, *stop = NULL;
    for (size_t n = line ? strcspn(line, "\n") : 0; end && (end = strstr(end + 1, " of"));)
        if (end < line + n) stop = end;
    if (!stop || stop <= line + 4)
        return err_set(e, ERR_FORMAT, "\"input\" does not say \"The … of\"");
    str_puts(out, "What is the");
    for (const char *s = line + 3; s < stop; s++)
        str_printf(out, "%c", *s >= 'A' && *s <= 'Z' ? *s - 'A' + 'a' : *s);
    str_puts(out, " in the following list?");
    return 0;
}

static int infinite_field(const cJSON *record, const struct benchmark_task *t, int i,
                          const char *name, struct str *out, struct err *e)
{
    const char *input = format_string(record, "input");
    (void)t, (void)i;
    if (name[0] >= 'A' && name[0] <= 'D' && !name[1])
        return put_option(record, name[0] - 'A', out, e);
    if (!input) return 1;
    if (!strcmp(name, "func")) return put_call(input, false, out, e);
    if (!strcmp(name, "func_call")) return put_call(input, true, out, e);
    if (!strcmp(name, "prefix")) return put_target(input, out, e);
    return 1;
}

/* With options, the answers are the right one's text and its letter. */
static int infinite_finish(const cJSON *record, const struct benchmark_task *t, int i,
                           struct item *out, struct err *e)
{
    const cJSON *options = format_member(record, "options");
    (void)i;
    if (strcmp(t->metric, "choice") != 0 && strcmp(t->metric, "function") != 0) return 0;
    const char *right = out->answers.item[0];
    if (out->answers.n == 2 && strlen(out->answers.item[1]) == 1) return 0;
    for (int k = 0; k < cJSON_GetArraySize(options); k++) {
        const cJSON *option = cJSON_GetArrayItem(options, k);
        if (!cJSON_IsString(option) || strcmp(option->valuestring, right) != 0) continue;
        item_strings_add(&out->answers, &"ABCD"[k], 1);
        return 0;
    }
    return err_set(e, ERR_FORMAT, "the answer is none of the options");
}

/* ---- LongBench ------------------------------------------------------------------------------- */

/* LongBench-E reports three lengths; every task has classes or null. */
static int longbench_finish(const cJSON *record, const struct benchmark_task *t, int i,
                            struct item *out, struct err *e)
{
    const cJSON *classes = format_member(record, "all_classes"), *name;
    const cJSON *length = format_member(record, "length");
    (void)i;
    cJSON_ArrayForEach(name, classes) if (cJSON_IsString(name))
        item_strings_add(&out->classes, name->valuestring, strlen(name->valuestring));
    if (!strcmp(t->metric, "class") && !out->classes.n)
        return err_set(e, ERR_FORMAT, "\"all_classes\" is no list of names");
    if (cJSON_IsNumber(length))
        str_puts(&out->group, length->valuedouble < 4000   ? "0-4k"
                              : length->valuedouble < 8000 ? "4-8k"
                                                           : "8k+");
    return 0;
}

static int longbench_v2_field(const cJSON *record, const struct benchmark_task *t, int i,
                              const char *name, struct str *out, struct err *e)
{
    const char *text = format_string(record, name);
    (void)t, (void)i, (void)e;
    if (!text) return 1;
    text += strspn(text, " \t\r\n");
    size_t n = strlen(text);
    while (n && strchr(" \t\r\n", text[n - 1])) n--;
    str_append(out, text, n);
    return 0;
}

/* ---- L-Eval ---------------------------------------------------------------------------------- */

static bool is_science_fiction(const struct benchmark_task *t)
{
    return t && !strcmp(t->name, "sci_fi");
}

/* A record is a document with a list of questions; those that a person or a model must judge have
 * no metric. Science fiction asks each twice, with the document and about the world. */
static int leval_count(const cJSON *record, const struct benchmark_task *t)
{
    const char *how = format_string(record, "evaluation");
    int n = cJSON_GetArraySize(format_member(record, "instructions"));
    if (how && (!strcmp(how, "LLM") || !strcmp(how, "human"))) return 0;
    return is_science_fiction(t) ? 2 * n : n;
}

static int leval_question(const struct benchmark_task *t, int i)
{
    return is_science_fiction(t) ? i / 2 : i;
}

static const cJSON *leval_answer(const cJSON *record, const struct benchmark_task *t, int i)
{
    return cJSON_GetArrayItem(format_member(record, "outputs"), leval_question(t, i));
}

static int leval_field(const cJSON *record, const struct benchmark_task *t, int i, const char *name,
                       struct str *out, struct err *e)
{
    const cJSON *node = NULL;
    struct str answer = {0};
    if (!strcmp(name, "context")) {
        const char *text = format_string(record, "input");
        if (text) str_puts(out, text);
        return text ? 0 : missing(e, "input");
    }
    if (!strcmp(name, "words")) {
        int n = 0;
        format_text(leval_answer(record, t, i), &answer);
        for (const char *s = str_get(&answer); *(s += strspn(s, " \t\r\n")); n++)
            s += strcspn(s, " \t\r\n");
        str_printf(out, "%d", n);
        str_release(&answer);
        return 0;
    }
    if (strcmp(name, "instruction") != 0) return 1;
    node = cJSON_GetArrayItem(format_member(record, "instructions"), leval_question(t, i));
    if (!cJSON_IsString(node))
        return err_set(e, ERR_FORMAT, "\"instructions\" is no list of texts");
    str_puts(out, node->valuestring);
    return 0;
}

/* The second question of a pair: the same about the world, without the document. */
static int ask_fact(const cJSON *record, const struct benchmark_task *t, int i, struct item *out,
                    struct err *e)
{
    static const char told[] = "based on the world described in the document.";
    static const char known[] = "based on the real-world knowledge and facts up until your last "
                                "training";
    struct str question = {0};
    int rc = leval_field(record, t, i, "instruction", &question, e);
    const char *text = str_get(&question), *at = strstr(text, told);
    str_clear(&out->before);
    str_clear(&out->context);
    str_clear(&out->after);
    str_append(&out->after, text, at ? (size_t)(at - text) : strlen(text));
    if (at) {
        str_puts(&out->after, known);
        str_puts(&out->after, at + strlen(told));
    }
    str_puts(&out->after, "Please directly answer without any additional output or explanation. "
                          "\nAnswer:");
    str_clear(&out->prefix);
    out->system = NULL;
    out->metric = metric_named("exam-fact");
    str_release(&question);
    return rc;
}

static int leval_finish(const cJSON *record, const struct benchmark_task *t, int i,
                        struct item *out, struct err *e)
{
    if (!is_science_fiction(t)) return 0;
    if (!strstr(out->answers.item[0], "[fact:"))
        return err_set(e, ERR_FORMAT, "an answer is not of the form \"True [fact: False]\"");
    str_puts(&out->group, i % 2 ? "fact" : "loyalty");
    return i % 2 ? ask_fact(record, t, i, out, e) : 0;
}

/* ---- RULER, a needle, plain ------------------------------------------------------------------ */

/* The question is the last line of the prompt. */
static int ruler_field(const cJSON *record, const struct benchmark_task *t, int i, const char *name,
                       struct str *out, struct err *e)
{
    const char *input = format_string(record, "input");
    (void)t, (void)i;
    if (strcmp(name, "context") != 0 && strcmp(name, "last_line") != 0) return 1;
    if (!input) return missing(e, "input");
    const char *end = strrchr(input, '\n');
    size_t n = end ? (size_t)(end - input) : 0;
    if (*name == 'c')
        str_append(out, input, n);
    else
        str_puts(out, input + n);
    return 0;
}

static int ruler_finish(const cJSON *record, const struct benchmark_task *t, int i,
                        struct item *out, struct err *e)
{
    const char *prefix = format_string(record, "answer_prefix");
    (void)t, (void)i, (void)e;
    str_puts(&out->prefix, prefix ? prefix : "");
    return 0;
}

static const cJSON *niah_answer(const cJSON *record, const struct benchmark_task *t, int i)
{
    const cJSON *answer = format_member(record, "answer");
    (void)t, (void)i;
    return answer ? answer : format_member(record, "needle");
}

/* A separate answer must be in the text; a whole needle is compared by words. */
static int niah_finish(const cJSON *record, const struct benchmark_task *t, int i, struct item *out,
                       struct err *e)
{
    const cJSON *depth = format_member(record, "depth_percent");
    (void)t, (void)i, (void)e;
    if (format_member(record, "answer")) out->metric = metric_named("contains");
    if (cJSON_IsNumber(depth)) str_printf(&out->group, "depth-%.0f", depth->valuedouble);
    return 0;
}

static int plain_options(const cJSON *options, struct item *out, struct err *e)
{
    const cJSON *option;
    int n = 0;
    cJSON_ArrayForEach(option, options)
    {
        if (!cJSON_IsString(option) || n == 26)
            return err_set(e, ERR_FORMAT, "\"options\" is no list of at most 26 texts");
        str_printf(&out->after, "\n%c. ", 'A' + n);
        str_puts(&out->after, option->valuestring);
        item_strings_add(&out->classes, option->valuestring, strlen(option->valuestring));
        bool right = !strcmp(option->valuestring, out->answers.item[0]);
        if (right && out->answers.n == 1)
            item_strings_add(&out->answers, &(char){(char)('A' + n)}, 1);
        n++;
    }
    if (n) out->metric = metric_named("choice");
    return 0;
}

static int plain_finish(const cJSON *record, const struct benchmark_task *t, int i,
                        struct item *out, struct err *e)
{
    const cJSON *metric = format_member(record, "metric");
    const cJSON *max_tokens = format_member(record, "max_tokens");
    int rc = plain_options(format_member(record, "options"), out, e);
    (void)t, (void)i;
    if (rc) return rc;
    if (metric) {
        out->metric = cJSON_IsString(metric) ? metric_named(metric->valuestring) : NULL;
        if (!out->metric) {
            struct str known = {0};
            metric_names(&known);
            rc = err_set(e, ERR_FORMAT, "metric \"%s\" is not known; known are: %s",
                         cJSON_IsString(metric) ? metric->valuestring : "", str_get(&known));
            str_release(&known);
            return rc;
        }
    }
    if (max_tokens && (!cJSON_IsNumber(max_tokens) || !(max_tokens->valuedouble >= 1) ||
                       max_tokens->valuedouble > 1e6))
        return err_set(e, ERR_FORMAT, "\"max_tokens\": expected a number from 1 to 1000000");
    if (max_tokens) out->n_predict = max_tokens->valueint;
    return 0;
}

/* ---- the table ------------------------------------------------------------------------------- */

static const struct benchmark_format table[] = {
    {.name = "longbench",
     .marks = {"context", "answers", "all_classes"},
     .answers = "answers",
     .id = "_id",
     .finish = longbench_finish},
    {.name = "longbench-v2",
     .marks = {"context", "question", "choice_A", "choice_D"},
     .answers = "answer",
     .id = "_id",
     .group = "difficulty",
     .field = longbench_v2_field},
    {.name = "leval",
     .marks = {"instructions", "outputs", "input"},
     .count = leval_count,
     .field = leval_field,
     .answer = leval_answer,
     .finish = leval_finish},
    {.name = "ruler",
     .marks = {"input", "outputs"},
     .answers = "outputs",
     .id = "index",
     .field = ruler_field,
     .finish = ruler_finish},
    {.name = "longmemeval",
     .marks = {"haystack_sessions"},
     .answers = "answer",
     .id = "question_id",
     .group = "question_type",
     .field = longmemeval_field,
     .finish = longmemeval_finish},
    {.name = "locomo",
     .marks = {"qa"},
     .id = "sample_id",
     .count = locomo_count,
     .field = locomo_field,
     .answer = locomo_answer,
     .finish = locomo_finish},
    {.name = "niah",
     .marks = {"context", "needle"},
     .answer = niah_answer,
     .id = "id",
     .finish = niah_finish},
    {.name = "plain",
     .marks = {"context", "question", "answers"},
     .answers = "answers",
     .id = "id",
     .finish = plain_finish},
    {.name = "infinitebench",
     .marks = {"context", "input", "answer"},
     .answers = "answer",
     .id = "id",
     .field = infinite_field,
     .finish = infinite_finish},
};

const struct benchmark_format *format_at(int i)
{
    return i >= 0 && i < (int)(sizeof table / sizeof *table) ? &table[i] : NULL;
}
