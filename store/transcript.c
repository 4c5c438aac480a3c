/* The transcript: messages, and the tail in which the running answer grows token by token.
 *
 * Adding to the tail is one insert into one tree. Adding a message also updates its conversation's
 * row, in the same transaction, so that listing conversations reads no messages. */
#include "store/store.h"

#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "base/system.h"
#include "store/db.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "token ids are saved as they are in memory");

static const char reading[] = "reading the conversation";

/* ---- messages -------------------------------------------------------------------------------- */

/* Its key, with the conversation that it was written for; the digest covers the stored columns:
 * text, token ids, settings and thought, sealed or not. */
static struct db_row message_row(int64_t origin, const struct store_message *m)
{
    return (struct db_row){.table = "message", .key = {origin, m->seq, m->role, m->created_ms}};
}

/* The columns after a row's first part: the ids, then settings with their length, then the thought
 * with its length and numbers, if they are not NULL. Rows written before version 5 have none. */
struct rest {
    struct db_part tokens, settings, thought;
    int64_t thought_tokens, thought_ms;
};

static void put_rest(struct str *out, const struct rest *r, struct db_row *row)
{
    const uint64_t n_settings = r->settings.n, n_thought = r->thought.n;
    row->more = r->tokens;
    if (!r->settings.p && !r->thought.p) return;
    str_clear(out);
    str_append(out, r->tokens.p, r->tokens.n);
    if (r->settings.p) {
        str_append(out, r->settings.p, r->settings.n);
        str_append(out, &n_settings, sizeof n_settings);
    }
    if (r->thought.p) {
        str_append(out, r->thought.p, r->thought.n);
        str_append(out, &n_thought, sizeof n_thought);
        str_append(out, &r->thought_tokens, sizeof r->thought_tokens);
        str_append(out, &r->thought_ms, sizeof r->thought_ms);
    }
    row->more = (struct db_part){out->data, out->n};
}

struct counts {
    int64_t n_messages, n_turns;
};

/* The conversation's counts. adds: before a message is added, which a deleted one does not take. */
static int count_messages(struct store *s, int64_t conversation, bool adds, struct counts *out,
                          const char *doing, struct err *e)
{
    static const char sql[] =
        "SELECT n_messages, n_turns, deleted_ms IS NULL FROM conversation WHERE id = ?1";
    sqlite3_stmt *q = db_bound(s, sql, conversation);
    int rc = db_step(s, q, doing, e);
    if (rc < 0) return rc;
    if (rc && adds && !sqlite3_column_int(q, 2)) {
        db_reset(q);
        rc = 0;
    }
    if (!rc)
        return err_set(e, ERR_FAIL,
                       "%s: there is no conversation with number %lld; was it deleted in another "
                       "window?",
                       doing, (long long)conversation);
    *out = (struct counts){sqlite3_column_int64(q, 0), sqlite3_column_int64(q, 1)};
    db_reset(q);
    return 0;
}

/* Binds a text that may be NULL. */
static int bind_optional(struct store *s, sqlite3_stmt *q, int i, struct db_part text)
{
    if (!text.p) return sqlite3_bind_null(q, i);
    return s->key ? db_bind_blob(q, i, text.p, text.n) : db_bind_text(q, i, text.p, text.n);
}

static int insert_message(struct store *s, int64_t conversation, const struct store_message *m,
                          const char *doing, struct err *e)
{
    static const char sql[] =
        "INSERT INTO message (origin, role, created_ms, text, tokens, digest, "
        "settings, thought, thought_tokens, thought_ms) "
        "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)";
    sqlite3_stmt *q = db_bound(s, sql, conversation, m->role, m->created_ms);
    uint8_t digest[DIGEST_BYTES];
    struct db_row row = message_row(conversation, m);
    row.bytes = db_seal(s, &row, 0, m->text, m->n_text);
    struct rest rest = {.tokens = db_seal(s, &row, 1, m->tokens, m->n_tokens * sizeof *m->tokens),
                        .thought_tokens = m->thought.n_tokens,
                        .thought_ms = m->thought.ms};
    struct str more = {0};
    if (m->settings) rest.settings = db_seal(s, &row, 2, m->settings, strlen(m->settings));
    if (m->thought.text) rest.thought = db_seal(s, &row, 3, m->thought.text, m->thought.n);
    put_rest(&more, &rest, &row);
    db_digest(digest, &row);
    str_release(&more);
    int rc = bind_optional(s, q, 4, row.bytes);
    if (rc == SQLITE_OK) rc = db_bind_blob(q, 5, rest.tokens.p, rest.tokens.n);
    if (rc == SQLITE_OK) rc = db_bind_blob(q, 6, digest, sizeof digest);
    if (rc == SQLITE_OK) rc = bind_optional(s, q, 7, rest.settings);
    if (rc == SQLITE_OK) rc = bind_optional(s, q, 8, rest.thought);
    if (rest.thought.p) sqlite3_bind_int64(q, 9, m->thought.n_tokens);
    if (rest.thought.p) sqlite3_bind_int64(q, 10, m->thought.ms);
    if (rc == SQLITE_OK) return db_run(s, q, doing, e);
    rc = db_error(s, doing, e); /* exceeds SQLite's limit */
    db_reset(q);
    return rc;
}

