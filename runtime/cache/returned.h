/* returned: units returned by recall (recall.h), in the log of a layer (segment.h).
 *
 * An entry is a sparse segment with the units that returned at that moment. A unit is alive when it
 * was added and returned more often than it was evicted; its bytes are the same in every entry. */
#ifndef RETAIN_RUNTIME_CACHE_RETURNED_H
#define RETAIN_RUNTIME_CACHE_RETURNED_H

#include "runtime/cache/segment.h"

#define RETURNED_MAX 384 /* maximum units of a head that return at once */

/* Appends the entry for one layer: the units that the heads hold at these sorted positions, all of
 * them below `end`. */
void returned_write(const struct cache *c, int layer, const struct positions *positions,
                    uint32_t end, struct str *out);

/* After segments_load of the layer's segments g: adds the units of the entries `back` that are
 * alive. `evicted` is sorted. false when shapes differ, they do not fit, or there is no memory. */
bool returned_load(struct cache *c, int layer, const struct segment *g, size_t n,
                   const struct segment *back, size_t n_back, const struct positions *evicted,
                   uint32_t end);

/* Appends one entry with the live units of all entries; returns their number, -1 = out of
 * memory. */
int64_t returned_merge(const struct segment *g, size_t n, const struct segment *back, size_t n_back,
                       const struct positions *evicted, struct str *out);

#endif
