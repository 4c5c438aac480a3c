/* filter: every test program runs only the functions whose name holds its first argument:
 * build/tests/unit/test_evict nan. Linked to all of them; glibc hands constructors main's
 * arguments.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

__attribute__((constructor)) static void take_filter(int argc, char **argv)
{
    static char pattern[128];
    if (argc < 2 || argv[1][0] == '-') return; /* an option of the program's own */
    snprintf(pattern, sizeof pattern, "*%s*", argv[1]);
    cmocka_set_test_filter(pattern);
}
