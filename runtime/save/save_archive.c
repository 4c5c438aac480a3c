/* The archive of a saved conversation: it keeps blocks of the log (store_piece_keep), so that
 * rewinding and branching cut both at the same place. */
#include "runtime/save/save_parts.h"

#include <string.h>

static int n_heads(const struct save *s)
{
    return s->shape.n_layer * s->shape.n_head;
}

static int keep_piece(void *ctx, uint32_t pos, int n, struct err *e)
{
    struct save *s = ctx;
    return store_piece_keep(s->store, s->conversation, pos, n, e);
}

/* Bytes of the archive's positions: per head the key, the value and the score. */
struct units {
    uint8_t *at; /* [n][n_heads] */
    size_t k_bytes, v_bytes;
    int n_heads;
};

static struct units units_of(const struct save *s, void *at)
{
    return (struct units){at, kn_kv_bytes(s->shape.k_type, s->shape.head_dim),
                          kn_kv_bytes(s->shape.v_type, s->shape.head_dim), n_heads(s)};
}

static uint8_t *unit_at(const struct units *u, uint32_t i, int head)
{
    return u->at + ((size_t)i * (size_t)u->n_heads + (size_t)head) *
                       (u->k_bytes + u->v_bytes + sizeof(float));
}

/* A piece that was cut is written as a block, in the archive only. */
static int put_piece(void *ctx, uint32_t pos, int n, const void *bytes, struct err *e)
{
    struct save *s = ctx;
    const struct units u = units_of(s, (void *)(uintptr_t)bytes);
    const struct segment_header header = {SEGMENT_DENSE,
                                          pos,
                                          (uint32_t)n,
                                          (uint16_t)u.n_heads,
                                          (uint16_t)s->shape.head_dim,
                                          segment_type(s->shape.k_type),
                                          segment_type(s->shape.v_type)};
    struct str block = {0};
    str_append(&block, &header, sizeof header);
    for (int head = 0; head < u.n_heads; head++) {
        for (uint32_t i = 0; i < (uint32_t)n; i++)
            str_append(&block, unit_at(&u, i, head), u.k_bytes);
        for (uint32_t i = 0; i < (uint32_t)n; i++)
            str_append(&block, unit_at(&u, i, head) + u.k_bytes, u.v_bytes);
        for (uint32_t i = 0; i < (uint32_t)n; i++)
            str_append(&block, unit_at(&u, i, head) + u.k_bytes + u.v_bytes, sizeof(float));
    }
    /* number of the units' entry, written just before */
    struct store_segment row = {.seq = s->next_seq - 1,
                                .layer = (int)pos,
                                .kind = STORE_PIECE,
                                .bytes = block.data,
                                .n_bytes = block.n};
    int rc = store_segment_put(s->store, s->conversation, &row, e);
    str_release(&block);
    return rc;
}

struct piece {
    struct units out;
    uint32_t pos, n;
    uint32_t n_found; /* positions, */
    uint32_t n_scored;
};

static bool is_ours(const struct save *s, const struct segment *g)
{
    const struct segment_header *h = &g->header;
    return h->n_head == n_heads(s) && h->head_dim == s->shape.head_dim &&
           h->k_type == segment_type(s->shape.k_type) && h->v_type == segment_type(s->shape.v_type);
}

static void copy_block(const struct segment *g, struct piece *p, uint32_t first)
{
    const struct units *u = &p->out;
    for (int head = 0; head < u->n_heads; head++) {
        const struct segment_part part = segment_part(g, head);
        for (uint32_t i = 0; i < part.n; i++) {
            uint8_t *to = unit_at(u, first + i, head);
            if (part.k) memcpy(to, part.k + i * u->k_bytes, u->k_bytes);
            if (part.v) memcpy(to + u->k_bytes, part.v + i * u->v_bytes, u->v_bytes);
            if (part.score)
                memcpy(to + u->k_bytes + u->v_bytes, part.score + i * sizeof(float), sizeof(float));
        }
    }
}

struct get {
    const struct save *s;
    struct piece piece;
};

static int take_block(void *ctx, const struct store_segment *row)
{
    struct get *job = ctx;
    struct piece *p = &job->piece;
    struct segment g;
    if (!segment_open(&g, row->bytes, row->n_bytes) || !is_ours(job->s, &g) ||
        g.header.form == SEGMENT_SPARSE)
        return ERR_FORMAT;
    const uint32_t first = g.header.pos - p->pos;
    if (first > p->n || g.header.n > p->n - first) return ERR_FORMAT;
    copy_block(&g, p, first);
    if (g.k_bytes) p->n_found += g.header.n;
    if (g.score_bytes) p->n_scored += g.header.n;
    return 0;
}

static int get_piece(void *ctx, uint32_t pos, int n, void *out, struct err *e)
{
    struct save *s = ctx;
    struct get job = {s, {.out = units_of(s, out), .pos = pos, .n = (uint32_t)n}};
    int rc = store_piece_each(s->store, s->conversation, pos, n, take_block, &job, e);
    if (rc == ERR_FORMAT) return 0;
    return rc ? rc : job.piece.n_found == (uint32_t)n && job.piece.n_scored == (uint32_t)n;
}

static int drop_piece(void *ctx, uint32_t pos, int n, struct err *e)
{
    struct save *s = ctx;
    return store_piece_drop(s->store, s->conversation, pos, n, e);
}

struct archive_store save_archive(struct save *s, const struct cache *c,
                                  int (*keep)(void *ctx, struct err *e), void *ctx)
{
    s->shape = c->shape;
    s->keep = keep;
    s->keep_ctx = ctx;
    return (struct archive_store){s, keep_piece, put_piece, get_piece, drop_piece};
}

bool save_is_broken(const struct save *s)
{
    return s->broken;
}

int64_t save_position(const struct save *s)
{
    return s->saved_pos;
}

/* The blocks of one stretch of positions that were saved together are one piece. */
struct found {
    const struct save *s;
    void (*each)(void *ctx, uint32_t pos, int n);
    void *ctx;
    uint32_t pos;
    int n;
    int64_t seq;
};

static void end_piece(struct found *f)
{
    if (f->n) f->each(f->ctx, f->pos, f->n);
    f->n = 0;
}

static int found_block(void *ctx, const struct store_blob *b)
{
    struct found *f = ctx;
    const uint32_t pos = (uint32_t)b->segment.layer;
    if (b->segment.kind != STORE_PIECE || b->segment.layer < 0) return 0;
    const bool follows = f->n && f->seq == b->segment.seq && pos == f->pos + (uint32_t)f->n &&
                         pos / ARCHIVE_PIECE == f->pos / ARCHIVE_PIECE;
    if (!follows) {
        end_piece(f);
        f->pos = pos;
        f->seq = b->segment.seq;
    }
    f->n += save_block_positions(&f->s->shape, &b->segment);
    return 0;
}

int save_archive_each(struct save *s, void (*each)(void *ctx, uint32_t pos, int n), void *ctx,
                      struct err *e)
{
    struct found f = {s, each, ctx, 0, 0, 0};
    int rc = store_blob_each(s->store, s->conversation, STORE_PIECES, found_block, &f, e);
    if (!rc) end_piece(&f);
    return rc;
}
