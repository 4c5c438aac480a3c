#include "runtime/cache/cache.h"

#include <assert.h>
#include <limits.h>
#include <string.h>

#include "base/check.h"
#include "base/pool.h"

/* ---- the pool -------------------------------------------------------------------------------- */

size_t cache_unit_bytes(const struct cache_shape *s)
{
    return kn_kv_bytes(s->k_type, s->head_dim) + kn_kv_bytes(s->v_type, s->head_dim) +
           sizeof(float) + sizeof(uint32_t);
}

int cache_head_max(const struct cache_shape *s)
{
    return s->head_max ? s->head_max : s->capacity;
}

size_t cache_slots(const struct cache_shape *s)
{
    return (size_t)(s->n_layer * s->n_head) * (size_t)s->capacity;
}

int cache_windows_capacity(const struct cache_windows *w)
{
    return (w->n_units + 3 * KN_TILE - 2 + w->chunk) / KN_TILE * KN_TILE;
}

struct cache_shape cache_windows_shape(const struct cache_shape *s)
{
    const struct cache_windows *w = &s->windows;
    return (struct cache_shape){.n_layer = w->n_layer,
                                .n_head = w->n_head,
                                .head_dim = w->head_dim,
                                .k_type = s->k_type,
                                .v_type = s->v_type,
                                .capacity = cache_windows_capacity(w)};
}

static void plan_windows(struct cache *c, struct arena *a)
{
    const struct cache_shape shape = cache_windows_shape(&c->shape);
    struct cache planned;
    if (c->shape.windows.n_layer == 0) return;
    c->windows = arena_take(a, 1, sizeof *c->windows);
    cache_plan(c->windows ? c->windows : &planned, &shape, a);
}

void cache_plan(struct cache *c, const struct cache_shape *shape, struct arena *a)
{
    int n = shape->n_layer * shape->n_head;
    size_t slots = cache_slots(shape);
    *c = (struct cache){.shape = *shape, .col_width = 1};
    c->k_bytes = kn_kv_bytes(shape->k_type, shape->head_dim);
    c->v_bytes = kn_kv_bytes(shape->v_type, shape->head_dim);
    c->kv_heads = arena_take(a, (size_t)n, sizeof *c->kv_heads);
    c->kept = arena_take(a, (size_t)n * RETENTION_COLS, sizeof *c->kept);
    c->k = arena_take(a, slots, c->k_bytes);
    c->v = arena_take(a, slots, c->v_bytes);
    c->score = arena_take(a, slots, sizeof(float));
    c->pos = arena_take(a, slots, sizeof(uint32_t));
    plan_windows(c, a);
    if (c->kv_heads) cache_clear(c);
}

size_t cache_plan_bytes(const struct cache_shape *shape)
{
    struct cache planned;
    struct arena a;
    arena_init_plan(&a, "cache");
    cache_plan(&planned, shape, &a);
    return a.used;
}

int cache_fetch(const struct cache *c, int n, struct err *e)
{
    return c->source.fetch ? c->source.fetch(c->source.ctx, n, e) : 0;
}

int cache_fetch_state(const struct cache *c, struct err *e)
{
    return c->source.fetch_state ? c->source.fetch_state(c->source.ctx, e) : 0;
}

static void place(struct cache *c, struct cache_head *h, size_t slot0, int capacity)
{
    int max = c->shape.head_max;
    h->slot0 = slot0;
    h->capacity = max && capacity > max ? max : capacity;
    h->k = c->k + slot0 * c->k_bytes;
    h->v = c->v + slot0 * c->v_bytes;
    h->score = c->score + slot0;
    h->pos = c->pos + slot0;
}

void cache_clear(struct cache *c)
{
    c->n_tried = 0;
    const int capacity = c->shape.capacity;
    for (int i = 0; i < cache_n_heads(c); i++) {
        place(c, &c->kv_heads[i], (size_t)i * (size_t)capacity, capacity);
        c->kv_heads[i].len = c->kv_heads[i].coming = c->kv_heads[i].aside = 0;
    }
    c->n_unscored = 0;
    memset(c->kept, 0, (size_t)cache_n_heads(c) * RETENTION_COLS * sizeof *c->kept);
    recurrent_state_clear(&c->recurrent);
    c->n_pos = 0;
    c->n_loads++;
    c->col_width = 1;
    if (c->windows) cache_clear(c->windows);
}

