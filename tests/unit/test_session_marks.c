/* Turns that the user pinned or forgot, with the demo model. */

#include "runtime/session/session_parts.h"
#include "tests/unit/session_kit.h"

enum { SMALL = 160 };

static const char *const talk[] = {
    "My locker code is 48213.", "Tell me a story about a fox.",    "Tell me about cats.",
    "Tell me a joke.",          "Tell me a story about a king.",   "How are you?",
    "Tell me about dogs.",      "Tell me a story about a dragon.",
};
enum { N_TALK = sizeof talk / sizeof *talk };

static void ask(struct session *s, const char *text, struct log *log)
{
    log->text.n = 0;
    answer(s, text, log);
}

/* The share of a turn's units that is in the cache, in percent. */
static int kept_of(const struct session *s, int64_t turn)
{
    struct session_stats st;
    session_stats(s, &st);
    int heads = st.n_layer * st.n_kv_head, n_kept = 0;
    int64_t from = session_turn_end(s, turn - 1), n = session_turn_end(s, turn) - from;
    uint16_t kept[512];
    assert_true(n > 0 && n <= 512);
    session_kept(s, from, (int)n, kept);
    for (int i = 0; i < n; i++) n_kept += kept[i];
    return (int)(100 * n_kept / (n * heads));
}

static void talk_on(struct session *s, int n, struct log *log)
{
    for (int i = 1; i <= n; i++) ask(s, talk[i % N_TALK], log);
}

static void stays(const char *policy)
{
    NEW_LIBRARY(l);
    struct options o = recalling(policy, RECALL_WORDS, SMALL);
    AUTO_SESSION *s = open_session(l, o, false);
    AUTO_LOG log = {0};
    ask(s, talk[0], &log);
    talk_on(s, N_TALK, &log);
    assert_true(kept_of(s, 1) < 100);
    ok(session_pin(s, 1, NULL, &err));
    assert_int_equal(kept_of(s, 1), 100); /* it came back */
    talk_on(s, N_TALK, &log);
    assert_int_equal(kept_of(s, 1), 100);
    reopen(&s, l, o);
    assert_int_equal(reread(s), 0);
    assert_true(session_is_pinned(s, 1) && !session_is_pinned(s, 2));
    talk_on(s, N_TALK, &log);
    assert_int_equal(kept_of(s, 1), 100);
    ok(session_unpin(s, 1, NULL, &err));
    assert_int_equal(session_unpin(s, 1, NULL, &err), ERR_USAGE);
    talk_on(s, N_TALK, &log);
    assert_true(kept_of(s, 1) < 100);
}

TEST(test_a_pinned_turn_stays)
{
    stays("sink");
    stays("random");
    stays("keeper");
}

TEST(test_pins_have_a_limit)
{
    NEW_LIBRARY(l);
    AUTO_SESSION *s = open_session(l, recalling("sink", RECALL_WORDS, SMALL), false);
    AUTO_LOG log = {0};
    int rc = 0, n = 0;
    talk_on(s, N_TALK, &log);
    for (int turn = 1; turn <= N_TALK && !rc; turn++, n++) rc = session_pin(s, turn, NULL, &err);
    assert_int_equal(rc, ERR_FIT);
    assert_non_null(strstr(err.text, "budget of 160 units"));
    assert_false(session_is_pinned(s, n));
    assert_int_equal(session_pin(s, 0, NULL, &err), ERR_USAGE);
    assert_int_equal(session_pin(s, N_TALK + 1, NULL, &err), ERR_USAGE);
    session_close(s);
    s = open_session(NULL, recalling("sink", RECALL_WORDS, SMALL), false);
    ask(s, talk[0], &log);
    assert_int_equal(session_pin(s, 1, NULL, &err), ERR_USAGE);
    assert_int_equal(session_forget(s, 1, NULL, &err), ERR_USAGE);
}

/* The limit holds as well when a conversation is resumed with a smaller budget: turns beyond it are
 * not protected. */
TEST(test_pins_have_a_limit_after_a_resume)
{
    NEW_LIBRARY(l);
    struct options o = recalling("sink", RECALL_WORDS, SMALL);
    AUTO_LOG log = {0};
    o.session.plan.budget = 640;
    AUTO_SESSION *s = open_session(l, o, false);
    talk_on(s, N_TALK, &log);
    for (int turn = 1; turn <= N_TALK; turn++) ok(session_pin(s, turn, NULL, &err));
    o.session.plan.budget = 64;
    reopen(&s, l, o);
    int64_t n = 0;
    for (int i = 0; i < s->ctx.n_pins; i++) n += s->ctx.pins[i].end - s->ctx.pins[i].from;
    assert_true(s->ctx.n_pins < N_TALK);
    assert_true(n <= context_pins_max(&s->ctx));
    ask(s, talk[0], &log); /* evicts */
}

