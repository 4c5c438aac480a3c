/* The CUDA backend as the program runs it, on the emulated driver (driver.h): its arithmetic
 * compared with the CPU's, and what fits. */
#include <dlfcn.h>
#include <sys/mman.h>

#include "kernels/cuda/images.h"
#include "runtime/cuda/parts.h"
#include "tests/emu/copy_cache.h"
#include "tests/emu/meet.h"

/* ---- arithmetic ----------------------------------------------------------------------------- */

/* Retaining heads score the newest n units, which were run alone, with the same numbers. */
static void score_both(struct side *cpu, struct side *gpu, int n)
{
    const struct cache *a = &cpu->x.cache, *b = &gpu->x.cache;
    assert_int_equal(b->n_unscored, n);
    context_score(&cpu->x);
    context_score(&gpu->x);
    for (int i = 0; i < a->shape.n_layer * a->shape.n_head; i++) {
        const int at = a->kv_heads[i].len - n;
        assert_true(relative(b->kv_heads[i].score + at, a->kv_heads[i].score + at, (size_t)n) <
                    1e-4);
    }
}

TEST(forward)
{
    static const char *const policies[] = {"locret", "keeper", "keydiff+global"};
    for (size_t p = 0; p < sizeof policies / sizeof *policies; p++) {
        AUTO_SIDE cpu, gpu;
        struct inputs in = {0};
        int32_t ids[67];
        open_both(&cpu, &gpu, policies[p]);
        meet_begin(&in, &cpu, &gpu);
        some_ids(ids, 67, &cpu);
        step(&cpu, &gpu, &in, ids, 32, "a chunk");
        step(&cpu, &gpu, &in, ids + 32, 29, "a second chunk");
        evict_both(&cpu, &gpu);
        step(&cpu, &gpu, &in, ids + 61, 3, "three tokens after an eviction");
        for (int i = 0; i < (p ? 1 : 3); i++) step(&cpu, &gpu, &in, ids + 64 + i, 1, "a token");
        if (!p) score_both(&cpu, &gpu, 3);
        meet_end();
    }
    assert_int_equal(driver_held(), 0);
}

/* Scores do not depend on how many tokens were scored together, and the device has those of the
 * host. */
TEST(batches)
{
    enum { ALL = 16, EACH = 4 };
    struct side all, each;
    struct options o = demo_options("cuda", "locret");
    int64_t n_evicted;
    float before[ALL];
    o.session.plan.budget = 12;
    if (side_open(&all, &o, &err) || side_open(&each, &o, &err)) fail_msg("%s", err.text);
    for (int i = 0; i < ALL; i++) {
        const int32_t id = (i * 37 + 11) % all.engine->model->n_vocab;
        run(&all, &id, 1);
        if (i >= EACH) continue;
        run(&each, &id, 1);
        context_score(&each.x);
    }
    assert_int_equal(all.x.cache.n_unscored, ALL);
    context_score(&all.x);
    const struct cache_head *h = all.x.cache.kv_heads;
    for (int i = 0; i < all.x.cache.shape.n_layer * all.x.cache.shape.n_head; i++)
        assert_memory_equal(h[i].score, each.x.cache.kv_heads[i].score, EACH * sizeof(float));
    memcpy(before, h->score, sizeof before);
    assert_true(before[0] != 0.0f && before[ALL - 1] != 0.0f);
    ok(context_evict(&all.x, &n_evicted, &err));
    assert_true(n_evicted > 0);
    for (int i = 0; i < h->len; i++) assert_true(h->score[i] == before[h->pos[i]]);
    side_close(&each);
    driver_watch(NULL, NULL, false); /* only counts from here on */
    for (int i = 0; i < CACHE_UNSCORED_MAX; i++) {
        int32_t id = 1;
        assert_int_equal(all.x.cache.n_unscored, i);
        driver_fail(NULL, 0, 0);
        run(&all, &id, 1);
    }
    assert_int_equal(all.x.cache.n_unscored, 0);
    const int n_layer = all.engine->model->n_layer; /* the token's launches, then two per layer */
    assert_int_equal(driver_calls(NULL), 2 * n_layer + 3 + 2 * n_layer);
    driver_watch(NULL, NULL, true);
    side_close(&all);
}

