/* The saved cache: a log of units added and units evicted, and the archive, which keeps units of
 * the log. Entries never change; their bytes are stored separately, so that the two, and branches
 * of a conversation, share them. */
#include "store/store.h"

#include <stdlib.h>
#include <string.h>

#include "store/db.h"

static const char reading[] = "reading the saved cache";
static const char saving[] = "saving the cache";

/* Fields that digest and sealing cover. `origin` is the conversation that the bytes were written
 * for. A block has several rows with different numbers. */
static struct db_row blob_row(int64_t origin, const struct store_segment *g)
{
    const bool archived = g->kind == STORE_PIECE || g->kind == STORE_PIECE_SCORES;
    enum store_kind kind = g->kind - (archived ? STORE_ARCHIVED : 0); /* in the log */
    bool block = kind == STORE_UNITS || kind == STORE_SCORES;
    return (struct db_row){.table = "segment",
                           .key = {origin, g->layer, block ? 0 : g->seq, kind},
                           .bytes = {g->bytes, g->n_bytes}};
}

/* ---- writing --------------------------------------------------------------------------------- */

int db_blob_put(struct store *s, int64_t conversation, const struct store_segment *g,
                int64_t *stored_bytes, const char *doing, struct err *e)
{
    sqlite3_stmt *q = db_bound(s, "INSERT INTO blob (digest, bytes) VALUES (?1, ?2)");
    uint8_t digest[DB_SUM_BYTES];
    struct db_row row = blob_row(conversation, g);
    row.bytes = db_seal(s, &row, 0, g->bytes, g->n_bytes);
    db_sum(digest, &row);
    *stored_bytes = (int64_t)row.bytes.n;
    db_bind_blob(q, 1, digest, sizeof digest);
    if (db_bind_blob(q, 2, row.bytes.p, row.bytes.n) == SQLITE_OK) return db_run(s, q, doing, e);
    int rc = db_error(s, doing, e); /* exceeds SQLite's limit */
    db_reset(q);
    return rc;
}

static int add_bytes(struct store *s, int64_t conversation, int64_t n, const char *doing,
                     struct err *e)
{
    static const char sql[] =
        "UPDATE conversation SET cache_bytes = max(0, cache_bytes + ?2) WHERE id = ?1";
    return db_run(s, db_bound(s, sql, conversation, n), doing, e);
}

int store_segment_put(struct store *s, int64_t conversation, const struct store_segment *g,
                      struct err *e)
{
    static const char put[] = "INSERT INTO segment (conversation, layer, seq, kind, origin, blob) "
                              "VALUES (?1, ?2, ?3, ?4, ?1, ?5)";
    int64_t stored_bytes = 0;
    int rc = db_enter(s, saving, e);
    if (!rc) rc = db_blob_put(s, conversation, g, &stored_bytes, saving, e);
    const int64_t blob = sqlite3_last_insert_rowid(s->db);
    if (!rc)
        rc = db_run(s, db_bound(s, put, conversation, g->layer, g->seq, g->kind, blob), saving, e);
    if (!rc && g->kind != STORE_EVICTED && g->kind != STORE_RETURNED)
        rc = add_bytes(s, conversation, stored_bytes, saving, e);
    return db_leave(s, rc, saving, e);
}

int db_piece_copy(struct store *s, int64_t conversation, const struct store_segment *g,
                  struct err *e)
{
    static const char sql[] =
        "INSERT INTO segment (conversation, layer, seq, kind, origin, blob) "
        "SELECT conversation, layer, seq, ?4, origin, blob FROM segment WHERE "
        "conversation = ?1 AND layer = ?2 AND seq = ?3 AND kind = ?4 - 3";
    int rc = db_run(s, db_bound(s, sql, conversation, g->layer, g->seq, g->kind), saving, e);
    return rc || sqlite3_changes(s->db) > 0 ? rc : store_segment_put(s, conversation, g, e);
}

