/* recalled: describes to the user the text that recall returned. */
#ifndef RETAIN_CLI_CONTROL_RECALLED_H
#define RETAIN_CLI_CONTROL_RECALLED_H

#include "base/str.h"
#include "runtime/session/session.h"

/* "remembered turn 3: My locker code is 48213. and 1 more passage, 0.3 ms". n >= 1. */
void recalled_sentence(const struct session_recalled *r, struct str *out);

/* A line for each passage, or one line that says that there is none. `when`: "came back for …". */
void recalled_lines(const struct session_recalled *r, const char *when, struct str *out);

#endif
