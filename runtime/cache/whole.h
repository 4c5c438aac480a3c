/* whole: chooses the tokens whose units every head keeps.
 *
 * Heads that choose units one by one keep different tokens, and a passage of which each head has
 * other parts is often read wrongly, whatever the scores of these parts. So heads that share one
 * budget first keep a part of it in common: passages, whole. What a token is worth is the largest
 * share of attention that any head predicts for its unit, and a passage is worth the mean of
 * WHOLE_SPAN tokens. The tokens in the middle of the best passages stay (quant/eval/notes/heads.md
 * compares other choices). Only tokens that every head still holds can be chosen. */
#ifndef RETAIN_RUNTIME_CACHE_WHOLE_H
#define RETAIN_RUNTIME_CACHE_WHOLE_H

#include "runtime/cache/evict.h"

enum { WHOLE_SPAN = 7 };

/* Lists them in c->whole.pos, ascending, without the sinks, the newest and pinned ones. A unit's
 * share is e^(score * std + mean) with its head's numbers [n_layer * n_head]. On ties the older
 * token wins. */
void whole_choose(struct cache *c, const struct evict_rule *rule, const float *std,
                  const float *mean, struct pool *p);

#endif
