/* By words: windows with rare words, and rare pairs of words, of the message. */
#include "runtime/cache/recall_choosers.h"

#include <stdlib.h>
#include <string.h>

#define TERMS_MAX     (3 * 2 * RECALL_MESSAGE)
#define LEAST_TERM    0.001f /* of the rarest term's weight: more common terms are passed over */
#define HEAVIEST      4      /* terms that tell whether a message names anything */
#define WANTED_WEIGHT 8      /* of words that the user asked to bring back */

/* A word of the message, or two adjacent ones. */
struct term {
    uint32_t word, next; /* next 0 = a single word */
    float weight;
    bool own;       /* of this message, not of the one before it */
    int n_found;    /* positions */
    int64_t covers; /* starts up to here already have its weight */
};

#define HASHES 1024

struct terms {
    struct term of[TERMS_MAX]; /* sorted: each_found */
    int n;
    uint16_t first[HASHES]; /* the first term of the words with this hash, from 1; 0 = none */
};

static void add_term(struct terms *t, uint32_t word, uint32_t next, float weight, bool own)
{
    for (int i = 0; i < t->n; i++)
        if (t->of[i].word == word && t->of[i].next == next) return;
    if (t->n == TERMS_MAX) return;
    t->of[t->n++] = (struct term){word, next, weight, own, 0, -1};
}

static void add_message(struct terms *t, const struct archive *x, const int32_t *ids, int n,
                        float weight, bool own)
{
    if (n > RECALL_MESSAGE) ids += n - RECALL_MESSAGE, n = RECALL_MESSAGE;
    for (int i = 0; i < n; i++) {
        uint32_t word = x->opts.word[ids[i]], next = i + 1 < n ? x->opts.word[ids[i + 1]] : 0;
        if (word) add_term(t, word, 0, weight, own);
        if (word && next) add_term(t, word, next, weight, own);
    }
}

static uint32_t hash_of(uint32_t word)
{
    return word % HASHES;
}

static int by_hash(const void *a, const void *b)
{
    const struct term *x = a, *y = b;
    uint32_t h = hash_of(x->word), k = hash_of(y->word);
    if (h != k) return h < k ? -1 : 1;
    return x->word != y->word ? (x->word > y->word) - (x->word < y->word)
                              : (x->next > y->next) - (x->next < y->next);
}

static void sort_terms(struct terms *t)
{
    memset(t->first, 0, sizeof t->first);
    qsort(t->of, (size_t)t->n, sizeof *t->of, by_hash);
    for (int i = t->n; i-- > 0;) t->first[hash_of(t->of[i].word)] = (uint16_t)(i + 1);
}

/* Calls `found` for each term at each archived position. */
static void each_found(struct archive *x, struct terms *t,
                       void (*found)(struct archive *x, struct term *t, int at))
{
    for (int i = 0; i < x->n; i++) {
        uint32_t word = archive_word(x, x->id[i]);
        int first = t->first[hash_of(word)] - 1;
        if (first < 0) continue;
        bool follows = i + 1 < x->n && x->pos[i + 1] == x->pos[i] + 1;
        uint32_t next = follows ? archive_word(x, x->id[i + 1]) : 0;
        for (int k = first; k < t->n && hash_of(t->of[k].word) == hash_of(word); k++) {
            struct term *o = &t->of[k];
            if (o->word == word && (o->next == 0 || o->next == next)) found(x, o, i);
        }
    }
}

static void count_term(struct archive *x, struct term *t, int at)
{
    (void)x;
    (void)at;
    t->n_found++;
}

/* Sets the terms' weights; drops those that count too little to decide anything. */
static void weigh_terms(struct terms *t, const struct archive *x)
{
    float most = 0;
    int n = 0;
    for (int i = 0; i < t->n; i++) {
        struct term *k = &t->of[i];
        k->weight *=
            recall_cube(archive_idf(x, k->next ? (uint32_t)k->n_found : x->n_with[k->word]));
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

/* The sum of the heaviest of the message's own terms. */
static float sum_heaviest(const struct terms *t)
{
    float top[HEAVIEST] = {0}, sum = 0;
    for (int i = 0; i < t->n; i++) {
        float w = t->of[i].own ? t->of[i].weight : 0;
        for (int k = 0; k < HEAVIEST; k++) {
            float next = top[k] < w ? top[k] : w;
            top[k] = top[k] < w ? w : top[k];
            w = next;
        }
    }
    for (int k = 0; k < HEAVIEST; k++) sum += top[k];
    return sum;
}

/* Adds a term's weight to the windows that contain it in their core, once to each; those of the
 * message's own words to x->value, too. */
static void weigh_term(struct archive *x, struct term *t, int at)
{
    int64_t first = (int64_t)at - (RECALL_LEAD + RECALL_CORE - 1), last = (int64_t)at - RECALL_LEAD;
    if (first <= t->covers) first = t->covers + 1;
    if (first < 0) first = 0;
    float weight = x->asks[at] ? t->weight * ARCHIVE_QUESTION : t->weight;
    recall_add_weight(x, x->weight, first, last, at, weight);
    if (t->own) recall_add_weight(x, x->value, first, last, at, weight);
    if (last > t->covers) t->covers = last;
}

/* A window has no more weight from the message before than from this one, if any window has some
 * from this one: a long text before a question has many rare words. */
static void limit_before(struct archive *x)
{
    for (int i = 0; i < x->n; i++)
        if (x->weight[i] > 2 * x->value[i]) x->weight[i] = 2 * x->value[i];
}

/* Adds the rarity of its words to the windows of a passage that the user asked to bring back. */
static void weigh_passage(struct archive *x, uint32_t from, uint32_t end)
{
    for (int i = archive_index(x, from); i < x->n && x->pos[i] < end; i++) {
        uint32_t word = archive_word(x, x->id[i]);
        float weight =
            WANTED_WEIGHT * (1 + recall_cube(word ? archive_idf(x, x->n_with[word]) : 0));
        for (int s = i - (RECALL_LEAD + RECALL_CORE - 1) > 0 ? i - (RECALL_LEAD + RECALL_CORE - 1)
                                                             : 0;
             s <= i; s++)
            if (x->pos[s] >= from && x->pos[s] + (uint32_t)(i - s) == x->pos[i])
                x->weight[s] += weight;
    }
}

float recall_weigh_words(struct archive *x, const struct recall_query *q)
{
    struct terms t = {.n = 0};
    add_message(&t, x, q->wanted, q->n_wanted, WANTED_WEIGHT, true);
    add_message(&t, x, q->ids, q->n, 1, true);
    add_message(&t, x, q->before, q->n_before, RECALL_BEFORE, false);
    sort_terms(&t);
    each_found(x, &t, count_term);
    if (!shares_word(&t)) t.n = 0;
    weigh_terms(&t, x);
    memset(x->value, 0, (size_t)x->n * sizeof *x->value);
    each_found(x, &t, weigh_term);
    const float most = recall_most(x->value, x->n), sum = sum_heaviest(&t);
    if (most > 0) limit_before(x);
    weigh_passage(x, q->from, q->end);
    return sum > 0 ? most / sum : 1;
}