/* ---- shared slots ---------------------------------------------------------------------------- */

struct layout {
    struct cache *c;
    int free_each;
    bool units;
};

/* Moves n units from slot `first` of a head to slot `at` of another, or the same. */
static void move_units(const struct cache *c, const struct cache_head *to, int at,
                       const struct cache_head *from, int first, int n, bool units)
{
    const size_t t = (size_t)at, f = (size_t)first, count = (size_t)n;
    if (units) memmove(to->k + t * c->k_bytes, from->k + f * c->k_bytes, count * c->k_bytes);
    if (units) memmove(to->v + t * c->v_bytes, from->v + f * c->v_bytes, count * c->v_bytes);
    memmove(to->score + t, from->score + f, count * sizeof *to->score);
    memmove(to->pos + t, from->pos + f, count * sizeof *to->pos);
}

void cache_move(const struct cache *c, struct cache_head *h, int to, int from, int n)
{
    move_units(c, h, to, h, from, n, true);
}

static void move_head(const struct layout *l, struct cache_head *h)
{
    const struct cache_head old = *h;
    assert(h->aside == 0);
    place(l->c, h, h->next_slot0, h->len + h->coming + l->free_each);
    move_units(l->c, h, 0, &old, 0, h->len, l->units);
}

/* Moves a head and those after it that do not move alone. Heads that move down are moved first,
 * from the bottom, then heads that move up, from the top: no head is written over units that have
 * yet to move. */
static void move_heads(void *ctx, int part, int thread)
{
    const struct layout *l = ctx;
    struct cache_head *heads = l->c->kv_heads, *h = &heads[part], *end = h + 1;
    (void)thread;
    if (!h->moves_alone) return;
    while (end < heads + cache_n_heads(l->c) && !end->moves_alone) end++;
    for (ptrdiff_t i = 0; i < end - h; i++)
        if (h[i].next_slot0 <= h[i].slot0) move_head(l, &h[i]);
    for (ptrdiff_t i = end - h; i-- > 0;)
        if (h[i].next_slot0 > h[i].slot0) move_head(l, &h[i]);
}

/* Heads keep their order in the pool. false = no room for the coming units. */
static bool lay_out(struct cache *c, bool units, struct pool *p)
{
    const int n = cache_n_heads(c);
    const size_t n_slots = cache_slots(&c->shape);
    struct layout l = {c, 0, units};
    size_t used = 0, to = 0, before = 0; /* where the heads before end, then or now */
    for (int i = 0; i < n; i++) used += (size_t)(c->kv_heads[i].len + c->kv_heads[i].coming);
    if (used > n_slots) return false;
    l.free_each = (int)((n_slots - used) / (size_t)n);
    for (int i = 0; i < n; i++) {
        struct cache_head *h = &c->kv_heads[i];
        h->next_slot0 = to;
        h->moves_alone = before <= to && before <= h->slot0;
        to += (size_t)(h->len + h->coming + l.free_each);
        before = (h->slot0 > h->next_slot0 ? h->slot0 : h->next_slot0) + (size_t)h->len;
    }
    if (p)
        pool_run(p, n, move_heads, &l);
    else
        for (int i = 0; i < n; i++) move_heads(&l, i, 0);
    return true;
}

void cache_layout(struct cache *c, bool units, struct pool *p)
{
    c->n_tried = 0;
    if (c->shape.shared) lay_out(c, units, p);
}

static bool make_room(struct cache *c, int layer)
{
    bool ok = true, possible = c->shape.shared;
    for (int i = 0; i < c->shape.n_head; i++) {
        const struct cache_head *h = cache_head(c, layer, i);
        ok = ok && h->coming <= h->capacity - h->len;
        possible = possible && h->len + h->coming <= cache_head_max(&c->shape);
    }
    return ok || (possible && lay_out(c, true, NULL));
}

bool cache_make_room(struct cache *c)
{
    bool ok = true;
    for (int i = 0; ok && i < c->shape.n_layer; i++) ok = make_room(c, i);
    for (int i = 0; i < cache_n_heads(c); i++) c->kv_heads[i].coming = 0;
    return ok;
}

