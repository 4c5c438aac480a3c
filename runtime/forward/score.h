/* score: computes the scores of policies. Scores that depend on a token alone (CIS, position,
 * random) are stored with its units; those of the keys are computed here from the cache.
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

/* Units before position `from` (0: none) were read without heads, which score them now, from the
 * cache, and again when they are compared: a returned unit has no score (context_can_adopt). */
void score_adopt(struct forward *f, struct cache *c, int64_t from);

/* Fills f->slots with the values by which units are compared. */
void score_values(struct forward *f, struct cache *c);

#endif
