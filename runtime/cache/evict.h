/* evict: reduces the heads of a cache to the budget and closes the gaps.
 *
 * Units with the highest scores stay; the first `sinks` positions of the conversation and the
 * newest `stabilizers` units of each head stay whatever their score, and so do pinned ones. Ties
 * are resolved in favour of the lower head, then of the older unit, so that a run repeats.
 * Survivors keep their order: slot order is position order.
 *
 * Heads that share the slots (cache.h) share the budget: their units compete. A safeguard for heads
 * with low scores: each head keeps its own best units, up to floor_pct of a budget, before the
 * others compete (kvpress). No head gets more than `head_budget_max`.
 *
 * Retaining heads do not know a unit's age, but running text needs its newest units. With a recency
 * N, the unit of the a-th newest token competes with at least
 *
 *   log(budget / (N a)),
 *
 * as if it got that share of attention: it displaces units that are worth little, not facts, and
 * the rule is the same at every budget. */
#ifndef RETAIN_RUNTIME_CACHE_EVICT_H
#define RETAIN_RUNTIME_CACHE_EVICT_H

#include <stdint.h>

#include "runtime/cache/cache.h"

struct pool;

/* Positions [from, end). */
struct evict_pin {
    uint32_t from, end;
};

struct evict_rule {
    int budget; /* units per head that stay, on average; sinks + stabilizers <= budget */
    int sinks, stabilizers;
    int head_budget_max; /* limit of one head if heads share; 0 = none */
    int floor_pct;       /* if heads share */
    int recency;         /* if heads share, and scores are logarithms of shares; 0 = none */
    /* [n_pins], at most EVICT_PINS_MAX; their units stay like sinks: not more than fit */
    const struct evict_pin *pins;
    int n_pins;
};

#define EVICT_PINS_MAX 64

/* The most positions that may be pinned: half of a head's budget without its sinks. */
int evict_pins_max(const struct evict_rule *rule);

/* How many of a head's newest units stay: the stabilizers, fewer where pins need their room. */
int evict_newest(const struct evict_rule *rule);

/* Whether a position is a sink or pinned. */
bool evict_protects(const struct evict_rule *rule, uint32_t pos);

/* A number per slot of the pool, at cache_head.slot0 + slot: on input the scorer's value. */
union evict_slot {
    float value;
    int32_t key;
};

/* Whether any head, or all if they share, is over its budget. */
bool evict_needed(const struct cache *c, const struct evict_rule *rule);

/* If heads share: their units, and how many of these stay. */
struct evict_share {
    int64_t units, keep;
};
struct evict_share evict_share(const struct cache *c, const struct evict_rule *rule);

/* If heads share: how many of a head's best units stay whatever the other heads have. */
int evict_safe(const struct evict_rule *rule);

/* Returns the number of evicted units. slots [cache_slots] hold values on input, and are
 * overwritten. */
int64_t evict(struct cache *c, const struct evict_rule *rule, struct pool *p,
              union evict_slot *slots);

#endif