int store_tail_keep(struct store *s, int64_t conversation, int64_t from, int64_t end, int64_t seq,
                    struct err *e)
{
    static const char measure[] =
        "SELECT coalesce(sum(length(b.bytes)), 0) FROM tail AS t JOIN blob AS b "
        "ON b.id = t.blob WHERE conversation = ?1 AND position > ?2 AND position <= ?3";
    /* each row has the units of the position before it */
    static const char link[] =
        "INSERT INTO segment (conversation, layer, seq, kind, origin, blob) "
        "SELECT ?1, position - 1, ?4, 0, ?1, blob FROM tail WHERE conversation = ?1 "
        "AND position > ?2 AND position <= ?3 AND blob IS NOT NULL";
    int64_t bytes;
    int rc = db_enter(s, saving, e);
    if (!rc) rc = db_get(s, db_bound(s, measure, conversation, from, end), &bytes, saving, e);
    if (!rc) rc = db_run(s, db_bound(s, link, conversation, from, end, seq), saving, e);
    if (!rc) rc = add_bytes(s, conversation, bytes, saving, e);
    return db_leave(s, rc, saving, e);
}

int db_cache_recount(struct store *s, int64_t conversation, const char *doing, struct err *e)
{
    static const char sql[] =
        "UPDATE conversation SET cache_bytes = coalesce((SELECT sum(length(bytes)) FROM blob "
        "WHERE id IN (SELECT blob FROM segment WHERE conversation = ?1 AND kind NOT IN (1, 4))), "
        "0) WHERE id = ?1";
    return db_run(s, db_bound(s, sql, conversation), doing, e);
}

/* Inside a transaction. */
static int remove_entries(struct store *s, int64_t conversation, int layer, int64_t seq_min,
                          int64_t seq_max, const char *doing, struct err *e)
{
    static const char sql[] =
        "DELETE FROM segment WHERE conversation = ?1 AND (?2 < 0 OR layer = ?2) "
        "AND seq BETWEEN ?3 AND ?4 AND (?2 < 0 OR kind NOT IN (0, 3, 6, 9))";
    int rc = db_run(s, db_bound(s, sql, conversation, layer, seq_min, seq_max), doing, e);
    return rc ? rc : db_cache_recount(s, conversation, doing, e);
}

int store_segment_delete(struct store *s, int64_t conversation, int layer, int64_t seq_min,
                         int64_t seq_max, struct err *e)
{
    static const char doing[] = "removing dead parts of the saved cache";
    int rc = db_enter(s, doing, e);
    if (!rc) rc = remove_entries(s, conversation, layer, seq_min, seq_max, doing, e);
    return db_leave(s, rc, doing, e);
}

int store_cache_drop(struct store *s, int64_t conversation, struct err *e)
{
    static const char doing[] = "dropping the saved cache";
    static const char *const drop[] = {
        "DELETE FROM checkpoint WHERE conversation = ?1",
        "DELETE FROM blob WHERE id IN (SELECT blob FROM tail AS t WHERE "
        "conversation = ?1 AND NOT EXISTS (SELECT 1 FROM segment WHERE blob = t.blob))",
        "UPDATE tail SET units = NULL, units_digest = NULL, blob = NULL WHERE conversation = ?1"};
    int rc = db_enter(s, doing, e);
    if (!rc) rc = remove_entries(s, conversation, -1, INT64_MIN, INT64_MAX, doing, e);
    for (int i = 0; !rc && i < 3; i++) rc = db_run(s, db_bound(s, drop[i], conversation), doing, e);
    rc = db_leave(s, rc, doing, e);
    if (!rc && sqlite3_get_autocommit(s->db)) store_give_back(s, 0);
    return rc;
}

