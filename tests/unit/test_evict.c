/* Eviction on hand-made scores: the survivors were derived by hand from the rule in evict.h. */
#include "tests/test.h"

#include <math.h>

#include "base/random.h"
#include "runtime/cache/segment.h"
#include "tests/unit/cache_kit.h"
#include "tests/unit/same_units.h"

enum { DIM = 32, CAPACITY = 64, MANY = 900 };

static void setup_for(struct units *u, int n_layer, int n_head, int capacity)
{
    units_open(u, &(struct cache_shape){.n_layer = n_layer,
                                        .n_head = n_head,
                                        .head_dim = DIM,
                                        .k_type = KN_KV_Q4,
                                        .v_type = KN_KV_Q8,
                                        .capacity = capacity});
}

static void setup(struct units *u, int n_layer, int n_head)
{
    setup_for(u, n_layer, n_head, CAPACITY);
}

/* A unit whose bytes depend on its position: moved units must arrive whole. */
static void put(struct cache *c, struct cache_head *h, uint32_t pos, float score)
{
    size_t s = (size_t)h->len++;
    memset(h->k + s * c->k_bytes, (int)pos + 1, c->k_bytes);
    memset(h->v + s * c->v_bytes, (int)pos + 101, c->v_bytes);
    h->score[s] = score;
    h->pos[s] = pos;
}

static void fill(struct units *f, const float *scores, int n)
{
    for (int i = 0; i < f->c.shape.n_layer * f->c.shape.n_head; i++)
        for (int p = 0; p < n; p++) put(&f->c, &f->c.kv_heads[i], (uint32_t)p, scores[p]);
    cache_appended(&f->c, n);
}

static void expect(const struct cache *c, const struct cache_head *h, const uint32_t *pos, int n)
{
    assert_int_equal(h->len, n);
    for (int s = 0; s < n; s++) {
        assert_int_equal(h->pos[s], pos[s]);
        for (size_t b = 0; b < c->k_bytes; b++)
            assert_int_equal(h->k[(size_t)s * c->k_bytes + b], pos[s] + 1);
        for (size_t b = 0; b < c->v_bytes; b++)
            assert_int_equal(h->v[(size_t)s * c->v_bytes + b], pos[s] + 101);
    }
}

TEST(test_highest_scores_stay_in_order)
{
    AUTO_UNITS f;
    const float scores[] = {5, 1, 9, -3, 7, 2, 8, 0};
    setup(&f, 2, 3);
    fill(&f, scores, 8);
    struct evict_rule rule = {.budget = 4};
    assert_int_equal(units_cut(&f, &rule), 6 * 4);
    for (int i = 0; i < 6; i++) expect(&f.c, &f.c.kv_heads[i], (const uint32_t[]){0, 2, 4, 6}, 4);
    assert_int_equal(f.c.n_evicted, 24);
}

TEST(test_protected_units_count_inside_the_budget)
{
    AUTO_UNITS f;
    const float scores[] = {-9, 1, 9, 8, 7, 2, -8, -7};
    setup(&f, 1, 1);
    fill(&f, scores, 8);
    /* Kept: 1 sink (0), 2 stabilizers (6, 7), and the best one of the rest (2). */
    struct evict_rule rule = {.budget = 4, .sinks = 1, .stabilizers = 2};
    units_cut(&f, &rule);
    expect(&f.c, &f.c.kv_heads[0], (const uint32_t[]){0, 2, 6, 7}, 4);
}

TEST(test_ties_keep_the_older)
{
    AUTO_UNITS f;
    const float scores[] = {1, 1, 1, 2, 1, 1};
    setup(&f, 1, 1);
    fill(&f, scores, 6);
    struct evict_rule rule = {.budget = 3};
    units_cut(&f, &rule);
    expect(&f.c, &f.c.kv_heads[0], (const uint32_t[]){0, 1, 3}, 3);
}

