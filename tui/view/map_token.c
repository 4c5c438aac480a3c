#include "tui/chat/app.h"

#include <stdio.h>
#include <string.h>

#include "cli/control/ramp.h"
#include "cli/print/num.h"
#include "tui/view/bars.h"
#include "tui/view/words.h"

int map_kv_layer(const struct app *a, const struct retention *r)
{
    int layer = a->mapped.layer;
    while (layer > 0 && picture_layer(r, layer).kv_layer < 0) layer--;
    int kv = picture_layer(r, layer).kv_layer;
    return kv < 0 ? 0 : kv;
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

int map_put_fate(struct app *a, struct pane p, int x, int y, int64_t position)
{
    const struct retention *r = a->map;
    if (!r || position < 0 || position >= r->n_pos) return x;
    int n = r->heads[position], all = r->n_layer * r->n_head;
    x = pane_printf(p, x, y, ATTR_TEXT, "kept by %d/%d heads", n, all);
    if (n == 0) return pane_puts(p, x, y, ATTR_BOLD, "  evicted");
    return 4 * n < all ? pane_puts(p, x, y, ATTR_BOLD, "  thin") : x;
}

void map_draw_token(struct app *a, struct pane p)
{
    int64_t position = a->mapped.position;
    int x = map_put_token(a, p, 0, 0, position);
    pane_cut(p, 0, map_put_fate(a, p, x + 2, 0, position));
}

/* ---- the lens ------------------------------------------------------------------------------- */

void map_draw_lens_rule(struct app *a, struct pane p, const struct picture *pic)
{
    char numbers[2][NUM_MAX], label[96] = "";
    size_t byte, end_byte;
    int64_t position = a->mapped.position, from, end;
    int x = picture_x(pic, position);
    picture_positions(pic, x, &from, &end);
    int index = transcript_find(&a->talk, position, &byte, &end_byte);
    const struct message *m = index < 0 ? NULL : &a->talk.messages[index];
    int n = m ? snprintf(label, sizeof label, "turn %d %s, ", (int)app_turn_of(a, index),
                         words_role[m->role])
              : 0;
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
    picture_positions(pic, picture_x(pic, a->mapped.position), &from, &end);
    struct words_line at = words_line_of(a, a->mapped.position, width), before;
    if (at.index < 0) return;
    for (int i = 0; i < p.h / 2 && words_neighbour(a, &at, false, width, &before); i++) at = before;
    for (int y = 0; y < p.h; y++) {
        words_draw(a, p, y, &at, from, end > from ? end : from + 1);
        if (words_have_place(&a->talk.messages[at.index])) {
            transcript_positions(&a->talk, at.index, at.from, at.n, &from, &last);
            picture_positions(pic, picture_x(pic, a->mapped.position), &from, &end);
        }
        if (!words_neighbour(a, &at, true, width, &at)) break;
    }
}
