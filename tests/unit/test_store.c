/* store: what goes in comes out, whatever is not ours or damaged is named, and one writer per
 * conversation. Faults while writing are in tests/fault/test_store_fault.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <sodium.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "runtime/base/str.h"
#include "store/store.h"

struct fixture {
    char folder[64];
    char path[128];
    struct store *s;
};

static struct err err;

/* ---- helpers --------------------------------------------------------------------------------- */

static void ok(int rc)
{
    if (rc < 0) fail_msg("%d: %s", rc, err.text);
}

static void refused(int rc, int code, const char *said)
{
    if (rc != code || !strstr(err.text, said))
        fail_msg("%d \"%s\", expected %d \"%s\"", rc, err.text, code, said);
    assert_null(strchr(err.text, '\n'));
    memset(&err, 0, sizeof err);
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    snprintf(f->folder, sizeof f->folder, "/tmp/retain_store_XXXXXX");
    if (!f || !mkdtemp(f->folder)) return -1;
    snprintf(f->path, sizeof f->path, "%s/a/b/retain.db", f->folder);
    *state = f;
    return store_open(&f->s, f->path, &err);
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    char command[192];
    store_close(f->s);
    snprintf(command, sizeof command, "chmod -R u+w %s; rm -rf %s", f->folder, f->folder);
    int rc = system(command);
    free(f);
    return rc;
}

static void reopen(struct fixture *f)
{
    store_close(f->s);
    f->s = NULL;
    ok(store_open(&f->s, f->path, &err));
}

/* Changes the file behind the store's back. */
static void tamper(struct fixture *f, const char *sql)
{
    sqlite3 *db;
    char *said = NULL;
    assert_int_equal(sqlite3_open(f->path, &db), SQLITE_OK);
    if (sqlite3_exec(db, sql, NULL, NULL, &said) != SQLITE_OK) fail_msg("%s: %s", sql, said);
    assert_true(sqlite3_changes(db) > 0);
    sqlite3_close(db);
}

static int64_t begin_named(struct fixture *f, const char *name)
{
    struct store_conversation c;
    ok(store_conversation_create(f->s, name, &c, &err));
    return c.id;
}

static void say(struct fixture *f, int64_t id, enum store_role role, const char *text)
{
    static const int32_t tokens[] = {1, -2, 2147483647};
    struct store_message m = {
        .role = role, .text = text, .n_text = strlen(text), .tokens = tokens, .n_tokens = 3};
    ok(store_message_add(f->s, id, &m, &err));
}

/* Everything a walk saw, as text. */
static int note_message(void *ctx, const struct store_message *m)
{
    struct str *s = ctx;
    assert_int_equal(m->text[m->n_text], 0);
    str_printf(s, "%lld/%d/", (long long)m->seq, (int)m->role);
    str_append(s, m->text, m->n_text);
    for (size_t i = 0; i < m->n_tokens; i++) str_printf(s, "/%d", m->tokens[i]);
    str_puts(s, ";");
    return 0;
}

static void assert_messages(struct fixture *f, int64_t id, const char *expected)
{
    struct str s = {0};
    ok(store_message_each(f->s, id, note_message, &s, &err));
    assert_string_equal(str_get(&s), expected);
    str_release(&s);
}

static int note_segment(void *ctx, const struct store_segment *g)
{
    struct str *s = ctx;
    str_printf(s, "%d/%lld/%s", g->layer, (long long)g->seq, g->kind == STORE_GONE ? "-" : "");
    str_append(s, g->bytes, g->n_bytes);
    str_puts(s, ";");
    return 0;
}

static void assert_segments(struct fixture *f, int64_t id, const char *expected)
{
    struct str s = {0};
    ok(store_segment_each(f->s, id, -1, note_segment, &s, &err));
    assert_string_equal(str_get(&s), expected);
    str_release(&s);
}

static void keep(struct fixture *f, int64_t id, int layer, int64_t seq, const char *bytes)
{
    struct store_segment g = {.seq = seq, .layer = layer, .bytes = bytes, .n_bytes = strlen(bytes)};
    if (*bytes == '-') {
        g.kind = STORE_GONE;
        g.bytes = bytes + 1;
        g.n_bytes--;
    }
    ok(store_segment_put(f->s, id, &g, &err));
}

static int note_tail(void *ctx, const struct store_tail *t)
{
    struct str *s = ctx;
    str_printf(s, "%lld/%d/%.*s/%.*s;", (long long)t->position, t->token, (int)t->n_text,
               (const char *)t->text, (int)t->n_units, (const char *)t->units);
    return 0;
}

static void assert_tail(struct fixture *f, int64_t id, const char *expected)
{
    struct str s = {0};
    ok(store_tail_each(f->s, id, note_tail, &s, &err));
    assert_string_equal(str_get(&s), expected);
    str_release(&s);
}

