/* perplexity: how well the ids of a text are predicted. */
#ifndef RETAIN_QUANT_EVAL_PERPLEXITY_H
#define RETAIN_QUANT_EVAL_PERPLEXITY_H

#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "runtime/token/tokenizer.h"

struct context;
struct engine;

#define TEXT_LOGIT_ROWS 64 /* rows of logits per batch: 32 MiB for a vocabulary of 128K */

struct text_tally {
    double nats, nats_squared; /* sums of -log p and of its square, over n ids */
    int64_t n, n_right;        /* n_right: how often the most likely id was right */
};

/* A text in one cache format. Of several, which must share an engine and its chunks, each is
 * compared with the first: sums over tally.n ids. */
struct text_run {
    struct context *x;
    struct text_tally tally;
    double divergence; /* Kullback and Leibler's, of this run's predictions from the first run's */
    int64_t n_same;    /* how often the most likely id is the first run's */
};

/* Adds -log p(id) under one row of logits [n]. */
void text_count(struct text_tally *t, const float *logits, int n, int32_t id);

/* Adds the comparison of one row of logits [n] with the first run's. */
void text_distance(struct text_run *r, const float *first, const float *logits, int n);

#endif