/* Tokens one by one, by one graph, into a second page of units that have no separate kernel. */
TEST(grows)
{
    AUTO_SIDE cpu, gpu;
    struct inputs in = {0};
    struct options o = demo_options("cpu", "sink"), g = demo_options("cuda", "sink");
    int32_t ids[67];
    plan_kv_named("q8:q5", &o.session.plan.kv);
    plan_kv_named("q8:q5", &g.session.plan.kv);
    if (side_open(&cpu, &o, &err) || side_open(&gpu, &g, &err)) fail_msg("%s", err.text);
    meet_begin(&in, &cpu, &gpu);
    some_ids(ids, 67, &cpu);
    for (int at = 0, n = 32; at < 67; at += n, n = at < 63 ? 31 : 1)
        step(&cpu, &gpu, &in, ids + at, n, "units of 8 and 5 bits");
    meet_end();
}

/* The device measures the same centres, but for the rounding of its units and activations. */
TEST(centres)
{
    struct engine *g[2];
    for (int k = 0; k < 2; k++) {
        struct options o = demo_options(k ? "cuda" : "cpu", "sink");
        o.engine.model = "build/golden/families/granite.gguf";
        ok(engine_open(&g[k], &o.engine, &o.session.plan, 1, NULL, NULL, &err));
    }
    const struct model *m = g[0]->model;
    const size_t n = (size_t)(m->n_kv_layer * m->n_kv_head * 3 * m->head_dim);
    const double off = relative(g[1]->model->centres->mean, m->centres->mean, n);
    printf("centres differ by %.1e of their size\n", off);
    assert_true(off < 2e-2);
    for (int k = 0; k < 2; k++) engine_close(g[k]);
    assert_int_equal(driver_held(), 0);
}

/* The first n[i] units of head i are the same. */
static void check_units(struct side *cpu, struct side *gpu, const int *n)
{
    const struct cache *a = &cpu->x.cache, *b = &gpu->x.cache;
    ok(cache_fetch(b, cache_len_max(b), &err));
    for (int i = 0; i < a->shape.n_layer * a->shape.n_head; i++) {
        const struct cache_head *want = &a->kv_heads[i], *got = &b->kv_heads[i];
        assert_int_equal(got->len, want->len);
        assert_memory_equal(got->score, want->score, (size_t)n[i] * sizeof *want->score);
        assert_memory_equal(got->k, want->k, (size_t)n[i] * a->k_bytes);
        assert_memory_equal(got->v, want->v, (size_t)n[i] * a->v_bytes);
    }
}

/* Scores that are often equal, in one head and in all, and some heads with most of the best: after
 * the eviction heads need more pages than before, or fewer. */
TEST(ties)
{
    static const char *const policies[] = {"keeper", "keydiff+global"};
    for (int p = 0; p < 2; p++) {
        AUTO_SIDE cpu, gpu;
        int32_t ids[96];
        int kept[64];
        side_open_plain(&cpu, "cpu", policies[p]);
        side_open_plain(&gpu, "cuda", policies[p]);
        some_ids(ids, 96, &cpu);
        for (int i = 0; i < 96; i += 32) run(&cpu, ids + i, 32);
        const struct cache *c = &cpu.x.cache;
        const int n_heads = c->shape.n_layer * c->shape.n_head;
        assert_true(n_heads <= 64);
        for (int times = 0; times < 2; times++) {
            context_score(&cpu.x);
            for (int i = 0; i < n_heads; i++)
                for (int s = 0; s < c->kv_heads[i].len; s++)
                    c->kv_heads[i].score[s] = (float)((i + s * 7) % 3 + (i % 3 == times ? 2 : 0));
            copy_cache(&gpu.x.cache, c);
            ok(context_loaded(&gpu.x, &err));
            evict_both(&cpu, &gpu);
            for (int i = 0; i < n_heads; i++) kept[i] = c->kv_heads[i].len;
            check_units(&cpu, &gpu, kept);
            for (int i = 0; i < 64; i += 32) {
                run(&cpu, ids + i, 32);
                run(&gpu, ids + i, 32);
            }
            check_units(&cpu, &gpu, kept);
        }
    }
    assert_int_equal(driver_held(), 0);
}