static void grow(struct fixture *f, int64_t id, int64_t position, const char *text,
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

static struct store_conversation look(struct fixture *f, const char *name)
{
    struct store_conversation c;
    assert_int_equal(store_conversation_find(f->s, name, &c, &err), 1);
    return c;
}

static int64_t count_rows(struct fixture *f, const char *table)
{
    sqlite3 *db;
    sqlite3_stmt *q;
    char sql[64];
    snprintf(sql, sizeof sql, "SELECT count(*) FROM %s", table);
    assert_int_equal(sqlite3_open(f->path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &q, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(q), SQLITE_ROW);
    int64_t n = sqlite3_column_int64(q, 0);
    sqlite3_finalize(q);
    sqlite3_close(db);
    return n;
}

static int count_hit(void *ctx, const struct store_hit *h)
{
    ++*(int *)ctx;
    return h->snippet ? 0 : 1;
}

static int count_hits(struct fixture *f, const char *text)
{
    int n = 0;
    ok(store_search(f->s, text, count_hit, &n, &err));
    return n;
}

/* ---- conversations --------------------------------------------------------------------------- */

static void conversations_come_and_go(void **state)
{
    struct fixture *f = *state;
    struct store_conversation c;
    assert_int_equal(store_conversation_latest(f->s, &c, &err), 0);
    ok(store_conversation_create(f->s, NULL, &c, &err));
    assert_string_equal(c.name, "chat-1");
    assert_true(c.created_ms > 1600000000000);
    ok(store_conversation_create(f->s, "", &c, &err));
    assert_string_equal(c.name, "chat-2");
    begin_named(f, "chat-41");
    begin_named(f, "chat--9999");
    begin_named(f, "chat-99999999999999999999");
    begin_named(f, "chat-x");
    ok(store_conversation_create(f->s, NULL, &c, &err));
    assert_string_equal(c.name, "chat-42");
    int64_t id = begin_named(f, "Ferien im Süden 日本");
    assert_int_equal(look(f, "Ferien im Süden 日本").id, id);
    assert_int_equal(store_conversation_find(f->s, "ferien", &c, &err), 0);
    ok(store_conversation_rename(f->s, id, "trip", &err));
    ok(store_conversation_rename(f->s, id, "trip", &err)); /* its own name is free */
    refused(store_conversation_rename(f->s, id, "chat-1", &err), ERR_USAGE, "'chat-1' already");
    refused(store_conversation_create(f->s, "trip", &c, &err), ERR_USAGE, "'trip' already");
    refused(store_conversation_rename(f->s, 999, "z", &err), ERR_FAIL, "number 999");
    ok(store_conversation_delete(f->s, id, &err));
    assert_int_equal(store_conversation_find(f->s, "trip", &c, &err), 0);
    refused(store_conversation_delete(f->s, id, &err), ERR_FAIL, "deleted in another");
    assert_true(begin_named(f, "trip") > id); /* an id is not used twice */
}

static void bad_names(void **state)
{
    struct fixture *f = *state;
    struct store_conversation c;
    char name[200];
    memset(name, 'x', sizeof name);
    name[127] = 0;
    begin_named(f, name);
    assert_string_equal(look(f, name).name, name);
    name[127] = 'x';
    name[128] = 0;
    refused(store_conversation_create(f->s, name, &c, &err), ERR_USAGE, "128 bytes");
    static const char *const bad[] = {"a\nb",    "\x1b[31m", "\x7f",         "\xff",
                                      "a\xc3",   "\xc0\x80", "\xed\xa0\x80", "\xf5\x80\x80\x80",
                                      "\xc2\x85"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        refused(store_conversation_create(f->s, bad[i], &c, &err), ERR_USAGE, "control characters");
    refused(store_conversation_rename(f->s, 1, "", &err), ERR_USAGE, "empty");
}

static int note_name(void *ctx, const struct store_conversation *c)
{
    str_printf(ctx, "%s ", c->name);
    return 0;
}

static int stop_at_second(void *ctx, const struct store_conversation *c)
{
    (void)c;
    return ++*(int *)ctx == 2 ? 77 : 0;
}

static void list_is_newest_first(void **state)
{
    struct fixture *f = *state;
    struct store_conversation c;
    struct str s = {0};
    int64_t a = begin_named(f, "a");
    begin_named(f, "b");
    begin_named(f, "c");
    usleep(3000);
    say(f, a, STORE_USER, "hello");
    ok(store_conversation_list(f->s, note_name, &s, &err));
    assert_string_equal(str_get(&s), "a c b ");
    str_release(&s);
    assert_int_equal(store_conversation_latest(f->s, &c, &err), 1);
    assert_string_equal(c.name, "a");
    int n = 0;
    assert_int_equal(store_conversation_list(f->s, stop_at_second, &n, &err), 77);
    assert_int_equal(n, 2);
}

static void assert_title(struct fixture *f, const char *said, const char *expected)
{
    struct store_conversation c;
    ok(store_conversation_create(f->s, NULL, &c, &err));
    say(f, c.id, STORE_SYSTEM, "You are a parrot.");
    say(f, c.id, STORE_USER, said);
    say(f, c.id, STORE_USER, "and another");
    assert_string_equal(look(f, c.name).title, expected);
}

static void titles(void **state)
{
    struct fixture *f = *state;
    assert_title(f, "hello", "hello");
    assert_title(f, "", "");
    assert_title(f, "\n \n  what\tis \x1b[1m this?  \nmore", "what is [1m this?");
    assert_title(f, "bad \xff bytes\x01 go", "bad bytes go");
    assert_title(f, "one two three four five six seven eight nine ten eleven twelve thirteen",
                 "one two three four five six seven eight nine ten eleven…");
    char text[400] = "", expected[400] = "";
    for (int i = 0; i < 80; i++) strcat(text, "é");
    for (int i = 0; i < 60; i++) strcat(expected, "é");
    assert_title(f, text, strcat(expected, "…"));
    text[0] = expected[0] = 0;
    for (int i = 0; i < 40; i++) strcat(text, "漢");
    for (int i = 0; i < 30; i++) strcat(expected, "漢");
    assert_title(f, text, strcat(expected, "…"));
    text[0] = expected[0] = 0;
    for (int i = 0; i < 60; i++) strcat(text, "\xf0\x9d\x92\xb3"); /* four bytes, one column */
    for (int i = 0; i < 31; i++) strcat(expected, "\xf0\x9d\x92\xb3");
    assert_title(f, text, strcat(expected, "…"));
}

static void counters_follow(void **state)
{
    struct fixture *f = *state;
    int64_t id = begin_named(f, "n");
    say(f, id, STORE_USER, "a");
    say(f, id, STORE_ASSISTANT, "b");
    say(f, id, STORE_USER, "c");
    keep(f, id, 0, 0, "12345");
    keep(f, id, 1, 0, "678");
    keep(f, id, 1, 1, "-what went is not counted");
    struct store_conversation c = look(f, "n");
    assert_int_equal(c.n_turns, 2);
    assert_int_equal(c.n_tokens, 9);
    assert_int_equal(c.cache_bytes, 8);
    ok(store_segment_delete(f->s, id, 0, 0, 9, &err));
    ok(store_segment_delete(f->s, id, 0, 0, 9, &err)); /* none left: nothing to do */
    assert_int_equal(look(f, "n").cache_bytes, 3);
    ok(store_cache_drop(f->s, id, &err));
    assert_int_equal(look(f, "n").cache_bytes, 0);
    assert_int_equal(look(f, "n").n_tokens, 9);
}

static int64_t now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static int count_conversation(void *ctx, const struct store_conversation *c)
{
    *(int *)ctx += c->n_turns == 1 && c->title[0] == 'h';
    return 0;
}

static void ten_thousand_conversations(void **state)
{
    struct fixture *f = *state;
    struct store_conversation c;
    ok(store_begin(f->s, &err));
    for (int i = 0; i < 10000; i++) {
        char name[32];
        snprintf(name, sizeof name, "talk %d", i);
        ok(store_conversation_create(f->s, name, &c, &err));
        say(f, c.id, STORE_USER, "hello, what is the weather like on the moon today?");
    }
    ok(store_commit(f->s, &err));
    int n = 0;
    int64_t t = now_us();
    ok(store_conversation_list(f->s, count_conversation, &n, &err));
    t = now_us() - t;
    print_message("10,000 conversations listed in %lld us\n", (long long)t);
    assert_int_equal(n, 10000);
#ifndef __SANITIZE_ADDRESS__
    assert_true(t < 500000); /* ten times the aim: the machine may be busy */
#endif
}

/* ---- transcript ------------------------------------------------------------------------------ */

static void messages_round_trip(void **state)
{
    struct fixture *f = *state;
    int64_t id = begin_named(f, "m"), other = begin_named(f, "o");
    assert_messages(f, id, "");
    say(f, id, STORE_SYSTEM, "");
    say(f, other, STORE_USER, "elsewhere");
    say(f, id, STORE_USER, "bytes \xff\xfe\x01 and \xc3\xa9");
    struct store_message m = {.role = STORE_ASSISTANT, .text = "no tokens", .n_text = 9};
    ok(store_message_add(f->s, id, &m, &err));
    assert_int_equal(m.seq, 2);
    assert_true(m.created_ms > 1600000000000);
    const char *expected = "0/0//1/-2/2147483647;1/1/bytes \xff\xfe\x01 and \xc3\xa9"
                           "/1/-2/2147483647;2/2/no tokens;";
    assert_messages(f, id, expected);
    reopen(f);
    assert_messages(f, id, expected);
    ok(store_check(f->s, &err));
    refused(store_message_add(f->s, 12345, &m, &err), ERR_FAIL, "number 12345");
}

/* A walk's callback may read and write through the same store. */
static int walk_again(void *ctx, const struct store_message *m)
{
    struct fixture *f = ctx;
    if (m->seq == 0) {
        assert_messages(f, 1, "0/1/a/1/-2/2147483647;1/2/b/1/-2/2147483647;");
        ok(store_state_put(f->s, 1, "from inside", &err));
    }
    return 0;
}

static void walks_nest(void **state)
{
    struct fixture *f = *state;
    int64_t id = begin_named(f, "m");
    assert_int_equal(id, 1);
    say(f, id, STORE_USER, "a");
    say(f, id, STORE_ASSISTANT, "b");
    ok(store_message_each(f->s, id, walk_again, f, &err));
}

static void large_message(void **state)
{
    struct fixture *f = *state;
    int64_t id = begin_named(f, "m");
    size_t n = 3 << 20, n_tokens = 1 << 20;
    char *text = malloc(n + 1);
    int32_t *tokens = malloc(n_tokens * sizeof *tokens);
    for (size_t i = 0; i < n; i++) text[i] = (char)('a' + i % 26);
    text[n] = 0;
    for (size_t i = 0; i < n_tokens; i++) tokens[i] = (int32_t)i;
    struct store_message m = {
        .role = STORE_USER, .text = text, .n_text = n, .tokens = tokens, .n_tokens = n_tokens};
    ok(store_message_add(f->s, id, &m, &err));
    struct str s = {0};
    ok(store_message_each(f->s, id, note_message, &s, &err));
    assert_memory_equal(s.data + 4, text, n);
    assert_non_null(strstr(s.data + 4 + n, "/1048575;"));
    str_release(&s);
    free(text);
    free(tokens);
}

static void the_tail_is_the_running_answer(void **state)
{
    struct fixture *f = *state;
    int64_t id = begin_named(f, "t");
    say(f, id, STORE_USER, "q");
    grow(f, id, 10, "\xe6\x97", ""); /* half a character */
    grow(f, id, 11, "\xa5", "uuu");
    grow(f, id, 12, "", "vvv");
    assert_tail(f, id, "10/100/\xe6\x97/;11/110/\xa5/uuu;12/120//vvv;");
    assert_messages(f, id, "0/1/q/1/-2/2147483647;-1/2/\xe6\x97\xa5/100/110/120;");
    ok(store_cache_drop(f->s, id, &err));
    assert_tail(f, id, "10/100/\xe6\x97/;11/110/\xa5/;12/120//;");
    struct store_tail again = {.position = 12, .text = "", .units = NULL};
    refused(store_tail_add(f->s, id, &again, &err), ERR_FAIL, "saved already");
    refused(store_tail_add(f->s, 99, &again, &err), ERR_FAIL, "deleted in another");
    ok(store_begin(f->s, &err));
    say(f, id, STORE_ASSISTANT, "日");
    ok(store_tail_clear(f->s, id, &err));
    ok(store_commit(f->s, &err));
    assert_tail(f, id, "");
    assert_messages(f, id, "0/1/q/1/-2/2147483647;1/2/日/1/-2/2147483647;");
}

static void state_is_kept(void **state)
{
    struct fixture *f = *state;
    int64_t id = begin_named(f, "s");
    char *text;
    ok(store_state_get(f->s, id, &text, &err));
    assert_string_equal(text, "");
    free(text);
    ok(store_state_put(f->s, id, "{\"a\": 1}", &err));
    ok(store_state_put(f->s, id, "{\"a\": 2}", &err));
    reopen(f);
    ok(store_state_get(f->s, id, &text, &err));
    assert_string_equal(text, "{\"a\": 2}");
    free(text);
    refused(store_state_put(f->s, 99, "x", &err), ERR_FAIL, "deleted in another");
}

/* ---- cache ----------------------------------------------------------------------------------- */

static void segments_round_trip(void **state)
{
    struct fixture *f = *state;
    int64_t n, id = begin_named(f, "g"), other = begin_named(f, "o");
    keep(f, id, 1, 5, "B5");
    keep(f, id, 0, 7, "A7");
    keep(f, id, 0, 5, "A5");
    keep(f, id, 0, 7, "-A6");
    keep(f, other, 0, 5, "other");
    keep(f, id, 10, 5, "");
    assert_segments(f, id, "0/5/A5;0/7/A7;0/7/-A6;1/5/B5;10/5/;");
    reopen(f);
    ok(store_segment_delete(f->s, id, 0, 0, 5, &err));
    assert_segments(f, id, "0/7/A7;0/7/-A6;1/5/B5;10/5/;");
    ok(store_check(f->s, &err));
    struct store_segment g = {.seq = 7, .bytes = "x", .n_bytes = 1};
    refused(store_segment_put(f->s, id, &g, &err), ERR_FAIL, "saved already");
    g.seq = 8;
    refused(store_segment_put(f->s, 99, &g, &err), ERR_FAIL, "deleted in another");
    ok(store_segment_delete(f->s, id, -1, 6, 7, &err));
    assert_segments(f, id, "1/5/B5;10/5/;");
    ok(store_cache_drop(f->s, id, &err));
    assert_segments(f, id, "");
    assert_segments(f, other, "0/5/other;");
    ok(store_conversation_delete(f->s, other, &err));
    ok(store_purge(f->s, INT64_MAX, &n, &err));
    assert_int_equal(n, 1);
    assert_segments(f, other, "");
    assert_int_equal(count_rows(f, "blob"), 0);
}

static int note_checkpoint(void *ctx, const struct store_checkpoint *c)
{
    str_printf(ctx, "%lld/%lld;", (long long)c->seq, (long long)c->n_run);
    return 0;
}

static void assert_checkpoints(struct fixture *f, int64_t id, const char *expected)
{
    struct str s = {0};
    ok(store_checkpoint_each(f->s, id, note_checkpoint, &s, &err));
    assert_string_equal(str_get(&s), expected);
    str_release(&s);
}

static void point(struct fixture *f, int64_t id, int64_t seq, int64_t n_run)
{
    struct store_checkpoint c = {seq, n_run};
    ok(store_checkpoint_put(f->s, id, &c, &err));
}

/* Two turns with a cache, as session writes them. */
static int64_t begin_two_turns(struct fixture *f, const char *name)
{
    int64_t id = begin_named(f, name);
    say(f, id, STORE_USER, "first question");
    keep(f, id, 0, 0, "units of turn one");
    point(f, id, 0, 5);
    say(f, id, STORE_ASSISTANT, "first answer");
    say(f, id, STORE_USER, "second question");
    keep(f, id, 0, 1, "units of turn two");
    keep(f, id, 0, 2, "-some");
    point(f, id, 2, 11);
    ok(store_state_put(f->s, id, "opaque words", &err));
    grow(f, id, 12, "se", "");
    return id;
}

static void going_back(void **state)
{
    struct fixture *f = *state;
    int64_t id = begin_two_turns(f, "b");
    assert_checkpoints(f, id, "2/11;0/5;");
    ok(store_rewind(f->s, id, 2, 0, &err));
    assert_messages(f, id, "0/1/first question/1/-2/2147483647;1/2/first answer/1/-2/2147483647;");
    assert_segments(f, id, "0/0/units of turn one;");
    assert_checkpoints(f, id, "0/5;");
    assert_int_equal(look(f, "b").n_turns, 1);
    assert_int_equal(look(f, "b").n_tokens, 6);
    assert_int_equal(look(f, "b").cache_bytes, 17);
    assert_int_equal(count_hits(f, "second"), 0);
    say(f, id, STORE_USER, "another question");
    ok(store_rewind(f->s, id, 0, -1, &err));
    assert_messages(f, id, "");
    assert_int_equal(look(f, "b").cache_bytes, 0);
    say(f, id, STORE_USER, "new title");
    assert_string_equal(look(f, "b").title, "new title");
    point(f, id, 3, 1);
    point(f, id, 5, 2);
    ok(store_checkpoint_forget(f->s, id, 5, &err));
    assert_checkpoints(f, id, "5/2;");
    ok(store_check(f->s, &err));
}

static void branches_share_their_cache(void **state)
{
    struct fixture *f = *state;
    struct store_conversation c;
    int64_t n, id = begin_two_turns(f, "trunk");
    ok(store_conversation_copy(f->s, id, 2, 0, f->s, "branch", &c, &err));
    assert_messages(f, c.id,
                    "0/1/first question/1/-2/2147483647;1/2/first answer/1/-2/2147483647;");
    assert_segments(f, c.id, "0/0/units of turn one;");
    assert_checkpoints(f, c.id, "0/5;");
    assert_string_equal(c.title, "first question");
    assert_int_equal(c.cache_bytes, 17);
    assert_int_equal(count_rows(f, "blob"), 3); /* nothing was copied */
    refused(store_conversation_copy(f->s, id, 2, 0, f->s, "trunk", &c, &err), ERR_USAGE, "already");
    ok(store_conversation_copy(f->s, id, INT64_MAX, -1, f->s, NULL, &c, &err));
    assert_messages(f, c.id,
                    "0/1/first question/1/-2/2147483647;1/2/first "
                    "answer/1/-2/2147483647;2/1/second question/1/-2/2147483647;-1/2/se/120;");
    assert_segments(f, c.id, "");
    ok(store_conversation_delete(f->s, id, &err));
    ok(store_purge(f->s, INT64_MAX, &n, &err));
    assert_int_equal(count_rows(f, "blob"), 1);
    assert_segments(f, look(f, "branch").id, "0/0/units of turn one;");
    ok(store_check(f->s, &err));
}

/* A conversation with its cache goes to another file and comes back. */
static void copies_into_another_file(void **state)
{
    struct fixture *f = *state;
    struct store_conversation c;
    struct fixture g = {0};
    char expected[] = "0/1/first question/1/-2/2147483647;1/2/first "
                      "answer/1/-2/2147483647;2/1/second question/1/-2/2147483647;-1/2/se/120;";
    int64_t id = begin_two_turns(f, "mover");
    snprintf(g.path, sizeof g.path, "%s/one.db", f->folder);
    ok(store_open(&g.s, g.path, &err));
    ok(store_conversation_copy(f->s, id, INT64_MAX, INT64_MAX, g.s, "mover", &c, &err));
    assert_messages(&g, c.id, expected);
    assert_segments(&g, c.id, "0/0/units of turn one;0/1/units of turn two;0/2/-some;");
    assert_checkpoints(&g, c.id, "2/11;0/5;");
    assert_int_equal(c.created_ms, look(f, "mover").created_ms);
    assert_int_equal(c.updated_ms, look(f, "mover").updated_ms);
    ok(store_check(g.s, &err));
    ok(store_close_single(g.s, &err));
    char path[192];
    snprintf(path, sizeof path, "%s-wal", g.path);
    assert_int_not_equal(access(path, F_OK), 0);
    ok(store_open(&g.s, g.path, &err));
    ok(store_conversation_copy(g.s, c.id, INT64_MAX, INT64_MAX, f->s, "back", &c, &err));
    assert_messages(f, c.id, expected);
    store_close(g.s);
}

static void caches_within_a_limit(void **state)
{
    struct fixture *f = *state;
    struct store_conversation c;
    int64_t old = begin_two_turns(f, "old"), mine = begin_two_turns(f, "mine");
    begin_two_turns(f, "gone");
    begin_two_turns(f, "new");
    ok(store_conversation_times(f->s, old, 1, 1, &err));
    ok(store_conversation_times(f->s, mine, 2, 2, &err));
    ok(store_conversation_delete(f->s, look(f, "gone").id, &err));
    ok(store_cache_trim(f->s, 1000, mine, &err));
    assert_int_equal(look(f, "old").cache_bytes, 34);
    ok(store_cache_trim(f->s, 102, mine, &err)); /* the deleted one first */
    assert_int_equal(look(f, "old").cache_bytes, 34);
    ok(store_conversation_restore(f->s, "gone", NULL, &err));
    assert_int_equal(look(f, "gone").cache_bytes, 0);
    ok(store_cache_trim(f->s, 70, mine, &err));
    assert_int_equal(look(f, "old").cache_bytes, 0);
    assert_int_equal(look(f, "new").cache_bytes, 34);
    ok(store_cache_trim(f->s, 0, mine, &err));
    assert_int_equal(look(f, "mine").cache_bytes, 34);
    assert_int_equal(look(f, "new").cache_bytes, 0);
    ok(store_conversation_copy(f->s, old, INT64_MAX, -1, f->s, NULL, &c, &err));
}

/* ---- deleting and finding -------------------------------------------------------------------- */

static void deleting_can_be_undone(void **state)
{
    struct fixture *f = *state;
    struct store_conversation c;
    struct str s = {0};
    int64_t n, id = begin_two_turns(f, "trip");
    ok(store_conversation_delete(f->s, id, &err));
    ok(store_conversation_list(f->s, note_name, &s, &err));
    assert_string_equal(str_get(&s), "");
    assert_int_equal(store_conversation_latest(f->s, &c, &err), 0);
    assert_int_equal(count_hits(f, "question"), 0);
    int64_t second = begin_named(f, "trip");
    assert_true(second > id);
    refused(store_conversation_restore(f->s, "trip", NULL, &err), ERR_USAGE, "'trip' already");
    refused(store_conversation_restore(f->s, "tri", NULL, &err), ERR_FAIL,
            "no deleted conversation");
    ok(store_conversation_restore(f->s, "trip", "trip again", &err));
    assert_int_equal(look(f, "trip again").id, id);
    assert_segments(f, id, "0/0/units of turn one;0/1/units of turn two;0/2/-some;");
    assert_int_equal(count_hits(f, "question"), 2);
    ok(store_conversation_delete(f->s, id, &err));
    ok(store_conversation_delete(f->s, second, &err));
    ok(store_purge(f->s, 1000, &n, &err)); /* they were deleted later */
    assert_int_equal(n, 0);
    ok(store_purge(f->s, INT64_MAX, &n, &err));
    assert_int_equal(n, 2);
    refused(store_conversation_restore(f->s, "trip again", NULL, &err), ERR_FAIL, "any more");
    assert_int_equal(count_rows(f, "message"), 0);
    assert_int_equal(count_rows(f, "search"), 0);
    str_release(&s);
}

static int note_hit(void *ctx, const struct store_hit *h)
{
    str_printf(ctx, "%s/%lld/%s;", h->conversation->name, (long long)h->seq, h->snippet);
    return 0;
}

static void assert_found(struct fixture *f, const char *text, const char *expected)
{
    struct str s = {0};
    ok(store_search(f->s, text, note_hit, &s, &err));
    assert_string_equal(str_get(&s), expected);
    str_release(&s);
}

static void say_things_to_find(struct fixture *f)
{
    int64_t a = begin_named(f, "garden"), b = begin_named(f, "kitchen plan");
    say(f, a, STORE_USER, "Where do tulips grow?");
    say(f, a, STORE_ASSISTANT, "In the sun. \"Café\" roses do too.");
    say(f, b, STORE_USER, "何時に郵便局が開きますか");
    say(f, b, STORE_ASSISTANT, "An oven, two tulip vases and C++ books.");
}

static void searching(void **state)
{
    struct fixture *f = *state;
    say_things_to_find(f);
    assert_found(f, "tulip",
                 "kitchen plan/1/An oven, two \2tulip\3 vases and C++ books.;"
                 "garden/0/Where do \2tulips\3 grow?;");
    assert_found(f, "GROW where", "garden/0/\2Where\3 do tulips \2grow\3?;");
    assert_found(f, "cafe", "garden/1/In the sun. \"\2Café\3\" roses do too.;");
    assert_found(f, "plan", "kitchen plan/-1/kitchen \2plan\3;");
    assert_found(f, "tulips vases", "");
    assert_found(f, "郵便局", "kitchen plan/0/何時に\2郵便局\3が開きますか;");
    assert_found(f, "c++", "kitchen plan/1/An oven, two tulip vases and \2C++\3 books.;");
    assert_found(f, "\" OR *", "");
    assert_found(f, "NEAR(a", "");
    assert_int_equal(count_hits(f, "sun"), 1);
    refused(store_search(f->s, " \n", note_hit, NULL, &err), ERR_USAGE, "nothing to search");
    ok(store_conversation_rename(f->s, look(f, "garden").id, "allotment", &err));
    assert_found(f, "garden", "");
    assert_found(f, "allot", "allotment/-1/\2allotment\3;");
    tamper(f, "UPDATE search_data SET block = x'00' WHERE id > 10");
    reopen(f);
    refused(store_check(f->s, &err), ERR_FORMAT, "search index");
    say(f, look(f, "allotment").id, STORE_USER, "still saved"); /* whatever the index says */
    ok(store_compact(f->s, &err));
    ok(store_check(f->s, &err));
    assert_found(f, "saved", "allotment/2/still \2saved\3;");
}

/* ---- encryption ------------------------------------------------------------------------------ */

struct person {
    const char *passphrase;
    int n_asked, n_fresh;
};

static int ask(void *ctx, bool fresh, char *out, struct err *e)
{
    struct person *p = ctx;
    p->n_asked++;
    p->n_fresh += fresh;
    if (!p->passphrase) return err_set(e, ERR_STOP, "interrupted");
    snprintf(out, STORE_PASSPHRASE_MAX, "%s", p->passphrase);
    return 0;
}

static void assert_no_word(const char *path, const char *const *words)
{
    char command[400];
    for (; *words; words++) {
        snprintf(command, sizeof command, "cat '%s' '%s-wal' 2>/dev/null | grep -qaiF -e '%s'",
                 path, path, *words);
        if (system(command) == 0) fail_msg("\"%s\" stands in the file", *words);
    }
}

static void encrypted(void **state)
{
    struct fixture *f = *state;
    struct person p = {.passphrase = "correct horse"};
    struct store_key key = {ask, &p, true};
    struct store *none;
    static const char *const words[] = {"tulip",   "Café",          "oven",     "garden",
                                        "kitchen", "treasure",      "units of", "first",
                                        "opaque",  "correct horse", "question", NULL};
    store_close(f->s);
    f->s = NULL;
    snprintf(f->path, sizeof f->path, "%s/sealed.db", f->folder);
    ok(store_open_key(&f->s, f->path, &key, &err));
    assert_true(store_is_encrypted(f->s));
    assert_int_equal(p.n_fresh, 1);
    say_things_to_find(f);
    int64_t id = begin_two_turns(f, "treasure trip");
    grow(f, id, 13, "cond", "units of a token");
    assert_no_word(f->path, words);
    store_close(f->s);
    f->s = NULL;
    assert_no_word(f->path, words);
    refused(store_open(&none, f->path, &err), ERR_FAIL, "is encrypted and nobody");
    p.passphrase = "wrong horse";
    refused(store_open_key(&none, f->path, &key, &err), ERR_FAIL, "wrong passphrase");
    p.passphrase = "";
    refused(store_open_key(&none, f->path, &key, &err), ERR_FAIL, "empty");
    p.passphrase = NULL;
    refused(store_open_key(&none, f->path, &key, &err), ERR_STOP, "interrupted");
    assert_null(none);
    p.passphrase = "correct horse";
    key.encrypt = false; /* it is, whatever is asked for */
    ok(store_open_key(&f->s, f->path, &key, &err));
    assert_int_equal(look(f, "treasure trip").id, id);
    assert_string_equal(look(f, "treasure trip").title, "first question");
    assert_messages(f, id,
                    "0/1/first question/1/-2/2147483647;1/2/first "
                    "answer/1/-2/2147483647;2/1/second question/1/-2/2147483647;"
                    "-1/2/second/120/130;");
    assert_segments(f, id, "0/0/units of turn one;0/1/units of turn two;0/2/-some;");
    assert_tail(f, id, "12/120/se/;13/130/cond/units of a token;");
    ok(store_check(f->s, &err));
    assert_found(f, "TULIP oven", "kitchen plan/1/An oven, two \2tulip\3 vases and C++ books.;");
    assert_found(f, "treasure", "treasure trip/-1/\2treasure\3 trip;");
    ok(store_conversation_rename(f->s, id, "hidden", &err));
    ok(store_rewind(f->s, id, 2, 0, &err));
    assert_int_equal(look(f, "hidden").n_tokens, 6);
    struct store_conversation c;
    ok(store_conversation_create(f->s, NULL, &c, &err));
    assert_string_equal(c.name, "chat-1");
    ok(store_conversation_copy(f->s, id, 2, 0, f->s, "twig", &c, &err));
    assert_segments(f, c.id, "0/0/units of turn one;");
    ok(store_conversation_delete(f->s, id, &err));
    ok(store_conversation_restore(f->s, "hidden", NULL, &err));
    refused(store_conversation_rename(f->s, id, "twig", &err), ERR_USAGE, "already");
    ok(store_compact(f->s, &err));
    assert_no_word(f->path, words);
    /* Rows may not change places. */
    tamper(f,
           "UPDATE message SET (text, tokens, digest) = (SELECT text, tokens, digest FROM message "
           "AS o WHERE o.conversation = message.conversation AND o.seq = 1 - message.seq)");
    struct str s = {0};
    refused(store_message_each(f->s, id, note_message, &s, &err), ERR_FORMAT, "message 0");
    str_release(&s);
}

/* A database with conversations does not become an encrypted one behind their back. */
static void not_encrypted_afterwards(void **state)
{
    struct fixture *f = *state;
    struct person p = {.passphrase = "x"};
    struct store_key key = {ask, &p, true};
    struct store *none;
    begin_named(f, "open");
    refused(store_open_key(&none, f->path, &key, &err), ERR_FAIL, "not encrypted");
    assert_int_equal(p.n_asked, 0);
}

/* What sealing is made of, against the vectors of the construction's draft
 * (draft-irtf-cfrg-xchacha-03, A.3.1). */
static void vectors(void **state)
{
    (void)state;
    static const char plain[] =
        "Ladies and Gentlemen of the class of '99: If I could offer you only "
        "one tip for the future, sunscreen would be it.";
    uint8_t key[32], nonce[24], out[sizeof plain - 1 + 16];
    static const uint8_t ad[] = {0x50, 0x51, 0x52, 0x53, 0xc0, 0xc1,
                                 0xc2, 0xc3, 0xc4, 0xc5, 0xc6, 0xc7};
    static const uint8_t tag[] = {0xc0, 0x87, 0x59, 0x24, 0xc1, 0xc7, 0x98, 0x79,
                                  0x47, 0xde, 0xaf, 0xd8, 0x78, 0x0a, 0xcf, 0x49};
    for (int i = 0; i < 32; i++) key[i] = (uint8_t)(0x80 + i);
    for (int i = 0; i < 24; i++) nonce[i] = (uint8_t)(0x40 + i);
    crypto_aead_xchacha20poly1305_ietf_encrypt(out, NULL, (const uint8_t *)plain, sizeof plain - 1,
                                               ad, sizeof ad, NULL, nonce, key);
    assert_memory_equal(out + sizeof plain - 1, tag, sizeof tag);
    assert_int_equal(out[0], 0xbd);
}

/* ---- older files ----------------------------------------------------------------------------- */

/* As version 1 wrote it: its schema, a conversation of one turn and a cache. */
static const char version_1[] =
    "PRAGMA application_id = 1382380654; PRAGMA user_version = 1;"
    "CREATE TABLE model ( path TEXT PRIMARY KEY, size INTEGER NOT NULL, mtime_ns INTEGER "
    "NOT NULL, inode INTEGER NOT NULL, digest BLOB NOT NULL) WITHOUT ROWID;"
    "CREATE TABLE conversation ( id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT "
    "NULL UNIQUE, title TEXT NOT NULL DEFAULT '', created_ms INTEGER NOT NULL, "
    "updated_ms INTEGER NOT NULL, n_messages INTEGER NOT NULL DEFAULT 0, n_turns INTEGER "
    "NOT NULL DEFAULT 0, n_tokens INTEGER NOT NULL DEFAULT 0, cache_bytes INTEGER NOT "
    "NULL DEFAULT 0);"
    "INSERT INTO conversation VALUES(1,'chat-1','How are you?',1795248251461,"
    "1795248251495,2,1,20,12928);"
    "CREATE TABLE state ( conversation INTEGER PRIMARY KEY REFERENCES conversation ON "
    "DELETE CASCADE, text TEXT NOT NULL, digest BLOB NOT NULL);"
    "INSERT INTO state VALUES(1,"
    "'{\"model\":\"93d1dc2a17734392e928ef28a4aa57428c703d372751352bfbaffc11fbebeea2\","
    "\"heads\":\"9a95270d81c1800b8670ce82b9d3853f80265175bc4ccf9f608011bc59b9ca6f\","
    "\"kv\":\"q4\",\"policy\":\"locret\",\"template\":\"retain\",\"budget\":512,\"seed\":\"1\","
    "\"n_run\":19}',X'b3298aedf4df9a38b0487baf428c7cb5ccf899d6ea300410fdbd25ffd2d5057a');"
    "CREATE TABLE message ( conversation INTEGER NOT NULL REFERENCES conversation ON "
    "DELETE CASCADE, seq INTEGER NOT NULL, role INTEGER NOT NULL, created_ms INTEGER NOT "
    "NULL, digest BLOB NOT NULL, text TEXT NOT NULL, tokens BLOB NOT NULL, PRIMARY KEY "
    "(conversation, seq));"
    "INSERT INTO message VALUES(1,0,1,1795248251463,"
    "X'25d4c3b1ed9fd04f3cf6bb0db3faa0af91591cdba743cbd7ea8e25ba50bb51ad','How are you?',"
    "X'0100000002000000300300001a0200005c010000470000000400000003000000');"
    "INSERT INTO message VALUES(1,1,2,1795248251495,"
    "X'daed4a30e624fdd78cb6d2f08eeded80ef0231a0d491bc8e28e1102419fd7b29',' I am fine, "
    "thank you, that. How',"
    "X'23010000f80100001c010000510200003400000009010000b90600005c010000340000005601000036"
    "00000030030000');"
    "CREATE TABLE tail ( conversation INTEGER NOT NULL REFERENCES conversation ON DELETE "
    "CASCADE, position INTEGER NOT NULL, token INTEGER NOT NULL, text BLOB NOT NULL, "
    "digest BLOB NOT NULL, units_digest BLOB, units BLOB, PRIMARY KEY (conversation, "
    "position)) WITHOUT ROWID;"
    "CREATE TABLE segment ( conversation INTEGER NOT NULL REFERENCES conversation ON "
    "DELETE CASCADE, layer INTEGER NOT NULL, seq INTEGER NOT NULL, digest BLOB NOT NULL, "
    "units BLOB NOT NULL, PRIMARY KEY (conversation, layer, seq)) WITHOUT ROWID;"
    "INSERT INTO segment VALUES(1,0,0,X'03',X'0102');"
    "INSERT INTO segment VALUES(1,0,1,X'03',X'0102');"
    "CREATE TABLE retained ( conversation INTEGER NOT NULL REFERENCES conversation ON "
    "DELETE CASCADE, layer INTEGER NOT NULL, seq INTEGER NOT NULL, digest BLOB NOT NULL, "
    "bitmap BLOB, PRIMARY KEY (conversation, layer, seq)) WITHOUT ROWID;"
    "INSERT INTO retained VALUES(1,0,0,"
    "X'bd20ac7d59a305d4c714050d4ddc2af4dab42fb2e1c55c85dffc679ff2994283',NULL);"
    "INSERT INTO retained VALUES(1,0,1,"
    "X'9f0316e6df6161f4e037df88dabdb5046a1e5eb96fcd1866147d5083aee3cddd',NULL);"
    "CREATE INDEX conversation_updated ON conversation (updated_ms, id);";

static void version_1_is_brought_up_to_date(void **state)
{
    struct fixture *f = *state;
    store_close(f->s);
    f->s = NULL;
    snprintf(f->path, sizeof f->path, "%s/old.db", f->folder);
    tamper(f, version_1);
    reopen(f);
    struct store_conversation c = look(f, "chat-1");
    assert_string_equal(c.title, "How are you?");
    assert_int_equal(c.n_turns, 1);
    assert_int_equal(c.cache_bytes, 0);
    struct str s = {0};
    ok(store_message_each(f->s, c.id, note_message, &s, &err));
    assert_non_null(strstr(str_get(&s), "How are you?"));
    str_release(&s);
    assert_segments(f, c.id, "");
    assert_int_equal(count_hits(f, "how are you"), 1);
    assert_int_equal(count_hits(f, "chat-1"), 1);
    ok(store_check(f->s, &err));
    say(f, c.id, STORE_USER, "and now?");
    reopen(f);
    assert_int_equal(look(f, "chat-1").n_turns, 2);
}

static void models(void **state)
{
    struct fixture *f = *state;
    struct store_model m = {.path = "/m/a.gguf", .size = 5LL << 40, .mtime_ns = 123, .inode = 9}, k;
    store_digest(m.digest, "abc", 3);
    assert_int_equal(store_model_find(f->s, m.path, &k, &err), 0);
    ok(store_model_put(f->s, &m, &err));
    m.mtime_ns = 456;
    ok(store_model_put(f->s, &m, &err));
    assert_int_equal(store_model_find(f->s, m.path, &k, &err), 1);
    assert_memory_equal(&m, &k, sizeof m);
}

static void digests(void **state)
{
    (void)state;
    uint8_t d[STORE_DIGEST_BYTES];
    char hex[2 * STORE_DIGEST_BYTES + 1];
    store_digest(d, "abc", 3); /* printf abc | b2sum -l 256 */
    store_digest_hex(hex, d);
    assert_string_equal(hex, "bddd813c634239723171ef3fee98579b94964e3bb1cb3e427262c8c068d52319");
    store_digest(d, NULL, 0);
    store_digest_hex(hex, d);
    assert_string_equal(hex, "0e5751c026e543b2e8ab2eb06099daa1d1e5df47778f7787faab45cdf12fe3a8");
}

/* ---- transactions ---------------------------------------------------------------------------- */

static void transactions(void **state)
{
    struct fixture *f = *state;
    int64_t id = begin_named(f, "t");
    store_rollback(f->s);
    ok(store_begin(f->s, &err));
    refused(store_begin(f->s, &err), ERR_FAIL, "open already");
    say(f, id, STORE_USER, "gone");
    grow(f, id, 1, "x", "y");
    keep(f, id, 0, 0, "units");
    store_rollback(f->s);
    assert_messages(f, id, "");
    assert_segments(f, id, "");
    assert_int_equal(look(f, "t").n_turns, 0);
    refused(store_commit(f->s, &err), ERR_FAIL, "no transaction");
    ok(store_begin(f->s, &err));
    say(f, id, STORE_USER, "kept");
    ok(store_commit(f->s, &err));
    ok(store_begin(f->s, &err));
    say(f, id, STORE_USER, "lost with the process");
    reopen(f);
    assert_messages(f, id, "0/1/kept/1/-2/2147483647;");
}

/* ---- other processes ------------------------------------------------------------------------- */

static void one_writer_per_conversation(void **state)
{
    struct fixture *f = *state;
    int64_t a = begin_named(f, "holiday"), b = begin_named(f, "work");
    struct store *second;
    ok(store_open(&second, f->path, &err));
    ok(store_lock(f->s, a, &err));
    ok(store_lock(f->s, a, &err));
    refused(store_lock(second, a, &err), ERR_FAIL, "'holiday' is open in another retain");
    ok(store_lock(second, b, &err));
    refused(store_lock(f->s, b, &err), ERR_FAIL, "'work' is open in another retain");
    store_unlock(second, b);
    ok(store_lock(f->s, b, &err));
    store_close(f->s);
    f->s = NULL;
    ok(store_lock(second, a, &err));
    store_close(second);
    ok(store_open(&f->s, f->path, &err));

    int go[2], done[2];
    char byte = 0;
    assert_int_equal(pipe(go) + pipe(done), 0);
    pid_t child = fork();
    if (child == 0) { /* locks, says so, and is killed */
        struct store *mine;
        int rc = store_open(&mine, f->path, NULL);
        if (rc == 0) rc = store_lock(mine, a, NULL);
        byte = (char)rc;
        if (write(done[1], &byte, 1) == 1 && read(go[0], &byte, 1)) {
        }
        _exit(0);
    }
    assert_int_equal(read(done[0], &byte, 1), 1);
    assert_int_equal(byte, 0);
    refused(store_lock(f->s, a, &err), ERR_FAIL, "another retain");
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    ok(store_lock(f->s, a, &err));
    for (int i = 0; i < 2; i++) {
        close(go[i]);
        close(done[i]);
    }
}

static void two_programs_share_a_file(void **state)
{
    struct fixture *f = *state;
    int64_t a = begin_named(f, "a");
    struct store *second;
    ok(store_open(&second, f->path, &err));
    struct fixture g = {.s = second};
    int64_t b = begin_named(&g, "b");
    for (int i = 0; i < 20; i++) {
        say(f, a, STORE_USER, "x");
        say(&g, b, STORE_USER, "y");
    }
    assert_int_equal(look(f, "b").n_turns, 20);
    assert_int_equal(look(&g, "a").n_turns, 20);
    ok(store_begin(f->s, &err));
    say(f, a, STORE_USER, "x");
    assert_int_equal(look(&g, "a").n_turns, 20); /* readers are never kept waiting */
    store_rollback(f->s);
    ok(store_conversation_delete(f->s, b, &err));
    struct store_message m = {.role = STORE_USER, .text = "late", .n_text = 4};
    refused(store_message_add(second, b, &m, &err), ERR_FAIL, "deleted in another");
    store_close(second);
}

/* ---- files that are not ours, or no longer whole --------------------------------------------- */

static void open_refused(const char *path, int code, const char *said)
{
    struct store *s = (struct store *)&err;
    refused(store_open(&s, path, &err), code, said);
    assert_null(s);
}

static void write_file(const char *path, const void *bytes, size_t n)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, n, file), n);
    fclose(file);
}

