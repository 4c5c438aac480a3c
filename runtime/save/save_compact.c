/* Removes dead parts of a saved cache: first checkpoints that keep too much, then layers in which
 * most units are needed by no checkpoint. */
#include "runtime/save/save_parts.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/save/past_list.h"
#include "base/memory.h"
#include "runtime/save/save_windows.h"

/* Free bytes in the file that the next turns will use again. */
#define GIVE_BACK_ABOVE ((int64_t)16 << 20)
/* The lists that remain of merged entries are at most this part of the merged units, or of the
 * bytes kept for rewinding. */
#define PAST_SHARE 8
/* Limit of the layers' size per call. */
#define COMPACT_BYTES_MAX ((int64_t)32 << 20)

static size_t unit_bytes(const struct cache *c)
{
    return c->k_bytes + c->v_bytes + sizeof(float) + sizeof(uint32_t);
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Units evicted after a checkpoint. */
static int64_t evicted_since(const struct save *s, size_t point)
{
    int64_t n = 0;
    for (int i = 0; i < s->n_layer; i++)
        n += s->n_evicted[i] - s->n_evicted_at[point * (size_t)s->n_layer + (size_t)i];
    return n;
}

/* Bytes kept for a checkpoint and those after it: units evicted since, and the policy's state at
 * each. */
static int64_t bytes_since(const struct save *s, const struct cache *c, size_t point)
{
    return evicted_since(s, point) * (int64_t)unit_bytes(c) +
           (int64_t)(s->n_points - 1 - point) * s->policy_state_bytes +
           save_windows_bytes_since(c, s->points[point].n_run);
}

int save_forget_points(struct save *s, const struct cache *c, struct err *e)
{
    /* however large a state is: those of the last turn stay, so that its answer can be regenerated
     */
    const int64_t alive = cache_units(c) * (int64_t)unit_bytes(c) + save_windows_bytes(c);
    const int64_t limit = larger(alive, s->rewind_bytes) + 2 * s->policy_state_bytes;
    size_t n = 0, row = (size_t)s->n_layer;
    if (s->n_points < 2 || bytes_since(s, c, 0) <= limit) return 0;
    /* Frees more than the excess, so that not every save has to search. */
    while (n + 1 < s->n_points && bytes_since(s, c, n) > limit / 4 * 3) n++;
    int rc = store_checkpoint_forget(s->store, s->conversation, s->points[n].seq, e);
    if (!rc) rc = save_windows_forget(s, c, n, e);
    if (rc) return rc;
    s->n_points -= n;
    memmove(s->points, s->points + n, s->n_points * sizeof *s->points);
    memmove(s->n_evicted_at, s->n_evicted_at + n * row,
            s->n_points * row * sizeof *s->n_evicted_at);
    return 0;
}

/* Number of units of a layer that are not needed; 0 if they are fewer than the live ones, or if
 * those of all layers are less than half of the bytes kept for rewinding. */
static int64_t dead_units(const struct save *s, const struct cache *c, int layer)
{
    int64_t alive = 0;
    for (int i = 0; i < c->shape.n_head; i++) alive += cache_head(c, layer, i)->len;
    int64_t kept =
        s->n_evicted[layer] - s->n_evicted_at[layer]; /* the oldest checkpoint needs them */
    int64_t dead = s->n_stored[layer] - alive - kept;
    int64_t limit = larger(alive, s->rewind_bytes / 2 / s->n_layer / (int64_t)unit_bytes(c));
    return dead > limit ? dead : 0;
}

static size_t past_bytes_max(const struct save *s, size_t merged_bytes)
{
    return (size_t)larger((int64_t)merged_bytes, s->rewind_bytes / s->n_layer) / PAST_SHARE;
}

struct compaction {
    int64_t horizon;    /* log entries up to here are merged */
    struct entry_list { /* of the layer: units added; units that returned */
        struct segment *of;
        struct str *bytes; /* [n] theirs */
        size_t n, max;
    } added, returned;
    struct positions evicted;
    struct past_list past;   /* the lists of the merged entries */
    struct str policy_state; /* the newest state up to there is kept */
    enum store_kind policy_state_kind;
    int64_t policy_state_seq;
    struct err *e;
};

static int list_push(struct entry_list *l, const struct store_segment *g)
{
    size_t max = l->max;
    l->of = memory_more(l->of, l->n, &max, sizeof *l->of);
    l->bytes = memory_more(l->bytes, l->n, &l->max, sizeof *l->bytes);
    struct str *copy = &l->bytes[l->n];
    *copy = (struct str){0};
    str_append(copy, g->bytes, g->n_bytes);
    return segment_open(&l->of[l->n++], copy->data, copy->n) ? 0 : ERR_FORMAT;
}

static void list_release(struct entry_list *l)
{
    for (size_t i = 0; i < l->n; i++) str_release(&l->bytes[i]);
    free(l->of);
    free(l->bytes);
}

static int take_old(void *ctx, const struct store_segment *g)
{
    struct compaction *k = ctx;
    if (g->seq > k->horizon) return 0;
    if (!past_list_take(&k->past, g)) return ERR_FORMAT;
    if (g->kind == STORE_PAST) return 0;
    if (g->kind == STORE_EVICTED)
        return positions_read(&k->evicted, g->bytes, g->n_bytes) ? 0 : ERR_FORMAT;
    if (policy_state_is(g->bytes, g->n_bytes)) {
        str_clear(&k->policy_state);
        str_append(&k->policy_state, g->bytes, g->n_bytes);
        k->policy_state_kind = g->kind;
        k->policy_state_seq = g->seq;
        return 0;
    }
    return list_push(g->kind == STORE_RETURNED ? &k->returned : &k->added, g);
}

static int put_merged(struct save *s, int layer, int64_t seq, enum store_kind kind,
                      const struct str *bytes, struct err *e)
{
    struct store_segment row = {
        .seq = seq, .layer = layer, .kind = kind, .bytes = bytes->data, .n_bytes = bytes->n};
    return bytes->n ? store_segment_put(s->store, s->conversation, &row, e) : 0;
}

/* Merges the live units of all entries: *n_units fewer than before. */
static int merge(struct compaction *k, struct str *added, struct str *returned, int64_t *n_units)
{
    int64_t end_pos, n_back = 0;
    if (k->added.n == 0 || !segments_join(k->added.of, k->added.n, &end_pos)) return ERR_FORMAT;
    positions_sort(&k->evicted);
    *n_units = -segments_merge(k->added.of, k->added.n, &k->evicted, added);
    if (k->returned.n)
        n_back = returned_merge(k->added.of, k->added.n, k->returned.of, k->returned.n, &k->evicted,
                                returned);
    *n_units -= n_back;
    for (size_t i = 0; i < k->added.n; i++) *n_units += k->added.of[i].n_units;
    for (size_t i = 0; i < k->returned.n; i++) *n_units += k->returned.of[i].n_units;
    return n_back < 0 ? save_out_of_memory(k->e) : 0;
}

/* Merges one layer's entries up to the horizon into one sparse segment, and one of the returned
 * units, in one transaction. */
static int compact_layer(struct save *s, const struct cache *c, int layer, struct err *e)
{
    struct compaction k = {.horizon = s->points[0].seq, .e = e};
    struct str added = {0}, returned = {0};
    int64_t n_dead = 0;
    bool ok = positions_init(&k.evicted, c->shape.n_head) && past_list_init(&k.past, c);
    int rc = ok ? 0 : save_out_of_memory(e);
    if (!rc) rc = store_begin(s->store, e);
    if (!rc) rc = store_segment_each(s->store, s->conversation, layer, take_old, &k, e);
    if (!rc) rc = merge(&k, &added, &returned, &n_dead);
    if (!rc) rc = store_segment_delete(s->store, s->conversation, layer, 0, k.horizon, e);
    if (!rc) rc = put_merged(s, layer, k.horizon, STORE_UNITS, &added, e);
    if (!rc) rc = put_merged(s, layer, k.horizon, STORE_RETURNED, &returned, e);
    past_list_limit(&k.past, past_bytes_max(s, added.n));
    if (!rc) rc = put_merged(s, layer, k.horizon, STORE_PAST, &k.past.bytes, e);
    if (!rc) rc = put_merged(s, layer, k.policy_state_seq, k.policy_state_kind, &k.policy_state, e);
    if (!rc) rc = store_commit(s->store, e);
    store_rollback(s->store);
    if (!rc) s->n_stored[layer] -= n_dead;
    list_release(&k.added);
    list_release(&k.returned);
    positions_release(&k.evicted);
    past_list_release(&k.past);
    str_release(&k.policy_state);
    str_release(&added);
    str_release(&returned);
    return rc;
}

void save_compact(struct save *s, const struct cache *c)
{
    struct err ignored;
    int64_t bytes = 0;
    if (s->broken || s->n_points == 0 || save_forget_points(s, c, &ignored)) return;
    for (int i = 0; i < c->shape.n_layer && bytes < COMPACT_BYTES_MAX; i++) {
        int64_t dead = dead_units(s, c, i);
        if (dead == 0) continue;
        bytes += (s->n_stored[i] - dead) * (int64_t)unit_bytes(c);
        if (compact_layer(s, c, i, &ignored)) return;
    }
    if (bytes) memory_return_free();
    store_give_back(s->store, GIVE_BACK_ABOVE);
}