/* A forgotten turn is not recalled: not now, not when the conversation is resumed, read again or
 * goes back to a moment when the turn was still in the cache. */
TEST(test_a_forgotten_turn_never_returns)
{
    NEW_LIBRARY(l);
    char name[STORE_NAME_MAX];
    struct options o = recalling("sink", RECALL_WORDS, SMALL);
    AUTO_SESSION *s = open_session(l, o, false);
    AUTO_LOG log = {0};
    ask(s, "How are you?", &log);
    ask(s, talk[0], &log);
    ask(s, "Tell me a joke.", &log);
    ask(s, "What is my locker code?", &log);
    assert_non_null(strstr(str_get(&log.text), "48213"));
    if (session_forget(s, 4, NULL, &err) || session_forget(s, 2, NULL, &err))
        fail_msg("%s", err.text);
    ask(s, "What is my locker code?", &log);
    assert_int_equal(kept_of(s, 2), 0);
    assert_null(strstr(str_get(&log.text), "48213"));
    assert_int_equal(session_pin(s, 2, NULL, &err), ERR_USAGE);
    reopen(&s, l, o);
    assert_true(session_is_forgotten(s, 2) && session_is_forgotten(s, 4));
    ok(session_rewind(s, 3, NULL, &err));
    assert_false(session_is_forgotten(s, 4));
    assert_int_equal(kept_of(s, 2), 0);
    ok(session_branch(s, 2, NULL, name, &err));
    ask(s, "What is my locker code?", &log);
    assert_null(strstr(str_get(&log.text), "48213"));
    session_close(s);
    o.session.conversation = name;
    ok(session_open(&s, engine, l, &o.session, NULL, &err));
    assert_int_equal(kept_of(s, 2), 0);
    ask(s, "What is my locker code?", &log);
    assert_null(strstr(str_get(&log.text), "48213"));
    session_close(s);
    /* another cache: the text is read again */
    plan_kv_named("q8", &o.session.plan.kv);
    ok(session_open(&s, engine, l, &o.session, NULL, &err));
    assert_int_equal(kept_of(s, 2), 0);
}

/* Until the next message it can be taken back, with its pin; a reopening or a message ends that. */
TEST(test_forgetting_can_be_taken_back)
{
    NEW_LIBRARY(l);
    struct options o = recalling("sink", RECALL_WORDS, SMALL);
    AUTO_SESSION *s = open_session(l, o, false);
    AUTO_LOG log = {0};
    ask(s, talk[0], &log);
    ask(s, "Tell me a joke.", &log);
    assert_int_equal(session_unforget(s, NULL, &err), ERR_USAGE);
    ok(session_pin(s, 1, NULL, &err));
    ok(session_forget(s, 1, NULL, &err));
    ok(session_forget(s, 2, NULL, &err));
    assert_true(session_is_forgotten(s, 1) && session_is_forgotten(s, 2));
    ok(session_unforget(s, NULL, &err));
    assert_false(session_is_forgotten(s, 1) || session_is_forgotten(s, 2));
    assert_true(session_is_pinned(s, 1));
    ask(s, "What is my locker code?", &log);
    assert_non_null(strstr(str_get(&log.text), "48213"));
    ok(session_forget(s, 1, NULL, &err));
    ok(session_forget(s, 3, NULL, &err));
    reopen(&s, l, o); /* as after a kill: it holds */
    assert_int_equal(kept_of(s, 3), 0);
    assert_true(kept_of(s, 1) < 50);
    assert_false(session_is_pinned(s, 1));
    assert_int_equal(session_unforget(s, NULL, &err), ERR_USAGE);
    ask(s, "What is my locker code?", &log);
    assert_null(strstr(str_get(&log.text), "48213"));
}

/* Begin marks stay when the first turn is forgotten. */
TEST(test_the_opening_stays)
{
    NEW_LIBRARY(l);
    AUTO_SESSION *s = open_session(l, recalling("sink", RECALL_OFF, SMALL), false);
    AUTO_LOG log = {0};
    uint16_t kept[1];
    ask(s, talk[0], &log);
    ok(session_forget(s, 1, NULL, &err));
    ask(s, "What is my locker code?", &log);
    session_kept(s, 0, 1, kept);
    assert_true(kept[0] > 0 && kept_of(s, 1) < 50);
    assert_null(strstr(str_get(&log.text), "48213"));
}

AROUND_TESTS(engine_set_up, engine_tear_down)
