#include "runtime/forward/engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/pool.h"
#include "base/str.h"
#include "runtime/cuda/cuda.h"
#include "runtime/forward/plan.h"
#include "runtime/model/demo.h"
#include "runtime/token/tokenizer.h"

static int open_file(struct gguf **out, const char *path, const unsigned char *demo,
                     const unsigned char *demo_end, const char *demo_name, struct err *e)
{
    if (path) return gguf_open(out, path, e);
    return gguf_open_bytes(out, demo, (size_t)(demo_end - demo), demo_name, e);
}

/* ---- parts ----------------------------------------------------------------------------------- */

static int open_model(struct engine *g, const struct engine_opts *o, struct err *e)
{
    struct gguf *file;
    int rc = open_file(&file, o->model, demo_model, demo_model_end, DEMO_MODEL_NAME, e);
    if (!rc) rc = model_open(&g->model, file, o->weights == ENGINE_WEIGHTS_F32, e);
    if (rc) return rc;
    g->sampling = sampling_of_file(g->model->file, g->sampling_source);
    return 0;
}

static int choose_kernels(struct engine *g, const struct engine_opts *o, struct err *e)
{
    char known[64] = "";
    g->kernels = kn_table(o->isa);
    if (g->kernels) return 0;
    for (const char *const *isa = kn_isa_list(); *isa; isa++)
        snprintf(known + strlen(known), sizeof known - strlen(known), "%s%s", *known ? ", " : "",
                 *isa);
    return err_set(e, ERR_USAGE, "--isa %s is not available here; this machine runs: %s", o->isa,
                   known);
}

static bool wants_heads(const struct engine_opts *o)
{
    return !o->heads.none && (o->heads.path || !o->model);
}

static void digest_heads(struct engine *g)
{
    uint8_t of_file[DIGEST_BYTES];
    size_t n;
    const void *bytes = gguf_bytes(g->retaining->file, &n);
    digest_make(of_file, bytes, n);
    digest_hex(g->heads_digest, of_file);
}

/* The heads that were fitted to the model, if there are any. A file that cannot be used is left
 * alone: the model runs without heads. */
static void open_fitted(struct engine *g, const struct engine_opts *o)
{
    struct str path = {0};
    struct gguf *file;
    struct err e;
    char key[DIGEST_HEX];
    if (g->retaining || g->heads_declined || !o->heads_dir || !o->model) return;
    retaining_key(g->model, key);
    str_printf(&path, "%s/%s.gguf", o->heads_dir, key);
    if (!gguf_open(&file, str_get(&path), &e) && !retaining_open(&g->retaining, file, &e)) {
        if (strcmp(g->retaining->model_key, key) ||
            retaining_check(g->retaining, g->model, NULL, &e)) {
            retaining_close(g->retaining);
            g->retaining = NULL;
        } else {
            digest_heads(g);
        }
    }
    str_release(&path);
}

/* digest: the model's; NULL = not known */
static int open_heads(struct engine *g, const struct engine_opts *o, const char *digest,
                      struct err *e)
{
    struct gguf *file;
    int rc = open_file(&file, o->heads.path, demo_heads, demo_heads_end, DEMO_HEADS_NAME, e);
    if (!rc) rc = retaining_open(&g->retaining, file, e);
    if (!rc) rc = retaining_check(g->retaining, g->model, digest, e);
    if (!rc) digest_heads(g);
    return rc;
}

/* ---- opening --------------------------------------------------------------------------------- */

/* Work that runs in parallel with opening an engine. */
struct opening {
    struct identity id;
    struct tokenizer_thread vocabulary;
};

/* told: the caller prints the digest. Heads are bound to it, too. */
static int begin_identity(struct engine *g, struct opening *op, const struct engine_opts *o,
                          bool told, struct err *e)
{
    const struct identity_opts io = {
        .path = o->model,
        .registry = o->registry,
        .cache_dir = g->model->as_f32 ? NULL : o->weight_cache_dir,
        .verify = o->verify,
        .accept = o->accept_model,
        .needed = told || wants_heads(o) || g->model->maps_experts,
    };
    int rc = identity_begin(&op->id, g->model->file, &io, e);
    g->weight_cache = op->id.copy;
    return rc;
}

/* Opens all but the weights; starts reading digest and vocabulary. Heads wait for the model's
 * digest; without heads it can be read while the weights are loaded. With --verify off it is
 * unknown, and heads of the right shape are accepted. *out may be set on failure, too: finish()
 * closes it. */
