/* ribbon: the whole conversation in one line, always in full width. A cell's colour is the share of
 * its units that are still in the cache; the line below it has the numbers of the turns. */
#include <stdio.h>

#include "cli/control/ramp.h"
#include "tui/chat/app.h"
#include "tui/view/bars.h"

enum { NARROW = 60, LABEL = 8, LABEL_NARROW = 3 };
/* Columns of the numbers: they keep the ribbon in place when a digit is added. */
enum { NUMBERS = 34, NUMBERS_NARROW = 14, NUMBERS_STACKED = 21 };

/* Uses the sums per column from app_snapshot: the ribbon is drawn in every frame. */
static void put_cell(struct app *a, struct pane p, int x)
{
    int col, end;
    bool lost = false;
    ramp_columns(a->map, p.w, x, &col, &end);
    if (end <= col) return;
    for (int c = col; c < end; c++) lost = lost || a->col_lost[c];
    int level = app_level(a, col, end);
    lost = lost && a->now_ms < a->lost_until_ms;
    if (lost && a->halves) /* a notch, so that the colour remains */
        pane_half(p, x, 0, level, -1);
    else
        pane_ramp(p, x, 0, level);
    if (lost && !a->halves) pane_attr(p, x, 0, 1, ATTR_MARK);
}

static int cell_of(const struct app *a, struct pane p, int64_t position)
{
    int x = ramp_cell(a->map->n_cols, p.w, (int)(position / a->map->col_width));
    return x < p.w ? x : p.w - 1;
}

/* The text that came back, and the numbers of turns at their first cells. */
static void draw_marks(struct app *a, struct pane p)
{
    int turn = 0, free_x = 0;
    for (int i = 0; i < a->returned.n; i++) {
        int64_t from = a->returned.spans[i].from, end = a->returned.spans[i].end;
        if (from >= a->map->n_pos) continue;
        for (int x = cell_of(a, p, from); x <= cell_of(a, p, end - 1) && x < p.w; x++)
            pane_puts(p, x, 0, ATTR_RETURNED, p.g->ascii ? "^" : "▲");
    }
    for (int i = 0; i < a->talk.n; i++) {
        const struct message *m = &a->talk.messages[i];
        if (m->role != CHAT_USER || ++turn == 0) continue;
        if (m->position < 0 || m->position >= a->map->n_pos) continue;
        int x = cell_of(a, p, m->position), n = snprintf(NULL, 0, "%d", turn);
        if (x >= free_x && x + n <= p.w) free_x = pane_printf(p, x, 0, ATTR_DIM, "%d", turn) + 1;
    }
}

/* The ribbon's cells, left of the numbers. */
static struct pane cells_of(struct pane p, int y, int rows, int n_numbers)
{
    bool narrow = p.w < NARROW;
    int label = narrow ? LABEL_NARROW : LABEL, reserve = narrow ? NUMBERS_NARROW : NUMBERS;
    if (rows > 1) reserve = NUMBERS_STACKED;
    if (n_numbers > reserve) reserve = n_numbers;
    int width = p.w - label - 2 - reserve;
    if (width < 8) width = p.w - label - 1 - n_numbers;
    return pane_sub(p, label, y, width, 1);
}

void bar_ribbon(struct app *a, struct pane p, int y, int rows)
{
    struct str kept = {0}, budget = {0};
    bool narrow = p.w < NARROW;
    const bool known = a->have_stats && a->phase != PHASE_LOADING && a->phase != PHASE_OPENING;
    if (known) ramp_kept(&a->stats, narrow, &kept);
    if (known) ramp_budget(&a->stats, &budget);
    if (!known) str_puts(&kept, "n/a");
    if (rows < 2 && !narrow && budget.n) str_printf(&kept, "  %s", budget.data);
    struct pane cells = cells_of(p, y, rows, (int)kept.n);
    int numbers = cells.x - p.x + cells.w + 2;
    a->places[PLACE_RIBBON] = cells;
    pane_puts(p, 0, y, ATTR_DIM, narrow ? "KV" : "memory");
    for (int x = 0; a->map && a->map->n_cols > 0 && x < cells.w; x++) put_cell(a, cells, x);
    pane_puts(p, numbers, y, ATTR_TEXT, str_get(&kept));
    if (rows > 1) {
        struct pane below = pane_sub(p, cells.x - p.x, y + 1, cells.w, 1);
        if (a->map && a->map->n_cols > 0) draw_marks(a, below);
        pane_puts(p, 0, y + 1, ATTR_DIM, "turn");
        pane_puts(p, numbers, y + 1, ATTR_DIM, str_get(&budget));
    }
    str_release(&kept);
    str_release(&budget);
}
