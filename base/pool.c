#include "base/pool.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/system.h"

/* How a job ends safely
 *
 * A job's parts are split evenly into one share per thread: a word that holds the share's begin,
 * its end and the span. A thread takes spans of parts from the front of its share; when the share
 * is empty, it takes from the back of other shares. Both use compare-and-swap: a thread whose swap
 * succeeds owns parts of the job that is current at that moment, and that job cannot end before
 * they are reported done. So fn and ctx may be read after the swap, and only then. A worker that
 * wakes late finds either empty shares (it touches nothing) or the next job's (it helps with that
 * one). So the caller waits for parts, never for workers, and no generation counter has to be
 * compared.
 *
 * Sleeping: a worker sleeps on `n_jobs`, which every job changes; the caller sleeps on `n_undone`.
 * The sleeper first announces that it sleeps (n_asleep, caller_asleep); the thread that changes the
 * word checks for sleepers afterwards. Both are sequentially consistent, so one of the two always
 * sees the other.
 *
 * Sharing cores with other processes
 *
 * A worker that the scheduler put on the caller's core moves to another core: there, each would
 * wait for the other. A worker that shares its own core with a foreign thread can be preempted at
 * any point, and the caller then waits milliseconds for the parts it holds. After this has happened
 * several times, the worker yields voluntarily, between parts and before its time slice is over,
 * and returns when the other thread has used up its own slice; the caller takes all parts
 * meanwhile.
 *
 * On a machine with more busy threads than cores a worker that was preempted, or is woken, runs
 * milliseconds later, and Linux may take its time from the caller's share (autogroup). So the
 * caller measures now and then how many cores its jobs get. If they get hardly more than one, it
 * runs jobs alone for a second and measures again. It keeps the better way for some seconds. Where
 * other programs could use all processors, even a short trial with workers costs the caller a part
 * of its share for a second. There it begins alone, and measures when they stop, or after a minute.
 * Each thread more than two halves the time to the first measurement, because more threads lose
 * more by waiting. */

#define LINE        64 /* bytes of a cache line, to keep a word that is often written apart */
#define THREADS_MAX 1024
/* Longer than the gaps between the kernels of one token, far shorter than a scheduler's time slice:
 * a foreign thread that needs this core loses at most this much. */
#define SPIN_NS 30000

#define HELD_UP_NS 500000   /* a wait longer than this means that the worker was preempted */
#define SOON_NS    20000000 /* hold-ups no further apart than this count as "in a row" … */
#define IN_A_ROW   4
#define CROWDED_NS 100000000 /* … and several of them mark the core as crowded for this long */
/* run time before it yields there: Linux time slices take 0.7 ms and more */
#define RUN_NS  1000000
#define REST_NS 1500000

#define TRIAL_NS   200000000  /* jobs with workers are measured for this long */
#define ALONE_NS   1000000000 /* jobs alone for longer: the scheduler adapts shares slowly */
#define LEAST_GAIN 1.25       /* with workers a job must get this many times the cores as alone */
/* An outcome is kept for KEPT_NS before the next measurement, and for twice the time after each one
 * that confirms it, up to KEPT_MOST_NS, because load changes. */
#define KEPT_NS         1000000000
#define KEPT_MOST_NS    8000000000
#define KEPT_CROWDED_NS 60000000000 /* the outcome alone, while all processors are wanted */

struct worker {
    struct pool *pool;
    pthread_t id;
    int thread;
    long n_taken_off;   /* involuntary context switches of the thread at its last check */
    int64_t held_up_ns; /* when it last held the caller up, and how often in a row */
    int n_held_up;
    int64_t crowded_ns; /* its core is crowded until then; 0 = it is not */
    int64_t running_ns; /* start of its current run, while crowded */
};

/* Parts that no thread has taken, and how many to take at once: begin | end << 24 | span << 48.
 * They share one word, so that a thread that takes some parts knows the span of the job they belong
 * to. */
struct share {
    _Alignas(LINE) _Atomic uint64_t left;
};

enum { PARTS_BITS = 24, PARTS_MASK = (1 << PARTS_BITS) - 1 };

static uint64_t share_word(uint64_t begin, uint64_t end, uint64_t span)
{
    return begin | end << PARTS_BITS | span << (2 * PARTS_BITS);
}