int cache_room(const struct cache *c)
{
    int room = INT_MAX;
    for (int i = 0; i < cache_n_heads(c); i++) {
        int n = c->kv_heads[i].capacity - c->kv_heads[i].len;
        if (n < room) room = n;
    }
    return room;
}

int cache_len_max(const struct cache *c)
{
    int max = 0;
    for (int i = 0; i < cache_n_heads(c); i++)
        if (c->kv_heads[i].len > max) max = c->kv_heads[i].len;
    return max;
}

int64_t cache_units(const struct cache *c)
{
    int64_t n = 0;
    for (int i = 0; i < cache_n_heads(c); i++) n += c->kv_heads[i].len + c->kv_heads[i].aside;
    return n;
}

/* ---- counters -------------------------------------------------------------------------------- */

/* Doubles the columns' width until `n_pos` positions fit, adding neighbours. */
static void widen(struct cache *c, int64_t n_pos)
{
    while (n_pos > c->col_width * RETENTION_COLS) {
        for (int i = 0; i < cache_n_heads(c); i++) {
            uint32_t *k = c->kept + (size_t)i * RETENTION_COLS;
            for (int j = 0; j < RETENTION_COLS / 2; j++) k[j] = k[2 * j] + k[2 * j + 1];
            memset(k + RETENTION_COLS / 2, 0, RETENTION_COLS / 2 * sizeof *k);
        }
        c->col_width *= 2;
    }
}

void cache_appended(struct cache *c, int n)
{
    c->n_tried = 0;
    widen(c, c->n_pos + n);
    for (int i = 0; i < cache_n_heads(c); i++) {
        uint32_t *k = c->kept + (size_t)i * RETENTION_COLS;
        for (int64_t p = c->n_pos; p < c->n_pos + n; p++) k[p / c->col_width]++;
    }
    c->n_pos += n;
    if (c->windows) cache_appended(c->windows, n);
    CHECK(cache_check(c));
}

static void take_back(struct cache *c, int n)
{
    for (int i = 0; i < cache_n_heads(c); i++) {
        assert(c->kv_heads[i].len >= n);
        c->kv_heads[i].len -= n;
    }
}

void cache_remove_newest(struct cache *c)
{
    c->n_pos--;
    for (int i = 0; i < cache_n_heads(c); i++) {
        c->kept[(size_t)i * RETENTION_COLS + (size_t)(c->n_pos / c->col_width)]--;
        assert(c->kv_heads[i].pos[c->kv_heads[i].len - 1] == (uint32_t)c->n_pos);
    }
    if (c->windows) cache_remove_newest(c->windows);
    take_back(c, 1);
    c->n_tried = 0;
}

void cache_take_back(struct cache *c, int n)
{
    take_back(c, n);
    c->n_tried = n;
    if (c->windows) cache_take_back(c->windows, n);
}

static void accept(struct cache *c)
{
    for (int i = 0; i < cache_n_heads(c); i++) {
        struct cache_head *h = &c->kv_heads[i];
        assert(c->n_tried > 0 && h->pos[h->len] == (uint32_t)c->n_pos);
        h->len++;
    }
}

void cache_accept(struct cache *c)
{
    const int left = c->n_tried - 1;
    accept(c);
    if (c->windows) accept(c->windows);
    cache_appended(c, 1);
    c->n_tried = left;
    if (c->windows) c->windows->n_tried = left;
}

void cache_recount(struct cache *c, int index)
{
    const struct cache_head *h = &c->kv_heads[index];
    uint32_t *k = c->kept + (size_t)index * RETENTION_COLS;
    memset(k, 0, RETENTION_COLS * sizeof *k);
    int shift = 0;
    while (c->col_width >> shift > 1) shift++;
    for (int s = 0, end; s < h->len; s = end) { /* [s, end): the units of a column */
        const uint32_t col = h->pos[s] >> shift;
        for (end = s + 1; end + 16 <= h->len && h->pos[end + 15] >> shift == col;) end += 16;
        while (end < h->len && h->pos[end] >> shift == col) end++;
        k[col] = (uint32_t)(end - s);
    }
}

