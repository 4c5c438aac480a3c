#include "runtime/forward/engine.h"

#include <ctype.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/pool.h"
#include "cli/options.h"
#include "runtime/cuda/cuda.h"
#include "runtime/forward/gpu_check.h"
#include "runtime/forward/plan.h"
#include "runtime/model/checksum.h"
#include "runtime/model/demo.h"
#include "runtime/session/conversations.h"
#include "store/store.h"

/* ---- files and their digests ----------------------------------------------------------------- */

static int open_file(struct gguf **out, const char *path, const unsigned char *demo,
                     const unsigned char *demo_end, const char *demo_name, struct err *e)
{
    if (path) return gguf_open(out, path, e);
    return gguf_open_bytes(out, demo, (size_t)(demo_end - demo), demo_name, e);
}

static void digest_of(const struct gguf *g, char hex[65])
{
    uint8_t digest[STORE_DIGEST_BYTES];
    size_t n;
    const void *bytes = gguf_bytes(g, &n);
    store_digest(digest, bytes, n);
    store_digest_hex(hex, digest);
}

static int stat_model(const char *path, struct store_model *m, struct err *e)
{
    struct stat st;
    char *real = realpath(path, NULL);
    if (!real || stat(real, &st)) {
        free(real);
        return err_set(e, ERR_FORMAT, "%s cannot be found any more", path);
    }
    *m = (struct store_model){.size = st.st_size,
                              .mtime_ns = st.st_mtim.tv_sec * 1000000000LL + st.st_mtim.tv_nsec,
                              .inode = (int64_t)st.st_ino};
    snprintf(m->path, sizeof m->path, "%s", real);
    free(real);
    return 0;
}

enum verify { VERIFY_SAMPLE, VERIFY_FULL, VERIFY_OFF };

static enum verify verify_of(const struct options *o)
{
    if (!o->verify || !strcmp(o->verify, "sample")) return VERIFY_SAMPLE;
    return strcmp(o->verify, "off") ? VERIFY_FULL : VERIFY_OFF;
}

/* What is known of the model file before a byte of it is read. */
struct identity {
    const char *path;    /* as it was given; NULL = the embedded demo */
    struct store *store; /* where models are registered, or NULL */
    bool accept;
    bool seen_before;
    bool known; /* now.digest is filled */
    struct store_model now, seen;
    bool pending;             /* the digest is not known yet */
    struct checksum *reading; /* what reads it, NULL = nobody: the parts may be as they were */
    uint8_t (*parts)[STORE_DIGEST_BYTES];
    uint8_t *seen_parts; /* as many, or NULL */
};

static void identity_release(struct identity *id)
{
    checksum_close(id->reading);
    free(id->parts);
    free(id->seen_parts);
}

static void know_digest(struct engine *g, struct identity *id, const uint8_t *digest)
{
    memcpy(id->now.digest, digest, sizeof id->now.digest);
    store_digest_hex(g->model_digest, digest);
    id->known = true;
}

/* The digests of a registered file's parts are compared later, by the pool; that of the whole file
 * is read on a thread from now on. */
static int reading_begin(struct engine *g, struct identity *id, struct err *e)
{
    size_t n = checksum_n_parts(g->model->file), n_seen = 0;
    int rc = 0;
    id->pending = true;
    id->parts = calloc(n, sizeof *id->parts);
    if (!id->parts) return err_set(e, ERR_FAIL, "out of memory for the model's digests");
    if (id->seen_before && id->seen.size == id->now.size)
        rc = store_model_parts(id->store, id->now.path, &id->seen_parts, &n_seen, e);
    if (n_seen == n) return rc;
    free(id->seen_parts);
    id->seen_parts = NULL;
    return rc ? rc : checksum_begin(&id->reading, g->model->file, e);
}

/* Fills g->model_digest if it need not be read: for a file whose size, time and inode are those of
 * the registered one, or of the one that g->packed was made of, or when nothing is to be verified,
 * or not wanted and no registry waits for it: then the tensors' own digests are all that is held
 * against the file. Else reading begins, and what is read is packed, not an older copy. */
