/* desktop: what the window around the terminal shows: its title, a bar while something is loaded or
 * read, and a bell when a long answer ends behind another window. Bytes are made here, not written;
 * on a terminal without windows there are none. */
#ifndef RETAIN_TUI_CHAT_DESKTOP_H
#define RETAIN_TUI_CHAT_DESKTOP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "cli/options.h"

struct app;
struct key_event;

struct desktop {
    struct options_terminal use; /* what --terminal allows */
    bool away;                   /* another window has the focus, as far as the terminal tells */
    bool busy;
    int64_t busy_ms;        /* since then */
    int percent;            /* of the bar; -1 = there is none */
    struct str shown_title; /* "" = not set by us */
    char on[32], off[48];   /* for term_add_modes */
};

/* windows: the terminal is in a window and knows xterm's sequences. */
void desktop_init(struct desktop *d, const struct options *o, bool windows);
void desktop_release(struct desktop *d);
/* true: it was the window's focus that came or went, and no key. */
bool desktop_key(struct desktop *d, const struct key_event *ev);
/* Appends what must be written for the app as it is now. */
void desktop_update(struct desktop *d, const struct app *a, struct str *out);
/* Another program may have changed it all. */
void desktop_forget(struct desktop *d);

#endif
