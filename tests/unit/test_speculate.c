/* Speculation changes no bit: tokens that are tried several at once and accepted one by one leave
 * the cache, its counters, scores and logits as tokens that are run alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/forward/context.h"
#include "tests/unit/session_kit.h"

enum { BEGIN = 1000, END = 1060 }; /* attention over one split, then over two */

static int32_t id_at(int i)
{
    return 300 + (i * 7919 + i / 5 * 31) % 1500;
}

/* A cache with the first BEGIN tokens. */
static void open_context(struct context *x, const char *policy, const char *kv)
{
    struct options o = options_of(policy, kv, 0);
    int32_t ids[40];
    struct err e;
    o.session.plan.budget = 2000;
    o.session.plan.chunk = 40;
    if (context_open(x, engine, &o.session.plan, 1, FORWARD_TRY_MAX, &e)) fail_msg("%s", e.text);
    for (int at = 0; at < BEGIN; at += 40) {
        for (int i = 0; i < 40; i++) ids[i] = id_at(at + i);
        assert_int_equal(context_run(x, ids, 40, 1, &e), 0);
    }
}

static void same_logits(struct context *a, struct context *b)
{
    float *x, *y;
    struct err e;
    assert_int_equal(context_logits(a, &x, &e), 0);
    assert_int_equal(context_logits(b, &y, &e), 0);
    assert_memory_equal(x, y, (size_t)engine->model->n_vocab * sizeof *x);
}

/* Tries tokens [at, at + n), of which those from at + n_right on are wrong. */
static void try_tokens(struct context *x, int at, int n, int n_right)
{
    int32_t ids[FORWARD_TRY_MAX];
    for (int i = 0; i < n; i++) ids[i] = i < n_right ? id_at(at + i) : 299;
    context_try(x, ids, n);
}

static void compare(const char *policy, const char *kv)
{
    struct context alone, tried;
    struct err e;
    open_context(&alone, policy, kv);
    open_context(&tried, policy, kv);
    assert_true(context_can_try(&tried));
    for (int at = BEGIN, round = 0; at < END; round++) {
        int n = 1 + round * 5 % FORWARD_TRY_MAX, n_right = 1 + round * 3 % n;
        if (n > 1) try_tokens(&tried, at, n, n_right);
        for (int i = 0; i < n_right; i++, at++) {
            int32_t id = id_at(at);
            if (i > 0) context_accept(&tried);
            if (n == 1) assert_int_equal(context_run(&tried, &id, 1, 1, &e), 0);
            assert_int_equal(context_run(&alone, &id, 1, 1, &e), 0);
            same_logits(&alone, &tried);
            assert_int_equal(alone.cache.n_pos, tried.cache.n_pos);
        }
    }
    context_score(&alone);
    context_score(&tried);
    same_units(&alone.cache, &tried.cache);
    context_release(&alone);
    context_release(&tried);
}

static void test_tokens_tried_are_as_tokens_run_alone(void **state)
{
    (void)state;
    compare("keeper", "q4");
    compare("keydiff+global", "q8:q4");
    compare("sink", "f16");
    compare("random", "f32");
    compare("full:context=2000", "q4");
}

static void test_policies_that_watch_each_token_cannot_try(void **state)
{
    static const char *const names[] = {"h2o", "snapkv", "sirllm", "expected"};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct options o = options_of(names[i], "q4", 0);
        struct context x;
        struct err e;
        assert_int_equal(context_open(&x, engine, &o.session.plan, 1, 1, &e), 0);
        assert_false(context_can_try(&x));
        context_release(&x);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tokens_tried_are_as_tokens_run_alone),
        cmocka_unit_test(test_policies_that_watch_each_token_cannot_try),
    };
    return cmocka_run_group_tests(tests, engine_set_up, engine_tear_down);
}