static int digest_begin(struct engine *g, struct identity *id, const struct options *o,
                        struct conversations *l, bool wanted, struct err *e)
{
    *id = (struct identity){.path = o->model,
                            .store = o->model && l ? conversations_store(l) : NULL,
                            .accept = o->accept_model};
    enum verify verify = verify_of(o);
    int rc = id->path ? stat_model(id->path, &id->now, e) : 0;
    if (!rc && id->store) rc = store_model_find(id->store, id->now.path, &id->seen, e);
    if (rc < 0) return rc;
    id->seen_before = rc > 0;
    bool same = id->seen_before && id->seen.size == id->now.size &&
                id->seen.mtime_ns == id->now.mtime_ns && id->seen.inode == id->now.inode;
    bool packed = id->path && o->packed && !g->model->as_f32 && verify != VERIFY_FULL &&
                  weight_cache_find(&g->packed, o->packed, &id->now);
    if (same && verify != VERIFY_FULL) {
        know_digest(g, id, id->seen.digest);
        if (memcmp(g->packed.model.digest, id->seen.digest, STORE_DIGEST_BYTES))
            g->packed.bytes = 0;
        return 0;
    }
    if (packed && (!id->store || verify == VERIFY_OFF)) {
        know_digest(g, id, g->packed.model.digest);
        return 0;
    }
    g->packed.bytes = 0;
    wanted = wanted || id->store || verify == VERIFY_FULL;
    if (id->path && (verify == VERIFY_OFF || !wanted)) {
        id->pending = verify != VERIFY_OFF;
        /* No digest, but a name for saved caches to belong to. */
        snprintf(g->model_digest, sizeof g->model_digest, "unread-%llx-%llx-%llx",
                 (unsigned long long)id->now.size, (unsigned long long)id->now.mtime_ns,
                 (unsigned long long)id->now.inode);
        return 0;
    }
    return reading_begin(g, id, e);
}

static int changed_since(const struct engine *g, const struct identity *id,
                         const struct gguf_tensor *bad, struct err *e)
{
    char old[65];
    store_digest_hex(old, id->seen.digest);
    if (bad)
        return err_set(e, ERR_FORMAT,
                       "%s has changed since it was first used: its digest was %s and is %s now; "
                       "tensor %s is damaged",
                       id->path, old, g->model_digest, gguf_show(bad->name).text);
    return err_set(e, ERR_FORMAT,
                   "%s has changed since it was first used: its digest was %s and is %s now; if "
                   "you meant to replace it, say --accept-model",
                   id->path, old, g->model_digest);
}

/* A file whose content changed is refused until the person accepts it, because saved caches and
 * heads belong to the old one; one that contradicts itself always. */
static int check_digest(struct engine *g, struct identity *id, struct err *e)
{
    const struct gguf_tensor *bad;
    int rc = checksum_tensors(g->model->file, g->pool, &bad, e);
    if (rc) return rc;
    bool changed = id->seen_before && memcmp(id->now.digest, id->seen.digest, STORE_DIGEST_BYTES);
    if (changed && !id->accept) return changed_since(g, id, bad, e);
    if (bad)
        return err_set(e, ERR_FORMAT,
                       "%s is damaged: tensor %s does not have the digest it was written with; "
                       "get the file again",
                       gguf_name(g->model->file), gguf_show(bad->name).text);
    return 0;
}

static int read_digest(struct engine *g, struct identity *id, struct err *e)
{
    uint8_t digest[STORE_DIGEST_BYTES];
    int rc = id->reading ? 0 : checksum_begin(&id->reading, g->model->file, e);
    if (rc) return rc;
    checksum_end(id->reading, digest);
    know_digest(g, id, digest);
    return check_digest(g, id, e);
}

/* Waits for what is being read, if anything is; a second time does nothing. */
static int digest_end(struct engine *g, struct identity *id, struct err *e)
{
    size_t n = checksum_n_parts(g->model->file);
    if (!id->pending) return 0;
    id->pending = false;
    if (!id->parts) return check_digest(g, id, e);
    int rc = id->store ? checksum_parts(g->model->file, g->pool, id->parts, e) : 0;
    if (!rc && id->seen_parts && !memcmp(id->parts, id->seen_parts, n * sizeof *id->parts))
        know_digest(g, id, id->seen.digest);
    else if (!rc)
        rc = read_digest(g, id, e);
    if (rc || !id->store) return rc;
    return store_model_put(id->store, &id->now, id->parts, n, e);
}

/* ---- the vocabulary -------------------------------------------------------------------------- */

/* A large vocabulary takes as long as the weights: it is read on a thread of its own. */
struct vocabulary {
    pthread_t thread;
    bool running, threaded;
    const struct gguf *file;
    struct tokenizer *tokenizer;
    int rc;
    struct err e;
};

static void *read_vocabulary(void *arg)
{
    struct vocabulary *v = arg;
    v->rc = tokenizer_open(&v->tokenizer, v->file, &v->e);
    return NULL;
}

