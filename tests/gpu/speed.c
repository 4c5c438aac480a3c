/* Time of each kernel at Llama-3.1-8B's shapes, compared with a measured copy and the measured rate
 * of the matrix units. Usage: speed [DIVISOR], which makes everything smaller, for a dry run.
 * Weights and units are random bytes, too large for any L2 cache; launches cycle through them. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/system.h"
#include "kernels/cuda/pack.h"
#include "runtime/cuda/parts.h"
#include "tests/gpu/rate.h"

enum { EMBD = 4096, FF = 14336, HEADS = 8, GROUP = 4, DIM = 128, UNITS = 16384, CHUNK = 1024 };
enum { QKV = (GROUP + 2) * HEADS * DIM, HIDDEN = 1024, SPLITS = 33 };

static struct cuda *gpu;
static struct err error;
static double copy_rate;         /* bytes read and written per second */
static double f16_rate, s8_rate; /* multiply-adds per second; 0 = not measured */
static int divisor = 1;

static void check(int rc)
{
    if (!rc) return;
    fprintf(stderr, "speed: %s\n", error.text);
    exit(1);
}

/* Device memory allocated until the end, with random bytes that are small numbers in any type. */
static char *random_memory(size_t bytes)
{
    enum { PIECE = 1 << 20 };
    static uint16_t piece[PIECE / 2];
    struct arena a;
    for (size_t i = 0; i < PIECE / 2 && !piece[0]; i++)
        piece[PIECE / 2 - 1 - i] = (uint16_t)(rand() & 0x2bff);
    check(cuda_arena_init(gpu, &a, "random numbers", bytes, &error));
    for (size_t at = 0; at < bytes; at += PIECE)
        check(cuda_put(gpu, a.base + at, piece, bytes - at < PIECE ? bytes - at : PIECE, &error));
    check(cuda_wait(gpu, &error));
    return a.base;
}

static int scaled(int n, int multiple)
{
    n = n / divisor / multiple * multiple;
    return n > multiple ? n : multiple;
}

struct job { /* launches of one kernel; they take the arguments of copy i */
    const char *name;
    enum cuda_kernel kernel;
    int grid[3], threads;
    size_t shared;
    double bytes, multiply_adds; /* of one launch */
    int n_copies;
    void (*args)(int copy, void *out);
    double rate; /* achievable multiply-adds per second, 0 = bound by memory */
};

static double seconds_of(const struct job *j, int n)
{
    _Alignas(16) char args[512];
    void *params[] = {args};
    int64_t t0 = system_clock_ns();
    for (int i = 0; i < n; i++) {
        j->args(i % j->n_copies, args);
        check(CUDA_DO(gpu, &error, cuLaunchKernel, gpu->kernels[j->kernel], (unsigned)j->grid[0],
                      (unsigned)j->grid[1], (unsigned)j->grid[2], (unsigned)j->threads, 1, 1,
                      (unsigned)j->shared, gpu->stream, params, NULL));
    }
    check(cuda_wait(gpu, &error));
    return (double)(system_clock_ns() - t0) / 1e9;
}

/* The best of five batches, of about 50 ms each. */
static void time_job(const struct job *j)
{
    double once = seconds_of(j, 1), best = 1e9;
    once = seconds_of(j, 1);
    int n = divisor > 1 ? 1 : (int)(0.05 / once);
    if (n < 1) n = 1;
    if (n > 2000) n = 2000;
    for (int i = 0; i < (divisor > 1 ? 1 : 5); i++) {
        double s = seconds_of(j, n) / n;
        if (s < best) best = s;
    }
    printf("%-20s %10.1f %10.1f %9.1f%% %10.2f", j->name, best * 1e6, j->bytes / best / 1e9,
           100 * j->bytes / best / copy_rate, 2 * j->multiply_adds / best / 1e12);
    if (j->rate > 0)
        printf(" %9.1f%%\n", 100 * j->multiply_adds / best / j->rate);
    else
        printf(" %10s\n", "");
    fflush(stdout);
}

static void measure_copy(void)
{
    int (*copy)(uint64_t to, uint64_t from, size_t bytes, struct CUstream_st * s);
    void *p = dlsym(gpu->driver.library, "cuMemcpyDtoDAsync_v2");
    const size_t bytes = ((size_t)512 << 20) / (size_t)divisor;
    char *from = random_memory(bytes), *to = random_memory(bytes);
    double best = 1e9;
    if (!p) check(err_set(&error, ERR_FAIL, "the driver has no cuMemcpyDtoDAsync_v2"));
    memcpy(&copy, &p, sizeof p);
    for (int i = 0; i < 7; i++) {
        int64_t t0 = system_clock_ns();
        check(copy((uint64_t)(uintptr_t)to, (uint64_t)(uintptr_t)from, bytes, gpu->stream));
        check(cuda_wait(gpu, &error));
        double s = (double)(system_clock_ns() - t0) / 1e9;
        if (s < best) best = s;
    }
    copy_rate = 2 * (double)bytes / best;
    printf("copy: %.1f GB/s read and written\n\n", copy_rate / 1e9);
}

