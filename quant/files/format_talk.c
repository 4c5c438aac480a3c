/* Benchmarks whose records are conversations: LongMemEval and LoCoMo. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/utf8.h"
#include "quant/files/formats.h"

/* ---- LongMemEval ----------------------------------------------------------------------------- */

/* A session and its date. */
struct session_entry {
    const char *date;
    const cJSON *turns;
    int place; /* in the file */
};

static int by_date(const void *a, const void *b)
{
    const struct session_entry *x = a, *y = b;
    int order = strcmp(x->date, y->date);
    return order ? order : x->place - y->place;
}

static bool is_turn(const cJSON *turn)
{
    return format_string(turn, "role") && format_string(turn, "content");
}

static int check_session(const struct session_entry *s, struct err *e)
{
    const cJSON *turn;
    cJSON_ArrayForEach(turn, s->turns)
    {
        if (is_turn(turn)) continue;
        return err_set(e, ERR_FORMAT,
                       "session %d of \"haystack_sessions\" is no list of messages with role and "
                       "content",
                       s->place + 1);
    }
    return 0;
}

/* The sessions by date; the caller frees them. */
static int read_sessions(const cJSON *record, struct session_entry **out, int *n, struct err *e)
{
    const cJSON *dates = format_member(record, "haystack_dates");
    const cJSON *sessions = format_member(record, "haystack_sessions");
    *n = cJSON_GetArraySize(sessions);
    *out = NULL;
    if (!cJSON_IsArray(sessions) || !cJSON_IsArray(dates) || *n == 0 ||
        cJSON_GetArraySize(dates) != *n)
        return err_set(e, ERR_FORMAT,
                       "\"haystack_sessions\" and \"haystack_dates\" must be lists of one length");
    *out = memory_new((size_t)*n, sizeof **out);
    const cJSON *date = dates->child, *session = sessions->child;
    int rc = 0;
    for (int i = 0; i < *n && !rc; i++, date = date->next, session = session->next) {
        (*out)[i] = (struct session_entry){date->valuestring, session, i};
        if (!cJSON_IsString(date) || !cJSON_IsArray(session))
            rc = err_set(e, ERR_FORMAT, "session %d has no date, or is no list", i + 1);
        if (!rc) rc = check_session(&(*out)[i], e);
    }
    if (!rc) qsort(*out, (size_t)*n, sizeof **out, by_date);
    return rc;
}

/* A string as Python's json.dumps writes it: ASCII only. */
static void put_json(const char *text, struct str *out)
{
    static const char short_forms[] = "\"\\\b\f\n\r\t", letters[] = "\"\\bfnrt";
    size_t n = strlen(text);
    str_puts(out, "\"");
    for (size_t i = 0; i < n;) {
        int length = utf8_length(text + i, n - i);
        uint32_t c = length > 0 ? utf8_decode(text + i, length) : 0xFFFD;
        const char *form = c < 128 && c ? strchr(short_forms, (int)c) : NULL;
        if (form)
            str_printf(out, "\\%c", letters[form - short_forms]);
        else if (c >= 0x20 && c < 0x7F)
            str_printf(out, "%c", (int)c);
        else if (c < 0x10000)
            str_printf(out, "\\u%04x", (unsigned)c);
        else
            str_printf(out, "\\u%04x\\u%04x", 0xD800 + (unsigned)((c - 0x10000) >> 10),
                       0xDC00 + (unsigned)((c - 0x10000) & 0x3FF));
        i += length > 0 ? (size_t)length : 1;
    }
    str_puts(out, "\"");
}

static void put_history(const struct session_entry *sessions, int n, struct str *out)
{
    for (int i = 0; i < n; i++) {
        const cJSON *turn;
        str_printf(out, "\n### Session %d:\nSession Date: ", i + 1);
        str_puts(out, sessions[i].date);
        str_puts(out, "\nSession Content:\n\n[");
        cJSON_ArrayForEach(turn, sessions[i].turns)
        {
            str_puts(out, turn == sessions[i].turns->child ? "{\"role\": " : ", {\"role\": ");
            put_json(format_string(turn, "role"), out);
            str_puts(out, ", \"content\": ");
            put_json(format_string(turn, "content"), out);
            str_puts(out, "}");
        }
        str_puts(out, "]\n");
    }
}

