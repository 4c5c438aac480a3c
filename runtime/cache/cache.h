/* cache: the KV cache of one conversation, a pool of fixed size.
 *
 * A cache unit is the key and value of one token in one KV head of one layer. Per (layer, head)
 * units are in position order in slots 0 .. len-1; keys are kept before RoPE and rotated by their
 * slot, so a unit's bytes never change once written and no position beyond the capacity is ever
 * used.
 *
 *   capacity = budget + chunk + reserve     (plan.h)
 *
 * Heads that share a budget share the pool: each gets the slots of its units and an equal part of
 * the free slots. So the room to append is the same for all of them, and depends on their lengths
 * alone: a cache that was saved and loaded has the same room.
 *
 * Layers with windows have a separate cache, `windows`, with the same number of positions. It
 * holds exactly the newest units: no policy applies to it. Its first slot has a position that is a
 * multiple of KN_TILE, so that attention has the same bits wherever the units are (kernels.h).
 *
 * The counters for the strip and the map are kept here and change only when units are added or
 * evicted. */
#ifndef RETAIN_RUNTIME_CACHE_CACHE_H
#define RETAIN_RUNTIME_CACHE_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "kernels/kernels.h"
#include "runtime/cache/recurrent_state.h"
#include "runtime/cache/retention.h"

struct cache_shape {
    int n_layer, n_head; /* KV heads */
    int head_dim;
    enum kn_kv k_type, v_type;
    bool shared;  /* all heads share the slots; else each has the same number */
    int capacity; /* slots per head, on average if they are shared */
    int head_max; /* maximum slots of one head, if they are shared */
    struct cache_windows {
        int n_layer; /* layers with windows; 0 = none */
        int n_head, head_dim;
        int n_units, chunk; /* a window; the most that is appended at once */
    } windows;
};

struct cache_head { /* one KV head of one layer */
    uint8_t *k;     /* [capacity][k_bytes] */
    uint8_t *v;     /* [capacity][v_bytes] */
    float *score;   /* [capacity] */
    uint32_t *pos;  /* [capacity] ascending: positions in the conversation */
    int len, capacity;
    int aside; /* units before the first slot, of which attention knows nothing: recall_set_aside */
    int coming; /* number of units about to be loaded */
    /* set by evict: units above the line stay, those with a larger key, and those with an equal key
     * up to slot `last` */
    struct cache_line {
        int32_t key;
        int last;
    } line;
    size_t slot0; /* its first slot in the numbering of the whole pool */
    /* while heads are laid out: their new slot0; whether this one and those after it move neither
     * over the heads before it nor the reverse */
    size_t next_slot0;
    bool moves_alone;
};

/* For units in device memory: copies the newest n of every head to k and v, where they stay until
 * the next call. Positions and scores are always in host memory. */
struct cache_source {
    int (*fetch)(void *ctx, int n, struct err *e); /* NULL = units are in host memory */
    int (*fetch_state)(void *ctx, struct err *e);  /* copies the recurrent state to the host's */
    void *ctx;
};

enum { CACHE_UNSCORED_MAX = 64 };

struct cache {
    struct cache_shape shape;
    struct cache_source source;
    int n_away;                  /* the units of the first n heads are in device memory */
    size_t k_bytes, v_bytes;     /* bytes of one unit */
    struct cache_head *kv_heads; /* [n_layer * n_head] */
    uint8_t *k, *v;              /* the pool: [slots], heads side by side */
    float *score;
    uint32_t *pos;
    struct recurrent_state recurrent;
    int64_t n_pos;         /* positions seen */
    int n_unscored;        /* the newest n (<= CACHE_UNSCORED_MAX) get scores later, see cis.c */
    int n_tried;           /* units after the newest of every head that cache_accept can add */
    int64_t n_evicted;     /* units evicted since it was opened */
    int64_t n_evictions;   /* times */
    int64_t n_returned;    /* evicted units that recall.h returned since the cache was opened */
    int64_t n_returns;     /* times */
    int64_t n_loads;       /* times that it was emptied or loaded */
    int64_t col_width;     /* positions per column of `kept`, a power of two */
    uint32_t *kept;        /* [n_layer * n_head][RETENTION_COLS] live units per column */
    struct cache *windows; /* the units of layers with windows; NULL = none */
};

/* Bytes of one unit, with its score and position. */
size_t cache_unit_bytes(const struct cache_shape *s);

