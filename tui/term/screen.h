/* screen: a grid to a terminal (ansi.h), and the terminal's bytes to keys. Only screen.c uses
 * terminfo, ncurses' library of terminals. */
#ifndef RETAIN_TUI_TERM_SCREEN_H
#define RETAIN_TUI_TERM_SCREEN_H

#include <stdbool.h>

#include "base/err.h"
#include "tui/term/ansi.h"
#include "tui/term/grid.h"
#include "tui/term/input.h"

struct options;
struct record;

struct screen {
    struct record *record; /* the caller sets and closes it; NULL = no recording */
    bool open;
    struct grid shown; /* the terminal's present contents */
    bool repaint;      /* its contents are unknown: write every cell */
    bool clear;        /* clear the terminal first: only on request */
    bool sync;         /* the terminal knows mode 2026 */
    bool told;         /* the user set the background */
    bool polite;       /* the terminal may be asked whether it has drawn everything */
    bool answers;      /* it has answered such a question */
    int unanswered;    /* questions */
    int64_t asked_ms;  /* time of the last question */
    struct look look;
    struct ansi ansi;
    struct input input;
    int w, h;
};

int screen_open(struct screen *s, const struct options *o, struct err *e);
void screen_close(struct screen *s);
void screen_paint(struct screen *s, const struct grid *g);
void screen_fit(struct screen *s); /* queries the terminal's size */
void screen_suspend(struct screen *s);
void screen_leave(struct screen *s); /* gives the terminal to another program until screen_return */
void screen_return(struct screen *s);
int screen_read(struct screen *s); /* feeds typed bytes to s->input; < 0: the terminal was closed */

/* Whether a frame may be written. Over a slow link the terminal lags behind; frames then wait until
 * it has drawn the previous one, and show the state at that time. key: an echo, which waits
 * less. */
bool screen_ready(const struct screen *s, int64_t now_ms, bool key);

/* Processes the terminal's replies; true when the event was one. */
bool screen_reply(struct screen *s, const struct key_event *ev);

#endif
