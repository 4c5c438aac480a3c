/* pool: every part runs once, on a thread number in range, under any load. */

#include "tests/test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "base/pool.h"

#define PARTS_MAX 600

struct count {
    int n_threads;
    int runs[PARTS_MAX]; /* plain ints: only one thread writes a part */
    atomic_int bad_thread;
    atomic_int in_use[64]; /* per thread number: never two at once */
    int work;              /* busy steps per part */
};

static void count_part(void *ctx, int part, int thread)
{
    struct count *c = ctx;
    if (thread < 0 || thread >= c->n_threads) {
        atomic_fetch_add(&c->bad_thread, 1);
        return;
    }
    if (atomic_fetch_add(&c->in_use[thread], 1) != 0) atomic_fetch_add(&c->bad_thread, 1);
    for (volatile int i = 0; i < c->work; i++) {
    }
    c->runs[part]++;
    atomic_fetch_sub(&c->in_use[thread], 1);
}

static void check_pool(int n_threads, int n_jobs, int work)
{
    AUTO_POOL *p;
    ok(pool_open(&p, n_threads, &err));
    AUTO_FREE struct count *c = calloc(1, sizeof *c);
    int expected[PARTS_MAX] = {0};
    c->n_threads = pool_n_threads(p);
    c->work = work;
    for (int j = 0; j < n_jobs; j++) {
        int n_parts = j % 50 == 49 ? PARTS_MAX - j % 7 : j % 9; /* includes 0 and 1 */
        pool_run(p, n_parts, count_part, c);
        for (int i = 0; i < n_parts; i++) expected[i]++;
        if (j % 1000 == 0) assert_memory_equal(c->runs, expected, sizeof expected);
    }
    assert_memory_equal(c->runs, expected, sizeof expected);
    assert_int_equal(atomic_load(&c->bad_thread), 0);
}

TEST(many_tiny_jobs)
{
    check_pool(2, 100000, 0);
}

TEST(sizes_and_threads)
{
    for (int n = 1; n <= 9; n += 2) check_pool(n, 2000, 20);
}

TEST(more_threads_than_cores)
{
    check_pool(48, 1500, 5);
}

struct spans {
    struct count count;
    int span, next; /* where the only thread's next span begins; -1: there are more threads */
    atomic_int bad;
};

static void count_span(void *ctx, int begin, int end, int thread)
{
    struct spans *s = ctx;
    bool whole = begin < end && end - begin <= s->span;
    if (!whole || (s->next >= 0 && begin != s->next)) atomic_fetch_add(&s->bad, 1);
    if (s->next >= 0) s->next = end;
    for (int i = begin; i < end; i++) count_part(&s->count, i, thread);
}

TEST(spans_cover_all_parts_once)
{
    for (int n_threads = 1; n_threads <= 7; n_threads += 3) {
        AUTO_POOL *p;
        AUTO_FREE struct spans *s = calloc(1, sizeof *s);
        int expected[PARTS_MAX] = {0};
        assert_int_equal(pool_open(&p, n_threads, NULL), 0);
        s->count.n_threads = n_threads;
        s->count.work = 10;
        for (int j = 0; j < 1200; j++) {
            int n_parts = j % PARTS_MAX;
            s->span = 1 + j % 17;
            s->next = n_threads == 1 ? 0 : -1;
            pool_run_spans(p, n_parts, s->span, count_span, s);
            if (n_threads == 1) assert_int_equal(s->next, n_parts);
            for (int i = 0; i < n_parts; i++) expected[i]++;
        }
        assert_memory_equal(s->count.runs, expected, sizeof expected);
        assert_int_equal(atomic_load(&s->bad), 0);
        assert_int_equal(atomic_load(&s->count.bad_thread), 0);
    }
}

/* The job's memory is on the caller's stack: a worker that touches a finished job writes into the
 * next frame, and the poison detects it. */
struct frame {
    uint32_t magic;
    atomic_int done;
    atomic_int *bad;
};

static void frame_part(void *ctx, int part, int thread)
{
    struct frame *f = ctx;
    if (f->magic != 0xfeedf00d) atomic_fetch_add(f->bad, 1);
    atomic_fetch_add(&f->done, 1);
}

static int one_frame(struct pool *p, int n_parts, atomic_int *bad)
{
    struct frame f = {0xfeedf00d, 0, bad};
    pool_run(p, n_parts, frame_part, &f);
    int done = atomic_load(&f.done);
    f.magic = 0xdead;
    f.bad = NULL;
    return done;
}

TEST(late_workers_touch_nothing)
{
    AUTO_POOL *p;
    atomic_int bad = 0;
    assert_int_equal(pool_open(&p, 4, NULL), 0);
    for (int j = 0; j < 20000; j++) {
        int n_parts = 2 + j % 3;
        assert_int_equal(one_frame(p, n_parts, &bad), n_parts);
        /* Sometimes wait long enough for the workers to sleep. */
        if (j % 2000 == 0) usleep(1000);
    }
    assert_int_equal(atomic_load(&bad), 0);
}

static void *burn(void *stop)
{
    while (!atomic_load((atomic_bool *)stop)) {
    }
    return NULL;
}

/* With as many foreign busy threads as cores the caller waits for its workers asleep: its own
 * processor time is counted, however busy the machine is. */
