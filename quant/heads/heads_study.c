#include "quant/heads/heads_study.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/random.h"
#include "base/word.h"
#include "cli/control/secret.h"
#include "cli/options/options.h"
#include "cli/options/paths.h"
#include "cli/print/report.h"
#include "quant/convert/json.h"
#include "quant/heads/heads_data.h"
#include "runtime/forward/engine.h"
#include "runtime/session/session.h"

#define ANSWER_TOKENS 64   /* of a question or an answer, at most */
#define CURIOUS       0.7f /* temperature of questions; answers are greedy */
#define FULL_ROOM     256  /* slots in addition to the passage */
#define WORD_MIN      6    /* bytes */

static const char *const wishes[] = {
    "Ask one question about a name, a number or a place in the text above. Write only the "
    "question.",
    "Ask one question about something that happens in the text above. Write only the question.",
    "Ask one question about a detail at the beginning of the text above. Write only the question.",
    "Ask one question about why something is as it is in the text above. Write only the question.",
};
#define N_WISHES (sizeof wishes / sizeof *wishes)

/* ---- a question and its answer --------------------------------------------------------------- */

struct speech {
    struct str text;
    bool raw;
};

static void take_text(void *ctx, const char *utf8, size_t n)
{
    struct speech *s = ctx;
    str_append(&s->text, utf8, n);
}

/* Without a chat template a line is all that is wanted. */
static bool line_is_over(void *ctx)
{
    const struct speech *s = ctx;
    const char *text = str_get(&s->text);
    return s->raw && strchr(text + strspn(text, " \n"), '\n');
}

/* Keeps the text without the white space around it; one_line: its first line. */
static void trim(struct str *text, bool one_line)
{
    const char *p = str_get(text), *begin = p + strspn(p, " \n\r\t");
    size_t n = one_line ? strcspn(begin, "\n") : strlen(begin);
    while (n && strchr(" \n\r\t", begin[n - 1])) n--;
    struct str out = {0};
    str_append(&out, begin, n);
    str_release(text);
    *text = out;
}

/* The model's answer to one message. */
static int say(const struct heads_study *s, const char *message, float temperature, uint64_t seed,
               struct speech *out, struct err *e)
{
    struct session_opts o = session_opts_default();
    const struct session_sink sink = {.ctx = out, .text = take_text, .stop = line_is_over};
    int n_ctx = s->engine->model->n_ctx, room = s->length + FULL_ROOM;
    struct session *session = NULL;
    enum session_end end;
    o.private_mode = true;
    o.raw = out->raw;
    o.think = CHAT_THINK_OFF;
    o.max_tokens = ANSWER_TOKENS;
    o.sampling.temperature = temperature;
    o.sampling.seed = seed;
    o.plan.policy = policy_choice("full");
    o.plan.policy.context = room < n_ctx ? room : n_ctx;
    o.plan.speculate.off = true;
    str_clear(&out->text);
    int rc = session_open(&session, s->engine, NULL, &o, NULL, e);
    if (!rc) rc = session_say(session, message, strlen(message), &sink, &end, e);
    session_close(session);
    if (!rc) trim(&out->text, out->raw);
    return rc;
}

struct asked {
    struct str document, message;
    struct speech question, answer;
};

/* For a model that asks nothing: a question about one of the passage's longer words. */
static void ask_about_word(const struct heads_study *s, uint64_t passage, struct asked *a)
{
    const char *text = str_get(&a->document);
    const double where = random_at(s->seed, 3, passage) * (double)a->document.n;
    struct word_reader r = {.open = true}; /* the word that it is in is passed over */
    size_t at = (size_t)where, from = 0;
    uint32_t word;
    bool found = word_next(&r, text, a->document.n, &at, &from, &word);
    while (found && at - from < WORD_MIN)
        found = word_next(&r, text, a->document.n, &at, &from, &word);
    str_clear(&a->question.text);
    str_printf(&a->question.text, "What does the text say about %.*s?",
               found ? (int)(at - from) : 0, text + from);
}

