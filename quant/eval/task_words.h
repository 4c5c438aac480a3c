/* task_words: the conversations of `retain eval recall`.
 *
 * A deterministic generator of small talk in the style that the demo model was trained on
 * (quant/demo/templates.py): facts to remember, endless filler, and one question about each fact
 * with the expected answer. It owns every string that it returns, is independent of tokens and
 * models, and the same seed gives the same conversation everywhere. */
#ifndef RETAIN_QUANT_EVAL_TASK_WORDS_H
#define RETAIN_QUANT_EVAL_TASK_WORDS_H

#include <stdint.h>

#define WORDS_FACTS_MAX 64

struct recall; /* one conversation being generated */

struct words_turn {
    const char *user;
    const char *assistant;
};

/* n_facts: 1 .. WORDS_FACTS_MAX, each about a different thing. */
struct recall *words_open(uint64_t seed, int n_facts);
void words_close(struct recall *self);

/* The turn that tells fact i; valid until words_close. */
const struct words_turn *words_fact(const struct recall *self, int i);

/* The next turn of filler, without limit; valid until the next call. */
const struct words_turn *words_filler(struct recall *self);

/* A sentence about nothing in particular; valid until the next call. */
const char *words_sentence(struct recall *self);

/* The question about fact i. answer: the full expected reply; value: the part that must appear in
 * it. 0, or -1 when there is no such fact. */
int words_question(const struct recall *self, int i, const char **question, const char **answer,
                   const char **value);

#endif
