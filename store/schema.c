/* The tables, and the migrations of older files.
 *
 * Digests come before the large column, so that reading them never follows an overflow chain. The
 * saved cache is never rewritten: `segment` is a log of units added and units evicted. The bytes
 * are in `blob`, so that the archive and branches of a conversation share them; triggers count the
 * references.
 * In the same way `transcript` lists the messages of a conversation, and branches share them.
 * Nothing newer than SQLite 3.31 is used (Ubuntu 20.04, JetPack 5). */
#include "store/db.h"

#include <stdio.h>
#include <string.h>

#define APPLICATION_ID 0x5265746e /* "Retn" */

static const char *const migrations[] = {
    /* to version 5, of 0.1.0 */
    "CREATE TABLE model ("
    " path TEXT PRIMARY KEY, size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL,"
    " inode INTEGER NOT NULL, digest BLOB NOT NULL) WITHOUT ROWID;"
    /* AUTOINCREMENT: an id is used in lock bytes and digests and must not be reused. */
    "CREATE TABLE conversation ("
    " id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE,"
    " title TEXT NOT NULL DEFAULT '', created_ms INTEGER NOT NULL, updated_ms INTEGER NOT NULL,"
    " n_messages INTEGER NOT NULL DEFAULT 0, n_turns INTEGER NOT NULL DEFAULT 0,"
    " n_tokens INTEGER NOT NULL DEFAULT 0, cache_bytes INTEGER NOT NULL DEFAULT 0,"
    " deleted_ms INTEGER);"
    "CREATE INDEX conversation_updated ON conversation (updated_ms, id);"
    "CREATE TABLE state ("
    " conversation INTEGER PRIMARY KEY REFERENCES conversation ON DELETE CASCADE,"
    " text TEXT NOT NULL, digest BLOB NOT NULL);"
    /* settings: of an answer; NULL = not known */
    "CREATE TABLE message ("
    " conversation INTEGER NOT NULL REFERENCES conversation ON DELETE CASCADE,"
    " seq INTEGER NOT NULL, role INTEGER NOT NULL, created_ms INTEGER NOT NULL,"
    " digest BLOB NOT NULL, text TEXT NOT NULL, tokens BLOB NOT NULL, settings TEXT,"
    " PRIMARY KEY (conversation, seq));"
    "CREATE TABLE tail ("
    " conversation INTEGER NOT NULL REFERENCES conversation ON DELETE CASCADE,"
    " position INTEGER NOT NULL, token INTEGER NOT NULL, text BLOB NOT NULL,"
    " digest BLOB NOT NULL, units_digest BLOB, units BLOB,"
    " PRIMARY KEY (conversation, position)) WITHOUT ROWID;"
    "CREATE TABLE blob (id INTEGER PRIMARY KEY, digest BLOB NOT NULL, bytes BLOB NOT NULL);"
    "CREATE TABLE segment ("
    " conversation INTEGER NOT NULL REFERENCES conversation ON DELETE CASCADE,"
    " layer INTEGER NOT NULL, seq INTEGER NOT NULL, kind INTEGER NOT NULL,"
    " origin INTEGER NOT NULL, blob INTEGER NOT NULL REFERENCES blob,"
    " PRIMARY KEY (conversation, layer, seq, kind)) WITHOUT ROWID;"
    "CREATE INDEX segment_blob ON segment (blob);"
    "CREATE TRIGGER segment_gone AFTER DELETE ON segment"
    " WHEN NOT EXISTS (SELECT 1 FROM segment WHERE blob = old.blob)"
    " BEGIN DELETE FROM blob WHERE id = old.blob; END;"
    "CREATE TABLE checkpoint ("
    " conversation INTEGER NOT NULL REFERENCES conversation ON DELETE CASCADE,"
    " seq INTEGER NOT NULL, n_run INTEGER NOT NULL,"
    " digest BLOB NOT NULL, PRIMARY KEY (conversation, seq)) WITHOUT ROWID;"
    "CREATE TABLE secret (id INTEGER PRIMARY KEY CHECK (id = 1), salt BLOB NOT NULL,"
    " ops INTEGER NOT NULL, memory INTEGER NOT NULL, key BLOB NOT NULL);"
    "CREATE VIRTUAL TABLE search USING fts5"
    " (text, columnsize = 0, tokenize = 'unicode61 remove_diacritics 2');"
    /* the policy's state is kept for every checkpoint (kind 2) */
    "CREATE TABLE tag ("
    " conversation INTEGER NOT NULL REFERENCES conversation ON DELETE CASCADE,"
    " name TEXT NOT NULL, label BLOB NOT NULL, digest BLOB NOT NULL,"
    " PRIMARY KEY (conversation, name)) WITHOUT ROWID;"
    "CREATE INDEX tag_name ON tag (name);"
    "CREATE INDEX segment_memory ON segment (conversation, seq) WHERE kind = 2;",
    /* to version 6: the thought before an answer; NULL = none */
    "ALTER TABLE message ADD COLUMN thought TEXT;"
    "ALTER TABLE message ADD COLUMN thought_tokens INTEGER;"
    "ALTER TABLE message ADD COLUMN thought_ms INTEGER;",
    /* to version 7: branches share messages. origin: the conversation that a message was written
     * for. transcript.digest: of a message of another origin, sealed in an encrypted store; NULL
     * where origin and conversation are the same. search's rowid: the message, or minus the
     * conversation for its name */
    "DROP TABLE search;"
    "ALTER TABLE message RENAME TO message6;"
    "CREATE TABLE message ("
    " id INTEGER PRIMARY KEY, origin INTEGER NOT NULL,"
    " role INTEGER NOT NULL, created_ms INTEGER NOT NULL, digest BLOB NOT NULL,"
    " text TEXT NOT NULL, tokens BLOB NOT NULL, settings TEXT,"
    " thought TEXT, thought_tokens INTEGER, thought_ms INTEGER);"
    "INSERT INTO message SELECT rowid, conversation, role, created_ms, digest, text, tokens,"
    " settings, thought, thought_tokens, thought_ms FROM message6;"
    "CREATE TABLE transcript ("
    " conversation INTEGER NOT NULL REFERENCES conversation ON DELETE CASCADE,"
    " seq INTEGER NOT NULL, message INTEGER NOT NULL REFERENCES message, digest BLOB,"
    " PRIMARY KEY (conversation, seq)) WITHOUT ROWID;"
    "INSERT INTO transcript SELECT conversation, seq, rowid, NULL FROM message6"
    " ORDER BY conversation, seq;"
    "DROP TABLE message6;"
    "CREATE INDEX transcript_message ON transcript (message);"
    "CREATE TRIGGER transcript_gone AFTER DELETE ON transcript"
    " WHEN NOT EXISTS (SELECT 1 FROM transcript WHERE message = old.message)"
    " BEGIN DELETE FROM message WHERE id = old.message; END;"
    "CREATE VIRTUAL TABLE search USING fts5"
    " (text, columnsize = 0, tokenize = 'unicode61 remove_diacritics 2');"
    "INSERT INTO search (rowid, text) SELECT id, text FROM message"
    " WHERE NOT EXISTS (SELECT 1 FROM secret);"
    "INSERT INTO search (rowid, text) SELECT -id, name FROM conversation"
    " WHERE NOT EXISTS (SELECT 1 FROM secret);",
    /* to version 8: units are stored once, for log and archive, and tail.blob for a running answer
     * (saved caches are dropped: the text is replayed once). Hundreds of megabytes of units hold no
     * words and need not be overwritten. */
    "PRAGMA secure_delete = FAST;"
    "DROP TRIGGER segment_gone; DELETE FROM segment; DROP TABLE blob; DELETE FROM checkpoint;"
    "CREATE TABLE blob (id INTEGER PRIMARY KEY, digest BLOB NOT NULL, bytes BLOB NOT NULL);"
    "CREATE TRIGGER segment_gone AFTER DELETE ON segment"
    " WHEN NOT EXISTS (SELECT 1 FROM segment WHERE blob = old.blob)"
    " BEGIN DELETE FROM blob WHERE id = old.blob; END;"
    "UPDATE tail SET units = NULL, units_digest = NULL;"
    "UPDATE conversation SET cache_bytes = 0;"
    "ALTER TABLE tail ADD COLUMN blob INTEGER;"
    "CREATE TRIGGER tail_gone AFTER DELETE ON tail WHEN old.blob IS NOT NULL"
    " AND NOT EXISTS (SELECT 1 FROM segment WHERE blob = old.blob)"
    " BEGIN DELETE FROM blob WHERE id = old.blob; END;"
    "CREATE INDEX segment_base ON segment (conversation, layer, seq) WHERE kind = 5;"
    "PRAGMA secure_delete = ON;",
};

