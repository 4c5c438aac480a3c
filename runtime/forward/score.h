/* score: computes the scores of policies, and keeps their state about past queries. Scores that
 * depend on a token alone (CIS, position, random) are stored with its units; the others are
 * computed here:
 *
 * - attention: the last `window` queries are kept, before RoPE, and evaluated only when units are
 *   evicted;
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

/* Floats of policy state per layer. */
int score_state_floats(const struct policy *p, const struct model *m);

/* Whether tokens can be tried that do not follow (forward_try): not where a run also changes
 * the policy's state. */
bool score_can_try(const struct policy *p, const struct model *m);

/* Call after attention of a chunk of n tokens in this layer: its units are in the cache, its
 * queries in f->qkv. */
void score_observe(struct forward *f, struct cache *c, int layer, int n);

/* A part of it: takes the queries, q[n] at distances of `stride`, of n tokens from position pos on,
 * if the policy keeps a window of them. */
void score_queries(struct forward *f, struct cache *c, int layer, const float *q, size_t stride,
                   int64_t pos, int n);

/* Units before position `from` (0: none) were read without heads, which score them now, from the
 * cache, and again when they are compared: a returned unit has no score (context_can_adopt). */
void score_adopt(struct forward *f, struct cache *c, int64_t from);

/* Fills f->slots with the values by which units are compared. */
void score_values(struct forward *f, struct cache *c);

#endif
