/* record: what the screen showed and what was typed, as an asciicast (version 2): a header and one
 * JSON array per line, [seconds, "o" output | "i" input | "r" size, text]. Made from the grid, not
 * from the terminal's bytes, so it looks the same wherever it was recorded. */
#ifndef RETAIN_TUI_TERM_RECORD_H
#define RETAIN_TUI_TERM_RECORD_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/str.h"
#include "tui/term/grid.h"

struct record;

/* A file for its owner alone, as all that conversations are kept in. */
int record_open(struct record **out, const char *path, struct err *e);
/* ERR_FAIL: it ends before the end, since the file could not be written. NULL is fine. */
int record_close(struct record *r, struct err *e);

void record_frame(struct record *r, const struct grid *g);
void record_input(struct record *r, const char *bytes, size_t n);

/* Appends what a terminal may be sent of the text of an "o" line: a recording may be a stranger's,
 * so only the escape sequences that are written here pass; others become visible marks. */
void record_clean(const char *text, bool ascii, struct str *out);

#endif
