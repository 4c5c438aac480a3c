/* record: what the screen showed and what was typed, as an asciicast (version 2): a header and one
 * JSON array per line, [seconds, "o" output | "i" input | "r" size, text]. Made from the grid, not
 * from the terminal's bytes, so it looks the same wherever it was recorded. */
#ifndef RETAIN_TUI_RECORD_H
#define RETAIN_TUI_RECORD_H

#include <stddef.h>

#include "runtime/base/err.h"
#include "tui/grid.h"

struct record;

int record_open(struct record **out, const char *path, struct err *e);
void record_close(struct record *r);

void record_frame(struct record *r, const struct grid *g);
void record_input(struct record *r, const char *bytes, size_t n);

#endif
