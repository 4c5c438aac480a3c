/* record: the screen's output and the typed input, as an asciicast (version 2): a header and one
 * JSON array per line, [seconds, "o" output | "i" input | "r" size, text]. Made from the grid, not
 * from the terminal's bytes, so it looks the same on every machine. */
#ifndef RETAIN_TUI_TERM_RECORD_H
#define RETAIN_TUI_TERM_RECORD_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/str.h"
#include "tui/term/grid.h"

struct record;

/* Creates the file with access for its owner only, like all files that hold conversations. */
int record_open(struct record **out, const char *path, struct err *e);
/* ERR_FAIL: the recording is incomplete, because the file could not be written. NULL is fine. */
int record_close(struct record *r, struct err *e);

void record_frame(struct record *r, const struct grid *g);
void record_input(struct record *r, const char *bytes, size_t n);

/* Appends the part of an "o" line's text that may be sent to a terminal: a recording may be
 * untrusted, so only the escape sequences that are written here pass; others become visible
 * marks. */
void record_clean(const char *text, bool ascii, struct str *out);

#endif