/* Takes the pool's memory from `a`, backed or only planned; not that of the recurrent state. */
void cache_plan(struct cache *c, const struct cache_shape *shape, struct arena *a);
/* The bytes that it takes. */
size_t cache_plan_bytes(const struct cache_shape *shape);

/* Call before reading the newest n units; does nothing if they are in host memory. */
int cache_fetch(const struct cache *c, int n, struct err *e);
/* Call before reading the recurrent state; cache_fetch of one unit is enough for its
 * newest step. */
int cache_fetch_state(const struct cache *c, struct err *e);

/* Removes all units. */
void cache_clear(struct cache *c);
/* Asserts the invariants; for CHECK (base/check.h). */
void cache_check(const struct cache *c);

static inline int cache_n_heads(const struct cache *c)
{
    return c->shape.n_layer * c->shape.n_head;
}

static inline struct cache_head *cache_head(const struct cache *c, int layer, int head)
{
    return &c->kv_heads[layer * c->shape.n_head + head];
}

int cache_len_max(const struct cache *c);   /* of the longest head */
int64_t cache_units(const struct cache *c); /* those set aside, too */

int cache_head_max(const struct cache_shape *s); /* maximum slots of one head */
size_t cache_slots(const struct cache_shape *s);

int cache_room(const struct cache *c); /* tokens that can be appended */

/* Windows: drops units that no window reaches any more if that is necessary to append n units. */
void cache_windows_make_room(struct cache *c, int n);
/* The shape of the cache of the layers with windows. */
struct cache_shape cache_windows_shape(const struct cache_shape *s);
/* Slots per head: for a window, up to two tiles before it, and a chunk. */
int cache_windows_capacity(const struct cache_windows *w);
/* The first position whose units are kept when n_pos positions were seen: the first of a tile, and
 * at least a tile before the window, so that the newest units can be taken back. */
int64_t cache_windows_first(const struct cache_windows *w, int64_t n_pos);

/* Gives every head of a shared region its part of the free slots; units move, their order stays.
 * Without `units` their keys and values are not moved: they are in device memory. p: NULL = on this
 * thread. */
struct pool;
void cache_layout(struct cache *c, bool units, struct pool *p);

/* Call after n units were appended to every head (positions n_pos … n_pos + n - 1): counts them and
 * advances n_pos. */
void cache_appended(struct cache *c, int n);

/* Removes the newest unit of every head, which must have position n_pos - 1. */
void cache_remove_newest(struct cache *c);

/* Speculation (forward_try): takes back n units that were appended but not counted, n_tried from
 * now on; cache_accept adds the oldest of them again, for position n_pos. */
void cache_take_back(struct cache *c, int n);
void cache_accept(struct cache *c);

/* Evicts the units of positions [from, end) whatever their scores; returns how many there were. All
 * units must have their scores. */
int64_t cache_drop(struct cache *c, int64_t from, int64_t end);
bool cache_holds(const struct cache *c, int64_t from, int64_t end); /* any of them */

/* Recounts one head's columns after an eviction; may run for different heads concurrently. */
void cache_recount(struct cache *c, int index);

/* Adds 1 to out[p - pos] for every position p in [pos, pos + n) that the head holds, set aside or
 * not. */
void cache_count(const struct cache_head *h, int64_t pos, int n, uint16_t *out);

/* The index of the first of n ascending positions that is at least `from`; n if there is none. */
size_t cache_first_from(const uint32_t *pos, size_t n, uint32_t from);

/* The first slot whose position is at least `pos`; len if there is none. */
int cache_slot(const struct cache_head *h, uint32_t pos);

/* The slot that holds a position, -1 = none. */
int cache_find(const struct cache_head *h, int64_t pos);

/* Moves n units from slot `from` of a head to slot `to`. */
void cache_move(const struct cache *c, struct cache_head *h, int to, int from, int n);

/* Makes room for `coming` units of each head, and sets `coming` to 0; false when there is none. */
bool cache_make_room(struct cache *c);

/* A unit outside the pool. */
struct cache_unit {
    uint32_t pos;
    float score;
    const uint8_t *k, *v;
};

/* Puts n units of earlier positions, ascending, into a head that has room for them, in position
 * order; those that it holds already are left out. Returns how many are new. Counters follow by
 * cache_recount. */
int cache_insert(struct cache *c, int index, struct cache_unit *units, int n);

/* Call after all layers were filled directly (segment.h): sets n_pos and counts all units. */
void cache_imported(struct cache *c, int64_t n_pos);

#endif
