/* Search: an FTS5 index over messages and names. It is derived from them and never the truth: when
 * it is damaged, the messages are still saved, and compact rebuilds it.
 *
 * Encrypted stores have no index, since it would hold every word: their messages are read one by
 * one. So is every store for a query that the index cannot answer: scripts without spaces,
 * punctuation. */
#include "store/store.h"

#include <limits.h>
#include <string.h>
#include <strings.h>

#include "base/utf8_width.h"
#include "store/db.h"

#define WORDS_MAX   16
#define STX         "\x02"
#define ETX         "\x03"
#define SNIPPET_MAX 120 /* bytes of context around a match, when messages are read one by one */

static const char searching[] = "searching the conversations";

/* ---- keeping the index ----------------------------------------------------------------------- */

/* Runs a change of the index; ignores damage of the index itself. */
static int change(struct store *s, sqlite3_stmt *q, const char *doing, struct err *e)
{
    int rc = sqlite3_step(q);
    if ((rc & 0xff) == SQLITE_CORRUPT && !sqlite3_get_autocommit(s->db)) {
        db_reset(q);
        return 0;
    }
    rc = rc == SQLITE_DONE ? 0 : db_error(s, doing, e);
    db_reset(q);
    return rc;
}

int db_search_add(struct store *s, int64_t row, const char *text, size_t n, const char *doing,
                  struct err *e)
{
    sqlite3_stmt *q = db_bound(s, "INSERT INTO search (rowid, text) VALUES (?1, ?2)", row);
    if (s->key) return 0;
    if (db_bind_text(q, 2, text, n) == SQLITE_OK) return change(s, q, doing, e);
    db_reset(q);
    return 0; /* longer than SQLite accepts: saving the message will report it */
}

static int remove_rows(struct store *s, sqlite3_stmt *q, const char *doing, struct err *e)
{
    db_begin_removing(s);
    int rc = change(s, q, doing, e);
    db_end_removing(s);
    return rc;
}

int db_search_forget(struct store *s, int64_t row, const char *doing, struct err *e)
{
    if (s->key) return 0;
    return remove_rows(s, db_bound(s, "DELETE FROM search WHERE rowid = ?1", row), doing, e);
}

int db_search_cut(struct store *s, int64_t conversation, int64_t n_messages, const char *doing,
                  struct err *e)
{
    static const char sql[] =
        "DELETE FROM search WHERE rowid IN (SELECT message FROM transcript AS t "
        "WHERE conversation = ?1 AND seq >= ?2 AND NOT EXISTS (SELECT 1 FROM "
        "transcript WHERE message = t.message AND conversation <> ?1))";
    if (s->key) return 0;
    return remove_rows(s, db_bound(s, sql, conversation, n_messages), doing, e);
}

#define MERGE_PAGES 2000 /* 8 MB */
/* A merge adds levels to the record of the index's structure. FTS5 (seen in SQLite 3.40) refuses to
 * open a table with more than 2,000 of them. */
#define LEVELS_MAX 1000

/* The number of levels: a varint after the record's first four bytes. */
static int n_levels(const uint8_t *record, int n)
{
    if (n < 6 || record[4] < 0x80) return n < 6 ? 0 : record[4];
    return record[5] < 0x80 ? (record[4] & 0x7f) << 7 | record[5] : INT_MAX;
}

int db_search_merge(struct store *s, const char *doing, struct err *e)
{
    sqlite3_stmt *q;
    if (s->key) return 0;
    int rc = db_prepare(s,
                        "SELECT count(*), (SELECT block FROM search_data WHERE id = 10) "
                        "FROM search_data",
                        0, &q, doing, e);
    if (!rc) rc = db_step(s, q, doing, e);
    bool small = rc > 0 && sqlite3_column_int(q, 0) < MERGE_PAGES;
    bool tall =
        small && n_levels(sqlite3_column_blob(q, 1), sqlite3_column_bytes(q, 1)) > LEVELS_MAX;
    sqlite3_finalize(q);
    if (!small) return rc < 0 && rc != ERR_FORMAT ? rc : 0; /* as in change */
    q = db_bound(s, tall ? "INSERT INTO search (search) VALUES ('rebuild')"
                         : "INSERT INTO search (search) VALUES ('optimize')");
    return remove_rows(s, q, doing, e);
}