/* The CPU with weights of attention's norms that are off by this part of themselves. */
static void open_off(struct side *s, float by)
{
    const struct options o = demo_options("cpu", "full");
    ok(side_open(s, &o, &err));
    const struct model *m = s->engine->model;
    for (int l = 0; l < m->n_layer; l++)
        for (int i = 0; i < m->n_embd; i++)
            ((float *)m->layers[l].attn_norm)[i] *= i % 2 ? 1 + by : 1 - by;
}

/* Without such replacements, the device is no further from the CPU than the CPU is from itself when
 * the weights of its norms are off by the rounding error of what its attention multiplies: halves
 * with 11 bits, or int8 with a step of 2^-7 of the largest number, that is errors of up to 2^-8 and
 * of 2^-9 on average. */
TEST(alone)
{
    enum { HALVES, INT8, KINDS };
    const float by[KINDS] = {0x1p-11f, 0x1p-9f};
    struct side cpu, gpu[KINDS], off[KINDS];
    struct options o = demo_options("cpu", "full"), on_gpu = demo_options("cuda", "full");
    int32_t ids[40];
    double gpu_sum[KINDS] = {0}, off_sum[KINDS] = {0};
    ok(side_open(&cpu, &o, &err));
    for (int k = 0; k < KINDS; k++) {
        on_gpu.session.plan.attention = k ? PLAN_ATTENTION_AUTO : PLAN_ATTENTION_FLOAT;
        ok(side_open(&gpu[k], &on_gpu, &err));
        open_off(&off[k], by[k]);
    }
    some_ids(ids, 40, &cpu);
    for (int at = 0; at < 40; at += at < 32 ? 16 : 4) {
        const int n = at < 32 ? 16 : 4;
        run(&cpu, ids + at, n);
        for (int k = 0; k < KINDS; k++) {
            run(&gpu[k], ids + at, n);
            run(&off[k], ids + at, n);
            gpu_sum[k] += distance(&cpu, &gpu[k]) / 4;
            off_sum[k] += distance(&cpu, &off[k]) / 4;
        }
    }
    side_close(&cpu);
    for (int k = 0; k < KINDS; k++) {
        printf("mean distance with %s: device %.3f, the CPU with norms off %.3f\n",
               k ? "int8" : "halves", gpu_sum[k], off_sum[k]);
        assert_true(gpu_sum[k] < 1.5 * off_sum[k]);
        side_close(&gpu[k]);
        side_close(&off[k]);
    }
}

/* ---- fitting, choosing ----------------------------------------------------------------------- */

TEST(does_not_fit)
{
    struct options o = demo_options("cuda", "locret");
    struct side s;
    int budget;
    driver_memory((size_t)6 << 20);
    o.session.plan.budget = 100000;
    assert_int_equal(side_open(&s, &o, &err), ERR_FIT);
    const char *advice = strstr(err.text, "--budget ");
    assert_non_null(advice);
    assert_int_equal(sscanf(advice, "--budget %d would fit", &budget), 1);
    side_close(&s);
    o.session.plan.budget = budget;
    if (side_open(&s, &o, &err)) fail_msg("--budget %d: %s", budget, err.text);
    side_close(&s);
    driver_memory((size_t)1 << 20);
    assert_int_equal(side_open(&s, &o, &err), ERR_FIT);
    side_close(&s);
    driver_memory((size_t)1 << 30);
    assert_int_equal(driver_held(), 0);
}

/* The least memory in which a model runs at all is too small for its MTP layer. */
TEST(mtp_layer_does_not_fit)
{
    struct options o = demo_options("cuda", "full:context=640");
    size_t low = 0, high = (size_t)8 << 20;
    struct side s;
    o.engine.model = "build/golden/families/glm4moe.gguf";
    while (high - low > (size_t)16 << 10) {
        const size_t bytes = (low + high) / 2;
        driver_memory(bytes);
        *(open_engine(&s, &o, &err) ? &low : &high) = bytes;
        side_close(&s);
    }
    driver_memory(high);
    if (side_open(&s, &o, &err)) fail_msg("%zu bytes: %s", high, err.text);
    assert_false(mtp_is_open(&s.x.mtp));
    run(&s, (const int32_t[]){1}, 1);
    side_close(&s);
    driver_memory((size_t)1 << 30);
    assert_int_equal(driver_held(), 0);
}

