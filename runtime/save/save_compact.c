/* Keeps loading short and the file small: writes bases, copies of a layer's live units of old
 * positions; removes old checkpoints, then the blocks and lists that no checkpoint needs. */
#include "runtime/save/save_parts.h"

#include <string.h>

#include "base/memory.h"
#include "runtime/save/save_windows.h"

/* Free bytes in the file that the next turns will use again. */
#define GIVE_BACK_ABOVE ((int64_t)16 << 20)
/* A base spares loading at least this many times the units that it has. */
#define BASE_GAIN 8

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* ---- bases ----------------------------------------------------------------------------------- */

void save_note_base(struct save *s, int layer, const struct save_base *b)
{
    struct save_bases *l = &s->bases[layer];
    l->of = memory_more(l->of, l->n, &l->max, sizeof *l->of);
    l->of[l->n++] = *b;
}

bool save_base_list(const struct store_segment *row, uint32_t *n_list)
{
    if (row->n_bytes <= sizeof *n_list) return false;
    memcpy(n_list, row->bytes, sizeof *n_list);
    return *n_list < row->n_bytes - sizeof *n_list;
}

/* Units of a layer at positions below `end`. */
static int64_t units_below(const struct cache *c, int layer, uint32_t end)
{
    int64_t n = 0;
    for (int i = 0; i < c->shape.n_head; i++) n += cache_slot(cache_head(c, layer, i), end);
    return n;
}

/* The position from which on at least half of a layer's units are alive: the first of a piece. */
static uint32_t dense_from(const struct cache *c, int layer)
{
    uint32_t from = (uint32_t)c->n_pos;
    int64_t alive = units_below(c, layer, from);
    while (from > 0) {
        const uint32_t first = (from - 1) / ARCHIVE_PIECE * ARCHIVE_PIECE;
        const int64_t below = units_below(c, layer, first);
        if (2 * (alive - below) < (int64_t)(from - first) * c->shape.n_head) break;
        alive = below;
        from = first;
    }
    return from / ARCHIVE_PIECE * ARCHIVE_PIECE;
}

/* Where the layer's next base ends, 0 = it needs none. */
static uint32_t base_end(const struct save *s, const struct cache *c, int layer)
{
    const struct save_bases *b = &s->bases[layer];
    const int64_t n_head = c->shape.n_head, from = b->n ? b->of[b->n - 1].end : 0;
    const int64_t alive = units_below(c, layer, (uint32_t)c->n_pos);
    if ((c->n_pos - from) * n_head < 2 * alive) return 0;
    const uint32_t end = dense_from(c, layer);
    const int64_t gain = (end - from) * n_head;
    return gain >= alive && gain >= BASE_GAIN * units_below(c, layer, end) ? end : 0;
}

/* Lists the positions from `end` on that a layer's heads have evicted in s->evicted. */
static void list_dead(struct save *s, const struct cache *c, int layer, uint32_t end)
{
    positions_clear(&s->evicted);
    for (int i = layer * c->shape.n_head; i < (layer + 1) * c->shape.n_head; i++) {
        const struct cache_head *h = &c->kv_heads[i];
        int slot = cache_slot(h, end);
        for (uint32_t pos = end; pos < c->n_pos; pos++) {
            if (slot < h->len && h->pos[slot] == pos)
                slot++;
            else
                positions_push(&s->evicted, i, pos);
        }
    }
}

/* The units, after the number of bytes (u32) of the list of later positions that are dead, and the
 * list. */
static int put_base(struct save *s, const struct cache *c, int layer, uint32_t end, struct err *e)
{
    struct str bytes = {0};
    uint32_t n_list = 0;
    list_dead(s, c, layer, end);
    str_append(&bytes, &n_list, sizeof n_list);
    positions_write(&s->evicted, &bytes);
    n_list = (uint32_t)(bytes.n - sizeof n_list);
    memcpy(bytes.data, &n_list, sizeof n_list);
    segment_pack_below(c, layer, end, &bytes);
    int rc = save_put_entry(s, layer, STORE_BASE, bytes.data, bytes.n, e);
    if (!rc) save_note_base(s, layer, &(struct save_base){.seq = s->next_seq, .end = end});
    str_release(&bytes);
    return rc;
}