int longmemeval_field(const cJSON *record, const struct benchmark_task *t, int i, const char *name,
                      struct str *out, struct err *e)
{
    struct session_entry *sessions;
    int n, rc;
    (void)t, (void)i;
    if (strcmp(name, "context") != 0) return 1;
    rc = read_sessions(record, &sessions, &n, e);
    if (!rc) put_history(sessions, n, out);
    free(sessions);
    return rc;
}

/* Messages in turn: two messages of one side in a row are one message; a session of which the first
 * message is the assistant's begins with its date alone. */
static void add_turn(struct item *out, bool assistant, const char *date, const char *content)
{
    struct str text = {0};
    if (date) {
        str_puts(&text, "[");
        str_puts(&text, date);
        str_puts(&text, "] ");
    }
    if (assistant && out->turns.n % 2 == 0) {
        item_strings_add(&out->turns, str_get(&text), text.n);
        str_clear(&text);
    }
    if (!assistant && out->turns.n % 2 == 1) item_strings_add(&out->turns, "", 0);
    str_puts(&text, content);
    item_strings_add(&out->turns, str_get(&text), text.n);
    str_release(&text);
}

int longmemeval_finish(const cJSON *record, const struct benchmark_task *t, int i, struct item *out,
                       struct err *e)
{
    struct session_entry *sessions;
    int n, rc = read_sessions(record, &sessions, &n, e);
    (void)t, (void)i;
    for (int s = 0; !rc && s < n; s++) {
        const cJSON *turn;
        cJSON_ArrayForEach(turn, sessions[s].turns)
        {
            bool assistant = !strcmp(format_string(turn, "role"), "assistant");
            const char *date = turn == sessions[s].turns->child ? sessions[s].date : NULL;
            add_turn(out, assistant, date, format_string(turn, "content"));
        }
    }
    if (!rc && out->turns.n % 2) item_strings_add(&out->turns, "", 0);
    free(sessions);
    if (strstr(str_get(&out->id), "_abs")) out->metric = metric_named("abstention");
    return rc;
}

/* ---- LoCoMo ---------------------------------------------------------------------------------- */

/* Later files have the sessions in a separate field. */
static const cJSON *conversation(const cJSON *record)
{
    const cJSON *inner = format_member(record, "conversation");
    return inner ? inner : record;
}

static const cJSON *question_at(const cJSON *record, int i)
{
    return cJSON_GetArrayItem(format_member(record, "qa"), i);
}

static int category(const cJSON *record, int i)
{
    const cJSON *c = format_member(question_at(record, i), "category");
    return cJSON_IsNumber(c) ? c->valueint : 0;
}

int locomo_count(const cJSON *record, const struct benchmark_task *t)
{
    (void)t;
    return cJSON_GetArraySize(format_member(record, "qa"));
}

enum { SESSIONS_MAX = 50 };

static const cJSON *session_at(const cJSON *talk, int i, const char **date)
{
    struct str name = {0};
    str_printf(&name, "session_%d", i);
    const cJSON *session = format_member(talk, str_get(&name));
    str_puts(&name, "_date_time");
    *date = format_string(talk, str_get(&name));
    str_release(&name);
    return cJSON_GetArraySize(session) ? session : NULL;
}

static int put_session(const cJSON *session, const char *date, struct str *out, struct err *e)
{
    const cJSON *turn;
    str_puts(out, "DATE: ");
    str_puts(out, date ? date : "");
    str_puts(out, "\nCONVERSATION:\n");
    cJSON_ArrayForEach(turn, session)
    {
        const char *speaker = format_string(turn, "speaker"), *text = format_string(turn, "text");
        const char *picture = format_string(turn, "blip_caption");
        if (!speaker || !text)
            return err_set(e, ERR_FORMAT, "a turn of a session has no \"speaker\" or no \"text\"");
        str_puts(out, speaker);
        str_puts(out, " said, \"");
        str_puts(out, text);
        str_puts(out, "\"\n");
        if (!picture || !format_member(turn, "img_url")) continue;
        str_puts(out, "[shares ");
        str_puts(out, picture);
        str_puts(out, "]\n");
    }
    return 0;
}

