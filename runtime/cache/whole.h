/* whole: chooses the tokens whose units every head keeps.
 *
 * Heads that choose units one by one keep different tokens, and a passage of which each head has
 * other parts is often read wrongly. So a part of the budget first goes to tokens that all heads
 * keep. A token is worth the largest share of attention that any head predicts for its unit. A
 * passage of WHOLE_SPAN tokens is worth their mean, and the tokens in the middle of the best
 * passages stay (quant/eval/notes/heads.md compares other choices). Only tokens that every head
 * still holds can be chosen. */
#ifndef RETAIN_RUNTIME_CACHE_WHOLE_H
#define RETAIN_RUNTIME_CACHE_WHOLE_H

#include "runtime/cache/evict.h"

enum { WHOLE_SPAN = 7 };

/* Stores their positions in c->whole for the next evict(): with the sinks, the newest and the
 * pinned units they are rule->whole tokens, or fewer if no others are in every head. All heads
 * share one budget (CACHE_MODEL). The predicted share of a unit is e^(score * std + mean), with its
 * head's std and mean [n_layer * n_head]. On ties the older token wins. */
void whole_choose(struct cache *c, const struct evict_rule *rule, const float *std,
                  const float *mean, struct pool *p);

#endif
