/* view_dash: the numbers of the conversation as graphs over its length: the cache against one that
 * keeps everything, speed, share kept, evictions, recall, memory, sensors; and the numbers. */
#include <math.h>
#include <stdio.h>

#include "cli/print/num.h"
#include "tui/chat/app.h"
#include "tui/view/bars.h"

enum { WIDE = 90 };

/* ---- graphs ---------------------------------------------------------------------------------- */

static const char *level_glyph(int eighths, bool ascii)
{
    static const char *const blocks[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    static const char *const plain[] = {" ", "_", "_", ".", ".", "=", "=", "#", "#"};
    return ascii ? plain[eighths] : blocks[eighths];
}

/* One column of a filled graph: `value` of `most` in h rows. */
static void put_bar(struct pane p, int x, double value, double most, enum attr attr)
{
    int eighths = most > 0 ? (int)(value / most * 8 * p.h + 0.5) : 0;
    if (value > 0 && eighths == 0) eighths = 1;
    for (int y = p.h - 1; y >= 0 && eighths > 0; y--) {
        int part = eighths < 8 ? eighths : 8;
        pane_puts(p, x, y, attr, level_glyph(part, p.g->ascii));
        eighths -= part;
    }
}

static void draw_area(const struct trace *t, struct pane p, enum trace_line line, double most,
                      enum attr attr)
{
    for (int x = 0; x < p.w; x++) {
        double value = trace_at(t, line, x, p.w);
        if (!isnan(value)) put_bar(p, x, value, most, attr);
    }
}

/* From 0 at the beginning to the largest value at the end: the units of a cache that keeps
 * everything grow with each token alike. */
static void draw_rise(struct pane p, double share, enum attr attr)
{
    for (int x = 0; x < p.w; x++) {
        int y = p.h - 1 - (int)(share * p.h * (x + 0.5) / p.w);
        pane_puts(p, x, y, attr, p.g->ascii ? "*" : "•");
    }
}

void dash_sparkline(const struct app *a, struct pane p, enum trace_line line)
{
    draw_area(&a->trace, p, line, trace_most(&a->trace, line), ATTR_DIM);
}

/* ---- the parts ------------------------------------------------------------------------------- */

static const char *put_bytes(double value, char out[NUM_MAX])
{
    return num_bytes(isnan(value) ? -1 : (int64_t)value, out);
}

/* Tokens at which a cache that keeps everything takes as much as this one; 0 = not known. */
static int64_t tokens_alike(const struct session_stats *st)
{
    const int64_t each = st->unit_bytes * st->n_layer * st->n_kv_head;
    return each > 0 ? (st->cache_bytes + each - 1) / each : 0;
}

/* The axis: its length, and where the lines cross. */
static void draw_axis(struct app *a, struct pane p, int64_t n)
{
    char number[NUM_MAX], text[64];
    const int64_t alike = tokens_alike(&a->stats);
    int end = p.w - snprintf(text, sizeof text, "%s tokens", num_exact(n, number)) - 1;
    pane_puts(p, 0, 0, ATTR_DIM, "0");
    pane_puts(p, end, 0, ATTR_DIM, text);
    if (alike <= 0 || n <= 0) return;
    int width = snprintf(text, sizeof text, "equal at %s", num_exact(alike, number));
    int x = alike < n ? (int)(alike * p.w / n) : 0, at = x + 2;
    if (at + width >= end) at = x - width - 1;
    if (x > 0 && x < end) pane_puts(p, x, 0, ATTR_TEXT, p.g->ascii ? "^" : "▲");
    if (at > 1) pane_puts(p, at, 0, ATTR_DIM, text);
}

/* The product's claim in one picture, in bytes taken: this cache is flat, a whole one grows beyond
 * it. */
static void draw_cache(struct app *a, struct pane p)
{
    char now[NUM_MAX], whole[NUM_MAX];
    const struct trace *t = &a->trace;
    const double taken = a->stats.cache_bytes > 0 ? (double)a->stats.cache_bytes : NAN;
    double most = fmax(trace_most(t, TRACE_WHOLE), taken);
    int x = pane_puts(p, 0, 0, ATTR_BOLD, "CACHE  ");
    pane_puts(p, x, 0, ATTR_CACHE, p.g->ascii ? "#" : "█");
    x = pane_printf(p, x + 1, 0, ATTR_TEXT, " this cache: %s taken", put_bytes(taken, now));
    if (p.w >= WIDE)
        x = pane_printf(p, x, 0, ATTR_TEXT, ", %s in use",
                        num_bytes(a->stats.cache_used_bytes, now));
    x += 2;
    pane_puts(p, x, 0, ATTR_TEXT, p.g->ascii ? "*" : "•");
    x = pane_printf(p, x + 1, 0, ATTR_TEXT, " one that keeps everything: %s",
                    put_bytes(trace_last(t, TRACE_WHOLE), whole));
    pane_cut(p, 0, x);
    struct pane graph = pane_sub(p, 0, 1, p.w, p.h - 2);
    if (most > 0) draw_rise(graph, trace_last(t, TRACE_WHOLE) / most, ATTR_TEXT);
    /* taken as a whole when the conversation was opened */
    for (int i = 0; i < graph.w; i++) put_bar(graph, i, taken, most, ATTR_CACHE);
    draw_axis(a, pane_sub(p, 0, p.h - 1, p.w, 1), t->n > 0 ? t->samples[t->n - 1].n_tokens : 0);
}

struct graph {
    const char *title, *unit;
    enum trace_line line;
    enum attr attr;
    bool bytes;
};

static void draw_graph(struct app *a, struct pane p, const struct graph *g)
{
    char b[2][NUM_MAX];
    double most = trace_most(&a->trace, g->line), last = trace_last(&a->trace, g->line);
    int x = pane_printf(p, 0, 0, ATTR_BOLD, "%s  ", g->title);
    if (isnan(most)) {
        pane_puts(p, x, 0, ATTR_DIM, "n/a");
        return;
    }
    if (g->bytes)
        pane_printf(p, x, 0, ATTR_TEXT, "%s, most %s", put_bytes(last, b[0]),
                    put_bytes(most, b[1]));
    else if (isnan(last))
        pane_printf(p, x, 0, ATTR_TEXT, "most %s%s", num_exact(llround(most), b[0]), g->unit);
    else
        pane_printf(p, x, 0, ATTR_TEXT, "%s%s, most %s%s", num_exact(llround(last), b[0]), g->unit,
                    num_exact(llround(most), b[1]), g->unit);
    double scale = g->line == TRACE_KEPT ? 100 : most;
    draw_area(&a->trace, pane_sub(p, 0, 1, p.w, p.h - 1), g->line, scale, g->attr);
}

static void draw_graphs(struct app *a, struct pane p)
{
    static const struct graph graphs[] = {
        {"SPEED", " tok/s", TRACE_SPEED, ATTR_SCRATCH, false},
        {"KEPT", " %", TRACE_KEPT, ATTR_WEIGHTS, false},
        {"EVICTED", " units", TRACE_EVICTED, ATTR_ERROR, false},
        {"RECALLED", " units", TRACE_RETURNED, ATTR_YOU, false},
        {"PROCESS", "", TRACE_PROCESS, ATTR_DIM, true},
        {"TEMPERATURE", " C", TRACE_CELSIUS, ATTR_CODE, false},
        {"POWER", " W", TRACE_WATT, ATTR_CODE, false},
    };
    int n = sizeof graphs / sizeof *graphs, columns = p.w >= 150 ? 3 : p.w >= 60 ? 2 : 1;
    int rows = p.h / 4 < 1 ? 1 : p.h / 4;
    while (rows > 1 && (rows - 1) * columns >= n) rows--;
    int h = p.h / rows > 9 ? 9 : p.h / rows, w = p.w / columns;
    for (int i = 0; i < n && i < rows * columns; i++)
        draw_graph(a, pane_sub(p, i % columns * w, i / columns * h, w - 2, h - 1), &graphs[i]);
}

static void draw_numbers(struct app *a, struct pane p)
{
    struct str s = {0};
    struct session_stats *st = &a->stats;
    char b[6][NUM_MAX];
    int x = pane_printf(p, 0, 0, ATTR_TEXT, "%s, weights %s, kv %s, policy %s, budget %d per head",
                        st->model, st->weights, st->kv, st->policy, st->budget);
    pane_cut(p, 0, x);
    x = pane_printf(p, 0, 1, ATTR_TEXT,
                    "%s tokens, %lld turn%s, %s re-read; kept %s of %s units, %s are evicted",
                    num_exact(st->n_tokens, b[0]), (long long)st->n_turns,
                    st->n_turns == 1 ? "" : "s", num_exact(st->n_reread, b[1]),
                    num_exact(st->units_kept, b[2]), num_exact(st->units_seen, b[3]),
                    num_exact(st->units_seen - st->units_kept, b[4]));
    pane_cut(p, 1, x);
    str_printf(&s, "decode %s, prefill %s tok/s, first token %s", num_rate(st->decode_tok_s, b[0]),
               num_rate(st->prefill_tok_s, b[1]), num_ms(st->first_token_ms, b[2]));
    if (st->n_proposed)
        str_printf(&s, ", %s of %s proposals right", num_exact(st->n_accepted, b[3]),
                   num_exact(st->n_proposed, b[4]));
    if (st->state_bytes)
        str_printf(&s, "; state of recurrent layers %s", num_bytes(st->state_bytes, b[5]));
    pane_cut(p, 2, pane_puts(p, 0, 2, ATTR_TEXT, str_get(&s)));
    x = pane_printf(p, 0, 3, ATTR_TEXT, "on %s  ", st->device);
    if (st->archive_max_bytes)
        x = pane_printf(p, x, 3, ATTR_TEXT, "archive %s of %s, %s units came back since opened",
                        num_bytes(st->archive_bytes, b[0]), num_bytes(st->archive_max_bytes, b[1]),
                        num_exact(st->units_returned, b[2]));
    pane_cut(p, 3, x);
    str_release(&s);
}

/* ---- the view -------------------------------------------------------------------------------- */

static void draw(struct app *a, struct pane p)
{
    bar_title(a, p, 0);
    if (p.h > 2) bar_hints(a, p, p.h - 1);
    if (!a->have_stats || p.h < 8) {
        pane_puts(p, 1, 1, ATTR_DIM,
                  a->have_stats ? "too small a screen" : "no numbers before the model is loaded");
        return;
    }
    struct pane body = pane_sub(p, 1, 1, p.w - 2, p.h - 2);
    int numbers = body.h >= 14 ? 4 : 0, lines = body.h >= 18 ? 2 : 0;
    int cache = body.h >= 30 ? 14 : body.h >= 12 ? 8 : body.h;
    draw_cache(a, pane_sub(body, 0, 0, body.w, cache));
    int y = cache + (body.h >= 20), end = body.h - numbers - lines;
    draw_graphs(a, pane_sub(body, 0, y, body.w, end - y));
    if (lines) bar_memory(a, body, end);
    if (lines) bar_sensors(a, body, end + 1);
    if (numbers) draw_numbers(a, pane_sub(body, 0, body.h - numbers, body.w, numbers));
}

const struct view_ops view_dash = {.name = "graphs", .draw = draw};
