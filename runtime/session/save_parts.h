/* save_parts: what save.c, save_load.c and save_compact.c share. For nobody else. */
#ifndef RETAIN_RUNTIME_SESSION_SAVE_PARTS_H
#define RETAIN_RUNTIME_SESSION_SAVE_PARTS_H

#include "runtime/cache/returned.h"
#include "runtime/session/save.h"

struct save {
    struct store *store;
    int64_t conversation;
    bool reads_only; /* it is not locked for us */
    int64_t rewind_bytes;
    int64_t next_seq;
    int64_t saved_pos; /* positions below are in the log */
    int n_unscored;    /* newest units of the tail that were written without their scores */
    int n_layer;
    int64_t *n_evicted;        /* [n_layer] units that the log says are evicted */
    struct save_point *points; /* oldest first */
    int64_t *n_evicted_at;     /* [n_points][n_layer] n_evicted at each of them */
    size_t n_points, points_max;
    /* The log holds the policy's state from this entry on; earlier checkpoints cannot be restored.
     * 0 = the policy has no state, or all of it is there. */
    int64_t policy_state_seq;
    int64_t policy_state_bytes; /* of the newest, all layers */

    /* Units alive according to the log: [n_layer * n_head][slots] positions. Units of the cache
     * that are not in it are new, units in it alone were evicted. */
    uint32_t *known;
    int *n_known;
    int64_t n_evictions;       /* of the cache, when `known` was made */
    int64_t *n_stored;         /* [n_layer] units in the log, dead ones included */
    int64_t n_returns;         /* of the cache, when `known` was made */
    struct positions returned; /* of one layer: positions that came back */
    struct positions evicted;  /* of one layer, on its way */

    /* Copies what was saved just now to the archive; NULL = there is none. */
    int (*keep)(void *ctx, struct err *e);
    void *keep_ctx;
    size_t position_bytes; /* of the archive */

    uint8_t *bytes; /* a segment on its way */
    size_t bytes_max;
    /* A write failed: what is on disk no longer follows the cache. From then on the text alone is
     * saved, and the next opening reads it again. */
    bool broken;
    struct str crash_text; /* of an answer that a crash cut off, until save_recover */
    struct tokens crash_ids;
};

int save_out_of_memory(struct err *e);

/* Room for what the log says, once the cache's shape is known: 4 bytes per slot. */
int save_make_known(struct save *s, const struct cache *c, struct err *e);
/* The log now says what the cache holds below saved_pos. */
void save_know(struct save *s, const struct cache *c);
/* The log is empty. */
void save_know_nothing(struct save *s, const struct cache *c);

int save_note_point(struct save *s, const struct save_point *p, struct err *e);
/* Forgets checkpoints that need more than they are worth. The newest always stays. Inside a
 * transaction, or in one of its own. */
int save_forget_points(struct save *s, const struct cache *c, struct err *e);

#endif
