#include "quant/heads/heads_sample.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "quant/convert/json.h"
#include "quant/heads/heads_text.h"
#include "runtime/forward/engine.h"

void heads_sample_release(struct heads_sample *s)
{
    tokens_release(&s->ids);
    free(s->asks);
    heads_data_close(&s->woven);
}

/* ---- a row ----------------------------------------------------------------------------------- */

/* A conversation that is being built. */
struct writer {
    const struct engine *engine;
    struct heads_sample *s;
    bool first;
};

static int write(struct writer *w, enum chat_role role, const char *text, size_t n, struct err *e)
{
    const struct engine *g = w->engine;
    struct tokens *ids = &w->s->ids;
    struct chat_turn turn = {.role = role,
                             .text = text,
                             .n = n,
                             .first = w->first,
                             .last = ids->n ? ids->ids[ids->n - 1] : -1};
    w->first = false;
    return chat_encode(g->template, g->tokenizer, &turn, ids, e);
}

/* Marks the tokens from `from` - 1 on as asking. */
static void ask_from(struct heads_sample *s, size_t from)
{
    if (s->ids.n > s->asks_max) {
        s->asks = memory_grow(s->asks, 2 * s->ids.n, 1);
        memset(s->asks + s->asks_max, 0, 2 * s->ids.n - s->asks_max);
        s->asks_max = 2 * s->ids.n;
    }
    memset(s->asks + from - 1, 1, s->ids.n - from + 1);
}

/* Strings of `v`, which is one or an array of them; -1 when it is neither. */
static int n_texts(const cJSON *v)
{
    const cJSON *item;
    if (cJSON_IsString(v)) return 1;
    if (!cJSON_IsArray(v)) return -1;
    cJSON_ArrayForEach(item, v) if (!cJSON_IsString(item)) return -1;
    return cJSON_GetArraySize(v);
}

static const char *text_at(const cJSON *v, int i)
{
    return cJSON_GetStringValue(cJSON_IsArray(v) ? cJSON_GetArrayItem(v, i) : v);
}

struct row {
    const cJSON *document, *question, *answer;
    int n_document, n_questions;
};

static int read_row(struct row *r, const cJSON *o, const struct heads_data *d, int i, struct err *e)
{
    r->document = json_member(o, "document");
    r->question = json_member(o, "question");
    r->answer = json_member(o, "answer");
    r->n_document = n_texts(r->document);
    r->n_questions = n_texts(r->question);
    bool talk = cJSON_IsArray(r->document);
    if (r->n_document < 1 || (talk && r->n_document % 2) || r->n_questions < 1 ||
        n_texts(r->answer) != r->n_questions)
        return err_set(e, ERR_FORMAT,
                       "%s: row %d is invalid: expected {\"document\": text or an even number of "
                       "messages, \"question\": text, \"answer\": text}",
                       d->name, i + 1);
    return 0;
}

/* Writes at most `n` bytes of the document, followed by the question. */
static int write_document(struct writer *w, const struct row *r, const char *question, size_t n,
                          struct err *e)
{
    struct str text = {0};
    const bool talk = cJSON_IsArray(r->document);
    const char *message = text_at(r->document, 0);
    int rc;
    str_append(&text, message, talk ? strlen(message) : n);
    if (!talk) str_printf(&text, "\n\n%s", question);
    rc = write(w, CHAT_USER, str_get(&text), text.n, e);
    str_release(&text);
    for (int i = 1; !rc && talk && i < r->n_document; i++) {
        message = text_at(r->document, i);
        rc = write(w, i % 2 ? CHAT_ASSISTANT : CHAT_USER, message, strlen(message), e);
    }
    return rc || !talk ? rc : write(w, CHAT_USER, question, strlen(question), e);
}

/* Writes the questions and their answers as long as they fit. A document that leaves no room for
 * the first one is shortened, and the row is written again. */
static int write_answers(struct writer *w, const struct row *r, int n_max, struct err *e)
{
    struct heads_sample *s = w->s;
    size_t n = strlen(text_at(r->document, 0));
    for (int i = 0; i < r->n_questions; i++) {
        const char *question = text_at(r->question, i), *answer = text_at(r->answer, i);
        size_t before = s->ids.n;
        int rc = i > 0 ? write(w, CHAT_USER, question, strlen(question), e)
                       : write_document(w, r, question, n, e);
        size_t from = s->ids.n;
        if (!rc) rc = write(w, CHAT_ASSISTANT, answer, strlen(answer), e);
        if (rc) return rc;
        if ((int)s->ids.n > n_max) {
            n = n * (size_t)n_max / s->ids.n * 15 / 16;
            s->ids.n = before;
            if (i > 0 || cJSON_IsArray(r->document) || n < HEADS_SAMPLE_MIN) return 0;
            w->first = true;
            i--;
            continue;
        }
        if (i == 0) s->n_context = (int)from;
        ask_from(s, from);
    }
    return 0;
}

static int read_line(struct writer *w, const struct heads_data *d, int i, int n_max, struct err *e)
{
    struct row r;
    cJSON *o;
    int rc = json_parse(&o, d->text.data + d->rows[i], d->rows[i + 1] - d->rows[i], d->name, e);
    if (rc) return err_prefix(e, "row %d", i + 1);
    rc = read_row(&r, o, d, i, e);
    if (!rc) rc = write_answers(w, &r, n_max, e);
    cJSON_Delete(o);
    return rc;
}

int heads_sample_read(struct heads_sample *s, const struct heads_data *d, int i, bool held_back,
                      uint64_t seed, const struct engine *g, int n_max, struct err *e)
{
    struct writer w = {.engine = g, .s = s, .first = true};
    int rc = d->plain ? heads_text_weave(&s->woven, d, i, n_max, held_back, seed, e) : 0;
    s->ids.n = 0;
    s->n_context = 0;
    if (s->asks) memset(s->asks, 0, s->asks_max);
    if (!rc) rc = read_line(&w, d->plain ? &s->woven : d, d->plain ? 0 : i, n_max, e);
    if (!rc && s->n_context < HEADS_SAMPLE_MIN) s->ids.n = 0;
    return rc;
}
