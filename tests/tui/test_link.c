/* Slow and silent terminals: frames wait for a terminal that lags behind, a key's echo is never far
 * away, and a terminal that never answers is still drawn on. Runs tui_fake. */
#include "tests/test.h"

#include <signal.h>

#include "tests/tui/pty.h"

static const char *home;
static char program[256];

static bool start(struct pty *p, bool mute)
{
    char *argv[] = {program,        "--fake-rate", "500", "chat",     "--new",
                    "--private",    "--budget",    "96",  "--policy", "auto:reserve=16",
                    "--ignore-end", "--seed",      "1",   NULL};
    if (access(program, X_OK) != 0) {
        print_message("skip: %s is missing\n", program);
        skip();
    }
    if (!pty_start(p, 160, 50, home, argv)) {
        print_message("skip: no pseudo-terminal can be opened\n");
        skip();
    }
    p->mute = mute;
    assert_true(pty_wait(p, 0, "ready"));
    size_t from = p->bytes.n;
    pty_type(p, "a long story\r");
    return pty_wait(p, from, "Ctrl-C stop");
}

static int frames_since(const struct pty *p, size_t from)
{
    int n = 0;
    for (size_t at = from; at + 4 <= p->bytes.n; at++)
        n += memcmp(p->bytes.data + at, "\033[5n", 4) == 0; /* each ends with this question */
    return n;
}

/* The link is blocked for a while and then passes a hundred bytes at a time. All changes meanwhile
 * are one frame; the echo comes with one of the next frames, not after all changes. */
TEST(test_slow_link)
{
    struct pty p;
    assert_true(start(&p, false));
    for (int round = 0; round < 5; round++) {
        struct timespec stuck = {0, 200000000}; /* a hundred tokens */
        nanosleep(&stuck, NULL);
        size_t from = p.bytes.n;
        pty_type(&p, "Z");
        int64_t limit = pty_clock_ns() + INT64_C(120000000000);
        while (!pty_shows(&p, from, "Z") && pty_clock_ns() < limit) pty_read(&p, 100, 100);
        assert_true(pty_shows(&p, from, "Z"));
        assert_in_range(frames_since(&p, from), 0, 5);
    }
    pty_stop(&p);
}

TEST(test_silent_terminal)
{
    struct pty p;
    assert_true(start(&p, true));
    size_t from = p.bytes.n;
    pty_type(&p, "Z");
    assert_true(pty_wait(&p, from, "Z"));
    assert_true(pty_wait(&p, p.bytes.n, "tok"));
    pty_stop(&p);
}

static int setup(void **state)
{
    const char *retain = getenv("RETAIN");
    snprintf(program, sizeof program, "%s", retain ? retain : "build/retain");
    char *slash = strrchr(program, '/');
    if (slash) snprintf(slash, sizeof program - (size_t)(slash - program), "/tests/tui_fake");
    home = folder_new();
    return 0;
}

AROUND_TESTS(setup, NULL)
