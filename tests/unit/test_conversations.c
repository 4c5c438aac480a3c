/* conversations: saved conversations as the screens see them, and nothing saved in private mode. */

#include "tests/test.h"

#include "base/str.h"
#include "runtime/save/conversations.h"
#include "runtime/save/passages.h"
#include "store/store.h"

struct fixture {
    const char *path;
    struct conversations *l;
};

static int64_t begin_named(struct conversations *l, const char *name)
{
    struct store_conversation c;
    ok(store_conversation_create(conversations_store(l), name, &c, &err));
    return c.id;
}

static void say(struct conversations *l, int64_t id, enum chat_role role, const char *text,
                size_t n)
{
    int32_t tokens[16] = {0};
    struct store_message m = {
        .role = role, .text = text, .n_text = strlen(text), .tokens = tokens, .n_tokens = n};
    ok(store_message_add(conversations_store(l), id, &m, &err));
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    f->path = path_in(folder_new(), "retain.db");
    *state = f;
    return conversations_open(&f->l, f->path, NULL, &err);
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    conversations_close(f->l);
    free(f);
    return 0;
}

static int note_entry(void *ctx, const struct conversations_entry *c)
{
    str_printf(ctx, "%s|%s|%lld|%lld|%lld;", c->name, c->title, (long long)c->n_turns,
               (long long)c->n_tokens, (long long)c->cache_bytes);
    return 0;
}

static int note_message(void *ctx, const struct store_message *m)
{
    str_printf(ctx, "%d|%s|%lld+%lld%s;", (int)m->role, m->text, (long long)m->position,
               (long long)m->n_tokens, m->seq < 0 ? "…" : "");
    return 0;
}

static int stop(void *ctx, const struct conversations_entry *c)
{
    return 5;
}

TEST_WITH(lists_and_messages, setup, teardown)
{
    struct fixture *f = *state;
    struct str s = {0};
    int64_t id = begin_named(f->l, "trip");
    say(f->l, id, CHAT_SYSTEM, "be kind", 4);
    say(f->l, id, CHAT_USER, "where to?", 5);
    struct store_tail t = {.position = 9, .token = 3, .text = "Ro", .n_text = 2};
    ok(store_tail_add(conversations_store(f->l), id, &t, &err));
    ok(conversations_list(f->l, NULL, note_entry, &s, &err));
    assert_string_equal(str_get(&s), "trip|where to?|1|9|0;");
    str_clear(&s);
    ok(conversations_messages(f->l, "trip", note_message, &s, &err));
    assert_string_equal(str_get(&s), "0|be kind|0+4;1|where to?|4+5;2|Ro|9+1…;");
    str_release(&s);
    assert_int_equal(conversations_list(f->l, NULL, stop, NULL, &err), 5);
}

TEST_WITH(by_name, setup, teardown)
{
    struct fixture *f = *state;
    AUTO_STR s = {0};
    begin_named(f->l, "holiday plans");
    begin_named(f->l, "tax");
    begin_named(f->l, "chat-1");
    begin_named(f->l, "chat-2");
    refused(conversations_messages(f->l, "chat-3", note_message, &s, &err), ERR_FAIL,
            "there is no conversation 'chat-3'; did you mean 'chat-2' or 'chat-1'?");
    refused(conversations_rename(f->l, "holi", "x", &err), ERR_FAIL,
            "did you mean 'holiday plans'?");
    refused(conversations_delete(f->l, "Tax", &err), ERR_FAIL, "did you mean 'tax'?");
    refused(conversations_delete(f->l, "xylophone", &err), ERR_FAIL, "`retain list` shows all");
    refused(conversations_rename(f->l, "tax", "chat-1", &err), ERR_USAGE, "already");
    ok(conversations_rename(f->l, "tax", "money", &err));
    ok(conversations_delete(f->l, "money", &err));
    refused(conversations_delete(f->l, "money", &err), ERR_FAIL, "no conversation 'money'");
}

static int note_tags(void *ctx, const struct conversations_entry *c)
{
    str_printf(ctx, "%s;", c->tags);
    return 0;
}

TEST_WITH(tags, setup, teardown)
{
    struct fixture *f = *state;
    AUTO_STR s = {0};
    begin_named(f->l, "trip");
    ok(conversations_retag(f->l, "trip", " work, #rome  late", &err));
    ok(conversations_list(f->l, NULL, note_tags, &s, &err));
    assert_string_equal(str_get(&s), "#late #rome #work;");
    str_clear(&s);
    ok(conversations_retag(f->l, "trip", "-#rome home -late", &err));
    ok(conversations_list(f->l, "home", note_tags, &s, &err));
    assert_string_equal(str_get(&s), "#home #work;");
    refused(conversations_retag(f->l, "trip", "new -rome", &err), ERR_FAIL, "no tag #rome");
    refused(conversations_retag(f->l, "tripp", "x", &err), ERR_FAIL, "did you mean 'trip'?");
    ok(conversations_retag(f->l, "trip", " , ", &err));
}

