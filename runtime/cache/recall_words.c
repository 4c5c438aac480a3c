/* The weights of windows: rare words, and rare pairs of words, of the message. */
#include "runtime/cache/recall_choosers.h"

#include <stdlib.h>
#include <string.h>

#define TERMS_MAX     (2 * 3 * RECALL_MESSAGE)
#define LEAST_TERM    0.001f /* of the rarest term's weight: more common terms are passed over */
#define HEAVIEST      4      /* words that tell whether a message names anything */
#define WANTED_WEIGHT 8      /* of words that the user asked to bring back */
#define BEFORE_WEIGHT 0.3f   /* of words of the message before this one */
#define OTHER_WEIGHT  0.1f   /* of words in sentences that do not ask, if another one asks */
#define PAIR_WEIGHT   0.5f   /* of two adjacent words, relative to a word of the same rarity */

#define HASHES 1024

struct terms {
    struct recall_term of[TERMS_MAX]; /* sorted: each_found */
    int n;
    uint16_t first[HASHES]; /* the first term of the words with this hash, from 1; 0 = none */
    uint64_t may[1024];     /* a bit for the last 16 bits of a word: there may be a term */
};

/* Rarity counts with its third power. */
static float cube(float v)
{
    return v * v * v;
}

static void add_term(struct terms *t, const struct recall_term *new)
{
    for (int i = 0; i < t->n; i++)
        if (t->of[i].word == new->word && t->of[i].before == new->before) return;
    if (t->n < TERMS_MAX) t->of[t->n++] = *new;
}

bool recall_asks(const struct archive_token *text, int n)
{
    for (int i = 0; i < n; i++)
        if (text[i].asks) return true;
    return false;
}

float recall_part(const struct archive_token *text, int n, int at)
{
    return recall_asks(text, n) && !archive_asks(text, n, at) ? OTHER_WEIGHT : 1;
}

static void add_message(struct terms *t, const struct archive_token *text, int n, float weight,
                        bool own)
{
    uint32_t last = 0; /* the word before in the same sentence */
    for (int i = 0; i < n; i++) {
        struct recall_term new = {.weight = weight * recall_part(text, n, i), .own = own};
        new.word = i + 1 < n &&text[i + 1].joins ? 0 : text[i].word;
        if (new.word) add_term(t, &new);
        new.before = last;
        new.weight *= PAIR_WEIGHT;
        if (new.word && last) add_term(t, &new);
        last = text[i].ends ? 0 : new.word ? new.word : last;
    }
}

static uint32_t hash_of(uint32_t word)
{
    return word % HASHES;
}

static int by_hash(const void *a, const void *b)
{
    const struct recall_term *x = a, *y = b;
    uint32_t h = hash_of(x->word), k = hash_of(y->word);
    if (h != k) return h < k ? -1 : 1;
    return x->word != y->word ? (x->word > y->word) - (x->word < y->word)
                              : (x->before > y->before) - (x->before < y->before);
}

static void sort_terms(struct terms *t)
{
    memset(t->first, 0, sizeof t->first);
    memset(t->may, 0, sizeof t->may);
    qsort(t->of, (size_t)t->n, sizeof *t->of, by_hash);
    for (int i = t->n; i-- > 0;) {
        const uint32_t last = t->of[i].word % 65536;
        t->first[hash_of(t->of[i].word)] = (uint16_t)(i + 1);
        t->may[last / 64] |= UINT64_C(1) << last % 64;
    }
}

/* The word before the one at a position, in the same sentence; 0 = none. */
static uint32_t word_before(const struct archive *x, int at)
{
    for (int i = at - 1; i >= 0; i--) {
        if (x->flags[i] & ARCHIVE_ENDS || x->pos[i] + 1 != x->pos[i + 1]) return 0;
        if (x->word[i]) return x->word[i];
    }
    return 0;
}

/* Calls `found` for each term at an archived position; for a pair, at that of its second word. */
static inline void find_terms(struct archive *x, struct terms *t, int at,
                              void (*found)(struct archive *x, struct recall_term *t, int at))
{
    const uint32_t word = x->word[at];
    const int first = t->first[hash_of(word)] - 1;
    for (int k = first; k >= 0 && k < t->n && hash_of(t->of[k].word) == hash_of(word); k++) {
        struct recall_term *o = &t->of[k];
        if (o->word == word && (!o->before || o->before == word_before(x, at))) found(x, o, at);
    }
}

static void count_term(struct archive *x, struct recall_term *t, int at)
{
    (void)x;
    (void)at;
    t->n_found++;
}

