/* Time of each kernel at the shapes of four models, next to its bound: the larger of its bytes at
 * the rate of a measured copy and its products at the measured rate of the matrix units. Rows are
 * printed as they are measured. Usage: speed [DIVISOR]; DIVISOR makes all sizes smaller, for a dry
 * run. Weights and units are random bytes, in several copies that together exceed any L2; launches
 * use the copies in turn. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/system.h"
#include "kernels/cuda/images.h"
#include "kernels/cuda/pack.h"
#include "runtime/cuda/parts.h"
#include "tests/gpu/rate.h"

enum { CHUNK = 1024, HIDDEN = 1024, UNITS_MAX = 65536, HEADS_MAX = 32 };

static const struct shape {
    const char *name;
    int embd, ff, heads, group, dim;
} shapes[] = {
    {"8B", 4096, 14336, 8, 4, 128},
    {"3B", 3072, 8192, 8, 3, 128},
    {"1B", 2048, 8192, 8, 4, 64},
    {"Phi-3", 3072, 8192, 32, 1, 96},
};

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

/* A function of the driver that the program does not use itself. */
static void *driver_function(const char *name)
{
    void *p = dlsym(gpu->driver.library, name);
    if (!p) check(err_set(&error, ERR_FAIL, "the driver has no %s", name));
    return p;
}

/* Device memory that is never freed, with random bytes that are small numbers as any type. */
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

static int parts_of(int n, int size)
{
    return (n + size - 1) / size;
}

static double seconds_since(int64_t t0)
{
    return (double)(system_clock_ns() - t0) / 1e9;
}

/* ---- the kernels as the driver loads them ---------------------------------------------------- */

static void time_images(void)
{
    printf("%-20s %10s\n", "image", "load ms");
    for (const struct cuda_image *i = cuda_images; i->name; i++) {
        struct CUmod_st *module;
        if (i->arch && i->arch != gpu->device.arch) continue;
        int64_t t0 = system_clock_ns();
        int rc = CUDA_DO(gpu, &error, cuModuleLoadDataEx, &module, i->data, 0, NULL, NULL);
        if (rc)
            printf("%-20s %10s %s\n", i->name, "failed", error.text);
        else
            printf("%-20s %10.1f\n", i->name, 1e3 * seconds_since(t0));
        if (!rc) gpu->driver.cuModuleUnload(module);
        fflush(stdout);
    }
    printf("\n");
}

static void print_registers(void)
{
    enum { LOCAL_BYTES = 3, REGISTERS = 4 }; /* attributes of a function */
    static const char *const names[] = {
#define ENTRY(name, args) #name,
        CUDA_KERNELS(ENTRY)
#undef ENTRY
    };
    int (*get)(int *value, int attribute, struct CUfunc_st *f);
    *(void **)&get = driver_function("cuFuncGetAttribute");
    printf("%-20s %10s %10s\n", "kernel", "registers", "local B");
    for (int i = 0; i < CUDA_N_KERNELS; i++) {
        int registers = 0, local = 0;
        if (!get(&registers, REGISTERS, gpu->kernels[i]) &&
            !get(&local, LOCAL_BYTES, gpu->kernels[i]))
            printf("%-20s %10d %10d\n", names[i], registers, local);
    }
    printf("\n");
    fflush(stdout);
}

/* ---- ceilings -------------------------------------------------------------------------------- */

static void measure_copy(void)
{
    check(cuda_copy_rate(gpu, &copy_rate, &error));
    printf("copy: %.1f GB/s read and written\n", copy_rate / 1e9);
    fflush(stdout);
}

/* The shortest time of five launches of rate.cu, in seconds, with two blocks per processor. */
static double time_rate(struct CUfunc_st *f, struct rate *args, int n_launches)
{
    void *params[] = {args};
    double best = 1e9;
    for (int i = 0; i < 5; i++) {
        int64_t t0 = system_clock_ns();
        for (int k = 0; k < n_launches; k++)
            check(CUDA_DO(gpu, &error, cuLaunchKernel, f, (unsigned)(2 * gpu->device.n_sm), 1, 1,
                          RATE_THREADS, 1, 1, 0, gpu->stream, params, NULL));
        check(cuda_wait(gpu, &error));
        double s = seconds_since(t0);
        if (s < best) best = s;
    }
    return best;
}

