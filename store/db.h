/* db: the parts that the store's files share: the connection, its statements, errors and row
 * digests.
 *
 * Errors are made from SQLite's code at once, because a reset clears it; `doing` names the action
 * ("saving the message"). Only store/ includes this. */
#ifndef RETAIN_STORE_DB_H
#define RETAIN_STORE_DB_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "store/store.h"

#define DB_BUSY_MS 5000 /* longest wait for a lock of another program */

struct store {
    sqlite3 *db;
    char *path;
    const char *shown;   /* points into path: its end, short enough for an error line */
    int64_t page_bytes;  /* of the file */
    int lock_fd;         /* of "FILE.lock"; -1 until the first store_lock */
    int64_t held[16];    /* conversations that this store has locked; 0 = none */
    bool in_transaction; /* between store_begin and store_commit or store_rollback */
    bool joins;       /* between store_hold and store_release: those are parts of one transaction */
    bool join_failed; /* one of them was rolled back, so that all will be */
    bool removed_text; /* the open transaction removed words, see db_commit */
    int (*progress)(void *ctx, int64_t done, int64_t total); /* store_watch */
    void *progress_ctx;
    int64_t locked_ns; /* when the wait for a lock began */
    int n_entered;     /* calls of db_enter, in a transaction that the first of them began */
    int n_reading;     /* calls of store_begin_reading that store_end_reading has not ended yet */
    bool reads;        /* the first of these calls began a transaction */
    uint8_t *key;      /* in locked memory; NULL = not encrypted */
    struct str sealed[4]; /* sealed columns, waiting to be written */
    sqlite3_blob *blob;   /* the blob that store_blob_read reads from; NULL = none is open */
    struct db_prepared {
        const char *sql;
        sqlite3_stmt *q;
    } statements[80]; /* by db_statement, in the order of their first use; then q = NULL */
};

/* Asserts the invariants; for CHECK (base/check.h). */
void db_check(const struct store *s);

/* ---- schema (schema.c) ----------------------------------------------------------------------- */

/* Checks that the file is ours, then migrates it to the newest version. */
int db_schema_open(struct store *s, struct err *e);
/* The same for a file that is only read: an older file is migrated in a copy. */
int db_schema_open_source(struct store *s, struct err *e);

/* ---- locks (db.c) ---------------------------------------------------------------------------- */

/* Whether a lock of another program is waited for, DB_BUSY_MS at most. */
void db_wait_for_locks(struct store *s, bool waits);

/* ---- statements (db.c) ----------------------------------------------------------------------- */

int db_exec(struct store *s, const char *sql, const char *doing, struct err *e);
/* ERR_FORMAT: a table or column that a newer version needs is missing, or the index is damaged. */
int db_check_tables(struct store *s, struct err *e);
/* A separate statement for a walk, with ?1 set to `key` if it has one; end it with
 * sqlite3_finalize. */
int db_prepare(struct store *s, const char *sql, int64_t key, sqlite3_stmt **out, const char *doing,
               struct err *e);
/* The next row of a walk. False: *rc is not 0, or there is none, or *rc is set to an error. */
bool db_next(struct store *s, sqlite3_stmt *q, int *rc, const char *doing, struct err *e);
/* A statement that is prepared at its first use and kept, with its first n parameters set; `sql` is
 * a literal. A failure to prepare it is told by the step. */
sqlite3_stmt *db_statement(struct store *s, const char *sql, int n, const int64_t *numbers);
#define db_bound(s, sql, ...)                                                              \
    db_statement(s, sql, (int)(sizeof((int64_t[]){0, __VA_ARGS__}) / sizeof(int64_t)) - 1, \
                 (const int64_t[]){0, __VA_ARGS__} + 1)

