/* item: one question of a file, ready to be asked: the prompt in three parts, and what the answer
 * is scored against. */
#ifndef RETAIN_QUANT_FILES_ITEM_H
#define RETAIN_QUANT_FILES_ITEM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "quant/files/metric.h"

#define ITEM_ANSWER_BYTES_MAX (256 << 10)

struct tokenizer;

struct item_strings { /* zero-initialise */
    const char **item;
    int n, max;
};
void item_strings_add(struct item_strings *s, const char *text, size_t n); /* copies */

struct item {                          /* zero-initialise */
    int64_t line;                      /* of its record in the file, from 1 */
    int number;                        /* in the file, from 1 */
    struct str id, group;              /* group "": none */
    struct str before, context, after; /* the prompt is all three */
    struct str prefix; /* the first words of the answer, which the model continues */
    struct str system; /* "": none */
    /* the context as messages of a user (even) and an assistant (odd), in turn; n 0 = it is text */
    struct item_strings turns;
    struct item_strings answers;
    const struct metric *metric;
    int n_predict;
    bool raw; /* the prompt is not put into a chat template */
};

void item_release(struct item *it);

/* Cuts the prompt to at most n_tokens tokens: those in its middle leave the context, as in
 * LongBench and InfiniteBench. */
int item_cut(struct item *it, const struct tokenizer *t, int64_t n_tokens, struct err *e);
/* The tokens of the prompt. */
int item_count(const struct item *it, const struct tokenizer *t, int64_t *out, struct err *e);

#endif