static double measure_rate(struct CUmod_st *module, const char *kernel, double multiply_adds)
{
    const int blocks = 2 * gpu->device.n_sm, n_launches = divisor > 1 ? 2 : 1000;
    struct rate args = {
        divisor > 1 ? 1 : 20000,
        (float *)(void *)random_memory((size_t)blocks * RATE_THREADS * sizeof(float))};
    struct CUfunc_st *f;
    check(CUDA_DO(gpu, &error, cuModuleGetFunction, &f, module, kernel));
    double best = time_rate(f, &args, 1);
    double rate = blocks * (RATE_THREADS / 32.0) * args.n * RATE_PRODUCTS * multiply_adds / best;
    args.n = 0;
    printf("%s: %.1f TOPS; a launch that does nothing %.2f us\n", kernel, 2 * rate / 1e12,
           1e6 * time_rate(f, &args, n_launches) / n_launches);
    fflush(stdout);
    return rate;
}

static void measure_rates(const char *folder)
{
    static char ptx[1 << 16];
    struct CUmod_st *module;
    char path[512];
    snprintf(path, sizeof path, "%s/rate.ptx", folder);
    FILE *f = fopen(path, "rb");
    size_t n = f ? fread(ptx, 1, sizeof ptx - 1, f) : 0;
    if (f) fclose(f);
    int rc = n ? CUDA_DO(gpu, &error, cuModuleLoadDataEx, &module, ptx, 0, NULL, NULL) : 1;
    if (!rc && gpu->driver.cuModuleGetFunction(&(struct CUfunc_st *){NULL}, module, "rate_f16"))
        rc = 1; /* the emulated driver has only the program's kernels */
    if (rc) {
        printf("matrix rates: not measured: %s\n", n ? "rate.ptx does not load" : path);
        return;
    }
    f16_rate = measure_rate(module, "rate_f16", 16 * 8 * 16);
    s8_rate = measure_rate(module, "rate_s8", 16 * 8 * 32);
}

/* ---- timing ---------------------------------------------------------------------------------- */

struct job { /* launches of one kernel, on copy i of its data */
    const char *name;
    enum cuda_kernel kernel;
    int grid[3], threads;
    size_t shared;
    double bytes, multiply_adds; /* of one launch */
    int n_copies;
    void (*args)(int copy, void *out);
    double rate;   /* the most multiply-adds per second that are possible; 0 = bound by memory */
    bool together; /* blocks wait for each other */
};

static double seconds_of(const struct job *j, int n)
{
    _Alignas(16) char args[sizeof(struct cuda_chain)];
    void *params[] = {args};
    int64_t t0 = system_clock_ns();
    for (int i = 0; i < n; i++) {
        j->args(i % j->n_copies, args);
        if (j->together)
            check(CUDA_DO(gpu, &error, cuLaunchCooperativeKernel, gpu->kernels[j->kernel],
                          (unsigned)j->grid[0], 1, 1, (unsigned)j->threads, 1, 1,
                          (unsigned)j->shared, gpu->stream, params));
        else
            check(CUDA_DO(gpu, &error, cuLaunchKernel, gpu->kernels[j->kernel],
                          (unsigned)j->grid[0], (unsigned)j->grid[1], (unsigned)j->grid[2],
                          (unsigned)j->threads, 1, 1, (unsigned)j->shared, gpu->stream, params,
                          NULL));
    }
    check(cuda_wait(gpu, &error));
    return seconds_since(t0);
}

static void print_head(void)
{
    printf("\n%-12s %-6s %-10s %10s %10s %10s %10s %8s\n", "kernel", "model", "size", "us", "GB/s",
           "TOPS", "bound us", "times");
}

/* The best of five batches, of about 50 ms each. */
static void time_job(const struct job *j, const char *model, const char *size)
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
    double bound = j->bytes / copy_rate;
    if (j->rate > 0 && j->multiply_adds / j->rate > bound) bound = j->multiply_adds / j->rate;
    printf("%-12s %-6s %-10s %10.1f %10.1f %10.2f %10.1f %8.2f\n", j->name, model, size, best * 1e6,
           j->bytes / best / 1e9, 2 * j->multiply_adds / best / 1e12, bound * 1e6, best / bound);
    fflush(stdout);
}

/* ---- timed data ------------------------------------------------------------------------------ */

