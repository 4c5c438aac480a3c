/* store: conversations on disk. One SQLite file in WAL mode, checksums by libsodium.
 *
 * The transcript (what was said, and the token ids that were run) is the truth and is always
 * complete; the saved cache only spares re-reading it. What is inside a segment's bytes is the
 * runtime's business: the store keeps them, numbered, with a BLAKE2b checksum each.
 *
 *   model         files seen: path, size, time, digest
 *   conversation  name, times, an opaque `state` text (what the cache is valid for, settings)
 *   message       one per turn and role: text, token ids
 *   segment       the saved cache as a log: what came, what went, one blob per layer and save
 *   checkpoint    moments that the log can go back to
 *   tag           words put on conversations
 *   tail          the running answer, token by token, until it becomes a message and a segment
 *   search        full-text index over messages and names; made from them, never the truth
 *
 * Everything a turn changes is written in one transaction (store_begin … store_commit). Several
 * programs may use one file; a conversation has one writer (store_lock). Not thread-safe: one
 * struct store per thread. The schema's version is PRAGMA user_version. */
#ifndef RETAIN_STORE_STORE_H
#define RETAIN_STORE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define STORE_DIGEST_BYTES 32
#define STORE_NAME_MAX     128 /* bytes of a conversation's name, with the NUL */

struct store;

/* Creates the file (0600) and its folders when missing. ERR_FORMAT when it is not ours, damaged or
 * made by a newer retain; ERR_FAIL when it can't be written (said with the path and the reason). */
int store_open(struct store **out, const char *path, struct err *e);
void store_close(struct store *s);

/* ---- encryption ------------------------------------------------------------------------------ */

#define STORE_PASSPHRASE_MAX 1024

/* With a key, texts, token ids, names, titles, states and units are sealed (XChaCha20-Poly1305) by
 * a random key, and that by a passphrase (Argon2id). What stays readable: how many rows there are,
 * how long, when they were made, and files of models. */
struct store_key {
    /* Asks for the passphrase: NUL-terminated, at most STORE_PASSPHRASE_MAX bytes with the NUL.
     * fresh: for a new database, so ask twice. `out` is locked memory and wiped afterwards. */
    int (*ask)(void *ctx, bool fresh, char *out, struct err *e);
    void *ctx;
    bool encrypt; /* a database without conversations becomes an encrypted one */
};

/* Like store_open; k NULL: an encrypted database is refused. Wrong passphrase: ERR_FAIL. */
int store_open_key(struct store **out, const char *path, const struct store_key *k, struct err *e);
bool store_is_encrypted(const struct store *s);
/* Is the file there an encrypted store? Nothing is made or changed. *fresh: there is none, or it
 * has no conversations. */
bool store_probe(const char *path, bool *fresh);
/* STORE_PASSPHRASE_MAX zeros in locked memory; NULL = none left. */
char *store_secret_new(void);
void store_secret_free(char *secret);

/* ---- transactions ---------------------------------------------------------------------------- */

/* What is bracketed is on the disk when store_commit returns, even if the power goes. Single calls
 * outside survive kill -9, but a power cut may take the last of them. After an error: roll back. */
int store_begin(struct store *s, struct err *e);
int store_commit(struct store *s, struct err *e);
void store_rollback(struct store *s); /* harmless without a transaction */

/* Between them the file stands still for this store, whatever others write; nothing may be written.
 */
int store_begin_reading(struct store *s, struct err *e);
void store_end_reading(struct store *s);

/* ---- digests -------------------------------------------------------------------------------- */

/* BLAKE2b-256 of bytes; `b2sum -l 256` prints the same. */
void store_digest(uint8_t out[STORE_DIGEST_BYTES], const void *bytes, size_t n);
void store_digest_hex(char out[2 * STORE_DIGEST_BYTES + 1], const uint8_t d[STORE_DIGEST_BYTES]);

/* ---- models --------------------------------------------------------------------------------- */

struct store_model {
    char path[4096];
    int64_t size, mtime_ns, inode;
    uint8_t digest[STORE_DIGEST_BYTES];
};

