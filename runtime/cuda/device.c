#include "base/memory.h"
#include "runtime/cuda/parts.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/system.h"
#include "kernels/cuda/images.h"

/* ---- device code ----------------------------------------------------------------------------- */

const char *cuda_image_name(int i)
{
    const struct cuda_image *images = cuda_images();
    for (int k = 0; k < i; k++)
        if (!images[k].name) return NULL;
    return images[i].name;
}

/* Cubins run on their architecture and on later ones of the same major number, but those of a
 * desktop GPU not on a Jetson (sm_87), and the reverse. */
static bool runs_on(int cubin, int arch)
{
    const bool jetson = cubin == 87 || arch == 87;
    return cubin == arch || (!jetson && cubin / 10 == arch / 10 && cubin < arch);
}

const struct cuda_image *cuda_choose_image(const struct cuda_image *images, int arch, int driver)
{
    const struct cuda_image *best = NULL;
    for (const struct cuda_image *i = images; i->name; i++) {
        const bool usable = i->arch ? runs_on(i->arch, arch) : arch >= 80;
        if (usable && driver >= i->driver && (!best || i->arch > best->arch)) best = i;
    }
    return best;
}

/* Loads an image; an error includes the messages of the driver's PTX compiler. */
static int load_module(struct cuda *g, const struct cuda_image *image, struct err *e)
{
    char log[512] = "";
    int options[] = {CUDA_JIT_ERROR_LOG, CUDA_JIT_ERROR_LOG_BYTES};
    void *values[] = {log, (void *)(uintptr_t)(sizeof log - 1)};
    int rc = CUDA_DO(g, e, cuModuleLoadDataEx, &g->module, image->data, 2, options, values);
    if (rc && *log) err_prefix(e, "%s", log);
    if (rc) err_prefix(e, "device code %s", image->name);
    return rc;
}

static int load_image(struct cuda *g, struct err *e)
{
    static const char *const names[] = {
#define ENTRY(name, args) #name,
        CUDA_KERNELS(ENTRY)
#undef ENTRY
    };
    const struct cuda_image *image =
        cuda_choose_image(cuda_images(), g->device.arch, g->device.driver);
    if (!image)
        return err_set(e, ERR_FAIL, "cuda:%d (%s, sm_%d) is older than sm_80 and cannot be used",
                       g->device.ordinal, g->device.name, g->device.arch);
    int rc = load_module(g, image, e);
    for (int i = 0; !rc && i < CUDA_N_KERNELS; i++) {
        rc = CUDA_DO(g, e, cuModuleGetFunction, &g->kernels[i], g->module, names[i]);
        if (!rc)
            rc = CUDA_DO(g, e, cuFuncSetAttribute, g->kernels[i], CUDA_MAX_DYNAMIC_SHARED,
                         CUDA_SHARED_MAX);
        if (!rc) /* the same for all, so that no launch waits for another split */
            rc = CUDA_DO(g, e, cuFuncSetAttribute, g->kernels[i], CUDA_SHARED_CARVEOUT, 100);
        if (rc) err_prefix(e, "kernel %s", names[i]);
    }
    return rc;
}

/* ---- devices --------------------------------------------------------------------------------- */

