/* look: how an attribute of the grid looks, in numbers of a 256-colour palette. Colours are for
 * comfort: what an attribute says is always said by a glyph or a word too. */
#ifndef RETAIN_TUI_LOOK_H
#define RETAIN_TUI_LOOK_H

#include <stdbool.h>

#include "tui/grid.h"

enum { LOOK_BOLD = 1, LOOK_REVERSE = 2, LOOK_DIM = 4, LOOK_UNDERLINE = 8 };

struct look {
    int style;             /* LOOK_* */
    int color, background; /* -1 = the terminal's own */
};

/* colors: 0, 16 or 256; light: the terminal's background. */
struct look look_of(int attr, int colors, bool light);

#endif
