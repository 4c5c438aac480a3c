/* app: everything the screen knows, without a terminal, a thread or a clock of its own.
 *
 * Keys and news go in, a grid and acts come out: ui.c carries the acts out, tests look at them. */
#ifndef RETAIN_TUI_APP_H
#define RETAIN_TUI_APP_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/library.h"
#include "runtime/session.h"
#include "tui/edit.h"
#include "tui/history.h"
#include "tui/picture.h"
#include "tui/sensors.h"
#include "tui/transcript.h"
#include "tui/view.h"
#include "tui/worker.h"

enum phase { PHASE_LOADING, PHASE_OPENING, PHASE_READY, PHASE_READING, PHASE_ANSWERING };

enum act {
    ACT_SAY, /* text */
    ACT_CONTINUE,
    ACT_STOP,
    ACT_OPEN,   /* text = conversation, "" = new */
    ACT_LIST,   /* fill app.list */
    ACT_DELETE, /* text = conversation */
    ACT_LOG,    /* fill app.log */
    ACT_REDRAW,
    ACT_SUSPEND,
    ACT_QUIT,
};

struct act_row {
    enum act act;
    struct str text;
};

enum { ACTS_MAX = 32, QUEUE_MAX = 32 };

struct chat_state {
    bool held; /* the person scrolled up: new text does not move the view */
    int top_message;
    size_t top_byte;
    int rows, top_row, page; /* as last drawn */
};

struct map_state {
    enum map_mode mode, before; /* before MAP_HISTORY */
    int64_t position;           /* under the cursor */
    int layer, head;            /* the same */
    int history_layer;          /* -1 = all */
    int zoom;                   /* of 2^zoom parts of the conversation one is shown */
    bool tall;                  /* a line for each row */
    struct retention *frozen;   /* a copy while paused, else NULL */
    int cells, each;            /* as last drawn */
};

struct tint_state {
    int64_t position; /* of the token under the cursor */
    bool placed;      /* it is where somebody wants to look */
    int top_message;
    size_t top_byte;
    int page, width;    /* as last drawn */
    int64_t first, end; /* positions of the page */
};

struct list_state {
    struct library_entry *rows;
    int n, cap, selected, top, page;
    bool asking; /* delete? */
    char error[256];
};

struct scroll_state {
    int top, rows, page;
};

struct app {
    const struct options *o;
    bool ascii;
    bool halves;     /* half blocks in two colours can be drawn */
    int64_t now_ms;  /* monotonic, set by the caller before keys, news and drawing */
    int64_t wall_ms; /* the same moment, for ages and times of day */
    enum view view;
    enum phase phase;
    bool leaving;        /* ACT_QUIT was given */
    int64_t done, total; /* of loading or reading */
    int64_t since_ms;    /* that began */
    char name[128];      /* of the conversation; "" = not known yet */
    bool can_continue, stopping;

    struct transcript talk;
    struct edit edit;
    struct history history;
    struct str queue[QUEUE_MAX];
    int n_queue;

    bool have_stats;
    struct session_stats stats;
    const struct retention *map; /* the newest snapshot, the caller's; NULL = none yet */
    int64_t col_kept[RETENTION_COLS], col_width, n_evictions;
    bool col_lost[RETENTION_COLS]; /* since the last eviction; shown until lost_until_ms */
    int64_t lost_until_ms;
    struct waterfall past;
    struct sight sight; /* what app_focus asked for */
    struct sensor_reading sensors;
    double evict_rate;             /* units per head and second; NAN = not known yet */
    int64_t rate_ms, rate_evicted; /* when and where its measuring began */

    char event[256]; /* the last thing that happened, with its time of day */
    char flash[160]; /* a word to the person, in the status line until flash_until_ms */
    int64_t flash_until_ms;
    int64_t interrupt_ms; /* of the last Ctrl-C that had nothing to stop */

    struct chat_state chat;
    struct map_state mapped;
    struct tint_state tint;
    struct list_state list;
    struct scroll_state help, log_scroll;
    struct str log;

    struct act_row acts[ACTS_MAX];
    int n_acts;
};

void app_init(struct app *a, const struct options *o, bool ascii, const char *history_path);
void app_release(struct app *a);

void app_key(struct app *a, const struct key_event *ev);
void app_news(struct app *a, const struct news *n, const char *text);
/* A snapshot came: stats, and what changed since the one before. */
void app_snapshot(struct app *a, const struct session_stats *st, const struct retention *map);
/* What the view wants to see of single tokens; nothing when it is not asked for. */
struct focus app_focus(const struct app *a);
/* The transcript of the conversation that is (or will be) open. */
int app_load(struct app *a, struct library *l, const char *name, struct err *e);
void app_draw(struct app *a, struct grid *g, int w, int h);
/* Milliseconds until the picture changes by itself; -1 = never. */
int app_timeout(const struct app *a);

/* For views. */
void app_act(struct app *a, enum act act, const char *text, size_t n);
void app_show(struct app *a, enum view view);
void app_flash(struct app *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void app_event(struct app *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void app_send(struct app *a);      /* what stands in the editor */
void app_interrupt(struct app *a); /* Ctrl-C */
bool app_busy(const struct app *a);

#endif
