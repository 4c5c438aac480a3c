/* session: one conversation with one model, inside a fixed memory budget. The screens use the
 * runtime only through it.
 *
 *   engine   a loaded model: weights, retaining heads, tokenizer, kernels, threads. Shared by all.
 *   session  one conversation: cache, transcript, sampler. Owned by the thread that runs it.
 *
 * A turn runs inside session_say and reports through callbacks on the same thread; a screen that
 * must stay responsive runs it on another thread and copies. A message is stored before the model
 * sees it.
 *
 * Weights, cache and scratch are planned and allocated before the first turn, and never grow. The
 * text and ids of the running answer have room for SESSION_ANSWER_ROOM tokens from session_open on;
 * only a longer answer, and a message, make them grow. */
#ifndef RETAIN_RUNTIME_SESSION_SESSION_H
#define RETAIN_RUNTIME_SESSION_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "runtime/cache/recall.h"
#include "runtime/cache/retention.h"
#include "runtime/forward/plan.h"
#include "runtime/save/conversations.h"
#include "runtime/token/chat_template.h"
#include "runtime/token/sampler.h"

struct engine;
struct session;
struct conversations;

/* ---- session -------------------------------------------------------------------------------- */

struct session_opts {
    struct plan_opts plan;    /* its policy and budget: unless given, those that the conversation
                               * was saved with */
    struct sampling sampling; /* what is SAMPLING_UNSET: the model's own; seed 0: the saved one,
                               * or from the clock */
    int max_tokens;           /* per answer; 0 = until the turn ends, or SESSION_ANSWER_MAX */
    bool ignore_end;          /* continue when the model ends its answer or repeats itself */
    const char *conversation; /* its name; NULL = the latest or a new one */
    bool new_conversation, continue_latest;
    bool private_mode;
    int first_budget;  /* of a new conversation when plan has none; 0 = the largest that fits */
    bool raw;          /* text without a chat template */
    const char *begin; /* the first words of every answer, which the model continues; NULL = none */
    const char *system; /* instructions before the first message; NULL = none; for a conversation
                         * that has begun only with replace_system: its text is read again */
    bool replace_system;
    const char *kept; /* settings to be saved with the conversation, opaque; NULL = as saved */
    enum chat_think think;
    bool keep_thoughts; /* finished thoughts are evicted like other text, not at once */
    struct recall_opts recall;
    int64_t rewind;      /* bytes of evicted units kept on disk, to go back without a replay */
    int64_t cache_quota; /* limit in bytes of the saved caches of all conversations; 0 = none */
};
struct session_opts session_opts_default(void);

#define SESSION_REWIND_DEFAULT (64 << 20)
#define SESSION_ANSWER_ROOM    4096
#define SESSION_ANSWER_MAX     32768 /* what reasoning models are given by their makers */

/* The text that recall returned for the last message (runtime/cache/recall.h), by position. */
struct session_recalled {
    int n;
    int best; /* index of the window that fits the message best */
    struct session_window {
        int64_t position;
        int n;            /* positions */
        const char *text; /* what its tokens spell; may begin inside a word */
        int64_t turn;     /* most of it, from 1; 0 = not known, in private conversations */
        int64_t said_ms;  /* Unix time of that turn */
        size_t from, end; /* bytes of the text that belong to this turn */
    } windows[RECALL_MAX];
    int64_t n_units; /* over all heads */
    double ms;
};

/* Callbacks of a running turn; each may be NULL. */
struct session_sink {
    void *ctx;
    /* tokens of the prompt (or of a replay) that were run, and their total */
    void (*progress)(void *ctx, int64_t done, int64_t total);
    /* a piece of the answer: whole UTF-8 characters, with control bytes as the model made them */
    void (*text)(void *ctx, const char *utf8, size_t n);
    /* a piece of the thought before an answer, likewise; n 0: it has thought for ms and
     * n_tokens tokens, and the answer begins */
    void (*thought)(void *ctx, const char *utf8, size_t n, int64_t n_tokens, double ms);
    /* n tokens from `position` on are now part of the conversation. Token i represents n_bytes[i]
     * bytes of its message's text, in order; 0 for tokens of the template only, and for a message
     * whose text its tokens do not spell */
    void (*tokens)(void *ctx, int64_t position, int n, const uint16_t *n_bytes);
    /* n units were evicted, over all heads; the conversation has n_tokens now */
    void (*evicted)(void *ctx, int64_t n, int64_t n_tokens);
    /* evicted units came back for the message; *r is valid in the callback */
    void (*recalled)(void *ctx, const struct session_recalled *r);
    /* polled between tokens and chunks; true stops, and the generated text is kept */
    bool (*stop)(void *ctx);
};

/* Opens o->conversation, the latest one (o->continue_latest), or a new one; a matching saved cache
 * is loaded without a replay, otherwise the transcript is replayed (reported to sink->progress) and
 * session_notice gives the reason; sink may be NULL. o->private_mode or l == NULL: nothing is
 * saved. ERR_FAIL when another program has it open. */
