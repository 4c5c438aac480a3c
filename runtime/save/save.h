/* save: saves one conversation and loads it again. Defines the contents of segments and when they
 * are written; the store keeps bytes.
 *
 * The cache is saved as a log (segment.h): blocks of units added, lists of positions evicted and
 * returned. So the cost of a save depends on the units added and evicted, not on the size of the
 * cache. While an answer runs, each token is written together with the units of the token before
 * it, as a block that becomes a part of the log. The archive keeps blocks of the log, so that each
 * unit is stored once.
 *
 * The log can also be read up to an earlier entry: this is how a conversation is rewound or
 * branched without a replay. Checkpoints name the possible entries: one per chunk of a prompt, one
 * at the end of each answer. The recurrent state is written completely for each checkpoint. While
 * an answer runs, each token brings the inputs of its recurrent steps, which loading repeats. A
 * recurrent state may be large: inside a prompt of n tokens at most n times SAVE_STATE_BYTES of it
 * are written, and a crash there loses the units since. Most units of old blocks are dead: a layer
 * whose blocks hold many dead units gets a base, a copy of its live units of old positions, and
 * loading reads only the blocks after it.
 *
 *   save.c          state, contents of the log, writing
 *   save_load.c     transcript and cache, back into memory
 *   save_archive.c  the archive's pieces, which are blocks of the log
 *   save_windows.c  units of layers with windows
 *   save_past.c     the pictures of the cache before the present one
 *   save_compact.c  bases; removes what no checkpoint needs */
#ifndef RETAIN_RUNTIME_SAVE_SAVE_H
#define RETAIN_RUNTIME_SAVE_SAVE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "runtime/cache/cache.h"
#include "runtime/cache/recall.h"
#include "runtime/cache/retention.h"
#include "runtime/token/tokenizer.h"
#include "store/store.h"

struct save;

#define SAVE_TURNS_MAX 64

/* Numbers of turns, from 1, ascending. */
struct save_turns {
    int n;
    int32_t turn[SAVE_TURNS_MAX];
};
bool save_turns_hold(const struct save_turns *t, int64_t turn);

/* What another model has read of the conversation: a hidden copy of it with that model's ids and
 * cache, taken back when the model is chosen again (readings.h). */
#define SAVE_READINGS_MAX 4
struct save_reading {
    char model[65];
    int64_t conversation;
};

/* The identity that a saved cache is valid for, and the settings of the conversation. All strings
 * NUL-terminated. */
struct save_state {
    char model[65], heads[65]; /* digests, hex */
    char model_name[96];       /* for people */
    char kv[16];
    char policy[32];
    char template_name[32];
    int budget;
    uint64_t seed;
    /* number of discarded answers: changes the random numbers of the next one */
    uint64_t attempt;
    /* units of earlier positions were read without heads, which score them from the cache */
    int64_t heads_from;
    bool can_adopt;  /* heads can (context_can_adopt); of the running program, not saved */
    int64_t n_run;   /* positions in the cache */
    int64_t n_units; /* live units, without those of the tail; -1 = not known */
    int64_t n_lost;  /* read only: messages at the end that were there when it was saved */
    char *system;    /* instructions for the model, or NULL */
    char *kept;      /* the settings that were given for it, opaque; or NULL */
    struct save_turns pinned, forgotten; /* session_pin, session_forget */
    struct recall_aside aside;           /* of the answer that runs */
    struct save_reading readings[SAVE_READINGS_MAX];
    int n_readings;
};

/* Takes the conversation's lock. The store must outlive it. Checkpoints are kept as long as the
 * units that only they need are fewer than the live ones, or smaller than rewind_bytes. */
int save_open(struct save **out, struct store *store, int64_t conversation, int64_t rewind_bytes,
              struct err *e);
void save_close(struct save *s);
struct store *save_store(const struct save *s);
/* Asserts the invariants; for CHECK (base/check.h). */
void save_check(const struct save *s, const struct cache *c);

/* ---- reading --------------------------------------------------------------------------------- */

/* The transcript in order: appends token ids to *ids, passes each message to the callback. An
 * answer interrupted by a crash comes last, with seq -1; its text includes the thought, with marks.
 * save_recover makes it a message. */
int save_transcript(struct save *s, struct tokens *ids,
                    void (*each)(void *ctx, const struct store_message *m), void *ctx,
                    struct err *e);

/* The last written state; *found = false for a conversation without one, whose state is empty.
 * The caller releases it, or takes over out->system and out->kept. */
int save_state_of(struct store *store, int64_t conversation, struct save_state *out, bool *found,
                  struct err *e);