/* Puts a message into a conversation. `digest`: of a message that was written for another one, as
 * transcript_row has it. */
static int list_message(struct store *s, int64_t conversation, int64_t seq, int64_t message,
                        struct db_part digest, const char *doing, struct err *e)
{
    static const char sql[] =
        "INSERT INTO transcript (conversation, seq, message, digest) VALUES (?1, ?2, ?3, ?4)";
    sqlite3_stmt *q = db_bound(s, sql, conversation, seq, message);
    if (digest.p) db_bind_blob(q, 4, digest.p, digest.n);
    return db_run(s, q, doing, e);
}

/* The first user message gives the title. */
static int put_title(struct store *s, int64_t conversation, const char *text, size_t n,
                     const char *doing, struct err *e)
{
    struct store_conversation c;
    char title[STORE_NAME_MAX];
    int rc = db_conversation_by_id(s, conversation, &c, doing, e);
    if (rc < 0) return rc;
    db_title(title, text, n);
    return db_conversation_label(s, conversation, c.name, title, doing, e);
}

/* Counts message number `id` of the table in, and adds it to the index. */
static int count_in(struct store *s, int64_t conversation, int64_t id,
                    const struct store_message *m, bool first_turn, bool now, const char *doing,
                    struct err *e)
{
    /* The conversation that was spoken in last is the newest, even when the clock was set back in
     * between. */
    static const char sql[] =
        "UPDATE conversation SET n_messages = n_messages + 1, n_turns = n_turns + ?2, "
        "n_tokens = n_tokens + ?3, updated_ms = max(?4, CASE WHEN ?5 THEN 1 + coalesce((SELECT "
        "max(updated_ms) FROM conversation WHERE id <> ?1), 0) ELSE 0 END) WHERE id = ?1";
    sqlite3_stmt *q = db_bound(s, sql, conversation, m->role == CHAT_USER, (int64_t)m->n_tokens,
                               m->created_ms, now);
    int rc = db_run(s, q, doing, e);
    if (!rc && first_turn) rc = put_title(s, conversation, m->text, m->n_text, doing, e);
    return rc ? rc : db_search_add(s, id, m->text, m->n_text, doing, e);
}

int store_message_add(struct store *s, int64_t conversation, struct store_message *m, struct err *e)
{
    static const char doing[] = "saving the message";
    struct counts counts;
    bool now = !m->created_ms;
    int rc = db_enter(s, doing, e);
    if (!rc) rc = count_messages(s, conversation, true, &counts, doing, e);
    if (!rc) {
        m->seq = counts.n_messages;
        if (now) m->created_ms = system_unix_ms();
        rc = insert_message(s, conversation, m, doing, e);
    }
    int64_t id = sqlite3_last_insert_rowid(s->db);
    if (!rc) rc = list_message(s, conversation, m->seq, id, (struct db_part){0}, doing, e);
    if (!rc) {
        bool first_turn = m->role == CHAT_USER && counts.n_turns == 0;
        rc = count_in(s, conversation, id, m, first_turn, now, doing, e);
    }
    return db_leave(s, rc, doing, e);
}

static int damaged(struct store *s, const char *what, int64_t seq, int64_t conversation,
                   struct err *e)
{
    const struct db_name name = db_conversation_name(s, conversation);
    return err_set(
        e, ERR_FORMAT,
        "%s %lld of conversation '%s' in %s is damaged (missing, or its checksum is wrong); "
        "`retain export %s` saves the rest; keep a copy of the file",
        what, (long long)seq, name.text, s->shown, name.text);
}

