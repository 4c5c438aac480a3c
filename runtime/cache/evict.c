#include "runtime/cache/evict.h"

#include <assert.h>
#include <limits.h>
#include <math.h>
#include <string.h>

#include "base/check.h"
#include "base/pool.h"

#define KEY_PROTECTED INT32_MAX
#define KEY_NAN       (INT32_MIN + 1) /* below the key of every number */
#define KEY_NEVER     INT32_MIN

/* Scores as integers in the same order; -0 and 0 are the same. */
static int32_t key_of(float score)
{
    int32_t i = (int32_t)kn_bits_from_float(score + 0.0f);
    i ^= i >> 31 & INT32_MAX;
    return isnan(score) ? KEY_NAN : i;
}

struct job {
    struct cache *c;
    const struct evict_rule *rule;
    union evict_slot *slots;
    int n_newest;
};

/* Units of a head's budget without its sinks. */
static int least_room(const struct evict_rule *rule)
{
    return rule->budget > rule->sinks ? rule->budget - rule->sinks : 0;
}

int evict_pins_max(const struct evict_rule *rule)
{
    return least_room(rule) / 2;
}

int evict_newest(const struct evict_rule *rule)
{
    int64_t room = least_room(rule);
    for (int i = 0; i < rule->n_pins; i++) room -= rule->pins[i].end - rule->pins[i].from;
    if (rule->n_pins == 0 || rule->stabilizers <= room) return rule->stabilizers;
    return room > 0 ? (int)room : 0;
}

bool evict_protects(const struct evict_rule *rule, uint32_t pos)
{
    for (int i = 0; i < rule->n_pins; i++)
        if (pos >= rule->pins[i].from && pos < rule->pins[i].end) return true;
    return pos < (uint32_t)rule->sinks;
}

/* ---- selection ------------------------------------------------------------------------------- */

/* Loops over units do not branch on a key: branch prediction fails there, and without branches
 * several keys are compared at once. */

#define SAMPLE 32
#define FEW    128 /* up to this many keys are copied */

/* The border of the n largest keys: of the `all` keys that equal the last one, `equal` are
 * included. */
struct cut {
    int32_t key;
    int64_t equal, all;
};

static int count_of(const union evict_slot *s, int n, int32_t least)
{
    int count = 0;
    for (int k = 0; k < n; k++) count += s[k].key >= least;
    return count;
}

/* The number of keys that are at least `least`. */
static int64_t count_keys(const struct job *j, int first, int end, int32_t least)
{
    int64_t count = 0;
    for (int i = first; i < end; i++)
        count += count_of(j->slots + j->c->kv_heads[i].slot0, j->c->kv_heads[i].len, least);
    return count;
}

/* Samples keys at even distances, sorted ascending. Returns their number. */
static int sample_keys(const struct job *j, int first, int end, int64_t n_keys, int32_t *out)
{
    int64_t step = n_keys / SAMPLE + 1, next = step / 2;
    int n = 0;
    for (int i = first; i < end; next -= j->c->kv_heads[i++].len)
        for (; next < j->c->kv_heads[i].len; next += step) {
            int32_t key = j->slots[j->c->kv_heads[i].slot0 + (size_t)next].key;
            int at = n++;
            for (; at > 0 && out[at - 1] > key; at--) out[at] = out[at - 1];
            out[at] = key;
        }
    return n;
}

/* Copies the at most FEW keys in [low, high] to out [FEW + 1]. */
static int copy_keys(const struct job *j, int first, int end, int32_t low, int32_t high,
                     union evict_slot *out)
{
    uint32_t range = (uint32_t)high - (uint32_t)low;
    int n = 0;
    for (int i = first; i < end; i++) {
        const union evict_slot *s = j->slots + j->c->kv_heads[i].slot0;
        for (int k = 0; k < j->c->kv_heads[i].len; k++) {
            out[n] = s[k];
            n += (uint32_t)s[k].key - (uint32_t)low <= range;
        }
    }
    return n;
}

/* Over the units of heads [first, end), which are at least n >= 1. The n-th largest key is in [low,
 * high]; counting the keys above a pivot between them tells on which side of it the key is. A
 * sample gives the pivots, until few keys remain. */
