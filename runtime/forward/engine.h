/* engine: a loaded model and everything that is shared between conversations with it. Opened and
 * closed through session.h; what is inside is for runtime/ and for the workbench in quant/. */
#ifndef RETAIN_RUNTIME_FORWARD_ENGINE_H
#define RETAIN_RUNTIME_FORWARD_ENGINE_H

#include "base/arena.h"
#include "runtime/model/model.h"
#include "runtime/model/retaining.h"
#include "runtime/model/weight_cache.h"
#include "runtime/session/session.h"
#include "runtime/token/chat_template.h"
#include "runtime/token/tokenizer.h"

struct cuda;
struct pool;

struct engine {
    struct model *model;
    struct retaining *heads; /* NULL = none */
    struct tokenizer *tokenizer;
    const struct chat_template *template;
    const struct kernels *kernels;
    struct pool *pool;
    struct cuda *gpu; /* where the weights are and conversations run; NULL = this CPU */
    struct arena weights, retaining_arena;
    struct weight_cache packed; /* what the weights are or would be mapped from; bytes 0 = none */
    struct weight_cache_writer *packing; /* writes a copy of the weights; NULL = nobody does */
    char model_digest[65];   /* hex BLAKE2b-256 of the file, as b2sum -l 256 prints it */
    char heads_digest[65];   /* "" without heads */
    float temperature;       /* the model's own, when nobody sets one */
    char notice[512];        /* what the person should know, or "" */
    char device_notice[544]; /* with --device auto: why the GPU there is stays idle, or "" */
};

/* Opens file, tokenizer and heads and checks them, without loading a weight: enough for tokenize,
 * plan and info. engine_choose_device then opens a GPU if o->device says so, or says auto and there
 * is one that runs this model with these options, has the memory for it and computes as it should
 * (gpu_check.h). Before a driver compiles device code, which takes up to a minute the first time,
 * progress is called with a total of 0.
 * engine_load does the rest; engine_open does all.
 */
int engine_prepare(struct engine **out, const struct options *o, struct conversations *l,
                   struct err *e);
int engine_choose_device(struct engine *g, const struct options *o, engine_progress *progress,
                         void *ctx, struct err *e);
/* Who computes, for people: "cpu (avx2, 8 threads)", "cuda:0 (NVIDIA …, sm_89)". */
void engine_device_name(const struct engine *g, char *out, size_t bytes);

/* Compares the copy of the weights that later starts would map (packed.h) with what the model file
 * gives, every byte, and removes one that differs. */
enum engine_copy { ENGINE_COPY_NONE, ENGINE_COPY_SAME, ENGINE_COPY_REMOVED };
enum engine_copy engine_check_copy(struct engine *g, const struct options *o);

int engine_load(struct engine *g, engine_progress *progress, void *ctx, struct err *e);

#endif
