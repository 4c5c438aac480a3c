#include "runtime/cache/returned.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct unit {
    uint32_t pos;
    const uint8_t *k, *v, *score;
};

static struct segment_header header_of(const struct cache *c, uint32_t end)
{
    return (struct segment_header){
        .form = SEGMENT_SPARSE,
        .n = end,
        .n_head = (uint16_t)c->shape.n_head,
        .head_dim = (uint16_t)c->shape.head_dim,
        .k_type = (uint16_t)c->shape.k_type,
        .v_type = (uint16_t)c->shape.v_type,
    };
}

/* ---- writing --------------------------------------------------------------------------------- */

/* Writes one head's part of a sparse segment. */
static void put_head(const struct unit *u, uint32_t n, size_t k_bytes, size_t v_bytes,
                     struct str *out)
{
    str_append(out, &n, sizeof n);
    for (uint32_t i = 0; i < n; i++) str_append(out, &u[i].pos, sizeof u[i].pos);
    for (uint32_t i = 0; i < n; i++) str_append(out, u[i].k, k_bytes);
    for (uint32_t i = 0; i < n; i++) str_append(out, u[i].v, v_bytes);
    for (uint32_t i = 0; i < n; i++) str_append(out, u[i].score, sizeof(float));
}

void returned_write(const struct cache *c, int layer, const struct positions *positions,
                    uint32_t end, struct str *out)
{
    struct segment_header header = header_of(c, end);
    str_append(out, &header, sizeof header);
    for (int i = 0; i < c->shape.n_head; i++) {
        const struct positions_head *p = &positions->heads[i];
        const struct cache_head *h = cache_head(c, layer, i);
        struct unit u[RETURNED_MAX];
        assert(p->n <= RETURNED_MAX);
        for (size_t j = 0; j < p->n; j++) {
            size_t s = (size_t)cache_find(h, p->pos[j]);
            u[j] = (struct unit){p->pos[j], h->k + s * c->k_bytes, h->v + s * c->v_bytes,
                                 (const uint8_t *)(h->score + s)};
        }
        put_head(u, (uint32_t)p->n, c->k_bytes, c->v_bytes, out);
    }
}

/* ---- reading --------------------------------------------------------------------------------- */

static int by_pos(const void *a, const void *b)
{
    const struct unit *x = a, *y = b;
    return (x->pos > y->pos) - (x->pos < y->pos);
}

/* Whether a segment added this unit, even if it was evicted since. */
static bool was_added(const struct segment *g, size_t n, int head, uint32_t pos)
{
    for (size_t i = 0; i < n; i++) {
        if (pos < g[i].header.pos || pos >= g[i].end) continue;
        struct segment_part p = segment_part(&g[i], head);
        if (!p.pos) return true;
        for (uint32_t j = 0; j < p.n; j++)
            if (segment_position(&g[i], &p, j) == pos) return true;
    }
    return false;
}

static size_t times_evicted(const struct positions_head *h, uint32_t pos)
{
    size_t low = 0, high = h->n, n = 0;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (h->pos[mid] < pos)
            low = mid + 1;
        else
            high = mid;
    }
    for (; low < h->n && h->pos[low] == pos; low++) n++;
    return n;
}

/* All entries' units of one head, sorted: the caller frees *out. Returns their number, -1 = out of
 * memory. */
static int64_t collect(const struct segment *back, size_t n_back, int head, struct unit **out)
{
    size_t n = 0, at = 0;
    for (size_t i = 0; i < n_back; i++) n += segment_part(&back[i], head).n;
    *out = malloc((n ? n : 1) * sizeof **out);
    if (!*out) return -1;
    for (size_t i = 0; i < n_back; i++) {
        struct segment_part p = segment_part(&back[i], head);
        for (uint32_t j = 0; j < p.n; j++)
            (*out)[at++] =
                (struct unit){segment_position(&back[i], &p, j), p.k + j * back[i].k_bytes,
                              p.v + j * back[i].v_bytes, p.score + j * sizeof(float)};
    }
    qsort(*out, n, sizeof **out, by_pos);
    return (int64_t)n;
}

/* One head's units of `back` that are alive below `end`, ascending: the caller frees *out. */
static int64_t alive_units(const struct segment *g, size_t n, const struct segment *back,
                           size_t n_back, const struct positions *evicted, int head, uint32_t end,
                           struct unit **out)
{
    int64_t n_all = collect(back, n_back, head, out), n_alive = 0;
    for (int64_t i = 0, same; i < n_all; i += same) {
        uint32_t pos = (*out)[i].pos;
        for (same = 1; i + same < n_all && (*out)[i + same].pos == pos;) same++;
        size_t came = (size_t)same + was_added(g, n, head, pos);
        if (pos < end && came > times_evicted(&evicted->heads[head], pos))
            (*out)[n_alive++] = (*out)[i];
    }
    return n_all < 0 ? -1 : n_alive;
}

static bool same_shape(const struct cache *c, const struct segment *g)
{
    struct segment_header expected = header_of(c, g->header.n);
    return !memcmp(&expected, &g->header, sizeof expected);
}

/* false: there is no room. The head already has the units of g, in its own slots. */
static bool load_head(struct cache *c, int index, const struct unit *u, int64_t n)
{
    struct cache_head *h = &c->kv_heads[index];
    for (int64_t i = 0; i < n; i++) {
        struct cache_unit unit = {.pos = u[i].pos, .k = u[i].k, .v = u[i].v};
        memcpy(&unit.score, u[i].score, sizeof unit.score);
        if (h->len == h->capacity) return false;
        cache_insert(c, index, &unit, 1);
    }
    return true;
}

bool returned_load(struct cache *c, int layer, const struct segment *g, size_t n,
                   const struct segment *back, size_t n_back, const struct positions *evicted,
                   uint32_t end)
{
    bool ok = true;
    for (size_t i = 0; i < n_back; i++)
        if (!same_shape(c, &back[i])) return false;
    for (int pass = 0; ok && pass < 2; pass++) {
        for (int i = 0; ok && i < c->shape.n_head; i++) {
            struct unit *u;
            int64_t n_units = alive_units(g, n, back, n_back, evicted, i, end, &u);
            ok = n_units >= 0;
            if (ok && pass == 0) cache_head(c, layer, i)->coming = (int)n_units;
            if (ok && pass == 1) ok = load_head(c, layer * c->shape.n_head + i, u, n_units);
            free(u);
        }
        if (ok && pass == 0) ok = cache_make_room(c, layer);
    }
    return ok;
}

int64_t returned_merge(const struct segment *g, size_t n, const struct segment *back, size_t n_back,
                       const struct positions *evicted, struct str *out)
{
    struct segment_header header = back[0].header;
    int64_t n_units = 0;
    for (size_t i = 0; i < n_back; i++)
        if (back[i].header.n > header.n) header.n = back[i].header.n;
    str_append(out, &header, sizeof header);
    for (int i = 0; n_units >= 0 && i < header.n_head; i++) {
        struct unit *u;
        int64_t n_head = alive_units(g, n, back, n_back, evicted, i, UINT32_MAX, &u);
        if (n_head >= 0) put_head(u, (uint32_t)n_head, back[0].k_bytes, back[0].v_bytes, out);
        n_units = n_head < 0 ? -1 : n_units + n_head;
        free(u);
    }
    return n_units;
}
