/* judge: how right an answer is, and how much seeds differ. Every accuracy that `retain eval`
 * prints comes from here. */
#ifndef RETAIN_QUANT_EVAL_JUDGE_H
#define RETAIN_QUANT_EVAL_JUDGE_H

struct task_step;

/* The share of the question's values that the answer holds as whole words, 0 … 1 (RULER's
 * string_match_all). Where the question has choices, the first of them in the answer must be the
 * right one. */
double judge_answer(const char *answer, const struct task_step *question);

/* Mean and spread of numbers that come one by one (Welford). Starts as {0}. */
struct judge_tally {
    int n;
    double mean, squares; /* squares: sum of squared distances from the mean */
};
void judge_add(struct judge_tally *t, double x);

/* The sample's standard deviation, with n - 1 in the denominator; 0 for fewer than two numbers. */
double judge_spread(const struct judge_tally *t);

#endif