/* answer is empty when the model has none. */
static int ask(const struct heads_study *s, int passage, struct asked *a, struct err *e)
{
    const struct heads_data *d = s->passages;
    uint64_t i = (uint64_t)passage;
    size_t at = d->rows[passage];
    struct gguf_str own;
    bool raw = !gguf_get_str(s->engine->model->file, "tokenizer.chat_template", &own);
    a->question.raw = a->answer.raw = raw;
    str_clear(&a->document);
    str_append(&a->document, d->text.data + at, d->rows[passage + 1] - at);
    trim(&a->document, false);
    str_clear(&a->message);
    const char *wish = wishes[(size_t)(random_at(s->seed, 1, i) * N_WISHES)];
    str_printf(&a->message, "%s\n\n%s", str_get(&a->document), raw ? "Question:" : wish);
    uint64_t seed = 1 + (uint64_t)(random_at(s->seed, 2, i) * 0x1p52);
    int rc = say(s, str_get(&a->message), CURIOUS, seed, &a->question, e);
    trim(&a->question.text, true);
    if (rc) return rc;
    if (!strchr(str_get(&a->question.text), '?')) ask_about_word(s, i, a);
    str_clear(&a->message);
    str_printf(&a->message, raw ? "%s\n\nQuestion: %s\nAnswer:" : "%s\n\n%s", str_get(&a->document),
               str_get(&a->question.text));
    return say(s, str_get(&a->message), 0, seed, &a->answer, e);
}

/* ---- the file of rows ------------------------------------------------------------------------ */

static int put_row(FILE *f, cJSON *row, const char *path, struct err *e)
{
    char *line = cJSON_PrintUnformatted(row);
    bool ok = line && fputs(line, f) >= 0 && fputc('\n', f) != EOF && fflush(f) == 0;
    free(line);
    cJSON_Delete(row);
    return ok ? 0 : err_set(e, ERR_FAIL, "%s cannot be written: %m", path);
}

/* The first passage without a row, and the length of the complete rows. */
static int read_begun(const struct heads_study *s, int *next, size_t *n, struct err *e)
{
    struct str text = {0};
    *next = 0;
    *n = 0;
    if (access(s->path, F_OK)) return 0;
    int rc = file_read(s->path, FILE_DATA, &text, e);
    for (const char *end; !rc && (end = memchr(text.data + *n, '\n', text.n - *n));) {
        cJSON *row = NULL;
        int64_t passage, seed;
        size_t length = (size_t)(end - text.data) - *n;
        rc = json_parse(&row, text.data + *n, length, s->path, e);
        const char *model = rc ? NULL : json_text(row, "model");
        if (!rc && (!model || strcmp(model, s->engine->model_digest) ||
                    !json_int(row, "seed", 0, INT64_MAX, &seed) || (uint64_t)seed != s->seed ||
                    !json_int(row, "passage", 0, s->passages->n - 1, &passage)))
            rc = err_set(e, ERR_USAGE,
                         "%s has rows of another model, text or seed; remove it to ask again",
                         s->path);
        cJSON_Delete(row);
        if (rc) break;
        *next = (int)passage + 1;
        *n += length + 1;
    }
    str_release(&text);
    return rc;
}

static int write_asked(const struct heads_study *s, FILE *f, int passage, const struct asked *a,
                       struct err *e)
{
    cJSON *row = cJSON_CreateObject();
    cJSON_AddStringToObject(row, "document", str_get(&a->document));
    cJSON_AddStringToObject(row, "question", str_get(&a->question.text));
    cJSON_AddStringToObject(row, "answer", str_get(&a->answer.text));
    cJSON_AddNumberToObject(row, "passage", passage);
    cJSON_AddNumberToObject(row, "seed", (double)s->seed);
    cJSON_AddStringToObject(row, "model", s->engine->model_digest);
    return put_row(f, row, s->path, e);
}

/* Opens the file behind its first n bytes. No other user may read it: it may hold conversations. */
static int open_rows(const char *path, size_t n, FILE **out, struct err *e)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    *out = fd < 0 ? NULL : fdopen(fd, "wb");
    if (!*out && fd >= 0) close(fd);
    if (*out && !ftruncate(fd, (off_t)n) && !fseek(*out, 0, SEEK_END)) return 0;
    return err_set(e, ERR_FAIL, "%s cannot be written: %m", path);
}