/* ---- walking --------------------------------------------------------------------------------- */

struct walk {
    struct store *store;
    int64_t conversation;
    int (*each)(void *ctx, const struct store_message *m);
    void *ctx;
    int64_t *n_damaged; /* NULL: damage ends the walk */
    sqlite3_stmt *messages, *tail;
    int64_t last_ms;   /* of the last message */
    int64_t position;  /* of the next message */
    struct str text;   /* the opened text, when it is sealed */
    struct str tokens; /* the opened ids, aligned for int32_t, which SQLite's blobs are not */
    struct str settings, thought, rest;
    struct err *err;
};

/* Opens part `index` of a row into *out; the text is NULL when there is none. */
static bool open_part(struct walk *w, const struct db_row *row, int index, struct db_part sealed,
                      struct str *out, const char **text)
{
    struct db_part opened;
    struct str buffer = {0};
    if (!sealed.p) return true;
    bool good = db_open(w->store, row, index, sealed, &buffer, &opened);
    str_clear(out);
    if (good) str_append(out, opened.p, opened.n);
    str_release(&buffer);
    *text = str_get(out);
    return good;
}

/* A column that may be NULL. */
static struct db_part optional_column(sqlite3_stmt *q, int i)
{
    struct db_part part = db_column(q, i);
    if (!part.p && sqlite3_column_type(q, i) != SQLITE_NULL) part.p = "";
    return part;
}

/* A row that lists a message of another origin holds this message's digest, sealed in an encrypted
 * store: only with the key can messages be moved between conversations. */
static struct db_row transcript_row(int64_t conversation, int64_t seq)
{
    return (struct db_row){.table = "transcript", .key = {conversation, seq}};
}

/* Columns origin, digest of the message, digest of the row that lists it. */
static bool belongs(struct store *s, int64_t conversation, int64_t seq, sqlite3_stmt *q,
                    const int columns[3])
{
    struct db_row row = transcript_row(conversation, seq);
    struct db_part listed, digest = db_column(q, columns[1]);
    struct str buffer = {0};
    if (sqlite3_column_int64(q, columns[0]) == conversation) return true;
    bool same = db_open(s, &row, 0, db_column(q, columns[2]), &buffer, &listed) && digest.n > 0 &&
                listed.n == digest.n && !memcmp(listed.p, digest.p, digest.n);
    str_release(&buffer);
    return same;
}

/* Columns 3, 4 and from 6 on, checked and opened. */
static bool open_message(struct walk *w, struct store_message *m)
{
    sqlite3_stmt *q = w->messages;
    struct db_row row = message_row(sqlite3_column_int64(q, 10), m);
    struct rest rest = {.settings = optional_column(q, 6),
                        .thought = optional_column(q, 7),
                        .thought_tokens = sqlite3_column_int64(q, 8),
                        .thought_ms = sqlite3_column_int64(q, 9)};
    struct db_part text, tokens;
    row.bytes.p =
        w->store->key ? sqlite3_column_blob(q, 3) : (const void *)sqlite3_column_text(q, 3);
    row.bytes.n = (size_t)sqlite3_column_bytes(q, 3);
    rest.tokens = tokens = db_column(q, 4);
    put_rest(&w->rest, &rest, &row);
    if (!row.bytes.p || !db_digest_matches(q, 5, &row)) return false;
    if (!belongs(w->store, w->conversation, m->seq, q, (const int[]){10, 5, 11})) return false;
    if (!db_open(w->store, &row, 0, row.bytes, &w->text, &text)) return false;
    if (!open_part(w, &row, 2, rest.settings, &w->settings, &m->settings)) return false;
    if (!open_part(w, &row, 3, rest.thought, &w->thought, &m->thought.text)) return false;
    m->thought.n = m->thought.text ? w->thought.n : 0;
    m->thought.n_tokens = rest.thought_tokens;
    m->thought.ms = rest.thought_ms;
    str_clear(&w->tokens);
    str_append(&w->tokens, tokens.p, tokens.n);
    if (!db_unseal(w->store, &row, 1, w->tokens.data, w->tokens.n, &tokens)) return false;
    memmove(w->tokens.data, tokens.p, tokens.n); /* to the start, which malloc aligned */
    m->text = text.p;
    m->n_text = text.n;
    m->tokens = (const int32_t *)(void *)w->tokens.data;
    m->n_tokens = tokens.n / sizeof *m->tokens;
    return tokens.n % sizeof *m->tokens == 0;
}

