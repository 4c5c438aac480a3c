/* Layers of every kind as the program runs them on a GPU, on the emulated driver: the tiny golden
 * models of build/golden/families, whose CPU logits test_families compares with an independent
 * implementation. Weights are expanded to floats, so that no rounding to int8 makes the two sides
 * drift apart. Attention on a GPU multiplies halfs: its logits may differ from the CPU's three
 * times as far as those of the CPU with units of halfs differ from those with units of floats. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cli/options/options.h"
#include "runtime/forward/context.h"
#include "runtime/forward/engine.h"

enum { N_TOKENS = 150 };

struct side {
    struct engine *engine;
    struct context x;
};

/* n_layers: on the device, the others on the CPU; 0 = all. */
static void side_open(struct side *s, const char *model, const char *device, int n_layers,
                      const char *experts, enum kn_kv units)
{
    struct options o;
    struct err e;
    *s = (struct side){0};
    options_init(&o);
    if (options_set(&o, OPTIONS_MODEL, "device", device, &e) ||
        options_set(&o, OPTIONS_MODEL, "experts", experts, &e))
        fail_msg("%s", e.text);
    o.engine.model = model;
    o.engine.gpu_layers = n_layers;
    o.engine.threads = 1;
    o.engine.weights = ENGINE_WEIGHTS_F32;
    o.session.plan.policy = policy_choice("full");
    o.session.plan.policy.context = 192;
    o.session.plan.chunk = 64;
    o.session.plan.kv = (struct plan_kv){.given = true, .k = units, .v = units};
    if (engine_open(&s->engine, &o.engine, &o.session.plan, 1, NULL, NULL, &e) ||
        context_open(&s->x, s->engine, &o.session.plan, 1, 8, &e))
        fail_msg("%s on %s: %s", model, device, e.text);
}

static void side_close(struct side *s)
{
    context_release(&s->x);
    engine_close(s->engine);
}

static const float *run(struct side *s, const int32_t *ids, int n, int rows)
{
    struct err e;
    float *logits;
    if (context_run(&s->x, ids, n, rows, &e) || context_logits(&s->x, &logits, &e))
        fail_msg("%s", e.text);
    return logits;
}

/* Relative to the size of b. */
static double distance(const float *a, const float *b, size_t n)
{
    double diff = 0, size = 0;
    for (size_t i = 0; i < n; i++) {
        diff += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
        size += (double)b[i] * (double)b[i];
    }
    return sqrt(diff / size);
}

static double larger(double a, double b)
{
    return a <= b ? b : a; /* a NaN is larger */
}

/* The largest distances of the last rows of logits: of the GPU's from the CPU's, and of the CPU's
 * with units of floats. */
static void compare(const char *model, int n_layers, const char *experts, double *off,
                    double *allowed)
{
    static const int steps[] = {64, 13, 1, 1, 33, 5, 1, 1, 1, 30};
    struct side cpu, gpu, wide;
    int32_t ids[N_TOKENS];
    int at = 0;
    *off = *allowed = 0;
    side_open(&cpu, model, "cpu", 0, "auto", KN_KV_F16);
    side_open(&wide, model, "cpu", 0, "auto", KN_KV_F32);
    side_open(&gpu, model, "cuda", n_layers, experts, KN_KV_F16);
    assert_int_equal(model_n_host_experts(gpu.engine->model) > 0, !strcmp(experts, "host"));
    for (int i = 0; i < N_TOKENS; i++) ids[i] = (i * 37 + 11) % cpu.engine->model->n_vocab;
    for (size_t i = 0; i < sizeof steps / sizeof *steps; at += steps[i++]) {
        const int rows = steps[i] < 8 ? steps[i] : 8;
        const size_t n = (size_t)(rows * cpu.engine->model->n_vocab);
        const float *want = run(&cpu, ids + at, steps[i], rows);
        *off = larger(distance(run(&gpu, ids + at, steps[i], rows), want, n), *off);
        *allowed = larger(3 * distance(run(&wide, ids + at, steps[i], rows), want, n), *allowed);
    }
    assert_int_equal(at, N_TOKENS);
    side_close(&cpu);
    side_close(&gpu);
    side_close(&wide);
}

static void check(int n_layers, const char *experts, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char path[128];
        double off, allowed;
        snprintf(path, sizeof path, "build/golden/families/%s.gguf", names[i]);
        compare(path, n_layers, experts, &off, &allowed);
        printf("%s: logits differ by %.1e of their size, %.1e is allowed\n", names[i], off,
               allowed);
        assert_true(off < allowed && allowed < 0.06);
    }
}

#define CHECK_PLACED(n_layers, experts, ...)                           \
    do {                                                               \
        static const char *const names[] = {__VA_ARGS__};              \
        (void)state;                                                   \
        check(n_layers, experts, names, sizeof names / sizeof *names); \
    } while (0)
#define CHECK(...) CHECK_PLACED(0, "auto", __VA_ARGS__)

static void head_sizes(void **state)
{
    CHECK("llama", "qwen3", "llama-yarn");
}

static void windows(void **state)
{
    CHECK("exaone4", "olmo3", "gemma2", "gemma3");
}

static void layer_inputs(void **state)
{
    CHECK("gemma4", "gemma4-e2b");
}

static void experts(void **state)
{
    CHECK("qwen3moe", "qwen2moe", "olmoe", "mixtral", "granitemoe", "glm4moe", "gpt-oss",
          "gemma4-moe", "dots1");
}

/* The CPU computes the experts of a GPU's layers: with a gate of shared ones, beside a dense
 * feed-forward, with biases. */
static void experts_on_host(void **state)
{
    CHECK_PLACED(0, "host", "qwen2moe", "gemma4-moe", "gpt-oss");
}

static void recurrent(void **state)
{
    CHECK("qwen35", "lfm2", "granitehybrid", "falcon-h1", "qwen35moe", "lfm2moe", "qwen3next");
}

/* The first layers on the device. */
static void split(void **state)
{
    CHECK_PLACED(1, "auto", "gemma3", "gpt-oss", "falcon-h1");
    CHECK_PLACED(2, "auto", "gemma3", "qwen35");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(head_sizes),      cmocka_unit_test(windows),
        cmocka_unit_test(layer_inputs),    cmocka_unit_test(experts),
        cmocka_unit_test(experts_on_host), cmocka_unit_test(recurrent),
        cmocka_unit_test(split),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
