/* A grid as lines of text, with trailing blanks, then its attribute runs (= for those of the row
 * before), then the cursor. */
#ifndef RETAIN_TESTS_TUI_GRID_DUMP_H
#define RETAIN_TESTS_TUI_GRID_DUMP_H

#include "base/str.h"
#include "base/utf8_width.h"
#include "tui/term/grid.h"

static inline void dump_text(const struct grid *g, int y, struct str *out)
{
    for (int x = 0; x < g->w; x++) {
        const struct cell *c = &g->cells[y * g->w + x];
        for (size_t i = 0; c->text[i]; i++) {
            char bytes[4];
            str_append(out, bytes, (size_t)utf8_encode((uint32_t)c->text[i], bytes));
        }
    }
    str_puts(out, "|\n");
}

/* A level of the ramp: "r3" for the one that stands for class 3, else "r3.1". */
static inline void dump_level(int level, const char *name, struct str *out)
{
    if (level < 0)
        str_puts(out, "-1");
    else
        str_printf(out, "%s%d", name, (level + 3) / 4);
    if (level > 0 && level % 4 != 1) str_printf(out, ".%d", level % 4);
}

static inline void dump_attrs(const struct grid *g, int y, struct str *out)
{
    static const char *const names[ATTR_RAMP0] = {
        "text",    "dim",     "bold",   "title",  "you",     "llm",      "key",  "select",  "error",
        "code",    "keyword", "string", "number", "comment", "em",       "mark", "weights", "cache",
        "scratch", "gone",    "fade1",  "fade2",  "thin",    "returned", "found"};
    const struct cell *row = &g->cells[y * g->w];
    for (int x = 0, from = 0; x <= g->w; x++) {
        if (x < g->w && row[x].attr == row[from].attr) continue;
        int attr = row[from].attr, half = attr - ATTR_HALF0;
        if (attr != ATTR_TEXT) str_printf(out, " %d", from);
        if (attr != ATTR_TEXT && x - 1 > from) str_printf(out, "-%d", x - 1);
        if (attr != ATTR_TEXT) str_puts(out, ":");
        if (attr >= ATTR_HALF0) {
            dump_level(half / HALF_LEVELS - 1, "", out);
            str_puts(out, "/");
            dump_level(half % HALF_LEVELS - 1, "", out);
        } else if (attr >= ATTR_RAMP0) {
            dump_level(attr - ATTR_RAMP0, "r", out);
        } else if (attr != ATTR_TEXT) {
            str_puts(out, names[attr]);
        }
        from = x;
    }
}

/* As in the row before, which has any. */
static inline bool same_attrs(const struct grid *g, int y)
{
    const struct cell *row = &g->cells[y * g->w], *before = row - g->w;
    bool any = false;
    for (int x = 0; x < g->w; x++) {
        if (row[x].attr != before[x].attr) return false;
        any = any || row[x].attr != ATTR_TEXT;
    }
    return any;
}

static inline void grid_dump(const struct grid *g, struct str *out)
{
    str_printf(out, "%dx%d\n", g->w, g->h);
    for (int y = 0; y < g->h; y++) dump_text(g, y, out);
    for (int y = 0; y < g->h; y++) {
        str_printf(out, "%d", y);
        if (y > 0 && same_attrs(g, y))
            str_puts(out, " =");
        else
            dump_attrs(g, y, out);
        str_puts(out, "\n");
    }
    str_printf(out, "cursor %d,%d\n", g->cursor_x, g->cursor_y);
}

#endif
