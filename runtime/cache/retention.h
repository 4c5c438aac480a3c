/* retention: counts of live cache units by layer, KV head and position, which the
 * screens display. Filled by cache.c, copied out by session_retention. */
#ifndef RETAIN_RUNTIME_CACHE_RETENTION_H
#define RETAIN_RUNTIME_CACHE_RETENTION_H

#include <stdint.h>

/* Live units by layer, KV head and position. Positions are divided into at most RETENTION_COLS
 * equal columns; a column's width doubles when the conversation outgrows it. */
#define RETENTION_COLS 512

/* The part of the past that a layer of the model keeps. */
enum retention_kind {
    RETENTION_UNITS,  /* units, as its policy decides */
    RETENTION_WINDOW, /* all of the newest positions, by the model's design; not in `kept` */
    RETENTION_STATE,  /* no units: a recurrent state of fixed size */
};

#define RETENTION_LAYERS 256

struct retention_layer {
    uint8_t kind;
    int16_t kv_layer; /* its layer of `kept`; -1 = none */
    int32_t window;   /* positions, of RETENTION_WINDOW */
};

struct retention {
    int n_layer, n_head; /* layers that have units */
    int64_t n_pos;       /* positions seen */
    int64_t col_width;   /* positions per column */
    int n_cols;          /* in use: ceil(n_pos / col_width) */
    int64_t n_evictions; /* grows with each eviction: tells whether the picture has changed */
    int64_t n_evicted, n_returned; /* units: of the cache since opened, of the saved past in all */
    int n_sink, n_stabilizer;      /* always kept: the first and the newest units of each head */
    /* all units of positions [0, lead) and [tail, n_pos) are alive: protected, or newer than the
     * last eviction */
    int64_t lead, tail;
    int n_all; /* the model's layers; 0 = all of them have units, in this order */
    struct retention_layer layers[RETENTION_LAYERS]; /* [n_all] */
    /* units kept: [(layer * n_head + head) * RETENTION_COLS + col]; at most col_width each */
    uint32_t *kept;
    /* heads, over all layers, that hold a unit of each position: [n_pos]; NULL = only the columns
     * are known */
    uint16_t *heads;
    int64_t cap_heads;
    int64_t n_changes; /* differs when units were evicted, returned or loaded */
};

/* Copies into a record of the same layers and heads, whose memory it reuses. */
void retention_copy(struct retention *to, const struct retention *from);
void retention_free(struct retention *r);                   /* with its counts; NULL is fine */
void retention_reserve(struct retention *r, int64_t n_pos); /* room in `heads` */
void retention_find_whole(struct retention *r);             /* sets lead and tail */

#endif
