/* clipboard: text to where the person can paste it from: tmux's buffer, the terminal's clipboard
 * (OSC 52), or a file that only its owner can read. */
#ifndef RETAIN_TUI_CLIPBOARD_H
#define RETAIN_TUI_CLIPBOARD_H

#include <stddef.h>

#include "runtime/base/err.h"
#include "runtime/base/str.h"

/* `how` tells where it went. */
int clipboard_copy(const char *text, size_t n, char how[256], struct err *e);

/* The sequence that makes a terminal take the text. */
void clipboard_osc52(const char *text, size_t n, struct str *out);

#endif
