/* Scores, evictions, and the next token. */
#include "tests/gpu/timed.h"

#include <string.h>

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
    *(struct cuda_rank *)to = (struct cuda_rank){.cache = cache_of(copy),
                                                 .sinks = 4,
                                                 .stabilizers = 64,
                                                 .scored = 1,
                                                 .safe = now.n_units / 5,
                                                 .key = now.key,
                                                 .total = (uint32_t *)(void *)now.out};
}

/* Of an eviction of each head for itself, after its last n_known digits. */
static struct cuda_digits digits_of(int copy, int n_known)
{
    return (struct cuda_digits){.cache = cache_of(copy),
                                .key = now.key,
                                .keep = now.words->keep,
                                .n_group = 1,
                                .n_known = n_known,
                                .total = (uint32_t *)(void *)now.out,
                                .last = (uint32_t *)(void *)now.act};
}

/* Keys are the places of units: these are the counts with which the newest keep[h] stay. */
static void put_counts(void)
{
    static uint32_t total[4][HEADS_MAX][256];
    const int pages = cache_of(0).n_pages;
    memset(total, 0, sizeof total);
    for (int h = 0; h < now.shape.heads; h++) {
        const int len = now.words_host.len[h], keep = now.words_host.keep[h];
        const uint32_t least = (uint32_t)(h * pages * CUDA_TILE + len - keep);
        for (int i = 0; i < 4; i++)
            (&total[0][0][0])[(i * now.shape.heads + h) * 256 + (least >> (24 - 8 * i) & 255)] =
                (uint32_t)keep;
    }
    timed_check(cuda_put(now.gpu, now.out, total, sizeof total, &now.error));
}

/* Lengths are put back before each launch, which costs a few microseconds. */
static void evict_args(int copy, void *to)
{
    timed_check(cuda_put(now.gpu, now.words->len, now.words_host.len, sizeof now.words_host.len,
                         &now.error));
    *(struct cuda_evict *)to =
        (struct cuda_evict){digits_of(copy, 4), (uint32_t *)(void *)now.expanded};
}

/* One kernel over all heads, bound by the bytes of its units. */
static struct job heads_job(const char *name, enum cuda_kernel kernel, double bytes_per_unit)
{
    return (struct job){.name = name,
                        .kernel = kernel,
                        .grid = {now.shape.heads, 1, 1},
                        .threads = CUDA_EVICT_THREADS,
                        .shared = CUDA_RANK_SHARED,
                        .work.bytes = bytes_per_unit * now.shape.heads * now.n_units,
                        .n_copies = 1};
}

static void retention(void)
{
    const char *model = now.shape.name;
    if (!use_units(KN_KV_S5, scaled(16384, CUDA_TILE))) return;
    now.type = KN_Q8, now.n_out = HIDDEN, now.n_in = n_qkv();
    struct job many = matrix_job("score", CUDA_KERNEL_score_q8, now.n_tok, 1);
    many.grid[0] = HIDDEN / CUDA_MATMUL_ROWS;
    many.grid[1] = parts_of(now.n_tok, CUDA_MATMUL_TOKENS);
    many.threads = CUDA_MATMUL_THREADS;
    many.shared = CUDA_SCORE_SHARED;
    many.args = score_args;
    time_job(&many, model, "q8");
    struct job rank = heads_job("cache_rank", CUDA_KERNEL_cache_rank, 12);
    rank.args = rank_args;
    time_job(&rank, model, "16384");
    const double unit = unit_bytes();
    struct job evict = heads_job("cache_evict", CUDA_KERNEL_cache_evict, 2 * (unit + 8));
    evict.shared = CUDA_EVICT_SHARED((size_t)unit);
    evict.args = evict_args;
    put_counts();
    time_job(&evict, model, "16384");
}

