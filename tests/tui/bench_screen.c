/* The cost of the screen: from a key to its echo at 500 tokens per second, processor time with the
 * map open and hidden, bytes per frame, and the engine thread's time for a snapshot. Usage:
 * bench_screen [FAKE], build/tests/tui_fake by default. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <signal.h>

#include "tests/tui/pty.h"

enum { KEYS = 300, FRAMES_MAX = 20000, SECONDS = 6 };

static const char *program = "build/tests/tui_fake";
static char home[] = "/tmp/retain-bench-XXXXXX", model[64];

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double quantile(double *values, int n, double q)
{
    qsort(values, (size_t)n, sizeof *values, by_value);
    int i = (int)(q * n);
    return n ? values[i < n ? i : n - 1] : 0;
}

/* A long answer at a set speed, in a cache of 30 layers that evicts. */
static bool begin(struct pty *p, int w, int h, const char *rate)
{
    char *argv[] = {
        (char *)program, "--fake-rate", (char *)rate, "chat", "-m",       model,
        "--new",         "--private",   "--budget",   "256",  "--policy", "auto:reserve=64",
        "--ignore-end",  "--seed",      "1",          NULL};
    if (!pty_start(p, w, h, home, argv) || !pty_wait(p, 0, "ready")) return false;
    size_t from = p->bytes.n;
    pty_type(p, "a long story\r");
    return pty_wait(p, from, "Ctrl-C stop");
}

/* Drains the output for this many seconds. */
static void watch(struct pty *p, double seconds)
{
    int64_t end = pty_clock_ns() + (int64_t)(seconds * 1e9);
    for (int64_t ns; (ns = end - pty_clock_ns()) > 0;) pty_read(p, (int)(ns / 1000000) + 1, 65536);
}

static void measure_echo(int w, int h, const char *where)
{
    struct pty p;
    double ms[KEYS];
    int n = 0;
    if (!begin(&p, w, h, "500")) return;
    for (int i = 0; i < KEYS; i++) {
        size_t from = p.bytes.n;
        int64_t t0 = pty_clock_ns();
        pty_type(&p, "Z");
        if (!pty_wait(&p, from, "Z")) break;
        ms[n++] = (double)(pty_clock_ns() - t0) / 1e6;
        if (i % 20 == 19) pty_type(&p, "\025"); /* empties the line */
        watch(&p, 0.007 * (i % 5));             /* so that keys meet frames at all phases */
    }
    pty_stop(&p);
    printf("key to echo at 500 tok/s, %s: median %.1f ms, p99 %.1f ms, most %.1f ms (%d keys)\n",
           where, quantile(ms, n, 0.5), quantile(ms, n, 0.99), quantile(ms, n, 1), n);
}

/* Bytes from frame to frame: each ends with a question to the terminal. */
static void measure_frames(int w, int h, const char *rate, const char *keys, const char *where)
{
    static double sizes[FRAMES_MAX];
    struct pty p;
    int n = 0;
    if (!begin(&p, w, h, rate)) return;
    pty_type(&p, keys);
    watch(&p, 1);
    size_t from = p.bytes.n;
    watch(&p, SECONDS);
    const char *s = p.bytes.data + from, *end = p.bytes.data + p.bytes.n, *before = NULL;
    while (n < FRAMES_MAX && (s = memmem(s, (size_t)(end - s), "\033[5n", 4)) != NULL) {
        if (before) sizes[n++] = (double)(s - before);
        before = s++;
    }
    pty_stop(&p);
    printf("bytes per frame at %s tok/s, %s, %dx%d: median %.0f, p99 %.0f, most %.0f (%.1f "
           "frames/s)\n",
           rate, where, w, h, quantile(sizes, n, 0.5), quantile(sizes, n, 0.99),
           quantile(sizes, n, 1), (double)n / SECONDS);
}

/* Processor time of one thread in seconds, to the nanosecond: ticks would be a sixth of the
 * measured time. */
static double thread_seconds(pid_t pid, pid_t thread)
{
    char path[64];
    long long ns = 0;
    snprintf(path, sizeof path, "/proc/%d/task/%d/schedstat", pid, thread);
    FILE *f = fopen(path, "r");
    if (!f || fscanf(f, "%lld", &ns) != 1) ns = 0;
    if (f) fclose(f);
    return (double)ns / 1e9;
}

static void measure_cost(const char *rate, const char *keys, const char *where)
{
    struct pty p;
    if (!begin(&p, 160, 50, rate)) return;
    pty_type(&p, keys);
    watch(&p, 0.5);
    double ui = thread_seconds(p.pid, p.pid);
    int64_t t0 = pty_clock_ns();
    watch(&p, SECONDS);
    double wall = (double)(pty_clock_ns() - t0) / 1e9;
    ui = thread_seconds(p.pid, p.pid) - ui;
    pty_stop(&p);
    printf("processor time of the screen at %s tok/s, %s: %.2f %% of one core\n", rate, where,
           100 * ui / wall);
}

int main(int argc, char **argv)
{
    char command[128];
    if (argc > 1) program = argv[1];
    if (!mkdtemp(home) || access(program, X_OK) != 0) {
        printf("skip: %s is missing\n", program);
        return 0;
    }
    snprintf(model, sizeof model, "%s/model.gguf", home);
    snprintf(command, sizeof command, "build/tests/make_model chatml %s", model);
    if (system(command)) return 1;
    measure_echo(160, 50, "chat with the map beside it");
    measure_echo(80, 24, "chat");
    measure_frames(80, 24, "50", "", "chat");
    measure_frames(160, 50, "50", "", "chat with the map beside it");
    measure_frames(160, 50, "50", "\033OR", "map");
    measure_frames(160, 50, "500", "", "chat with the map beside it");
    measure_cost("500", "", "chat with the map beside it");
    measure_cost("500", "\033OR", "map");
    measure_cost("500", "\033OP", "help: nothing of it is shown");
    snprintf(command, sizeof command, "rm -r '%s'", home);
    return system(command) != 0;
}
