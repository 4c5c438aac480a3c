/* save_parts: shared by the files save*.c; internal to them. */
#ifndef RETAIN_RUNTIME_SAVE_SAVE_PARTS_H
#define RETAIN_RUNTIME_SAVE_SAVE_PARTS_H

#include "runtime/cache/segment.h"
#include "runtime/save/save.h"

/* A layer's units of positions below `end` that were alive at entry seq. */
struct save_base {
    int64_t seq;
    uint32_t end;           /* 0 = not read yet, of */
    struct store_blob blob; /* its entry */
};

struct save_bases { /* oldest first */
    struct save_base *of;
    size_t n, max;
};

struct save {
    struct store *store;
    int64_t conversation;
    int64_t rewind_bytes;
    int64_t next_seq;
    int64_t saved_pos; /* positions below this are in the log, */
    int64_t tail_end;  /* and those below this are in the tail */
    int n_unscored;    /* newest units of the tail that were written without their scores */
    int n_layer;
    struct save_bases *bases;  /* [n_layer] */
    int next_base;             /* the layer whose turn it is */
    int64_t base_credit;       /* bytes that they may take */
    struct save_point *points; /* oldest first */
    size_t n_points, points_max;
    /* The log holds the recurrent state from this entry on; earlier checkpoints cannot be restored.
     * 0 = there is no state, or all of it is there. */
    int64_t state_seq;
    int64_t state_bytes; /* size of the newest state, all layers */
    int64_t state_pos;   /* positions run when it was written */

    /* Units alive according to the log: [n_layer * n_head][slots] positions. Units of the cache
     * that are not in it are new, units in it alone were evicted. */
    uint32_t *known;
    int *n_known;
    int64_t n_evictions;       /* of the cache, when `known` was updated */
    int64_t n_returns;         /* of the cache, when `known` was updated */
    struct positions returned; /* positions that returned, */
    struct positions evicted;  /* and those evicted, while they are written */

    /* Copies the units just saved to the archive; NULL = no archive. */
    int (*keep)(void *ctx, struct err *e);
    void *keep_ctx;
    struct cache_shape shape; /* of the archive's units */

    uint8_t *bytes; /* buffer for a segment */
    size_t bytes_max;
    /* A write failed: the saved cache no longer matches the cache. From then on only the text is
     * saved, and the next opening replays it. */
    bool broken;
    struct tokens crash_ids; /* of an answer interrupted by a crash, until save_recover */
};

/* Writes an entry of the log with the next number. */
int save_put_entry(struct save *s, int layer, enum store_kind kind, const void *bytes, size_t n,
                   struct err *e);
/* Reads an entry into s->bytes and verifies it. */
int save_get_entry(struct save *s, const struct store_blob *b, struct store_segment *out,
                   struct err *e);
/* Makes s->bytes at least n bytes. */
int save_reserve(struct save *s, size_t n, struct err *e);

/* Positions of a block, by the size of its entry. */
int save_block_positions(const struct cache_shape *s, const struct store_segment *g);

/* Allocates `known` when the cache's shape is known: 4 bytes per slot. */
int save_make_known(struct save *s, const struct cache *c, struct err *e);
/* Sets `known` to the cache's units below saved_pos. */
void save_know(struct save *s, const struct cache *c);
/* Sets `known` for an empty log. */
void save_know_nothing(struct save *s, const struct cache *c);

void save_note_point(struct save *s, const struct save_point *p);
void save_note_base(struct save *s, int layer, const struct save_base *b);
/* The bytes of a base's list, after their number; false = damaged. */
bool save_base_list(const struct store_segment *row, uint32_t *n_list);
/* Writes bases of layers whose blocks hold many dead units, as far as `written` bytes of new units
 * allow. */
int save_put_bases(struct save *s, const struct cache *c, int64_t written, struct err *e);
/* Removes checkpoints that cost more than the limit allows. The newest always stays. Runs inside
 * the caller's transaction, or in a new one. */
int save_forget_points(struct save *s, const struct cache *c, struct err *e);

#endif
