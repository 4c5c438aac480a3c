/* Proposals by n-grams: the newest place where the longest match occurred, within a bounded past.
 */

#include "tests/test.h"

#include "runtime/token/ngram.h"

struct fixture {
    struct ngram g;
    struct arena a;
};

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    arena_init_plan(&f->a, "test");
    ngram_plan(&f->g, &f->a);
    ok(arena_init(&f->a, "test", f->a.used, &err));
    ngram_plan(&f->g, &f->a);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    arena_release(&f->a);
    free(f);
    return 0;
}

static void add(struct ngram *g, const char *letters)
{
    for (; *letters; letters++) ngram_add(g, *letters);
}

static void expect(const struct ngram *g, int max, const char *letters, int n_match)
{
    int32_t out[16];
    int n = 0, match = 0, got = ngram_propose(g, out, max, &match);
    for (; letters[n]; n++)
        if (n < got) assert_int_equal(out[n], letters[n]);
    assert_int_equal(got, n);
    if (n) assert_int_equal(match, n_match);
}

TEST_WITH(test_the_newest_place_is_proposed, set_up, tear_down)
{
    struct ngram *g = &((struct fixture *)*state)->g;
    expect(g, 4, "", 0);
    add(g, "abc");
    expect(g, 4, "", 0);
    add(g, "xy-abc");
    expect(g, 4, "xy-a", 3);
    add(g, "zw-abc");
    expect(g, 4, "zw-a", 4); /* "-abc" occurred before "zw" */
    expect(g, 1, "z", 4);
    add(g, "q");
    expect(g, 4, "", 0);
}

TEST_WITH(test_a_longer_match_is_preferred, set_up, tear_down)
{
    struct ngram *g = &((struct fixture *)*state)->g;
    add(g, "the red box is small, my box is old; the red box is");
    expect(g, 6, " small", 14); /* " box is" is nearer before " old" */
}

/* What runs on repeats itself: the tokens between are all that is known. */
TEST_WITH(test_a_loop_proposes_its_period, set_up, tear_down)
{
    struct ngram *g = &((struct fixture *)*state)->g;
    add(g, "no no no");
    expect(g, 8, " no", 5);
}

TEST_WITH(test_the_past_is_bounded, set_up, tear_down)
{
    struct ngram *g = &((struct fixture *)*state)->g;
    add(g, "abcdefghijXY");
    for (int32_t i = 0; i < NGRAM_TOKENS - 22; i++) ngram_add(g, 1000 + i);
    add(g, "abcdefghij");
    expect(g, 2, "XY", 10);
    add(g, "-");
    add(g, "abcdefghij"); /* found 11 tokens ago */
    expect(g, 2, "-a", 10);
}

TEST_WITH(test_text_that_left_is_not_proposed, set_up, tear_down)
{
    struct ngram *g = &((struct fixture *)*state)->g;
    add(g, "abcdefghijXY");
    for (int32_t i = 0; i < NGRAM_TOKENS; i++) ngram_add(g, 1000 + i);
    add(g, "abcdefghij");
    expect(g, 2, "", 0);
}