/* 1 = found, 0 = never seen, negative = error. */
int store_model_find(struct store *s, const char *path, struct store_model *out, struct err *e);
/* parts: digests of the file's parts (runtime/model/checksum.h), one behind the other. */
int store_model_put(struct store *s, const struct store_model *m, const void *parts, size_t n_parts,
                    struct err *e);
/* The parts of a model that was found; free() them. NULL and 0: none are known. */
int store_model_parts(struct store *s, const char *path, uint8_t **parts, size_t *n_parts,
                      struct err *e);
/* By path. A callback that returns non-zero ends the walk; that value is returned. */
int store_model_list(struct store *s, int (*each)(void *ctx, const struct store_model *m),
                     void *ctx, struct err *e);

/* ---- conversations -------------------------------------------------------------------------- */

struct store_conversation {
    int64_t id;
    char name[STORE_NAME_MAX];
    char title[STORE_NAME_MAX];     /* the first user message, shortened; may be empty */
    int64_t created_ms, updated_ms; /* Unix time */
    int64_t n_turns;                /* user messages */
    int64_t n_tokens;               /* in the transcript */
    int64_t cache_bytes;            /* of the saved cache; branches count what they share */
    int64_t deleted_ms;             /* 0 = it is not */
    bool has_tags;
};

/* name NULL or "": a new unused one is made ("chat-7"). ERR_USAGE when the name is taken or not a
 * valid name (1 to STORE_NAME_MAX - 1 bytes of UTF-8 without control characters). */
int store_conversation_create(struct store *s, const char *name, struct store_conversation *out,
                              struct err *e);
/* 1 = found, 0 = none. */
int store_conversation_find(struct store *s, const char *name, struct store_conversation *out,
                            struct err *e);
int store_conversation_latest(struct store *s, struct store_conversation *out, struct err *e);
/* Newest first. A callback that returns non-zero ends the walk; that value is returned. */
int store_conversation_list(struct store *s,
                            int (*each)(void *ctx, const struct store_conversation *c), void *ctx,
                            struct err *e);
int store_conversation_rename(struct store *s, int64_t id, const char *name, struct err *e);
/* Takes a conversation away for good in which nothing was ever said, if it still has that name. */
int store_conversation_forget(struct store *s, int64_t id, const char *name, struct err *e);
/* Out of sight, its name free again, until it is restored or purged. */
int store_conversation_delete(struct store *s, int64_t id, struct err *e);
/* The latest deleted one of that name comes back, as new_name if that is not NULL. ERR_USAGE when
 * the name is taken. */
int store_conversation_restore(struct store *s, const char *name, const char *new_name,
                               struct err *e);
/* Removes for good what was deleted before this time; the number of conversations in *n. */
int store_purge(struct store *s, int64_t before_ms, int64_t *n, struct err *e);

/* A new conversation (name as in create) with the first n_messages of another one and its cache up
 * to log number seq (-1 = none of it). Inside one store the cache's bytes are shared. */
int store_conversation_copy(struct store *from, int64_t id, int64_t n_messages, int64_t seq,
                            struct store *to, const char *name, struct store_conversation *out,
                            struct err *e);
/* The times of an imported one. */
int store_conversation_times(struct store *s, int64_t id, int64_t created_ms, int64_t updated_ms,
                             struct err *e);

/* ---- tags -------------------------------------------------------------------------------------
 */

#define STORE_TAG_MAX 64 /* bytes of a tag, with the NUL: one word without comma and # */

int store_tag_add(struct store *s, int64_t conversation, const char *tag, struct err *e);
/* 1 = it is off, 0 = it was not on. */
int store_tag_remove(struct store *s, int64_t conversation, const char *tag, struct err *e);
int store_tag_each(struct store *s, int64_t conversation, int (*each)(void *ctx, const char *tag),
                   void *ctx, struct err *e);
