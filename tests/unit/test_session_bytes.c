/* Answers that are no UTF-8: their text has other bytes than their ids, since what is no character
 * is replaced. A resumed conversation keeps the ids, and its cache. */

#include "tests/unit/session_kit.h"

static int random_model(void **state)
{
    return engine_open_model("build/golden/families/qwen3.gguf");
}

static struct options raw_options(uint64_t seed)
{
    struct options o = options_of("random", "q4", 1.3f);
    o.session.raw = true; /* no template writes a random answer otherwise */
    o.session.plan.budget = 16;
    o.session.recall.chooser = RECALL_WORDS;
    o.session.sampling.seed = seed;
    o.session.sampling.top_k = 0;
    o.session.sampling.top_p = 1;
    return o;
}

TEST(ids_are_kept)
{
    int n_replaced = 0;
    for (uint64_t seed = 60; seed < 80; seed++) {
        AUTO_LOG log = {0};
        const char *dir = folder_new();
        AUTO_LIBRARY *l = open_library(dir);
        AUTO_SESSION *s = open_session(l, raw_options(seed), false);
        for (int i = 0; i < 4; i++) say(s, said[i], &log);
        session_close(s);
        s = open_session(l, raw_options(seed), true);
        assert_null(strstr(session_notice(s), "spell"));
        assert_int_equal(reread(s), 0);
        n_replaced += strstr(log.text.data, "\xef\xbf\xbd") != NULL;
    }
    assert_true(n_replaced > 10);
}

AROUND_TESTS(random_model, engine_tear_down)
