/* recall_words: the weights of the archive's windows, by rare words, and rare pairs of words, of
 * the message; internal to recall.c. */
#ifndef RETAIN_RUNTIME_CACHE_RECALL_WORDS_H
#define RETAIN_RUNTIME_CACHE_RECALL_WORDS_H

#include "runtime/cache/recall.h"

/* A window's words are searched at CORE positions after its first LEAD ones: the value that they
 * name usually follows them. */
enum { RECALL_LEAD = 1, RECALL_CORE = 9 };

/* Sets x->weight[i] for windows that start at the i-th archived position, and x->value[i], the
 * share of the message's own words. Returns the heaviest window's weight, by the message's own
 * words, relative to the sum of the heaviest four of these: below RECALL_VAGUE they name nothing
 * that was archived. */
#define RECALL_VAGUE 0.25f
float recall_weigh(struct archive *x, const struct recall_query *q);

#endif