struct pool {
    /* written by the caller for each job, read by threads that hold a part */
    _Alignas(LINE) void (*fn)(void *ctx, int begin, int end, int thread);
    void *ctx;
    atomic_int caller_cpu;
    _Alignas(LINE) _Atomic uint32_t n_jobs; /* futex of the workers */
    _Atomic uint32_t n_asleep;
    atomic_bool closing;
    _Alignas(LINE) _Atomic uint32_t n_undone; /* parts not reported done; futex of the caller */
    _Atomic int64_t caller_asleep;            /* since when the caller sleeps; 0 = it is awake */
    /* only the caller reads and writes these */
    int64_t ns, cpu_ns, n_parts, n_own; /* of the jobs measured so far */
    double cores;                       /* that jobs got with workers; 0 = not measured yet */
    int64_t trial_ns;                   /* when the next measurement begins */
    int64_t latest_ns;                  /* the same, if all processors are wanted until then */
    int64_t kept_ns;                    /* how long the last outcome is kept */
    bool alone;                         /* the last outcome: the caller runs jobs alone */
    /* fixed after pool_open */
    _Alignas(LINE) int n_threads;
    int n_started; /* workers that run */
    int64_t spin_ns;
    struct share *shares; /* [n_threads] */
    struct worker *workers;
};

static inline void cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __asm__ volatile("pause" ::: "memory");
#elif defined(__aarch64__)
    /* `yield` is a no-op on most cores; isb waits about as long as pause does */
    __asm__ volatile("isb" ::: "memory");
#else
    atomic_signal_fence(memory_order_seq_cst);
#endif
}

static void futex_wait(_Atomic uint32_t *word, uint32_t seen)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
}

static void futex_wake(_Atomic uint32_t *word, int n)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, n, NULL, NULL, 0);
}

/* Waits until *word is not `seen`; false when spin_ns is over and it has not changed. */
static bool spin_while(_Atomic uint32_t *word, uint32_t seen, int64_t spin_ns)
{
    if (spin_ns == 0) return atomic_load_explicit(word, memory_order_acquire) != seen;
    for (int64_t end = 0;;) {
        /* A pause takes 1 to 140 cycles depending on the core, so the clock limits the spin;
         * reading it is slow, so it is read rarely. */
        for (int i = 0; i < 32; i++) {
            if (atomic_load_explicit(word, memory_order_acquire) != seen) return true;
            cpu_relax();
        }
        int64_t now = system_clock_ns();
        if (end == 0) end = now + spin_ns;
        if (now >= end) return false;
    }
}

/* Takes a span of parts, or about half a span where few parts are left: short last spans let the
 * threads end together, but each part of them may cost more. */
static uint32_t take(_Atomic uint64_t *left, bool front, uint32_t *first)
{
    uint64_t seen = atomic_load_explicit(left, memory_order_relaxed);
    for (;;) {
        uint32_t begin = seen & PARTS_MASK, end = seen >> PARTS_BITS & PARTS_MASK, n = end - begin;
        uint32_t span = (uint32_t)(seen >> (2 * PARTS_BITS));
        if (n == 0) return 0;
        if (n >= 2 * span)
            n = span;
        else if (n > (span + 1) / 2)
            n = (n + 1) / 2;
        *first = front ? begin : end - n;
        begin += front ? n : 0;
        end -= front ? 0 : n;
        if (atomic_compare_exchange_weak_explicit(left, &seen, share_word(begin, end, span),
                                                  memory_order_acquire, memory_order_relaxed))
            return n;
    }
}

/* The caller slept until this worker's parts were done. */
static void held_up(struct worker *w, int64_t since_ns)
{
    struct rusage u;
    int64_t now = system_clock_ns();
    if (!w->pool->spin_ns || now - since_ns < HELD_UP_NS || getrusage(RUSAGE_THREAD, &u)) return;
    if (u.ru_nivcsw == w->n_taken_off) return;
    w->n_taken_off = u.ru_nivcsw;
    w->n_held_up = now - w->held_up_ns < SOON_NS ? w->n_held_up + 1 : 1;
    w->held_up_ns = w->running_ns = now;
    if (w->n_held_up >= IN_A_ROW) w->crowded_ns = now + CROWDED_NS;
}

/* On a crowded core: yields it for a while when it is time. */
static void make_way(struct worker *w)
{
    int64_t now = system_clock_ns();
    if (now - w->running_ns < RUN_NS) return;
    if (now > w->crowded_ns) w->crowded_ns = 0;
    nanosleep(&(struct timespec){0, REST_NS}, NULL);
    w->running_ns = system_clock_ns();
}