int heads_study_run(const struct heads_study *s, struct err *e)
{
    struct asked a = {0};
    FILE *f = NULL;
    size_t n = 0;
    int next = 0, rc = read_begun(s, &next, &n, e);
    int n_rows = s->n_rows < s->passages->n ? s->n_rows : s->passages->n;
    if (!rc) rc = open_rows(s->path, n, &f, e);
    for (int i = 0; !rc && i < n_rows; i++) {
        int passage = (int)((int64_t)i * s->passages->n / n_rows);
        if (passage < next) continue;
        report_status("self-study: passage %d of %d", i + 1, n_rows);
        rc = ask(s, passage, &a, e);
        if (!rc && a.answer.text.n) rc = write_asked(s, f, passage, &a, e);
        if (!rc && report_interrupted())
            rc = err_set(e, ERR_STOP,
                         "interrupted after passage %d of %d; %s is kept, and the same command "
                         "continues",
                         i + 1, n_rows, s->path);
    }
    report_status_end();
    if (f && fclose(f) && !rc) rc = err_set(e, ERR_FAIL, "%s cannot be written: %m", s->path);
    str_release(&a.document);
    str_release(&a.message);
    str_release(&a.question.text);
    str_release(&a.answer.text);
    return rc;
}

/* ---- conversations --------------------------------------------------------------------------- */

struct talks {
    struct conversations *list;
    FILE *f;
    const char *path;
    struct err *e;
    cJSON *messages; /* of one conversation: user and assistant in turn */
};

/* Messages of one role that follow each other are one. */
static int take_message(void *ctx, const struct conversations_message *m)
{
    struct talks *t = ctx;
    int n = cJSON_GetArraySize(t->messages);
    if (m->role == CHAT_SYSTEM) return 0;
    bool user = m->role == CHAT_USER;
    if (user == (n % 2 == 0)) {
        if (m->n_text) cJSON_AddItemToArray(t->messages, cJSON_CreateString(m->text));
    } else if (n > 0) {
        struct str joined = {0};
        str_printf(&joined, "%s%s%s", cJSON_GetStringValue(cJSON_GetArrayItem(t->messages, n - 1)),
                   user ? "\n\n" : "", m->text);
        cJSON_ReplaceItemInArray(t->messages, n - 1, cJSON_CreateString(str_get(&joined)));
        str_release(&joined);
    }
    return 0;
}

/* The first half of the turns is the document. */
static int write_talk(struct talks *t)
{
    int n_turns = cJSON_GetArraySize(t->messages) / 2, first = n_turns / 2;
    cJSON *row = cJSON_CreateObject(), *all[3];
    static const char *const names[] = {"document", "question", "answer"};
    for (int i = 0; i < 3; i++) all[i] = cJSON_AddArrayToObject(row, names[i]);
    for (int i = 0; i < 2 * n_turns; i++) {
        const char *text = cJSON_GetStringValue(cJSON_GetArrayItem(t->messages, i));
        cJSON_AddItemToArray(all[i < 2 * first ? 0 : 1 + i % 2], cJSON_CreateString(text));
    }
    return put_row(t->f, row, t->path, t->e);
}

static int add_talk(void *ctx, const struct conversations_entry *c)
{
    struct talks *t = ctx;
    t->messages = cJSON_CreateArray();
    int rc = conversations_messages(t->list, c->name, take_message, t, t->e);
    if (!rc && cJSON_GetArraySize(t->messages) >= 4) rc = write_talk(t);
    cJSON_Delete(t->messages);
    return rc;
}

static int write_talks(const struct options *o, const char *path, struct err *e)
{
    struct talks t = {.path = path, .e = e};
    struct str db = {0};
    int rc = path_database(o, &db, e);
    if (!rc) rc = secret_open_reading(&t.list, o, str_get(&db), e);
    if (!rc) rc = open_rows(path, 0, &t.f, e);
    if (!rc) rc = conversations_list(t.list, add_talk, &t, e);
    if (t.f && fclose(t.f) && !rc) rc = err_set(e, ERR_FAIL, "%s cannot be written: %m", path);
    conversations_close(t.list);
    str_release(&db);
    return rc;
}

int heads_study_open(struct heads_data *d, const struct options *o, const char *path, struct err *e)
{
    if (!o->training.from_conversations) return heads_data_open(d, o, e);
    if (o->training.text || o->training.data)
        return err_set(e, ERR_USAGE, "--from-conversations does not go with --text or --data");
    int rc = write_talks(o, path, e);
    return rc ? rc : heads_data_lines(d, path, e);
}
