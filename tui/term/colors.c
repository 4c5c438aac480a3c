#include "tui/term/colors.h"

#include <math.h>

struct row {
    int style;         /* style with and without colour */
    int dark, light;   /* 256 colours */
    int basic;         /* 16 colours */
    bool dim_if_plain; /* dimmed without colour */
};

static const struct row rows[ATTR_RAMP0] = {
    [ATTR_TEXT] = {0, -1, -1, -1, false},
    [ATTR_DIM] = {0, 247, 242, -1, true},
    [ATTR_BOLD] = {STYLE_BOLD, -1, -1, -1, false},
    [ATTR_TITLE] = {STYLE_REVERSE, -1, -1, -1, false},
    [ATTR_YOU] = {STYLE_BOLD, 81, 25, 6, false},
    [ATTR_LLM] = {STYLE_BOLD, 114, 22, 2, false},
    [ATTR_KEY] = {STYLE_BOLD, -1, -1, -1, false},
    [ATTR_SELECT] = {STYLE_REVERSE, -1, -1, -1, false},
    [ATTR_ERROR] = {STYLE_BOLD, 210, 124, 1, false},
    [ATTR_CODE] = {0, 180, 94, -1, false},
    [ATTR_KEYWORD] = {STYLE_BOLD, 176, 90, 5, false},
    [ATTR_STRING] = {0, 150, 22, 2, false},
    [ATTR_NUMBER] = {0, 117, 25, 6, false},
    [ATTR_COMMENT] = {0, 248, 240, -1, true},
    [ATTR_EMPHASIS] = {STYLE_UNDERLINE, -1, -1, -1, false},
    [ATTR_MARK] = {STYLE_UNDERLINE, -1, -1, -1, false},
    [ATTR_WEIGHTS] = {0, 75, 25, 4, false},
    [ATTR_CACHE] = {STYLE_BOLD, 220, 94, 3, false},
    [ATTR_SCRATCH] = {0, 114, 22, 2, false},
    [ATTR_GONE] = {0, 247, 242, -1, true},
    [ATTR_FADE1] = {0, 248, 240, -1, false},
    [ATTR_FADE2] = {0, 250, 239, -1, false},
    [ATTR_THIN] = {0, 252, 238, -1, false},
    [ATTR_RETURNED] = {STYLE_BOLD | STYLE_UNDERLINE, 81, 25, 6, false},
    [ATTR_FOUND] = {STYLE_REVERSE | STYLE_BOLD, 220, 94, 3, false},
};

/* The ramp's luminance rises on dark and falls on light backgrounds, from `few` to `most`;
 * neighbours differ by a contrast of at least 1.7:1 for every kind of eye, and `few` by 3:1 from
 * `gone`, the ground of the pictures, and from the background. `all` is quiet. Cells are solid:
 * foreground and background are the same, so the glyph is in the text but not in the picture. */
enum { CLASSES = 6, ALL = CLASSES - 1 };
static const int palette[2][CLASSES] = {{233, 94, 136, 183, 230, 239},
                                        {231, 136, 94, 237, 16, 251}};
static const int true_colors[2][CLASSES] = {
    {0x121214, 0x8443c6, 0xbe73d6, 0xe8bd2e, 0xffffff, 0x4a4e58},
    {0xfafafa, 0xd27800, 0xa44574, 0x55256f, 0x000000, 0xc4c8d0}};

/* The dot in an evicted cell: it is visible where the cell is as dark as the terminal. */
enum { ASH_ON_DARK = 240, ASH_ON_LIGHT = 248 };

void look_background(struct look *k, const double rgb[3])
{
    static const double seen[] = {0.299, 0.587, 0.114}, weights[] = {0.2126, 0.7152, 0.0722};
    const double most = 0.0105; /* of a background that is 3:1 from `few`; #18181b has 0.0092 */
    double bright = 0, luminance = 0;
    for (int i = 0; i < 3; i++) {
        bright += seen[i] * rgb[i];
        luminance += weights[i] * pow(rgb[i], 2.2);
    }
    k->light = bright > 0.5;
    k->painted = !k->light && luminance > most;
}

static int color_of(int attr, const struct look *k)
{
    const struct row *r = &rows[attr];
    if (k->colors == 0) return -1;
    if (k->strong && (attr == ATTR_DIM || attr == ATTR_THIN)) return -1;
    return k->colors < 256 ? r->basic : k->light ? r->light : r->dark;
}

/* A colour between two of 24 bits; `part` of `whole` towards the second. */
static int between(int from, int to, int part, int whole)
{
    int mixed = 0;
    for (int shift = 16; shift >= 0; shift -= 8) {
        int a = from >> shift & 255, b = to >> shift & 255;
        mixed |= (a + (b - a) * part / whole) << shift;
    }
    return mixed;
}

/* The first level of a class stands for it; the next three are mixed towards the next class. */
static int level_color(int level, const struct look *k)
{
    int cls = (level + 3) / 4, part = (level + 3) % 4;
    const int *mixes = true_colors[k->light];
    if (level < 0 || k->colors < 256) return -1;
    if (k->colors == 256) return palette[k->light][cls];
    bool mixed = cls > 0 && cls < ALL - 1;
    return COLOR_TRUE | (mixed ? between(mixes[cls], mixes[cls + 1], part, 4) : mixes[cls]);
}

static struct cell_style ramp_style(int level, const struct look *k)
{
    int fill = level_color(level, k);
    int ink = level == 0 && fill >= 0 ? (k->light ? ASH_ON_LIGHT : ASH_ON_DARK) : fill;
    return (struct cell_style){0, ink, fill};
}

static struct cell_style style_of(int attr, const struct look *k)
{
    if (attr < ATTR_RAMP0) {
        int style = rows[attr].style | (k->colors == 0 && rows[attr].dim_if_plain ? STYLE_DIM : 0);
        return (struct cell_style){style, color_of(attr, k), -1};
    }
    if (attr < ATTR_HALF0) return ramp_style(attr - ATTR_RAMP0, k);
    int up = (attr - ATTR_HALF0) / HALF_LEVELS - 1, down = (attr - ATTR_HALF0) % HALF_LEVELS - 1;
    if (up < 0) return (struct cell_style){0, level_color(down, k), -1}; /* the lower half only */
    return (struct cell_style){0, level_color(up, k), level_color(down, k)};
}

struct cell_style cell_style_of(int attr, const struct look *k)
{
    struct cell_style style = style_of(attr, k);
    if (k->painted && style.background < 0) style.background = level_color(0, k);
    return style;
}
