#include "runtime/forward/engine.h"

#include <math.h>
#include <stdio.h>

#include "runtime/forward/context.h"

/* Logits of two correct implementations differ by 0.1 of their size, because of different rounding
 * (quant/eval/notes/device.md); those of a wrong one by more than their size. */
#define FAR 0.5

enum { CHUNK = 12, TOKENS = CHUNK + 1 };

struct side {
    struct engine *engine;
    struct context context;
};

static int side_open(struct side *s, struct engine_device device, struct err *e)
{
    const struct engine_opts o = {.device = device, .heads.none = true, .threads = 1};
    struct plan_opts p = plan_opts_default();
    p.policy = policy_choice("full");
    p.policy.context = 64;
    p.chunk = CHUNK;
    *s = (struct side){0};
    int rc = engine_open(&s->engine, &o, &p, 1, NULL, NULL, e);
    if (!rc) rc = context_open(&s->context, s->engine, &p, 0, 1, e);
    return rc;
}

static void side_close(struct side *s)
{
    context_release(&s->context);
    engine_close(s->engine);
}

static int run(struct side *s, const int32_t *ids, int n, float **logits, struct err *e)
{
    int rc = context_run(&s->context, ids, n, 1, e);
    return rc ? rc : context_logits(&s->context, logits, e);
}

static double distance(const float *a, const float *b, int n)
{
    double diff = 0, size = 0;
    for (int i = 0; i < n; i++) {
        diff += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
        size += (double)b[i] * (double)b[i];
    }
    return sqrt(diff / size);
}

static int compare(struct side *gpu, struct side *cpu, const char *name, struct err *e)
{
    const int n_vocab = cpu->engine->model->n_vocab;
    int32_t ids[TOKENS];
    for (int i = 0; i < TOKENS; i++) ids[i] = (i * 37 + 11) % n_vocab;
    /* a chunk, then a token: they use different kernels */
    for (int at = 0; at < TOKENS; at += CHUNK) {
        const int n = at + CHUNK < TOKENS ? CHUNK : TOKENS - at;
        float *got, *want;
        int rc = run(cpu, ids + at, n, &want, e);
        if (!rc) rc = run(gpu, ids + at, n, &got, e);
        if (rc) return rc;
        double off = distance(got, want, n_vocab);
        if (!(off < FAR))
            return err_set(e, ERR_FAIL,
                           "%s computes wrong results (logits differ from the CPU's by %.2f of "
                           "their size); please report this with the output of retain info",
                           name, off);
    }
    return 0;
}

int gpu_check(int ordinal, struct err *e)
{
    struct side gpu, cpu = {0};
    char name[32];
    snprintf(name, sizeof name, "cuda:%d", ordinal);
    int rc = side_open(&gpu, (struct engine_device){ENGINE_DEVICE_CUDA, ordinal}, e);
    if (!rc) rc = side_open(&cpu, (struct engine_device){.kind = ENGINE_DEVICE_CPU}, e);
    if (!rc) rc = compare(&gpu, &cpu, name, e);
    side_close(&gpu);
    side_close(&cpu);
    return rc;
}
