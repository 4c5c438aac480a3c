#include "store/db.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/str.h"
#include "base/system.h"

/* ---- errors ---------------------------------------------------------------------------------- */

int db_read_failed(struct store *s)
{
    int why = 0;
    sqlite3_file *log = NULL;
    sqlite3_file_control(s->db, "main", SQLITE_FCNTL_LAST_ERRNO, &why);
    if (!why) sqlite3_file_control(s->db, "main", SQLITE_FCNTL_JOURNAL_POINTER, &log);
    /* the journal of a temporary file is in memory and has none */
    if (log && log->pMethods && log->pMethods->xFileControl)
        log->pMethods->xFileControl(log, SQLITE_FCNTL_LAST_ERRNO, &why);
    return why == EIO || why == ENXIO || why == ESTALE ? why : 0;
}

/* SQLite tries other ways to open a file, so its errno may be that of a later call. */
static int open_error(const struct store *s, int system)
{
    static const char *const ends[] = {"", "-wal", "-shm"};
    int fd = open("/", O_RDONLY | O_CLOEXEC);
    if (fd < 0) return errno; /* no descriptor is free */
    close(fd);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        struct str path = {0};
        str_printf(&path, "%s%s", s->path, ends[i]);
        int why = access(path.data, R_OK | W_OK) ? errno : 0;
        str_release(&path);
        if (why && why != ENOENT) return why;
    }
    return system;
}

static int cannot_open(const struct store *s, const char *doing, int system, struct err *e)
{
    int why = open_error(s, system);
    bool files = why == EMFILE || why == ENFILE;
    return err_set(e, ERR_FAIL, "%s: %s cannot be opened: %s; %s", doing, s->shown,
                   why ? strerror(why) : sqlite3_errmsg(s->db),
                   files ? "raise the limit on open files (ulimit -n)"
                         : "allow writing to its folder, choose another with --db FILE, or save "
                           "nothing with --private");
}

static int no_locks(const struct store *s, const char *doing, struct err *e)
{
    return err_set(e, ERR_FAIL,
                   "%s: %s cannot be locked; its file system may have no locks, as some network "
                   "file systems; choose a file on a local disk with --db FILE",
                   doing, s->shown);
}

/* SQLite calls a lock that fails busy, whatever the reason. One is tried on the lock file: closing
 * the database itself would end this program's locks on it. */
static bool has_locks(const struct store *s)
{
    struct flock f = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1};
    struct str path = {0};
    str_printf(&path, "%s.lock", s->path);
    int fd = open(path.data, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    bool has = fd < 0 || !fcntl(fd, F_OFD_SETLK, &f) || errno == EAGAIN || errno == EACCES;
    if (fd >= 0) close(fd);
    str_release(&path);
    return has;
}

