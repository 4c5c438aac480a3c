/* view_tint: the transcript, shaded by how much of it is still in the cache. The gutter shows it
 * with glyphs, readable without colours; each character shows it for its own tokens. The cursor is
 * on a token and leads to the same place in the map. */
#include <stdlib.h>
#include <string.h>

#include "base/utf8_width.h"
#include "cli/print/num.h"
#include "cli/control/ramp.h"
#include "tui/chat/app.h"
#include "tui/term/text.h"
#include "tui/view/bars.h"

enum { NARROW = 60, TEXT_WIDE = 6, TEXT_NARROW = 3, LINES_MAX = 512 };

/* A screen line: bytes of a message. */
struct row {
    int index; /* of the message; -1 = none */
    size_t from, n;
    bool first; /* the first line of its message */
};

static bool has_place(const struct message *m)
{
    return m->position >= 0 && m->n_tokens > 0;
}

/* The line of a message that contains a byte; *next = the beginning of the next one, 0 = it is the
 * last. */
static struct row line_at(const struct app *a, int index, size_t byte, int width, size_t *next)
{
    const struct message *m = &a->talk.messages[index];
    const char *s = str_get(&m->text);
    size_t at = 0, shown = 0;
    for (;;) {
        size_t taken = m->text.n > at ? text_line(s + at, m->text.n - at, width, &shown) : 0;
        bool last = at + taken >= m->text.n;
        if (last || byte < at + taken) {
            *next = last ? 0 : at + taken;
            return (struct row){index, at, taken ? shown : 0, at == 0};
        }
        at += taken;
    }
}

/* The line before or after one; false at the ends of the conversation. */
static bool neighbour(const struct app *a, const struct row *r, bool after, int width,
                      struct row *out)
{
    size_t next;
    int index = r->index;
    line_at(a, index, r->from, width, &next);
    if (after && next) {
        *out = line_at(a, index, next, width, &next);
        return true;
    }
    if (!after && r->from > 0) {
        *out = line_at(a, index, r->from - 1, width, &next);
        return true;
    }
    index += after ? 1 : -1;
    if (index < 0 || index >= a->talk.n) return false;
    *out = line_at(a, index, after ? 0 : a->talk.messages[index].text.n, width, &next);
    return true;
}

/* ---- shades ---------------------------------------------------------------------------------- */

/* Heads that hold a position, over all layers: exact within the detailed range, else by its
 * column. */
static int class_at(const struct app *a, int64_t position)
{
    const struct sight *s = &a->sight;
    if (position >= s->focus.from && position < s->focus.from + s->focus.n)
        return ramp_class(s->kept[position - s->focus.from], s->n_heads);
    return app_class_at(a, position, position + 1);
}

/* The best-kept of the tokens [from, end). */
static int best_class(const struct app *a, int64_t from, int64_t end)
{
    int best = 0;
    for (int64_t p = from; p < end && p < a->map->n_pos; p++) {
        int cls = class_at(a, p);
        if (cls > best) best = cls;
    }
    return best;
}

/* Class of a whole line, computed like the strip. */
static int line_class(const struct app *a, int64_t from, int64_t end)
{
    const struct sight *s = &a->sight;
    int64_t kept = 0, seen = 0;
    if (from < s->focus.from || end > s->focus.from + s->focus.n) return app_class_at(a, from, end);
    for (int64_t p = from; p < end && p < a->map->n_pos; p++) {
        kept += s->kept[p - s->focus.from];
        seen += s->n_heads;
    }
    return ramp_class(kept, seen);
}

static bool is_returned(const struct app *a, int64_t position)
{
    for (int i = 0; i < a->returned.n; i++)
        if (position >= a->returned.spans[i].from && position < a->returned.spans[i].end)
            return true;
    return false;
}

