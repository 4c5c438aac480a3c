/* draft: a small model with the same vocabulary (engine.draft), or else the model's MTP layer
 * (forward/mtp.h), proposes the next tokens, its most likely ones. Its cache is separate and lags
 * behind the conversation until an answer needs proposals. It changes no token of the answer
 * (speculate.h), so it may forget: of a long conversation it reads the newest tokens only. */
#ifndef RETAIN_RUNTIME_SESSION_DRAFT_H
#define RETAIN_RUNTIME_SESSION_DRAFT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct context;
struct draft_model;

/* answers: the context that answers. *out NULL: it has neither. After an error *out, unless NULL,
 * must be closed. */
int draft_model_open(struct draft_model **out, struct context *answers, struct err *e);
void draft_model_close(struct draft_model *d);
/* Weights, cache and scratch beside the plan of the context that answers. */
int64_t draft_model_bytes(const struct draft_model *d);

/* Call with each token of the conversation. */
void draft_model_add(struct draft_model *d, int32_t id);
/* Call before the tokens of the conversation are added again. */
void draft_model_forget(struct draft_model *d);

struct draft_wish {
    int max; /* at most FORWARD_TRY_MAX */
    bool all;
    const double *ns; /* as in draft_time */
};

/* Writes up to `max` tokens that may follow the newest one, which was not run yet, to out, `all` or
 * as long as they save time; returns their number. After a failure it proposes nothing any more. */
int draft_model_propose(struct draft_model *d, const struct draft_wish *w, int32_t *out);
/* How many of the last proposals were right. */
void draft_model_learn(struct draft_model *d, int n_right, int n_proposed);

/* Learns a time: other programs only make a run longer, so shorter ones count more. 0 =
 * none yet. */
static inline void draft_learn_time(double *time, int64_t ns)
{
    const double d = (double)ns - *time;
    *time += *time == 0 ? d : d < 0 ? d / 4 : d / 32;
}

/* The time to run n tokens at once, from ns[n], where 0 is not measured: then of fewer. */
static inline double draft_time(const double *ns, int n)
{
    while (n > 1 && ns[n] == 0) n--;
    return ns[n];
}

#endif
