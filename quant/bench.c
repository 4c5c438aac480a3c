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

/* ---- a rival --------------------------------------------------------------------------------- */

/* Tokens per second; 0 = not measured. */
struct speed {
    double prefill, decode;
};

/* The number after column NAMEdigits… of a table row such as llama-bench prints: "| pp512 @ d4096
 * | 78.98 +- 3.68 |"; 0 when the row has no such column. */
static double column_after(const char *row, const char *name)
{
    size_t n = strlen(name);
    for (const char *p = strchr(row, '|'); p; p = strchr(p, '|')) {
        p += 1 + strspn(p + 1, " ");
        const char *end = strchr(p, '|');
        if (end && !strncmp(p, name, n) && p[n] >= '0' && p[n] <= '9') return strtod(end + 1, NULL);
    }
    return 0;
}

/* Runs --vs's command in a shell, with the depth as $1, and reads the speeds it prints. */
static int run_rival(const char *command, int64_t depth, struct speed *out, struct err *e)
{
    struct str line = {0};
    char row[1024];
    *out = (struct speed){0};
    str_printf(&line, "set -- %lld\n%s", (long long)depth, command);
    fflush(stdout);
    FILE *f = popen(str_get(&line), "r");
    str_release(&line);
    if (!f) return err_set(e, ERR_FAIL, "--vs: no shell could be started");
    while (fgets(row, sizeof row, f)) {
        double prefill = column_after(row, "pp"), decode = column_after(row, "tg");
        if (prefill > 0) out->prefill = prefill;
        if (decode > 0) out->decode = decode;
    }
    if (pclose(f) == 0 && (out->prefill > 0 || out->decode > 0)) return 0;
    return err_set(e, ERR_FAIL,
                   "--vs: the command failed or printed no speed; expected rows such as "
                   "\"| pp512 | 78.98 |\" and \"| tg64 | 21.50 |\", as llama-bench prints them");
}

/* ---- runs ------------------------------------------------------------------------------------ */

#define REPEAT_MAX 99

/* One number of all repetitions. */
struct series {
    double v[REPEAT_MAX];
};

/* Of a prompt, or of an answer. */
struct timing {
    struct series speed;                    /* tokens per second */
    struct series score_share, evict_share; /* of the time: retaining heads; eviction */
    struct series rival;
    double cold, median, spread; /* speed: the first, the median, (max - min) / median */
    double score, evict, vs;     /* medians */
};

struct point {
    int64_t depth;
    struct timing prefill, decode;
    double bytes_per_token, operations_per_token;
};

/* Ids that look like text to the machine: a fixed pseudo-random walk over the vocabulary. */
static void fill_ids(int32_t *ids, int n, int n_vocab, int64_t position)
{
    for (int i = 0; i < n; i++)
        ids[i] = (int32_t)(random_at(1, 2, (uint64_t)(position + i)) * n_vocab);
}

/* Runs n tokens in chunks; seconds it took, and those of them that went into eviction. */
static int run_tokens(struct context *x, int32_t *ids, int64_t n, int chunk, double *seconds,
                      double *evicting, struct err *e)
{
    int64_t t0 = system_clock_ns(), gone, evict_ns = 0;
    for (int64_t at = 0; at < n && !report_interrupted();) {
        int m = n - at < chunk ? (int)(n - at) : chunk, rc = 0;
        int64_t t1 = system_clock_ns();
        if (chunk > 1 || cache_room(&x->cache) < m) rc = context_evict(x, &gone, e);
        evict_ns += system_clock_ns() - t1;
        fill_ids(ids, m, x->engine->model->n_vocab, x->cache.n_pos);
        if (!rc) rc = context_run(x, ids, m, at + m == n || chunk == 1, e);
        if (rc) return rc;
        at += m;
    }
    *seconds = (double)(system_clock_ns() - t0) / 1e9;
    *evicting = (double)evict_ns / 1e9;
    return 0;
}

#define UNIT_SAMPLES 64

