/* The archive of a saved conversation: pieces next to the log, written in the same transactions. A
 * piece has the log's number, so rewinding and branching cut both at the same place. */
#include "runtime/save/save_parts.h"

#include <string.h>

static int put_piece(void *ctx, uint32_t pos, int n, const void *bytes, struct err *e)
{
    struct save *s = ctx;
    /* number of the units' entry, written just before */
    struct store_segment row = {.seq = s->next_seq - 1,
                                .layer = (int)pos,
                                .kind = STORE_PIECE,
                                .bytes = bytes,
                                .n_bytes = (size_t)n * s->position_bytes};
    return store_segment_put(s->store, s->conversation, &row, e);
}

struct piece {
    void *out;
    size_t n_bytes;
    int n_found;
};

static int take_piece(void *ctx, const struct store_segment *g)
{
    struct piece *p = ctx;
    if (g->n_bytes != p->n_bytes) return ERR_FORMAT;
    memcpy(p->out, g->bytes, g->n_bytes);
    p->n_found++;
    return 0;
}

static int get_piece(void *ctx, uint32_t pos, int n, void *out, struct err *e)
{
    struct save *s = ctx;
    struct piece p = {out, (size_t)n * s->position_bytes, 0};
    int rc = store_piece_get(s->store, s->conversation, pos, take_piece, &p, e);
    return rc == ERR_FORMAT ? 0 : rc ? rc : p.n_found == 1;
}

static int drop_piece(void *ctx, uint32_t pos, struct err *e)
{
    struct save *s = ctx;
    return store_piece_drop(s->store, s->conversation, pos, e);
}

struct archive_store save_archive(struct save *s, const struct cache *c,
                                  int (*keep)(void *ctx, struct err *e), void *ctx)
{
    s->position_bytes = archive_position_bytes(&c->shape);
    s->keep = keep;
    s->keep_ctx = ctx;
    return (struct archive_store){s, put_piece, get_piece, drop_piece};
}

bool save_is_broken(const struct save *s)
{
    return s->broken;
}

int64_t save_position(const struct save *s)
{
    return s->saved_pos;
}

struct found {
    size_t position_bytes;
    void (*each)(void *ctx, uint32_t pos, int n);
    void *ctx;
};

/* Encryption adds fewer bytes than a position has. */
static int found_piece(void *ctx, const struct store_blob *b)
{
    struct found *f = ctx;
    size_t n = b->segment.n_bytes / f->position_bytes;
    if (b->segment.layer >= 0 && n >= 1 && n <= ARCHIVE_PIECE)
        f->each(f->ctx, (uint32_t)b->segment.layer, (int)n);
    return 0;
}

int save_archive_each(struct save *s, void (*each)(void *ctx, uint32_t pos, int n), void *ctx,
                      struct err *e)
{
    struct found f = {s->position_bytes, each, ctx};
    return store_blob_each(s->store, s->conversation, STORE_PIECES, found_piece, &f, e);
}
