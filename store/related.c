/* Messages that share a word with a text, by the index of search.c. */
#include "store/store.h"

#include "store/db.h"

static const char searching[] = "searching the conversations";

int store_word_count(struct store *s, const char *word, int64_t *n, struct err *e)
{
    struct str quoted = {0};
    sqlite3_stmt *q;
    int rc =
        db_prepare(s, "SELECT count(*) FROM search WHERE search MATCH ?1", 0, &q, searching, e);
    if (rc) return rc;
    str_printf(&quoted, "\"%s\"", word);
    db_bind_text(q, 1, quoted.data, quoted.n);
    if (db_next(s, q, &rc, searching, e)) *n = sqlite3_column_int64(q, 0);
    sqlite3_finalize(q);
    str_release(&quoted);
    return rc;
}

int store_message_total(struct store *s, int64_t *n, struct err *e)
{
    return db_number(s, "SELECT coalesce(max(id), 0) FROM message", 0, n, searching, e);
}

int store_related_each(struct store *s, const struct str *words, int max,
                       int (*each)(void *ctx, const struct store_related *m), void *ctx,
                       struct err *e)
{
    sqlite3_stmt *q;
    int rc = db_prepare(s,
                        "SELECT c.name, m.text FROM search"
                        " JOIN transcript AS t ON t.message = search.rowid"
                        " JOIN message AS m ON m.id = t.message"
                        " JOIN conversation AS c ON c.id = t.conversation"
                        " WHERE search MATCH ?1 AND m.role = ?3 AND c.deleted_ms IS NULL"
                        " ORDER BY t.message DESC, t.conversation LIMIT ?2",
                        0, &q, searching, e);
    if (rc) return rc;
    db_bind_text(q, 1, words->data, words->n);
    sqlite3_bind_int(q, 2, max);
    sqlite3_bind_int(q, 3, CHAT_USER);
    while (db_next(s, q, &rc, searching, e)) {
        const struct store_related m = {.conversation = (const char *)sqlite3_column_text(q, 0),
                                        .text = (const char *)sqlite3_column_text(q, 1),
                                        .n_text = (size_t)sqlite3_column_bytes(q, 1)};
        if (m.conversation && m.text) rc = each(ctx, &m);
    }
    sqlite3_finalize(q);
    return rc;
}
