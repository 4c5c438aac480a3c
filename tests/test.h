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

#include <math.h>
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

/* The distance of n numbers from those wanted, relative to the size of these. */
static inline double relative(const float *got, const float *want, size_t n)
{
    double diff = 0, size = 0;
    for (size_t i = 0; i < n; i++) {
        diff += ((double)got[i] - (double)want[i]) * ((double)got[i] - (double)want[i]);
        size += (double)want[i] * (double)want[i];
    }
    return sqrt(diff / size);
}

/* Of n logits, the id of the largest. */
static inline int likeliest(const float *x, int n)
{
    int best = 0;
    for (int i = 1; i < n; i++)
        if (x[i] > x[best]) best = i;
    return best;
}

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

/* Released or closed at the end of their block, the last one first. */
#define AUTO_STR     __attribute__((cleanup(str_release))) struct str
#define AUTO_TOKENS  __attribute__((cleanup(tokens_release))) struct tokens
#define AUTO_CONTEXT __attribute__((cleanup(context_release))) struct context
#define AUTO_MAKER   __attribute__((cleanup(maker_release))) struct maker
#define AUTO_SAMPLE  __attribute__((cleanup(heads_sample_release))) struct heads_sample
#define AUTO_PROMPT  __attribute__((cleanup(template_prompt_release))) struct template_prompt

static inline void free_end(void *of)
{
    free(*(void **)of);
}
#define AUTO_FREE __attribute__((cleanup(free_end)))

#define CLOSED(noun)                                \
    struct noun;                                    \
    void noun##_close(struct noun *);               \
    static inline void noun##_end(struct noun **of) \
    {                                               \
        noun##_close(*of);                          \
    }
CLOSED(engine)
CLOSED(session)
CLOSED(conversations)
CLOSED(store)
CLOSED(gguf)
CLOSED(tokenizer)
CLOSED(chat_template)
CLOSED(pool)

#define AUTO_ENGINE    __attribute__((cleanup(engine_end))) struct engine
#define AUTO_SESSION   __attribute__((cleanup(session_end))) struct session
#define AUTO_LIBRARY   __attribute__((cleanup(conversations_end))) struct conversations
#define AUTO_STORE     __attribute__((cleanup(store_end))) struct store
#define AUTO_GGUF      __attribute__((cleanup(gguf_end))) struct gguf
#define AUTO_TOKENIZER __attribute__((cleanup(tokenizer_end))) struct tokenizer
#define AUTO_TEMPLATE  __attribute__((cleanup(chat_template_end))) struct chat_template
#define AUTO_POOL      __attribute__((cleanup(pool_end))) struct pool

/* A new folder, which is removed with all that is in it when the program ends. Its path, as those
 * that the next functions return, stays valid until then. */
const char *folder_new(void);
const char *path_in(const char *folder, const char *name);
/* Write a file and the folders that its path lacks; return the path. */
const char *write_file(const char *path, const void *bytes, size_t n);
const char *write_text(const char *path, const char *text);

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
