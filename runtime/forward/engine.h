/* engine: a loaded model and everything that conversations with it share: weights, retaining heads,
 * tokenizer, kernels, threads. Screens only open and close it; its fields are for the runtime and
 * for the workbench in quant/. */
#ifndef RETAIN_RUNTIME_FORWARD_ENGINE_H
#define RETAIN_RUNTIME_FORWARD_ENGINE_H

#include "base/arena.h"
#include "runtime/forward/centre.h"
#include "runtime/model/identity.h"
#include "runtime/model/model.h"
#include "runtime/model/retaining.h"
#include "runtime/model/weight_cache.h"
#include "runtime/token/chat_template.h"
#include "runtime/token/sampler.h"
#include "runtime/token/tokenizer.h"

struct cuda;
struct plan_opts;
struct pool;

enum engine_weights { ENGINE_WEIGHTS_FILE, ENGINE_WEIGHTS_F32 /* expanded: exact and slow */ };

/* The value of --device. */
struct engine_device {
    enum { ENGINE_DEVICE_AUTO, ENGINE_DEVICE_CPU, ENGINE_DEVICE_CUDA } kind;
    int ordinal; /* of the CUDA device */
};

/* The value of --experts: where the experts of a model are. AUTO: on the GPU for as many layers as
 * fit there, and in host memory for the others; without a GPU in memory. HOST: in host memory.
 * FILE: in the file of packed weights, whose pages are read when they are used. */
enum engine_experts { ENGINE_EXPERTS_AUTO, ENGINE_EXPERTS_HOST, ENGINE_EXPERTS_FILE };

/* The value of --heads; neither: the heads of the embedded model, or those in heads_dir. */
struct engine_heads {
    const char *path;
    bool none;
};

/* All zero is the default. */
struct engine_opts {
    const char *model;                     /* a file; NULL = the embedded demo */
    const struct model_registry *registry; /* registers and compares its digest; or NULL */
    struct engine_heads heads;
    const char *heads_dir; /* folder with heads of other models, KEY.gguf (retaining_key), which are
                            * taken when `heads` names none; NULL = none */
    struct engine_device device;
    int gpu_layers; /* the first layers are on the GPU; 0 = all, or as many as fit */
    enum engine_experts experts;
    const char *isa;           /* name of a kernel table; NULL = the best for this machine */
    const char *template_name; /* name of a chat template; NULL = the model file's own */
    const char *template_was;  /* the conversation's, for a file without one; NULL: a new one */
    enum engine_weights weights;
    enum identity_verify verify;
    bool accept_model;            /* accept a file that changed since it was registered */
    int threads;                  /* 0 = see pool_cores */
    const char *weight_cache_dir; /* folder for copies of weights; NULL = none */
    bool leaves_no_copy;          /* use a copy, but write none */
};

struct engine {
    struct model *model;
    struct retaining *retaining; /* NULL = none */
    bool heads_declined;         /* the user wants none */
    struct tokenizer *tokenizer;
    struct chat_template *template;
    const struct thought_format *thoughts; /* how the model marks thoughts; NULL = it has none */
    const struct kernels *kernels;
    struct pool *pool;
    struct cuda *gpu;  /* holds the weights and runs conversations; NULL = this CPU */
    bool gpu_may_fail; /* it was chosen by auto: the CPU replaces it */
    struct arena weights, retaining_arena;
    struct centres centres; /* of the model's keys */
    /* the copy that the weights are mapped from; bytes 0 = none */
    struct weight_cache weight_cache;
    struct weight_check *check;         /* compares it with its digests; NULL = nothing does */
    struct weight_cache_writer *writer; /* writes a copy of the weights; NULL = none is written */
    char model_digest[DIGEST_HEX];      /* of the file, or the name of an unread one (identity.h) */
    char heads_digest[DIGEST_HEX];      /* "" without heads */
    struct sampling sampling;           /* the model's own, for what the user does not set */
    char sampling_source[SAMPLING_SOURCE_MAX]; /* where it is from, for the user */
    bool is_base;                              /* its model continues text; see chat_choice */
    char notice[512];                          /* a message for the user, or "" */
    char device_notice[544]; /* why the GPU is not used, or has not all of it; or "" */
};

/* done of total bytes were loaded; a total of 0: the GPU's driver compiles device code now, for up
 * to a minute when it has not done so before; below 0: done of -total tokens of the text were read
 * with which a model's keys are measured (centre.h), the first time only. Called from the opening
 * thread. A non-zero return cancels (ERR_STOP). NULL = no report. */
typedef int engine_progress(void *ctx, int64_t done, int64_t total);
#define ENGINE_COMPILING \
    "the driver compiles device code for this GPU, up to a minute the first time"

/* Loads the model and its heads. plans[n_plans]: must all fit before a weight is read (ERR_FIT). */
int engine_open(struct engine **out, const struct engine_opts *o, const struct plan_opts *plans,
                int n_plans, engine_progress *progress, void *ctx, struct err *e);
void engine_close(struct engine *g);

/* Opens file, tokenizer and heads and checks them, without loading a weight: enough for tokenize,
 * plan and info. engine_choose_device then chooses where it runs; engine_load loads the weights, on
 * the CPU if a GPU that auto chose fails. engine_open does all of it. */
int engine_prepare(struct engine **out, const struct engine_opts *o, struct err *e);
int engine_load(struct engine *g, engine_progress *progress, void *ctx, struct err *e);

/* Opens the GPU that o->device names; with auto, the first one, if it runs this model with all
 * plans, has the memory for them and computes correctly (gpu_check). If its memory is too small,
 * the experts of some layers stay in host memory; if it is too small for the other weights, auto
 * takes the first layers that fit, and the others run on the CPU. */
int engine_choose_device(struct engine *g, const struct engine_opts *o,
                         const struct plan_opts *plans, int n_plans, engine_progress *progress,
                         void *ctx, struct err *e);
/* Compares a GPU's results with the CPU's, a few tokens of the demo model, about 0.1 s; ERR_FAIL
 * when they differ. Run before auto uses a GPU: with an untested driver, compiler or chip, the
 * kernels may silently compute wrong results. */
int gpu_check(int ordinal, struct err *e);
/* From now on the CPU runs the model; says why, if there is a GPU. */
void engine_leave_gpu(struct engine *g, const struct err *why);
/* Whether each plan fits. Otherwise ERR_FIT, or ERR_USAGE for a plan that cannot run there. */
int engine_check_plans(struct engine *g, const struct plan_opts *plans, int n_plans, int n_threads,
                       struct err *e);
/* The computing device in words: "cpu (avx2, 8 threads)", "cuda:0 (NVIDIA …, sm_89)". */
void engine_device_name(const struct engine *g, char *out, size_t bytes);
/* Where the GPU in use is plugged in; "" = none, or not known. */
const char *engine_gpu_bus(const struct engine *g);
/* Bytes per second that copies within the GPU's memory read and write; needs a GPU. */
int engine_copy_rate(const struct engine *g, double *out, struct err *e);

/* Whether the copy that the weights are mapped from was found damaged: it is removed then, and what
 * was computed with it is not to be trusted. *why: a sentence for the user. */
bool engine_is_damaged(const struct engine *g, char why[256]);

/* Compares every byte of the copy of the weights that later starts would map with the packed model
 * file, and removes a copy that differs. */
enum engine_copy { ENGINE_COPY_NONE, ENGINE_COPY_SAME, ENGINE_COPY_REMOVED };
enum engine_copy engine_check_copy(struct engine *g, const struct engine_opts *o);

#endif
