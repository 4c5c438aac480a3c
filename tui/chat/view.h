/* view: one screenful and its keys. tig's shape: one file per view behind one table; keys become
 * requests (keys.h), a view handles those it knows. */
#ifndef RETAIN_TUI_CHAT_VIEW_H
#define RETAIN_TUI_CHAT_VIEW_H

#include <stdbool.h>

#include "cli/keys.h"
#include "tui/term/grid.h"

struct app;

struct view_ops {
    const char *name;
    void (*open)(struct app *a); /* it comes to the front; may be NULL */
    void (*draw)(struct app *a, struct pane p);
    bool (*request)(struct app *a, enum key_request r);     /* false: not mine */
    void (*key)(struct app *a, const struct key_event *ev); /* no request; may be NULL */
    /* Keys that mean text or an answer now, before they are looked up; may be NULL. false: not
     * mine. */
    bool (*capture)(struct app *a, const struct key_event *ev);
};

extern const struct view_ops view_chat, view_map, view_tint, view_list, view_help, view_log;
extern const struct view_ops *const view_table[VIEWS];

/* The same picture inside a larger view (the panes of a wide terminal). */
void map_draw_pane(struct app *a, struct pane p);
/* The token of a position, and what the heads made of it; return the column after it. */
int map_put_token(struct app *a, struct pane p, int x, int y, int64_t position);
int map_put_fate(struct app *a, struct pane p, int x, int y, int64_t position);
/* Where the next run of columns begins that are gone in all heads; -1 = there is none. */
int64_t map_next_gone(const struct app *a, int64_t position, bool after);
void monitor_draw_pane(struct app *a, struct pane p);
void list_draw_pane(struct app *a, struct pane p);

#endif