static void files_that_are_not_ours(void **state)
{
    struct fixture *f = *state;
    char path[192], deep[256], text[8192];
    open_refused(f->folder, ERR_FAIL, "is a folder");
    open_refused("", ERR_USAGE, "empty");
    open_refused("/dev/null", ERR_FAIL, "not a regular file");
    memset(text, 'x', sizeof text);
    snprintf(path, sizeof path, "%s/text", f->folder);
    write_file(path, text, sizeof text);
    open_refused(path, ERR_FORMAT, "is not a retain database");
    snprintf(deep, sizeof deep, "%s/below/db", path);
    open_refused(deep, ERR_FAIL, "can't make the folder");
    write_file(path, "short", 5);
    open_refused(path, ERR_FORMAT, "is not a retain database");
    unlink(path);
    struct fixture g = {0};
    snprintf(g.path, sizeof g.path, "%s/other.db", f->folder);
    tamper(&g, "CREATE TABLE t (x); INSERT INTO t VALUES (1);");
    open_refused(g.path, ERR_FORMAT, "database of another program");
    tamper(&g, "PRAGMA application_id = 1234; INSERT INTO t VALUES (1);");
    open_refused(g.path, ERR_FORMAT, "application id 0x000004d2");
    write_file(path, "", 0); /* an empty file becomes ours */
    struct store *s;
    ok(store_open(&s, path, &err));
    store_close(s);
}

