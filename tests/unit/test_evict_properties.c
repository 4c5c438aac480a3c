/* What the papers prove of their rules, on random scores: Ada-KV's Theorem 3.1 and Locret's
 * Appendix N. */

#include "tests/test.h"

#include "base/random.h"
#include "tests/unit/cache_kit.h"
#include "tests/unit/same_units.h"

enum { HEADS = 4, UNITS = 96, BUDGET = 24, RUNS = 200, DIM = 32 };

static void open_heads(struct units *u, bool shared)
{
    units_open(u, &(struct cache_shape){.n_layer = 1,
                                        .n_head = HEADS,
                                        .head_dim = DIM,
                                        .k_type = KN_KV_Q4,
                                        .v_type = KN_KV_Q4,
                                        .capacity = UNITS,
                                        .head_max = shared ? HEADS * UNITS : 0,
                                        .shared = shared});
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
static double kept_weight(bool shared, int run, int floor)
{
    AUTO_UNITS u;
    double kept = 0;
    int64_t n = 0;
    const struct evict_rule rule = {.budget = BUDGET, .head_budget_max = UNITS, .floor_pct = floor};
    open_heads(&u, shared);
    add(&u.c, run, 0, UNITS);
    units_cut(&u, &rule);
    for (int i = 0; i < HEADS; i++) {
        const struct cache_head *h = &u.c.kv_heads[i];
        for (int k = 0; k < h->len; k++) kept += (double)h->score[k];
        n += h->len;
    }
    assert_int_equal(n, HEADS * BUDGET);
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
        const double equal = kept_weight(false, run, 0), all = kept_weight(true, run, 0);
        const double floor = kept_weight(true, run, 20);
        assert_true(all >= equal - eps);
        assert_true(all >= floor - eps && floor >= equal - eps);
        n_more += all > equal + 0.01;
    }
    assert_in_range(n_more, RUNS / 2, RUNS);
}

static void check_chunks(bool shared, int run, int chunk)
{
    AUTO_UNITS a, b;
    const struct evict_rule rule = {.budget = BUDGET, .head_budget_max = UNITS};
    open_heads(&a, shared);
    open_heads(&b, shared);
    add(&a.c, run, 0, UNITS);
    units_cut(&a, &rule);
    for (int p = 0; p < UNITS; p += chunk) {
        add(&b.c, run, p, chunk < UNITS - p ? chunk : UNITS - p);
        units_cut(&b, &rule);
    }
    same_units(&a.c, &b.c);
    if (!shared) assert_int_equal(a.c.kv_heads[0].len, BUDGET);
}

/* Locret, Appendix N: with scores that do not change and the best b kept, evicting after each chunk
 * leaves the units that evicting once at the end leaves, for any size of chunks. */
TEST(test_chunks_keep_the_same_units)
{
    static const int chunks[] = {1, 7, 24, 50};
    for (int run = 0; run < RUNS / 10; run++)
        for (size_t i = 0; i < sizeof chunks / sizeof *chunks; i++) {
            check_chunks(false, run, chunks[i]);
            check_chunks(true, run, chunks[i]);
        }
}

AROUND_TESTS(pool_set_up, pool_tear_down)
