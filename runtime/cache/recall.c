#include "runtime/cache/recall_choosers.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/pool.h"

/* Windows with less than this share of the best window's weight only distract. A later statement in
 * other words ("My new pin code is 3453.") has at least half of it. */
#define LEAST 0.5f
/* A window begins with its sentence if that is so many positions before its words, at most: the
 * value may be there ("I paid 228 euros for the ticket."). */
#define BACK 8
_Static_assert(RECALL_WINDOW + BACK <= RECALL_SPAN, "a window holds what it goes back");

bool recall_chooser_named(const char *name, enum recall_chooser *out)
{
    *out = strcmp(name, "off") ? RECALL_WORDS : RECALL_OFF;
    return !strcmp(name, recall_chooser_name(*out));
}

const char *recall_chooser_name(enum recall_chooser chooser)
{
    return chooser == RECALL_OFF ? "off" : "words";
}

/* ---- choosing -------------------------------------------------------------------------------- */

static bool follows(const struct archive *x, int at, int n)
{
    return at + n < x->n && x->pos[at + n] == x->pos[at] + (uint32_t)n;
}

/* A window reaches to the end of its last sentence, or at least of its last word: values are there,
 * and many vocabularies spell numbers digit by digit. `back` of its positions are added to
 * RECALL_WINDOW. */
static int window_length(const struct archive *x, int at, int back)
{
    int n = 1, word;
    while (n < RECALL_WINDOW + back && follows(x, at, n)) n++;
    for (word = n; word < RECALL_SPAN && follows(x, at, word); word++)
        if (!(x->flags[at + word] & ARCHIVE_JOINS)) break;
    for (n = word; n < RECALL_SPAN; n++)
        if (x->flags[at + n - 1] & ARCHIVE_ENDS || !follows(x, at, n)) return n;
    return x->flags[at + n - 1] & ARCHIVE_ENDS ? n : word;
}

/* The number of positions from the begin of index `at`'s sentence to it, without those of the n
 * windows; if they are more than BACK, from the begin of its word. */
static int sentence_before(const struct archive *x, int at, const struct recall_window *w, int n)
{
    if (x->flags[at] & ARCHIVE_ENDS) return 0; /* the words begin the next one */
    for (int back = 0; back <= BACK; back++) {
        const int i = at - back;
        if (i == 0 || x->flags[i - 1] & ARCHIVE_ENDS || !follows(x, i - 1, 1)) return back;
        for (int k = 0; k < n; k++)
            if (x->pos[i - 1] - w[k].pos < (uint32_t)w[k].n) return back;
    }
    int back = 0;
    while (back < BACK && x->flags[at - back] & ARCHIVE_JOINS) back++;
    return back;
}

/* The window that starts `back` positions before an index. If some of its units were dropped, those
 * left are a window if they have the words that are searched and end a sentence. */
static struct recall_window window_at(const struct archive *x, int at, int back, float weight)
{
    const int n = window_length(x, at -= back, back);
    int from = 0, end;
    bool ends = false;
    while (from < n && !archive_has_units(x, at + from)) from++;
    for (end = from; end < n && archive_has_units(x, at + end); end++)
        ends |= (x->flags[at + end] & ARCHIVE_ENDS) != 0;
    if (from <= back + RECALL_LEAD && (ends || end == n))
        return (struct recall_window){x->pos[at + from], end - from, weight, false, false};
    return (struct recall_window){x->pos[at], n, weight, true, false};
}

/* Whether any unit of a window is evicted. */
static bool is_missing(const struct cache *c, const struct recall_window *w)
{
    for (int i = 0; i < cache_n_heads(c) * w->n; i++)
        if (cache_find(&c->kv_heads[i / w->n], w->pos + i % w->n) < 0) return true;
    return false;
}

float recall_most(const float *weights, int n)
{
    enum { LANES = 8 }; /* so that the compiler compares several at once */
    float most[LANES] = {0};
    int i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int k = 0; k < LANES; k++)
            most[k] = weights[i + k] > most[k] ? weights[i + k] : most[k];
    for (; i < n; i++) most[0] = weights[i] > most[0] ? weights[i] : most[0];
    for (int k = 1; k < LANES; k++) most[0] = most[k] > most[0] ? most[k] : most[0];
    return most[0];
}