void save_state_release(struct save_state *s);
/* Writes the state of a conversation; inside a transaction. */
int save_put_state(struct save *s, int64_t conversation, const struct save_state *now,
                   struct err *e);

/* An entry of the log that the conversation can be rewound to. */
struct save_point {
    int64_t seq;
    int64_t n_run; /* positions in the cache */
};

struct save_loaded {
    bool usable;        /* the saved cache was loaded; else the cache is empty */
    int64_t n_run;      /* positions in it */
    int64_t heads_from; /* as in struct save_state */
    bool adopted;       /* heads score it from now on: save the state before anything is run */
    struct str why;     /* why it is not usable; the caller releases it */
    bool other_policy;  /* that is why: it was saved with another one that can be chosen */
};

/* Loads the cache. A cache that cannot be used is no error: errors are the database's. */
int save_load(struct save *s, struct cache *c, const struct save_state *now,
              struct save_loaded *out, struct err *e);

/* Call after save_load: passes the pictures that the log led through, oldest first, the present one
 * last, at most some hundreds; none if nothing was loaded. They reach back to the beginning, or as
 * far as the newest SAVE_LISTS lists of evicted units. now: the present picture, used up;
 * out: room for one of the same shape. */
int save_past(struct save *s, const struct cache *c, struct retention *now, struct retention *out,
              void (*each)(void *ctx, const struct retention *r), void *ctx, struct err *e);

/* The best checkpoint for the transcript's first n_tokens tokens: the one with the most positions
 * run. false = none: a replay from the beginning is necessary. */
bool save_point(const struct save *s, int64_t n_tokens, struct save_point *out);

/* Call after save_transcript and save_load: makes an answer interrupted by a crash a message. text,
 * thought: what its tokens say. */
int save_recover(struct save *s, const struct cache *c, const struct save_state *now,
                 const struct str *text, const struct str *thought, struct err *e);

/* ---- the archive ----------------------------------------------------------------------------- */

/* Keeps the archive's pieces next to the log. `keep` is called inside each transaction that writes
 * units, after writing and before eviction: it adds them to the archive. */
struct archive_store save_archive(struct save *s, const struct cache *c,
                                  int (*keep)(void *ctx, struct err *e), void *ctx);
/* Whether a write failed, after which only the text is saved. */
bool save_is_broken(const struct save *s);
/* The number of positions in the log. */
int64_t save_position(const struct save *s);
/* Call after loading: passes the existing pieces, by position. */
int save_archive_each(struct save *s, void (*each)(void *ctx, uint32_t pos, int n), void *ctx,
                      struct err *e);

/* lists of evicted units that are kept for save_past */
#define SAVE_LISTS 1024

/* bytes of a recurrent state for each token of a prompt: more slow reading down */
#define SAVE_STATE_BYTES ((int64_t)64 << 10)

/* ---- writing: each call is one transaction --------------------------------------------------- */

int save_message(struct save *s, const struct store_message *m, struct err *e);

/* A token of the running answer, before it is run. `position` is that of this token. */
struct save_token {
    int64_t position;
    int32_t id;
    const char *bytes;
    size_t n;
};

/* Writes the units since the last segment as one segment, updates the log after evictions, and, if
 * `first` is not NULL, writes the answer's first token. */
int save_units(struct save *s, const struct cache *c, const struct save_state *now,
               const struct save_token *first, struct err *e);
/* The same inside a prompt: no checkpoint as long as a large recurrent state need not be
 * written. */
int save_chunk(struct save *s, const struct cache *c, const struct save_state *now, struct err *e);

/* Writes one more token, and the units of the one before. */
int save_answer_token(struct save *s, const struct cache *c, const struct save_token *t,
                      struct err *e);

/* Cuts the text to n_messages and the log to a checkpoint; point NULL: no cache remains. then: a
 * message that takes the place of the cut ones, in the same transaction; NULL = none. Call
 * save_load afterwards. */
int save_rewind(struct save *s, const struct save_state *now, const struct save_point *point,
                int64_t n_messages, const struct store_message *then, struct err *e);

/* A new conversation with the same beginning, which shares the bytes. */
int save_branch(struct save *s, const char *name, const struct save_point *point,
                int64_t n_messages, struct store_conversation *out, struct err *e);

/* Removes old checkpoints and what only they need. Failures are ignored; it is retried after the
 * next turn. */
void save_compact(struct save *s, const struct cache *c);

/* Ends the answer: text and ids become a message, units a segment. `after` runs inside the
 * transaction, between the new units and the evicted ones: it evicts. */
int save_answer(struct save *s, const struct cache *c, const struct save_state *now,
                const struct store_message *m, void (*after)(void *ctx), void *ctx, struct err *e);

#endif
