/* cache_kit: a cache without a model, whose units are made by arithmetic, and its evictions, for
 * tests of the cache and of saving, and for the measurement of saving. */
#ifndef RETAIN_TESTS_CACHE_KIT_H
#define RETAIN_TESTS_CACHE_KIT_H

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/pool.h"
#include "runtime/cache/cache.h"
#include "runtime/cache/evict.h"

/* An empty cache; the caller releases the arena. */
static inline int cache_kit_open(struct cache *c, struct arena *a, const struct cache_shape *shape,
                                 struct err *e)
{
    struct arena plan;
    arena_init_plan(&plan, "cache");
    cache_plan(c, shape, &plan);
    int rc = arena_init(a, "cache", plan.used, e);
    if (!rc) cache_plan(c, shape, a);
    return rc;
}

/* Appends n units to each head: bytes and scores are a hash of position and head. */
static inline void cache_kit_append(struct cache *c, int n)
{
    for (int i = 0; i < c->shape.n_layer * c->shape.n_head; i++) {
        struct cache_head *h = &c->kv_heads[i];
        for (int t = 0; t < n; t++, h->len++) {
            uint32_t pos = (uint32_t)(c->n_pos + t), x = (pos * 2654435761u + (uint32_t)i) * 40503u;
            h->pos[h->len] = pos;
            h->score[h->len] = (float)(x >> 8);
            memset(h->k + (size_t)h->len * c->k_bytes, (int)(x >> 16), c->k_bytes);
            memset(h->v + (size_t)h->len * c->v_bytes, (int)(x >> 24), c->v_bytes);
        }
    }
    cache_appended(c, n);
}

/* ---- a cache that is cut by its scores ------------------------------------------------------- */

struct units {
    struct cache c;
    struct arena arena;
    union evict_slot *slots;
};

static struct pool *pool; /* of all tests of a program */

static inline int pool_set_up(void **state)
{
    struct err e;
    return pool_open(&pool, 2, &e);
}

static inline int pool_tear_down(void **state)
{
    pool_close(pool);
    return 0;
}

static inline void units_open(struct units *u, const struct cache_shape *shape)
{
    struct err e;
    u->slots = malloc(cache_slots(shape) * sizeof *u->slots);
    if (!u->slots || cache_kit_open(&u->c, &u->arena, shape, &e)) abort();
}

static inline void units_release(struct units *u)
{
    arena_release(&u->arena);
    free(u->slots);
}

#define AUTO_UNITS __attribute__((cleanup(units_release))) struct units

/* Fills `slots` with the stored scores. */
static inline void evict_values(const struct cache *c, union evict_slot *slots)
{
    for (int i = 0; i < cache_n_heads(c); i++)
        for (int k = 0; k < c->kv_heads[i].len; k++)
            slots[c->kv_heads[i].slot0 + (size_t)k].value = c->kv_heads[i].score[k];
}

static inline int64_t units_cut(struct units *u, const struct evict_rule *rule)
{
    evict_values(&u->c, u->slots);
    return evict(&u->c, rule, pool, u->slots);
}

#endif
