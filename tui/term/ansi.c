#include "tui/term/ansi.h"

#include <string.h>

#include "base/utf8_width.h"

enum { GAP_BYTES = 4 }; /* of a move to the right: shorter text is written again instead */

/* ---- colours --------------------------------------------------------------------------------- */

/* Begins a parameter of the sequence that is being written. */
static void put_code(struct ansi *a, int code)
{
    const char *separator = a->bytes.data[a->bytes.n - 1] == '[' ? "" : ";";
    str_printf(&a->bytes, "%s%d", separator, code);
}

static void put_color(struct ansi *a, int base, int color)
{
    if (color < 0) {
        put_code(a, base + 9);
    } else if (a->look->colors < 256) {
        put_code(a, color < 8 ? base + color : base + 9); /* the user may have chosen one of 256 */
    } else if (color & COLOR_TRUE) {
        put_code(a, base + 8);
        str_printf(&a->bytes, ";2;%d;%d;%d", color >> 16 & 255, color >> 8 & 255, color & 255);
    } else {
        put_code(a, base + 8);
        str_printf(&a->bytes, ";5;%d", color);
    }
}

static const struct cell_style plain = {0, -1, -1};

static bool same_style(const struct cell_style *p, const struct cell_style *q)
{
    return p->style == q->style && p->color == q->color && p->background == q->background;
}

/* Ends all styles at once, because terminals differ in how they end a single one. */
static void put_style(struct ansi *a, struct cell_style want)
{
    struct cell_style *pen = &a->pen;
    if (same_style(&want, pen)) return;
    bool reset = pen->style & ~want.style || same_style(&want, &plain);
    str_puts(&a->bytes, "\033[");
    if (reset) {
        *pen = plain;
        if (!same_style(&want, &plain)) put_code(a, 0);
    }
    int more = want.style & ~pen->style;
    if (more & STYLE_BOLD) put_code(a, 1);
    if (more & STYLE_DIM) put_code(a, 2);
    if (more & STYLE_UNDERLINE) put_code(a, 4);
    if (more & STYLE_REVERSE) put_code(a, 7);
    if (want.color != pen->color) put_color(a, 30, want.color);
    if (want.background != pen->background) put_color(a, 40, want.background);
    str_puts(&a->bytes, "m");
    *pen = want;
}

/* ---- cells ----------------------------------------------------------------------------------- */

/* The text and colours that are written for a cell: its own, or others that look the same and
 * change fewer colours. A cell of one colour needs no glyph, two halves can change places, and a
 * blank does not show the colour of text. */
struct drawn {
    const wchar_t *text;
    struct cell_style style;
};

static struct drawn drawn_of(const struct ansi *a, const struct cell *c)
{
    enum { ON_BLANKS = STYLE_REVERSE | STYLE_UNDERLINE };
    const struct cell_style *pen = &a->pen;
    struct drawn d = {c->text, cell_style_of(c->attr, a->look)};
    struct cell_style *k = &d.style;
    if (c->width == 1 && k->color >= 0 && k->color == k->background) d.text = L" ";
    bool halves = c->attr >= ATTR_HALF0 && k->color >= 0 && k->background >= 0;
    if (halves && d.text == c->text && pen->color != k->color && pen->background != k->background &&
        (pen->color == k->background || pen->background == k->color)) {
        int up = k->color;
        k->color = k->background;
        k->background = up;
        d.text = L"▄";
    }
    if (d.text[0] == L' ' && !d.text[1] && !((k->style | pen->style) & ON_BLANKS)) {
        k->color = pen->color;
        k->style = pen->style;
    }
    return d;
}

static size_t encode(const wchar_t *text, char out[4 * CELL_POINTS])
{
    size_t n = 0;
    for (; *text; text++) n += (size_t)utf8_encode((uint32_t)*text, out + n);
    return n;
}

/* Writes the cells from the cursor to column x again, if they have its colours and are shorter than
 * a move. */
static bool put_gap(struct ansi *a, const struct cell *row, int x)
{
    char bytes[GAP_BYTES + 4 * CELL_POINTS];
    size_t n = 0;
    for (int i = a->x; i < x; i++) {
        if (row[i].width == 0) continue;
        struct drawn d = drawn_of(a, &row[i]);
        n += encode(d.text, bytes + n);
        if (n >= GAP_BYTES || !same_style(&d.style, &a->pen)) return false;
    }
    str_append(&a->bytes, bytes, n);
    return true;
}

static void move_to(struct ansi *a, const struct cell *row, int x, int y)
{
    bool right = a->sure && a->x <= x && a->y == y;
    if ((a->x == x && a->y == y) || (right && put_gap(a, row, x))) return;
    if (right) {
        str_printf(&a->bytes, "\033[%dC", x - a->x);
    } else {
        str_printf(&a->bytes, "\033[%d;%dH", y + 1, x + 1);
        a->sure = true;
    }
}

int ansi_row(struct ansi *a, const struct grid *g, const struct cell *before, int y)
{
    const struct cell *now = &g->cells[y * g->w];
    char bytes[4 * CELL_POINTS];
    int n = 0;
    if (before && memcmp(now, before, sizeof *now * (size_t)g->w) == 0) return 0;
    for (int x = 0; x < g->w; x++) {
        if (now[x].width == 0 || (before && memcmp(&now[x], &before[x], sizeof now[x]) == 0))
            continue;
        move_to(a, now, x, y);
        struct drawn d = drawn_of(a, &now[x]);
        put_style(a, d.style);
        str_append(&a->bytes, bytes, encode(d.text, bytes));
        a->y = y;
        a->x = x + now[x].width;
        a->sure = a->sure && now[x].width == 1 && !now[x].text[1];
        n++;
    }
    return n;
}

void ansi_begin(struct ansi *a)
{
    str_puts(&a->bytes, "\033[m\033[?25l");
    a->pen = plain;
    a->x = -1;
    a->sure = false;
    a->visible = false;
}

void ansi_cursor(struct ansi *a, const struct grid *g)
{
    bool visible = g->cursor_x >= 0;
    if (visible) {
        move_to(a, &g->cells[g->cursor_y * g->w], g->cursor_x, g->cursor_y);
        a->x = g->cursor_x;
        a->y = g->cursor_y;
    }
    if (visible != a->visible) str_puts(&a->bytes, visible ? "\033[?25h" : "\033[?25l");
    a->visible = visible;
}