/* The conversations that have it, newest first. */
int store_tagged_each(struct store *s, const char *tag,
                      int (*each)(void *ctx, const struct store_conversation *c), void *ctx,
                      struct err *e);

/* ---- one writer -------------------------------------------------------------------------------
 */

/* Makes this process the only writer of a conversation until store_unlock, store_close or death
 * (an OFD lock on one byte of "FILE.lock"). ERR_FAIL "… is open in another retain". */
int store_lock(struct store *s, int64_t conversation, struct err *e);
void store_unlock(struct store *s, int64_t conversation);
bool store_holds(const struct store *s, int64_t conversation); /* this store has locked it */

/* The opaque state text; *out is malloc'ed and NUL-terminated, "" when none was put. */
int store_state_get(struct store *s, int64_t conversation, char **out, struct err *e);
int store_state_put(struct store *s, int64_t conversation, const char *state, struct err *e);

/* ---- transcript ----------------------------------------------------------------------------- */

enum store_role { STORE_SYSTEM, STORE_USER, STORE_ASSISTANT };

struct store_message {
    int64_t seq; /* 0, 1, 2, … in a conversation */
    enum store_role role;
    const char *text; /* NUL-terminated; may hold any bytes but NUL */
    size_t n_text;
    const int32_t *tokens; /* the ids this message added, template included */
    size_t n_tokens;
    int64_t created_ms;
    const char *settings; /* what an answer was drawn with; NULL = not known */
    bool damaged;         /* see store_message_rescue */
};

/* Appends; m->seq is set by the store, and m->created_ms where it is 0. */
int store_message_add(struct store *s, int64_t conversation, struct store_message *m,
                      struct err *e);
/* In order. The callback's pointers live until it returns. The running answer in the tail comes
 * last, as an assistant's message with seq -1. */
int store_message_each(struct store *s, int64_t conversation,
                       int (*each)(void *ctx, const struct store_message *m), void *ctx,
                       struct err *e);

/* What is left of a damaged conversation. One message that is marked stands where messages are
 * missing or are not what was written: without ids, its text as it is found, "" where that is
 * unreadable. *n_damaged grows with each, and with an answer in the tail that breaks off; NULL:
 * damage is ERR_FORMAT, as in store_message_each. */
int store_message_rescue(struct store *s, int64_t conversation,
                         int (*each)(void *ctx, const struct store_message *m), void *ctx,
                         int64_t *n_damaged, struct err *e);

/* ---- the running answer --------------------------------------------------------------------- */

struct store_tail {
    int64_t position; /* of the token in the conversation */
    int32_t token;
    const void *text; /* bytes the token adds to the text (may be part of a character) */
    size_t n_text;
    const void *units; /* cache units of the token BEFORE this one (it was run to get this one);
                          n_units = 0 when they are in a segment already */
    size_t n_units;
};

int store_tail_add(struct store *s, int64_t conversation, const struct store_tail *t,
                   struct err *e);
int store_tail_each(struct store *s, int64_t conversation,
                    int (*each)(void *ctx, const struct store_tail *t), void *ctx, struct err *e);
int store_tail_clear(struct store *s, int64_t conversation, struct err *e);

/* ---- search ---------------------------------------------------------------------------------- */

struct store_hit {
    const struct store_conversation *conversation;
    int64_t seq; /* of the message; -1 = the conversation's name */
    enum store_role role;
    int64_t created_ms;
    const char *snippet; /* NUL-terminated; what was found stands between STX (2) and ETX (3) */
};

/* Messages and names that hold all words of `text` (the last one may be unfinished), newest
 * conversation and message first. Encrypted stores are read through. */
int store_search(struct store *s, const char *text,
                 int (*each)(void *ctx, const struct store_hit *h), void *ctx, struct err *e);

/* ---- the saved cache ------------------------------------------------------------------------ */

enum store_kind { STORE_UNITS, STORE_GONE, STORE_MEMORY };

/* One entry of a layer's log: units that came, which ones went, or what the policy remembered at
 * that moment. */
