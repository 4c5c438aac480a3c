/* pool: a fixed set of worker threads that run the parts of one job.
 *
 * Between jobs a worker spins for some tens of microseconds, then sleeps on a futex: decoding has
 * about a hundred short jobs per token, and a pool that only spins collapses as soon as a foreign
 * thread wants one of its cores. Every thread begins with a share of neighbouring parts, so that it
 * reads memory sequentially; a thread that finishes early takes parts from others. So the thread
 * that runs a part changes from run to run, and a job's result must not depend on it. */
#ifndef RETAIN_BASE_POOL_H
#define RETAIN_BASE_POOL_H

#include <sched.h>

#include "base/err.h"

struct pool;

/* n_threads counts the caller, which works too; 0 = one per physical core that this process may
 * use, see pool_cores. */
int pool_open(struct pool **out, int n_threads, struct err *e);
void pool_close(struct pool *p);

int pool_n_threads(const struct pool *p);

/* The number of threads of a pool that is opened with n_threads, which may be 0. */
int pool_threads(int n_threads);

/* The number of physical cores among the CPUs that may be used. On a hybrid processor of Intel only
 * performance cores count. devices: the folder that describes the CPUs, usually /sys/devices. */
int pool_cores(const char *devices, const cpu_set_t *may_use);

/* Runs fn(ctx, part, thread) for every part in [0, n_parts) and returns when all are done.
 * `thread` is in [0, pool_n_threads): an index into per-thread scratch. Not reentrant. */
void pool_run(struct pool *p, int n_parts, void (*fn)(void *ctx, int part, int thread), void *ctx);

/* The same for parts that are cheaper when run together: fn runs [begin, end), at most `span`
 * parts. n_parts: below 2^24; span: 1 … 65535. */
void pool_run_spans(struct pool *p, int n_parts, int span,
                    void (*fn)(void *ctx, int begin, int end, int thread), void *ctx);

#endif
