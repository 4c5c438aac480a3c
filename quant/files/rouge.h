/* rouge: the two Python packages that benchmarks score summaries with. They disagree about words,
 * sentences and how often a word counts, so both are here.
 *
 * Prediction and answer are UTF-8; all values are 0 … 1. */
#ifndef RETAIN_QUANT_FILES_ROUGE_H
#define RETAIN_QUANT_FILES_ROUGE_H

#include <stdbool.h>

/* Package "rouge" 1.0.1, rouge-l f: sentences end at every point, words at white space, each word
 * counts once. LongBench. characters: each character is a word, for Chinese. */
double rouge_summary(const char *prediction, const char *answer, bool characters);

/* Package "rouge_score" 0.1.2 without stemming: words are runs of a-z and 0-9 of the text in lower
 * case. n: 1 or 2 for rouge1, rouge2. */
double rouge_n(const char *prediction, const char *answer, int n);
double rouge_l(const char *prediction, const char *answer);
double rouge_lsum(const char *prediction, const char *answer); /* lines are sentences */

#endif
