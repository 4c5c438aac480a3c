/* --protocol once: a prompt is read whole, units are evicted once behind it, then the answer is
 * generated. */

#include "runtime/session/session_parts.h"
#include "tests/unit/session_kit.h"

#define TALK "Tell me about cats. Tell me a joke. How are you? My sister lives in Madrid. "
static const char question[] =
    "My locker code is 48213. " TALK "My dog is called Biscuit. " TALK TALK TALK TALK
    "What is my locker code? What is my dog's name?";

static struct options once_of(const char *policy)
{
    struct options o = options_of(policy, "q4", 0);
    o.session.plan.protocol = PLAN_ONCE;
    o.session.plan.policy.context = 512;
    o.session.recall.chooser = RECALL_OFF;
    return o;
}

/* What was evicted before the first token of the answer, and its logits. */
struct beginning {
    struct log log;
    int n_evictions, n_before, len;
    uint64_t first;
};

static void on_begin_evicted(void *ctx, int64_t n, int64_t n_tokens)
{
    struct beginning *b = ctx;
    (void)n;
    (void)n_tokens;
    b->n_evictions++;
    if (!b->log.n_pieces) b->n_before++;
}

static void on_begin_text(void *ctx, const char *utf8, size_t n)
{
    struct beginning *b = ctx;
    on_text(&b->log, utf8, n);
    if (b->log.n_pieces == 1) {
        b->first = b->log.logits;
        b->len = cache_len_max(session_cache(b->log.session));
    }
}

static struct beginning begin(struct options o)
{
    struct beginning b = {0};
    struct session_sink k = {.ctx = &b, .text = on_begin_text, .evicted = on_begin_evicted};
    struct session *s = open_session(NULL, o, false);
    enum session_end end;
    b.log.session = s;
    ok(session_say(s, question, strlen(question), &k, &end, &err));
    str_release(&b.log.text);
    session_close(s);
    return b;
}

/* The first token is drawn from the logits of the whole prompt, to the bit those of policy full;
 * before it, units were evicted exactly once, down to the budget. */
TEST(test_one_eviction_behind_the_prompt)
{
    static const char *const names[] = {"snapkv", "locret", "random", "keydiff+global"};
    struct options full = options_of("full", "q4", 0);
    full.session.plan.policy.context = 512;
    const struct beginning all = begin(full);
    assert_true(all.len > 64);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct options o = once_of(names[i]);
        const struct beginning b = begin(o);
        assert_int_equal(b.n_before, 1);
        assert_true(b.first == all.first);
        o.session.plan.protocol = PLAN_STREAM;
        o.session.plan.policy.context = -1;
        const struct beginning stream = begin(o);
        assert_true(stream.n_before > 1);
        assert_true(stream.first != all.first);
    }
}

/* Policies of one unit per step hold the budget, and the newest unit, after each token. */
TEST(test_one_unit_per_step)
{
    static const char *const names[] = {"tova", "sink"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct options o = once_of(names[i]);
        const struct beginning b = begin(o);
        assert_int_equal(b.n_before, 1);
        assert_int_equal(b.len, 48);
        assert_true(b.n_evictions >= b.log.n_pieces);
        o.session.plan.policy.every = 0;
        assert_int_equal(begin(o).n_evictions, 2); /* behind the prompt and behind the answer */
    }
}

/* A prompt that is longer than the context is evicted in between: nothing is lost. */
TEST(test_a_prompt_longer_than_the_context)
{
    struct options o = once_of("locret");
    o.session.plan.policy.context = 16;
    const struct beginning b = begin(o);
    assert_true(b.n_before > 1 && b.log.n_pieces > 0);
}

/* Closing and opening the conversation changes no bit. */
TEST(test_resume)
{
    struct options o = once_of("snapkv");
    struct log a = {0}, b = {0};
    char *dir_x = temporary(), *dir_y = temporary();
    struct conversations *lx = open_library(dir_x), *ly = open_library(dir_y);
    struct session *x = open_session(lx, o, false), *y = open_session(ly, o, false);
    for (int i = 0; i < 4; i++) {
        say(x, said[i], &a);
        say(y, said[i], &b);
        session_close(y);
        y = open_session(ly, o, true);
        same_cache(x, y);
        assert_true(a.logits == b.logits);
    }
    assert_true(a.n_evicted > 0);
    session_close(x);
    session_close(y);
    conversations_close(lx);
    conversations_close(ly);
    str_release(&a.text);
    str_release(&b.text);
    remove_library(dir_x);
    remove_library(dir_y);
}

/* The last token of the prompt stays, under policies that protect no unit, too: it is run again. */
TEST(test_regenerate)
{
    static const char *const names[] = {"tova", "keydiff"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct options o = once_of(names[i]);
        struct log log = {0};
        char *dir = temporary();
        struct conversations *l = open_library(dir);
        enum session_end end;
        o.session.plan.policy.stabilizers = 0;
        struct session *s = open_session(l, o, false);
        const struct session_sink k = sink_of(&log);
        say(s, question, &log);
        log.session = s;
        if (session_regenerate(s, &k, &end, &err)) fail_msg("%s: %s", names[i], err.text);
        session_close(s);
        conversations_close(l);
        remove_library(dir);
        str_release(&log.text);
    }
}

/* Turns that are fed become part of the next prompt. */
TEST(test_fed_turns_join_the_prompt)
{
    struct options o = once_of("snapkv");
    struct session *s = open_session(NULL, o, false);
    const struct chat_message m[] = {{CHAT_USER, "My locker code is 48213."},
                                     {CHAT_ASSISTANT, "Okay, I will remember that."}};
    struct session_sink silent = {0};
    struct log log = {0};
    ok(session_feed(s, m, 2, &silent, &err));
    assert_int_equal(session_cache(s)->n_pos, 0);
    say(s, "What is my locker code?", &log);
    assert_non_null(strstr(str_get(&log.text), "48213"));
    session_close(s);
    str_release(&log.text);
}

/* The context is a key of full, and of this protocol only. */
TEST(test_context_needs_the_protocol)
{
    struct options o = once_of("snapkv");
    struct session *s;
    o.session.plan.protocol = PLAN_STREAM;
    refused(session_open(&s, engine, NULL, &o.session, NULL, &err), ERR_USAGE,
            "context is a key of full and of --protocol once");
}

AROUND_TESTS(engine_set_up, engine_tear_down)