int save_put_bases(struct save *s, const struct cache *c, int64_t written, struct err *e)
{
    const int n_layer = c->shape.n_layer, first = s->next_base;
    bool fetched = false, waits = false;
    int rc = 0;
    s->base_credit += written / 4;
    if (recall_is_aside(c)) return 0; /* a base needs all units in order */
    for (int i = 0; !rc && !waits && i < n_layer; i++) {
        const int layer = (first + i) % n_layer;
        const uint32_t end = base_end(s, c, layer);
        const int64_t bytes =
            units_below(c, layer, end) * (int64_t)(cache_unit_bytes(&c->shape) + sizeof(uint32_t));
        waits = end && bytes > s->base_credit;
        s->next_base = layer;
        if (!end || waits) continue;
        if (!fetched) rc = cache_fetch(c, cache_len_max(c), e);
        fetched = true;
        if (!rc) rc = put_base(s, c, layer, end, e);
        s->base_credit -= bytes;
    }
    if (fetched) s->next_seq++;
    if (!waits) s->base_credit = 0;
    return rc;
}

/* ---- forgetting ------------------------------------------------------------------------------ */

/* Bytes kept for a checkpoint and those after it: units evicted since, which are about as many as
 * those added, and the recurrent state at each. */
static int64_t bytes_since(const struct save *s, const struct cache *c, size_t point)
{
    return (c->n_pos - s->points[point].n_run) * (int64_t)archive_position_bytes(&c->shape) +
           (int64_t)(s->n_points - 1 - point) * s->state_bytes +
           save_windows_bytes_since(c, s->points[point].n_run);
}

/* Reads where a base ends that was written before the log was loaded; false = it is damaged. */
static bool find_end(struct save *s, struct save_base *b)
{
    struct store_segment row;
    struct segment_header units;
    uint32_t n_list;
    if (b->end) return true;
    int rc = save_get_entry(s, &b->blob, &row, NULL);
    store_blob_done(s->store);
    if (rc || !save_base_list(&row, &n_list) || row.n_bytes - sizeof n_list - n_list < sizeof units)
        return false;
    memcpy(&units, (const uint8_t *)row.bytes + sizeof n_list + n_list, sizeof units);
    b->end = units.n;
    return true;
}

/* Removes blocks and lists that are older than the bases that the oldest checkpoint needs. */
static int forget_blocks(struct save *s, struct err *e)
{
    int64_t seq = INT64_MAX;
    uint32_t end = UINT32_MAX;
    for (int i = 0; i < s->n_layer; i++) {
        struct save_bases *b = &s->bases[i];
        size_t n = 0;
        while (n + 1 < b->n && b->of[n + 1].seq <= s->points[0].seq) n++;
        if (n) memmove(b->of, b->of + n, (b->n - n) * sizeof *b->of);
        b->n -= n;
        if (b->n == 0 || b->of[0].seq > s->points[0].seq || !find_end(s, &b->of[0])) return 0;
        if (b->of[0].seq < seq) seq = b->of[0].seq;
        if (b->of[0].end < end) end = b->of[0].end;
    }
    int rc = store_block_drop(s->store, s->conversation, end, seq, e);
    return rc ? rc : store_lists_forget(s->store, s->conversation, seq, SAVE_LISTS, e);
}

int save_forget_points(struct save *s, const struct cache *c, struct err *e)
{
    /* however large a state is: those of the last turn stay, so that its answer can be
     * regenerated */
    const int64_t alive = cache_units(c) * (int64_t)cache_unit_bytes(&c->shape);
    const int64_t limit =
        larger(alive + save_windows_bytes(c), s->rewind_bytes) + 2 * s->state_bytes;
    size_t n = 0;
    if (s->n_points < 2 || bytes_since(s, c, 0) <= limit) return 0;
    /* Frees more than the excess, so that not every save has to search. */
    while (n + 1 < s->n_points && bytes_since(s, c, n) > limit / 4 * 3) n++;
    int rc = store_checkpoint_forget(s->store, s->conversation, s->points[n].seq, e);
    if (!rc) rc = save_windows_forget(s, c, n, e);
    if (rc) return rc;
    s->n_points -= n;
    memmove(s->points, s->points + n, s->n_points * sizeof *s->points);
    return forget_blocks(s, e);
}

void save_compact(struct save *s, const struct cache *c)
{
    if (s->broken || s->n_points == 0 || save_forget_points(s, c, NULL)) return;
    store_give_back(s->store, GIVE_BACK_ABOVE);
}
