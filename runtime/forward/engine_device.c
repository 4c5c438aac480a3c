#include "runtime/forward/engine.h"

#include <stdio.h>
#include <string.h>

#include "base/pool.h"
#include "runtime/cuda/cuda.h"
#include "runtime/forward/gpu_check.h"
#include "runtime/forward/plan.h"

int engine_check_plans(struct engine *g, const struct plan_opts *plans, int n_plans, int n_threads,
                       struct err *e)
{
    struct plan plan;
    int rc = 0;
    for (int i = 0; !rc && i < n_plans; i++)
        rc = plan_make(&plan, g->model, g->retaining, g->gpu, &plans[i], 1, n_threads, e);
    return rc;
}

/* Reports that the driver is about to compile device code. */
static void announce_compiling(int ordinal, engine_progress *progress, void *ctx)
{
    enum { DEVICES_MAX = 64 };
    struct cuda_device all[DEVICES_MAX];
    struct err e;
    int n = progress ? cuda_devices(all, DEVICES_MAX, &e) : 0;
    if (ordinal < n && all[ordinal].image && !strcmp(all[ordinal].image, "ptx"))
        progress(ctx, 0, 0);
}

/* The most layers whose weights and units fit on the device for all plans; 0 = none, with the
 * reason for one layer. */
static int most_layers(struct engine *g, const struct plan_opts *plans, int n_plans, struct err *e)
{
    int low = 0, high = g->model->n_layer;
    while (low < high) {
        const int n = low + (high - low + 1) / 2;
        model_place(g->model, n);
        if (engine_check_plans(g, plans, n_plans, pool_n_threads(g->pool), e))
            high = n - 1;
        else
            low = n;
    }
    return low;
}

/* Places the model on the device: all of it, the layers asked for, or with auto those that fit. */
static int place(struct engine *g, const struct engine_opts *o, const struct plan_opts *plans,
                 int n_plans, struct err *e)
{
    const int asked = o->gpu_layers, all = g->model->n_layer;
    const bool split = asked > 0 && asked < all;
    model_place(g->model, split ? asked : MODEL_WHOLE);
    int rc = engine_check_plans(g, plans, n_plans, split ? pool_n_threads(g->pool) : 1, e);
    if (rc != ERR_FIT || asked || o->device.kind != ENGINE_DEVICE_AUTO) return rc;
    struct err why;
    const int n = most_layers(g, plans, n_plans, &why);
    if (n == 0) return rc;
    model_place(g->model, n);
    snprintf(
        g->device_notice, sizeof g->device_notice,
        "the GPU's memory is too small for the model: %d of %d layers run there, the rest on the "
        "CPU",
        n, all);
    return 0;
}

int engine_choose_device(struct engine *g, const struct engine_opts *o,
                         const struct plan_opts *plans, int n_plans, engine_progress *progress,
                         void *ctx, struct err *e)
{
    bool automatic = o->device.kind == ENGINE_DEVICE_AUTO;
    if (o->device.kind == ENGINE_DEVICE_CPU) return 0;
    announce_compiling(o->device.ordinal, progress, ctx);
    int rc = cuda_open(&g->gpu, o->device.ordinal, e);
    if (!rc) rc = place(g, o, plans, n_plans, e);
    if (!rc && automatic) rc = gpu_check(0, e);
    if (!rc || !automatic) return rc;
    if (g->gpu)
        snprintf(g->device_notice, sizeof g->device_notice, "the GPU is not used: %s", e->text);
    cuda_close(g->gpu);
    g->gpu = NULL;
    model_place(g->model, 0);
    return 0;
}

const char *engine_gpu_bus(const struct engine *g)
{
    return g->gpu ? cuda_device(g->gpu)->bus : "";
}

void engine_device_name(const struct engine *g, char *out, size_t bytes)
{
    const struct cuda_device *d = g->gpu ? cuda_device(g->gpu) : NULL;
    if (d && model_is_split(g->model))
        snprintf(out, bytes, "cuda:%d (%s, %s; %d of %d layers) and cpu (%s)", d->ordinal, d->name,
                 d->image, g->model->n_device, g->model->n_layer, g->kernels->isa);
    else if (d)
        snprintf(out, bytes, "cuda:%d (%s, %s)", d->ordinal, d->name, d->image);
    else
        snprintf(out, bytes, "cpu (%s, %d threads)", g->kernels->isa, pool_n_threads(g->pool));
}
