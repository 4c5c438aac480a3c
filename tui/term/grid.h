/* grid: the screen as data. Views draw into it, tests compare it, and only screen.c writes it to a
 * terminal; so no view needs one.
 *
 * A cell holds one column: a character with its combining marks, or nothing when it is the right
 * half of a wide one. No cell ever holds half a wide character: a character that would be cut
 * becomes a blank. */
#ifndef RETAIN_TUI_TERM_GRID_H
#define RETAIN_TUI_TERM_GRID_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <wchar.h>

#include "base/str.h"

/* The meaning of a cell; screen.c chooses its look on this terminal. */
enum { HALF_LEVELS = 19 }; /* of a half: none, or one of the ramp's */

enum attr {
    ATTR_TEXT,
    ATTR_DIM, /* labels, rules, secondary text */
    ATTR_BOLD,
    ATTR_TITLE, /* the line at the top */
    ATTR_YOU,   /* role words */
    ATTR_LLM,
    ATTR_KEY,    /* a key in the hint bar */
    ATTR_SELECT, /* the row or column under the cursor */
    ATTR_ERROR,
    ATTR_CODE,
    ATTR_KEYWORD, /* parts of code */
    ATTR_STRING,
    ATTR_NUMBER,
    ATTR_COMMENT,
    ATTR_EMPHASIS,
    ATTR_MARK,    /* underlined: just changed */
    ATTR_WEIGHTS, /* parts of the memory bar, and lines of graphs */
    ATTR_CACHE,
    ATTR_SCRATCH,
    ATTR_GONE,  /* text that has no unit left */
    ATTR_FADE1, /* text that is on its way there */
    ATTR_FADE2,
    ATTR_THIN,     /* text that has few units left */
    ATTR_RETURNED, /* text that came back for the last message */
    ATTR_FOUND,    /* the text that was searched for */
    ATTR_RAMP0,    /* retention, levels 0 to RAMP_LEVELS - 1: see ramp.h */
    ATTR_RAMP_LAST = ATTR_RAMP0 + 17,
    ATTR_HALF0, /* two cells stacked in one, see attr_half */
    ATTR_HALF_LAST = ATTR_HALF0 + HALF_LEVELS * HALF_LEVELS - 1,
    ATTRS
};

/* Upper and lower level of a half block; -1 = nothing. */
static inline enum attr attr_half(int up, int down)
{
    return (enum attr)(ATTR_HALF0 + HALF_LEVELS * (up + 1) + down + 1);
}

enum { CELL_POINTS = 4 };

struct cell {
    wchar_t text[CELL_POINTS + 1]; /* NUL-terminated; empty = right half of a wide character */
    uint16_t attr;
    uint8_t width; /* 0 for that half, else 1 or 2 */
    uint8_t none;  /* cells are compared as bytes */
};

struct grid {
    int w, h;
    bool ascii;             /* draws only ASCII characters */
    bool fine;              /* the terminal shows every level of the ramp, not only its classes */
    struct cell *cells;     /* [h][w] */
    int cursor_x, cursor_y; /* -1: hidden */
};

/* Resizes to w x h (at least 1 x 1); keeps the contents if the size is unchanged. */
void grid_fit(struct grid *g, int w, int h, bool ascii);
/* Clears, and resizes to w x h (at least 1 x 1). Reuses its memory when it is large enough. */
void grid_init(struct grid *g, int w, int h, bool ascii);
void grid_release(struct grid *g);

/* A rectangle of a grid: coordinates are relative to it, and drawing is clipped to it. */
struct pane {
    struct grid *g;
    int x, y, w, h;
};

struct pane grid_pane(struct grid *g);
struct pane pane_sub(struct pane p, int x, int y, int w, int h); /* clipped to p */

/* Draws clean UTF-8 (see sanitize.h) from column x; tabs stop every 4 columns counted from x.
 * Returns the column after the text, even when it was clipped. */
int pane_put(struct pane p, int x, int y, enum attr attr, const char *text, size_t n);
int pane_puts(struct pane p, int x, int y, enum attr attr, const char *text);
int pane_printf(struct pane p, int x, int y, enum attr attr, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));

/* Marks a line whose text would end at column `end`: if that is outside, it ends with an
 * ellipsis. */
void pane_cut(struct pane p, int y, int end);

void pane_fill(struct pane p, int x, int y, int w, enum attr attr, char c);
void pane_attr(struct pane p, int x, int y, int w, enum attr attr); /* keeps the text */
void pane_cursor(struct pane p, int x, int y);
void pane_clear(struct pane p);

#endif