int store_cache_trim(struct store *s, int64_t max_bytes, int64_t keep, struct err *e)
{
    static const char doing[] = "keeping the saved caches within their limit";
    sqlite3_stmt *q;
    int rc = db_prepare(s,
                        "SELECT (SELECT coalesce(sum(cache_bytes), 0) FROM conversation), "
                        "(SELECT id FROM conversation WHERE cache_bytes > 0 AND id <> ?1 "
                        "ORDER BY deleted_ms IS NULL, updated_ms, id LIMIT 1)",
                        keep, &q, doing, e);
    while (db_next(s, q, &rc, doing, e)) {
        int64_t total = sqlite3_column_int64(q, 0), id = sqlite3_column_int64(q, 1);
        bool none = sqlite3_column_type(q, 1) == SQLITE_NULL;
        sqlite3_reset(q);
        if (total <= max_bytes || none) break;
        rc = store_cache_drop(s, id, e);
    }
    sqlite3_finalize(q);
    return rc;
}

/* ---- reading --------------------------------------------------------------------------------- */

int store_segment_damaged(struct store *s, int64_t conversation, const struct store_segment *g,
                          struct err *e)
{
    return err_set(e, ERR_FORMAT,
                   "the saved cache of conversation '%s' in %s is damaged: segment %lld of layer "
                   "%d has a wrong checksum",
                   db_conversation_name(s, conversation).text, s->shown, (long long)g->seq,
                   g->layer);
}

bool store_blob_open(const struct store *s, const struct store_blob *b, void *bytes,
                     struct store_segment *out)
{
    struct db_part opened;
    uint8_t digest[DB_SUM_BYTES];
    *out = b->segment;
    out->bytes = bytes;
    struct db_row row = blob_row(b->origin, out);
    db_sum(digest, &row);
    if (memcmp(digest, b->digest, sizeof digest)) return false;
    if (!db_unseal(s, &row, 0, bytes, out->n_bytes, &opened)) return false;
    out->bytes = opened.p;
    out->n_bytes = opened.n;
    return true;
}

bool db_blob_column(struct store *s, sqlite3_stmt *q, int i, int64_t conversation,
                    const struct store_segment *g, struct str *buffer, struct db_part *out)
{
    struct db_row row = blob_row(conversation, g);
    const struct db_part expected = db_column(q, i);
    uint8_t digest[DB_SUM_BYTES];
    row.bytes = db_column(q, i + 1);
    db_sum(digest, &row);
    return expected.n == sizeof digest && !memcmp(digest, expected.p, sizeof digest) &&
           db_open(s, &row, 0, row.bytes, buffer, out);
}

static int walk_blob(struct store *s, int64_t conversation, sqlite3_stmt *q, struct store_blob *b,
                     struct err *e)
{
    *b = (struct store_blob){.segment = {.layer = sqlite3_column_int(q, 0),
                                         .seq = sqlite3_column_int64(q, 1),
                                         .kind = (enum store_kind)sqlite3_column_int(q, 2),
                                         .n_bytes = (size_t)sqlite3_column_int64(q, 6)},
                             .origin = sqlite3_column_int64(q, 3),
                             .id = sqlite3_column_int64(q, 4)};
    const struct db_part digest = db_column(q, 5);
    if (digest.n != DB_SUM_BYTES) return store_segment_damaged(s, conversation, &b->segment, e);
    memcpy(b->digest, digest.p, DB_SUM_BYTES);
    return 0;
}

static int each_blob(struct store *s, int64_t conversation, int first, int last, bool archived,
                     int (*each)(void *ctx, const struct store_blob *b), void *ctx, struct err *e)
{
    struct store_blob b;
    sqlite3_stmt *q;
    int rc = db_prepare(s,
                        "SELECT g.layer, g.seq, g.kind, g.origin, g.blob, b.digest, "
                        "length(b.bytes) FROM segment AS g LEFT JOIN blob AS b ON b.id = g.blob "
                        "WHERE g.conversation = ?1 AND g.layer BETWEEN ?2 AND ?3 AND "
                        "(g.kind IN (3, 9)) = ?4 ORDER BY g.layer, g.seq, g.kind",
                        conversation, &q, reading, e);
    if (rc) return rc;
    sqlite3_bind_int(q, 2, first);
    sqlite3_bind_int(q, 3, last);
    sqlite3_bind_int(q, 4, archived);
    while (db_next(s, q, &rc, reading, e)) {
        rc = walk_blob(s, conversation, q, &b, e);
        if (!rc) rc = each(ctx, &b);
    }
    sqlite3_finalize(q);
    return rc;
}

