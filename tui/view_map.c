/* view_map: which units are alive, by layer (or head) and position. Every cell is a share of whole
 * snapshot columns (ramp.h), so the picture adds up to what the engine counted. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tui/app.h"
#include "tui/bars.h"
#include "tui/num.h"
#include "tui/ramp.h"

enum { LABEL = 6, BAR = 5 }; /* columns left and right of the picture */

static const struct retention *picture(const struct app *a)
{
    return a->mapped.frozen ? a->mapped.frozen : a->map;
}

/* What row y of `rows` stands for. */
static struct ramp_part row_part(const struct retention *r, int layer, int rows, int y)
{
    struct ramp_part part = ramp_all(r);
    int n = layer < 0 ? r->n_layer : r->n_head;
    int each = (n + rows - 1) / rows;
    int from = y * each, count = from + each > n ? n - from : each;
    if (layer < 0) {
        part.layer = from;
        part.n_layer = count;
    } else {
        part.layer = layer;
        part.n_layer = 1;
        part.head = from;
        part.n_head = count;
    }
    return part;
}

static int row_count(const struct retention *r, int layer, int room)
{
    int n = layer < 0 ? r->n_layer : r->n_head;
    if (room < 1) return 0;
    int each = (n + room - 1) / room;
    return (n + each - 1) / each;
}

static void draw_ruler(const struct retention *r, struct pane p, int y, int cells)
{
    char label[NUM_MAX];
    int next = 0;
    for (int x = 0; x < cells; x += 8) {
        int col, end;
        ramp_columns(r, cells, x, &col, &end);
        if (x < next) continue;
        num_count(ramp_position(r, col), label);
        if (LABEL + 1 + x + (int)strlen(label) > p.w) return;
        next = pane_puts(p, LABEL + 1 + x, y, ATTR_DIM, label) - LABEL;
    }
}

static void put_label(struct pane p, int y, struct ramp_part part, int layer)
{
    int from = layer < 0 ? part.layer : part.head;
    int n = layer < 0 ? part.n_layer : part.n_head;
    const char *kind = layer < 0 ? "" : "H";
    if (n > 1)
        pane_printf(p, 0, y, ATTR_DIM, "%s%02d-%02d", kind, from, from + n - 1);
    else
        pane_printf(p, 0, y, ATTR_DIM, "%s%02d", kind, from);
}

static void draw_row(const struct retention *r, struct pane p, int y, struct ramp_part part,
                     int cells)
{
    int64_t kept, seen;
    char share[16];
    pane_puts(p, LABEL, y, ATTR_DIM, "|");
    for (int x = 0; x < cells; x++) {
        int col, end;
        ramp_columns(r, cells, x, &col, &end);
        ramp_sum(r, part, col, end, &kept, &seen);
        pane_ramp(p, LABEL + 1 + x, y, ramp_class(kept, seen));
    }
    ramp_sum(r, part, 0, r->n_cols, &kept, &seen);
    snprintf(share, sizeof share, "%3d%%", seen ? (int)(100 * kept / seen) : 0);
    int x = pane_puts(p, LABEL + 1 + cells, y, ATTR_DIM, "|");
    pane_puts(p, x, y, ATTR_TEXT, share);
}

static int cell_of(const struct retention *r, int cells, int64_t position)
{
    int col = r->col_width ? (int)(position / r->col_width) : 0;
    for (int x = 0; x < cells; x++) {
        int from, end;
        ramp_columns(r, cells, x, &from, &end);
        if (col >= from && col < end) return x;
    }
    return cells - 1;
}

