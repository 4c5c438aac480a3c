/* worker: the thread that owns the control with engine and session, so that the screen is alive
 * before the model is loaded and while it answers. It takes requests and collects events; the
 * screen never waits for it, and a slow terminal never holds it up. */
#ifndef RETAIN_TUI_CHAT_WORKER_H
#define RETAIN_TUI_CHAT_WORKER_H

#include <stdbool.h>

#include "cli/control/control.h"
#include "tui/chat/waterfall.h"

struct worker;

/* Events with their texts, until the screen takes them. */
struct event_box {
    struct boxed_event *rows;
    int n;
    size_t cap;
    struct str text;
};
/* The i-th of b->n; its text is valid until the box changes. */
struct event event_box_at(const struct event_box *b, int i);
void event_box_clear(struct event_box *b); /* keeps its memory */

/* Everything since it was last taken. */
struct worker_box {
    struct event_box events;
    bool fresh; /* stats are newer than last time */
    struct session_stats stats;
    struct retention *map; /* NULL until there is a session */
    /* the history of a conversation that was opened; NULL = none, or it was taken before */
    struct waterfall *past;
};
void worker_box_release(struct worker_box *b);

int worker_open(struct worker **out, const struct options *o, struct err *e);
/* Stops the running turn and ends the thread, which reports EVENT_CLOSED; does not wait. */
void worker_leave(struct worker *w);
/* Stops the running turn and waits for the thread. Safe after EVENT_CLOSED and on NULL. */
void worker_close(struct worker *w);

int worker_fd(const struct worker *w); /* an eventfd: readable when something happened */
/* Queues the request and takes ownership of its text. */
void worker_run(struct worker *w, struct request *r);
/* Settings: sampling applies from the next token on, the rest when a conversation is opened. The
 * texts that they point to must stay valid. */
void worker_set(struct worker *w, const struct options *o);
void worker_stop(struct worker *w); /* stops the running turn (or loading, or replay) */

/* calm: from now on, few snapshots are enough while only text flows. */
void worker_calm(struct worker *w, bool calm);

/* The demo model answers thousands of tokens a second, so that nothing of it could be watched. */
enum { PACE_DEMO = 40 };
struct pace {
    int64_t due_ns; /* when the next piece may follow */
};
/* Tokens a second; 0 = as fast as they come. */
int pace_rate(const struct options *o);
/* Call after each piece of an answer: sleeps until the next one is due, or until stop(ctx) says
 * true, which is asked every 20 ms. */
void pace_wait(struct pace *p, int rate, bool (*stop)(void *ctx), void *ctx);

/* Moves all events and the newest snapshot into the box, replacing its content. */
void worker_take(struct worker *w, struct worker_box *box);

#endif