static void newer_and_mutilated_schema(void **state)
{
    struct fixture *f = *state;
    begin_named(f, "a");
    store_close(f->s);
    f->s = NULL;
    tamper(f, "PRAGMA user_version = 7; UPDATE conversation SET n_turns = 0;");
    open_refused(f->path, ERR_FORMAT, "newer retain (its version is 7, this one knows 2)");
    tamper(f, "PRAGMA user_version = 2; UPDATE conversation SET n_turns = 0; DROP TABLE tail;");
    open_refused(f->path, ERR_FORMAT, "is damaged: no such table: tail");
}

static void modes_of_files(void **state)
{
    struct fixture *f = *state;
    struct stat st;
    char path[192];
    assert_int_equal(stat(f->path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    snprintf(path, sizeof path, "%s-wal", f->path);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    ok(store_lock(f->s, 1, &err));
    snprintf(path, sizeof path, "%s.lock", f->path);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    snprintf(path, sizeof path, "%s/a/b", f->folder);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
}

/* As somebody whom permissions hold back; tests may run as root. */
static void what_may_not_be_written(void **state)
{
    struct fixture *f = *state;
    char folder[192], inside[256];
    begin_named(f, "a");
    store_close(f->s);
    f->s = NULL;
    snprintf(folder, sizeof folder, "%s/a/b", f->folder);
    snprintf(inside, sizeof inside, "%s/new.db", folder);
    bool root = geteuid() == 0;
    chmod(f->folder, 0755);
    snprintf(folder, sizeof folder, "%s/a", f->folder);
    chmod(folder, 0755);
    snprintf(folder, sizeof folder, "%s/a/b", f->folder);
    chmod(f->path, root ? 0666 : 0600);
    chmod(folder, 0555);
    pid_t child = fork();
    if (child == 0) {
        struct store *s;
        int rc = 0;
        if (root && (setgid(65534) || setuid(65534))) _exit(0);
        err.text[0] = 0;
        if (store_open(&s, f->path, &err) != ERR_FAIL || !strstr(err.text, "allow writing")) rc = 1;
        if (rc) fprintf(stderr, "read-only folder: %s\n", err.text);
        err.text[0] = 0;
        if (store_open(&s, inside, &err) != ERR_FAIL || !strstr(err.text, "can't make")) rc |= 2;
        if (rc & 2) fprintf(stderr, "new file in a read-only folder: %s\n", err.text);
        _exit(rc);
    }
    int status;
    waitpid(child, &status, 0);
    assert_int_equal(status, 0);
    chmod(folder, 0777);
    chmod(f->path, 0444);
    child = fork();
    if (child == 0) {
        struct store *s;
        if (root && (setgid(65534) || setuid(65534))) _exit(0);
        err.text[0] = 0;
        int rc = store_open(&s, f->path, &err);
        bool good = rc == ERR_FAIL && strstr(err.text, "can't be written");
        if (!good) fprintf(stderr, "read-only file: %d %s\n", rc, err.text);
        _exit(!good);
    }
    waitpid(child, &status, 0);
    assert_int_equal(status, 0);
}

/* A file cut at any length, or with any page overwritten: said, never believed, never a crash. */
static int read_everything(const char *path)
{
    struct store *s;
    err.text[0] = 0;
    int rc = store_open(&s, path, &err);
    if (rc == 0) rc = store_check(s, &err);
    store_close(s);
    return rc;
}

static void torn_files(void **state)
{
    struct fixture *f = *state;
    char path[192], *bytes;
    int64_t id = begin_named(f, "torn");
    for (int i = 0; i < 20; i++) say(f, id, STORE_USER, "a message of some length, or other");
    keep(f, id, 0, 0, "units");
    keep(f, id, 0, 1, "-some");
    point(f, id, 1, 2);
    store_close(f->s);
    f->s = NULL;
    struct stat st;
    assert_int_equal(stat(f->path, &st), 0);
    size_t n = (size_t)st.st_size;
    bytes = malloc(n);
    FILE *file = fopen(f->path, "rb");
    assert_int_equal(fread(bytes, 1, n, file), n);
    fclose(file);
    snprintf(path, sizeof path, "%s/torn.db", f->folder);
    for (size_t cut = 2; cut < n; cut += 1531) {
        write_file(path, bytes, cut);
        int rc = read_everything(path);
        if (rc != ERR_FORMAT && rc != ERR_FAIL) fail_msg("cut at %zu: %d %s", cut, rc, err.text);
        assert_true(strlen(err.text) > 20);
    }
    int n_found = 0, n_pages = (int)(n / 4096);
    for (int page = 0; page < n_pages; page++) {
        char saved[4096];
        memcpy(saved, bytes + page * 4096, 4096);
        for (int i = page ? 0 : 100; i < 4096; i++) bytes[page * 4096 + i] ^= (char)(i * 7 + page);
        write_file(path, bytes, n);
        n_found += read_everything(path) < 0;
        memcpy(bytes + page * 4096, saved, 4096);
    }
    assert_int_equal(n_found, n_pages);
    write_file(path, bytes, n);
    assert_int_equal(read_everything(path), 0);
    free(bytes);
}

/* Every kind of row, changed behind the digest's back: found, and what is whole stays readable. */
static void rows_that_were_tampered_with(void **state)
{
    struct fixture *f = *state;
    static const struct {
        const char *sql;
        int messages, tail, segments;
        const char *said;
    } cases[] = {
        {"UPDATE message SET text = 'A' WHERE seq = 0", 1, 0, 0, "message 0 of conversation 'v'"},
        {"UPDATE message SET tokens = x'01000000' WHERE seq = 1", 1, 0, 0, "message 1"},
        {"UPDATE message SET tokens = x'010203' WHERE seq = 1", 1, 0, 0, "message 1"},
        {"UPDATE message SET role = 2 WHERE seq = 0", 1, 0, 0, "message 0"},
        {"UPDATE message SET digest = x'00' WHERE seq = 0", 1, 0, 0, "message 0"},
        {"DELETE FROM message WHERE seq = 0", 1, 0, 0, "message 0"},
        {"DELETE FROM message WHERE seq = 1", 1, 0, 0, "message 1"},
        {"UPDATE message SET seq = 7 WHERE seq = 1", 1, 0, 0, "message 1"},
        {"UPDATE tail SET text = 'z' WHERE position = 10", 1, 1, 0, "token at position 10"},
        {"UPDATE tail SET token = token + 1 WHERE position = 11", 1, 1, 0, "position 11"},
        {"UPDATE tail SET units = x'00' WHERE position = 11", 0, 1, 0, "cache at position 11"},
        {"UPDATE blob SET bytes = x'00' WHERE bytes = x'4235'", 0, 0, 1, "segment 5 of layer 1"},
        {"UPDATE blob SET digest = x'00' WHERE bytes = x'4235'", 0, 0, 1, "segment 5 of layer 1"},
        {"UPDATE segment SET layer = 3 WHERE layer = 1", 0, 0, 1, "layer 3"},
        {"UPDATE segment SET seq = 9 WHERE layer = 1", 0, 0, 1, "segment 9"},
        {"UPDATE segment SET kind = 1 WHERE layer = 1", 0, 0, 1, "layer 1"},
        {"UPDATE segment SET origin = 7 WHERE layer = 1", 0, 0, 1, "layer 1"},
        {"UPDATE segment SET blob = 999 WHERE layer = 1", 0, 0, 1, "layer 1"},
        {"UPDATE segment SET blob = (SELECT blob FROM segment WHERE seq = 6) WHERE seq = 5 AND "
         "layer = 0",
         0, 0, 1, "segment 5 of layer 0"},
        {"UPDATE checkpoint SET n_run = 3", 0, 0, 0, "checkpoint of conversation 'v'"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int64_t id = begin_named(f, "v");
        say(f, id, STORE_USER, "a");
        say(f, id, STORE_ASSISTANT, "b");
        grow(f, id, 10, "x", "");
        grow(f, id, 11, "y", "units");
        keep(f, id, 0, 5, "A5");
        keep(f, id, 0, 6, "A6");
        keep(f, id, 1, 5, "B5");
        point(f, id, 6, 2);
        ok(store_check(f->s, &err));
        tamper(f, cases[i].sql);
        struct str s = {0};
        int rc = store_message_each(f->s, id, note_message, &s, &err);
        assert_int_equal(rc, cases[i].messages ? ERR_FORMAT : 0);
        if (rc) refused(rc, ERR_FORMAT, cases[i].said);
        rc = store_tail_each(f->s, id, note_tail, &s, &err);
        assert_int_equal(rc, cases[i].tail ? ERR_FORMAT : 0);
        rc = store_segment_each(f->s, id, -1, note_segment, &s, &err);
        assert_int_equal(rc, cases[i].segments ? ERR_FORMAT : 0);
        str_release(&s);
        refused(store_check(f->s, &err), ERR_FORMAT,
                strstr(cases[i].sql, "blob = 999") ? "is damaged: segment" : cases[i].said);
        tamper(f, "DELETE FROM conversation");
        tamper(f, "DELETE FROM message; DELETE FROM tail; DELETE FROM segment; DELETE FROM blob;"
                  "DELETE FROM checkpoint; DELETE FROM search;");
    }
    int64_t id = begin_named(f, "v");
    char *text;
    ok(store_state_put(f->s, id, "true", &err));
    tamper(f, "UPDATE state SET text = 'false'");
    refused(store_state_get(f->s, id, &text, &err), ERR_FORMAT, "state of conversation 'v'");
    assert_null(text);
}

/* ---- cost ------------------------------------------------------------------------------------ */

static void a_token_is_cheap(void **state)
{
    struct fixture *f = *state;
    static char units[36864]; /* an 8B model's: 32 layers, 8 heads, 140 bytes each */
    static const size_t sizes[] = {0, 2048, sizeof units};
    int64_t id = begin_named(f, "t");
    int64_t position = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        int64_t t = now_us();
        for (int j = 0; j < 500; j++) {
            struct store_tail tail = {.position = position++,
                                      .text = " word",
                                      .n_text = 5,
                                      .units = units,
                                      .n_units = sizes[i]};
            ok(store_tail_add(f->s, id, &tail, &err));
        }
        print_message("store_tail_add with %zu bytes of units: %.1f us\n", sizes[i],
                      (double)(now_us() - t) / 500);
    }
    int64_t t = now_us();
    ok(store_begin(f->s, &err));
    say(f, id, STORE_ASSISTANT, "answer");
    ok(store_tail_clear(f->s, id, &err));
    ok(store_commit(f->s, &err));
    print_message("closing that answer: %lld us\n", (long long)(now_us() - t));
    t = now_us();
    reopen(f);
    print_message("closing and opening the file: %lld us\n", (long long)(now_us() - t));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(conversations_come_and_go),
        TEST(bad_names),
        TEST(list_is_newest_first),
        TEST(titles),
        TEST(counters_follow),
        TEST(ten_thousand_conversations),
        TEST(messages_round_trip),
        TEST(walks_nest),
        TEST(large_message),
        TEST(the_tail_is_the_running_answer),
        TEST(state_is_kept),
        TEST(segments_round_trip),
        TEST(going_back),
        TEST(branches_share_their_cache),
        TEST(copies_into_another_file),
        TEST(caches_within_a_limit),
        TEST(deleting_can_be_undone),
        TEST(searching),
        TEST(encrypted),
        TEST(not_encrypted_afterwards),
        TEST(vectors),
        TEST(version_1_is_brought_up_to_date),
        TEST(models),
        TEST(digests),
        TEST(transactions),
        TEST(one_writer_per_conversation),
        TEST(two_programs_share_a_file),
        TEST(files_that_are_not_ours),
        TEST(newer_and_mutilated_schema),
        TEST(modes_of_files),
        TEST(what_may_not_be_written),
        TEST(torn_files),
        TEST(rows_that_were_tampered_with),
        TEST(a_token_is_cheap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