/* Two blocks per processor, of rate.cu. */
static double measure_rate(struct CUmod_st *module, const char *kernel, double multiply_adds)
{
    const int blocks = 2 * gpu->device.n_sm;
    struct rate args = {
        divisor > 1 ? 1 : 20000,
        (float *)(void *)random_memory((size_t)blocks * RATE_THREADS * sizeof(float))};
    struct CUfunc_st *f;
    void *params[] = {&args};
    double best = 1e9;
    check(CUDA_DO(gpu, &error, cuModuleGetFunction, &f, module, kernel));
    for (int i = 0; i < 5; i++) {
        int64_t t0 = system_clock_ns();
        check(CUDA_DO(gpu, &error, cuLaunchKernel, f, (unsigned)blocks, 1, 1, RATE_THREADS, 1, 1, 0,
                      gpu->stream, params, NULL));
        check(cuda_wait(gpu, &error));
        double s = (double)(system_clock_ns() - t0) / 1e9;
        if (s < best) best = s;
    }
    double rate = blocks * (RATE_THREADS / 32.0) * args.n * RATE_PRODUCTS * multiply_adds / best;
    printf("%s: %.1f TOPS\n", kernel, 2 * rate / 1e12);
    return rate;
}

static void measure_rates(void)
{
    static char ptx[1 << 16];
    struct CUmod_st *module;
    FILE *f = fopen(RATE_PTX, "rb");
    size_t n = f ? fread(ptx, 1, sizeof ptx - 1, f) : 0;
    if (f) fclose(f);
    if (!n) {
        printf("matrix rates: not measured, %s is missing (make gpu, with nvcc)\n\n", RATE_PTX);
        return;
    }
    check(CUDA_DO(gpu, &error, cuModuleLoadDataEx, &module, ptx, 0, NULL, NULL));
    f16_rate = measure_rate(module, "rate_f16", 16 * 8 * 16);
    s8_rate = measure_rate(module, "rate_s8", 16 * 8 * 32);
    printf("\n");
}

/* ---- kernels to time
 * -------------------------------------------------------------------------- */

static struct {
    char *weights, *units, *act, *floats, *out, *words;
    size_t weights_bytes;
    enum kn_type type;
    int n_out, n_in, n_tok, units_each;
} now;

static struct cuda_weight weight_of(int copy)
{
    const size_t q = (size_t)cuda_panels(now.n_out) * cuda_panel_bytes(now.type, now.n_in);
    const size_t d = (size_t)cuda_panels(now.n_out) * cuda_panel_scale_bytes(now.type, now.n_in);
    const char *at = now.weights + (size_t)copy * (q + d);
    return (struct cuda_weight){at, (const uint16_t *)(const void *)(at + q), now.n_out, now.n_in};
}

static struct cuda_act act(void)
{
    return (struct cuda_act){(int8_t *)now.act, (struct cuda_scale *)(void *)now.floats};
}

static void matrix_args(int copy, void *out)
{
    *(struct cuda_matvec *)out = (struct cuda_matvec){
        weight_of(copy), act(), now.n_tok, NULL, 1.0f, 0, (float *)(void *)now.out, now.n_out, {0}};
}

static void matrix(const char *name, enum cuda_kernel kernel, enum kn_type type, int n_tok)
{
    const bool many = n_tok > CUDA_MATVEC_TOKENS;
    now.type = type, now.n_out = scaled(FF, 128), now.n_in = scaled(EMBD, 64), now.n_tok = n_tok;
    const double bytes =
        (double)cuda_panels(now.n_out) *
        (double)(cuda_panel_bytes(type, now.n_in) + cuda_panel_scale_bytes(type, now.n_in));
    const struct job j = {
        name,
        kernel,
        {many ? (now.n_out + 127) / 128 : cuda_panels(now.n_out), many ? (n_tok + 63) / 64 : 1, 1},
        many ? CUDA_MATMUL_THREADS : CUDA_MATVEC_THREADS,
        many ? CUDA_MATMUL_SHARED : CUDA_MATVEC_SHARED,
        bytes,
        (double)now.n_out * now.n_in * n_tok,
        (int)((double)now.weights_bytes / bytes),
        matrix_args,
        many ? s8_rate : 0};
    time_job(&j);
}

