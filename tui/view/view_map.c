/* view_map: shows which units are alive: by layer and position, by head and position, every head of
 * every layer, or over time; with a cursor, and the fate of the token under it. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "cli/print/num.h"
#include "cli/control/ramp.h"
#include "tui/chat/app.h"
#include "tui/chat/picture.h"
#include "tui/view/bars.h"

enum { LABEL = 7, BAR = 5 }; /* columns left and right of the picture */
enum { ZOOM_MAX = 8, STRETCH_MAX = 3 };

static const struct retention *shown(const struct app *a)
{
    return a->mapped.frozen ? a->mapped.frozen : a->map;
}

static int cells_of(struct pane p)
{
    int cells = p.w - LABEL - 2 - BAR;
    return cells < 1 ? 1 : cells;
}

static struct picture picture_of(const struct app *a, struct pane p)
{
    const struct map_state *m = &a->mapped;
    int layer = m->mode == MAP_HISTORY ? m->history_layer : m->layer;
    return picture_make(shown(a), &a->past, m->mode, layer, cells_of(p), m->zoom, m->position);
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* Maps the picture's rows to screen lines. */
struct fold {
    int n;      /* rows */
    int each;   /* rows that share a cell */
    int halves; /* cells stacked in one line: 1 or 2 */
    int top;    /* first row shown */
    int lines;
    bool agree;  /* a row's number is the heads' agreement, not the share */
    int stretch; /* screen lines per row, if there are few rows */
};

static struct fold fold_of(const struct app *a, const struct picture *p, int room)
{
    struct fold f = {.n = picture_rows(p), .each = 1, .halves = 1, .stretch = 1};
    const struct map_state *m = &a->mapped;
    bool folds = !m->tall && p->mode != MAP_HISTORY;
    if (room < 1) room = 1;
    if (a->halves && !m->tall && f.n > room) f.halves = 2;
    if (folds) f.each = (f.n + room * f.halves - 1) / (room * f.halves);
    if (p->mode == MAP_HISTORY && a->halves) f.halves = 2;
    int per_line = f.each * f.halves, cursor = p->mode == MAP_HEADS ? m->head : m->layer;
    f.lines = (f.n + per_line - 1) / per_line;
    if (p->mode != MAP_HISTORY && f.lines > 0) f.stretch = room / f.lines;
    if (f.stretch > STRETCH_MAX) f.stretch = STRETCH_MAX;
    if (f.stretch < 1) f.stretch = 1;
    if (f.lines > room) {
        f.lines = room;
        if (p->mode != MAP_HISTORY) f.top = cursor - room / 2;
        if (f.top > f.n - room) f.top = f.n - room;
        if (f.top < 0) f.top = 0;
    }
    return f;
}

static int class_of(const struct picture *p, const struct fold *f, int row, int x)
{
    int64_t kept, seen;
    int n = row + f->each > f->n ? f->n - row : f->each;
    return n > 0 && picture_cell(p, row, n, x, &kept, &seen) ? ramp_class(kept, seen) : -1;
}

static void put_label(struct pane p, int y, const struct picture *pic, const struct fold *f,
                      int row)
{
    char exact[NUM_MAX];
    int last = row + f->each * f->halves - 1;
    const char *kind = pic->mode == MAP_HEADS ? "H" : "";
    if (last > f->n - 1) last = f->n - 1;
    if (pic->mode == MAP_HISTORY) {
        int64_t n = row == 0 ? pic->r->n_pos : picture_past(pic, row)->n_pos;
        const char *text = n < 1000000 ? num_exact(n, exact) : num_count(n, exact);
        pane_puts(p, LABEL - (int)strlen(text), y, ATTR_DIM, text);
    } else if (last > row) {
        pane_printf(p, 0, y, ATTR_DIM, "%s%02d-%02d", kind, row, last);
    } else {
        pane_printf(p, 0, y, ATTR_DIM, "%s%02d", kind, row);
    }
}

static void put_share(struct pane p, int x, int y, const struct picture *pic, const struct fold *f,
                      int row)
{
    int64_t kept, seen;
    int n = f->each * f->halves;
    if (pic->mode == MAP_HISTORY) n = 1;
    if (row + n > f->n) n = f->n - row;
    if (f->agree) {
        double sum = 0;
        for (int i = 0; i < n; i++) sum += fmax(picture_agreement(pic, row + i), 0);
        pane_printf(p, x, y, ATTR_TEXT, "%3.0f%%", 100 * sum / n);
        return;
    }
    picture_row(pic, row, n, &kept, &seen);
    pane_printf(p, x, y, ATTR_TEXT, "%3d%%", seen ? (int)(100 * kept / seen) : 0);
}

static void draw_line(struct pane p, int y, const struct picture *pic, const struct fold *f,
                      int row)
{
    pane_puts(p, LABEL, y, ATTR_DIM, "|");
    for (int x = 0; x < pic->cells; x++) {
        int up = class_of(pic, f, row, x);
        if (f->halves == 2)
            pane_half(p, LABEL + 1 + x, y, up, class_of(pic, f, row + f->each, x));
        else if (up >= 0)
            pane_ramp(p, LABEL + 1 + x, y, up);
    }
    pane_puts(p, LABEL + 1 + pic->cells, y, ATTR_DIM, "|");
}

static void draw_lines(struct pane p, int y, const struct picture *pic, const struct fold *f)
{
    for (int i = 0; i < f->lines; i++) {
        int row = f->top + i * f->each * f->halves;
        put_label(p, y, pic, f, row);
        put_share(p, LABEL + 2 + pic->cells, y, pic, f, row);
        for (int k = 0; k < f->stretch; k++) draw_line(p, y++, pic, f, row);
    }
}

/* ---- rulers ---------------------------------------------------------------------------------- */

static void draw_ruler(struct pane p, int y, const struct picture *pic)
{
    char label[NUM_MAX];
    int next = 0, every = pic->mode == MAP_GRID ? picture_slices(pic) : 8;
    if (every < 4) every = 4 * every;
    for (int x = 0; x < pic->cells; x += every) {
        int64_t from, end;
        if (x < next) continue;
        picture_positions(pic, x, &from, &end);
        if (pic->mode != MAP_GRID && end <= from) return;
        if (pic->mode == MAP_GRID && x / picture_slices(pic) >= pic->r->n_head) return;
        if (pic->mode == MAP_GRID)
            snprintf(label, sizeof label, "H%d", picture_head(pic, x));
        else
            num_count(from, label);
        if (x + (int)strlen(label) > pic->cells) return;
        next = pane_puts(p, LABEL + 1 + x, y, ATTR_DIM, label) - LABEL;
    }
}

/* Numbers of turns at their first column; S the sinks, ^ the newest units: both are always kept. */
static void draw_turns(struct app *a, struct pane p, int y, const struct picture *pic)
{
    const struct retention *r = pic->r;
    int turn = 0, free_x = 0;
    int64_t first = ramp_position(r, pic->col), last = ramp_position(r, pic->col + pic->n_cols);
    if (pic->mode == MAP_GRID) return;
    pane_puts(p, 0, y, ATTR_DIM, "turns");
    struct pane ruler = pane_sub(p, LABEL + 1, y, pic->cells, 1);
    pane_fill(ruler, 0, 0, pic->cells, ATTR_DIM, '.');
    for (int i = 0; i < a->talk.n; i++) {
        const struct message *m = &a->talk.messages[i];
        if (m->role != CHAT_USER || m->position < 0 || ++turn == 0) continue;
        if (m->position < first || m->position >= last || m->position >= r->n_pos) continue;
        int x = picture_x(pic, m->position, 0);
        if (x >= free_x) free_x = pane_printf(ruler, x, 0, ATTR_TEXT, "%d", turn) + 1;
    }
    int64_t newest = r->n_pos - r->n_stabilizer;
    if (newest < first) newest = first;
    if (r->n_sink > first) pane_puts(ruler, 0, 0, ATTR_BOLD, "S");
    if (r->n_stabilizer > 0 && newest < last)
        pane_puts(ruler, picture_x(pic, newest, 0), 0, ATTR_BOLD, "^");
}

/* ---- the token under the cursor -------------------------------------------------------------- */

static int turn_of(const struct app *a, int index)
{
    int turn = 0;
    for (int i = 0; i <= index; i++) turn += a->talk.messages[i].role == CHAT_USER;
    return turn;
}

static int put_quoted(struct app *a, struct pane p, int x, int y, const char *s, size_t n)
{
    struct str safe = {0};
    sanitize(s, n, a->ascii, false, &safe);
    for (size_t i = 0; i < safe.n; i++)
        if (safe.data[i] == '\n' || safe.data[i] == '\t') safe.data[i] = ' ';
    x = pane_puts(p, x, y, ATTR_TEXT, "\"");
    struct pane room = pane_sub(p, x, y, p.w - x - 1, 1);
    int width = pane_puts(room, 0, 0, ATTR_TEXT, str_get(&safe));
    str_release(&safe);
    return pane_puts(p, x + (width < room.w ? width : room.w), y, ATTR_TEXT, "\"");
}

int map_put_token(struct app *a, struct pane p, int x, int y, int64_t position)
{
    size_t byte, end;
    char exact[NUM_MAX];
    int index = transcript_find(&a->talk, position, &byte, &end);
    x = pane_puts(p, x, y, ATTR_DIM, "token ");
    if (index >= 0 && end > byte)
        x = put_quoted(a, p, x, y, str_get(&a->talk.messages[index].text) + byte, end - byte);
    else
        x = pane_puts(p, x, y, ATTR_TEXT, "of the chat format");
    return pane_printf(p, x, y, ATTR_TEXT, " #%s", num_exact(position, exact));
}

static void draw_context(struct app *a, struct pane p, int x, int y, int64_t position)
{
    size_t byte, end;
    int index = transcript_find(&a->talk, position, &byte, &end);
    if (index < 0) return;
    const struct message *m = &a->talk.messages[index];
    x = pane_printf(p, x, y, ATTR_TEXT, "  turn %d %s  ", turn_of(a, index),
                    m->role == CHAT_USER ? "you" : "llm");
    size_t n = m->text.n - byte < 200 ? m->text.n - byte : 200;
    if (x + 6 < p.w && n > 0) put_quoted(a, p, x, y, str_get(&m->text) + byte, n);
}

/* Heads of a layer that hold the position, within the detailed range. */
static int held_by(const struct app *a, const struct retention *r, int layer)
{
    int n = 0;
    for (int h = 0; h < r->n_head; h++) n += !isnan(a->sight.scores[layer * r->n_head + h]);
    return n;
}

static bool in_sight(const struct app *a, int64_t position)
{
    return a->sight.scores && a->sight.focus.position == position && a->map &&
           a->sight.n_heads == a->map->n_layer * a->map->n_head;
}

int map_put_fate(struct app *a, struct pane p, int x, int y, int64_t position)
{
    const struct retention *r = a->map;
    int n = 0, most = 0, least = 0, most_n = -1, least_n = 1 << 20;
    double sum = 0;
    if (!in_sight(a, position)) return x;
    for (int layer = 0; layer < r->n_layer; layer++) {
        int held = held_by(a, r, layer);
        if (held > most_n) most = layer, most_n = held;
        if (held < least_n) least = layer, least_n = held;
        n += held;
    }
    for (int i = 0; i < a->sight.n_heads; i++)
        if (!isnan(a->sight.scores[i])) sum += (double)a->sight.scores[i];
    x = pane_printf(p, x, y, ATTR_TEXT, "kept by %d/%d heads", n, a->sight.n_heads);
    if (n == 0) return pane_puts(p, x, y, ATTR_BOLD, "  evicted");
    if (4 * n < a->sight.n_heads) x = pane_puts(p, x, y, ATTR_BOLD, "  thin");
    x = pane_printf(p, x, y, ATTR_TEXT, "  score %.2f", sum / n);
    if (most_n == least_n) return x;
    return pane_printf(p, x, y, ATTR_TEXT, "  L%02d %d/%d  L%02d %d/%d", most, most_n, r->n_head,
                       least, least_n, r->n_head);
}

/* The fate of the token in the head under the cursor. */
static void draw_head_fate(struct app *a, struct pane p, int x, int y, int64_t position)
{
    const struct map_state *m = &a->mapped;
    char exact[NUM_MAX];
    if (!in_sight(a, position) || m->layer >= a->map->n_layer || m->head >= a->map->n_head) return;
    float score = a->sight.scores[m->layer * a->map->n_head + m->head];
    x = pane_printf(p, x, y, ATTR_TEXT, "  L%02dH%d ", m->layer, m->head);
    if (!isnan(score)) {
        pane_printf(p, x, y, ATTR_TEXT, "score %.2f", (double)score);
        return;
    }
    int64_t width = a->map->col_width, from = position / width * width;
    int64_t end = from + width < a->map->n_pos ? from + width : a->map->n_pos;
    int64_t lost = waterfall_first_loss(&a->past, m->layer, m->head, from, end);
    if (lost < 0)
        pane_puts(p, x, y, ATTR_TEXT, "evicted");
    else
        pane_printf(p, x, y, ATTR_TEXT, "evicted by %s tok", num_exact(lost, exact));
}

/* Every head of every layer: held or evicted. */
static void draw_fates(struct app *a, struct pane p, int64_t position)
{
    const struct retention *r = a->map;
    if (!in_sight(a, position)) return;
    int width = r->n_head + 6, per_row = p.w / width;
    if (per_row < 1 || (r->n_layer + per_row - 1) / per_row > p.h) return;
    for (int layer = 0; layer < r->n_layer; layer++) {
        int x = layer % per_row * width, y = layer / per_row;
        x = pane_printf(p, x, y, ATTR_DIM, "L%02d ", layer);
        for (int h = 0; h < r->n_head; h++) {
            bool held = !isnan(a->sight.scores[layer * r->n_head + h]);
            if (held)
                pane_ramp(p, x + h, y, RAMP_CLASSES - 1);
            else
                pane_puts(p, x + h, y, ATTR_RAMP0, p.g->ascii ? "-" : "·");
        }
    }
}

static void draw_inspector(struct app *a, struct pane p, const struct picture *pic)
{
    char from_text[NUM_MAX], to[NUM_MAX];
    int64_t position = a->mapped.position, from, end;
    picture_positions(pic, picture_x(pic, position, a->mapped.head), &from, &end);
    pane_puts(p, 0, 0, ATTR_DIM, "cursor");
    int x = pane_printf(p, LABEL, 0, ATTR_TEXT, "pos %s", num_exact(from, from_text));
    if (end - 1 > from) x = pane_printf(p, x, 0, ATTR_TEXT, "-%s", num_exact(end - 1, to));
    draw_context(a, p, x, 0, position);
    x = map_put_fate(a, p, LABEL, 1, position);
    draw_head_fate(a, p, x, 1, position);
    if (p.h < 3) return;
    map_put_token(a, p, LABEL, 2, position);
    draw_fates(a, pane_sub(p, LABEL, 3, p.w - LABEL, p.h - 3), position);
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
    int x = pane_puts(p, 0, 0, ATTR_BOLD, p.w >= 60 ? "RETENTION MAP" : "MAP");
    x = pane_printf(p, x, 0, ATTR_TEXT, "  1 col=%s tok ", put_width(&pic, width));
    bar_legend(p, x, 0);
    draw_ruler(p, 1, &pic);
    draw_lines(p, 2, &pic, &f);
    draw_turns(a, p, 2 + f.lines * f.stretch, &pic);
}

static void put_what(const struct app *a, const struct picture *pic, char *out, size_t n)
{
    switch (pic->mode) {
    case MAP_LAYERS: snprintf(out, n, "avg of %d heads", pic->r->n_head); break;
    case MAP_HEADS: snprintf(out, n, "heads of layer %d", pic->layer); break;
    case MAP_GRID: snprintf(out, n, "every head"); break;
    case MAP_HISTORY:
        if (pic->layer < 0)
            snprintf(out, n, "waterfall, all layers");
        else
            snprintf(out, n, "waterfall, layer %d", pic->layer);
        break;
    }
    (void)a;
}

static void draw_title(struct app *a, struct pane p, const struct picture *pic)
{
    char what[48], width[NUM_MAX];
    struct str safe = {0};
    put_what(a, pic, what, sizeof what);
    pane_fill(p, 0, 0, p.w, ATTR_TITLE, ' ');
    sanitize(a->name, strlen(a->name), a->ascii, true, &safe);
    int x = pane_printf(p, 1, 0, ATTR_TITLE, "%s > map  %s  1 col=%s tok  %s  ", str_get(&safe),
                        what, put_width(pic, width), a->mapped.frozen ? "HELD" : "LIVE");
    str_release(&safe);
    bool fits = p.w - LEGEND_COLUMNS >= x - 1;
    if (fits) bar_legend(p, p.w - LEGEND_COLUMNS, 0);
    if (fits)
        draw_ruler(p, 1, pic);
    else
        bar_legend(p, LABEL - 1, 1);
}

static void mark_cursor(struct app *a, struct pane p, int y, const struct picture *pic,
                        const struct fold *f)
{
    const struct map_state *m = &a->mapped;
    int row = pic->mode == MAP_HISTORY ? 0 : pic->mode == MAP_HEADS ? m->head : m->layer;
    int x = LABEL + 1 + picture_x(pic, m->position, m->head);
    int line = (row - f->top) / (f->each * f->halves);
    row = row / f->each * f->each;
    if (line < 0 || line >= f->lines) return;
    line *= f->stretch;
    if (pic->mode != MAP_HISTORY) pane_attr(p, 0, y + line, LABEL - 1, ATTR_SELECT);
    int cls = class_of(pic, f, row, x - LABEL - 1);
    pane_ramp(p, x, y + line, cls < 0 ? 0 : cls);
    pane_attr(p, x, y + line, 1, ATTR_SELECT);
    pane_cursor(p, x, y + line);
}

static void keep_inside(struct app *a, const struct retention *r)
{
    struct map_state *m = &a->mapped;
    if (m->layer >= r->n_layer) m->layer = r->n_layer - 1;
    if (m->head >= r->n_head) m->head = r->n_head - 1;
    if (m->history_layer >= r->n_layer) m->history_layer = -1;
    if (m->position >= r->n_pos) m->position = r->n_pos - 1;
}

static void draw(struct app *a, struct pane p)
{
    const struct retention *r = shown(a);
    static const char *const labels[] = {"layer", "head", "layer", "token"};
    if (p.h < 8 || p.w < 24 || !r || r->n_cols == 0) {
        pane_puts(p, 0, 0, ATTR_TITLE,
                  r && r->n_cols ? "map: too small a screen" : "map: nothing is cached yet");
        if (p.h > 2) bar_hints(a, p, p.h - 1);
        return;
    }
    keep_inside(a, r);
    struct picture pic = picture_of(a, p);
    int bars = p.h >= 28 ? 4 : 0, inspector = p.h >= 40 ? 8 : p.h >= 28 ? 3 : 2;
    struct fold f = fold_of(a, &pic, p.h - 4 - bars - inspector);
    int end = 2 + f.lines * f.stretch; /* end of the picture */
    f.agree = pic.mode == MAP_LAYERS && r->n_head > 1 && picture_is_flat(&pic);
    inspector = p.h - end - 2 - bars;
    a->mapped.cells = pic.cells;
    a->mapped.each = f.each;
    draw_title(a, p, &pic);
    pane_puts(p, 0, 1, ATTR_DIM, labels[pic.mode]);
    pane_puts(p, LABEL + 2 + pic.cells, 1, ATTR_DIM, f.agree ? "same" : "kept");
    draw_lines(p, 2, &pic, &f);
    mark_cursor(a, p, 2, &pic, &f);
    draw_turns(a, p, end, &pic);
    draw_inspector(a, pane_sub(p, 0, end + 1, p.w, inspector), &pic);
    if (bars) {
        bar_strip(a, p, p.h - 4);
        bar_memory(a, p, p.h - 3);
        bar_sensors(a, p, p.h - 2);
    }
    bar_hints(a, p, p.h - 1);
}

/* ---- keys ------------------------------------------------------------------------------------ */

static void move_cursor(struct app *a, int by)
{
    struct map_state *m = &a->mapped;
    const struct retention *r = shown(a);
    if (!r || r->n_cols == 0 || m->cells < 1) return;
    struct picture pic =
        picture_make(r, &a->past, m->mode, m->layer, m->cells, m->zoom, m->position);
    int64_t from, end, position = m->position;
    int x = picture_x(&pic, position, m->head);
    picture_positions(&pic, x, &from, &end);
    int64_t step = end > from ? end - from : 1;
    position = from + by * step;
    m->position = position < 0 ? 0 : position >= r->n_pos ? r->n_pos - 1 : position;
}

static void move_row(struct app *a, int by)
{
    struct map_state *m = &a->mapped;
    const struct retention *r = shown(a);
    if (!r) return;
    int *row = m->mode == MAP_HEADS     ? &m->head
               : m->mode == MAP_HISTORY ? &m->history_layer
                                        : &m->layer;
    int first = m->mode == MAP_HISTORY ? -1 : 0;
    int last = m->mode == MAP_HEADS ? r->n_head - 1 : r->n_layer - 1;
    int to = *row + by * (m->mode == MAP_HISTORY || m->each < 1 ? 1 : m->each);
    *row = to < first ? first : to > last ? last : to;
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

static void jump_to_gone(struct app *a, bool after)
{
    int64_t position = map_next_gone(a, a->mapped.position, after);
    if (position < 0)
        app_flash(a, "no column is evicted in all heads %s here", after ? "after" : "before");
    else
        a->mapped.position = position;
}

static void cycle_mode(struct app *a)
{
    static const enum map_mode next[] = {MAP_HEADS, MAP_GRID, MAP_LAYERS, MAP_LAYERS};
    a->mapped.mode = next[a->mapped.mode];
}

static void toggle_history(struct app *a)
{
    struct map_state *m = &a->mapped;
    if (m->mode == MAP_HISTORY) {
        m->mode = m->before;
        return;
    }
    m->before = m->mode;
    m->history_layer = m->mode == MAP_LAYERS ? -1 : m->layer;
    m->mode = MAP_HISTORY;
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
    struct retention *copy = memory_grow(NULL, 1, sizeof *copy);
    uint32_t *kept = memory_grow(NULL, n, sizeof *kept);
    *copy = *r;
    memcpy(kept, r->kept, sizeof *kept * n);
    copy->kept = kept;
    a->mapped.frozen = copy;
}

static void open_text(struct app *a)
{
    size_t byte, end;
    if (transcript_find(&a->talk, a->mapped.position, &byte, &end) < 0) return;
    a->tint.position = a->mapped.position;
    a->tint.placed = true;
    app_show(a, VIEW_TINT);
}

/* Starts at the chat's scroll position. */
static void open(struct app *a)
{
    const struct chat_state *c = &a->chat;
    if (!c->held || c->top_message >= a->talk.n) return;
    if (a->talk.messages[c->top_message].position >= 0)
        a->mapped.position = transcript_position(&a->talk, c->top_message, c->top_byte);
}

static bool request(struct app *a, enum key_request r)
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
    case REQ_HEAD: m->head = a->map ? (m->head + 1) % a->map->n_head : 0; break;
    case REQ_HISTORY: toggle_history(a); break;
    case REQ_ZOOM_IN: m->zoom += m->zoom < ZOOM_MAX; break;
    case REQ_ZOOM_OUT: m->zoom -= m->zoom > 0; break;
    case REQ_TALL: m->tall = !m->tall; break;
    case REQ_TURN_BEFORE: move_turn(a, false); break;
    case REQ_TURN_AFTER: move_turn(a, true); break;
    case REQ_GONE_AFTER: jump_to_gone(a, true); break;
    case REQ_GONE_BEFORE: jump_to_gone(a, false); break;
    case REQ_PAUSE: toggle_pause(a); break;
    case REQ_OPEN: open_text(a); break;
    default: return false;
    }
    return true;
}

const struct view_ops view_map = {.name = "map", .open = open, .draw = draw, .request = request};