static void shade_line(struct app *a, struct pane p, int x, int y, const struct row *r)
{
    static const enum attr shades[RAMP_CLASSES] = {ATTR_GONE, ATTR_THIN, ATTR_TEXT, ATTR_TEXT,
                                                   ATTR_BOLD};
    const struct message *m = &a->talk.messages[r->index];
    const char *s = str_get(&m->text);
    for (size_t at = r->from; at < r->from + r->n;) {
        size_t next = utf8_after(s, m->text.n, at);
        int64_t from = transcript_position(&a->talk, r->index, at);
        int64_t end = transcript_position(&a->talk, r->index, next - 1) + 1;
        int width =
            text_columns(s + r->from, next - r->from) - text_columns(s + r->from, at - r->from);
        bool cursor = a->tint.position >= from && a->tint.position < end;
        enum attr shade = is_returned(a, from) ? ATTR_RETURNED : shades[best_class(a, from, end)];
        pane_attr(p, x, y, width, cursor ? ATTR_SELECT : shade);
        if (cursor) pane_cursor(p, x, y);
        x += width;
        at = next;
    }
}

static void draw_row(struct app *a, struct pane p, int y, const struct row *r)
{
    static const char *const words[] = {[CHAT_SYSTEM] = "sys",
                                        [CHAT_USER] = "you",
                                        [CHAT_ASSISTANT] = "llm",
                                        [TRANSCRIPT_NOTE] = "***"};
    const struct message *m = &a->talk.messages[r->index];
    int x = p.w < NARROW ? TEXT_NARROW : TEXT_WIDE;
    if (r->first && x == TEXT_WIDE) pane_puts(p, 2, y, ATTR_DIM, words[m->role]);
    pane_put(p, x, y, has_place(m) ? ATTR_TEXT : ATTR_DIM, str_get(&m->text) + r->from, r->n);
    if (!has_place(m) || !a->map) return;
    int64_t from, end;
    transcript_positions(&a->talk, r->index, r->from, r->n, &from, &end);
    pane_ramp(p, 0, y, line_class(a, from, end));
    shade_line(a, p, x, y, r);
    if (a->tint.first < 0) a->tint.first = from;
    a->tint.end = end;
}

/* ---- the page -------------------------------------------------------------------------------- */

static struct row cursor_row(struct app *a, int width)
{
    size_t byte, end, next;
    int index = transcript_find(&a->talk, a->tint.position, &byte, &end);
    if (index < 0) return (struct row){.index = -1};
    return line_at(a, index, byte, width, &next);
}

static bool same(const struct row *x, const struct row *y)
{
    return x->index == y->index && x->from == y->from;
}

static int fill_from(struct app *a, struct row at, struct row *rows, int h, int width)
{
    int n = 0;
    a->tint.top_message = at.index;
    a->tint.top_byte = at.from;
    do rows[n++] = at;
    while (n < h && neighbour(a, &at, true, width, &at));
    return n;
}

/* Fills the page from the line that was at the top; it always includes the cursor's line. */
static int fill(struct app *a, struct row *rows, int h, int width)
{
    size_t next;
    struct row cursor = cursor_row(a, width), at;
    bool seen = cursor.index < 0;
    int n = 0;
    if (a->tint.top_message >= a->talk.n) a->tint.top_message = 0;
    at = line_at(a, a->tint.top_message, a->tint.top_byte, width, &next);
    do {
        rows[n++] = at;
        seen = seen || same(&at, &cursor);
    } while (n < h && neighbour(a, &at, true, width, &at));
    if (seen) return n;
    at = cursor;
    for (int i = 0; i < h / 2 && neighbour(a, &at, false, width, &at); i++) continue;
    n = fill_from(a, at, rows, h, width);
    for (int i = n; i < h && neighbour(a, &rows[0], false, width, &at); i++) /* no blank end */
        n = fill_from(a, at, rows, h, width);
    return n;
}

