/* save_parts: shared by the files save*.c; internal to them. */
#ifndef RETAIN_RUNTIME_SAVE_SAVE_PARTS_H
#define RETAIN_RUNTIME_SAVE_SAVE_PARTS_H

#include "runtime/cache/returned.h"
#include "runtime/save/save.h"
#include "store/store.h"

struct save {
    struct store *store;
    int64_t conversation;
    bool reads_only; /* opened without the lock */
    int64_t rewind_bytes;
    int64_t next_seq;
    int64_t saved_pos; /* positions below this are in the log */
    int n_unscored;    /* newest units of the tail that were written without their scores */
    int n_layer;
    int64_t *n_evicted;        /* [n_layer] units that the log says are evicted */
    struct save_point *points; /* oldest first */
    int64_t *n_evicted_at;     /* [n_points][n_layer] n_evicted at each of them */
    size_t n_points, points_max;
    /* The log holds the policy's state from this entry on; earlier checkpoints cannot be restored.
     * 0 = the policy has no state, or all of it is there. */
    int64_t policy_state_seq;
    int64_t policy_state_bytes; /* size of the newest state, all layers */
    int64_t policy_state_pos;   /* positions run when it was written */

    /* Units alive according to the log: [n_layer * n_head][slots] positions. Units of the cache
     * that are not in it are new, units in it alone were evicted. */
    uint32_t *known;
    int *n_known;
    int64_t n_evictions;       /* of the cache, when `known` was updated */
    int64_t *n_stored;         /* [n_layer] units in the log, including dead ones */
    int64_t n_returns;         /* of the cache, when `known` was updated */
    struct positions returned; /* of one layer: positions that returned */
    struct positions evicted;  /* of one layer: evicted positions, while they are written */

    /* Copies the units just saved to the archive; NULL = no archive. */
    int (*keep)(void *ctx, struct err *e);
    void *keep_ctx;
    size_t position_bytes; /* of the archive */

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
int save_out_of_memory(struct err *e);
/* Makes s->bytes at least n bytes. */
int save_reserve(struct save *s, size_t n, struct err *e);

/* Allocates `known` when the cache's shape is known: 4 bytes per slot. */
int save_make_known(struct save *s, const struct cache *c, struct err *e);
/* Sets `known` to the cache's units below saved_pos. */
void save_know(struct save *s, const struct cache *c);
/* Sets `known` for an empty log. */
void save_know_nothing(struct save *s, const struct cache *c);

void save_note_point(struct save *s, const struct save_point *p);
/* Removes checkpoints that cost more than the limit allows. The newest always stays. Runs inside
 * the caller's transaction, or in a new one. */
int save_forget_points(struct save *s, const struct cache *c, struct err *e);

#endif