static int describe(struct cuda_driver *d, int handle, struct cuda_device *out, struct err *e)
{
    int major = 0, minor = 0, integrated = 0, n = out->ordinal;
    int rc = CUDA_CALL(d, n, e, cuDeviceGetName, out->name, sizeof out->name, handle);
    if (!rc) rc = CUDA_CALL(d, n, e, cuDeviceGetAttribute, &major, CUDA_CC_MAJOR, handle);
    if (!rc) rc = CUDA_CALL(d, n, e, cuDeviceGetAttribute, &minor, CUDA_CC_MINOR, handle);
    if (!rc)
        rc = CUDA_CALL(d, n, e, cuDeviceGetAttribute, &out->n_sm, CUDA_MULTIPROCESSORS, handle);
    if (!rc) rc = CUDA_CALL(d, n, e, cuDeviceGetAttribute, &integrated, CUDA_INTEGRATED, handle);
    if (!rc) rc = CUDA_CALL(d, n, e, cuDeviceTotalMem, &out->bytes, handle);
    if (!rc) rc = CUDA_CALL(d, n, e, cuDriverGetVersion, &out->driver);
    if (rc) return rc;
    if (d->cuDeviceGetPCIBusId(out->bus, sizeof out->bus, handle)) out->bus[0] = '\0';
    out->name[sizeof out->name - 1] = '\0';
    out->arch = 10 * major + minor;
    out->integrated = integrated != 0;
    const struct cuda_image *image = cuda_choose_image(cuda_images(), out->arch, out->driver);
    out->image = image ? image->name : NULL;
    return 0;
}

static int start_driver(struct cuda_driver *d, int *n_devices, struct err *e)
{
    if (!cuda_images()->name)
        return err_set(e, ERR_FAIL, "this program was built without device code (make needs nvcc)");
    int rc = cuda_driver_open(d, e);
    if (!rc) rc = CUDA_CALL(d, -1, e, cuDeviceGetCount, n_devices);
    if (!rc && *n_devices == 0) rc = err_set(e, ERR_FAIL, "the CUDA driver finds no device");
    if (rc) cuda_driver_close(d);
    return rc;
}

int cuda_devices(struct cuda_device *out, int max, struct err *e)
{
    struct cuda_driver d = {0};
    int n, handle, rc = start_driver(&d, &n, e);
    if (rc) return rc;
    if (n > max) n = max;
    for (int i = 0; !rc && i < n; i++) {
        out[i] = (struct cuda_device){.ordinal = i};
        rc = CUDA_CALL(&d, i, e, cuDeviceGet, &handle, i);
        if (!rc) rc = describe(&d, handle, &out[i], e);
    }
    cuda_driver_close(&d);
    return rc ? rc : n;
}

/* ---- chains and graphs: tried before they are needed, because MPS, a debugger or an old kernel
 * driver may refuse them
 * ------------------------------------------------------------------------------ */

/* Blocks of a chain that are resident at one time. */
static int count_chain_blocks(struct cuda *g, int *out, struct err *e)
{
    int cooperative = 0, n = 0;
    int rc = CUDA_DO(g, e, cuDeviceGetAttribute, &cooperative, CUDA_COOPERATIVE, g->handle);
    if (!rc && !cooperative) return err_set(e, ERR_FAIL, "no cooperative launches");
    if (!rc)
        rc = CUDA_DO(g, e, cuOccupancyMaxActiveBlocksPerMultiprocessor, &n,
                     g->kernels[CUDA_KERNEL_chain], CUDA_MATVEC_THREADS, CUDA_SHARED_MAX);
    if (!rc && !n) return err_set(e, ERR_FAIL, "no room for a block of a chain");
    *out = (n < CUDA_CHAIN_BLOCKS ? n : CUDA_CHAIN_BLOCKS) * g->device.n_sm;
    return rc;
}

/* Records and runs a chain without steps, or with n_blocks 0 a fill of its ticket. */
static int try_graph(struct cuda *g, int n_blocks, void *ticket, struct err *e)
{
    const struct cuda_chain job = {.ended = ticket};
    void *params[] = {(void *)&job};
    struct CUgraph_st *graph = NULL;
    struct CUgraphExec_st *exec = NULL;
    struct err ignored;
    int rc = CUDA_DO(g, e, cuStreamBeginCapture, g->stream, CUDA_CAPTURE_THREAD_LOCAL);
    if (rc) return rc;
    if (n_blocks)
        rc = CUDA_DO(g, e, cuLaunchCooperativeKernel, g->kernels[CUDA_KERNEL_chain],
                     (unsigned)n_blocks, 1, 1, CUDA_MATVEC_THREADS, 1, 1, CUDA_SHARED_MAX,
                     g->stream, params);
    else
        rc = CUDA_DO(g, e, cuMemsetD8Async, (uint64_t)(uintptr_t)ticket, 0, 4, g->stream);
    int end = CUDA_DO(g, rc ? &ignored : e, cuStreamEndCapture, g->stream, &graph);
    if (!rc) rc = end;
    if (!rc) rc = CUDA_DO(g, e, cuGraphInstantiateWithFlags, &exec, graph, 0);
    if (!rc) rc = CUDA_DO(g, e, cuGraphLaunch, exec, g->stream);
    if (!rc) rc = cuda_wait(g, e);
    if (exec) g->driver.cuGraphExecDestroy(exec);
    if (graph) g->driver.cuGraphDestroy(graph);
    return rc;
}

