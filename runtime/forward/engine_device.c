#include "runtime/forward/engine.h"

#include <stdio.h>
#include <string.h>

#include "base/pool.h"
#include "runtime/cuda/cuda.h"
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

/* The number of layers whose experts may be on the device. */
static int experts_of(const struct engine_opts *o)
{
    return o->experts == ENGINE_EXPERTS_AUTO ? MODEL_WHOLE : 0;
}

struct placing {
    struct engine *g;
    const struct engine_opts *o;
    const struct plan_opts *plans;
    int n_plans;
};

/* Places the first n layers, but the experts of only n_experts of them, and checks the plans. */
static int try_place(const struct placing *p, int n, int n_experts, struct err *e)
{
    model_place(p->g->model, n, n_experts);
    return engine_check_plans(p->g, p->plans, p->n_plans,
                              n <= p->g->model->n_layer ? pool_n_threads(p->g->pool) : 1, e);
}

/* Places n layers, and the MTP layer if it fits, too. */
static int place_layers(const struct placing *p, int n, struct err *e)
{
    struct model *m = p->g->model;
    const struct model_mtp mtp = m->mtp;
    const int n_items = m->n_items;
    struct err without;
    int rc = try_place(p, n, experts_of(p->o), e);
    if (rc != ERR_FIT || !mtp.layer) return rc;
    m->mtp.layer = NULL;
    m->n_items = mtp.item0;
    if (!try_place(p, n, experts_of(p->o), &without)) return 0;
    m->mtp = mtp;
    m->n_items = n_items;
    return rc;
}

/* The most layers whose weights and units fit on the device for all plans; or of the first
 * `layers`, if they are given, the most whose experts fit, too. Returns low if not even low + 1 do.
 */
static int most_that_fit(const struct placing *p, int layers, int low)
{
    int high = p->g->model->n_layer;
    struct err e;
    while (low < high) {
        const int n = low + (high - low + 1) / 2;
        if (try_place(p, layers ? layers : n, layers ? n : experts_of(p->o), &e))
            high = n - 1;
        else
            low = n;
    }
    return low;
}

/* Leaves the experts of as few layers as possible to the CPU; ERR_FIT if that is not enough.
 * Experts on the device take nothing here, so host memory is left out of the search. */
static int place_experts(const struct placing *p, int n, struct err *e)
{
    struct engine *g = p->g;
    const bool maps = g->model->maps_experts;
    g->model->maps_experts = true;
    const int k = most_that_fit(p, n, -1);
    g->model->maps_experts = maps;
    if (k < 0) return ERR_FIT;
    int rc = try_place(p, n, k, e);
    if (!rc)
        snprintf(g->device_notice, sizeof g->device_notice,
                 "the GPU's memory is too small for all experts: those of %d of %d layers are in "
                 "host memory, and the CPU computes them",
                 model_n_host_experts(g->model), g->model->n_layer);
    return rc;
}

/* Places the model on the device: all of it, the layers that the user asked for, or with auto as
 * many layers as fit. */
static int place(const struct placing *p, struct err *e)
{
    struct engine *g = p->g;
    const int asked = p->o->gpu_layers, all = g->model->n_layer;
    const int layers = asked > 0 && asked < all ? asked : MODEL_WHOLE;
    int rc = place_layers(p, layers, e);
    if (rc == ERR_FIT && model_experts_of(g->model) && p->o->experts == ENGINE_EXPERTS_AUTO &&
        !place_experts(p, layers, e))
        return 0;
    if (rc != ERR_FIT || asked || p->o->device.kind != ENGINE_DEVICE_AUTO) return rc;
    const int n = most_that_fit(p, 0, 0);
    if (n == 0) return rc;
    model_place(g->model, n, experts_of(p->o));
    snprintf(
        g->device_notice, sizeof g->device_notice,
        "the GPU's memory is too small for the model: %d of %d layers run there, the rest on the "
        "CPU",
        n, all);
    return 0;
}

/* Says that the CPU evicts for a policy, so that units are copied there and back. */
static int note_eviction(const struct placing *p, struct err *e)
{
    struct engine *g = p->g;
    struct plan plan;
    for (int i = 0; i < p->n_plans && !*g->device_notice; i++) {
        int rc = plan_make(&plan, g->model, g->retaining, g->gpu, &p->plans[i], 1, 1, e);
        if (rc) return rc;
        const struct cache_shape shape = plan_shape(&plan, g->model);
        if (cuda_leaves_eviction(&plan.rules, &shape, g->retaining))
            snprintf(g->device_notice, sizeof g->device_notice,
                     "policy %s runs on the GPU, but the CPU evicts its units", plan.rules.name);
    }
    return 0;
}

int engine_choose_device(struct engine *g, const struct engine_opts *o,
                         const struct plan_opts *plans, int n_plans, engine_progress *progress,
                         void *ctx, struct err *e)
{
    const struct placing p = {g, o, plans, n_plans};
    const bool automatic = g->gpu_may_fail = o->device.kind == ENGINE_DEVICE_AUTO;
    if (o->device.kind == ENGINE_DEVICE_CPU) return 0;
    announce_compiling(o->device.ordinal, progress, ctx);
    int rc = cuda_open(&g->gpu, o->device.ordinal, e);
    if (!rc) rc = place(&p, e);
    if (!rc) rc = note_eviction(&p, e);
    if (!rc && !*g->device_notice)
        snprintf(g->device_notice, sizeof g->device_notice, "%s", cuda_device(g->gpu)->refused);
    if (!rc && automatic) rc = gpu_check(0, e);
    if (!rc || !automatic) return rc;
    engine_leave_gpu(g, e);
    return 0;
}

void engine_leave_gpu(struct engine *g, const struct err *why)
{
    struct cuda_device any;
    struct err e;
    if (g->gpu || cuda_devices(&any, 1, &e) > 0)
        snprintf(g->device_notice, sizeof g->device_notice, "the GPU is not used: %s", why->text);
    cuda_close(g->gpu);
    g->gpu = NULL;
    model_place(g->model, 0, 0);
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
    else if (d && model_n_host_experts(g->model))
        snprintf(out, bytes, "cuda:%d (%s, %s), experts of %d layers on cpu (%s)", d->ordinal,
                 d->name, d->image, model_n_host_experts(g->model), g->kernels->isa);
    else if (d)
        snprintf(out, bytes, "cuda:%d (%s, %s)", d->ordinal, d->name, d->image);
    else
        snprintf(out, bytes, "cpu (%s, %d threads)", g->kernels->isa, pool_n_threads(g->pool));
}
