/* colors: the look of each grid attribute, as numbers of a 256-colour palette. Colour is never the
 * only sign: a glyph or a word carries the same information. */
#ifndef RETAIN_TUI_TERM_COLORS_H
#define RETAIN_TUI_TERM_COLORS_H

#include <stdbool.h>

#include "tui/term/grid.h"

enum { STYLE_BOLD = 1, STYLE_REVERSE = 2, STYLE_DIM = 4, STYLE_UNDERLINE = 8 };

struct cell_style {
    int style;             /* COLOR_* */
    int color, background; /* -1 = the terminal's default */
};

/* colors: 0, 16 or 256; light: the terminal's background. */
struct cell_style cell_style_of(int attr, int colors, bool light);

#endif
