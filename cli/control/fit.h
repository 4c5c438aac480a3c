/* fit: retaining heads for a model at its first chat. A child process runs `retain heads fit` at
 * a low priority; it ends with the chat, and the next one with this model begins again. Once
 * the file is there, engines open with it (engine_opts.heads_dir). */
#ifndef RETAIN_CLI_CONTROL_FIT_H
#define RETAIN_CLI_CONTROL_FIT_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/str.h"

struct engine;
struct options;

struct fit {
    pid_t pid;  /* 0 = none runs */
    bool tried; /* for the open model */
};

/* Starts it unless the model has heads, the user wants none or another policy, or the chat is
 * private, and appends a sentence to *note then. */
void fit_begin(struct fit *f, const struct options *o, const struct engine *g, struct str *note);
/* What a private chat does instead. */
void fit_tell(const struct options *o, const struct engine *g, struct str *note);
/* Whether it has just ended with a file. */
bool fit_done(struct fit *f);
void fit_stop(struct fit *f);

#endif
