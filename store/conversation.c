/* Conversations: their names, list and state. */
#include "store/store.h"

#include <stdio.h>
#include <string.h>

#include "base/system.h"
#include "store/db.h"

static void copy_column(sqlite3_stmt *q, int i, char *out)
{
    const char *text = (const char *)sqlite3_column_text(q, i);
    snprintf(out, STORE_NAME_MAX, "%s", text ? text : "");
}

static struct db_row title_row(int64_t id)
{
    return (struct db_row){.table = "conversation", .key = {id}};
}

/* A sealed title column holds name, NUL, title. A damaged label must not hide the conversation. */
static void open_label(struct store *s, sqlite3_stmt *q, struct store_conversation *c)
{
    struct str buffer = {0};
    struct db_row row = title_row(c->id);
    struct db_part opened = {0};
    if (db_open(s, &row, 0, db_column(q, 2), &buffer, &opened)) {
        size_t n = strnlen(opened.p, opened.n);
        snprintf(c->name, STORE_NAME_MAX, "%.*s", (int)n, (const char *)opened.p);
        if (n < opened.n) snprintf(c->title, STORE_NAME_MAX, "%s", (const char *)opened.p + n + 1);
    } else {
        snprintf(c->name, STORE_NAME_MAX, "damaged-%lld", (long long)c->id);
    }
    str_release(&buffer);
}

/* Fills c from a row of DB_CONVERSATION_COLUMNS, with its name and title. */
static void read_row(struct store *s, sqlite3_stmt *q, struct store_conversation *c)
{
    *c = (struct store_conversation){.id = sqlite3_column_int64(q, 0)};
    if (s->key) {
        open_label(s, q, c);
    } else {
        copy_column(q, 1, c->name);
        c->name[strcspn(c->name, "\n")] = 0; /* the name of a deleted one */
        copy_column(q, 2, c->title);
    }
    c->created_ms = sqlite3_column_int64(q, 3);
    c->updated_ms = sqlite3_column_int64(q, 4);
    c->n_turns = sqlite3_column_int64(q, 5);
    c->n_tokens = sqlite3_column_int64(q, 6);
    c->cache_bytes = sqlite3_column_int64(q, 7);
    c->deleted_ms = sqlite3_column_int64(q, 8);
    c->has_tags = sqlite3_column_int(q, 9);
}

/* 1 = a row, read into *out; 0 = none. */
static int read_one(struct store *s, sqlite3_stmt *q, struct store_conversation *out,
                    const char *doing, struct err *e)
{
    int rc = db_step(s, q, doing, e);
    if (rc > 0) {
        read_row(s, q, out);
        db_reset(q);
    }
    return rc;
}

int db_conversation_by_id(struct store *s, int64_t id, struct store_conversation *out,
                          const char *doing, struct err *e)
{
    return read_one(s, db_bound(s, DB_CONVERSATION_COLUMNS "WHERE id = ?1", id), out, doing, e);
}

struct db_name db_conversation_name(struct store *s, int64_t conversation)
{
    struct store_conversation c;
    struct db_name out;
    bool found = db_conversation_by_id(s, conversation, &c, "", NULL) > 0;
    if (!found) snprintf(c.name, sizeof c.name, "%lld", (long long)conversation);
    memcpy(out.text, c.name, sizeof out.text);
    return out;
}

int db_conversation_label(struct store *s, int64_t id, const char *name, const char *title,
                          const char *doing, struct err *e)
{
    sqlite3_stmt *q = db_bound(s, "UPDATE conversation SET title = ?2 WHERE id = ?1", id);
    if (s->key) {
        char label[2 * STORE_NAME_MAX];
        struct db_row row = title_row(id);
        int n = snprintf(label, sizeof label, "%s", name) + 1;
        n += snprintf(label + n, sizeof label - (size_t)n, "%s", title);
        struct db_part sealed = db_seal(s, &row, 0, label, (size_t)n);
        db_bind_blob(q, 2, sealed.p, sealed.n);
    } else {
        db_bind_text(q, 2, title, strlen(title));
    }
    return db_run(s, q, doing, e);
}

static int check_name(const char *name, struct err *e)
{
    if (db_name_valid(name)) return 0;
    size_t n = strlen(name);
    if (n >= STORE_NAME_MAX)
        return err_set(e, ERR_USAGE, "the name has %zu bytes; a conversation's may have %d", n,
                       STORE_NAME_MAX - 1);
    return err_set(e, ERR_USAGE,
                   "the name %s; expected 1 to %d bytes of text without control characters",
                   n ? "is not UTF-8 or has control characters" : "is empty", STORE_NAME_MAX - 1);
}

