/* Training retaining heads on a GPU, on the emulated driver: beside the same training on the CPU,
 * whose steps test_heads compares with formulas and PyTorch. */
#include "tests/test.h"

#include <dlfcn.h>
#include <math.h>
#include <sys/types.h>

#include "driver.h"
#include "cli/options/options.h"
#include "quant/heads/heads_learn.h"
#include "quant/heads/heads_sample.h"
#include "quant/heads/heads_train.h"
#include "runtime/cuda/cuda.h"
#include "runtime/forward/engine.h"

enum { LENGTH = 38, CONTEXT = 18, HIDDEN = 8, STEPS = 20 };

static const struct heads_learn_opts shares = {HEADS_SHARE, HIDDEN, LENGTH};
static const struct heads_learn_opts logits = {HEADS_LOGIT, HIDDEN, LENGTH};

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
    if (engine_open(&s->engine, &opts, &plan, 1, NULL, NULL, &err) ||
        heads_learn_open(&s->learn, s->engine, o, 7, &err))
        fail_msg("%s", err.text);
}

static void side_close(struct side *s)
{
    heads_learn_close(&s->learn);
    engine_close(s->engine);
}

#define AUTO_SIDE __attribute__((cleanup(side_close))) struct side

/* A text of random words, which repeats its context. Nobody asks inside it. Of every other one two
 * tokens in three are names. */
static void text(struct heads_sample *s, int seed, int n_vocab)
{
    s->ids.n = 0;
    s->n_context = CONTEXT - seed % 3;
    for (int t = 0; t < LENGTH - seed % 5; t++)
        tokens_push(&s->ids,
                    (t < s->n_context ? t * t * 7 + seed * 31 : (t - s->n_context) * 7) % n_vocab);
    s->asks = realloc(s->asks, s->ids.n);
    for (size_t t = 0; t < s->ids.n; t++) s->asks[t] = (int)t >= s->n_context - 1;
    s->joins = realloc(s->joins, (size_t)s->n_context);
    for (int t = 0; t < s->n_context; t++) s->joins[t] = seed % 2 && t % 3 == 1;
}

static void measure(struct side *s, int n)
{
    AUTO_SAMPLE text_of = {0};
    for (int i = 0; i < n; i++) {
        text(&text_of, 100 + i, s->engine->model->n_vocab);
        ok(heads_learn_measure(&s->learn, &text_of, &err));
    }
    ok(heads_learn_scale(&s->learn, &err));
}

/* Every fifth step has two texts. */
static double step(struct side *s, int i)
{
    const int n = i % 5 ? 1 : 2;
    struct heads_sample texts[2];
    double loss = 0;
    int rc = 0, rows = 0;
    memset(texts, 0, sizeof texts);
    for (int k = 0; k < n; k++) {
        text(&texts[k], 2 * i + k, s->engine->model->n_vocab);
        rows += texts[k].n_context;
    }
    for (int k = 0; !rc && k < n; k++)
        rc = heads_learn_add(&s->learn, &texts[k], rows, n, &loss, &err);
    if (!rc) rc = heads_learn_step(&s->learn, .01f, i + 1, &err);
    if (rc) fail_msg("%s", err.text);
    for (int k = 0; k < n; k++) heads_sample_release(&texts[k]);
    return loss;
}

static double found(struct side *s)
{
    struct heads_sample one = {0};
    double share;
    text(&one, 50, s->engine->model->n_vocab);
    ok(heads_learn_found(&s->learn, &one, &share, &err));
    heads_sample_release(&one);
    return share;
}

/* Of all nets, relative to the size of the CPU's. */
static double distance(struct side *cpu, struct side *gpu)
{
    double diff = 0, size = 0;
    for (int i = 0; i < cpu->engine->model->n_kv_layer; i++) {
        const float *a, *b;
        if (heads_learn_weights(&cpu->learn, i, &a, &err) ||
            heads_learn_weights(&gpu->learn, i, &b, &err))
            fail_msg("%s", err.text);
        for (size_t k = 0; k < cpu->learn.nets[0].n; k++) {
            diff += ((double)a[k] - (double)b[k]) * ((double)a[k] - (double)b[k]);
            size += (double)a[k] * (double)a[k];
        }
    }
    return sqrt(diff / size);
}

