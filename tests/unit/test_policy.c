/* Every scorer, and shared budgets, on hand-made units: expected results were derived from the
 * papers' formulas, in double precision and written as directly as in the papers. */
#include <math.h>
#include <sys/mman.h>

#include "base/random.h"
#include "cli/options/options.h"
#include "runtime/cache/segment.h"
#include "runtime/cache/evict.h"
#include "runtime/forward/context.h"
#include "runtime/forward/engine.h"
#include "runtime/token/sampler.h"
#include "tests/unit/engine_kit.h"
#include "tests/unit/layer_kit.h"
#include "tests/unit/same_units.h"

/* ---- a layer by hand ------------------------------------------------------------------------- */

/* N tokens have been run through the layer under this policy. */
static struct layer *layer_of(const char *policy)
{
    struct layer *l = layer_new(policy, false, 0);
    for (int i = 0; i < N * ROW; i++)
        l->qkv[i / ROW][i % ROW] = 0.3f + 2 * (float)random_at(5, 1, (uint64_t)i) - 1;
    for (int i = 0; i < KV; i++)
        for (int t = 0; t < N; t++) layer_append(l, i, t, 0);
    cache_appended(&l->c, N);
    return l;
}

static void check_head(struct layer *l, int head, const double *want)
{
    const struct cache_head *h = &l->c.kv_heads[head];
    for (int s = 0; s < N; s++) {
        double got = l->f.slots[h->slot0 + (size_t)s].value;
        if (fabs(got - want[s]) > 1e-4 * fmax(1, fabs(want[s])))
            fail_msg("%s: head %d, slot %d: %g, expected %g", l->policy.name, head, s, got,
                     want[s]);
    }
}

/* The newest `stabilizers` and the best others of 16 survive; on ties the older. */
static void check_survivors(struct layer *l, const double want[KV][N], int stabilizers)
{
    struct evict_rule rule = {.budget = 16, .sinks = 0, .stabilizers = stabilizers};
    evict(&l->c, &rule, pool, l->f.slots);
    for (int i = 0; i < KV; i++) {
        int at = 0;
        for (int s = 0; s < N; s++) {
            int better = stabilizers;
            for (int o = 0; o < N - stabilizers; o++)
                better += want[i][o] > want[i][s] || (want[i][o] >= want[i][s] && o < s);
            if (s >= N - stabilizers || better < 16)
                assert_int_equal(l->c.kv_heads[i].pos[at++], s);
        }
        assert_int_equal(at, 16);
        assert_int_equal(l->c.kv_heads[i].len, 16);
    }
}

static void check(struct layer *l, const double want[KV][N], int stabilizers)
{
    score_values(&l->f, &l->c);
    for (int i = 0; i < KV; i++) check_head(l, i, want[i]);
    check_survivors(l, want, stabilizers);
    layer_free(l);
}

/* ---- scorers --------------------------------------------------------------------------------- */

/* KeyDiff: -cos(k, mean of k / |k|). */
TEST(test_keydiff)
{
    struct layer *l = layer_of("keydiff");
    double want[KV][N];
    for (int i = 0; i < KV; i++) {
        double mean[DIM] = {0}, norm[N], mean_norm = 0;
        for (int s = 0; s < N; s++) {
            const float *k = l->qkv[s] + (HEADS + i) * DIM;
            norm[s] = 0;
            for (int d = 0; d < DIM; d++) norm[s] += (double)k[d] * (double)k[d];
            norm[s] = sqrt(norm[s]);
            for (int d = 0; d < DIM; d++) mean[d] += (double)k[d] / norm[s] / N;
        }
        for (int d = 0; d < DIM; d++) mean_norm += mean[d] * mean[d];
        for (int s = 0; s < N; s++) {
            double dot = 0;
            for (int d = 0; d < DIM; d++) dot += (double)l->qkv[s][(HEADS + i) * DIM + d] * mean[d];
            want[i][s] = -dot / (norm[s] * sqrt(mean_norm));
        }
    }
    check(l, want, 4);
}

/* StreamingLLM: the newest stay, also in a conversation so long that floats cannot distinguish
 * neighbouring positions. */