int session_open(struct session **out, struct engine *g, struct conversations *l,
                 const struct session_opts *o, const struct session_sink *sink, struct err *e);
void session_close(struct session *s);

const char *session_name(const struct session *s);   /* "private" when nothing is saved */
const char *session_notice(const struct session *s); /* a message for the user, or "" */

enum session_end {
    SESSION_TURN_END, /* the model ended its turn */
    /* sink->stop returned true; the partial answer is part of the conversation */
    SESSION_STOPPED,
    SESSION_LENGTH,     /* max_tokens or SESSION_ANSWER_MAX was reached */
    SESSION_FULL,       /* policy full: no room left; nothing was lost */
    SESSION_REPETITION, /* it repeated itself (repetition.h); never with ignore_end */
};

/* One turn: the user's text in, the answer to the sink. After ERR_* the conversation is as stored,
 * and usable. */
int session_say(struct session *s, const char *text, size_t n, const struct session_sink *sink,
                enum session_end *end, struct err *e);

/* Continues an answer that was stopped or cut off. ERR_USAGE when there is none. */
int session_continue(struct session *s, const struct session_sink *sink, enum session_end *end,
                     struct err *e);
bool session_can_continue(const struct session *s);
/* How the last answer ended, also after opening; SESSION_TURN_END: there is none to continue. */
enum session_end session_ended(const struct session *s);

/* Applies sampling, max_tokens, ignore_end, think and keep_thoughts of `o` from the next token or
 * message on; call on the session's thread (from a callback too). All other settings need the
 * session to be reopened. */
void session_set(struct session *s, const struct session_opts *o);

/* Adds turns from elsewhere (evaluation, import): they are stored and run, nothing is generated. */
int session_feed(struct session *s, const struct chat_message *messages, size_t n,
                 const struct session_sink *sink, struct err *e);

/* ---- going back ------------------------------------------------------------------------------
 *
 * Turns count from 1; turn 0 is the beginning. The turns after it are permanently deleted: branch
 * first to keep them. As far as the cache's log reaches back, nothing is replayed; beyond that,
 * session_rewind_cost tells the number of tokens in advance. All of these functions first end a
 * running answer, and refuse (ERR_USAGE) private conversations, whose history is not kept. */

/* Tokens to replay when going back to the end of `turn`, or when opening a branch made there. */
int64_t session_rewind_cost(const struct session *s, int64_t turn);

/* The same for session_regenerate. */
int64_t session_regenerate_cost(const struct session *s);

/* Goes back to the end of `turn`. The sink reports the progress of a replay. ERR_* leaves the
 * conversation unchanged, except ERR_STOP: then the replay continues with the next message. */
int session_rewind(struct session *s, int64_t turn, const struct session_sink *sink, struct err *e);

/* Whether `turn` is a turn of the conversation, and at least `least`; ERR_USAGE if not, or if turns
 * are not kept. */
int session_check_turn(const struct session *s, int64_t turn, int64_t least, struct err *e);
/* The length of the conversation up to the end of `turn`, in tokens. */
int64_t session_turn_end(const struct session *s, int64_t turn);

/* To edit a message: replaces everything after `turn` with a new one and answers it. The cut and
 * the message are one transaction. */
int session_replace(struct session *s, int64_t turn, const char *text, size_t n,
                    const struct session_sink *sink, enum session_end *end, struct err *e);

/* Generates another answer instead of the last one; the prompt's last token is run again for its
 * logits only. With temperature 0 the answer is the same. The cut and the new answer's first token
 * are one transaction: until then the old answer is saved, from then on the new one, as far as it
 * has come. */
int session_regenerate(struct session *s, const struct session_sink *sink, enum session_end *end,
                       struct err *e);

/* Whether session_replace or session_regenerate failed when the session had changed already: what
 * is saved is as before, and the conversation must be opened again. */
bool session_must_reopen(const struct session *s);

/* Replaces the text of the last answer, leaving it open: session_continue continues after it. Only
 * that text is run. */
int session_amend(struct session *s, const char *text, size_t n, const struct session_sink *sink,
                  struct err *e);

/* A new conversation with the turns up to and including `turn`; this one stays open and unchanged.
 * Its saved cache is shared, not copied. name NULL or "": a generated one; out: its name. */
int session_branch(struct session *s, int64_t turn, const char *name, char out[STORE_NAME_MAX],
                   struct err *e);

/* ---- numbers, for the strip, the memory line and --json -------------------------------------- */