static double product_bytes(enum cuda_format format, const struct cuda_weight *w)
{
    static const enum kn_type types[] = {[CUDA_Q4] = KN_Q4,
                                         [CUDA_Q8] = KN_Q8,
                                         [CUDA_Q4A] = KN_Q4A,
                                         [CUDA_Q5A] = KN_Q5A,
                                         [CUDA_Q6] = KN_Q6};
    return (double)kn_weight_bytes(types[format], w->n_out, w->n_in);
}

/* Weights and units that a launch for one token reads; the demo model's weights are of one type. */
static void count_bytes(void *ctx, const char *kernel, const void *args)
{
    double *bytes = ctx;
    const struct cuda_chain *c = args;
    const struct cuda_cache *units = &((const struct cuda_attend_one *)args)->at.cache;
    if (!strcmp(kernel, "matvec_q4"))
        *bytes += product_bytes(CUDA_Q4, &((const struct cuda_matvec *)args)->w);
    for (int i = 0; !strcmp(kernel, "chain") && i < c->n; i++) {
        const struct cuda_chain_step *s = &c->steps[i];
        *bytes += product_bytes(s->format, s->gates ? &s->gate.gate : &s->product.w);
        if (s->gates) *bytes += product_bytes(s->format, &s->gate.up);
    }
    for (int h = 0; !strncmp(kernel, "attend_one", 10) && h < units->n_head; h++)
        *bytes += units->len[h] * (double)(units->k_bytes + units->v_bytes);
}

static double heads_bytes(const struct retaining *h)
{
    double bytes = 0;
    for (int i = 0; i < h->shape.n_layer; i++)
        bytes += (double)kn_weight_bytes(h->layers[i].w1.type, h->shape.n_hidden, h->shape.n_in);
    return bytes;
}

/* Launches per token, of q, k and v, then two per layer: attention, and the products up to the next
 * one; and the embedding, the best logit. They read what is planned, without the retaining heads,
 * which read theirs once for CACHE_UNSCORED_MAX tokens. */
TEST(launches)
{
    AUTO_SIDE s;
    struct options o = demo_options("cuda", "locret");
    int32_t id = 1;
    ok(side_open(&s, &o, &err));
    for (int i = 0; i < 2; i++) {
        const int n = 2 * s.engine->model->n_layer + 3;
        const double planned =
            context_bytes_per_token(&s.x) - heads_bytes(s.engine->retaining) / CACHE_UNSCORED_MAX;
        double bytes = 0;
        driver_watch(count_bytes, &bytes, false);
        driver_fail(NULL, 0, 0);
        run(&s, &id, 1);
        assert_true(fabs(bytes - planned) < 1);
        assert_int_equal(driver_calls(NULL), n);
        assert_int_equal(driver_calls("cuLaunchKernel") + driver_calls("cuLaunchCooperativeKernel"),
                         i ? 0 : n);
        assert_int_equal(driver_calls("cuGraphLaunch"), 1);
    }
    meet_end();
}

/* An eviction copies once from the device: which units stay. */
TEST(copies)
{
    AUTO_SIDE s;
    struct options o = demo_options("cuda", "locret");
    const int32_t ids[32] = {0};
    int64_t n_evicted;
    ok(side_open(&s, &o, &err));
    driver_watch(NULL, NULL, false);
    for (int i = 0; i < 2; i++) run(&s, ids, 32);
    driver_fail(NULL, 0, 0);
    ok(context_evict(&s.x, &n_evicted, &err));
    assert_int_equal(driver_calls("cuMemcpyDtoHAsync"), 1);
    driver_watch(NULL, NULL, true);
}

static void refuse_family(const char *path, const char *why)
{
    struct options o = demo_options("cuda", "keydiff+global");
    AUTO_SIDE s;
    o.engine.model = path;
    memset(&o.engine.heads, 0, sizeof o.engine.heads);
    refused(side_open(&s, &o, &err), ERR_USAGE, why);
}

