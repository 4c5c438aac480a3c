/* view_help: all keys and commands, from the tables that implement them. */
#include <stdio.h>
#include <string.h>

#include "cli/control/slash.h"
#include "tui/chat/app.h"
#include "base/utf8_width.h"
#include "tui/view/bars.h"

/* Row `y` counts all rows; only rows on the page are drawn. */
static void put_row(struct app *a, struct pane p, int *y, const char *left, const char *right)
{
    int x = 2 + utf8_columns(left, strlen(left)), column = x < 14 ? 14 : x + 1;
    int width = p.w - column > 8 ? p.w - column : 8;
    size_t n = strlen(right), from = 0, shown = 0;
    for (bool first = true; first || from < n; first = false) {
        int at = 1 + *y - a->help.top;
        size_t taken = n > 0 ? utf8_line(right + from, n - from, width, &shown) : 0;
        ++*y;
        if (at >= 1 && at < p.h - 1 && first)
            pane_puts(p, 2, at, right[0] ? ATTR_KEY : ATTR_BOLD, left);
        if (at >= 1 && at < p.h - 1) pane_put(p, column, at, ATTR_TEXT, right + from, shown);
        from += taken;
    }
}

static void put_command(struct app *a, struct pane p, int *y, const struct slash_row *row)
{
    char left[48];
    int column = p.w < 80 ? 14 : 24; /* including its arguments */
    snprintf(left, sizeof left, "/%s %s%*s", row->name, p.w < 80 ? "" : row->usage, column, "");
    left[column - 2] = 0;
    put_row(a, p, y, left, row->help);
}

static void put_keys(struct app *a, struct pane p, int *y, const char *title, unsigned views)
{
    put_row(a, p, y, title, "");
    for (const struct binding *b = key_table; b->views; b++)
        if (b->label && b->help && b->views == views) put_row(a, p, y, b->label, b->help);
    put_row(a, p, y, "", "");
}

/* Draws the rows; returns the row where the keys of a view begin. */
static int put_rows(struct app *a, struct pane p, enum view view)
{
    int y = 0, begin = 0;
    put_keys(a, p, &y, "Everywhere", IN_ALL);
    put_row(a, p, &y, "Commands, typed as a message", "");
    for (const struct slash_row *row = slash_table; row->name; row++) put_command(a, p, &y, row);
    put_row(a, p, &y, "//text", "sends /text");
    put_row(a, p, &y, "", "");
    if (view == VIEW_CHAT) begin = y;
    put_keys(a, p, &y, "Chat", IN(VIEW_CHAT));
    if (view == VIEW_MAP) begin = y;
    put_keys(a, p, &y, "Map (F3)", IN(VIEW_MAP));
    if (view == VIEW_TINT) begin = y;
    put_keys(a, p, &y, "Tint (F4)", IN(VIEW_TINT));
    put_keys(a, p, &y, "Map and tint", IN(VIEW_MAP) | IN(VIEW_TINT));
    if (view == VIEW_LIST) begin = y;
    put_keys(a, p, &y, "Conversations (F2)", IN(VIEW_LIST));
    if (view == VIEW_READ) begin = y;
    put_keys(a, p, &y, "Messages (Alt-Up)", IN(VIEW_READ));
    put_keys(a, p, &y, "Help and log", IN_PAGES);
    put_keys(a, p, &y, "In all views but the chat", IN_OVERLAYS);
    put_row(a, p, &y, "Words", "");
    put_row(a, p, &y, "unit", "the key and value of one token in one head of one layer");
    put_row(a, p, &y, "memory",
            "the whole conversation; a cell shows the share of its units still kept");
    put_row(a, p, &y, "all ... gone",
            "share of a cell's units kept: all, over 40 %, up to 40, 10 or 2 %, none");
    put_row(a, p, &y, "evicted", "no head holds it; later units may still depend on it");
    put_row(a, p, &y, "bytes", "of weights, cache and scratch, of the machine's memory");
    a->help.rows = y;
    return begin;
}

/* Opens at the keys of the view that it was opened in; in the chat at the top. */
static void draw(struct app *a, struct pane p)
{
    if (a->help_seek) a->help.top = put_rows(a, pane_sub(p, 0, 0, p.w, 0), a->help_of);
    if (a->help_of == VIEW_CHAT && a->help_seek) a->help.top = 0;
    a->help_seek = false;
    bar_title(a, p, 0);
    put_rows(a, p, a->help_of);
    a->help.page = p.h - 2 > 1 ? p.h - 2 : 1;
    if (p.h > 2) bar_hints(a, p, p.h - 1);
}

static bool scroll(struct scroll_state *s, int r)
{
    int last = s->rows > s->page ? s->rows - s->page : 0;
    switch (r) {
    case REQ_UP: s->top--; break;
    case REQ_DOWN: s->top++; break;
    case REQ_PAGE_UP: s->top -= s->page; break;
    case REQ_PAGE_DOWN: s->top += s->page; break;
    case REQ_FIRST: s->top = 0; break;
    case REQ_LAST: s->top = last; break;
    default: return false;
    }
    if (s->top > last) s->top = last;
    if (s->top < 0) s->top = 0;
    return true;
}

static bool request(struct app *a, int r)
{
    if (r != REQ_BACK && r != REQ_RUN(SLASH_HELP)) return scroll(&a->help, r);
    a->view = a->help_of; /* as it was left */
    return true;
}

static void open(struct app *a)
{
    a->help_seek = true;
}

const struct view_ops view_help = {.name = "help", .open = open, .draw = draw, .request = request};

/* ---- log: events, and what libraries and drivers wrote to stdout and stderr ------------------ */

static void log_open(struct app *a)
{
    app_act(a, ACT_LOG, "", 0);
}

/* Lines of a text below `title`, from row `rows`. */
static void put_lines(struct app *a, struct pane p, int *rows, const char *title,
                      const struct str *text)
{
    struct str safe = {0};
    size_t at = 0, shown;
    sanitize(str_get(text), text->n, a->ascii, false, &safe);
    int y = 1 + (*rows)++ - a->log_scroll.top;
    if (y >= 1 && y < p.h - 1) pane_puts(p, 0, y, ATTR_BOLD, title);
    while (at < safe.n) {
        size_t taken = utf8_line(safe.data + at, safe.n - at, p.w, &shown);
        y = 1 + (*rows)++ - a->log_scroll.top;
        if (y >= 1 && y < p.h - 1) pane_put(p, 0, y, ATTR_TEXT, safe.data + at, shown);
        at += taken;
    }
    ++*rows;
    str_release(&safe);
}

static void log_draw(struct app *a, struct pane p)
{
    int rows = 0;
    bar_title(a, p, 0);
    put_lines(a, p, &rows, a->events.n ? "Events" : "No event yet", &a->events);
    put_lines(a, p, &rows,
              a->log.n ? "Output of libraries and drivers"
                       : "Libraries and drivers printed nothing",
              &a->log);
    a->log_scroll.rows = rows - 1;
    a->log_scroll.page = p.h - 2 > 1 ? p.h - 2 : 1;
    if (p.h > 2) bar_hints(a, p, p.h - 1);
}

static bool log_request(struct app *a, int r)
{
    return scroll(&a->log_scroll, r);
}

const struct view_ops view_log = {
    .name = "log", .open = log_open, .draw = log_draw, .request = log_request};
