#include "tests/gpu/ceilings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/system.h"
#include "tests/gpu/rate.h"

enum { CLOCK_KHZ = 13 }; /* attribute of a device */

struct meter {
    struct cuda *g;
    struct CUmod_st *module;
    struct arena memory;
    unsigned blocks;
    bool quick;
    struct err *e;
};

/* ---- rate.cu --------------------------------------------------------------------------------- */

/* Loads rate.ptx; false, with the reason printed, where that is not possible. The emulated driver
 * has only the program's kernels. */
static bool load(struct meter *m, const char *folder)
{
    static char ptx[1 << 16];
    struct CUfunc_st *f;
    struct err e;
    char path[512];
    snprintf(path, sizeof path, "%s/rate.ptx", folder);
    FILE *file = fopen(path, "rb");
    size_t n = file ? fread(ptx, 1, sizeof ptx - 1, file) : 0;
    if (file) fclose(file);
    ptx[n] = '\0';
    int rc = n ? CUDA_DO(m->g, &e, cuModuleLoadDataEx, &m->module, ptx, 0, NULL, NULL) : 1;
    if (!rc) rc = m->g->driver.cuModuleGetFunction(&f, m->module, "rate_read");
    if (rc)
        printf("rates of reads and of matrix instructions: not measured, %s\n",
               n ? "rate.ptx does not load" : path);
    return !rc;
}

/* *seconds: the shortest time of n launches, of five. */
static int time_launches(const struct meter *m, const char *kernel, struct rate args, int n,
                         double *seconds)
{
    void *params[] = {&args};
    struct CUfunc_st *f;
    int rc = CUDA_DO(m->g, m->e, cuModuleGetFunction, &f, m->module, kernel);
    args.out = (float *)(void *)m->memory.base;
    *seconds = 1e9;
    for (int i = 0; !rc && i < 5; i++) {
        int64_t t0 = system_clock_ns();
        for (int k = 0; !rc && k < n; k++)
            rc = CUDA_DO(m->g, m->e, cuLaunchKernel, f, m->blocks, 1, 1, RATE_THREADS, 1, 1, 0,
                         m->g->stream, params, NULL);
        if (!rc) rc = cuda_wait(m->g, m->e);
        const double s = (double)(system_clock_ns() - t0) / 1e9;
        if (s < *seconds) *seconds = s;
    }
    return rc;
}

/* *rate: multiply-adds per second, of instructions with this many. */
static int measure_products(const struct meter *m, const char *kernel, double multiply_adds,
                            double *rate)
{
    const struct rate args = {.n = m->quick ? 1 : 20000};
    const double warps = m->blocks * (RATE_THREADS / 32.0);
    double s;
    int rc = time_launches(m, kernel, args, 1, &s);
    if (rc) return rc;
    *rate = warps * args.n * RATE_PRODUCTS * multiply_adds / s;
    printf("%s: %.1f TOPS\n", kernel, 2 * *rate / 1e12);
    fflush(stdout);
    return 0;
}

/* *rate: bytes per second of about `bytes`, read n times. */
static int measure_reads(const struct meter *m, const char *what, size_t bytes, int n, double *rate)
{
    const size_t step = (size_t)m->blocks * RATE_THREADS * RATE_LOADS * 16;
    const size_t room = m->memory.bytes - (size_t)m->blocks * RATE_THREADS * sizeof(float);
    struct rate args = {.n = n, .from = m->memory.base + (m->memory.bytes - room)};
    double s;
    if (bytes > room) bytes = room;
    args.bytes = (int64_t)(bytes < step ? step : bytes / step * step);
    int rc = time_launches(m, "rate_read", args, 1, &s);
    if (rc) return rc;
    *rate = (double)args.bytes * n / s;
    printf("%s: %.1f GB/s, %.1f MB\n", what, *rate / 1e9, (double)args.bytes / 1e6);
    fflush(stdout);
    return 0;
}

static int measure_launch(const struct meter *m, double *seconds)
{
    const int n = m->quick ? 2 : 1000;
    double s;
    int rc = time_launches(m, "rate_s8", (struct rate){0}, n, &s);
    if (rc) return rc;
    *seconds = s / n;
    printf("a launch that does nothing: %.2f us\n", 1e6 * *seconds);
    fflush(stdout);
    return 0;
}

