/* Time of each kernel at Llama-3.1-8B's shapes, beside a measured copy. Usage: speed [DIVISOR],
 * which makes everything smaller, for a dry run. Weights and units are random bytes of a size that
 * no L2 holds; launches go round through them. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/pack.h"
#include "runtime/backend_cuda_parts.h"
#include "runtime/base/system.h"

enum { EMBD = 4096, FF = 14336, HEADS = 8, GROUP = 4, DIM = 128, UNITS = 16384, CHUNK = 1024 };
enum { QKV = (GROUP + 2) * HEADS * DIM, HIDDEN = 1024, SPLITS = 33 };

static struct cuda *gpu;
static struct err error;
static double copy_rate; /* bytes read and written per second */
static int divisor = 1;

static void check(int rc)
{
    if (!rc) return;
    fprintf(stderr, "speed: %s\n", error.text);
    exit(1);
}

/* Device memory that lasts until the end, of random bytes that are small numbers as any type. */
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

struct job { /* launches of one kernel, with the arguments of copy i */
    const char *name;
    enum cuda_kernel kernel;
    int grid[3], threads;
    size_t shared;
    double bytes, multiply_adds; /* of one launch */
    int n_copies;
    void (*args)(int copy, void *out);
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
    printf("%-20s %10.1f %10.1f %9.1f%% %10.2f\n", j->name, best * 1e6, j->bytes / best / 1e9,
           100 * j->bytes / best / copy_rate, 2 * j->multiply_adds / best / 1e12);
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

/* ---- what is timed --------------------------------------------------------------------------- */

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
        matrix_args};
    time_job(&j);
}

/* Copies of a layer's units; all heads are full. */
static struct cuda_attend attend_of(int copy, int n_tok)
{
    const int64_t stride = (int64_t)(now.units_each + CHUNK) * DIM / 32 * 20;
    char *k = now.units + 2 * (int64_t)copy * HEADS * stride;
    float *f = (float *)(void *)now.floats;
    struct cuda_cache c = {.k = (uint8_t *)k,
                           .v = (uint8_t *)k + HEADS * stride,
                           .k_stride = stride,
                           .v_stride = stride,
                           .pos = (uint32_t *)(void *)now.words,
                           .score = f,
                           .len = (int32_t *)(void *)now.words,
                           .n_head = HEADS,
                           .head_dim = DIM,
                           .k_bytes = DIM / 32 * 20,
                           .v_bytes = DIM / 32 * 20};
    float *acc = (float *)(void *)now.out, *m = acc + (size_t)CHUNK * HEADS * GROUP * DIM;
    return (struct cuda_attend){c,
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
    uint32_t *words = (uint32_t *)(void *)now.words;
    *(struct cuda_attend_one *)out =
        (struct cuda_attend_one){attend_of(copy, 1), f, f, words, NULL, words + HEADS, act()};
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
                            one_args};
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
                              chunk_args};
    time_job(&chunk);
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
    now.units_each = scaled(UNITS, 64);
    now.weights_bytes = ((size_t)1 << 30) / (size_t)divisor;
    now.weights = random_memory(now.weights_bytes);
    now.units = random_memory(16 * HEADS * (size_t)(now.units_each + CHUNK) * DIM / 32 * 20);
    now.act = random_memory((size_t)CHUNK * FF);
    now.floats = random_memory((size_t)(UNITS + 2 * CHUNK) * QKV);
    now.out = random_memory((size_t)CHUNK * FF * 8);
    int32_t lengths[64] = {0};
    for (int i = 0; i < HEADS; i++) lengths[i] = now.units_each - 1;
    now.words = random_memory(sizeof lengths + (size_t)(UNITS + CHUNK) * HEADS * 4);
    check(cuda_put(gpu, now.words, lengths, sizeof lengths, &error));
    check(cuda_wait(gpu, &error));
    printf("%-20s %10s %10s %10s %10s\n", "kernel", "us", "GB/s", "of copy", "TOPS");
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
    return 0; /* the driver takes back what is held */
}