static const char opening[] = "opening the saved conversations";

/* Each token of an answer writes parts of some pages: small pages are less to write. */
#define NEW_FILE "PRAGMA page_size = 1024; PRAGMA auto_vacuum = INCREMENTAL"

/* The first migration makes a file of version OLDEST; no release wrote an older one. */
#define OLDEST  5
#define VERSION (OLDEST - 1 + (int)(sizeof migrations / sizeof migrations[0]))

/* The migrations that a file of this version, 0 = empty, already has. */
static int n_done(int version)
{
    return version ? version - OLDEST + 1 : 0;
}

/* The file is ours, or new and empty. */
static int check_owner(struct store *s, int *version, struct err *e)
{
    int64_t id = 0, found = 0, n_tables = 0;
    int rc = db_number(s, "PRAGMA application_id", 0, &id, opening, e);
    if (!rc) rc = db_number(s, "PRAGMA user_version", 0, &found, opening, e);
    if (!rc) rc = db_number(s, "SELECT count(*) FROM sqlite_master", 0, &n_tables, opening, e);
    if (rc) return rc;
    *version = (int)found;
    if (id != APPLICATION_ID && (id != 0 || n_tables > 0 || *version != 0))
        return err_set(e, ERR_FORMAT,
                       "%s is a database of another program (application id 0x%08x); choose "
                       "another with --db FILE",
                       s->shown, (unsigned)id);
    if (*version == 0 ? n_tables > 0 : *version < OLDEST)
        return err_set(e, ERR_FORMAT,
                       "%s is damaged: its version is %d, expected %d to %d; choose another "
                       "with --db FILE",
                       s->shown, *version, OLDEST, VERSION);
    if (*version > VERSION)
        return err_set(e, ERR_FORMAT,
                       "%s was made by a newer retain (its version is %d, this one knows %d); "
                       "update retain or choose another with --db FILE",
                       s->shown, *version, VERSION);
    return 0;
}