/* ---- all ------------------------------------------------------------------------------------- */

static void measure_issue(const struct meter *m, double *slots)
{
    const struct cuda *g = m->g;
    int khz = 0;
    if (g->driver.cuDeviceGetAttribute(&khz, CLOCK_KHZ, g->handle)) khz = 0;
    *slots = 4.0 * g->device.n_sm * khz * 1e3;
    printf("issue: %.0f G instructions of warps/s at %.2f GHz, as the driver says\n", *slots / 1e9,
           khz / 1e6);
}

int ceilings_measure(struct ceilings *out, struct cuda *g, const char *folder, bool quick,
                     struct err *e)
{
    const size_t most = (size_t)1 << 30, l2 = (size_t)2 << 20; /* Orin has 4 MB */
    struct meter m = {.g = g, .blocks = 4 * (unsigned)g->device.n_sm, .quick = quick, .e = e};
    int64_t free_bytes = 0;
    *out = (struct ceilings){0};
    int rc = cuda_copy_rate(g, &out->copy, e);
    if (rc) return rc;
    printf("copy: %.1f GB/s read and written\n", out->copy / 1e9);
    measure_issue(&m, &out->slots);
    if (!load(&m, folder)) return 0;
    rc = cuda_free_bytes(g, &free_bytes, e);
    const size_t bytes = free_bytes / 2 < (int64_t)most ? (size_t)free_bytes / 2 : most;
    if (!rc) rc = cuda_arena_init(g, &m.memory, "rates", quick ? l2 * 8 : bytes, e);
    if (!rc) rc = measure_reads(&m, "read", most, 1, &out->read);
    if (!rc) rc = measure_reads(&m, "read from L2", l2, quick ? 1 : 200, &out->l2);
    if (!rc) rc = measure_products(&m, "rate_f16", 16 * 8 * 16, &out->f16);
    if (!rc) rc = measure_products(&m, "rate_s8", 16 * 8 * 32, &out->s8);
    if (!rc) rc = measure_launch(&m, &out->launch);
    cuda_arena_release(g, &m.memory);
    return rc;
}

/* ---- bounds ---------------------------------------------------------------------------------- */

struct bound ceilings_bound(const struct ceilings *c, const struct work *w)
{
    const double read = c->read > c->copy ? c->read : c->copy;
    const double matrix = (c->s8 > 0 ? w->s8 / c->s8 : 0) + (c->f16 > 0 ? w->f16 / c->f16 : 0);
    const double issue = c->slots > 0 ? w->slots / c->slots : 0;
    struct bound b = {w->bytes / read, "memory"};
    if (matrix / 0.9 > b.seconds) b = (struct bound){matrix / 0.9, "matrix"};
    if (issue / 0.75 > b.seconds) b = (struct bound){issue / 0.75, "issue"};
    return b;
}

/* The table's first line is a title; then "kernel sm_80 sm_86 …" and rows such as "matmul_q4
 * 196/14.1 202/14.1 …", where the number behind the slash is wanted. */
double ceilings_slots_of(const char *folder, const char *kernel, int arch)
{
    char path[512], line[512], head[16];
    double found = 0;
    int column = -1;
    snprintf(path, sizeof path, "%s/report.txt", folder);
    snprintf(head, sizeof head, "sm_%d", arch);
    FILE *f = fopen(path, "r");
    while (f && fgets(line, sizeof line, f) && found == 0) {
        char *rest = line, *name = strtok_r(rest, " \n", &rest), *cell;
        if (!name) continue;
        const bool heads = !strcmp(name, "kernel");
        if (!heads && strcmp(name, kernel) != 0) continue;
        for (int i = 0; (cell = strtok_r(NULL, " \n", &rest)); i++) {
            if (heads && !strcmp(cell, head)) column = i;
            if (!heads && i == column && strchr(cell, '/')) found = atof(strchr(cell, '/') + 1);
        }
    }
    if (f) fclose(f);
    return found;
}