static struct {
    char *weights, *units, *act, *floats, *out, *expanded;
    struct words { /* on the device, before pages, positions and keys */
        int32_t len[HEADS_MAX], keep[HEADS_MAX];
        uint32_t tickets[2 * HEADS_MAX], col_width;
    } * words, words_host;
    int32_t *pages;
    uint32_t *pos, *key;
    size_t weights_bytes, units_bytes;
    struct shape shape;
    enum kn_type type;
    enum kn_kv kv;
    int n_out, n_in, n_tok, n_units, n_split;
} now;

static float *floats(void)
{
    return (float *)(void *)now.floats;
}

static float *out(void)
{
    return (float *)(void *)now.out;
}

static struct cuda_act act(void)
{
    return (struct cuda_act){(int8_t *)now.act, (struct cuda_scale *)(void *)now.floats};
}

static void use_shape(const struct shape *s)
{
    now.shape = (struct shape){
        s->name, scaled(s->embd, 128), scaled(s->ff, 128), s->heads, s->group, s->dim};
    now.n_tok = scaled(CHUNK, 64);
}

static int n_qkv(void)
{
    return (now.shape.group + 2) * now.shape.heads * now.shape.dim;
}

/* ---- matrices -------------------------------------------------------------------------------- */

static double weight_bytes(void)
{
    return (double)cuda_panels(now.n_out) * (double)(cuda_panel_bytes(now.type, now.n_in) +
                                                     cuda_panel_scale_bytes(now.type, now.n_in));
}

static struct cuda_weight weight_of(int copy)
{
    const size_t q = (size_t)cuda_panels(now.n_out) * cuda_panel_bytes(now.type, now.n_in);
    const char *at = now.weights + (size_t)copy * (size_t)weight_bytes();
    return (struct cuda_weight){at, (const uint16_t *)(const void *)(at + q), now.n_out, now.n_in};
}

/* Bytes, products and copies of the matrix in `now`. */
static struct job matrix_job(const char *name, enum cuda_kernel kernel, int n_tok, int n_matrices)
{
    const double bytes = n_matrices * weight_bytes();
    const int n_copies = (int)((double)now.weights_bytes / bytes);
    return (struct job){.name = name,
                        .kernel = kernel,
                        .grid = {cuda_panels(now.n_out), 1, 1},
                        .threads = CUDA_MATVEC_THREADS,
                        .shared = CUDA_MATVEC_SHARED,
                        .bytes = bytes,
                        .multiply_adds = (double)n_matrices * now.n_out * now.n_in * n_tok,
                        .n_copies = n_copies > 1 ? n_copies : 1};
}

static void vector_args(int copy, void *to)
{
    *(struct cuda_matvec *)to = (struct cuda_matvec){.w = weight_of(copy),
                                                     .x = act(),
                                                     .n_tok = 1,
                                                     .scale = 1.0f,
                                                     .y = out(),
                                                     .y_stride = now.n_out};
}

static void matrix_args(int copy, void *to)
{
    vector_args(copy, to);
    ((struct cuda_matvec *)to)->n_tok = now.n_tok;
}

static void gate_args(int copy, void *to)
{
    *(struct cuda_matvec_gate *)to = (struct cuda_matvec_gate){
        .gate = weight_of(2 * copy),
        .up = weight_of(2 * copy + 1),
        .x = act(),
        .n_tok = 1,
        .act = {(int8_t *)now.out, (struct cuda_scale *)(void *)now.floats},
        .made = {floats(), floats(), 1e-5f}};
}

/* Gate and up, then down: weights of the same size. */
static void chain_args(int copy, void *to)
{
    struct cuda_chain *c = to;
    const struct cuda_weight down = weight_of(3 * copy + 2);
    *c = (struct cuda_chain){.n = 2, .ended = now.words->tickets};
    gate_args(copy, &c->steps[0].gate);
    c->steps[0].gate.gate = weight_of(3 * copy);
    c->steps[0].gate.up = weight_of(3 * copy + 1);
    c->steps[0].gates = 1;
    vector_args(copy, &c->steps[1].product);
    c->steps[1].product.w = (struct cuda_weight){down.q, down.d, down.n_in, down.n_out};
    c->steps[1].waits = 1;
}