static int taken(const char *name, struct err *e)
{
    return err_set(e, ERR_USAGE, "there is a conversation '%s' already; choose another name", name);
}

/* For stores where names cannot be compared. */
static int new_sealed_name(struct store *s, char out[STORE_NAME_MAX], struct err *e)
{
    struct store_conversation c;
    int rc = 1;
    for (int n = 1; rc > 0; n++) {
        snprintf(out, STORE_NAME_MAX, "chat-%d", n);
        rc = store_conversation_find(s, out, &c, e);
    }
    return rc;
}

static int new_name(struct store *s, char out[STORE_NAME_MAX], const char *doing, struct err *e)
{
    /* Longer names are not generated ones: their number may not fit. */
    static const char sql[] = "SELECT max(CAST(substr(name, 6) AS INTEGER)) FROM conversation "
                              "WHERE name >= 'chat-' AND name < 'chat.' AND length(name) <= 14";
    sqlite3_stmt *q = db_bound(s, sql);
    if (s->key) return new_sealed_name(s, out, e);
    int rc = db_step(s, q, doing, e);
    if (rc < 0) return rc;
    snprintf(out, STORE_NAME_MAX, "chat-%lld",
             rc && sqlite3_column_int64(q, 0) > 0 ? (long long)sqlite3_column_int64(q, 0) + 1
                                                  : 1LL);
    db_reset(q);
    return 0;
}

/* Inside a transaction. */
static int add(struct store *s, const char *name, struct store_conversation *out, const char *doing,
               struct err *e)
{
    char fresh[STORE_NAME_MAX];
    int rc = 0;
    if (!name) {
        rc = new_name(s, fresh, doing, e);
        name = fresh;
    }
    if (rc) return rc;
    sqlite3_stmt *q =
        db_bound(s, "INSERT INTO conversation (name, created_ms, updated_ms) VALUES (?1, ?2, ?2)");
    char key[STORE_NAME_MAX];
    db_name_key(s, name, key);
    db_bind_text(q, 1, key, strlen(key));
    sqlite3_bind_int64(q, 2, system_unix_ms());
    rc = db_run(s, q, doing, e);
    if (rc && sqlite3_extended_errcode(s->db) == SQLITE_CONSTRAINT_UNIQUE) return taken(name, e);
    if (rc) return rc;
    int64_t id = sqlite3_last_insert_rowid(s->db);
    if (s->key) rc = db_conversation_label(s, id, name, "", doing, e);
    if (!rc) rc = db_search_add(s, DB_SEARCH_NAME(id), name, strlen(name), doing, e);
    if (!rc) rc = db_conversation_by_id(s, id, out, doing, e);
    return rc < 0 ? rc : 0;
}

int store_conversation_create(struct store *s, const char *name, struct store_conversation *out,
                              struct err *e)
{
    static const char doing[] = "beginning a conversation";
    int rc = 0;
    if (name && !*name) name = NULL;
    if (name) rc = check_name(name, e);
    if (!rc) rc = db_enter(s, doing, e);
    if (rc) return rc;
    rc = add(s, name, out, doing, e);
    return db_leave(s, rc, doing, e);
}

int store_conversation_find(struct store *s, const char *name, struct store_conversation *out,
                            struct err *e)
{
    sqlite3_stmt *q = db_bound(s, DB_CONVERSATION_COLUMNS "WHERE name = ?1");
    char key[STORE_NAME_MAX];
    if (!db_name_valid(name)) return 0;
    db_name_key(s, name, key);
    db_bind_text(q, 1, key, strlen(key));
    return read_one(s, q, out, "looking for the conversation", e);
}

int store_conversation_count(struct store *s, int64_t *n, struct err *e)
{
    return db_number(s, "SELECT count(*) FROM conversation WHERE deleted_ms IS NULL", 0, n,
                     "counting the conversations", e);
}

int store_conversation_latest(struct store *s, struct store_conversation *out, struct err *e)
{
    static const char sql[] = DB_CONVERSATION_COLUMNS
        "WHERE deleted_ms IS NULL ORDER BY updated_ms DESC, id DESC LIMIT 1";
    return read_one(s, db_bound(s, sql), out, "looking for the latest conversation", e);
}

int db_conversation_walk(struct store *s, sqlite3_stmt *q, int rc,
                         int (*each)(void *ctx, const struct store_conversation *c), void *ctx,
                         const char *doing, struct err *e)
{
    struct store_conversation c;
    while (db_next(s, q, &rc, doing, e)) {
        read_row(s, q, &c);
        rc = each(ctx, &c);
    }
    sqlite3_finalize(q);
    return rc;
}

