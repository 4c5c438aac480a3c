/* record: the screen's output and the typed input, as an asciicast (version 2): a header and one
 * JSON array per line, [seconds, "o" output | "i" input | "r" size, text]. Made from the grid, not
 * from the terminal's bytes; with the colours of the recorded terminal, and 256 where that has
 * fewer. */
#ifndef RETAIN_TUI_TERM_RECORD_H
#define RETAIN_TUI_TERM_RECORD_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/str.h"
#include "tui/term/colors.h"
#include "tui/term/grid.h"

struct record;

/* Creates the file with access for its owner only, like all files that hold conversations. */
int record_open(struct record **out, const char *path, struct err *e);
/* ERR_FAIL: the recording is incomplete, because the file could not be written. NULL is fine. */
int record_close(struct record *r, struct err *e);

/* The colours from the next frame on; before the first call 256 on dark. */
void record_look(struct record *r, const struct look *k);
void record_frame(struct record *r, const struct grid *g);
void record_input(struct record *r, const char *bytes, size_t n);

/* Appends the part of an "o" line's text that may be sent to a terminal: a recording may be
 * untrusted, so only the escape sequences that are written here pass; others become visible
 * marks. */
void record_clean(const char *text, bool ascii, struct str *out);

#endif