static int prepare(struct engine **out, struct opening *op, const struct engine_opts *o, bool told,
                   struct err *e)
{
    struct engine *g = *out = memory_new(1, sizeof *g);
    *op = (struct opening){0};
    int rc = choose_kernels(g, o, e);
    if (!rc) rc = open_model(g, o, e);
    if (rc) return rc;
    g->model->maps_experts = o->experts == ENGINE_EXPERTS_FILE && model_experts_of(g->model);
    tokenizer_thread_begin(&op->vocabulary, g->model->file);
    g->heads_declined = o->heads.none;
    /* a wrong name is reported before anything is read */
    rc = o->template_name && !chat_template_known(o->template_name, e) ? ERR_USAGE : 0;
    if (!rc) rc = pool_open(&g->pool, o->threads, e);
    if (!rc) rc = begin_identity(g, op, o, told, e);
    if (!rc && wants_heads(o)) rc = identity_end(&op->id, g->pool, e);
    if (!rc && wants_heads(o)) rc = open_heads(g, o, op->id.known ? op->id.digest : NULL, e);
    if (!rc) open_fitted(g, o);
    return rc;
}

static int end_vocabulary(struct engine *g, struct opening *op, struct err *e)
{
    if (!op->vocabulary.running) return 0;
    int rc = tokenizer_thread_end(&op->vocabulary, &g->tokenizer, e);
    if (rc || tokenizer_n_vocab(g->tokenizer) == g->model->n_vocab) return rc;
    return err_set(e, ERR_FORMAT, "%s: tokenizer and model disagree on the vocabulary",
                   gguf_name(g->model->file));
}

static int choose_template(struct engine *g, const struct engine_opts *o, struct err *e)
{
    struct chat_choice choice;
    int rc =
        chat_choose(&choice, o->template_name, o->template_was, g->model->file, g->tokenizer, e);
    if (rc) return rc;
    g->template = choice.template;
    g->thoughts = choice.thoughts;
    g->is_base = choice.is_base;
    snprintf(g->notice, sizeof g->notice, "%s", choice.notice);
    return 0;
}

/* rc: the result so far. Closes the engine on failure. */
static int finish(struct engine **out, struct opening *op, const struct engine_opts *o, int rc,
                  struct err *e)
{
    struct engine *g = *out;
    if (!rc) rc = identity_end(&op->id, g->pool, e);
    if (!rc) memcpy(g->model_digest, op->id.digest, sizeof g->model_digest);
    int vocabulary = end_vocabulary(g, op, rc ? NULL : e);
    if (!rc) rc = vocabulary;
    identity_release(&op->id);
    if (!rc) rc = choose_template(g, o, e);
    if (!rc) return 0;
    engine_close(g);
    *out = NULL;
    return rc;
}

int engine_prepare(struct engine **out, const struct engine_opts *o, struct err *e)
{
    struct opening op;
    int rc = prepare(out, &op, o, true, e);
    return finish(out, &op, o, rc, e);
}

/* ---- loading --------------------------------------------------------------------------------- */

static int load_heads(struct engine *g, struct err *e)
{
    int rc = 0;
    if (!g->retaining) return 0;
    while (arena_make(&g->retaining_arena, "heads", &rc, e))
        retaining_plan(g->retaining, &g->retaining_arena);
    if (!rc) retaining_load(g->retaining);
    return rc;
}

int engine_copy_rate(const struct engine *g, double *out, struct err *e)
{
    return cuda_copy_rate(g->gpu, out, e);
}

/* Maps g->weight_cache, if it equals the packed model file; else it is removed, and g->weights.base
 * stays NULL. all: compare every byte. */
static int map_copy(struct engine *g, size_t bytes, bool all, engine_progress *progress, void *ctx,
                    struct err *e)
{
    if (g->weight_cache.bytes == 0) return 0;
    weight_cache_map(&g->weight_cache, &g->weights, bytes);
    if (g->weights.base) {
        int rc = g->model->maps_experts ? 0 : weight_cache_read(&g->weights, progress, ctx, e);
        if (!rc) model_plan(g->model, &g->weights);
        if (!rc && model_holds(g->model, g->pool, all)) return 0;
        arena_release(&g->weights);
        if (rc) return rc;
    }
    weight_cache_remove(&g->weight_cache);
    g->weight_cache.bytes = 0;
    return 0;
}

