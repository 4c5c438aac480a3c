/* Each call of the CUDA driver fails, in conversations with all layers on the GPU, with some, with
 * experts on the host, with recurrent layers, and where the CPU scores: the error names the call,
 * and nothing is left allocated. With auto the CPU takes over.
 *
 * FAILURES=all in the environment: every call, not only the first two of a kind, one in the middle
 * and the last. */

#include "tests/emu/meet.h"

enum { OUT_OF_MEMORY = 2, ILLEGAL_ADDRESS = 700, CHUNK = 16, N_LOGITS = 4 };

static const char *const calls[] = {
    "cuInit",
    "cuDriverGetVersion",
    "cuDeviceGetCount",
    "cuDeviceGet",
    "cuDeviceGetName",
    "cuDeviceGetAttribute",
    "cuDeviceTotalMem",
    "cuDevicePrimaryCtxRetain",
    "cuCtxSetCurrent",
    "cuModuleLoadDataEx",
    "cuModuleGetFunction",
    "cuMemGetInfo",
    "cuMemAlloc",
    "cuMemHostAlloc",
    "cuMemcpyHtoDAsync",
    "cuMemcpyDtoHAsync",
    "cuMemcpyDtoDAsync",
    "cuMemsetD8Async",
    "cuStreamCreate",
    "cuStreamSynchronize",
    "cuStreamBeginCapture",
    "cuStreamEndCapture",
    "cuGraphInstantiateWithFlags",
    "cuGraphLaunch",
    "cuLaunchKernel",
    "cuLaunchCooperativeKernel",
};

enum { N_CALLS = sizeof calls / sizeof *calls };

static const struct scene {
    const char *name, *model, *policy;
    int gpu_layers;
    enum engine_experts experts;
    bool computes; /* the kernels run: the host uses what they choose */
} scenes[] = {
    {.name = "all layers", .policy = "keeper"},
    {.name = "two layers", .policy = "keeper", .gpu_layers = 2},
    {.name = "the CPU evicts", .model = "build/golden/families/exaone4.gguf", .policy = "keydiff"},
    {.name = "experts on the host",
     .model = "build/golden/families/qwen3moe.gguf",
     .policy = "keydiff",
     .experts = ENGINE_EXPERTS_HOST,
     .computes = true},
    {.name = "recurrent", .model = "build/golden/families/qwen35.gguf", .policy = "sink"},
    {.name = "recurrent, two layers",
     .model = "build/golden/families/qwen35.gguf",
     .policy = "sink",
     .gpu_layers = 2},
};

static struct options options_for(const struct scene *at, const char *device)
{
    struct options o = demo_options(device, at->policy);
    o.engine.model = at->model;
    o.engine.gpu_layers = at->gpu_layers;
    o.engine.experts = at->experts;
    o.session.plan.chunk = CHUNK;
    return o;
}

/* Lets the MTP layer propose, tries tokens, accepts one, and runs the one after it again. */
static int speculate(struct context *x, const int32_t *ids, struct err *e)
{
    struct mtp_guess guess;
    int rc = 0;
    if (context_try_max(x) < N_LOGITS) return 0;
    if (mtp_is_open(&x->mtp)) rc = mtp_read(&x->mtp, &x->cache, *ids, &guess, e);
    if (!rc && mtp_is_open(&x->mtp)) rc = mtp_read_proposal(&x->mtp, *ids, &guess, e);
    if (!rc) rc = context_try(x, ids, N_LOGITS, e);
    if (rc) return rc;
    context_accept(x);
    rc = context_run(x, ids, 1, 1, e);
    return rc ? rc : context_run_again(x, *ids, e);
}

static int draw(struct side *s, struct err *e)
{
    struct sampler_entry *scratch = malloc((size_t)s->engine->model->n_vocab * sizeof *scratch);
    struct sampling sampling = sampling_default();
    int32_t id;
    sampling.seed = 1;
    int rc = context_draw(&s->x, &sampling, NULL, 0, 0, scratch, &id, e);
    sampling.temperature = 0;
    if (!rc) rc = context_draw(&s->x, &sampling, NULL, 0, 0, scratch, &id, e);
    free(scratch);
    return rc;
}

/* All driver calls of a conversation: chunks, units to disk and back, an eviction, tokens alone and
 * tried, logits, candidates. counts [N_CALLS]: calls until then, without closing. */
