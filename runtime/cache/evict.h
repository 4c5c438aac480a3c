/* evict: cuts the heads of a cache down to the budget and closes the gaps.
 *
 * Units with the highest scores stay; the first `sinks` positions of the conversation and the
 * newest `stabilizers` units of each head stay whatever their score. Ties are resolved in favour of
 * the lower head, then of the older unit, so that a run repeats. Survivors keep their order: slot
 * order is position order.
 *
 * Heads that share a region of the pool (cache.h) share its budget: their units compete, except
 * that each head keeps its own best fifth of a budget, and none gets more than `head_budget_max`.
 */
#ifndef RETAIN_RUNTIME_CACHE_EVICT_H
#define RETAIN_RUNTIME_CACHE_EVICT_H

#include <stddef.h>
#include <stdint.h>

#include "runtime/cache/cache.h"

struct policy;
struct pool;

struct evict_rule {
    int budget; /* units per head that stay, on average; sinks + stabilizers <= budget */
    int sinks, stabilizers;
    int head_budget_max;         /* of one head where heads share; 0 = no limit */
    const struct policy *policy; /* for its second scorer; NULL = none */
    uint64_t seed;
};

/* A number per slot of the pool, at cache_head.slot0 + slot: the scorer's opinion on the way in. */
union evict_slot {
    float value;
    int32_t key;
};

/* Is any head, or group of heads that share, over its budget? */
bool evict_needed(const struct cache *c, const struct evict_rule *rule);

/* Units per head of a layer that stay, on average over its heads. */
int evict_layer_budget(const struct cache *c, const struct evict_rule *rule, int layer);

/* Heads [first, end) that share, and how many of the units they hold stay. */
struct evict_group {
    int first, end;
    int64_t units, keep;
};
int evict_n_groups(const struct cache *c);
/* One layer's group; all heads, where all share. */
struct evict_group evict_group(const struct cache *c, const struct evict_rule *rule, int layer);

/* Where heads share: a head's best units that stay whatever the others have. */
int evict_safe(const struct cache *c, const struct evict_rule *rule, int layer);

/* The stored scores as values. */
void evict_values(const struct cache *c, union evict_slot *slots);

/* Returns the number of units that went. slots [cache_slots] hold values, and are used up. */
int64_t evict(struct cache *c, const struct evict_rule *rule, struct pool *p,
              union evict_slot *slots);

#endif
