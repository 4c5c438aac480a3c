/* Layers of every kind as the program runs them on a GPU, on the emulated driver: the tiny golden
 * models of build/golden/families, whose CPU logits test_families compares with an independent
 * implementation. Weights are expanded to floats, so that no rounding to int8 makes the two sides
 * drift apart. Attention on a GPU multiplies halfs: its logits may differ from the CPU's three
 * times as far as those of the CPU with units of halfs differ from those with units of floats. */
#include "quant/heads/heads_file.h"
#include "tests/emu/side.h"

enum { N_TOKENS = 105 };

/* Tokens that are run together: more than a page of 64 units, and more than the room of a layer
 * with a window and a chunk. */
static const int over_a_page[] = {40, 1, 1, 30, 1, 0}, over_a_window[] = {64, 1, 1, 33, 5, 1, 0};
static const int *steps = over_a_page;

/* Written by random_heads for the next sides; NULL = none. */
static const char *heads;

/* The first layer's feed-forward reads what its attention reads, the second layer has none. */
static bool other_order;

static void reorder(struct model *m)
{
    m->layers[0].is_parallel = true;
    m->layers[1].no_feed_forward = true;
    model_list_ops(m);
}

/* n_layers: on the device, the others on the CPU; 0 = all. */
static void side_open(struct side *s, const char *model, const char *device, int n_layers,
                      const char *experts, enum kn_kv units)
{
    struct options o;
    options_init(&o);
    ok(options_set(&o, OPTIONS_MODEL, "device", device, &err));
    ok(options_set(&o, OPTIONS_MODEL, "experts", experts, &err));
    ok(options_set(&o, OPTIONS_MEMORY, "policy", heads ? "locret" : "full:context=192", &err));
    o.engine.model = model;
    o.engine.gpu_layers = n_layers;
    o.engine.threads = 1;
    o.engine.weights = ENGINE_WEIGHTS_F32;
    o.engine.heads.path = heads;
    if (heads) o.session.plan.budget = 192;
    o.session.plan.chunk = 64;
    o.session.plan.kv = (struct plan_kv){.given = true, .k = units, .v = units};
    o.session.sampling.seed = 1;
    ok(side_open_with(s, &o, 8, &err));
    if (!other_order) return;
    context_release(&s->x);
    reorder(s->engine->model);
    ok(context_open(&s->x, s->engine, &o.session.plan, 1, 8, &err));
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
    AUTO_SIDE cpu, gpu, wide;
    int32_t ids[N_TOKENS];
    int at = 0;
    *off = *allowed = 0;
    side_open(&cpu, model, "cpu", 0, "auto", KN_KV_F16);
    side_open(&wide, model, "cpu", 0, "auto", KN_KV_F32);
    side_open(&gpu, model, "cuda", n_layers, experts, KN_KV_F16);
    assert_int_equal(model_n_host_experts(gpu.engine->model) > 0, !strcmp(experts, "host"));
    some_ids(ids, N_TOKENS, &cpu);
    for (const int *step = steps; *step; at += *step++) {
        const int rows = *step < 8 ? *step : 8;
        const size_t n = (size_t)(rows * cpu.engine->model->n_vocab);
        const float *want = run_rows(&cpu, ids + at, *step, rows);
        *off = larger(relative(run_rows(&gpu, ids + at, *step, rows), want, n), *off);
        *allowed = larger(3 * relative(run_rows(&wide, ids + at, *step, rows), want, n), *allowed);
    }
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

TEST(head_sizes)
{
    CHECK("llama", "qwen3", "llama-yarn");
}

/* Scales, norms of outputs and of whole rows, no rotation. */
TEST(scales_and_norms)
{
    CHECK("granite", "olmo2", "smollm3", "mistral3", "ernie4_5", "seed_oss", "glm4");
}

TEST(windows)
{
    steps = over_a_window;
    CHECK("exaone4", "olmo3", "gemma2", "gemma3", "cohere2");
    steps = over_a_page;
}

TEST(layer_inputs)
{
    CHECK("gemma4", "gemma4-e2b");
}

TEST(experts)
{
    CHECK("qwen3moe", "qwen2moe", "olmoe", "mixtral", "granitemoe", "glm4moe", "gpt-oss",
          "gemma4-moe", "dots1");
}

/* Rows of 64, 48 and 576 numbers; with and without a product before the queries; groups of experts;
 * one matrix for keys and values. */
TEST(latent)
{
    CHECK("deepseek3", "mistral4", "deepseek2-joined", "deepseek2-groups", "minicpm3");
}

/* The CPU computes the experts of a GPU's layers: with a gate of shared ones, beside a dense
 * feed-forward, with biases. */
TEST(experts_on_host)
{
    CHECK_PLACED(0, "host", "qwen2moe", "gemma4-moe", "gpt-oss");
}

TEST(recurrent)
{
    CHECK("qwen35", "lfm2", "granitehybrid", "falcon-h1", "qwen35moe", "lfm2moe", "qwen3next",
          "nemotron_h");
}

/* The first layers on the device. */
TEST(split)
{
    CHECK_PLACED(1, "auto", "gemma3", "gpt-oss", "falcon-h1", "cohere2");
    CHECK_PLACED(2, "auto", "gemma3", "qwen35", "nemotron_h", "deepseek3");
}

/* Neither backend tests for the family: the list of operations is the order. */
TEST(orders)
{
    other_order = true;
    CHECK("llama", "gemma2", "olmo2");
    other_order = false;
}

static int random_row(void *ctx, int layer, enum retaining_part part, int r, float *out,
                      struct err *e)
{
    int n_rows, n;
    retaining_part_shape(ctx, part, &n_rows, &n);
    for (int i = 0; i < n; i++) out[i] = (float)((layer * 31 + r * 17 + i * 7) % 23 - 11) / 64;
    return 0;
}

static void random_heads(const struct model *m, const char *path)
{
    struct heads_file h = {.model = m, .row = random_row, .settings = {-1, -1, -1, -1}};
    char hex[65];
    h.shape = (struct retaining_shape){RETAINING_SILU, m->n_kv_layer, model_n_qkv(m), 32,
                                       m->n_kv_head,   .n_rank = 0};
    h.ctx = &h.shape;
    ok(heads_file_write(&h, path, true, hex, &err));
}

/* Heads are numbered by layers of the KV cache, which are not all layers. */
TEST(heads_by_kv_layer)
{
    static const char *const models[] = {"build/golden/families/gemma3.gguf",
                                         "build/golden/families/qwen3next.gguf",
                                         "build/golden/families/mistral4.gguf"};
    enum { N = 40, TOKENS = 44 };
    const char *path = path_in(folder_new(), "heads");
    for (int i = 0; i < 3; i++) {
        AUTO_SIDE cpu, gpu;
        int32_t ids[TOKENS];
        side_open(&cpu, models[i], "cpu", 0, "auto", KN_KV_F16);
        random_heads(cpu.engine->model, path);
        side_close(&cpu);
        heads = path;
        side_open(&cpu, models[i], "cpu", 0, "auto", KN_KV_F16);
        side_open(&gpu, models[i], "cuda", 0, "auto", KN_KV_F16);
        heads = NULL;
        some_ids(ids, TOKENS, &cpu);
        for (int at = 0, n = N; at < TOKENS; at += n, n = 1)
            run_rows(&cpu, ids + at, n, 1), run_rows(&gpu, ids + at, n, 1);
        context_score(&cpu.x);
        context_score(&gpu.x);
        for (int k = 0; k < cpu.x.cache.shape.n_layer * cpu.x.cache.shape.n_head; k++) {
            const float *want = cpu.x.cache.kv_heads[k].score;
            assert_true(want[0] != want[1]);
            assert_true(relative(gpu.x.cache.kv_heads[k].score, want, TOKENS) < 0.05);
        }
    }
}
