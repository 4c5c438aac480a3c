/* The report of retain info on a mixed file: every matrix counted once, exact types exact, the
 * error of the others that of a rounded scale. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/model/tensor_report.h"
#include "tests/unit/data.h"

/* Returns the number of types of the file's matrices; skips the test when the file is missing. */
static int list(struct tensor_report c[TENSOR_REPORTS_MAX], const char *name, bool as_f32)
{
    char path[512];
    struct gguf *file;
    struct model *m;
    struct err e = {0};
    if (!data_path(path, sizeof path, name)) skip();
    if (gguf_open(&file, path, &e)) fail_msg("%s", e.text);
    if (model_open(&m, file, as_f32, &e)) fail_msg("%s", e.text);
    const int n = tensor_report_list(c, m, &e);
    int n_matrices = 0, n_tensors = 0;
    for (int i = 0; i < m->n_items; i++) n_matrices += m->items[i].weight != NULL;
    for (int i = 0; i < n; i++) n_tensors += c[i].n_tensors;
    assert_int_equal(n_tensors, n_matrices);
    model_close(m);
    return n;
}

static void test_mixed(void **state)
{
    struct tensor_report c[TENSOR_REPORTS_MAX];
    const int n = list(c, "random/small-q4_k_m.gguf", false);

    (void)state;
    assert_int_equal(n, 4);
    for (int i = 0; i < n; i++) {
        if (i) assert_true(c[i].bytes <= c[i - 1].bytes);
        if (strcmp(c[i].type, "Q6_K") == 0)
            assert_true(c[i].error > 0 && c[i].error < 1e-3);
        else
            assert_true(c[i].error == 0);
        if (strcmp(c[i].type, "Q6_K") == 0)
            assert_true((double)c[i].bytes == (double)c[i].n_weights * 7 / 8);
        if (strcmp(c[i].type, "Q4_K") == 0)
            assert_true((double)c[i].bytes < 1.05 * (double)c[i].file_bytes);
        if (strcmp(c[i].type, "Q8_0") == 0) assert_int_equal(c[i].bytes, c[i].file_bytes);
    }
}

static void test_as_f32(void **state)
{
    struct tensor_report c[TENSOR_REPORTS_MAX];
    const int n = list(c, "random/small-q4_k_m.gguf", true);

    (void)state;
    for (int i = 0; i < n; i++) {
        assert_true(c[i].error == 0);
        assert_string_equal(c[i].layout, "float32");
        assert_int_equal(c[i].bytes, 4 * c[i].n_weights);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mixed),
        cmocka_unit_test(test_as_f32),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
