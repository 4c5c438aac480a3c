/* segment: cache units as bytes, for the saved cache. Defines the data that is opaque to the store.
 *
 * A cache is saved as a log. A segment holds units of some KV heads at positions [pos, pos + n): of
 * each position, or, if it is sparse, of some. The units evicted since then, or returned, are a
 * list of positions per head. Evicting units rewrites nothing.
 *
 *   segment   struct segment_header; per head: if sparse, n_units (u32) and their positions (u32
 *             each, ascending); keys, values (not in SEGMENT_SCORES), scores (not in SEGMENT_BARE)
 *   state     struct state_header; a part of the recurrent state (recurrent_state.h), whose
 *             layers are spread evenly over those of the KV cache, and in layer 0 its hidden row
 *   positions SEGMENT_POSITIONS; per head the number and the distances of positions, as varints
 */
#ifndef RETAIN_RUNTIME_CACHE_SEGMENT_H
#define RETAIN_RUNTIME_CACHE_SEGMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"
#include "runtime/cache/cache.h"

enum segment_form {
    SEGMENT_DENSE = 1,
    SEGMENT_SPARSE = 2,
    SEGMENT_STATE = 4,
    SEGMENT_BARE = 5,  /* dense, without scores, */
    SEGMENT_SCORES = 6 /* and the scores */
};
#define SEGMENT_POSITIONS 3 /* first byte of a list of positions */

struct segment_header {
    uint32_t form;
    uint32_t pos, n; /* positions covered */
    uint16_t n_head, head_dim;
    uint16_t k_type, v_type;
};
_Static_assert(sizeof(struct segment_header) == 20, "segments are read back as written");

/* The number of a type in a header. Types of 4 and 5 bits had other bytes, and their numbers of
 * enum kn_kv, before 0.2.0. */
static inline uint16_t segment_type(enum kn_kv type)
{
    return (uint16_t)(type >= KN_KV_Q4 && type < KN_KV_TYPES ? type + 32 : type);
}

/* ---- writing --------------------------------------------------------------------------------- */

/* Bytes of a segment of n positions that is not sparse. */
size_t segment_bytes(const struct cache *c, enum segment_form form, int n_heads, int n);
/* Packs positions [pos, pos + n) of all layers' heads [head, head + n_heads), which hold all of
 * them and everything newer. */
void segment_pack(const struct cache *c, enum segment_form form, int head, int n_heads, int64_t pos,
                  int n, uint8_t *out);
/* Appends a sparse segment of one layer's units below position `end`. */
void segment_pack_below(const struct cache *c, int layer, uint32_t end, struct str *out);

/* ---- reading --------------------------------------------------------------------------------- */

/* One head's part of a segment: arrays inside its bytes, unaligned. */
struct segment_part {
    uint32_t n;
    const uint8_t *pos;           /* u32 each; NULL = header.pos, header.pos + 1, … */
    const uint8_t *k, *v, *score; /* NULL = not in this form */
};

struct segment {
    struct segment_header header;
    size_t k_bytes, v_bytes, score_bytes; /* of one unit; 0 = not in this form */
    const uint8_t *bytes;
    size_t n_bytes;
};

/* Fully checks bytes from a disk; false = not a segment of KV units. */
bool segment_open(struct segment *g, const void *bytes, size_t n);
/* Whether it is of n_heads heads of this cache. */
bool segment_fits(const struct segment *g, const struct cache *c, int n_heads);
struct segment_part segment_part(const struct segment *g, int head);
uint32_t segment_position(const struct segment *g, const struct segment_part *p, uint32_t i);

/* ---- state besides the units ----------------------------------------------------------------- */

struct state_header {
    uint32_t form;    /* SEGMENT_STATE */
    uint32_t n_pos;   /* positions that were in the cache */
    uint32_t n_state; /* floats of policies that were removed in 0.2.0; 0 is written */
};

/* Whether there is state besides the units: that of recurrent layers. */
bool segment_state_needed(const struct cache *c);
void segment_state_write(const struct cache *c, int layer, struct str *out);
/* Reads the state into a layer that holds the same units as when it was written, of positions below
 * `end`. false when it does not fit. Layers may be read in parallel; the caller sets
 * cache.recurrent.changed afterwards. */
bool segment_state_read(struct cache *c, int layer, const void *bytes, size_t n, uint32_t end);

/* ---- positions ------------------------------------------------------------------------------- */

/* Positions per head: those that were evicted, or that returned. */
struct positions {
    int n_head;
    struct positions_head *heads;
};

struct positions_head {
    uint32_t *pos;
    size_t n, max;
};

void positions_init(struct positions *g, int n_head);
void positions_release(struct positions *g);
void positions_clear(struct positions *g);
void positions_push(struct positions *g, int head, uint32_t pos);
void positions_sort(struct positions *g);
int64_t positions_count(const struct positions *g);
/* How often a sorted list has a position. */
size_t positions_times(const struct positions_head *h, uint32_t pos);
/* Appends the bytes of a sorted list. */
void positions_write(const struct positions *g, struct str *out);
/* Adds the positions in `bytes` of those heads that are taken, NULL = all; false = they are
 * invalid.
 */
bool positions_read(struct positions *g, const bool *taken, const void *bytes, size_t n);

/* ---- loading --------------------------------------------------------------------------------- */

/* Sets `coming` of a layer's heads to what the next two functions add: the units of its base, a
 * sparse segment of positions [0, header.n) (or NULL), and of all positions from there to `end`,
 * without the evicted ones (of all heads, sorted). false = more than a head can have. */
bool segment_expect(struct cache *c, int layer, const struct segment *base,
                    const struct positions *evicted, uint32_t end);
bool segment_load_base(struct cache *c, int layer, const struct segment *base,
                       const struct positions *evicted, uint32_t end);
/* Appends units of a segment of all heads, those below `end` and at each layer's from[] or
 * later. */
bool segment_load_block(struct cache *c, const struct segment *block, const uint32_t *from,
                        const struct positions *evicted, uint32_t end);
/* Adds the block's units at these positions (of all heads, sorted), which returned. */
bool segment_load_returned(struct cache *c, const struct segment *block,
                           const struct positions *returned);
/* Gives units that the cache holds their scores. */
void segment_load_scores(struct cache *c, const struct segment *scores);

/* For layers with windows: appends the units of a dense segment at positions in [from, end) after
 * those before its first position; if those end earlier, the layer's units are dropped first. false
 * when shapes differ or the units do not fit. */
bool segment_load_newest(struct cache *c, int layer, const struct segment *g, uint32_t from,
                         uint32_t end);

#endif
