/* Every row of the policy table, and both kinds of budgets, against tests/golden/policies.txt:
 * survivors computed by an independent implementation (make_policies.py), with heads of different
 * lengths and with ties. */
#include <math.h>

#include "tests/unit/layer_kit.h"

enum { OLD = 24, SEED = 7, MANY = 64 };

/* The inputs: make_policies.py's number(). */
static float number(uint32_t i)
{
    return (float)((i * 2654435761u + 12345u) >> 8) / 8388608.0f - 1.0f;
}

/* One line of the file: the units that one head keeps. */
struct expected {
    char policy[32];
    bool steps; /* NAME/1: a unit is evicted after each token */
    int budget, sinks, stabilizers, most, head;
    uint32_t pos[MANY];
    int n;
};

static bool read_line(FILE *f, struct expected *x)
{
    char line[512];
    int used, more;
    do {
        if (!fgets(line, sizeof line, f)) return false;
    } while (*line == '#');
    assert_int_equal(sscanf(line, "%31s %d %d %d %d %d%n", x->policy, &x->budget, &x->sinks,
                            &x->stabilizers, &x->most, &x->head, &used),
                     6);
    char *slash = strchr(x->policy, '/');
    x->steps = slash != NULL;
    if (slash) *slash = 0;
    for (x->n = 0; sscanf(line + used, "%u%n", &x->pos[x->n], &more) == 1; used += more) x->n++;
    return true;
}

static void check_head(const struct cache *c, const struct expected *x)
{
    const struct cache_head *h = &c->kv_heads[x->head];
    bool same = h->len == x->n;
    for (int s = 0; same && s < x->n; s++) same = h->pos[s] == x->pos[s];
    if (same) return;
    printf("%s, head %d keeps", x->policy, x->head);
    for (int s = 0; s < h->len; s++) printf(" %u", h->pos[s]);
    fail_msg("%s", "another choice was expected");
}

/* Runs tokens [first, first + n) through the layer. */
static void run(struct layer *l, int first, int n)
{
    for (int i = 0; i < KV; i++)
        for (int t = first; t < first + n; t++) {
            float score = roundf(number((uint32_t)(99991 + i * N + t)) * 8) / 8;
            if (l->policy.scorer == POLICY_RANDOM) score = policy_score(&l->policy, SEED, i, t);
            layer_append(l, i, t, score);
        }
    cache_appended(&l->c, n);
}

/* Removes units as an earlier eviction would: the heads have different lengths from here on. */
static void drop_some(struct layer *l)
{
    for (int i = 0; i < KV; i++) {
        struct cache_head *h = &l->c.kv_heads[i];
        size_t to = 0;
        for (size_t s = 0; s < OLD; s++) {
            bool stays = i == 0 ? s % 5 == 0 || s % 5 == 2 : s % 7 != 1 && s % 7 != 5;
            if (!stays) continue;
            memmove(h->k + to * l->c.k_bytes, h->k + s * l->c.k_bytes, l->c.k_bytes);
            memmove(h->v + to * l->c.v_bytes, h->v + s * l->c.v_bytes, l->c.v_bytes);
            h->score[to] = h->score[s];
            h->pos[to++] = h->pos[s];
        }
        h->len = (int)to;
    }
    cache_imported(&l->c, OLD);
}

static struct layer *layer_of(const struct expected *x)
{
    static float mean[] = {0.25f, -0.5f}, std[] = {0.5f, 2.0f};
    /* this layer is the whole model */
    struct layer *l = layer_new(x->policy, policy_named(x->policy)->shared, SEED);
    l->heads = (struct retaining){.label_is_share = true, .label_mean = mean, .label_std = std};
    l->f.retaining = &l->heads;
    for (int i = 0; i < N * ROW; i++) l->qkv[i / ROW][i % ROW] = number((uint32_t)i) + 0.25f;
    return l;
}

