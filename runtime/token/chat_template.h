/* chat_template: turns to prompt text, in the format a model was trained on.
 *
 * The format is recognised from tokenizer.chat_template in the model file and rendered from one
 * table of plain strings; the Jinja in the file is never run. Text that the user typed stays an
 * untrusted span, so that typing <|im_end|> does not end the turn. */
#ifndef RETAIN_RUNTIME_TOKEN_CHAT_TEMPLATE_H
#define RETAIN_RUNTIME_TOKEN_CHAT_TEMPLATE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/str.h"
#include "runtime/token/tokenizer.h"

struct gguf;

enum chat_role { CHAT_SYSTEM, CHAT_USER, CHAT_ASSISTANT, CHAT_ROLES };

const char *chat_role_name(enum chat_role role);

struct chat_template; /* a row of the table */

/* By name ("chatml", "llama3", "llama2", "mistral", "phi3", "zephyr", "retain"); NULL = unknown. */
const struct chat_template *chat_template_named(const char *name);

/* By the file's own template text; chatml with *guessed = true when no row matches. */
const struct chat_template *chat_template_detect(const char *source, size_t n, bool *guessed);
const char *chat_template_name(const struct chat_template *t);

/* The text directly before a message's text of that role; with_system: a system text precedes it in
 * the same message. */
const char *chat_before(const struct chat_template *t, enum chat_role role, bool with_system);

/* Comma-separated names of all rows, for messages. */
const char *chat_template_names(void);

/* Appends to *out the ids of one more message of a conversation.
 *   first       the conversation has no message yet (BOS is added here if the model wants it)
 *   system      system text sent with the first user message, or NULL; formats without a system
 *   role put it in front of the user's text
 * For CHAT_USER the opening of the assistant's turn is included: generation starts right after it.
 * chat_close gives the marks that close an assistant's turn. */
int chat_encode(const struct chat_template *c, const struct tokenizer *t, enum chat_role role,
                const char *text, size_t n, const char *system, bool first, struct tokens *out,
                struct err *e);

/* The ids that close an assistant's turn whose last generated id was `last` (an end token that was
 * already generated is not repeated). */
int chat_close(const struct chat_template *c, const struct tokenizer *t, int32_t last,
               struct tokens *out, struct err *e);

/* The whole conversation as text, for comparison with the template's own output. */
struct chat_message {
    enum chat_role role;
    const char *text;
};
void chat_render(const struct chat_template *c, const struct chat_message *messages, size_t n,
                 bool add_generation_prompt, struct str *out);

#endif
