/* picture: maps each cell of the map to units. Cells consist of whole snapshot columns, so that a
 * row adds up to the engine's counts. */
#ifndef RETAIN_TUI_CHAT_PICTURE_H
#define RETAIN_TUI_CHAT_PICTURE_H

#include <stdbool.h>
#include <stdint.h>

#include "tui/chat/waterfall.h"

struct retention;

enum map_mode {
    MAP_LAYERS,  /* rows = layers, all heads together */
    MAP_HEADS,   /* rows = the heads of a layer */
    MAP_ROWS,    /* rows = every head of every layer */
    MAP_HISTORY, /* rows = all layers, or one, at earlier times, newest last */
};

struct picture {
    const struct retention *r;
    const struct waterfall *past; /* of MAP_HISTORY */
    enum map_mode mode;
    int layer;       /* of MAP_HEADS; of MAP_HISTORY, where -1 = all */
    int cells;       /* columns on the screen */
    int col, n_cols; /* the snapshot's columns that are shown */
};

/* Shows 1 / 2^zoom of the snapshot's columns, around a position. */
struct picture picture_make(const struct retention *r, const struct waterfall *past,
                            enum map_mode mode, int layer, int cells, int zoom, int64_t position);

int picture_rows(const struct picture *p);

/* Layers of the model, and the layer of one of its units' layers. */
int picture_layers(const struct retention *r);
struct retention_layer picture_layer(const struct retention *r, int layer);
int picture_model_layer(const struct retention *r, int kv_layer);
/* Whether rows [row, row + n) have no units, because their layers keep a state instead. */
bool picture_is_state(const struct picture *p, int row, int n);
bool picture_has_window(const struct picture *p, int row);
/* Length of the conversation in a row of MAP_HISTORY. */
int64_t picture_length(const struct picture *p, int row);

/* The ramp's level of cell x of rows [row, row + n); -1: the cell is empty. */
int picture_level(const struct picture *p, int row, int n, int x);
/* Units in all shown columns of these rows. */
void picture_row(const struct picture *p, int row, int n, int64_t *kept, int64_t *seen);

/* Positions [*from, *end) of cell x; and the cell of a position. */
void picture_positions(const struct picture *p, int x, int64_t *from, int64_t *end);
int picture_x(const struct picture *p, int64_t position);

double picture_per_cell(const struct picture *p); /* positions */

#endif
