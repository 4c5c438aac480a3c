/* store_kit: a store in a temporary folder, and helpers to write to it and check it. */
#ifndef RETAIN_TESTS_STORE_KIT_H
#define RETAIN_TESTS_STORE_KIT_H

#include "tests/test.h"

#include <sqlite3.h>
#include <sys/stat.h>

#include "base/str.h"
#include "store/store.h"

struct fixture {
    const char *folder;
    char path[128];
    struct store *s;
};

/* ---- helpers --------------------------------------------------------------------------------- */

static inline int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    f->folder = folder_new();
    snprintf(f->path, sizeof f->path, "%s/a/b/retain.db", f->folder);
    *state = f;
    return store_open(&f->s, f->path, NULL, &err);
}

static inline int teardown(void **state)
{
    struct fixture *f = *state;
    store_close(f->s);
    free(f);
    return 0;
}

/* A test with a store of its own, *f. */
#define STORE_TEST(name)                      \
    static void name##_in(struct fixture *f); \
    TEST_WITH(name, setup, teardown)          \
    {                                         \
        name##_in(*state);                    \
    }                                         \
    static void name##_in(struct fixture *f)

static inline void reopen(struct fixture *f)
{
    store_close(f->s);
    f->s = NULL;
    ok(store_open(&f->s, f->path, NULL, &err));
}

/* Changes the file without the store. */
static inline void tamper(struct fixture *f, const char *sql)
{
    sqlite3 *db;
    char *said = NULL;
    assert_int_equal(sqlite3_open(f->path, &db), SQLITE_OK);
    if (sqlite3_exec(db, sql, NULL, NULL, &said) != SQLITE_OK) fail_msg("%s: %s", sql, said);
    assert_true(sqlite3_changes(db) > 0);
    sqlite3_close(db);
}

static inline int64_t begin_named(struct fixture *f, const char *name)
{
    struct store_conversation c;
    ok(store_conversation_create(f->s, name, &c, &err));
    return c.id;
}

static inline void say(struct fixture *f, int64_t id, enum chat_role role, const char *text)
{
    static const int32_t tokens[] = {1, -2, 2147483647};
    struct store_message m = {
        .role = role, .text = text, .n_text = strlen(text), .tokens = tokens, .n_tokens = 3};
    ok(store_message_add(f->s, id, &m, &err));
}

/* Notes everything that a walk returned, as text. */
static inline int note_message(void *ctx, const struct store_message *m)
{
    struct str *s = ctx;
    assert_int_equal(m->text[m->n_text], 0);
    str_printf(s, "%lld/%d/", (long long)m->seq, (int)m->role);
    str_append(s, m->text, m->n_text);
    for (size_t i = 0; i < m->n_tokens; i++) str_printf(s, "/%d", m->tokens[i]);
    str_puts(s, ";");
    return 0;
}

static inline void assert_messages(struct fixture *f, int64_t id, const char *expected)
{
    AUTO_STR s = {0};
    ok(store_message_each(f->s, id, note_message, &s, &err));
    assert_string_equal(str_get(&s), expected);
}

static inline int note_segment(void *ctx, const struct store_segment *g)
{
    struct str *s = ctx;
    str_printf(s, "%d/%lld/%s", g->layer, (long long)g->seq, g->kind == STORE_EVICTED ? "-" : "");
    str_append(s, g->bytes, g->n_bytes);
    str_puts(s, ";");
    return 0;
}

static inline void assert_segments(struct fixture *f, int64_t id, const char *expected)
{
    AUTO_STR s = {0};
    ok(store_segment_each(f->s, id, -1, note_segment, &s, &err));
    assert_string_equal(str_get(&s), expected);
}

static inline void keep(struct fixture *f, int64_t id, int layer, int64_t seq, const char *bytes)
{
    struct store_segment g = {.seq = seq,
                              .layer = layer,
                              .kind = STORE_WINDOWS,
                              .bytes = bytes,
                              .n_bytes = strlen(bytes)};
    if (*bytes == '-') {
        g.kind = STORE_EVICTED;
        g.bytes = bytes + 1;
        g.n_bytes--;
    }
    ok(store_segment_put(f->s, id, &g, &err));
}

