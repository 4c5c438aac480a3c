/* view_map: shows which units are alive: by layer and position, by head and position, every head of
 * every layer, or over time; with a cursor, and the token under it. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "cli/print/num.h"
#include "cli/control/ramp.h"
#include "tui/chat/app.h"
#include "tui/chat/picture.h"
#include "tui/view/bars.h"
#include "tui/view/words.h"

enum { LABEL = MAP_LABEL, BAR = 5 }; /* columns left and right of the picture */
enum { ZOOM_MAX = 8, STRETCH_MAX = 8, PLAY_MS = 6000 };

static const struct retention *shown(const struct app *a)
{
    return a->mapped.frozen ? a->mapped.frozen : a->map;
}

/* ---- playing --------------------------------------------------------------------------------- */

static void free_copy(struct retention **r)
{
    retention_free(*r);
    *r = NULL;
}

static struct retention *copy_of(const struct retention *r)
{
    size_t n = (size_t)r->n_layer * (size_t)r->n_head * RETENTION_COLS;
    struct retention *copy = memory_new(1, sizeof *copy);
    copy->kept = memory_grow(NULL, n, sizeof *copy->kept);
    retention_copy(copy, r);
    return copy;
}

static int64_t play_step(const struct app *a)
{
    int64_t ms = PLAY_MS / (a->past.n > 0 ? a->past.n : 1);
    return ms < 40 ? 40 : ms > 400 ? 400 : ms;
}

/* The row of the past that is shown now; past.n: playing has ended. */
static int play_row(const struct app *a)
{
    int64_t row = (a->now_ms - a->mapped.play_ms) / play_step(a);
    return row < a->past.n ? (int)row : a->past.n;
}

int map_timeout(const struct app *a)
{
    if (!a->mapped.play_ms || a->view != VIEW_MAP) return -1;
    int64_t step = play_step(a);
    return (int)(step - (a->now_ms - a->mapped.play_ms) % step);
}

/* Replaces the held picture by the one of the moment. */
static void play(struct app *a)
{
    struct map_state *m = &a->mapped;
    if (!m->play_ms || !a->map || !m->frozen) return;
    int row = play_row(a);
    if (row < a->past.n) {
        waterfall_retention(&a->past, row, a->map, m->frozen);
        return;
    }
    m->play_ms = 0;
    free_copy(&m->frozen);
}

static void toggle_play(struct app *a)
{
    struct map_state *m = &a->mapped;
    bool playing = m->play_ms > 0;
    free_copy(&m->frozen);
    m->play_ms = 0;
    if (playing || !a->map || a->past.n == 0) return;
    m->frozen = copy_of(a->map);
    m->play_ms = a->now_ms;
    play(a);
}

static int cells_of(struct pane p)
{
    int cells = p.w - LABEL - 1 - BAR;
    return cells < 1 ? 1 : cells;
}