/* Words on the device: these, then pages, positions, keys. */
static struct words {
    int32_t len[HEADS], keep[HEADS];
    uint32_t tickets[HEADS], col_width;
} words;

static int pages_each(void)
{
    return (now.units_each + CHUNK) / CUDA_TILE;
}

/* Copies of a layer's units; all heads are full, and have room for a chunk. */
static struct cuda_cache cache_of(int copy)
{
    const int pages = pages_each(), unit = DIM / 32 * 20;
    const size_t bytes = (size_t)(HEADS * pages * CUDA_TILE * unit);
    struct words *w = (struct words *)(void *)now.words;
    int32_t *table = (int32_t *)(void *)(w + 1);
    uint8_t *k = (uint8_t *)now.units + 2 * (size_t)copy * bytes;
    return (struct cuda_cache){.k = k,
                               .v = k + bytes,
                               .pos = (uint32_t *)table + HEADS * pages,
                               .score = (float *)(void *)now.floats,
                               .pages = table,
                               .n_pages = pages,
                               .len = w->len,
                               .n_head = HEADS,
                               .head_dim = DIM,
                               .k_bytes = unit,
                               .v_bytes = unit};
}

static struct cuda_attend attend_of(int copy, int n_tok)
{
    float *f = (float *)(void *)now.floats;
    float *acc = (float *)(void *)now.out, *m = acc + (size_t)CHUNK * HEADS * GROUP * DIM;
    return (struct cuda_attend){cache_of(copy),
                                f,
                                QKV,
                                f,
                                f,
                                n_tok,
                                GROUP,
                                n_tok > 1 ? 1 : SPLITS,
                                0.088f,
                                m,
                                m + CHUNK * HEADS * GROUP,
                                acc};
}

static void one_args(int copy, void *out)
{
    float *f = (float *)(void *)now.floats;
    struct words *w = (struct words *)(void *)now.words;
    *(struct cuda_attend_one *)out =
        (struct cuda_attend_one){attend_of(copy, 1), f, f, &w->col_width, NULL, w->tickets, act()};
}

static void chunk_args(int copy, void *out)
{
    *(struct cuda_attend *)out = attend_of(copy, now.n_tok);
}

static void attention(void)
{
    const double unit = 2.0 * DIM / 32 * 20;
    const double bytes = HEADS * (double)now.units_each * unit;
    const double pairs = HEADS * GROUP * (double)DIM * 2 * now.units_each;
    const struct job one = {"attend_one 16384",
                            CUDA_KERNEL_attend_one_128,
                            {SPLITS, HEADS, 1},
                            CUDA_ATTEND_THREADS,
                            CUDA_DECODE_SHARED(DIM),
                            bytes,
                            pairs,
                            8,
                            one_args,
                            0};
    time_job(&one);
    now.n_tok = scaled(CHUNK, 16);
    const struct job chunk = {"attend_chunk 1024",
                              CUDA_KERNEL_attend_chunk_128,
                              {now.n_tok * GROUP / CUDA_ATTEND_ROWS, HEADS, 1},
                              CUDA_ATTEND_THREADS,
                              CUDA_CHUNK_SHARED(DIM, 80, 80),
                              bytes,
                              pairs * now.n_tok,
                              8,
                              chunk_args,
                              f16_rate};
    time_job(&chunk);
}

/* A layer's share of scoring and evicting a chunk. */
static void score_args(int copy, void *out)
{
    const struct cuda_score job = {weight_of(copy), (const float *)(void *)now.floats,
                                   act(),           now.n_tok,
                                   HEADS,           (float *)(void *)now.out};
    *(struct cuda_score *)out = job;
}

static void rank_args(int copy, void *out)
{
    const struct cuda_cache c = cache_of(copy);
    const struct cuda_rank job = {
        c, 4, 2048, 0, NULL, NULL, NULL, 0, c.pos + HEADS * pages_each() * CUDA_TILE};
    *(struct cuda_rank *)out = job;
}

/* Lengths are restored before each launch, which costs a few microseconds. */
static void evict_args(int copy, void *out)
{
    const struct cuda_cache c = cache_of(copy);
    struct words *w = (struct words *)(void *)now.words;
    const struct cuda_evict job = {c,       c.pos + HEADS * pages_each() * CUDA_TILE,
                                   w->keep, (uint32_t *)(void *)now.out,
                                   512,     &w->col_width};
    check(cuda_put(gpu, w->len, words.len, sizeof words.len, &error));
    *(struct cuda_evict *)out = job;
}

