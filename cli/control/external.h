/* external: the user's editor, and files saved on request. */
#ifndef RETAIN_CLI_CONTROL_EXTERNAL_H
#define RETAIN_CLI_CONTROL_EXTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attached.h"
#include "base/err.h"
#include "base/str.h"

/* A message from "PATH QUESTION": the file (attached.h), then the question; a path with spaces is
 * in quotes. ERR_USAGE without a path; ERR_FAIL, ERR_FORMAT name the file. */
int external_attach(const char *argument, struct str *out, struct err *e);

/* A message as it is sent: the files that its words @PATH name, then the words. @WORD is a word
 * where no file has that name, and an error if it looks like a path; @@ is an @. Code in fences is
 * left alone. */
int external_message(const char *text, size_t n, struct str *out, struct err *e);

/* "notes.txt · 12 KiB · 3,104 tokens"; n_tokens 0 = not known. */
void external_label(const struct attached *f, int64_t n_tokens, bool ascii, struct str *out);

/* Edits the text with $VISUAL, $EDITOR or vi on the terminal behind `in` and `out`; -1: on standard
 * input and output. ERR_FAIL leaves the text unchanged. secret: the text is in memory
 * meanwhile, and is removed when the editor ends, even if this program was killed. */
int external_edit(struct str *text, bool secret, int in, int out, struct err *e);

/* Writes a new file (0600); ERR_FAIL when it already exists. "~/" is the home folder. */
int external_save(const char *path, const char *text, size_t n, struct err *e);

#endif