static struct picture picture_of(const struct app *a, int cells)
{
    const struct map_state *m = &a->mapped;
    int layer = m->mode == MAP_HISTORY ? m->history_layer : m->layer;
    return picture_make(shown(a), &a->past, m->mode, layer, cells, m->zoom, m->position);
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* Maps the picture's rows to screen lines. */
struct fold {
    int n;      /* rows */
    int each;   /* rows that share a cell */
    int halves; /* cells stacked in one line: 1 or 2 */
    int top;    /* first row shown */
    int lines;
    int stretch; /* screen lines per row, if there are few rows */
};

static int cursor_of(const struct app *a, const struct picture *p)
{
    const struct map_state *m = &a->mapped;
    switch (p->mode) {
    case MAP_HEADS: return m->head;
    case MAP_ROWS: return map_kv_layer(a, p->r) * p->r->n_head + m->head;
    case MAP_HISTORY: return picture_rows(p) - 1;
    default: return m->layer;
    }
}

static struct fold fold_of(const struct app *a, const struct picture *p, int room)
{
    struct fold f = {.n = picture_rows(p), .each = 1, .halves = 1, .stretch = 1};
    bool past = p->mode == MAP_HISTORY, tall = a->mapped.tall;
    if (room < 1) room = 1;
    if (a->halves && !tall && (f.n > room || past)) f.halves = 2;
    if (!tall && !past) f.each = (f.n + room * f.halves - 1) / (room * f.halves);
    int per_line = f.each * f.halves;
    f.lines = (f.n + per_line - 1) / per_line;
    f.stretch = f.lines > 0 ? room / f.lines : 1;
    if (past && f.halves == 2 && f.stretch >= 2) { /* a row for each moment */
        f.halves = 1;
        f.lines = f.n;
        f.stretch = room / f.lines;
    }
    f.stretch = f.stretch > STRETCH_MAX ? STRETCH_MAX : f.stretch < 1 ? 1 : f.stretch;
    if (f.lines > room) {
        f.lines = room;
        f.top = cursor_of(a, p) - (past ? room * f.halves - 1 : room / 2);
        if (f.top > f.n - room * f.halves) f.top = f.n - room * f.halves;
        if (f.top < 0) f.top = 0;
    }
    return f;
}

/* -1: nothing. */
static int level_of(const struct picture *p, const struct fold *f, int row, int x)
{
    int n = row + f->each > f->n ? f->n - row : f->each;
    return n > 0 ? picture_level(p, row, n, x) : -1;
}

static void put_label(struct pane p, int y, const struct picture *pic, const struct fold *f,
                      int row)
{
    char exact[NUM_MAX];
    int last = row + f->each * f->halves - 1, n_head = pic->r->n_head;
    if (last > f->n - 1) last = f->n - 1;
    if (pic->mode == MAP_HISTORY) {
        int64_t n = picture_length(pic, last);
        const char *text = n < 1000000 ? num_exact(n, exact) : num_count(n, exact);
        pane_puts(p, LABEL - 1 - (int)strlen(text), y, ATTR_DIM, text);
    } else if (pic->mode == MAP_ROWS) {
        if (row % n_head == 0)
            pane_printf(p, 0, y, ATTR_TEXT, "%02d", picture_model_layer(pic->r, row / n_head));
        pane_printf(p, 3, y, ATTR_DIM, "h%d", row % n_head);
    } else if (last > row) {
        pane_printf(p, 0, y, ATTR_DIM, "%02d-%02d", row, last);
    } else {
        pane_printf(p, 0, y, ATTR_DIM, pic->mode == MAP_HEADS ? "h%d" : "%02d", row);
    }
}

static void put_share(struct pane p, int x, int y, const struct picture *pic, const struct fold *f,
                      int row)
{
    int64_t kept, seen;
    int n = f->each * f->halves;
    if (pic->mode == MAP_HISTORY) row = row + n > f->n ? f->n - 1 : row + n - 1;
    if (pic->mode == MAP_HISTORY) n = 1;
    if (row + n > f->n) n = f->n - row;
    if (picture_is_state(pic, row, n)) return;
    picture_row(pic, row, n, &kept, &seen);
    pane_printf(p, x, y, ATTR_TEXT, "%3d%%", seen ? (int)(100 * kept / seen) : 0);
}

/* The kind of rows that show no units: their layers keep a state, or only a window. The first line
 * of several alike says it. */
static void draw_kind(struct pane p, int y, const struct picture *pic, const struct fold *f,
                      int row)
{
    int n = f->each * f->halves;
    if (row + n > f->n) n = f->n - row;
    if (picture_is_state(pic, row, n)) {
        bool first = row == f->top || !picture_is_state(pic, row - 1, 1);
        pane_fill(p, LABEL, y, pic->cells, ATTR_DIM, '~');
        if (first && pic->cells > 40)
            pane_puts(p, LABEL + 2, y, ATTR_DIM, " a state of fixed size, no units ");
    } else if (picture_has_window(pic, row) && pic->cells > 40 && level_of(pic, f, row, 24) < 0) {
        pane_puts(p, LABEL + 2, y, ATTR_DIM, "before its window");
    }
}

static void draw_line(struct pane p, int y, const struct picture *pic, const struct fold *f,
                      int row)
{
    for (int x = 0; x < pic->cells; x++) {
        int up = level_of(pic, f, row, x);
        if (f->halves == 2)
            pane_half(p, LABEL + x, y, up, level_of(pic, f, row + f->each, x));
        else if (up >= 0)
            pane_ramp(p, LABEL + x, y, up);
    }
}

/* The last head of a layer leaves a line free, where it has three. */
static int lines_of(const struct picture *pic, const struct fold *f, int row)
{
    bool last = pic->mode == MAP_ROWS && (row + 1) % pic->r->n_head == 0 && row + 1 < f->n;
    return f->stretch - (last && f->stretch >= 3);
}

static void draw_lines(struct pane p, int y, const struct picture *pic, const struct fold *f)
{
    for (int i = 0; i < f->lines; i++) {
        int row = f->top + i * f->each * f->halves;
        put_label(p, y, pic, f, row);
        put_share(p, LABEL + 1 + pic->cells, y, pic, f, row);
        int lines = lines_of(pic, f, row);
        draw_kind(p, y, pic, f, row);
        for (int k = 0; k < lines; k++) draw_line(p, y + k, pic, f, row);
        y += f->stretch;
    }
}

/* ---- rulers ---------------------------------------------------------------------------------- */

static void draw_ruler(struct pane p, int y, const struct picture *pic)
{
    char label[NUM_MAX];
    /* each token stretches the picture again, so few of the numbers can stay */
    int next = 0, every = pic->cells / 6 < 8 ? 8 : pic->cells / 6;
    for (int x = 0; x < pic->cells; x += every) {
        int64_t from, end;
        if (x < next) continue;
        picture_positions(pic, x, &from, &end);
        if (end <= from) return;
        num_count(from, label);
        if (x + (int)strlen(label) > pic->cells) return;
        next = pane_puts(p, LABEL + x, y, ATTR_DIM, label) - LABEL + 1;
    }
}

/* Numbers of turns at their first column; S the sinks, ^ the newest units: both are always kept. */
static void draw_turns(struct app *a, struct pane p, int y, const struct picture *pic)
{
    const struct retention *r = pic->r;
    int turn = 0, free_x = 0;
    int64_t first = ramp_position(r, pic->col), last = ramp_position(r, pic->col + pic->n_cols);
    pane_puts(p, 0, y, ATTR_DIM, "turn");
    struct pane ruler = pane_sub(p, LABEL, y, pic->cells, 1);
    for (int i = 0; i < a->returned.n; i++) {
        int64_t from = a->returned.spans[i].from, end = a->returned.spans[i].end;
        if (from < first || end > last || end > r->n_pos) continue;
        for (int x = picture_x(pic, from); x <= picture_x(pic, end - 1); x++)
            pane_puts(ruler, x, 0, ATTR_RETURNED, p.g->ascii ? "^" : "▲");
    }
    int64_t newest = r->n_pos - r->n_stabilizer;
    if (newest < first) newest = first;
    const int mark = r->n_stabilizer > 0 && newest < last ? picture_x(pic, newest) : -1;
    for (int i = 0; i < a->talk.n; i++) {
        const struct message *m = &a->talk.messages[i];
        if (m->role != CHAT_USER || m->position < 0 || ++turn == 0) continue;
        if (m->position < first || m->position >= last || m->position >= r->n_pos) continue;
        int x = picture_x(pic, m->position), n = snprintf(NULL, 0, "%d", turn);
        if (x <= mark && mark < x + n) continue; /* the mark would hide a digit */
        if (x >= free_x && x + n <= ruler.w)
            free_x = pane_printf(ruler, x, 0, ATTR_TEXT, "%d", turn) + 1;
    }
    if (r->n_sink > first) pane_puts(ruler, 0, 0, ATTR_BOLD, "S");
    if (mark >= 0) pane_puts(ruler, mark, 0, ATTR_BOLD, "^");
}

/* ---- the view -------------------------------------------------------------------------------- */

static const char *put_width(const struct picture *pic, char out[NUM_MAX])
{
    double positions = picture_per_cell(pic);
    bool whole = positions >= 10 || positions == floor(positions);
    snprintf(out, NUM_MAX, "%.*f", whole ? 0 : 1, positions);
    return out;
}

void map_draw_pane(struct app *a, struct pane p)
{
    char width[NUM_MAX];
    const struct retention *r = a->map;
    if (!r || r->n_cols == 0 || p.h < 5 || p.w < 20) return;
    struct picture pic = picture_make(r, &a->past, MAP_LAYERS, 0, cells_of(p), 0, 0);
    struct fold f = fold_of(a, &pic, p.h - 4);
    int x = pane_puts(p, 0, 0, ATTR_BOLD, "MAP ");
    if (p.w >= x + 20 + bar_legend_columns(a))
        x = pane_printf(p, x, 0, ATTR_TEXT, " 1 column = %s tok ", put_width(&pic, width));
    bar_legend(a, p, x, 0);
    draw_ruler(p, 1, &pic);
    draw_lines(p, 2, &pic, &f);
    draw_turns(a, p, 2 + f.lines * f.stretch, &pic);
}

static void put_what(const struct picture *pic, char *out, size_t n)
{
    switch (pic->mode) {
    case MAP_LAYERS: snprintf(out, n, "layers, %d heads each", pic->r->n_head); break;
    case MAP_HEADS: snprintf(out, n, "heads of layer %d", pic->layer); break;
    case MAP_ROWS: snprintf(out, n, "every head"); break;
    case MAP_HISTORY:
        if (pic->layer < 0)
            snprintf(out, n, "waterfall, all layers");
        else
            snprintf(out, n, "waterfall, layer %d", pic->layer);
        break;
    }
}

static const char *put_state(const struct app *a, char out[NUM_MAX])
{
    const struct map_state *m = &a->mapped;
    snprintf(out, NUM_MAX, "%s", m->frozen ? "held" : "live");
    if (m->play_ms) snprintf(out, NUM_MAX, "playing %d/%d", play_row(a) + 1, a->past.n);
    return out;
}

/* The first two lines: what is shown, the signs, and the ruler where there is room for it. */
static void draw_title(struct app *a, struct pane p, const struct picture *pic)
{
    static const char *const labels[] = {"layer", "head", "layer", "token"};
    char what[48], width[NUM_MAX], state[NUM_MAX];
    put_what(pic, what, sizeof what);
    pane_fill(p, 0, 0, p.w, ATTR_TITLE, ' ');
    int x = pane_clean(a, p, 1, 0, ATTR_TITLE, a->name);
    x = pane_printf(p, x, 0, ATTR_TITLE, " > map  %s  %s  1 column = %s tokens ", what,
                    put_state(a, state), put_width(pic, width));
    int legend = bar_legend_columns(a);
    bool above = p.w - legend >= x - 1, between = LABEL - 1 + legend <= LABEL + 1 + pic->cells;
    pane_cut(p, 0, x - 1);
    if (above)
        bar_legend(a, p, p.w - legend, 0);
    else
        bar_legend(a, p, between ? LABEL - 1 : 0, 1);
    if (above) draw_ruler(p, 1, pic);
    if (!above && !between) return;
    pane_puts(p, 0, 1, ATTR_DIM, labels[pic->mode]);
    pane_puts(p, LABEL + 1 + pic->cells, 1, ATTR_DIM, "kept");
}

/* Marks the row and the cell under the cursor; in a picture of the past the newest row. */
static void mark_cursor(struct app *a, struct pane p, int y, const struct picture *pic,
                        const struct fold *f)
{
    const struct map_state *m = &a->mapped;
    int row = cursor_of(a, pic), x = picture_x(pic, m->position);
    int line = (row - f->top) / (f->each * f->halves);
    row = row / f->each * f->each;
    if (line < 0 || line >= f->lines) return;
    line *= f->stretch;
    if (pic->mode != MAP_HISTORY) pane_attr(p, 0, y + line, LABEL - 1, ATTR_SELECT);
    int level = level_of(pic, f, row, x);
    int lines = lines_of(pic, f, row);
    for (int k = 0; k < lines; k++) {
        pane_ramp(p, LABEL + x, y + line + k, level < 0 ? 0 : level);
        pane_attr(p, LABEL + x, y + line + k, 1, ATTR_SELECT);
    }
    pane_cursor(p, LABEL + x, y + line);
}

static void keep_inside(struct app *a, const struct retention *r)
{
    struct map_state *m = &a->mapped;
    if (m->layer >= picture_layers(r)) m->layer = picture_layers(r) - 1;
    if (m->head >= r->n_head) m->head = r->n_head - 1;
    if (m->history_layer >= picture_layers(r)) m->history_layer = -1;
    if (m->position >= r->n_pos) m->position = r->n_pos - 1;
}

/* Every head has a line, if the page has room. */
static void choose_mode(struct app *a, const struct retention *r, int room)
{
    struct map_state *m = &a->mapped;
    bool every = r->n_layer * r->n_head <= room, states = r->n_all > r->n_layer;
    if (!m->chosen) m->mode = every && !states ? MAP_ROWS : MAP_LAYERS;
}

/* Lines of the parts below the picture. */
struct below {
    int lens, ribbon;
};

static struct below below_of(struct pane p)
{
    struct below b = {.lens = p.h >= 18 ? 3 : p.h >= 12};
    if (p.h >= 28) b.lens = 5;
    if (p.h >= 32) b.ribbon = 2;
    return b;
}

static void draw_below(struct app *a, struct pane p, const struct picture *pic,
                       const struct below *b)
{
    int lens = p.h - 4 - b->ribbon; /* all lines that the picture leaves */
    draw_turns(a, p, 0, pic);
    map_draw_lens_rule(a, pane_sub(p, 0, 1, p.w, 1), pic);
    map_draw_lens(a, pane_sub(p, 0, 2, p.w, lens), pic);
    map_draw_token(a, pane_sub(p, 0, 2 + lens, p.w, 1));
    if (b->ribbon) bar_ribbon(a, p, p.h - 1 - b->ribbon, b->ribbon);
    bar_hints(a, p, p.h - 1);
}

static void draw(struct app *a, struct pane p)
{
    play(a);
    const struct retention *r = shown(a);
    if (p.h < 8 || p.w < 24 || !r || r->n_cols == 0) {
        pane_puts(p, 0, 0, ATTR_TITLE,
                  r && r->n_cols ? "map: too small a screen" : "map: nothing is cached yet");
        if (p.h > 2) bar_hints(a, p, p.h - 1);
        return;
    }
    keep_inside(a, r);
    struct below b = below_of(p);
    int room = p.h - 6 - b.lens - b.ribbon;
    choose_mode(a, r, room);
    struct picture pic = picture_of(a, cells_of(p));
    struct fold f = fold_of(a, &pic, room);
    int end = 2 + f.lines * f.stretch; /* end of the picture */
    a->mapped.cells = pic.cells;
    a->mapped.each = f.each;
    draw_title(a, p, &pic);
    draw_lines(p, 2, &pic, &f);
    a->places[PLACE_MAP] = pane_sub(p, LABEL, 2, pic.cells, end - 2);
    draw_below(a, pane_sub(p, 0, end, p.w, p.h - end), &pic, &b);
    mark_cursor(a, p, 2, &pic, &f);
}

/* ---- keys ------------------------------------------------------------------------------------ */

static void move_cursor(struct app *a, int by)
{
    struct map_state *m = &a->mapped;
    const struct retention *r = shown(a);
    if (!r || r->n_cols == 0 || m->cells < 1) return;
    struct picture pic = picture_of(a, m->cells);
    int64_t from, end, position = m->position;
    picture_positions(&pic, picture_x(&pic, position), &from, &end);
    int64_t step = end > from ? end - from : 1;
    position = from + by * step;
    m->position = position < 0 ? 0 : position >= r->n_pos ? r->n_pos - 1 : position;
}

static void move_row(struct app *a, int by)
{
    struct map_state *m = &a->mapped;
    const struct retention *r = shown(a);
    if (!r) return;
    if (m->mode == MAP_ROWS) {
        int to = map_kv_layer(a, r) * r->n_head + m->head + by, n = r->n_layer * r->n_head;
        to = to < 0 ? 0 : to >= n ? n - 1 : to;
        m->layer = picture_model_layer(r, to / r->n_head);
        m->head = to % r->n_head;
        return;
    }
    int *row = m->mode == MAP_HEADS     ? &m->head
               : m->mode == MAP_HISTORY ? &m->history_layer
                                        : &m->layer;
    int first = m->mode == MAP_HISTORY ? -1 : 0;
    int last = m->mode == MAP_HEADS ? r->n_head - 1 : picture_layers(r) - 1;
    int to = *row + by * (m->mode == MAP_HISTORY || m->each < 1 ? 1 : m->each);
    *row = to < first ? first : to > last ? last : to;
}

int64_t map_next_gone(const struct app *a, int64_t position, bool after)
{
    const struct retention *r = a->map;
    if (!r || r->n_cols == 0) return -1;
    int col = (int)(position / r->col_width), step = after ? 1 : -1;
    /* leave the current run of evicted columns first */
    while (col >= 0 && col < r->n_cols && a->col_kept[col] == 0) col += step;
    while (col >= 0 && col < r->n_cols && a->col_kept[col] > 0) col += step;
    if (col < 0 || col >= r->n_cols) return -1;
    while (!after && col > 0 && a->col_kept[col - 1] == 0) col--;
    return ramp_position(r, col);
}

static void jump_to_turn(struct app *a, bool after, int64_t *position)
{
    int64_t best = -1;
    for (int i = 0; i < a->talk.n; i++) {
        const struct message *m = &a->talk.messages[i];
        if (m->role != CHAT_USER || !words_have_place(m)) continue;
        int64_t start = transcript_position(&a->talk, i, 0);
        if (after ? start > *position && best < 0 : start < *position) best = start;
    }
    if (best >= 0) *position = best;
}

bool map_jump(struct app *a, int r, int64_t *position)
{
    bool after = r == REQ_TURN_AFTER || r == REQ_GONE_AFTER;
    if (r == REQ_TURN_BEFORE || r == REQ_TURN_AFTER) {
        jump_to_turn(a, after, position);
        return true;
    }
    if (r != REQ_GONE_BEFORE && r != REQ_GONE_AFTER) return false;
    int64_t gone = map_next_gone(a, *position, after);
    if (gone >= 0)
        *position = gone;
    else
        app_flash(a, "nothing is evicted in all heads %s here", after ? "after" : "before");
    return true;
}

static void cycle_mode(struct app *a)
{
    static const enum map_mode next[] = {[MAP_LAYERS] = MAP_HEADS,
                                         [MAP_HEADS] = MAP_ROWS,
                                         [MAP_ROWS] = MAP_LAYERS,
                                         [MAP_HISTORY] = MAP_LAYERS};
    a->mapped.mode = next[a->mapped.mode];
    a->mapped.chosen = true;
}

static void toggle_history(struct app *a)
{
    struct map_state *m = &a->mapped;
    if (m->mode == MAP_HISTORY) {
        m->mode = m->before;
        return;
    }
    m->chosen = true;
    m->before = m->mode;
    m->history_layer = m->mode == MAP_HEADS ? m->layer : -1;
    m->mode = MAP_HISTORY;
}

static void toggle_pause(struct app *a)
{
    struct map_state *m = &a->mapped;
    bool playing = m->play_ms > 0;
    m->play_ms = 0;
    if (playing) return; /* the moment that was played stays */
    if (m->frozen)
        free_copy(&m->frozen);
    else if (a->map)
        m->frozen = copy_of(a->map);
}

static void open_text(struct app *a)
{
    size_t byte, end;
    if (transcript_find(&a->talk, a->mapped.position, &byte, &end) < 0) return;
    a->tint.position = a->mapped.position;
    a->tint.placed = true;
    app_show(a, VIEW_TINT);
}

/* Starts at the chat's scroll position; the first time at the first words. */
static void open(struct app *a)
{
    const struct chat_state *c = &a->chat;
    size_t byte, end;
    for (int64_t at = 0; a->mapped.position == 0 && a->map && at < a->map->n_pos; at++)
        if (transcript_find(&a->talk, at, &byte, &end) >= 0 && end > byte) a->mapped.position = at;
    if (!c->held || c->top_message >= a->talk.n) return;
    if (a->talk.messages[c->top_message].position >= 0)
        a->mapped.position = transcript_position(&a->talk, c->top_message, c->top_byte);
}

static bool request(struct app *a, int r)
{
    struct map_state *m = &a->mapped;
    switch (r) {
    case REQ_LEFT: move_cursor(a, -1); break;
    case REQ_RIGHT: move_cursor(a, 1); break;
    case REQ_PAGE_UP: move_cursor(a, -10); break;
    case REQ_PAGE_DOWN: move_cursor(a, 10); break;
    case REQ_FIRST: m->position = 0; break;
    case REQ_LAST: m->position = a->map ? a->map->n_pos - 1 : 0; break;
    case REQ_UP: move_row(a, -1); break;
    case REQ_DOWN: move_row(a, 1); break;
    case REQ_LAYER: cycle_mode(a); break;
    case REQ_HISTORY: toggle_history(a); break;
    case REQ_ZOOM_IN: m->zoom += m->zoom < ZOOM_MAX; break;
    case REQ_ZOOM_OUT: m->zoom -= m->zoom > 0; break;
    case REQ_TALL: m->tall = !m->tall; break;
    case REQ_PAUSE: toggle_pause(a); break;
    case REQ_PLAY: toggle_play(a); break;
    case REQ_OPEN: open_text(a); break;
    default: return map_jump(a, r, &m->position);
    }
    return true;
}

/* A click puts the cursor there. */
static void key(struct app *a, const struct key_event *ev)
{
    const struct retention *r = shown(a);
    struct map_state *m = &a->mapped;
    int64_t end;
    if (ev->key != K_CLICK || !app_is_at(a, PLACE_MAP, ev) || !r || r->n_cols == 0) return;
    struct picture pic = picture_of(a, m->cells);
    picture_positions(&pic, ev->x - a->places[PLACE_MAP].x, &m->position, &end);
}

const struct view_ops view_map = {
    .name = "map", .open = open, .draw = draw, .request = request, .key = key};
