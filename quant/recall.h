/* Recall conversations: the text behind `retain eval recall`.
 *
 * A deterministic generator of small talk in the style that the demo model was trained on
 * (quant/demo/generate.py): facts to be told, endless filler, and one question about each fact with
 * the answer expected. It owns every string it hands out, knows nothing of tokens or models, and
 * the same seed gives the same conversation everywhere.
 */
#ifndef RETAIN_QUANT_RECALL_H
#define RETAIN_QUANT_RECALL_H

#include <stdint.h>

#define RECALL_FACTS_MAX 64

struct recall; /* one conversation being generated */

struct recall_turn {
    const char *user;
    const char *assistant;
};

/* n_facts: 1 .. RECALL_FACTS_MAX, all about different things. 0, or -1 when out of memory or range.
 */
int recall_open(struct recall **out, uint64_t seed, int n_facts);
void recall_close(struct recall *self);

/* The turn that tells fact i; valid until recall_close. */
const struct recall_turn *recall_fact(const struct recall *self, int i);

/* Fact i changes: the turn that tells its new value, which holds from now on; valid until
 * recall_close. */
const struct recall_turn *recall_update(struct recall *self, int i);

/* The next turn of filler, without end; valid until the next call. */
const struct recall_turn *recall_filler(struct recall *self);

/* A sentence about nothing in particular; valid until the next call. */
const char *recall_sentence(struct recall *self);

/* The question about fact i. answer: the full expected reply; value: the part that must appear in
 * it. 0, or -1 when there is no such fact. */
int recall_question(const struct recall *self, int i, const char **question, const char **answer,
                    const char **value);

#endif