/* Moves from the caller's core to another one that this thread may use. */
static void move_away(int cpu)
{
    cpu_set_t all, others;
    if (sched_getaffinity(0, sizeof all, &all)) return;
    others = all;
    CPU_CLR(cpu, &others);
    if (CPU_COUNT(&others) == 0 || sched_setaffinity(0, sizeof others, &others)) return;
    sched_setaffinity(0, sizeof all, &all);
}

/* Takes and runs parts until none is left; returns their number. w: NULL for the caller. */
static uint32_t run_parts(struct pool *p, int thread, struct worker *w)
{
    uint32_t first, n, n_run = 0;
    for (int i = 0; i < p->n_threads; i++) {
        struct share *s = &p->shares[(thread + i) % p->n_threads];
        while ((n = take(&s->left, i == 0, &first))) {
            p->fn(p->ctx, (int)first, (int)(first + n), thread);
            n_run += n;
            /* The job may be over and the next one begun from here on. */
            bool last = atomic_fetch_sub(&p->n_undone, n) == n;
            int64_t since_ns = last ? atomic_load(&p->caller_asleep) : 0;
            if (since_ns) futex_wake(&p->n_undone, 1);
            if (w && since_ns) held_up(w, since_ns);
            if (w && w->crowded_ns) make_way(w);
        }
    }
    return n_run;
}

static void *worker_main(void *arg)
{
    struct worker *w = arg;
    struct pool *p = w->pool;
    for (;;) {
        uint32_t seen = atomic_load_explicit(&p->n_jobs, memory_order_acquire);
        if (atomic_load(&p->closing)) return NULL;
        int cpu = atomic_load_explicit(&p->caller_cpu, memory_order_relaxed);
        if (p->spin_ns && cpu >= 0 && sched_getcpu() == cpu) move_away(cpu);
        run_parts(p, w->thread, w);
        if (spin_while(&p->n_jobs, seen, p->spin_ns)) continue;
        atomic_fetch_add(&p->n_asleep, 1);
        while (atomic_load(&p->n_jobs) == seen) futex_wait(&p->n_jobs, seen);
        atomic_fetch_sub(&p->n_asleep, 1);
    }
}

static void wait_done(struct pool *p)
{
    int64_t spin_ns = p->spin_ns;
    for (;;) {
        uint32_t left = atomic_load_explicit(&p->n_undone, memory_order_acquire);
        if (left == 0) return;
        /* Each part that ends restarts the spin time. */
        if (spin_while(&p->n_undone, left, spin_ns)) continue;
        atomic_store(&p->caller_asleep, system_clock_ns());
        while ((left = atomic_load(&p->n_undone)) != 0) futex_wait(&p->n_undone, left);
        atomic_store(&p->caller_asleep, 0);
    }
}

/* Whether other programs could use all processors: more threads than these run, the caller among
 * them. */
static bool all_wanted(void)
{
    return system_n_running() > sysconf(_SC_NPROCESSORS_ONLN);
}

/* Whether the next job belongs to a measurement. */
static bool trial_is_due(struct pool *p, int64_t now)
{
    if (now < p->trial_ns) return false;
    if (!p->alone || p->cores > 0 || now >= p->latest_ns || !all_wanted()) return true;
    p->trial_ns = now + KEPT_NS;
    return false;
}

/* The cores that the measured jobs got; 1 if the caller came too late for all parts. */
static double cores_got(const struct pool *p)
{
    return p->n_own ? (double)p->cpu_ns / (double)p->ns * (double)p->n_parts / (double)p->n_own : 1;
}

/* Decides whether the caller runs jobs alone, when enough of them are measured. */
static void judge(struct pool *p, int64_t now)
{
    if (p->ns < (p->cores > 0 ? ALONE_NS : TRIAL_NS)) return;
    const double cores = cores_got(p);
    p->ns = p->cpu_ns = p->n_parts = p->n_own = 0;
    if (p->cores == 0 && cores < LEAST_GAIN) {
        p->cores = cores;
        return;
    }
    const bool alone = p->cores > 0 && p->cores < LEAST_GAIN * cores;
    p->kept_ns = p->kept_ns && alone == p->alone ? 2 * p->kept_ns : KEPT_NS;
    if (p->kept_ns > KEPT_MOST_NS) p->kept_ns = KEPT_MOST_NS;
    p->trial_ns = now + p->kept_ns;
    p->latest_ns = now + KEPT_CROWDED_NS;
    p->alone = alone;
    p->cores = 0;
}

