/* bench: speed by depth, with the share of the memory bandwidth that this very program reaches on
 * the same threads in the same run. Decoding one token must read all weights and every unit of the
 * cache once: bytes per token x tokens per second over measured bandwidth is how close it comes to
 * the limit. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "quant/commands.h"
#include "quant/report.h"
#include "runtime/base/pool.h"
#include "runtime/base/system.h"
#include "runtime/context.h"
#include "runtime/engine.h"
#include "runtime/options.h"

/* ---- bandwidth ------------------------------------------------------------------------------- */

#define SWEEP_BYTES ((size_t)512 << 20) /* larger than most last-level caches */
#define SWEEP_PARTS 64

/* Eight prefetched streams a little over 32 KiB apart: the most that was seen to come from memory
 * with plain loads. */
enum { STREAMS = 8, STREAM_WORDS = (32 << 10) / 8 + 256, BLOCK_WORDS = STREAMS * STREAM_WORDS };

struct sweep {
    const uint64_t *data;
    uint64_t sums[SWEEP_PARTS][8]; /* one cache line each */
};

static void sweep_part(void *ctx, int part, int thread)
{
    (void)thread;
    struct sweep *s = ctx;
    size_t n = SWEEP_BYTES / sizeof *s->data / SWEEP_PARTS;
    const uint64_t *p = s->data + (size_t)part * n, *end = p + n;
    uint64_t x = 0, y = 0;
    for (; p + BLOCK_WORDS <= end; p += BLOCK_WORDS)
        for (size_t i = 0; i < STREAM_WORDS; i += 8)
            for (size_t k = 0; k < STREAMS; k++) {
                const uint64_t *line = p + k * STREAM_WORDS + i;
                __builtin_prefetch(line + 64);
                x += line[0] + line[1] + line[2] + line[3];
                y += line[4] + line[5] + line[6] + line[7];
            }
    s->sums[part][0] = x + y;
}

