/* heads_text: facts told in a text, asked at its end, and answered: what heads learn from when the
 * user has no questions. */
#ifndef RETAIN_QUANT_HEADS_HEADS_TEXT_H
#define RETAIN_QUANT_HEADS_HEADS_TEXT_H

#include <stdint.h>

#include "quant/heads/heads_data.h"

#define HEADS_TEXT_FACTS 12 /* of a row at most */

/* Tokens of text in a row of n_max tokens; facts, questions and answers take the rest. */
static inline int heads_text_tokens(int n_max)
{
    return n_max * 5 / 8;
}

/* Opens the built-in text: rows with questions, not plain ones. */
int heads_text_open(struct heads_data *d, struct err *e);

/* Makes `out` one row with questions: row `row` of plain text, in which facts are told, as many as
 * n_max tokens have room for. Their values are digits and words of the whole text, drawn by the
 * seed. In rows held back other kinds of facts are told than in all others. */
int heads_text_weave(struct heads_data *out, const struct heads_data *d, int row, int n_max,
                     bool held_back, uint64_t seed, struct err *e);

#endif