TEST(devices)
{
    struct cuda_device d[4];
    assert_int_equal(cuda_devices(d, 4, &err), 2);
    assert_string_equal(d[0].image, "sm_89");
    assert_string_equal(d[1].image, "ptx");
    assert_true(d[1].integrated);
    assert_string_equal(d[0].bus, "0000:02:00.0");
    driver_version(12060);
    assert_int_equal(cuda_devices(d, 4, &err), 2);
    assert_string_equal(d[0].image, "ptx");
    driver_version(13000);

    struct side s;
    struct options o = demo_options("cuda:2", "locret");
    assert_int_equal(side_open(&s, &o, &err), ERR_USAGE);
    side_close(&s);
    o = demo_options("cuda", "keydiff"); /* unsupported settings are refused, or left to the CPU */
    o.session.plan.kv = (struct plan_kv){.given = true, .k = KN_KV_F32, .v = KN_KV_F32};
    assert_int_equal(side_open(&s, &o, &err), ERR_USAGE);
    side_close(&s);
    o.engine.device.kind = ENGINE_DEVICE_AUTO;
    ok(side_open(&s, &o, &err));
    assert_null(s.engine->gpu);
    assert_non_null(strstr(s.engine->device_notice, "not f32"));
    side_close(&s);
    refuse_family("build/golden/families/nvfp4.gguf", "factors, which run on the CPU only");
    o = demo_options("auto", "locret");
    ok(side_open(&s, &o, &err));
    assert_non_null(s.engine->gpu);
    side_close(&s);
    assert_int_equal(driver_held(), 0);
}

/* Linked in place of the C library's: counts the bytes whose pages the program sends out of memory.
 * The pages that are in memory say less: the kernel maps those around a fault as well. */
int __real_madvise(void *at, size_t bytes, int advice);
int __wrap_madvise(void *at, size_t bytes, int advice);

static int64_t paged_out;

int __wrap_madvise(void *at, size_t bytes, int advice)
{
    if (advice == MADV_PAGEOUT) paged_out += (int64_t)bytes;
    return __real_madvise(at, bytes, advice);
}

/* Of the tensors sent, only pages that they share with others are still in. */
static int check_paged_out(void *ctx, int64_t done, int64_t total)
{
    if (total > 0) assert_in_range(done - paged_out, 0, 64 << 10);
    return 0;
}

/* The file's pages are released matrix by matrix: a shared memory would hold the weights twice. */
TEST(loading)
{
    struct options o = demo_options("cuda:1", "sink");
    AUTO_ENGINE *g;
    o.engine.model = "build/golden/families/phi3.gguf";
    paged_out = 0;
    ok(engine_open(&g, &o.engine, &o.session.plan, 1, check_paged_out, NULL, &err));
    assert_true(paged_out > 150 << 10); /* of 242 KiB */
}

/* Images of a build for all GPUs, of one for some, and of one by an older compiler; Jetsons take no
 * desktop GPU's, drivers older than the compiler none but the PTX. */