int store_blob_each(struct store *s, int64_t conversation, int layer,
                    int (*each)(void *ctx, const struct store_blob *b), void *ctx, struct err *e)
{
    const int first = layer < 0 ? INT32_MIN : layer, last = layer < 0 ? INT32_MAX : layer;
    return each_blob(s, conversation, first, last, layer == STORE_PIECES, each, ctx, e);
}

int store_blob_read(struct store *s, int64_t conversation, const struct store_blob *b, void *out,
                    struct err *e)
{
    int rc = s->blob ? sqlite3_blob_reopen(s->blob, b->id)
                     : sqlite3_blob_open(s->db, "main", "blob", "bytes", b->id, 0, &s->blob);
    if (rc == SQLITE_OK && (size_t)sqlite3_blob_bytes(s->blob) != b->segment.n_bytes)
        rc = SQLITE_ERROR;
    if (rc == SQLITE_OK && b->segment.n_bytes)
        rc = sqlite3_blob_read(s->blob, out, (int)b->segment.n_bytes, 0);
    if (rc == SQLITE_OK) return 0;
    /* The row was deleted, or is not a blob: SQLite has no more specific code. */
    int kind = rc & 0xff;
    bool damaged = (kind == SQLITE_ERROR || kind == SQLITE_ABORT) && !db_read_failed(s);
    rc = damaged ? store_segment_damaged(s, conversation, &b->segment, e) : db_error(s, reading, e);
    store_blob_done(s);
    return rc;
}

void store_blob_done(struct store *s)
{
    sqlite3_blob_close(s->blob);
    s->blob = NULL;
}

struct walk {
    struct store *s;
    int64_t conversation;
    int (*each)(void *ctx, const struct store_segment *g);
    void *ctx;
    uint8_t *bytes;
    size_t bytes_max;
    struct err *e;
};

static int open_blob(void *ctx, const struct store_blob *b)
{
    struct walk *w = ctx;
    struct store_segment g;
    if (!w->bytes || b->segment.n_bytes > w->bytes_max) {
        free(w->bytes);
        w->bytes_max = b->segment.n_bytes + b->segment.n_bytes / 4 + 1;
        w->bytes = malloc(w->bytes_max);
        if (!w->bytes) return err_set(w->e, ERR_FAIL, "%s: out of memory", reading);
    }
    int rc = store_blob_read(w->s, w->conversation, b, w->bytes, w->e);
    /* The callback may write; an open blob would pin an old state of the file. */
    store_blob_done(w->s);
    if (rc) return rc;
    if (!store_blob_open(w->s, b, w->bytes, &g))
        return store_segment_damaged(w->s, w->conversation, &b->segment, w->e);
    return w->each ? w->each(w->ctx, &g) : 0;
}

int store_segment_each(struct store *s, int64_t conversation, int layer,
                       int (*each)(void *ctx, const struct store_segment *g), void *ctx,
                       struct err *e)
{
    struct walk w = {.s = s, .conversation = conversation, .each = each, .ctx = ctx, .e = e};
    int rc = store_blob_each(s, conversation, layer, open_blob, &w, e);
    free(w.bytes);
    return rc;
}

/* ---- the archive ----------------------------------------------------------------------------- */