/* Puts n tokens' units of random numbers into every head. */
static void fill_units(struct context *x, int n)
{
    struct cache *c = &x->cache;
    uint8_t unit[UNIT_SAMPLES][KN_HEAD_DIM_MAX * sizeof(float)];
    float number[KN_HEAD_DIM_MAX];
    int dim = c->shape.head_dim;
    for (int i = 0; i < UNIT_SAMPLES; i++) {
        for (int d = 0; d < dim; d++)
            number[d] = (float)random_at(3, 4, (uint64_t)(i * dim + d)) - 0.5f;
        x->engine->kernels->kv_pack[c->shape.k_type](unit[i], number, dim);
    }
    for (int i = 0; i < c->shape.n_layer * c->shape.n_head; i++) {
        struct cache_head *h = &c->heads[i];
        for (int s = 0; s < n; s++) {
            memcpy(h->k + (size_t)s * c->k_bytes, unit[s % UNIT_SAMPLES], c->k_bytes);
            memcpy(h->v + (size_t)s * c->v_bytes, unit[(s + i) % UNIT_SAMPLES], c->v_bytes);
            h->score[s] = 0;
            h->pos[s] = (uint32_t)s;
        }
        h->len = n;
    }
    cache_appended(c, n);
}

/* Runs n tokens, `chunk` at a time, after `depth` others. Where all units stay and keys and values
 * are packed alike, the others need not be run: no kernel's speed depends on what units hold. */
static int run_at(struct context *x, int32_t *ids, int64_t depth, int n, int chunk, double *seconds,
                  double *evicting, struct err *e)
{
    const struct cache_shape *shape = &x->cache.shape;
    bool keeps = x->plan.policy->scorer == POLICY_KEEP_ALL && shape->k_type == shape->v_type;
    int rc = 0;
    cache_clear(&x->cache);
    if (keeps && !x->gpu)
        fill_units(x, (int)depth);
    else
        rc = run_tokens(x, ids, depth, x->plan.chunk, seconds, evicting, e);
    return rc ? rc : run_tokens(x, ids, n, chunk, seconds, evicting, e);
}

/* Repetition i. What scoring costs is the difference to the same without retaining heads. */
static int time_once(struct context *x, int32_t *ids, int64_t depth, int n, int chunk,
                     struct timing *t, int i, struct err *e)
{
    const struct heads *heads = x->forward.heads;
    double s = 0, evicting = 0, bare = 0, unused;
    int rc = run_at(x, ids, depth, n, chunk, &s, &evicting, e);
    t->speed.v[i] = n / s;
    t->evict_share.v[i] = evicting / s;
    t->score_share.v[i] = 0;
    if (rc || !heads) return rc;
    x->forward.heads = NULL;
    rc = run_at(x, ids, depth, n, chunk, &bare, &unused, e);
    x->forward.heads = heads;
    t->score_share.v[i] = 1 - bare / s;
    return rc;
}

static void summarize(struct timing *t, int n)
{
    t->cold = t->speed.v[0];
    t->median = median(t->speed.v, n);
    t->spread = (t->speed.v[n - 1] - t->speed.v[0]) / t->median;
    t->score = median(t->score_share.v, n);
    t->evict = median(t->evict_share.v, n);
    t->vs = median(t->rival.v, n);
}

static int measure(struct context *x, const struct options *o, int32_t *ids, struct point *p,
                   struct err *e)
{
    int n_prefill = o->prefill ? o->prefill : 512, n_decode = o->decode ? o->decode : 64;
    int repeat = o->repeat > 0 && o->repeat < REPEAT_MAX ? o->repeat : 5;
    for (int i = 0; i < repeat; i++) {
        struct speed vs = {0};
        int rc = time_once(x, ids, p->depth, n_prefill, x->plan.chunk, &p->prefill, i, e);
        if (!rc) rc = time_once(x, ids, p->depth ? p->depth : 1, n_decode, 1, &p->decode, i, e);
        if (!rc && o->vs) rc = run_rival(o->vs, p->depth, &vs, e);
        if (rc) return rc;
        p->prefill.rival.v[i] = vs.prefill;
        p->decode.rival.v[i] = vs.decode;
    }
    p->bytes_per_token = context_bytes_per_token(x);
    p->operations_per_token = context_operations_per_token(x);
    summarize(&p->prefill, repeat);
    summarize(&p->decode, repeat);
    return 0;
}

