#include "tui/term/grid.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/utf8_width.h"

static const struct cell blank = {.text = L" ", .width = 1, .attr = ATTR_TEXT};

void grid_fit(struct grid *g, int w, int h, bool ascii)
{
    if (w < 1) w = 1;
    if (h < 1) h = 1;
    if (!g->cells || g->w != w || g->h != h) {
        g->cells = memory_grow(g->cells, (size_t)w * (size_t)h, sizeof *g->cells);
    }
    g->w = w;
    g->h = h;
    g->ascii = ascii;
    g->cursor_x = g->cursor_y = -1;
}

void grid_init(struct grid *g, int w, int h, bool ascii)
{
    grid_fit(g, w, h, ascii);
    size_t row = sizeof blank * (size_t)g->w;
    for (int x = 0; x < g->w; x++) g->cells[x] = blank;
    for (int y = 1; y < g->h; y++) memcpy(g->cells + y * g->w, g->cells, row);
}

void grid_release(struct grid *g)
{
    free(g->cells);
    memset(g, 0, sizeof *g);
}

struct pane grid_pane(struct grid *g)
{
    return (struct pane){g, 0, 0, g->w, g->h};
}

struct pane pane_sub(struct pane p, int x, int y, int w, int h)
{
    if (x < 0) x = 0;
    if (y < 0) y = 0;
    if (x > p.w) x = p.w;
    if (y > p.h) y = p.h;
    if (w > p.w - x) w = p.w - x;
    if (h > p.h - y) h = p.h - y;
    return (struct pane){p.g, p.x + x, p.y + y, w < 0 ? 0 : w, h < 0 ? 0 : h};
}

static struct cell *cell_at(struct pane p, int x, int y)
{
    if (x < 0 || y < 0 || x >= p.w || y >= p.h) return NULL;
    return &p.g->cells[(p.y + y) * p.g->w + p.x + x];
}

/* Call before a cell is overwritten: if it is half of a wide character, blanks the other half. */
static void clear_halves(struct pane p, int x, struct cell *c)
{
    int column = p.x + x;
    if (c->width == 0 && column > 0) {
        c[-1] = blank;
        *c = blank;
    }
    if (c->width == 2 && column + 1 < p.g->w) c[1] = blank;
}

static void set_cell(struct pane p, int x, int y, enum attr attr, uint32_t cp, int width)
{
    struct cell *c = cell_at(p, x, y);
    if (!c) return;
    bool cut = width == 2 && !cell_at(p, x + 1, y);
    if (c->width != 1) clear_halves(p, x, c);
    *c = (struct cell){.text = {cut ? L' ' : (wchar_t)cp},
                       .attr = (uint16_t)attr,
                       .width = (uint8_t)(cut ? 1 : width)};
    if (width != 2 || cut) return;
    clear_halves(p, x + 1, c + 1);
    c[1] = (struct cell){.width = 0, .attr = (uint16_t)attr};
}

/* A combining mark joins the cell before column x. */
static void join_mark(struct pane p, int x, int y, uint32_t cp)
{
    struct cell *c = cell_at(p, x - 1, y);
    if (c && c->width == 0) c = cell_at(p, x - 2, y);
    if (!c) return;
    size_t n = wcslen(c->text);
    if (n < CELL_POINTS) c->text[n] = (wchar_t)cp;
}

static bool drawable_mark(uint32_t cp)
{
    return cp != 0x200D && cp != 0xFE0F && cp != 0xFE0E && cp != 0x200B && cp != 0xFEFF &&
           cp != 0x2060 && cp != 0xAD;
}

int pane_put(struct pane p, int x, int y, enum attr attr, const char *text, size_t n)
{
    int from = x;
    for (size_t at = 0; at < n;) {
        uint32_t cp = (unsigned char)text[at];
        if (cp >= 0x20 && cp < 0x7F) {
            set_cell(p, x++, y, attr, cp, 1);
            at++;
            continue;
        }
        int length = utf8_next(text + at, n - at, &cp);
        if (length <= 0) {
            length = 1;
            cp = UTF8_REPLACEMENT;
        }
        at += (size_t)length;
        if (cp == '\t') {
            int stop = x + 4 - (x - from) % 4;
            while (x < stop) set_cell(p, x++, y, attr, ' ', 1);
            continue;
        }
        if (cp < 0x20 || cp == 0x7F) cp = '?';
        if (!utf8_known(cp)) cp = UTF8_REPLACEMENT;
        int width = utf8_width(cp);
        if (p.g->ascii && cp > 0x7E) cp = '?';
        if (width == 0) {
            if (x > from && !p.g->ascii && drawable_mark(cp)) join_mark(p, x, y, cp);
            continue;
        }
        set_cell(p, x, y, attr, cp, p.g->ascii && cp == '?' ? 1 : width);
        if (p.g->ascii && cp == '?' && width == 2) set_cell(p, x + 1, y, attr, ' ', 1);
        x += width;
    }
    return x;
}

int pane_puts(struct pane p, int x, int y, enum attr attr, const char *text)
{
    return pane_put(p, x, y, attr, text, strlen(text));
}

int pane_printf(struct pane p, int x, int y, enum attr attr, const char *fmt, ...)
{
    char text[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return pane_puts(p, x, y, attr, text);
}

void pane_cut(struct pane p, int y, int end)
{
    const char *dots = p.g->ascii ? "..." : "…";
    int x = p.w - (p.g->ascii ? 3 : 1);
    const struct cell *c = cell_at(p, x, y);
    if (end > p.w && c) pane_puts(p, x, y, (enum attr)c->attr, dots);
}

void pane_fill(struct pane p, int x, int y, int w, enum attr attr, char c)
{
    for (int i = 0; i < w; i++) set_cell(p, x + i, y, attr, (unsigned char)c, 1);
}

void pane_attr(struct pane p, int x, int y, int w, enum attr attr)
{
    for (int i = 0; i < w; i++) {
        struct cell *c = cell_at(p, x + i, y);
        if (c) c->attr = (uint16_t)attr;
    }
}

void pane_cursor(struct pane p, int x, int y)
{
    if (!cell_at(p, x, y)) return;
    p.g->cursor_x = p.x + x;
    p.g->cursor_y = p.y + y;
}

void pane_clear(struct pane p)
{
    for (int y = 0; y < p.h && p.w > 0; y++) {
        struct cell *row = cell_at(p, 0, y);
        clear_halves(p, 0, row); /* of characters that cross its edges */
        clear_halves(p, p.w - 1, row + p.w - 1);
        for (int x = 0; x < p.w; x++) row[x] = blank;
    }
}
