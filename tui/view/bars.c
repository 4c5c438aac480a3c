#include "tui/view/bars.h"

#include <stdio.h>
#include <string.h>

#include "cli/print/num.h"
#include "cli/control/ramp.h"
#include "tui/chat/app.h"
#include "base/utf8_width.h"

static const char *rule_glyph(const struct pane *p)
{
    return p->g->ascii ? "-" : "─";
}

static void fill_rule(struct pane p, int x, int y, int end)
{
    while (x < end) x = pane_puts(p, x, y, ATTR_DIM, rule_glyph(&p));
}

void bar_rule(struct pane p, int y, const char *label)
{
    fill_rule(p, 0, y, 2);
    int x = 2;
    if (label[0]) x = pane_printf(p, x, y, ATTR_DIM, " %s ", label);
    fill_rule(p, x, y, p.w);
    pane_cut(p, y, x);
}

void pane_separator(struct pane p, int x, int y, int h)
{
    for (int i = 0; i < h; i++) pane_puts(p, x, y + i, ATTR_DIM, p.g->ascii ? "|" : "│");
}

/* The level that this terminal shows for it. */
static int shown_level(const struct pane *p, int level)
{
    if (level < 0 || p->g->fine) return level;
    return ramp_class_level(ramp_level_class(level));
}

void pane_ramp(struct pane p, int x, int y, int level)
{
    const char *glyph = ramp_glyph(ramp_level_class(level), p.g->ascii);
    pane_puts(p, x, y, (enum attr)(ATTR_RAMP0 + shown_level(&p, level)), glyph);
}

void pane_half(struct pane p, int x, int y, int up, int down)
{
    if (up < 0 && down < 0) return;
    up = shown_level(&p, up);
    down = shown_level(&p, down);
    pane_puts(p, x, y, attr_half(up, down), up < 0 ? "▄" : "▀");
}

int pane_clean(const struct app *a, struct pane p, int x, int y, enum attr attr, const char *text)
{
    struct str safe = {0};
    sanitize(text, strlen(text), a->ascii, true, &safe);
    x = pane_puts(p, x, y, attr, str_get(&safe));
    pane_cut(p, y, x);
    str_release(&safe);
    return x;
}

/* The end of the words of s[0, n) that fit into `room` columns with dots after them; a long last
 * word is cut. */
static size_t words_end(const char *s, size_t n, int room)
{
    size_t end = utf8_fit(s, n, room > 0 ? room : 0), word = end;
    while (word > 0 && s[word] != ' ') word--;
    if (word > end / 2) end = word;
    while (end > 0 && s[end - 1] == ' ') end--;
    return end;
}

int pane_words(const struct app *a, struct pane p, int x, int y, enum attr attr, const char *text)
{
    struct str safe = {0};
    sanitize(text, strlen(text), a->ascii, true, &safe);
    const char *dots = a->ascii ? "..." : "…", *s = str_get(&safe);
    bool fits = utf8_columns(s, safe.n) <= p.w - x;
    size_t n = fits ? safe.n : words_end(s, safe.n, p.w - x - (a->ascii ? 3 : 1));
    x = pane_put(p, x, y, attr, s, n);
    if (!fits) x = pane_puts(p, x, y, attr, dots);
    str_release(&safe);
    return x;
}

enum { NARROW = 60, LEGEND_COLUMNS = 41, LEGEND_RETURNED = 11 };

int bar_legend_columns(const struct app *a)
{
    return LEGEND_COLUMNS + (a->returned.n > 0 ? LEGEND_RETURNED : 0);
}

int bar_legend(const struct app *a, struct pane p, int x, int y)
{
    const char *form = x + bar_legend_columns(a) <= p.w ? " %s" : "%s";
    for (int i = 0; i < RAMP_CLASSES; i++) { /* `all` last: it is no step of the ramp */
        int cls = i < RAMP_ALL ? RAMP_MOST - i : RAMP_ALL;
        bool returns = a->returned.n > 0 && p.w < NARROW; /* more important than `all` */
        if (cls == RAMP_ALL && returns) break;
        x = pane_puts(p, x, y, ATTR_TEXT, " "); /* apart from a reversed title */
        pane_ramp(p, x++, y, ramp_class_level(cls));
        x = pane_printf(p, x, y, ATTR_TEXT, form, ramp_words[cls]);
    }
    if (a->returned.n > 0 && x + LEGEND_RETURNED <= p.w) {
        x = pane_puts(p, x, y, ATTR_TEXT, " ");
        x = pane_puts(p, x, y, ATTR_RETURNED, p.g->ascii ? "^ returned" : "▲ returned");
    }
    return pane_puts(p, x, y, ATTR_TEXT, " ");
}

static void put_model(const struct app *a, struct str *out)
{
    char tokens[NUM_MAX];
    const struct session_stats *st = &a->stats;
    if (a->have_stats)
        str_printf(out, "%s %s kv %s | %s tok | turn %lld", st->model, st->weights, st->kv,
                   num_count(st->n_tokens, tokens), (long long)st->n_turns);
    else
        str_puts(out, a->phase == PHASE_LOADING ? "loading the model" : "opening");
    if (a->o->session.private_mode) str_puts(out, " | private");
    if (a->n_queue > 0) str_printf(out, " | %d queued", a->n_queue);
}

