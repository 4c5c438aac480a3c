/* Tags: words that the user attaches to conversations to find them. */
#include "store/store.h"

#include <stdio.h>
#include <string.h>

#include "store/db.h"

static const char tagging[] = "tagging the conversation";

/* ---- one tag --------------------------------------------------------------------------------- */

/* The value that a tag is looked up by. The # sign tells it from a conversation of that name when
 * both are hashed. */
static void tag_key(const struct store *s, const char *tag, char out[STORE_NAME_MAX])
{
    char signed_tag[STORE_NAME_MAX + 1];
    snprintf(signed_tag, sizeof signed_tag, "#%s", tag);
    db_name_key(s, signed_tag, out);
}

static struct db_row tag_row(int64_t conversation, const char *key, struct db_part label)
{
    return (struct db_row){
        .table = "tag", .key = {conversation}, .bytes = label, .more = {key, strlen(key)}};
}

static int check_tag(const char *tag, struct err *e)
{
    if (db_name_valid(tag) && strlen(tag) < STORE_TAG_MAX && !strpbrk(tag, " ,#")) return 0;
    return err_set(
        e, ERR_USAGE,
        "'%.*s' is not a valid tag: expected one word of at most %d bytes, without comma and #",
        STORE_TAG_MAX, tag, STORE_TAG_MAX - 1);
}

int store_tag_add(struct store *s, int64_t conversation, const char *tag, struct err *e)
{
    uint8_t digest[DIGEST_BYTES];
    char key[STORE_NAME_MAX];
    int rc = check_tag(tag, e);
    if (rc) return rc;
    tag_key(s, tag, key);
    struct db_row row = tag_row(conversation, key, (struct db_part){"", 0});
    row.bytes = db_seal(s, &row, 0, tag, strlen(tag));
    db_digest(digest, &row);
    static const char sql[] =
        "INSERT INTO tag (conversation, name, label, digest) VALUES (?1, ?2, ?3, ?4) "
        "ON CONFLICT (conversation, name) DO NOTHING";
    sqlite3_stmt *q = db_bound(s, sql, conversation);
    db_bind_text(q, 2, key, strlen(key));
    db_bind_blob(q, 3, row.bytes.p, row.bytes.n);
    db_bind_blob(q, 4, digest, sizeof digest);
    return db_write(s, q, tagging, e);
}

int store_tag_remove(struct store *s, int64_t conversation, const char *tag, struct err *e)
{
    char key[STORE_NAME_MAX];
    int rc = check_tag(tag, e);
    if (rc) return rc;
    tag_key(s, tag, key);
    sqlite3_stmt *q =
        db_bound(s, "DELETE FROM tag WHERE conversation = ?1 AND name = ?2", conversation);
    db_bind_text(q, 2, key, strlen(key));
    rc = db_write(s, q, tagging, e);
    return rc ? rc : sqlite3_changes(s->db);
}

/* ---- all of them ----------------------------------------------------------------------------- */

static int walk_tag(struct store *s, int64_t conversation, sqlite3_stmt *q,
                    int (*each)(void *ctx, const char *tag), void *ctx, struct err *e)
{
    char tag[STORE_TAG_MAX];
    const char *key = (const char *)sqlite3_column_text(q, 0);
    struct db_part label = db_column(q, 1), opened;
    struct db_row row = tag_row(conversation, key ? key : "", label);
    struct str buffer = {0};
    bool good = label.p && db_digest_matches(q, 2, &row) &&
                db_open(s, &row, 0, label, &buffer, &opened) && opened.n < STORE_TAG_MAX;
    if (good) snprintf(tag, sizeof tag, "%.*s", (int)opened.n, (const char *)opened.p);
    str_release(&buffer);
    if (good) return each ? each(ctx, tag) : 0;
    return err_set(e, ERR_FORMAT,
                   "a tag of conversation '%s' in %s is damaged: its checksum is wrong",
                   db_conversation_name(s, conversation).text, s->shown);
}

int store_tag_each(struct store *s, int64_t conversation, int (*each)(void *ctx, const char *tag),
                   void *ctx, struct err *e)
{
    static const char doing[] = "reading the tags";
    sqlite3_stmt *q;
    int rc = db_prepare(s, "SELECT name, label, digest FROM tag WHERE conversation = ?1 ORDER BY 1",
                        conversation, &q, doing, e);
    while (db_next(s, q, &rc, doing, e)) rc = walk_tag(s, conversation, q, each, ctx, e);
    sqlite3_finalize(q);
    return rc;
}

int store_tagged_each(struct store *s, const char *tag,
                      int (*each)(void *ctx, const struct store_conversation *c), void *ctx,
                      struct err *e)
{
    static const char doing[] = "looking for the tag";
    char key[STORE_NAME_MAX];
    sqlite3_stmt *q;
    int rc = check_tag(tag, e);
    if (rc) return rc;
    rc = db_prepare(s,
                    DB_CONVERSATION_COLUMNS
                    "WHERE deleted_ms IS NULL AND id IN (SELECT conversation FROM tag "
                    "WHERE name = ?1) ORDER BY updated_ms DESC, id DESC",
                    0, &q, doing, e);
    if (rc) return rc;
    tag_key(s, tag, key);
    db_bind_text(q, 1, key, strlen(key));
    return db_conversation_walk(s, q, 0, each, ctx, doing, e);
}