/* 1 = a row, 0 = done (and reset), negative = error (and reset). */
int db_step(struct store *s, sqlite3_stmt *q, const char *doing, struct err *e);
/* Steps a statement that gives no rows; releases bound pointers. */
int db_run(struct store *s, sqlite3_stmt *q, const char *doing, struct err *e);
/* The same for a change that is whole by itself (db_enter). */
int db_write(struct store *s, sqlite3_stmt *q, const char *doing, struct err *e);
/* The number in the first row of a bound statement; 0 without a row. */
int db_get(struct store *s, sqlite3_stmt *q, int64_t *n, const char *doing, struct err *e);
/* The number in the first row of a query (db_prepare); without a row *n stays. */
int db_number(struct store *s, const char *sql, int64_t key, int64_t *n, const char *doing,
              struct err *e);
void db_reset(sqlite3_stmt *q);

/* Like sqlite3_bind_*, for bytes that live until the statement is reset; n = 0: empty, not NULL. */
int db_bind_blob(sqlite3_stmt *q, int i, const void *bytes, size_t n);
int db_bind_text(sqlite3_stmt *q, int i, const char *text, size_t n);

/* errno of a read that failed, which SQLite may tell as damage; 0 = none failed. */
int db_read_failed(struct store *s);
/* SQLite's last error as one line for the user. */
int db_error(struct store *s, const char *doing, struct err *e);

/* For functions that change several rows: all or nothing, inside the caller's transaction or in a
 * new one. db_leave may also be called when db_enter failed. */
int db_enter(struct store *s, const char *doing, struct err *e);
int db_leave(struct store *s, int rc, const char *doing, struct err *e);
/* Rows deleted between them are overwritten, and so are the pages that become free. */
void db_begin_removing(struct store *s);
void db_end_removing(struct store *s);
/* Commits. Removed words must not be readable in the file afterwards: SQLite overwrites rows, but
 * the search index keeps words until its parts are merged, and the log keeps old pages. */
int db_commit(struct store *s, const char *doing, struct err *e);

/* ---- row digests (db.c) ---------------------------------------------------------------------- */

struct db_part {
    const void *p;
    size_t n;
};
/* The bytes of column i of the current row. */
struct db_part db_column(sqlite3_stmt *q, int i);

/* What a row's digest covers. The table and the key are included, so that a row in the wrong place
 * is found. */
struct db_row {
    const char *table;
    int64_t key[4]; /* conversation first; unused ones 0 */
    struct db_part bytes, more;
};

/* The table's name, the keys and two lengths: both digests and sealing begin with these. */
#define DB_HEAD_BYTES (16 + 4 * 8 + 2 * 8)
void db_head(uint8_t out[DB_HEAD_BYTES], const struct db_row *row);
void db_digest(uint8_t out[DIGEST_BYTES], const struct db_row *row);
/* Whether column i of the current row of q is this digest. */
bool db_digest_matches(sqlite3_stmt *q, int i, const struct db_row *row);

/* The same for hundreds of megabytes, five times as fast: detects accidents, not forgery. */
#define DB_SUM_BYTES 24
void db_sum(uint8_t out[DB_SUM_BYTES], const struct db_row *row);

/* The name for messages, or the number when the name can't be read (conversation.c). */
struct db_name {
    char text[STORE_NAME_MAX];
};
struct db_name db_conversation_name(struct store *s, int64_t conversation);

/* ---- encryption (secret.c) ------------------------------------------------------------------- */

/* Call after db_schema_open: makes a key, asks for the passphrase, or does nothing when no
 * encryption is used. */
int db_secret_open(struct store *s, const struct store_key *k, struct err *e);
void db_secret_close(struct store *s);

/* The bytes to write in place of n bytes: the bytes themselves, or sealed ones that are kept in
 * s->sealed[column] until the next call. The row's table and key are authenticated too; its bytes
 * are not read. */
struct db_part db_seal(struct store *s, const struct db_row *row, int column, const void *bytes,
                       size_t n);
/* The reverse, in place; n_out <= n. false = damaged. Callable from any thread. */
bool db_unseal(const struct store *s, const struct db_row *row, int column, void *bytes, size_t n,
               struct db_part *out);
