/* same_units: whether two caches have the same units, to the bit. */
#ifndef RETAIN_TESTS_SAME_UNITS_H
#define RETAIN_TESTS_SAME_UNITS_H

#include "runtime/session/session_parts.h"
#include "tests/test.h"

static inline const struct cache *session_cache(const struct session *s)
{
    return &s->ctx.cache;
}

static inline void same_units(const struct cache *a, const struct cache *b)
{
    assert_int_equal(a->n_pos, b->n_pos);
    assert_int_equal(a->col_width, b->col_width);
    for (int i = 0; i < a->shape.n_layer * a->shape.n_head; i++) {
        const struct cache_head *p = &a->kv_heads[i], *q = &b->kv_heads[i];
        size_t n = (size_t)p->len;
        assert_int_equal(p->len, q->len);
        assert_memory_equal(p->pos, q->pos, n * sizeof *p->pos);
        assert_memory_equal(p->k, q->k, n * a->k_bytes);
        assert_memory_equal(p->v, q->v, n * a->v_bytes);
        assert_memory_equal(p->score, q->score, n * sizeof *p->score);
    }
    assert_memory_equal(a->kept, b->kept,
                        (size_t)(a->shape.n_layer * a->shape.n_head) * RETENTION_COLS * 4);
}

#endif
