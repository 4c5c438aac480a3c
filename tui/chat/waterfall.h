/* waterfall: the history of the picture. Snapshots of retention, one after each eviction and as the
 * conversation grows; when there are too many, every second one is dropped, so that the rows always
 * reach back to the beginning. */
#ifndef RETAIN_TUI_CHAT_WATERFALL_H
#define RETAIN_TUI_CHAT_WATERFALL_H

#include <stdint.h>

#include "cli/control/ramp.h"

/* Rows are kept up to this number, and up to this memory if that allows fewer: at least 64. */
#define WATERFALL_ROWS  512
#define WATERFALL_BYTES (4 << 20)

struct waterfall_row {
    int64_t n_pos, col_width;
    int64_t lead, tail, n_evicted, n_returned; /* as in retention */
    int n_cols;
    uint16_t *kept; /* [n_layer * n_head][n_cols] units, as in retention */
};

struct waterfall {
    int n_layer, n_head;
    int64_t step;                              /* positions between rows */
    int64_t n_evictions;                       /* of the last row */
    int every, skipped;                        /* one of this many evictions gets a row */
    struct waterfall_row rows[WATERFALL_ROWS]; /* oldest first */
    int n;
};

void waterfall_clear(struct waterfall *w);
void waterfall_free(struct waterfall *w); /* one from the heap; may be NULL */
/* Takes a snapshot after an eviction, and when the conversation has grown by a step; drops those
 * later than it after a rewind. */
void waterfall_add(struct waterfall *w, const struct retention *r);

/* Units of a part at positions [pos, pos_end): those kept when the row was taken, and those seen by
 * then. */
void waterfall_sum(const struct waterfall *w, int row, struct ramp_part part, int64_t pos,
                   int64_t pos_end, int64_t *kept, int64_t *seen);

/* A row as a snapshot with the columns of a later one; out->kept has room for as many. */
void waterfall_retention(const struct waterfall *w, int row, const struct retention *later,
                         struct retention *out);

#endif
