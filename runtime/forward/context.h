/* context: the memory of one conversation: its plan, the cache pool and the scratch, allocated
 * once. Used by session (chat) and the workbench (perplexity, bench). */
#ifndef RETAIN_RUNTIME_FORWARD_CONTEXT_H
#define RETAIN_RUNTIME_FORWARD_CONTEXT_H

#include "base/arena.h"
#include "runtime/cache/cache.h"
#include "runtime/cache/evict.h"
#include "runtime/forward/forward.h"
#include "runtime/forward/mtp.h"
#include "runtime/forward/plan.h"
#include "runtime/token/sampler.h"

struct recall_aside;

struct cuda_context;
struct engine;

struct context { /* must not move while it is open: forward points into the plan */
    struct engine *engine;
    struct plan plan;
    struct arena cache_arena, state_arena, scratch, experts_arena;
    struct cache cache;
    struct forward forward; /* used on the CPU; with a device only its logits and their sizes */
    struct forward experts; /* of a GPU's layers, if they are in host memory (experts_sum) */
    struct mtp mtp;         /* what it proposes, session/proposer.h runs with context_try */
    int32_t tried[FORWARD_TRY_MAX]; /* the tokens of the last context_try */
    int row;                        /* of the logits that are current: context_accept */
    const struct evict_pin *pins;   /* [n_pins] never evicted (evict.h) */
    int n_pins;
    struct cuda_context *gpu; /* NULL = the CPU computes */
    struct err *e;            /* of the run in progress, */
    bool tries;               /* and whether it is a context_try */
    bool used;                /* all memory is resident: since the first eviction */
};

/* Plans by `o` and takes the memory; nothing is run. seed: of policies that draw (random).
 * n_logits as in plan_make. */
int context_open(struct context *x, struct engine *g, const struct plan_opts *o, uint64_t seed,
                 int n_logits, struct err *e);
void context_release(struct context *x);

/* Host bytes of a context on a GPU that computes all layers and leaves neither scoring nor eviction
 * to the CPU (policy full). */
size_t context_host_bytes(const struct engine *g, const struct plan *p);

/* The number of units that the memory in use can hold. On a GPU, a head's memory is used in pages
 * of 64 units. */
int64_t context_slots_in_use(const struct context *x);

/* Bytes that one decoded token reads: every matrix except the embedding table, the cache's units,
 * and twice the recurrent state, which is written, too. */
double context_bytes_per_token(const struct context *x);

/* Of these, the bytes of matrices that the CPU reads beside a GPU: experts in host memory, layers
 * of a split model. */
double context_host_bytes_per_token(const struct context *x);

/* Multiplications and additions of one decoded token: its matrices' and its attention's. */
double context_operations_per_token(const struct context *x);

/* Runs n (1 … plan.chunk) tokens, for which every head must have room (forward.h). */
int context_run(struct context *x, const int32_t *ids, int n, int n_logits, struct err *e);

/* Speculation: runs ids[0] and n - 1 proposals (2 … context_try_max in all) at once. ids[0] is part
 * of the cache then; context_accept adds the next one as if it had just been run alone, to the bit:
 * its units, then its logits, which context_draw and context_logits use. Proposals that are not
 * accepted are forgotten with the next run. context_try_max: 0 without room for more logits. */
int context_try_max(const struct context *x);
int context_try(struct context *x, const int32_t *ids, int n, struct err *e);
void context_accept(struct context *x);

/* The requested logits of the last run, row by row. */
int context_logits(struct context *x, float **out, struct err *e);

/* The token for `position` after the last run (sampler_draw); scratch [n_vocab]. */
int context_draw(struct context *x, const struct sampling *s, const int32_t *recent, int n_recent,
                 uint64_t position, struct sampler_entry *scratch, int32_t *id, struct err *e);

/* Runs the newest token, `id`, again for its logits only: units and scores stay unchanged. */
int context_run_again(struct context *x, int32_t id, struct err *e);

/* The logits of a text that may follow (forward_look), in x->forward.logits: ERR_USAGE on a GPU and
 * for models with recurrent layers. */
int context_look(struct context *x, const int32_t *ids, int n, int n_logits, struct err *e);

/* Whether the heads can score units that were read without heads. Heads in closed form can, on the
 * CPU: they need only the unit's key and value (retaining.n_unit). context_adopt scores all units
 * before position `from` so, now and whenever units are compared. */
bool context_can_adopt(const struct context *x);
void context_adopt(struct context *x, int64_t from);

/* Scores the newest units that have no score yet (cis_score): call before saving them. */
void context_score(struct context *x);

/* Cuts heads that are over the budget; *n_evicted = the number of evicted units. Does nothing for
 * policy full. */
int context_evict(struct context *x, int64_t *n_evicted, struct err *e);

/* The most positions that may be pinned (evict_pins_max). */
int context_pins_max(const struct context *x);

bool context_over_budget(const struct context *x); /* whether context_evict would evict */

/* Evicts the units of positions [from, end) from all heads; *n_evicted as above. */
int context_drop(struct context *x, int64_t from, int64_t end, int64_t *n_evicted, struct err *e);

/* The first position of the newest units, which evictions keep. */
uint32_t context_newest(const struct context *x);

/* recall_set_aside; call while keys and values are in host memory, then context_loaded. */
void context_set_aside(struct context *x, const struct recall_aside *aside);
/* recall_put_back; context_evict and context_drop call it. */
int context_put_back(struct context *x, struct err *e);

/* Call after the cache was loaded from disk. */
int context_loaded(struct context *x, struct err *e);

#endif
