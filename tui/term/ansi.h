/* ansi: the changed cells of a grid as bytes for a terminal: cursor positions, colours, characters.
 * For recordings, and for terminals with 24-bit colour, which ncurses cannot use without a terminal
 * separate description. */
#ifndef RETAIN_TUI_TERM_ANSI_H
#define RETAIN_TUI_TERM_ANSI_H

#include "base/str.h"
#include "tui/term/colors.h"
#include "tui/term/grid.h"

struct ansi {
    const struct look *look;
    int attr; /* the terminal's attribute after the bytes so far; -1 = unknown */
    struct str bytes;
};

/* Appends the cells of row y that differ from `before` (NULL: all). Returns their number. */
int ansi_row(struct ansi *a, const struct grid *g, const struct cell *before, int y);
/* Appends the cursor: its place, or that it is hidden. */
void ansi_cursor(struct ansi *a, const struct grid *g);

#endif
