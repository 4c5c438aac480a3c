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
    /* What it has added so far to the window that starts at index i: in best[i % RECALL_WINDOW], if
     * `start` is i + 1. Only the newest windows are needed. */
    struct {
        int start;
        float weight;
    } best[RECALL_WINDOW];
};

/* Whether any sentence of a message asks. */
bool recall_asks(const struct archive_token *text, int n);
/* The weight of token `at` of a message, at most 1: less in a sentence that does not ask, if
 * another one asks. */
float recall_part(const struct archive_token *text, int n, int at);

/* Sets x->weight[i], the weight of the window that starts at the i-th archived position, and
 * x->value[i], the part of it that the message's own words have. Returns the largest x->value[i],
 * divided by the sum of the weights of the message's four heaviest words. Below RECALL_VAGUE the
 * message is vague: its words name nothing that was archived. */
#define RECALL_VAGUE 0.5f
float recall_weigh(struct archive *x, const struct recall_query *q);

/* The largest of n weights, at least 0. */
float recall_most(const float *weights, int n);

/* Sets x->weight[i], by meaning, where a sentence starts at the i-th archived position; 0
 * elsewhere. Needs x->opts.compare. */
void recall_weigh_meaning(struct archive *x, const struct recall_query *q);

/* The end of the sentence that starts at index `from`, or of its first RECALL_SPAN positions. */
int recall_sentence_end(const struct archive *x, int from);

/* The index at which a sentence starts that withdraws what the n positions from index `at` on say
 * (recall_withdrawn.c); -1 = none. */
int recall_withdrawal(const struct archive *x, int at, int n);

#endif
