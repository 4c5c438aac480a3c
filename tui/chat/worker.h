/* worker: the thread that owns engine and session, so that the screen is alive before the model is
 * loaded and while it answers. It takes orders and leaves news; the screen never waits for it, and
 * a slow terminal never holds it up. */
#ifndef RETAIN_TUI_CHAT_WORKER_H
#define RETAIN_TUI_CHAT_WORKER_H

#include <stdbool.h>

#include "runtime/session/session.h"

struct worker;
struct options;

enum order {
    ORDER_OPEN, /* text = the conversation's name, "" = a new one */
    ORDER_SAY,  /* text = the message */
    ORDER_CONTINUE,
    ORDER_REGENERATE,
    ORDER_AMEND,  /* text = the last answer's new text */
    ORDER_REWIND, /* text = turn */
    ORDER_BRANCH, /* text = turn, blank, name */
    ORDER_COST,   /* text = turn, "" = regenerate */
    ORDER_RENAME, /* text = new name of the open conversation */
    ORDER_QUIT,
};

enum news_kind {
    NEWS_LOADING, /* a of b bytes */
    NEWS_LOADED,
    NEWS_OPENING, /* the session that was open is closed; text = name that is being opened */
    NEWS_OPENED,  /* text = the conversation's name; a = 1: an answer can be continued */
    NEWS_NOTICE,  /* text = what the person should know */
    NEWS_READING, /* a of b tokens */
    NEWS_BEGIN,   /* a turn begins at position a */
    NEWS_ANSWER,  /* the answer begins at position a */
    NEWS_TEXT,
    NEWS_TOKENS,  /* b tokens from position a on; text = how many bytes each stands for, uint16_t */
    NEWS_EVICTED, /* a units at b tokens */
    NEWS_END,     /* a = enum session_end, b = tokens now; any text: the answer can be continued */
    NEWS_COST,    /* b tokens would be read again */
    NEWS_CUT,     /* what follows turn a is gone */
    NEWS_BRANCHED, /* text = name of the branch */
    NEWS_RENAMED,  /* text = new name of the open conversation */
    NEWS_FAILED,   /* text = why; the turn (or the conversation that was asked for) is off */
    NEWS_FATAL,    /* text, a = code: no model, no chat */
    NEWS_GONE,     /* the thread has closed everything */
};

struct news {
    enum news_kind kind;
    int64_t a, b;
    size_t text, n_text; /* in news_box.text */
};

/* What the screen wants to know of single tokens. */
enum { SIGHT_MAX = 8192 };
struct focus {
    int64_t position; /* how each head scores this one; -1 = none */
    int64_t from;     /* how many heads hold each of n positions from here on */
    int n;
};
/* The answer. Zero-initialise; scores is the caller's to free. */
struct sight {
    struct focus focus;
    int n_heads;
    float *scores; /* [n_heads], NAN = gone; NULL = never seen */
    uint16_t kept[SIGHT_MAX];
};

/* What was reported since the last look. */
struct news_box {
    struct news *rows;
    int n, cap;
    struct str text;
    bool fresh; /* stats are newer than at the last look */
    struct session_stats stats;
    struct retention *map; /* NULL until there is a session */
};
void news_box_release(struct news_box *b);

int worker_open(struct worker **out, const struct options *o, struct err *e);
/* Ends the turn that runs and then the thread, which says NEWS_GONE; does not wait. */
void worker_leave(struct worker *w);
/* Ends the turn that runs, waits for the thread. Safe after NEWS_GONE and on NULL. */
void worker_close(struct worker *w);

int worker_fd(const struct worker *w); /* an eventfd: readable when there is news */
void worker_order(struct worker *w, enum order order, const char *text, size_t n);
/* Settings: sampling counts from the next token on, the rest when a conversation is opened. What
 * they point to must stay. */
void worker_set(struct worker *w, const struct options *o);
void worker_stop(struct worker *w); /* the turn (or loading, or replay) that runs */

/* From now on snapshots come with a sight, until another look is asked for. */
void worker_focus(struct worker *w, const struct focus *focus);
void worker_sight(struct worker *w, struct sight *out); /* the newest one, if there is a newer */

/* Moves all news into the box, replacing what it holds. */
void worker_take(struct worker *w, struct news_box *box);

#endif