TEST(test_nan_and_infinity)
{
    AUTO_UNITS f;
    const float scores[] = {NAN, INFINITY, -INFINITY, -NAN, 0, -1};
    setup(&f, 1, 1);
    fill(&f, scores, 6);
    struct evict_rule rule = {.budget = 3};
    units_cut(&f, &rule);
    expect(&f.c, &f.c.kv_heads[0], (const uint32_t[]){1, 4, 5}, 3);
}

/* Scores that are close, equal, of every size, of both signs, and not numbers at all. */
static float score_of(int kind, int i)
{
    float x = (float)random_at(11, (uint64_t)kind, (uint64_t)i);
    switch (kind) {
    case 0: return x;
    case 1: return 1000.0f + 1e-3f * x;
    case 2: return x < 0.7f ? 1.0f : 2.0f;
    case 3: return 1.0f;
    case 4: return ldexpf(x - 0.5f, (int)(250 * x) - 125);
    case 5: return x < 0.1f ? NAN : x < 0.2f ? INFINITY : x < 0.3f ? -INFINITY : x - 0.6f;
    default: return x < 0.99f ? -1e-42f * x : x;
    }
}

struct ranked {
    bool protected;
    float score;
    int pos;
};

static int by_rank(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;
    if (x->protected != y->protected) return x->protected ? -1 : 1;
    if (isnan(x->score) != isnan(y->score)) return isnan(x->score) ? 1 : -1;
    if (x->score > y->score || x->score < y->score) return x->score > y->score ? -1 : 1;
    return x->pos - y->pos;
}

static void check_many(int kind, int budget)
{
    AUTO_UNITS f;
    struct ranked units[MANY];
    bool stays[MANY] = {false};
    setup_for(&f, 1, 1, MANY);
    struct evict_rule rule = {.budget = budget, .sinks = 4, .stabilizers = budget / 8};
    for (int p = 0; p < MANY; p++) {
        bool kept = p < rule.sinks || p >= MANY - rule.stabilizers;
        units[p] = (struct ranked){kept, score_of(kind, p), p};
        put(&f.c, &f.c.kv_heads[0], (uint32_t)p, units[p].score);
    }
    cache_appended(&f.c, MANY);
    qsort(units, MANY, sizeof *units, by_rank);
    for (int i = 0; i < budget; i++) stays[units[i].pos] = true;
    units_cut(&f, &rule);
    assert_int_equal(f.c.kv_heads[0].len, budget);
    for (int p = 0, s = 0; p < MANY; p++)
        if (stays[p]) assert_int_equal(f.c.kv_heads[0].pos[s++], p);
}

TEST(test_many_units_as_sorted)
{
    static const int budgets[] = {4, 5, 37, 300, 899};
    for (int kind = 0; kind < 7; kind++)
        for (int i = 0; i < 5; i++) check_many(kind, budgets[i]);
}

TEST(test_heads_of_different_length)
{
    AUTO_UNITS f;
    setup(&f, 1, 3);
    struct cache_head *h = f.c.kv_heads;
    for (uint32_t p = 0; p < 2; p++) put(&f.c, &h[0], p, 1);
    for (uint32_t p = 0; p < 6; p++) put(&f.c, &h[2], 10 + p, (float)p);
    cache_imported(&f.c, 16);
    struct evict_rule rule = {.budget = 3, .sinks = 2};
    assert_int_equal(units_cut(&f, &rule), 3);
    expect(&f.c, &h[0], (const uint32_t[]){0, 1}, 2);
    expect(&f.c, &h[1], NULL, 0);
    expect(&f.c, &h[2], (const uint32_t[]){13, 14, 15}, 3);
}