int store_conversation_list(struct store *s,
                            int (*each)(void *ctx, const struct store_conversation *c), void *ctx,
                            struct err *e)
{
    static const char doing[] = "listing the conversations";
    sqlite3_stmt *q;
    int rc = db_prepare(
        s, DB_CONVERSATION_COLUMNS "WHERE deleted_ms IS NULL ORDER BY updated_ms DESC, id DESC", 0,
        &q, doing, e);
    return db_conversation_walk(s, q, rc, each, ctx, doing, e);
}

/* Changes one conversation's row; no changed row = the conversation does not exist. */
static int run_on_one(struct store *s, sqlite3_stmt *q, int64_t id, const char *doing,
                      struct err *e)
{
    int rc = db_run(s, q, doing, e);
    if (rc || sqlite3_changes(s->db) > 0) return rc;
    return err_set(e, ERR_FAIL,
                   "%s: there is no conversation with number %lld; was it deleted in "
                   "another window?",
                   doing, (long long)id);
}

/* Inside a transaction: sets the name in the lookup column, the label and the index. */
static int set_name(struct store *s, const char *sql, int64_t id, const char *name,
                    const char *doing, struct err *e)
{
    struct store_conversation c;
    char key[STORE_NAME_MAX];
    int rc = db_conversation_by_id(s, id, &c, doing, e);
    if (rc < 0) return rc;
    db_name_key(s, name, key);
    sqlite3_stmt *q = db_bound(s, sql, id);
    db_bind_text(q, 2, key, strlen(key));
    rc = run_on_one(s, q, id, doing, e);
    if (rc && sqlite3_extended_errcode(s->db) == SQLITE_CONSTRAINT_UNIQUE) return taken(name, e);
    if (!rc && s->key) rc = db_conversation_label(s, id, name, c.title, doing, e);
    if (!rc) rc = db_search_forget(s, DB_SEARCH_NAME(id), doing, e);
    if (!rc) rc = db_search_add(s, DB_SEARCH_NAME(id), name, strlen(name), doing, e);
    return rc;
}

int store_conversation_rename(struct store *s, int64_t id, const char *name, struct err *e)
{
    static const char doing[] = "renaming the conversation";
    int rc = check_name(name, e);
    if (!rc) rc = db_enter(s, doing, e);
    if (rc) return rc;
    rc = set_name(s, "UPDATE conversation SET name = ?2 WHERE id = ?1", id, name, doing, e);
    return db_leave(s, rc, doing, e);
}

int store_conversation_times(struct store *s, int64_t id, int64_t created_ms, int64_t updated_ms,
                             struct err *e)
{
    static const char sql[] =
        "UPDATE conversation SET created_ms = ?2, updated_ms = ?3 WHERE id = ?1";
    return run_on_one(s, db_bound(s, sql, id, created_ms, updated_ms), id,
                      "importing the conversation", e);
}

/* ---- deleting -------------------------------------------------------------------------------- */

int store_conversation_delete(struct store *s, int64_t id, struct err *e)
{
    static const char doing[] = "deleting the conversation";
    /* Deleting frees the name: the deleted row gets a name that no conversation may have. */
    static const char sql[] = "UPDATE conversation SET deleted_ms = ?2, "
                              "name = name || char(10) || id WHERE id = ?1 AND deleted_ms IS NULL";
    int rc = db_enter(s, doing, e);
    if (!rc) rc = run_on_one(s, db_bound(s, sql, id, system_unix_ms()), id, doing, e);
    return db_leave(s, rc, doing, e);
}

int store_conversation_restore(struct store *s, const char *name, const char *new_name,
                               struct err *e)
{
    static const char doing[] = "restoring the conversation";
    static const char sql[] = DB_CONVERSATION_COLUMNS
        "WHERE name >= ?1 || char(10) AND name < ?1 || char(11) ORDER BY deleted_ms DESC, id DESC";
    sqlite3_stmt *q = db_bound(s, sql);
    struct store_conversation c;
    char key[STORE_NAME_MAX];
    int rc = new_name ? check_name(new_name, e) : 0;
    if (!rc) rc = db_enter(s, doing, e);
    if (rc) return rc;
    db_name_key(s, name, key);
    db_bind_text(q, 1, key, strlen(key));
    rc = read_one(s, q, &c, doing, e);
    if (!rc)
        rc = err_set(e, ERR_FAIL, "there is no deleted conversation '%.*s' any more",
                     STORE_NAME_MAX, name);
    if (rc > 0)
        rc = set_name(s, "UPDATE conversation SET deleted_ms = NULL, name = ?2 WHERE id = ?1", c.id,
                      new_name ? new_name : name, doing, e);
    return db_leave(s, rc, doing, e);
}