bool db_search_restore(struct store *s)
{
    sqlite3_stmt *q;
    int rc = sqlite3_prepare_v2(s->db, "SELECT rowid FROM search", -1, &q, NULL);
    sqlite3_finalize(q);
    if ((rc & 0xff) != SQLITE_CORRUPT || db_read_failed(s)) return false;
    sqlite3_db_config(s->db, SQLITE_DBCONFIG_DEFENSIVE, 0, NULL); /* the record of an empty index */
    rc = db_exec(s,
                 "BEGIN IMMEDIATE;"
                 "UPDATE search_data SET block = x'00000000000000' WHERE id = 10;"
                 "INSERT INTO search (search) VALUES ('rebuild'); COMMIT",
                 "", NULL);
    if (!sqlite3_get_autocommit(s->db)) sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
    sqlite3_db_config(s->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    return rc == 0;
}

int db_search_check(struct store *s, struct err *e)
{
    struct err why;
    if (db_exec(s, "INSERT INTO search (search) VALUES ('integrity-check')", "", &why) == 0)
        return 0;
    if (why.code != ERR_FORMAT) {
        if (e) *e = why;
        return why.code;
    }
    return err_set(
        e, ERR_FORMAT,
        "the search index of %s is damaged; `retain compact` rebuilds it; no message is lost",
        s->shown);
}

int db_search_rebuild(struct store *s, struct err *e)
{
    static const char doing[] = "rebuilding the search index";
    if (s->key) return 0;
    return db_exec(s,
                   "DROP TABLE IF EXISTS search;"
                   "CREATE VIRTUAL TABLE search USING fts5"
                   " (text, columnsize = 0, tokenize = 'unicode61 remove_diacritics 2');"
                   "INSERT INTO search (rowid, text)"
                   " SELECT id, text FROM message;"
                   "INSERT INTO search (rowid, text)"
                   " SELECT -id, name FROM conversation;"
                   "INSERT INTO search (search) VALUES ('optimize')",
                   doing, e);
}

/* ---- the words ------------------------------------------------------------------------------- */

struct words {
    struct {
        const char *text;
        size_t n;
    } at[WORDS_MAX];
    int n;
    bool indexed; /* the index contains such words */
};

/* Words of letters and digits of alphabets; others are found by reading the messages. */
static bool is_indexed(const char *text, size_t n)
{
    bool any = false;
    for (size_t i = 0; i < n;) {
        uint32_t c = 0;
        int len = utf8_next(text + i, n - i, &c);
        if (len <= 0 || c >= 0x0e00) return false; /* Thai, Lao, CJK, …: no spaces between words */
        bool letter = (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z') || c >= 0xc0;
        if (!letter && c != '\'' && c != '-' && c != '.' && c != ',' && c != '?' && c != '!')
            return false;
        any = any || letter;
        i += (size_t)len;
    }
    return any;
}

static void split(const char *text, struct words *out)
{
    *out = (struct words){.indexed = true};
    while (*text && out->n < WORDS_MAX) {
        size_t blank = strspn(text, " \t\r\n"), n = strcspn(text + blank, " \t\r\n");
        if (n) {
            out->at[out->n].text = text + blank;
            out->at[out->n++].n = n;
            out->indexed = out->indexed && is_indexed(text + blank, n);
        }
        text += blank + n;
    }
}

/* "word" "word" "begin"* */
static void match_expression(const struct words *w, struct str *out)
{
    for (int i = 0; i < w->n; i++) str_printf(out, "\"%.*s\" ", (int)w->at[i].n, w->at[i].text);
    out->data[--out->n] = 0;
    str_puts(out, "*");
}

/* ---- hits ------------------------------------------------------------------------------------ */

struct walk {
    struct store *s;
    struct store_conversation conversation;
    int (*each)(void *ctx, const struct store_hit *h);
    void *ctx;
    struct err *e;
};

/* 1 = w->conversation is now number `id` and may be shown. */
static int turn_to(struct walk *w, int64_t id)
{
    if (w->conversation.id == id) return w->conversation.deleted_ms == 0;
    int rc = db_conversation_by_id(w->s, id, &w->conversation, searching, w->e);
    if (rc <= 0) w->conversation = (struct store_conversation){.id = id, .deleted_ms = 1};
    return rc < 0 ? rc : w->conversation.deleted_ms == 0;
}

static int hit(struct walk *w, int64_t seq, enum chat_role role, int64_t created_ms,
               const char *snippet)
{
    struct store_hit h = {&w->conversation, seq, role, created_ms, snippet};
    return w->each(w->ctx, &h);
}

static int name_hit(struct walk *w, const char *snippet)
{
    return hit(w, -1, CHAT_USER, w->conversation.updated_ms, snippet);
}

/* The row's checksum is not checked here: `retain check` does that. */
static int message_hit(struct walk *w, int64_t id, int64_t seq, const char *snippet)
{
    sqlite3_stmt *q = db_bound(w->s, "SELECT role, created_ms FROM message WHERE id = ?1", id);
    int rc = db_step(w->s, q, searching, w->e);
    if (rc <= 0) return rc;
    int role = sqlite3_column_int(q, 0);
    int64_t created_ms = sqlite3_column_int64(q, 1);
    db_reset(q);
    if (role < CHAT_SYSTEM || role > CHAT_ASSISTANT) role = CHAT_USER;
    return hit(w, seq, (enum chat_role)role, created_ms, snippet);
}

/* A row that matches: columns conversation, seq, row of the index. */
static int index_hit(struct walk *w, sqlite3_stmt *q, sqlite3_stmt *snippets)
{
    int64_t seq = sqlite3_column_int64(q, 1), row = sqlite3_column_int64(q, 2);
    int rc = turn_to(w, sqlite3_column_int64(q, 0));
    if (rc <= 0) return rc;
    sqlite3_bind_int64(snippets, 2, row);
    rc = db_step(w->s, snippets, searching, w->e);
    if (rc <= 0) return rc;
    const char *text = (const char *)sqlite3_column_text(snippets, 0);
    rc = row < 0 ? name_hit(w, text ? text : "") : message_hit(w, row, seq, text ? text : "");
    sqlite3_reset(snippets);
    return rc;
}

/* A message that branches share is found once for each of them. */
static int search_index(struct walk *w, const struct words *words)
{
    struct str expression = {0};
    sqlite3_stmt *q = NULL, *snippets = NULL;
    match_expression(words, &expression);
    int rc = db_prepare(w->s,
                        "SELECT t.conversation, t.seq, t.message FROM search "
                        "JOIN transcript AS t ON t.message = search.rowid WHERE search MATCH ?1 "
                        "UNION ALL SELECT -rowid, 1 << 40, rowid FROM search "
                        "WHERE search MATCH ?1 AND rowid < 0 ORDER BY 1 DESC, 2 DESC",
                        0, &q, searching, w->e);
    if (!rc)
        rc = db_prepare(w->s,
                        "SELECT snippet(search, 0, char(2), char(3), '…', 16) FROM search "
                        "WHERE search MATCH ?1 AND rowid = ?2",
                        0, &snippets, searching, w->e);
    if (!rc) db_bind_text(q, 1, expression.data, expression.n);
    if (!rc) db_bind_text(snippets, 1, expression.data, expression.n);
    while (db_next(w->s, q, &rc, searching, w->e)) rc = index_hit(w, q, snippets);
    sqlite3_finalize(q);
    sqlite3_finalize(snippets);
    str_release(&expression);
    return rc;
}

/* ---- reading all messages -------------------------------------------------------------------- */

struct scan {
    struct walk *w;
    const struct words *words;
    struct str snippet;
};

/* The offset of a word in a text, ignoring case; SIZE_MAX = not found. */
static size_t find(const char *text, size_t n, const char *word, size_t n_word)
{
    for (size_t i = 0; i + n_word <= n; i++)
        if (!strncasecmp(text + i, word, n_word)) return i;
    return SIZE_MAX;
}

static bool continues(char c)
{
    return ((unsigned char)c & 0xc0) == 0x80;
}

static void cut_snippet(const char *text, size_t n, size_t at, size_t n_word, struct str *out)
{
    size_t from = at > SNIPPET_MAX / 2 ? at - SNIPPET_MAX / 2 : 0;
    size_t to = at + n_word + SNIPPET_MAX / 2 < n ? at + n_word + SNIPPET_MAX / 2 : n;
    while (from > 0 && continues(text[from])) from--;
    while (to < n && continues(text[to])) to++;
    str_clear(out);
    if (from > 0) str_puts(out, "…");
    str_append(out, text + from, at - from);
    str_puts(out, STX);
    str_append(out, text + at, n_word);
    str_puts(out, ETX);
    str_append(out, text + at + n_word, to - at - n_word);
    if (to < n) str_puts(out, "…");
}

/* Does the text contain all words? If so, makes the snippet around the first word. */
static bool holds(struct scan *scan, const char *text, size_t n)
{
    size_t first = SIZE_MAX;
    for (int i = scan->words->n - 1; i >= 0; i--) {
        first = find(text, n, scan->words->at[i].text, scan->words->at[i].n);
        if (first == SIZE_MAX) return false;
    }
    cut_snippet(text, n, first, scan->words->at[0].n, &scan->snippet);
    return true;
}

static int scan_message(void *ctx, const struct store_message *m)
{
    struct scan *scan = ctx;
    if (m->seq < 0 || !holds(scan, m->text, m->n_text)) return 0;
    return hit(scan->w, m->seq, m->role, m->created_ms, str_get(&scan->snippet));
}

static int scan_conversation(void *ctx, const struct store_conversation *c)
{
    struct scan *scan = ctx;
    struct walk *w = scan->w;
    int rc = 0;
    w->conversation = *c;
    if (holds(scan, c->name, strlen(c->name))) rc = name_hit(w, str_get(&scan->snippet));
    return rc ? rc : store_message_each(w->s, c->id, scan_message, scan, w->e);
}

int store_search(struct store *s, const char *text,
                 int (*each)(void *ctx, const struct store_hit *h), void *ctx, struct err *e)
{
    struct words words;
    struct walk w = {.s = s, .each = each, .ctx = ctx, .e = e};
    split(text, &words);
    if (words.n == 0) return err_set(e, ERR_USAGE, "nothing to search for: the query has no words");
    if (words.indexed && !s->key) return search_index(&w, &words);
    struct scan scan = {&w, &words, {0}};
    int rc = store_conversation_list(s, scan_conversation, &scan, e);
    str_release(&scan.snippet);
    return rc;
}