/* Packs the model file into a new copy. */
static int fill_copy(struct engine *g, const struct engine_opts *o, struct identity *id,
                     size_t bytes, engine_progress *progress, void *ctx, struct err *e)
{
    struct weight_cache_writer *w;
    struct arena a = {.tag = "weights"};
    struct err why;
    if (!o->weight_cache_dir || o->leaves_no_copy || g->model->as_f32)
        return err_set(e, ERR_USAGE,
                       "--experts file needs a copy of the packed weights on disk, %s; "
                       "--experts host keeps them in memory",
                       g->model->as_f32      ? "which --weights f32 does not have"
                       : o->weight_cache_dir ? "which a private chat does not write"
                                             : "which --no-weight-cache forbids");
    int rc = identity_end(id, g->pool, e);
    if (!rc && !id->known)
        rc =
            err_set(e, ERR_USAGE, "--experts file needs the model's digest: not with --verify off");
    if (!rc) rc = weight_cache_fill_begin(&w, o->weight_cache_dir, &id->now, &a, bytes, e);
    if (rc) return rc;
    model_plan(g->model, &a);
    rc = model_load(g->model, g->pool, progress, ctx, e);
    const int end = weight_cache_fill_end(w, &a, !rc, rc ? &why : e);
    if (!rc) rc = end;
    if (!rc) weight_cache_find(&g->weight_cache, o->weight_cache_dir, &id->now);
    return rc;
}

/* Maps the copy of the packed weights, which has all of them in the CPU's layout, and is made first
 * if there is none. */
static int map_experts(struct engine *g, const struct engine_opts *o, struct identity *id,
                       engine_progress *progress, void *ctx, struct err *e)
{
    struct model *m = g->model;
    const int n = m->n_device, n_experts = m->n_device_experts;
    struct arena a;
    if (!m->maps_experts) return 0;
    model_place(m, 0, 0);
    arena_init_plan(&a, "weights");
    model_plan(m, &a);
    g->weights.tag = a.tag;
    int rc = map_copy(g, a.used, false, NULL, NULL, e);
    if (!rc && !g->weights.base) rc = fill_copy(g, o, id, a.used, progress, ctx, e);
    if (!rc && !g->weights.base) rc = map_copy(g, a.used, false, NULL, NULL, e);
    if (!rc && !g->weights.base)
        rc = err_set(e, ERR_FAIL, "%s: the copy of the weights cannot be mapped",
                     o->weight_cache_dir);
    model_place(m, n, n_experts);
    return rc;
}

static int load_weights(struct engine *g, engine_progress *progress, void *ctx, struct err *e)
{
    struct arena a;
    if (g->weights.base) return 0;
    arena_init_plan(&a, "weights");
    model_plan(g->model, &a);
    g->weights.tag = a.tag;
    if (g->gpu) g->weight_cache.bytes = 0; /* it has all weights in the CPU's layout */
    int rc = map_copy(g, a.used, false, progress, ctx, e);
    if (g->weights.base) gguf_forget_data(g->model->file);
    if (rc || g->weights.base) return rc;
    rc = arena_init(&g->weights, a.tag, a.used, e);
    if (rc) return rc;
    model_plan(g->model, &g->weights);
    return model_load(g->model, g->pool, progress, ctx, e);
}

/* All weights on the GPU, or the first layers' there and the others here, or experts here. */
static int load_gpu(struct engine *g, engine_progress *progress, void *ctx, struct err *e)
{
    const bool split = model_is_split(g->model);
    int rc = load_heads(g, e);
    if (!rc && (split || model_n_host_experts(g->model))) rc = load_weights(g, progress, ctx, e);
    if (!rc) rc = cuda_load(g->gpu, g->model, g->retaining, g->pool, progress, ctx, e);
    if (!split && g->retaining && cuda_runs_heads(g->retaining)) arena_release(&g->retaining_arena);
    return rc;
}

enum engine_copy engine_check_copy(struct engine *g, const struct engine_opts *o)
{
    struct file_identity now;
    struct arena a;
    bool possible = o->model && o->weight_cache_dir && !g->model->as_f32;
    if (!possible || file_identity_read(&now, o->model, NULL)) return ENGINE_COPY_NONE;
    if (!weight_cache_find(&g->weight_cache, o->weight_cache_dir, &now)) return ENGINE_COPY_NONE;
    arena_init_plan(&a, "weights");
    model_plan(g->model, &a);
    map_copy(g, a.used, true, NULL, NULL, NULL);
    arena_release(&g->weights);
    return g->weight_cache.bytes ? ENGINE_COPY_SAME : ENGINE_COPY_REMOVED;
}