TEST_WITH(not_while_it_is_open_elsewhere, setup, teardown)
{
    struct fixture *f = *state;
    struct store *other;
    int64_t id = begin_named(f->l, "shared");
    ok(store_open(&other, f->path, NULL, &err));
    ok(store_lock(other, id, &err));
    refused(conversations_delete(f->l, "shared", &err), ERR_FAIL, "open in another retain");
    store_close(other);
    ok(conversations_delete(f->l, "shared", &err));
}

TEST(private_mode_has_nothing)
{
    struct conversations *l;
    struct str s = {0};
    ok(conversations_open(&l, NULL, NULL, &err));
    assert_null(conversations_store(l));
    ok(conversations_list(l, NULL, note_entry, &s, &err));
    assert_int_equal(s.n, 0);
    refused(conversations_messages(l, "private", note_message, &s, &err), ERR_USAGE,
            "a private conversation does not keep its turns");
    refused(conversations_rename(l, "a", "b", &err), ERR_FAIL, "nothing is saved");
    refused(conversations_delete(l, "a", &err), ERR_FAIL, "nothing is saved");
    str_release(&s);
    conversations_close(l);
    conversations_close(NULL);
    refused(conversations_open(&l, "/dev/null", NULL, &err), ERR_FAIL, "not a regular file");
    assert_null(l);
}

/* ---- passages -------------------------------------------------------------------------------- */

static const char *passage(struct fixture *f, const char *from, const char *message)
{
    static struct str out;
    str_clear(&out);
    ok(passages_find(f->l, from, "new", message, strlen(message), &out, &err));
    return str_get(&out);
}

TEST_WITH(passages_in_other_conversations, setup, teardown)
{
    struct fixture *f = *state;
    int64_t work = begin_named(f->l, "work"), home = begin_named(f->l, "home");
    say(f->l, work, CHAT_USER, "Hello there! My locker code is 40917.", 3);
    say(f->l, work, CHAT_ASSISTANT, "Your locker code is 11111.", 3);
    say(f->l, work, CHAT_USER, "What is my locker code? I forgot. My desk is green.", 3);
    say(f->l, home, CHAT_USER, "My sister's dog is called Biscuit.", 3);
    say(f->l, home, CHAT_USER, "Update: my sister's dog is now called Rex.", 3);
    say(f->l, home, CHAT_USER, "From \"work\": My bicycle is blue.", 3);
    begin_named(f->l, "new");
    const char locker[] = "What is my locker code?";
    assert_string_equal(passage(f, "all", locker),
                        "From \"work\": Hello there! My locker code is 40917.");
    assert_string_equal(passage(f, "home", locker), "");
    assert_string_equal(passage(f, "home,work", "What colour is my desk?"),
                        "From \"work\": My desk is green.");
    assert_string_equal(passage(f, "all", "What is my sister\u2019s dog \u2014 called?"),
                        "From \"home\": My sister's dog is called Biscuit. "
                        "Update: my sister's dog is now called Rex.");
    assert_string_equal(passage(f, "all", "Is my bicycle blue?"), "");
    say(f->l, work, CHAT_USER, "The keys are here. How are you?", 3);
    assert_string_equal(passage(f, "all", "How are you?"), "");
    assert_string_equal(passage(f, "all", "\"(*) NEAR"), "");
}

/* Neither its own words nor those of a deleted conversation. */
TEST_WITH(passages_of_others_only, setup, teardown)
{
    struct fixture *f = *state;
    const char code[] = "My locker code is 40917.", asked[] = "My locker code?";
    say(f->l, begin_named(f->l, "work"), CHAT_USER, code, 3);
    int64_t new = begin_named(f->l, "new");
    say(f->l, new, CHAT_USER, "My locker code is red.", 3);
    say(f->l, new, CHAT_USER, "My locker code is blue.", 3);
    say(f->l, new, CHAT_USER, "My locker code is green.", 3);
    assert_string_equal(passage(f, "all", asked), "From \"work\": My locker code is 40917.");
    say(f->l, new, CHAT_USER, "From \"work\": My locker code is 40917.", 3);
    assert_string_equal(passage(f, "all", asked), "");
    say(f->l, begin_named(f->l, "old"), CHAT_USER, "My hat size is 58.", 3);
    assert_string_equal(passage(f, "all", "My hat size?"), "From \"old\": My hat size is 58.");
    ok(conversations_delete(f->l, "old", &err));
    assert_string_equal(passage(f, "all", "My hat size?"), "");
}

TEST_WITH(passages_refused, setup, teardown)
{
    struct fixture *f = *state;
    AUTO_LIBRARY *none;
    begin_named(f->l, "work");
    ok(passages_check(f->l, "all", &err));
    ok(passages_check(f->l, "work", &err));
    refused(passages_check(f->l, "work,wrk", &err), ERR_FAIL, "no conversation wrk");
    ok(conversations_open(&none, NULL, NULL, &err));
    refused(passages_check(none, "all", &err), ERR_USAGE, "a private chat reads no other");
}
