#include "tests/test.h"

#include <errno.h>
#include <locale.h>
#include <sys/stat.h>

int test_argc;
char **test_argv;
struct err err;

static struct {
    int line;
    struct CMUnitTest test;
} added[256];
static struct CMUnitTest tests[256];
static size_t n_added;
static CMFixtureFunction before_all, after_all;

void test_add(int line, const char *name, CMUnitTestFunction run, CMFixtureFunction before,
              CMFixtureFunction after, void *initial)
{
    assert_true(n_added < sizeof added / sizeof *added);
    added[n_added].line = line;
    added[n_added++].test = (struct CMUnitTest){name, run, before, after, initial};
}

void test_around(CMFixtureFunction before, CMFixtureFunction after)
{
    before_all = before;
    after_all = after;
}

void test_ok(int rc, const char *file, int line)
{
    if (rc == 0) return;
    print_error("%d: %s\n", rc, err.text);
    _fail(file, line);
}

void test_refused(int rc, int code, const char *words, const char *file, int line)
{
    if (rc == code && strstr(err.text, words) && !strchr(err.text, '\n')) return;
    print_error("%d \"%s\", expected %d \"%s\"\n", rc, err.text, code, words);
    _fail(file, line);
}

/* ---- files ----------------------------------------------------------------------------------- */

static char top[] = "/tmp/retain-test-XXXXXX"; /* the folder of all folders */
static pid_t owner;
static struct path {
    struct path *next;
    char text[];
} * paths;

static void remove_top(void)
{
    char command[96];
    if (getpid() != owner) return;
    snprintf(command, sizeof command, "chmod -R u+w %s; rm -r %s", top, top);
    if (system(command)) fprintf(stderr, "%s was not removed\n", top);
}

const char *path_in(const char *folder, const char *name)
{
    struct path *p = malloc(sizeof *p + strlen(folder) + strlen(name) + 2);
    if (!p) abort();
    sprintf(p->text, "%s/%s", folder, name);
    p->next = paths;
    paths = p;
    return p->text;
}

const char *folder_new(void)
{
    if (!owner) {
        if (!mkdtemp(top) || chmod(top, 0755) || atexit(remove_top)) abort();
        owner = getpid();
    }
    const char *path = path_in(top, "XXXXXX");
    if (!mkdtemp(paths->text)) abort();
    return path;
}

const char *write_file(const char *path, const void *bytes, size_t n)
{
    char *folder = strdup(path);
    for (char *slash = folder + 1; (slash = strchr(slash, '/')); *slash++ = '/') {
        *slash = 0;
        if (mkdir(folder, 0700)) assert_int_equal(errno, EEXIST);
    }
    free(folder);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
    return path;
}

const char *write_text(const char *path, const char *text)
{
    return write_file(path, text, strlen(text));
}

static int by_line(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

int main(int argc, char **argv)
{
    char pattern[128];
    test_argc = argc;
    test_argv = argv;
    setlocale(LC_ALL, "C.UTF-8");
    if (argc > 1 && argv[1][0] != '-') {
        snprintf(pattern, sizeof pattern, "*%s*", argv[1]);
        cmocka_set_test_filter(pattern);
    }
    qsort(added, n_added, sizeof *added, by_line);
    for (size_t i = 0; i < n_added; i++) tests[i] = added[i].test;
    return _cmocka_run_group_tests("tests", tests, n_added, before_all, after_all);
}
