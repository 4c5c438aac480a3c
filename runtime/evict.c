#include "runtime/evict.h"

#include <limits.h>
#include <math.h>
#include <string.h>

#include "runtime/base/pool.h"
#include "runtime/policy.h"

/* kvpress's alpha_safeguard: what a head keeps of its own choice, in percent of a budget. */
#define SAFEGUARD_PCT 20

#define KEY_PROTECTED UINT32_MAX
#define KEY_NAN       1 /* below every number */
#define KEY_NEVER     0

/* Scores as unsigned numbers in the same order; -0 and 0 are the same. */
static uint32_t key_of(float score)
{
    uint32_t u;
    if (isnan(score)) return KEY_NAN;
    score += 0.0f;
    memcpy(&u, &score, sizeof u);
    return u & 0x80000000u ? ~u : u | 0x80000000u;
}

/* The number a key was made of. */
static float value_of(uint32_t key)
{
    float v;
    uint32_t u = key & 0x80000000u ? key & 0x7fffffffu : ~key;
    if (key == KEY_NAN) return NAN;
    memcpy(&v, &u, sizeof v);
    return v;
}

struct job {
    struct cache *c;
    const struct evict_rule *rule;
    union evict_slot *slots;
};

static int n_heads(const struct cache *c)
{
    return c->shape.n_layer * c->shape.n_head;
}

int evict_layer_budget(const struct cache *c, const struct evict_rule *rule, int layer)
{
    return rule->budget + cache_layer_capacity(&c->shape, layer) - c->shape.capacity;
}

/* ---- selection ------------------------------------------------------------------------------- */

#define BUCKETS 256
#define FEW     32 /* keys that are sorted instead */

/* Keys of units whose score decides. */
struct keys {
    uint32_t lowest, highest;
    int64_t n, n_protected;
};

static struct keys survey_keys(const struct job *j, int first, int end)
{
    struct keys all = {UINT32_MAX, 0, 0, 0};
    for (int i = first; i < end; i++) {
        const union evict_slot *s = j->slots + j->c->heads[i].slot0;
        for (int k = 0; k < j->c->heads[i].len; k++) {
            uint32_t key = s[k].key;
            all.n_protected += key == KEY_PROTECTED;
            if (key == KEY_PROTECTED || key == KEY_NEVER) continue;
            all.n++;
            all.lowest = key < all.lowest ? key : all.lowest;
            all.highest = key > all.highest ? key : all.highest;
        }
    }
    return all;
}

/* Keys in [lowest, lowest + range]: how many fall into each bucket of 1 << shift. */
static void count_keys(const struct job *j, int first, int end, uint32_t lowest, uint32_t range,
                       int shift, int32_t count[BUCKETS])
{
    memset(count, 0, BUCKETS * sizeof *count);
    for (int i = first; i < end; i++) {
        const union evict_slot *s = j->slots + j->c->heads[i].slot0;
        for (int k = 0; k < j->c->heads[i].len; k++) {
            uint32_t above = s[k].key - lowest; /* beyond any range where the key is lower */
            if (above <= range) count[above >> shift]++;
        }
    }
}

/* The n-th largest of the at most FEW keys in [lowest, lowest + range]. */
static uint32_t select_of_few(const struct job *j, int first, int end, uint32_t lowest,
                              uint32_t range, int64_t n, int64_t *equal)
{
    uint32_t few[FEW]; /* sorted, the largest first */
    int m = 0, larger = (int)n - 1;
    for (int i = first; i < end; i++) {
        const union evict_slot *s = j->slots + j->c->heads[i].slot0;
        for (int k = 0; k < j->c->heads[i].len; k++) {
            if (s[k].key - lowest > range) continue;
            int at = m++;
            for (; at > 0 && few[at - 1] < s[k].key; at--) few[at] = few[at - 1];
            few[at] = s[k].key;
        }
    }
    while (larger > 0 && few[larger - 1] == few[n - 1]) larger--;
    *equal = n - larger;
    return few[n - 1];
}

/* Over the units of heads [first, end): the n-th largest key (n >= 1), and in *equal how many of
 * the keys equal to it belong to the n largest. What lies between the lowest and the highest is cut
 * into buckets, the one that holds the n-th again, until few keys are left in it. */
