#include "tui/chat/waterfall.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "runtime/session/session.h"

enum { FIRST_STEP = 8 };

void waterfall_clear(struct waterfall *w)
{
    for (int i = 0; i < w->n; i++) free(w->rows[i].kept);
    memset(w, 0, sizeof *w);
}

void waterfall_free(struct waterfall *w)
{
    if (w) waterfall_clear(w);
    free(w);
}

static void drop_every_second(struct waterfall *w)
{
    int n = 0;
    for (int i = 0; i < w->n; i++) {
        if (i % 2)
            w->rows[n++] = w->rows[i];
        else
            free(w->rows[i].kept);
    }
    w->n = n;
    w->step *= 2;
    w->every *= 2;
}

/* Rows that fit the memory: their size grows with the conversation up to this. */
static int rows_max(const struct retention *r)
{
    int64_t row = (int64_t)r->n_layer * r->n_head * RETENTION_COLS * (int64_t)sizeof(uint16_t);
    int64_t n = WATERFALL_BYTES / row;
    return n < 64 ? 64 : n < WATERFALL_ROWS ? (int)n : WATERFALL_ROWS;
}

/* Whether a row is due: after evictions, or when the conversation has grown. */
static bool is_due(struct waterfall *w, const struct retention *r)
{
    if (r->n_cols == 0) return false;
    if (w->n == 0) return true;
    bool evicted = r->n_evictions != w->n_evictions && ++w->skipped >= w->every;
    w->n_evictions = r->n_evictions;
    return evicted || r->n_pos - w->rows[w->n - 1].n_pos >= w->step;
}

void waterfall_add(struct waterfall *w, const struct retention *r)
{
    if (w->n_layer != r->n_layer || w->n_head != r->n_head) {
        waterfall_clear(w);
        w->n_layer = r->n_layer;
        w->n_head = r->n_head;
        w->step = FIRST_STEP;
        w->every = 1;
    }
    while (w->n > 0 && w->rows[w->n - 1].n_pos > r->n_pos) free(w->rows[--w->n].kept);
    if (!is_due(w, r)) return;
    w->skipped = 0;
    w->n_evictions = r->n_evictions;
    if (w->n >= rows_max(r)) drop_every_second(w);
    int heads = r->n_layer * r->n_head;
    struct waterfall_row *row = &w->rows[w->n];
    *row = (struct waterfall_row){r->n_pos,     r->col_width,  r->lead,   r->tail,
                                  r->n_evicted, r->n_returned, r->n_cols, NULL};
    row->kept = memory_grow(NULL, (size_t)heads * (size_t)r->n_cols, sizeof *row->kept);
    for (int i = 0; i < heads; i++)
        for (int c = 0; c < r->n_cols; c++) {
            uint32_t n = r->kept[i * RETENTION_COLS + c];
            row->kept[i * r->n_cols + c] = (uint16_t)(n < UINT16_MAX ? n : UINT16_MAX);
        }
    w->n++;
}

void waterfall_sum(const struct waterfall *w, int row, struct ramp_part part, int64_t pos,
                   int64_t pos_end, int64_t *kept, int64_t *seen)
{
    const struct waterfall_row *r = &w->rows[row];
    int64_t from = pos / r->col_width, end = (pos_end + r->col_width - 1) / r->col_width;
    if (end > r->n_cols) end = r->n_cols;
    *kept = 0;
    for (int layer = part.layer; layer < part.layer + part.n_layer; layer++)
        for (int head = part.head; head < part.head + part.n_head; head++)
            for (int64_t c = from; c < end; c++)
                *kept += r->kept[(layer * w->n_head + head) * r->n_cols + c];
    int64_t last = end * r->col_width < r->n_pos ? end * r->col_width : r->n_pos;
    int64_t positions = last - from * r->col_width;
    *seen = positions > 0 ? positions * part.n_layer * part.n_head : 0;
}

void waterfall_retention(const struct waterfall *w, int row, const struct retention *later,
                         struct retention *out)
{
    const struct waterfall_row *r = &w->rows[row];
    uint32_t *kept = out->kept;
    retention_copy(out, later);
    out->n_pos = r->n_pos;
    out->lead = r->lead;
    out->tail = r->tail;
    memset(kept, 0, sizeof *kept * (size_t)w->n_layer * (size_t)w->n_head * RETENTION_COLS);
    for (int i = 0; i < w->n_layer * w->n_head; i++)
        for (int c = 0; c < r->n_cols; c++) {
            int64_t col = (int64_t)c * r->col_width / later->col_width;
            if (col < later->n_cols) kept[i * RETENTION_COLS + col] += r->kept[i * r->n_cols + c];
        }
}