TEST(test_sink_after_four_billion)
{
    static const uint32_t LATE = 4000000001u;
    struct layer *l = layer_of("sink");
    struct evict_rule rule = {.budget = 16, .sinks = 4};
    for (int i = 0; i < KV; i++)
        for (uint32_t s = 4; s < N; s++) l->c.kv_heads[i].pos[s] = LATE + s;
    cache_imported(&l->c, (int64_t)LATE + N);
    score_values(&l->f, &l->c);
    evict(&l->c, &rule, pool, l->f.slots);
    for (int i = 0; i < KV; i++) {
        assert_int_equal(l->c.kv_heads[i].len, 16);
        for (uint32_t s = 0; s < 16; s++)
            assert_int_equal(l->c.kv_heads[i].pos[s], s < 4 ? s : LATE + N - 16 + s);
    }
    layer_free(l);
}

/* ---- shared budgets -------------------------------------------------------------------------- */

/* A cache of 16-slot heads with given scores, [n_layer * n_head][n]. */
static void units_init(struct units *u, struct cache_shape s, const float *scores, int n)
{
    s.head_dim = DIM;
    s.k_type = s.v_type = KN_KV_Q4;
    if (!s.capacity) s.capacity = 16;
    units_open(u, &s);
    for (int i = 0; scores && i < s.n_layer * s.n_head; i++)
        for (int p = 0; p < n; p++) {
            struct cache_head *h = &u->c.kv_heads[i];
            memset(h->k + (size_t)p * u->c.k_bytes, i * 16 + p, u->c.k_bytes);
            memset(h->v + (size_t)p * u->c.v_bytes, i * 16 + p + 1, u->c.v_bytes);
            h->score[p] = scores[i * n + p];
            h->pos[p] = (uint32_t)p;
            h->len++;
        }
    cache_appended(&u->c, n);
}

/* `alive`: a '1' for each position that must be present. The bytes must have moved with it. */
static void expect(const struct units *u, int head, const char *alive)
{
    const struct cache_head *h = &u->c.kv_heads[head];
    int at = 0;
    for (int p = 0; alive[p]; p++) {
        if (alive[p] != '1') continue;
        assert_true(at < h->len);
        assert_int_equal(h->pos[at], p);
        assert_int_equal(h->k[(size_t)at * u->c.k_bytes], (uint8_t)(head * 16 + p));
        assert_int_equal(h->v[(size_t)(at + 1) * u->c.v_bytes - 1], (uint8_t)(head * 16 + p + 1));
        at++;
    }
    assert_int_equal(h->len, at);
}

/* As in Ada-KV: 2 heads x budget 5 = 10 units for the layer. Each keeps its best (5 / 5 = 1); of
 * the others the best 8 of both heads: all of head 0, and one of the equal ones of head 1, the
 * second oldest, since the oldest is its safeguard. */
TEST(test_shared)
{
    static const float scores[2][8] = {{9, 8, 7, 6, 5, 4, 3, 2}, {1, 1, 1, 1, 1, 1, 1, 1}};
    AUTO_UNITS u;
    struct evict_rule rule = {.budget = 5, .floor_pct = 20};
    units_init(&u, (struct cache_shape){.n_layer = 1, .n_head = 2, .shared = true}, scores[0], 8);
    units_cut(&u, &rule);
    expect(&u, 0, "11111111");
    expect(&u, 1, "11000000");
    /* 32 slots, 10 used: 11 free per head. */
    assert_int_equal(cache_room(&u.c), 11);
    assert_int_equal(u.c.kv_heads[0].capacity, 19);
    assert_int_equal(u.c.kv_heads[1].capacity, 13);
    units_release(&u);
    /* The newest 2 of each are protected, no head gets more than 6: 8 7 6 5 | 3 2 and then 1 1 of
     * head 1 with its newest 2. */
    units_init(&u, (struct cache_shape){.n_layer = 1, .n_head = 2, .shared = true}, scores[0], 8);
    rule =
        (struct evict_rule){.budget = 5, .stabilizers = 2, .head_budget_max = 6, .floor_pct = 20};
    units_cut(&u, &rule);
    expect(&u, 0, "11110011");
    expect(&u, 1, "11000011");
}

/* One budget for 2 layers x 2 heads x 3 = 12 units; ties go to the lower head, then the older. */
TEST(test_global)
{
    static const float scores[4][6] = {
        {9, 9, 9, 9, 0, 0}, {5, 1, 5, 1, 5, 1}, {5, 5, 5, 5, 5, 5}, {-1, -2, -3, -4, -5, -6}};
    AUTO_UNITS u;
    struct evict_rule rule = {.budget = 3, .floor_pct = 20};
    units_init(&u, (struct cache_shape){.n_layer = 2, .n_head = 2, .shared = true}, scores[0], 6);
    units_cut(&u, &rule);
    /* A fifth of 3 is less than a unit: no safeguard. 4 nines, then 8 of the 9 fives. */
    expect(&u, 0, "111100");
    expect(&u, 1, "101010");
    expect(&u, 2, "111110");
    expect(&u, 3, "000000");
    assert_int_equal(cache_room(&u.c), (64 - 12) / 4);
}