int store_piece_keep(struct store *s, int64_t conversation, uint32_t pos, int n, struct err *e)
{
    static const char sql[] =
        "INSERT INTO segment (conversation, layer, seq, kind, origin, blob) "
        "SELECT conversation, layer, seq, kind + 3, origin, blob FROM segment "
        "WHERE conversation = ?1 AND layer >= ?2 AND layer < ?3 AND kind IN (0, 6)";
    return db_run(s, db_bound(s, sql, conversation, pos, (int64_t)pos + n), saving, e);
}

int store_piece_return(struct store *s, int64_t conversation, uint32_t pos, int n, int64_t seq,
                       struct err *e)
{
    static const char sql[] =
        "INSERT OR IGNORE INTO segment (conversation, layer, seq, kind, origin, blob) "
        "SELECT conversation, layer, ?4, kind - 3, origin, blob FROM segment "
        "WHERE conversation = ?1 AND layer >= ?2 AND layer < ?3 AND kind IN (3, 9)";
    return db_run(s, db_bound(s, sql, conversation, pos, (int64_t)pos + n, seq), saving, e);
}

int store_piece_each(struct store *s, int64_t conversation, uint32_t pos, int n,
                     int (*each)(void *ctx, const struct store_segment *g), void *ctx,
                     struct err *e)
{
    struct walk w = {.s = s, .conversation = conversation, .each = each, .ctx = ctx, .e = e};
    int rc = each_blob(s, conversation, (int)pos, (int)pos + n - 1, true, open_blob, &w, e);
    free(w.bytes);
    return rc;
}

#define BLOCKS                                                                            \
    "FROM segment AS g WHERE g.conversation = ?1 AND g.layer >= ?2 AND g.layer < ?3 AND " \
    "g.kind IN (0 + 3 * ?4, 6 + 3 * ?4) AND g.seq <= ?5"

/* Removes blocks of the log, or pieces of the archive, in a range of positions. */
static int drop_blocks(struct store *s, int64_t conversation, int64_t first, int64_t end,
                       int64_t seq, bool archived, const char *doing, struct err *e)
{
    /* without the bytes that the other one of the two refers to */
    static const char measure[] =
        "SELECT coalesce(sum((SELECT length(bytes) FROM blob WHERE id = g.blob)), 0) " BLOCKS
        " AND NOT EXISTS (SELECT 1 FROM segment AS o WHERE o.blob = g.blob AND "
        "o.conversation = ?1 AND (o.kind IN (0, 6)) = ?4)";
    int64_t bytes;
    int rc = db_enter(s, doing, e);
    if (rc) return rc;
    sqlite3_stmt *q = db_bound(s, measure, conversation, first, end, archived, seq);
    rc = db_get(s, q, &bytes, doing, e);
    q = db_bound(s, "DELETE " BLOCKS, conversation, first, end, archived, seq);
    if (!rc) rc = db_run(s, q, doing, e);
    if (!rc && bytes) rc = add_bytes(s, conversation, -bytes, doing, e);
    return db_leave(s, rc, doing, e);
}

int store_piece_drop(struct store *s, int64_t conversation, uint32_t pos, int n, struct err *e)
{
    return drop_blocks(s, conversation, pos, (int64_t)pos + n, INT64_MAX, true,
                       "making room in the archive", e);
}

int store_block_drop(struct store *s, int64_t conversation, int64_t end, int64_t seq, struct err *e)
{
    return drop_blocks(s, conversation, 0, end, seq, false,
                       "removing dead parts of the saved cache", e);
}

/* ---- checkpoints ----------------------------------------------------------------------------- */

static struct db_row checkpoint_row(const struct store_checkpoint *c)
{
    /* The conversation is not part of the key: branches copy the row as it is. */
    return (struct db_row){.table = "checkpoint", .key = {0, c->seq, c->n_run}};
}

