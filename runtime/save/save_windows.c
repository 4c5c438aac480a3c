#include "runtime/save/save_windows.h"

#include <stdlib.h>

#include "base/memory.h"

static int64_t unit_bytes(const struct cache *w)
{
    return (int64_t)(w->k_bytes + w->v_bytes + sizeof(float)) * w->shape.n_layer * w->shape.n_head;
}

/* ---- writing --------------------------------------------------------------------------------- */

static void pack(const struct cache *w, int layer, int n, uint8_t *out)
{
    segment_pack(w, SEGMENT_DENSE, layer * w->shape.n_head, w->shape.n_head, w->n_pos - n, n, out);
}

int save_windows_put(struct save *s, const struct cache *c, int n, struct err *e)
{
    const struct cache *w = c->windows;
    if (!w) return 0;
    if (n > w->kv_heads[0].len) n = w->kv_heads[0].len;
    const size_t bytes = segment_bytes(w, SEGMENT_DENSE, w->shape.n_head, n);
    int rc = save_reserve(s, bytes, e);
    for (int i = 0; !rc && i < w->shape.n_layer; i++) {
        pack(w, i, n, s->bytes);
        rc = save_put_entry(s, c->shape.n_layer + i, STORE_WINDOWS, s->bytes, bytes, e);
    }
    return rc;
}

static size_t one_bytes(const struct cache *w)
{
    return segment_bytes(w, SEGMENT_DENSE, w->shape.n_head, 1);
}

size_t save_windows_tail_bytes(const struct cache *c)
{
    const struct cache *w = c->windows;
    return w ? (size_t)w->shape.n_layer * one_bytes(w) : 0;
}

void save_windows_put_tail(const struct cache *c, uint8_t *out)
{
    const struct cache *w = c->windows;
    for (int i = 0; w && i < w->shape.n_layer; i++, out += one_bytes(w)) pack(w, i, 1, out);
}

/* ---- loading --------------------------------------------------------------------------------- */

struct load {
    struct save *s;
    struct cache *c;
    int64_t from, end; /* positions */
    int64_t seq_min;   /* entries before it have none of them */
    struct store_blob *blobs;
    size_t n_blobs, blobs_max;
    struct err *e;
};

static int take_blob(void *ctx, const struct store_blob *b)
{
    struct load *l = ctx;
    if (b->segment.kind != STORE_WINDOWS || b->segment.seq < l->seq_min) return 0;
    l->blobs = memory_more(l->blobs, l->n_blobs, &l->blobs_max, sizeof *l->blobs);
    l->blobs[l->n_blobs++] = *b;
    return 0;
}

/* An entry's positions end at the checkpoint after it, or before. */
static int64_t first_entry(const struct save *s, int64_t from)
{
    int64_t seq = 0;
    for (size_t i = 0; i < s->n_points; i++)
        if (s->points[i].n_run <= from) seq = s->points[i].seq;
    return seq;
}

static int load_entry(struct load *l, int layer, const struct store_blob *b, bool *ok)
{
    struct store_segment row;
    struct segment g;
    int rc = save_get_entry(l->s, b, &row, l->e);
    if (rc) return rc;
    *ok = segment_open(&g, row.bytes, row.n_bytes) &&
          segment_load_newest(l->c->windows, layer, &g, (uint32_t)l->from, (uint32_t)l->end);
    return 0;
}

static bool is_complete(const struct load *l, int layer)
{
    const struct cache *w = l->c->windows;
    bool ok = true;
    for (int i = 0; i < w->shape.n_head; i++)
        ok = ok && cache_head(w, layer, i)->len == (int)(l->end - l->from);
    return ok;
}

int save_windows_load(struct save *s, struct cache *c, int64_t end, bool *ok, struct err *e)
{
    struct load l = {.s = s, .c = c, .end = end, .e = e};
    int rc = 0;
    *ok = true;
    if (!c->windows) return 0;
    l.from = cache_windows_first(&c->shape.windows, end);
    l.seq_min = first_entry(s, l.from);
    for (int i = 0; !rc && *ok && i < c->windows->shape.n_layer; i++) {
        l.n_blobs = 0;
        rc = store_blob_each(s->store, s->conversation, c->shape.n_layer + i, take_blob, &l, e);
        for (size_t j = 0; !rc && *ok && j < l.n_blobs; j++)
            rc = load_entry(&l, i, &l.blobs[j], ok);
        if (!rc) *ok = *ok && is_complete(&l, i);
    }
    store_blob_done(s->store);
    free(l.blobs);
    c->windows->n_pos = end;
    return rc;
}

bool save_windows_take_tail(struct cache *c, const uint8_t *bytes)
{
    struct cache *w = c->windows;
    if (!w) return true;
    const size_t one = one_bytes(w);
    cache_windows_make_room(c, 1);
    for (int i = 0; i < w->shape.n_layer; i++, bytes += one) {
        struct segment g;
        if (!segment_open(&g, bytes, one) || g.header.pos != w->n_pos ||
            !segment_load_newest(w, i, &g, 0, UINT32_MAX))
            return false;
    }
    w->n_pos++;
    return true;
}

void save_windows_drop_newest(struct cache *c)
{
    struct cache *w = c->windows;
    for (int i = 0; w && i < w->shape.n_layer * w->shape.n_head; i++) w->kv_heads[i].len--;
    if (w) w->n_pos--;
}

/* ---- forgetting ------------------------------------------------------------------------------ */

int64_t save_windows_bytes_since(const struct cache *c, int64_t n_run)
{
    return c->windows ? (c->n_pos - n_run) * unit_bytes(c->windows) : 0;
}

int64_t save_windows_bytes(const struct cache *c)
{
    return c->windows ? c->shape.windows.n_units * unit_bytes(c->windows) : 0;
}

int save_windows_forget(struct save *s, const struct cache *c, size_t n, struct err *e)
{
    int rc = 0;
    if (!c->windows) return 0;
    const int64_t from = cache_windows_first(&c->shape.windows, s->points[n].n_run);
    const int64_t seq = first_entry(s, from);
    for (int i = 0; !rc && seq && i < c->windows->shape.n_layer; i++)
        rc = store_segment_delete(s->store, s->conversation, c->shape.n_layer + i, 0, seq - 1, e);
    return rc;
}