int db_error(struct store *s, const char *doing, struct err *e)
{
    int code = sqlite3_extended_errcode(s->db);
    int system = sqlite3_system_errno(s->db);
    int kind = code & 0xff;
    /* A full disk appears as an I/O error when SQLite extends its shared-memory file or syncs. */
    if (kind == SQLITE_IOERR && (system == ENOSPC || system == EDQUOT)) kind = SQLITE_FULL;
    if (kind == SQLITE_IOERR && system == ENOLCK) kind = SQLITE_PROTOCOL;
    if ((kind == SQLITE_CORRUPT || kind == SQLITE_NOTADB || kind == SQLITE_ERROR) &&
        db_read_failed(s)) {
        kind = SQLITE_IOERR;
        system = db_read_failed(s);
    }
    switch (kind) {
    case SQLITE_FULL:
        return err_set(e, ERR_FAIL,
                       "%s: the disk is full (%s); everything saved so far is safe; free some "
                       "space and send it again, or go on unsaved with --private",
                       doing, s->shown);
    case SQLITE_IOERR:
        return err_set(e, ERR_FAIL,
                       "%s: reading or writing %s failed: %s (SQLite code %d); everything saved so "
                       "far was kept; check the disk and try again",
                       doing, s->shown, system ? strerror(system) : "I/O error", code);
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        if (!has_locks(s)) return no_locks(s, doing, e);
        return err_set(e, ERR_FAIL,
                       "%s: another program has locked %s for 5 seconds; close it and try again",
                       doing, s->shown);
    case SQLITE_NOTADB:
        return err_set(e, ERR_FORMAT,
                       "%s: %s is not a retain database, or its beginning is damaged; choose "
                       "another with --db FILE",
                       doing, s->shown);
    case SQLITE_CORRUPT:
        return err_set(e, ERR_FORMAT,
                       "%s: %s is damaged (%s); keep a copy, save what `sqlite3 FILE .recover` "
                       "finds, or start another with --db FILE",
                       doing, s->shown, sqlite3_errmsg(s->db));
    case SQLITE_READONLY:
    case SQLITE_PERM:
        return err_set(e, ERR_FAIL,
                       "%s: %s cannot be written; allow writing to it and to its folder, or choose "
                       "another with --db FILE",
                       doing, s->shown);
    case SQLITE_CANTOPEN: return cannot_open(s, doing, system, e);
    case SQLITE_PROTOCOL: return no_locks(s, doing, e);
    case SQLITE_TOOBIG:
        return err_set(e, ERR_FAIL, "%s: one item exceeds SQLite's limit (%d bytes)", doing,
                       sqlite3_limit(s->db, SQLITE_LIMIT_LENGTH, -1));
    case SQLITE_NOMEM: return err_set(e, ERR_FAIL, "%s: out of memory", doing);
    default: break;
    }
    if (code == SQLITE_CONSTRAINT_FOREIGNKEY)
        return err_set(e, ERR_FAIL,
                       "%s: the conversation does not exist; was it deleted in another window?",
                       doing);
    if (kind == SQLITE_CONSTRAINT)
        return err_set(e, ERR_FAIL, "%s: already saved (%s)", doing, sqlite3_errmsg(s->db));
    return err_set(e, ERR_FAIL, "%s: %s: %s (SQLite code %d)", doing, s->shown,
                   sqlite3_errmsg(s->db), code);
}

/* ---- locks ----------------------------------------------------------------------------------- */

/* SQLite's own handler looks only every 100 ms. Chats write with every token: a program that looks
 * so seldom finds the file locked for seconds. */
static int wait_for_lock(void *ctx, int n_waits)
{
    struct store *s = ctx;
    const struct timespec nap = {.tv_nsec = n_waits < 20 ? 500000 : 2000000};
    if (n_waits == 0) s->locked_ns = system_clock_ns();
    if (system_clock_ns() - s->locked_ns > DB_BUSY_MS * (int64_t)1000000) return 0;
    nanosleep(&nap, NULL);
    return 1;
}

void db_wait_for_locks(struct store *s, bool waits)
{
    sqlite3_busy_handler(s->db, waits ? wait_for_lock : NULL, s);
}

/* ---- statements ------------------------------------------------------------------------------ */

int db_exec(struct store *s, const char *sql, const char *doing, struct err *e)
{
    return sqlite3_exec(s->db, sql, NULL, NULL, NULL) == SQLITE_OK ? 0 : db_error(s, doing, e);
}

int db_prepare(struct store *s, const char *sql, int64_t key, sqlite3_stmt **out, const char *doing,
               struct err *e)
{
    if (sqlite3_prepare_v2(s->db, sql, -1, out, NULL) != SQLITE_OK) return db_error(s, doing, e);
    if (sqlite3_bind_parameter_count(*out)) sqlite3_bind_int64(*out, 1, key);
    return 0;
}

sqlite3_stmt *db_statement(struct store *s, const char *sql, int n, const int64_t *numbers)
{
    struct db_prepared *p = s->statements;
    while (p->q && p->sql != sql) p++;
    assert(p + 1 < s->statements + sizeof s->statements / sizeof *s->statements);
    p->sql = sql;
    if (!p->q) sqlite3_prepare_v3(s->db, sql, -1, SQLITE_PREPARE_PERSISTENT, &p->q, NULL);
    for (int i = 0; p->q && i < n; i++) sqlite3_bind_int64(p->q, i + 1, numbers[i]);
    return p->q;
}

bool db_next(struct store *s, sqlite3_stmt *q, int *rc, const char *doing, struct err *e)
{
    if (*rc) return false;
    *rc = db_step(s, q, doing, e);
    const bool row = *rc > 0;
    if (row) *rc = 0;
    return row;
}