/* ---- objects that are not ours --------------------------------------------------------------- */

/* Whether a migration up to this version has a statement that begins with `head`, or that is it. */
static bool has_statement(int version, const char *head, bool whole)
{
    for (int i = 0; i < n_done(version); i++)
        for (const char *p = migrations[i]; (p = strstr(p, head)); p++)
            if (!whole || p[strlen(head)] == ';') return true;
    return false;
}

/* Whether retain makes an object like this row of sqlite_master. Views, triggers and virtual
 * tables, which have no root page, run SQL, so their text must equal ours. Names that begin with
 * sqlite_ belong to SQLite, and its fts5 makes four tables. */
static bool is_ours(int version, const char *type, const char *name, const char *table,
                    bool has_root, const char *sql)
{
    static const char of_fts5[] = "|search_data|search_idx|search_content|search_config|";
    const bool is_table = !strcmp(type, "table");
    char head[160];
    if (!has_root)
        return (!strncmp(sql, "CREATE TRIGGER ", 15) || !strncmp(sql, "CREATE VIRTUAL ", 15)) &&
               has_statement(version, sql, true);
    if (is_table ? strcmp(name, table) : strcmp(type, "index")) return false;
    if (!strncmp(name, "sqlite_", 7)) return true;
    if (strncmp(sql, is_table ? "CREATE TABLE" : "CREATE INDEX", 12)) return false;
    snprintf(head, sizeof head, "|%s|", name);
    if (is_table && strstr(of_fts5, head)) return true;
    snprintf(head, sizeof head, is_table ? "CREATE TABLE %s (" : "CREATE INDEX %s ON %s (", name,
             table);
    return has_statement(version, head, false);
}

