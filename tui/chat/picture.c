#include "tui/chat/picture.h"

#include "runtime/session/session.h"

struct picture picture_make(const struct retention *r, const struct waterfall *past,
                            enum map_mode mode, int layer, int cells, int zoom, int64_t position)
{
    struct picture p = {r, past, mode, layer, cells < 1 ? 1 : cells, 0, r->n_cols};
    p.n_cols = r->n_cols >> zoom;
    if (p.n_cols < 1) p.n_cols = 1;
    p.col = (int)(position / r->col_width) - p.n_cols / 2;
    if (p.col + p.n_cols > r->n_cols) p.col = r->n_cols - p.n_cols;
    if (p.col < 0) p.col = 0;
    return p;
}

/* Without a row taken at the snapshot's own time, or later. */
static int past_rows(const struct picture *p)
{
    int n = p->past->n;
    while (n > 0 && p->past->rows[n - 1].n_pos >= p->r->n_pos) n--;
    return n;
}

int64_t picture_length(const struct picture *p, int row)
{
    return row < past_rows(p) ? p->past->rows[row].n_pos : p->r->n_pos;
}

int picture_layers(const struct retention *r)
{
    return r->n_all > 0 ? r->n_all : r->n_layer;
}

struct retention_layer picture_layer(const struct retention *r, int layer)
{
    if (r->n_all > 0) return r->layers[layer];
    return (struct retention_layer){.kind = RETENTION_UNITS, .kv_layer = (int16_t)layer};
}

int picture_model_layer(const struct retention *r, int kv_layer)
{
    for (int i = 0; i < r->n_all; i++)
        if (r->layers[i].kv_layer == kv_layer) return i;
    return kv_layer;
}

bool picture_is_state(const struct picture *p, int row, int n)
{
    if (p->mode != MAP_LAYERS) return false;
    for (int i = row; i < row + n; i++)
        if (picture_layer(p->r, i).kind != RETENTION_STATE) return false;
    return true;
}

bool picture_has_window(const struct picture *p, int row)
{
    return p->mode == MAP_LAYERS && picture_layer(p->r, row).kind == RETENTION_WINDOW;
}

int picture_rows(const struct picture *p)
{
    switch (p->mode) {
    case MAP_HEADS: return p->r->n_head;
    case MAP_ROWS: return p->r->n_layer * p->r->n_head;
    case MAP_HISTORY: return past_rows(p) + 1;
    default: return picture_layers(p->r);
    }
}

/* Snapshot columns [*col, *end) of cell x. */
static bool columns(const struct picture *p, int x, int *col, int *end)
{
    if (x >= p->cells) return false;
    ramp_stretch(p->n_cols, p->cells, x, col, end);
    *col += p->col;
    *end += p->col;
    return p->n_cols > 0;
}

/* The units of a row; n_layer 0: it has none. */
static struct ramp_part part_of(const struct picture *p, int row)
{
    struct ramp_part part = ramp_all(p->r);
    if (p->mode == MAP_ROWS)
        return (struct ramp_part){row / p->r->n_head, 1, row % p->r->n_head, 1};
    int layer = p->mode == MAP_LAYERS ? row : p->layer;
    if (layer < 0) return part; /* a time, of all layers */
    int kv = picture_layer(p->r, layer).kv_layer;
    if (kv < 0) return (struct ramp_part){0, 0, 0, 0};
    part = (struct ramp_part){kv, 1, 0, p->r->n_head};
    if (p->mode == MAP_HEADS) part = (struct ramp_part){kv, 1, row, 1};
    return part;
}

/* A row that shows a layer with a window: all units of its positions, and none before. */
static bool sum_window(const struct picture *p, int row, int col, int end, int64_t *kept,
                       int64_t *seen)
{
    int layer = p->mode == MAP_LAYERS ? row : p->mode == MAP_HEADS ? p->layer : -1;
    if (layer < 0 || picture_layer(p->r, layer).kind != RETENTION_WINDOW) return false;
    int64_t window = p->r->n_pos - picture_layer(p->r, layer).window;
    int64_t from = ramp_position(p->r, col), last = ramp_position(p->r, end);
    if (from < window) from = window;
    if (last > p->r->n_pos) last = p->r->n_pos;
    *kept = *seen = last > from ? (last - from) * (p->mode == MAP_HEADS ? 1 : p->r->n_head) : 0;
    return true;
}

static void sum(const struct picture *p, int row, struct ramp_part part, int col, int end,
                int64_t *kept, int64_t *seen)
{
    if (p->mode == MAP_HISTORY && row < past_rows(p))
        waterfall_sum(p->past, row, part, ramp_position(p->r, col), ramp_position(p->r, end), kept,
                      seen);
    else
        ramp_sum(p->r, part, col, end, kept, seen);
}

static void sum_rows(const struct picture *p, int row, int n, int col, int end, int64_t *kept,
                     int64_t *seen)
{
    *kept = *seen = 0;
    for (int i = 0; i < n; i++) {
        int64_t k, s;
        struct ramp_part part = part_of(p, row + i);
        if (!sum_window(p, row + i, col, end, &k, &s)) {
            if (part.n_layer == 0) continue;
            sum(p, row + i, part, col, end, &k, &s);
        }
        *kept += k;
        *seen += s;
    }
}

int picture_level(const struct picture *p, int row, int n, int x)
{
    int col, end;
    int64_t kept, seen;
    if (!columns(p, x, &col, &end)) return -1;
    sum_rows(p, row, n, col, end, &kept, &seen);
    if (seen <= 0) return -1;
    if (n == 1 && picture_has_window(p, row)) return RAMP_LEVEL_ALL; /* by the model's design */
    const bool past = p->mode == MAP_HISTORY && row < past_rows(p);
    const struct waterfall_row *then = past ? &p->past->rows[row] : NULL;
    const int64_t n_pos = past ? then->n_pos : p->r->n_pos, last = ramp_position(p->r, end);
    const struct ramp_old old = {past ? then->lead : p->r->lead, past ? then->tail : p->r->tail, 0,
                                 0};
    return ramp_level_at(kept, seen, ramp_position(p->r, col), last < n_pos ? last : n_pos, &old);
}

void picture_row(const struct picture *p, int row, int n, int64_t *kept, int64_t *seen)
{
    sum_rows(p, row, n, p->col, p->col + p->n_cols, kept, seen);
}

double picture_per_cell(const struct picture *p)
{
    return (double)p->n_cols / p->cells * (double)p->r->col_width;
}

void picture_positions(const struct picture *p, int x, int64_t *from, int64_t *end)
{
    int col, last;
    if (!columns(p, x, &col, &last)) col = last = p->col + p->n_cols;
    *from = ramp_position(p->r, col);
    *end = ramp_position(p->r, last);
    if (*end > p->r->n_pos) *end = p->r->n_pos;
}

int picture_x(const struct picture *p, int64_t position)
{
    int x = ramp_cell(p->n_cols, p->cells, (int)(position / p->r->col_width) - p->col);
    return x < 0 ? 0 : x >= p->cells ? p->cells - 1 : x;
}
