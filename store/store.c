/* Opening, transactions and the full check.
 *
 * The guarantees, and how they are met:
 *
 * - kill -9: WAL. By the end of a commit the operating system holds its bytes; the next reader
 *   ignores a half-written commit. Nothing committed is lost, with or without sync.
 * - a power cut: synchronous=NORMAL syncs only when the log is copied into the file (a "checkpoint"
 *   of SQLite). The file is never left half-written, but the last commits may be lost, back to some
 *   earlier whole commit. That suffices for the tail, which commits once per token. A turn must not
 *   be lost: commits between store_begin and store_commit run with synchronous=FULL, one fsync of
 *   the log each.
 *
 * SQLite's checkpoint runs after such a commit, between turns; only a very long answer causes one
 * in the middle. */
#include "store/store.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "base/file.h"
#include "base/memory.h"
#include "store/db.h"

#define CHECKPOINT_BYTES     (1 << 20)  /* after a turn, so that each turn writes its part */
#define CHECKPOINT_BYTES_MAX (64 << 20) /* at any time */
#define SHOWN_MAX            200        /* bytes of a path in an error line */

static const char opening[] = "opening the saved conversations";

/* ---- opening --------------------------------------------------------------------------------- */

/* Creates the file with access for its owner only; SQLite gives its log the same mode. An existing
 * file is not opened here: closing it again would drop the locks of another connection of this
 * process. */
static int make_file(struct store *s, struct err *e)
{
    struct stat st;
    struct err why_not;
    int rc = file_make_folders(s->path, &why_not);
    if (rc)
        return err_set(e, rc,
                       "%s; choose another file with --db FILE, or save nothing with --private",
                       why_not.text);
    int fd = open(s->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd >= 0) {
        close(fd);
        return 0;
    }
    int why = errno;
    if (stat(s->path, &st) == 0) {
        if (S_ISREG(st.st_mode)) return 0;
        return err_set(e, ERR_FAIL, "%s is %s; --db takes a file", s->shown,
                       S_ISDIR(st.st_mode) ? "a folder" : "not a regular file");
    }
    return err_set(e, ERR_FAIL,
                   "cannot make %s for saved conversations: %s; choose another file with "
                   "--db FILE, or save nothing with --private",
                   s->shown, strerror(why));
}

/* Runs after a commit that left n_pages in the log. A failed WAL checkpoint does not fail the
 * commit; it is retried later. */
