/* save: one conversation's way to disk and back. Knows what a segment is made of and when it is
 * written; the store keeps bytes.
 *
 * The cache is saved as a log (segment.h): units that came, positions that went. So a save costs
 * what was added and evicted, whatever the size of the cache. While an answer runs, each token is
 * written together with the units of the token before it.
 *
 * The log can also be read up to an earlier entry: that is how a conversation goes back or branches
 * off without reading anything again. Checkpoints name the entries that can be gone back to: one
 * per chunk that was read, one when an answer ended. What the policy remembers besides units is
 * written whole for each. Units that no checkpoint needs any more are dead; when a layer has more
 * of them than alive ones, it is written anew without them (compaction), a few layers per turn.
 *
 *   save.c          state, what the log says, writing
 *   save_load.c     transcript and cache, back into memory
 *   save_compact.c  what is dead goes */
#ifndef RETAIN_RUNTIME_SESSION_SAVE_H
#define RETAIN_RUNTIME_SESSION_SAVE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "runtime/cache/archive.h"
#include "runtime/cache/cache.h"
#include "runtime/token/chat_template.h"
#include "runtime/token/tokenizer.h"

struct pool;
struct save;
struct store;
struct store_conversation;

/* What a saved cache is valid for, and how the conversation was run. All strings NUL-terminated. */
struct save_state {
    char model[65], heads[65]; /* digests, hex */
    char kv[16];
    char policy[32];
    char template_name[32];
    int budget;
    uint64_t seed;
    uint64_t attempt;     /* answers that were thrown away for another one: changes what is drawn */
    int64_t n_run;        /* positions that are in the cache */
    int64_t n_units;      /* alive, without those of the tail; -1 = not known */
    char *system;         /* instructions for the model, or NULL; not owned */
    const char *settings; /* of the answer that save_answer saves, or NULL; not owned, not read */
};

/* Takes the conversation's lock. The store must outlive it. Checkpoints are kept while the units
 * that only they need are fewer than the living ones, or than rewind_bytes. */
int save_open(struct save **out, struct store *store, int64_t conversation, int64_t rewind_bytes,
              struct err *e);
/* Without the lock, for looking: only the reading functions and save_branch may be called. */
int save_view(struct save **out, struct store *store, int64_t conversation, struct err *e);
void save_close(struct save *s);
/* Takes the conversation away if nothing was said in it and it still has the name it was given. */
void save_forget_empty(struct save *s, const char *name);

/* ---- reading --------------------------------------------------------------------------------- */

struct save_message { /* valid inside the callback */
    enum chat_role role;
    const char *text;
    size_t n_text;
    const int32_t *ids;
    size_t n_ids;
};

/* The transcript in order: token ids appended to *ids, each message to the callback. An answer
 * that a crash cut off comes last; save_recover makes it a message. */
int save_transcript(struct save *s, struct tokens *ids,
                    void (*each)(void *ctx, const struct save_message *m), void *ctx,
                    struct err *e);

/* The state as last written; *found = false for a conversation that has none. The caller frees
 * out->system. */
int save_state(struct save *s, struct save_state *out, bool *found, struct err *e);

/* An entry of the log that can be gone back to. */
struct save_point {
    int64_t seq;
    int64_t n_run; /* positions in the cache */
};

/* Loads the cache; blobs are checked on the pool's threads. 1 = done, *n_run positions are in it;
 * 0 = it cannot be used, *why says so and the cache is empty; negative = the database failed. */
int save_load(struct save *s, struct cache *c, struct pool *pool, const struct save_state *now,
              int64_t *n_run, struct str *why, struct err *e);

/* The best checkpoint on the way to the transcript's first n_tokens tokens: the one with the most
 * positions run. false = none: only reading again from the beginning leads there. */
bool save_point(const struct save *s, int64_t n_tokens, struct save_point *out);

/* After save_transcript and save_load: an answer that a crash cut off becomes a message. */
int save_recover(struct save *s, const struct cache *c, const struct save_state *now,
                 struct err *e);

/* ---- the archive ----------------------------------------------------------------------------- */

/* Keeps the archive's pieces beside the log. `keep` is called inside each transaction that writes
 * units, when they are written and before they are evicted: it adds them to the archive. */
struct archive_store save_archive(struct save *s, const struct cache *c,
                                  int (*keep)(void *ctx, struct err *e), void *ctx);
/* After loading: the pieces that there are, by position. */
int save_archive_each(struct save *s, void (*each)(void *ctx, uint32_t pos, int n), void *ctx,
                      struct err *e);

/* ---- writing: each call is one transaction --------------------------------------------------- */

int save_message(struct save *s, enum chat_role role, const char *text, size_t n,
                 const int32_t *ids, size_t n_ids, struct err *e);

/* A token of the running answer, before it is run. `position` is its own. */
struct save_token {
    int64_t position;
    int32_t id;
    const char *bytes;
    size_t n;
};

/* Units since the last segment become one, bitmaps follow the evictions, and, if `first` is not
 * NULL, the answer's first token is written with them. */
int save_units(struct save *s, const struct cache *c, const struct save_state *now,
               const struct save_token *first, struct err *e);

/* One more token, and the units of the one before. */
int save_answer_token(struct save *s, const struct cache *c, const struct save_token *t,
                      struct err *e);

/* Cuts the text to n_messages and the log to a checkpoint; point NULL: no cache is left. save_load
 * must follow. */
int save_rewind(struct save *s, const struct save_state *now, const struct save_point *point,
                int64_t n_messages, struct err *e);

/* A new conversation that begins like that, and shares the bytes. */
int save_branch(struct save *s, const char *name, const struct save_point *point,
                int64_t n_messages, struct store_conversation *out, struct err *e);

/* Drops the saved cache: what is on the disk does not serve any more. */
int save_drop(struct save *s, struct err *e);

/* Forgets old checkpoints and writes layers anew that are mostly dead: at most a few per call,
 * in transactions of its own. Trouble is no trouble of the conversation's: it is tried again. */
void save_compact(struct save *s, const struct cache *c);

/* The answer is over: text and ids become a message, units a segment. `after` runs inside the
 * transaction, between the segment and the bitmaps: it evicts. */
int save_answer(struct save *s, const struct cache *c, const struct save_state *now,
                const char *text, size_t n, const int32_t *ids, size_t n_ids,
                void (*after)(void *ctx), void *ctx, struct err *e);

#endif
