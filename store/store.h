/* store: conversations on disk. One SQLite file in WAL mode, checksums by libsodium.
 *
 * The transcript (the messages, and the token ids that were run) is authoritative and always
 * complete; the saved cache only avoids running it again. The store does not interpret a segment's
 * bytes: it keeps them, numbered, with a BLAKE2b checksum each.
 *
 *   model         files seen: path, size, time, digest
 *   conversation  name, times, an opaque `state` text (settings, what the cache is valid for)
 *   message       one per turn and role: text, token ids
 *   transcript    the messages of each conversation; branches share them
 *   segment       the saved cache as a log: units added, units evicted, one blob per layer and save
 *   checkpoint    states that the log can go back to
 *   tag           words attached to conversations
 *   tail          the running answer, token by token, until it becomes a message and a segment
 *   search        full-text index over messages and names; derived from them
 *
 * All changes of a turn are written in one transaction (store_begin … store_commit). Several
 * programs may use one file; a conversation has one writer (store_lock). Not thread-safe: one
 * struct store per thread. The schema's version is PRAGMA user_version. */
#ifndef RETAIN_STORE_STORE_H
#define RETAIN_STORE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/digest.h"
#include "base/err.h"
#include "base/role.h"
#include "base/str.h"

#define STORE_NAME_MAX 128 /* bytes of a conversation's name, with the NUL */

struct store;

void store_close(struct store *s);
/* Whether `path` is the file that the store writes to. */
bool store_is_file(const struct store *s, const char *path);

/* ---- encryption ------------------------------------------------------------------------------ */

#define STORE_PASSPHRASE_MAX 1024

/* With a key, texts, token ids, names, titles, states and units are sealed (XChaCha20-Poly1305)
 * with a random key, which is itself sealed with a passphrase (Argon2id). Still readable: the
 * number of rows, their lengths, their times, and model files. */
struct store_key {
    /* Asks for the passphrase: NUL-terminated, at most STORE_PASSPHRASE_MAX bytes with the NUL.
     * fresh: for a new database, so ask twice. `out` is locked memory and wiped afterwards. */
    int (*ask)(void *ctx, bool fresh, char *out, struct err *e);
    void *ctx;
    bool encrypt; /* a database without conversations becomes an encrypted one */
};

/* Creates the file (0600) and its folders when missing. ERR_FORMAT when the file is not ours, is
 * damaged or was made by a newer retain; ERR_FAIL, with path and reason, when it can't be written,
 * and for a wrong passphrase. k NULL: an encrypted database is refused. */
int store_open(struct store **out, const char *path, const struct store_key *k, struct err *e);
/* Opens a file only for reading: neither it nor its folder is written to. An older file is migrated
 * in a temporary copy. Only functions that read may be called on the store. */
int store_open_source(struct store **out, const char *path, const struct store_key *k,
                      struct err *e);
bool store_is_encrypted(const struct store *s);
/* Whether the file is an encrypted store; creates and changes nothing. *fresh: the file does not
 * exist, or it has no conversations. */
bool store_probe(const char *path, bool *fresh);
/* STORE_PASSPHRASE_MAX zeros in locked memory; NULL = none left. */
char *store_secret_new(void);
void store_secret_free(char *secret);

/* ---- transactions ---------------------------------------------------------------------------- */

/* Writes between begin and commit are durable once store_commit returns, even after a power cut.
 * Single calls outside survive kill -9, but a power cut may lose the last of them. After an error:
 * roll back. */
int store_begin(struct store *s, struct err *e);
int store_commit(struct store *s, struct err *e);
void store_rollback(struct store *s); /* harmless without a transaction */
/* Makes several of these transactions one: between the two they are its parts, and store_release
 * commits all or, if rc is an error or one was rolled back, none. Returns rc or the failure. */
int store_hold(struct store *s, struct err *e);
int store_release(struct store *s, int rc, struct err *e);

