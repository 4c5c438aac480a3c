/* Invariants of the cache and its archive. */
#include <assert.h>

#include "runtime/cache/archive.h"
#include "runtime/cache/cache.h"

/* Units are in position order, none is newer than the positions seen, and all of them are
 * counted. */
static void check_head(const struct cache *c, int index)
{
    const struct cache_head *h = &c->kv_heads[index];
    int64_t n_counted = 0;
    assert(h->len >= 0 && h->len <= h->capacity && h->aside >= 0);
    assert((size_t)h->aside <= h->slot0);
    assert(h->pos == c->pos + h->slot0 && h->score == c->score + h->slot0);
    assert(h->len == 0 || h->pos[h->len - 1] < c->n_pos);
    for (int s = 1; s < h->len; s++) assert(h->pos[s - 1] < h->pos[s]);
    for (int i = 0; i < RETENTION_COLS; i++) {
        const uint32_t n = c->kept[(size_t)index * RETENTION_COLS + (size_t)i];
        assert(n <= c->col_width);
        n_counted += n;
    }
    assert(n_counted == h->len + h->aside);
}

void cache_check(const struct cache *c)
{
    const int n = cache_n_heads(c);
    const size_t n_slots = cache_slots(&c->shape);
    assert(c->n_unscored >= 0 && c->n_unscored <= CACHE_UNSCORED_MAX && c->n_tried >= 0);
    assert(c->n_away >= 0 && c->n_away <= n);
    assert(c->col_width > 0 && (c->col_width & (c->col_width - 1)) == 0);
    assert(c->n_pos <= c->col_width * RETENTION_COLS);
    for (int i = 0; i < n; i++) {
        const struct cache_head *h = &c->kv_heads[i];
        assert(h->slot0 + (size_t)h->capacity <= n_slots);
        assert(i == 0 || h[-1].slot0 + (size_t)(h[-1].capacity + h->aside) <= h->slot0);
        check_head(c, i);
    }
    if (!c->windows) return;
    assert(c->windows->n_pos == c->n_pos);
    cache_check(c->windows);
}

/* Positions are ordered, and adjacent inside a piece; a slot is free or of one position. */
void archive_check(const struct archive *x)
{
    int n = 0, of_piece = 0;
    assert(x->n_units >= 0 && x->n_units <= x->n_max && x->n >= x->n_units && x->n <= x->n_index);
    assert(!x->units || x->n_units + x->n_free == x->n_max);
    for (int i = 0; i < x->n; i++) {
        const bool units = archive_has_units(x, i), first = x->flags[i] & ARCHIVE_FIRST;
        assert(i == 0 || x->pos[i - 1] < x->pos[i]);
        assert(units ? first || (of_piece && x->pos[i - 1] + 1 == x->pos[i]) : !first);
        assert(!x->units || !units || x->slot[i] < (uint32_t)x->n_max);
        of_piece = units ? first ? 1 : of_piece + 1 : 0;
        assert(of_piece <= ARCHIVE_PIECE);
        n += units;
    }
    assert(n == x->n_units);
}
