/* Speed of the hot kernels on one thread, for every instruction set that this CPU supports: medians
 * of RUNS, GB/s of weights or cache read, GOP/s (a multiply and an add are two), and the share of
 * the read bandwidth measured by the same program. Weights are cycled through a buffer larger than
 * most caches, like a model's layers.
 *
 * Arguments, optional: the one instruction set to run; then `count`, which calls each kernel once
 * and prints only its name (count.sh). */
#include "kernels/kernels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    RUNS = 7,
    ARENA_MB = 384,
    COUNT_MB = 12,
    COUNT_ROWS = 128,
    ROWS = 2048,
    COLS = 8192,
    TOKENS = 64
};

static double bandwidth; /* bytes per second, set once by main */
static int counting;

/* CPU time of the thread: unaffected by other programs. */
static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The function that callgrind counts. */
__attribute__((noinline)) void counted(void (*call)(void *), void *arg);
void counted(void (*call)(void *), void *arg)
{
    call(arg);
}

/* Median seconds of one call; each run repeats it for at least 20 ms. */
static double measure(void (*call)(void *), void *arg)
{
    double seconds[RUNS];

    if (counting) {
        counted(call, arg);
        return 1;
    }
    call(arg);
    for (int i = 0; i < RUNS; i++) {
        const double begin = now();
        double end;
        int n = 0;

        do {
            call(arg);
            n++;
            end = now();
        } while (end - begin < 0.02);
        seconds[i] = (end - begin) / n;
    }
    qsort(seconds, RUNS, sizeof *seconds, by_value);
    return seconds[RUNS / 2];
}

static void *take(size_t bytes)
{
    void *p = NULL;
    if (posix_memalign(&p, 64, bytes)) {
        fprintf(stderr, "bench_kernels: no memory for %zu bytes\n", bytes);
        exit(1);
    }
    return p;
}

static float *random_floats(size_t n)
{
    float *x = take(n * sizeof *x);
    uint32_t state = 1;

    for (size_t i = 0; i < n; i++) {
        state = state * 1664525u + 1013904223u;
        x[i] = (float)(int32_t)state * 0x1p-31f;
    }
    return x;
}

static void print(const char *isa, const char *name, double seconds, double bytes, double ops)
{
    if (counting) {
        printf("%s\n", name);
        return;
    }
    printf("%-7s %-34s %10.1f us", isa, name, seconds * 1e6);
    printf("  %7.2f GB/s %4.0f %%", bytes / seconds * 1e-9, 100 * bytes / seconds / bandwidth);
    printf("  %7.1f GOP/s\n", ops / seconds * 1e-9);
    fflush(stdout);
}

/* ---- read bandwidth ------------------------------------------------------------------------- */

struct arena {
    uint64_t *data;
    size_t bytes;
    volatile uint64_t sum;
};

/* Eight prefetched streams, 34 KB apart: the highest bandwidth in our measurements. */
static void read_all(void *arg)
{
    enum { STREAMS = 8, LENGTH = (32 << 10) / 8 + 256, BLOCK = STREAMS * LENGTH };
    struct arena *a = arg;
    uint64_t x = 0, y = 0;

    for (const uint64_t *p = a->data, *end = p + a->bytes / 8; p + BLOCK <= end; p += BLOCK)
        for (size_t i = 0; i < LENGTH; i += 8)
            for (size_t s = 0; s < STREAMS; s++) {
                const uint64_t *line = p + s * LENGTH + i;
                __builtin_prefetch(line + 256);
                x += line[0] + line[1] + line[2] + line[3];
                y += line[4] + line[5] + line[6] + line[7];
            }
    a->sum = x + y;
}

/* ---- products ------------------------------------------------------------------------------- */

struct product {
    const struct kernels *k;
    const struct arena *arena;
    struct kn_weight w;
    struct kn_matmul job;
    size_t step, next; /* bytes of a matrix; the arena's offset of the next one */
};

static void product_call(void *arg)
{
    struct product *p = arg;

    if (p->next + p->step > p->arena->bytes) p->next = 0;
    p->w.data = (const uint8_t *)p->arena->data + p->next;
    p->next += (p->step + 63) & ~(size_t)63;
    p->k->matmul[p->w.type](&p->job);
}

static void bench_product(const struct kernels *k, const struct arena *arena, struct kn_act *x,
                          enum kn_type type, int n_tok)
{
    static const char *const types[KN_TYPES] = {"f32", "f16",  "bf16", "q4",  "q8",   "q4a", "q5a",
                                                "q6",  "iq4",  "mx4",  "nv4", "iq4s", "q4s", "q3s",
                                                "q2s", "iq3x", "iq3s", "iq2", "iq1"};
    const int rows = counting ? COUNT_ROWS : ROWS;
    struct product p = {.k = k, .arena = arena, .w = {type, rows, COLS, NULL}};
    char name[64];