/* Between these two calls this store sees one unchanging state of the file, even if other programs
 * write to it; the store itself must not write. Pairs may be nested; inside store_begin they do
 * nothing. */
int store_begin_reading(struct store *s, struct err *e);
void store_end_reading(struct store *s);

/* ---- models --------------------------------------------------------------------------------- */

/* 1 = found, 0 = not in the table, negative = error. */
int store_model_find(struct store *s, const char *path, struct file_identity *out, struct err *e);
int store_model_put(struct store *s, const struct file_identity *m, struct err *e);
int store_model_forget(struct store *s, const char *path, struct err *e);
/* By path. A callback that returns non-zero ends the walk; that value is returned. */
int store_model_list(struct store *s, int (*each)(void *ctx, const struct file_identity *m),
                     void *ctx, struct err *e);

/* ---- conversations -------------------------------------------------------------------------- */

struct store_conversation {
    int64_t id;
    char name[STORE_NAME_MAX];
    char title[STORE_NAME_MAX];     /* the first user message, shortened; may be empty */
    int64_t created_ms, updated_ms; /* Unix time */
    int64_t n_turns;                /* user messages */
    int64_t n_tokens;               /* tokens in the transcript */
    int64_t cache_bytes;            /* of the saved cache; each branch counts the bytes it shares */
    int64_t deleted_ms;             /* 0 = not deleted */
    bool has_tags;
};

/* name NULL or "": creates a new, unused one ("chat-7"). ERR_USAGE when the name is taken or
 * invalid (valid: 1 to STORE_NAME_MAX - 1 bytes of UTF-8 without control characters). */
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
int store_conversation_count(struct store *s, int64_t *n, struct err *e);
int store_conversation_rename(struct store *s, int64_t id, const char *name, struct err *e);
/* Permanently removes it; nothing happens if it does not exist. name: only if it has no messages
 * and still this name; NULL = always. */
int store_conversation_remove(struct store *s, int64_t id, const char *name, struct err *e);
/* Hides it and frees its name, until it is restored or purged. */
int store_conversation_delete(struct store *s, int64_t id, struct err *e);
/* Restores the conversation of that name that was deleted last, as new_name if that is not NULL.
 * ERR_USAGE when the name is taken. */
int store_conversation_restore(struct store *s, const char *name, const char *new_name,
                               struct err *e);
/* Permanently removes conversations deleted more than keep_ms ago; 0: all of them. Their number in
 * *n. One leap of the clock removes none: a conversation must have been used after that time, at
 * least a day ago. */
int store_purge(struct store *s, int64_t keep_ms, int64_t *n, struct err *e);

/* A new conversation (name as in create) with the first n_messages of another one and its cache up
 * to log number seq (-1 = no cache). Inside one store the messages and the cache's bytes are
 * shared. */
int store_conversation_copy(struct store *from, int64_t id, int64_t n_messages, int64_t seq,
                            struct store *to, const char *name, struct store_conversation *out,
                            struct err *e);
/* Inside store_begin: replaces the messages and the cache of a conversation by those of another one
 * of the same store, which keeps them, too. */
int store_conversation_take(struct store *s, int64_t from, int64_t id, struct err *e);
/* Sets the times of an imported conversation. */
int store_conversation_times(struct store *s, int64_t id, int64_t created_ms, int64_t updated_ms,
                             struct err *e);

/* ---- tags ------------------------------------------------------------------------------------ */

#define STORE_TAG_MAX 64 /* bytes of a tag, with the NUL: one word without comma and # */

int store_tag_add(struct store *s, int64_t conversation, const char *tag, struct err *e);
/* 1 = removed, 0 = the conversation did not have it. */
int store_tag_remove(struct store *s, int64_t conversation, const char *tag, struct err *e);
int store_tag_each(struct store *s, int64_t conversation, int (*each)(void *ctx, const char *tag),
                   void *ctx, struct err *e);