struct store_segment {
    int64_t seq; /* ascending in a conversation, chosen by the caller */
    int layer;
    enum store_kind kind;
    const void *bytes; /* opaque; checked against its digest when read */
    size_t n_bytes;
};

int store_segment_put(struct store *s, int64_t conversation, const struct store_segment *g,
                      struct err *e);
/* Removes a layer's entries with seq_min <= seq <= seq_max; layer -1 = of all layers. Bytes that a
 * branch shares stay. */
int store_segment_delete(struct store *s, int64_t conversation, int layer, int64_t seq_min,
                         int64_t seq_max, struct err *e);
/* By layer, then seq; layer -1 = all. A blob whose checksum is wrong: ERR_FORMAT, naming
 * conversation, segment and layer; the caller then replays the transcript. */
int store_segment_each(struct store *s, int64_t conversation, int layer,
                       int (*each)(void *ctx, const struct store_segment *g), void *ctx,
                       struct err *e);

/* The same in three steps, so that some are read while others are checked: */
struct store_blob {
    struct store_segment segment; /* .bytes NULL, .n_bytes as on the disk */
    int64_t id, origin;           /* origin: the conversation they were written for */
    uint8_t digest[STORE_DIGEST_BYTES];
    size_t n_digest;
};
/* 1. What is there. */
int store_blob_each(struct store *s, int64_t conversation, int layer,
                    int (*each)(void *ctx, const struct store_blob *b), void *ctx, struct err *e);
/* 2. Reads b->segment.n_bytes to `out`; on one thread at a time. store_blob_done must follow the
 * last: until then other programs' changes are not seen, and the log is not carried over into the
 * file. */
int store_blob_read(struct store *s, int64_t conversation, const struct store_blob *b, void *out,
                    struct err *e);
void store_blob_done(struct store *s);
/* 3. On any thread: checks what was read, and opens it in place when encrypted. false = damaged;
 * else out->bytes points into `bytes`. */
bool store_blob_open(const struct store *s, const struct store_blob *b, void *bytes,
                     struct store_segment *out);
int store_segment_damaged(struct store *s, int64_t conversation, const struct store_segment *g,
                          struct err *e);

/* Drops log, checkpoints and the tail's units; the text stays. */
int store_cache_drop(struct store *s, int64_t conversation, struct err *e);
/* Drops caches, those of deleted conversations and the longest unused first, until what is left has
 * at most max_bytes; never that of `keep`. */
int store_cache_trim(struct store *s, int64_t max_bytes, int64_t keep, struct err *e);

/* ---- checkpoints ----------------------------------------------------------------------------- */

struct store_checkpoint {
    int64_t seq;   /* the log's last entry that belongs to it */
    int64_t n_run; /* positions in the cache */
};
int store_checkpoint_put(struct store *s, int64_t conversation, const struct store_checkpoint *c,
                         struct err *e);
/* Newest first. */
int store_checkpoint_each(struct store *s, int64_t conversation,
                          int (*each)(void *ctx, const struct store_checkpoint *c), void *ctx,
                          struct err *e);
/* Forgets those before seq, and what the policy remembered for them alone. */
int store_checkpoint_forget(struct store *s, int64_t conversation, int64_t seq, struct err *e);

/* Cuts the transcript to its first n_messages and the log to entries up to seq; the tail goes. */
int store_rewind(struct store *s, int64_t conversation, int64_t n_messages, int64_t seq,
                 struct err *e);

/* ---- care ------------------------------------------------------------------------------------ */

/* Full check: PRAGMA integrity_check and every checksum. */
int store_check(struct store *s, struct err *e);
/* Makes the file as small as its contents and the search index anew. */
int store_compact(struct store *s, struct err *e);
/* Gives some of what is free in the file back to the disk, while more than `above` bytes are: 4 MiB
 * at most, so that nobody waits. Dropping and purging call it; trouble is none of theirs. */
void store_give_back(struct store *s, int64_t above);
/* Closes the store and leaves one file, without a log beside it, for carrying elsewhere. */
int store_close_single(struct store *s, struct err *e);

#endif