static void time_chain(const char *model)
{
    const int blocks = CUDA_CHAIN_BLOCKS * gpu->device.n_sm;
    struct job j = matrix_job("chain", CUDA_KERNEL_chain, 1, 3);
    j.grid[0] = blocks < now.n_out / 32 ? blocks : now.n_out / 32;
    j.shared = CUDA_MATVEC_SHARED_MADE(now.n_in);
    j.args = chain_args;
    j.together = true;
    time_job(&j, model, "q4");
}

static const struct format {
    const char *name;
    enum kn_type type;
    enum cuda_kernel matvec, gate, matmul;
} formats[] = {
#define FORMAT(name, type)                                                      \
    {                                                                           \
#name, type, CUDA_KERNEL_matvec_##name, CUDA_KERNEL_matvec_gate_##name, \
            CUDA_KERNEL_matmul_##name                                           \
    }
    FORMAT(q4, KN_Q4),   FORMAT(q8, KN_Q8), FORMAT(q4a, KN_Q4A),
    FORMAT(q5a, KN_Q5A), FORMAT(q6, KN_Q6),
#undef FORMAT
};

static void matrices(const struct format *f)
{
    const char *model = now.shape.name;
    now.type = f->type, now.n_out = now.shape.ff, now.n_in = now.shape.embd;
    struct job one = matrix_job("matvec", f->matvec, 1, 1), two = matrix_job("gate", f->gate, 1, 2);
    one.args = vector_args;
    time_job(&one, model, f->name);
    two.grid[0] = now.n_out / 32;
    two.shared = CUDA_MATVEC_SHARED_MADE(now.n_in);
    two.args = gate_args;
    time_job(&two, model, f->name);
    if (f->type == KN_Q4 && gpu->device.cooperative) time_chain(model);
    struct job many = matrix_job("matmul", f->matmul, now.n_tok, 1);
    many.grid[0] = parts_of(now.n_out, CUDA_MATMUL_ROWS);
    many.grid[1] = parts_of(now.n_tok, CUDA_MATMUL_TOKENS);
    many.threads = CUDA_MATMUL_THREADS;
    many.shared = CUDA_MATMUL_SHARED;
    many.args = matrix_args;
    many.rate = s8_rate;
    time_job(&many, model, f->name);
}

/* ---- attention ------------------------------------------------------------------------------- */

static int pages_each(void)
{
    return parts_of(now.n_units + CHUNK, CUDA_TILE);
}

static double cache_bytes(void)
{
    return 2.0 * now.shape.heads * pages_each() * CUDA_TILE *
           (double)kn_kv_bytes(now.kv, now.shape.dim);
}

static int cache_copies(void)
{
    const double n = (double)now.units_bytes / cache_bytes();
    return n < 1 ? 1 : n > 16 ? 16 : (int)n;
}

/* Copies of a layer's units; all heads are full, plus room for a chunk. */
static struct cuda_cache cache_of(int copy)
{
    const int unit = (int)kn_kv_bytes(now.kv, now.shape.dim);
    const size_t half = (size_t)cache_bytes() / 2;
    const enum cuda_kv type = now.kv == KN_KV_Q4   ? CUDA_KV_Q4
                              : now.kv == KN_KV_Q8 ? CUDA_KV_Q8
                                                   : CUDA_KV_F16;
    uint8_t *k = (uint8_t *)now.units + 2 * (size_t)copy * half;
    return (struct cuda_cache){.k = k,
                               .v = k + half,
                               .pos = now.pos,
                               .score = floats(),
                               .pages = now.pages,
                               .n_pages = pages_each(),
                               .len = now.words->len,
                               .n_head = now.shape.heads,
                               .head_dim = now.shape.dim,
                               .k_bytes = unit,
                               .v_bytes = unit,
                               .k_type = type,
                               .v_type = type};
}

static struct cuda_attend attend_of(int copy, int n_tok, int n_split)
{
    const int rows = n_tok * now.shape.heads * now.shape.group * n_split;
    return (struct cuda_attend){.cache = cache_of(copy),
                                .q = floats(),
                                .q_stride = n_qkv(),
                                .cos = floats(),
                                .sin = floats(),
                                .n_tok = n_tok,
                                .n_group = now.shape.group,
                                .n_split = n_split,
                                .scale = 0.088f,
                                .m = out(),
                                .l = out() + rows,
                                .acc = out() + 2 * rows};
}

