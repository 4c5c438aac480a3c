#include "tui/term/svg.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/utf8_width.h"

/* Units of the picture: a cell, and the margin around all. */
static const double cell_w = 7.2, cell_h = 15, margin = 8, baseline = 11;

enum { UNSET = -1, TEXT_MAX = 28 };

struct svg_style {
    int color, background; /* 0xRRGGBB; UNSET = the default */
    bool bold, dim, underline;
};

struct svg_cell {
    char text[TEXT_MAX]; /* a character and its marks; "" = the right half of a wide one */
    struct svg_style style;
};

struct svg {
    bool light;
    int w, h, x, y;
    struct svg_style style; /* of the cells to come, before `reverse` */
    bool reverse;
    struct svg_cell *cells; /* [h][w] */
    bool cursor;            /* is shown */
};

/* Text and background without a colour, on dark and on light. */
static const int text_of[] = {0xd6d8dd, 0x24262b}, ground_of[] = {0x16181d, 0xfbfbfa};

static const struct svg_style plain = {UNSET, UNSET, false, false, false};

/* ---- the screen ------------------------------------------------------------------------------ */

static void clear(struct svg *s)
{
    for (int i = 0; i < s->w * s->h; i++) s->cells[i] = (struct svg_cell){" ", plain};
    s->x = s->y = 0;
}

void svg_resize(struct svg *s, int w, int h)
{
    s->w = w;
    s->h = h;
    s->cells = memory_grow(s->cells, (size_t)w * (size_t)h, sizeof *s->cells);
    clear(s);
}

struct svg *svg_new(int w, int h, bool light)
{
    struct svg *s = memory_new(1, sizeof *s);
    s->light = light;
    s->style = plain;
    svg_resize(s, w, h);
    return s;
}

void svg_free(struct svg *s)
{
    if (s) free(s->cells);
    free(s);
}

/* xterm's 256 colours; the first 16 in the shades of common terminals. */
static int color_of(int index)
{
    static const int basic[] = {0x000000, 0xcd3131, 0x0dbc79, 0xe5e510,
                                0x2472c8, 0xbc3fbc, 0x11a8cd, 0xe5e5e5};
    static const int levels[] = {0, 95, 135, 175, 215, 255};
    if (index < 16) return basic[index % 8];
    if (index >= 232) return (8 + 10 * (index - 232)) * 0x010101;
    index -= 16;
    return levels[index / 36 % 6] << 16 | levels[index / 6 % 6] << 8 | levels[index % 6];
}

/* 38;5;N and 48;2;R;G;B: the colour after codes[*i], which moves to its last number. */
static int long_color(const int *codes, int n, int *i)
{
    bool whole = *i + 2 < n && codes[*i + 1] == 5;
    if (whole) {
        *i += 2;
        return color_of(codes[*i] & 255);
    }
    if (*i + 4 >= n) return UNSET;
    *i += 4;
    return (codes[*i - 2] & 255) << 16 | (codes[*i - 1] & 255) << 8 | (codes[*i] & 255);
}

static void set_style(struct svg *s, const int *codes, int n)
{
    struct svg_style *k = &s->style;
    for (int i = 0; i < n; i++) {
        int code = codes[i];
        if (code == 0) *k = plain, s->reverse = false;
        if (code == 1) k->bold = true;
        if (code == 2) k->dim = true;
        if (code == 4) k->underline = true;
        if (code == 7) s->reverse = true;
        if (code >= 30 && code < 38) k->color = color_of(code - 30);
        if (code >= 90 && code < 98) k->color = color_of(code - 90);
        if (code >= 40 && code < 48) k->background = color_of(code - 40);
        if (code == 39) k->color = UNSET;
        if (code == 49) k->background = UNSET;
        if (code == 38) k->color = long_color(codes, n, &i);
        if (code == 48) k->background = long_color(codes, n, &i);
    }
}

static struct svg_style cell_style(const struct svg *s)
{
    struct svg_style k = s->style;
    if (!s->reverse) return k;
    k.color = s->style.background != UNSET ? s->style.background : ground_of[s->light];
    k.background = s->style.color != UNSET ? s->style.color : text_of[s->light];
    return k;
}