/* Reads the text as the script does: token by token, or 24 tokens, of which some are dropped, and
 * 24 more. */
static void read_text(struct layer *l, const struct evict_rule *rule, bool steps)
{
    for (int t = 0; t < N && steps; t++) {
        run(l, t, 1);
        score_values(&l->f, &l->c);
        evict(&l->c, rule, pool, l->f.slots);
    }
    if (steps) return;
    run(l, 0, OLD);
    drop_some(l);
    cache_layout(&l->c, true, NULL);
    run(l, OLD, N - OLD);
    score_values(&l->f, &l->c);
    evict(&l->c, rule, pool, l->f.slots);
}

/* Checks the two lines of a policy. */
static void check_policy(const struct expected x[KV])
{
    struct layer *l = layer_of(&x[0]);
    struct evict_rule rule = {.budget = x->budget,
                              .sinks = x->sinks,
                              .stabilizers = x->stabilizers,
                              .head_budget_max = 24, /* if heads share, as in the script */
                              .floor_pct = l->policy.floor_pct,
                              .recency = l->policy.recency ? 1 : 0}; /* as in the script */
    read_text(l, &rule, x->steps);
    for (int i = 0; i < KV; i++) check_head(&l->c, &x[i]);
    layer_free(l);
}

/* ---- budgets --------------------------------------------------------------------------------- */

enum { LAYERS = 3 };

static void check_budgets(const struct expected x[LAYERS * KV], bool shared)
{
    AUTO_UNITS u;
    struct cache_shape shape = {.n_layer = LAYERS,
                                .n_head = KV,
                                .head_dim = DIM,
                                .k_type = KN_KV_Q4,
                                .v_type = KN_KV_Q4,
                                .capacity = 24 + x->budget,
                                .shared = shared};
    struct evict_rule rule = {.budget = x->budget,
                              .sinks = x->sinks,
                              .stabilizers = x->stabilizers,
                              .head_budget_max = shape.shared ? x->most : 0,
                              .floor_pct = 20};
    if (shape.shared) shape.head_max = 24 + x->budget;
    units_open(&u, &shape);
    for (int i = 0; i < LAYERS * KV; i++) {
        struct cache_head *h = &u.c.kv_heads[i];
        for (int p = 0; p < 8 + 3 * i; p++) {
            h->pos[p] = (uint32_t)p;
            h->score[p] = roundf(number((uint32_t)(77777 + 64 * i + p)) * 4) / 4 + (float)(i / KV);
        }
        h->len = 8 + 3 * i;
    }
    cache_imported(&u.c, 23);
    units_cut(&u, &rule);
    for (int i = 0; i < LAYERS * KV; i++) check_head(&u.c, &x[i]);
}

/* ---- all lines ------------------------------------------------------------------------------- */

TEST(test_golden)
{
    FILE *f = fopen("tests/golden/policies.txt", "r");
    struct expected x[LAYERS * KV];
    char seen[1024] = " ";
    int n_budgets = 0;
    assert_non_null(f);
    while (read_line(f, &x[0])) {
        const bool shared = !strcmp(x[0].policy, "shared");
        const bool budgets = shared || !strcmp(x[0].policy, "alone");
        for (int i = 1; i < (budgets ? LAYERS * KV : KV); i++) assert_true(read_line(f, &x[i]));
        if (budgets)
            check_budgets(x, shared);
        else
            check_policy(x);
        n_budgets += budgets;
        strcat(strcat(seen, x[0].policy), " ");
    }
    fclose(f);
    assert_int_equal(n_budgets, 3);
    for (int i = 0; policy_at(i); i++) {
        char word[40];
        snprintf(word, sizeof word, " %s ", policy_at(i)->name);
        if (policy_at(i)->scorer != POLICY_KEEP_ALL && !strstr(seen, word))
            fail_msg("policies.txt says nothing of %s", policy_at(i)->name);
    }
}

AROUND_TESTS(pool_set_up, pool_tear_down)
