/* The metrics of tasks from files: 500 pairs, scored as the benchmarks' own programs score them. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>
#include <cmocka.h>

#include "base/file.h"
#include "quant/files/metric.h"

#define GOLDEN "tests/golden/metrics.json"

enum { LIST_MAX = 64 };

static cJSON *golden(void)
{
    struct str text = {0};
    struct err e;
    assert_int_equal(file_read(GOLDEN, &text, &e), 0);
    cJSON *all = cJSON_Parse(str_get(&text));
    assert_non_null(all);
    str_release(&text);
    return all;
}

static int strings(const cJSON *array, const char **out)
{
    int n = 0;
    const cJSON *item;
    cJSON_ArrayForEach(item, array) out[n++] = item->valuestring;
    assert_in_range(n, 0, LIST_MAX);
    return n;
}

static const cJSON *member(const cJSON *o, const char *name)
{
    return cJSON_GetObjectItemCaseSensitive(o, name);
}

static void every_metric_equals_the_program_it_is_from(void **state)
{
    (void)state;
    cJSON *all = golden();
    const cJSON *names = member(all, "metrics"), *pair;
    int n_compared = 0, n_wrong = 0, n_pairs = 0;
    cJSON_ArrayForEach(pair, member(all, "pairs"))
    {
        const char *answers[LIST_MAX], *classes[LIST_MAX];
        struct metric_input in = {.prediction = member(pair, "prediction")->valuestring,
                                  .answers = answers,
                                  .classes = classes};
        in.n_answers = strings(member(pair, "answers"), answers);
        in.n_classes = strings(member(pair, "classes"), classes);
        n_pairs++;
        for (int i = 0; i < cJSON_GetArraySize(names); i++) {
            const cJSON *expected = cJSON_GetArrayItem(member(pair, "scores"), i);
            const struct metric *m = metric_named(cJSON_GetArrayItem(names, i)->valuestring);
            assert_non_null(m);
            if (cJSON_IsNull(expected)) continue;
            double got = metric_score(m, &in).value;
            n_compared++;
            if (fabs(got - expected->valuedouble) <= 1e-6) continue;
            if (n_wrong++ < 20)
                print_message("%s: %.9f, expected %.9f for \"%s\" and \"%s\"\n", m->name, got,
                              expected->valuedouble, in.prediction, answers[0]);
        }
    }
    assert_int_equal(n_pairs, 500);
    assert_true(n_compared > 9000);
    assert_int_equal(n_wrong, 0);
    cJSON_Delete(all);
}

static void every_metric_has_been_compared(void **state)
{
    (void)state;
    cJSON *all = golden();
    int n = 0;
    while (metric_at(n)) n++;
    assert_int_equal(cJSON_GetArraySize(member(all, "metrics")), n);
    cJSON_Delete(all);
}

static void parts_are_kept_for_a_mean_of_means(void **state)
{
    (void)state;
    const char *answers[] = {"the cat sat", "a dog"};
    struct metric_input in = {"the cat ran", answers, 2, NULL, 0};
    struct metric_score s = metric_score(metric_named("rouge-123l"), &in);
    assert_int_equal(s.n_parts, 3);
    assert_true(fabs(s.parts[0] - 2.0 / 3) < 1e-12); /* the, cat of three */
    assert_true(fabs(s.parts[1] - 1.0 / 2) < 1e-12); /* "the cat" of two pairs */
    assert_true(fabs(s.parts[2] - 2.0 / 3) < 1e-12);
    assert_true(fabs(s.value - cbrt(2.0 / 9)) < 1e-12);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_metric_equals_the_program_it_is_from),
        cmocka_unit_test(every_metric_has_been_compared),
        cmocka_unit_test(parts_are_kept_for_a_mean_of_means),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
