#include "tui/term/ansi.h"

#include <string.h>

#include "base/utf8_width.h"

static void put_color(struct ansi *a, int base, int color)
{
    if (color < 0) return;
    if (color & COLOR_TRUE)
        str_printf(&a->bytes, ";%d;2;%d;%d;%d", base + 8, color >> 16 & 255, color >> 8 & 255,
                   color & 255);
    else if (a->look->colors == 16 && color < 8)
        str_printf(&a->bytes, ";%d", base + color);
    else
        str_printf(&a->bytes, ";%d;5;%d", base + 8, color);
}

static void put_attr(struct ansi *a, int attr)
{
    if (attr == a->attr) return;
    struct cell_style l = cell_style_of(attr, a->look);
    a->attr = attr;
    str_puts(&a->bytes, "\033[0");
    if (l.style & STYLE_BOLD) str_puts(&a->bytes, ";1");
    if (l.style & STYLE_DIM) str_puts(&a->bytes, ";2");
    if (l.style & STYLE_UNDERLINE) str_puts(&a->bytes, ";4");
    if (l.style & STYLE_REVERSE) str_puts(&a->bytes, ";7");
    put_color(a, 30, l.color);
    put_color(a, 40, l.background);
    str_puts(&a->bytes, "m");
}

int ansi_row(struct ansi *a, const struct grid *g, const struct cell *before, int y)
{
    const struct cell *now = &g->cells[y * g->w];
    int at = -1, n = 0; /* at: the terminal's cursor position */
    for (int x = 0; x < g->w; x++) {
        if (now[x].width == 0 || (before && memcmp(&now[x], &before[x], sizeof now[x]) == 0))
            continue;
        if (x != at) str_printf(&a->bytes, "\033[%d;%dH", y + 1, x + 1);
        put_attr(a, now[x].attr);
        for (int i = 0; now[x].text[i]; i++) {
            char bytes[4];
            str_append(&a->bytes, bytes, (size_t)utf8_encode((uint32_t)now[x].text[i], bytes));
        }
        at = x + now[x].width;
        n++;
    }
    return n;
}

void ansi_cursor(struct ansi *a, const struct grid *g)
{
    if (g->cursor_x >= 0)
        str_printf(&a->bytes, "\033[%d;%dH\033[?25h", g->cursor_y + 1, g->cursor_x + 1);
    else
        str_puts(&a->bytes, "\033[?25l");
}
