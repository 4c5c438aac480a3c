#include "quant/heads/heads_schedule.h"

#include <string.h>

#include "base/random.h"

#define VALIDATION 32 /* rows held back for validation; at most a tenth of all */

static void shuffle(int *rows, int n, uint64_t seed, uint64_t pass)
{
    for (int i = n - 1; i > 0; i--) {
        int j = (int)(random_at(seed, pass, (uint64_t)i) * (i + 1)), other = rows[j];
        rows[j] = rows[i];
        rows[i] = other;
    }
}

void heads_schedule_plan(struct heads_schedule *s, int n_rows, struct arena *a)
{
    s->n_rows = n_rows;
    s->n_valid = n_rows / 10 < VALIDATION ? n_rows / 10 : VALIDATION;
    if (s->n_valid < 1) s->n_valid = 1;
    s->order = arena_take(a, (size_t)n_rows, sizeof *s->order);
    s->turn = arena_take(a, (size_t)n_rows, sizeof *s->turn);
}

void heads_schedule_init(struct heads_schedule *s, uint64_t seed)
{
    s->seed = seed;
    s->pass = -1;
    for (int i = 0; i < s->n_rows; i++) s->order[i] = i;
    shuffle(s->order, s->n_rows, seed, UINT64_MAX);
}

int heads_schedule_row(struct heads_schedule *s, int64_t i)
{
    int n = s->n_rows - s->n_valid;
    if (i / n != s->pass) {
        s->pass = i / n;
        memcpy(s->turn, s->order + s->n_valid, (size_t)n * sizeof *s->turn);
        shuffle(s->turn, n, s->seed, (uint64_t)s->pass);
    }
    return s->turn[i % n];
}

float heads_schedule_rate(float rate_max, int step, int n_steps)
{
    int warm = n_steps * 2 / 3;
    if (step <= warm) return rate_max * (float)step / (float)warm;
    return rate_max * (float)(n_steps - step + 1) / (float)(n_steps - warm);
}
