/* cuda: a model on a GPU. Does the work of forward.c, of evict.c and of the sampler's first step
 * with the kernels of kernels/cuda; only context.c knows whether a conversation runs here or on the
 * CPU.
 *
 *   cuda          a device with a model's weights and retaining heads
 *   cuda_context  a conversation's device memory: units, scores, positions, scratch
 *
 * Weights are packed and sent matrix by matrix: this process keeps no second copy. The host's
 * struct cache keeps lengths, positions, scores and counters, and decides what fits; units are in
 * device memory. Units to be saved are copied to the host's cache (cache_fetch), whose pages are
 * only a window on them; loaded units are sent back by cuda_upload.
 *
 * Device memory is planned with the same arenas as the CPU's; their pieces are device addresses,
 * which must not be dereferenced on the host. */
#ifndef RETAIN_RUNTIME_CUDA_CUDA_H
#define RETAIN_RUNTIME_CUDA_CUDA_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/err.h"
#include "runtime/cache/cache.h"
#include "runtime/cache/policy.h"
#include "runtime/model/model.h"
#include "runtime/model/retaining.h"
#include "runtime/token/sampler.h"

struct cuda;
struct cuda_context;
struct pool;
struct evict_rule;

/* ---- devices --------------------------------------------------------------------------------- */

struct cuda_device {
    int ordinal, arch; /* 89 = sm_89 */
    int driver;        /* 13000 = CUDA 13.0 */
    int n_sm;
    bool integrated;
    bool graphs;       /* the driver records launches (since cuda_open) */
    int chain_blocks;  /* that may run at one time in a chain; 0: no chains */
    char refused[480]; /* why one of these is missing, or "" */
    size_t bytes;
    char name[64];
    char bus[16];      /* where it is plugged in: "0000:01:00.0"; "" = not known */
    const char *image; /* the entry of kernels/cuda/images.h that it would run, or NULL */
};

/* Lists up to `max` devices; returns their number, or ERR_FAIL with the reason when there are
 * none. */
int cuda_devices(struct cuda_device *out, int max, struct err *e);

/* Device code in this program, "sm_89" and so on; NULL past the end. */
const char *cuda_image_name(int i);

int cuda_open(struct cuda **out, int ordinal, struct err *e);
void cuda_close(struct cuda *g);
const struct cuda_device *cuda_device(const struct cuda *g);

bool cuda_has_model(const struct cuda *g); /* whether a model is loaded */

/* Bytes of device memory that can still be allocated. */
int cuda_free_bytes(struct cuda *g, int64_t *out, struct err *e);

/* Bytes that the device reads and writes per second, the best of several large copies. */
int cuda_copy_rate(struct cuda *g, double *out, struct err *e);

/* ---- the model ------------------------------------------------------------------------------- */

/* Whether it can be run with such units. ERR_USAGE names the first unsupported part. */
int cuda_supports(const struct model *m, enum kn_kv k_type, enum kn_kv v_type, struct err *e);

/* Whether the device computes these heads' scores. Otherwise the CPU does, from their inputs
 * (cuda_head_inputs). */
bool cuda_runs_heads(const struct retaining *h);

/* Whether the CPU evicts for this policy with these heads (or NULL), or units of this shape: they
 * are copied there and back. */
bool cuda_leaves_eviction(const struct policy *p, const struct cache_shape *s,
                          const struct retaining *h);

/* Device bytes of a model's weights and of its heads. */
size_t cuda_weights_bytes(const struct model *m);
size_t cuda_heads_bytes(const struct retaining *h);

/* Loads the weights from the model's file; h: loaded heads, or NULL. progress as in engine_open. */
int cuda_load(struct cuda *g, struct model *m, struct retaining *h, struct pool *p,
              int (*progress)(void *, int64_t, int64_t), void *ctx, struct err *e);

/* ---- a conversation -------------------------------------------------------------------------- */

/* Computes the experts of a layer in host memory, as experts_sum (forward/experts.c) does. */
struct cuda_chosen {
    int layer, n;
    const float *input;    /* [n][n_embd] of the experts, normed */
    const int32_t *chosen; /* [n][n_used], like weight */
    const float *weight;
};
struct cuda_host_experts {
    void (*sum)(void *ctx, const struct cuda_chosen *c, float *y);
    void *ctx;
};

