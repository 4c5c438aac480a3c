/* chat_template: turns to prompt text, in the format a model was trained on.
 *
 * The format is the model file's own template, a program in Jinja, run by runtime/template; for
 * files without one, and if the user names it, a program of a table. A message is rendered alone: a
 * short conversation takes the place of the earlier turns, so that a turn costs the same in a
 * conversation of any length. Once a turn is over, many templates write it differently: they leave
 * out its thought, or move the system text. chat_rewrite tells which of its tokens to evict or to
 * run again, so that the model reads what its template says, to the token.
 *
 * Text that the user typed stays an untrusted span, so that typing <|im_end|> does not end the
 * turn. */
#ifndef RETAIN_RUNTIME_TOKEN_CHAT_TEMPLATE_H
#define RETAIN_RUNTIME_TOKEN_CHAT_TEMPLATE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/role.h"
#include "base/str.h"
#include "runtime/token/tokenizer.h"

struct cJSON;
struct gguf;

/* How much the model should think before it answers; AUTO: as its template decides. */
enum chat_think {
    CHAT_THINK_AUTO,
    CHAT_THINK_ON,
    CHAT_THINK_OFF,
    CHAT_THINK_LOW, /* on, with this effort */
    CHAT_THINK_MEDIUM,
    CHAT_THINK_HIGH,
    CHAT_THINKS
};

struct chat_template;
struct thought_format;

/* The template with this source, n bytes of Jinja; release it with chat_template_close. ERR_FORMAT
 * or ERR_USAGE, with the template's line, when it cannot be run or drops messages. */
int chat_template_open(struct chat_template **out, const char *source, size_t n,
                       const struct tokenizer *t, struct err *e);
void chat_template_close(struct chat_template *c);

/* The same of a row of the table, by its name: "chatml", "llama3", … ERR_USAGE: unknown. */
int chat_template_named(struct chat_template **out, const char *name, const struct tokenizer *t,
                        struct err *e);
/* Whether there is such a row; false sets *e. */
bool chat_template_known(const char *name, struct err *e);

/* The name of the row most similar to a template's text; chatml when none is. */
const char *chat_template_nearest(const char *source, size_t n);

const char *chat_template_name(const struct chat_template *c); /* "file": the file's own */

/* Chooses the template for a chat: the row `name` (ERR_USAGE if there is none); without a name the
 * file's own template; if that is missing or cannot be run, the most similar row. was: the row of a
 * conversation that began before files without a template counted as base models, or NULL. */
struct chat_choice {
    struct chat_template *template;        /* the caller closes it */
    const struct thought_format *thoughts; /* how the model marks thoughts; NULL = it has none */
    bool is_base;     /* neither a template nor the marks of one: the model continues text */
    char notice[512]; /* what the user should know, or "" */
};
int chat_choose(struct chat_choice *out, const char *name, const char *was, const struct gguf *file,
                const struct tokenizer *t, struct err *e);

/* Whether the template can ask for this; always true for AUTO. */
bool chat_knows(const struct chat_template *c, enum chat_think think);
/* Adds the variables that ask for it; without them the template decides. */
void chat_think_variables(const struct chat_template *c, enum chat_think think, struct cJSON *out);
/* For a template that does not know it: what happens, as a notice. */
const char *chat_unknown_think(const struct chat_template *c, enum chat_think think);

/* The text directly before a message's text of that role; with_system: of the first message, if it
 * has a system text. */
const char *chat_before(const struct chat_template *c, enum chat_role role, bool with_system);

/* Comma-separated names of all rows, for messages. */
const char *chat_template_names(void);

/* One more message of a conversation. */
struct chat_turn {
    enum chat_role role; /* CHAT_USER or CHAT_ASSISTANT */
    const char *text;
    size_t n;
    const char *system; /* the conversation's system text, or NULL */
    bool first;         /* the conversation has no message yet: BOS is added if it is wanted */
    int32_t last;       /* the last token of the conversation, -1 = none */
    enum chat_think think;
};

/* Appends the message's ids to *out. A user's message closes the assistant's turn before it (an end
 * token that the model generated is not repeated), and opens the next: generation starts directly
 * after. An assistant's has neither end. */
int chat_encode(const struct chat_template *c, const struct tokenizer *t,
                const struct chat_turn *turn, struct tokens *out, struct err *e);

/* A turn that is over, as it was run: its message, then the answer. */
struct chat_past {
    struct chat_turn turn; /* the user's; its `last` is the token before the turn */
    const char *answer, *thought;
    size_t n_answer, n_thought;
    const int32_t *ids; /* [n_ids] of message and answer */
    size_t n_ids;
};

/* What changes once another message follows. Zero-initialise; release `again`. */
struct chat_change {
    size_t from, n;      /* ids to evict; n 0 = none */
    bool end;            /* the last id too: the template ends answers with another token */
    struct tokens again; /* ids to run then; n 0 = none. Everything from `from` on is evicted */
};

/* Compares a past turn with what the template writes for it before a later message. A turn
 * that the template refuses, whose answer it alters, or whose ids do not spell its answer, stays as
 * it was run. */
int chat_rewrite(const struct chat_template *c, const struct tokenizer *t,
                 const struct chat_past *past, struct chat_change *out, struct err *e);

/* Whether turns end with a line that begins with a role instead of with a token. */
bool chat_ends_with_text(const struct chat_template *c);
/* Then: how many bytes of text [n] are before such a line, or before what may become one. *ended:
 * there is one. */
size_t chat_stop(const char *text, size_t n, bool *ended);

/* Whether this generated token ends the assistant's turn. */
bool chat_ends(const struct chat_template *c, const struct tokenizer *t, int32_t id);

struct chat_message {
    enum chat_role role;
    const char *text;
};

/* The whole conversation as text and as ids (either may be NULL). messages: an array of objects
 * with role and content; the template also sees their other members, and `variables`, an object or
 * NULL. */
int chat_render_json(const struct chat_template *c, const struct tokenizer *t,
                     const struct cJSON *messages, const struct cJSON *variables,
                     bool add_generation_prompt, struct str *text, struct tokens *ids,
                     struct err *e);

#endif
