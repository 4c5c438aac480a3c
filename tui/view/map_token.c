#include "tui/view/map_token.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/control/ramp.h"
#include "cli/print/num.h"
#include "tui/view/bars.h"
#include "tui/view/words.h"

enum { WIDE = 100 }; /* columns: room for the layers that keep most and least */

int map_kv_layer(const struct app *a, const struct retention *r)
{
    int layer = a->mapped.layer;
    while (layer > 0 && picture_layer(r, layer).kv_layer < 0) layer--;
    int kv = picture_layer(r, layer).kv_layer;
    return kv < 0 ? 0 : kv;
}

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

/* Heads of a layer that hold the position, within the detailed range. */
static int held_by(const struct app *a, const struct retention *r, int layer)
{
    int n = 0;
    for (int h = 0; h < r->n_head; h++) n += !isnan(a->sight.scores[layer * r->n_head + h]);
    return n;
}

static bool in_sight(const struct app *a, int64_t position)
{
    return a->sight.scores && a->sight.position == position && a->map &&
           a->sight.n_heads == a->map->n_layer * a->map->n_head;
}

int map_put_fate(struct app *a, struct pane p, int x, int y, int64_t position)
{
    const struct retention *r = a->map;
    int n = 0, most = 0, least = 0, most_n = -1, least_n = 1 << 20;
    if (!in_sight(a, position)) return x;
    for (int layer = 0; layer < r->n_layer; layer++) {
        int held = held_by(a, r, layer);
        if (held > most_n) most = layer, most_n = held;
        if (held < least_n) least = layer, least_n = held;
        n += held;
    }
    x = pane_printf(p, x, y, ATTR_TEXT, "kept by %d/%d heads", n, a->sight.n_heads);
    if (n == 0) return pane_puts(p, x, y, ATTR_BOLD, "  evicted");
    if (4 * n < a->sight.n_heads) x = pane_puts(p, x, y, ATTR_BOLD, "  thin");
    if (most_n == least_n || p.w < WIDE) return x;
    return pane_printf(p, x, y, ATTR_TEXT, "  L%02d %d/%d  L%02d %d/%d",
                       picture_model_layer(r, most), most_n, r->n_head,
                       picture_model_layer(r, least), least_n, r->n_head);
}

/* The fate of the token in the head under the cursor. */
static int put_head_fate(struct app *a, struct pane p, int x, int y, int64_t position)
{
    const struct map_state *m = &a->mapped;
    char exact[NUM_MAX];
    if (!in_sight(a, position) || m->head >= a->map->n_head) return x;
    int layer = map_kv_layer(a, a->map);
    float score = a->sight.scores[layer * a->map->n_head + m->head];
    x = pane_printf(p, x, y, ATTR_TEXT, "  L%02dH%d ", picture_model_layer(a->map, layer), m->head);
    if (!isnan(score)) return pane_puts(p, x, y, ATTR_TEXT, "kept");
    int64_t width = a->map->col_width, from = position / width * width;
    int64_t end = from + width < a->map->n_pos ? from + width : a->map->n_pos;
    int64_t lost = waterfall_first_loss(&a->past, layer, m->head, from, end);
    if (lost < 0) return pane_puts(p, x, y, ATTR_TEXT, "evicted");
    return pane_printf(p, x, y, ATTR_TEXT, "evicted by %s tok", num_exact(lost, exact));
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
        x = pane_printf(p, x, y, ATTR_DIM, "L%02d ", picture_model_layer(r, layer));
        for (int h = 0; h < r->n_head; h++) {
            bool held = !isnan(a->sight.scores[layer * r->n_head + h]);
            if (held)
                pane_ramp(p, x + h, y, ramp_class_level(RAMP_MOST));
            else
                pane_puts(p, x + h, y, ATTR_RAMP0, p.g->ascii ? "-" : "·");
        }
    }
}

void map_draw_token(struct app *a, struct pane p)
{
    int64_t position = a->mapped.position;
    int x = map_put_token(a, p, 0, 0, position);
    x = map_put_fate(a, p, x + 2, 0, position);
    pane_cut(p, 0, put_head_fate(a, p, x, 0, position));
    draw_fates(a, pane_sub(p, 0, 1, p.w, p.h - 1), position);
}

/* ---- the lens ------------------------------------------------------------------------------- */

void map_draw_lens_rule(struct app *a, struct pane p, const struct picture *pic)
{
    char numbers[2][NUM_MAX], label[96] = "";
    size_t byte, end_byte;
    int64_t position = a->mapped.position, from, end;
    int x = picture_x(pic, position, a->mapped.head);
    picture_positions(pic, x, &from, &end);
    int index = transcript_find(&a->talk, position, &byte, &end_byte);
    const struct message *m = index < 0 ? NULL : &a->talk.messages[index];
    const char *who = !m                       ? ""
                      : m->role == CHAT_USER   ? "you"
                      : m->role == CHAT_SYSTEM ? "sys"
                                               : "llm";
    int n = m ? snprintf(label, sizeof label, "turn %d %s, ", turn_of(a, index), who) : 0;
    if (end - 1 > from)
        snprintf(label + n, sizeof label - (size_t)n, "tokens %s-%s", num_exact(from, numbers[0]),
                 num_exact(end - 1, numbers[1]));
    else
        snprintf(label + n, sizeof label - (size_t)n, "token %s", num_exact(from, numbers[0]));
    bool under = MAP_LABEL + x < (int)strlen(label) + 6; /* the mark needs its place */
    bar_rule(p, 0, under ? "" : label);
    if (under) pane_printf(p, MAP_LABEL + x + 2, 0, ATTR_DIM, " %s ", label);
    pane_puts(p, MAP_LABEL + x, 0, ATTR_KEY, p.g->ascii ? "^" : "▲");
}

void map_draw_lens(struct app *a, struct pane p, const struct picture *pic)
{
    int64_t from, end, last;
    int width = p.w - words_column(p) - 1;
    picture_positions(pic, picture_x(pic, a->mapped.position, a->mapped.head), &from, &end);
    struct words_line at = words_line_of(a, a->mapped.position, width), before;
    if (at.index < 0) return;
    for (int i = 0; i < p.h / 2 && words_neighbour(a, &at, false, width, &before); i++) at = before;
    for (int y = 0; y < p.h; y++) {
        words_draw(a, p, y, &at, from, end > from ? end : from + 1);
        if (words_have_place(&a->talk.messages[at.index])) {
            transcript_positions(&a->talk, at.index, at.from, at.n, &from, &last);
            picture_positions(pic, picture_x(pic, a->mapped.position, a->mapped.head), &from, &end);
        }
        if (!words_neighbour(a, &at, true, width, &at)) break;
    }
}