/* Notes what the driver refuses; other errors are returned. */
static int refusal(struct cuda *g, int rc, const char *missing, struct err *e)
{
    if (!rc || (g->driver.failure && !cuda_refused(&g->driver))) return rc;
    if (!*g->device.refused)
        snprintf(g->device.refused, sizeof g->device.refused, "%s: %.400s", missing, e->text);
    g->driver.failure = 0;
    return 0;
}

static int try_chains(struct cuda *g, struct err *e)
{
    struct arena a = {0};
    int n = 0, rc = cuda_arena_init(g, &a, "a ticket", sizeof(uint32_t), e);
    if (!rc) rc = cuda_wait(g, e);
    if (!rc) {
        int graphs = try_graph(g, 0, a.base, e);
        g->device.graphs = !graphs;
        rc = refusal(g, graphs, "tokens are slower, the driver records no launches", e);
    }
    if (!rc && g->device.graphs) {
        int chains = count_chain_blocks(g, &n, e);
        if (!chains) chains = try_graph(g, n, a.base, e);
        g->device.chain_blocks = chains ? 0 : n;
        rc = refusal(g, chains, "tokens are slower, the driver refuses chains", e);
    }
    cuda_arena_release(g, &a);
    return rc;
}

static int start_device(struct cuda *g, int ordinal, struct err *e)
{
    int n, rc = start_driver(&g->driver, &n, e);
    if (rc) return rc;
    g->device.ordinal = ordinal;
    if (ordinal >= n)
        return err_set(e, ERR_USAGE, "--device cuda:%d: there are %d devices, numbered from 0",
                       ordinal, n);
    rc = CUDA_DO(g, e, cuDeviceGet, &g->handle, ordinal);
    if (!rc) rc = describe(&g->driver, g->handle, &g->device, e);
    if (!rc) rc = CUDA_DO(g, e, cuDevicePrimaryCtxRetain, &g->context, g->handle);
    if (!rc) rc = cuda_enter(g, e);
    if (!rc)
        rc = CUDA_DO(g, e, cuStreamCreate, &g->stream, 1 /* does not synchronise with the
                                                               * default stream */);
    if (!rc) rc = load_image(g, e);
    return rc ? rc : try_chains(g, e);
}

int cuda_open(struct cuda **out, int ordinal, struct err *e)
{
    struct cuda *g = memory_new(1, sizeof *g);
    *out = NULL;
    int rc = start_device(g, ordinal, e);
    if (rc)
        cuda_close(g);
    else
        *out = g;
    return rc;
}

void cuda_close(struct cuda *g)
{
    if (!g) return;
    if (g->context) {
        g->driver.cuCtxSetCurrent(g->context);
        cuda_arena_release(g, &g->weights);
        cuda_arena_release(g, &g->retaining);
        if (g->module) g->driver.cuModuleUnload(g->module);
        if (g->stream) g->driver.cuStreamDestroy(g->stream);
        g->driver.cuDevicePrimaryCtxRelease(g->handle);
    }
    cuda_driver_close(&g->driver);
    free(g->heads);
    free(g);
}

const struct cuda_device *cuda_device(const struct cuda *g)
{
    return &g->device;
}

bool cuda_has_model(const struct cuda *g)
{
    return g->weights.base != NULL;
}