TEST(foreign_busy_threads)
{
    atomic_bool stop = false;
    pthread_t id[8];
    struct pool *p;
    atomic_int bad = 0;
    assert_int_equal(pool_open(&p, 0, NULL), 0);
    int n = pool_n_threads(p) < 8 ? pool_n_threads(p) : 8;
    for (int i = 0; i < n; i++) assert_int_equal(pthread_create(&id[i], NULL, burn, &stop), 0);
    struct timespec a, b;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &a);
    for (int j = 0; j < 300; j++) assert_int_equal(one_frame(p, 2, &bad), 2);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &b);
    atomic_store(&stop, true);
    for (int i = 0; i < n; i++) pthread_join(id[i], NULL);
    pool_close(p);
    assert_true(b.tv_sec - a.tv_sec < 5);
}

/* Time that passes only where a test says so; 0 = the real time. */
static _Atomic int64_t wall_ns, caller_ns;

int __real_clock_gettime(clockid_t id, struct timespec *t);
int __wrap_clock_gettime(clockid_t id, struct timespec *t);
int __wrap_clock_gettime(clockid_t id, struct timespec *t)
{
    const int64_t ns = id == CLOCK_MONOTONIC ? wall_ns : caller_ns;
    if (!wall_ns) return __real_clock_gettime(id, t);
    *t = (struct timespec){ns / 1000000000, ns % 1000000000};
    return 0;
}

/* Threads that run on all processors. */
static int64_t n_running;

int64_t __wrap_system_n_running(void);
int64_t __wrap_system_n_running(void)
{
    return n_running;
}

struct pair {
    int percent, wait_ms;
    atomic_int n_begun;
    bool met;
};

/* The caller's part takes 100 ms, of which it runs so many percent. Each waits for the other. */
static void meet(void *ctx, int part, int thread)
{
    struct pair *j = ctx;
    atomic_fetch_add(&j->n_begun, 1);
    for (int i = 0; i < 10 * j->wait_ms && atomic_load(&j->n_begun) < 2; i++) usleep(100);
    if (part > 0) return;
    j->met = atomic_load(&j->n_begun) == 2;
    wall_ns += 100000000;
    caller_ns += j->percent * 1000000;
}

/* Jobs in turn: their number, whether the worker helps, their percents if measured, and whether
 * other programs could use all processors. */
TEST(alone_where_workers_help_little)
{
    static const int steps[][4] = {
        {600, 0, 0, 1}, {2, 1, 55, 1}, {10, 0, 90},    {10, 0, 0},    {2, 1, 40},  {10, 0, 90},
        {20, 0, 0},     {2, 1, 40},    {10, 0, 60},    {10, 1, 0},    {2, 1, 99},  {20, 1, 0, 1},
        {2, 1, 99},     {40, 1, 0},    {2, 1, 99},     {80, 1, 0},    {2, 1, 99},  {80, 1, 0},
        {2, 1, 40},     {10, 0, 90},   {600, 0, 0, 1}, {2, 1, 40, 1}, {10, 0, 90}, {25, 0, 0, 1},
        {5, 0, 0},      {2, 1, 99},    {1, 1, 0},
    };
    const long n_cpu = sysconf(_SC_NPROCESSORS_ONLN);
    AUTO_POOL *p;
    wall_ns = 1;
    n_running = n_cpu + 1;
    ok(pool_open(&p, 2, &err));
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
        for (int k = 0; k < steps[i][0]; k++) {
            struct pair j = {steps[i][2], steps[i][1] ? 10000 : 2, 0, false};
            n_running = n_cpu + steps[i][3];
            pool_run(p, 2, meet, &j);
            if (j.met != steps[i][1]) fail_msg("job %d of step %zu: together %d", k, i, j.met);
        }
    wall_ns = n_running = 0;
}

TEST(open_and_close)
{
    struct pool *p;
    for (int i = 0; i < 100; i++) {
        ok(pool_open(&p, 1 + i % 6, &err));
        assert_int_equal(pool_n_threads(p), 1 + i % 6);
        pool_close(p);
    }
    ok(pool_open(&p, 0, &err));
    assert_true(pool_n_threads(p) >= 1);
    assert_true(pool_n_threads(p) <= sysconf(_SC_NPROCESSORS_CONF));
    pool_close(p);
    pool_close(NULL);
    refused(pool_open(&p, -3, &err), ERR_USAGE, "-3");
    assert_null(p);
}

/* Eight CPUs: 0 with 4, and 1 with 5, share a core. */
TEST(physical_cores)
{
    const char *folder = folder_new();
    char name[64];
    cpu_set_t all, some;
    CPU_ZERO(&all);
    for (int i = 0; i < 8; i++) CPU_SET(i, &all);
    assert_int_equal(pool_cores(folder, &all), 8); /* nothing is known */
    for (int i = 0; i < 8; i++) {
        snprintf(name, sizeof name, "system/cpu/cpu%d/topology/thread_siblings_list", i);
        const char *const core[] = {"0,4", "1,5", "2", "3", "0,4", "1,5", "6", "7"};
        write_text(path_in(folder, name), core[i]);
    }
    assert_int_equal(pool_cores(folder, &all), 6);
    some = all;
    CPU_CLR(0, &some); /* its sibling still is a core */
    assert_int_equal(pool_cores(folder, &some), 6);
    write_text(path_in(folder, "cpu_core/cpus"), "0-1,4-5"); /* the others are efficient ones */
    assert_int_equal(pool_cores(folder, &all), 2);
    CPU_ZERO(&some);
    CPU_SET(6, &some);
    CPU_SET(7, &some);
    assert_int_equal(pool_cores(folder, &some), 2); /* only slow ones may be used */
}
