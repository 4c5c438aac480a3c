/* Training retaining heads on a GPU, on the emulated driver: beside the same training on the CPU,
 * whose steps test_heads compares with formulas and PyTorch. */
#include "tests/test.h"

#include <dlfcn.h>
#include <math.h>
#include <sys/types.h>
#include <unistd.h>

#include "driver.h"
#include "cli/options/options.h"
#include "quant/heads/heads_learn.h"
#include "quant/heads/heads_sample.h"
#include "quant/heads/heads_train.h"
#include "runtime/cuda/cuda.h"
#include "runtime/forward/engine.h"

enum { LENGTH = 38, CONTEXT = 18, HIDDEN = 8, STEPS = 20 };

static const struct heads_learn_opts usual = {HIDDEN, LENGTH};

struct side {
    struct engine *engine;
    struct heads_learn learn;
};

static void side_open(struct side *s, const char *model, bool gpu, const struct heads_learn_opts *o)
{
    struct engine_opts opts = {.model = model, .heads.none = true, .threads = 1};
    struct plan_opts plan = heads_watch_plan(LENGTH, 0);
    opts.device.kind = gpu ? ENGINE_DEVICE_CUDA : ENGINE_DEVICE_CPU;
    opts.weights = ENGINE_WEIGHTS_F32; /* no rounding to int8 makes the sides drift apart */
    ok(engine_open(&s->engine, &opts, &plan, 1, NULL, NULL, &err));
    ok(heads_learn_open(&s->learn, s->engine, o, &err));
}

static void side_close(struct side *s)
{
    heads_learn_close(&s->learn);
    engine_close(s->engine);
}

#define AUTO_SIDE __attribute__((cleanup(side_close))) struct side

/* Heads to begin with: any that differ. */
static void begin(struct side *s)
{
    const struct model *m = s->engine->model;
    const int n = m->n_kv_layer * m->n_kv_head, n_unit = 2 * m->head_dim,
              n_size = m->n_kv_layer * model_n_qkv(m);
    float *numbers = malloc((size_t)(n * n_unit + n + n_size) * sizeof *numbers);
    const struct heads_linear l = {
        m, n_unit, numbers, numbers + n * n_unit, NULL, numbers + n * n_unit + n};
    for (int i = 0; i < n * n_unit; i++) l.weight[i] = 0.1f * (float)(i * 37 % 101 - 50) / 50;
    for (int i = 0; i < n; i++) l.mean[i] = -4 + 0.1f * (float)(i % 7);
    for (int i = 0; i < n_size; i++) l.size[i] = 0.5f + (float)(i % 70) / 70;
    ok(heads_learn_start(&s->learn, &l, 7, &err));
    free(numbers);
}

/* A text of random words, which repeats its context. Nobody asks inside it. */
static void text(struct heads_sample *s, int seed, int n_vocab)
{
    s->ids.n = 0;
    s->n_context = CONTEXT - seed % 3;
    for (int t = 0; t < LENGTH - seed % 5; t++)
        tokens_push(&s->ids,
                    (t < s->n_context ? t * t * 7 + seed * 31 : (t - s->n_context) * 7) % n_vocab);
    s->asks = realloc(s->asks, s->ids.n);
    for (size_t t = 0; t < s->ids.n; t++) s->asks[t] = (int)t >= s->n_context - 1;
}

/* Every fifth step has two texts. */
static double step(struct side *s, int i)
{
    const int n = i % 5 ? 1 : 2;
    struct heads_sample texts[2] = {0};
    double loss = 0;
    int rows = 0;
    for (int k = 0; k < n; k++) {
        text(&texts[k], 2 * i + k, s->engine->model->n_vocab);
        rows += texts[k].n_context;
    }
    for (int k = 0; k < n; k++) ok(heads_learn_add(&s->learn, &texts[k], rows, &loss, &err));
    ok(heads_learn_step(&s->learn, .01f, i + 1, &err));
    for (int k = 0; k < n; k++) heads_sample_release(&texts[k]);
    return loss;
}

