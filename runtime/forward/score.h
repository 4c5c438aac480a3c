/* score: what a policy's scorer remembers of the queries that went by, and what it makes of it when
 * units are to be evicted. Scores that depend on a token alone (CIS, position, random, surprisal)
 * are stored with its units; the others are worked out here.
 *
 * - attention of all queries: added to the stored scores, chunk by chunk (H2O);
 * - attention, counts: the last `window` queries are remembered, before RoPE, and asked when units
 *   are evicted: they cost nothing until then;
 * - expected: running mean and variance of queries, before RoPE;
 * - keys, position: from the cache alone.
 *
 * What is remembered lies in the cache's state, so that it is saved with the units.
 *
 * Near-duplicate keys split the attention that one of them would get. Where a policy says so, a
 * score, the logarithm of a predicted share, is lowered by a quarter of the logarithm of how many
 * units of the head have the key's signs (kernels.h), the mean of two tables of eight signs; half
 * of it and the whole kept less (docs/memory.md). So text that is repeated cannot crowd out text
 * that was said once. */
#ifndef RETAIN_RUNTIME_FORWARD_SCORE_H
#define RETAIN_RUNTIME_FORWARD_SCORE_H

#include "runtime/cache/policy.h"
#include "runtime/model/model.h"

struct cache;
struct forward;

/* Floats per layer that the policy remembers. p->window is resolved: no POLICY_WINDOW_NEWEST. */
int score_state_floats(const struct policy *p, const struct model *m);

/* The last token's hidden state, from which the next token's surprisal follows: [n_embd]. */
float *score_hidden(const struct forward *f, const struct cache *c);

/* A chunk of n tokens went through attention in this layer: its units are in the cache, its queries
 * in f->qkv, and in f->lse the logarithm of each softmax's sum. */
void score_observe(struct forward *f, struct cache *c, int layer, int n);

/* The surprisal of the chunk's n tokens becomes the score of their units in all heads. Every
 * token's logits are computed for it. */
void score_surprisal(struct forward *f, struct cache *c, const int32_t *ids, int n);

/* Fills f->slots with the values by which units are compared. */
void score_values(struct forward *f, struct cache *c);

#endif
