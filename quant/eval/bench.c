/* bench: speed by depth, with the share of the memory bandwidth that this program reaches on the
 * same threads in the same run. Decoding one token must read all weights and every unit of the
 * cache once, so bytes per token x tokens per second / measured bandwidth tells how close it is to
 * the limit.
 *
 * Machines are shared and their speed drifts, so measurements alternate: when all depths are
 * prepared, each repetition visits all depths, every other time in reverse, and measures at each a
 * prompt, the bandwidth and an answer. The ratios to the first depth within a repetition
 * tell whether speed depends on depth. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/pool.h"
#include "base/random.h"
#include "base/system.h"
#include "cli/commands/commands.h"
#include "cli/options/options.h"
#include "cli/print/report.h"
#include "runtime/forward/context.h"
#include "runtime/forward/engine.h"

/* ---- bandwidth ------------------------------------------------------------------------------- */

#define SWEEP_BYTES ((size_t)512 << 20) /* larger than most last-level caches */
#define SWEEP_PARTS 64

/* Eight prefetched streams a little over 32 KiB apart: the highest bandwidth that plain loads
 * reached in our measurements. */
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

/* The bytes per second that all threads together read from SWEEP_BYTES of memory, the median of
 * three sweeps. */
static double read_bandwidth(struct pool *p, const void *data)
{
    enum { SWEEPS = 3 };
    const size_t block = BLOCK_WORDS * sizeof(uint64_t);
    const size_t read = SWEEP_BYTES / SWEEP_PARTS / block * block * SWEEP_PARTS;
    struct sweep s = {.data = data};
    double rate[SWEEPS];
    for (int i = 0; i < SWEEPS; i++) {
        int64_t t0 = system_clock_ns();
        pool_run(p, SWEEP_PARTS, sweep_part, &s);
        rate[i] = (double)read * 1e9 / (double)(system_clock_ns() - t0);
    }
    return median(rate, SWEEPS);
}

/* ---- runs ------------------------------------------------------------------------------------ */

#define PREFILL 512 /* default tokens of --prefill and --decode */
#define DECODE  64
#define REPEAT  5

/* One measured value in all repetitions. */
struct series {
    double v[OPTIONS_REPEAT_MAX];
};

/* A median and its confidence interval: see interval. */
struct estimate {
    double median, low, high;
};

/* Timing of prompts, or of answers. */
struct timing {
    struct series speed;                    /* tokens per second */
    struct series score_share, evict_share; /* shares of the time */
    double cold, median, spread;            /* speed: the first, the median, (max - min) / median */
    double score, evict;                    /* medians */
    /* ratio of the speed to that at the first depth, within one repetition */
    struct estimate ratio;
};

/* A saved cache. */
struct past {
    struct cache cache;
    void *bytes; /* memory from the arena; NULL = nothing was saved */
};

struct point {
    int64_t depth;
    struct context x;
    int32_t *ids; /* [chunk] */
    struct past past;
    struct report_bar *bar;   /* shows the progress to the depth; NULL = none */
    _Atomic int64_t score_ns; /* of all threads, in the current run */
    struct timing prefill, decode;
    struct series ahead;     /* decoding with speculation, of the speed without */
    struct series bandwidth; /* bytes per second */
    struct series share;     /* share of the bandwidth that decoding uses */
    double bytes_per_token, host_bytes_per_token, operations_per_token;
};

/* Cost of one run. */
struct cost {
    double seconds, evicting, scoring;
};

/* Ids whose memory accesses are like those of text: a fixed pseudo-random walk over the
 * vocabulary. */
static void fill_ids(int32_t *ids, int n, int n_vocab, int64_t position)
{
    for (int i = 0; i < n; i++)
        ids[i] = (int32_t)(random_at(1, 2, (uint64_t)(position + i)) * n_vocab);
}

/* Runs n tokens in chunks. */
static int run_tokens(struct point *p, int64_t n, int chunk, struct cost *cost, struct err *e)
{
    struct context *x = &p->x;
    int64_t t0 = system_clock_ns(), n_evicted, evict_ns = 0;
    p->score_ns = 0;
    for (int64_t at = 0; at < n && !report_interrupted();) {
        int m = n - at < chunk ? (int)(n - at) : chunk, rc = 0;
        int64_t t1 = system_clock_ns();
        if (chunk > 1 || cache_room(&x->cache) < m) rc = context_evict(x, &n_evicted, e);
        evict_ns += system_clock_ns() - t1;
        fill_ids(p->ids, m, x->engine->model->n_vocab, x->cache.n_pos);
        if (!rc) rc = context_run(x, p->ids, m, at + m == n || chunk == 1, e);
        if (rc) return rc;
        at += m;
        if (p->bar) report_bar_show(p->bar, at, n);
    }
    context_score(x);
    cost->seconds = (double)(system_clock_ns() - t0) / 1e9;
    cost->evicting = (double)evict_ns / 1e9;
    cost->scoring = (double)p->score_ns / 1e9 / x->plan.n_threads;
    return 0;
}

