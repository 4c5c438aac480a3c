#include "tests/gpu/timed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/system.h"

struct timed now = {.divisor = 1};

const char *const timed_names[CUDA_N_KERNELS] = {
#define ENTRY(name, args) #name,
    CUDA_KERNELS(ENTRY)
#undef ENTRY
};

void timed_check(int rc)
{
    if (!rc) return;
    fprintf(stderr, "speed: %s\n", now.error.text);
    exit(1);
}

int scaled(int n, int multiple)
{
    n = n / now.divisor / multiple * multiple;
    return n > multiple ? n : multiple;
}

int parts_of(int n, int size)
{
    return (n + size - 1) / size;
}

double seconds_since(int64_t t0)
{
    return (double)(system_clock_ns() - t0) / 1e9;
}

/* ---- timing ---------------------------------------------------------------------------------- */

static double seconds_of(const struct job *j, int n)
{
    _Alignas(16) char args[sizeof(struct cuda_chain)];
    void *params[] = {args};
    int64_t t0 = system_clock_ns();
    for (int i = 0; i < n; i++) {
        j->args(i % j->n_copies, args);
        if (j->together)
            timed_check(CUDA_DO(now.gpu, &now.error, cuLaunchCooperativeKernel,
                                now.gpu->kernels[j->kernel], (unsigned)j->grid[0], 1, 1,
                                (unsigned)j->threads, 1, 1, (unsigned)j->shared, now.gpu->stream,
                                params));
        else
            timed_check(CUDA_DO(now.gpu, &now.error, cuLaunchKernel, now.gpu->kernels[j->kernel],
                                (unsigned)j->grid[0], (unsigned)j->grid[1], (unsigned)j->grid[2],
                                (unsigned)j->threads, 1, 1, (unsigned)j->shared, now.gpu->stream,
                                params, NULL));
    }
    timed_check(cuda_wait(now.gpu, &now.error));
    return seconds_since(t0);
}

enum { RESULTS_MAX = 1024 };
static struct result {
    const char *name, *model, *by;
    char size[16], variant[40];
    double seconds, bound;
} results[RESULTS_MAX];
static int n_results;

void timed_head(void)
{
    printf("\n%-14s %-6s %-10s %10s %10s %10s %10s %-7s %8s  %s\n", "kernel", "model", "size", "us",
           "GB/s", "TOPS", "bound us", "by", "times", "variant");
}

static void keep_result(const struct job *j, const char *model, const char *size, double seconds,
                        const struct bound *b)
{
    if (n_results == RESULTS_MAX) return;
    struct result *r = &results[n_results++];
    *r = (struct result){j->name, model, b->by, "", "", seconds, b->seconds};
    snprintf(r->size, sizeof r->size, "%s", size);
    snprintf(r->variant, sizeof r->variant, "%s", now.variant.name);
}

/* The best of five batches, of about 50 ms each. */
void time_job(const struct job *j, const char *model, const char *size)
{
    struct work w = j->work;
    if (*now.variant.name && !now.variant.has[j->kernel]) return;
    seconds_of(j, 1); /* loads its code */
    double once = seconds_of(j, 1), best = 1e9;
    int n = now.divisor > 1 ? 1 : (int)(0.05 / once);
    if (n < 1) n = 1;
    if (n > 2000) n = 2000;
    for (int i = 0; i < (now.divisor > 1 ? 1 : 5); i++) {
        double s = seconds_of(j, n) / n;
        if (s < best) best = s;
    }
    w.slots = j->mma * ceilings_slots_of(now.folder, timed_names[j->kernel], now.gpu->device.arch);
    const struct bound b = ceilings_bound(&now.ceilings, &w);
    printf("%-14s %-6s %-10s %10.1f %10.1f %10.2f %10.1f %-7s %8.2f  %s\n", j->name, model, size,
           best * 1e6, w.bytes / best / 1e9, 2 * (w.s8 + w.f16) / best / 1e12, b.seconds * 1e6,
           b.by, best / b.seconds, *now.variant.name ? now.variant.name : "-");
    fflush(stdout);
    keep_result(j, model, size, best, &b);
}

static int compare_gaps(const void *a, const void *b)
{
    const struct result *x = a, *y = b;
    const double i = x->seconds / x->bound, k = y->seconds / y->bound;
    return (i < k) - (i > k);
}

/* Rows of the program's kernels, the farthest from their bounds first. */
void timed_gaps(void)
{
    qsort(results, (size_t)n_results, sizeof *results, compare_gaps);
    printf("\n%-14s %-6s %-10s %8s  %s\n", "gap of", "model", "size", "times", "bound by");
    for (int i = 0, n = 0; i < n_results && n < 30; i++) {
        const struct result *r = &results[i];
        if (*r->variant) continue;
        printf("%-14s %-6s %-10s %8.2f  %s\n", r->name, r->model, r->size, r->seconds / r->bound,
               r->by);
        n++;
    }
}