static void draw_legend(struct app *a, struct pane p, int y)
{
    struct str safe = {0};
    pane_fill(p, 0, y, p.w, ATTR_TITLE, ' ');
    sanitize(a->name, strlen(a->name), a->ascii, true, &safe);
    int x = pane_printf(p, 1, y, ATTR_TITLE, "%s > tint  all heads  ", str_get(&safe));
    str_release(&safe);
    if (x - 1 + LEGEND_COLUMNS > p.w) return;
    x = bar_legend(p, x - 1, y);
    if (a->returned.n > 0) pane_puts(p, x, y, ATTR_RETURNED, "returned");
}

static void draw(struct app *a, struct pane p)
{
    struct row rows[LINES_MAX];
    int width = p.w - (p.w < NARROW ? TEXT_NARROW : TEXT_WIDE) - 1;
    int h = p.h - 3 < LINES_MAX ? p.h - 3 : LINES_MAX;
    if (p.h < 5 || p.w < 20 || a->talk.n == 0) {
        pane_puts(p, 0, 0, ATTR_TITLE,
                  a->talk.n ? "tint: too small a screen" : "tint: no message yet");
        if (p.h > 2) bar_hints(a, p, p.h - 1);
        return;
    }
    a->tint.first = a->tint.end = -1;
    a->tint.width = width;
    int n = fill(a, rows, h, width);
    a->tint.page = h;
    draw_legend(a, p, 0);
    for (int y = 0; y < n; y++) draw_row(a, pane_sub(p, 0, 1, p.w, h), y, &rows[y]);
    int x = map_put_token(a, p, 0, p.h - 2, a->tint.position);
    map_put_fate(a, p, x + 2, p.h - 2, a->tint.position);
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
    struct row at = cursor_row(a, width);
    if (at.index < 0 || transcript_find(&a->talk, a->tint.position, &byte, &end) < 0) return;
    const char *s = str_get(&a->talk.messages[at.index].text);
    int column = byte > at.from ? text_columns(s + at.from, byte - at.from) : 0;
    while (lines > 0 && neighbour(a, &at, after, width, &at)) {
        const struct message *m = &a->talk.messages[at.index];
        if (!has_place(m) || at.n == 0) continue;
        size_t to = text_at_column(str_get(&m->text) + at.from, at.n, column);
        if (to >= at.n) to = at.n - 1;
        a->tint.position = transcript_position(&a->talk, at.index, at.from + to);
        lines--;
    }
}

static void move_turn(struct app *a, bool after)
{
    int64_t best = -1;
    for (int i = 0; i < a->talk.n; i++) {
        const struct message *m = &a->talk.messages[i];
        if (m->role != CHAT_USER || !has_place(m)) continue;
        int64_t start = transcript_position(&a->talk, i, 0);
        if (after ? start > a->tint.position && best < 0 : start < a->tint.position) best = start;
    }
    if (best >= 0) a->tint.position = best;
}

static void jump_to_gone(struct app *a, bool after)
{
    int64_t position = map_next_gone(a, a->tint.position, after);
    if (position < 0)
        app_flash(a, "nothing is evicted in all heads %s here", after ? "after" : "before");
    else
        a->tint.position = position;
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
    while (index > 0 && !has_place(&a->talk.messages[index])) index--;
    if (!has_place(&a->talk.messages[index])) return;
    size_t byte = a->chat.held ? a->chat.top_byte : 0;
    t->position = transcript_position(&a->talk, index, byte);
}

static void open_map(struct app *a)
{
    app_show(a, VIEW_MAP);
    a->mapped.position = a->tint.position;
}

static bool request(struct app *a, enum key_request r)
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
    case REQ_TURN_BEFORE: move_turn(a, false); break;
    case REQ_TURN_AFTER: move_turn(a, true); break;
    case REQ_GONE_AFTER: jump_to_gone(a, true); break;
    case REQ_GONE_BEFORE: jump_to_gone(a, false); break;
    case REQ_OPEN:
    case REQ_MAP: open_map(a); break;
    default: return false;
    }
    return true;
}

const struct view_ops view_tint = {.name = "tint", .open = open, .draw = draw, .request = request};