static void retention(void)
{
    const double unit = 2.0 * DIM / 32 * 20;
    now.type = KN_Q8, now.n_out = HIDDEN, now.n_in = scaled(QKV, 64);
    now.n_tok = scaled(CHUNK, 16);
    const double bytes = (double)HIDDEN * now.n_in * 1.0625;
    const struct job score = {"score_q8 1024",
                              CUDA_KERNEL_score_q8,
                              {HIDDEN / 128, (now.n_tok + 63) / 64, 1},
                              CUDA_MATMUL_THREADS,
                              CUDA_SCORE_SHARED,
                              bytes,
                              (double)HIDDEN * now.n_in * now.n_tok,
                              (int)((double)now.weights_bytes / bytes),
                              score_args,
                              s8_rate};
    const struct job rank = {"cache_rank",
                             CUDA_KERNEL_cache_rank,
                             {HEADS, 1, 1},
                             CUDA_EVICT_THREADS,
                             CUDA_RANK_SHARED,
                             HEADS * 12.0 * now.units_each,
                             0,
                             1,
                             rank_args,
                             0};
    const struct job evict = {"cache_evict -1024",
                              CUDA_KERNEL_cache_evict,
                              {HEADS, 1, 1},
                              CUDA_EVICT_THREADS,
                              CUDA_EVICT_SHARED((size_t)unit),
                              HEADS * 2 * (unit + 8) * now.units_each,
                              0,
                              8,
                              evict_args,
                              0};
    time_job(&score);
    time_job(&rank);
    time_job(&evict);
}

static void send_words(void)
{
    const int n = HEADS * pages_each(), slots = n * CUDA_TILE;
    int32_t *table = malloc((size_t)(n + slots) * sizeof *table);
    if (!table) check(err_set(&error, ERR_FAIL, "out of memory"));
    for (int i = 0; i < n; i++) table[i] = i;
    for (int i = 0; i < slots; i++) table[n + i] = i % (pages_each() * CUDA_TILE);
    for (int i = 0; i < HEADS; i++)
        words.len[i] = now.units_each - 1, words.keep[i] = now.units_each - CHUNK / divisor;
    words.col_width = 64;
    now.words = random_memory(sizeof words + (size_t)(n + 2 * slots) * sizeof *table);
    check(cuda_put(gpu, now.words, &words, sizeof words, &error));
    check(cuda_put(gpu, now.words + sizeof words, table, (size_t)(n + slots) * sizeof *table,
                   &error));
    check(cuda_wait(gpu, &error));
    free(table);
}

int main(int argc, char **argv)
{
    if (argc > 1) divisor = atoi(argv[1]) > 0 ? atoi(argv[1]) : 1;
    if (cuda_open(&gpu, 0, &error)) {
        printf("skip: no GPU: %s\n", error.text);
        return 0;
    }
    const struct cuda_device *d = cuda_device(gpu);
    printf("%s, sm_%d, %d SMs, driver %d, %s\n", d->name, d->arch, d->n_sm, d->driver, d->image);
    measure_copy();
    measure_rates();
    now.units_each = scaled(UNITS, 64);
    now.weights_bytes = ((size_t)1 << 30) / (size_t)divisor;
    now.weights = random_memory(now.weights_bytes);
    now.units = random_memory(16 * HEADS * (size_t)(now.units_each + CHUNK) * DIM / 32 * 20);
    now.act = random_memory((size_t)CHUNK * FF);
    now.floats = random_memory((size_t)(UNITS + 2 * CHUNK) * QKV);
    now.out = random_memory((size_t)CHUNK * FF * 8);
    send_words();
    printf("%-20s %10s %10s %10s %10s %10s\n", "kernel", "us", "GB/s", "of copy", "TOPS",
           "of rate");
    matrix("matvec_q4", CUDA_KERNEL_matvec_q4, KN_Q4, 1);
    matrix("matvec_q8", CUDA_KERNEL_matvec_q8, KN_Q8, 1);
    matrix("matvec_q4a", CUDA_KERNEL_matvec_q4a, KN_Q4A, 1);
    matrix("matvec_q5a", CUDA_KERNEL_matvec_q5a, KN_Q5A, 1);
    matrix("matvec_q6", CUDA_KERNEL_matvec_q6, KN_Q6, 1);
    matrix("matmul_q4 1024", CUDA_KERNEL_matmul_q4, KN_Q4, scaled(CHUNK, 16));
    matrix("matmul_q8 1024", CUDA_KERNEL_matmul_q8, KN_Q8, scaled(CHUNK, 16));
    matrix("matmul_q4a 1024", CUDA_KERNEL_matmul_q4a, KN_Q4A, scaled(CHUNK, 16));
    matrix("matmul_q6 1024", CUDA_KERNEL_matmul_q6, KN_Q6, scaled(CHUNK, 16));
    attention();
    retention();
    return 0; /* the driver frees what is still allocated */
}
