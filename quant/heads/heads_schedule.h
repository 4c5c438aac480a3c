/* heads_schedule: the order in which a training reads its rows, the rows held back for validation,
 * and the learning rate.
 *
 * A tenth of the rows, at most 32 and at least one, is held back and never trained on. The other
 * rows are read once per pass, each pass in a different order. All of it is a function of the
 * seed. */
#ifndef RETAIN_QUANT_HEADS_HEADS_SCHEDULE_H
#define RETAIN_QUANT_HEADS_HEADS_SCHEDULE_H

#include <stdint.h>

#include "base/arena.h"

struct heads_schedule {
    int n_rows, n_valid; /* all rows; those held back */
    int *order;          /* [n_rows] the first n_valid are held back */
    int *turn;           /* [n_rows - n_valid] the others, in the order of this pass */
    int64_t pass;        /* -1 before the first pass */
    uint64_t seed;
};

/* Takes memory for n_rows rows, backed or only planned. */
void heads_schedule_plan(struct heads_schedule *s, int n_rows, struct arena *a);
void heads_schedule_init(struct heads_schedule *s, uint64_t seed);

/* The i-th row of training, from 0. */
int heads_schedule_row(struct heads_schedule *s, int64_t i);

/* The learning rate of step 1 … n_steps. Locret's schedule: it rises to rate_max over two thirds of
 * the steps, then falls. */
float heads_schedule_rate(float rate_max, int step, int n_steps);

#endif