/* Refuses triggers, views and tables that are not ours before any of them can run. */
static int check_objects(struct store *s, int version, struct err *e)
{
    sqlite3_stmt *q = NULL;
    int rc =
        db_prepare(s, "SELECT type, name, tbl_name, ifnull(sql, ''), rootpage FROM sqlite_master",
                   0, &q, opening, e);
    while (db_next(s, q, &rc, opening, e)) {
        const char *text[4];
        for (int i = 0; !rc && i < 4; i++)
            if (!(text[i] = (const char *)sqlite3_column_text(q, i))) rc = db_error(s, opening, e);
        if (!rc &&
            !is_ours(version, text[0], text[1], text[2], sqlite3_column_int(q, 4) > 0, text[3]))
            rc = err_set(e, ERR_FORMAT,
                         "%s holds a %.20s that retain did not make, %.60s; remove it, or choose "
                         "another with --db FILE",
                         s->shown, text[0], text[1]);
    }
    sqlite3_finalize(q);
    return rc;
}

/* ---- opening --------------------------------------------------------------------------------- */

static int migrate(struct store *s, struct err *e)
{
    static const char doing[] = "preparing the saved conversations";
    int version = 0;
    int rc = db_enter(s, doing, e);
    if (rc) return rc;
    /* Words in replaced tables must not stay readable in free pages. */
    rc = db_exec(s, "PRAGMA secure_delete = ON", doing, e);
    if (!rc) rc = check_owner(s, &version, e); /* again: another process may have migrated it */
    for (int i = n_done(version); !rc && i < n_done(VERSION); i++)
        rc = db_exec(s, migrations[i], doing, e);
    if (!rc) {
        char sql[128];
        sqlite3_snprintf(sizeof sql, sql, "PRAGMA application_id = %d; PRAGMA user_version = %d",
                         APPLICATION_ID, VERSION);
        rc = db_exec(s, sql, doing, e);
    }
    rc = db_leave(s, rc, doing, e);
    db_end_removing(s);
    if (!rc) sqlite3_wal_checkpoint_v2(s->db, "main", SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
    return rc;
}

/* journal_mode returns the resulting mode. */
static int use_wal(struct store *s, struct err *e)
{
    sqlite3_stmt *q;
    int rc = db_prepare(s, "PRAGMA journal_mode = WAL", 0, &q, opening, e);
    if (db_next(s, q, &rc, opening, e)) {
        const char *mode = (const char *)sqlite3_column_text(q, 0);
        if (!mode || strcmp(mode, "wal"))
            rc = err_set(e, ERR_FAIL,
                         "%s is on a file system that cannot share memory between programs; choose "
                         "another with --db FILE",
                         s->shown);
    }
    sqlite3_finalize(q);
    return rc;
}

int db_schema_open(struct store *s, struct err *e)
{
    int version;
    int rc = check_owner(s, &version, e);
    if (!rc) rc = check_objects(s, version, e);
    /* Only a file without tables takes it. On others SQLite would write, and wait for writers. */
    if (!rc && version == 0) rc = db_exec(s, NEW_FILE, opening, e);
    if (!rc) rc = use_wal(s, e);
    if (!rc && version < VERSION) rc = migrate(s, e);
    return rc ? rc : db_number(s, "PRAGMA page_size", 0, &s->page_bytes, opening, e);
}

/* Replaces the connection by one to a private temporary copy, which SQLite deletes. */
static int copy_to_temporary(struct store *s, struct err *e)
{
    sqlite3 *copy = NULL;
    sqlite3_backup *b = NULL;
    int code = sqlite3_open_v2("", &copy, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL);
    if (code == SQLITE_OK) b = sqlite3_backup_init(copy, "main", s->db, "main");
    if (b) code = sqlite3_backup_step(b, -1);
    if (b && code == SQLITE_DONE) code = SQLITE_OK;
    sqlite3_backup_finish(b);
    if (code != SQLITE_OK || !b) {
        int rc = err_set(e, ERR_FAIL,
                         "cannot copy %s, which an older retain made, to a temporary file: %s",
                         s->shown, copy ? sqlite3_errmsg(copy) : "out of memory");
        sqlite3_close(copy);
        return rc;
    }
    sqlite3_close(s->db);
    s->db = copy;
    return 0;
}

int db_schema_open_source(struct store *s, struct err *e)
{
    int version;
    int rc = check_owner(s, &version, e);
    if (!rc && version == 0)
        rc = err_set(e, ERR_FORMAT, "%s is an empty database; there is nothing in it", s->shown);
    if (!rc) rc = check_objects(s, version, e);
    if (rc || version == VERSION) return rc;
    rc = copy_to_temporary(s, e);
    return rc ? rc : migrate(s, e);
}