static void one_args(int copy, void *to)
{
    *(struct cuda_attend_one *)to = (struct cuda_attend_one){.at = attend_of(copy, 1, now.n_split),
                                                             .k = floats(),
                                                             .v = floats(),
                                                             .pos = &now.words->col_width,
                                                             .ticket = now.words->tickets,
                                                             .act = act()};
}

/* Keys and values of any numbers. */
static struct cuda_expanded expanded(void)
{
    const int n_tile = parts_of(now.n_units + now.n_tok, CUDA_TILE);
    const size_t numbers = (size_t)(now.shape.heads * n_tile) * CUDA_TILE * (size_t)now.shape.dim;
    return (struct cuda_expanded){now.expanded, (uint16_t *)(void *)(now.expanded + 2 * numbers),
                                  floats(), n_tile, 0};
}

static void expand_args(int copy, void *to)
{
    *(struct cuda_expand *)to =
        (struct cuda_expand){cache_of(copy), floats(), floats(), now.n_tok, expanded(), floats()};
}

static void chunk_args(int copy, void *to)
{
    struct cuda_attend *a = to;
    *a = attend_of(copy, now.n_tok, 1);
    a->units = expanded();
}

/* Sets the lengths of all heads. */
static void use_units(enum kn_kv kv, int n_units)
{
    now.kv = kv;
    now.n_units = n_units;
    for (int i = 0; i < HEADS_MAX; i++) {
        now.words_host.len[i] = n_units - 1;
        now.words_host.keep[i] = n_units - scaled(CHUNK, 16);
    }
    now.words_host.col_width = 64;
    check(cuda_put(gpu, now.words, &now.words_host, sizeof now.words_host, &error));
    check(cuda_wait(gpu, &error));
}

static void attend_token(int n_units)
{
    char size[32];
    use_units(KN_KV_Q4, n_units);
    now.n_split = parts_of(2 * gpu->device.n_sm, now.shape.heads);
    if (now.n_split > n_units / CUDA_TILE) now.n_split = n_units / CUDA_TILE;
    const double bytes =
        2.0 * now.shape.heads * n_units * (double)kn_kv_bytes(now.kv, now.shape.dim);
    const struct job j = {
        .name = "attend_one",
        .kernel = CUDA_KERNEL_attend_one_64 + (enum cuda_kernel)(now.shape.dim / 32 - 2),
        .grid = {now.n_split, now.shape.heads, 1},
        .threads = CUDA_ATTEND_THREADS,
        .shared = (size_t)CUDA_DECODE_SHARED(now.shape.dim),
        .bytes = bytes,
        .multiply_adds = 2.0 * now.shape.heads * now.shape.group * now.shape.dim * n_units,
        .n_copies = cache_copies(),
        .args = one_args};
    snprintf(size, sizeof size, "q4 %d", n_units);
    time_job(&j, now.shape.name, size);
}

static void expand(enum kn_kv kv, const char *kv_name, int n_units, bool is_int8)
{
    char size[32];
    use_units(kv, n_units);
    const double numbers = 2.0 * now.shape.heads * n_units * now.shape.dim;
    const struct job j = {.name = is_int8 ? "expand_int8" : "expand_f16",
                          .kernel = is_int8 ? CUDA_KERNEL_expand_int8 : CUDA_KERNEL_expand_f16,
                          .grid = {expanded().n_tile, now.shape.heads, 1},
                          .threads = CUDA_ATTEND_THREADS,
                          .shared = CUDA_EXPAND_SHARED,
                          .bytes = numbers * (is_int8 ? 1.5 : 2) +
                                   2.0 * now.shape.heads * n_units *
                                       (double)kn_kv_bytes(kv, now.shape.dim),
                          .multiply_adds = 0,
                          .n_copies = cache_copies(),
                          .args = expand_args};
    snprintf(size, sizeof size, "%s %d", kv_name, n_units);
    time_job(&j, now.shape.name, size);
}

