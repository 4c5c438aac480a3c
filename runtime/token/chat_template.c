/* The choice of a template, and encoding. */
#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "runtime/model/gguf.h"
#include "runtime/token/chat_parts.h"
#include "runtime/token/thought.h"

#define PLAIN "plain" /* the row for models that only continue text */

const char *chat_template_name(const struct chat_template *c)
{
    return c->name;
}

const char *chat_before(const struct chat_template *c, enum chat_role role, bool with_system)
{
    if (role == CHAT_ASSISTANT) return str_get(&c->before_answer);
    return str_get(with_system ? &c->before_user_system : &c->before_user);
}

bool chat_ends(const struct chat_template *c, const struct tokenizer *t, int32_t id)
{
    return tokenizer_is_end(t, id) || (id >= 0 && id == c->closing);
}

bool chat_ends_with_text(const struct chat_template *c)
{
    return !strcmp(c->name, PLAIN);
}

size_t chat_stop(const char *text, size_t n, bool *ended)
{
    static const char *const roles[] = {"User:", "Assistant:"};
    *ended = false;
    for (size_t i = 0; i < n; i++) {
        size_t from = i;
        while (from < n && text[from] == '\n') from++;
        for (size_t k = 0; from > i && k < sizeof roles / sizeof *roles; k++) {
            size_t length = strlen(roles[k]), left = n - from;
            if (memcmp(text + from, roles[k], left < length ? left : length)) continue;
            *ended = left >= length;
            return i;
        }
    }
    return n;
}

/* ---- choosing -------------------------------------------------------------------------------- */

static void note_fallback(struct chat_choice *c, const char *model, const struct err *why)
{
    const char *name = chat_template_name(c->template), *slash = strrchr(model, '/');
    if (slash) model = slash + 1;
    if (c->is_base)
        snprintf(c->notice, sizeof c->notice,
                 "%s is a base model: it continues text and was not trained to chat", model);
    else if (!why)
        snprintf(c->notice, sizeof c->notice,
                 "%s has no chat template; using %s (--template chooses another)", model, name);
    else
        snprintf(c->notice, sizeof c->notice,
                 "the chat template of %s cannot be run (%.250s); using %s (--template chooses "
                 "another)",
                 model, why->text, name);
}

static void note_oddity(struct chat_choice *c, const char *model)
{
    if (c->template->numbers_turns)
        snprintf(c->notice, sizeof c->notice,
                 "the chat template of %s numbers its turns; every turn after the first is "
                 "written as the second",
                 model);
    else if (c->template->changes_answers)
        snprintf(c->notice, sizeof c->notice,
                 "the chat template of %s changes the text of past answers; they stay as they "
                 "were generated",
                 model);
}

int chat_choose(struct chat_choice *out, const char *name, const char *was, const struct gguf *file,
                const struct tokenizer *t, struct err *e)
{
    struct gguf_str source = {0};
    struct err why = {0};
    *out = (struct chat_choice){0};
    bool has_own = !name && gguf_get_str(file, "tokenizer.chat_template", &source) && source.n > 0;
    out->thoughts = thought_format_find(source.data, source.n, t);
    if (name) return chat_template_named(&out->template, name, t, e);
    if (has_own && !chat_template_open(&out->template, source.data, source.n, t, &why)) {
        note_oddity(out, gguf_name(file));
        return 0;
    }
    const char *nearest = chat_template_nearest(source.data, source.n);
    out->is_base = !has_own && t && tokenizer_special(t, "<|im_start|>") < 0;
    if (out->is_base && was && strcmp(was, PLAIN) != 0 &&
        !chat_template_named(&out->template, was, t, &why)) {
        out->is_base = false;
        return 0;
    }
    int rc = chat_template_named(&out->template, out->is_base ? PLAIN : nearest, t, e);
    if (!rc) note_fallback(out, gguf_name(file), has_own ? &why : NULL);
    return rc;
}

/* ---- parts ----------------------------------------------------------------------------------- */

void chat_parts_add(struct chat_parts *p, const char *text, size_t n, bool trusted)
{
    if (n == 0) return;
    if (p->n == p->cap) {
        p->cap = p->cap ? 2 * p->cap : 16;
        p->spans = memory_grow(p->spans, p->cap, sizeof *p->spans);
    }
    p->spans[p->n++] = (struct tokenizer_span){.text = text, .n = n, .trusted = trusted};
}

static void parts_release(struct chat_parts *p)
{
    free(p->spans);
    template_prompt_release(&p->prompt);
    *p = (struct chat_parts){0};
}

/* ---- encoding -------------------------------------------------------------------------------- */

