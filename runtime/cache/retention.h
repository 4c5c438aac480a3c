/* retention: counts of live cache units by layer, KV head and position, which the strip and the map
 * display. Filled by cache.c, copied out by session_retention. */
#ifndef RETAIN_RUNTIME_CACHE_RETENTION_H
#define RETAIN_RUNTIME_CACHE_RETENTION_H

#include <stdint.h>

/* Live units by layer, KV head and position. Positions are divided into at most RETENTION_COLS
 * equal columns; a column's width doubles when the conversation outgrows it. */
#define RETENTION_COLS 512

struct retention {
    int n_layer, n_head;
    int64_t n_pos;            /* positions seen */
    int64_t col_width;        /* positions per column */
    int n_cols;               /* in use: ceil(n_pos / col_width) */
    int64_t n_evictions;      /* grows with each eviction: tells whether the picture has changed */
    int n_sink, n_stabilizer; /* always kept: the first and the newest units of each head */
    /* units kept: [(layer * n_head + head) * RETENTION_COLS + col]; at most col_width each */
    uint32_t *kept;
};

#endif
