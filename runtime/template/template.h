/* template: the chat template of a model file, a program in Jinja, rendered to a prompt.
 *
 * Gives the same result as transformers with the same template (its sandboxed Jinja environment
 * with trim_blocks, lstrip_blocks, break and continue, its tojson, raise_exception and
 * strftime_now). What no chat template uses is missing: template_open refuses such a tag or
 * operator, template_render such a filter when it is executed. `safe` marks nothing.
 *
 * A template is untrusted data: memory, steps and depth are limited, and a template that exceeds a
 * limit is refused. The prompt records for each byte which message it came from, so that a user who
 * types <|im_end|> does not end the turn. Independent of tokens and models. */
#ifndef RETAIN_RUNTIME_TEMPLATE_TEMPLATE_H
#define RETAIN_RUNTIME_TEMPLATE_TEMPLATE_H

#include <stdbool.h>
#include <stddef.h>
#include <time.h>

#include "base/err.h"

struct cJSON;
struct template;

/* Parses n bytes of Jinja. ERR_FORMAT names the line and the fault. The source may be released. */
int template_open(struct template **out, const char *source, size_t n, struct err *e);
void template_close(struct template *t);

struct template_message {
    const char *role, *text;
    size_t n;            /* bytes of text */
    const char *thought; /* of an assistant's message: reasoning_content and its other names */
    size_t n_thought;
};

struct template_input {
    const struct template_message *messages;
    size_t n_messages;
    bool add_generation_prompt;
    const char *bos, *eos; /* values of bos_token and eos_token; NULL = undefined */
    /* An object whose members are further variables, or NULL. Its `messages` replaces the messages
     * above; its texts, and those of `tools` and `documents`, count as from a message. */
    const struct cJSON *variables;
    struct tm now; /* for strftime_now */
};

struct template_prompt {
    char *text; /* [n], NUL-terminated */
    /* [n], 0 = the template's own byte; else 1 + the index of the byte's message, 255 at most (1
     * for variables) */
    unsigned char *origin;
    size_t n;
};

/* ERR_FORMAT: an error or an exceeded limit; ERR_USAGE: the template refuses the conversation, with
 * its own message. Calls may run concurrently. */
int template_render(const struct template *t, const struct template_input *in,
                    struct template_prompt *out, struct err *e);
void template_prompt_release(struct template_prompt *p);

#endif