int db_check_tables(struct store *s, struct err *e)
{
    sqlite3_stmt *q;
    int rc = sqlite3_prepare_v2(
        s->db,
        "SELECT inode, deleted_ms, state.text, thought_ms, transcript.message, tail.blob, "
        "blob.bytes, segment.origin, n_run, label, search.text "
        "FROM model, conversation, state, message, transcript, tail, blob, segment, "
        "checkpoint, tag, search",
        -1, &q, NULL);
    sqlite3_finalize(q);
    if (rc == SQLITE_OK) return 0;
    /* "no such table": our application id, but not our tables */
    if ((rc & 0xff) == SQLITE_ERROR && !db_read_failed(s))
        return err_set(e, ERR_FORMAT, "%s is damaged: %s; choose another with --db FILE", s->shown,
                       sqlite3_errmsg(s->db));
    return db_error(s, "opening the saved conversations", e);
}

void db_reset(sqlite3_stmt *q)
{
    if (!q) return;
    sqlite3_reset(q);
    sqlite3_clear_bindings(q);
}

int db_step(struct store *s, sqlite3_stmt *q, const char *doing, struct err *e)
{
    int rc = sqlite3_step(q);
    if (rc == SQLITE_ROW) return 1;
    rc = rc == SQLITE_DONE ? 0 : db_error(s, doing, e);
    db_reset(q);
    return rc;
}

int db_run(struct store *s, sqlite3_stmt *q, const char *doing, struct err *e)
{
    int rc = db_step(s, q, doing, e);
    if (rc > 0) db_reset(q);
    return rc < 0 ? rc : 0;
}

int db_get(struct store *s, sqlite3_stmt *q, int64_t *n, const char *doing, struct err *e)
{
    int rc = 0;
    *n = db_next(s, q, &rc, doing, e) ? sqlite3_column_int64(q, 0) : 0;
    db_reset(q);
    return rc;
}

int db_number(struct store *s, const char *sql, int64_t key, int64_t *n, const char *doing,
              struct err *e)
{
    sqlite3_stmt *q;
    int rc = db_prepare(s, sql, key, &q, doing, e);
    if (db_next(s, q, &rc, doing, e)) *n = sqlite3_column_int64(q, 0);
    sqlite3_finalize(q);
    return rc;
}

struct db_part db_column(sqlite3_stmt *q, int i)
{
    const void *p = sqlite3_column_blob(q, i);
    return (struct db_part){p, (size_t)sqlite3_column_bytes(q, i)};
}

int db_bind_blob(sqlite3_stmt *q, int i, const void *bytes, size_t n)
{
    return sqlite3_bind_blob64(q, i, n ? bytes : "", n, SQLITE_STATIC);
}

int db_bind_text(sqlite3_stmt *q, int i, const char *text, size_t n)
{
    return sqlite3_bind_text64(q, i, n ? text : "", n, SQLITE_STATIC, SQLITE_UTF8);
}

/* ---- transactions ---------------------------------------------------------------------------- */

int db_enter(struct store *s, const char *doing, struct err *e)
{
    bool open = !sqlite3_get_autocommit(s->db);
    /* After some errors SQLite ends the transaction itself. Later writes of the same turn must then
     * fail: half a turn would be kept otherwise. */
    if (s->in_transaction && !open)
        return err_set(e, ERR_FAIL, "%s: an earlier error undid this turn's changes", doing);
    int rc = open ? 0 : db_exec(s, "BEGIN IMMEDIATE", doing, e);
    if (!rc && (!open || s->n_entered)) s->n_entered++;
    return rc;
}

void db_begin_removing(struct store *s)
{
    s->removed_text = true;
    sqlite3_exec(s->db, "PRAGMA secure_delete = ON", NULL, NULL, NULL);
}

void db_end_removing(struct store *s)
{
    sqlite3_exec(s->db, "PRAGMA secure_delete = FAST", NULL, NULL, NULL);
}

