/* store: data is read back in order, complete, and shared where possible; one writer per
 * conversation. Files that are old, foreign or damaged: test_store_files.c. Encryption:
 * test_store_secret.c. Saved caches: test_store_cache.c. Faults while writing:
 * tests/fault/test_store_fault.c. Long on purpose: each test is a few calls on the same small
 * store, made by store_kit.h. */
#include "tests/unit/store_kit.h"

#include "base/file.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- conversations --------------------------------------------------------------------------- */

STORE_TEST(conversations_come_and_go)
{
    struct store_conversation c;
    ok(store_conversation_latest(f->s, &c, &err));
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
    ok(store_conversation_find(f->s, "ferien", &c, &err));
    ok(store_conversation_rename(f->s, id, "trip", &err));
    ok(store_conversation_rename(f->s, id, "trip", &err)); /* renaming to its own name is allowed */
    refused(store_conversation_rename(f->s, id, "chat-1", &err), ERR_USAGE, "'chat-1' already");
    refused(store_conversation_create(f->s, "trip", &c, &err), ERR_USAGE, "'trip' already");
    refused(store_conversation_rename(f->s, 999, "z", &err), ERR_FAIL, "number 999");
    ok(store_conversation_delete(f->s, id, &err));
    ok(store_conversation_find(f->s, "trip", &c, &err));
    refused(store_conversation_delete(f->s, id, &err), ERR_FAIL, "deleted in another");
    assert_true(begin_named(f, "trip") > id); /* an id is not used twice */
}

STORE_TEST(what_is_empty_is_forgotten)
{
    struct store_conversation c;
    int64_t empty = begin_named(f, "empty"), full = begin_named(f, "full");
    say(f, full, CHAT_USER, "a");
    ok(store_conversation_remove(f->s, empty, "as it was called before", &err));
    assert_int_equal(store_conversation_find(f->s, "empty", &c, &err), 1);
    ok(store_conversation_remove(f->s, empty, "empty", &err));
    ok(store_conversation_find(f->s, "empty", &c, &err));
    refused(store_conversation_restore(f->s, "empty", NULL, &err), ERR_FAIL, "no deleted");
    ok(store_conversation_remove(f->s, empty, "empty", &err)); /* already removed */
    ok(store_conversation_remove(f->s, full, "full", &err));
    assert_int_equal(store_conversation_find(f->s, "full", &c, &err), 1);
    ok(store_check(f->s, &err));
}

STORE_TEST(bad_names)
{
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
    return ++*(int *)ctx == 2 ? 77 : 0;
}

STORE_TEST(list_is_newest_first)
{
    struct store_conversation c;
    struct str s = {0};
    int64_t a = begin_named(f, "a");
    begin_named(f, "b");
    begin_named(f, "c");
    usleep(3000);
    say(f, a, CHAT_USER, "hello");
    ok(store_conversation_list(f->s, note_name, &s, &err));
    assert_string_equal(str_get(&s), "a c b ");
    str_release(&s);
    assert_int_equal(store_conversation_latest(f->s, &c, &err), 1);
    assert_string_equal(c.name, "a");
    int n = 0;
    assert_int_equal(store_conversation_list(f->s, stop_at_second, &n, &err), 77);
    assert_int_equal(n, 2);
}

/* The clock was set back, or another one was ahead: the conversation spoken in last is still the
 * newest. */
STORE_TEST(clocks_jump)
{
    struct store_conversation c;
    int64_t a = begin_named(f, "a"), b = begin_named(f, "b");
    say(f, a, CHAT_USER, "x");
    say(f, b, CHAT_USER, "y");
    ok(store_conversation_times(f->s, b, 1000, INT64_C(4102444800000), &err)); /* 2100 */
    assert_int_equal(store_conversation_latest(f->s, &c, &err), 1);
    assert_string_equal(c.name, "b");
    say(f, a, CHAT_USER, "z");
    assert_int_equal(store_conversation_latest(f->s, &c, &err), 1);
    assert_string_equal(c.name, "a");
    struct store_message m = {
        .role = CHAT_USER, .text = "old", .n_text = 3, .created_ms = 5000}; /* imported */
    ok(store_message_add(f->s, b, &m, &err));
    assert_int_equal(look(f, "b").updated_ms, 5000);
    ok(store_check(f->s, &err));
}