/* Heads that share 2 x 8 units, none of which may have more than 10: a head with 20 keeps its best
 * 10, one with 2 keeps both, and the other 4 units of the budget stay unused. */
TEST(test_no_head_exceeds_its_limit)
{
    enum { MANY = 20, FEW = 2, MAX = 10 };
    const struct cache_shape s = {
        .n_layer = 1, .n_head = 2, .capacity = MANY, .head_max = 2 * MANY, .shared = true};
    const struct evict_rule rule = {.budget = 8, .head_budget_max = MAX, .floor_pct = 20};
    float scores[2 * MANY];
    AUTO_UNITS u;
    for (int i = 0; i < 2 * MANY; i++) scores[i] = (float)(i % MANY);
    units_init(&u, s, scores, MANY);
    u.c.kv_heads[1].len = FEW;
    units_cut(&u, &rule);
    expect(&u, 0, "00000000001111111111");
    expect(&u, 1, "11000000000000000000");
}

/* ---- saving heads of different length -------------------------------------------------------- */

/* Heads of 12, 2 and 1 units, to which 6 are added: 18 are more than a head's even part of the
 * region, 12. Two segments and a list of evicted positions restore them. */
TEST(test_ragged_heads_come_back)
{
    float scores[3][12];
    AUTO_UNITS a, b;
    struct cache_shape s = {
        .n_layer = 1, .n_head = 3, .capacity = 12, .head_max = 24, .shared = true};
    struct evict_rule rule = {.budget = 5, .floor_pct = 20};
    struct segment g[2];
    struct positions evicted;
    for (int i = 0; i < 36; i++) scores[i / 12][i % 12] = (float)((i / 12 ? 0 : 100) + i % 12);
    units_init(&a, s, scores[0], 12);
    units_init(&b, s, NULL, 0);
    size_t n = segment_bytes(&a.c, SEGMENT_DENSE, 3, 12);
    size_t n2 = segment_bytes(&a.c, SEGMENT_DENSE, 3, 6);
    AUTO_FREE uint8_t *bytes = malloc(n), *bytes2 = malloc(n2);
    segment_pack(&a.c, SEGMENT_DENSE, 0, 3, 0, 12, bytes);
    units_cut(&a, &rule);
    expect(&a, 0, "111111111111");
    expect(&a, 1, "000000000011");
    expect(&a, 2, "000000000001");
    for (int i = 0; i < 18; i++) {
        struct cache_head *h = &a.c.kv_heads[i / 6];
        size_t slot = (size_t)h->len++;
        memset(h->k + slot * a.c.k_bytes, i, a.c.k_bytes);
        memset(h->v + slot * a.c.v_bytes, i, a.c.v_bytes);
        h->score[slot] = (float)i;
        h->pos[slot] = (uint32_t)(12 + i % 6);
    }
    cache_appended(&a.c, 6);
    segment_pack(&a.c, SEGMENT_DENSE, 0, 3, 12, 6, bytes2);
    positions_init(&evicted, 3);
    for (uint32_t p = 0; p < 10; p++) positions_push(&evicted, 1, p);
    for (uint32_t p = 0; p < 11; p++) positions_push(&evicted, 2, p);
    assert_true(segment_open(&g[0], bytes, n) && segment_open(&g[1], bytes2, n2));
    assert_true(segment_expect(&b.c, 0, NULL, &evicted, 18) && cache_make_room(&b.c));
    for (int i = 0; i < 2; i++)
        assert_true(segment_load_block(&b.c, &g[i], (const uint32_t[]){0}, &evicted, 18));
    positions_clear(&evicted);
    assert_true(segment_expect(&b.c, 0, NULL, &evicted, 18));
    assert_false(cache_make_room(&b.c)); /* 87 units for 36 slots */
    positions_release(&evicted);
    cache_imported(&b.c, 18);
    assert_int_equal(cache_room(&a.c), cache_room(&b.c));
    assert_int_equal(cache_room(&a.c), 1);
    for (int i = 0; i < 3; i++)
        assert_int_equal(a.c.kv_heads[i].capacity, b.c.kv_heads[i].capacity);
    same_units(&a.c, &b.c);
}