    p.step = kn_weight_bytes(type, rows, COLS);
    p.job = (struct kn_matmul){.w = &p.w,
                               .x = x,
                               .n_tok = n_tok,
                               .row1 = rows,
                               .y_stride = (size_t)rows,
                               .y = take((size_t)n_tok * (size_t)rows * sizeof(float))};
    snprintf(name, sizeof name, "matmul %s %dx%d, %d token%s", types[type], rows, COLS, n_tok,
             n_tok == 1 ? "" : "s");
    const double seconds = measure(product_call, &p);
    print(k->isa, name, seconds, (double)p.step, 2.0 * rows * COLS * n_tok);
    free(p.job.y);
}

/* ---- attention ------------------------------------------------------------------------------ */

struct attention {
    const struct kernels *k;
    struct kn_attend job;
};

static void attention_call(void *arg)
{
    const struct attention *a = arg;
    a->k->attend(&a->job);
}

static void bench_attend(const struct kernels *k, enum kn_kv k_type, enum kn_kv v_type, int dim,
                         int n_slot, int n_tok)
{
    enum { GROUP = 4 };
    static const char *const types[KN_KV_TYPES] = {"f16", "f32", "q8", "q4", [KN_KV_S4] = "q4",
                                                   "q5",  "q5"};
    const size_t k_bytes = kn_kv_bytes(k_type, dim), v_bytes = kn_kv_bytes(v_type, dim);
    const size_t rows = (size_t)(n_tok * GROUP), d = (size_t)dim;
    const size_t half = (size_t)n_slot * d / 2;
    float *numbers = random_floats((size_t)n_slot * d);
    uint8_t *keys = take((size_t)n_slot * k_bytes), *values = take((size_t)n_slot * v_bytes);
    float *angles = random_floats(2 * half), *out = take(rows * (d + 2) * sizeof(float));
    uint32_t *places = take(KN_PLACES(dim) * sizeof *places);
    float *centres = random_floats(3 * d);
    uint32_t *words = take(3 * d / 2 * sizeof *words);
    struct kn_rope rope = {n_slot, dim, angles, angles + half, places};
    struct kn_centre centre = {.mean = centres, .scale = centres + d, .first = centres + 2 * d};
    struct attention a = {.k = k};
    char name[64];

    kn_rope_places(places, &rope);
    for (size_t i = d; i < 2 * d; i++) centres[i] = 1.0f;
    kn_centre_words(&centre, words, dim);
    for (size_t s = 0; s < (size_t)n_slot; s++) {
        k->kv_pack[k_type](keys + s * k_bytes, numbers + s * d, dim);
        k->kv_pack[v_type](values + s * v_bytes, numbers + s * d, dim);
    }
    a.job = (struct kn_attend){.k_type = k_type,
                               .v_type = v_type,
                               .head_dim = dim,
                               .n_group = GROUP,
                               .k = keys,
                               .v = values,
                               .slot1 = n_slot,
                               .n_tok = n_tok,
                               .pos0 = n_slot - n_tok,
                               .q = numbers,
                               .q_stride = GROUP * d,
                               .rope = &rope,
                               .scale = 0.1f,
                               .centre = &centre,
                               .m = out + rows * d,
                               .l = out + rows * (d + 1),
                               .acc = out};
    snprintf(name, sizeof name, "attend %s:%s dim %d, %d slots, %d x %d", types[k_type],
             types[v_type], dim, n_slot, n_tok, GROUP);
    const double seconds = measure(attention_call, &a);
    print(k->isa, name, seconds, (double)n_slot * (double)(k_bytes + v_bytes),
          4.0 * (double)n_slot * (double)rows * (double)dim);
    free(numbers);
    free(keys);
    free(values);
    free(angles);
    free(places);
    free(centres);
    free(words);
    free(out);
}

/* ---- small ones ----------------------------------------------------------------------------- */

struct small {
    const struct kernels *k;
    struct kn_act x;
    float *y, *z;
    struct kn_score score;
    uint8_t *unit;
};

static void small_quantize(void *arg)
{
    struct small *s = arg;
    s->k->quantize(s->x.q, s->x.d, s->x.sum, s->x.x, COLS);
}

static void small_rmsnorm(void *arg)
{
    struct small *s = arg;
    s->k->rmsnorm(s->y, s->x.x, s->z, COLS, 1e-5f);
}

static void small_silu_mul(void *arg)
{
    struct small *s = arg;
    s->k->silu_mul(s->y, s->x.x, s->z, COLS);
}

static void small_kv_pack(void *arg)
{
    struct small *s = arg;
    for (int i = 0; i < COLS; i += 128) s->k->kv_pack[KN_KV_Q4](s->unit, s->x.x + i, 128);
}

static void small_score(void *arg)
{
    struct small *s = arg;
    s->k->score(&s->score);
}