static bool is_special(const struct tokenizer *t, int32_t id)
{
    size_t n_plain = 1, n = 0;
    if (id < 0) return false;
    tokenizer_bytes(t, id, false, &n_plain);
    tokenizer_bytes(t, id, true, &n);
    return n_plain == 0 && n > 0;
}

/* Whether the text of an answer follows a special token: an SPM vocabulary then wants a space. The
 * tokenizer decides, because some tokens swallow the line break after them. */
static bool opening_is_special(const struct chat_template *c, const struct tokenizer *t)
{
    struct tokenizer_span span = {str_get(&c->opening), c->opening.n, true};
    struct tokens ids = {0};
    bool special = !tokenizer_encode(t, &span, 1, false, &ids, NULL) && ids.n > 0 &&
                   is_special(t, ids.ids[ids.n - 1]);
    tokens_release(&ids);
    return special;
}

static bool wants_prefix(const struct chat_template *c, const struct tokenizer *t,
                         const struct chat_turn *turn)
{
    if (turn->first) return true;
    return turn->role == CHAT_ASSISTANT ? opening_is_special(c, t) : is_special(t, turn->last);
}

/* How many of the first ids the conversation already has: up to the end token, if the model
 * generated it. The tokens after it are encoded together with it, because they may depend on it. */
static size_t ids_to_skip(const struct chat_template *c, const struct tokenizer *t,
                          const struct chat_parts *p, int32_t last)
{
    struct tokens ids = {0};
    size_t n = 0;
    if (!chat_ends(c, t, last) || p->n_close == 0) return 0;
    if (!tokenizer_encode(t, p->spans, p->n_close, false, &ids, NULL))
        for (size_t i = 0; i < ids.n && n == 0; i++)
            if (chat_ends(c, t, ids.ids[i])) n = i + 1;
    tokens_release(&ids);
    return n;
}

/* Adds BOS once, if the template or the vocabulary has it. */
static void push_ids(const struct tokenizer *t, const struct tokens *ids, size_t from, bool first,
                     struct tokens *out)
{
    int32_t bos = tokenizer_bos(t);
    if (first && tokenizer_add_bos(t) && (ids->n == 0 || ids->ids[0] != bos)) tokens_push(out, bos);
    for (size_t i = from; i < ids->n; i++) tokens_push(out, ids->ids[i]);
}

/* The ids of a turn's parts, without those that the conversation already has. */
static int encode_parts(const struct chat_template *c, const struct tokenizer *t,
                        const struct chat_turn *turn, const struct chat_parts *p,
                        struct tokens *out, struct err *e)
{
    struct tokens ids = {0};
    size_t skip = ids_to_skip(c, t, p, turn->last);
    bool prefix = skip == 0 && wants_prefix(c, t, turn);
    int rc = tokenizer_encode(t, p->spans, p->n, prefix, &ids, e);
    if (!rc) push_ids(t, &ids, skip, turn->first, out);
    tokens_release(&ids);
    return rc;
}

int chat_encode(const struct chat_template *c, const struct tokenizer *t,
                const struct chat_turn *turn, struct tokens *out, struct err *e)
{
    struct chat_parts p = {0};
    int rc = chat_program_parts(c, turn, &p, e);
    if (!rc) rc = encode_parts(c, t, turn, &p, out, e);
    parts_release(&p);
    return rc;
}

/* ---- past turns ------------------------------------------------------------------------------ */

void chat_change_release(struct chat_change *c)
{
    tokens_release(&c->again);
}

/* The text of some ids, with a NUL before each special token: typed marks are other text. The same
 * text may be divided into other tokens than the tokenizer's, if a model generated it. */
struct spelling {
    struct str text;
    struct tokens at; /* [n + 1] where each id begins */
};

static void spell(struct spelling *s, const struct tokenizer *t, const int32_t *ids, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        size_t n_bytes;
        const char *bytes = tokenizer_bytes(t, ids[i], true, &n_bytes);
        tokens_push(&s->at, (int32_t)s->text.n);
        if (is_special(t, ids[i])) str_append(&s->text, "", 1);
        str_append(&s->text, bytes, n_bytes);
    }
    tokens_push(&s->at, (int32_t)s->text.n);
}

static void spelling_release(struct spelling *s)
{
    str_release(&s->text);
    tokens_release(&s->at);
}

/* The index of the last id that begins at or before byte `at`. */
static size_t id_at(const struct spelling *s, size_t at)
{
    size_t low = 0, high = s->at.n - 1;
    while (low < high) {
        size_t mid = low + (high - low + 1) / 2;
        if ((size_t)s->at.ids[mid] <= at)
            low = mid;
        else
            high = mid - 1;
    }
    return low;
}

static bool begins_at(const struct spelling *s, size_t at, size_t *index)
{
    *index = id_at(s, at);
    return (size_t)s->at.ids[*index] == at;
}

