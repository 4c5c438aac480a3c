#include "quant/files/questions.h"

#include <math.h>
#include <string.h>

enum { TOKENS = 64 }; /* of an answer */

int questions_open(struct questions *q, const char *path, struct err *e)
{
    *q = (struct questions){0};
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    str_append(&q->name, name, strcspn(name, "."));
    int rc = records_open(&q->records, path, e);
    if (rc) questions_close(q);
    return rc;
}

void questions_close(struct questions *q)
{
    records_close(&q->records);
    str_release(&q->name);
    *q = (struct questions){0};
}

/* ---- fields ---------------------------------------------------------------------------------- */

static const cJSON *member(const cJSON *o, const char *name)
{
    return cJSON_GetObjectItemCaseSensitive(o, name);
}

/* A string or a number as text; false: it is neither. */
static bool put_text(const cJSON *node, struct str *out)
{
    if (cJSON_IsString(node))
        str_puts(out, node->valuestring);
    else if (cJSON_IsNumber(node) && fabs(node->valuedouble) < 1e15)
        str_printf(out, "%.15g", node->valuedouble);
    else
        return false;
    return true;
}

/* Texts that may be missing. */
static int put_texts(const cJSON *record, struct item *out, struct err *e)
{
    const struct {
        const char *name;
        struct str *to;
    } fields[] = {{"id", &out->id},           {"group", &out->group},   {"before", &out->before},
                  {"context", &out->context}, {"prefix", &out->prefix}, {"system", &out->system}};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        const cJSON *node = member(record, fields[i].name);
        if (node && !cJSON_IsNull(node) && !put_text(node, fields[i].to))
            return err_set(e, ERR_FORMAT, "\"%s\": expected a text", fields[i].name);
    }
    return 0;
}

/* The document as messages; without a template they follow each other. */
static int put_turns(const cJSON *turns, struct item *out, struct err *e)
{
    const cJSON *turn;
    if (!turns) return 0;
    if (!cJSON_IsArray(turns) || out->context.n)
        return err_set(e, ERR_FORMAT, "\"turns\": expected a list of texts instead of a context");
    cJSON_ArrayForEach(turn, turns)
    {
        if (!cJSON_IsString(turn))
            return err_set(e, ERR_FORMAT, "\"turns\": expected a list of texts");
        item_strings_add(&out->turns, turn->valuestring, strlen(turn->valuestring));
        str_printf(&out->context, "%s\n", turn->valuestring);
    }
    if (out->turns.n % 2) item_strings_add(&out->turns, "", 0);
    return 0;
}

/* An empty line separates it from the document, unless it begins with white space. */
static int put_question(const cJSON *node, struct item *out, struct err *e)
{
    const char *text = cJSON_IsString(node) ? node->valuestring : NULL;
    if (!text) return err_set(e, ERR_FORMAT, "there is no text \"question\"");
    if (out->context.n && *text != ' ' && *text != '\n') str_puts(&out->after, "\n\n");
    str_puts(&out->after, text);
    return 0;
}

static int add_answer(const cJSON *node, struct item *out, struct err *e)
{
    struct str text = {0};
    int rc = 0;
    if (!put_text(node, &text))
        rc = err_set(e, ERR_FORMAT, "an answer is no text and no number");
    else if (text.n > ITEM_ANSWER_BYTES_MAX)
        rc = err_set(e, ERR_FORMAT, "an answer has %zu bytes; at most %d are compared", text.n,
                     ITEM_ANSWER_BYTES_MAX);
    else
        item_strings_add(&out->answers, str_get(&text), text.n);
    str_release(&text);
    return rc;
}

static int put_answers(const cJSON *node, struct item *out, struct err *e)
{
    const cJSON *answer;
    int rc = 0;
    if (!node) return err_set(e, ERR_FORMAT, "there is no field \"answers\"");
    if (!cJSON_IsArray(node)) return add_answer(node, out, e);
    cJSON_ArrayForEach(answer, node) if (!rc) rc = add_answer(answer, out, e);
    if (!rc && !out->answers.n) rc = err_set(e, ERR_FORMAT, "the list of answers is empty");
    return rc;
}

static int read_metric(const cJSON *node, struct item *out, struct err *e)
{
    const char *name = !node ? "contains" : cJSON_IsString(node) ? node->valuestring : "";
    out->metric = metric_named(name);
    if (out->metric) return 0;
    struct str known = {0};
    metric_names(&known);
    int rc =
        err_set(e, ERR_FORMAT, "metric \"%s\" is not known; known are: %s", name, str_get(&known));
    str_release(&known);
    return rc;
}

static int read_settings(const cJSON *record, struct item *out, struct err *e)
{
    const cJSON *max = member(record, "max_tokens");
    if (member(record, "options"))
        return err_set(
            e, ERR_FORMAT,
            "\"options\" is no field of a question; write the choices into \"question\"");
    if (max && !(cJSON_IsNumber(max) && max->valuedouble >= 1 && max->valuedouble <= 1e6))
        return err_set(e, ERR_FORMAT, "\"max_tokens\": expected a number from 1 to 1000000");
    out->n_predict = max ? max->valueint : TOKENS;
    out->raw = cJSON_IsTrue(member(record, "raw"));
    return read_metric(member(record, "metric"), out, e);
}

static int fill(const cJSON *record, struct item *out, struct err *e)
{
    int rc = put_texts(record, out, e);
    if (!rc) rc = put_turns(member(record, "turns"), out, e);
    if (!rc && !out->turns.n && !member(record, "context"))
        rc = err_set(e, ERR_FORMAT, "there is no field \"context\" and no \"turns\"");
    if (!rc) rc = put_question(member(record, "question"), out, e);
    if (!rc) rc = put_answers(member(record, "answers"), out, e);
    return rc ? rc : read_settings(record, out, e);
}

/* ---- items ----------------------------------------------------------------------------------- */

int questions_next(struct questions *q, struct item *out, struct err *e)
{
    cJSON *record;
    item_release(out);
    int rc = records_next(&q->records, &record, e);
    if (rc <= 0) return rc;
    out->line = q->records.line;
    out->number = ++q->number;
    rc = fill(record, out, e);
    cJSON_Delete(record);
    return rc ? err_prefix(e, "%s:%lld", q->records.path, (long long)out->line) : 1;
}

int questions_check(const char *path, struct questions_size *out, struct err *e)
{
    struct questions q;
    struct item item = {0};
    int rc = questions_open(&q, path, e);
    *out = (struct questions_size){0};
    if (rc) return rc;
    while ((rc = questions_next(&q, &item, e)) == 1) {
        size_t bytes = item.before.n + item.context.n + item.after.n;
        if (bytes > out->prompt_bytes) out->prompt_bytes = bytes;
        out->n_items++;
    }
    if (!rc && !out->n_items)
        rc = err_set(e, ERR_FORMAT, "%s: there is no JSON object in it", path);
    item_release(&item);
    questions_close(&q);
    return rc;
}