static void score_sum_args(int copy, void *to)
{
    *(struct cuda_score_sum *)to = (struct cuda_score_sum){.part = out(),
                                                           .n_part = HIDDEN / CUDA_MATMUL_ROWS,
                                                           .n_tok = now.n_tok,
                                                           .cache = cache_of(copy)};
}

static void values_args(int copy, void *to)
{
    *(struct cuda_values *)to =
        (struct cuda_values){cache_of(copy), (float *)(void *)now.key, out()};
}

static void digits_args(int copy, void *to)
{
    *(struct cuda_digits *)to = digits_of(copy, 0);
}

/* The other launches of an eviction, and the second of scoring. */
static void retention_rest(void)
{
    const char *model = now.shape.name;
    if (!use_units(KN_KV_S5, scaled(16384, CUDA_TILE))) return;
    const double key = (double)kn_kv_bytes(now.kv, now.shape.dim);
    struct job j = heads_job("key_sums", CUDA_KERNEL_key_sums, key);
    j.grid[0] = parts_of(now.n_units, CUDA_PIECE);
    j.grid[1] = now.shape.heads;
    j.shared = CUDA_VALUES_SHARED;
    j.args = values_args;
    time_job(&j, model, "16384");
    j.name = "key_values";
    j.kernel = CUDA_KERNEL_key_values;
    j.work.bytes += 4.0 * now.shape.heads * now.n_units;
    time_job(&j, model, "16384");
    j = heads_job("near_duplic.", CUDA_KERNEL_near_duplicates, key + 4);
    j.shared = CUDA_NEAR_SHARED;
    j.args = values_args;
    time_job(&j, model, "16384");
    j = heads_job("cache_digits", CUDA_KERNEL_cache_digits, 4);
    j.args = digits_args;
    time_job(&j, model, "16384");
    j = heads_job("score_sum", CUDA_KERNEL_score_sum, 0);
    j.grid[0] = parts_of(now.n_tok * now.shape.heads, 128);
    j.threads = 128, j.shared = 0;
    j.work.bytes = 4.0 * now.n_tok * now.shape.heads * (1 + HIDDEN / CUDA_MATMUL_ROWS);
    j.args = score_sum_args;
    time_job(&j, model, "chunk");
}

void time_cache(void)
{
    retention();
    retention_rest();
}

/* ---- the next token -------------------------------------------------------------------------- */

static void argmax_args(int copy, void *to)
{
    *(struct cuda_argmax *)to =
        (struct cuda_argmax){floats(), scaled(VOCABULARY, 64), (int32_t *)now.key};
}

/* The first of two launches: the best of each part of a vocabulary. */
static void top_args(int copy, void *to)
{
    const int n = scaled(VOCABULARY, 64), k = 40, parts = parts_of(n, CUDA_TOP_PART);
    *(struct cuda_top *)to = (struct cuda_top){.logits = floats(),
                                               .n = n,
                                               .k = k,
                                               .id = (int32_t *)now.key,
                                               .logit = out(),
                                               .n_out = (int32_t *)now.key + parts * k,
                                               .part = CUDA_TOP_PART};
}

void time_sampling(void)
{
    const struct job top = {.name = "top_k",
                            .kernel = CUDA_KERNEL_top_k,
                            .grid = {parts_of(scaled(VOCABULARY, 64), CUDA_TOP_PART), 1, 1},
                            .threads = 1024,
                            .shared = CUDA_TOP_SHARED,
                            .work.bytes = 4.0 * scaled(VOCABULARY, 64),
                            .n_copies = 1,
                            .args = top_args};
    const struct job largest = {.name = "argmax",
                                .kernel = CUDA_KERNEL_argmax,
                                .grid = {1, 1, 1},
                                .threads = 1024,
                                .shared = 256,
                                .work.bytes = 4.0 * scaled(VOCABULARY, 64),
                                .n_copies = 1,
                                .args = argmax_args};
    time_job(&top, "-", "40");
    time_job(&largest, "-", "1");
}