/* Bytes that both have at the beginning, and at the end. */
static size_t same_begin(const struct str *a, const struct str *b)
{
    size_t n = 0;
    while (n < a->n && n < b->n && a->data[n] == b->data[n]) n++;
    return n;
}

static size_t same_end(const struct str *a, const struct str *b)
{
    size_t n = 0;
    while (n < a->n && n < b->n && a->data[a->n - 1 - n] == b->data[b->n - 1 - n]) n++;
    return n;
}

/* Whether `want` is `had` without some ids in a row: out->from, out->n. */
static bool lacks_part(const struct spelling *had, const struct spelling *want,
                       struct chat_change *out)
{
    size_t begin = same_begin(&had->text, &want->text), end = same_end(&had->text, &want->text);
    if (had->text.n < want->text.n || begin + end < want->text.n) return false;
    size_t gap = had->text.n - want->text.n, last;
    for (size_t i = id_at(had, begin);; i--) {
        size_t at = (size_t)had->at.ids[i];
        if (at + end < want->text.n) return false;
        if (begins_at(had, at + gap, &last)) {
            out->from = i;
            out->n = last - i;
            return true;
        }
        if (i == 0) return false;
    }
}

/* Evicts everything from the first difference on, and runs it again. */
static void run_again(const struct spelling *had, const struct spelling *want,
                      const struct tokens *ids, size_t n_past, struct chat_change *out)
{
    size_t i = id_at(had, same_begin(&had->text, &want->text)), k;
    while (!begins_at(want, (size_t)had->at.ids[i], &k)) i--; /* both begin at 0 */
    out->from = i;
    out->n = n_past - i;
    for (; k < ids->n; k++) tokens_push(&out->again, ids->ids[k]);
}

/* Not if bytes of the answer were no UTF-8 and have been replaced in its text. */
static bool spells_answer(const struct spelling *had, const struct chat_past *past)
{
    return memmem(had->text.data, had->text.n, past->answer, past->n_answer) != NULL;
}

/* now: the past turn as the template writes it. */
static void compare(const struct tokenizer *t, const struct chat_past *past, bool ended,
                    const struct tokens *now, struct chat_change *out)
{
    struct spelling had = {0}, want = {0};
    spell(&had, t, past->ids, past->n_ids - ended);
    spell(&want, t, now->ids, now->n);
    if (spells_answer(&had, past) && !lacks_part(&had, &want, out)) {
        run_again(&had, &want, now, past->n_ids, out);
        if (ended && !out->end) tokens_push(&out->again, past->ids[past->n_ids - 1]);
    }
    spelling_release(&had);
    spelling_release(&want);
}

int chat_rewrite(const struct chat_template *c, const struct tokenizer *t,
                 const struct chat_past *past, struct chat_change *out, struct err *e)
{
    struct chat_parts p = {0};
    struct tokens now = {0};
    int32_t last = past->n_ids ? past->ids[past->n_ids - 1] : -1;
    bool ended = chat_ends(c, t, last);
    int rc = chat_program_past(c, past, &p, e);
    out->end = ended && c->closing >= 0 && last != c->closing;
    if (!rc && p.n) rc = encode_parts(c, t, &past->turn, &p, &now, e);
    if (!rc && now.n) compare(t, past, ended, &now, out);
    tokens_release(&now);
    parts_release(&p);
    return rc;
}

/* ---- a whole conversation -------------------------------------------------------------------- */

static void put_text(const struct chat_parts *p, struct str *out)
{
    for (size_t i = 0; i < p->n; i++) str_append(out, p->spans[i].text, p->spans[i].n);
}

int chat_render_json(const struct chat_template *c, const struct tokenizer *t,
                     const struct cJSON *messages, const struct cJSON *variables,
                     bool add_generation_prompt, struct str *text, struct tokens *ids,
                     struct err *e)
{
    struct chat_parts p = {0};
    struct tokens found = {0};
    if (!cJSON_IsArray(messages)) return err_set(e, ERR_USAGE, "expected an array of messages");
    cJSON *all = variables ? cJSON_Duplicate(variables, true) : cJSON_CreateObject();
    cJSON_AddItemReferenceToObject(all, "messages", (cJSON *)messages);
    struct template_input in = {.variables = all, .add_generation_prompt = add_generation_prompt};
    int rc = chat_program_render(c, &in, &p, e);
    cJSON_Delete(all);
    if (!rc && text) put_text(&p, text);
    if (!rc && ids) rc = tokenizer_encode(t, p.spans, p.n, true, &found, e);
    if (!rc && ids) push_ids(t, &found, 0, true, ids);
    tokens_release(&found);
    parts_release(&p);
    return rc;
}