#define UNIT_SAMPLES 64

/* Appends n tokens' units of random numbers to every head. */
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
    for (int i = 0; i < cache_n_heads(c); i++) {
        struct cache_head *h = &c->kv_heads[i];
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

static void keep_past(struct point *p)
{
    const struct arena *a = &p->x.cache_arena;
    p->past.bytes = malloc(a->used);
    struct err e;
    if (p->past.bytes && cache_fetch(&p->x.cache, cache_len_max(&p->x.cache), &e)) {
        free(p->past.bytes);
        p->past.bytes = NULL;
    }
    if (!p->past.bytes) return;
    memcpy(p->past.bytes, a->base, a->used);
    p->past.cache = p->x.cache;
}

/* If all units stay and keys and values are packed alike, the tokens before a depth need not be
 * run: no kernel's speed depends on the contents of units. */
static bool can_fill(const struct context *x)
{
    const struct cache_shape *shape = &x->cache.shape;
    return x->plan.policy->scorer == POLICY_KEEP_ALL && shape->k_type == shape->v_type &&
           !x->cache.windows;
}

/* Brings the cache to the state after `depth` tokens. */
static int go_to(struct point *p, int64_t depth, struct err *e)
{
    struct context *x = &p->x;
    struct cost unused;
    if (p->past.bytes && p->past.cache.n_pos == depth) {
        memcpy(x->cache_arena.base, p->past.bytes, x->cache_arena.used);
        x->cache = p->past.cache;
        return context_loaded(x, e);
    }
    cache_clear(&x->cache);
    if (!can_fill(x)) return run_tokens(p, depth, x->plan.chunk, &unused, e);
    fill_units(x, (int)depth);
    return context_loaded(x, e);
}

/* Runs the tokens before a depth, once. */
static int reach(struct point *p, struct err *e)
{
    char what[64];
    if (!p->depth || can_fill(&p->x)) return 0;
    snprintf(what, sizeof what, "to depth %lld", (long long)p->depth);
    struct report_bar bar = report_bar(what);
    p->bar = &bar;
    int rc = go_to(p, p->depth, e);
    report_bar_end(&bar);
    p->bar = NULL;
    if (!rc && !report_interrupted()) keep_past(p);
    return rc;
}

/* Times repetition i: n tokens, `chunk` at a time. */
static int time_once(struct point *p, int64_t depth, int n, int chunk, struct timing *t, int i,
                     struct err *e)
{
    struct cost c = {1, 0, 0};
    int rc = go_to(p, depth, e);
    if (!rc) rc = run_tokens(p, n, chunk, &c, e);
    t->speed.v[i] = n / c.seconds;
    t->evict_share.v[i] = c.evicting / c.seconds;
    t->score_share.v[i] = c.scoring / c.seconds;
    return rc;
}

/* Speculation as it would be with text of which AHEAD_RIGHT of the proposals are right. */
#define AHEAD_RIGHT     0.7
#define AHEAD_PROPOSALS 3

/* What the proposals themselves cost, if an MTP layer makes them. */
static int read_mtp(struct context *x, const int32_t *ids, int proposals, struct err *e)
{
    struct mtp_guess out;
    if (!mtp_is_open(&x->mtp)) return 0;
    int rc = mtp_read(&x->mtp, &x->cache, ids[0], &out, e);
    for (int i = 1; !rc && i < proposals; i++) rc = mtp_read_proposal(&x->mtp, ids[i], &out, e);
    return rc;
}

/* Runs n tokens, with proposals; which of them are right is drawn, the same way each time. */
static int run_ahead(struct point *p, int n, double *seconds, struct err *e)
{
    struct context *x = &p->x;
    const int most = context_try_max(x) - 1;
    int proposals = most < AHEAD_PROPOSALS ? most : AHEAD_PROPOSALS;
    int64_t t0 = system_clock_ns(), n_evicted;
    for (int at = 0, rc; at < n;) {
        rc = cache_room(&x->cache) <= proposals ? context_evict(x, &n_evicted, e) : 0;
        if (rc) return rc;
        fill_ids(p->ids, 1 + proposals, x->engine->model->n_vocab, x->cache.n_pos);
        rc = read_mtp(x, p->ids, proposals, e);
        if (!rc) rc = context_try(x, p->ids, 1 + proposals, e);
        if (rc) return rc;
        for (int i = 0; i < proposals; i++, at++) {
            if (random_at(5, 6, (uint64_t)at) > AHEAD_RIGHT) break;
            context_accept(x);
        }
        at++;
    }
    *seconds = (double)(system_clock_ns() - t0) / 1e9;
    return 0;
}

/* Call after answers were timed. */
static int time_ahead(struct point *p, int64_t depth, int n, int i, struct err *e)
{
    double seconds;
    if (!context_try_max(&p->x)) return 0;
    int rc = go_to(p, depth, e);
    if (!rc) rc = run_ahead(p, n, &seconds, e);
    if (!rc) p->ahead.v[i] = n / seconds / p->decode.speed.v[i];
    return rc;
}

/* The median of v (v is sorted), and the two of its values that enclose it in at least 95 of 100
 * samples, whatever the distribution: the probability that fewer than k of n values are below the
 * median is sum C(n, i) / 2^n, i < k, and k is the largest with at most 2.5 %. With fewer than six
 * values: the smallest and the largest. */
static struct estimate interval(double *v, int n)
{
    double p = ldexp(1, -n), sum = p;
    int k = 0;
    struct estimate out = {median(v, n), 0, 0};
    while (k < n && sum <= 0.025) {
        k++;
        p *= (double)(n - k + 1) / k;
        sum += p;
    }
    if (k == 0) k = 1;
    out.low = v[k - 1];
    out.high = v[n - k];
    return out;
}

/* Call before summarize, which sorts. */
static struct estimate ratio_of(const struct timing *t, const struct timing *to, int n)
{
    double v[OPTIONS_REPEAT_MAX];
    for (int i = 0; i < n; i++) v[i] = t->speed.v[i] / to->speed.v[i];
    return interval(v, n);
}

static void summarize(struct timing *t, int n)
{
    t->cold = t->speed.v[0];
    t->median = median(t->speed.v, n);
    t->spread = (t->speed.v[n - 1] - t->speed.v[0]) / t->median;
    t->score = median(t->score_share.v, n);
    t->evict = median(t->evict_share.v, n);
}

/* Measures repetition i at one depth. */
static int measure(struct point *p, const struct options *o, int i, const void *sweep,
                   struct err *e)
{
    struct context *x = &p->x;
    int n_prefill = o->bench.prefill ? o->bench.prefill : PREFILL,
        n_decode = o->bench.decode ? o->bench.decode : DECODE;
    double *bandwidth = &p->bandwidth.v[i];
    int rc = time_once(p, p->depth, n_prefill, x->plan.chunk, &p->prefill, i, e);
    /* of the memory that decoding reads: the GPU's or the CPU's */
    if (!rc && x->engine->gpu) rc = engine_copy_rate(x->engine, bandwidth, e);
    if (!rc && !x->engine->gpu) *bandwidth = read_bandwidth(x->engine->pool, sweep);
    if (!rc) rc = time_once(p, p->depth ? p->depth : 1, n_decode, 1, &p->decode, i, e);
    if (!rc) rc = time_ahead(p, p->depth ? p->depth : 1, n_decode, i, e);
    if (rc) return rc;
    p->bytes_per_token = context_bytes_per_token(x);
    p->operations_per_token = context_operations_per_token(x);
    p->host_bytes_per_token = context_host_bytes_per_token(x);
    p->share.v[i] =
        (p->bytes_per_token - p->host_bytes_per_token) * p->decode.speed.v[i] / *bandwidth;
    return 0;
}

/* The contents of the report of one depth. */
struct shown {
    bool scores, ratio;
};

static void add_timing(cJSON *o, const char *name, const struct timing *t, struct shown s)
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
        {"score_share", t->score, s.scores},
        {"evict_share", t->evict, true},
        {"first_depth_ratio", t->ratio.median, s.ratio},
        {"first_depth_ratio_low", t->ratio.low, s.ratio},
        {"first_depth_ratio_high", t->ratio.high, s.ratio},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        snprintf(key, sizeof key, "%s_%s", name, row[i].unit);
        if (row[i].has) cJSON_AddNumberToObject(o, key, row[i].value);
    }
}

