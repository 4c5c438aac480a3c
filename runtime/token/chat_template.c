/* The template is run for a short conversation whose last message is the new one; the new part is
 * cut out by the marks that tell which message each byte came from. */
#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/memory.h"
#include "runtime/model/gguf.h"
#include "runtime/token/chat_parts.h"
#include "runtime/token/thought.h"

#define PLAIN "plain" /* the row for models that only continue text */

/* Put between a system text and the first user's text, for templates that accept no system text. */
#define AFTER_SYSTEM "\n\n"

/* The conversation that takes the place of earlier turns. */
static const struct template_message asked = {.role = "user", .text = "Hi", .n = 2},
                                     answered = {.role = "assistant", .text = "Yes", .n = 3};

int chat_template_run(const struct chat_template *c, const struct template_input *given,
                      struct template_prompt *out, struct err *e)
{
    struct template_input in = *given;
    time_t seconds = time(NULL);
    in.bos = str_get(&c->bos); /* "" where the vocabulary has none */
    in.eos = str_get(&c->eos);
    localtime_r(&seconds, &in.now);
    return template_render(c->program, &in, out, e);
}

static int render(const struct chat_template *c, const struct template_message *messages, size_t n,
                  enum chat_think think, bool generate, struct template_prompt *out, struct err *e)
{
    struct template_input in = {.messages = messages,
                                .n_messages = n,
                                .add_generation_prompt = generate,
                                .variables = chat_think_of(c, think)};
    return chat_template_run(c, &in, out, e);
}

/* The bytes of message i, from its first to its last; false when there are none. */
static bool find(const struct template_prompt *p, size_t i, size_t *from, size_t *end)
{
    const unsigned char *first = memchr(p->origin, (int)i + 1, p->n);
    const unsigned char *last = memrchr(p->origin, (int)i + 1, p->n);
    *from = first ? (size_t)(first - p->origin) : p->n;
    *end = last ? (size_t)(last - p->origin) + 1 : p->n;
    return first;
}

/* ---- parts ----------------------------------------------------------------------------------- */

/* A message as spans of text. */
struct chat_parts {
    struct tokenizer_span *spans;
    size_t n, cap;
    /* spans before this one close the previous assistant's turn and open the user's */
    size_t n_close;
    struct template_prompt prompt; /* the memory that spans point into */
};

static void parts_release(struct chat_parts *p)
{
    free(p->spans);
    template_prompt_release(&p->prompt);
    *p = (struct chat_parts){0};
}

/* Splits a part of the prompt at its marks. */
static void add_spans(struct chat_parts *p, size_t from, size_t end)
{
    for (size_t at = from; at < end; at = from) {
        bool trusted = !p->prompt.origin[at];
        while (from < end && !p->prompt.origin[from] == trusted) from++;
        p->spans = memory_more(p->spans, p->n, &p->cap, sizeof *p->spans);
        p->spans[p->n++] = (struct tokenizer_span){p->prompt.text + at, from - at, trusted};
    }
}

/* ---- messages -------------------------------------------------------------------------------- */

/* A conversation that takes the place of the earlier turns, then a message of the user. */
struct talk {
    struct template_message all[6];
    size_t n, user; /* messages; the user's */
    struct str joined;
};

static void add(struct talk *t, struct template_message m)
{
    t->all[t->n++] = m;
}

static void begin_talk(const struct chat_template *c, const struct chat_turn *m, struct talk *t)
{
    struct template_message user = {.role = "user", .text = m->text, .n = m->n};
    *t = (struct talk){0};
    if (m->system && c->takes_system)
        add(t,
            (struct template_message){.role = "system", .text = m->system, .n = strlen(m->system)});
    if (!m->first) {
        add(t, asked);
        add(t, answered);
    } else if (m->system && !c->takes_system) {
        str_printf(&t->joined, "%s" AFTER_SYSTEM, m->system);
        str_append(&t->joined, m->text, m->n);
        user.text = t->joined.data;
        user.n = t->joined.n;
    }
    t->user = t->n;
    add(t, user);
}

/* The rendered talk from the user's turn on, up to byte `until`. A later turn begins at the end of
 * the previous answer. */
