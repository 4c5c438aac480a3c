/* Every policy, and retaining heads of every form, on the emulated GPU: the units that survive are
 * the CPU's, whichever of the two computes the scores and evicts. */

#include "quant/heads/heads_import.h"
#include "tests/emu/meet.h"

static const struct evict_pin pins[] = {{4, 6}, {9, 10}};

/* Two short chunks, an eviction, a token; with some positions pinned. */
static void compare(const struct options *on_cpu, const struct options *on_gpu, bool pinned)
{
    struct side cpu, gpu;
    struct inputs in = {0};
    int32_t ids[17];
    const char *name = on_cpu->session.plan.policy.row->name;
    if (side_open(&cpu, on_cpu, &err) || side_open(&gpu, on_gpu, &err))
        fail_msg("%s: %s", name, err.text);
    assert_non_null(gpu.engine->gpu);
    meet_begin(&in, &cpu, &gpu);
    some_ids(ids, 17, &cpu);
    for (int at = 0; at < 16; at += 8) step(&cpu, &gpu, &in, ids + at, 8, name);
    cpu.x.pins = gpu.x.pins = pins;
    cpu.x.n_pins = gpu.x.n_pins = pinned ? 2 : 0;
    if (cpu.x.plan.policy->scorer != POLICY_KEEP_ALL) evict_both(&cpu, &gpu);
    step(&cpu, &gpu, &in, ids + 16, 1, name);
    meet_end();
    side_close(&cpu);
    side_close(&gpu);
    assert_int_equal(driver_held(), 0);
}

TEST(policies)
{
    for (int i = 0; policy_at(i); i++) {
        const char *name = policy_at(i)->name;
        struct options cpu = demo_options("cpu", name), gpu = demo_options("cuda", name);
        cpu.session.plan.chunk = gpu.session.plan.chunk = 8;
        cpu.session.plan.budget = gpu.session.plan.budget = 12;
        compare(&cpu, &gpu, i % 2);
    }
}

/* Without replacements. How many survivors of the first layer's heads are the CPU's, of the head
 * with the fewest: that layer computes from the same embeddings. */
static int compare_first_layer(const struct options *on_cpu, const struct options *on_gpu)
{
    struct side cpu, gpu;
    int32_t ids[64];
    if (side_open(&cpu, on_cpu, &err) || side_open(&gpu, on_gpu, &err)) fail_msg("%s", err.text);
    some_ids(ids, 64, &cpu);
    for (int at = 0, n; at < 62; at += n) {
        n = at < 31 ? 31 : at < 60 ? 29 : 1;
        run(&cpu, ids + at, n);
        run(&gpu, ids + at, n);
    }
    const int n = evict_first_layer(&cpu, &gpu);
    side_close(&cpu);
    side_close(&gpu);
    assert_int_equal(driver_held(), 0);
    return n;
}

/* The other layers on the CPU, which evicts all of them. */
TEST(split)
{
    static const char *const names[] = {"keydiff", "sink"};
    for (int i = 0; i < 2; i++) {
        struct options cpu = demo_options("cpu", names[i]), gpu = demo_options("cuda", names[i]);
        gpu.engine.gpu_layers = 2;
        const int n = compare_first_layer(&cpu, &gpu);
        if (n < 40) fail_msg("%s: %d of 44 survivors are the CPU's", names[i], n);
    }
}

/* Rows that are keys and values. */
TEST(latent)
{
    struct options cpu = demo_options("cpu", "keydiff"), gpu = demo_options("cuda", "keydiff");
    cpu.engine.model = gpu.engine.model = "build/golden/families/deepseek3.gguf";
    cpu.engine.heads.path = gpu.engine.heads.path = NULL;
    const int n = compare_first_layer(&cpu, &gpu);
    if (n < 44) fail_msg("%d of 44 survivors are the CPU's", n);
}

/* Heads of the forms that others released, which the CPU runs, and ours. */
TEST(heads)
{
    static const char *const files[] = {"locret.safetensors", "kvzap-mlp.safetensors",
                                        "kvzap-linear.safetensors", "fast-kvzip.safetensors"};
    for (int i = 0; i < 4; i++) {
        struct options cpu = demo_options("cpu", "locret"), gpu = demo_options("cuda", "locret");
        const char *out = path_in(folder_new(), "heads");
        char path[96];
        snprintf(path, sizeof path, "tests/golden/released/%s", files[i]);
        cpu.engine.model = gpu.engine.model = "build/golden/families/qwen3.gguf";
        cpu.training.out = out;
        cpu.args[0] = "import";
        cpu.args[1] = path;
        cpu.n_args = 2;
        assert_int_equal(heads_import(&cpu), 0);
        cpu.engine.heads.path = gpu.engine.heads.path = out;
        const int n = compare_first_layer(&cpu, &gpu);
        if (n < 44) fail_msg("%s: %d of 44 survivors are the CPU's", files[i], n);
    }
}

AROUND_TESTS(load_driver, NULL)
