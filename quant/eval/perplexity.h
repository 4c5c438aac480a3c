/* perplexity: how well the ids of a text are predicted. Used by `retain perplexity` and
 * `retain eval perplexity`. */
#ifndef RETAIN_QUANT_EVAL_PERPLEXITY_H
#define RETAIN_QUANT_EVAL_PERPLEXITY_H

#include <stddef.h>
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

/* Adds -log p(id) under one row of logits [n]. */
void text_count(struct text_tally *t, const float *logits, int n, int32_t id);

/* Runs n ids; counts the prediction of every id from `first` on. Evicts between chunks. */
int text_predict(struct context *x, const int32_t *ids, size_t n, size_t first,
                 struct text_tally *t, struct err *e);

#endif
