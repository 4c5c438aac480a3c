/* cis: the scores that retaining heads predict (causal importance scores; Locret, arXiv
 * 2410.01805).
 *
 * A chunk's units are scored while it attends. A retaining head's weights are read whole however
 * few tokens it scores, so a generated token keeps its input and the score 0 until
 * FORWARD_SCORE_BATCH of them wait, or until someone needs their scores. */
#ifndef RETAIN_RUNTIME_FORWARD_CIS_H
#define RETAIN_RUNTIME_FORWARD_CIS_H

#include <stdbool.h>
#include <stdint.h>

struct arena;
struct cache;
struct forward;
struct layer_step;

/* Does the policy evict by these scores? */
bool cis_used(const struct forward *f);

/* Takes the inputs of retaining heads: a chunk's, and those of tokens that wait. */
void cis_plan(struct forward *f, struct arena *a);

/* A chunk's scoring as parts of work; a part computes scores or, for one token, keeps its input. */
int cis_parts(const struct forward *f, int n);
void cis_part(const struct layer_step *s, int part);

/* The chunk's scores, beside the units behind the `len` of every head. */
void cis_write(const struct layer_step *s);

/* Scores the newest units that wait for it. */
void cis_score(struct forward *f, struct cache *c);

/* For f->score_ns: when scoring began, and what n_threads threads that began together took. */
int64_t cis_clock(const struct forward *f);
void cis_clock_add(const struct forward *f, int64_t began_ns, int n_threads);

#endif