/* The conversations with this tag, newest first. */
int store_tagged_each(struct store *s, const char *tag,
                      int (*each)(void *ctx, const struct store_conversation *c), void *ctx,
                      struct err *e);

/* ---- one writer ------------------------------------------------------------------------------ */

/* Makes this process the only writer of a conversation until store_unlock, store_close or the end
 * of the process (an OFD lock on one byte of "FILE.lock"). ERR_FAIL "… is open in another
 * retain". */
int store_lock(struct store *s, int64_t conversation, struct err *e);
void store_unlock(struct store *s, int64_t conversation);
bool store_holds(const struct store *s, int64_t conversation); /* this store has locked it */

/* The opaque state text; *out is malloc'ed and NUL-terminated, "" when none is saved. */
int store_state_get(struct store *s, int64_t conversation, char **out, struct err *e);
int store_state_put(struct store *s, int64_t conversation, const char *state, struct err *e);

/* ---- transcript ----------------------------------------------------------------------------- */

/* The thought before an answer. */
struct store_thought {
    const char *text; /* [n], NUL-terminated; NULL = none */
    size_t n;
    int64_t n_tokens, ms;
};

struct store_message {
    int64_t seq; /* 0, 1, 2, … in a conversation */
    enum chat_role role;
    const char *text; /* NUL-terminated; may hold any bytes */
    size_t n_text;
    const int32_t *tokens; /* the ids this message added, template included */
    size_t n_tokens;
    int64_t position; /* of the first id in the conversation; set by the walks */
    int64_t created_ms;
    const char *settings; /* the sampling settings of an answer; NULL = not known */
    struct store_thought thought;
    bool damaged; /* see store_message_rescue */
};

/* Appends; the store sets m->seq, and m->created_ms when it is 0. */
int store_message_add(struct store *s, int64_t conversation, struct store_message *m,
                      struct err *e);
/* In order. The callback's pointers are valid until it returns. The running answer in the tail
 * comes last, as an assistant's message with seq -1. Here and in the other walks, each NULL: rows
 * are only checked. */
int store_message_each(struct store *s, int64_t conversation,
                       int (*each)(void *ctx, const struct store_message *m), void *ctx,
                       struct err *e);

/* Reads the intact part of a damaged conversation. Where messages are missing or damaged, one
 * marked message is returned: without ids, with its text if it is readable and "" otherwise.
 * *n_damaged counts these, and a truncated answer in the tail; NULL: damage is ERR_FORMAT, as in
 * store_message_each. */
int store_message_rescue(struct store *s, int64_t conversation,
                         int (*each)(void *ctx, const struct store_message *m), void *ctx,
                         int64_t *n_damaged, struct err *e);

/* ---- the running answer --------------------------------------------------------------------- */

struct store_tail {
    int64_t position; /* of the token in the conversation */
    int32_t token;
    const void *text; /* bytes the token adds to the text (may be part of a character) */
    size_t n_text;
    const void *units; /* cache units of the token BEFORE this one (running it produced this one);
                        * n_units = 0 when the log already has them */
    size_t n_units;
    const void *rest; /* saved with them, and only as long as the answer runs */
    size_t n_rest;
};

int store_tail_add(struct store *s, int64_t conversation, const struct store_tail *t,
                   struct err *e);
int store_tail_each(struct store *s, int64_t conversation,
                    int (*each)(void *ctx, const struct store_tail *t), void *ctx, struct err *e);
int store_tail_clear(struct store *s, int64_t conversation, struct err *e);
/* The units of positions [from, end) become entries of the log, as they are. */
int store_tail_keep(struct store *s, int64_t conversation, int64_t from, int64_t end, int64_t seq,
                    struct err *e);

/* ---- search ---------------------------------------------------------------------------------- */

struct store_hit {
    const struct store_conversation *conversation;
    int64_t seq; /* of the message; -1 = the conversation's name */
    enum chat_role role;
    int64_t created_ms;
    const char *snippet; /* NUL-terminated; the match is between STX (2) and ETX (3) */
};