void cache_imported(struct cache *c, int64_t n_pos)
{
    c->n_pos = n_pos;
    c->n_loads++;
    cache_layout(c, true, NULL);
    widen(c, n_pos);
    for (int i = 0; i < cache_n_heads(c); i++) cache_recount(c, i);
    if (c->windows) cache_imported(c->windows, n_pos);
    CHECK(cache_check(c));
}

/* ---- windows --------------------------------------------------------------------------------- */

int64_t cache_windows_first(const struct cache_windows *w, int64_t n_pos)
{
    const int64_t before = n_pos - w->n_units - KN_TILE;
    return before > 0 ? before / KN_TILE * KN_TILE : 0;
}

/* Removes the oldest n units of every head. */
static void drop_oldest(struct cache *c, int n)
{
    for (int i = 0; i < cache_n_heads(c); i++) {
        struct cache_head *h = &c->kv_heads[i];
        h->len -= n;
        move_units(c, h, 0, h, n, h->len, i >= c->n_away);
        cache_recount(c, i);
    }
}

void cache_windows_make_room(struct cache *c, int n)
{
    struct cache *w = c->windows;
    if (!w || cache_room(w) >= n) return;
    const int64_t oldest = w->n_pos - w->kv_heads[0].len;
    drop_oldest(w, (int)(cache_windows_first(&c->shape.windows, w->n_pos) - oldest));
    assert(cache_room(w) >= n);
}

size_t cache_first_from(const uint32_t *pos, size_t n, uint32_t from)
{
    size_t low = 0, high = n;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (pos[mid] < from)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

int cache_slot(const struct cache_head *h, uint32_t pos)
{
    return (int)cache_first_from(h->pos, (size_t)h->len, pos);
}

void cache_count(const struct cache_head *h, int64_t pos, int n, uint16_t *out)
{
    for (int s = cache_slot(h, (uint32_t)pos); s < h->len && h->pos[s] < pos + n; s++)
        out[h->pos[s] - pos]++;
    for (int s = -h->aside; s < 0; s++)
        if (h->pos[s] >= pos && h->pos[s] < pos + n) out[h->pos[s] - pos]++;
}

int cache_find(const struct cache_head *h, int64_t pos)
{
    int s = cache_slot(h, (uint32_t)pos);
    return s < h->len && h->pos[s] == pos ? s : -1;
}

int cache_insert(struct cache *c, int index, struct cache_unit *units, int n)
{
    if (c->n_tried) c->n_tried = 0; /* not written while threads load a saved cache */
    struct cache_head *h = &c->kv_heads[index];
    int n_new = 0, end = h->len;
    for (int i = 0; i < n; i++)
        if (cache_find(h, units[i].pos) < 0) units[n_new++] = units[i];
    assert(h->len + n_new <= h->capacity);
    for (int i = n_new; i-- > 0;) {
        int at = cache_slot(h, units[i].pos);
        cache_move(c, h, at + i + 1, at, end - at);
        size_t slot = (size_t)(at + i);
        memcpy(h->k + slot * c->k_bytes, units[i].k, c->k_bytes);
        memcpy(h->v + slot * c->v_bytes, units[i].v, c->v_bytes);
        h->score[slot] = units[i].score;
        h->pos[slot] = units[i].pos;
        end = at;
    }
    h->len += n_new;
    return n_new;
}

bool cache_holds(const struct cache *c, int64_t from, int64_t end)
{
    for (int i = 0; i < cache_n_heads(c); i++) {
        const struct cache_head *h = &c->kv_heads[i];
        int s = cache_slot(h, (uint32_t)from);
        if (s < h->len && h->pos[s] < end) return true;
    }
    return false;
}

int64_t cache_drop(struct cache *c, int64_t from, int64_t end)
{
    int64_t n = 0;
    assert(c->n_unscored == 0 && end <= c->n_pos);
    c->n_tried = 0;
    for (int i = 0; i < cache_n_heads(c); i++) {
        struct cache_head *h = &c->kv_heads[i];
        int first = cache_slot(h, (uint32_t)from), last = cache_slot(h, (uint32_t)end);
        cache_move(c, h, first, last, h->len - last);
        h->len -= last - first;
        n += last - first;
        if (last > first) cache_recount(c, i);
    }
    if (n) cache_layout(c, true, NULL);
    c->n_evicted += n;
    c->n_evictions += n > 0;
    CHECK(cache_check(c));
    return n;
}