static void print_json(struct point *p, struct shown s, int n)
{
    const struct context *x = &p->x;
    const size_t sweep = x->engine->gpu ? 0 : SWEEP_BYTES;
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
    add_timing(o, "prefill", &p->prefill, s);
    add_timing(o, "decode", &p->decode, s);
    if (p->ahead.v[0] > 0) cJSON_AddNumberToObject(o, "speculation_ratio", median(p->ahead.v, n));
    cJSON_AddNumberToObject(o, "cache_bytes", (double)x->plan.cache_bytes);
    cJSON_AddNumberToObject(o, "peak_bytes", (double)system_process_peak_bytes() - (double)sweep);
    cJSON_AddNumberToObject(o, "bytes_per_token", p->bytes_per_token);
    cJSON_AddNumberToObject(o, "host_bytes_per_token", p->host_bytes_per_token);
    cJSON_AddNumberToObject(o, "operations_per_token", p->operations_per_token);
    cJSON_AddNumberToObject(o, "bandwidth_bytes_s", median(p->bandwidth.v, n));
    cJSON_AddNumberToObject(o, "bandwidth_share", median(p->share.v, n));
    report_json(o);
}

static void print_costs(const char *name, const struct timing *t)
{
    report_line("%9s %s: scoring %.1f %%, eviction %.1f %% of the time", "", name, 100 * t->score,
                100 * t->evict);
}

