/* What is dead in a saved cache goes: checkpoints that hold too much, then layers that are mostly
 * made of units nobody can go back to. */
#include "runtime/session/save_parts.h"

#include <stdlib.h>
#include <string.h>

#include "store/store.h"

/* Free bytes in the file that the next turns will fill again. */
#define GIVE_BACK_ABOVE ((int64_t)16 << 20)
/* As many layers per call as stay below this. */
#define COMPACT_BYTES_MAX ((int64_t)32 << 20)

static size_t unit_bytes(const struct cache *c)
{
    return c->k_bytes + c->v_bytes + sizeof(float) + sizeof(uint32_t);
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Units that went after a checkpoint. */
static int64_t gone_since(const struct save *s, size_t point)
{
    int64_t n = 0;
    for (int i = 0; i < s->n_layer; i++)
        n += s->n_gone[i] - s->n_gone_at[point * (size_t)s->n_layer + (size_t)i];
    return n;
}

/* Bytes that are kept for a checkpoint and those after it: units that went since, and what the
 * policy remembered at each. */
static int64_t bytes_since(const struct save *s, const struct cache *c, size_t point)
{
    return gone_since(s, point) * (int64_t)unit_bytes(c) +
           (int64_t)(s->n_points - 1 - point) * s->memory_bytes;
}

int save_forget_points(struct save *s, const struct cache *c, struct err *e)
{
    int64_t limit = larger(cache_units(c) * (int64_t)unit_bytes(c), s->rewind_bytes);
    size_t n = 0, row = (size_t)s->n_layer;
    if (s->n_points < 2 || bytes_since(s, c, 0) <= limit) return 0;
    /* More than what is over, so that not every save has to look. */
    while (n + 1 < s->n_points && bytes_since(s, c, n) > limit / 4 * 3) n++;
    int rc = store_checkpoint_forget(s->store, s->conversation, s->points[n].seq, e);
    if (rc) return rc;
    s->n_points -= n;
    memmove(s->points, s->points + n, s->n_points * sizeof *s->points);
    memmove(s->n_gone_at, s->n_gone_at + n * row, s->n_points * row * sizeof *s->n_gone_at);
    return 0;
}

/* Units of a layer that nothing needs any more; 0 while they are fewer than those alive, or all
 * layers' would be less than half of what is kept for going back. */
static int64_t dead_units(const struct save *s, const struct cache *c, int layer)
{
    int64_t alive = 0;
    for (int i = 0; i < c->shape.n_head; i++) alive += cache_head(c, layer, i)->len;
    int64_t kept = s->n_gone[layer] - s->n_gone_at[layer]; /* the oldest checkpoint needs them */
    int64_t dead = s->n_stored[layer] - alive - kept;
    int64_t limit = larger(alive, s->rewind_bytes / 2 / s->n_layer / (int64_t)unit_bytes(c));
    return dead > limit ? dead : 0;
}

struct compaction {
    int64_t horizon; /* log entries up to here become one */
    struct segment *segments;
    size_t n, max;
    struct str *bytes; /* [n] of segments */
    struct gone gone;
    struct str memory; /* the newest up to there stays as it is */
    enum store_kind memory_kind;
    int64_t memory_seq;
    struct err *e;
};

static int take_old(void *ctx, const struct store_segment *g)
{
    struct compaction *k = ctx;
    if (g->seq > k->horizon) return 0;
    if (g->kind == STORE_GONE) return gone_read(&k->gone, g->bytes, g->n_bytes) ? 0 : ERR_FORMAT;
    if (memory_is(g->bytes, g->n_bytes)) {
        str_clear(&k->memory);
        str_append(&k->memory, g->bytes, g->n_bytes);
        k->memory_kind = g->kind;
        k->memory_seq = g->seq;
        return 0;
    }
    if (k->n == k->max) {
        size_t max = k->max ? 2 * k->max : 64;
        struct segment *segments = realloc(k->segments, max * sizeof *segments);
        if (segments) k->segments = segments;
        struct str *bytes = realloc(k->bytes, max * sizeof *bytes);
        if (bytes) k->bytes = bytes;
        if (!segments || !bytes) return save_out_of_memory(k->e);
        k->max = max;
    }
    struct str *copy = &k->bytes[k->n];
    *copy = (struct str){0};
    str_append(copy, g->bytes, g->n_bytes);
    return segment_open(&k->segments[k->n++], copy->data, copy->n) ? 0 : ERR_FORMAT;
}

/* One layer's entries up to the horizon become one sparse segment, in one transaction. */
static int compact_layer(struct save *s, const struct cache *c, int layer, struct err *e)
{
    struct compaction k = {.horizon = s->points[0].seq, .e = e};
    struct str merged = {0};
    int64_t end_pos, n_units = 0, n_before = 0;
    int rc = gone_init(&k.gone, c->shape.n_head) ? 0 : save_out_of_memory(e);
    if (!rc) rc = store_begin(s->store, e);
    if (!rc) rc = store_segment_each(s->store, s->conversation, layer, take_old, &k, e);
    if (!rc && (k.n == 0 || !segments_join(k.segments, k.n, &end_pos))) rc = ERR_FORMAT;
    if (!rc) {
        gone_sort(&k.gone);
        n_units = segments_merge(k.segments, k.n, &k.gone, &merged);
        for (size_t i = 0; i < k.n; i++) n_before += k.segments[i].n_units;
        rc = store_segment_delete(s->store, s->conversation, layer, 0, k.horizon, e);
    }
    struct store_segment row = {.seq = k.horizon,
                                .layer = layer,
                                .kind = STORE_UNITS,
                                .bytes = merged.data,
                                .n_bytes = merged.n};
    struct store_segment memory = {.seq = k.memory_seq,
                                   .layer = layer,
                                   .kind = k.memory_kind,
                                   .bytes = k.memory.data,
                                   .n_bytes = k.memory.n};
    if (!rc) rc = store_segment_put(s->store, s->conversation, &row, e);
    if (!rc && k.memory.n) rc = store_segment_put(s->store, s->conversation, &memory, e);
    if (!rc) rc = store_commit(s->store, e);
    store_rollback(s->store);
    if (!rc) s->n_stored[layer] += n_units - n_before;
    for (size_t i = 0; i < k.n; i++) str_release(&k.bytes[i]);
    free(k.segments);
    free(k.bytes);
    gone_release(&k.gone);
    str_release(&k.memory);
    str_release(&merged);
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
    store_give_back(s->store, GIVE_BACK_ABOVE);
}
