/* item: one question of a benchmark, ready to be asked: the prompt in three parts, what the answer
 * is scored against, and how the benchmark cuts a prompt that is too long. */
#ifndef RETAIN_QUANT_FILES_ITEM_H
#define RETAIN_QUANT_FILES_ITEM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "quant/files/metric.h"

#define ITEM_ANSWER_BYTES_MAX (256 << 10)

struct tokenizer;

/* The part that a benchmark leaves out of a prompt with too many tokens. */
enum item_cut {
    ITEM_CUT_MIDDLE, /* tokens in the middle of the prompt */
    ITEM_CUT_END,    /* the end of the context */
    ITEM_CUT_START,  /* the beginning of the context, whole lines; a heading above them stays */
    ITEM_CUT_WORDS,  /* words at the end of the context, 250 more at each try (L-Eval) */
    ITEM_CUT_FIRST_WORDS, /* the same at its beginning */
};

struct item_strings { /* zero-initialise */
    const char **item;
    int n, max;
};
void item_strings_add(struct item_strings *s, const char *text, size_t n); /* copies */

struct item {                          /* zero-initialise; item_clear between two uses */
    int64_t line;                      /* of its record in the file, from 1 */
    int number;                        /* in the file, from 1 */
    struct str id, group;              /* group "": none */
    struct str before, context, after; /* the prompt is all three */
    struct str prefix;  /* the first words of the answer, which the model continues */
    const char *system; /* NULL = none */
    /* the context as messages of a user (even) and an assistant (odd), in turn; n 0 = it is text */
    struct item_strings turns;
    struct item_strings answers, classes;
    const struct metric *metric;
    int n_predict;
    bool raw;        /* the prompt is not put into a chat template */
    bool first_line; /* only the first line of the answer counts */
    enum item_cut cut;
};

void item_clear(struct item *it);
void item_release(struct item *it);

/* Cuts the prompt to at most n_tokens tokens, as its benchmark does. */
int item_cut(struct item *it, const struct tokenizer *t, int64_t n_tokens, struct err *e);
/* The tokens of the prompt. */
int item_count(const struct item *it, const struct tokenizer *t, int64_t *out, struct err *e);

/* Puts the question, all that follows the context, in front of the prompt, too. */
void item_question_first(struct item *it);

struct metric_score item_score(const struct item *it, const char *prediction);

#endif