/* Compares counters, bitmaps and segments with the tables, over many random evictions. */
static void check_counters(const struct cache *c)
{
    for (int i = 0; i < c->shape.n_layer * c->shape.n_head; i++) {
        uint32_t expected[RETENTION_COLS] = {0};
        for (int s = 0; s < c->kv_heads[i].len; s++)
            expected[c->kv_heads[i].pos[s] / c->col_width]++;
        assert_memory_equal(expected, c->kept + (size_t)i * RETENTION_COLS, sizeof expected);
    }
}

TEST(test_counters_after_1000_evictions)
{
    AUTO_UNITS f;
    setup(&f, 2, 2);
    struct cache *c = &f.c;
    for (int round = 0; round < 1000; round++) {
        int n = 1 + (int)(random_at(7, 1, (uint64_t)round) * 20);
        for (int i = 0; i < 4; i++)
            for (int t = 0; t < n; t++) {
                struct cache_head *h = &c->kv_heads[i];
                h->pos[h->len] = (uint32_t)(c->n_pos + t);
                h->score[h->len++] = (float)random_at(7, 2 + (uint64_t)i, (uint64_t)(c->n_pos + t));
            }
        cache_appended(c, n);
        struct evict_rule rule = {.budget = 40, .sinks = 2, .stabilizers = 5};
        units_cut(&f, &rule);
        check_counters(c);
    }
    assert_true(c->n_pos > RETENTION_COLS && c->col_width > 1);
    uint16_t kept[64];
    int64_t total = 0;
    for (int64_t p = 0; p < c->n_pos; p += 64) {
        memset(kept, 0, sizeof kept);
        for (int i = 0; i < 4; i++) cache_count(&c->kv_heads[i], p, 64, kept);
        for (int j = 0; j < 64; j++) total += kept[j];
    }
    assert_int_equal(total, cache_units(c));
}

TEST(test_segments_bring_survivors_back)
{
    AUTO_UNITS a, b;
    float scores[30];
    setup(&a, 1, 2);
    setup(&b, 1, 2);
    for (int p = 0; p < 30; p++) scores[p] = (float)random_at(3, 1, (uint64_t)p);
    fill(&a, scores, 30);
    size_t n = segment_bytes(&a.c, SEGMENT_DENSE, 2, 30);
    uint8_t *bytes = malloc(n);
    struct segment g;
    struct positions evicted;
    segment_pack(&a.c, SEGMENT_DENSE, 0, 2, 0, 30, bytes);
    struct evict_rule rule = {.budget = 11, .stabilizers = 3};
    units_cut(&a, &rule);
    positions_init(&evicted, 2);
    for (int i = 0; i < 2; i++)
        for (uint32_t p = 0, s = 0; p < 30; p++) {
            bool alive = (int)s < a.c.kv_heads[i].len && a.c.kv_heads[i].pos[s] == p;
            if (alive)
                s++;
            else
                positions_push(&evicted, i, p);
        }
    assert_int_equal(positions_count(&evicted), 2 * 19);
    assert_true(segment_open(&g, bytes, n));
    assert_true(segment_expect(&b.c, 0, NULL, &evicted, 30) && cache_make_room(&b.c));
    assert_true(segment_load_block(&b.c, &g, (const uint32_t[]){0}, &evicted, 30));
    cache_imported(&b.c, 30);
    same_units(&a.c, &b.c);
    check_counters(&b.c);
    /* Damaged or foreign bytes are refused and change nothing. */
    struct segment bad;
    assert_false(segment_open(&bad, bytes, n - 1));
    bytes[0] ^= 4;
    assert_false(segment_open(&bad, bytes, n));
    bytes[0] ^= 4;
    bytes[12] ^= 1; /* another number of heads */
    assert_false(segment_open(&bad, bytes, n));
    bytes[12] ^= 1;
    bytes[16] ^= 32; /* keys as older versions packed them */
    assert_false(segment_open(&bad, bytes, n));
    assert_int_equal(b.c.kv_heads[0].len, 11);
    positions_release(&evicted);
    free(bytes);
}

AROUND_TESTS(pool_set_up, pool_tear_down)
