/* context: the memory one conversation runs in: its plan, the cache pool and the scratch, taken
 * once. Shared by session (chat) and the workbench (perplexity, bench). */
#ifndef RETAIN_RUNTIME_CONTEXT_H
#define RETAIN_RUNTIME_CONTEXT_H

#include "runtime/base/arena.h"
#include "runtime/cache.h"
#include "runtime/forward.h"
#include "runtime/plan.h"

struct engine;
struct options;

struct context { /* stays where it is while it is open: forward points into the plan */
    struct engine *engine;
    struct plan plan;
    struct arena cache_arena, scratch;
    struct cache cache;
    struct forward forward;
};

/* Plans by `o` and takes the memory; nothing is run. n_logits as in plan_make. */
int context_open(struct context *x, struct engine *g, const struct options *o, int n_logits,
                 struct err *e);
void context_release(struct context *x);

/* Bytes that one decoded token reads: every matrix but the embedding table, and the cache's units.
 */
double context_bytes_per_token(const struct context *x);

/* Cuts heads that are over the budget; the number of units that went. Nothing for policy full. */
int64_t context_evict(struct context *x);

#endif
