/* segment: cache units as bytes, for the saved cache. What the store calls opaque is defined here.
 *
 * A layer is saved as a log. A segment holds units of positions [pos, pos + n) of all KV heads:
 * all of them (dense, as they were written) or some (sparse, what compaction left). Which ones went
 * since is a list of positions per head ("gone"). Nothing is rewritten when units are evicted.
 *
 *   segment   struct segment_header; per head: if sparse, n_units (u32) and their positions (u32
 *             each, ascending); keys, values, scores
 *   memory    struct memory_header; what the policy remembers (score.h), then, if scores change, of
 *             each head the number of its units (u32) and their scores
 *   gone      SEGMENT_GONE; per head the number and the distances of positions, as varints
 *
 * Where a later segment begins before an earlier one ends, the later one is right: the conversation
 * went back there. */
#ifndef RETAIN_RUNTIME_CACHE_SEGMENT_H
#define RETAIN_RUNTIME_CACHE_SEGMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"
#include "runtime/cache/cache.h"

enum segment_form { SEGMENT_DENSE = 1, SEGMENT_SPARSE = 2, SEGMENT_MEMORY = 4 };
#define SEGMENT_GONE 3 /* first byte of a gone list */

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
    uint32_t end;            /* units at positions from here on do not count */
    int64_t n_units;         /* over all heads */
    const uint8_t *bytes;
    size_t n_bytes;
};

/* Checks bytes from a disk in full; false = not a segment of KV units. */
bool segment_open(struct segment *g, const void *bytes, size_t n);
struct segment_part segment_part(const struct segment *g, int head);
uint32_t segment_position(const struct segment *g, const struct segment_part *p, uint32_t i);

/* ---- what the policy remembers --------------------------------------------------------------- */

struct memory_header {
    uint32_t form;    /* SEGMENT_MEMORY */
    uint32_t n_pos;   /* positions that were in the cache */
    uint32_t n_state; /* floats */
};

bool memory_needed(const struct cache *c); /* does it remember anything but units? */
void memory_write(const struct cache *c, int layer, struct str *out);
bool memory_is(const void *bytes, size_t n);
/* Into a layer that holds the same units as then, of positions below `end`. false when it does not
 * fit. */
bool memory_read(struct cache *c, int layer, const void *bytes, size_t n, uint32_t end);

/* ---- what went ------------------------------------------------------------------------------- */

/* Positions per head that are gone. */
struct gone {
    int n_head;
    struct gone_head {
        uint32_t *pos;
        size_t n, max;
    } * heads;
};

bool gone_init(struct gone *g, int n_head); /* false = out of memory */
void gone_release(struct gone *g);
void gone_clear(struct gone *g);
bool gone_push(struct gone *g, int head, uint32_t pos);
void gone_sort(struct gone *g);
int64_t gone_count(const struct gone *g);
/* Appends the bytes of a sorted one. */
void gone_write(const struct gone *g, struct str *out);
/* Adds what bytes say; false = they are wrong, or out of memory. */
bool gone_read(struct gone *g, const void *bytes, size_t n);

/* ---- a layer's log --------------------------------------------------------------------------- */

/* Do n segments, in the order of their saves, cover [0, *end) without a gap? Sets their `end`. */
bool segments_join(struct segment *g, size_t n, int64_t *end);

/* Appends to one layer of the cache what is neither gone (sorted) nor at `end` or later. false when
 * shapes differ or it does not fit. cache_imported must follow when all layers are in. */
bool segments_load(struct cache *c, int layer, const struct segment *g, size_t n,
                   const struct gone *gone, uint32_t end);

/* One sparse segment of what is not gone (sorted); the number of units in it. */
int64_t segments_merge(const struct segment *g, size_t n, const struct gone *gone, struct str *out);

#endif
