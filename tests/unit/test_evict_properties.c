/* What the papers prove of their rules, on random scores: Ada-KV's Theorem 3.1 and Locret's
 * Appendix N. */

#include "tests/test.h"

#include "base/arena.h"
#include "base/pool.h"
#include "base/random.h"
#include "runtime/cache/cache.h"
#include "runtime/cache/evict.h"

enum { HEADS = 4, UNITS = 96, BUDGET = 24, RUNS = 200, DIM = 32 };

static struct pool *pool;

struct units {
    struct cache c;
    struct arena memory;
    union evict_slot *slots;
};

static void units_open(struct units *u, enum cache_share share)
{
    struct arena plan;
    const struct cache_shape shape = {.n_layer = 1,
                                      .n_head = HEADS,
                                      .head_dim = DIM,
                                      .k_type = KN_KV_Q4,
                                      .v_type = KN_KV_Q4,
                                      .capacity = UNITS,
                                      .head_max = share == CACHE_HEAD ? 0 : HEADS * UNITS,
                                      .share = share};
    arena_init_plan(&plan, "units");
    cache_plan(&u->c, &shape, &plan);
    ok(arena_init(&u->memory, "units", plan.used, &err));
    cache_plan(&u->c, &shape, &u->memory);
    u->slots = calloc(cache_slots(&shape), sizeof *u->slots);
    assert_non_null(u->slots);
}

static void units_close(struct units *u)
{
    arena_release(&u->memory);
    free(u->slots);
}

/* A share of attention: a tenth of the units get most of it, more of them in some heads, and the
 * shares of a head add up to 1. */
static float weight(int run, int head, int pos)
{
    double x = random_at((uint64_t)run, (uint64_t)head, (uint64_t)pos);
    double sharp = 1 + 4 * random_at((uint64_t)run, 99, (uint64_t)head);
    for (int i = 0; i < (int)sharp; i++) x *= x;
    return (float)x;
}

static double sum_of(int run, int head)
{
    double sum = 0;
    for (int p = 0; p < UNITS; p++) sum += (double)weight(run, head, p);
    return sum;
}

static void add(struct cache *c, int run, int pos, int n)
{
    for (int i = 0; i < HEADS; i++) {
        struct cache_head *h = &c->kv_heads[i];
        const double sum = sum_of(run, i);
        for (int p = pos; p < pos + n; p++) {
            h->pos[h->len] = (uint32_t)p;
            h->score[h->len++] = (float)((double)weight(run, i, p) / sum);
        }
    }
    cache_appended(c, n);
}

/* The attention that the surviving units got, over all heads. */
static double kept_weight(enum cache_share share, int run, int floor)
{
    struct units u;
    double kept = 0;
    int64_t n = 0;
    const struct evict_rule rule = {.budget = BUDGET, .head_budget_max = UNITS, .floor_pct = floor};
    units_open(&u, share);
    add(&u.c, run, 0, UNITS);
    evict_values(&u.c, u.slots);
    evict(&u.c, &rule, pool, u.slots);
    for (int i = 0; i < HEADS; i++) {
        const struct cache_head *h = &u.c.kv_heads[i];
        for (int k = 0; k < h->len; k++) kept += (double)h->score[k];
        n += h->len;
    }
    assert_int_equal(n, HEADS * BUDGET);
    units_close(&u);
    return kept;
}

/* Ada-KV, Theorem 3.1: for any scores, heads that share their budget keep at least as much weight
 * as heads with equal budgets; so the bound of the L1 eviction loss, 2 C times the evicted weight,
 * is not larger. kvpress's safeguard lies between the two. */
TEST(test_sharing_keeps_more_weight)
{
    const double eps = 1e-6;
    int n_more = 0;
    for (int run = 0; run < RUNS; run++) {
        const double equal = kept_weight(CACHE_HEAD, run, 0),
                     ada = kept_weight(CACHE_LAYER, run, 0);
        const double floor = kept_weight(CACHE_LAYER, run, 20);
        assert_true(ada >= equal - eps);
        assert_true(ada >= floor - eps && floor >= equal - eps);
        n_more += ada > equal + 0.01;
    }
    assert_in_range(n_more, RUNS / 2, RUNS);
}

static void check_chunks(enum cache_share share, int run, int chunk)
{
    struct units a, b;
    const struct evict_rule rule = {.budget = BUDGET, .head_budget_max = UNITS};
    units_open(&a, share);
    units_open(&b, share);
    add(&a.c, run, 0, UNITS);
    evict_values(&a.c, a.slots);
    evict(&a.c, &rule, pool, a.slots);
    for (int p = 0; p < UNITS; p += chunk) {
        add(&b.c, run, p, chunk < UNITS - p ? chunk : UNITS - p);
        evict_values(&b.c, b.slots);
        evict(&b.c, &rule, pool, b.slots);
    }
    for (int i = 0; i < HEADS; i++) {
        const struct cache_head *x = &a.c.kv_heads[i], *y = &b.c.kv_heads[i];
        assert_int_equal(x->len, y->len);
        assert_true(share != CACHE_HEAD || x->len == BUDGET);
        assert_memory_equal(x->pos, y->pos, (size_t)x->len * sizeof *x->pos);
    }
    units_close(&a);
    units_close(&b);
}

/* Locret, Appendix N: with scores that do not change and the best b kept, evicting after each chunk
 * leaves the units that evicting once at the end leaves, for any size of chunks. */
TEST(test_chunks_keep_the_same_units)
{
    static const int chunks[] = {1, 7, 24, 50};
    for (int run = 0; run < RUNS / 10; run++)
        for (size_t i = 0; i < sizeof chunks / sizeof *chunks; i++) {
            check_chunks(CACHE_HEAD, run, chunks[i]);
            check_chunks(CACHE_LAYER, run, chunks[i]);
        }
}

static int setup(void **state)
{
    (void)state;
    return pool_open(&pool, 1, &err);
}

static int teardown(void **state)
{
    (void)state;
    pool_close(pool);
    return 0;
}

AROUND_TESTS(setup, teardown)
