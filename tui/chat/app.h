/* app: everything the screen knows, without a terminal, a thread or a clock.
 *
 * Keys and events go in, a grid and acts come out; ui_acts.c performs the acts. */
#ifndef RETAIN_TUI_CHAT_APP_H
#define RETAIN_TUI_CHAT_APP_H

#include <stdbool.h>
#include <stdint.h>

#include "cli/control/control.h"
#include "cli/control/keys.h"
#include "cli/control/model_list.h"
#include "cli/control/ramp.h"
#include "cli/control/settings.h"
#include "cli/control/slash.h"
#include "runtime/save/conversations.h"
#include "runtime/session/session.h"
#include "tui/text/edit.h"
#include "tui/text/history.h"
#include "tui/chat/palette.h"
#include "tui/chat/picture.h"
#include "tui/chat/trace.h"
#include "tui/text/transcript.h"
#include "tui/chat/view.h"
#include "tui/chat/worker.h"
#include "tui/term/sensors.h"

enum phase { PHASE_LOADING, PHASE_OPENING, PHASE_READY, PHASE_READING, PHASE_ANSWERING };

/* Requests of the app to its surroundings. */
enum act {
    ACT_RUN,    /* request: run by the worker, or at once if it needs only saved conversations */
    ACT_SET,    /* settings.options apply from now on */
    ACT_STOP,   /* stop the running request */
    ACT_LIST,   /* fill app.list */
    ACT_MODELS, /* fill app.models */
    ACT_MOUSE,  /* app.mouse has changed */
    ACT_SEARCH, /* text: fill app.list.hits */
    ACT_COPY,   /* text, to the clipboard */
    ACT_SAVE,   /* text = path, newline, the file's content */
    ACT_EDITOR, /* the draft into $EDITOR and back */
    ACT_LOG,    /* fill app.log */
    ACT_REDRAW,
    ACT_SUSPEND,
    ACT_QUIT,
};

struct act_row {
    enum act act;
    struct request request;
    struct str text;
};
void act_release(struct act_row *row);

enum { ACTS_MAX = 32, QUEUE_MAX = 32 };

struct chat_state {
    bool held; /* the user scrolled up: new text does not move the view */
    int top_message;
    size_t top_byte;
    int rows, top_row, page; /* as last drawn */
    bool flat;               /* the text is not shaded */
    /* Text that streams in scrolls by `lead` rows more than needed, so that it then stays in place
     * for a while. */
    int lead, rows_before; /* rows at the last scroll, at scrolled_ms */
    int64_t scrolled_ms;
};

/* The lines around the text of the chat: where and when they were drawn. */
struct around {
    const struct grid *grid; /* NULL: must be drawn */
    int w, h, talk, below;   /* the layout at that time */
    int n_queue;
    int64_t drawn_ms;
};

struct map_state {
    enum map_mode mode, before; /* before MAP_HISTORY */
    int64_t position;           /* under the cursor */
    int layer, head;            /* the same */
    int history_layer;          /* -1 = all */
    int zoom;                   /* one of 2^zoom parts of the conversation is shown */
    bool tall;                  /* a line for each row */
    struct retention *frozen;   /* a copy while paused or played, else NULL */
    int64_t play_ms;            /* playing the past began; 0 = not playing */
    int cells, each;            /* as last drawn */
    bool chosen;                /* the user chose the mode */
};

struct tint_state {
    int64_t position; /* of the token under the cursor */
    bool placed;      /* the user moved it here */
    int top_message;
    size_t top_byte;
    int page, width; /* as last drawn */
};

struct read_state {
    int message; /* under the cursor */
    size_t byte; /* of the present match */
    bool typing; /* the text to search for */
    struct edit query;
};

/* Where the last frame drew what can be clicked. */
enum place_kind { PLACE_RIBBON, PLACE_MAP, PLACE_LIST, PLACES };

struct list_hit {
    char name[STORE_NAME_MAX], snippet[160]; /* of the newest match */
};

enum list_mode { LIST_BROWSE, LIST_FIND, LIST_RENAME, LIST_TAG, LIST_DELETE, LIST_DROP /* y? */ };

struct list_state {
    struct conversations_entry *rows;
    int n;
    size_t cap;
    int *shown; /* [n_shown] indices of the rows that pass the filter */
    int n_shown, cap_shown;
    struct list_hit *hits; /* results of the full-text search for the filter */
    int n_hits;
    int selected, top, page;     /* of shown */
    char chosen[STORE_NAME_MAX]; /* name of the selected one */
    enum list_mode mode;
    struct edit filter, field;    /* the text to search for; a new name, or tags */
    char deleted[STORE_NAME_MAX]; /* name of the last deleted one, for undo */
    char error[256], said[256];
};

