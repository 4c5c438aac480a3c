/* exam: the exact matches of L-Eval's closed tasks (auto_eval.py, em.py): what counts as the answer
 * in the model's words is a rule of each task. 1 right, 0.25 some of several letters, 0 wrong. */
#ifndef RETAIN_QUANT_FILES_EXAM_H
#define RETAIN_QUANT_FILES_EXAM_H

double exam_match(const char *prediction, const char *answer);   /* topic_retrieval and others */
double exam_option(const char *prediction, const char *answer);  /* quality, tpo: one letter */
double exam_options(const char *prediction, const char *answer); /* coursera: letters */
double exam_math(const char *prediction, const char *answer);    /* gsm100 */
double exam_code(const char *prediction, const char *answer);    /* codeU */
/* sci_fi: "True [fact: False]", the statement of the document and the fact of the world */
double exam_loyalty(const char *prediction, const char *answer);
double exam_fact(const char *prediction, const char *answer);

#endif