static int purge_one(struct store *s, int64_t id, const char *doing, struct err *e)
{
    int rc = db_search_forget(s, DB_SEARCH_NAME(id), doing, e);
    if (!rc) rc = db_message_cut(s, id, 0, doing, e);
    if (rc) return rc;
    /* the rows of all other tables are deleted with it */
    return run_on_one(s, db_bound(s, "DELETE FROM conversation WHERE id = ?1", id), id, doing, e);
}

int store_conversation_remove(struct store *s, int64_t id, const char *name, struct err *e)
{
    static const char doing[] = "removing a conversation";
    struct store_conversation c;
    int rc = db_enter(s, doing, e);
    if (!rc) rc = db_conversation_by_id(s, id, &c, doing, e);
    if (rc > 0 && name && (c.n_turns || c.n_tokens || strcmp(c.name, name))) rc = 0;
    if (rc > 0) rc = purge_one(s, id, doing, e);
    return db_leave(s, rc, doing, e);
}

int store_purge(struct store *s, int64_t keep_ms, int64_t *n, struct err *e)
{
    static const char doing[] = "removing deleted conversations";
    static const char next[] =
        "SELECT id FROM conversation d WHERE deleted_ms NOT NULL AND (?1 = 0 OR EXISTS (SELECT 1 "
        "FROM conversation u WHERE u.updated_ms BETWEEN d.deleted_ms + ?1 AND ?2)) "
        "ORDER BY deleted_ms LIMIT 1";
    int64_t id = 1, before_ms = system_unix_ms() - INT64_C(24) * 60 * 60 * 1000;
    int rc = db_enter(s, doing, e);
    for (*n = 0; !rc && id; *n += !rc && id) {
        rc = db_get(s, db_bound(s, next, keep_ms, before_ms), &id, doing, e);
        if (!rc && id) rc = purge_one(s, id, doing, e);
    }
    rc = db_leave(s, rc, doing, e);
    /* Returns the space to the disk; the rows are deleted even if that fails. */
    if (!rc && *n && sqlite3_get_autocommit(s->db)) store_give_back(s, 0);
    return rc;
}

/* ---- state ----------------------------------------------------------------------------------- */

int store_state_get(struct store *s, int64_t conversation, char **out, struct err *e)
{
    sqlite3_stmt *q =
        db_bound(s, "SELECT text, digest FROM state WHERE conversation = ?1", conversation);
    struct str buffer = {0}, text = {0};
    *out = NULL;
    int rc = db_step(s, q, "reading the conversation's state", e);
    if (rc < 0) return rc;
    struct db_part opened = {"", 0};
    struct db_row row = {.table = "state", .key = {conversation}};
    if (rc) row.bytes = db_column(q, 0);
    bool good =
        !rc || (db_digest_matches(q, 1, &row) && db_open(s, &row, 0, row.bytes, &buffer, &opened));
    if (good) str_append(&text, opened.p, opened.n);
    *out = text.data;
    db_reset(q);
    str_release(&buffer);
    if (!good)
        return err_set(e, ERR_FORMAT,
                       "the saved state of conversation '%s' in %s is damaged (its checksum is "
                       "wrong); its text is stored separately",
                       db_conversation_name(s, conversation).text, s->shown);
    return 0;
}

int store_state_put(struct store *s, int64_t conversation, const char *state, struct err *e)
{
    static const char sql[] = "INSERT INTO state (conversation, text, digest) VALUES (?1, ?2, ?3) "
                              "ON CONFLICT (conversation) DO UPDATE SET text = ?2, digest = ?3";
    sqlite3_stmt *q = db_bound(s, sql, conversation);
    uint8_t digest[DIGEST_BYTES];
    struct db_row row = {.table = "state", .key = {conversation}};
    row.bytes = db_seal(s, &row, 0, state, strlen(state));
    db_digest(digest, &row);
    if (s->key)
        db_bind_blob(q, 2, row.bytes.p, row.bytes.n);
    else
        db_bind_text(q, 2, row.bytes.p, row.bytes.n);
    db_bind_blob(q, 3, digest, sizeof digest);
    return db_write(s, q, "saving the conversation's state", e);
}
