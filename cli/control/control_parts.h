/* control_parts: functions that several files of cli/control use. */
#ifndef RETAIN_CLI_CONTROL_CONTROL_PARTS_H
#define RETAIN_CLI_CONTROL_CONTROL_PARTS_H

#include <stdio.h>

#include "cli/control/control.h"

static inline void control_name(char out[STORE_NAME_MAX], const char *name)
{
    snprintf(out, STORE_NAME_MAX, "%s", name);
}

/* Appends the choices that retain made when it opened the model and the conversation: one per line,
 * with the reason and the option or the command that changes it. */
void why_lines(const struct options *o, const struct cli_session *parts, struct str *out);

/* "remembered turn 3: My locker code is 48213. and 1 more passage, 0.3 ms". n >= 1. */
void recalled_sentence(const struct session_recalled *r, struct str *out);
/* A line for each passage, or one line that says that there is none. `when`: "came back for …". */
void recalled_lines(const struct session_recalled *r, const char *when, struct str *out);

#endif
