/* extract: metrics that first look for the answer in the answer: a number, a letter, a
 * word. Each is the rule of one benchmark's program, its oddities included. All texts are UTF-8. */
#ifndef RETAIN_QUANT_FILES_EXTRACT_H
#define RETAIN_QUANT_FILES_EXTRACT_H

#include "quant/files/metric.h"

/* InfiniteBench, compute_scores.py */
double extract_first_number(const char *prediction,
                            const char *answer);                    /* passkey, number_string */
double extract_word(const char *prediction, const char *answer);    /* kv_retrieval */
double extract_speaker(const char *prediction, const char *answer); /* longdialogue_qa_eng */
double extract_last_integer(const char *prediction, const char *answer); /* code_run */
double extract_value(const char *prediction, const char *answer);        /* math_find */
/* answers: the text of the right option, its letter */
void extract_choice(const struct metric_input *in, struct metric_score *out); /* longbook_choice */
void extract_function(const struct metric_input *in, struct metric_score *out); /* code_debug */
/* answers: the values one by one; the share of right ones before the first wrong one */
void extract_series(const struct metric_input *in, struct metric_score *out); /* math_calc */

/* LongBench, metrics.py; v2: pred.py */
double extract_count(const char *prediction, const char *answer);
double extract_paragraph(const char *prediction, const char *answer); /* "Paragraph 7", 段落7 */
double extract_letter_v2(const char *prediction, const char *answer);
void extract_class(const struct metric_input *in, struct metric_score *out);

/* LoCoMo, evaluation.py, questions about things that were not said */
void extract_abstention(const struct metric_input *in, struct metric_score *out);

#endif
