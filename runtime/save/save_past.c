/* The pictures that a saved cache once gave: its log, read backwards. A block of units says how far
 * the conversation had been read, a list of positions which units were evicted or returned. Blocks
 * are not read: their sizes tell their positions. */
#include "runtime/save/save_parts.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

/* Pictures of a conversation: more than a screen has lines. */
#define PAST_MAX 256

/* A list of units that the cache lost or got back. */
struct change {
    int64_t seq;
    bool returned;
    struct str bytes; /* as positions_write writes it */
};

/* An entry after which the conversation had been read up to n_pos. */
struct step {
    int64_t seq, n_pos;
};

struct past {
    struct save *s;
    const struct cache *c;
    struct store_blob *blobs; /* lists */
    size_t n_blobs, blobs_max;
    struct change *changes;
    size_t n_changes, changes_max;
    struct step *steps;
    size_t n_steps, steps_max;
    int64_t from; /* sequence number: earlier pictures are not known */
    struct positions list;
    struct retention *at; /* the picture: columns of the present one, also those not read yet */
    struct err *e;
};

/* ---- reading --------------------------------------------------------------------------------- */

/* The block of a unit that returned is there again: it does not end later. */
static void take_block(struct past *p, const struct store_segment *g)
{
    const int64_t end = g->layer + (int64_t)save_block_positions(&p->c->shape, g);
    struct step *last = p->n_steps ? &p->steps[p->n_steps - 1] : NULL;
    if (last && last->seq == g->seq) {
        last->n_pos = end;
        return;
    }
    p->steps = memory_more(p->steps, p->n_steps, &p->steps_max, sizeof *p->steps);
    p->steps[p->n_steps++] = (struct step){g->seq, end};
}

/* Entries written after this save was loaded are left out. */
static int take_entry(void *ctx, const struct store_blob *b)
{
    struct past *p = ctx;
    const struct store_segment *g = &b->segment;
    if (g->seq >= p->s->next_seq) return 0;
    if (g->kind == STORE_UNITS || g->kind == STORE_PIECE) take_block(p, g);
    if (g->kind == STORE_PAST && g->seq > p->from) p->from = g->seq;
    if (g->kind != STORE_EVICTED && g->kind != STORE_RETURNED) return 0;
    p->blobs = memory_more(p->blobs, p->n_blobs, &p->blobs_max, sizeof *p->blobs);
    p->blobs[p->n_blobs++] = *b;
    return 0;
}

static int read_list(struct past *p, const struct store_blob *b)
{
    struct store_segment g;
    struct change k = {b->segment.seq, b->segment.kind == STORE_RETURNED, {0}};
    int rc = save_get_entry(p->s, b, &g, p->e);
    if (rc) return rc;
    str_append(&k.bytes, g.bytes, g.n_bytes);
    p->changes = memory_more(p->changes, p->n_changes, &p->changes_max, sizeof *p->changes);
    p->changes[p->n_changes++] = k;
    return 0;
}

static int read_log(struct past *p)
{
    struct save *s = p->s;
    int rc = store_blob_each(s->store, s->conversation, -1, take_entry, p, p->e);
    if (!rc) rc = store_blob_each(s->store, s->conversation, STORE_PIECES, take_entry, p, p->e);
    for (size_t i = 0; !rc && i < p->n_blobs; i++) rc = read_list(p, &p->blobs[i]);
    store_blob_done(s->store);
    return rc;
}

