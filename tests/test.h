/* test: what every test program starts with. A test is
 *
 *     TEST(sums)
 *     {
 *         assert_int_equal(1 + 1, 2);
 *     }
 *
 * It needs no list: tests run in the order of their lines, from the main in test.c. Its argument
 * `state` (void **) is what the function before it left there, or what test_add was given. */
#ifndef RETAIN_TESTS_TEST_H
#define RETAIN_TESTS_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/str.h"

/* main's arguments. An argument without a hyphen chooses the tests whose names contain it. */
extern int test_argc;
extern char **test_argv;

/* For TEST, and for tests that are rows of a table: `initial` becomes *state. */
void test_add(int line, const char *name, CMUnitTestFunction run, CMFixtureFunction before,
              CMFixtureFunction after, void *initial);
/* Functions before the first and after the last test; each may be NULL. */
void test_around(CMFixtureFunction before, CMFixtureFunction after);

#define TEST_WITH(name, before, after)                        \
    static void name(void **state);                           \
    __attribute__((constructor)) static void add_##name(void) \
    {                                                         \
        test_add(__LINE__, #name, name, before, after, NULL); \
    }                                                         \
    static void name(__attribute__((unused)) void **state)

#define TEST(name) TEST_WITH(name, NULL, NULL)

#define AROUND_TESTS(before, after)                       \
    __attribute__((constructor)) static void around(void) \
    {                                                     \
        test_around(before, after);                       \
    }

/* Released at the end of its block. */
#define AUTO_STR __attribute__((cleanup(str_release))) struct str

/* What the last call said that failed. */
extern struct err err;

/* The call returned 0. */
#define ok(call) test_ok(call, __FILE__, __LINE__)
void test_ok(int rc, const char *file, int line);

/* The call returned this code, and its error is one line with these words. */
#define refused(call, code, words) \
    (err.text[0] = 0, test_refused(call, code, words, __FILE__, __LINE__))
void test_refused(int rc, int code, const char *words, const char *file, int line);

#endif