struct cuda_context_opts {
    const struct model *model;
    const struct retaining *retaining;
    const struct policy *policy;
    const struct cache_shape *shape;
    uint64_t seed;
    int chunk, n_logits;
    bool floats;    /* a chunk's attention in halves with float sums on every device */
    int n_mtp_rows; /* of the MTP layer as a model of one layer: of cuda_mtp_rows */
    struct cuda_host_experts experts; /* used if the model has experts in host memory */
};

/* Device bytes of the cache and of all other memory, and page-locked bytes of the host. g gives the
 * number of processors. */
struct cuda_bytes {
    size_t cache, scratch, locked;
};
struct cuda_bytes cuda_context_plan(const struct cuda *g, const struct cuda_context_opts *o);

/* c: the host's cache; the context becomes its source of units. Both must stay at their
 * addresses. */
int cuda_context_open(struct cuda_context **out, struct cuda *g, const struct cuda_context_opts *o,
                      struct cache *c, struct err *e);
void cuda_context_close(struct cuda_context *x);

/* The number of slots in all pages that hold at least one unit. */
int64_t cuda_slots_in_use(const struct cuda_context *x);

/* Scores the newest units that have no score yet, like cis_score: CACHE_UNSCORED_MAX at most. If it
 * fails, the context's next call does. */
void cuda_score(struct cuda_context *x);

/* Runs n tokens, like forward_run. */
int cuda_run(struct cuda_context *x, const int32_t *ids, int n, int n_logits, struct err *e);

/* Runs n (2 … CUDA_TRY_MAX) tokens with logits of all, like forward_try: every bit is as if each
 * token had been run alone. Weights are read once for all of them, a head's units once for each. */
#define CUDA_TRY_MAX 8
int cuda_try(struct cuda_context *x, const int32_t *ids, int n, struct err *e);

/* Recurrent layers: computes the logits of the newest token again, without running it; and makes
 * the host's state the one after its step. If that fails, the context's next call does. */
int cuda_run_again(struct cuda_context *x, struct err *e);
void cuda_repeat(struct cuda_context *x);

/* Recurrent layers: the state takes tried token i, the next one after those accepted before. A
 * failure is reported by the context's next call. */
void cuda_accept(struct cuda_context *x, int i);

/* The MTP layer (struct model_mtp) in a context of its own: the memory of its rows, [n_mtp_rows]
 * [n_embd]; cuda_run_mtp runs n tokens, each with the row before it, normed by `norm`. All rows are
 * in device memory, also those of cuda_stream, the stream of any context after its last run,
 * [n][n_embd]. cuda_keep_rows copies n of them; x's next call reports a failure. */
struct cuda_mtp_input {
    const int32_t *ids;
    const float *const *before; /* [n] */
    const float *norm;
};
float *cuda_mtp_rows(const struct cuda_context *x);
int cuda_run_mtp(struct cuda_context *x, const struct cuda_mtp_input *in, int n, int n_logits,
                 struct err *e);
float *cuda_stream(const struct cuda_context *x);
void cuda_keep_rows(struct cuda_context *x, float *to, const float *from, int n);

/* A split model (model_place): runs the device's layers on n rows of the residual stream, in place,
 * and appends their units; the caller counts these with cache_appended. tries: as if each row were
 * run alone. */
int cuda_run_rows(struct cuda_context *x, float *rows, int n, bool tries, struct err *e);

/* Rows of the last run that retaining heads read, [n][n_in] in each of the device's layers of the
 * cache; rows NULL: the device has scored them. */
struct cuda_head_inputs {
    int n_layer, n;
    const float *rows;
    size_t stride; /* numbers between layers */
};
struct cuda_head_inputs cuda_head_inputs(const struct cuda_context *x);

/* Logits of the last run, [n_logits][n_vocab]. After cuda_try only this row of `out` is written. */
int cuda_logits(struct cuda_context *x, int row, float *out, struct err *e);

/* The first step of sampler_draw on row `row` of the last run's logits: the sorted candidates that
 * the next steps need (sampler.h); *n = their number, 0 = all logits are needed. */
int cuda_candidates(struct cuda_context *x, int row, const struct sampling *s,
                    struct sampler_entry *out, int *n, struct err *e);

/* Like evict, with the same survivors, on both sides: reduces heads to the rule's budget, separate
 * or shared; *n_evicted: the number of evicted units. */
int cuda_evict(struct cuda_context *x, const struct evict_rule *rule, struct pool *pool,
               int64_t *n_evicted, struct err *e);

/* Sends all units of the host's cache, which were loaded from disk, with scores and positions. */
int cuda_upload(struct cuda_context *x, struct err *e);

#endif