/* The heaviest weight of a block's starts. */
static void find_peak(struct archive *x, int block)
{
    const int first = block * ARCHIVE_BLOCK, left = x->n - first;
    x->peak[block] = recall_most(x->weight + first, left < ARCHIVE_BLOCK ? left : ARCHIVE_BLOCK);
}

static int n_blocks(const struct archive *x)
{
    return (x->n + ARCHIVE_BLOCK - 1) / ARCHIVE_BLOCK;
}

/* The heaviest start, on ties the newest; -1 = none has any weight. */
static int heaviest(const struct archive *x)
{
    int block = 0;
    for (int i = 1; i < n_blocks(x); i++)
        if (x->peak[i] >= x->peak[block]) block = i;
    if (x->peak[block] <= 0) return -1;
    int i = (block + 1) * ARCHIVE_BLOCK < x->n ? (block + 1) * ARCHIVE_BLOCK : x->n;
    while (x->weight[--i] < x->peak[block]) {
    }
    return i;
}

/* Excludes the starts [first, end). */
static void exclude(struct archive *x, int first, int end)
{
    for (int i = first; i < end; i++) x->weight[i] = 0;
    for (int i = first / ARCHIVE_BLOCK; i <= (end - 1) / ARCHIVE_BLOCK; i++) find_peak(x, i);
}

/* Excludes the starts whose windows overlap n positions from an index on. */
static void exclude_around(struct archive *x, int at, int n)
{
    exclude(x, at >= RECALL_SPAN ? at - RECALL_SPAN + 1 : 0, at + n);
}

/* The newest start of at least this weight: of the windows that overlap it, the heaviest one's. */
static int newest(const struct archive *x, float least)
{
    for (int block = n_blocks(x); block-- > 0;) {
        if (x->peak[block] < least) continue;
        int i = (block + 1) * ARCHIVE_BLOCK < x->n ? (block + 1) * ARCHIVE_BLOCK : x->n;
        while (x->weight[--i] < least) {
        }
        int best = i;
        for (int k = i; k >= 0 && k > i - RECALL_WINDOW; k--)
            if (x->weight[k] > x->weight[best]) best = k;
        return best;
    }
    return -1;
}

/* Adds windows that do not overlap to out[n]. With `least` 0 it takes the heaviest first, otherwise
 * the newest of at least this weight: what was said last about a thing is right. Returns the new
 * number of windows. */
static int pick(struct archive *x, const struct recall_query *q, float least, int n, int max,
                int *room, struct recall_window *out)
{
    for (int at; n < max && (at = least > 0 ? newest(x, least) : heaviest(x)) >= 0;) {
        const int back = sentence_before(x, at, out, n);
        const struct recall_window w = window_at(x, at, back, x->weight[at]);
        if ((q->texts || !w.text) && w.pos < q->newest) {
            if (w.n > *room) break;
            *room -= w.n;
            out[n++] = w;
            exclude_around(x, at - back, w.n);
        } else {
            exclude(x, at, at + 1);
        }
    }
    return n;
}

/* Whether the user asked to bring something back. */
static bool wishes(const struct recall_query *q)
{
    return q->n_wanted || q->from < q->end;
}

/* Adds the passage that withdraws what the first of n windows says. Returns the new number. */
static int add_withdrawal(struct archive *x, const struct recall_query *q, int n, int max,
                          int *room, struct recall_window *out)
{
    if (n == 0 || n == max) return n;
    const int at = recall_withdrawal(x, archive_index(x, out[0].pos), out[0].n);
    if (at < 0) return n;
    const struct recall_window w = window_at(x, at, 0, out[0].weight);
    for (int i = 0; i < n; i++)
        if (w.pos < out[i].pos + (uint32_t)out[i].n && out[i].pos < w.pos + (uint32_t)w.n) return n;
    if (w.n > *room || (w.text && !q->texts) || w.pos >= q->newest) return n;
    *room -= w.n;
    exclude_around(x, at, w.n);
    out[n] = w;
    return n + 1;
}

int recall_choose(struct archive *x, const struct cache *c, const struct recall_query *q, int max,
                  struct recall_window out[RECALL_MAX])
{
    int room = q->room, n;
    if (x->n == 0 || max < 1 || cache_units(c) == c->n_pos * cache_n_heads(c)) return 0;
    const bool named = recall_weigh(x, q) >= RECALL_VAGUE || wishes(q);
    const bool unnamed = !named && recall_asks(q->text, q->n);
    const bool vague = unnamed && q->more && x->opts.compare.n_embd;
    if (q->texts && (unnamed || (!recall_asks(q->text, q->n) && !wishes(q)))) return 0;
    if (vague) recall_weigh_meaning(x, q);
    for (int i = 0; i < n_blocks(x); i++) find_peak(x, i);
    n = pick(x, q, 0, 0, vague ? max : 1, &room, out);
    n = add_withdrawal(x, q, n, max, &room, out);
    if (n && !vague) n = pick(x, q, LEAST * out[0].weight, n, max, &room, out);
    for (int i = 0; i < n; i++) out[i].named = named;
    return n;
}