/* Numbers of turns where they begin; S the sinks, ^ the newest units: both are kept by rule. */
static void draw_turns(struct app *a, const struct retention *r, struct pane p, int y, int cells)
{
    int turn = 0, free_x = 0;
    pane_puts(p, 0, y, ATTR_DIM, "turns");
    struct pane ruler = pane_sub(p, LABEL + 1, y, cells, 1);
    pane_fill(ruler, 0, 0, cells, ATTR_DIM, '.');
    for (int i = 0; i < a->talk.n; i++) {
        const struct message *m = &a->talk.messages[i];
        if (m->role != CHAT_USER || m->position < 0 || ++turn == 0 || m->position >= r->n_pos)
            continue;
        int x = cell_of(r, cells, m->position);
        if (x >= free_x) free_x = pane_printf(ruler, x, 0, ATTR_TEXT, "%d", turn);
    }
    int64_t newest = r->n_pos - r->n_stabilizer;
    if (r->n_sink > 0) pane_puts(ruler, 0, 0, ATTR_BOLD, "S");
    if (r->n_stabilizer > 0)
        pane_puts(ruler, cell_of(r, cells, newest > 0 ? newest : 0), 0, ATTR_BOLD, "^");
}

/* ---- the cursor's lines --------------------------------------------------------------------- */

static int turn_of(const struct app *a, int index)
{
    int turn = 0;
    for (int i = 0; i <= index; i++) turn += a->talk.messages[i].role == CHAT_USER;
    return turn;
}

static void draw_text_at(struct app *a, struct pane p, int x, int y, int64_t position)
{
    size_t byte, end;
    struct str safe = {0};
    int index = transcript_find(&a->talk, position, &byte, &end);
    if (index < 0) return;
    const struct message *m = &a->talk.messages[index];
    const char *s = str_get(&m->text);
    size_t n = m->text.n - byte < 200 ? m->text.n - byte : 200;
    sanitize(s + byte, n, a->ascii, false, &safe);
    for (size_t i = 0; i < safe.n; i++)
        if (safe.data[i] == '\n' || safe.data[i] == '\t') safe.data[i] = ' ';
    x = pane_printf(p, x, y, ATTR_TEXT, "  turn %d %s  \"", turn_of(a, index),
                    m->role == CHAT_USER ? "you" : "llm");
    struct pane room = pane_sub(p, x, y, p.w - x - 2, 1);
    int width = pane_puts(room, 0, 0, ATTR_TEXT, str_get(&safe));
    pane_puts(p, x + (width < room.w ? width : room.w), y, ATTR_TEXT, "\"");
    str_release(&safe);
}

/* Layers that keep most and least of the columns under the cursor. */
static void draw_extremes(const struct retention *r, struct pane p, int x, int y, int col, int end)
{
    int most = 0, least = 0;
    double high = -1, low = 2;
    for (int layer = 0; layer < r->n_layer; layer++) {
        int64_t kept, seen;
        ramp_sum(r, (struct ramp_part){layer, 1, 0, r->n_head}, col, end, &kept, &seen);
        double share = seen ? (double)kept / (double)seen : 0;
        if (share > high) {
            high = share;
            most = layer;
        }
        if (share < low) {
            low = share;
            least = layer;
        }
    }
    pane_printf(p, x, y, ATTR_TEXT, "   most L%02d %.0f%%   least L%02d %.0f%%", most, 100 * high,
                least, 100 * low);
}

static void draw_cursor_lines(struct app *a, const struct retention *r, struct pane p, int y,
                              int cells)
{
    char from[NUM_MAX], to[NUM_MAX];
    int col, end;
    int64_t kept, seen;
    ramp_columns(r, cells, cell_of(r, cells, a->mapped.position), &col, &end);
    int64_t last = ramp_position(r, end) < r->n_pos ? ramp_position(r, end) : r->n_pos;
    ramp_sum(r, ramp_all(r), col, end, &kept, &seen);
    pane_puts(p, 0, y, ATTR_DIM, "cursor");
    int x = pane_printf(p, LABEL + 1, y, ATTR_TEXT, "pos %s-%s",
                        num_exact(ramp_position(r, col), from), num_exact(last - 1, to));
    draw_text_at(a, p, x, y, a->mapped.position);
    if (p.h <= y + 1) return;
    int heads = r->n_layer * r->n_head;
    x = pane_printf(p, LABEL + 1, y + 1, ATTR_TEXT, "kept by %.*f of %d heads%s",
                    last - 1 > ramp_position(r, col),
                    seen ? (double)kept * heads / (double)seen : 0.0, heads,
                    kept == 0         ? ": gone"
                    : 4 * kept < seen ? ": thin"
                                      : "");
    draw_extremes(r, p, x, y + 1, col, end);
}