static struct cut cut_keys(const struct job *j, int first, int end, int64_t n)
{
    union evict_slot few[FEW + 1];
    int32_t sample[SAMPLE], low = INT32_MIN, high = INT32_MAX;
    /* number of keys >= low, > high, > all of the few */
    int64_t from_low = 0, above = 0, above_few = 0;
    int n_few = 0, a = 0, b; /* samples in (low, high]: [a, b) */
    for (int i = first; i < end; i++) from_low += j->c->kv_heads[i].len;
    b = sample_keys(j, first, end, from_low, sample);
    while (low < high) {
        int64_t left = from_low - above, count;
        if (!n_few && left <= FEW) {
            n_few = copy_keys(j, first, end, low, high, few);
            above_few = above;
        }
        int32_t key = (int32_t)(((int64_t)low + high + 1) >> 1);
        if (a < b && !n_few) key = sample[a + (int)((from_low - n) * (b - a) / left)];
        count = n_few ? above_few + count_of(few, n_few, key) : count_keys(j, first, end, key);
        if (count >= n) {
            low = key;
            from_low = count;
        } else {
            high = key - 1;
            above = count;
        }
        while (a < b && sample[a] <= low) a++;
        while (a < b && sample[b - 1] > high) b--;
    }
    return (struct cut){low, n - above, from_low - above};
}

static bool is_above(struct cache_line l, int32_t key, int slot)
{
    return (key > l.key) | ((key == l.key) & (slot <= l.last));
}

/* The slot of a head's *n-th unit with this key; if it has fewer, *n becomes the number missing. */
static int last_equal(const struct job *j, int index, int32_t key, int64_t *n)
{
    const struct cache_head *h = &j->c->kv_heads[index];
    const union evict_slot *s = j->slots + h->slot0;
    if (*n <= 0) return -1;
    for (int k = 0; k < h->len; k++)
        if (s[k].key == key && --*n == 0) return k;
    return INT_MAX;
}

/* The line below a head's n best units; on ties the older unit wins. */
static struct cache_line line_of(const struct job *j, int index, int n)
{
    if (n <= 0) return (struct cache_line){KEY_PROTECTED, -1};
    if (n >= j->c->kv_heads[index].len) return (struct cache_line){KEY_NEVER, INT_MAX};
    struct cut cut = cut_keys(j, index, index + 1, n);
    bool all = cut.equal == cut.all;
    return (struct cache_line){cut.key, all ? INT_MAX : last_equal(j, index, cut.key, &cut.equal)};
}

/* The keys of a head's units above a line, or of those below it, become `key`. */
static void mark(const struct job *j, int index, struct cache_line l, bool above, int32_t key)
{
    union evict_slot *s = j->slots + j->c->kv_heads[index].slot0;
    int len = j->c->kv_heads[index].len;
    for (int k = 0; k < len; k++) s[k].key = is_above(l, s[k].key, k) == above ? key : s[k].key;
}

/* Converts values to keys. */
static void make_keys(const struct job *j, int index)
{
    const struct evict_rule *r = j->rule;
    const struct cache_head *h = &j->c->kv_heads[index];
    union evict_slot *s = j->slots + h->slot0;
    int len = h->len, newest = len > j->n_newest ? len - j->n_newest : 0;
    for (int k = 0; k < len; k++)
        s[k].key = k >= newest || evict_protects(r, h->pos[k]) ? KEY_PROTECTED : key_of(s[k].value);
}

/* ---- compaction ------------------------------------------------------------------------------ */

/* Most neighbours of surviving units survive too, so whole runs between two evicted units are
 * moved. */
static void compact(void *ctx, int index, int thread)
{
    const struct job *j = ctx;
    struct cache_head *h = &j->c->kv_heads[index];
    const struct cache_line l = h->line;
    /* the keys are replaced by the slots of the evicted units */
    union evict_slot *evicted = j->slots + h->slot0;
    int n_evicted = 0;
    (void)thread;
    for (int k = 0; k < h->len; k++) {
        bool in = is_above(l, evicted[k].key, k);
        evicted[n_evicted].key = k;
        n_evicted += !in;
    }
    int to = n_evicted ? evicted[0].key : h->len;
    for (int i = 0; i < n_evicted; i++) {
        int from = evicted[i].key + 1, end = i + 1 < n_evicted ? evicted[i + 1].key : h->len;
        if (from < end) cache_move(j->c, h, to, from, end - from);
        to += end - from;
    }
    h->len = to;
    cache_recount(j->c, index);
}

/* ---- heads with a separate budget ------------------------------------------------------------ */