static void vocabulary_begin(struct vocabulary *v, const struct gguf *file)
{
    *v = (struct vocabulary){.file = file, .running = true};
    v->threaded = !pthread_create(&v->thread, NULL, read_vocabulary, v);
    if (!v->threaded) read_vocabulary(v);
}

/* Before the model is closed, also where opening fails; a second time does nothing. */
static int vocabulary_end(struct vocabulary *v, struct engine *g, struct err *e)
{
    if (!v->running) return 0;
    if (v->threaded) pthread_join(v->thread, NULL);
    v->running = false;
    g->tokenizer = v->tokenizer;
    if (v->rc) return err_set(e, v->rc, "%s", v->e.text);
    if (tokenizer_n_vocab(g->tokenizer) != g->model->n_vocab)
        return err_set(e, ERR_FORMAT, "%s: tokenizer and model disagree on the vocabulary",
                       gguf_name(g->model->file));
    return 0;
}

/* ---- opening --------------------------------------------------------------------------------- */

static int open_model(struct engine *g, const struct options *o, struct err *e)
{
    struct gguf *file;
    int rc = open_file(&file, o->model, demo_model, demo_model_end, DEMO_MODEL_NAME, e);
    bool as_f32 = o->weights && !strcmp(o->weights, "f32");
    if (!rc) rc = model_open(&g->model, file, as_f32, e);
    g->temperature = sampling_default().temperature;
    float own;
    bool has_own = !rc && gguf_get_f32(g->model->file, "general.sampling.temp", &own);
    if (has_own && own >= 0 && own <= 100) g->temperature = own; /* as --temp takes it */
    return rc;
}

static int choose_template(struct engine *g, const struct options *o, struct err *e)
{
    struct gguf_str source = {0};
    bool guessed;
    if (o->template_name) {
        g->template = chat_template_named(o->template_name);
        return g->template ? 0
                           : err_set(e, ERR_USAGE, "--template %s is not known; known are: %s",
                                     o->template_name, chat_template_names());
    }
    gguf_get_str(g->model->file, "tokenizer.chat_template", &source);
    g->template = chat_template_detect(source.data, source.n, &guessed);
    if (guessed)
        snprintf(g->notice, sizeof g->notice,
                 "%s has no chat template that is known; using %s (--template chooses another)",
                 g->model->name, chat_template_name(g->template));
    return 0;
}

static bool wants_heads(const struct options *o)
{
    return o->heads ? strcmp(o->heads, "none") != 0 : o->model == NULL;
}

/* digest: the model's; NULL = not known */
static int open_heads(struct engine *g, const struct options *o, const char *digest, struct err *e)
{
    struct gguf *file;
    int rc = open_file(&file, o->heads, demo_heads, demo_heads_end, DEMO_HEADS_NAME, e);
    if (!rc) rc = retaining_open(&g->heads, file, e);
    if (!rc) rc = retaining_check(g->heads, g->model, digest, e);
    if (!rc) digest_of(g->heads->file, g->heads_digest);
    return rc;
}

static int choose_kernels(struct engine *g, const struct options *o, struct err *e)
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

/* The ordinal of "cuda:N"; -1 for cpu, 0 for auto. */
static bool named_device(const char *name, int *ordinal)
{
    char *end;
    *ordinal = strcmp(name, "cpu") ? 0 : -1;
    if (!strcmp(name, "cpu") || !strcmp(name, "auto") || !strcmp(name, "cuda")) return true;
    if (strncmp(name, "cuda:", 5) || !isdigit((unsigned char)name[5])) return false;
    long n = strtol(name + 5, &end, 10);
    *ordinal = (int)n;
    return *end == '\0' && n < 1024;
}

static int check_choices(const struct options *o, struct err *e)
{
    int ordinal;
    if (o->device && !named_device(o->device, &ordinal))
        return err_set(e, ERR_USAGE, "--device %s: expected auto, cpu, cuda or cuda:N", o->device);
    if (o->weights && strcmp(o->weights, "file") && strcmp(o->weights, "f32"))
        return err_set(e, ERR_USAGE, "--weights %s: expected file or f32", o->weights);
    return 0;
}

/* What runs beside the opening of an engine. */
struct opening {
    struct identity id;
    struct vocabulary vocabulary;
};

/* Everything but weights; digest and vocabulary are begun. told: the caller shows the digest. Heads
 * are bound to the model's digest, so they wait for it; without any it can be read while the
 * weights are loaded. With --verify off nobody knows it, and heads of the right shape are believed.
 * *out may be set on failure, too: finish() closes it. */
