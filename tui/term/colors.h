/* colors: the look of each grid attribute. Colour is never the only sign: a glyph or a word carries
 * the same information.
 *
 * A colour is an index of xterm's 256 colours, or COLOR_TRUE with 24 bits; -1 is the terminal's
 * default. */
#ifndef RETAIN_TUI_TERM_COLORS_H
#define RETAIN_TUI_TERM_COLORS_H

#include <stdbool.h>

#include "tui/term/grid.h"

enum { STYLE_BOLD = 1, STYLE_REVERSE = 2, STYLE_DIM = 4, STYLE_UNDERLINE = 8 };
enum { COLOR_TRUE = 1 << 24 };

struct cell_style {
    int style;             /* STYLE_* */
    int color, background; /* -1 = the terminal's default */
};

/* How this terminal shows the attributes. */
struct look {
    int colors;   /* 0, 16, 256, or COLOR_TRUE */
    bool light;   /* the terminal's background */
    bool painted; /* every cell has the ground of the pictures, not the terminal's background */
    bool strong;  /* high contrast: no grey text */
};

/* The terminal's background: red, green and blue, 0 to 1. A dark one that leaves too little room
 * below white for the steps of the ramp is painted over. */
void look_background(struct look *k, const double rgb[3]);

struct cell_style cell_style_of(int attr, const struct look *k);

#endif