/* The sequence at `text`, after ESC [; returns its bytes. */
static size_t sequence(struct svg *s, const char *text)
{
    int codes[32] = {0}, n = 0;
    size_t at = text[0] == '?';
    for (;; at++) {
        char *end;
        long code = strtol(text + at, &end, 10);
        if (n < 32) codes[n++] = code < 0 || code > 100000 ? 0 : (int)code;
        at = (size_t)(end - text);
        if (text[at] != ';') break;
    }
    if (text[at] == 'H') {
        s->y = codes[0] > 0 ? codes[0] - 1 : 0;
        s->x = n > 1 && codes[1] > 0 ? codes[1] - 1 : 0;
    } else if (text[at] == 'C') {
        s->x += codes[0];
    } else if (text[at] == 'm') {
        set_style(s, codes, n);
    } else if (text[at] == 'J') {
        clear(s);
    } else if (text[0] == '?' && codes[0] == 25) {
        s->cursor = text[at] == 'h';
    }
    return text[at] ? at + 1 : at;
}

static void put(struct svg *s, const char *text, int n, uint32_t cp)
{
    int width = utf8_width(cp), x = width == 0 ? s->x - 1 : s->x;
    if (s->y >= s->h || x < 0 || x >= s->w) return;
    struct svg_cell *c = &s->cells[s->y * s->w + x];
    if (width == 0) {
        size_t have = strlen(c->text);
        if (have + (size_t)n >= TEXT_MAX) return;
        memcpy(c->text + have, text, (size_t)n);
        c->text[have + (size_t)n] = 0;
        return;
    }
    *c = (struct svg_cell){.style = cell_style(s)};
    memcpy(c->text, text, (size_t)n);
    if (width == 2 && x + 1 < s->w) c[1] = (struct svg_cell){"", c->style};
    s->x += width;
}

/* ---- fills and texts ------------------------------------------------------------------------- */

/* Eighths of a cell that a block fills from below; its upper half is -4; a full one in shades has
 * less than all of its colour. 0 = no block. */