static void bench_small(const struct kernels *k, const struct arena *arena, const struct kn_act *x)
{
    enum { HIDDEN = 1024, HEADS = 8 };
    const struct kn_weight w1 = {.type = KN_Q8, .n_out = HIDDEN, .n_in = COLS, .data = arena->data};
    struct small s = {.k = k, .x = *x};
    const double bytes = COLS * sizeof(float);

    s.y = take(COLS * sizeof(float));
    s.z = random_floats(COLS);
    s.unit = take(128);
    s.score = (struct kn_score){&w1,   random_floats(HIDDEN * HEADS),       x, TOKENS,
                                HEADS, take(TOKENS * HEADS * sizeof(float))};
    print(k->isa, "quantize 8192", measure(small_quantize, &s), bytes, 4.0 * COLS);
    print(k->isa, "rmsnorm 8192", measure(small_rmsnorm, &s), 2 * bytes, 4.0 * COLS);
    print(k->isa, "silu_mul 8192", measure(small_silu_mul, &s), 2 * bytes, 5.0 * COLS);
    print(k->isa, "kv_pack q4 64 x 128", measure(small_kv_pack, &s), bytes, 4.0 * COLS);
    print(k->isa, "score q8 1024x8192, 64 tokens", measure(small_score, &s),
          (double)kn_weight_bytes(KN_Q8, HIDDEN, COLS), 2.0 * HIDDEN * COLS * TOKENS);
    free(s.y);
    free(s.z);
    free(s.unit);
    free((void *)s.score.w2);
    free(s.score.out);
}

/* ---- all ------------------------------------------------------------------------------------ */

static void bench_isa(const struct kernels *k, const struct arena *arena, struct kn_act *x)
{
    static const enum kn_type types[] = {KN_Q4,  KN_Q4A, KN_Q5A, KN_Q6,   KN_Q8,
                                         KN_IQ4, KN_MX4, KN_NV4, KN_IQ4S, KN_Q4S,
                                         KN_Q3S, KN_Q2S, KN_F16, KN_BF16, KN_F32};
    enum { N_TYPE = sizeof types / sizeof *types };
    const int is_ref = strcmp(k->isa, "ref") == 0, n_slot = is_ref ? 512 : counting ? 2048 : 16384;

    for (int i = 0; i < N_TYPE; i++) bench_product(k, arena, x, types[i], 1);
    for (int i = 0; i < N_TYPE; i++) bench_product(k, arena, x, types[i], is_ref ? 2 : TOKENS);
    for (int dim = 64; dim <= 128; dim += 64) {
        bench_attend(k, KN_KV_S5, KN_KV_Q4, dim, n_slot, 1);
        bench_attend(k, KN_KV_S4, KN_KV_Q4, dim, n_slot, 1);
        bench_attend(k, KN_KV_S5, KN_KV_Q5, dim, n_slot, 1);
        bench_attend(k, KN_KV_Q8, KN_KV_Q8, dim, n_slot, 1);
        bench_attend(k, KN_KV_F16, KN_KV_F16, dim, n_slot, 1);
        bench_attend(k, KN_KV_S5, KN_KV_Q4, dim, n_slot, is_ref ? 4 : 32);
    }
    bench_small(k, arena, x);
}

int main(int argc, char **argv)
{
    counting = argc > 2 && strcmp(argv[2], "count") == 0;
    struct arena arena = {.bytes = (size_t)(counting ? COUNT_MB : ARENA_MB) << 20};
    const size_t n = (size_t)TOKENS * COLS;
    struct kn_act x = {.n_in = COLS, .x = random_floats(n)};

    x.q = take(n);
    x.d = take(n / KN_GROUP * sizeof *x.d);
    x.sum = take(n / KN_GROUP * sizeof *x.sum);
    kn_table("ref")->quantize(x.q, x.d, x.sum, x.x, (int)n);
    arena.data = (uint64_t *)random_floats(arena.bytes / sizeof(float));
    /* small normal numbers, both as halves and as floats: kernels must not see denormals or NaN */
    for (size_t i = 0; i < arena.bytes / 8; i++)
        arena.data[i] = (arena.data[i] & 0x83ff83ff83ff83ffu) | 0x3000300030003000u;

    if (!counting) {
        bandwidth = (double)arena.bytes / measure(read_all, &arena);
        printf("read bandwidth, one thread: %.2f GB/s over %d MB\n", bandwidth * 1e-9, ARENA_MB);
    }
    for (const char *const *isa = kn_isa_list(); *isa; isa++)
        if (argc < 2 || strcmp(argv[1], *isa) == 0) bench_isa(kn_table(*isa), &arena, &x);
    free((void *)x.x);
    free(x.q);
    free(x.d);
    free(x.sum);
    free(arena.data);
    return 0;
}
