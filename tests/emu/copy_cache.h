/* copy_cache: copies the contents of one host cache to another of the same shape. */
#ifndef RETAIN_TESTS_EMU_COPY_CACHE_H
#define RETAIN_TESTS_EMU_COPY_CACHE_H

#include <string.h>

#include "runtime/cache/cache.h"

/* Copies units, positions and scores of all heads; the counters follow. */
static inline void copy_cache(struct cache *to, const struct cache *from)
{
    for (int i = 0; i < from->shape.n_layer * from->shape.n_head; i++) {
        const struct cache_head *a = &from->kv_heads[i];
        struct cache_head *b = &to->kv_heads[i];
        const size_t n = (size_t)a->len;
        b->len = a->len;
        memcpy(b->k, a->k, n * from->k_bytes);
        memcpy(b->v, a->v, n * from->v_bytes);
        memcpy(b->pos, a->pos, n * sizeof *b->pos);
        memcpy(b->score, a->score, n * sizeof *b->score);
    }
    cache_imported(to, from->n_pos);
}

#endif