int db_commit(struct store *s, const char *doing, struct err *e)
{
    bool removed = s->removed_text;
    int rc = removed ? db_search_merge(s, doing, e) : 0;
    s->removed_text = false;
    if (!rc) rc = db_exec(s, "COMMIT", doing, e);
    if (rc || !removed) return rc;
    db_wait_for_locks(s, false); /* a reader keeps the log; the next time will do */
    sqlite3_wal_checkpoint_v2(s->db, "main", SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
    db_wait_for_locks(s, true);
    return 0;
}

int db_leave(struct store *s, int rc, const char *doing, struct err *e)
{
    if (s->n_entered == 0 || --s->n_entered > 0) return rc;
    if (!rc) rc = db_commit(s, doing, e);
    if (rc && !sqlite3_get_autocommit(s->db)) sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
    return rc;
}

int db_write(struct store *s, sqlite3_stmt *q, const char *doing, struct err *e)
{
    int rc = db_enter(s, doing, e);
    if (rc) db_reset(q);
    return db_leave(s, rc ? rc : db_run(s, q, doing, e), doing, e);
}

/* ---- digests --------------------------------------------------------------------------------- */

static void put_le64(uint8_t *out, uint64_t v)
{
    for (int i = 0; i < 8; i++) out[i] = (uint8_t)(v >> (8 * i));
}

void db_head(uint8_t out[DB_HEAD_BYTES], const struct db_row *row)
{
    /* table name, padded; four keys; both lengths: no two rows give the same bytes */
    memset(out, 0, DB_HEAD_BYTES);
    memcpy(out, row->table, strnlen(row->table, 16));
    for (int i = 0; i < 4; i++) put_le64(out + 16 + 8 * i, (uint64_t)row->key[i]);
    put_le64(out + 48, row->bytes.n);
    put_le64(out + 56, row->more.n);
}

void db_digest(uint8_t out[DIGEST_BYTES], const struct db_row *row)
{
    uint8_t head[DB_HEAD_BYTES];
    crypto_generichash_state h;
    db_head(head, row);
    crypto_generichash_init(&h, NULL, 0, DIGEST_BYTES);
    crypto_generichash_update(&h, head, sizeof head);
    if (row->bytes.n) crypto_generichash_update(&h, row->bytes.p, row->bytes.n);
    if (row->more.n) crypto_generichash_update(&h, row->more.p, row->more.n);
    crypto_generichash_final(&h, out, DIGEST_BYTES);
}

/* The words of a block are folded into eight numbers. Each word is added to another's number, so
 * that a single change always shows; its halves are multiplied under a key of its place, so that
 * other changes are missed about once in 2^64 (XXH3's step). Words past the end count as 0. */
#define SUM_BLOCK 4096
#define SUM_KEY   0x9e3779b97f4a7c15u

static void fold_block(uint64_t sums[8], const uint8_t *p, size_t n)
{
    uint64_t s[8] = {0}, words[8] = {0}, key = SUM_KEY;
    for (size_t at = 0; at < n; at += sizeof words, key += 8 * SUM_KEY) {
        if (n - at < sizeof words) memset(words, 0, sizeof words);
        memcpy(words, p + at, n - at < sizeof words ? n - at : sizeof words);
#pragma GCC unroll 8
        for (unsigned i = 0; i < 8; i++) {
            uint64_t mixed = words[i] ^ (key + i * SUM_KEY);
            s[i] += (mixed & 0xffffffff) * (mixed >> 32);
            s[i ^ 4] += words[i];
        }
    }
    memcpy(sums, s, sizeof s);
}

void db_sum(uint8_t out[DB_SUM_BYTES], const struct db_row *row)
{
    uint8_t head[DB_HEAD_BYTES];
    uint64_t sums[8];
    const uint8_t *p = row->bytes.p;
    crypto_generichash_state h;
    db_head(head, row);
    crypto_generichash_init(&h, NULL, 0, DB_SUM_BYTES);
    crypto_generichash_update(&h, head, sizeof head);
    for (size_t left = row->bytes.n; left > 0;) {
        size_t n = left < SUM_BLOCK ? left : SUM_BLOCK;
        fold_block(sums, p, n);
        crypto_generichash_update(&h, (const uint8_t *)sums, sizeof sums);
        p += n;
        left -= n;
    }
    crypto_generichash_final(&h, out, DB_SUM_BYTES);
}

bool db_digest_matches(sqlite3_stmt *q, int i, const struct db_row *row)
{
    uint8_t digest[DIGEST_BYTES];
    const struct db_part saved = db_column(q, i);
    db_digest(digest, row);
    return saved.n == sizeof digest && !memcmp(digest, saved.p, sizeof digest);
}