static inline int note_tail(void *ctx, const struct store_tail *t)
{
    struct str *s = ctx;
    str_printf(s, "%lld/%d/%.*s/%.*s;", (long long)t->position, t->token, (int)t->n_text,
               (const char *)t->text, (int)t->n_units, (const char *)t->units);
    return 0;
}

static inline void assert_tail(struct fixture *f, int64_t id, const char *expected)
{
    AUTO_STR s = {0};
    ok(store_tail_each(f->s, id, note_tail, &s, &err));
    assert_string_equal(str_get(&s), expected);
}

static inline void grow(struct fixture *f, int64_t id, int64_t position, const char *text,
                        const char *units)
{
    struct store_tail t = {.position = position,
                           .token = (int32_t)position * 10,
                           .text = text,
                           .n_text = strlen(text),
                           .units = units,
                           .n_units = strlen(units)};
    ok(store_tail_add(f->s, id, &t, &err));
}

static inline struct store_conversation look(struct fixture *f, const char *name)
{
    struct store_conversation c;
    assert_int_equal(store_conversation_find(f->s, name, &c, &err), 1);
    return c;
}

/* The result of a query for one number, on a separate connection. */
static inline int64_t query_number(struct fixture *f, const char *sql)
{
    sqlite3 *db;
    sqlite3_stmt *q;
    assert_int_equal(sqlite3_open(f->path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &q, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(q), SQLITE_ROW);
    int64_t n = sqlite3_column_int64(q, 0);
    sqlite3_finalize(q);
    sqlite3_close(db);
    return n;
}

static inline int64_t count_rows(struct fixture *f, const char *table)
{
    char sql[64];
    snprintf(sql, sizeof sql, "SELECT count(*) FROM %s", table);
    return query_number(f, sql);
}

static inline int count_hit(void *ctx, const struct store_hit *h)
{
    ++*(int *)ctx;
    assert_true(h->role <= CHAT_ASSISTANT);
    return h->snippet ? 0 : 1;
}

static inline int count_hits(struct fixture *f, const char *text)
{
    int n = 0;
    ok(store_search(f->s, text, count_hit, &n, &err));
    return n;
}

static inline int note_checkpoint(void *ctx, const struct store_checkpoint *c)
{
    str_printf(ctx, "%lld/%lld;", (long long)c->seq, (long long)c->n_run);
    return 0;
}

static inline void assert_checkpoints(struct fixture *f, int64_t id, const char *expected)
{
    AUTO_STR s = {0};
    ok(store_checkpoint_each(f->s, id, note_checkpoint, &s, &err));
    assert_string_equal(str_get(&s), expected);
}

static inline void point(struct fixture *f, int64_t id, int64_t seq, int64_t n_run)
{
    struct store_checkpoint c = {seq, n_run};
    ok(store_checkpoint_put(f->s, id, &c, &err));
}

/* Two turns with a cache, as a session writes them. */
static inline int64_t begin_two_turns(struct fixture *f, const char *name)
{
    int64_t id = begin_named(f, name);
    say(f, id, CHAT_USER, "first question");
    keep(f, id, 0, 0, "units of turn one");
    point(f, id, 0, 5);
    say(f, id, CHAT_ASSISTANT, "first answer");
    say(f, id, CHAT_USER, "second question");
    keep(f, id, 0, 1, "units of turn two");
    keep(f, id, 0, 2, "-some");
    point(f, id, 2, 11);
    ok(store_state_put(f->s, id, "opaque words", &err));
    grow(f, id, 12, "se", "");
    return id;
}

static inline int note_hit(void *ctx, const struct store_hit *h)
{
    str_printf(ctx, "%s/%lld/%s;", h->conversation->name, (long long)h->seq, h->snippet);
    return 0;
}

static inline void assert_found(struct fixture *f, const char *text, const char *expected)
{
    AUTO_STR s = {0};
    ok(store_search(f->s, text, note_hit, &s, &err));
    assert_string_equal(str_get(&s), expected);
}

static inline void say_things_to_find(struct fixture *f)
{
    int64_t a = begin_named(f, "garden"), b = begin_named(f, "kitchen plan");
    say(f, a, CHAT_USER, "Where do tulips grow?");
    say(f, a, CHAT_ASSISTANT, "In the sun. \"Café\" roses do too.");
    say(f, b, CHAT_USER, "何時に郵便局が開きますか");
    say(f, b, CHAT_ASSISTANT, "An oven, two tulip vases and C++ books.");
}

#endif