/* ---- data ------------------------------------------------------------------------------------ */

/* Device memory that is never freed, with random bytes that are small numbers as any type. */
static char *random_memory(size_t bytes)
{
    enum { PIECE = 1 << 20 };
    static uint16_t piece[PIECE / 2];
    struct arena a;
    for (size_t i = 0; i < PIECE / 2 && !piece[0]; i++)
        piece[PIECE / 2 - 1 - i] = (uint16_t)(rand() & 0x2bff);
    timed_check(cuda_arena_init(now.gpu, &a, "random numbers", bytes, &now.error));
    for (size_t at = 0; at < bytes; at += PIECE)
        timed_check(cuda_put(now.gpu, a.base + at, piece, bytes - at < PIECE ? bytes - at : PIECE,
                             &now.error));
    timed_check(cuda_wait(now.gpu, &now.error));
    return a.base;
}

/* Bytes of a buffer that wants `bytes`: at most a share of the free memory, at least what the
 * largest matrices take, 125 MB of gate and up in q8. */
static size_t memory_for(size_t bytes, int share)
{
    const size_t least = (size_t)(now.divisor > 1 ? 64 : 125) << 20;
    int64_t free_bytes;
    timed_check(cuda_free_bytes(now.gpu, &free_bytes, &now.error));
    bytes /= (size_t)now.divisor;
    if (bytes > (size_t)free_bytes / (size_t)share) bytes = (size_t)free_bytes / (size_t)share;
    return bytes > least ? bytes : least;
}

void take_memory(void)
{
    const size_t pages =
        HEADS_MAX * (size_t)parts_of(scaled(UNITS_MAX, CUDA_TILE) + CHUNK, CUDA_TILE);
    const size_t slots = pages * CUDA_TILE;
    uint32_t *numbers = malloc(slots * sizeof *numbers);
    if (!numbers) timed_check(err_set(&now.error, ERR_FAIL, "out of memory"));
    for (size_t i = 0; i < slots; i++) numbers[i] = (uint32_t)i;
    now.weights_bytes = memory_for((size_t)1 << 30, 8);
    now.units_bytes = memory_for((size_t)3 << 30, 4);
    now.expanded_bytes = memory_for(pages * CUDA_TILE * 128 * 4 * (size_t)now.divisor, 4);
    now.weights = random_memory(now.weights_bytes);
    now.units = random_memory(now.units_bytes);
    now.act = random_memory((size_t)CHUNK * 16384);
    now.floats = random_memory((slots > CHUNK * 16384 ? slots : CHUNK * 16384) * sizeof(float));
    now.out = random_memory((size_t)CHUNK * 16384 * 8);
    now.words = (struct words *)(void *)random_memory(sizeof *now.words);
    timed_check(cuda_put(now.gpu, now.words, &now.words_host, sizeof now.words_host, &now.error));
    now.pages = (int32_t *)(void *)random_memory(pages * sizeof *now.pages);
    now.expanded = random_memory(now.expanded_bytes);
    now.pos = (uint32_t *)(void *)random_memory(slots * sizeof *now.pos);
    now.key = (uint32_t *)(void *)random_memory(slots * sizeof *now.key);
    now.ids = (int32_t *)(void *)random_memory(CHUNK * sizeof *now.ids);
    timed_check(cuda_put(now.gpu, now.ids, numbers, CHUNK * sizeof *now.ids, &now.error));
    timed_check(cuda_put(now.gpu, now.pages, numbers, pages * sizeof *numbers, &now.error));
    timed_check(cuda_put(now.gpu, now.pos, numbers, slots * sizeof *numbers, &now.error));
    timed_check(cuda_put(now.gpu, now.key, numbers, slots * sizeof *numbers, &now.error));
    timed_check(cuda_wait(now.gpu, &now.error));
    free(numbers);
}

float *floats(void)
{
    return (float *)(void *)now.floats;
}

float *out(void)
{
    return (float *)(void *)now.out;
}

struct cuda_act act(void)
{
    return (struct cuda_act){(int8_t *)now.act, (struct cuda_scale *)(void *)now.floats};
}

/* Int8 inputs that a kernel writes, of up to CHUNK rows of 16,384 numbers. */
struct cuda_act made_act(void)
{
    return (struct cuda_act){(int8_t *)now.act, (struct cuda_scale *)(void *)now.expanded};
}

void use_shape(const struct shape *s)
{
    now.shape = (struct shape){s->name,
                               scaled(s->embd, 128),
                               scaled(s->ff, 128),
                               now.divisor > 1 ? parts_of(s->heads, 8) : s->heads,
                               s->group,
                               s->dim};
    now.n_tok = scaled(CHUNK, 64);
}