int store_message_count(struct store *s, int64_t conversation, int64_t *n, struct err *e)
{
    *n = 0;
    return db_number(s, "SELECT coalesce(max(seq) + 1, 0) FROM transcript WHERE conversation = ?1",
                     conversation, n, "counting messages", e);
}

/* Passes a message marked as damaged in place of message `seq`. A missing message gets the role of
 * the system, so that it is not attributed to the user or the model. */
static int pass_damaged(struct walk *w, int64_t seq, enum chat_role role, const char *text)
{
    struct store_message m = {.seq = seq,
                              .role = role,
                              .text = text ? text : "",
                              .n_text = text ? strlen(text) : 0,
                              .created_ms = w->last_ms,
                              .damaged = true};
    if (!w->n_damaged) return damaged(w->store, "message", seq, w->conversation, w->err);
    ++*w->n_damaged;
    return w->each ? w->each(w->ctx, &m) : 0;
}

/* *expected: the number of this message, then of the next. */
static int walk_message(struct walk *w, int64_t *expected)
{
    sqlite3_stmt *q = w->messages;
    struct store_message m = {.seq = sqlite3_column_int64(q, 0),
                              .role = (enum chat_role)sqlite3_column_int(q, 1),
                              .position = w->position,
                              .created_ms = sqlite3_column_int64(q, 2)};
    bool known = m.role >= CHAT_SYSTEM && m.role <= CHAT_ASSISTANT;
    if (m.seq > *expected && m.seq < INT64_MAX) {
        int rc = pass_damaged(w, *expected, CHAT_SYSTEM, NULL);
        if (rc) return rc;
        *expected = m.seq;
    }
    if (!known || m.seq != *expected || !open_message(w, &m))
        return pass_damaged(w, (*expected)++, known ? m.role : CHAT_SYSTEM,
                            w->store->key ? NULL : (const char *)sqlite3_column_text(q, 3));
    ++*expected;
    w->last_ms = m.created_ms;
    w->position += (int64_t)m.n_tokens;
    return w->each ? w->each(w->ctx, &m) : 0;
}

static int walk_messages(struct walk *w)
{
    int64_t n = 0;
    int rc = 0;
    while (db_next(w->store, w->messages, &rc, reading, w->err)) rc = walk_message(w, &n);
    if (rc) return rc;
    /* The count is stored separately, so a missing last message is noticed too. */
    struct counts counts;
    rc = count_messages(w->store, w->conversation, false, &counts, reading, w->err);
    return !rc && counts.n_messages > n ? pass_damaged(w, n, CHAT_SYSTEM, NULL) : rc;
}

/* In an encrypted store the id is sealed before the text, and the column holds 0. */
static struct db_row tail_row(int64_t conversation, int64_t position, int32_t token)
{
    return (struct db_row){.table = "tail", .key = {conversation, position, token}};
}

/* Columns position, token, text, digest. */
static int read_tail(struct store *s, sqlite3_stmt *q, int64_t conversation, struct str *buffer,
                     struct store_tail *t, struct err *e)
{
    struct db_part text;
    *t = (struct store_tail){.position = sqlite3_column_int64(q, 0),
                             .token = sqlite3_column_int(q, 1)};
    struct db_row row = tail_row(conversation, t->position, t->token);
    row.bytes = db_column(q, 2);
    if (!db_digest_matches(q, 3, &row) || !db_open(s, &row, 0, row.bytes, buffer, &text))
        return damaged(s, "the token at position", t->position, conversation, e);
    t->text = text.p;
    t->n_text = text.n;
    if (s->key && text.n >= sizeof t->token) {
        memcpy(&t->token, text.p, sizeof t->token);
        t->text = (const char *)text.p + sizeof t->token;
        t->n_text -= sizeof t->token;
    }
    return 0;
}