int store_checkpoint_put(struct store *s, int64_t conversation, const struct store_checkpoint *c,
                         struct err *e)
{
    static const char sql[] =
        "INSERT INTO checkpoint (conversation, seq, n_run, digest) VALUES (?1, ?2, ?3, ?4) "
        "ON CONFLICT (conversation, seq) DO UPDATE SET n_run = ?3, digest = ?4";
    sqlite3_stmt *q = db_bound(s, sql, conversation, c->seq, c->n_run);
    uint8_t digest[DIGEST_BYTES];
    struct db_row row = checkpoint_row(c);
    db_digest(digest, &row);
    db_bind_blob(q, 4, digest, sizeof digest);
    return db_write(s, q, "saving a checkpoint", e);
}

int store_checkpoint_each(struct store *s, int64_t conversation,
                          int (*each)(void *ctx, const struct store_checkpoint *c), void *ctx,
                          struct err *e)
{
    static const char doing[] = "reading the checkpoints";
    sqlite3_stmt *q;
    int rc = db_prepare(s,
                        "SELECT seq, n_run, digest FROM checkpoint "
                        "WHERE conversation = ?1 ORDER BY seq DESC",
                        conversation, &q, doing, e);
    while (db_next(s, q, &rc, doing, e)) {
        struct store_checkpoint c = {sqlite3_column_int64(q, 0), sqlite3_column_int64(q, 1)};
        struct db_row row = checkpoint_row(&c);
        if (!db_digest_matches(q, 2, &row))
            rc = err_set(e, ERR_FORMAT,
                         "a checkpoint of conversation '%s' in %s is damaged: its checksum is "
                         "wrong",
                         db_conversation_name(s, conversation).text, s->shown);
        else if (each)
            rc = each(ctx, &c);
    }
    sqlite3_finalize(q);
    return rc;
}

int store_lists_forget(struct store *s, int64_t conversation, int64_t seq, int n, struct err *e)
{
    static const char doing[] = "forgetting old lists of evicted units";
    static const char newest[] =
        "SELECT seq FROM segment WHERE conversation = ?1 AND layer = 0 AND kind = 1 "
        "AND seq < ?2 ORDER BY seq DESC LIMIT 1 OFFSET ?3";
    static const char old[] = "DELETE FROM segment WHERE conversation = ?1 AND layer = 0 AND "
                              "kind IN (1, 4, 8) AND seq <= ?2";
    struct store_segment mark = {.kind = STORE_PAST, .bytes = ""};
    int rc = db_enter(s, doing, e);
    if (!rc) rc = db_get(s, db_bound(s, newest, conversation, seq, n), &mark.seq, doing, e);
    if (!rc && mark.seq) {
        rc = db_run(s, db_bound(s, old, conversation, mark.seq), doing, e);
        if (!rc) rc = store_segment_put(s, conversation, &mark, e);
    }
    return db_leave(s, rc, doing, e);
}

int store_checkpoint_forget(struct store *s, int64_t conversation, int64_t seq, struct err *e)
{
    static const char doing[] = "forgetting old checkpoints";
    /* the recurrent state is needed from the oldest checkpoint on */
    static const char *const forget[] = {
        "DELETE FROM checkpoint WHERE conversation = ?1 AND seq < ?2",
        "DELETE FROM segment AS g WHERE conversation = ?1 AND kind = 5 AND seq < (SELECT max(seq) "
        "FROM segment WHERE conversation = ?1 AND layer = g.layer AND kind = 5 AND seq <= ?2)",
        "DELETE FROM segment WHERE conversation = ?1 AND kind = 2 AND seq < (SELECT max(seq) FROM "
        "segment WHERE conversation = ?1 AND kind = 2 AND seq <= ?2)"};
    int n_changed = 0;
    int rc = db_enter(s, doing, e);
    if (rc) return rc;
    for (int i = 0; !rc && i < 3; i++) {
        rc = db_run(s, db_bound(s, forget[i], conversation, seq), doing, e);
        if (i > 0) n_changed += sqlite3_changes(s->db);
    }
    if (!rc && n_changed > 0) rc = db_cache_recount(s, conversation, doing, e);
    return db_leave(s, rc, doing, e);
}
