/* Another system text for a conversation that has begun: it is read as if it had begun with that
 * text. With the demo model. */

#include "tests/unit/session_kit.h"

#define KING  "Speak like a king of Zanzibar."
#define SHORT "Be brief."

static const struct chat_message turns[] = {
    {CHAT_USER, "My locker code is 48213."}, {CHAT_ASSISTANT, "I will remember the code 48213."},
    {CHAT_USER, "Tell me about cats."},      {CHAT_ASSISTANT, "Cats sleep most of the day."},
    {CHAT_USER, "Tell me about dogs."},      {CHAT_ASSISTANT, "Dogs like long walks."},
};
enum { N_TURNS = sizeof turns / sizeof *turns };

struct place {
    const char *dir;
    struct conversations *l;
    struct options o;
};

static struct place place_of(int budget)
{
    struct place p = {.dir = folder_new()};
    p.l = open_library(p.dir);
    p.o = options_of("sink", "q4", 0);
    p.o.session.plan.budget = budget;
    p.o.session.recall.chooser = RECALL_WORDS;
    return p;
}

static void leave(struct place *p)
{
    conversations_close(p->l);
}
#define AUTO_PLACE __attribute__((cleanup(leave))) struct place

static void open_talk(struct session **s, struct place *p, const char *name, const char *system,
                      bool replace)
{
    struct session_opts o = p->o.session;
    o.conversation = name;
    o.system = system;
    o.replace_system = replace;
    ok(session_open(s, engine, p->l, &o, NULL, &err));
}

static void feed(struct session *s)
{
    static const struct session_sink silent;
    ok(session_feed(s, turns, N_TURNS, &silent, &err));
}

/* A talk that has another system text now, or lost it, is the talk that began so. */
static void same_as_begun_with(const char *before, const char *after)
{
    AUTO_PLACE p = place_of(512);
    AUTO_SESSION *s, *begun;
    struct session_stats a, b;
    AUTO_LOG x = {0}, y = {0};
    int64_t cost;
    open_talk(&begun, &p, "begun", after, false);
    feed(begun);
    open_talk(&s, &p, "talk", before, false);
    feed(s);
    ok(session_system_cost(s, after, &cost, &err));
    session_close(s);
    open_talk(&s, &p, "talk", after, true);
    assert_string_equal(session_notice(s), "");
    session_stats(begun, &a);
    session_stats(s, &b);
    assert_int_equal(a.n_tokens, b.n_tokens);
    assert_int_equal(cost, b.n_tokens);
    assert_int_equal(b.n_reread, b.n_tokens - 1);
    session_close(s); /* it is saved: opening it once more reads nothing */
    open_talk(&s, &p, "talk", NULL, false);
    session_stats(s, &b);
    assert_int_equal(b.n_reread, 0);
    assert_string_equal(session_system(s) ? session_system(s) : "", after ? after : "");
    say(begun, "What is my locker code?", &x);
    say(s, "What is my locker code?", &y);
    assert_string_equal(x.text.data, y.text.data);
    assert_true(x.logits == y.logits);
    assert_int_equal(session_ended(s), SESSION_TURN_END);
    session_close(s);
    open_talk(&s, &p, "talk", "Be kind.", true);
    assert_int_equal(session_ended(s), SESSION_TURN_END);
}

TEST(test_it_is_read_as_if_it_had_begun_so)
{
    same_as_begun_with(NULL, KING);
    same_as_begun_with(KING, SHORT);
    same_as_begun_with(SHORT, "Be quick."); /* as long: the ids alone would not show it */
    same_as_begun_with(KING, NULL);
}

/* Nobody said it, so recall finds what was said and not the system text. */
TEST(test_recall_does_not_find_it)
{
    AUTO_PLACE p = place_of(48);
    AUTO_SESSION *s;
    struct session_recalled found;
    open_talk(&s, &p, "talk", NULL, false);
    feed(s);
    session_close(s);
    open_talk(&s, &p, "talk", KING, true);
    feed(s); /* evicts what was there */
    ok(session_recall(s, "code 48213", 10, &found, &err));
    assert_true(found.n > 0);
    for (int i = 0; i < found.n; i++) assert_null(strstr(found.windows[i].text, "Zanzibar"));
    int rc = session_recall(s, "Zanzibar", 8, &found, &err);
    assert_true(rc == 0 && found.n == 0);
}

TEST(test_a_conversation_without_messages)
{
    AUTO_PLACE p = place_of(512);
    AUTO_SESSION *s;
    int64_t cost;
    open_talk(&s, &p, "empty", KING, false);
    ok(session_system_cost(s, SHORT, &cost, &err));
    assert_int_equal(cost, 0);
    session_close(s);
    open_talk(&s, &p, "empty", SHORT, true);
    assert_string_equal(session_system(s), SHORT);
    session_close(s);
    open_talk(&s, &p, "empty", NULL, false);
    assert_string_equal(session_system(s), SHORT);
}

/* Nothing is kept to read it again. */
TEST(test_private_conversations_keep_theirs)
{
    AUTO_PLACE p = place_of(512);
    AUTO_SESSION *s;
    int64_t cost;
    p.o.session.private_mode = true;
    open_talk(&s, &p, NULL, KING, false);
    feed(s);
    assert_int_equal(session_system_cost(s, SHORT, &cost, &err), ERR_USAGE);
}

AROUND_TESTS(engine_set_up, engine_tear_down)
