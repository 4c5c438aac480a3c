/* heads_schedule: which rows a training reads in which order, which rows it holds back for
 * validation, and its learning rate.
 *
 * A tenth of the rows, at most 32, is held back and never trained on; one row is always held back.
 * All other rows are read once per pass, each pass in another order. Everything is a function of
 * the seed. */
#ifndef RETAIN_QUANT_HEADS_HEADS_SCHEDULE_H
#define RETAIN_QUANT_HEADS_HEADS_SCHEDULE_H

#include <stdint.h>

#include "base/arena.h"

struct heads_schedule {
    int n_rows, n_valid; /* all; held back */
    int *order;          /* [n_rows] the first n_valid are held back */
    int *turn;           /* [n_rows - n_valid] the others, as this pass reads them */
    int64_t pass;        /* -1 before the first */
    uint64_t seed;
};

/* Memory for n_rows rows, backed or only planned. */
void heads_schedule_plan(struct heads_schedule *s, int n_rows, struct arena *a);
void heads_schedule_init(struct heads_schedule *s, uint64_t seed);

/* The row to be trained on as the i-th, from 0. */
int heads_schedule_row(struct heads_schedule *s, int64_t i);

/* The learning rate of step 1 … n_steps. Locret's schedule: it rises to rate_max over two thirds of
 * the steps, then falls. */
float heads_schedule_rate(float rate_max, int step, int n_steps);

#endif
