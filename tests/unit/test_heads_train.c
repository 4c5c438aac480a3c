/* heads train, stopped anywhere and continued, writes the file of a training that was not stopped.
 * Stops are counted, not timed: the machine's speed does not matter. */
#include "tests/test.h"

#include <unistd.h>

#include "base/file.h"
#include "cli/options/options.h"
#include "quant/heads/heads_train.h"

enum { STEPS = 6, ALL_CALLS = -1, DAMAGED = 3, INTERRUPTED = 130 };

/* Linked in place of the program's: the n-th question whether the user stopped is answered yes. */
bool __wrap_report_interrupted(void);

static int n_calls, stop_at;

bool __wrap_report_interrupted(void)
{
    return ++n_calls == stop_at;
}

/* On the first pages of README.md. */
static int train(const char *out, int stop)
{
    static const char *text;
    AUTO_STR page = {0};
    ok(file_read("README.md", FILE_DATA, &page, &err));
    if (!text) text = write_file(path_in(folder_new(), "text"), page.data, 4000);
    struct options o;
    options_init(&o);
    o.engine.threads = 1;
    o.training.text = text;
    o.training.out = out;
    o.training.steps = STEPS;
    o.training.batch = 2;
    o.training.hidden = 8;
    o.training.rate = 0.01f;
    o.sweep.lengths = (struct options_numbers){1, {128}};
    n_calls = 0;
    stop_at = stop;
    return heads_train(&o);
}

static void equal_files(const char *a, const char *b)
{
    AUTO_STR x = {0};
    AUTO_STR y = {0};
    ok(file_read(a, FILE_DATA, &x, &err));
    ok(file_read(b, FILE_DATA, &y, &err));
    assert_int_equal(x.n, y.n);
    assert_memory_equal(x.data, y.data, x.n);
}

TEST(stopped_and_continued)
{
    const char *folder = folder_new(), *whole = path_in(folder, "whole");
    const char *parts = path_in(folder, "parts"), *part = path_in(folder, "parts.part");
    AUTO_STR kept = {0};
    assert_int_equal(train(whole, ALL_CALLS), 0);
    const int first_step = n_calls - STEPS - 2; /* a row held back is read twice, last */

    assert_int_equal(train(parts, 5), INTERRUPTED); /* while heads are fitted */
    assert_int_not_equal(access(part, F_OK), 0);
    assert_int_equal(train(parts, first_step + 2), INTERRUPTED);
    ok(file_read(part, FILE_DATA, &kept, &err));
    write_file(part, kept.data, kept.n + 1);
    assert_int_equal(train(parts, ALL_CALLS), DAMAGED); /* a byte too long */
    write_file(part, kept.data, kept.n);
    assert_int_equal(train(parts, 3), INTERRUPTED); /* after 5 steps */
    assert_int_equal(train(parts, ALL_CALLS), 0);
    assert_int_equal(n_calls, 1 + 2); /* a step, and the row held back twice */
    equal_files(whole, parts);
    assert_int_not_equal(access(part, F_OK), 0);
}