static int everything(const struct scene *at, int *counts, struct err *e)
{
    const int32_t ids[CHUNK] = {0};
    struct options o = options_for(at, "cuda");
    const struct plan_opts *plan = &o.session.plan;
    struct side s = {0};
    int64_t n_evicted;
    float *logits;
    o.engine.weight_cache_dir = centres_folder; /* centres are known */
    int rc = engine_open(&s.engine, &o.engine, plan, 1, NULL, NULL, e);
    if (!rc) rc = context_open(&s.x, s.engine, plan, 1, N_LOGITS, e);
    for (int i = 0; !rc && i < 4; i++) rc = context_run(&s.x, ids, CHUNK, i == 3, e);
    if (!rc) rc = cache_fetch(&s.x.cache, 4 * CHUNK, e);
    if (!rc) rc = context_evict(&s.x, &n_evicted, e);
    if (!rc) rc = context_loaded(&s.x, e);
    for (int i = 0; !rc && i < 2; i++) rc = context_run(&s.x, ids, 1, 1, e);
    if (!rc) rc = cache_fetch_state(&s.x.cache, e);
    if (!rc) rc = speculate(&s.x, ids, e);
    if (!rc) rc = context_logits(&s.x, &logits, e);
    if (!rc) rc = draw(&s, e);
    for (int i = 0; counts && i < N_CALLS; i++) counts[i] = driver_calls(calls[i]);
    side_close(&s);
    return rc;
}

static bool allocates(const char *call)
{
    return !strcmp(call, "cuMemAlloc") || !strcmp(call, "cuMemHostAlloc");
}

static void check_failure(const struct scene *at, const char *call, int nth)
{
    const bool full = allocates(call);
    const bool early = !strcmp(call, "cuInit") || !strcmp(call, "cuDeviceGetCount");
    driver_fail(call, nth, full ? OUT_OF_MEMORY : ILLEGAL_ADDRESS);
    err = (struct err){0};
    if (everything(at, NULL, &err) != (full ? ERR_FIT : ERR_FAIL))
        fail_msg("%s: %s %d went unnoticed", at->name, call, nth);
    if (!strstr(err.text, call) || (!early && !strstr(err.text, "cuda:0")) ||
        (full && !strstr(err.text, "--device cpu")))
        fail_msg("%s: %s %d: said: %s", at->name, call, nth, err.text);
    if (driver_held()) fail_msg("%s: %s %d left %d things", at->name, call, nth, driver_held());
}

/* Calls of all scenes together: none of the table's is unused. */
TEST(failures)
{
    const bool all = getenv("FAILURES") && !strcmp(getenv("FAILURES"), "all");
    bool used[N_CALLS] = {0};
    for (size_t s = 0; s < sizeof scenes / sizeof *scenes; s++) {
        const struct scene *at = &scenes[s];
        const struct options o = options_for(at, "cuda");
        int n[N_CALLS], n_failed = 0;
        struct side measures;
        driver_fail(NULL, 0, 0);
        driver_watch(NULL, NULL, at->computes);
        if (side_open(&measures, &o, &err)) fail_msg("%s: %s", at->name, err.text);
        side_close(&measures);
        driver_fail(NULL, 0, 0);
        if (everything(at, n, &err)) fail_msg("%s: %s", at->name, err.text);
        for (int i = 0; i < N_CALLS; i++) {
            used[i] |= n[i] > 0;
            for (int nth = 1; nth <= n[i]; nth++) {
                if (!all && !allocates(calls[i]) && nth > 2 && nth != n[i] / 2 && nth != n[i])
                    continue;
                check_failure(at, calls[i], nth);
                n_failed++;
            }
        }
        printf("%s: %d failures\n", at->name, n_failed);
    }
    driver_fail(NULL, 0, 0);
    driver_watch(NULL, NULL, true);
    for (int i = 0; i < N_CALLS; i++)
        if (!used[i]) fail_msg("%s is never called", calls[i]);
}

/* Opens a model and runs a chunk, whose logits it copies. The nth call fails; 0: none. Returns how
 * often it was made until the model was loaded. */
static int run_chunk(const struct scene *at, const char *device, const char *call, int nth,
                     float **out)
{
    const int32_t ids[CHUNK] = {0};
    const struct options o = options_for(at, device);
    const struct plan_opts *plan = &o.session.plan;
    struct side s = {0};
    float *logits;
    driver_fail(nth ? call : NULL, nth, OUT_OF_MEMORY);
    int rc = engine_open(&s.engine, &o.engine, plan, 1, NULL, NULL, &err);
    const int n = driver_calls(call);
    if (!rc) rc = context_open(&s.x, s.engine, plan, 1, 1, &err);
    if (!rc) rc = context_run(&s.x, ids, CHUNK, 1, &err);
    if (!rc) rc = context_logits(&s.x, &logits, &err);
    if (rc) fail_msg("%s: %s %d: %s", at->name, call, nth, err.text);
    if (nth && (!strstr(s.engine->device_notice, "the GPU is not used: ") ||
                !strstr(s.engine->device_notice, call)))
        fail_msg("%s: %s %d: said: %s", at->name, call, nth, s.engine->device_notice);
    const size_t bytes = (size_t)s.engine->model->n_vocab * sizeof *logits;
    *out = memcpy(malloc(bytes), logits, bytes);
    side_close(&s);
    assert_int_equal(driver_held(), 0);
    return n;
}