static void assert_title(struct fixture *f, const char *said, const char *expected)
{
    struct store_conversation c;
    ok(store_conversation_create(f->s, NULL, &c, &err));
    say(f, c.id, CHAT_SYSTEM, "You are a parrot.");
    say(f, c.id, CHAT_USER, said);
    say(f, c.id, CHAT_USER, "and another");
    assert_string_equal(look(f, c.name).title, expected);
}

STORE_TEST(titles)
{
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

STORE_TEST(counters_follow)
{
    int64_t id = begin_named(f, "n");
    say(f, id, CHAT_USER, "a");
    say(f, id, CHAT_ASSISTANT, "b");
    say(f, id, CHAT_USER, "c");
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

/* ---- transcript ------------------------------------------------------------------------------ */

STORE_TEST(messages_round_trip)
{
    int64_t id = begin_named(f, "m"), other = begin_named(f, "o");
    assert_messages(f, id, "");
    say(f, id, CHAT_SYSTEM, "");
    say(f, other, CHAT_USER, "elsewhere");
    say(f, id, CHAT_USER, "bytes \xff\xfe\x01 and \xc3\xa9");
    struct store_message m = {.role = CHAT_ASSISTANT, .text = "no tokens", .n_text = 9};
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

static int is_thoughtful(void *ctx, const struct store_message *m)
{
    const struct store_thought *want = ctx;
    bool answer = m->role == CHAT_ASSISTANT;
    assert_int_equal(m->thought.text != NULL, answer);
    if (!answer) assert_int_equal(m->thought.n, 0);
    if (!answer) return 0;
    assert_string_equal(m->thought.text, want->text);
    assert_int_equal(m->thought.n, want->n);
    assert_int_equal(m->thought.n_tokens, want->n_tokens);
    assert_int_equal(m->thought.ms, want->ms);
    return 0;
}

TEST_WITH(thoughts_round_trip, setup, teardown)
{
    static const char *const changes[] = {
        "UPDATE message SET thought = 'hmm' WHERE thought NOT NULL",
        "UPDATE message SET thought = thought || ' hm, ha' WHERE thought NOT NULL",
        "UPDATE message SET thought_tokens = 4, thought = 'hm, hm' WHERE thought NOT NULL",
        "UPDATE message SET thought_tokens = 3, thought_ms = 1 WHERE thought NOT NULL",
        "UPDATE message SET thought = NULL"};
    struct fixture *f = *state;
    int64_t id = begin_named(f, "m");
    struct store_thought thought = {"hm, hm", 6, 3, 1234};
    struct store_message m = {
        .role = CHAT_ASSISTANT, .text = "2", .n_text = 1, .settings = "--temp 1"};
    m.thought = thought;
    say(f, id, CHAT_USER, "1 + 1?");
    ok(store_message_add(f->s, id, &m, &err));
    say(f, id, CHAT_USER, "and 2?");
    reopen(f);
    ok(store_message_each(f->s, id, is_thoughtful, &thought, &err));
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        tamper(f, changes[i]);
        refused(store_message_each(f->s, id, is_thoughtful, &thought, &err), ERR_FORMAT,
                "message 1");
        tamper(f, "UPDATE message SET thought = 'hm, hm', thought_tokens = 3, thought_ms = 1234 "
                  "WHERE id = 2");
        ok(store_message_each(f->s, id, is_thoughtful, &thought, &err));
    }
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

STORE_TEST(walks_nest)
{
    int64_t id = begin_named(f, "m");
    assert_int_equal(id, 1);
    say(f, id, CHAT_USER, "a");
    say(f, id, CHAT_ASSISTANT, "b");
    ok(store_message_each(f->s, id, walk_again, f, &err));
}

STORE_TEST(large_message)
{
    int64_t id = begin_named(f, "m");
    size_t n = 3 << 20, n_tokens = 1 << 20;
    AUTO_FREE char *text = malloc(n + 1);
    AUTO_FREE int32_t *tokens = malloc(n_tokens * sizeof *tokens);
    for (size_t i = 0; i < n; i++) text[i] = (char)('a' + i % 26);
    text[n] = 0;
    for (size_t i = 0; i < n_tokens; i++) tokens[i] = (int32_t)i;
    struct store_message m = {
        .role = CHAT_USER, .text = text, .n_text = n, .tokens = tokens, .n_tokens = n_tokens};
    ok(store_message_add(f->s, id, &m, &err));
    AUTO_STR s = {0};
    ok(store_message_each(f->s, id, note_message, &s, &err));
    assert_memory_equal(s.data + 4, text, n);
    assert_non_null(strstr(s.data + 4 + n, "/1048575;"));
}

STORE_TEST(the_tail_is_the_running_answer)
{
    int64_t id = begin_named(f, "t");
    say(f, id, CHAT_USER, "q");
    grow(f, id, 10, "\xe6\x97", ""); /* half a character */
    grow(f, id, 11, "\xa5", "uuu");
    grow(f, id, 12, "", "vvv");
    assert_tail(f, id, "10/100/\xe6\x97/;11/110/\xa5/uuu;12/120//vvv;");
    assert_messages(f, id, "0/1/q/1/-2/2147483647;-1/2/\xe6\x97\xa5/100/110/120;");
    ok(store_cache_drop(f->s, id, &err));
    assert_tail(f, id, "10/100/\xe6\x97/;11/110/\xa5/;12/120//;");
    struct store_tail again = {.position = 12, .text = "", .units = NULL};
    refused(store_tail_add(f->s, id, &again, &err), ERR_FAIL, "already saved");
    refused(store_tail_add(f->s, 99, &again, &err), ERR_FAIL, "deleted in another");
    ok(store_begin(f->s, &err));
    say(f, id, CHAT_ASSISTANT, "日");
    ok(store_tail_clear(f->s, id, &err));
    ok(store_commit(f->s, &err));
    assert_tail(f, id, "");
    assert_messages(f, id, "0/1/q/1/-2/2147483647;1/2/日/1/-2/2147483647;");
}

STORE_TEST(state_is_kept)
{
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

/* ---- deleting and searching ------------------------------------------------------------------ */

STORE_TEST(deleting_can_be_undone)
{
    struct store_conversation c;
    AUTO_STR s = {0};
    int64_t n, id = begin_two_turns(f, "trip");
    ok(store_conversation_delete(f->s, id, &err));
    ok(store_conversation_list(f->s, note_name, &s, &err));
    assert_string_equal(str_get(&s), "");
    ok(store_conversation_latest(f->s, &c, &err));
    assert_int_equal(count_hits(f, "question"), 0);
    int64_t second = begin_named(f, "trip");
    assert_true(second > id);
    ok(store_conversation_delete(f->s, second, &err));
    ok(store_conversation_restore(f->s, "trip", NULL, &err)); /* the newer one */
    assert_int_equal(look(f, "trip").id, second);
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
    ok(store_purge(f->s, 0, &n, &err));
    assert_int_equal(n, 2);
    refused(store_conversation_restore(f->s, "trip again", NULL, &err), ERR_FAIL, "any more");
    assert_int_equal(count_rows(f, "message"), 0);
    assert_int_equal(count_rows(f, "search"), 0);
}

/* What was deleted is purged after 30 days of use, not when the clock leaps. */
TEST_WITH(a_leap_of_the_clock_purges_nothing, setup, teardown)
{
    const int64_t day = 86400000, keep = 30 * day;
    struct fixture *f = *state;
    int64_t n, id = begin_two_turns(f, "old"), other = begin_two_turns(f, "other");
    ok(store_conversation_delete(f->s, id, &err));
    tamper(f, "UPDATE conversation SET deleted_ms = deleted_ms - 34 * 86400000 "
              "WHERE deleted_ms NOT NULL"); /* now the clock shows 34 days later */
    struct store_conversation c = look(f, "other");
    ok(store_purge(f->s, keep, &n, &err));
    assert_int_equal(n, 0);
    ok(store_conversation_times(f->s, other, c.created_ms, c.updated_ms - 20 * day, &err));
    ok(store_purge(f->s, keep, &n, &err)); /* used after it was deleted, but not 30 days after */
    assert_int_equal(n, 0);
    ok(store_conversation_times(f->s, other, c.created_ms, c.updated_ms - 2 * day, &err));
    ok(store_purge(f->s, keep, &n, &err));
    assert_int_equal(n, 1);
}

STORE_TEST(searching)
{
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
    /* saving works even with a damaged index */
    say(f, look(f, "allotment").id, CHAT_USER, "still saved");
    ok(store_compact(f->s, &err));
    ok(store_check(f->s, &err));
    assert_found(f, "saved", "allotment/2/still \2saved\3;");
}

/* ---- tags ------------------------------------------------------------------------------------ */

static int note_tag(void *ctx, const char *tag)
{
    str_printf(ctx, "%s;", tag);
    return 0;
}

static void assert_tags(struct fixture *f, int64_t id, const char *expected)
{
    AUTO_STR s = {0};
    ok(store_tag_each(f->s, id, note_tag, &s, &err));
    assert_string_equal(str_get(&s), expected);
}

static int note_tagged(void *ctx, const struct store_conversation *c)
{
    str_printf(ctx, "%s;", c->name);
    return 0;
}

static void assert_tagged(struct fixture *f, const char *tag, const char *expected)
{
    AUTO_STR s = {0};
    ok(store_tagged_each(f->s, tag, note_tagged, &s, &err));
    assert_string_equal(str_get(&s), expected);
}

STORE_TEST(tags)
{
    struct store_conversation c;
    int64_t a = begin_named(f, "a"), b = begin_named(f, "b");
    assert_false(look(f, "a").has_tags);
    ok(store_tag_add(f->s, a, "work", &err));
    ok(store_tag_add(f->s, a, "work", &err));
    ok(store_tag_add(f->s, a, "später", &err));
    ok(store_tag_add(f->s, b, "work", &err));
    assert_true(look(f, "a").has_tags);
    assert_tags(f, a, "später;work;");
    assert_tagged(f, "work", "b;a;");
    assert_tagged(f, "none", "");
    refused(store_tag_add(f->s, a, "two words", &err), ERR_USAGE, "one word");
    refused(store_tag_add(f->s, a, "", &err), ERR_USAGE, "one word");
    refused(store_tag_add(f->s, a, "#x", &err), ERR_USAGE, "one word");
    refused(store_tag_add(f->s, 99, "x", &err), ERR_FAIL, "does not exist");
    ok(store_conversation_copy(f->s, a, 0, -1, f->s, "twig", &c, &err));
    assert_tags(f, c.id, "später;work;");
    ok(store_conversation_delete(f->s, c.id, &err));
    assert_tagged(f, "work", "b;a;");
    assert_int_equal(store_tag_remove(f->s, a, "work", &err), 1);
    ok(store_tag_remove(f->s, a, "work", &err));
    assert_tagged(f, "work", "b;");
    reopen(f);
    assert_tags(f, a, "später;");
    tamper(f, "UPDATE tag SET label = 'play' WHERE conversation = 2");
    refused(store_check(f->s, &err), ERR_FORMAT, "a tag of conversation 'b'");
}

/* ---- models ---------------------------------------------------------------------------------- */

STORE_TEST(models)
{
    struct file_identity m = {.path = "/m/a.gguf", .size = 5LL << 40, .mtime_ns = 123, .inode = 9},
                         k;
    digest_make(m.digest, "abc", 3);
    ok(store_model_find(f->s, m.path, &k, &err));
    ok(store_model_put(f->s, &m, &err));
    m.mtime_ns = 456;
    ok(store_model_put(f->s, &m, &err));
    assert_int_equal(store_model_find(f->s, m.path, &k, &err), 1);
    assert_memory_equal(&m, &k, sizeof m);
}

TEST_WITH(digests, setup, teardown)
{
    uint8_t d[DIGEST_BYTES];
    char hex[DIGEST_HEX];
    digest_make(d, "abc", 3); /* printf abc | b2sum -l 256 */
    digest_hex(hex, d);
    assert_string_equal(hex, "bddd813c634239723171ef3fee98579b94964e3bb1cb3e427262c8c068d52319");
    digest_make(d, NULL, 0);
    digest_hex(hex, d);
    assert_string_equal(hex, "0e5751c026e543b2e8ab2eb06099daa1d1e5df47778f7787faab45cdf12fe3a8");
}

/* ---- transactions ---------------------------------------------------------------------------- */

STORE_TEST(transactions)
{
    int64_t id = begin_named(f, "t");
    store_rollback(f->s);
    ok(store_begin(f->s, &err));
    refused(store_begin(f->s, &err), ERR_FAIL, "open already");
    say(f, id, CHAT_USER, "gone");
    grow(f, id, 1, "x", "y");
    keep(f, id, 0, 0, "units");
    store_rollback(f->s);
    assert_messages(f, id, "");
    assert_segments(f, id, "");
    assert_int_equal(look(f, "t").n_turns, 0);
    refused(store_commit(f->s, &err), ERR_FAIL, "no transaction");
    ok(store_begin(f->s, &err));
    say(f, id, CHAT_USER, "kept");
    ok(store_commit(f->s, &err));
    ok(store_begin(f->s, &err));
    say(f, id, CHAT_USER, "lost with the process");
    reopen(f);
    assert_messages(f, id, "0/1/kept/1/-2/2147483647;");
}

/* ---- other processes ------------------------------------------------------------------------- */

STORE_TEST(one_writer_per_conversation)
{
    int64_t a = begin_named(f, "holiday"), b = begin_named(f, "work");
    struct store *second;
    ok(store_open(&second, f->path, NULL, &err));
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
    ok(store_open(&f->s, f->path, NULL, &err));

    int go[2], done[2];
    char byte = 0;
    assert_int_equal(pipe(go) + pipe(done), 0);
    pid_t child = fork();
    if (child == 0) { /* locks, reports it, and is killed */
        struct store *mine;
        int rc = store_open(&mine, f->path, NULL, NULL);
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

STORE_TEST(two_programs_share_a_file)
{
    int64_t a = begin_named(f, "a");
    AUTO_STORE *second;
    ok(store_open(&second, f->path, NULL, &err));
    struct fixture g = {.s = second};
    int64_t b = begin_named(&g, "b");
    for (int i = 0; i < 20; i++) {
        say(f, a, CHAT_USER, "x");
        say(&g, b, CHAT_USER, "y");
    }
    assert_int_equal(look(f, "b").n_turns, 20);
    assert_int_equal(look(&g, "a").n_turns, 20);
    ok(store_begin(f->s, &err));
    say(f, a, CHAT_USER, "x");
    assert_int_equal(look(&g, "a").n_turns, 20); /* readers never have to wait */
    store_rollback(f->s);
    ok(store_conversation_delete(f->s, b, &err));
    struct store_message m = {.role = CHAT_USER, .text = "late", .n_text = 4};
    refused(store_message_add(second, b, &m, &err), ERR_FAIL, "deleted in another");
}

struct intruder {
    struct fixture second;
    int64_t id;
    int n; /* messages read */
};

/* Whether a word is in the file or in its log. */
static bool is_readable(const struct fixture *f, const char *word)
{
    static const char *const ends[] = {"", "-wal"};
    bool found = false;
    for (int i = 0; i < 2; i++) {
        AUTO_STR path = {0}, bytes = {0};
        str_printf(&path, "%s%s", f->path, ends[i]);
        ok(file_read(path.data, FILE_DATA, &bytes, &err));
        found = found || memmem(str_get(&bytes), bytes.n, word, strlen(word));
    }
    return found;
}

/* Short ones lie in a page with others, long ones in pages of their own that become free. */
STORE_TEST(removed_words_are_unreadable)
{
    AUTO_STR large = {0};
    int64_t n, id = begin_named(f, "kept");
    for (int i = 0; i < 3000; i++) str_puts(&large, "xylophone zebra ");
    for (int i = 0; i < 2; i++) {
        say(f, id, CHAT_USER, "a first question");
        say(f, id, CHAT_USER, "what does the xylophone cost?");
        say(f, id, CHAT_ASSISTANT, large.data);
        assert_true(is_readable(f, "xylophone"));
        if (i == 0) {
            ok(store_rewind(f->s, id, 1, -1, &err));
            assert_true(is_readable(f, "first question"));
        } else {
            ok(store_conversation_delete(f->s, id, &err));
            ok(store_purge(f->s, 0, &n, &err));
        }
        assert_false(is_readable(f, "xylophone"));
        assert_false(is_readable(f, "zebra"));
    }
}

/* A hundred branches of a long text are hardly larger than the text. It is found in each of them,
 * and stays until the last one removes it. */
STORE_TEST(branches_share_messages)
{
    struct store_conversation c;
    AUTO_STR large = {0};
    int64_t n, id = begin_named(f, "trunk");
    str_puts(&large, "quince "); /* snippets of many matches take long */
    for (int i = 0; i < 6000; i++) str_puts(&large, "xylophone zebra ");
    say(f, id, CHAT_USER, "a first question");
    say(f, id, CHAT_ASSISTANT, large.data);
    say(f, id, CHAT_USER, "another");
    int64_t before = query_number(f, "PRAGMA page_count");
    for (int i = 0; i < 100; i++) {
        ok(store_conversation_copy(f->s, id, 2, -1, f->s, NULL, &c, &err));
        id = c.id; /* a branch of the branch */
    }
    assert_true(query_number(f, "PRAGMA page_count") < before + 120);
    assert_int_equal(count_rows(f, "message"), 3);
    assert_string_equal(c.title, "a first question");
    assert_int_equal(c.n_turns, 1);
    assert_int_equal(c.n_tokens, 6);
    assert_int_equal(count_hits(f, "quince"), 101);
    assert_int_equal(count_hits(f, "another"), 1);
    say(f, id, CHAT_USER, "mine alone");
    assert_int_equal(count_hits(f, "alone"), 1);
    ok(store_compact(f->s, &err));
    assert_int_equal(count_hits(f, "quince"), 101);
    ok(store_check(f->s, &err));
    tamper(f, "UPDATE conversation SET deleted_ms = 1 WHERE id < 101");
    ok(store_purge(f->s, 0, &n, &err));
    assert_int_equal(n, 100);
    assert_int_equal(count_rows(f, "message"), 3);
    assert_int_equal(count_hits(f, "quince"), 1);
    assert_true(is_readable(f, "xylophone"));
    ok(store_rewind(f->s, id, 1, -1, &err));
    assert_false(is_readable(f, "xylophone"));
    assert_int_equal(count_hits(f, "quince"), 0);
    assert_int_equal(count_rows(f, "message"), 1);
    ok(store_check(f->s, &err));
}

/* A branch does not hide that a message is missing. */
TEST_WITH(damaged_ones_are_not_branched, setup, teardown)
{
    static const char *const damage[] = {
        "DELETE FROM message WHERE id = 1", "DELETE FROM transcript WHERE seq = 1",
        "UPDATE transcript SET digest = x'00' WHERE conversation = 2"};
    struct store_conversation c;
    struct fixture *f = *state;
    for (int i = 0; i < 3; i++) {
        int64_t id = begin_named(f, NULL);
        say(f, id, CHAT_USER, "one");
        say(f, id, CHAT_ASSISTANT, "two");
        ok(store_conversation_copy(f->s, id, 2, -1, f->s, NULL, &c, &err));
        tamper(f, damage[i]);
        refused(
            store_conversation_copy(f->s, i == 2 ? c.id : id, INT64_MAX, -1, f->s, NULL, &c, &err),
            ERR_FORMAT, "is damaged");
        tamper(f, "DELETE FROM transcript; DELETE FROM message; DELETE FROM search; "
                  "DELETE FROM sqlite_sequence; DELETE FROM conversation");
    }
}

static int write_meanwhile(void *ctx, const struct store_message *m)
{
    struct intruder *k = ctx;
    assert_false(m->damaged);
    if (k->n++ == 0) {
        say(&k->second, k->id, CHAT_ASSISTANT, "an answer");
        say(&k->second, k->id, CHAT_USER, "another question");
    }
    return 0;
}

/* Messages that another program adds while they are read are not reported as damage, neither
 * within a walk nor between two walks of one reading. */
STORE_TEST(a_reader_sees_one_state)
{
    struct intruder k = {.id = begin_named(f, "a")};
    ok(store_open(&k.second.s, f->path, NULL, &err));
    say(f, k.id, CHAT_USER, "a question");
    ok(store_message_each(f->s, k.id, write_meanwhile, &k, &err));
    assert_int_equal(k.n, 1);
    k.n = 0;
    ok(store_begin_reading(f->s, &err));
    assert_int_equal(look(f, "a").n_turns, 2);
    ok(store_message_each(f->s, k.id, write_meanwhile, &k, &err));
    assert_int_equal(k.n, 3);
    ok(store_message_each(f->s, k.id, write_meanwhile, &k, &err));
    assert_int_equal(k.n, 6);
    assert_int_equal(look(f, "a").n_turns, 2);
    store_end_reading(f->s);
    assert_int_equal(look(f, "a").n_turns, 3);
    store_close(k.second.s);
}

/* ---- progress -------------------------------------------------------------------------------- */

static int stop_at_third(void *ctx, int64_t done, int64_t total)
{
    assert_int_equal(total, 5);
    assert_int_equal(done, ++*(int *)ctx);
    return done == 3;
}

STORE_TEST(checking_reports_its_progress)
{
    const char *const names[] = {"a", "b", "c", "d", "e"};
    int n = 0;
    for (int i = 0; i < 5; i++) begin_named(f, names[i]);
    store_watch(f->s, stop_at_third, &n);
    refused(store_check(f->s, &err), ERR_STOP, "interrupted");
    assert_int_equal(n, 3);
    store_watch(f->s, NULL, NULL);
    ok(store_check(f->s, &err));
}
