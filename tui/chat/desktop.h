/* desktop: the window around the terminal: its title, a progress bar while something is loaded or
 * read, and a bell when a long answer ends while another window has the focus. Returns bytes, does
 * not write them; on a terminal without windows there are none. */
#ifndef RETAIN_TUI_CHAT_DESKTOP_H
#define RETAIN_TUI_CHAT_DESKTOP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "cli/options/options.h"

struct app;
struct key_event;

struct desktop {
    bool title, bell, progress; /* are used */
    /* another window has the focus, as far as the terminal reports it */
    bool away;
    bool busy;
    int64_t busy_ms;        /* since when the app is busy */
    int percent;            /* of the bar; -1 = none */
    struct str shown_title; /* "" = not set by this program */
    char on[32], off[48];   /* for term_add_modes */
};

/* windows: the terminal is in a window and supports xterm's sequences. */
void desktop_init(struct desktop *d, const struct options *o, bool windows);
void desktop_release(struct desktop *d);
/* true: the event was a focus change, not a key. */
bool desktop_key(struct desktop *d, const struct key_event *ev);
/* Appends the bytes that show the app's present state. */
void desktop_update(struct desktop *d, const struct app *a, struct str *out);
/* Call after another program may have changed everything. */
void desktop_forget(struct desktop *d);

#endif
