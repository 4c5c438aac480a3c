/* proposer: proposes the tokens that the model's MTP layer (forward/mtp.h) rates most likely, as
 * many as save time. It changes no token of the answer (speculate.h). */
#ifndef RETAIN_RUNTIME_SESSION_PROPOSER_H
#define RETAIN_RUNTIME_SESSION_PROPOSER_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/forward/forward.h"

struct context;
struct cache;
struct mtp;

struct proposer {
    struct mtp *mtp;           /* of the context that answers; NULL = the model has no such layer */
    const struct cache *cache; /* of that context */
    int32_t newest;            /* token of the conversation */
    double p[FORWARD_TRY_MAX]; /* of the last proposals */
    double trust[FORWARD_TRY_MAX];  /* of each: how often it was right, for each that p promises */
    int n_learned[FORWARD_TRY_MAX]; /* since the last rest */
    int32_t guess;                  /* the proposal that did not pay, to learn from; -1 = none */
    double ns;                      /* measured time for one proposal */
    int n_vain;                     /* calls in a row without a proposal */
    int resting, n_rest;            /* calls that the last rest took, and that are left of it */
    bool failed;                    /* it proposes nothing any more */
};

/* answers: the context that answers, which stays at its address. */
void proposer_init(struct proposer *d, struct context *answers);

/* Call with each token of the conversation. */
void proposer_add(struct proposer *d, int32_t id);

struct proposer_wish {
    int max; /* at most FORWARD_TRY_MAX */
    bool all;
    const double *ns; /* as in proposer_time */
};

/* Writes up to `max` tokens that may follow the newest one, which was not run yet, to out, `all` or
 * as long as they save time; returns their number. After a failure it proposes nothing any more. */
int proposer_propose(struct proposer *d, const struct proposer_wish *w, int32_t *out);
/* How many of the last proposals were right. */
void proposer_learn(struct proposer *d, int n_right, int n_proposed);

/* Learns a time: other programs only make a run longer, so shorter ones count more. 0 =
 * none yet. */
static inline void proposer_learn_time(double *time, int64_t ns)
{
    const double d = (double)ns - *time;
    *time += *time == 0 ? d : d < 0 ? d / 4 : d / 32;
}

/* The time to run n tokens at once, from ns[n], where 0 is not measured: then of fewer. */
static inline double proposer_time(const double *ns, int n)
{
    while (n > 1 && ns[n] == 0) n--;
    return ns[n];
}

#endif
