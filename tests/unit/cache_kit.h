/* cache_kit: a cache without a model, whose units are made by arithmetic, for the tests and the
 * measurement of saving. */
#ifndef RETAIN_TESTS_CACHE_KIT_H
#define RETAIN_TESTS_CACHE_KIT_H

#include <string.h>

#include "base/arena.h"
#include "runtime/cache/cache.h"

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

#endif
