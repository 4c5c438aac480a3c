/* The metrics of tasks from files: 500 pairs for each, scored as the benchmarks' own programs score
 * them. */
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

/* pair: [prediction, answers, scores]. Returns the number of scores that differ. */
static int compare_pair(const cJSON *pair, const cJSON *names, struct metric_input *in)
{
    const char *answers[LIST_MAX];
    int n_wrong = 0, i = 0;
    const cJSON *name;
    in->prediction = cJSON_GetArrayItem(pair, 0)->valuestring;
    in->answers = answers;
    in->n_answers = strings(cJSON_GetArrayItem(pair, 1), answers);
    cJSON_ArrayForEach(name, names)
    {
        double expected = cJSON_GetArrayItem(cJSON_GetArrayItem(pair, 2), i++)->valuedouble;
        double got = metric_score(metric_named(name->valuestring), in).value;
        if (fabs(got - expected) <= 1e-6) continue;
        print_message("%s: %.9f, expected %.9f for \"%s\" and \"%s\"\n", name->valuestring, got,
                      expected, in->prediction, answers[0]);
        n_wrong++;
    }
    return n_wrong;
}

static void every_metric_equals_the_program_it_is_from(void **state)
{
    (void)state;
    cJSON *groups = golden();
    const cJSON *group, *pair;
    int n_metrics = 0, n_wrong = 0;
    cJSON_ArrayForEach(group, groups)
    {
        const char *classes[LIST_MAX];
        const cJSON *names = member(group, "metrics"), *pairs = member(group, "pairs");
        struct metric_input in = {.classes = classes};
        in.n_classes = strings(member(group, "classes"), classes);
        assert_int_equal(cJSON_GetArraySize(pairs), 500);
        n_metrics += cJSON_GetArraySize(names);
        cJSON_ArrayForEach(pair, pairs) n_wrong += compare_pair(pair, names, &in);
    }
    int n_known = 0;
    while (metric_at(n_known)) n_known++;
    assert_int_equal(n_metrics, n_known);
    assert_int_equal(n_wrong, 0);
    cJSON_Delete(groups);
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
        cmocka_unit_test(parts_are_kept_for_a_mean_of_means),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