static void attend_chunk(int n_units, bool is_int8)
{
    char size[32];
    use_units(KN_KV_Q4, n_units);
    const enum cuda_kernel first =
        is_int8 ? CUDA_KERNEL_attend_int8_64 : CUDA_KERNEL_attend_chunk_64;
    const struct job j = {
        .name = is_int8 ? "attend_int8" : "attend_chunk",
        .kernel = first + (enum cuda_kernel)(now.shape.dim / 32 - 2),
        .grid = {parts_of(now.n_tok * now.shape.group, CUDA_ATTEND_ROWS), now.shape.heads, 1},
        .threads = CUDA_CHUNK_THREADS,
        .shared = CUDA_CHUNK_SHARED((size_t)now.shape.dim, is_int8 ? 1u : 2u),
        .bytes = 2.0 * now.shape.heads * n_units * now.shape.dim * (is_int8 ? 1.5 : 2),
        .multiply_adds = 2.0 * now.shape.heads * now.shape.group * now.shape.dim * now.n_tok *
                         (n_units + now.n_tok / 2.0),
        .n_copies = cache_copies(),
        .args = chunk_args,
        .rate = f16_rate};
    snprintf(size, sizeof size, "%d", n_units);
    time_job(&j, now.shape.name, size);
}

static void attention(void)
{
    for (int n = 1024; n <= UNITS_MAX; n *= 4) attend_token(scaled(n, CUDA_TILE));
    for (int n = 1024; n <= UNITS_MAX; n *= 4)
        for (int is_int8 = 0; is_int8 < 2; is_int8++)
            attend_chunk(scaled(n, CUDA_TILE), is_int8 != 0);
    expand(KN_KV_Q4, "q4", scaled(16384, CUDA_TILE), false);
    expand(KN_KV_Q4, "q4", scaled(16384, CUDA_TILE), true);
    expand(KN_KV_F16, "f16", scaled(16384, CUDA_TILE), false);
}

/* ---- scoring and eviction -------------------------------------------------------------------- */

static void score_args(int copy, void *to)
{
    *(struct cuda_score *)to = (struct cuda_score){.w1 = weight_of(copy),
                                                   .w2 = floats(),
                                                   .x = act(),
                                                   .n_tok = now.n_tok,
                                                   .n_head = now.shape.heads,
                                                   .part = out()};
}

static void rank_args(int copy, void *to)
{
    *(struct cuda_rank *)to = (struct cuda_rank){
        .cache = cache_of(copy), .sinks = 4, .stabilizers = 64, .scored = 1, .key = now.key};
}

/* Lengths are put back before each launch, which costs a few microseconds. */
static void evict_args(int copy, void *to)
{
    check(cuda_put(gpu, now.words->len, now.words_host.len, sizeof now.words_host.len, &error));
    *(struct cuda_evict *)to = (struct cuda_evict){.cache = cache_of(copy),
                                                   .key = now.key,
                                                   .keep = now.words->keep,
                                                   .kept = (uint32_t *)(void *)now.out,
                                                   .n_col = 512,
                                                   .col_width = &now.words->col_width};
}

/* One kernel over all heads, bound by the bytes of its units. */
static struct job heads_job(const char *name, enum cuda_kernel kernel, double bytes_per_unit)
{
    return (struct job){.name = name,
                        .kernel = kernel,
                        .grid = {now.shape.heads, 1, 1},
                        .threads = CUDA_EVICT_THREADS,
                        .shared = CUDA_RANK_SHARED,
                        .bytes = bytes_per_unit * now.shape.heads * now.n_units,
                        .n_copies = 1};
}

static void retention(void)
{
    const char *model = now.shape.name;
    use_units(KN_KV_Q4, scaled(16384, CUDA_TILE));
    now.type = KN_Q8, now.n_out = HIDDEN, now.n_in = n_qkv();
    struct job many = matrix_job("score", CUDA_KERNEL_score_q8, now.n_tok, 1);
    many.grid[0] = HIDDEN / CUDA_MATMUL_ROWS;
    many.grid[1] = parts_of(now.n_tok, CUDA_MATMUL_TOKENS);
    many.threads = CUDA_MATMUL_THREADS;
    many.shared = CUDA_SCORE_SHARED;
    many.args = score_args;
    many.rate = s8_rate;
    time_job(&many, model, "q8");
    struct job rank = heads_job("cache_rank", CUDA_KERNEL_cache_rank, 12);
    rank.args = rank_args;
    time_job(&rank, model, "16384");
    const double unit = 2.0 * (double)kn_kv_bytes(now.kv, now.shape.dim);
    struct job evict = heads_job("cache_evict", CUDA_KERNEL_cache_evict, 2 * (unit + 8));
    evict.shared = CUDA_EVICT_SHARED((size_t)unit);
    evict.args = evict_args;
    time_job(&evict, model, "16384");
}

