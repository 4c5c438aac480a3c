/* judge: the correctness of an answer, and the spread over seeds. Every accuracy that `retain eval`
 * prints is computed here. */
#ifndef RETAIN_QUANT_EVAL_JUDGE_H
#define RETAIN_QUANT_EVAL_JUDGE_H

struct task_step;

/* The share of the question's values that the answer contains as whole words, 0 … 1 (RULER's
 * string_match_all). */
double judge_answer(const char *answer, const struct task_step *question);

/* Mean and spread of numbers added one by one (Welford). Zero-initialise. */
struct judge_tally {
    int n;
    double mean, squares; /* squares: sum of squared distances from the mean */
};
void judge_add(struct judge_tally *t, double x);

/* The sample's standard deviation, with n - 1 in the denominator; 0 for fewer than two numbers. */
double judge_spread(const struct judge_tally *t);
/* The standard error of the mean. */
double judge_error(const struct judge_tally *t);

#endif
