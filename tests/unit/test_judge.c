/* The measuring instruments of `retain eval`: the judgement of an answer, the spread, and how far
 * predictions are from others. Expected values by hand. */
#include "tests/test.h"

#include <math.h>

#include "quant/eval/judge.h"
#include "quant/eval/perplexity.h"
#include "quant/eval/task.h"

static double judge(const char *answer, const char *first, const char *second)
{
    const char *const values[] = {first, second};
    struct task_step q = {.values = values, .n_values = second ? 2 : 1};
    return judge_answer(answer, &q);
}

static void check(const char *answer, const char *value, bool right)
{
    if ((judge(answer, value, NULL) > 0) != right)
        fail_msg("\"%s\" %s \"%s\"", value, right ? "is in" : "is not in", answer);
}

TEST(values_are_whole_words)
{
    check("It is 48213.", "48213", true);
    check("48213", "48213", true);
    check("(48213)", "48213", true);
    check("your code-48213, I think", "48213", true);
    check("It is 148213.", "48213", false);
    check("It is 482134.", "48213", false);
    check("It is x48213.", "48213", false);
    check("It is 48213x.", "48213", false);
    check("148213, no: 48213", "48213", true); /* the second occurrence counts */
    check("It is 4821.", "48213", false);
    check("", "48213", false);
    check("Bob lives in New York now", "New York", true);
    check("Bob lives in New Yorkshire", "New York", false);
}

TEST(several_values_count_by_their_share)
{
    assert_true(judge("red and blue", "red", "blue") == 1);
    assert_true(judge("red and green", "red", "blue") == 0.5);
    assert_true(judge("redblue", "red", "blue") == 0);
}

static void check_spread(const double *x, int n, double mean, double spread)
{
    struct judge_tally t = {0};
    for (int i = 0; i < n; i++) judge_add(&t, x[i]);
    assert_true(fabs(t.mean - mean) < 1e-12);
    assert_true(fabs(judge_spread(&t) - spread) < 1e-12);
}

/* The deviation of a sample: the squared distances from the mean, divided by n - 1. */
TEST(spread_is_a_samples)
{
    check_spread((const double[]){0, 1}, 2, 0.5, sqrt(0.5));
    check_spread((const double[]){2, 4, 4, 4, 5, 5, 7, 9}, 8, 5, sqrt(32.0 / 7));
    check_spread((const double[]){0.25, 0.25, 0.25}, 3, 0.25, 0);
    check_spread((const double[]){0.7}, 1, 0.7, 0);
    check_spread((const double[]){1e6 + 1, 1e6 + 2, 1e6 + 3}, 3, 1e6 + 2, 1);
}

/* The expected divergences are from Python's math module. */
TEST(predictions_are_compared)
{
    const float first[] = {1, 2, 3, 0.5f};
    struct text_run run = {0};
    text_distance(&run, first, first, 4);
    assert_true(fabs(run.divergence) < 1e-12 && run.n_same == 1);
    text_distance(&run, first, (const float[]){1.5f, 2, 2.5f, 0}, 4);
    assert_true(fabs(run.divergence - 0.05883239) < 1e-7 && run.n_same == 2);
    text_distance(&run, first, (const float[]){4, 2, 2.5f, 0}, 4);
    assert_true(fabs(run.divergence - 0.05883239 - 0.94415525) < 1e-7 && run.n_same == 2);
}