/* Of all nets, relative to the size of the CPU's. */
static double distance(struct side *cpu, struct side *gpu)
{
    double diff = 0, size = 0;
    for (int i = 0; i < cpu->engine->model->n_kv_layer; i++) {
        const float *a, *b;
        ok(heads_learn_weights(&cpu->learn, i, &a, &err));
        ok(heads_learn_weights(&gpu->learn, i, &b, &err));
        for (size_t k = 0; k < cpu->learn.nets[0].n; k++) {
            diff += ((double)a[k] - (double)b[k]) * ((double)a[k] - (double)b[k]);
            size += (double)a[k] * (double)a[k];
        }
    }
    return sqrt(diff / size);
}

static void compare(const char *model, int n_steps)
{
    AUTO_SIDE cpu, gpu;
    double worst = 0;
    side_open(&cpu, model, false, &usual);
    side_open(&gpu, model, true, &usual);
    assert_non_null(gpu.engine->gpu);
    begin(&cpu);
    begin(&gpu);
    for (int i = 0; i < n_steps; i++) {
        const double want = step(&cpu, i);
        worst = fmax(worst, fabs(step(&gpu, i) / want - 1));
    }
    printf("%s: losses of %d steps differ by at most %.1e, weights by %.1e\n", model, n_steps,
           worst, distance(&cpu, &gpu));
    assert_true(worst < 2e-3);
    /* Adam's first step is as large for the smallest gradient, which rounding may turn */
    assert_true(distance(&cpu, &gpu) < 3e-4 * n_steps);
}

TEST(losses)
{
    compare("build/golden/families/llama3.gguf", STEPS);
}

/* Sinks and windows (gpt-oss), capped logits (gemma2), latent rows (minicpm3). */
TEST(families)
{
    compare("build/golden/families/gpt-oss.gguf", 2);
    compare("build/golden/families/gemma2.gguf", 2);
    compare("build/golden/families/minicpm3.gguf", 2);
}

/* A state that one of them wrote continues in the other, and on the GPU to the bit. */
TEST(checkpoints)
{
    AUTO_SIDE gpu, again, cpu;
    FILE *f = tmpfile();
    side_open(&gpu, "build/golden/families/llama3.gguf", true, &usual);
    side_open(&again, "build/golden/families/llama3.gguf", true, &usual);
    side_open(&cpu, "build/golden/families/llama3.gguf", false, &usual);
    begin(&gpu);
    for (int i = 0; i < 3; i++) step(&gpu, i);
    ok(heads_learn_transfer(&gpu.learn, f, true, &err));
    rewind(f);
    ok(heads_learn_transfer(&again.learn, f, false, &err));
    rewind(f);
    ok(heads_learn_transfer(&cpu.learn, f, false, &err));
    const double loss = step(&gpu, 3);
    assert_true(step(&again, 3) == loss);
    assert_true(distance(&gpu, &again) == 0);
    assert_true(fabs(step(&cpu, 3) / loss - 1) < 0.01);
    fclose(f);
}

/* Linked in place of the C library's and the system's: arenas are counted, and a test sets how much
 * of the host's memory is available. */
void *__real_mmap(void *address, size_t bytes, int access, int flags, int fd, off_t offset);
void *__wrap_mmap(void *address, size_t bytes, int access, int flags, int fd, off_t offset);
int64_t __wrap_system_available_bytes(void);

static size_t arenas; /* bytes since the program began */
static int64_t available = -1;

void *__wrap_mmap(void *address, size_t bytes, int access, int flags, int fd, off_t offset)
{
    if (fd < 0) arenas += bytes;
    return __real_mmap(address, bytes, access, flags, fd, offset);
}

int64_t __wrap_system_available_bytes(void)
{
    return available;
}

/* Bytes of arenas and of page-locked memory that were ever asked for. */
static size_t host_bytes(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    const size_t locked = ((emu_driver_host_bytes_fn *)dlsym(library, "emu_driver_host_bytes"))();
    dlclose(library);
    return arenas + locked;
}