static uint32_t select_key(const struct job *j, int first, int end, int64_t n, int64_t *equal)
{
    struct keys all = survey_keys(j, first, end);
    uint32_t lowest = all.lowest, range = all.highest - all.lowest;
    *equal = n;
    if (n <= all.n_protected) return KEY_PROTECTED;
    n -= all.n_protected;
    *equal = n - all.n;
    if (n > all.n) return KEY_NEVER;
    for (int64_t left = all.n; left > FEW && range;) {
        int32_t count[BUCKETS];
        int shift = 0, b = BUCKETS - 1;
        while (range >> shift >= BUCKETS) shift++;
        count_keys(j, first, end, lowest, range, shift, count);
        while (count[b] < n) n -= count[b--];
        left = count[b];
        lowest += (uint32_t)b << shift;
        range -= (uint32_t)b << shift;
        if (range >> shift) range = (1u << shift) - 1;
    }
    *equal = n;
    return range ? select_of_few(j, first, end, lowest, range, n, equal) : lowest;
}

/* The keys of a head's n best units become *best, those of the others *rest; NULL = as they are. Of
 * equal units the older is better. */
static void mark_best(const struct job *j, int index, int n, const uint32_t *best,
                      const uint32_t *rest)
{
    const struct cache_head *h = &j->c->heads[index];
    union evict_slot *s = j->slots + h->slot0;
    int64_t equal = 0;
    uint32_t threshold = n > 0 && n < h->len ? select_key(j, index, index + 1, n, &equal) : 0;
    for (int k = 0; k < h->len; k++) {
        bool in = n >= h->len ||
                  (n > 0 && (s[k].key > threshold || (s[k].key == threshold && equal-- > 0)));
        if (in && best) s[k].key = *best;
        if (!in && rest) s[k].key = *rest;
    }
}

/* Values become keys. Where there is a second scorer, the first one's choice is protected, and it
 * is asked about the others. */
static void make_keys(const struct job *j, int index, int budget)
{
    const struct evict_rule *r = j->rule;
    const struct policy *p = r->policy;
    const struct cache_head *h = &j->c->heads[index];
    union evict_slot *s = j->slots + h->slot0;
    bool two = p && p->second != POLICY_NONE;
    uint32_t threshold = 0;
    int64_t equal = 0;
    for (int k = 0; k < h->len; k++) {
        bool protect = h->pos[k] < (uint32_t)r->sinks || k >= h->len - r->stabilizers;
        s[k].key = protect ? KEY_PROTECTED : key_of(s[k].value);
    }
    int n = two ? (int)((int64_t)budget * (100 - p->second_pct) / 100) : 0;
    if (!two || n >= h->len) return;
    if (n > 0) threshold = select_key(j, index, index + 1, n, &equal);
    for (int k = 0; k < h->len; k++) {
        bool in = n > 0 && (s[k].key > threshold || (s[k].key == threshold && equal-- > 0));
        bool protect = s[k].key == KEY_PROTECTED;
        if (!in && !protect)
            s[k].key = key_of(
                policy_second(p, r->seed, index, h->pos[k], value_of(s[k].key), h->score[k]));
        else
            s[k].key = KEY_PROTECTED;
    }
}

/* ---- compaction ------------------------------------------------------------------------------ */

static void move_units(const struct cache *c, struct cache_head *h, int to, int from, int n)
{
    if (to == from || n == 0) return;
    size_t t = (size_t)to, f = (size_t)from, m = (size_t)n;
    memmove(h->k + t * c->k_bytes, h->k + f * c->k_bytes, m * c->k_bytes);
    memmove(h->v + t * c->v_bytes, h->v + f * c->v_bytes, m * c->v_bytes);
    memmove(h->score + t, h->score + f, m * sizeof *h->score);
    memmove(h->pos + t, h->pos + f, m * sizeof *h->pos);
}

static void compact(void *ctx, int index, int thread)
{
    const struct job *j = ctx;
    struct cache_head *h = &j->c->heads[index];
    const union evict_slot *s = j->slots + h->slot0;
    int to = 0, n = 0; /* units that stay: in their place; side by side before k */
    (void)thread;
    for (int k = 0; k < h->len; k++) {
        if (s[k].key > h->stay_key || (s[k].key == h->stay_key && h->stay_equal-- > 0)) {
            n++;
            continue;
        }
        move_units(j->c, h, to, k - n, n);
        to += n;
        n = 0;
    }
    move_units(j->c, h, to, h->len - n, n);
    h->len = to + n;
    cache_recount(j->c, index);
}

/* ---- heads on their own ---------------------------------------------------------------------- */

