/* control: the commands of a chat, implemented once for the screen and for plain lines.
 *
 * A front end parses a line (slash.h), completes the request here (control_parse), and runs it
 * (control_run): plain.c on its only thread, the screen on its worker's thread. Everything that
 * happens is reported as an event, which a front end shows in its own way. Nothing here prints. */
#ifndef RETAIN_CLI_CONTROL_CONTROL_H
#define RETAIN_CLI_CONTROL_CONTROL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"
#include "cli/control/cli_session.h"
#include "cli/control/fit.h"
#include "cli/control/resume.h"
#include "cli/control/slash.h"
#include "cli/options/options.h"
#include "runtime/session/session.h"

/* ---- requests -------------------------------------------------------------------------------- */

/* A command and its argument. Zero-initialise; `text` belongs to the request. */
struct request {
    enum slash command;
    int64_t turn; /* of /edit, /rewind, /branch, /pin, /unpin and /forget */
    /* /edit, /rewind, /regenerate: the user has agreed to the cost */
    bool agreed;
    /* the conversation to act on; "" = the open one, for /open: a new one */
    char name[STORE_NAME_MAX];
    struct str text; /* message, answer, new name, tags, words to find, a model */
};
void request_release(struct request *r);

/* The facts that an argument is checked against. */
struct control_facts {
    int64_t n_turns;
    bool private_mode;
    bool has_answer;     /* a last answer exists */
    const char *name;    /* of the open conversation */
    const char *deleted; /* by the last /delete; "" = none */
};

/* Completes `out` from the text after a command. ERR_USAGE names the missing or wrong part. */
int control_parse(struct request *out, enum slash command, const char *argument,
                  const struct control_facts *f, struct err *e);

/* The part of the last answer that /copy takes: "" = all of it, "code" = its last code block. */
int control_copied(const struct str *answer, const char *what, struct str *out, struct err *e);

/* ---- events ---------------------------------------------------------------------------------- */

enum event_kind {
    EVENT_LOADING, /* progress, in bytes */
    EVENT_LOADED,
    EVENT_OPENING,  /* the open session was closed; text = name of the next one, "" = a new one */
    EVENT_MODEL,    /* another model was loaded; text = its file, "" = the demo */
    EVENT_OPENED,   /* text = its name; end: of its last answer */
    EVENT_NOTICE,   /* text = a notice about the model or the conversation */
    EVENT_READING,  /* progress, in tokens */
    EVENT_BEGIN,    /* a turn begins at `position` */
    EVENT_ANSWER,   /* its answer begins at `position` */
    EVENT_TEXT,     /* text = a piece of the answer */
    EVENT_THOUGHT,  /* text = a piece of the thought before it; n_text 0: thought */
    EVENT_TOKENS,   /* tokens: text = n times uint16_t, the bytes each token stands for */
    EVENT_EVICTED,  /* evicted */
    EVENT_PASSAGE,  /* text = a message with text of other conversations that was read before the
                     * user's; PASSAGES_ANSWER answers it and ends at `position` */
    EVENT_RECALLED, /* recalled; text = a sentence about the text that came back */
    EVENT_END,      /* end: of a turn, or of going back */
    EVENT_QUESTION, /* text describes a request, cost is its tokens; `agreed` = yes */
    EVENT_TAKEN,    /* text = the message that /edit takes back */
    EVENT_CUT,      /* everything after `turn` was removed */
    EVENT_BRANCHED, /* text = name of the branch */
    EVENT_RENAMED,  /* text = new name of the open conversation */
    EVENT_DONE,   /* done: /delete, /restore, /drop, /tag, /rename of a closed conversation; text =
                   * a sentence about it */
    EVENT_FOUND,  /* hit; never leaves the thread of the request */
    EVENT_NOTE,   /* text = the result of the user's question */
    EVENT_FAILED, /* text, code: the request failed, the chat continues */
    EVENT_FATAL,  /* text, code: no session is open any more */
    EVENT_CLOSED, /* of the screen's worker: its thread has closed everything */
};

struct store_hit;

/* Positions of the text that came back for a message. */
struct recalled_spans {
    int n;
    struct {
        int64_t from, end;
    } spans[RECALL_MAX];
};

struct event {
    enum event_kind kind;
    const char *text; /* [n_text], not always ended by a NUL */
    size_t n_text;
    union {
        struct {
            int64_t done, total;
        } progress;
        int64_t position;
        struct {
            int64_t n_tokens;
            double ms;
        } thought; /* it is complete */
        struct {
            int64_t position;
            int n;
        } tokens;
        struct {
            int64_t n_units, n_tokens; /* units over all heads; length of the conversation */
        } evicted;
        struct {
            enum session_end how;
            int64_t n_tokens;
            bool can_continue;
        } end;
        struct {
            int64_t tokens; /* tokens to replay */
            bool ask;       /* something is lost or must be replayed: ask the user */
        } cost;
        struct recalled_spans recalled;
        int64_t turn;
        struct {
            enum slash command;
            char name[STORE_NAME_MAX];
        } done;
        const struct store_hit *hit;
        int code; /* ERR_* */
    };
};

struct events {
    void *ctx;
    void (*event)(void *ctx, const struct event *ev);
    bool (*stop)(void *ctx); /* polled between tokens and chunks; true stops the work */
};

/* ---- control --------------------------------------------------------------------------------- */

/* Options for a conversation, with the texts that they point into. */
struct chosen {
    struct options options;
    struct resume resume;
    char *file, *system; /* of the model; the system text that /system gave it */
};

/* Zero-initialise. A control without a session runs only the commands on saved conversations. */
struct control {
    bool interactive; /* heads may be fitted */
    struct cli_session parts;
    bool plain;             /* plain lines: heads are fitted after the first answer */
    bool answered;          /* there was an answer, or a failure */
    struct fit fit;         /* of heads to the open model */
    bool fitted;            /* the open engine has no heads, but the next one will */
    struct options base;    /* of no model and no conversation; changed by control_set */
    struct options options; /* with their layers (resume.h) */
    struct options opened, opened_base; /* those of the open conversation */
    struct chosen chosen;               /* what `options` point into */
    struct str kept;                    /* the settings that the conversation keeps */
    char name[STORE_NAME_MAX];          /* of the open conversation */
    bool told_damage;                   /* of the weights, which a private conversation keeps */
    int64_t edited;                     /* the turn that /edit took back: the next message replaces
                                         * it and those after it; 0 = none */
    struct str passage;                 /* EVENT_PASSAGE's text for the last message */
};

/* Opens conversations, engine and session. ERR_* is reported as EVENT_FATAL, too. */
int control_open(struct control *c, const struct options *o, const struct events *ev,
                 struct err *e);
void control_close(struct control *c);

/* The last step of control_open: the conversation that `options` asks for. */
int control_begin(struct control *c, const struct events *ev, struct err *e);

/* Runs one request. A failure is an EVENT_FAILED and leaves the conversation unchanged. Returns 0,
 * or ERR_* after EVENT_FATAL. */
int control_run(struct control *c, const struct request *r, const struct events *ev);

/* Begins to fit heads to a model that has none, and adopts them when they are ready. Call between
 * requests, and a few times a second while control_waits. Returns as control_run. */
int control_idle(struct control *c, const struct events *ev);
/* Whether heads are being fitted. */
bool control_waits(const struct control *c);

/* Sampling settings apply from the next token on, the others when a conversation is opened. Call on
 * the session's thread; events.stop is a good place. The texts that `o` points to must stay
 * valid. */
void control_set(struct control *c, const struct options *o);

#endif