static int block_of(const char *text, int *tenths)
{
    static const char *const eighths[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    static const char *const shades[] = {"▓", "▒", "░"};
    *tenths = 10;
    for (int i = 0; i < 8; i++)
        if (!strcmp(text, eighths[i])) return i + 1;
    for (int i = 0; i < 3; i++)
        if (!strcmp(text, shades[i])) return *tenths = 9 - i, 8;
    return strcmp(text, "▀") ? 0 : -4;
}

static int text_color(const struct svg *s, const struct svg_style *k)
{
    if (k->dim) return 0x8a8d94;
    if (k->color != UNSET) return k->color;
    return text_of[s->light];
}

static bool same_style(const struct svg_style *a, const struct svg_style *b)
{
    return a->color == b->color && a->background == b->background && a->bold == b->bold &&
           a->dim == b->dim && a->underline == b->underline;
}

/* A run of cells of one colour: a background or a block. In cells, from the upper left corner. */
struct svg_fill {
    int x, y, w;
    int color, eighths; /* of a cell's height; of its upper half: -4 */
    int tenths;         /* of its opacity */
};

static int by_style(const void *a, const void *b)
{
    const struct svg_fill *x = a, *y = b;
    bool x_part = x->eighths != 8, y_part = y->eighths != 8;
    if (x_part != y_part) return x_part - y_part; /* backgrounds are drawn first */
    if (x->color != y->color) return x->color < y->color ? -1 : 1;
    if (x->eighths != y->eighths) return x->eighths - y->eighths;
    if (x->tenths != y->tenths) return x->tenths - y->tenths;
    return x->y != y->y ? x->y - y->y : x->x - y->x;
}

static size_t row_fills(const struct svg *s, int y, struct svg_fill *fills)
{
    const struct svg_cell *row = &s->cells[y * s->w];
    size_t n = 0;
    for (int x = 0, end; x < s->w; x = end) {
        const struct svg_cell *c = &row[x];
        int tenths, ignored, block = block_of(c->text, &tenths);
        for (end = x + 1; end < s->w; end++) {
            const struct svg_cell *o = &row[end];
            bool alike =
                block ? !strcmp(o->text, c->text) && same_style(&o->style, &c->style)
                      : !block_of(o->text, &ignored) && o->style.background == c->style.background;
            if (!alike) break;
        }
        if (c->style.background != UNSET && block < 8)
            fills[n++] = (struct svg_fill){x, y, end - x, c->style.background, 8, 10};
        if (block)
            fills[n++] = (struct svg_fill){x, y, end - x, text_color(s, &c->style), block, tenths};
    }
    return n;
}

/* Backgrounds and blocks: a path for all of a style, in cells. */
static void put_fills(const struct svg *s, struct str *out)
{
    struct svg_fill *fills = memory_new((size_t)(s->w * s->h), 2 * sizeof *fills), *f = fills;
    size_t n = 0;
    for (int y = 0; y < s->h; y++) n += row_fills(s, y, fills + n);
    qsort(fills, n, sizeof *fills, by_style);
    for (; n > 0; n--, f++) {
        const double high = abs(f->eighths) / 8.0;
        if (f == fills || f[-1].color != f->color || f[-1].eighths != f->eighths ||
            f[-1].tenths != f->tenths) {
            str_printf(out, "%s<path stroke=\"#%06x\"", f == fills ? "" : "\"/>\n",
                       (unsigned)f->color);
            if (high < 1) str_printf(out, " stroke-width=\"%g\"", high);
            if (f->tenths < 10) str_printf(out, " stroke-opacity=\".%d\"", f->tenths);
            str_puts(out, " d=\"");
        }
        str_printf(out, "M%d %gh%d", f->x, f->y + (f->eighths < 0 ? high / 2 : 1 - high / 2), f->w);
    }
    if (f > fills) str_puts(out, "\"/>\n");
    free(fills);
}

static void put_escaped(struct str *out, const char *text)
{
    for (; *text; text++) {
        if (*text == '&')
            str_puts(out, "&amp;");
        else if (*text == '<')
            str_puts(out, "&lt;");
        else if (*text == '>')
            str_puts(out, "&gt;");
        else
            str_append(out, text, 1);
    }
}

static bool is_blank(const struct svg_cell *c)
{
    int tenths;
    return !strcmp(c->text, " ") || block_of(c->text, &tenths);
}

/* A text for each run of a style; blanks belong to any. */
static void put_texts(const struct svg *s, const struct svg_cell *row, struct str *out)
{
    for (int x = 0; x < s->w;) {
        const struct svg_style *k = &row[x].style;
        int end = x + 1, last = x; /* last: of the run that is not blank */
        if (is_blank(&row[x])) {
            x++;
            continue;
        }
        for (; end < s->w; end++) {
            if (row[end].text[0] && is_blank(&row[end])) continue;
            if (row[end].text[0] && !same_style(&row[end].style, k)) break;
            last = end;
        }
        str_printf(out, "<text x=\"%.4g\"", x * cell_w);
        if (text_color(s, k) != text_of[s->light])
            str_printf(out, " fill=\"#%06x\"", (unsigned)text_color(s, k));
        if (k->bold) str_puts(out, " font-weight=\"bold\"");
        if (k->underline) str_puts(out, " text-decoration=\"underline\"");
        str_printf(out, " textLength=\"%.5g\">", (last + 1 - x) * cell_w);
        for (int i = x; i <= last; i++) put_escaped(out, is_blank(&row[i]) ? " " : row[i].text);
        str_puts(out, "</text>");
        x = last + 1;
    }
}

static void put_row(const struct svg *s, int y, struct str *out)
{
    put_texts(s, &s->cells[y * s->w], out);
    if (s->cursor && y == s->y && s->x < s->w)
        str_printf(out,
                   "<rect fill-opacity=\".6\" x=\"%.5g\" y=\"%g\" width=\"%g\" height=\"%g\"/>",
                   s->x * cell_w, -baseline, cell_w, cell_h);
}

/* ---- the picture ----------------------------------------------------------------------------- */

void svg_feed(struct svg *s, const char *text)
{
    size_t left = strlen(text);
    while (left > 0) {
        uint32_t cp;
        int length = utf8_next(text, left, &cp);
        size_t n = length > 0 ? (size_t)length : 1;
        if (text[0] == '\033' && text[1] == '[')
            n = 2 + sequence(s, text + 2);
        else if (length > 0 && cp >= 0x20)
            put(s, text, length, cp);
        text += n;
        left -= n;
    }
}

void svg_write(const struct svg *s, struct str *out)
{
    double w = s->w * cell_w + 2 * margin, h = s->h * cell_h + 2 * margin;
    str_printf(out,
               "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.6g %.6g\" "
               "width=\"%.6g\" height=\"%.6g\" font-family=\"ui-monospace,Menlo,Consolas,DejaVu "
               "Sans Mono,monospace\" font-size=\"12\" xml:space=\"preserve\">\n"
               "<rect width=\"100%%\" height=\"100%%\" rx=\"6\" fill=\"#%06x\"/>\n"
               "<g transform=\"translate(%.4g %.4g)\" fill=\"#%06x\">\n"
               "<g transform=\"scale(%.4g %.4g)\" shape-rendering=\"crispEdges\">\n",
               w, h, w, h, (unsigned)ground_of[s->light], margin, margin,
               (unsigned)text_of[s->light], cell_w, cell_h);
    put_fills(s, out);
    str_puts(out, "</g>\n");
    for (int y = 0; y < s->h; y++) {
        str_printf(out, "<g transform=\"translate(0 %.4g)\">", y * cell_h + baseline);
        put_row(s, y, out);
        str_puts(out, "</g>\n");
    }
    str_puts(out, "</g></svg>\n");
}