/* The table and its list of names agree. */
TEST(test_names)
{
    char list[512] = "";
    for (int i = 0; policy_at(i); i++) {
        size_t n = strlen(list);
        snprintf(list + n, sizeof list - n, "%s%s", i ? ", " : "", policy_at(i)->name);
        assert_ptr_equal(policy_named(policy_at(i)->name), policy_at(i));
    }
    struct str names = {0};
    policy_names(&names);
    assert_string_equal(list, str_get(&names));
    str_release(&names);
    assert_null(policy_named("nobody"));
}

/* Whether all pages of an arena are in memory. */
static bool is_resident(const struct arena *a)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), n = (a->bytes + page - 1) / page;
    unsigned char *pages = calloc(n, 1);
    size_t n_in = 0;
    assert_non_null(pages);
    assert_int_equal(mincore(a->base, a->bytes, pages), 0);
    for (size_t i = 0; i < n; i++) n_in += pages[i] & 1;
    free(pages);
    return n_in == n;
}

/* Every row runs, evicts and stays within its bytes, in a plan made as for a chat. */
TEST(test_every_row_runs)
{
    int32_t ids[32];
    for (int i = 1; policy_at(i); i++) {
        struct options o;
        AUTO_CONTEXT x;
        int64_t evicted;
        options_init(&o);
        o.session.plan.policy = policy_choice(policy_at(i)->name);
        o.session.plan.budget = 64;
        o.session.plan.chunk = 32;
        o.session.plan.policy.reserve = 8;
        if (context_open(&x, engine, &o.session.plan, o.session.sampling.seed, 1, &err))
            fail_msg("%s: %s", policy_at(i)->name, err.text);
        for (int round = 0; round < 12; round++) {
            for (int t = 0; t < 32; t++)
                ids[t] =
                    (int32_t)(random_at(3, 1, (uint64_t)(round * 32 + t)) * engine->model->n_vocab);
            ok(context_evict(&x, &evicted, &err));
            assert_true(cache_room(&x.cache) >= 32 + 8);
            forward_run(&x.forward, &x.cache, ids, 32, 0);
        }
        ok(context_evict(&x, &evicted, &err));
        int n_heads = x.cache.shape.n_layer * x.cache.shape.n_head;
        int64_t units = cache_units(&x.cache);
        assert_true(units <= 64 * n_heads && units > 60 * n_heads);
        assert_int_equal(x.cache_arena.used, x.plan.cache_bytes);
        assert_true(x.cache.kv_heads[0].len >= 4 + 7); /* sinks and stabilizers */
        assert_true(is_resident(&x.cache_arena) && is_resident(&x.scratch)); /* it can't grow */
    }
}

/* With the defaults a cache of 256 units takes no more bytes than 1,000 tokens would take if all of
 * them were kept, and the plan is what is resident, to the page. */
TEST(test_a_small_budget_takes_little)
{
    static const struct {
        int budget, reserve;
    } rows[] = {{96, 256}, {256, 256}, {700, 700}, {2000, 1024}};
    struct options o;
    struct context x;
    int64_t evicted;
    int32_t ids[256];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        options_init(&o);
        o.session.plan.budget = rows[i].budget;
        ok(context_open(&x, engine, &o.session.plan, 1, 1, &err));
        assert_int_equal(x.plan.reserve, rows[i].reserve);
        for (int t = 0; t < 256; t++)
            ids[t] = (int32_t)(random_at(3, 1, (uint64_t)t) * engine->model->n_vocab);
        for (int n = 0; n < 1000; n += 250) {
            ok(context_evict(&x, &evicted, &err));
            forward_run(&x.forward, &x.cache, ids, 250, 0);
        }
        const int n_heads = x.cache.shape.n_layer * x.cache.shape.n_head;
        const size_t everything = 1000 * (size_t)n_heads * x.plan.unit_bytes;
        assert_int_equal(x.cache_arena.used, x.plan.cache_bytes);
        if (rows[i].budget <= 256) assert_in_range(x.plan.cache_bytes, 1, everything);
        if (rows[i].budget <= 700) assert_true(is_resident(&x.cache_arena));
        context_release(&x);
    }
}

static int setup(void **state)
{
    return engine_set_up(state) || pool_set_up(state);
}

static int teardown(void **state)
{
    pool_tear_down(state);
    return engine_tear_down(state);
}

AROUND_TESTS(setup, teardown)
