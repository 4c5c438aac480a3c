/* external: the user's editor, and files saved on request. */
#ifndef RETAIN_CLI_CONTROL_EXTERNAL_H
#define RETAIN_CLI_CONTROL_EXTERNAL_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/str.h"

/* A message from a file: its text, an empty line, and what follows the path ("PATH QUESTION", a
 * path with spaces in quotes). ERR_USAGE without a path; ERR_FAIL, ERR_FORMAT name the file. */
int external_attach(const char *argument, struct str *out, struct err *e);

/* Edits the text with $VISUAL, $EDITOR or vi on the terminal behind `in` and `out`; -1: on standard
 * input and output. ERR_FAIL leaves the text unchanged. secret: the text is in memory
 * meanwhile, and is removed when the editor ends, even if this program was killed. */
int external_edit(struct str *text, bool secret, int in, int out, struct err *e);

/* Writes all n bytes; -1 = failed, see errno. */
int external_write(int fd, const char *text, size_t n);

/* Writes a new file (0600); ERR_FAIL when it already exists. "~/" is the home folder. */
int external_save(const char *path, const char *text, size_t n, struct err *e);

#endif
