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

/* Rows are layers of the model; in other modes they are heads or times. */
static bool rows_are_layers(const struct picture *p)
{
    return p->mode == MAP_LAYERS || p->mode == MAP_GRID;
}

bool picture_is_state(const struct picture *p, int row, int n)
{
    if (!rows_are_layers(p)) return false;
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

int picture_slices(const struct picture *p)
{
    int n = p->mode == MAP_GRID ? p->cells / p->r->n_head : p->cells;
    return n < 1 ? 1 : n;
}

/* Heads are separated if there is room for a blank between them. */
static int slices_drawn(const struct picture *p)
{
    int n = picture_slices(p);
    return p->mode == MAP_GRID && n >= 4 ? n - 1 : n;
}

int picture_head(const struct picture *p, int x)
{
    int head = p->mode == MAP_GRID ? x / picture_slices(p) : 0;
    return head < p->r->n_head ? head : p->r->n_head - 1;
}

/* Snapshot columns [*col, *end) of cell x; false for a blank between heads. */
static bool columns(const struct picture *p, int x, int *col, int *end)
{
    int n = slices_drawn(p);
    if (p->mode == MAP_GRID) {
        if (x / picture_slices(p) >= p->r->n_head) return false;
        x %= picture_slices(p);
    }
    if (x >= n) return false;
    ramp_stretch(p->n_cols, n, x, col, end);
    *col += p->col;
    *end += p->col;
    return p->n_cols > 0;
}

/* The units of a row; n_layer 0: it has none. */
static struct ramp_part part_of(const struct picture *p, int row, int x)
{
    struct ramp_part part = ramp_all(p->r);
    if (p->mode == MAP_ROWS)
        return (struct ramp_part){row / p->r->n_head, 1, row % p->r->n_head, 1};
    int layer = rows_are_layers(p) ? row : p->layer;
    if (layer < 0) return part; /* a time, of all layers */
    int kv = picture_layer(p->r, layer).kv_layer;
    if (kv < 0) return (struct ramp_part){0, 0, 0, 0};
    part = (struct ramp_part){kv, 1, 0, p->r->n_head};
    if (p->mode == MAP_HEADS) part = (struct ramp_part){kv, 1, row, 1};
    if (p->mode == MAP_GRID && x >= 0) part = (struct ramp_part){kv, 1, picture_head(p, x), 1};
    return part;
}

/* A row that shows a layer with a window: all units of its positions, and none before. */
static bool sum_window(const struct picture *p, int row, int x, int col, int end, int64_t *kept,
                       int64_t *seen)
{
    int layer = rows_are_layers(p) ? row : p->mode == MAP_HEADS ? p->layer : -1;
    if (layer < 0 || picture_layer(p->r, layer).kind != RETENTION_WINDOW) return false;
    int64_t window = p->r->n_pos - picture_layer(p->r, layer).window;
    int64_t from = ramp_position(p->r, col), last = ramp_position(p->r, end);
    if (from < window) from = window;
    if (last > p->r->n_pos) last = p->r->n_pos;
    bool one = p->mode == MAP_HEADS || (p->mode == MAP_GRID && x >= 0);
    *kept = *seen = last > from ? (last - from) * (one ? 1 : p->r->n_head) : 0;
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

/* Adds up n rows; x < 0: of all heads. */
static void sum_rows(const struct picture *p, int row, int n, int x, int col, int end,
                     int64_t *kept, int64_t *seen)
{
    *kept = *seen = 0;
    for (int i = 0; i < n; i++) {
        int64_t k, s;
        struct ramp_part part = part_of(p, row + i, x);
        if (!sum_window(p, row + i, x, col, end, &k, &s)) {
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
    sum_rows(p, row, n, x, col, end, &kept, &seen);
    if (seen <= 0) return -1;
    if (n == 1 && picture_has_window(p, row)) return RAMP_LEVEL_ALL; /* by the model's design */
    const bool past = p->mode == MAP_HISTORY && row < past_rows(p);
    const struct waterfall_row *then = past ? &p->past->rows[row] : NULL;
    const int64_t n_pos = past ? then->n_pos : p->r->n_pos, last = ramp_position(p->r, end);
    return ramp_level_at(kept, seen, ramp_position(p->r, col), last < n_pos ? last : n_pos,
                         past ? then->lead : p->r->lead, past ? then->tail : p->r->tail);
}

void picture_row(const struct picture *p, int row, int n, int64_t *kept, int64_t *seen)
{
    sum_rows(p, row, n, -1, p->col, p->col + p->n_cols, kept, seen);
}

bool picture_is_flat(const struct picture *p)
{
    int64_t least = INT64_MAX, most = 0;
    for (int layer = 0; layer < p->r->n_layer; layer++) {
        int64_t kept, seen;
        ramp_sum(p->r, (struct ramp_part){layer, 1, 0, p->r->n_head}, 0, p->r->n_cols, &kept,
                 &seen);
        least = kept < least ? kept : least;
        most = kept > most ? kept : most;
    }
    return most - least <= most / 100;
}

double picture_agreement(const struct picture *p, int layer)
{
    const struct retention *r = p->r;
    double sum = 0;
    int n = 0;
    layer = picture_layer(r, layer).kv_layer;
    if (layer < 0) return -1;
    for (int a = 0; a < r->n_head; a++)
        for (int b = 0; b < a; b++) {
            const uint32_t *x = r->kept + (layer * r->n_head + a) * RETENTION_COLS;
            const uint32_t *y = r->kept + (layer * r->n_head + b) * RETENTION_COLS;
            int64_t both = 0, all = 0;
            for (int c = 0; c < r->n_cols; c++) {
                both += x[c] < y[c] ? x[c] : y[c];
                all += (int64_t)x[c] + y[c];
            }
            if (all == 0) continue;
            sum += 2 * (double)both / (double)all;
            n++;
        }
    return n > 0 ? sum / n : -1;
}

double picture_per_cell(const struct picture *p)
{
    return (double)p->n_cols / slices_drawn(p) * (double)p->r->col_width;
}

void picture_positions(const struct picture *p, int x, int64_t *from, int64_t *end)
{
    int col, last;
    if (!columns(p, x, &col, &last)) col = last = p->col + p->n_cols;
    *from = ramp_position(p->r, col);
    *end = ramp_position(p->r, last);
    if (*end > p->r->n_pos) *end = p->r->n_pos;
}

int picture_x(const struct picture *p, int64_t position, int head)
{
    int n = slices_drawn(p), base = p->mode == MAP_GRID ? head * picture_slices(p) : 0;
    int x = ramp_cell(p->n_cols, n, (int)(position / p->r->col_width) - p->col);
    return base + (x < 0 ? 0 : x >= n ? n - 1 : x);
}