static void add_timing(cJSON *o, const char *name, const struct timing *t, bool scores, bool vs)
{
    char key[64];
    const struct {
        const char *unit;
        double value;
        bool has;
    } row[] = {
        {"tok_s", t->median, true},
        {"spread", t->spread, true},
        {"cold_tok_s", t->cold, true},
        {"score_share", t->score, scores},
        {"evict_share", t->evict, true},
        {"vs_tok_s", t->vs, vs && t->vs > 0},
        {"vs_ratio", t->median / t->vs, vs && t->vs > 0},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        snprintf(key, sizeof key, "%s_%s", name, row[i].unit);
        if (row[i].has) cJSON_AddNumberToObject(o, key, row[i].value);
    }
}

static void print_json(const struct context *x, const struct options *opts, const struct point *p,
                       double bandwidth)
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
    add_timing(o, "prefill", &p->prefill, x->forward.heads, opts->vs);
    add_timing(o, "decode", &p->decode, x->forward.heads, opts->vs);
    cJSON_AddNumberToObject(o, "cache_bytes", (double)x->plan.cache_bytes);
    cJSON_AddNumberToObject(o, "peak_bytes", (double)system_process_peak_bytes());
    cJSON_AddNumberToObject(o, "bytes_per_token", p->bytes_per_token);
    cJSON_AddNumberToObject(o, "operations_per_token", p->operations_per_token);
    cJSON_AddNumberToObject(o, "bandwidth_bytes_s", bandwidth);
    cJSON_AddNumberToObject(o, "bandwidth_share",
                            p->bytes_per_token * p->decode.median / bandwidth);
    report_json(o);
}

static void print_costs(const char *name, const struct timing *t)
{
    printf("%9s %s: scoring %.1f %%, eviction %.1f %% of the time\n", "", name, 100 * t->score,
           100 * t->evict);
}

static void print_vs(const char *name, const struct timing *t)
{
    if (t->vs > 0)
        printf("%9s %s: the other %.1f tok/s, %.2fx\n", "", name, t->vs, t->median / t->vs);
}

static void print_row(const struct context *x, const struct point *p, double bandwidth, bool first)
{
    const struct timing *prefill = &p->prefill, *decode = &p->decode;
    if (first)
        printf("%s, %s, policy %s, budget %d, %s, %d threads; read bandwidth %.1f GB/s\n"
               "%9s %13s %6s %13s %6s %9s %9s %10s\n",
               x->engine->model->name, x->engine->model->type, x->plan.policy->name, x->plan.budget,
               x->engine->kernels->isa, x->plan.n_threads, bandwidth / 1e9, "depth",
               "prefill tok/s", "+/-%", "decode tok/s", "+/-%", "MB/token", "MOP/token",
               "bandwidth");
    printf("%9lld %13.1f %6.1f %13.1f %6.1f %9.2f %9.1f %9.1f%%\n", (long long)p->depth,
           prefill->median, 50 * prefill->spread, decode->median, 50 * decode->spread,
           p->bytes_per_token / 1e6, p->operations_per_token / 1e6,
           100 * p->bytes_per_token * decode->median / bandwidth);
    if (x->forward.heads) {
        print_costs("prefill", prefill);
        print_costs("decode", decode);
    }
    print_vs("prefill", prefill);
    print_vs("decode", decode);
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
        bool whole = !rc && !report_interrupted();
        if (whole && o->json)
            print_json(&x, o, &p, bandwidth);
        else if (whole)
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