static void evict_head(void *ctx, int index, int thread)
{
    const struct job *j = ctx;
    int64_t equal;
    int keep = evict_layer_budget(j->c, j->rule, index / j->c->shape.n_head);
    if (j->c->heads[index].len <= keep) return;
    make_keys(j, index, keep);
    struct cache_head *h = &j->c->heads[index];
    h->stay_key = select_key(j, index, index + 1, keep, &equal);
    h->stay_equal = (int)equal;
    compact(ctx, index, thread);
}

/* ---- heads that share ------------------------------------------------------------------------ */

int evict_safe(const struct cache *c, const struct evict_rule *rule, int layer)
{
    return (int)((int64_t)evict_layer_budget(c, rule, layer) * SAFEGUARD_PCT / 100);
}

/* Keys, the safeguard and the limit of one head. */
static void enter_head(void *ctx, int index, int thread)
{
    static const uint32_t always = KEY_PROTECTED, never = KEY_NEVER;
    const struct job *j = ctx;
    int layer = index / j->c->shape.n_head, max = j->rule->head_budget_max;
    (void)thread;
    make_keys(j, index, evict_layer_budget(j->c, j->rule, layer));
    mark_best(j, index, evict_safe(j->c, j->rule, layer), &always, NULL);
    if (max) mark_best(j, index, max, NULL, &never);
}

int evict_n_groups(const struct cache *c)
{
    return c->shape.share == CACHE_MODEL ? 1 : c->shape.n_layer;
}

bool evict_group(const struct cache *c, const struct evict_rule *rule, int layer,
                 struct evict_group *g)
{
    bool all = c->shape.share == CACHE_MODEL;
    int64_t budget = 0, units = 0, may_stay = 0;
    int max = rule->head_budget_max ? rule->head_budget_max : INT_MAX;
    g->first = all ? 0 : layer * c->shape.n_head;
    g->end = all ? n_heads(c) : g->first + c->shape.n_head;
    for (int i = g->first; i < g->end; i++) {
        int len = c->heads[i].len;
        budget += evict_layer_budget(c, rule, i / c->shape.n_head);
        units += len;
        may_stay += len < max ? len : max;
    }
    g->keep = budget < may_stay ? budget : may_stay;
    return units > budget;
}

/* Chooses what stays of a group's heads. */
static void choose_in_group(const struct job *j, int layer)
{
    struct evict_group g;
    int64_t equal = INT64_MAX; /* nothing goes: all keys reach the lowest one */
    uint32_t threshold = KEY_NEVER;
    if (evict_group(j->c, j->rule, layer, &g))
        threshold = select_key(j, g.first, g.end, g.keep, &equal);
    for (int i = g.first; i < g.end; i++) {
        struct cache_head *h = &j->c->heads[i];
        const union evict_slot *s = j->slots + h->slot0;
        int here = 0;
        for (int k = 0; k < h->len; k++) here += s[k].key == threshold;
        h->stay_key = threshold;
        h->stay_equal = here < equal ? here : (int)equal;
        equal -= h->stay_equal;
    }
}

/* ---- the whole ------------------------------------------------------------------------------- */

bool evict_needed(const struct cache *c, const struct evict_rule *rule)
{
    struct evict_group g;
    if (c->shape.share != CACHE_HEAD) {
        for (int i = 0; i < evict_n_groups(c); i++)
            if (evict_group(c, rule, i, &g)) return true;
        return false;
    }
    for (int i = 0; i < n_heads(c); i++)
        if (c->heads[i].len > evict_layer_budget(c, rule, i / c->shape.n_head)) return true;
    return false;
}

void evict_values(const struct cache *c, union evict_slot *slots)
{
    for (int i = 0; i < n_heads(c); i++)
        for (int k = 0; k < c->heads[i].len; k++)
            slots[c->heads[i].slot0 + (size_t)k].value = c->heads[i].score[k];
}

int64_t evict(struct cache *c, const struct evict_rule *rule, struct pool *p,
              union evict_slot *slots)
{
    struct job job = {c, rule, slots};
    int64_t before = cache_units(c);
    if (c->shape.share == CACHE_HEAD) {
        pool_run(p, n_heads(c), evict_head, &job);
    } else {
        pool_run(p, n_heads(c), enter_head, &job);
        for (int i = 0; i < evict_n_groups(c); i++) choose_in_group(&job, i);
        pool_run(p, n_heads(c), compact, &job);
        cache_layout(c, true);
    }
    int64_t gone = before - cache_units(c);
    c->n_evicted += gone;
    c->n_evictions += gone > 0;
    return gone;
}
