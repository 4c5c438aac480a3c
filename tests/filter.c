/* filter: with an argument, a test program runs only the functions whose name contains it:
 * build/tests/unit/test_evict nan. Linked to all test programs; glibc passes main's arguments to
 * constructors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

__attribute__((constructor)) static void take_filter(int argc, char **argv)
{
    static char pattern[128];
    if (argc < 2 || argv[1][0] == '-') return; /* an option of the program itself */
    snprintf(pattern, sizeof pattern, "*%s*", argv[1]);
    cmocka_set_test_filter(pattern);
}
