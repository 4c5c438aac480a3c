/* segment: cache units as bytes, for the saved cache. Defines the data that is opaque to the store.
 *
 * A layer is saved as a log. A segment holds units of positions [pos, pos + n) of all KV heads: all
 * of them (dense, as written) or some (sparse, after compaction). The units evicted since then are
 * a list of positions per head. Evicting units rewrites nothing.
 *
 *   segment   struct segment_header; per head: if sparse, n_units (u32) and their positions (u32
 *             each, ascending); keys, values, scores
 *   state     struct policy_state_header; the floats of a policy that was removed; a part of the
 *             recurrent state (recurrent_state.h), whose layers are spread evenly over those of the
 *             KV cache, and in layer 0 its hidden row
 *   evicted   SEGMENT_EVICTED; per head the number and the distances of positions, as varints
 *
 * If a later segment begins before an earlier one ends, the later one is valid from there: the
 * conversation was rewound to that position. */
#ifndef RETAIN_RUNTIME_CACHE_SEGMENT_H
#define RETAIN_RUNTIME_CACHE_SEGMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"
#include "runtime/cache/cache.h"

enum segment_form { SEGMENT_DENSE = 1, SEGMENT_SPARSE = 2, SEGMENT_POLICY_STATE = 4 };
#define SEGMENT_EVICTED 3 /* first byte of a list of evicted positions */

struct segment_header {
    uint32_t form;
    uint32_t pos, n; /* positions covered */
    uint16_t n_head, head_dim;
    uint16_t k_type, v_type;
};
_Static_assert(sizeof(struct segment_header) == 20, "segments are read back as written");

/* ---- writing --------------------------------------------------------------------------------- */

/* Bytes of a dense segment of n positions. */
size_t segment_bytes(const struct cache *c, int n);
/* Packs one layer's newest n units of every head; they must be those of [pos, pos + n). */
void segment_pack(const struct cache *c, int layer, int64_t pos, int n, uint8_t *out);

/* ---- reading --------------------------------------------------------------------------------- */

/* One head's part of a segment: arrays inside its bytes, unaligned. */
struct segment_part {
    uint32_t n;
    const uint8_t *pos; /* u32 each; NULL = header.pos, header.pos + 1, … */
    const uint8_t *k, *v, *score;
};

struct segment {
    struct segment_header header;
    size_t k_bytes, v_bytes; /* of one unit */
    uint32_t end;            /* units at positions from here on are ignored */
    int64_t n_units;         /* over all heads */
    const uint8_t *bytes;
    size_t n_bytes;
};

/* Fully checks bytes from a disk; false = not a segment of KV units. */
bool segment_open(struct segment *g, const void *bytes, size_t n);
struct segment_part segment_part(const struct segment *g, int head);
uint32_t segment_position(const struct segment *g, const struct segment_part *p, uint32_t i);

/* ---- state besides the units ----------------------------------------------------------------- */

struct policy_state_header {
    uint32_t form;    /* SEGMENT_POLICY_STATE */
    uint32_t n_pos;   /* positions that were in the cache */
    uint32_t n_state; /* floats of policies that were removed in 0.2.0; 0 is written */
};

/* Whether there is state besides the units: that of recurrent layers. */
bool policy_state_needed(const struct cache *c);
void policy_state_write(const struct cache *c, int layer, struct str *out);
bool policy_state_is(const void *bytes, size_t n);
/* Reads the state into a layer that holds the same units as when it was written, of positions below
 * `end`. false when it does not fit. Layers may be read in parallel; the caller sets
 * cache.recurrent.changed afterwards. */
bool policy_state_read(struct cache *c, int layer, const void *bytes, size_t n, uint32_t end);

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

bool positions_init(struct positions *g, int n_head); /* false = out of memory */
void positions_release(struct positions *g);
void positions_clear(struct positions *g);
bool positions_push(struct positions *g, int head, uint32_t pos);
void positions_sort(struct positions *g);
int64_t positions_count(const struct positions *g);
/* Appends the bytes of a sorted list. */
void positions_write(const struct positions *g, struct str *out);
/* Adds the positions in `bytes`; false = they are invalid, or out of memory. */
bool positions_read(struct positions *g, const void *bytes, size_t n);

/* ---- a layer's log --------------------------------------------------------------------------- */

/* Whether n segments, in the order of their saves, cover [0, *end) without a gap. Sets their
 * `end`. */
bool segments_join(struct segment *g, size_t n, int64_t *end);

/* Appends to one layer of the cache all units that are neither evicted (sorted) nor at `end` or
 * later. false when shapes differ or the units do not fit. Call cache_imported when all layers are
 * loaded. */
bool segments_load(struct cache *c, int layer, const struct segment *g, size_t n,
                   const struct positions *evicted, uint32_t end);

/* For layers with windows: appends the units of a dense segment at positions in [from, end) after
 * those before its first position; if those end earlier, the layer's units are dropped first. false
 * when shapes differ or the units do not fit. */
bool segment_load_newest(struct cache *c, int layer, const struct segment *g, uint32_t from,
                         uint32_t end);

/* Merges the remaining units into one sparse segment (evicted: sorted); returns their number. */
int64_t segments_merge(const struct segment *g, size_t n, const struct positions *evicted,
                       struct str *out);

#endif