static int64_t caller_cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static void run_alone(void *ctx, int n_parts, int span, void (*fn)(void *, int, int, int))
{
    for (int i = 0; i < n_parts; i += span) fn(ctx, i, n_parts - i < span ? n_parts : i + span, 0);
}

/* Runs the job with all workers; returns how many parts the caller ran. */
static uint32_t run_together(struct pool *p, int n_parts, int span)
{
    atomic_store_explicit(&p->caller_cpu, sched_getcpu(), memory_order_relaxed);
    atomic_store_explicit(&p->n_undone, (uint32_t)n_parts, memory_order_relaxed);
    for (int i = 0; i < p->n_threads; i++) {
        uint64_t begin = (uint64_t)n_parts * (uint64_t)i / (uint64_t)p->n_threads;
        uint64_t end = (uint64_t)n_parts * (uint64_t)(i + 1) / (uint64_t)p->n_threads;
        atomic_store_explicit(&p->shares[i].left, share_word(begin, end, (uint64_t)span),
                              memory_order_release);
    }
    atomic_fetch_add(&p->n_jobs, 1);
    uint32_t n_asleep = atomic_load(&p->n_asleep);
    if (n_asleep) futex_wake(&p->n_jobs, n_parts - 1);
    return run_parts(p, 0, NULL);
}

void pool_run_spans(struct pool *p, int n_parts, int span,
                    void (*fn)(void *ctx, int begin, int end, int thread), void *ctx)
{
    assert(n_parts <= PARTS_MASK && span > 0 && span <= UINT16_MAX);
    if (p->n_threads == 1 || n_parts <= 1) {
        run_alone(ctx, n_parts, span, fn);
        return;
    }
    const int64_t begun_ns = system_clock_ns();
    const bool trial = trial_is_due(p, begun_ns), alone = trial ? p->cores > 0 : p->alone;
    int64_t cpu_ns = trial ? caller_cpu_ns() : 0;
    uint32_t n_own = (uint32_t)n_parts;
    if (alone) {
        run_alone(ctx, n_parts, span, fn);
    } else {
        p->fn = fn;
        p->ctx = ctx;
        n_own = run_together(p, n_parts, span);
    }
    /* before it waits, which may take processor time, too */
    if (trial) cpu_ns = caller_cpu_ns() - cpu_ns;
    if (!alone) wait_done(p);
    if (!trial) return;
    const int64_t now = system_clock_ns();
    p->ns += now - begun_ns;
    p->cpu_ns += cpu_ns;
    p->n_parts += n_parts;
    p->n_own += n_own;
    judge(p, now);
}

struct parts {
    void (*fn)(void *ctx, int part, int thread);
    void *ctx;
};

static void each_part(void *ctx, int begin, int end, int thread)
{
    const struct parts *p = ctx;
    for (int i = begin; i < end; i++) p->fn(p->ctx, i, thread);
}

void pool_run(struct pool *p, int n_parts, void (*fn)(void *ctx, int part, int thread), void *ctx)
{
    struct parts parts = {fn, ctx};
    pool_run_spans(p, n_parts, 1, each_part, &parts);
}

int pool_n_threads(const struct pool *p)
{
    return p->n_threads;
}

/* ---- how many cores -------------------------------------------------------------------------- */

static int affinity_cpus(void)
{
    /* EINVAL: the kernel's CPU set is larger than ours. */
    for (size_t n = 1024; n <= 1u << 20; n *= 2) {
        cpu_set_t *set = CPU_ALLOC(n);
        if (!set) break;
        int rc = sched_getaffinity(0, CPU_ALLOC_SIZE(n), set);
        int count = !rc ? CPU_COUNT_S(CPU_ALLOC_SIZE(n), set) : 0;
        CPU_FREE(set);
        if (!rc && count > 0) return count;
        if (errno != EINVAL) break;
    }
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 && n < INT_MAX ? (int)n : 1;
}

/* Reads "0-3,8", as sysfs writes sets of CPUs; false if there is no such file. */
static bool read_cpus(const char *folder, const char *name, cpu_set_t *out)
{
    char path[256];
    int first, last, end;
    CPU_ZERO(out);
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "re");
    if (!f) return false;
    while (fscanf(f, "%d", &first) == 1) {
        last = fscanf(f, "-%d", &end) == 1 ? end : first;
        for (int i = first; i >= 0 && i <= last && i < CPU_SETSIZE; i++) CPU_SET(i, out);
        if (fgetc(f) != ',') break;
    }
    fclose(f);
    return true;
}