enum { TITLE_LEAST = 10 }; /* columns for the words of the first message */

void bar_title(struct app *a, struct pane p, int y)
{
    struct str model = {0};
    put_model(a, &model);
    int at = p.w - (int)model.n - 1;
    if (a->view != VIEW_CHAT && at < 40) at = 0; /* the view's name has priority */
    pane_fill(p, 0, y, p.w, ATTR_TITLE, ' ');
    struct pane left = at > 12 ? pane_sub(p, 0, 0, at - 1, p.h) : p;
    int x = pane_clean(a, left, 1, y, ATTR_TITLE, a->name[0] ? a->name : "new conversation");
    const struct message *first = app_turn(a, 1);
    if (a->view != VIEW_CHAT)
        x = pane_printf(left, x, y, ATTR_TITLE, " > %s", view_table[a->view]->name);
    else if (app_name_is_number(a->name) && first && left.w - x > TITLE_LEAST)
        x = pane_words(a, left, x + 2, y, ATTR_TITLE, message_words(first));
    pane_cut(left, y, x);
    if (at > 12) pane_clean(a, p, at, y, ATTR_TITLE, str_get(&model));
    str_release(&model);
}

/* "45%  1.0/2.2 GiB  3 s left" of loading, "45%  1,400/3,200 tok  3 s left" of reading. */
static void put_progress(const struct app *a, const char *what, bool bytes, struct str *out)
{
    char done[NUM_MAX], total[NUM_MAX];
    str_printf(out, "%s", what);
    if (a->total <= 0) return;
    str_printf(out, "  %d%%  ", (int)(100 * a->done / a->total));
    if (bytes)
        str_printf(out, "%s of %s", num_bytes(a->done, done), num_bytes(a->total, total));
    else
        str_printf(out, "%s/%s tok", num_exact(a->done, done), num_exact(a->total, total));
    const double spent = (double)(a->now_ms - a->since_ms) / 1e3, part = (double)a->done;
    if (part > 0 && spent > 0.5)
        str_printf(out, "  %s", num_left(spent / part * ((double)a->total - part), done));
}

enum { SAMPLE_MS = 500 }; /* a speed measured over less time is wrong */

static void put_speed(const struct app *a, bool narrow, struct str *out)
{
    char rate[NUM_MAX];
    const struct session_stats *st = &a->stats;
    str_printf(out, "turn %lld", (long long)st->n_turns);
    bool early = a->phase == PHASE_ANSWERING && a->now_ms - a->since_ms < SAMPLE_MS;
    const int pace = pace_rate(a->o);
    if (st->decode_tok_s > 0 && !early)
        str_printf(out, "  %s tok/s", num_rate(st->decode_tok_s, rate));
    if (pace > 0 && st->decode_tok_s > pace && !early && !narrow)
        str_printf(out, ", shown at %d", pace);
    if (st->first_token_ms > 0 && !narrow) str_printf(out, "  first %.0f ms", st->first_token_ms);
}

static void put_status(const struct app *a, bool narrow, struct str *out)
{
    if (a->flash[0] && a->now_ms < a->flash_until_ms) {
        str_puts(out, a->flash); /* has the whole line: most messages say what to do */
        return;
    }
    switch (a->phase) {
    case PHASE_LOADING:
        put_progress(a, a->total < 0 ? "measuring the model's keys" : "loading", true, out);
        break;
    case PHASE_OPENING:
        put_progress(a, a->total > 0 ? "reading again" : "opening", false, out);
        break;
    case PHASE_READING: put_progress(a, "reading", false, out); break;
    case PHASE_ANSWERING:
    case PHASE_READY: put_speed(a, narrow, out); break;
    }
    if (a->stop != STOP_NOT)
        str_puts(out, "  stopping");
    else if (app_busy(a))
        str_puts(out, "  Ctrl-C stop");
    else if (a->phase == PHASE_READY)
        str_puts(out, "  ready");
}

void bar_status(struct app *a, struct pane p, int y, int rows_below)
{
    struct str s = {0};
    char more[48] = "";
    int n = 0;
    put_status(a, p.w < NARROW, &s);
    if (rows_below > 0)
        n = snprintf(more, sizeof more, " v %d line%s more ", rows_below,
                     rows_below > 1 ? "s" : "");
    bar_rule(pane_sub(p, 0, y, p.w - n, 1), 0, str_get(&s));
    pane_puts(p, p.w - n, y, ATTR_BOLD, more);
    str_release(&s);
}

/* The column where the first `bytes` of the memory bar end. */
static int bytes_end(int64_t bytes, int64_t whole, int width)
{
    if (bytes <= 0 || whole <= 0) return 0;
    int end = (int)((double)bytes / (double)whole * width + 0.5);
    return end < width ? end : width;
}

enum { MEMORY_PARTS = 4, BAR_LEAST = 2, WIDE = 100 };

struct memory_part {
    const char *name;
    int64_t bytes;
    char letter;
    enum attr attr;
};