struct session_stats {
    char model[96];   /* general.name or file name */
    char weights[16]; /* "q4", "q8", … */
    char kv[16];      /* "q4", "q8:q4", … */
    char policy[32];
    bool scored; /* by retaining heads */
    char device[64];
    char gpu_bus[16]; /* where the GPU in use is plugged in; "" = none, or not known */
    int n_layer, n_kv_head;
    int budget;              /* units per head on average */
    struct session_opts now; /* the settings in force; its texts are NULL */
    int64_t n_tokens;        /* positions so far */
    int64_t n_turns;
    struct save_turns pinned, forgotten;
    int64_t n_reread; /* tokens that were replayed because no saved cache could be used */
    int64_t units_kept, units_seen; /* over all heads; seen = n_run * n_layer * n_kv_head */
    int64_t units_evicted;          /* since the session was opened */
    int64_t units_returned;         /* evicted units that recall returned */
    int64_t archive_bytes;          /* units kept for recall: on disk, in memory if private */
    int64_t archive_max_bytes;      /* their limit; 0 = recall is off */
    int64_t archive_max_tokens;     /* the same in positions: so far back recall reaches */
    int64_t unit_bytes;
    /* memory by tag, bytes; -1 = not known */
    int64_t weights_bytes, cache_bytes, scratch_bytes;
    int64_t state_bytes;      /* of recurrent layers; 0 = the model has none */
    int64_t cache_used_bytes; /* on a GPU: whole pages, each of 64 units of a head */
    int64_t process_bytes, process_peak_bytes, machine_bytes;
    /* speed of the running or last turn; 0 = none yet */
    double prefill_tok_s, decode_tok_s, first_token_ms;
    int64_t n_decoded;              /* tokens of the answer that were run */
    int64_t n_proposed, n_accepted; /* by speculation, of them */
    /* calculated: bytes of weights and cache that one more token reads */
    double bytes_per_token;
};
void session_stats(const struct session *s, struct session_stats *out);

/* The conversation's system text; NULL = none. */
const char *session_system(const struct session *s);
/* Tokens that opening it with another one (NULL = none) and replace_system would read. */
int session_system_cost(struct session *s, const char *system, int64_t *out, struct err *e);

/* The number of tokens of `text` inside a message. */
int session_count_tokens(const struct session *s, const char *text, size_t n, int64_t *out,
                         struct err *e);

/* A retention with room for this session's shape; the caller frees it with retention_free. */
struct retention *retention_new(const struct session *s);
/* Copies the engine's counters; call on the session's thread (in a callback, or between turns). */
void session_retention(const struct session *s, struct retention *out);

/* Passes the pictures that led to the present one, oldest first, as the saved cache knows them; a
 * private conversation has none. Call between turns. */
int session_past(const struct session *s, void (*each)(void *ctx, const struct retention *r),
                 void *ctx, struct err *e);

/* Brings evicted text that holds these words back with the next message, even if that is about
 * something else. *out: the text found now, valid until the next message. ERR_USAGE if recall is
 * off. */
int session_recall(struct session *s, const char *words, size_t n, struct session_recalled *out,
                   struct err *e);
/* The same for the rarest text of a turn, from 1. ERR_USAGE: it does not exist, recall is off, or
 * the conversation is private and keeps no list of its turns. */
int session_recall_turn(struct session *s, int64_t turn, struct session_recalled *out,
                        struct err *e);
/* Appends the sentences that a message [n] is about whose units were dropped from the archive: they
 * can only be read again, as a turn before it. Nothing if there are none. */
int session_recall_text(struct session *s, const char *message, size_t n, struct str *out,
                        struct err *e);
/* The text that came back for the last message, valid until the next one; n = 0: none. */
const struct session_recalled *session_recalled(const struct session *s);

/* ---- marked turns ----------------------------------------------------------------------------
 *
 * Saved with the conversation. All refuse (ERR_USAGE) private conversations and turns, from 1, that
 * do not exist. */

/* The turn's units stay in the cache until session_unpin; evicted ones return from the archive now.
 * ERR_FIT: pinned turns may take at most half of the budget. ERR_USAGE: the turn was
 * forgotten. */
int session_pin(struct session *s, int64_t turn, const struct session_sink *sink, struct err *e);
int session_unpin(struct session *s, int64_t turn, const struct session_sink *sink, struct err *e);
bool session_is_pinned(const struct session *s, int64_t turn);

/* Evicts the turn from the cache and from the archive before anything is run again, also after a
 * kill, so that the model can't see it again; its text stays in the transcript. The first turn
 * keeps begin marks and instructions. ERR_USAGE: the model has recurrent layers, which can't
 * forget. */
int session_forget(struct session *s, int64_t turn, const struct session_sink *sink, struct err *e);
/* Takes back what was forgotten since the last message. ERR_USAGE: nothing was. */
int session_unforget(struct session *s, const struct session_sink *sink, struct err *e);
bool session_is_forgotten(const struct session *s, int64_t turn);

/* How many of the n_layer * n_kv_head heads hold each of positions [pos, pos + n): out[n]. */
void session_kept(const struct session *s, int64_t pos, int n, uint16_t *out);

#endif
