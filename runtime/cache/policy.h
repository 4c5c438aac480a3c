/* policy: decides which cache units are kept. A policy is a row of one table, composed of a scorer
 * and protections; the named systems of the papers are rows, and no other code knows
 * their names. score.c computes scores, evict.h selects the survivors. */
#ifndef RETAIN_RUNTIME_CACHE_POLICY_H
#define RETAIN_RUNTIME_CACHE_POLICY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

enum policy_scorer {
    POLICY_KEEP_ALL, /* no scores: nothing is ever evicted */
    POLICY_CIS,      /* causal importance score, predicted by a retaining head (Locret) */
    POLICY_POSITION, /* the newer the better (StreamingLLM, arXiv 2309.17453) */
    POLICY_RANDOM,   /* a hash of (seed, head, position): the baseline */
    POLICY_KEYS,     /* distance from the average key (KeyDiff, arXiv 2504.15364) */
};

#define POLICY_FLOOR_PCT 10 /* kvpress's alpha_safeguard is 20 */

struct policy {
    const char *name;
    enum policy_scorer scorer;
    bool shared; /* all heads share one budget, as a layer's do in Ada-KV (arXiv 2407.11550) */
    int sinks;   /* first units of the conversation, always kept */
    int stabilizer_pct;   /* newest units, always kept, in percent of the budget */
    bool near_duplicates; /* near-duplicate units share one score (score.c) */
    /* If heads share a budget: see evict.h, in percent. */
    int floor_pct;
    int recency;       /* if heads share a budget and scores compare: see evict.h; 0 = none */
    const char *about; /* one line for --help and docs */
};

const struct policy *policy_named(const char *name); /* NULL = unknown */
const struct policy *policy_at(int i);               /* NULL past the end */
void policy_names(struct str *out);                  /* appends "full, locret, …" for messages */
/* The default. comparable: scores mean the same in every head. */
const char *policy_default(bool has_heads, bool comparable);

/* A row and the user's changes to it. Numbers: -1 = not changed. */
struct policy_choice {
    const struct policy *row; /* NULL = the plan chooses one */
    int floor;                /* as in struct policy */
    int recency;
    int sinks;
    int stabilizers; /* units, instead of a part of the budget */
    int reserve;     /* units for an answer before eviction starts inside it */
    int context;     /* units of policy full */
};

/* The row of that name with nothing changed; NULL and unknown names: no row. */
struct policy_choice policy_choice(const char *name);

/* Score of the unit of (head, position) for scorers that need neither model nor attention.
 * head counts over all layers. */
float policy_score(const struct policy *p, uint64_t seed, int head, int64_t position);

#endif
