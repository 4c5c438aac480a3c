/* view: one screenful and its keys. Like tig: one file per view behind one table; keys become
 * requests (keys.h), and a view handles the requests that it knows. */
#ifndef RETAIN_TUI_CHAT_VIEW_H
#define RETAIN_TUI_CHAT_VIEW_H

#include <stdbool.h>

#include "base/str.h"
#include "cli/control/keys.h"
#include "tui/chat/trace.h"
#include "tui/term/grid.h"

struct app;
struct picture;
struct retention;

struct view_ops {
    const char *name;
    void (*open)(struct app *a); /* called when it is opened; may be NULL */
    void (*draw)(struct app *a, struct pane p);
    /* may be NULL; false: not handled */
    bool (*request)(struct app *a, int r);
    /* a key without a request; may be NULL */
    void (*key)(struct app *a, const struct key_event *ev);
    /* Keys that are text or an answer at this moment, before they are looked up; may be NULL.
     * false: not handled. */
    bool (*capture)(struct app *a, const struct key_event *ev);
};

extern const struct view_ops view_chat, view_map, view_tint, view_list, view_help, view_log,
    view_dash, view_read, view_palette;
extern const struct view_ops *const view_table[VIEWS];

/* The same picture inside a larger view (the panes of a wide terminal). */
void map_draw_pane(struct app *a, struct pane p);
/* Draws the token of a position, and its fate in the heads; return the column after it. */
int map_put_token(struct app *a, struct pane p, int x, int y, int64_t position);
int map_put_fate(struct app *a, struct pane p, int x, int y, int64_t position);
/* Milliseconds until the next moment while the past is played; -1 = it is not. */
int map_timeout(const struct app *a);
/* The beginning of the next run of columns that are evicted from all heads; -1 = none. */
int64_t map_next_gone(const struct app *a, int64_t position, bool after);
/* Moves a cursor to the turn or the evicted columns before or after it; false: r asks for
 * another. */
bool map_jump(struct app *a, int r, int64_t *position);
void monitor_draw_pane(struct app *a, struct pane p);
void list_draw_pane(struct app *a, struct pane p);
/* "message 5 of 14, turn 3, you  /fox  2 found" */
void read_label(const struct app *a, struct str *out);
/* The first byte >= from of a message where the text that is searched for begins. */
#define READ_NONE ((size_t)-1)
size_t read_match(const struct app *a, int index, size_t from);
/* One row, scaled to the largest value. */
void dash_sparkline(const struct app *a, struct pane p, enum trace_line line);

/* welcome.c: the empty screen of a new conversation; x: the column of the text. With the demo model
 * it says what that is, and keys 1 to 3 write a message that shows what it can do. */
void welcome_draw(const struct app *a, struct pane p, int x);
/* True when the key wrote one of the messages; Enter sends it. A character after it begins the
 * user's own message: a letter without the digit, anything else after it ("2 plus 2"). */
bool welcome_key(struct app *a, const struct key_event *ev);

/* map_token.c: the token under the map's cursor, and the text around it. */
enum { MAP_LABEL = 7 }; /* columns left of the picture */
/* The cursor's layer, counted in layers with units; the nearest before it, if it has none. */
int map_kv_layer(const struct app *a, const struct retention *r);
/* The token, and how many heads hold it. */
void map_draw_token(struct app *a, struct pane p);
/* "turn 3 llm, tokens 57-58", and a mark at the cursor's cell. */
void map_draw_lens_rule(struct app *a, struct pane p, const struct picture *pic);
/* The lines of text around the cursor, with the tokens of its cell highlighted. */
void map_draw_lens(struct app *a, struct pane p, const struct picture *pic);

#endif
