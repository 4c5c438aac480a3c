/* The demo model on a GPU compared with the CPU: logits, survivors of an eviction,
 * repeatability. */
#include "tests/test.h"

#include <math.h>

#include "cli/options/options.h"
#include "runtime/cuda/cuda.h"
#include "runtime/forward/context.h"
#include "runtime/forward/engine.h"
#include "runtime/forward/gpu_check.h"
#include "tests/emu/copy_cache.h"

struct side {
    struct engine *engine;
    struct context x;
};

static void side_open(struct side *s, const char *device, const char *kv, const char *policy)
{
    struct options o;
    options_init(&o);
    ok(options_set(&o, OPTIONS_MODEL, "device", device, &err));
    plan_kv_named(kv, &o.session.plan.kv);
    o.session.plan.policy = policy_choice(policy);
    o.session.plan.budget = 16;
    o.session.plan.policy.sinks = 2;
    o.session.plan.policy.stabilizers = 8;
    o.session.plan.chunk = 24;
    o.session.plan.policy.reserve = 16;
    o.engine.threads = 1;
    o.session.sampling.seed = 1;
    ok(engine_open(&s->engine, &o.engine, &o.session.plan, 1, NULL, NULL, &err));
    ok(context_open(&s->x, s->engine, &o.session.plan, o.session.sampling.seed, 1, &err));
}

static void side_close(struct side *s)
{
    context_release(&s->x);
    engine_close(s->engine);
}

static float *run(struct side *s, const int32_t *ids, int n)
{
    float *logits;
    if (context_run(&s->x, ids, n, 1, &err) || context_logits(&s->x, &logits, &err))
        fail_msg("%s", err.text);
    return logits;
}

static void fill(int32_t *ids, int n, const struct side *s)
{
    for (int i = 0; i < n; i++) ids[i] = (i * 37 + 11) % s->engine->model->n_vocab;
}

/* GPU and CPU logits differ by no more than rounding (quant/eval/notes/device.md), for every kind
 * of unit. */
TEST(agrees)
{
    ok(gpu_check(0, &err));
}

/* With the CPU's units and scores, the same units survive an eviction on the GPU. */
TEST(same_survivors)
{
    static const char *const kinds[] = {"q4", "q8", "f16", "q8:q4", "q4"};
    static const char *const policies[] = {"locret", "locret", "locret", "locret", "keeper"};
    for (int k = 0; k < 5; k++) {
        struct side cpu, gpu;
        int32_t ids[40];
        int64_t n_evicted[2];
        side_open(&cpu, "cpu", kinds[k], policies[k]);
        side_open(&gpu, "cuda", kinds[k], policies[k]);
        fill(ids, 40, &cpu);
        run(&cpu, ids, 24);
        run(&cpu, ids + 24, 16);
        struct cache *a = &cpu.x.cache, *b = &gpu.x.cache;
        copy_cache(b, a);
        if (context_loaded(&gpu.x, &err) || context_evict(&cpu.x, &n_evicted[0], &err) ||
            context_evict(&gpu.x, &n_evicted[1], &err) || cache_fetch(b, cache_len_max(b), &err))
            fail_msg("%s", err.text);
        assert_true(n_evicted[0] > 0);
        assert_int_equal(n_evicted[0], n_evicted[1]);
        for (int i = 0; i < a->shape.n_layer * a->shape.n_head; i++) {
            const struct cache_head *want = &a->kv_heads[i], *got = &b->kv_heads[i];
            const size_t n = (size_t)want->len;
            assert_int_equal(got->len, want->len);
            assert_memory_equal(got->pos, want->pos, n * sizeof *want->pos);
            assert_memory_equal(got->score, want->score, n * sizeof *want->score);
            assert_memory_equal(got->k, want->k, n * a->k_bytes);
            assert_memory_equal(got->v, want->v, n * a->v_bytes);
        }
        side_close(&cpu);
        side_close(&gpu);
    }
}

/* Two runs give the same bits: chunks, an eviction, tokens through the graph. */
TEST(repeats)
{
    struct side s[2];
    int32_t ids[44];
    int64_t n_evicted;
    for (int i = 0; i < 2; i++) side_open(&s[i], "cuda", "q4", "keeper");
    fill(ids, 44, &s[0]);
    for (int i = 0; i < 2; i++) {
        run(&s[i], ids, 24);
        run(&s[i], ids + 24, 16);
        ok(context_evict(&s[i].x, &n_evicted, &err));
    }
    for (int t = 40; t < 44; t++) {
        const float *a = run(&s[0], ids + t, 1), *b = run(&s[1], ids + t, 1);
        assert_memory_equal(a, b, (size_t)s[0].engine->model->n_vocab * sizeof *a);
    }
    for (int i = 0; i < 2; i++) side_close(&s[i]);
}

static int find_gpu(void **state)
{
    struct cuda_device d[1];
    (void)state;
    if (cuda_devices(d, 1, &err) >= 0) return 0;
    printf("skip: no GPU: %s\n0 passed, 0 failed, 1 skipped\n", err.text);
    exit(0);
}

AROUND_TESTS(find_gpu, NULL)