/* Messages and names that contain all words of `text` (the last one may be a prefix), newest
 * conversation and message first. In encrypted stores all messages are read. */
int store_search(struct store *s, const char *text,
                 int (*each)(void *ctx, const struct store_hit *h), void *ctx, struct err *e);

/* Of messages that share a word with a text (related.c). Words have letters and digits only, as the
 * index splits them; encrypted stores have no index, so nothing is found there. */
struct store_related {
    const char *conversation; /* its name */
    const char *text;         /* [n_text] of the user's message */
    size_t n_text;
};

/* The number of messages that contain a word, and of all messages, about. */
int store_word_count(struct store *s, const char *word, int64_t *n, struct err *e);
int store_message_total(struct store *s, int64_t *n, struct err *e);
/* The user's messages that contain any of the words ("one" OR "two"), newest first, at most `max`;
 * a non-zero return of the callback ends the walk and is returned. */
int store_related_each(struct store *s, const struct str *words, int max,
                       int (*each)(void *ctx, const struct store_related *m), void *ctx,
                       struct err *e);

/* ---- the saved cache ------------------------------------------------------------------------ */

/* The log's units are in blocks of a few positions. The archive keeps blocks, too: it has a second
 * row for the same bytes, whose kind is STORE_ARCHIVED more, and which goes when the archive drops
 * it, while the log's row goes when no checkpoint needs it. */
enum store_kind {
    STORE_UNITS,        /* a block of units */
    STORE_EVICTED,      /* positions evicted */
    STORE_STATE,        /* of recurrent layers, at that moment */
    STORE_PIECE,        /* of the archive: a block, */
    STORE_RETURNED,     /* positions that returned */
    STORE_BASE,         /* a layer's units of old positions, so that their blocks are not read */
    STORE_SCORES,       /* of blocks that have none */
    STORE_WINDOWS,      /* units of a layer with a window */
    STORE_PAST,         /* older lists of positions were removed */
    STORE_PIECE_SCORES, /* and its scores */
};
#define STORE_ARCHIVED 3

/* One entry of the log, or of the archive. */
struct store_segment {
    int64_t seq; /* ascending within a conversation, chosen by the caller */
    int layer;   /* blocks and scores: the first position instead */
    enum store_kind kind;
    const void *bytes; /* opaque; verified against its digest when read */
    size_t n_bytes;
};
#define STORE_PIECES (-2) /* as a layer: the archive, by position */

int store_segment_put(struct store *s, int64_t conversation, const struct store_segment *g,
                      struct err *e);
/* Removes a layer's entries with seq_min <= seq <= seq_max, without blocks; layer -1 = all entries
 * and the archive. Bytes that a branch shares are kept. */
int store_segment_delete(struct store *s, int64_t conversation, int layer, int64_t seq_min,
                         int64_t seq_max, struct err *e);
/* By layer, then seq; layer -1 = all, without the archive. A blob whose checksum is wrong:
 * ERR_FORMAT, naming conversation, segment and layer; the caller then replays the transcript. */
int store_segment_each(struct store *s, int64_t conversation, int layer,
                       int (*each)(void *ctx, const struct store_segment *g), void *ctx,
                       struct err *e);

/* The same in three steps, so that some blobs are read while others are verified: */
struct store_blob {
    struct store_segment segment; /* .bytes NULL, .n_bytes as on disk */
    int64_t id, origin;           /* origin: the conversation that the bytes were written for */
    uint8_t digest[24];
};
/* 1. Lists the blobs. */
int store_blob_each(struct store *s, int64_t conversation, int layer,
                    int (*each)(void *ctx, const struct store_blob *b), void *ctx, struct err *e);
/* 2. Reads b->segment.n_bytes to `out`; on one thread at a time. Call store_blob_done after the
 * last one: until then other programs' changes are invisible, and the log is not copied into the
 * file. */
