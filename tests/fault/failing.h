/* failing: what test_calls.c and failing.c, the library that it loads into a program, share. */
#ifndef RETAIN_TESTS_FAILING_H
#define RETAIN_TESTS_FAILING_H

#include <stdbool.h>

enum failing_kind { FAILING_SYSTEM, FAILING_MEMORY };

struct failing {
    enum failing_kind kind; /* the calls that count */
    bool kills;             /* instead of failing, it ends the program */
    long at;                /* the number of the call that fails, from 1; 0 = none */
    long n_calls;           /* calls so far */
    char name[24];          /* of the call that failed */
};

#endif
