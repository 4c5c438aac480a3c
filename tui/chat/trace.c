#include "tui/chat/trace.h"

#include <math.h>
#include <string.h>

void trace_clear(struct trace *t)
{
    memset(t, 0, sizeof *t);
}

static bool is_sum(enum trace_line line)
{
    return line == TRACE_EVICTED || line == TRACE_RETURNED;
}

/* Joins neighbours, so that sums stay sums. */
static void join_pairs(struct trace *t)
{
    for (int i = 0; i < t->n / 2; i++) {
        struct trace_sample a = t->samples[2 * i], b = t->samples[2 * i + 1];
        for (int k = 0; k < TRACE_LINES; k++)
            if (is_sum((enum trace_line)k)) b.values[k] += a.values[k];
        t->samples[i] = b;
    }
    t->n /= 2;
    t->step *= 2;
}

void trace_add(struct trace *t, const struct session_stats *st, double celsius, double watt)
{
    int64_t last = t->n > 0 ? t->samples[t->n - 1].n_tokens : -1;
    if (st->n_tokens < last || st->units_evicted < t->evicted) trace_clear(t);
    if (t->n > 0 && st->n_tokens < last + t->step) return;
    if (t->step == 0) t->step = 1;
    if (t->n == TRACE_MAX) join_pairs(t);
    struct trace_sample *s = &t->samples[t->n];
    s->n_tokens = st->n_tokens;
    s->values[TRACE_SPEED] = st->decode_tok_s > 0 ? st->decode_tok_s : NAN;
    s->values[TRACE_KEPT] =
        st->units_seen > 0 ? 100 * (double)st->units_kept / (double)st->units_seen : NAN;
    s->values[TRACE_WHOLE] = (double)(st->units_seen * st->unit_bytes);
    s->values[TRACE_EVICTED] = t->n > 0 ? (double)(st->units_evicted - t->evicted) : 0;
    s->values[TRACE_RETURNED] = t->n > 0 ? (double)(st->units_returned - t->returned) : 0;
    s->values[TRACE_PROCESS] = st->process_bytes > 0 ? (double)st->process_bytes : NAN;
    s->values[TRACE_CELSIUS] = celsius;
    s->values[TRACE_WATT] = watt;
    t->evicted = st->units_evicted;
    t->returned = st->units_returned;
    t->n++;
}

/* What is not saved with a conversation, as its speed, stays unknown. */
void trace_past(struct trace *t, const struct waterfall *past, const struct session_stats *now)
{
    const int64_t heads = (int64_t)past->n_layer * past->n_head;
    for (int i = 0; i < past->n && past->rows[i].n_pos < now->n_tokens; i++) {
        const struct waterfall_row *row = &past->rows[i];
        struct session_stats st = {.n_tokens = row->n_pos,
                                   .units_seen = heads * row->n_pos,
                                   .units_evicted = row->n_evicted,
                                   .units_returned = row->n_returned,
                                   .unit_bytes = now->unit_bytes,
                                   .cache_bytes = now->cache_bytes};
        for (int64_t k = 0; k < heads * row->n_cols; k++) st.units_kept += row->kept[k];
        trace_add(t, &st, NAN, NAN);
    }
    t->evicted = now->units_evicted; /* these count from the opening on */
    t->returned = now->units_returned;
}

double trace_at(const struct trace *t, enum trace_line line, int x, int n)
{
    double sum = 0;
    int found = 0, before = -1;
    if (t->n == 0 || n <= 0) return NAN;
    int64_t length = t->samples[t->n - 1].n_tokens;
    int64_t from = length * x / n, end = length * (x + 1) / n;
    for (int i = 0; i < t->n; i++) {
        const struct trace_sample *s = &t->samples[i];
        if (s->n_tokens <= from) before = i;
        if (s->n_tokens <= from || s->n_tokens > end || isnan(s->values[line])) continue;
        sum += s->values[line];
        found++;
    }
    if (found > 0) return is_sum(line) ? sum : sum / found;
    if (before < 0) return NAN; /* it was not watched yet */
    return is_sum(line) ? 0 : t->samples[before].values[line];
}

double trace_last(const struct trace *t, enum trace_line line)
{
    return t->n > 0 ? t->samples[t->n - 1].values[line] : NAN;
}

double trace_most(const struct trace *t, enum trace_line line)
{
    double most = NAN;
    for (int i = 0; i < t->n; i++)
        if (!(t->samples[i].values[line] <= most) && !isnan(t->samples[i].values[line]))
            most = t->samples[i].values[line];
    return most;
}