/* "6.44 MiB of 23.5 GiB: weights 2.53, cache 0.27, scratch 3.64; cache in use 0.06" */
static void put_memory(const struct app *a, const struct memory_part *parts, int64_t sum,
                       bool narrow, bool wide, struct str *out)
{
    char whole[NUM_MAX];
    double divisor;
    int64_t machine = a->stats.machine_bytes;
    const char *unit = num_unit(sum, &divisor);
    str_printf(out, "%.2f %s of %s", (double)sum / divisor, unit,
               num_bytes(machine > 0 ? machine : -1, whole));
    for (int i = 0; i < MEMORY_PARTS && !narrow; i++)
        if (parts[i].bytes)
            str_printf(out, "%s%s %.2f", i ? ", " : ": ", parts[i].name,
                       (double)parts[i].bytes / divisor);
    if (wide) str_printf(out, "; cache in use %.2f", (double)a->stats.cache_used_bytes / divisor);
}

static void draw_memory_bar(struct pane p, const struct memory_part *parts, int64_t whole)
{
    int64_t before = 0;
    pane_fill(p, 0, 0, p.w, ATTR_DIM, '.');
    for (int i = 0, at = 0; i < MEMORY_PARTS; i++) {
        before += parts[i].bytes > 0 ? parts[i].bytes : 0;
        int end = bytes_end(before, whole, p.w);
        pane_fill(p, at, 0, end - at, parts[i].attr, parts[i].letter);
        at = end;
    }
}

void bar_memory(struct app *a, struct pane p, int y)
{
    const struct session_stats *st = &a->stats;
    const struct memory_part parts[MEMORY_PARTS] = {
        {"weights", st->weights_bytes, 'w', ATTR_WEIGHTS},
        {"cache", st->cache_bytes, 'c', ATTR_CACHE},
        {"state", st->state_bytes, 'r', ATTR_CACHE}, /* of recurrent layers, if it has any */
        {"scratch", st->scratch_bytes, 's', ATTR_SCRATCH},
    };
    struct str text = {0};
    int64_t sum = 0;
    for (int i = 0; i < MEMORY_PARTS; i++) sum += parts[i].bytes > 0 ? parts[i].bytes : 0;
    int64_t whole = st->machine_bytes > 0 ? st->machine_bytes : sum;
    if (a->have_stats)
        put_memory(a, parts, sum, p.w < NARROW, p.w >= WIDE, &text);
    else
        str_puts(&text, "n/a");
    int x = pane_puts(p, 0, y, ATTR_DIM, p.w < NARROW ? "mem " : "taken   ");
    int width = p.w - x - (int)text.n - 3;
    if (width >= 6 && bytes_end(sum, whole, width) >= BAR_LEAST) {
        pane_puts(p, x++, y, ATTR_DIM, "[");
        draw_memory_bar(pane_sub(p, x, y, width, 1), parts, whole);
        x = pane_puts(p, x + width, y, ATTR_DIM, "] ");
    }
    pane_cut(p, y, pane_puts(p, x, y, ATTR_TEXT, str_get(&text)));
    str_release(&text);
}

void bar_event(struct app *a, struct pane p, int y)
{
    pane_puts(p, 0, y, ATTR_DIM, p.w < NARROW ? "evt " : "event   ");
    pane_clean(a, p, p.w < NARROW ? 4 : 8, y, ATTR_TEXT, a->event);
}

static bool has_hint(const struct app *a, const struct binding *b)
{
    return b->views & IN(a->view) && b->hint && b->label;
}

static int hint_columns(const struct binding *b)
{
    return (int)(strlen(b->label) + strlen(b->hint) + 1);
}

/* As many hints as fit; the way back to the chat is always shown. */
void bar_hints(struct app *a, struct pane p, int y)
{
    const struct binding *back = key_table;
    while (back->views && !(has_hint(a, back) && back->request == REQ_BACK)) back++;
    int x = 1, room = back->views ? hint_columns(back) + 2 : 0;
    for (const struct binding *b = key_table; b->views; b++) {
        if (!has_hint(a, b)) continue;
        if (room > 0 && x + hint_columns(b) + room > p.w) b = back;
        if (b == back) room = 0;
        if (x + hint_columns(b) > p.w) break;
        x = pane_puts(p, x, y, ATTR_KEY, b->label);
        x = pane_printf(p, x, y, ATTR_DIM, " %s  ", b->hint);
    }
}

int bar_field(struct app *a, struct pane p, int y, const char *label, struct edit *field)
{
    struct str safe = {0};
    int line, column;
    int x = pane_puts(p, 1, y, ATTR_KEY, label);
    int width = p.w - x - 1 > 1 ? p.w - x - 1 : 1;
    edit_lines(field, 1 << 20, &line, &column);
    const char *s = str_get(&field->text);
    size_t from = column > width ? utf8_fit(s, field->text.n, column - width) : 0;
    sanitize(s + from, field->text.n - from, a->ascii, true, &safe);
    pane_puts(p, x, y, ATTR_TEXT, str_get(&safe));
    pane_cursor(p, x + (column > width ? width : column), y);
    str_release(&safe);
    return x;
}