/* The first of two launches: the best of each part of a vocabulary. */
static void top_args(int copy, void *to)
{
    const int n = scaled(128256, 64), k = 40, parts = parts_of(n, CUDA_TOP_PART);
    (void)copy;
    *(struct cuda_top *)to = (struct cuda_top){.logits = floats(),
                                               .n = n,
                                               .k = k,
                                               .id = (int32_t *)now.key,
                                               .logit = out(),
                                               .n_out = (int32_t *)now.key + parts * k,
                                               .part = CUDA_TOP_PART};
}

static void sampling(void)
{
    const struct job top = {.name = "top_k",
                            .kernel = CUDA_KERNEL_top_k,
                            .grid = {parts_of(scaled(128256, 64), CUDA_TOP_PART), 1, 1},
                            .threads = 1024,
                            .shared = CUDA_TOP_SHARED,
                            .bytes = 4.0 * scaled(128256, 64),
                            .n_copies = 1,
                            .args = top_args};
    time_job(&top, "-", "40");
}

/* ---- all ------------------------------------------------------------------------------------- */

static void take_memory(void)
{
    const size_t pages =
        HEADS_MAX * (size_t)parts_of(scaled(UNITS_MAX, CUDA_TILE) + CHUNK, CUDA_TILE);
    const size_t slots = pages * CUDA_TILE;
    uint32_t *numbers = malloc(slots * sizeof *numbers);
    if (!numbers) check(err_set(&error, ERR_FAIL, "out of memory"));
    for (size_t i = 0; i < slots; i++) numbers[i] = (uint32_t)i;
    const size_t least = (size_t)64 << 20; /* of the largest matrix, of the most heads */
    now.weights_bytes = ((size_t)1 << 30) / (size_t)divisor;
    now.units_bytes = ((size_t)3 << 30) / (size_t)divisor;
    if (now.weights_bytes < least) now.weights_bytes = least;
    if (now.units_bytes < least) now.units_bytes = least;
    now.weights = random_memory(now.weights_bytes);
    now.units = random_memory(now.units_bytes);
    now.act = random_memory((size_t)CHUNK * 16384);
    now.floats = random_memory((slots > CHUNK * 16384 ? slots : CHUNK * 16384) * sizeof(float));
    now.out = random_memory((size_t)CHUNK * 16384 * 8);
    now.words = (struct words *)(void *)random_memory(sizeof *now.words);
    check(cuda_put(gpu, now.words, &now.words_host, sizeof now.words_host, &error));
    now.pages = (int32_t *)(void *)random_memory(pages * sizeof *now.pages);
    now.expanded = random_memory(pages * CUDA_TILE * 128 * 4);
    now.pos = (uint32_t *)(void *)random_memory(slots * sizeof *now.pos);
    now.key = (uint32_t *)(void *)random_memory(slots * sizeof *now.key);
    check(cuda_put(gpu, now.pages, numbers, pages * sizeof *numbers, &error));
    check(cuda_put(gpu, now.pos, numbers, slots * sizeof *numbers, &error));
    check(cuda_put(gpu, now.key, numbers, slots * sizeof *numbers, &error));
    check(cuda_wait(gpu, &error));
    free(numbers);
}

int main(int argc, char **argv)
{
    char folder[400];
    if (argc > 1) divisor = atoi(argv[1]) > 0 ? atoi(argv[1]) : 1;
    snprintf(folder, sizeof folder, "%s", argv[0]);
    if (strrchr(folder, '/')) *strrchr(folder, '/') = '\0';
    if (cuda_open(&gpu, 0, &error)) {
        printf("skip: no GPU: %s\n", error.text);
        return 0;
    }
    const struct cuda_device *d = cuda_device(gpu);
    printf("%s, sm_%d, %d SMs, driver %d, %s\n\n", d->name, d->arch, d->n_sm, d->driver, d->image);
    time_images();
    print_registers();
    measure_copy();
    measure_rates(folder);
    take_memory();
    print_head();
    for (size_t i = 0; i<sizeof shapes / sizeof *shapes; i += divisor> 1 ? 3 : 1) {
        use_shape(&shapes[i]);
        for (size_t k = 0; k < (i ? 1 : sizeof formats / sizeof *formats); k++)
            matrices(&formats[k]);
        attention();
        retention();
    }
    sampling();
    return 0; /* the driver frees the memory */
}
