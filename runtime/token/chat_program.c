/* chat_program: messages as the template in the model file writes them.
 *
 * The template is run for a short conversation whose last message is the new one; the new part is
 * cut out by the marks that tell which message each byte came from. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runtime/token/chat_parts.h"

/* Put between a system text and the first user's text, for templates that accept no system text. */
#define AFTER_SYSTEM "\n\n"

/* The conversation that takes the place of earlier turns. */
static const struct template_message asked = {"user", "Hi", 2}, answered = {"assistant", "Yes", 3};

static int run(const struct chat_template *c, const struct template_input *given,
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
                  bool generate, struct template_prompt *out, struct err *e)
{
    struct template_input in = {
        .messages = messages, .n_messages = n, .add_generation_prompt = generate};
    return run(c, &in, out, e);
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

static int first_parts(const struct chat_template *c, const struct chat_turn *m,
                       struct chat_parts *p, struct err *e)
{
    struct str joined = {0};
    struct template_message messages[2], *user = messages;
    if (m->system && c->takes_system)
        *user++ = (struct template_message){"system", m->system, strlen(m->system)};
    *user = (struct template_message){"user", m->text, m->n};
    if (m->system && !c->takes_system) {
        str_printf(&joined, "%s" AFTER_SYSTEM, m->system);
        str_append(&joined, m->text, m->n);
        *user = (struct template_message){"user", joined.data, joined.n};
    }
    int rc = render(c, messages, (size_t)(user + 1 - messages), true, &p->prompt, e);
    if (!rc) add_spans(&p->prompt, 0, p->prompt.n, p);
    str_release(&joined);
    return rc;
}

/* The part that begins at the end of the previous answer. */
static int later_parts(const struct chat_template *c, const struct chat_turn *m,
                       struct chat_parts *p, struct err *e)
{
    struct template_message messages[] = {asked, answered, {"user", m->text, m->n}};
    size_t from, end, text, unused;
    int rc = render(c, messages, 3, true, &p->prompt, e);
    if (rc) return rc;
    find(&p->prompt, 1, &from, &end);
    if (find(&p->prompt, 2, &text, &unused)) {
        add_spans(&p->prompt, end, text, p);
        p->n_close = p->n;
        end = text;
    }
    add_spans(&p->prompt, end, p->prompt.n, p);
    return 0;
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
    struct template_message messages[] = {asked, {"assistant", m->text, m->n}, asked};
    struct template_prompt open;
    size_t from, end;
    int rc = render(c, messages, 1, true, &open, e);
    if (!rc) rc = render(c, messages, 3, false, &p->prompt, e);
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
    if (m->role == CHAT_ASSISTANT) return answer_parts(c, m, p, e);
    return m->first ? first_parts(c, m, p, e) : later_parts(c, m, p, e);
}

int chat_program_render(const struct chat_template *c, const struct template_input *in,
                        struct chat_parts *p, struct err *e)
{
    int rc = run(c, in, &p->prompt, e);
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
    int rc = render(c, &asked, 1, true, p, e);
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

/* Prepares a text for messages: line breaks as \n, limited in length. */
static void put_shown(struct str *out, const char *text, size_t n)
{
    size_t most = n < 40 ? n : 40;
    str_puts(out, "\"");
    for (size_t i = 0; i < most; i++) {
        if (text[i] == '\n')
            str_puts(out, "\\n");
        else
            str_append(out, text + i, 1);
    }
    str_puts(out, most < n ? "…\"" : "\"");
}

/* first: the prompt up to the answer; later: the same turn when a later one follows. The answer
 * begins at `from`. */
static void compare_past(struct chat_template *c, const struct template_prompt *first,
                         const struct template_prompt *later, size_t from)
{
    size_t same = 0;
    while (same < first->n && same < later->n && first->text[same] == later->text[same]) same++;
    if (same == first->n) return;
    str_puts(&c->rewrites, "once a turn is over its template writes ");
    put_shown(&c->rewrites, later->text + same, from > same ? from - same : 0);
    str_puts(&c->rewrites, " instead of ");
    put_shown(&c->rewrites, first->text + same, first->n - same);
}

/* Learns from a later message: what closes the answer before it, and whether earlier turns stay
 * unchanged. */
static int learn_later(struct chat_template *c, const struct tokenizer *t,
                       const struct template_prompt *first, struct err *e)
{
    struct template_message messages[] = {asked, answered, asked};
    struct template_prompt p;
    size_t from, end, text, unused;
    int rc = render(c, messages, 3, true, &p, e);
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
        compare_past(c, first, &p, from);
        str_release(&lead);
    }
    template_prompt_release(&p);
    return rc;
}

/* Finds out how the template renders a system message before the first user message. A template
 * that refuses or drops it gets the system text at the start of the user's text. */
static int learn_system(struct chat_template *c, struct err *e)
{
    struct template_message messages[] = {{"system", "Be brief.", 9}, asked, answered, asked};
    struct template_prompt first, later = {0};
    size_t from, end;
    int rc = render(c, messages, 2, true, &first, NULL);
    c->takes_system = !rc && find(&first, 0, &from, &end);
    if (!c->takes_system) str_puts(&c->before_user_system, AFTER_SYSTEM);
    if (c->takes_system && find(&first, 1, &from, &end))
        c->before_user_system = run_before(&first, from);
    rc = c->takes_system ? render(c, messages, 4, true, &later, e) : 0;
    if (c->takes_system && !rc && c->rewrites.n == 0 && find(&later, 2, &from, &end))
        compare_past(c, &first, &later, from);
    template_prompt_release(&first);
    template_prompt_release(&later);
    return rc;
}

static int learn(struct chat_template *c, const struct tokenizer *t, struct err *e)
{
    struct template_prompt first = {0};
    int rc = learn_first(c, &first, e);
    if (!rc) rc = learn_later(c, t, &first, e);
    if (!rc) rc = learn_system(c, e);
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
    str_release(&c->rewrites);
    free(c);
}