static void print_ratio(const char *name, const struct timing *t)
{
    report_line("%9s %s: %.3fx of the first depth, in pairs (%.3f to %.3f)", "", name,
                t->ratio.median, t->ratio.low, t->ratio.high);
}

static void print_head(const struct context *x)
{
    char device[96];
    engine_device_name(x->engine, device, sizeof device);
    report_line("%s, %s, policy %s, budget %d, on %s", x->engine->model->name,
                x->engine->model->type, x->plan.policy->name, x->plan.budget, device);
    report_line("%9s %13s %6s %13s %6s %9s %9s %9s %6s", "depth", "prefill tok/s", "+/-%",
                "decode tok/s", "+/-%", "MB/token", "MOP/token",
                x->engine->gpu ? "copy GB/s" : "read GB/s", "share");
}

static void print_row(struct point *p, struct shown s, int n)
{
    const struct timing *prefill = &p->prefill, *decode = &p->decode;
    report_line("%9lld %13.1f %6.1f %13.1f %6.1f %9.2f %9.1f %9.1f %5.1f%%", (long long)p->depth,
                prefill->median, 50 * prefill->spread, decode->median, 50 * decode->spread,
                p->bytes_per_token / 1e6, p->operations_per_token / 1e6,
                median(p->bandwidth.v, n) / 1e9, 100 * median(p->share.v, n));
    if (p->host_bytes_per_token > 0)
        report_line("%9s decode: the CPU reads %.2f MB/token, the share is of the others", "",
                    p->host_bytes_per_token / 1e6);
    if (s.scores) print_costs("prefill", prefill);
    if (s.scores) print_costs("decode", decode);
    if (s.ratio) print_ratio("prefill", prefill);
    if (s.ratio) print_ratio("decode", decode);
    if (p->ahead.v[0] > 0)
        report_line("%9s decode: %.2fx with speculation, if %.0f %% of %d proposals%s are right",
                    "", median(p->ahead.v, n), 100 * AHEAD_RIGHT, AHEAD_PROPOSALS,
                    mtp_is_open(&p->x.mtp) ? " of the MTP layer" : "");
}

struct bench {
    const struct options *o;
    struct plan_opts plan; /* of this combination */
    struct point points[OPTIONS_LIST_MAX];
    int n_points;
    struct arena sweep; /* SWEEP_BYTES, unless a GPU decodes */
};

static int open_point(struct bench *b, struct engine *g, int64_t depth, struct err *e)
{
    const struct bench_opts *o = &b->o->bench;
    struct plan_opts plan = b->plan;
    struct point *p = &b->points[b->n_points++];
    int64_t all = depth + (o->prefill ? o->prefill : PREFILL) + (o->decode ? o->decode : DECODE) +
                  AHEAD_PROPOSALS;
    p->depth = depth;
    if (plan.policy.row && plan.policy.row->scorer == POLICY_KEEP_ALL)
        plan.policy.context = all < PLAN_BUDGET_MAX ? (int)all : PLAN_BUDGET_MAX;
    int rc = context_open(&p->x, g, &plan, b->o->session.sampling.seed, 1, e);
    if (rc) return rc;
    if (!g->gpu && p->x.plan.policy->scorer != POLICY_KEEP_ALL)
        p->x.forward.score_ns = &p->score_ns;
    p->ids = memory_new((size_t)p->x.plan.chunk, sizeof *p->ids);
    return 0;
}

