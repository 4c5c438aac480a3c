/* speculate: the tokens that followed the same words earlier in the conversation, or that the
 * model's MTP layer rates most likely, are run together with the token just drawn, because reading
 * the weights once for several tokens takes little more time than for one. Drawing is not changed:
 * a proposal counts only when it is the token that is drawn anyway. */
#ifndef RETAIN_RUNTIME_SESSION_SPECULATE_H
#define RETAIN_RUNTIME_SESSION_SPECULATE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct context;
struct speculate;

struct speculate_opts {
    struct context *ctx;                       /* stays at its address */
    int n;                                     /* proposals each time; 0: as many as save time */
    bool (*ends)(const void *ctx, int32_t id); /* whether the token ends the turn */
    const void *ends_ctx;
};

struct speculate_counts {
    int64_t n_proposed, n_accepted;
};

/* *out NULL: the context can't try tokens (context_try_max); all functions but speculate_run accept
 * it. After an error *out must be closed. */
int speculate_open(struct speculate **out, const struct speculate_opts *o, struct err *e);
void speculate_close(struct speculate *p);

/* Call with each token of the conversation. */
void speculate_add(struct speculate *p, int32_t id);
/* Runs the token just drawn, alone or with proposals, or finds that it was run already; adds what
 * was proposed and what was right. */
int speculate_run(struct speculate *p, int32_t id, struct speculate_counts *counts, struct err *e);

#endif
