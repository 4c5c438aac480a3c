/* ansi: the changed cells of a grid as bytes for a terminal or a recording: cursor moves, colours,
 * characters. Writes only what differs from the terminal's present colours and cursor; ncurses
 * would set both colours of every cell. */
#ifndef RETAIN_TUI_TERM_ANSI_H
#define RETAIN_TUI_TERM_ANSI_H

#include "base/str.h"
#include "tui/term/colors.h"
#include "tui/term/grid.h"

struct ansi {
    const struct look *look;
    struct str bytes;
    struct cell_style pen; /* the terminal's colours after the bytes so far */
    int x, y;              /* its cursor; x = -1: unknown */
    bool sure;             /* x is also of a terminal that thinks otherwise of wide characters */
    bool visible;          /* the cursor is */
};

/* Appends a reset, for a terminal in an unknown state: no colours, no cursor. */
void ansi_begin(struct ansi *a);
/* Appends the cells of row y that differ from `before` (NULL: all). Returns their number. */
int ansi_row(struct ansi *a, const struct grid *g, const struct cell *before, int y);
/* Appends the cursor: its place, or that it is hidden. */
void ansi_cursor(struct ansi *a, const struct grid *g);

#endif
