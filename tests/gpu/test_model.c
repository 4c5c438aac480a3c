/* The demo model on a GPU compared with the CPU: logits, survivors of an eviction,
 * repeatability. */
#include "runtime/cuda/cuda.h"
#include "runtime/forward/engine.h"
#include "tests/emu/copy_cache.h"
#include "tests/emu/side.h"
#include "tests/unit/same_units.h"

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
    ok(side_open_with(s, &o, 1, &err));
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
    static const char *const kinds[] = {"q5:q4", "q8", "f16", "q8:q4", "q4"};
    static const char *const policies[] = {"locret", "locret", "locret", "locret", "keeper"};
    for (int k = 0; k < 5; k++) {
        AUTO_SIDE cpu, gpu;
        int32_t ids[40];
        int64_t n_evicted[2];
        side_open(&cpu, "cpu", kinds[k], policies[k]);
        side_open(&gpu, "cuda", kinds[k], policies[k]);
        some_ids(ids, 40, &cpu);
        run_rows(&cpu, ids, 24, 1);
        run_rows(&cpu, ids + 24, 16, 1);
        copy_cache(&gpu.x.cache, &cpu.x.cache);
        ok(context_loaded(&gpu.x, &err));
        ok(context_evict(&cpu.x, &n_evicted[0], &err));
        ok(context_evict(&gpu.x, &n_evicted[1], &err));
        ok(cache_fetch(&gpu.x.cache, cache_len_max(&gpu.x.cache), &err));
        assert_true(n_evicted[0] > 0);
        assert_int_equal(n_evicted[0], n_evicted[1]);
        same_units(&cpu.x.cache, &gpu.x.cache);
    }
}

/* Two runs give the same bits: chunks, an eviction, tokens through the graph. */
TEST(repeats)
{
    struct side s[2];
    int32_t ids[44];
    int64_t n_evicted;
    for (int i = 0; i < 2; i++) side_open(&s[i], "cuda", "q5:q4", "keeper");
    some_ids(ids, 44, &s[0]);
    for (int i = 0; i < 2; i++) {
        run_rows(&s[i], ids, 24, 1);
        run_rows(&s[i], ids + 24, 16, 1);
        ok(context_evict(&s[i].x, &n_evicted, &err));
    }
    for (int t = 40; t < 44; t++) {
        const float *a = run_rows(&s[0], ids + t, 1, 1), *b = run_rows(&s[1], ids + t, 1, 1);
        assert_memory_equal(a, b, (size_t)s[0].engine->model->n_vocab * sizeof *a);
    }
    for (int i = 0; i < 2; i++) side_close(&s[i]);
}

static int find_gpu(void **state)
{
    struct cuda_device d[1];
    if (cuda_devices(d, 1, &err) >= 0) return 0;
    printf("skip: no GPU: %s\n0 passed, 0 failed, 1 skipped\n", err.text);
    exit(0);
}

AROUND_TESTS(find_gpu, NULL)