static int prepare(struct engine **out, struct opening *op, const struct options *o,
                   struct conversations *l, bool told, struct err *e)
{
    struct engine *g = calloc(1, sizeof *g);
    *out = g;
    *op = (struct opening){0};
    if (!g) return err_set(e, ERR_FAIL, "out of memory for the engine");
    int rc = check_choices(o, e);
    if (!rc) rc = choose_kernels(g, o, e);
    if (!rc) rc = open_model(g, o, e);
    if (rc) return rc;
    vocabulary_begin(&op->vocabulary, g->model->file);
    rc = choose_template(g, o, e);
    if (!rc) rc = pool_open(&g->pool, o->threads, e);
    if (!rc) rc = digest_begin(g, &op->id, o, l, told || wants_heads(o), e);
    if (!rc && wants_heads(o)) rc = digest_end(g, &op->id, e);
    if (!rc && wants_heads(o)) rc = open_heads(g, o, op->id.known ? g->model_digest : NULL, e);
    return rc;
}

/* rc: how far it went. */
static int finish(struct engine **out, struct opening *op, int rc, struct err *e)
{
    if (!rc) rc = digest_end(*out, &op->id, e);
    int vocabulary = vocabulary_end(&op->vocabulary, *out, rc ? NULL : e);
    if (!rc) rc = vocabulary;
    identity_release(&op->id);
    if (!rc) return 0;
    engine_close(*out);
    *out = NULL;
    return rc;
}

int engine_prepare(struct engine **out, const struct options *o, struct conversations *l,
                   struct err *e)
{
    struct opening op;
    int rc = prepare(out, &op, o, l, true, e);
    return finish(out, &op, rc, e);
}

/* As options_list_item; no list has one item, NULL. */
static bool item_of(const char *list, int i, char out[64], const char **item)
{
    *item = list ? out : NULL;
    return list ? options_list_item(list, i, out, 64) : i == 0;
}

/* Plans each combination of lists (eval), so that none is refused after the first was run. */
static int plan_all(struct engine *g, const struct options *o, int n_threads, struct err *e)
{
    char policy[64], budget[64], kv[64];
    struct options one = *o;
    struct plan plan;
    int rc = 0;
    for (int i = 0; !rc && item_of(o->policy, i, policy, &one.policy); i++)
        for (int j = 0; !rc && item_of(o->budget, j, budget, &one.budget); j++)
            for (int k = 0; !rc && item_of(o->kv, k, kv, &one.kv); k++)
                rc = plan_make(&plan, g->model, g->heads, g->gpu, &one, 1, n_threads, e);
    return rc;
}

/* Says so when the driver is about to compile device code. */
static void announce_compiling(int ordinal, engine_progress *progress, void *ctx)
{
    enum { DEVICES_MAX = 64 };
    struct cuda_device all[DEVICES_MAX];
    struct err e;
    int n = progress ? cuda_devices(all, DEVICES_MAX, &e) : 0;
    if (ordinal < n && all[ordinal].image && !strcmp(all[ordinal].image, "ptx"))
        progress(ctx, 0, 0);
}

int engine_choose_device(struct engine *g, const struct options *o, engine_progress *progress,
                         void *ctx, struct err *e)
{
    bool automatic = !o->device || !strcmp(o->device, "auto");
    int ordinal = 0;
    if (!automatic) named_device(o->device, &ordinal);
    if (ordinal < 0) return 0;
    announce_compiling(ordinal, progress, ctx);
    int rc = cuda_open(&g->gpu, ordinal, e);
    if (!rc) rc = plan_all(g, o, 1, e);
    if (!rc && automatic) rc = gpu_check(0, e);
    if (!rc || !automatic) return rc;
    if (g->gpu)
        snprintf(g->device_notice, sizeof g->device_notice, "the GPU is not used: %s", e->text);
    cuda_close(g->gpu);
    g->gpu = NULL;
    return 0;
}

void engine_device_name(const struct engine *g, char *out, size_t bytes)
{
    const struct cuda_device *d = g->gpu ? cuda_device(g->gpu) : NULL;
    if (d)
        snprintf(out, bytes, "cuda:%d (%s, %s)", d->ordinal, d->name, d->image);
    else
        snprintf(out, bytes, "cpu (%s, %d threads)", g->kernels->isa, pool_n_threads(g->pool));
}