static int compare_doubles(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static double median(double *v, int n)
{
    qsort(v, (size_t)n, sizeof *v, compare_doubles);
    return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

/* Bytes per second that all threads together read from memory: the best of seven sweeps, since it
 * serves as the ceiling. */
static double read_bandwidth(struct pool *p, struct err *e)
{
    struct arena a;
    struct sweep s = {0};
    double best = 0;
    if (arena_init(&a, "bandwidth test", SWEEP_BYTES, e)) return -1;
    memset(a.base, 1, SWEEP_BYTES);
    s.data = (const uint64_t *)(const void *)a.base;
    for (int i = 0; i < 7; i++) {
        int64_t t0 = system_clock_ns();
        pool_run(p, SWEEP_PARTS, sweep_part, &s);
        size_t read = SWEEP_BYTES / SWEEP_PARTS / 8 / BLOCK_WORDS * BLOCK_WORDS * 8 * SWEEP_PARTS;
        double rate = (double)read * 1e9 / (double)(system_clock_ns() - t0);
        if (rate > best) best = rate;
    }
    arena_release(&a);
    return best;
}

/* ---- runs ------------------------------------------------------------------------------------ */

struct point {
    int64_t depth;
    double prefill, prefill_spread; /* tokens per second: median, and (max - min) / median */
    double decode, decode_spread;
    double bytes_per_token;
};

/* Ids that look like text to the machine: a fixed pseudo-random walk over the vocabulary. */
static void fill_ids(int32_t *ids, int n, int n_vocab, int64_t position)
{
    for (int i = 0; i < n; i++)
        ids[i] = (int32_t)(random_at(1, 2, (uint64_t)(position + i)) * n_vocab);
}

/* Runs n tokens in chunks. */
static int run_tokens(struct context *x, int32_t *ids, int64_t n, int chunk, double *seconds,
                      struct err *e)
{
    int64_t t0 = system_clock_ns(), gone;
    for (int64_t at = 0; at < n && !report_interrupted();) {
        int m = n - at < chunk ? (int)(n - at) : chunk, rc = 0;
        if (chunk > 1 || cache_room(&x->cache) < m) rc = context_evict(x, &gone, e);
        fill_ids(ids, m, x->engine->model->n_vocab, x->cache.n_pos);
        if (!rc) rc = context_run(x, ids, m, at + m == n || chunk == 1, e);
        if (rc) return rc;
        at += m;
    }
    *seconds = (double)(system_clock_ns() - t0) / 1e9;
    return 0;
}

#define REPEAT_MAX 99

static int measure(struct context *x, const struct options *o, int32_t *ids, struct point *p,
                   struct err *e)
{
    int n_prefill = o->prefill ? o->prefill : 512, n_decode = o->decode ? o->decode : 64;
    int repeat = o->repeat > 0 && o->repeat < REPEAT_MAX ? o->repeat : 5;
    double prefill[REPEAT_MAX], decode[REPEAT_MAX];
    for (int i = 0; i < repeat; i++) {
        double s = 0;
        cache_clear(&x->cache);
        int rc = run_tokens(x, ids, p->depth, x->plan.chunk, &s, e);
        if (!rc) rc = run_tokens(x, ids, n_prefill, x->plan.chunk, &s, e);
        prefill[i] = n_prefill / s;
        cache_clear(&x->cache);
        if (!rc) rc = run_tokens(x, ids, p->depth ? p->depth : 1, x->plan.chunk, &s, e);
        if (!rc) rc = run_tokens(x, ids, n_decode, 1, &s, e);
        if (rc) return rc;
        decode[i] = n_decode / s;
    }
    p->bytes_per_token = context_bytes_per_token(x);
    p->prefill = median(prefill, repeat);
    p->decode = median(decode, repeat);
    p->prefill_spread = (prefill[repeat - 1] - prefill[0]) / p->prefill;
    p->decode_spread = (decode[repeat - 1] - decode[0]) / p->decode;
    return 0;
}

static void print_json(const struct context *x, const struct point *p, double bandwidth)
{
    cJSON *o = cJSON_CreateObject();
    char kv[16];
    plan_kv_text(&x->plan, kv);
    cJSON_AddStringToObject(o, "model", x->engine->model->name);
    cJSON_AddStringToObject(o, "weights", x->engine->model->type);
    cJSON_AddStringToObject(o, "policy", x->plan.policy->name);
    cJSON_AddStringToObject(o, "kv", kv);
    cJSON_AddNumberToObject(o, "depth", (double)p->depth);
    cJSON_AddNumberToObject(o, "budget", x->plan.budget);
    cJSON_AddNumberToObject(o, "threads", x->plan.n_threads);
    cJSON_AddStringToObject(o, "isa", x->engine->kernels->isa);
    char device[96];
    engine_device_name(x->engine, device, sizeof device);
    cJSON_AddStringToObject(o, "device", device);
    cJSON_AddNumberToObject(o, "prefill_tok_s", p->prefill);
    cJSON_AddNumberToObject(o, "prefill_spread", p->prefill_spread);
    cJSON_AddNumberToObject(o, "decode_tok_s", p->decode);
    cJSON_AddNumberToObject(o, "decode_spread", p->decode_spread);
    cJSON_AddNumberToObject(o, "cache_bytes", (double)x->plan.cache_bytes);
    cJSON_AddNumberToObject(o, "peak_bytes", (double)system_process_peak_bytes());
    cJSON_AddNumberToObject(o, "bytes_per_token", p->bytes_per_token);
    cJSON_AddNumberToObject(o, "bandwidth_bytes_s", bandwidth);
    cJSON_AddNumberToObject(o, "bandwidth_share", p->bytes_per_token * p->decode / bandwidth);
    report_json(o);
}

static void print_row(const struct context *x, const struct point *p, double bandwidth, bool first)
{
    if (first)
        printf("%s, %s, policy %s, budget %d, %s, %d threads; read bandwidth %.1f GB/s\n"
               "%9s %13s %6s %13s %6s %9s %10s\n",
               x->engine->model->name, x->engine->model->type, x->plan.policy->name, x->plan.budget,
               x->engine->kernels->isa, x->plan.n_threads, bandwidth / 1e9, "depth",
               "prefill tok/s", "+/-%", "decode tok/s", "+/-%", "MB/token", "bandwidth");
    printf("%9lld %13.1f %6.1f %13.1f %6.1f %9.2f %9.1f%%\n", (long long)p->depth, p->prefill,
           50 * p->prefill_spread, p->decode, 50 * p->decode_spread, p->bytes_per_token / 1e6,
           100 * p->bytes_per_token * p->decode / bandwidth);
    fflush(stdout);
}

static int run_depths(struct engine *g, const struct options *o, double bandwidth, struct err *e)
{
    const char *depths = o->depth ? o->depth : "0";
    char text[32];
    for (int i = 0; options_list_item(depths, i, text, sizeof text) && !report_interrupted(); i++) {
        struct options one = *o;
        struct context x;
        struct point p = {.depth = strtoll(text, NULL, 10)};
        one.context = p.depth + (o->prefill ? o->prefill : 512) + (o->decode ? o->decode : 64);
        int rc = context_open(&x, g, &one, 1, e);
        if (rc) return rc;
        int32_t *ids = calloc((size_t)x.plan.chunk, sizeof *ids);
        rc = ids ? measure(&x, o, ids, &p, e) : err_set(e, ERR_FAIL, "out of memory for ids");
        if (!rc && o->json)
            print_json(&x, &p, bandwidth);
        else if (!rc)
            print_row(&x, &p, bandwidth, i == 0);
        free(ids);
        context_release(&x);
        if (rc) return rc;
    }
    return 0;
}

int quant_bench(const struct options *o)
{
    struct engine *g = NULL;
    struct err e;
    report_catch_interrupt();
    int rc = engine_open(&g, o, NULL, NULL, NULL, &e);
    double bandwidth = rc ? 0 : read_bandwidth(g->pool, &e);
    if (bandwidth < 0) rc = e.code;
    if (!rc) rc = run_depths(g, o, bandwidth, &e);
    engine_close(g);
    if (rc) return report_error(&e);
    return report_interrupted() ? 130 : 0;
}