/* ---- memory ---------------------------------------------------------------------------------- */

int cuda_enter(struct cuda *g, struct err *e)
{
    return CUDA_DO(g, e, cuCtxSetCurrent, g->context);
}

/* If memory is shared with the CPU, the driver counts memory used for file caches as not free. */
int cuda_free_bytes(struct cuda *g, int64_t *out, struct err *e)
{
    size_t free_bytes = 0, total = 0;
    int64_t available = system_available_bytes();
    int rc = cuda_enter(g, e);
    if (!rc) rc = CUDA_DO(g, e, cuMemGetInfo, &free_bytes, &total);
    *out = (int64_t)free_bytes;
    if (g->device.integrated && available >= 0 && available < *out) *out = available;
    return rc;
}

static int time_copies(struct cuda *g, const struct arena *a, double *out, struct err *e)
{
    enum { COPIES = 7 };
    const uint64_t from = (uint64_t)(uintptr_t)a->base;
    const size_t half = a->bytes / 2;
    int rc = cuda_wait(g, e);
    *out = 0;
    for (int i = 0; !rc && i < COPIES; i++) {
        int64_t t0 = system_clock_ns();
        rc = CUDA_DO(g, e, cuMemcpyDtoDAsync, from + half, from, half, g->stream);
        if (!rc) rc = cuda_wait(g, e);
        double rate = 2e9 * (double)half / (double)(system_clock_ns() - t0);
        if (!rc && rate > *out) *out = rate;
    }
    return rc;
}

int cuda_copy_rate(struct cuda *g, double *out, struct err *e)
{
    struct arena a = {0};
    int64_t free_bytes;
    size_t bytes = (size_t)512 << 20; /* far more than any L2 */
    int rc = cuda_free_bytes(g, &free_bytes, e);
    while (!rc && (int64_t)bytes > free_bytes / 2) bytes /= 2;
    if (!rc) rc = cuda_arena_init(g, &a, "a bandwidth test", bytes, e);
    if (!rc) rc = time_copies(g, &a, out, e);
    cuda_arena_release(g, &a);
    return rc;
}

int cuda_arena_init(struct cuda *g, struct arena *a, const char *tag, size_t bytes, struct err *e)
{
    uint64_t address = 0;
    arena_init_plan(a, tag);
    if (bytes == 0) return 0;
    int rc = CUDA_DO(g, e, cuMemAlloc, &address, bytes);
    if (rc) return err_prefix(e, "%zu bytes for %s", bytes, tag);
    a->base = (char *)(uintptr_t)address;
    a->bytes = bytes;
    rc = CUDA_DO(g, e, cuMemsetD8Async, address, 0, bytes, g->stream);
    return rc;
}

void cuda_arena_release(struct cuda *g, struct arena *a)
{
    if (a->base) g->driver.cuMemFree((uint64_t)(uintptr_t)a->base);
    *a = (struct arena){.tag = a->tag};
}

int cuda_put(struct cuda *g, const void *to, const void *from, size_t bytes, struct err *e)
{
    if (!bytes) return 0;
    return CUDA_DO(g, e, cuMemcpyHtoDAsync, (uint64_t)(uintptr_t)to, from, bytes, g->stream);
}

int cuda_get(struct cuda *g, void *to, const void *from, size_t bytes, struct err *e)
{
    if (!bytes) return 0;
    return CUDA_DO(g, e, cuMemcpyDtoHAsync, to, (uint64_t)(uintptr_t)from, bytes, g->stream);
}

int cuda_copy(struct cuda *g, void *to, const void *from, size_t bytes, struct err *e)
{
    return CUDA_DO(g, e, cuMemcpyDtoDAsync, (uint64_t)(uintptr_t)to, (uint64_t)(uintptr_t)from,
                   bytes, g->stream);
}

int cuda_wait(struct cuda *g, struct err *e)
{
    return CUDA_DO(g, e, cuStreamSynchronize, g->stream);
}
