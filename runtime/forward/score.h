/* score: computes the scores of policies, and keeps their state about past queries. Scores that
 * depend on a token alone (CIS, position, random, surprisal) are stored with its units; the others
 * are computed here:
 *
 * - attention of all queries: added to the stored scores, chunk by chunk (H2O);
 * - attention, counts: the last `window` queries are kept, before RoPE, and evaluated only when
 *   units are evicted;
 * - expected: running mean and variance of queries, before RoPE;
 * - keys, position: from the cache alone.
 *
 * This state is part of the cache's state, so that it is saved with the units.
 *
 * Near-duplicate keys split the attention that one of them would get. For policies with this
 * penalty, a score, the logarithm of a predicted share, is lowered by a quarter of the logarithm of
 * the number of the head's units with the same signs (kernels.h), averaged over two tables of eight
 * signs; factors of a half and one retained less (quant/eval/notes). So repeated text cannot
 * displace text that occurs once. */
#ifndef RETAIN_RUNTIME_FORWARD_SCORE_H
#define RETAIN_RUNTIME_FORWARD_SCORE_H

#include <stddef.h>
#include <stdint.h>

#include "runtime/cache/policy.h"
#include "runtime/model/model.h"

struct cache;
struct forward;

/* Floats of policy state per layer. p->window is resolved: no POLICY_WINDOW_NEWEST. */
int score_state_floats(const struct policy *p, const struct model *m);

/* Whether tokens can be tried that do not follow (forward_try): not where a run changes more than
 * units behind the newest ones: old scores or the policy's state. */
bool score_can_try(const struct policy *p, const struct model *m);

/* The last token's hidden state, which gives the next token's surprisal: [n_embd]. */
float *score_hidden(const struct forward *f, const struct cache *c);

/* Call after attention of a chunk of n tokens in this layer: its units are in the cache, its
 * queries in f->qkv, and in f->lse the logarithm of each softmax's sum. */
void score_observe(struct forward *f, struct cache *c, int layer, int n);

/* A part of it: takes the queries, q[n] at distances of `stride`, of n tokens from position pos on,
 * if the policy keeps a window of them or their moments. */
void score_queries(struct forward *f, struct cache *c, int layer, const float *q, size_t stride,
                   int64_t pos, int n);

/* Stores the surprisal of the chunk's n tokens as the score of their units in all heads. Computes
 * every token's logits. */
void score_surprisal(struct forward *f, struct cache *c, const int32_t *ids, int n);

/* Fills f->slots with the values by which units are compared. */
void score_values(struct forward *f, struct cache *c);

#endif
