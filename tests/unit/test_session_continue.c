/* An answer that a kill interrupted goes on as if it had not been: with the same limit of tokens
 * the conversation has the same text and the same units as one that was never killed. With
 * retaining heads the newest units, which had no score yet when the kill came, are run again
 * together (save_load.c): an eviction among them must come after the same token. */

#include "tests/unit/same_units.h"
#include "tests/unit/session_kit.h"

enum { ANSWER = 30 };
/* passages return at each eviction inside an answer */
#define RECALLS "random:reserve=64"
/* a passage returns for the question, and other units are set aside */
#define ASKS "random"

static struct options continue_options(const char *policy)
{
    struct options o = options_of(policy, "q4", 0.8f);
    if (!strcmp(policy, "full")) o.session.plan.policy.context = 400;
    o.session.plan.budget = 24;
    if (strcmp(policy, RECALLS))
        o.session.plan.policy.reserve = 12; /* the answer needs more, and evicts inside */
    if (!strcmp(policy, ASKS)) o.session.plan.chunk = 64;
    o.session.ignore_end = true;
    o.session.max_tokens = ANSWER;
    return o;
}

static int add_text(void *ctx, const struct store_message *m)
{
    str_append(ctx, m->text, m->n_text);
    return 0;
}

/* Returns whether units were set aside when it was killed. */
static bool same_as_never_killed(const char *policy, int n)
{
    const bool asks = !strcmp(policy, ASKS);
    const int at = asks ? 3 : 1;
    const char *last = asks ? "My locker code is?" : said[at];
    AUTO_LOG log = {0};
    AUTO_STR text = {0}, expected = {0};
    const char *dir = folder_new();
    NEW_LIBRARY(whole);
    AUTO_SESSION *x = open_session(whole, continue_options(policy), false);
    for (int i = 0; i < at; i++) say(x, said[i], &log);
    say(x, last, &log);
    say(x, said[2], &log);
    run_victim(dir, continue_options(policy), at, last, (struct victim){.n_tokens = n});
    AUTO_LIBRARY *killed = open_library(dir);
    AUTO_SESSION *y = open_session(killed, continue_options(policy), true);
    const bool aside = recall_is_aside(session_cache(y));
    assert_int_equal(answer(y, NULL, &log), SESSION_LENGTH);
    say(y, said[2], &log);
    assert_int_equal(reread(y), 0);
    same_cache(x, y);
    ok(conversations_messages(whole, "chat-1", add_text, &expected, &err));
    ok(conversations_messages(killed, "chat-1", add_text, &text, &err));
    assert_string_equal(str_get(&text), str_get(&expected));
    return aside;
}

TEST(goes_on_as_if_never_killed)
{
    static const char *const policies[] = {"sink",   "random", "keydiff+global", "full",
                                           "locret", "keeper", RECALLS};
    int n_aside = 0;
    for (size_t i = 0; i < sizeof policies / sizeof *policies; i++) {
        for (int n = 1 + (int)i; n < ANSWER; n += i < 4 ? 7 : 3)
            n_aside += same_as_never_killed(policies[i], n);
        same_as_never_killed(policies[i], ANSWER); /* only the answer's end was not saved */
    }
    assert_true(n_aside > 0);
}

AROUND_TESTS(engine_set_up, engine_tear_down)
