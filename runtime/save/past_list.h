/* past_list: what compaction leaves of the entries of a layer's log that it merges, so that the
 * history of the cache stays known: their positions, without units. STORE_PAST in the store.
 *
 *   seq (i64): earlier changes are not known, -1 = all are
 *   per list: struct past_record, then positions as positions_write writes them */
#ifndef RETAIN_RUNTIME_SAVE_PAST_LIST_H
#define RETAIN_RUNTIME_SAVE_PAST_LIST_H

#include "runtime/cache/segment.h"
#include "store/store.h"

struct past_record {
    int64_t seq;    /* of the entry */
    uint32_t n_pos; /* positions read then */
    uint32_t kind;  /* STORE_EVICTED or STORE_RETURNED */
    uint64_t n_bytes;
};
_Static_assert(sizeof(struct past_record) == 24, "records are read back as written");

struct past_list {
    struct str bytes;
    struct positions positions; /* of one entry */
    uint32_t n_pos;             /* after the newest segment */
    int64_t units_seq;          /* its entry */
};

bool past_list_init(struct past_list *p, const struct cache *c); /* false = out of memory */
void past_list_release(struct past_list *p);

/* Takes the layer's next entry: a list of its positions, or the earlier lists. false = damaged. */
bool past_list_take(struct past_list *p, const struct store_segment *g);
/* Drops the oldest lists until the rest has at most max_bytes. */
void past_list_limit(struct past_list *p, size_t max_bytes);

/* Walks bytes of a disk: the record at *at, and its list; false at the end, or when damaged. Begin
 * with *at = 0. */
bool past_list_next(const void *bytes, size_t n, size_t *at, struct past_record *out,
                    const void **list);
/* The sequence number from which on all changes are known; -1 = all. */
int64_t past_list_from(const void *bytes, size_t n);

/* The positions of a segment of returned units as a list. false = damaged. */
bool past_list_returned(struct positions *positions, const struct store_segment *g,
                        struct str *out);

#endif
