/* score: computes the values by which a policy compares units. Scores that depend on a token alone
 * (CIS, position, random) are stored with its units. Scores of keys are computed here, and the CIS
 * of units that were read before there were heads.
 *
 * Near-duplicate keys split the attention that one of them would get. For policies with this
 * penalty, a score, the logarithm of a predicted share, is lowered by a quarter of the logarithm of
 * the number of the head's units with the same signs (kernels.h), averaged over two tables of eight
 * signs; factors of a half and one retained less (quant/eval/notes). So repeated text cannot
 * displace text that occurs once. */
#ifndef RETAIN_RUNTIME_FORWARD_SCORE_H
#define RETAIN_RUNTIME_FORWARD_SCORE_H

#include <stdint.h>

struct cache;
struct forward;

/* Units before position `from` (0 = none) were read without heads. Their keys and values in the
 * cache are scored now, and again whenever units are compared, because a unit that recall returned
 * has no score of these heads. Only where context_can_adopt. */
void score_adopt(struct forward *f, struct cache *c, int64_t from);

/* Fills f->slots with the values by which units are compared. */
void score_values(struct forward *f, struct cache *c);

#endif
