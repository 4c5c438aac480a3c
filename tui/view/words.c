#include "tui/view/words.h"

#include "base/utf8_width.h"
#include "cli/control/ramp.h"
#include "tui/view/bars.h"

enum { NARROW = 60, TEXT_WIDE = 6, TEXT_NARROW = 3 };

bool words_have_place(const struct message *m)
{
    return m->position >= 0 && m->n_tokens > 0;
}

/* ---- shades ---------------------------------------------------------------------------------- */

static bool is_returned(const struct app *a, int64_t position)
{
    for (int i = 0; i < a->returned.n; i++)
        if (position >= a->returned.spans[i].from && position < a->returned.spans[i].end)
            return true;
    return false;
}

/* Looks of text, from evicted to kept well. */
static const enum attr shades[] = {ATTR_GONE, ATTR_FADE1, ATTR_FADE2, ATTR_THIN, ATTR_TEXT};
enum { SHADE_THIN = 3, SHADE_KEPT = 4 };

/* Text is thin where at most a quarter of the heads hold it, or a little more. */
static int shade_of(int level)
{
    return level == 0 ? 0 : level < ramp_class_level(RAMP_MOST) - 1 ? SHADE_THIN : SHADE_KEPT;
}

/* On the way from the shade before the last loss to the present one. */
static int faded(const struct app *a, int64_t position, int shade)
{
    const struct held *h = &a->fade.before;
    int64_t ms = a->now_ms - a->fade.since_ms;
    if (ms >= FADE_MS || position >= h->n) return shade;
    int n_heads = a->map->n_layer * a->map->n_head;
    int before = shade_of(ramp_level(h->heads[position], n_heads));
    return before > shade ? before + (int)((shade - before) * ms / FADE_MS) : shade;
}

static enum attr attr_at(const struct app *a, struct words_look look, int64_t position)
{
    if (is_returned(a, position)) return ATTR_RETURNED;
    const struct retention *r = a->map;
    if (position >= r->n_pos) return look.kept; /* not read yet */
    bool untouched = position < r->lead || position >= r->tail;
    int level = ramp_level(r->heads[position], r->n_layer * r->n_head);
    int shade = faded(a, position, shade_of(level));
    if (shade < SHADE_KEPT) return shades[shade];
    return ramp_level_class(level) == RAMP_MOST && !untouched ? look.best : look.kept;
}

int words_put(struct app *a, struct pane p, int x, int y, struct words_look look, int index,
              size_t from, size_t n)
{
    const struct message *m = &a->talk.messages[index];
    const char *s = str_get(&m->text);
    size_t end = from + n, at = from;
    if (!words_have_place(m) || !a->map) return pane_put(p, x, y, look.kept, s + from, n);
    int64_t position = transcript_position(&a->talk, index, at);
    for (; at < end; position++) {
        size_t next = transcript_token_end(&a->talk, index, position);
        while (next < end && ((unsigned char)s[next] & 0xC0) == 0x80) next++; /* whole characters */
        if (next > end) next = end;
        if (next <= at) continue; /* shares its character with the token before */
        x = pane_put(p, x, y, attr_at(a, look, position), s + at, next - at);
        at = next;
    }
    return x;
}

/* ---- lines ----------------------------------------------------------------------------------- */

/* The line that begins at byte `at`; *next: the one after it, 0 = none. */
static struct words_line line_from(const struct message *m, int index, size_t at, int width,
                                   size_t *next)
{
    size_t shown = 0, left = m->text.n - at;
    size_t taken = left > 0 ? utf8_line(str_get(&m->text) + at, left, width, &shown) : 0;
    *next = taken < left ? at + taken : 0;
    return (struct words_line){index, at, taken ? shown : 0};
}

struct words_line words_line_at(const struct app *a, int index, size_t byte, int width,
                                size_t *next)
{
    const struct message *m = &a->talk.messages[index];
    size_t at = byte < m->text.n ? byte : m->text.n > 0 ? m->text.n - 1 : 0;
    while (at > 0 && m->text.data[at - 1] != '\n') at--; /* there a line begins at any width */
    struct words_line line = line_from(m, index, at, width, next);
    while (*next && byte >= *next) line = line_from(m, index, *next, width, next);
    return line;
}

struct words_line words_line_of(struct app *a, int64_t position, int width)
{
    size_t byte, end, next;
    int index = transcript_find(&a->talk, position, &byte, &end);
    if (index < 0) return (struct words_line){.index = -1};
    return words_line_at(a, index, byte, width, &next);
}

static bool is_folded(const struct app *a, int index)
{
    return a->talk.messages[index].role == TRANSCRIPT_THOUGHT && !a->talk.unfolded;
}

bool words_neighbour(const struct app *a, const struct words_line *l, bool after, int width,
                     struct words_line *out)
{
    size_t next;
    int index = l->index;
    line_from(&a->talk.messages[index], index, l->from, width, &next);
    if (after && next) {
        *out = line_from(&a->talk.messages[index], index, next, width, &next);
        return true;
    }
    if (!after && l->from > 0) {
        *out = words_line_at(a, index, l->from - 1, width, &next);
        return true;
    }
    do index += after ? 1 : -1;
    while (index >= 0 && index < a->talk.n && is_folded(a, index));
    if (index < 0 || index >= a->talk.n) return false;
    *out = words_line_at(a, index, after ? 0 : a->talk.messages[index].text.n, width, &next);
    return true;
}

const char *const words_role[TRANSCRIPT_ROLES] = {[CHAT_SYSTEM] = "sys",
                                                  [CHAT_USER] = "you",
                                                  [CHAT_ASSISTANT] = "llm",
                                                  [TRANSCRIPT_NOTE] = "***",
                                                  [TRANSCRIPT_THOUGHT] = "..."};

bool words_narrow(struct pane p)
{
    return p.w < NARROW;
}

int words_column(struct pane p)
{
    return words_narrow(p) ? TEXT_NARROW : TEXT_WIDE;
}

/* Marks the characters of the tokens [from, end). */
static void highlight(struct app *a, struct pane p, int x, int y, const struct words_line *l,
                      int64_t from, int64_t end)
{
    const struct message *m = &a->talk.messages[l->index];
    const char *s = str_get(&m->text);
    bool first = true;
    for (size_t at = l->from, next; at < l->from + l->n; at = next) {
        next = utf8_after(s, m->text.n, at);
        int64_t position = transcript_position(&a->talk, l->index, at);
        int64_t last = transcript_position(&a->talk, l->index, next - 1);
        if (last < from || position >= end) continue;
        int before = utf8_columns(s + l->from, at - l->from);
        int width = utf8_columns(s + l->from, next - l->from) - before;
        pane_attr(p, x + before, y, width, ATTR_SELECT);
        if (first) pane_cursor(p, x + before, y);
        first = false;
    }
}

void words_draw(struct app *a, struct pane p, int y, const struct words_line *l, int64_t from,
                int64_t end)
{
    const struct message *m = &a->talk.messages[l->index];
    int x = words_column(p);
    int64_t first, last;
    if (l->from == 0 && !words_narrow(p)) pane_puts(p, 2, y, ATTR_DIM, words_role[m->role]);
    bool placed = words_have_place(m);
    struct words_look look = {placed ? ATTR_TEXT : ATTR_DIM, ATTR_BOLD};
    words_put(a, p, x, y, look, l->index, l->from, l->n);
    if (!placed || !a->map) return;
    transcript_positions(&a->talk, l->index, l->from, l->n, &first, &last);
    pane_ramp(p, 0, y, app_level_at(a, first, last));
    if (first < end && last > from) highlight(a, p, x, y, l, from, end);
}
