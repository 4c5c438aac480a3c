/* view_palette: the palette as a box over the view below it. */
#include <stdio.h>
#include <string.h>

#include "tui/chat/app.h"
#include "tui/view/bars.h"

enum { WIDTH = 100, NAME = 26, KEY = 14, WHOLE = 2 }; /* WHOLE: lines of draw_whole */

static const char *const titles[] = {[PALETTE_ALL] = "everything",
                                     [PALETTE_SETTINGS] = "settings",
                                     [PALETTE_MODELS] = "models",
                                     [PALETTE_TURNS] = "turns"};

/* "set budget    cache units per head                64" */
static void draw_item(struct app *a, struct pane p, int y, const struct palette_item *item,
                      bool selected)
{
    int name = p.w < 60 ? p.w / 3 : NAME, key = p.w < 60 ? 0 : KEY, at = name + 2;
    if (selected) pane_fill(p, 0, y, p.w, ATTR_SELECT, ' ');
    enum attr bold = selected ? ATTR_SELECT : ATTR_BOLD, text = selected ? ATTR_SELECT : ATTR_TEXT;
    pane_clean(a, pane_sub(p, 1, y, name, 1), 0, 0, bold, item->name);
    pane_clean(a, pane_sub(p, at, y, p.w - at - key - 1, 1), 0, 0, text, item->text);
    pane_clean(a, pane_sub(p, p.w - key, y, key, 1), 0, 0, bold, item->key);
}

/* Lines around a pane; returns the inside. */
static struct pane draw_frame(struct pane p)
{
    const bool ascii = p.g->ascii;
    pane_clear(p);
    bar_rule(p, 0, "");
    bar_rule(p, p.h - 1, "");
    pane_separator(p, 0, 1, p.h - 2);
    pane_separator(p, p.w - 1, 1, p.h - 2);
    pane_puts(p, 0, 0, ATTR_DIM, ascii ? "+" : "╭");
    pane_puts(p, p.w - 1, 0, ATTR_DIM, ascii ? "+" : "╮");
    pane_puts(p, 0, p.h - 1, ATTR_DIM, ascii ? "+" : "╰");
    pane_puts(p, p.w - 1, p.h - 1, ATTR_DIM, ascii ? "+" : "╯");
    return pane_sub(p, 1, 1, p.w - 2, p.h - 2);
}

static void draw_filter(struct app *a, struct pane p, int y)
{
    char label[24];
    snprintf(label, sizeof label, "%s> ", titles[a->palette.kind]);
    int x = bar_field(a, p, y, label, &a->palette.filter);
    if (a->palette.filter.text.n == 0) pane_puts(p, x + 2, y, ATTR_DIM, "type to search");
}

/* The selected item's text, which its row may cut. */
static void draw_whole(struct app *a, struct pane p, const struct palette_item *item)
{
    const char *text = item->text;
    char line[sizeof item->text];
    for (int y = p.h - WHOLE; y < p.h; y++) {
        size_t n = strlen(text), w = (size_t)p.w - 2;
        if (n > w && y < p.h - 1)
            for (n = w; n > 0 && text[n] != ' ';) n--;
        snprintf(line, sizeof line, "%.*s", (int)n, text);
        pane_clean(a, pane_sub(p, 1, y, p.w - 2, 1), 0, 0, ATTR_DIM, line);
        text += n + (text[n] == ' ');
    }
}

static void draw(struct app *a, struct pane p)
{
    struct palette *k = &a->palette;
    if (k->fresh) palette_fill(a);
    view_table[k->of]->draw(a, p);
    int w = p.w - 4 < WIDTH ? p.w - 4 : WIDTH, h = p.h > 30 ? p.h / 2 : p.h - 4;
    if (h > k->n + 3 + WHOLE) h = k->n > 5 ? k->n + 3 + WHOLE : 8 + WHOLE;
    if (w < 20 || h > p.h) w = p.w, h = p.h;
    struct pane box = draw_frame(pane_sub(p, (p.w - w) / 2, (p.h - h) / 3, w, h));
    const int whole = box.h > 8 ? WHOLE : 0;
    k->page = box.h - 1 - whole > 1 ? box.h - 1 - whole : 1;
    if (k->selected < k->top) k->top = k->selected;
    if (k->selected >= k->top + k->page) k->top = k->selected - k->page + 1;
    draw_filter(a, box, 0);
    for (int i = 0; i < k->page && k->top + i < k->n_shown; i++)
        draw_item(a, box, 1 + i, &k->items[k->shown[k->top + i]], k->top + i == k->selected);
    if (whole && k->n_shown > 0) draw_whole(a, box, &k->items[k->shown[k->selected]]);
    if (k->n_shown == 0) pane_puts(box, 1, 1, ATTR_DIM, "nothing of that name");
    pane_fill(p, 0, p.h - 1, p.w, ATTR_TEXT, ' ');
    pane_clean(a, p, 1, p.h - 1, ATTR_DIM,
               "type to search  arrows choose  Enter does it  Esc back");
}

static void move(struct palette *k, int by)
{
    k->selected += by;
    if (k->selected >= k->n_shown) k->selected = k->n_shown - 1;
    if (k->selected < 0) k->selected = 0;
}

static bool capture(struct app *a, const struct key_event *ev)
{
    struct palette *k = &a->palette;
    switch (ev->key) {
    case '\033':
    case CTRL('c'):
    case CTRL('p'): a->view = k->of; return true;
    case '\r': palette_choose(a); return true;
    case K_UP:
    case K_WHEEL_UP: move(k, -1); return true;
    case K_DOWN:
    case K_WHEEL_DOWN:
    case '\t': move(k, 1); return true;
    case K_PAGE_UP: move(k, -k->page); return true;
    case K_PAGE_DOWN: move(k, k->page); return true;
    case K_LEFT:
    case K_RIGHT: return false; /* the cursor stays at the end */
    default:
        if (!app_field_key(&k->filter, ev)) return false;
    }
    palette_filter(k);
    return true;
}

const struct view_ops view_palette = {.name = "palette", .draw = draw, .capture = capture};