/* The tail as one message. */
static int walk_tail(struct walk *w)
{
    struct str text = {0}, buffer = {0};
    struct store_tail t;
    int rc = 0;
    str_clear(&w->tokens);
    while (db_next(w->store, w->tail, &rc, reading, w->err)) {
        rc = read_tail(w->store, w->tail, w->conversation, &buffer, &t, w->err);
        if (rc) break;
        str_append(&text, t.text, t.n_text);
        str_append(&w->tokens, &t.token, sizeof t.token);
    }
    if (rc == ERR_FORMAT && w->n_damaged) {
        ++*w->n_damaged;
        rc = 0;
    }
    if (!rc && w->tokens.n > 0) {
        struct store_message m = {.seq = -1,
                                  .role = CHAT_ASSISTANT,
                                  .text = str_get(&text),
                                  .n_text = text.n,
                                  .tokens = (const int32_t *)(void *)w->tokens.data,
                                  .n_tokens = w->tokens.n / sizeof(int32_t),
                                  .position = w->position,
                                  .created_ms = w->last_ms};
        rc = w->each ? w->each(w->ctx, &m) : 0;
    }
    str_release(&text);
    str_release(&buffer);
    return rc;
}

int store_message_each(struct store *s, int64_t conversation,
                       int (*each)(void *ctx, const struct store_message *m), void *ctx,
                       struct err *e)
{
    return store_message_rescue(s, conversation, each, ctx, NULL, e);
}

int store_message_rescue(struct store *s, int64_t conversation,
                         int (*each)(void *ctx, const struct store_message *m), void *ctx,
                         int64_t *n_damaged, struct err *e)
{
    struct walk w = {.store = s,
                     .conversation = conversation,
                     .each = each,
                     .ctx = ctx,
                     .n_damaged = n_damaged,
                     .err = e};
    int rc = store_begin_reading(s, e);
    if (rc) return rc;
    rc = db_prepare(s,
                    "SELECT t.seq, m.role, m.created_ms, m.text, m.tokens, m.digest, m.settings, "
                    "m.thought, m.thought_tokens, m.thought_ms, m.origin, t.digest "
                    "FROM transcript AS t LEFT JOIN message AS m ON m.id = t.message "
                    "WHERE t.conversation = ?1 ORDER BY t.seq",
                    conversation, &w.messages, reading, e);
    if (!rc)
        rc = db_prepare(s,
                        "SELECT position, token, text, digest FROM tail "
                        "WHERE conversation = ?1 ORDER BY position",
                        conversation, &w.tail, reading, e);
    if (!rc) rc = walk_messages(&w);
    if (!rc) rc = walk_tail(&w);
    sqlite3_finalize(w.messages);
    sqlite3_finalize(w.tail);
    store_end_reading(s);
    str_release(&w.text);
    str_release(&w.tokens);
    str_release(&w.settings);
    str_release(&w.thought);
    str_release(&w.rest);
    return rc;
}

/* ---- the running answer ---------------------------------------------------------------------- */

static struct db_row tail_rest_row(int64_t conversation, int64_t position)
{
    return (struct db_row){.table = "tail units", .key = {conversation, position}};
}

/* The units as the entry of the log that they become (store_tail_keep). */
static struct store_segment tail_units(const struct store_tail *t)
{
    return (struct store_segment){.layer = (int)(t->position - 1),
                                  .kind = STORE_UNITS,
                                  .bytes = t->units,
                                  .n_bytes = t->n_units};
}

static void bind_tail_text(struct store *s, sqlite3_stmt *q, int64_t conversation,
                           const struct store_tail *t, uint8_t digest[DIGEST_BYTES])
{
    struct db_row row = tail_row(conversation, t->position, s->key ? 0 : t->token);
    row.bytes = (struct db_part){t->n_text ? t->text : "", t->n_text};
    if (s->key) {
        /* Uses the other column's buffer, which is free at this point. */
        struct str *both = &s->sealed[1];
        str_clear(both);
        str_append(both, &t->token, sizeof t->token);
        str_append(both, t->text, t->n_text);
        row.bytes = db_seal(s, &row, 0, both->data, both->n);
    }
    db_digest(digest, &row);
    sqlite3_bind_int(q, 3, s->key ? 0 : t->token);
    db_bind_blob(q, 4, row.bytes.p, row.bytes.n);
    db_bind_blob(q, 5, digest, DIGEST_BYTES);
}