int recall_range(const struct archive *x, const struct cache *c, uint32_t from, uint32_t end,
                 int max, struct recall_window out[RECALL_MAX])
{
    int n = 0, at = archive_index(x, from), length;
    for (; n < max && at < x->n && x->pos[at] < end; at += length) {
        struct recall_window w = window_at(x, at, 0, 0);
        length = window_length(x, at, 0);
        if (w.pos >= end) break;
        if (w.pos + (uint32_t)w.n > end) w.n = (int)(end - w.pos);
        if (!w.text && is_missing(c, &w)) out[n++] = w;
    }
    return n;
}

/* ---- returning ------------------------------------------------------------------------------- */

static int by_pos(const void *a, const void *b)
{
    const struct recall_window *x = a, *y = b;
    return (x->pos > y->pos) - (x->pos < y->pos);
}

void recall_sort(struct recall_window *windows, int n)
{
    qsort(windows, (size_t)n, sizeof *windows, by_pos);
}

/* Makes room in every head for the units that it lacks. */
static void make_room(struct cache *c, const struct recall_window *w, int n)
{
    for (int i = 0; i < cache_n_heads(c); i++) {
        struct cache_head *h = &c->kv_heads[i];
        h->coming = 0;
        for (int k = 0; k < n; k++)
            for (int j = 0; j < w[k].n; j++) h->coming += cache_find(h, w[k].pos + j) < 0;
    }
    bool ok = cache_make_room(c);
    assert(ok);
    (void)ok;
}

/* Reads units; returns the positions that could be read, ascending; their units are in
 * x->returning. */
static int read_units(struct archive *x, const struct recall_window *w, int n, uint32_t *pos,
                      struct err *e)
{
    int n_read = 0;
    for (int k = 0; k < n; k++) {
        uint8_t *out = x->returning + (size_t)n_read * x->position_bytes;
        assert(n_read + w[k].n <= x->opts.n_returning);
        int rc = archive_get(x, archive_index(x, w[k].pos), w[k].n, out, e);
        if (rc < 0) return rc;
        for (int j = 0; rc && j < w[k].n; j++) pos[n_read++] = w[k].pos + (uint32_t)j;
    }
    return n_read;
}

struct returning {
    const struct archive *x;
    struct cache *c;
    const uint32_t *pos; /* of the units that were read */
    int n_pos;
};

static void return_to_head(void *ctx, int i, int thread)
{
    const struct returning *r = ctx;
    const struct cache *c = r->c;
    const size_t each = c->k_bytes + c->v_bytes + sizeof(float);
    struct cache_unit units[RECALL_MAX * RECALL_SPAN];
    (void)thread;
    for (int j = 0; j < r->n_pos; j++) {
        const uint8_t *u = r->x->returning + (size_t)j * r->x->position_bytes + (size_t)i * each;
        units[j] = (struct cache_unit){.pos = r->pos[j], .k = u, .v = u + c->k_bytes};
        memcpy(&units[j].score, u + each - sizeof(float), sizeof(float));
    }
    cache_insert(r->c, i, units, r->n_pos);
    cache_recount(r->c, i);
}

int recall_return(struct archive *x, struct cache *c, struct recall_window *windows, int n,
                  struct pool *p, int64_t *n_units, struct err *e)
{
    uint32_t pos[RECALL_MAX * RECALL_SPAN];
    *n_units = 0;
    recall_sort(windows, n);
    int n_pos = read_units(x, windows, n, pos, e);
    if (n_pos < 0) return n_pos;
    make_room(c, windows, n);
    const int64_t before = cache_units(c);
    c->n_tried = 0; /* now, as cache_insert would: it runs for several heads at once */
    pool_run(p, cache_n_heads(c), return_to_head, &(struct returning){x, c, pos, n_pos});
    *n_units = cache_units(c) - before;
    cache_layout(c, true, NULL);
    CHECK(cache_check(c));
    return 0;
}