/* Calls `found` for each term at each archived position. */
static void find_all(struct archive *x, struct terms *t,
                     void (*found)(struct archive *x, struct recall_term *t, int at))
{
    for (int i = 0; i < x->n; i += 64) {
        const int n = x->n - i < 64 ? x->n - i : 64;
        uint64_t may = 0; /* nearly nowhere */
        for (int k = 0; k < n; k++) {
            const uint32_t last = x->word[i + k] % 65536;
            may |= (t->may[last / 64] >> last % 64 & 1) << k;
        }
        for (int k = i; may; may >>= 1, k++)
            if (may & 1) find_terms(x, t, k, found);
    }
}

/* Sets the terms' weights; drops those that count too little to decide anything. */
static void weigh_terms(struct terms *t, const struct archive *x)
{
    float most = 0;
    int n = 0;
    for (int i = 0; i < t->n; i++) {
        struct recall_term *k = &t->of[i];
        k->weight *=
            cube(k->before ? archive_idf(x, (uint32_t)k->n_found) : archive_rarity(x, k->word));
        if (k->weight > most) most = k->weight;
    }
    for (int i = 0; i < t->n; i++)
        if (t->of[i].weight > LEAST_TERM * most) t->of[n++] = t->of[i];
    t->n = n;
    sort_terms(t);
}

/* Whether anything archived contains one of the message's own words. */
static bool shares_word(const struct terms *t)
{
    for (int i = 0; i < t->n; i++)
        if (t->of[i].own && t->of[i].n_found) return true;
    return false;
}

/* The sum of the heaviest of the message's own words. Pairs depend on their order, which a question
 * changes. */
static float sum_heaviest(const struct terms *t)
{
    float top[HEAVIEST] = {0}, sum = 0;
    for (int i = 0; i < t->n; i++) {
        float w = t->of[i].own && !t->of[i].before ? t->of[i].weight : 0;
        for (int k = 0; k < HEAVIEST; k++) {
            float next = top[k] < w ? top[k] : w;
            top[k] = top[k] < w ? w : top[k];
            w = next;
        }
    }
    for (int k = 0; k < HEAVIEST; k++) sum += top[k];
    return sum;
}

/* Adds a term that was found at `at` to the windows that have it in their core. A term counts once
 * in each window, with its full weight if any statement has it, otherwise as in a question. The
 * message's own terms are added to x->value, too. */
static void weigh_term(struct archive *x, struct recall_term *t, int at)
{
    const float weight = t->weight * archive_merit(x, at);
    int first = at - (RECALL_LEAD + RECALL_CORE - 1), last = at - RECALL_LEAD;
    if (first < 0) first = 0;
    while (first <= last && x->pos[at] - x->pos[first] != (uint32_t)(at - first)) first++;
    for (int s = first; s <= last; s++) {
        const int i = s % RECALL_WINDOW;
        const float before = t->best[i].start == s + 1 ? t->best[i].weight : 0;
        if (weight <= before) continue;
        t->best[i].start = s + 1;
        t->best[i].weight = weight;
        x->weight[s] += weight - before;
        if (t->own) x->value[s] += weight - before;
    }
}

/* Adds the rarity of its words to the windows of a passage that the user asked to bring back. */
static void weigh_passage(struct archive *x, uint32_t from, uint32_t end)
{
    for (int i = archive_index(x, from); i < x->n && x->pos[i] < end; i++) {
        float weight = WANTED_WEIGHT * (1 + cube(archive_rarity(x, x->word[i])));
        for (int s = i - (RECALL_LEAD + RECALL_CORE - 1) > 0 ? i - (RECALL_LEAD + RECALL_CORE - 1)
                                                             : 0;
             s <= i; s++)
            if (x->pos[s] >= from && x->pos[s] + (uint32_t)(i - s) == x->pos[i])
                x->weight[s] += weight;
    }
}

/* Words of the message before add at most as much weight as words of this one, if a window has one:
 * a long text before a question has many rare words. */
static void limit_weights(float *weights, const float *values, int n)
{
    for (int i = 0; i < n; i++)
        weights[i] = weights[i] < 2 * values[i] ? weights[i] : 2 * values[i];
}

float recall_weigh(struct archive *x, const struct recall_query *q)
{
    struct terms t = {.n = 0};
    add_message(&t, q->wanted, q->n_wanted, WANTED_WEIGHT, true);
    add_message(&t, q->text, q->n, 1, true);
    add_message(&t, q->before, q->n_before, BEFORE_WEIGHT, false);
    sort_terms(&t);
    find_all(x, &t, count_term);
    if (!shares_word(&t)) t.n = 0;
    weigh_terms(&t, x);
    memset(x->weight, 0, (size_t)x->n * sizeof *x->weight);
    memset(x->value, 0, (size_t)x->n * sizeof *x->value);
    find_all(x, &t, weigh_term);
    const float most = recall_most(x->value, x->n), sum = sum_heaviest(&t);
    if (most > 0 && q->n_before) limit_weights(x->weight, x->value, x->n);
    weigh_passage(x, q->from, q->end);
    return sum > 0 ? most / sum : 1;
}