static int add_tail(struct store *s, int64_t conversation, const struct store_tail *t,
                    const char *doing, struct err *e)
{
    static const char sql[] =
        "INSERT INTO tail (conversation, position, token, text, digest, units_digest, units, blob) "
        "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
    sqlite3_stmt *q = db_bound(s, sql, conversation, t->position);
    uint8_t digest[DIGEST_BYTES], rest_digest[DIGEST_BYTES];
    const struct store_segment units = tail_units(t);
    int64_t stored_bytes;
    int rc = t->n_units ? db_blob_put(s, conversation, &units, &stored_bytes, doing, e) : 0;
    if (rc) return rc;
    if (t->n_units) sqlite3_bind_int64(q, 8, sqlite3_last_insert_rowid(s->db));
    bind_tail_text(s, q, conversation, t, digest);
    if (t->n_rest) {
        struct db_row row = tail_rest_row(conversation, t->position);
        row.bytes = db_seal(s, &row, 1, t->rest, t->n_rest);
        db_digest(rest_digest, &row);
        db_bind_blob(q, 6, rest_digest, sizeof rest_digest);
        db_bind_blob(q, 7, row.bytes.p, row.bytes.n);
    }
    return db_run(s, q, doing, e);
}

int store_tail_add(struct store *s, int64_t conversation, const struct store_tail *t, struct err *e)
{
    static const char doing[] = "saving the answer";
    int rc = db_enter(s, doing, e);
    return rc ? rc : db_leave(s, add_tail(s, conversation, t, doing, e), doing, e);
}

/* Columns units_digest, units (the rest), then digest and bytes of the units' blob. */
static bool read_tail_units(struct store *s, sqlite3_stmt *q, int64_t conversation,
                            struct str buffers[2], struct store_tail *t)
{
    struct db_row row = tail_rest_row(conversation, t->position);
    const struct store_segment g = tail_units(t);
    struct db_part units = {0}, rest = {0};
    row.bytes = db_column(q, 5);
    if (row.bytes.n > 0 &&
        (!db_digest_matches(q, 4, &row) || !db_open(s, &row, 1, row.bytes, &buffers[0], &rest)))
        return false;
    if (sqlite3_column_bytes(q, 7) > 0 &&
        !db_blob_column(s, q, 6, conversation, &g, &buffers[1], &units))
        return false;
    t->units = units.p;
    t->n_units = units.n;
    t->rest = rest.p;
    t->n_rest = rest.n;
    return true;
}

int store_tail_each(struct store *s, int64_t conversation,
                    int (*each)(void *ctx, const struct store_tail *t), void *ctx, struct err *e)
{
    struct str text = {0}, units[2] = {{0}};
    struct store_tail t;
    sqlite3_stmt *q;
    int rc = db_prepare(s,
                        "SELECT t.position, t.token, t.text, t.digest, t.units_digest, t.units, "
                        "b.digest, b.bytes FROM tail AS t LEFT JOIN blob AS b ON b.id = t.blob "
                        "WHERE t.conversation = ?1 ORDER BY t.position",
                        conversation, &q, reading, e);
    while (db_next(s, q, &rc, reading, e)) {
        rc = read_tail(s, q, conversation, &text, &t, e);
        if (!rc && !read_tail_units(s, q, conversation, units, &t))
            rc = damaged(s, "the saved cache at position", t.position, conversation, e);
        if (!rc && each) rc = each(ctx, &t);
    }
    sqlite3_finalize(q);
    str_release(&text);
    for (int i = 0; i < 2; i++) str_release(&units[i]);
    return rc;
}

int store_tail_clear(struct store *s, int64_t conversation, struct err *e)
{
    sqlite3_stmt *q = db_bound(s, "DELETE FROM tail WHERE conversation = ?1", conversation);
    return db_write(s, q, "closing the answer", e);
}

/* ---- going back ------------------------------------------------------------------------------ */

/* Counts the remaining messages after some were removed. */
static int recount(struct store *s, int64_t conversation, const char *doing, struct err *e)
{
    static const char sums[] =
        "SELECT count(*), coalesce(sum(m.role = 1), 0), coalesce(sum(length(m.tokens)), 0) FROM "
        "transcript AS t LEFT JOIN message AS m ON m.id = t.message WHERE t.conversation = ?1";
    static const char put[] =
        "UPDATE conversation SET n_messages = ?2, n_turns = ?3, n_tokens = ?4 "
        "WHERE id = ?1";
    sqlite3_stmt *q = db_bound(s, sums, conversation);
    int rc = db_step(s, q, doing, e);
    if (rc < 0) return rc;
    int64_t n = rc ? sqlite3_column_int64(q, 0) : 0;
    int64_t bytes = rc ? sqlite3_column_int64(q, 2) - n * (int64_t)db_sealed_extra(s) : 0;
    int64_t n_turns = rc ? sqlite3_column_int64(q, 1) : 0;
    db_reset(q);
    q = db_bound(s, put, conversation, n, n_turns, bytes / (int64_t)sizeof(int32_t));
    return db_run(s, q, doing, e);
}

