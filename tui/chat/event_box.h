/* event_box: keeps events of another thread, with their texts, until the screen takes them. */
#ifndef RETAIN_TUI_CHAT_EVENT_BOX_H
#define RETAIN_TUI_CHAT_EVENT_BOX_H

#include "cli/control/control.h"

struct boxed_event; /* an event whose text is an offset */

/* Zero-initialise. */
struct event_box {
    struct boxed_event *rows;
    int n;
    size_t cap;
    struct str text;
};
void event_box_release(struct event_box *b);

/* Copies the event. Pieces of text are joined; of consecutive progress events only the latest is
 * kept. */
void event_box_add(struct event_box *b, const struct event *ev);

/* The i-th of b->n events; its text is valid until the box changes. */
struct event event_box_at(const struct event_box *b, int i);

/* Empties the box and keeps its memory. */
void event_box_clear(struct event_box *b);

#endif