static void add_turn(const struct talk *t, size_t until, struct chat_parts *p)
{
    size_t unused, begin = 0, text;
    if (t->user >= 2) {
        find(&p->prompt, t->user - 1, &unused, &begin);
        if (find(&p->prompt, t->user, &text, &unused)) {
            add_spans(p, begin, text);
            p->n_close = p->n;
            begin = text;
        }
    }
    add_spans(p, begin, until);
}

static int user_parts(const struct chat_template *c, const struct chat_turn *m,
                      struct chat_parts *p, struct err *e)
{
    struct talk t;
    begin_talk(c, m, &t);
    int rc = render(c, t.all, t.n, m->think, true, &p->prompt, e);
    if (!rc) add_turn(&t, p->prompt.n, p);
    str_release(&t.joined);
    return rc;
}

static bool is_blank(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* The last run of bytes of message i, if that is the text without the blanks around it. */
static bool find_text(const struct template_prompt *p, size_t i, const char *text, size_t n,
                      size_t *from, size_t *end)
{
    size_t unused;
    if (!find(p, i, &unused, end)) return false;
    *from = *end;
    while (*from > 0 && p->origin[*from - 1] == p->origin[*end - 1]) --*from;
    while (*from < *end && is_blank(p->text[*from])) ++*from;
    while (*end > *from && is_blank(p->text[*end - 1])) --*end;
    while (n > 0 && is_blank(text[0])) text++, n--;
    while (n > 0 && is_blank(text[n - 1])) n--;
    return n > 0 && *end - *from == n && !memcmp(p->text + *from, text, n);
}

/* The past turn up to the end of its answer's text, as written before a later message; no
 * parts when the template refuses it or alters the answer. */
static int past_parts(const struct chat_template *c, const struct chat_past *past,
                      struct chat_parts *p, struct err *e)
{
    struct talk t;
    size_t from, end;
    begin_talk(c, &past->turn, &t);
    add(&t, (struct template_message){.role = "assistant",
                                      .text = past->answer,
                                      .n = past->n_answer,
                                      .thought = past->thought,
                                      .n_thought = past->n_thought});
    add(&t, asked);
    int rc = render(c, t.all, t.n, past->turn.think, true, &p->prompt, e);
    if (!rc && find_text(&p->prompt, t.user + 1, past->answer, past->n_answer, &from, &end)) {
        add_turn(&t, from, p);
        add_spans(p, from, end);
    }
    str_release(&t.joined);
    return rc == ERR_USAGE ? 0 : rc;
}

static bool begins_with(const struct template_prompt *p, const struct str *s)
{
    return p->n >= s->n && (s->n == 0 || !memcmp(p->text, s->data, s->n));
}

/* The answer's text as the template writes it when a later message follows, with the text between
 * the opening and the answer. */
static int answer_parts(const struct chat_template *c, const struct chat_turn *m,
                        struct chat_parts *p, struct err *e)
{
    struct template_message messages[] = {
        asked, {.role = "assistant", .text = m->text, .n = m->n}, asked};
    struct template_prompt open;
    size_t from, end;
    int rc = render(c, messages, 1, m->think, true, &open, e);
    if (!rc) rc = render(c, messages, 3, m->think, false, &p->prompt, e);
    if (!rc && find(&p->prompt, 1, &from, &end)) {
        struct str opening = {open.text, open.n, 0};
        if (begins_with(&p->prompt, &opening) && open.n <= from) from = open.n;
        add_spans(p, from, end);
    }
    template_prompt_release(&open);
    return rc;
}

/* ---- opening --------------------------------------------------------------------------------- */

static bool is_special(const struct tokenizer *t, int32_t id)
{
    size_t n_plain = 1, n = 0;
    if (id < 0) return false;
    tokenizer_bytes(t, id, false, &n_plain);
    tokenizer_bytes(t, id, true, &n);
    return n_plain == 0 && n > 0;
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

/* The template's own text that ends directly before byte `at`. */
static struct str run_before(const struct template_prompt *p, size_t at)
{
    struct str run = {0};
    size_t from = at;
    while (from > 0 && !p->origin[from - 1]) from--;
    str_append(&run, p->text + from, at - from);
    return run;
}

/* Shortens *a to the common end of both; releases *b. */
static void common_end(struct str *a, struct str *b)
{
    size_t n = same_end(a, b);
    struct str end = {0};
    str_append(&end, str_get(a) + a->n - n, n);
    str_release(a);
    str_release(b);
    *a = end;
}

/* Learns from a first message without a system text, and from the opening of the answer. */
static int learn_first(struct chat_template *c, struct err *e)
{
    struct template_prompt p;
    size_t from, end;
    int rc = render(c, &asked, 1, CHAT_THINK_AUTO, true, &p, e);
    if (rc) return rc;
    if (!find(&p, 0, &from, &end))
        rc = err_set(e, ERR_FORMAT, "the chat template prints nothing of the user's message");
    c->before_user = run_before(&p, from);
    str_append(&c->opening, p.text + end, p.n - end);
    template_prompt_release(&p);
    return rc;
}

/* The token that the template puts after an answer, if it is a single token. */
static int32_t closing_token(const struct tokenizer *t, const struct template_prompt *p,
                             size_t from, size_t end)
{
    struct tokenizer_span close = {p->text + from, end - from, true};
    struct tokens ids = {0};
    int32_t id = -1;
    if (!tokenizer_encode(t, &close, 1, false, &ids, NULL) && ids.n > 0 &&
        is_special(t, ids.ids[0]))
        id = ids.ids[0];
    tokens_release(&ids);
    return id;
}

/* Learns from a later message what closes the answer before it. */
static int learn_later(struct chat_template *c, const struct tokenizer *t, struct err *e)
{
    struct template_message messages[] = {asked, answered, asked};
    struct template_prompt p;
    size_t from, end, text, unused;
    int rc = render(c, messages, 3, CHAT_THINK_AUTO, true, &p, e);
    if (rc) return rc;
    bool answer = find(&p, 1, &from, &end), user = find(&p, 2, &text, &unused);
    if (!answer || !user || text < end) {
        rc = err_set(e, ERR_FORMAT, "the chat template prints nothing of %s",
                     answer ? "a later message" : "earlier answers");
    } else {
        struct str before = run_before(&p, text), lead = run_before(&p, from);
        if (lead.n > c->opening.n &&
            begins_with(&(struct template_prompt){.text = lead.data, .n = lead.n}, &c->opening))
            str_append(&c->before_answer, lead.data + c->opening.n, lead.n - c->opening.n);
        common_end(&c->before_user, &before);
        c->closing = closing_token(t, &p, end, text);
        str_release(&lead);
    }
    template_prompt_release(&p);
    return rc;
}

/* The text that the template writes before the last of n messages. */
static struct str before_last(const struct chat_template *c, size_t n)
{
    const struct template_message messages[] = {asked, answered, asked, answered, asked};
    struct str before = {0};
    struct template_prompt p;
    size_t text, unused;
    if (!render(c, messages, n, CHAT_THINK_AUTO, true, &p, NULL) && find(&p, n - 1, &text, &unused))
        before = run_before(&p, text);
    template_prompt_release(&p);
    return before;
}

static void learn_numbers(struct chat_template *c)
{
    struct str second = before_last(c, 3), third = before_last(c, 5);
    c->numbers_turns =
        second.n != third.n || (third.n > 0 && memcmp(second.data, third.data, third.n) != 0);
    str_release(&second);
    str_release(&third);
}

/* Past answers stay in the cache as they were generated. */
static void learn_answers(struct chat_template *c)
{
    static const char text[] = "Ab & c\n\nd";
    const struct template_message messages[] = {
        asked, {.role = "assistant", .text = text, .n = sizeof text - 1}, asked};
    struct template_prompt p;
    if (!render(c, messages, 3, CHAT_THINK_AUTO, true, &p, NULL))
        c->changes_answers = !strstr(p.text, text);
    template_prompt_release(&p);
}

/* Finds out how the template renders a system message before the first user message. A template
 * that refuses or drops it gets the system text at the start of the user's text. */
static int learn_system(struct chat_template *c, struct err *e)
{
    struct template_message messages[] = {
        {.role = "system", .text = "Be brief.", .n = 9}, asked, answered, asked};
    struct template_prompt first, later = {0};
    size_t from, end;
    int rc = render(c, messages, 2, CHAT_THINK_AUTO, true, &first, NULL);
    c->takes_system = !rc && find(&first, 0, &from, &end);
    if (!c->takes_system) str_puts(&c->before_user_system, AFTER_SYSTEM);
    if (c->takes_system && find(&first, 1, &from, &end))
        c->before_user_system = run_before(&first, from);
    rc = c->takes_system ? render(c, messages, 4, CHAT_THINK_AUTO, true, &later, e) : 0;
    template_prompt_release(&first);
    template_prompt_release(&later);
    return rc;
}

static int learn(struct chat_template *c, const struct tokenizer *t, struct err *e)
{
    int rc = learn_first(c, e);
    if (!rc) rc = learn_later(c, t, e);
    if (!rc) rc = learn_system(c, e);
    if (!rc) learn_numbers(c);
    if (!rc) learn_answers(c);
    if (!rc) chat_think_learn(c);
    return rc;
}

static void take_token(struct str *out, const struct tokenizer *t, int32_t id)
{
    size_t n = 0;
    const char *text = id >= 0 ? tokenizer_bytes(t, id, true, &n) : "";
    if (n > 0) str_append(out, text, n);
}

int chat_template_open(struct chat_template **out, const char *source, size_t n,
                       const struct tokenizer *t, struct err *e)
{
    struct chat_template *c = memory_new(1, sizeof *c);
    *out = NULL;
    c->name = "file";
    c->closing = -1;
    take_token(&c->bos, t, tokenizer_bos(t));
    take_token(&c->eos, t, tokenizer_eos(t));
    int rc = template_open(&c->program, source, n, e);
    if (!rc) rc = learn(c, t, e);
    if (rc) {
        chat_template_close(c);
        return rc;
    }
    *out = c;
    return 0;
}

void chat_template_close(struct chat_template *c)
{
    if (!c) return;
    template_close(c->program);
    str_release(&c->bos);
    str_release(&c->eos);
    str_release(&c->before_user);
    str_release(&c->before_user_system);
    str_release(&c->before_answer);
    str_release(&c->opening);
    for (int i = 0; i < CHAT_THINKS; i++) cJSON_Delete(c->think[i]);
    free(c);
}

/* ---- questions ------------------------------------------------------------------------------- */

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

/* ---- encoding -------------------------------------------------------------------------------- */

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
    int rc =
        turn->role == CHAT_ASSISTANT ? answer_parts(c, turn, &p, e) : user_parts(c, turn, &p, e);
    if (!rc) rc = encode_parts(c, t, turn, &p, out, e);
    parts_release(&p);
    return rc;
}

/* ---- past turns ------------------------------------------------------------------------------ */

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

/* now: the past turn as the template writes it. */
static void compare(const struct tokenizer *t, const struct chat_past *past, bool ended,
                    const struct tokens *now, struct chat_change *out)
{
    struct spelling had = {0}, want = {0};
    spell(&had, t, past->ids, past->n_ids - ended);
    spell(&want, t, now->ids, now->n);
    /* not if bytes of the answer were no UTF-8 and have been replaced in its text */
    const bool spells = memmem(had.text.data, had.text.n, past->answer, past->n_answer);
    if (spells && !lacks_part(&had, &want, out)) {
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
    int rc = past_parts(c, past, &p, e);
    out->end = ended && c->closing >= 0 && last != c->closing;
    if (!rc && p.n) rc = encode_parts(c, t, &past->turn, &p, &now, e);
    if (!rc && now.n) compare(t, past, ended, &now, out);
    tokens_release(&now);
    parts_release(&p);
    return rc;
}

/* ---- a whole conversation -------------------------------------------------------------------- */

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
    int rc = chat_template_run(c, &in, &p.prompt, e);
    cJSON_Delete(all);
    if (!rc) add_spans(&p, 0, p.prompt.n);
    if (!rc && text) str_append(text, p.prompt.text, p.prompt.n);
    if (!rc && ids) rc = tokenizer_encode(t, p.spans, p.n, true, &found, e);
    if (!rc && ids) push_ids(t, &found, 0, true, ids);
    tokens_release(&found);
    parts_release(&p);
    return rc;
}
