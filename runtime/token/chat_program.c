/* chat_program: messages as the template in the model file writes them.
 *
 * The template is run for a short conversation whose last message is the new one; the new part is
 * cut out by the marks that tell which message each byte came from. */
#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runtime/token/chat_parts.h"

/* Put between a system text and the first user's text, for templates that accept no system text. */
#define AFTER_SYSTEM "\n\n"

/* The conversation that takes the place of earlier turns. */
static const struct template_message asked = {.role = "user", .text = "Hi", .n = 2},
                                     answered = {.role = "assistant", .text = "Yes", .n = 3};

int chat_program_run(const struct chat_template *c, const struct template_input *given,
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
    return chat_program_run(c, &in, out, e);
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

/* Splits a part of the prompt at its marks. */
static void add_spans(const struct template_prompt *prompt, size_t from, size_t end,
                      struct chat_parts *p)
{
    for (size_t at = from; at < end; at = from) {
        bool trusted = !prompt->origin[at];
        while (from < end && !prompt->origin[from] == trusted) from++;
        chat_parts_add(p, prompt->text + at, from - at, trusted);
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
            add_spans(&p->prompt, begin, text, p);
            p->n_close = p->n;
            begin = text;
        }
    }
    add_spans(&p->prompt, begin, until, p);
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

int chat_program_past(const struct chat_template *c, const struct chat_past *past,
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
        add_spans(&p->prompt, from, end, p);
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
        add_spans(&p->prompt, from, end, p);
    }
    template_prompt_release(&open);
    return rc;
}

int chat_program_parts(const struct chat_template *c, const struct chat_turn *m,
                       struct chat_parts *p, struct err *e)
{
    return m->role == CHAT_ASSISTANT ? answer_parts(c, m, p, e) : user_parts(c, m, p, e);
}

int chat_program_render(const struct chat_template *c, const struct template_input *in,
                        struct chat_parts *p, struct err *e)
{
    int rc = chat_program_run(c, in, &p->prompt, e);
    if (!rc) add_spans(&p->prompt, 0, p->prompt.n, p);
    return rc;
}

/* ---- opening --------------------------------------------------------------------------------- */

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
    size_t n = 0;
    while (n < a->n && n < b->n && a->data[a->n - 1 - n] == b->data[b->n - 1 - n]) n++;
    struct str end = {0};
    str_append(&end, str_get(a) + a->n - n, n);
    str_release(a);
    str_release(b);
    *a = end;
}

static int fail_dropped(struct err *e, const char *what)
{
    return err_set(e, ERR_FORMAT, "the chat template prints nothing of %s", what);
}

/* Learns from a first message without a system text, and from the opening of the answer. */
static int learn_first(struct chat_template *c, struct template_prompt *p, struct err *e)
{
    size_t from, end;
    int rc = render(c, &asked, 1, CHAT_THINK_AUTO, true, p, e);
    if (rc) return rc;
    if (!find(p, 0, &from, &end)) return fail_dropped(e, "the user's message");
    c->before_user = run_before(p, from);
    str_append(&c->opening, p->text + end, p->n - end);
    return 0;
}

/* The token that the template puts after an answer, if it is a single token. */
static int32_t closing_token(const struct tokenizer *t, const struct template_prompt *p,
                             size_t from, size_t end, struct err *e)
{
    struct tokenizer_span close = {p->text + from, end - from, true};
    struct tokens ids = {0};
    size_t n_plain = 1, n = 0;
    int32_t id = -1;
    if (!tokenizer_encode(t, &close, 1, false, &ids, e) && ids.n > 0) {
        tokenizer_bytes(t, ids.ids[0], false, &n_plain);
        tokenizer_bytes(t, ids.ids[0], true, &n);
        if (n_plain == 0 && n > 0) id = ids.ids[0];
    }
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
        rc = fail_dropped(e, answer ? "a later message" : "earlier answers");
    } else {
        struct str before = run_before(&p, text), lead = run_before(&p, from);
        if (lead.n > c->opening.n &&
            begins_with(&(struct template_prompt){.text = lead.data, .n = lead.n}, &c->opening))
            str_append(&c->before_answer, lead.data + c->opening.n, lead.n - c->opening.n);
        common_end(&c->before_user, &before);
        c->closing = closing_token(t, &p, end, text, e);
        str_release(&lead);
    }
    template_prompt_release(&p);
    return rc;
}

/* The text that the template writes in front of the last of n messages. */
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
    struct template_prompt first = {0};
    int rc = learn_first(c, &first, e);
    if (!rc) rc = learn_later(c, t, e);
    if (!rc) rc = learn_system(c, e);
    if (!rc) learn_numbers(c);
    if (!rc) learn_answers(c);
    if (!rc) chat_think_learn(c);
    template_prompt_release(&first);
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
    struct chat_template *c = calloc(1, sizeof *c);
    *out = NULL;
    if (!c) return err_set(e, ERR_FIT, "no memory for the chat template");
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
