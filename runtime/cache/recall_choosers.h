/* recall_choosers: how each chooser of recall.h weighs the windows of the archive; internal to
 * recall*.c.
 *
 * A chooser adds weights to x->weight[i], for windows that start at the i-th archived position. The
 * weights are 0 before. */
#ifndef RETAIN_RUNTIME_CACHE_RECALL_CHOOSERS_H
#define RETAIN_RUNTIME_CACHE_RECALL_CHOOSERS_H

#include "runtime/cache/recall.h"

/* A window's words are searched at its positions [LEAD, LEAD + CORE): the value that they name
 * usually follows them. */
enum { RECALL_LEAD = 1, RECALL_CORE = 9 };

#define RECALL_BEFORE 0.3f /* weight of words of the message before this one */

/* Rarity counts with its third power. */
static inline float recall_cube(float v)
{
    return v * v * v;
}

/* Adds `weight` to those of the starts first … last whose windows contain the position at index
 * `at`; weights: [x->n]. */
static inline void recall_add_weight(const struct archive *x, float *weights, int64_t first,
                                     int64_t last, int at, float weight)
{
    if (first < 0) first = 0;
    while (first <= last && x->pos[at] - x->pos[first] != (uint32_t)(at - first)) first++;
    for (int64_t s = first; s <= last; s++) weights[s] += weight;
}

/* The largest of n weights, at least 0. */
static inline float recall_most(const float *weights, int n)
{
    float most = 0;
    for (int i = 0; i < n; i++) most = weights[i] > most ? weights[i] : most;
    return most;
}

/* Returns the heaviest window's weight, by the message's own words, relative to the sum of the
 * heaviest four of these: below RECALL_VAGUE they name nothing that was archived. */
#define RECALL_VAGUE 0.25f
float recall_weigh_words(struct archive *x, const struct recall_query *q);
void recall_weigh_meaning(struct archive *x, const struct recall_query *q);

#endif