/* A question in the chat: y does it, b keeps a branch first; n, Enter and Esc cancel. Any other key
 * cancels, too, and does what it does without a question. */
struct question {
    bool open, may_branch;
    /* SLASH_REGENERATE, SLASH_EDIT, SLASH_REWIND, SLASH_MODEL, SLASH_SYSTEM, SLASH_FORGET or
     * SLASH_DELETE */
    enum slash what;
    int64_t turn, cost;
    char text[512];            /* as it is shown */
    char name[STORE_NAME_MAX]; /* of a conversation to delete */
};

/* Ctrl-R: searching for an earlier message. */
struct search {
    bool open, failed;
    struct edit query;
    struct str draft;
    int at; /* row in the history */
};

/* Tab: the line as typed, and the completion shown now. */
struct completion {
    bool open;
    bool dismissed;  /* Esc: no list until the line is empty */
    struct str line; /* as it was typed */
    int next;
};

/* How many heads held each position at the time of a snapshot. */
struct held {
    uint16_t *heads; /* [n] */
    int64_t n, cap;
    bool known; /* there was a snapshot */
};

/* Text that has just lost units fades. */
enum { FADE_MS = 400, FADE_STEPS = 4 };
struct fade {
    struct held before;
    int64_t since_ms;
};

struct scroll_state {
    int top, rows, page;
};

/* Whether the running answer was told to stop. */
enum stop { STOP_NOT, STOP_ASKED, STOP_TO_SEND /* then the queue is sent */ };

struct app {
    struct settings settings; /* changed by /set */
    const struct options *o;  /* = &settings.options */
    bool ascii;
    bool halves;     /* half blocks in two colours can be drawn */
    bool fine;       /* and every level of the ramp */
    int64_t now_ms;  /* monotonic, set by the caller before keys, events and drawing */
    int64_t wall_ms; /* the same moment, for ages and times of day */
    enum view view;
    enum phase phase;
    bool leaving;              /* ACT_QUIT was given */
    int64_t done, total;       /* progress of loading or reading */
    int64_t since_ms;          /* when that began */
    char name[STORE_NAME_MAX]; /* of the conversation; "" = not known yet */
    bool can_continue;
    enum stop stop;
    struct str model;   /* the file that /model chose; settings point to it */
    struct str offered; /* the name of a pulled model that the demo's first screen offers */

    struct transcript talk;
    struct edit edit;
    struct history history;
    struct str queue[QUEUE_MAX];
    int n_queue;
    bool queue_held; /* it was restored: Enter sends it */
    bool prefix;     /* Ctrl-X was pressed */
    bool refused;    /* the last key sent a command that was refused; it is in the editor again */
    struct question question;
    char changed[64]; /* "NAME VALUE", as it was typed, until the conversation is open with it, */
    bool reopened;    /* as it is now */
    struct str asked; /* the text of the request that the question is about */
    struct search search;
    struct completion completion;

    bool have_stats;
    struct session_stats stats;
    const struct retention *map; /* the newest snapshot, owned by the caller; NULL = none yet */
    int64_t col_kept[RETENTION_COLS], n_evictions;
    struct ramp_old old;           /* of the map */
    bool col_lost[RETENTION_COLS]; /* whole words of it, to the last eviction: lost_until_ms */
    int64_t lost_until_ms;
    struct waterfall past;
    struct trace trace;
    struct recalled_spans returned; /* for the last message */
    struct held held;               /* at the last snapshot */
    struct fade fade;
    struct sensor_reading sensors;

    char event[256];   /* the last event, with its time of day */
    struct str events; /* earlier ones and this, a line each */
    char flash[256];   /* a short message in the status line, until flash_until_ms */
    int64_t flash_until_ms;
    int64_t interrupt_ms; /* time of the last Ctrl-C that had nothing to stop */

    struct chat_state chat;
    struct around around;
    struct map_state mapped;
    struct tint_state tint;
    struct list_state list;
    struct palette palette;
    struct read_state read;
    struct pane places[PLACES];
    bool mouse;               /* clicks are reported */
    struct model_list models; /* n 0 = not read yet */
    struct scroll_state help, log_scroll;
    enum view help_of; /* where help was opened */
    bool help_seek;    /* shows the keys of that view first */
    struct str log;

    struct act_row acts[ACTS_MAX];
    int n_acts;
};