int store_blob_read(struct store *s, int64_t conversation, const struct store_blob *b, void *out,
                    struct err *e);
void store_blob_done(struct store *s);
/* 3. On any thread: verifies the bytes, and opens them in place when encrypted. false = damaged;
 * else out->bytes points into `bytes`. */
bool store_blob_open(const struct store *s, const struct store_blob *b, void *bytes,
                     struct store_segment *out);
int store_segment_damaged(struct store *s, int64_t conversation, const struct store_segment *g,
                          struct err *e);

/* Adds the log's blocks in [pos, pos + n) to the archive, and back: as entries of the log with
 * number seq, for units that returned. */
int store_piece_keep(struct store *s, int64_t conversation, uint32_t pos, int n, struct err *e);
int store_piece_return(struct store *s, int64_t conversation, uint32_t pos, int n, int64_t seq,
                       struct err *e);
/* Passes the archive's pieces that begin in [pos, pos + n) to the callback, and their scores. */
int store_piece_each(struct store *s, int64_t conversation, uint32_t pos, int n,
                     int (*each)(void *ctx, const struct store_segment *g), void *ctx,
                     struct err *e);
int store_piece_drop(struct store *s, int64_t conversation, uint32_t pos, int n, struct err *e);
/* Removes the log's blocks before position `end` with a number up to seq. */
int store_block_drop(struct store *s, int64_t conversation, int64_t end, int64_t seq,
                     struct err *e);

/* Drops the log, the checkpoints and the tail's units; keeps the text. */
int store_cache_drop(struct store *s, int64_t conversation, struct err *e);
/* Drops caches until the rest has at most max_bytes: first those of deleted conversations, then the
 * least recently used; never that of `keep`. */
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
/* Deletes the checkpoints before seq, and the states and bases kept only for them. */
int store_checkpoint_forget(struct store *s, int64_t conversation, int64_t seq, struct err *e);
/* Deletes lists of positions before seq, except the newest n; STORE_PAST then has the number of the
 * last one that was deleted. */
int store_lists_forget(struct store *s, int64_t conversation, int64_t seq, int n, struct err *e);

/* How many messages the conversation's rows are, whatever its own counter says. */
int store_message_count(struct store *s, int64_t conversation, int64_t *n, struct err *e);

/* Cuts the transcript to its first n_messages and the log to entries up to seq; deletes the
 * tail. */
int store_rewind(struct store *s, int64_t conversation, int64_t n_messages, int64_t seq,
                 struct err *e);

/* ---- care ------------------------------------------------------------------------------------ */

/* Full check: PRAGMA integrity_check and every checksum. */
int store_check(struct store *s, struct err *e);
/* Shrinks the file to its contents and rebuilds the search index. On a full disk it works in small
 * steps; the search index, if it does not fit then, is an error. */
int store_compact(struct store *s, struct err *e);
/* Long work reports how much of it is done: store_check, and a caller's own work by store_progress,
 * which returns ERR_STOP when the callback returns non-zero. NULL = none. */
void store_watch(struct store *s, int (*progress)(void *ctx, int64_t done, int64_t total),
                 void *ctx);
int store_progress(struct store *s, int64_t done, int64_t total, struct err *e);
/* Returns free pages of the file to the disk, while more than `above` bytes are free and, unless
 * that is 0, a quarter of the file: 4 MiB at most per call, so that the user does not wait. Called
 * after dropping and purging; failures are ignored. */
void store_give_back(struct store *s, int64_t above);
/* On a full disk: returns the room beside `path` that was kept, so that a store there can be opened
 * to delete and to compact. */
void store_free_reserve(const char *path);
/* Closes the store and leaves a single file without a log, ready to be copied elsewhere. */
int store_close_single(struct store *s, struct err *e);
/* Removes a closed file, and the files that SQLite and locks made for it. */
void store_remove_files(const char *path);

#endif
