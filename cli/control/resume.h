/* resume: the model and the settings that a chat opens with.
 *
 * The first of these that has a setting decides (enum options_layer): the command line and /set,
 * the conversation, the configuration file, defaults.
 * When a conversation changes its model, it keeps the settings that were given for it. It drops the
 * budget and the policy that came with the old model.
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
    struct str ran, conversation, path;
    struct str template_was; /* of the conversation with its model; see engine_opts */
    /* not empty: the conversation has another model than o; a sentence about the change */
    struct str change;
};
void resume_release(struct resume *r);

/* Adds the settings of a conversation and of its model to `o`, which has the command line and the
 * configuration file. name NULL = the latest conversation, l NULL = a new one. own_model: the
 * conversation's model replaces the model of `o`. ERR_FAIL: there is no file of that model here. */
int resume_options(struct options *o, struct conversations *l, const char *name, bool own_model,
                   struct resume *r, struct err *e);

/* The same for the conversation that the command line opens: a named one, the latest, or a new one.
 * If the command line has another model than it, asks before that model reads the text again. */
int resume_begin(struct options *o, struct resume *r, struct err *e);

/* Tokens of a conversation that a model (NULL = the demo) would read; n_tokens: all of them. */
int64_t resume_cost(struct conversations *l, const char *name, const char *model, int64_t n_tokens);

/* On the screen the demo model gets a budget that is full after a few turns, so that one sees the
 * program's purpose: text that is evicted, and text that comes back. */
void resume_demo(struct options *o);

#endif