static int by_seq(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

static int compare_changes(const void *a, const void *b)
{
    return by_seq(((const struct change *)a)->seq, ((const struct change *)b)->seq);
}

static int compare_steps(const void *a, const void *b)
{
    return by_seq(((const struct step *)a)->seq, ((const struct step *)b)->seq);
}

/* In the order of the log; a step for each entry. */
static void sort_all(struct past *p)
{
    size_t n = 0;
    if (p->n_changes) qsort(p->changes, p->n_changes, sizeof *p->changes, compare_changes);
    if (p->n_steps) qsort(p->steps, p->n_steps, sizeof *p->steps, compare_steps);
    int64_t end = 0;
    for (size_t i = 0; i < p->n_steps; i++) {
        if (p->steps[i].n_pos > end) end = p->steps[i].n_pos;
        if (n == 0 || p->steps[n - 1].seq != p->steps[i].seq) p->steps[n++] = p->steps[i];
        p->steps[n - 1].n_pos = end;
    }
    p->n_steps = n;
}

/* ---- pictures -------------------------------------------------------------------------------- */

/* Adds the list's units to the picture, or takes them out. */
static int apply(struct past *p, const struct change *k, bool add)
{
    struct retention *r = p->at;
    positions_clear(&p->list);
    if (!positions_read(&p->list, NULL, str_get(&k->bytes), k->bytes.n))
        return err_set(p->e, ERR_FORMAT, "a list of evicted units is damaged");
    for (int i = 0; i < r->n_layer * r->n_head; i++) {
        uint32_t *kept = r->kept + i * RETENTION_COLS;
        const struct positions_head *h = &p->list.heads[i];
        if (add)
            r->n_returned += (int64_t)h->n;
        else
            r->n_evicted += (int64_t)h->n;
        for (size_t j = 0; j < h->n; j++) {
            const int64_t col = (int64_t)h->pos[j] / r->col_width;
            if (col >= r->n_cols) continue;
            if (add)
                kept[col]++;
            else if (kept[col] > 0)
                kept[col]--;
        }
    }
    return 0;
}

/* Copies the picture without the positions that were not read yet: at that moment each of them is
 * counted, since it was alive when it was read. */
static void cut(const struct retention *all, int64_t n_pos, struct retention *out)
{
    uint32_t *kept = out->kept;
    *out = *all;
    out->kept = kept;
    out->heads = NULL; /* no single positions are known */
    out->cap_heads = 0;
    out->n_pos = n_pos;
    out->n_cols = (int)((n_pos + all->col_width - 1) / all->col_width);
    const int64_t end = (int64_t)out->n_cols * all->col_width;
    const uint32_t later = (uint32_t)((end < all->n_pos ? end : all->n_pos) - n_pos);
    for (int i = 0; i < all->n_layer * all->n_head; i++) {
        uint32_t *to = kept + i * RETENTION_COLS;
        memset(to, 0, RETENTION_COLS * sizeof *to);
        memcpy(to, all->kept + i * RETENTION_COLS, (size_t)out->n_cols * sizeof *to);
        if (out->n_cols > 0) to[out->n_cols - 1] -= later < to[out->n_cols - 1] ? later : 0;
    }
    retention_find_whole(out);
}

/* The end of the changes that were saved together. */
static size_t end_of_group(const struct past *p, size_t k)
{
    const int64_t seq = p->changes[k].seq;
    while (k < p->n_changes && p->changes[k].seq == seq) k++;
    return k;
}

static size_t count_groups(const struct past *p)
{
    size_t n = 0;
    for (size_t k = 0; k < p->n_changes; k = end_of_group(p, k)) n++;
    return n;
}

/* From the oldest picture on: one after each group of changes, and after steps without one. */
static int walk(struct past *p, struct retention *out,
                void (*each)(void *ctx, const struct retention *r), void *ctx)
{
    const size_t every = (p->n_steps + count_groups(p)) / PAST_MAX + 1;
    size_t k = 0, n = 0;
    int rc = 0;
    for (size_t i = 0; !rc && i < p->n_steps;) {
        const int64_t next = i + 1 < p->n_steps ? p->steps[i + 1].seq : INT64_MAX;
        bool more = k < p->n_changes && p->changes[k].seq < next;
        const size_t end = more ? end_of_group(p, k) : k;
        const int64_t seq = more ? p->changes[k].seq : p->steps[i].seq;
        for (; !rc && k < end; k++) rc = apply(p, &p->changes[k], p->changes[k].returned);
        more = k < p->n_changes && p->changes[k].seq < next;
        const bool last = !more && i + 1 == p->n_steps;
        if (!rc && seq >= p->from && (last || n++ % every == 0)) {
            p->at->n_evictions = (int64_t)k;
            cut(p->at, p->steps[i].n_pos, out);
            each(ctx, out);
        }
        i += !more;
    }
    return rc;
}

static void release(struct past *p)
{
    for (size_t i = 0; i < p->n_changes; i++) str_release(&p->changes[i].bytes);
    positions_release(&p->list);
    free(p->changes);
    free(p->steps);
    free(p->blobs);
}

int save_past(struct save *s, const struct cache *c, struct retention *now, struct retention *out,
              void (*each)(void *ctx, const struct retention *r), void *ctx, struct err *e)
{
    struct past p = {.s = s, .c = c, .at = now, .from = -1, .e = e};
    if (s->broken || s->saved_pos == 0) return 0;
    positions_init(&p.list, c->shape.n_layer * c->shape.n_head);
    int rc = store_begin_reading(s->store, e);
    if (!rc) {
        rc = read_log(&p);
        store_end_reading(s->store);
    }
    sort_all(&p);
    for (size_t i = p.n_changes; !rc && i-- > 0;)
        rc = apply(&p, &p.changes[i], !p.changes[i].returned);
    now->n_evicted = now->n_returned = 0; /* undoing the changes counted them as well */
    if (!rc) rc = walk(&p, out, each, ctx);
    release(&p);
    return rc;
}
