/* view_tint: the transcript, shaded by how much of it is still in the cache. The gutter shows it
 * with glyphs, readable without colours; each token shows its own share. The cursor is
 * on a token and leads to the same place in the map. */

#include "tui/chat/app.h"
#include "base/utf8_width.h"
#include "tui/view/bars.h"
#include "tui/view/words.h"

enum { LINES_MAX = 512 };

/* ---- the page -------------------------------------------------------------------------------- */

static bool same(const struct words_line *x, const struct words_line *y)
{
    return x->index == y->index && x->from == y->from;
}

static int fill_from(struct app *a, struct words_line at, struct words_line *rows, int h, int width)
{
    int n = 0;
    a->tint.top_message = at.index;
    a->tint.top_byte = at.from;
    do rows[n++] = at;
    while (n < h && words_neighbour(a, &at, true, width, &at));
    return n;
}

/* Fills the page from the line that was at the top; it always includes the cursor's line. */
static int fill(struct app *a, struct words_line *rows, int h, int width)
{
    size_t next;
    struct words_line cursor = words_line_of(a, a->tint.position, width), at;
    bool seen = cursor.index < 0;
    int n = 0;
    if (a->tint.top_message >= a->talk.n) a->tint.top_message = 0;
    at = words_line_at(a, a->tint.top_message, a->tint.top_byte, width, &next);
    do {
        rows[n++] = at;
        seen = seen || same(&at, &cursor);
    } while (n < h && words_neighbour(a, &at, true, width, &at));
    if (!seen) {
        at = cursor;
        for (int i = 0; i < h / 2 && words_neighbour(a, &at, false, width, &at); i++) continue;
        n = fill_from(a, at, rows, h, width);
    }
    for (int i = n; i < h && words_neighbour(a, &rows[0], false, width, &at); i++)
        n = fill_from(a, at, rows, h, width); /* no blank end */
    return n;
}

static void draw_legend(struct app *a, struct pane p, int y)
{
    pane_fill(p, 0, y, p.w, ATTR_TITLE, ' ');
    int x = pane_clean(a, p, 1, y, ATTR_TITLE, a->name);
    x = pane_puts(p, x, y, ATTR_TITLE, " > tint  all heads  ") - 1;
    bool fits = x + bar_legend_columns(a) <= p.w;
    if (!fits) pane_fill(p, 0, y, p.w, ATTR_TITLE, ' '); /* the signs have priority */
    bar_legend(a, p, fits ? x : 0, y);
}

static void draw(struct app *a, struct pane p)
{
    struct words_line rows[LINES_MAX];
    int width = p.w - words_column(p) - 1;
    int h = p.h - 3 < LINES_MAX ? p.h - 3 : LINES_MAX;
    if (p.h < 5 || p.w < 20 || a->talk.n == 0) {
        pane_puts(p, 0, 0, ATTR_TITLE,
                  a->talk.n ? "tint: too small a screen" : "tint: no message yet");
        if (p.h > 2) bar_hints(a, p, p.h - 1);
        return;
    }
    a->tint.width = width;
    int n = fill(a, rows, h, width);
    a->tint.page = h;
    draw_legend(a, p, 0);
    struct pane text = pane_sub(p, 0, 1, p.w, h);
    for (int y = 0; y < n; y++)
        words_draw(a, text, y, &rows[y], a->tint.position, a->tint.position + 1);
    int x = map_put_token(a, p, 0, p.h - 2, a->tint.position);
    pane_cut(p, p.h - 2, map_put_fate(a, p, x + 2, p.h - 2, a->tint.position));
    bar_hints(a, p, p.h - 1);
}

/* ---- keys ------------------------------------------------------------------------------------ */

/* Moves to the next token that has text. */
static void move_token(struct app *a, int by)
{
    size_t byte, end;
    for (int64_t p = a->tint.position + by; p >= 0 && a->map && p < a->map->n_pos; p += by) {
        if (transcript_find(&a->talk, p, &byte, &end) < 0 || end <= byte) continue;
        a->tint.position = p;
        return;
    }
}

/* Moves to the token at the same column of the next line with tokens. */
static void move_line(struct app *a, bool after, int lines)
{
    int width = a->tint.width > 0 ? a->tint.width : 1;
    size_t byte, end;
    struct words_line at = words_line_of(a, a->tint.position, width);
    if (at.index < 0 || transcript_find(&a->talk, a->tint.position, &byte, &end) < 0) return;
    const char *s = str_get(&a->talk.messages[at.index].text);
    int column = byte > at.from ? utf8_columns(s + at.from, byte - at.from) : 0;
    while (lines > 0 && words_neighbour(a, &at, after, width, &at)) {
        const struct message *m = &a->talk.messages[at.index];
        if (!words_have_place(m) || at.n == 0) continue;
        size_t to = utf8_fit(str_get(&m->text) + at.from, at.n, column);
        if (to >= at.n) to = at.n - 1;
        a->tint.position = transcript_position(&a->talk, at.index, at.from + to);
        lines--;
    }
}

/* Starts at the cursor's last place, else at the chat's scroll position. */
static void open(struct app *a)
{
    struct tint_state *t = &a->tint;
    if (t->placed) {
        t->placed = false;
        return;
    }
    if (a->talk.n == 0) return;
    int index =
        a->chat.held && a->chat.top_message < a->talk.n ? a->chat.top_message : a->talk.n - 1;
    while (index > 0 && !words_have_place(&a->talk.messages[index])) index--;
    if (!words_have_place(&a->talk.messages[index])) return;
    size_t byte = a->chat.held ? a->chat.top_byte : 0;
    t->position = transcript_position(&a->talk, index, byte);
}

static void open_map(struct app *a)
{
    app_show(a, VIEW_MAP);
    a->mapped.position = a->tint.position;
}

static bool request(struct app *a, int r)
{
    switch (r) {
    case REQ_LEFT: move_token(a, -1); break;
    case REQ_RIGHT: move_token(a, 1); break;
    case REQ_UP: move_line(a, false, 1); break;
    case REQ_DOWN: move_line(a, true, 1); break;
    case REQ_PAGE_UP: move_line(a, false, a->tint.page); break;
    case REQ_PAGE_DOWN: move_line(a, true, a->tint.page); break;
    case REQ_FIRST:
        a->tint.position = -1;
        move_token(a, 1);
        break;
    case REQ_LAST:
        if (a->map) a->tint.position = a->map->n_pos;
        move_token(a, -1);
        break;
    case REQ_OPEN:
    case REQ_RUN(SLASH_MAP): open_map(a); break;
    default: return map_jump(a, r, &a->tint.position);
    }
    return true;
}

const struct view_ops view_tint = {.name = "tint", .open = open, .draw = draw, .request = request};