static int after_commit(void *ctx, sqlite3 *db, const char *name, int n_pages)
{
    const struct store *s = ctx;
    const int64_t bytes = (int64_t)n_pages * s->page_bytes;
    if (bytes >= (s->in_transaction ? CHECKPOINT_BYTES : CHECKPOINT_BYTES_MAX))
        sqlite3_wal_checkpoint_v2(db, name, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
    return SQLITE_OK;
}

/* Connects to the file, or to a URI for reading. */
static int connect(struct store *s, const char *uri, struct err *e)
{
    int flags = uri ? SQLITE_OPEN_READONLY | SQLITE_OPEN_URI : SQLITE_OPEN_READWRITE;
    int code = sqlite3_open_v2(uri ? uri : s->path, &s->db, flags | SQLITE_OPEN_NOMUTEX, NULL);
    if (code != SQLITE_OK)
        return s->db ? db_error(s, opening, e) : err_set(e, ERR_FAIL, "%s: out of memory", opening);
    sqlite3_extended_result_codes(s->db, 1);
    db_wait_for_locks(s, true);
    /* The file may be untrusted: no functions or tricks from its schema. */
    sqlite3_db_config(s->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    int rc = db_exec(s, "PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON", opening, e);
    if (rc || uri) return rc;
    if (sqlite3_db_readonly(s->db, "main") == 1)
        return err_set(e, ERR_FAIL,
                       "%s cannot be written: %s; allow writing to it, or choose another with "
                       "--db FILE",
                       s->shown, strerror(EACCES));
    sqlite3_wal_hook(s->db, after_commit, s);
    /* secure_delete=FAST: deleted data is overwritten where that costs no extra write. */
    return db_exec(s,
                   "PRAGMA foreign_keys = ON; PRAGMA synchronous = NORMAL;"
                   "PRAGMA secure_delete = FAST; PRAGMA journal_size_limit = 67108864",
                   opening, e);
}

/* *out: a store without a connection; release it with store_close, also after an error. */
static int new_store(struct store **out, const char *path, struct err *e)
{
    struct store *s = memory_new(1, sizeof *s);
    *out = s;
    s->lock_fd = -1;
    s->path = memory_copy(path);
    if (sodium_init() < 0) return err_set(e, ERR_FAIL, "%s: libsodium cannot start", opening);
    size_t n = strlen(path);
    s->shown = n > SHOWN_MAX ? s->path + n - SHOWN_MAX : s->path;
    return n ? 0 : err_set(e, ERR_USAGE, "--db: the name of the file is empty");
}

static int tell_again(void *ctx, bool fresh, char *out, struct err *e)
{
    (void)fresh;
    (void)e;
    memcpy(out, ctx, STORE_PASSPHRASE_MAX);
    return 0;
}

/* Asks for the passphrase of a file that is to be made, and sets *k to an answer that is known:
 * without one no file is made, which a later start would take for one without encryption. */
static int ask_first(const struct store *s, struct store_key *k, struct err *e)
{
    char *passphrase = store_secret_new();
    if (!passphrase)
        return err_set(e, ERR_FAIL, "%s: no locked memory for the passphrase", opening);
    int rc = k->ask(k->ctx, true, passphrase, e);
    if (!rc && !*passphrase) rc = err_set(e, ERR_FAIL, "the passphrase of %s is empty", s->shown);
    if (rc)
        store_secret_free(passphrase);
    else
        *k = (struct store_key){tell_again, passphrase, true};
    return rc;
}

int store_open(struct store **out, const char *path, const struct store_key *k, struct err *e)
{
    struct store *s;
    struct store_key known = k ? *k : (struct store_key){0};
    int rc = new_store(&s, path, e);
    bool first = !rc && known.encrypt && access(path, F_OK) && errno == ENOENT;
    if (first) rc = ask_first(s, &known, e);
    bool asked = first && !rc;
    if (!rc) rc = make_file(s, e);
    if (!rc) rc = connect(s, NULL, e);
    if (!rc) rc = db_schema_open(s, e);
    if (!rc) rc = db_check_tables(s, e);
    if (rc == ERR_FORMAT && db_search_restore(s)) rc = db_check_tables(s, e);
    if (!rc) rc = db_secret_open(s, k ? &known : NULL, e);
    if (asked) store_secret_free(known.ctx);
    if (rc) store_close(s);
    *out = rc ? NULL : s;
    return rc;
}

/* Whether the file "FILE" + end exists and is not empty. */
static bool has_beside(const struct store *s, const char *end)
{
    struct str path = {0};
    struct stat st;
    str_printf(&path, "%s%s", s->path, end);
    bool has = stat(path.data, &st) == 0 && st.st_size > 0;
    str_release(&path);
    return has;
}

/* Connects for reading. Unless another program has the file open, or was killed while it wrote,
 * SQLite is told that the file does not change, so that it creates no lock and no other file. */
static int connect_source(struct store *s, struct err *e)
{
    struct str uri = {0};
    bool quiet = !has_beside(s, "-wal") && !has_beside(s, "-journal");
    str_puts(&uri, "file:");
    for (const char *p = s->path; *p; p++)
        str_printf(&uri, strchr("%?#", *p) ? "%%%02x" : "%c", (unsigned char)*p);
    str_puts(&uri, quiet ? "?immutable=1" : "?mode=ro");
    int rc = connect(s, uri.data, e);
    str_release(&uri);
    return rc;
}

int store_open_source(struct store **out, const char *path, const struct store_key *k,
                      struct err *e)
{
    struct store *s;
    int rc = new_store(&s, path, e);
    if (!rc) rc = connect_source(s, e);
    if (!rc) rc = db_schema_open_source(s, e);
    if (!rc) rc = db_check_tables(s, e);
    if (!rc) rc = db_secret_open(s, k, e);
    if (rc) store_close(s);
    *out = rc ? NULL : s;
    return rc;
}

bool store_is_file(const struct store *s, const char *path)
{
    struct stat a, b;
    return !stat(s->path, &a) && !stat(path, &b) && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

void store_close(struct store *s)
{
    if (!s) return;
    store_rollback(s);
    store_blob_done(s);
    for (int i = 0; s->statements[i].q; i++) sqlite3_finalize(s->statements[i].q);
    sqlite3_close_v2(s->db);
    db_secret_close(s);
    if (s->lock_fd >= 0) close(s->lock_fd);
    free(s->path);
    free(s);
}

/* ---- transactions ---------------------------------------------------------------------------- */

/* A conversation is held once, and no transaction is open when none is wanted. */
void db_check(const struct store *s)
{
    const size_t n = sizeof s->held / sizeof *s->held;
    for (size_t i = 0; i < n; i++)
        for (size_t k = i + 1; k < n; k++) assert(!s->held[i] || s->held[i] != s->held[k]);
    assert(s->in_transaction || s->joins || s->reads || sqlite3_get_autocommit(s->db));
    assert(s->n_reading >= 0 && (s->n_reading > 0 || !s->reads));
}

int store_begin(struct store *s, struct err *e)
{
    static const char doing[] = "saving the turn";
    if (s->in_transaction) return err_set(e, ERR_FAIL, "%s: a transaction is open already", doing);
    if (s->joins) {
        bool open = !s->join_failed && !sqlite3_get_autocommit(s->db);
        s->in_transaction = open;
        return open ? 0
                    : err_set(e, ERR_FAIL, "%s: an earlier error undid this turn's changes", doing);
    }
    int rc = db_exec(s, "PRAGMA synchronous = FULL", doing, e);
    if (!rc) rc = db_exec(s, "BEGIN IMMEDIATE", doing, e);
    s->in_transaction = !rc;
    if (rc) sqlite3_exec(s->db, "PRAGMA synchronous = NORMAL", NULL, NULL, NULL);
    return rc;
}

int store_commit(struct store *s, struct err *e)
{
    static const char doing[] = "saving the turn";
    int rc = 0;
    if (!s->in_transaction) return err_set(e, ERR_FAIL, "%s: no transaction is open", doing);
    if (sqlite3_get_autocommit(s->db))
        rc = err_set(e, ERR_FAIL, "%s: an earlier error undid this turn's changes", doing);
    else if (!s->joins) /* else store_release commits */
        rc = db_commit(s, doing, e);
    if (s->joins && !rc)
        s->in_transaction = false;
    else
        store_rollback(s);
    CHECK(db_check(s));
    return rc;
}

void store_rollback(struct store *s)
{
    if (!s->in_transaction) return;
    if (s->joins) {
        s->join_failed = true;
        s->in_transaction = false;
        return;
    }
    if (!sqlite3_get_autocommit(s->db)) sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
    sqlite3_exec(s->db, "PRAGMA synchronous = NORMAL", NULL, NULL, NULL);
    s->in_transaction = false;
}

int store_hold(struct store *s, struct err *e)
{
    int rc = store_begin(s, e);
    s->joins = !rc;
    s->join_failed = s->in_transaction = false;
    return rc;
}

int store_release(struct store *s, int rc, struct err *e)
{
    s->joins = false;
    s->in_transaction = true;
    if (!rc && s->join_failed)
        rc = err_set(e, ERR_FAIL, "saving the turn: a part of it could not be saved");
    if (!rc) return store_commit(s, e);
    store_rollback(s);
    return rc;
}

int store_begin_reading(struct store *s, struct err *e)
{
    int rc = 0;
    if (s->n_reading == 0 && sqlite3_get_autocommit(s->db)) {
        rc = db_exec(s, "BEGIN", "reading the conversation", e);
        s->reads = !rc;
    }
    if (!rc) s->n_reading++;
    return rc;
}

void store_end_reading(struct store *s)
{
    if (--s->n_reading > 0 || !s->reads) return;
    s->reads = false;
    sqlite3_exec(s->db, "COMMIT", NULL, NULL, NULL);
}

/* ---- models ---------------------------------------------------------------------------------- */

/* Columns path, size, mtime_ns, inode, digest. False: a row that was tampered with, which counts as
 * missing: the file is read and checked again. */
static bool read_model(sqlite3_stmt *q, struct file_identity *out)
{
    const struct db_part path = db_column(q, 0), digest = db_column(q, 4);
    if (!path.n || path.n >= sizeof out->path || digest.n != DIGEST_BYTES) return false;
    *out = (struct file_identity){.size = sqlite3_column_int64(q, 1),
                                  .mtime_ns = sqlite3_column_int64(q, 2),
                                  .inode = sqlite3_column_int64(q, 3)};
    memcpy(out->path, path.p, path.n);
    memcpy(out->digest, digest.p, DIGEST_BYTES);
    return true;
}

int store_model_find(struct store *s, const char *path, struct file_identity *out, struct err *e)
{
    sqlite3_stmt *q =
        db_bound(s, "SELECT path, size, mtime_ns, inode, digest FROM model WHERE path = ?1");
    db_bind_text(q, 1, path, strlen(path));
    int rc = db_step(s, q, "looking up the model", e);
    if (rc <= 0) return rc;
    rc = read_model(q, out);
    db_reset(q);
    return rc;
}

int store_model_put(struct store *s, const struct file_identity *m, struct err *e)
{
    static const char sql[] = "INSERT INTO model (path, size, mtime_ns, inode, digest) "
                              "VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT (path) DO UPDATE SET "
                              "size = ?2, mtime_ns = ?3, inode = ?4, digest = ?5";
    sqlite3_stmt *q = db_bound(s, sql);
    db_bind_text(q, 1, m->path, strnlen(m->path, sizeof m->path));
    sqlite3_bind_int64(q, 2, m->size);
    sqlite3_bind_int64(q, 3, m->mtime_ns);
    sqlite3_bind_int64(q, 4, m->inode);
    db_bind_blob(q, 5, m->digest, DIGEST_BYTES);
    return db_run(s, q, "saving the facts about the model", e);
}

int store_model_forget(struct store *s, const char *path, struct err *e)
{
    sqlite3_stmt *q = db_bound(s, "DELETE FROM model WHERE path = ?1");
    db_bind_text(q, 1, path, strlen(path));
    return db_run(s, q, "forgetting the model", e);
}

int store_model_list(struct store *s, int (*each)(void *ctx, const struct file_identity *m),
                     void *ctx, struct err *e)
{
    static const char doing[] = "listing the models";
    struct file_identity m;
    sqlite3_stmt *q;
    int rc = db_prepare(s, "SELECT path, size, mtime_ns, inode, digest FROM model ORDER BY path", 0,
                        &q, doing, e);
    while (db_next(s, q, &rc, doing, e))
        if (read_model(q, &m)) rc = each(ctx, &m);
    sqlite3_finalize(q);
    return rc;
}

/* ---- full check ------------------------------------------------------------------------------ */

void store_watch(struct store *s, int (*progress)(void *ctx, int64_t done, int64_t total),
                 void *ctx)
{
    s->progress = progress;
    s->progress_ctx = ctx;
}

int store_progress(struct store *s, int64_t done, int64_t total, struct err *e)
{
    if (!s->progress || !s->progress(s->progress_ctx, done, total)) return 0;
    return err_set(e, ERR_STOP, "interrupted");
}

struct check {
    struct store *store;
    int64_t n_done, n; /* conversations */
    struct err *err;
};

static int check_conversation(void *ctx, const struct store_conversation *c)
{
    struct check *k = ctx;
    struct store *s = k->store;
    char *state = NULL;
    int rc = store_message_each(s, c->id, NULL, NULL, k->err);
    if (!rc) rc = store_tail_each(s, c->id, NULL, NULL, k->err);
    if (!rc) rc = store_segment_each(s, c->id, -1, NULL, NULL, k->err);
    if (!rc) rc = store_segment_each(s, c->id, STORE_PIECES, NULL, NULL, k->err);
    if (!rc) rc = store_checkpoint_each(s, c->id, NULL, NULL, k->err);
    if (!rc) rc = store_tag_each(s, c->id, NULL, NULL, k->err);
    if (!rc) rc = store_state_get(s, c->id, &state, k->err);
    free(state);
    return rc ? rc : store_progress(s, ++k->n_done, k->n, k->err);
}

/* Runs one of SQLite's checks; `good` is its first row when the file is intact (NULL = no row). */
static int check_pragma(struct store *s, const char *sql, const char *good, struct err *e)
{
    static const char doing[] = "checking the saved conversations";
    sqlite3_stmt *q;
    int rc = db_prepare(s, sql, 0, &q, doing, e);
    errno = 0;
    if (!rc) rc = db_step(s, q, doing, e);
    if (rc > 0) {
        const bool no_memory = errno == ENOMEM; /* SQLite: a page not read is damaged */
        const char *said = (const char *)sqlite3_column_text(q, 0);
        bool right = good && said && !strcmp(said, good);
        int why = right ? 0 : db_read_failed(s);
        rc = 0;
        if (!right && no_memory)
            rc = err_set(e, ERR_FAIL, "%s: out of memory", doing);
        else if (why)
            rc = err_set(e, ERR_FAIL, "%s: reading %s failed: %s; check the disk and try again",
                         doing, s->shown, strerror(why));
        else if (!right)
            rc = err_set(e, ERR_FORMAT,
                         "%s is damaged: %.200s; keep a copy and save what `sqlite3 FILE .recover` "
                         "finds",
                         s->shown, said ? said : "a row that no other row refers to");
    }
    sqlite3_finalize(q);
    return rc;
}

int store_check(struct store *s, struct err *e)
{
    struct check k = {.store = s, .err = e};
    int rc = check_pragma(s, "PRAGMA integrity_check(1)", "ok", e);
    if (!rc) rc = check_pragma(s, "PRAGMA foreign_key_check", NULL, e);
    if (!rc) rc = store_begin_reading(s, e);
    if (!rc) {
        rc = store_conversation_count(s, &k.n, e);
        if (!rc) rc = store_conversation_list(s, check_conversation, &k, e);
        store_end_reading(s);
    }
    return rc ? rc : db_search_check(s, e);
}

/* ---- compacting ------------------------------------------------------------------------------ */

static const char compacting[] = "compacting the saved conversations";

static int rebuild_search(struct store *s, struct err *e)
{
    int rc = db_enter(s, compacting, e);
    return rc ? rc : db_leave(s, db_search_rebuild(s, e), compacting, e);
}

static int64_t free_pages(struct store *s)
{
    int64_t n = -1;
    db_number(s, "PRAGMA freelist_count", 0, &n, compacting, NULL);
    return n;
}

/* For a disk without room for a second copy of the file: a log of a few pages is enough. */
static bool compact_in_steps(struct store *s)
{
    int64_t before, n = INT64_MAX;
    do {
        before = n;
        sqlite3_exec(s->db, "PRAGMA wal_checkpoint(TRUNCATE); PRAGMA incremental_vacuum(32)", NULL,
                     NULL, NULL);
        n = free_pages(s);
    } while (n > 0 && n < before);
    return n == 0;
}

int store_compact(struct store *s, struct err *e)
{
    int rc = rebuild_search(s, e);
    if (!rc) rc = db_exec(s, "VACUUM", compacting, e);
    if (rc && compact_in_steps(s)) rc = rebuild_search(s, e);
    return rc ? rc : db_exec(s, "PRAGMA wal_checkpoint(TRUNCATE)", compacting, e);
}

/* A small part per call, because the user waits for it. Each page that is given back moves another
 * one, which is written twice, so as many free pages stay as the next turns will fill: a quarter.
 */
#define GIVE_BACK_BYTES (4 << 20)

void store_give_back(struct store *s, int64_t above)
{
    char some[64];
    int64_t n = 0;
    db_number(s,
              "SELECT freelist_count - max(?1 / page_size, (?1 > 0) * page_count / 4) "
              "FROM pragma_freelist_count, pragma_page_size, pragma_page_count",
              above, &n, "making the file smaller", NULL);
    if (n <= 0) return;
    snprintf(
        some, sizeof some, "PRAGMA incremental_vacuum(%lld)",
        (long long)(n * s->page_bytes < GIVE_BACK_BYTES ? n : GIVE_BACK_BYTES / s->page_bytes));
    sqlite3_exec(s->db, some, NULL, NULL, NULL);
}

int store_close_single(struct store *s, struct err *e)
{
    static const char doing[] = "finishing the file";
    int rc = db_exec(s, "PRAGMA wal_checkpoint(TRUNCATE); PRAGMA journal_mode = DELETE", doing, e);
    store_close(s);
    return rc;
}

void store_remove_files(const char *path)
{
    static const char *const ends[] = {"", "-wal", "-shm", ".lock"};
    struct str name = {0};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        str_clear(&name);
        str_printf(&name, "%s%s", path, ends[i]);
        unlink(name.data);
    }
    str_release(&name);
}
