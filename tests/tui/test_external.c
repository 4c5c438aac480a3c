/* Files saved for the user: complete or not at all, and never over an existing file. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "cli/external.h"

static void test_save(void **state)
{
    static const char text[] = "said\n";
    char path[] = "/tmp/retain-test-XXXXXX";
    struct rlimit before, cut;
    struct str found = {0};
    struct stat st;
    struct err e;
    (void)state;
    assert_int_equal(close(mkstemp(path)), 0);
    assert_int_equal(external_save(path, text, sizeof text - 1, &e), ERR_FAIL);
    assert_non_null(strstr(e.text, "File exists"));
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_size, 0);
    assert_int_equal(unlink(path), 0);

    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    cut = (struct rlimit){3, before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &cut), 0);
    int rc = external_save(path, text, sizeof text - 1, &e);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(rc, ERR_FAIL);
    assert_non_null(strstr(e.text, "File too large"));
    assert_int_equal(access(path, F_OK), -1);

    assert_int_equal(external_save(path, text, sizeof text - 1, &e), 0);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(file_read(path, &found, &e), 0);
    assert_string_equal(found.data, text);
    str_release(&found);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_save),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
