/* chat_template: turns to prompt text, in the format a model was trained on.
 *
 * The format is the model file's own template, a program in Jinja, run by runtime/template; for
 * files without one, and if the user names it, a row of a table of plain strings. A message is
 * rendered alone: a short conversation takes the place of the earlier turns, so that a turn costs
 * the same in a conversation of any length, and the text already run stays a prefix, to the token.
 * chat_template_rewrites tells whether a template would write earlier turns differently later.
 *
 * Text that the user typed stays an untrusted span, so that typing <|im_end|> does not end the
 * turn. */
#ifndef RETAIN_RUNTIME_TOKEN_CHAT_TEMPLATE_H
#define RETAIN_RUNTIME_TOKEN_CHAT_TEMPLATE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/str.h"
#include "runtime/token/tokenizer.h"

struct cJSON;
struct gguf;

enum chat_role { CHAT_SYSTEM, CHAT_USER, CHAT_ASSISTANT, CHAT_ROLES };

const char *chat_role_name(enum chat_role role);

struct chat_template;

/* The template with this source, n bytes of Jinja; release it with chat_template_close. ERR_FORMAT
 * or ERR_USAGE, with the template's line, when it cannot be run or drops messages. */
int chat_template_open(struct chat_template **out, const char *source, size_t n,
                       const struct tokenizer *t, struct err *e);
void chat_template_close(struct chat_template *c);

/* A row by name ("chatml", "llama3", "llama2", "mistral", "phi3", "zephyr", "retain"); NULL =
 * unknown. Rows are constant and are not closed. */
const struct chat_template *chat_template_named(const char *name);

/* The row most similar to a template's text, or chatml with *guessed = true when none fits. */
const struct chat_template *chat_template_nearest(const char *source, size_t n, bool *guessed);

const char *chat_template_name(const struct chat_template *c); /* "file": the file's own */

/* Chooses the template for a chat: the row `name` (ERR_USAGE if there is none); without a name the
 * file's own template; if that is missing or cannot be run, the most similar row. */
struct chat_choice {
    const struct chat_template *template;
    struct chat_template *own; /* the file's; NULL = the template is a row */
    char notice[512];          /* what the user should know, or "" */
};
int chat_choose(struct chat_choice *out, const char *name, const struct gguf *file,
                const struct tokenizer *t, struct err *e);

/* How the template would change earlier turns when a later one follows, in words; NULL = not at
 * all. Earlier turns stay in the cache as they were run. */
const char *chat_template_rewrites(const struct chat_template *c);

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
    const char *system; /* system text before the first user message, or NULL */
    bool first;         /* the conversation has no message yet: BOS is added if it is wanted */
    int32_t last;       /* the last token of the conversation, -1 = none */
};

/* Appends the message's ids to *out. A user's message closes the assistant's turn before it (an end
 * token that the model generated is not repeated), and opens the next: generation starts directly
 * after. An assistant's has neither end. */
int chat_encode(const struct chat_template *c, const struct tokenizer *t,
                const struct chat_turn *turn, struct tokens *out, struct err *e);

/* Whether this generated token ends the assistant's turn. */
bool chat_ends(const struct chat_template *c, const struct tokenizer *t, int32_t id);

/* The whole conversation as text, for comparison. */
struct chat_message {
    enum chat_role role;
    const char *text;
};
int chat_render(const struct chat_template *c, const struct chat_message *messages, size_t n,
                bool add_generation_prompt, struct str *out, struct err *e);

/* The same, as text and as ids (either may be NULL), of `messages` as in JSON: an array of objects
 * with role and content. A file's own template also sees their other members, and `variables`, an
 * object or NULL. */
int chat_render_json(const struct chat_template *c, const struct tokenizer *t,
                     const struct cJSON *messages, const struct cJSON *variables,
                     bool add_generation_prompt, struct str *text, struct tokens *ids,
                     struct err *e);

#endif