static void compare(const char *model, const struct heads_learn_opts *o, int n_steps)
{
    AUTO_SIDE cpu, gpu;
    double worst = 0;
    side_open(&cpu, model, false, o);
    side_open(&gpu, model, true, o);
    assert_non_null(gpu.engine->gpu);
    measure(&cpu, 2);
    measure(&gpu, 2);
    for (int i = 0; i < cpu.engine->model->n_kv_layer * cpu.engine->model->n_kv_head; i++) {
        assert_true(fabsf(cpu.learn.mean[i] - gpu.learn.mean[i]) < 0.01f);
        assert_true(fabsf(cpu.learn.std[i] / gpu.learn.std[i] - 1) < 0.01f);
    }
    for (int i = 0; i < n_steps; i++) {
        const double want = step(&cpu, i);
        worst = fmax(worst, fabs(step(&gpu, i) / want - 1));
    }
    printf("%s: losses of %d steps differ by at most %.1e, weights by %.1e, found %.3f and %.3f\n",
           model, n_steps, worst, distance(&cpu, &gpu), found(&cpu), found(&gpu));
    assert_true(worst < 2e-3); /* 4e-3 with the smoothing term the wrong way */
    assert_true(distance(&cpu, &gpu) < 0.03);
    assert_true(fabs(found(&cpu) - found(&gpu)) < 0.1);
}

TEST(losses)
{
    compare("build/golden/families/llama3.gguf", &shares, STEPS);
}

/* Sinks and windows (gpt-oss), capped logits (gemma2), Locret's label. */
TEST(families)
{
    compare("build/golden/families/gpt-oss.gguf", &shares, 2);
    compare("build/golden/families/gemma2.gguf", &logits, 2);
}

/* A state that one of them wrote continues in the other, and on the GPU to the bit. */
TEST(checkpoints)
{
    AUTO_SIDE gpu, again, cpu;
    FILE *f = tmpfile();
    side_open(&gpu, "build/golden/families/llama3.gguf", true, &shares);
    side_open(&again, "build/golden/families/llama3.gguf", true, &shares);
    side_open(&cpu, "build/golden/families/llama3.gguf", false, &shares);
    measure(&gpu, 1);
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
    if (cuda_free_bytes(s.engine->gpu, &before, &err) ||
        plan_make(&plan, s.engine->model, NULL, s.engine->gpu, &o, 1, 1, &err) ||
        heads_learn_open(&s.learn, s.engine, &shares, 7, &err) ||
        cuda_free_bytes(s.engine->gpu, &after, &err))
        fail_msg("%s", err.text);
    const size_t training = heads_learn_device_bytes(s.engine, &shares);
    assert_int_equal(before - after, plan.cache_bytes + plan.scratch_bytes + training);
    measure(&s, 1);
    step(&s, 0);
    found(&s);
    assert_int_equal(host_bytes() - host, context_host_bytes(s.engine, &plan) +
                                              heads_learn_bytes(s.engine, &shares) -
                                              LENGTH * sizeof(int32_t)); /* asked: calloc */
    side_close(&s);
    o.besides = (int64_t)1 << 30;
    assert_int_equal(engine_open(&s.engine, &opts, &o, 1, NULL, NULL, &err), ERR_FIT);
    engine_close(s.engine);
}

/* Host memory that is a byte too small is refused before the training begins. */
TEST(host_too_small)
{
    static const char model[] = "build/golden/families/llama3.gguf";
    const struct heads_learn_opts opts = {HEADS_SHARE, 16, 64};
    const struct plan_opts o = heads_watch_plan(opts.length, 0);
    struct options command;
    struct side s;
    struct plan plan;
    side_open(&s, model, true, &opts);
    ok(plan_make(&plan, s.engine->model, NULL, s.engine->gpu, &o, 1, 1, &err));
    const size_t needs = context_host_bytes(s.engine, &plan) + heads_learn_bytes(s.engine, &opts);
    side_close(&s);
    options_init(&command);
    command.engine.model = model;
    command.engine.threads = 1;
    command.engine.device.kind = ENGINE_DEVICE_CUDA;
    command.sweep.lengths = (struct options_numbers){{opts.length}, 1};
    command.training.text = "LICENSE";
    command.training.out = "/dev/null/heads.gguf"; /* where nothing can be written */
    command.training.hidden = opts.hidden;
    command.training.steps = 1;
    available = (int64_t)needs - 1;
    assert_int_equal(heads_train(&command), err_exit_status(ERR_FIT));
    available = (int64_t)needs;
    assert_int_equal(heads_train(&command), err_exit_status(ERR_FAIL));
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
        side_open(&s, "build/golden/families/llama3.gguf", true, &shares);
        text(&one, 1, s.engine->model->n_vocab);
        measure(&s, 1);
        fail_call(calls[i], 1, 700);
        assert_int_not_equal(heads_learn_add(&s.learn, &one, one.n_context, 1, &loss, &err), 0);
        fail_call(NULL, 0, 0);
        heads_sample_release(&one);
        side_close(&s);
        assert_int_equal(held(), 0);
    }
    dlclose(library);
}
