#include "runtime/cache/recall.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static const char *const chooser_names[] = {[RECALL_OFF] = "off", [RECALL_WORDS] = "words"};

/* A window's words are searched at its positions [LEAD, LEAD + CORE): the value that they name
 * usually follows them. */
enum { LEAD = 1, CORE = 9 };

#define TERMS_MAX (3 * 2 * RECALL_MESSAGE)

/* This share of a window's positions must be evicted, over all heads: the others are in the
 * cache. */
#define EVICTED_SHARE 0.4f
#define BEFORE_WEIGHT 0.3f
#define WANTED_WEIGHT \
    8 /* words that the user asked to bring back count more than words of the message */
#define LEAST 0.6f /* relative to the best window's weight; lighter windows only distract */

bool recall_chooser_named(const char *name, enum recall_chooser *out)
{
    for (size_t i = 0; i < sizeof chooser_names / sizeof *chooser_names; i++) {
        if (strcmp(name, chooser_names[i])) continue;
        *out = (enum recall_chooser)i;
        return true;
    }
    return false;
}

const char *recall_chooser_name(enum recall_chooser chooser)
{
    return chooser_names[chooser];
}

/* The first index at or after a position. */
static int index_of(const struct archive *x, uint32_t pos)
{
    int low = 0, high = x->n;
    while (low < high) {
        int mid = low + (high - low) / 2;
        if (x->pos[mid] < pos)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* ---- terms ----------------------------------------------------------------------------------- */

/* A word of the message, or two adjacent ones. */
struct term {
    uint32_t word, next; /* next 0 = a single word */
    float weight;
    int n_found;    /* positions */
    int64_t covers; /* starts up to here already have its weight */
};

struct terms {
    struct term of[TERMS_MAX];
    int n;
    uint64_t has[16]; /* a bit for each word, word modulo 1,024: most others fail it */
};

static void add_term(struct terms *t, uint32_t word, uint32_t next, float weight)
{
    for (int i = 0; i < t->n; i++)
        if (t->of[i].word == word && t->of[i].next == next) return;
    if (t->n == TERMS_MAX) return;
    t->of[t->n++] = (struct term){word, next, weight, 0, -1};
    t->has[word >> 6 & 15] |= (uint64_t)1 << (word & 63);
}

static void add_message(struct terms *t, const struct archive *x, const int32_t *ids, int n,
                        float weight)
{
    if (n > RECALL_MESSAGE) ids += n - RECALL_MESSAGE, n = RECALL_MESSAGE;
    for (int i = 0; i < n; i++) {
        uint32_t word = x->opts.word[ids[i]], next = i + 1 < n ? x->opts.word[ids[i + 1]] : 0;
        if (word) add_term(t, word, 0, weight);
        if (word && next) add_term(t, word, next, weight);
    }
}

static int by_word(const void *a, const void *b)
{
    const struct term *x = a, *y = b;
    return x->word != y->word ? (x->word > y->word) - (x->word < y->word)
                              : (x->next > y->next) - (x->next < y->next);
}

/* The first term of a word; n = none. */
static int first_of(const struct terms *t, uint32_t word)
{
    int low = 0, high = t->n;
    while (low < high) {
        int mid = low + (high - low) / 2;
        if (t->of[mid].word < word)
            low = mid + 1;
        else
            high = mid;
    }
    return low < t->n && t->of[low].word == word ? low : t->n;
}

/* Calls `found` for each term at each archived position. */
static void each_found(struct archive *x, struct terms *t,
                       void (*found)(struct archive *x, struct term *t, int at))
{
    for (int i = 0; i < x->n; i++) {
        uint32_t word = x->opts.word[x->id[i]];
        if (!(t->has[word >> 6 & 15] >> (word & 63) & 1)) continue;
        bool follows = i + 1 < x->n && x->pos[i + 1] == x->pos[i] + 1;
        uint32_t next = follows ? x->opts.word[x->id[i + 1]] : 0;
        for (int k = first_of(t, word); k < t->n && t->of[k].word == word; k++)
            if (t->of[k].next == 0 || t->of[k].next == next) found(x, &t->of[k], i);
    }
}

static void count_term(struct archive *x, struct term *t, int at)
{
    (void)x;
    (void)at;
    t->n_found++;
}

static float cube(float v)
{
    return v * v * v;
}

/* Adds a term's weight to the windows that contain it in their core, once to each. */
static void weigh_term(struct archive *x, struct term *t, int at)
{
    int64_t first = (int64_t)at - (LEAD + CORE - 1), last = (int64_t)at - LEAD;
    if (first <= t->covers) first = t->covers + 1;
    if (first < 0) first = 0;
    float weight = x->asks[at] ? t->weight * ARCHIVE_QUESTION : t->weight;
    for (int64_t s = first; s <= last; s++)
        if (x->pos[s] + (uint32_t)(at - s) == x->pos[at]) x->weight[s] += weight;
    if (last > t->covers) t->covers = last;
}

/* Adds the rarity of its words to the windows of a passage that the user asked to bring back. */
static void weigh_passage(struct archive *x, uint32_t from, uint32_t end)
{
    for (int i = index_of(x, from); i < x->n && x->pos[i] < end; i++) {
        uint32_t word = x->opts.word[x->id[i]];
        float weight = WANTED_WEIGHT * (1 + cube(word ? archive_idf(x, x->n_with[word]) : 0));
        for (int s = i - (LEAD + CORE - 1) > 0 ? i - (LEAD + CORE - 1) : 0; s <= i; s++)
            if (x->pos[s] >= from && x->pos[s] + (uint32_t)(i - s) == x->pos[i])
                x->weight[s] += weight;
    }
}

/* ---- choosing -------------------------------------------------------------------------------- */

static int window_length(const struct archive *x, int at)
{
    int n = 1;
    while (n < RECALL_WINDOW && at + n < x->n && x->pos[at + n] == x->pos[at] + (uint32_t)n) n++;
    return n;
}

/* The share of a window's units that is evicted. */
static float evicted_share(const struct cache *c, uint32_t pos, int n)
{
    uint16_t kept[RECALL_WINDOW] = {0};
    int heads = c->shape.n_layer * c->shape.n_head, sum = 0;
    for (int i = 0; i < heads; i++) cache_count(&c->kv_heads[i], pos, n, kept);
    for (int i = 0; i < n; i++) sum += kept[i];
    return 1 - (float)sum / (float)(heads * n);
}

/* The heaviest start, on ties the newest; -1 = none has any weight. */
static int heaviest(const struct archive *x)
{
    int best = -1;
    for (int i = 0; i < x->n; i++)
        if (x->weight[i] > 0 && (best < 0 || x->weight[i] >= x->weight[best])) best = i;
    return best;
}

/* Excludes windows that overlap [at, at + n). */
static void exclude(struct archive *x, int at, int n)
{
    int first = at >= RECALL_WINDOW ? at - RECALL_WINDOW + 1 : 0;
    for (int i = first; i < at + n; i++) x->weight[i] = 0;
}

int recall_choose(struct archive *x, const struct cache *c, const struct recall_query *q, int max,
                  struct recall_window out[RECALL_MAX])
{
    struct terms t = {.n = 0};
    int n = 0;
    if (x->n == 0) return 0;
    add_message(&t, x, q->wanted, q->n_wanted, WANTED_WEIGHT);
    add_message(&t, x, q->ids, q->n, 1);
    add_message(&t, x, q->before, q->n_before, BEFORE_WEIGHT);
    qsort(t.of, (size_t)t.n, sizeof *t.of, by_word);
    memset(x->weight, 0, (size_t)x->n * sizeof *x->weight);
    each_found(x, &t, count_term);
    for (int i = 0; i < t.n; i++) {
        struct term *k = &t.of[i];
        k->weight *= cube(archive_idf(x, k->next ? (uint32_t)k->n_found : x->n_with[k->word]));
    }
    each_found(x, &t, weigh_term);
    weigh_passage(x, q->from, q->end);
    for (int at; n < max && (at = heaviest(x)) >= 0;) {
        struct recall_window w = {x->pos[at], window_length(x, at), x->weight[at]};
        if (n && w.weight < LEAST * out[0].weight) break;
        if (evicted_share(c, w.pos, w.n) >= EVICTED_SHARE) {
            out[n++] = w;
            exclude(x, at, w.n);
        } else {
            x->weight[at] = 0;
        }
    }
    return n;
}

int recall_range(const struct archive *x, const struct cache *c, uint32_t from, uint32_t end,
                 int max, struct recall_window out[RECALL_MAX])
{
    int n = 0, at = index_of(x, from), length;
    for (; n < max && at < x->n && x->pos[at] < end; at += length) {
        length = window_length(x, at);
        if (x->pos[at] + (uint32_t)length > end) length = (int)(end - x->pos[at]);
        if (evicted_share(c, x->pos[at], length) > 0)
            out[n++] = (struct recall_window){x->pos[at], length, 0};
    }
    return n;
}

/* ---- returning ------------------------------------------------------------------------------- */

static int by_pos(const void *a, const void *b)
{
    const struct recall_window *x = a, *y = b;
    return (x->pos > y->pos) - (x->pos < y->pos);
}

/* Makes room in every head for the units that it lacks. */
static void make_room(struct cache *c, const struct recall_window *w, int n)
{
    for (int i = 0; i < c->shape.n_layer * c->shape.n_head; i++) {
        struct cache_head *h = &c->kv_heads[i];
        h->coming = 0;
        for (int k = 0; k < n; k++)
            for (int j = 0; j < w[k].n; j++) h->coming += cache_find(h, w[k].pos + j) < 0;
    }
    for (int i = 0; i < c->shape.n_layer; i++) {
        bool ok = cache_make_room(c, i);
        assert(ok);
        (void)ok;
    }
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
        int rc = archive_get(x, index_of(x, w[k].pos), w[k].n, out, e);
        if (rc < 0) return rc;
        for (int j = 0; rc && j < w[k].n; j++) pos[n_read++] = w[k].pos + (uint32_t)j;
    }
    return n_read;
}

int recall_return(struct archive *x, struct cache *c, struct recall_window *windows, int n,
                  int64_t *n_units, struct err *e)
{
    uint32_t pos[RECALL_MAX * RECALL_WINDOW];
    struct cache_unit units[RECALL_MAX * RECALL_WINDOW];
    size_t each = c->k_bytes + c->v_bytes + sizeof(float);
    *n_units = 0;
    qsort(windows, (size_t)n, sizeof *windows, by_pos);
    int n_pos = read_units(x, windows, n, pos, e);
    if (n_pos < 0) return n_pos;
    make_room(c, windows, n);
    for (int i = 0; i < c->shape.n_layer * c->shape.n_head; i++) {
        for (int j = 0; j < n_pos; j++) {
            const uint8_t *u = x->returning + (size_t)j * x->position_bytes + (size_t)i * each;
            units[j] = (struct cache_unit){.pos = pos[j], .k = u, .v = u + c->k_bytes};
            /* scores that change begin again: the archived one is of some earlier moment */
            if (!c->shape.scores_change)
                memcpy(&units[j].score, u + each - sizeof(float), sizeof(float));
        }
        *n_units += cache_insert(c, i, units, n_pos);
    }
    cache_layout(c, true);
    for (int i = 0; i < c->shape.n_layer * c->shape.n_head; i++) cache_recount(c, i);
    return 0;
}