void app_init(struct app *a, const struct options *o, bool ascii, const char *history_path);
void app_release(struct app *a);

void app_key(struct app *a, const struct key_event *ev);
bool app_is_at(const struct app *a, enum place_kind place, const struct key_event *ev);
void app_take(struct app *a, const struct event *ev);
/* Call with each new snapshot: stats, and the changes since the previous one. */
void app_snapshot(struct app *a, const struct session_stats *st, const struct retention *map);
/* Call after events and the snapshot that belongs to them: tells what holds after /set, which may
 * be less than what was asked for. */
void app_tell_changed(struct app *a);
/* Moves the history of the conversation that was opened; an empty one changes nothing. */
void app_past(struct app *a, struct waterfall *past);
/* The retention level (ramp.h) of all heads together, compared with that of old text: for the
 * snapshot's columns [col, col_end), or for positions. */
int app_level(const struct app *a, int col, int col_end);
int app_level_at(const struct app *a, int64_t pos, int64_t pos_end);
/* The transcript of the conversation that is (or will be) open. */
int app_load(struct app *a, struct conversations *l, const char *name, struct err *e);
void app_draw(struct app *a, struct grid *g, int w, int h);
/* Milliseconds until the picture changes by itself; -1 = never. */
int app_timeout(const struct app *a);

/* The n-th turn's message; NULL when there are not that many. The turn of a message, from 1; the
 * turns on the screen. */
struct message *app_turn(struct app *a, int64_t turn);
int64_t app_turn_of(const struct app *a, int index);
int64_t app_turns(const struct app *a);
/* "chat-12": nobody gave it a name. */
bool app_name_is_number(const char *name);

void app_put_draft_away(struct app *a); /* into the history */
/* The conversation that the draft and the queue belong to; "" = a new one to which the user
 * gave no name. */
const char *app_draft_owner(const struct app *a);
bool app_clear_draft(struct app *a);             /* and the queue; false = both were empty */
uint64_t app_draft_version(const struct app *a); /* differs when draft or queue differ */
/* Restores a draft or a queued message that a killed program had not sent. */
void app_bring_back(struct app *a, const char *text, size_t n, bool queued);

/* For views. */
void app_act(struct app *a, enum act act, const char *text, size_t n);
void app_run(struct app *a, struct request *r); /* takes ownership of its text */
/* A request about a conversation; text may be "". */
void app_run_on(struct app *a, enum slash command, const char *name, const char *text);
void app_show(struct app *a, enum view view);
/* A message in the status line; one that may not fit there is in the transcript, too. */
void app_flash(struct app *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void app_event(struct app *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* argument[0, n): the text after the command. false: it could not be run, and the line stays in the
 * editor. */
bool command_run(struct app *a, enum slash command, const char *argument, size_t n);
/* Fills the list of conversations, and carries out an act on them; false: it is another one. l
 * NULL: private mode. */
void list_fill(struct app *a, struct conversations *l);
bool list_act(struct app *a, struct conversations *l, const struct act_row *row);
void app_send(struct app *a); /* sends the text in the editor */
/* Runs a command as if it were typed; the draft stays. */
void app_run_line(struct app *a, const char *line, size_t n);
bool app_request(struct app *a, int r); /* does what a key of the view does */
/* The chat shows this place of a message in its upper third. */
void app_scroll_to(struct app *a, int message, size_t byte);
/* Whether this model file is open; NULL = the demo. */
bool app_is_model(const struct app *a, const char *path);
/* Share of the units of positions [pos, end) that are kept; -1 = not read yet. */
int app_percent_kept(const struct app *a, int64_t pos, int64_t end);
/* A key in a field of one line: typed characters, Backspace, ^U, ^W, a paste, and the arrows left
 * and right; false: another key. */
bool app_field_key(struct edit *field, const struct key_event *ev);
/* Queues a message; false with a flash where it cannot be sent. */
bool app_post(struct app *a, const char *text, size_t n);
void app_send_next(struct app *a); /* sends the first queued message, if possible */
void app_unqueue(struct app *a);   /* moves the queue back to the editor */
void app_interrupt(struct app *a); /* Ctrl-C */
bool app_busy(const struct app *a);
void app_note(struct app *a, const char *text, size_t n); /* adds to the transcript */
/* a request was made: sets the phase until its events */
void app_wait(struct app *a, enum phase phase);
void app_amend(struct app *a, const char *text, size_t n); /* replaces the last answer */
void app_take_turn_back(struct app *a); /* runs the request that the question is about */
bool app_ready(struct app *a);          /* or shows why not */

#endif