int pool_cores(const char *devices, const cpu_set_t *may_use)
{
    cpu_set_t fast, core, use = *may_use;
    char name[64];
    int n = 0;
    if (read_cpus(devices, "cpu_core/cpus", &fast)) {
        CPU_AND(&fast, &fast, may_use);
        if (CPU_COUNT(&fast)) use = fast;
    }
    for (int i = 0; i < CPU_SETSIZE; i++) {
        if (!CPU_ISSET(i, &use)) continue;
        n++;
        snprintf(name, sizeof name, "system/cpu/cpu%d/topology/thread_siblings_list", i);
        if (!read_cpus(devices, name, &core)) continue;
        for (int k = i + 1; k < CPU_SETSIZE; k++)
            if (CPU_ISSET(k, &core)) CPU_CLR(k, &use);
    }
    return n;
}

/* CPUs that this process may use: by its affinity, and by the limit of its container. */
static int usable_cpus(void)
{
    const int64_t granted = system_group_cpus();
    int n = affinity_cpus();
    return granted > 0 && granted < n ? (int)granted : n;
}

int pool_threads(int n_threads)
{
    cpu_set_t may_use;
    if (n_threads) return n_threads;
    int n_cpus = usable_cpus(), n = n_cpus < THREADS_MAX ? n_cpus : THREADS_MAX;
    if (sched_getaffinity(0, sizeof may_use, &may_use)) return n;
    int cores = pool_cores("/sys/devices", &may_use);
    return cores > 0 && cores < n ? cores : n;
}

/* ---- life ------------------------------------------------------------------------------------ */

static int start_workers(struct pool *p, struct err *e)
{
    /* Workers inherit a full signal mask: the caller handles Ctrl-C and window changes. */
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int rc = 0;
    for (int i = 0; !rc && i < p->n_threads - 1; i++) {
        struct worker *w = &p->workers[i];
        *w = (struct worker){.pool = p, .thread = i + 1};
        rc = pthread_create(&w->id, NULL, worker_main, w);
        if (!rc) p->n_started++;
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (!rc) return 0;
    return err_set(e, ERR_FAIL, "could not start thread %d of %d: %s; use fewer with --threads",
                   p->n_started + 2, p->n_threads, strerror(rc));
}

int pool_open(struct pool **out, int n_threads, struct err *e)
{
    int rc = 0;
    *out = NULL;
    if (n_threads < 0 || n_threads > THREADS_MAX)
        return err_set(e, ERR_USAGE, "--threads %d: expected 1 to %d, or 0 for one per core",
                       n_threads, THREADS_MAX);
    n_threads = pool_threads(n_threads);

    struct pool *p = aligned_alloc(LINE, sizeof *p);
    if (!p) return err_set(e, ERR_FIT, "out of memory for a pool of %d threads", n_threads);
    memset(p, 0, sizeof *p);
    p->n_threads = n_threads;
    p->caller_cpu = -1;
    /* With more threads than cores, a spinning thread blocks the thread that it waits for. */
    p->spin_ns = n_threads <= usable_cpus() ? SPIN_NS : 0;
    if (n_threads > 1) {
        const int more = n_threads < 32 ? n_threads - 2 : 30;
        p->alone = all_wanted();
        p->latest_ns = system_clock_ns() + (KEPT_CROWDED_NS >> more);
        p->shares = aligned_alloc(LINE, (size_t)n_threads * sizeof *p->shares);
        p->workers = calloc((size_t)n_threads - 1, sizeof *p->workers);
        if (!p->workers || !p->shares) {
            rc = err_set(e, ERR_FIT, "out of memory for %d threads", n_threads);
            goto fail;
        }
        memset(p->shares, 0, (size_t)n_threads * sizeof *p->shares);
        rc = start_workers(p, e);
        if (rc) goto fail;
    }
    *out = p;
    return 0;
fail:
    pool_close(p);
    return rc;
}

void pool_close(struct pool *p)
{
    if (!p) return;
    atomic_store(&p->closing, true);
    atomic_fetch_add(&p->n_jobs, 1);
    futex_wake(&p->n_jobs, INT_MAX);
    for (int i = 0; i < p->n_started; i++) pthread_join(p->workers[i].id, NULL);
    free(p->workers);
    free(p->shares);
    free(p);
}