/* With auto, the CPU runs the model if the driver or the memory fails while it is loaded. */
TEST(automatic)
{
    for (int i = 0; i < 4; i++) {
        const struct scene *at = &scenes[i];
        float *want, *got;
        if (i == 2) continue; /* is loaded as 0 */
        const int n = run_chunk(at, "auto", "cuMemcpyHtoDAsync", 0, &got);
        free(got);
        run_chunk(at, "cpu", "cuInit", 0, &want);
        const struct {
            const char *call;
            int nth;
        } failing[] = {{"cuModuleLoadDataEx", 1}, {"cuMemAlloc", 1}, {"cuMemcpyHtoDAsync", n}};
        for (int k = 0; k < 3; k++) {
            run_chunk(at, "auto", failing[k].call, failing[k].nth, &got);
            assert_memory_equal(got, want, 256 * sizeof *got);
            free(got);
        }
        free(want);
    }
    driver_fail(NULL, 0, 0);
}

static const struct scene quantized = {.model = "build/golden/data/random/small-q4_0.gguf",
                                       .policy = "sink"};

/* Logits of a chunk and of two tokens after it, on the GPU. The nth call, or with 0 each, is
 * refused; after_open: once the device is open. */
static float *refused_run(const char *call, int nth, int error, bool after_open, char *notice)
{
    const int32_t ids[CHUNK] = {0};
    struct options o = options_for(&quantized, "cuda");
    const struct plan_opts *plan = &o.session.plan;
    struct side s = {0};
    float *logits;
    o.engine.weight_cache_dir = centres_folder;
    driver_fail(after_open ? NULL : call, nth, error);
    int rc = engine_open(&s.engine, &o.engine, plan, 1, NULL, NULL, &err);
    if (after_open) driver_fail(call, nth, error);
    if (!rc) rc = context_open(&s.x, s.engine, plan, 1, 1, &err);
    if (!rc) rc = context_run(&s.x, ids, CHUNK, 1, &err);
    for (int i = 0; !rc && i < 2; i++) rc = context_run(&s.x, ids + i, 1, 1, &err);
    if (!rc) rc = context_logits(&s.x, &logits, &err);
    if (rc) fail_msg("%s %d refused: %s", call, nth, err.text);
    assert_true(driver_calls(call) >= (nth ? nth : 1));
    const size_t bytes = (size_t)s.engine->model->n_vocab * sizeof *logits;
    float *out = memcpy(malloc(bytes), logits, bytes);
    snprintf(notice, 600, "%s", s.engine->device_notice);
    side_close(&s);
    driver_fail(NULL, 0, 0);
    assert_int_equal(driver_held(), 0);
    return out;
}

/* A driver that refuses chains, records or a launch computes the same; what is refused for good is
 * told once, when the model is opened. */
TEST(refusals)
{
    enum { VALUE = 1, RESOURCES = 701, TOO_MANY = 720, UNSUPPORTED = 801, INVALIDATED = 901 };
    static const struct {
        const char *call;
        int nth, error;
        bool after_open;
        const char *notice;
    } cases[] = {
        {"cuDeviceGetAttribute", 5, VALUE, false, "refuses chains"},
        {"cuOccupancyMaxActiveBlocksPerMultiprocessor", 1, UNSUPPORTED, false, "refuses chains"},
        {"cuLaunchCooperativeKernel", 0, TOO_MANY, false, "refuses chains"},
        {"cuStreamBeginCapture", 0, UNSUPPORTED, false, "records no launches"},
        {"cuStreamEndCapture", 0, INVALIDATED, false, "records no launches"},
        {"cuGraphInstantiateWithFlags", 0, UNSUPPORTED, false, "records no launches"},
        {"cuLaunchCooperativeKernel", 0, TOO_MANY, true, ""},
        {"cuGraphInstantiateWithFlags", 1, RESOURCES, true, ""},
    };
    char notice[600];
    float *want = refused_run(NULL, 0, 0, false, notice);
    assert_string_equal(notice, "");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        float *got =
            refused_run(cases[i].call, cases[i].nth, cases[i].error, cases[i].after_open, notice);
        assert_memory_equal(got, want, 256 * sizeof *got);
        if (!strstr(notice, cases[i].notice) || (!*cases[i].notice && *notice))
            fail_msg("%s: said: %s", cases[i].call, notice);
        free(got);
    }
    for (int nth = 1; nth < 40; nth += 7) {
        float *got = refused_run("cuLaunchKernel", nth, RESOURCES, true, notice);
        assert_memory_equal(got, want, 256 * sizeof *got);
        free(got);
    }
    free(want);
}

AROUND_TESTS(load_driver, NULL)