static int load_gpu(struct engine *g, engine_progress *progress, void *ctx, struct err *e)
{
    struct arena a;
    int rc = 0;
    arena_init_plan(&a, "heads");
    if (g->heads) retaining_plan(g->heads, &a);
    if (g->heads) rc = arena_init(&g->retaining_arena, "heads", a.used, e);
    if (rc) return rc;
    if (g->heads) retaining_plan(g->heads, &g->retaining_arena);
    if (g->heads) retaining_load(g->heads);
    rc = cuda_load(g->gpu, g->model, g->heads, g->pool, progress, ctx, e);
    arena_release(&g->retaining_arena);
    return rc;
}

/* Maps g->packed, if it holds what the model file gives; else it is removed, and g->weights.base
 * stays NULL. all: compare every byte. */
static int map_packed(struct engine *g, size_t bytes, bool all, engine_progress *progress,
                      void *ctx, struct err *e)
{
    if (g->packed.bytes == 0) return 0;
    int rc = weight_cache_map(&g->packed, &g->weights, bytes, progress, ctx, e);
    if (rc) return rc;
    if (g->weights.base) {
        model_plan(g->model, &g->weights);
        if (model_holds(g->model, g->pool, all)) return 0;
        arena_release(&g->weights);
    }
    weight_cache_remove(&g->packed);
    g->packed.bytes = 0;
    return 0;
}

static int load_weights(struct engine *g, engine_progress *progress, void *ctx, struct err *e)
{
    struct arena a;
    arena_init_plan(&a, "weights");
    model_plan(g->model, &a);
    g->weights.tag = a.tag;
    int rc = map_packed(g, a.used, false, progress, ctx, e);
    if (g->weights.base) gguf_forget_data(g->model->file);
    if (rc || g->weights.base) return rc;
    rc = arena_init(&g->weights, a.tag, a.used, e);
    if (rc) return rc;
    model_plan(g->model, &g->weights);
    return model_load(g->model, g->pool, progress, ctx, e);
}

enum engine_copy engine_check_copy(struct engine *g, const struct options *o)
{
    struct store_model now;
    struct arena a;
    bool possible = o->model && o->packed && !g->model->as_f32;
    if (!possible || stat_model(o->model, &now, NULL)) return ENGINE_COPY_NONE;
    if (!weight_cache_find(&g->packed, o->packed, &now)) return ENGINE_COPY_NONE;
    arena_init_plan(&a, "weights");
    model_plan(g->model, &a);
    map_packed(g, a.used, true, NULL, NULL, NULL);
    arena_release(&g->weights);
    return g->packed.bytes ? ENGINE_COPY_SAME : ENGINE_COPY_REMOVED;
}

int engine_load(struct engine *g, engine_progress *progress, void *ctx, struct err *e)
{
    struct arena a;
    if (g->gpu) return load_gpu(g, progress, ctx, e);
    int rc = load_weights(g, progress, ctx, e);
    if (rc || !g->heads) return rc;
    arena_init_plan(&a, "heads");
    retaining_plan(g->heads, &a);
    rc = arena_init(&g->retaining_arena, "heads", a.used, e);
    if (rc) return rc;
    retaining_plan(g->heads, &g->retaining_arena);
    retaining_load(g->heads);
    return 0;
}

/* For a model that is registered, so that nothing is kept in private mode. */
static void start_packing(struct engine *g, const struct identity *id, const struct options *o)
{
    struct weight_cache there;
    if (!id->store || !id->known || !o->packed || g->gpu || g->model->as_f32) return;
    if (weight_cache_find(&there, o->packed, &id->now) &&
        !memcmp(there.model.digest, id->now.digest, STORE_DIGEST_BYTES))
        return;
    g->packing = weight_cache_write_begin(o->packed, &id->now, &g->weights);
}

int engine_open(struct engine **out, const struct options *o, struct conversations *l,
                engine_progress *progress, void *ctx, struct err *e)
{
    struct opening op;
    int rc = prepare(out, &op, o, l, false, e);
    struct engine *g = *out;
    if (!rc) rc = engine_choose_device(g, o, progress, ctx, e);
    /* Refuse what does not fit before the first weight is read. */
    if (!rc && !g->gpu) rc = plan_all(g, o, pool_n_threads(g->pool), e);
    if (!rc) rc = engine_load(g, progress, ctx, e);
    rc = finish(out, &op, rc, e);
    if (!rc) start_packing(g, &op.id, o);
    return rc;
}

void engine_close(struct engine *g)
{
    if (!g) return;
    weight_cache_write_end(g->packing);
    cuda_close(g->gpu);
    model_close(g->model);
    retaining_close(g->heads);
    tokenizer_close(g->tokenizer);
    pool_close(g->pool);
    arena_release(&g->weights);
    arena_release(&g->retaining_arena);
    free(g);
}
