/* ngram: the tokens that followed the newest ones when these occurred before, as proposals for the
 * next tokens (prompt lookup decoding). It remembers a conversation's newest NGRAM_TOKENS tokens,
 * whether their units were evicted or not, in memory of a fixed size. */
#ifndef RETAIN_RUNTIME_TOKEN_NGRAM_H
#define RETAIN_RUNTIME_TOKEN_NGRAM_H

#include <stdint.h>

#include "base/arena.h"

#define NGRAM_TOKENS (1 << 16)
#define NGRAM_SHORT  3 /* tokens that must occur again, at least */
#define NGRAM_LONG   8 /* places where so many occur again are preferred */

struct ngram {
    int64_t n;         /* tokens seen */
    int32_t *ids;      /* [NGRAM_TOKENS] token i is at i % NGRAM_TOKENS */
    uint32_t *ends[2]; /* by hash of NGRAM_SHORT or NGRAM_LONG tokens: the newest place after them,
                        * the low 32 bits of the token's number; [2 * NGRAM_TOKENS] each */
};

/* Takes its memory, backed or only planned (1.25 MiB). */
void ngram_plan(struct ngram *g, struct arena *a);

void ngram_add(struct ngram *g, int32_t id);

/* Up to `max` tokens that followed the longest earlier occurrence found; returns how many, 0 =
 * none. *n_match: tokens of that occurrence, NGRAM_SHORT … NGRAM_MATCH_MAX. */
#define NGRAM_MATCH_MAX 32
int ngram_propose(const struct ngram *g, int32_t *out, int max, int *n_match);

#endif
