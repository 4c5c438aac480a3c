/* board: the files of a Jetson, written by hand as its kernel and nvpmodel write them. */

#include "tests/test.h"

#include "base/system.h"

TEST(describes)
{
    const char *root = folder_new();
    char line[120];
    assert_false(board_describe(root, line, sizeof line));
    write_text(path_in(root, "sys/class/devfreq/17000000.gpu/cur_freq"), "306000000\n");
    write_text(path_in(root, "sys/class/devfreq/17000000.gpu/max_freq"), "1300500000\n");
    assert_true(board_describe(root, line, sizeof line));
    assert_string_equal(line, "GPU at 306 of 1300 MHz");
    write_text(path_in(root, "etc/nvpmodel.conf"),
               "< PARAM TYPE=FILE NAME=CPU_ONLINE >\n< POWER_MODEL ID=0 NAME=MAXN >\n"
               "< POWER_MODEL ID=2 NAME=MODE_30W >\n");
    write_text(path_in(root, "var/lib/nvpmodel/status"), "pmode:0002 fmode:quiet\n");
    assert_true(board_describe(root, line, sizeof line));
    assert_string_equal(line, "mode MODE_30W, GPU at 306 of 1300 MHz");
    write_text(path_in(root, "var/lib/nvpmodel/status"), "pmode:0007\n"); /* not in the list */
    assert_true(board_describe(root, line, sizeof line));
    assert_string_equal(line, "GPU at 306 of 1300 MHz");
}
