/* fit: makes retaining heads for a model that has none, while the user chats. A child process runs
 * `retain heads fit` at a low priority and writes a file. The child ends with the chat; if the file
 * is not complete then, the next chat with this model begins again. Every engine that is opened
 * later finds the file (engine_opts.heads_dir). */
#ifndef RETAIN_CLI_CONTROL_FIT_H
#define RETAIN_CLI_CONTROL_FIT_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/str.h"

struct engine;
struct options;

struct fit {
    pid_t pid;  /* the child; 0 = none runs */
    bool tried; /* a child was started for the open model */
};

/* Starts the child and appends a sentence about it to *note. Does nothing if the model has heads,
 * if the user wants no heads or another policy, if the chat is private, or the second time. */
void fit_begin(struct fit *f, const struct options *o, const struct engine *g, struct str *note);
/* In a private chat, which starts no child: appends a sentence to *note about whether the model has
 * heads already. */
void fit_tell(const struct options *o, const struct engine *g, struct str *note);
/* Whether the child has ended with a file since the last call. */
bool fit_done(struct fit *f);
/* Kills the child; call before another model is opened. */
void fit_stop(struct fit *f);

#endif
