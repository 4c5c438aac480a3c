/* resume: the model and the settings that a chat opens with.
 *
 * Settings are looked for in this order (enum options_layer): the command line and /set, what was
 * saved with the conversation, the model's own settings (model_settings.h), the configuration file,
 * defaults. A conversation that has another model now keeps what was given for it, but not the
 * budget and the policy that the old model had by itself.
 *
 * A conversation opens the model that it was last open with: its digest, by the registry of models,
 * gives the file. */
#ifndef RETAIN_CLI_CONTROL_RESUME_H
#define RETAIN_CLI_CONTROL_RESUME_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

struct conversations;
struct options;

/* The texts that the options point into. Zero-initialise. */
struct resume {
    struct str model, ran, conversation, path;
    struct str template_was; /* of the conversation with its model; see engine_opts */
    /* not empty: the conversation has another model than o; a sentence about the change */
    struct str change;
};
void resume_release(struct resume *r);

/* Adds to `o`, which has the command line and the configuration file, the layers of its model and
 * of a conversation; name NULL: the latest one. own_model: the conversation's model replaces the
 * one of o. l NULL: a new conversation. ERR_FAIL: its model is not here. */
int resume_options(struct options *o, struct conversations *l, const char *name, bool own_model,
                   struct resume *r, struct err *e);

/* The same with the conversation that the command line names, if it does, and its model, unless
 * that is on the command line, too: then it asks before another model reads the text again. */
int resume_begin(struct options *o, struct resume *r, struct err *e);

/* Tokens of a conversation that a model (NULL = the demo) would read; n_tokens: all of them. */
int64_t resume_cost(struct conversations *l, const char *name, const char *model, int64_t n_tokens);

/* On the screen the demo model gets a budget that is full after a few turns, so that one sees the
 * program's purpose: text that is evicted, and text that comes back. */
void resume_demo(struct options *o);

#endif
