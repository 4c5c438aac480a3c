/* command: runs slash commands (and the keys for them) on the screen. */
#ifndef RETAIN_TUI_CHAT_COMMAND_H
#define RETAIN_TUI_CHAT_COMMAND_H

#include <stdbool.h>
#include <stddef.h>

#include "cli/control/slash.h"

struct app;

/* argument[0, n) is the text after the command. false: it could not be run, and the line stays in
 * the editor. */
bool command_run(struct app *a, enum slash command, const char *argument, size_t n);

#endif
