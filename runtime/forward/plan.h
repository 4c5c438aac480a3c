/* plan: every byte that a conversation will need, computed from the model's shape and the options
 * before anything is allocated. A conversation that does not fit is refused here, with the numbers
 * and the largest budget that would fit. */
#ifndef RETAIN_RUNTIME_FORWARD_PLAN_H
#define RETAIN_RUNTIME_FORWARD_PLAN_H

#include "runtime/cache/cache.h"
#include "runtime/cache/policy.h"
#include "runtime/model/model.h"
#include "runtime/model/retaining.h"

struct cuda;

/* How the cache keeps keys and values. */
struct plan_kv {
    bool given; /* false: q5:q4 if the model's shape allows it, else f16 */
    enum kn_kv k, v;
};

/* How many proposals speculation runs together with a token. */
struct plan_speculate {
    bool off;
    int n; /* 0 = as many as pay, by measurement */
};
#define PLAN_SPECULATE_MAX 15

/* How a GPU computes the attention of a chunk of a prompt (kernels/cuda/attend_chunk.cu). */
enum plan_attention {
    PLAN_ATTENTION_AUTO, /* int8 keys and queries where the GPU adds halves faster than floats */
    PLAN_ATTENTION_FLOAT,
};

struct plan_opts {
    struct policy_choice policy;
    enum plan_attention attention;
    struct plan_kv kv;
    int budget; /* units per head; 0 = the plan chooses, fewer if memory is short */
    int chunk;  /* tokens per prefill step; 0 = the default */
    struct plan_speculate speculate;
    int64_t memory;  /* maximum bytes of memory; 0 = the available memory */
    int64_t besides; /* bytes that the caller needs besides the plan, on the same device */
};
struct plan_opts plan_opts_default(void);

#define PLAN_BUDGET_MIN 16
#define PLAN_BUDGET_MAX (INT32_MAX / 4)

struct plan {
    /* the choices */
    const struct policy *policy; /* the row of the table */
    struct policy rules;         /* the row with changes by the options, numbers resolved */
    int budget;                  /* units per head that survive an eviction */
    enum plan_attention attention;
    int chunk;      /* tokens per prefill step */
    int reserve;    /* units that an answer may use before eviction starts inside it */
    int capacity;   /* slots per head: budget + chunk + reserve; the context of policy full */
    int budget_max; /* maximum of one head, if heads or layers have different budgets */
    int sinks, stabilizers;
    enum kn_kv k_type, v_type;
    int n_logits; /* rows */
    int n_threads;
    bool proposes;    /* the model's MTP layer runs */
    char notice[256]; /* a message about a choice, or "" */
    /* the cost in bytes */
    size_t windows_bytes; /* the part of cache_bytes for layers with windows */
    size_t weights_bytes, heads_bytes, cache_bytes, scratch_bytes;
    size_t state_bytes; /* of recurrent layers; constant */
    /* of a split model (model_place): the device's layers, and bytes of its memory, in addition to
     * those above */
    int device_layers;
    size_t device_bytes;
    /* of experts that the CPU computes for a device: their layers, and bytes of host memory, in
     * addition to those above; bytes of experts that stay in the packed copy's file, in no sum */
    int host_layers;
    size_t host_bytes, mapped_bytes;
    size_t unit_bytes;
};

/* h may be NULL; gpu: the device that runs it, or NULL for this CPU: with a device the bytes are
 * device memory, limited by its free memory. n_logits: rows of logits needed at once (1 for chat,
 * to which speculation adds its own). n_threads >= 1. Errors: ERR_USAGE for contradicting options,
 * ERR_FIT when it does not fit into o->memory or the available memory. */
int plan_make(struct plan *p, struct model *m, struct retaining *h, struct cuda *gpu,
              const struct plan_opts *o, int n_logits, int n_threads, struct err *e);

/* The shape of the planned cache. */
struct cache_shape plan_shape(const struct plan *p, const struct model *m);
/* What the CPU's forward pass and a device's context get of the plan; the device of a split model
 * computes no logits. Plan and shape must outlive them. */
struct forward_opts plan_forward_opts(const struct plan *p, const struct model *m,
                                      const struct retaining *h, const struct cache_shape *shape);
struct cuda_context_opts plan_device_opts(const struct plan *p, const struct model *m,
                                          const struct retaining *h,
                                          const struct cache_shape *shape);

size_t plan_total_bytes(const struct plan *p);

/* "q4", or keys and values separately as "q8:q4"; false when invalid. */
bool plan_kv_named(const char *text, struct plan_kv *out);
const char *plan_kv_name(enum kn_kv type);             /* "q4" */
void plan_kv_text(const struct plan *p, char out[16]); /* "q4", or "q8:q4" when K and V differ */

#endif
