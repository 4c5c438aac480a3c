#include "tui/term/colors.h"

struct row {
    int style;         /* style with and without colour */
    int dark, light;   /* 256 colours */
    int basic;         /* 16 colours */
    bool dim_if_plain; /* dimmed without colour */
};

/* The ramp's luminance rises on dark and falls on light backgrounds; neighbours differ by a
 * contrast of at least 2:1, also for users who confuse red and green by at least 1.7:1. Its cells
 * are solid: foreground and background are the same, so the glyph is in the text but not in the
 * picture. */
static const struct row rows[ATTR_HALF0] = {
    [ATTR_TEXT] = {0, -1, -1, -1, false},
    [ATTR_DIM] = {0, 245, 242, -1, true},
    [ATTR_BOLD] = {STYLE_BOLD, -1, -1, -1, false},
    [ATTR_TITLE] = {STYLE_REVERSE, -1, -1, -1, false},
    [ATTR_YOU] = {STYLE_BOLD, 81, 25, 6, false},
    [ATTR_LLM] = {STYLE_BOLD, 114, 28, 2, false},
    [ATTR_KEY] = {STYLE_BOLD, -1, -1, -1, false},
    [ATTR_SELECT] = {STYLE_REVERSE, -1, -1, -1, false},
    [ATTR_ERROR] = {STYLE_BOLD, 210, 124, 1, false},
    [ATTR_CODE] = {0, 180, 94, -1, false},
    [ATTR_EMPHASIS] = {STYLE_UNDERLINE, -1, -1, -1, false},
    [ATTR_RAMP0] = {0, 234, 255, -1, false},
    [ATTR_RAMP1] = {0, 56, 209, -1, false},
    [ATTR_RAMP2] = {0, 133, 97, -1, false},
    [ATTR_RAMP3] = {0, 179, 55, -1, false},
    [ATTR_RAMP4] = {0, 230, 16, -1, false},
    [ATTR_MARK] = {STYLE_UNDERLINE, -1, -1, -1, false},
    [ATTR_WEIGHTS] = {0, 75, 25, 4, false},
    [ATTR_CACHE] = {STYLE_BOLD, 220, 130, 3, false},
    [ATTR_SCRATCH] = {0, 114, 28, 2, false},
    [ATTR_GONE] = {0, 243, 243, -1, true},
    [ATTR_THIN] = {0, 250, 240, -1, false},
    [ATTR_RETURNED] = {STYLE_BOLD | STYLE_UNDERLINE, 81, 25, 6, false},
};

/* The dot in an evicted cell: it is visible where the cell is as dark as the terminal. */
enum { ASH_ON_DARK = 240, ASH_ON_LIGHT = 248 };

static int color_of(int attr, int colors, bool light)
{
    const struct row *r = &rows[attr];
    return colors == 0 ? -1 : colors < 256 ? r->basic : light ? r->light : r->dark;
}

static int class_color(int cls, int colors, bool light)
{
    return cls < 0 ? -1 : color_of(ATTR_RAMP0 + cls, colors, light);
}

struct cell_style cell_style_of(int attr, int colors, bool light)
{
    if (attr >= ATTR_RAMP0 && attr <= ATTR_RAMP4) {
        int fill = color_of(attr, colors, light);
        int ink = attr == ATTR_RAMP0 && fill >= 0 ? (light ? ASH_ON_LIGHT : ASH_ON_DARK) : fill;
        return (struct cell_style){0, ink, fill};
    }
    if (attr < ATTR_HALF0) {
        int style = rows[attr].style | (colors == 0 && rows[attr].dim_if_plain ? STYLE_DIM : 0);
        return (struct cell_style){style, color_of(attr, colors, light), -1};
    }
    int up = (attr - ATTR_HALF0) / 6 - 1, down = (attr - ATTR_HALF0) % 6 - 1;
    if (up < 0) /* only the lower half */
        return (struct cell_style){0, class_color(down, colors, light), -1};
    return (struct cell_style){0, class_color(up, colors, light), class_color(down, colors, light)};
}