/* The evaluation adds the empty lines of all sessions at the end. */
static int put_talk(const cJSON *talk, struct str *out, struct err *e)
{
    int n = 0, rc = 0;
    for (int i = 1; !rc && i < SESSIONS_MAX; i++) {
        const char *date;
        const cJSON *session = session_at(talk, i, &date);
        if (!session) continue;
        rc = put_session(session, date, out, e);
        n++;
    }
    if (!rc && !n) rc = err_set(e, ERR_FORMAT, "there is no \"session_1\"");
    for (int i = 0; i < n; i++) str_puts(out, "\n\n");
    return rc;
}

static const char absent[] = "Not mentioned in the conversation";

/* The wrong answer to a question about something that was not said. */
static void put_wrong(const cJSON *q, struct str *out)
{
    if (!format_text(format_member(q, "adversarial_answer"), out))
        format_text(format_member(q, "answer"), out);
}

/* Such a question is a choice, in an order that its number decides. */
static int put_question(const cJSON *record, int i, struct str *out, struct err *e)
{
    const cJSON *q = question_at(record, i);
    const char *text = format_string(q, "question");
    struct str other = {0};
    if (!text || category(record, i) < 1 || category(record, i) > 5)
        return err_set(e, ERR_FORMAT,
                       "question %d of \"qa\" has no \"question\", or no \"category\" from 1 to 5",
                       i + 1);
    str_puts(out, text);
    if (category(record, i) == 2)
        str_puts(out, " Use DATE of CONVERSATION to answer with an approximate date.");
    if (category(record, i) != 5) return 0;
    put_wrong(q, &other);
    str_puts(out, " Select the correct answer: (a) ");
    str_puts(out, i % 2 ? absent : str_get(&other));
    str_puts(out, " (b) ");
    str_puts(out, i % 2 ? str_get(&other) : absent);
    str_puts(out, ". ");
    str_release(&other);
    return 0;
}

int locomo_field(const cJSON *record, const struct benchmark_task *t, int i, const char *name,
                 struct str *out, struct err *e)
{
    const cJSON *talk = conversation(record);
    (void)t;
    if (!strcmp(name, "context")) return put_talk(talk, out, e);
    if (!strcmp(name, "question")) return put_question(record, i, out, e);
    if (!strcmp(name, "task")) {
        str_puts(out, category(record, i) == 5
                          ? "answer the following question."
                          : "write an answer in the form of a short phrase for "
                            "the following question. Answer with exact words "
                            "from the context whenever possible.");
        return 0;
    }
    const char *text = format_string(talk, name);
    if (text) str_puts(out, text);
    return !text;
}

const cJSON *locomo_answer(const cJSON *record, const struct benchmark_task *t, int i)
{
    const cJSON *q = question_at(record, i), *answer = format_member(q, "answer");
    (void)t;
    return answer ? answer : format_member(q, "adversarial_answer");
}

/* The first answer up to the semicolon. */
static void cut_answer(struct item *out)
{
    const char *answer = out->answers.item[0];
    size_t n = strcspn(answer, ";");
    while (n && answer[n - 1] == ' ') n--;
    out->answers.item[0] = strndup(answer, n);
    if (!out->answers.item[0]) out->answers.item[0] = memory_new(1, 1);
    free((char *)(uintptr_t)answer);
}

/* Category 1 has answers that are lists, 3 an explanation behind a semicolon, 5 options. */
int locomo_finish(const cJSON *record, const struct benchmark_task *t, int i, struct item *out,
                  struct err *e)
{
    static const char *const metrics[] = {"f1-stem-lists", "f1-stems", "f1-stems", "f1-stems",
                                          "abstention"};
    int kind = category(record, i);
    (void)t, (void)e;
    out->metric = metric_named(metrics[kind - 1]);
    str_printf(&out->id, "%s%d", out->id.n ? "/" : "", i + 1);
    str_printf(&out->group, "category-%d", kind);
    if (kind == 3) cut_answer(out);
    if (kind == 5) {
        struct str wrong = {0};
        put_wrong(question_at(record, i), &wrong);
        if (i % 2) item_strings_add(&out->classes, absent, strlen(absent));
        item_strings_add(&out->classes, str_get(&wrong), wrong.n);
        if (i % 2 == 0) item_strings_add(&out->classes, absent, strlen(absent));
        str_release(&wrong);
    }
    return 0;
}