int n_qkv(void)
{
    return (now.shape.group + 2) * now.shape.heads * now.shape.dim;
}

/* ---- matrices -------------------------------------------------------------------------------- */

double weight_bytes(void)
{
    return (double)cuda_panels(now.n_out) * (double)(cuda_panel_bytes(now.type, now.n_in) +
                                                     cuda_panel_scale_bytes(now.type, now.n_in));
}

struct cuda_weight weight_of(int copy)
{
    const size_t q = (size_t)cuda_panels(now.n_out) * cuda_panel_bytes(now.type, now.n_in);
    const char *at = now.weights + (size_t)copy * (size_t)weight_bytes();
    return (struct cuda_weight){at, (const uint16_t *)(const void *)(at + q), now.n_out, now.n_in};
}

/* Bytes, products and copies of the matrix in `now`. A matrix instruction computes eight tokens,
 * also when there is one. */
struct job matrix_job(const char *name, enum cuda_kernel kernel, int n_tok, int n_matrices)
{
    const double bytes = n_matrices * weight_bytes();
    const double multiply_adds = (double)n_matrices * now.n_out * now.n_in * parts_of(n_tok, 8) * 8;
    const int n_copies = (int)((double)now.weights_bytes / bytes);
    return (struct job){.name = name,
                        .kernel = kernel,
                        .grid = {cuda_panels(now.n_out), 1, 1},
                        .threads = CUDA_MATVEC_THREADS,
                        .shared = CUDA_MATVEC_SHARED,
                        .work = {.bytes = bytes, .s8 = multiply_adds},
                        .mma = multiply_adds / (16 * 8 * 32),
                        .n_copies = n_copies > 1 ? n_copies : 1};
}

/* ---- units ----------------------------------------------------------------------------------- */

static int pages_each(void)
{
    return parts_of(now.n_units + CHUNK, CUDA_TILE);
}

double unit_bytes(void)
{
    const enum kn_kv values = now.kv == KN_KV_S5 ? KN_KV_Q4 : now.kv;
    return (double)(kn_kv_bytes(now.kv, now.shape.dim) + kn_kv_bytes(values, now.shape.dim));
}

static double cache_bytes(void)
{
    return (double)now.shape.heads * pages_each() * CUDA_TILE * unit_bytes();
}

int cache_copies(void)
{
    const double n = (double)now.units_bytes / cache_bytes();
    return n < 1 ? 1 : n > 16 ? 16 : (int)n;
}

/* Copies of a layer's units; all heads are full, plus room for a chunk. */
struct cuda_cache cache_of(int copy)
{
    const int key = (int)kn_kv_bytes(now.kv, now.shape.dim), value = (int)unit_bytes() - key;
    const size_t bytes = (size_t)cache_bytes(), keys = bytes / (size_t)(key + value) * (size_t)key;
    const enum cuda_kv k_type = now.kv == KN_KV_S5   ? CUDA_KV_S5
                                : now.kv == KN_KV_Q8 ? CUDA_KV_Q8
                                                     : CUDA_KV_F16;
    uint8_t *k = (uint8_t *)now.units + (size_t)copy * bytes;
    return (struct cuda_cache){.k = k,
                               .v = k + keys,
                               .pos = now.pos,
                               .score = floats(),
                               .pages = now.pages,
                               .n_pages = pages_each(),
                               .len = now.words->len,
                               .n_head = now.shape.heads,
                               .head_dim = now.shape.dim,
                               .k_bytes = key,
                               .v_bytes = value,
                               .k_type = k_type,
                               .v_type = now.kv == KN_KV_S5 ? CUDA_KV_Q4 : k_type,
                               .centres = floats()};
}

/* As in run.c and layer.c: `blocks` per processor, each of at least one tile. */
int splits_of(int n_units, int blocks)
{
    const int n = blocks * now.gpu->device.n_sm / now.shape.heads, tiles = n_units / CUDA_TILE;
    return n > tiles ? tiles : n > 1 ? n : 1;
}

/* Sets the lengths of all heads; false if the memory for units is too small. */
bool use_units(enum kn_kv kv, int n_units)
{
    now.kv = kv;
    now.n_units = n_units;
    const double n = (double)now.shape.heads * (n_units + CHUNK) * now.shape.dim;
    if (cache_bytes() > (double)now.units_bytes || 4 * n > (double)now.expanded_bytes) return false;
    for (int i = 0; i < HEADS_MAX; i++) {
        now.words_host.len[i] = n_units - 1;
        now.words_host.keep[i] = n_units - scaled(CHUNK, 16);
    }
    now.words_host.pos = 64;
    timed_check(cuda_put(now.gpu, now.words, &now.words_host, sizeof now.words_host, &now.error));
    timed_check(cuda_wait(now.gpu, &now.error));
    return true;
}
