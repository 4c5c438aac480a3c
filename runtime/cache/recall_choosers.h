/* recall_choosers: how recall.h weighs the windows of the archive; internal to recall*.c. */
#ifndef RETAIN_RUNTIME_CACHE_RECALL_CHOOSERS_H
#define RETAIN_RUNTIME_CACHE_RECALL_CHOOSERS_H

#include "runtime/cache/recall.h"

/* A window's words are searched at its positions [LEAD, LEAD + CORE): the value that they name
 * usually follows them. */
enum { RECALL_LEAD = 1, RECALL_CORE = 9 };

/* A word of the message, or two adjacent ones. */
struct recall_term {
    uint32_t word, before; /* before 0 = a single word */
    float weight;
    bool own;    /* of this message, not of the one before it */
    int n_found; /* positions */
    struct {
        int start; /* from 1 */
        float weight;
    } best[RECALL_WINDOW]; /* in the newest windows, which start at index at % RECALL_WINDOW */
};

/* Sets x->weight[i] for windows that start at the i-th archived position, and x->value[i], the
 * share of the message's own words. Returns the heaviest window's weight, by the message's own
 * words, relative to the sum of the heaviest four of these: below RECALL_VAGUE they name nothing
 * that was archived. */
#define RECALL_VAGUE 0.4f
float recall_weigh(struct archive *x, const struct recall_query *q);

/* Sets x->weight[i] for sentences that start at the i-th archived position, by meaning. */
void recall_weigh_meaning(struct archive *x, const struct recall_query *q);

#endif