static int open_points(struct bench *b, struct engine *g, struct err *e)
{
    const struct options_numbers *depths = &b->o->sweep.depths;
    int rc = depths->n ? 0 : open_point(b, g, 0, e);
    for (int i = 0; !rc && i < depths->n; i++) rc = open_point(b, g, depths->item[i], e);
    return rc;
}

static void print_points(struct bench *b, int repeat)
{
    struct point *first = b->points, *end = first + b->n_points;
    if (!b->o->json) print_head(&first->x);
    for (struct point *p = first; p < end; p++) {
        p->prefill.ratio = ratio_of(&p->prefill, &first->prefill, repeat);
        p->decode.ratio = ratio_of(&p->decode, &first->decode, repeat);
    }
    for (struct point *p = first; p < end; p++) {
        struct shown s = {p->x.forward.score_ns, p > first};
        summarize(&p->prefill, repeat);
        summarize(&p->decode, repeat);
        if (b->o->json)
            print_json(p, s, repeat);
        else
            print_row(p, s, repeat);
    }
}

static int run_points(struct bench *b, struct err *e)
{
    const struct options *o = b->o;
    int repeat = o->bench.repeat ? o->bench.repeat : REPEAT, n = b->n_points, rc = 0;
    for (int k = 0; !rc && k < n && !report_interrupted(); k++) rc = reach(&b->points[k], e);
    for (int i = 0; i < repeat; i++)
        for (int k = 0; k < n; k++) {
            struct point *p = &b->points[i % 2 ? n - 1 - k : k];
            if (!rc && !report_interrupted()) rc = measure(p, o, i, b->sweep.base, e);
        }
    if (rc || report_interrupted()) return rc;
    print_points(b, repeat);
    return 0;
}

static void release_points(struct bench *b)
{
    for (int i = 0; i < b->n_points; i++) {
        context_release(&b->points[i].x);
        free(b->points[i].past.bytes);
        free(b->points[i].ids);
    }
}

/* All depths of one policy, budget and format. */
static int run_combination(struct bench *b, struct engine *g, struct err *e)
{
    b->n_points = 0;
    memset(b->points, 0, sizeof b->points);
    int rc = open_points(b, g, e);
    if (!rc) rc = run_points(b, e);
    release_points(b);
    return rc;
}

/* The plans of all combinations; returns how many. The caller frees *out. */
static int collect_plans(const struct options *o, struct plan_opts **out)
{
    struct sweep_opts lists = o->sweep;
    int n = 0;
    if (!lists.policies.n) lists.policies.item[lists.policies.n++] = policy_choice(NULL);
    if (!lists.kvs.n) lists.kvs.n = 1;         /* as the plan chooses */
    if (!lists.budgets.n) lists.budgets.n = 1; /* the same */
    *out = memory_new((size_t)(lists.policies.n * lists.kvs.n * lists.budgets.n), sizeof **out);
    for (int i = 0; i < lists.policies.n; i++)
        for (int k = 0; k < lists.kvs.n; k++)
            for (int b = 0; b < lists.budgets.n; b++) {
                struct plan_opts *plan = &(*out)[n++];
                *plan = o->session.plan;
                plan->policy = lists.policies.item[i];
                plan->kv = lists.kvs.item[k];
                plan->budget = (int)lists.budgets.item[b];
            }
    return n;
}

int cmd_bench(const struct options *o)
{
    struct engine *g = NULL;
    struct plan_opts *plans;
    struct err e;
    struct bench *b = memory_new(1, sizeof *b);
    report_catch_interrupt();
    b->o = o;
    const int n = collect_plans(o, &plans);
    int rc = engine_open(&g, &o->engine, plans, n, NULL, NULL, &e);
    if (!rc && *g->device_notice) report_note("%s", g->device_notice);
    if (!rc && !g->gpu) rc = arena_init(&b->sweep, "bandwidth test", SWEEP_BYTES, &e);
    if (b->sweep.base) memset(b->sweep.base, 1, SWEEP_BYTES);
    for (int i = 0; !rc && i < n && !report_interrupted(); i++) {
        b->plan = plans[i];
        rc = run_combination(b, g, &e);
    }
    free(plans);
    arena_release(&b->sweep);
    free(b);
    engine_close(g);
    if (rc) return report_error(&e);
    return report_interrupted() ? 130 : 0;
}
