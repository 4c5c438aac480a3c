/* cis: the scores that retaining heads predict (causal importance scores; Locret, arXiv
 * 2410.01805).
 *
 * A chunk's units are scored while it attends. A retaining head's weights are read completely
 * however few tokens it scores, so a generated token keeps its input and the score 0 until
 * FORWARD_SCORE_BATCH of them can be scored together, or until their scores are needed. */
#ifndef RETAIN_RUNTIME_FORWARD_CIS_H
#define RETAIN_RUNTIME_FORWARD_CIS_H

#include <stdbool.h>
#include <stddef.h>

struct arena;
struct cache;
struct forward;
struct layer_step;

/* Whether the policy evicts by these scores. */
bool cis_used(const struct forward *f);

/* Takes memory for the inputs of retaining heads: of a chunk, and of tokens not yet scored. */
void cis_plan(struct forward *f, struct arena *a);

/* Scoring of a chunk as parts of work; a part computes scores or, for one token, keeps its
 * input. */
int cis_parts(const struct forward *f, int n);
void cis_part(const struct layer_step *s, int part, int thread);

/* Writes the chunk's scores next to the units after the `len` of every head. */
void cis_write(const struct layer_step *s);

/* Scores the newest units that have no score yet. */
void cis_score(struct forward *f, struct cache *c);

/* Inputs of n units, which another device computed: [n][n_in] for each of the first n_layer layers.
 * The last unit's slot is len + behind - 1 in each head: 0 = it counts as the head's, n = none of
 * the n units does yet. */
struct cis_given {
    int n_layer, n, behind;
    const float *rows;
    size_t stride; /* numbers between layers */
};
void cis_score_given(struct forward *f, struct cache *c, const struct cis_given *g);

#endif
