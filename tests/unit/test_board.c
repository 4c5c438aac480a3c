/* board: the files of a Jetson, written by hand as its kernel and nvpmodel write them. */

#include "tests/test.h"

#include "base/board.h"

static char root[] = "/tmp/retain-test-XXXXXX";

static void put(const char *path, const char *text)
{
    char command[600];
    snprintf(command, sizeof command, "mkdir -p \"$(dirname '%s/%s')\" && printf '%s' > '%s/%s'",
             root, path, text, root, path);
    assert_int_equal(system(command), 0);
}

TEST(describes)
{
    char line[120];
    assert_false(board_describe(root, line, sizeof line));
    put("sys/class/devfreq/17000000.gpu/cur_freq", "306000000\\n");
    put("sys/class/devfreq/17000000.gpu/max_freq", "1300500000\\n");
    assert_true(board_describe(root, line, sizeof line));
    assert_string_equal(line, "GPU at 306 of 1300 MHz");
    put("etc/nvpmodel.conf",
        "< PARAM TYPE=FILE NAME=CPU_ONLINE >\\n< POWER_MODEL ID=0 NAME=MAXN >\\n"
        "< POWER_MODEL ID=2 NAME=MODE_30W >\\n");
    put("var/lib/nvpmodel/status", "pmode:0002 fmode:quiet\\n");
    assert_true(board_describe(root, line, sizeof line));
    assert_string_equal(line, "mode MODE_30W, GPU at 306 of 1300 MHz");
    put("var/lib/nvpmodel/status", "pmode:0007\\n"); /* not in the list */
    assert_true(board_describe(root, line, sizeof line));
    assert_string_equal(line, "GPU at 306 of 1300 MHz");
}

static int make_root(void **state)
{
    (void)state;
    return mkdtemp(root) ? 0 : -1;
}

static int remove_root(void **state)
{
    char command[64];
    (void)state;
    snprintf(command, sizeof command, "rm -r '%s'", root);
    return system(command);
}

AROUND_TESTS(make_root, remove_root)