TEST(images)
{
#define MADE(sm)           \
    {                      \
#sm, sm, 13000, "" \
    }
    static const struct cuda_image all[] = {MADE(80),  MADE(86),          MADE(87),
                                            MADE(89),  MADE(90),          MADE(110),
                                            MADE(120), {"ptx", 0, 0, ""}, {0}};
    static const struct cuda_image some[] = {MADE(80), MADE(86), {"ptx", 0, 0, ""}, {0}};
    static const struct cuda_image older[] = {{"87", 87, 12060, ""}, {"ptx", 0, 0, ""}, {0}};
#undef MADE
    static const struct {
        const struct cuda_image *of;
        int arch, driver;
        const char *name;
    } cases[] = {
        {all, 80, 13000, "80"},   {all, 87, 13000, "87"},    {all, 89, 13000, "89"},
        {all, 100, 13000, "ptx"}, {all, 121, 13000, "120"},  {all, 89, 12060, "ptx"},
        {some, 89, 13000, "86"},  {some, 87, 13000, "ptx"},  {some, 90, 13000, "ptx"},
        {older, 87, 12060, "87"}, {older, 87, 12020, "ptx"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_string_equal(cuda_choose_image(cases[i].of, cases[i].arch, cases[i].driver)->name,
                            cases[i].name);
    assert_null(cuda_choose_image(all, 75, 13000));
}

/* Every kernel may take more shared memory than needs no permission, of the largest part of L1. */
TEST(shared_memory)
{
    struct cuda *g;
    union {
        struct cuda_attend attend;
        struct cuda_score score;
    } args = {0};
    void *params[] = {&args};
    ok(cuda_open(&g, 0, &err));
    driver_watch(NULL, NULL, false);
    const enum cuda_kernel wide[] = {CUDA_KERNEL_attend_chunk_64, CUDA_KERNEL_attend_chunk_128,
                                     CUDA_KERNEL_score_q8};
    for (int i = 0; i < 3; i++) {
        const size_t most = CUDA_CHUNK_SHARED(128, 2);
        ok(CUDA_DO(g, &err, cuLaunchKernel, g->kernels[wide[i]], 1, 1, 1, 128, 1, 1, (unsigned)most,
                   g->stream, params, NULL));
    }
    ok(cuda_wait(g, &err));
    int (*get)(int *, int, struct CUfunc_st *);
    find(&get, driver_library, "cuFuncGetAttribute");
    for (int i = 0, value; i < CUDA_N_KERNELS; i++) {
        assert_int_equal(get(&value, CUDA_SHARED_CARVEOUT, g->kernels[i]), 0);
        assert_int_equal(value, 100);
    }
    driver_watch(NULL, NULL, true);
    cuda_close(g);
}

/* The message includes that of the driver's compiler. */
TEST(compiler_log)
{
    struct cuda *g;
    driver_fail("cuModuleLoadDataEx", 1, 218);
    refused(cuda_open(&g, 1, &err), ERR_FAIL, "device code ptx: ptxas: a line of the compiler");
    driver_fail(NULL, 0, 0);
    assert_int_equal(driver_held(), 0);
}

/* The driver's library is loaded once: it is there after the last use, whoever else let it go. */
TEST(stays_loaded)
{
    struct cuda_device d[4];
    assert_int_equal(cuda_devices(d, 4, &err), 2);
    dlclose(driver_library);
    driver_library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    assert_non_null(driver_library);
}

/* A token that was just said is divided away, whether the GPU finds the largest logit or the
 * largest few. Without penalties these few, in two parts of the vocabulary, are the host's. */
TEST(penalties)
{
    AUTO_SIDE s;
    struct options o = demo_options("cuda", "sink");
    int32_t ids[4] = {300, 301, 302, 303}, first, second;
    float *logits;
    o.engine.model = "build/golden/families/words.gguf";
    ok(side_open(&s, &o, &err));
    AUTO_FREE struct sampler_entry *scratch =
        calloc((size_t)s.engine->model->n_vocab, sizeof *scratch);
    ok(context_run(&s.x, ids, 4, 1, &err));
    for (int k = 0; k < 2; k++) {
        struct sampling how = {.temperature = k ? 1e-6f : 0,
                               .top_k = 4,
                               .top_p = 1,
                               .repeat_penalty = 1,
                               .repeat_last = 8,
                               .seed = 1};
        ok(context_draw(&s.x, &how, NULL, 0, 0, scratch, &first, &err));
        /* the sorted candidates of the device do not know of it */
        how.repeat_penalty = 1e6f;
        ok(context_draw(&s.x, &how, &first, 1, 0, scratch, &second, &err));
        assert_int_not_equal(first, second);
    }
    ok(context_logits(&s.x, &logits, &err));
    for (uint64_t at = 0; at < 20; at++) {
        const struct sampling how = {
            .temperature = 1, .top_k = 40, .top_p = 1, .repeat_penalty = 1};
        ok(context_draw(&s.x, &how, NULL, 0, at, scratch, &first, &err));
        second = sampler_draw(&how, logits, s.engine->model->n_vocab, NULL, 0, at, scratch);
        assert_int_equal(first, second);
    }
}

AROUND_TESTS(load_driver, NULL)
