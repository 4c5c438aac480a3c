/* external: the person's own editor, and files they asked for. */
#ifndef RETAIN_TUI_EXTERNAL_H
#define RETAIN_TUI_EXTERNAL_H

#include <stddef.h>

#include "runtime/base/err.h"
#include "runtime/base/str.h"

/* The text through $VISUAL, $EDITOR or vi, on the terminal that is ours (term.h), or on standard
 * input and output. ERR_FAIL leaves the text as it was. */
int external_edit(struct str *text, struct err *e);

/* Writes a new file (0600); ERR_FAIL when there is one already. "~/" is the home folder. */
int external_save(const char *path, const char *text, size_t n, struct err *e);

#endif