/* The bytes taken are those planned, and what does not fit is refused. */
TEST(memory)
{
    struct side s;
    struct plan_opts o = heads_watch_plan(LENGTH, 0);
    struct plan plan;
    int64_t before, after;
    struct engine_opts opts = {.model = "build/golden/families/llama3.gguf",
                               .heads.none = true,
                               .threads = 1,
                               .device.kind = ENGINE_DEVICE_CUDA};
    ok(engine_open(&s.engine, &opts, &o, 1, NULL, NULL, &err));
    const size_t host = host_bytes();
    ok(cuda_free_bytes(s.engine->gpu, &before, &err));
    ok(plan_make(&plan, s.engine->model, NULL, s.engine->gpu, &o, 1, 1, &err));
    ok(heads_learn_open(&s.learn, s.engine, &usual, &err));
    ok(cuda_free_bytes(s.engine->gpu, &after, &err));
    const size_t training = heads_learn_device_bytes(s.engine, &usual);
    assert_int_equal(before - after, plan.cache_bytes + plan.scratch_bytes + training);
    begin(&s);
    step(&s, 0);
    assert_int_equal(host_bytes() - host,
                     context_host_bytes(s.engine, &plan) + heads_learn_bytes(s.engine, &usual));
    side_close(&s);
    o.besides = (int64_t)1 << 30;
    assert_int_equal(engine_open(&s.engine, &opts, &o, 1, NULL, NULL, &err), ERR_FIT);
    engine_close(s.engine);
}

/* Host memory that is a byte too small is refused before the training begins. */
TEST(host_too_small)
{
    static const char model[] = "build/golden/families/llama3.gguf";
    const struct heads_learn_opts opts = {16, 64};
    const char *folder = folder_new(), *out = path_in(folder, "heads");
    const char other[512] = "another training";
    const struct plan_opts o = heads_watch_plan(opts.length, 0);
    struct options command;
    struct side s;
    struct plan plan;
    side_open(&s, model, true, &opts);
    ok(plan_make(&plan, s.engine->model, NULL, s.engine->gpu, &o, 1, 1, &err));
    const size_t needs = context_host_bytes(s.engine, &plan) + heads_learn_bytes(s.engine, &opts);
    side_close(&s);
    write_file(path_in(folder, "heads.part"), other, sizeof other);
    options_init(&command);
    command.engine.model = model;
    command.engine.threads = 1;
    command.engine.device.kind = ENGINE_DEVICE_CUDA;
    command.sweep.lengths = (struct options_numbers){1, {opts.length}};
    command.training.text = "LICENSE";
    command.training.out = out;
    command.training.hidden = opts.hidden;
    command.training.steps = 1;
    available = (int64_t)needs - 1;
    assert_int_equal(heads_train(&command), err_exit_status(ERR_FIT));
    available = (int64_t)needs;
    assert_int_equal(heads_train(&command),
                     err_exit_status(ERR_USAGE)); /* it read the checkpoint */
    available = -1;
}

/* Each of the first calls of a text fails once: an error, and nothing is left allocated. */
TEST(failures)
{
    static const char *const calls[] = {"cuLaunchKernel", "cuMemcpyDtoHAsync_v2",
                                        "cuStreamSynchronize"};
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    emu_driver_fail_fn *fail_call = (emu_driver_fail_fn *)dlsym(library, "emu_driver_fail");
    emu_driver_held_fn *held = (emu_driver_held_fn *)dlsym(library, "emu_driver_held");
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        struct side s;
        struct heads_sample one = {0};
        double loss = 0;
        side_open(&s, "build/golden/families/llama3.gguf", true, &usual);
        text(&one, 1, s.engine->model->n_vocab);
        begin(&s);
        fail_call(calls[i], 1, 700);
        assert_int_not_equal(heads_learn_add(&s.learn, &one, one.n_context, &loss, &err), 0);
        fail_call(NULL, 0, 0);
        heads_sample_release(&one);
        side_close(&s);
        assert_int_equal(held(), 0);
    }
    dlclose(library);
}
