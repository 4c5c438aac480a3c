/* screen: a grid to a terminal, through ncurses, and the terminal's bytes to keys. All that knows
 * ncurses is in screen.c. */
#ifndef RETAIN_TUI_TERM_SCREEN_H
#define RETAIN_TUI_TERM_SCREEN_H

#include <stdbool.h>

#include "base/err.h"
#include "tui/term/grid.h"
#include "tui/term/input.h"

struct options;
struct record;

struct screen {
    struct record *record; /* the caller's to set and to close; NULL = nobody asked for one */
    void *curses;          /* SCREEN * */
    struct grid shown;     /* what the terminal holds */
    bool repaint;          /* it may hold something else: write every cell */
    bool clear;            /* begin with an empty terminal: only when asked for */
    bool sync;             /* the terminal knows mode 2026 */
    bool light, told;      /* light background; the person said so */
    bool polite;           /* the terminal may be asked whether it has come this far */
    bool answers;          /* and has answered */
    int unanswered;        /* questions */
    int64_t asked_ms;      /* the last of them */
    int colors;            /* 0, 16 or 256 */
    struct input input;
    int w, h;
};

int screen_open(struct screen *s, const struct options *o, struct err *e);
void screen_close(struct screen *s);
void screen_paint(struct screen *s, const struct grid *g);
void screen_fit(struct screen *s); /* asks the terminal for its size */
void screen_suspend(struct screen *s);
void screen_leave(struct screen *s); /* another program has the terminal until screen_return */
void screen_return(struct screen *s);
int screen_read(struct screen *s); /* feeds what was typed to s->input; < 0: the terminal is gone */

/* May a frame be written? Over a slow link the terminal is behind; frames then wait until it has
 * drawn the one before, and show how things are by that time. key: an echo, which waits less. */
bool screen_ready(const struct screen *s, int64_t now_ms, bool key);

/* Replies of the terminal change the screen; true when the event was one. */
bool screen_reply(struct screen *s, const struct key_event *ev);

#endif
