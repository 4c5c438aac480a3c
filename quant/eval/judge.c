#include "quant/eval/judge.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

#include "quant/eval/task.h"

/* Finds `value` in `text` as whole words: 48213 is not in 148213. NULL = not found. */
static const char *find_words(const char *text, const char *value)
{
    size_t n = strlen(value);
    for (const char *at = strstr(text, value); at; at = strstr(at + 1, value)) {
        unsigned char before = at > text ? (unsigned char)at[-1] : ' ';
        if (!isalnum(before) && !isalnum((unsigned char)at[n])) return at;
    }
    return NULL;
}

double judge_answer(const char *answer, const struct task_step *q)
{
    int n = 0;
    for (int i = 0; i < q->n_values; i++) n += find_words(answer, q->values[i]) != NULL;
    return (double)n / q->n_values;
}

void judge_add(struct judge_tally *t, double x)
{
    double from_mean = x - t->mean;
    t->n++;
    t->mean += from_mean / t->n;
    t->squares += from_mean * (x - t->mean);
}

double judge_spread(const struct judge_tally *t)
{
    return t->n > 1 ? sqrt(t->squares / (t->n - 1)) : 0;
}

double judge_error(const struct judge_tally *t)
{
    return t->n ? judge_spread(t) / sqrt(t->n) : 0;
}