int db_message_cut(struct store *s, int64_t conversation, int64_t n_messages, const char *doing,
                   struct err *e)
{
    static const char sql[] = "DELETE FROM transcript WHERE conversation = ?1 AND seq >= ?2";
    int rc = db_search_cut(s, conversation, n_messages, doing, e);
    if (rc) return rc;
    db_begin_removing(s);
    rc = db_run(s, db_bound(s, sql, conversation, n_messages), doing, e);
    db_end_removing(s);
    return rc;
}

int store_rewind(struct store *s, int64_t conversation, int64_t n_messages, int64_t seq,
                 struct err *e)
{
    static const char doing[] = "going back in the conversation";
    static const char cut[] = "DELETE FROM checkpoint WHERE conversation = ?1 AND seq > ?2";
    int rc = db_enter(s, doing, e);
    if (!rc) rc = db_message_cut(s, conversation, n_messages, doing, e);
    if (!rc) rc = db_run(s, db_bound(s, cut, conversation, seq), doing, e);
    if (!rc) rc = store_tail_clear(s, conversation, e);
    if (!rc) rc = store_segment_delete(s, conversation, -1, seq + 1, INT64_MAX, e);
    if (!rc) rc = recount(s, conversation, doing, e);
    return db_leave(s, rc, doing, e);
}

/* ---- copies ---------------------------------------------------------------------------------- */

struct copy {
    struct store *from, *to;
    int64_t n_messages, seq;
    struct store_conversation *made;
    struct err *e;
};

static int copy_message(void *ctx, const struct store_message *m)
{
    struct copy *c = ctx;
    struct store_message copy = *m;
    if (m->seq < 0 || m->seq >= c->n_messages) return 0; /* the tail is copied as it is */
    return store_message_add(c->to, c->made->id, &copy, c->e);
}

static int copy_tail(void *ctx, const struct store_tail *t)
{
    struct copy *c = ctx;
    return store_tail_add(c->to, c->made->id, t, c->e);
}

static int copy_tag(void *ctx, const char *tag)
{
    struct copy *c = ctx;
    return store_tag_add(c->to, c->made->id, tag, c->e);
}

static int copy_segment(void *ctx, const struct store_segment *g)
{
    struct copy *c = ctx;
    return g->seq > c->seq ? 0 : store_segment_put(c->to, c->made->id, g, c->e);
}

static int copy_piece(void *ctx, const struct store_segment *g)
{
    struct copy *c = ctx;
    return g->seq > c->seq ? 0 : db_piece_copy(c->to, c->made->id, g, c->e);
}

static int copy_checkpoint(void *ctx, const struct store_checkpoint *p)
{
    struct copy *c = ctx;
    return p->seq > c->seq ? 0 : store_checkpoint_put(c->to, c->made->id, p, c->e);
}

/* Lists one message of `id` in the copy; columns as in share_messages. */
static int share_message(struct copy *c, int64_t id, sqlite3_stmt *q, const char *doing)
{
    struct store *s = c->to;
    int64_t seq = sqlite3_column_int64(q, 0);
    struct db_row row = transcript_row(c->made->id, seq);
    const struct db_part digest = db_column(q, 3);
    if (!digest.p || !belongs(s, id, seq, q, (const int[]){2, 3, 4}))
        return damaged(s, "message", seq, id, c->e);
    struct db_part sealed = db_seal(s, &row, 0, digest.p, digest.n);
    return list_message(s, row.key[0], seq, sqlite3_column_int64(q, 1), sealed, doing, c->e);
}