static int load_cpu(struct engine *g, engine_progress *progress, void *ctx, struct err *e)
{
    int rc = load_weights(g, progress, ctx, e);
    return rc ? rc : load_heads(g, e);
}

/* After a failure of the GPU, which e says; rc if that is an error. */
static int load_instead(struct engine *g, int rc, engine_progress *progress, void *ctx,
                        struct err *e)
{
    if (!rc || rc == ERR_STOP || !g->gpu || !g->gpu_may_fail) return rc;
    engine_leave_gpu(g, e);
    if (!g->model->maps_experts) arena_release(&g->weights); /* a copy has all of them */
    arena_release(&g->retaining_arena);
    return load_cpu(g, progress, ctx, e);
}

int engine_load(struct engine *g, engine_progress *progress, void *ctx, struct err *e)
{
    if (!g->gpu) return load_cpu(g, progress, ctx, e);
    return load_instead(g, load_gpu(g, progress, ctx, e), progress, ctx, e);
}

/* The first answer's first token is over by then, mostly. */
#define CHECK_DELAY_MS 3000

bool engine_is_damaged(const struct engine *g, char why[256])
{
    const int64_t at = weight_check_damage(g->check);
    if (at >= 0)
        snprintf(why, 256,
                 "the copy of this model's weights on the disk was damaged (MiB %lld of %zu) and "
                 "was removed; answers since the start may be wrong",
                 (long long)(at >> 20), g->weight_cache.bytes >> 20);
    return at >= 0;
}

/* Only for a registered model, so that private mode leaves no copy. */
static void start_writing(struct engine *g, const struct identity *id, const char *dir)
{
    struct weight_cache there;
    if (!id->opts.registry || !id->known || !dir || g->gpu || g->model->as_f32) return;
    if (g->model->maps_experts) return;
    if (weight_cache_find(&there, dir, &id->now) &&
        !memcmp(there.model.digest, id->now.digest, DIGEST_BYTES))
        return;
    g->writer = weight_cache_write_begin(dir, &id->now, &g->weights);
}

/* The embedded model learned with units of 4 bits and needs none. */
static int open_centres(struct engine *g, const struct engine_opts *o, const struct identity *id,
                        engine_progress *progress, void *ctx, struct err *e)
{
    const bool keep = id->opts.registry && id->known && !o->leaves_no_copy;
    const char *dir = g->model->as_f32 ? NULL : o->weight_cache_dir;
    const bool gpu = g->gpu;
    int rc = o->model ? centre_open(g, dir, keep, progress, ctx, e) : 0;
    rc = load_instead(g, rc, progress, ctx, e);
    return rc || g->gpu || !gpu ? rc : centre_open(g, dir, keep, progress, ctx, e);
}

int engine_open(struct engine **out, const struct engine_opts *o, const struct plan_opts *plans,
                int n_plans, engine_progress *progress, void *ctx, struct err *e)
{
    struct opening op;
    int rc = prepare(out, &op, o, false, e);
    struct engine *g = *out;
    if (!rc) rc = engine_choose_device(g, o, plans, n_plans, progress, ctx, e);
    if (!rc && !g->gpu) rc = engine_check_plans(g, plans, n_plans, pool_n_threads(g->pool), e);
    if (!rc) rc = map_experts(g, o, &op.id, progress, ctx, e);
    if (!rc) rc = engine_load(g, progress, ctx, e);
    rc = finish(out, &op, o, rc, e);
    if (rc) return rc;
    rc = open_centres(g, o, &op.id, progress, ctx, e);
    start_writing(g, &op.id, o->weight_cache_dir);
    if (g->weights.base && g->weight_cache.bytes)
        g->check = weight_check_begin(&g->weight_cache, &g->weights, g->model->maps_experts,
                                      CHECK_DELAY_MS);
    if (!rc) return 0;
    engine_close(g);
    *out = NULL;
    return rc;
}

void engine_close(struct engine *g)
{
    if (!g) return;
    weight_check_end(g->check);
    weight_cache_write_end(g->writer);
    cuda_close(g->gpu);
    model_close(g->model);
    retaining_close(g->retaining);
    chat_template_close(g->template);
    tokenizer_close(g->tokenizer);
    pool_close(g->pool);
    arena_release(&g->weights);
    arena_release(&g->retaining_arena);
    centre_close(g);
    free(g);
}