/* ---- the picture ---------------------------------------------------------------------------- */

static int draw_rows(struct app *a, const struct retention *r, struct pane p, int y, int rows,
                     int cells, int layer)
{
    (void)a;
    for (int i = 0; i < rows; i++) {
        struct ramp_part part = row_part(r, layer, rows, i);
        put_label(p, y + i, part, layer);
        draw_row(r, p, y + i, part, cells);
    }
    return y + rows;
}

static int cells_of(struct pane p)
{
    int cells = p.w - LABEL - 2 - BAR;
    return cells < 1 ? 1 : cells;
}

void map_draw_pane(struct app *a, struct pane p)
{
    const struct retention *r = a->map;
    if (!r || r->n_cols == 0 || p.h < 5 || p.w < 20) return;
    int cells = cells_of(p), rows = row_count(r, -1, p.h - 4);
    int x = pane_puts(p, 0, 0, ATTR_BOLD, p.w >= 50 ? "RETENTION MAP" : "MAP");
    x = pane_printf(p, x, 0, ATTR_TEXT, "  1 col=%lld tok  ",
                    (long long)((r->n_pos + cells - 1) / cells));
    bar_legend(p, x, 0);
    draw_ruler(r, p, 1, cells);
    int y = draw_rows(a, r, p, 2, rows, cells, -1);
    draw_turns(a, r, p, y, cells);
}

static void draw_title(struct app *a, const struct retention *r, struct pane p, int cells)
{
    char of[48];
    if (a->mapped.layer < 0)
        snprintf(of, sizeof of, "avg of %d heads", r->n_head);
    else
        snprintf(of, sizeof of, "heads of layer %d", a->mapped.layer);
    pane_fill(p, 0, 0, p.w, ATTR_TITLE, ' ');
    struct str safe = {0};
    sanitize(a->name, strlen(a->name), a->ascii, true, &safe);
    int x = pane_printf(p, 1, 0, ATTR_TITLE, "%s > map  %s  1 col=%lld tok  %s  ", str_get(&safe),
                        of, (long long)((r->n_pos + cells - 1) / cells),
                        a->mapped.frozen ? "HELD" : "LIVE");
    str_release(&safe);
    if (p.w - 21 >= x) bar_legend(p, p.w - 21, 0);
    if (p.w - 21 >= x)
        draw_ruler(r, p, 1, cells);
    else
        bar_legend(p, LABEL + 1, 1);
}

static void draw(struct app *a, struct pane p)
{
    const struct retention *r = picture(a);
    if (p.h < 8 || p.w < 24 || !r || r->n_cols == 0) {
        pane_puts(p, 0, 0, ATTR_TITLE,
                  r && r->n_cols ? "map: too small a screen" : "map: nothing is cached yet");
        if (p.h > 2) bar_hints(a, p, p.h - 1);
        return;
    }
    bool bars = p.h >= 28;
    int cells = cells_of(p), room = p.h - 6 - (bars ? 3 : 0);
    int rows = row_count(r, a->mapped.layer, room);
    a->mapped.cells = cells;
    a->mapped.rows = rows;
    if (a->mapped.row >= rows) a->mapped.row = rows - 1;
    draw_title(a, r, p, cells);
    pane_puts(p, 0, 1, ATTR_DIM, a->mapped.layer < 0 ? "layer" : "head");
    int y = draw_rows(a, r, p, 2, rows, cells, a->mapped.layer);
    int x = LABEL + 1 + cell_of(r, cells, a->mapped.position);
    pane_attr(p, 0, 2 + a->mapped.row, LABEL, ATTR_SELECT);
    pane_attr(p, x, 2 + a->mapped.row, 1, ATTR_SELECT);
    pane_cursor(p, x, 2 + a->mapped.row);
    draw_turns(a, r, p, y, cells);
    draw_cursor_lines(a, r, p, y + 1, cells);
    if (bars) {
        bar_strip(a, p, p.h - 3);
        bar_memory(a, p, p.h - 2);
    }
    bar_hints(a, p, p.h - 1);
}

