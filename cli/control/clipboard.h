/* clipboard: copies text to where the user can paste it: tmux's buffer, the terminal's clipboard
 * (OSC 52), or a file that only its owner can read, unless it is secret. */
#ifndef RETAIN_CLI_CONTROL_CLIPBOARD_H
#define RETAIN_CLI_CONTROL_CLIPBOARD_H

#include <stddef.h>

#include "base/err.h"
#include "base/str.h"

/* secret: if not NULL, no file takes the text; the words end that error. terminal: its descriptor;
 * -1: standard error, if that is a terminal. `how` says where the text was copied to. */
int clipboard_copy(const char *text, size_t n, const char *secret, int terminal, char how[256],
                   struct err *e);

/* The sequence that makes a terminal take the text. */
void clipboard_osc52(const char *text, size_t n, struct str *out);

#endif