/* The same for read-only bytes: opened into `buffer`, or returned as they are. */
bool db_open(const struct store *s, const struct db_row *row, int column, struct db_part bytes,
             struct str *buffer, struct db_part *out);
size_t db_sealed_extra(const struct store *s); /* bytes that sealing adds */

/* The value that a name is looked up by: the name itself, or its keyed hash. */
void db_name_key(const struct store *s, const char *name, char out[STORE_NAME_MAX]);

/* ---- blobs (segment.c) ----------------------------------------------------------------------- */

/* Stores the bytes of an entry; their row is sqlite3_last_insert_rowid. */
int db_blob_put(struct store *s, int64_t conversation, const struct store_segment *g,
                int64_t *stored_bytes, const char *doing, struct err *e);
/* Adds a piece to a copy of its conversation, whose log may have its bytes. */
int db_piece_copy(struct store *s, int64_t conversation, const struct store_segment *g,
                  struct err *e);
/* Counts again the bytes of a conversation's cache. */
int db_cache_recount(struct store *s, int64_t conversation, const char *doing, struct err *e);
/* Reads the bytes of an entry from columns i (digest) and i + 1 of q; false = they are damaged. */
bool db_blob_column(struct store *s, sqlite3_stmt *q, int i, int64_t conversation,
                    const struct store_segment *g, struct str *buffer, struct db_part *out);

/* ---- search (search.c) ----------------------------------------------------------------------- */

/* The row of the index: a message's is its id, the name of a conversation has this one. */
#define DB_SEARCH_NAME(conversation) (-(conversation))

/* Adds to the index. A damaged index must not prevent saving a message: compact rebuilds the
 * index. */
int db_search_add(struct store *s, int64_t row, const char *text, size_t n, const char *doing,
                  struct err *e);
int db_search_forget(struct store *s, int64_t row, const char *doing, struct err *e);
/* Removes a conversation's messages from this one on, except those that branches share. */
int db_search_cut(struct store *s, int64_t conversation, int64_t n_messages, const char *doing,
                  struct err *e);
/* Merges the index, so that it holds no removed word; a large one is left to store_compact. */
int db_search_merge(struct store *s, const char *doing, struct err *e);
/* An index that can't be opened is made again from the messages; false: it is another failure. */
bool db_search_restore(struct store *s);
int db_search_check(struct store *s, struct err *e);
int db_search_rebuild(struct store *s, struct err *e);

/* ---- messages (transcript.c) ----------------------------------------------------------------- */

/* Removes the messages from this one on, also from the index, and overwrites the pages of those
 * that no branch shares. */
int db_message_cut(struct store *s, int64_t conversation, int64_t n_messages, const char *doing,
                   struct err *e);

/* ---- conversations (conversation.c) ---------------------------------------------------------- */

#define DB_CONVERSATION_COLUMNS                                                        \
    "SELECT id, name, title, created_ms, updated_ms, n_turns, n_tokens, cache_bytes, " \
    "deleted_ms, EXISTS (SELECT 1 FROM tag WHERE conversation = id) FROM conversation "
int db_conversation_by_id(struct store *s, int64_t id, struct store_conversation *out,
                          const char *doing, struct err *e);
/* Walks all rows of such a statement, if rc is 0, and finalizes it; the callback is as in
 * store_conversation_list. */
int db_conversation_walk(struct store *s, sqlite3_stmt *q, int rc,
                         int (*each)(void *ctx, const struct store_conversation *c), void *ctx,
                         const char *doing, struct err *e);
/* Updates the label after the name or title changed. */
int db_conversation_label(struct store *s, int64_t id, const char *name, const char *title,
                          const char *doing, struct err *e);

/* ---- text (text.c) --------------------------------------------------------------------------- */

/* 1 to STORE_NAME_MAX - 1 bytes of UTF-8 without control characters. */
bool db_name_valid(const char *name);
/* The first line that is not blank, without control characters, at most about 60 columns. */
void db_title(char out[STORE_NAME_MAX], const char *text, size_t n);

#endif