/* ---- keys ----------------------------------------------------------------------------------- */

static void move_cursor(struct app *a, int by)
{
    const struct retention *r = picture(a);
    int cells = a->mapped.cells, col, end;
    if (!r || r->n_cols == 0 || cells < 1) return;
    int x = cell_of(r, cells, a->mapped.position) + by;
    x = x < 0 ? 0 : x >= cells ? cells - 1 : x;
    ramp_columns(r, cells, x, &col, &end);
    a->mapped.position = ramp_position(r, col);
}

static void move_turn(struct app *a, bool after)
{
    int64_t best = -1;
    for (int i = 0; i < a->talk.n; i++) {
        const struct message *m = &a->talk.messages[i];
        if (m->role != CHAT_USER || m->position < 0) continue;
        if (after ? m->position > a->mapped.position && best < 0 : m->position < a->mapped.position)
            best = m->position;
    }
    if (best >= 0) a->mapped.position = best;
}

static void toggle_layer(struct app *a)
{
    const struct retention *r = picture(a);
    if (!r || a->mapped.rows < 1) return;
    if (a->mapped.layer >= 0) {
        a->mapped.layer = -1;
        a->mapped.row = 0;
        return;
    }
    a->mapped.layer = row_part(r, -1, a->mapped.rows, a->mapped.row).layer;
    a->mapped.row = 0;
}

static void toggle_pause(struct app *a)
{
    if (a->mapped.frozen) {
        free(a->mapped.frozen->kept);
        free(a->mapped.frozen);
        a->mapped.frozen = NULL;
        return;
    }
    const struct retention *r = a->map;
    if (!r) return;
    size_t n = (size_t)r->n_layer * (size_t)r->n_head * RETENTION_COLS;
    struct retention *copy = malloc(sizeof *copy);
    uint32_t *kept = malloc(sizeof *kept * n);
    if (!copy || !kept) abort();
    *copy = *r;
    memcpy(kept, r->kept, sizeof *kept * n);
    copy->kept = kept;
    a->mapped.frozen = copy;
}

static void open_text(struct app *a)
{
    size_t byte, end;
    int index = transcript_find(&a->talk, a->mapped.position, &byte, &end);
    if (index < 0) return;
    a->chat.held = true;
    a->chat.top_message = index;
    a->chat.top_byte = byte;
    app_show(a, VIEW_CHAT);
}

static bool request(struct app *a, enum request r)
{
    switch (r) {
    case REQ_LEFT: move_cursor(a, -1); break;
    case REQ_RIGHT: move_cursor(a, 1); break;
    case REQ_PAGE_UP: move_cursor(a, -10); break;
    case REQ_PAGE_DOWN: move_cursor(a, 10); break;
    case REQ_FIRST: move_cursor(a, -a->mapped.cells); break;
    case REQ_LAST: move_cursor(a, a->mapped.cells); break;
    case REQ_UP: a->mapped.row -= a->mapped.row > 0; break;
    case REQ_DOWN: a->mapped.row += a->mapped.row + 1 < a->mapped.rows; break;
    case REQ_LAYER: toggle_layer(a); break;
    case REQ_TURN_BEFORE: move_turn(a, false); break;
    case REQ_TURN_AFTER: move_turn(a, true); break;
    case REQ_PAUSE: toggle_pause(a); break;
    case REQ_OPEN: open_text(a); break;
    default: return false;
    }
    return true;
}

const struct view_ops view_map = {.name = "map", .draw = draw, .request = request};