static void evict_head(void *ctx, int index, int thread)
{
    const struct job *j = ctx;
    const int keep = j->rule->budget;
    if (j->c->kv_heads[index].len <= keep) return;
    make_keys(j, index);
    j->c->kv_heads[index].line = line_of(j, index, keep);
    compact(ctx, index, thread);
}

/* ---- heads that share a budget --------------------------------------------------------------- */

int evict_safe(const struct evict_rule *rule)
{
    return (int)((int64_t)rule->budget * rule->floor_pct / 100);
}

/* The least score of a unit by its age: 1 = the newest token. recency: N / budget. The logarithm is
 * Mitchell's (1962), linear between powers of two. */
static float least_score(uint32_t age, float recency)
{
    /* 2^23 log2 x, and 127 */
    const int32_t bits = (int32_t)kn_bits_from_float((float)age * recency);
    return -(float)(bits - 0x3f800000) * (0.693147181f / (1 << 23));
}

/* Raises each unit's key to the least key of its age. */
static void raise_recent(const struct job *j, int index)
{
    const struct cache_head *h = &j->c->kv_heads[index];
    const float recency = (float)j->rule->recency / (float)j->rule->budget;
    union evict_slot *s = j->slots + h->slot0;
    for (int k = 0; j->rule->recency && k < h->len; k++) {
        int32_t least = key_of(least_score((uint32_t)j->c->n_pos - h->pos[k], recency));
        s[k].key = s[k].key > least ? s[k].key : least;
    }
}

/* Computes one head's keys and applies its safeguard and its limit. */
static void enter_head(void *ctx, int index, int thread)
{
    const struct job *j = ctx;
    const int max = j->rule->head_budget_max, safe = evict_safe(j->rule);
    (void)thread;
    make_keys(j, index);
    if (safe) mark(j, index, line_of(j, index, safe), true, KEY_PROTECTED);
    raise_recent(j, index);
    if (max && max < j->c->kv_heads[index].len)
        mark(j, index, line_of(j, index, max), false, KEY_NEVER);
}

struct evict_share evict_share(const struct cache *c, const struct evict_rule *rule)
{
    int64_t budget = (int64_t)cache_n_heads(c) * rule->budget, may_stay = 0;
    int max = rule->head_budget_max ? rule->head_budget_max : INT_MAX;
    struct evict_share s = {0};
    for (int i = 0; i < cache_n_heads(c); i++) {
        int len = c->kv_heads[i].len;
        s.units += len;
        may_stay += len < max ? len : max;
    }
    s.keep = budget < may_stay ? budget : may_stay;
    return s;
}

/* Sets the lines of heads that share: units above them stay. */
static void choose_shared(const struct job *j, struct evict_share s)
{
    const int n = cache_n_heads(j->c);
    struct cut cut = {KEY_NEVER, 0, 0}; /* nothing is evicted */
    if (s.units > s.keep) cut = cut_keys(j, 0, n, s.keep);
    bool all = cut.equal == cut.all;
    for (int i = 0; i < n; i++) {
        int last = all ? INT_MAX : last_equal(j, i, cut.key, &cut.equal);
        j->c->kv_heads[i].line = (struct cache_line){cut.key, last};
    }
}

/* ---- eviction -------------------------------------------------------------------------------- */

bool evict_needed(const struct cache *c, const struct evict_rule *rule)
{
    if (c->shape.shared) {
        const struct evict_share s = evict_share(c, rule);
        return s.units > s.keep;
    }
    for (int i = 0; i < cache_n_heads(c); i++)
        if (c->kv_heads[i].len > rule->budget) return true;
    return false;
}

int64_t evict(struct cache *c, const struct evict_rule *rule, struct pool *p,
              union evict_slot *slots)
{
    struct job job = {c, rule, slots, evict_newest(rule)};
    int64_t before = cache_units(c);
    c->n_tried = 0;
    if (!c->shape.shared) {
        pool_run(p, cache_n_heads(c), evict_head, &job);
    } else {
        pool_run(p, cache_n_heads(c), enter_head, &job);
        choose_shared(&job, evict_share(c, rule));
        pool_run(p, cache_n_heads(c), compact, &job);
        cache_layout(c, true, p);
    }
    int64_t n_evicted = before - cache_units(c);
    c->n_evicted += n_evicted;
    c->n_evictions += n_evicted > 0;
    CHECK(cache_check(c));
    return n_evicted;
}
