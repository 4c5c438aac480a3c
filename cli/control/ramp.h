/* ramp: converts a retention snapshot to cells of six classes, the same everywhere.
 *
 * A cell is a fraction: units kept / units seen, over the (layer, head, position) triples in it.
 * Classes grow by factors, because old text of a model with many heads keeps a few percent: 0, up
 * to 2, 10, 40 %, and more; a cell with at least one unit is never class 0. The sixth, `all`, is
 * for the beginning and the newest text, where no eviction has taken anything: it is drawn
 * quietly. Cells consist of whole snapshot columns; a row that has no more cells than columns adds
 * up to the engine's counts. */
#ifndef RETAIN_CLI_CONTROL_RAMP_H
#define RETAIN_CLI_CONTROL_RAMP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

struct retention;
struct session_stats;

enum ramp { RAMP_GONE, RAMP_FEW, RAMP_SOME, RAMP_MANY, RAMP_MOST, RAMP_ALL, RAMP_CLASSES };
/* Level 0 means gone and the last level means all. Each class between them has four levels, for
 * terminals with many colours. */
enum { RAMP_LEVEL_ALL = 17, RAMP_LEVELS };

int ramp_level(int64_t kept, int64_t seen);

/* Old text: evictions have taken units of positions [lead, tail), and of no others. */
struct ramp_old {
    int64_t lead, tail;
    int64_t kept, seen; /* units of all old text, to compare a cell with; 0 = do not compare */
};
/* The level of a cell of positions [pos, end). Only its old text counts; a cell without old text is
 * `all`. Summed over all heads, most cells keep a similar share, so a cell is also compared with
 * the average of old text, and has the higher of the two levels. 0.7, 1 and 1.4 times the average
 * separate the classes few, some, many and most. */
int ramp_level_at(int64_t kept, int64_t seen, int64_t pos, int64_t end, const struct ramp_old *o);
int ramp_level_class(int level);             /* class of a level */
int ramp_class_level(int cls);               /* the level that stands for a class */
const char *ramp_glyph(int cls, bool ascii); /* " .:=#-" or blocks */
extern const char *const ramp_words[RAMP_CLASSES];

/* Layers [layer, layer + n_layer) and heads [head, head + n_head) of a snapshot. */
struct ramp_part {
    int layer, n_layer, head, n_head;
};
struct ramp_part ramp_all(const struct retention *r);

/* Sums over the snapshot's columns [col, col_end). */
void ramp_sum(const struct retention *r, struct ramp_part part, int col, int col_end, int64_t *kept,
              int64_t *seen);
/* The same for each column separately, over all heads; 0 after the last. */
void ramp_sums(const struct retention *r, int64_t kept[]); /* [RETENTION_COLS] */

/* Cell x of a row `width` cells wide that shows n columns in full: the columns [*from, *end). Cells
 * share a column when there are more cells than columns. */
void ramp_stretch(int n, int width, int x, int *from, int *end);
int ramp_cell(int n, int width, int col); /* the first cell that shows it */
/* The same for all columns of a snapshot; none when it is empty. */
void ramp_columns(const struct retention *r, int width, int x, int *col, int *col_end);
int64_t ramp_position(const struct retention *r, int col); /* first position of a column */

/* Numbers, averaged over heads: "64 of 253 kept"; narrow: "64/253". */
void ramp_kept(const struct session_stats *st, bool narrow, struct str *out);
/* "budget 64"; before the first eviction "forgets from 3,328". */
void ramp_budget(const struct session_stats *st, struct str *out);
/* The number of tokens that were run through the model, so that every head has seen them. */
int64_t ramp_seen(const struct session_stats *st);

#endif