/* Inside one store: lists the first n_messages of `id` in the copy, too. */
static int share_messages(struct copy *c, int64_t id, const char *title)
{
    static const char doing[] = "branching off the conversation";
    struct store *s = c->to;
    struct counts counts;
    sqlite3_stmt *q = NULL;
    int64_t n = 0;
    int rc = count_messages(s, id, false, &counts, doing, c->e);
    if (!rc)
        rc = db_prepare(s,
                        "SELECT t.seq, t.message, m.origin, m.digest, t.digest FROM transcript "
                        "AS t LEFT JOIN message AS m ON m.id = t.message WHERE t.conversation = ?1 "
                        "AND t.seq < ?2 ORDER BY t.seq",
                        id, &q, doing, c->e);
    sqlite3_bind_int64(q, 2, c->n_messages);
    for (; db_next(s, q, &rc, doing, c->e); n++) rc = share_message(c, id, q, doing);
    sqlite3_finalize(q);
    int64_t expected = c->n_messages < counts.n_messages ? c->n_messages : counts.n_messages;
    if (!rc && n < expected) rc = damaged(s, "message", n, id, c->e);
    if (!rc) rc = recount(s, c->made->id, doing, c->e);
    if (!rc) rc = count_messages(s, c->made->id, false, &counts, doing, c->e);
    if (rc || counts.n_turns == 0) return rc;
    return db_conversation_label(s, c->made->id, c->made->name, title, doing, c->e);
}

/* Inside one store: adds rows that point to the same bytes. */
static int share_cache(struct copy *c, int64_t id)
{
    static const char doing[] = "branching off the saved cache";
    static const char *const share[] = {
        "INSERT INTO segment (conversation, layer, seq, kind, origin, blob) "
        "SELECT ?2, layer, seq, kind, origin, blob FROM segment "
        "WHERE conversation = ?1 AND seq <= ?3",
        "INSERT INTO checkpoint (conversation, seq, n_run, digest) SELECT ?2, seq, n_run, digest "
        "FROM checkpoint WHERE conversation = ?1 AND seq <= ?3"};
    struct store *s = c->to;
    int rc = 0;
    for (int i = 0; !rc && i < 2; i++)
        rc = db_run(s, db_bound(s, share[i], id, c->made->id, c->seq), doing, c->e);
    return rc ? rc : db_cache_recount(s, c->made->id, doing, c->e);
}

static int copy_text(struct copy *c, const struct store_conversation *original)
{
    int64_t id = original->id;
    int rc = c->from == c->to ? share_messages(c, id, original->title)
                              : store_message_each(c->from, id, copy_message, c, c->e);
    if (!rc && c->n_messages == INT64_MAX) rc = store_tail_each(c->from, id, copy_tail, c, c->e);
    return rc ? rc : store_tag_each(c->from, id, copy_tag, c, c->e);
}

static int copy_cache(struct copy *c, int64_t id)
{
    if (c->from == c->to) return share_cache(c, id);
    int rc = store_segment_each(c->from, id, -1, copy_segment, c, c->e);
    if (!rc) rc = store_segment_each(c->from, id, STORE_PIECES, copy_piece, c, c->e);
    return rc ? rc : store_checkpoint_each(c->from, id, copy_checkpoint, c, c->e);
}

static int copy_state(struct copy *c, int64_t id)
{
    char *state = NULL;
    int rc = store_state_get(c->from, id, &state, c->e);
    if (!rc) rc = store_state_put(c->to, c->made->id, state, c->e);
    free(state);
    return rc;
}

int store_conversation_copy(struct store *from, int64_t id, int64_t n_messages, int64_t seq,
                            struct store *to, const char *name, struct store_conversation *out,
                            struct err *e)
{
    static const char doing[] = "copying the conversation";
    struct copy c = {from, to, n_messages, seq, out, e};
    struct store_conversation original;
    int rc = db_enter(to, doing, e);
    if (!rc) rc = store_begin_reading(from, e);
    if (rc) return db_leave(to, rc, doing, e);
    rc = db_conversation_by_id(from, id, &original, doing, e);
    if (rc >= 0) rc = store_conversation_create(to, name, out, e);
    if (!rc) rc = copy_text(&c, &original);
    if (!rc && seq >= 0) rc = copy_cache(&c, id);
    if (!rc) rc = copy_state(&c, id);
    if (!rc)
        rc = store_conversation_times(to, out->id, original.created_ms, original.updated_ms, e);
    if (!rc) rc = db_conversation_by_id(to, out->id, out, doing, e);
    store_end_reading(from);
    return db_leave(to, rc < 0 ? rc : 0, doing, e);
}

int store_conversation_take(struct store *s, int64_t from, int64_t id, struct err *e)
{
    struct store_conversation own;
    struct copy c = {s, s, INT64_MAX, INT64_MAX, &own, e};
    int rc = store_rewind(s, id, 0, -1, e);
    if (!rc) rc = db_conversation_by_id(s, id, &own, "looking for the conversation", e);
    if (rc > 0) rc = share_messages(&c, from, own.title);
    return rc ? rc : share_cache(&c, from);
}
