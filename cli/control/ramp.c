#include "cli/control/ramp.h"

#include <string.h>

#include "cli/print/num.h"
#include "runtime/session/session.h"

const char *const ramp_words[RAMP_CLASSES] = {"gone", "few", "some", "many", "most", "all"};

int ramp_level(int64_t kept, int64_t seen)
{
    /* thousandths; four steps by equal factors to the upper end of each class */
    static const int at_most[] = {3,   5,   10,  20,  30,  45,  67,  100,
                                  141, 200, 283, 400, 503, 632, 795, 1000};
    if (kept <= 0 || seen <= 0) return 0;
    int level = 1;
    while (level < RAMP_LEVEL_ALL - 1 && 1000 * kept > at_most[level - 1] * seen) level++;
    return level;
}

/* The level of a share relative to the average share of old text, in thousandths: eight levels are
 * a factor of two, and the average itself is the last level of `some`. */
static int level_beside(int64_t kept, int64_t seen, const struct ramp_old *o)
{
    static const int at_most[] = {545,  595,  648,  707,  771,  841,  917, 1000,
                                  1091, 1189, 1297, 1414, 1542, 1682, 1834};
    if (kept <= 0 || o->kept <= 0) return 0;
    double share = 1000 * (double)kept * (double)o->seen, mean = (double)seen * (double)o->kept;
    int level = 1;
    while (level < RAMP_LEVEL_ALL - 1 && share > at_most[level - 1] * mean) level++;
    return level;
}

int ramp_level_at(int64_t kept, int64_t seen, int64_t pos, int64_t end, const struct ramp_old *o)
{
    int64_t from = pos > o->lead ? pos : o->lead, last = end < o->tail ? end : o->tail;
    int64_t n = last > from ? last - from : 0;
    if (seen <= 0 || end <= pos) return 0;
    if (n == 0) return RAMP_LEVEL_ALL;
    int64_t untouched = seen / (end - pos) * (end - pos - n);
    kept -= untouched;
    seen -= untouched;
    int level = ramp_level(kept, seen), beside = level_beside(kept, seen, o);
    return beside > level ? beside : level;
}

int ramp_level_class(int level)
{
    return (level + 3) / 4;
}

int ramp_class_level(int cls)
{
    return cls > 0 ? 4 * cls - 3 : 0;
}

const char *ramp_glyph(int cls, bool ascii)
{
    static const char *const plain[RAMP_CLASSES] = {" ", ".", ":", "=", "#", "-"};
    static const char *const blocks[RAMP_CLASSES] = {"·", "░", "▒", "▓", "█", "▁"};
    return ascii ? plain[cls] : blocks[cls];
}

struct ramp_part ramp_all(const struct retention *r)
{
    return (struct ramp_part){0, r->n_layer, 0, r->n_head};
}

void ramp_sum(const struct retention *r, struct ramp_part part, int col, int col_end, int64_t *kept,
              int64_t *seen)
{
    int64_t sum = 0;
    for (int layer = part.layer; layer < part.layer + part.n_layer; layer++)
        for (int head = part.head; head < part.head + part.n_head; head++) {
            const uint32_t *row = r->kept + ((int64_t)layer * r->n_head + head) * RETENTION_COLS;
            for (int c = col; c < col_end; c++) sum += row[c];
        }
    int64_t last = (int64_t)col_end * r->col_width;
    if (last > r->n_pos) last = r->n_pos;
    int64_t positions = last - (int64_t)col * r->col_width;
    *kept = sum;
    *seen = positions > 0 ? positions * part.n_layer * part.n_head : 0;
}

void ramp_sums(const struct retention *r, int64_t kept[])
{
    memset(kept, 0, sizeof *kept * RETENTION_COLS);
    for (int head = 0; head < r->n_layer * r->n_head; head++) {
        const uint32_t *row = r->kept + (int64_t)head * RETENTION_COLS;
        for (int c = 0; c < r->n_cols; c++) kept[c] += row[c];
    }
}

void ramp_stretch(int n, int width, int x, int *from, int *end)
{
    *from = (int)((int64_t)x * n / width);
    *end = (int)((int64_t)(x + 1) * n / width);
    if (*end == *from) *end = *from + 1;
}

int ramp_cell(int n, int width, int col)
{
    if (n <= width) return (int)(((int64_t)col * width + n - 1) / n);
    return (int)(((int64_t)(col + 1) * width - 1) / n);
}

void ramp_columns(const struct retention *r, int width, int x, int *col, int *col_end)
{
    *col = *col_end = 0;
    if (r->n_cols > 0) ramp_stretch(r->n_cols, width, x, col, col_end);
}

int64_t ramp_position(const struct retention *r, int col)
{
    return (int64_t)col * r->col_width;
}

int64_t ramp_seen(const struct session_stats *st)
{
    int64_t heads = (int64_t)st->n_layer * st->n_kv_head;
    return heads > 0 ? st->units_seen / heads : 0;
}

void ramp_kept(const struct session_stats *st, bool narrow, struct str *out)
{
    char kept[NUM_MAX], all[NUM_MAX];
    int64_t heads = (int64_t)st->n_layer * st->n_kv_head, seen = ramp_seen(st);
    int64_t mean = heads > 0 ? (st->units_kept + heads / 2) / heads : 0;
    const bool newest = st->n_tokens == seen + 1; /* it is run with the next message */
    if (newest) seen++;
    if (newest && st->units_kept == st->units_seen) mean++;
    if (narrow)
        str_printf(out, "%s/%s", num_count(mean, kept), num_count(seen, all));
    else
        str_printf(out, "%s of %s kept", num_exact(mean, kept), num_exact(seen, all));
}

void ramp_budget(const struct session_stats *st, struct str *out)
{
    char budget[NUM_MAX];
    bool full = strcmp(st->policy, "full") == 0;
    if (st->budget <= 0) return;
    bool before = st->units_kept == st->units_seen && ramp_seen(st) <= st->budget;
    const char *label = full ? "full at" : before ? "forgets from" : "budget";
    str_printf(out, "%s %s", label, num_exact(st->budget, budget));
}
