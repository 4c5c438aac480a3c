#include "driver.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/args.h"
#include "kernels/cuda/list.h"
#include "launch.h"

enum { /* meaning of the driver's numbers */
       SUCCESS = 0,
       INVALID_VALUE = 1,
       OUT_OF_MEMORY = 2,
       INVALID_IMAGE = 200,
       INVALID_CONTEXT = 201,
       NOT_FOUND = 500,
       LAUNCH_FAILED = 719,
       TOO_MANY_BLOCKS = 720,
       STREAM_CAPTURE = 900,
};

enum { N_DEVICES = 2, N_SM = 3, BLOCKS_MAX = 256, CALLS_MAX = 64 };

/* Only programs that look the driver's functions up by name call them. */
#pragma GCC diagnostic ignored "-Wmissing-prototypes"

/* ---- kernels --------------------------------------------------------------------------------- */

typedef const char *kernel_fn(const struct emu_launch *at, const void *args);

#define ENTRY(name, args) const char *name(const struct emu_launch *, const struct args *);
CUDA_KERNELS(ENTRY)
#undef ENTRY

struct CUfunc_st {
    const char *name;
    kernel_fn *run;
    size_t args_bytes;
    int shared_max, carveout;
};

static struct CUfunc_st kernels[] = {
#define ENTRY(name, args) \
    {#name, (kernel_fn *)(void (*)(void))name, sizeof(struct args), 48 << 10, -1},
    CUDA_KERNELS(ENTRY)
#undef ENTRY
};
enum { N_KERNELS = sizeof kernels / sizeof *kernels };

/* ---- pending operations ---------------------------------------------------------------------- */

struct op { /* a launch, or a copy or fill when kernel is NULL */
    struct op *next;
    const struct CUfunc_st *kernel;
    struct emu_launch at;
    char *to;
    const char *from; /* NULL: fill */
    size_t bytes;
    int value;
    /* arguments of a launch, or the bytes of a copy from memory that may change */
    _Alignas(16) char args[];
};

struct CUgraph_st {
    struct op *first, **last;
};

struct CUgraphExec_st {
    struct CUgraph_st graph;
};

struct CUstream_st {
    struct CUgraph_st queue;
    struct CUgraph_st *capture;
};

struct CUctx_st {
    int device;
};

struct CUmod_st {
    int device;
};

static struct {
    struct block { /* device or page-locked memory */
        char *p;
        size_t bytes;
        bool device;
    } blocks[BLOCKS_MAX];
    size_t taken, total;
    int held, version, launches;
    size_t host_bytes;
    struct {
        const char *name;
        int n;
    } calls[CALLS_MAX];
    const char *fail_call;
    int fail_nth, fail_error;
    uint64_t seed;
    void (*before)(void *ctx, const char *kernel, const void *args);
    void *before_ctx;
    int idle;       /* kernels do nothing */
    char text[600]; /* message of the last failed launch */
} driver = {.total = (size_t)1 << 30, .version = 13000};

/* EMU_DRIVER_MEMORY: bytes of device memory, for scripts; as emu_driver_memory. */
__attribute__((constructor)) static void take_environment(void)
{
    const char *bytes = getenv("EMU_DRIVER_MEMORY");
    if (bytes) driver.total = strtoull(bytes, NULL, 10);
}

static struct CUctx_st contexts[N_DEVICES] = {{0}, {1}};
static __thread struct CUctx_st *current;

/* ---- for tests ------------------------------------------------------------------------------- */

void emu_driver_fail(const char *call, int nth, int error)
{
    driver.fail_call = call;
    driver.fail_nth = nth;
    driver.fail_error = error;
    memset(driver.calls, 0, sizeof driver.calls);
    driver.launches = 0;
}

/* Whether `call` is the function `name`, in any version. */
static bool named(const char *call, const char *name)
{
    size_t n = strlen(name);
    return !strncmp(call, name, n) && (!call[n] || call[n] == '_');
}

static int *count_of(const char *call)
{
    int i = 0;
    while (i < CALLS_MAX - 1 && driver.calls[i].name && !named(driver.calls[i].name, call)) i++;
    driver.calls[i].name = call;
    return &driver.calls[i].n;
}

int emu_driver_calls(const char *call)
{
    return call ? *count_of(call) : driver.launches;
}

void emu_driver_memory(size_t bytes)
{
    driver.total = bytes;
}

void emu_driver_watch(void (*before)(void *ctx, const char *kernel, const void *args), void *ctx,
                      int run)
{
    driver.before = before;
    driver.before_ctx = ctx;
    driver.idle = !run;
}

void emu_driver_version(int version)
{
    driver.version = version;
}

size_t emu_driver_host_bytes(void)
{
    return driver.host_bytes;
}

int emu_driver_held(void)
{
    return driver.held;
}

/* Counts a call; returns whether it must fail. */
static int begins(const char *call, bool needs_context)
{
    int n = ++*count_of(call);
    if (driver.fail_call && named(call, driver.fail_call) &&
        (n == driver.fail_nth || !driver.fail_nth))
        return driver.fail_error;
    return needs_context && !current ? INVALID_CONTEXT : SUCCESS;
}

#define CALL(needs_context)                        \
    do {                                           \
        int rc_ = begins(__func__, needs_context); \
        if (rc_) return rc_;                       \
    } while (0)

/* ---- memory ---------------------------------------------------------------------------------- */

static struct block *block_of(const void *p, size_t bytes, bool device)
{
    const char *c = p;
    for (int i = 0; i < BLOCKS_MAX; i++) {
        struct block *b = &driver.blocks[i];
        if (b->p && b->device == device && c >= b->p && c + bytes <= b->p + b->bytes) return b;
    }
    return NULL;
}

static int take(void **out, size_t bytes, bool device)
{
    for (int i = 0; i < BLOCKS_MAX; i++) {
        struct block *b = &driver.blocks[i];
        void *p;
        if (b->p) continue;
        if (posix_memalign(&p, 256, bytes ? bytes : 1)) return OUT_OF_MEMORY;
        memset(p, 0xff, bytes);
        *b = (struct block){p, bytes, device};
        driver.held++;
        *out = p;
        return SUCCESS;
    }
    return OUT_OF_MEMORY;
}

static int give(void *p, bool device)
{
    struct block *b = block_of(p, 0, device);
    if (!b || b->p != p) return INVALID_VALUE;
    if (device) driver.taken -= b->bytes;
    free(b->p);
    *b = (struct block){0};
    driver.held--;
    return SUCCESS;
}

int cuMemAlloc_v2(uint64_t *address, size_t bytes)
{
    void *p;
    CALL(true);
    if (driver.taken + bytes > driver.total) return OUT_OF_MEMORY;
    int rc = take(&p, bytes, true);
    if (rc) return rc;
    driver.taken += bytes;
    *address = (uint64_t)(uintptr_t)p;
    return SUCCESS;
}

int cuMemFree_v2(uint64_t address)
{
    CALL(true);
    return give((void *)(uintptr_t)address, true);
}

int cuMemHostAlloc(void **p, size_t bytes, unsigned flags)
{
    CALL(true);
    driver.host_bytes += bytes;
    return take(p, bytes, false);
}

int cuMemFreeHost(void *p)
{
    CALL(true);
    return give(p, false);
}

int cuMemGetInfo_v2(size_t *free_bytes, size_t *total)
{
    CALL(true);
    *free_bytes = driver.total > driver.taken ? driver.total - driver.taken : 0;
    *total = driver.total;
    return SUCCESS;
}

/* ---- streams and graphs ---------------------------------------------------------------------- */

static int run_op(struct op *o)
{
    if (o->kernel) {
        o->at.seed = ++driver.seed;
        driver.launches++;
        if (driver.before) driver.before(driver.before_ctx, o->kernel->name, o->args);
        const char *wrong = driver.idle ? NULL : o->kernel->run(&o->at, o->args);
        if (wrong) snprintf(driver.text, sizeof driver.text, "%s: %s", o->kernel->name, wrong);
        return wrong ? LAUNCH_FAILED : SUCCESS;
    }
    if (o->from)
        memcpy(o->to, o->from, o->bytes);
    else
        memset(o->to, o->value, o->bytes);
    return SUCCESS;
}

static void add(struct CUgraph_st *g, struct op *o)
{
    if (!g->first) g->last = &g->first;
    o->next = NULL;
    *g->last = o;
    g->last = &o->next;
    driver.held++;
}

static void clear(struct CUgraph_st *g)
{
    for (struct op *o = g->first, *next; o; o = next) {
        next = o->next;
        free(o);
        driver.held--;
    }
    g->first = NULL;
}

static int run_all(struct CUgraph_st *g)
{
    int rc = SUCCESS;
    for (struct op *o = g->first; o && !rc; o = o->next) rc = run_op(o);
    return rc;
}

static struct op *op_new(size_t extra)
{
    struct op *o = calloc(1, sizeof *o + extra);
    if (!o) abort();
    return o;
}

static int submit(struct CUstream_st *s, struct op *o)
{
    add(s->capture ? s->capture : &s->queue, o);
    return SUCCESS;
}

static int drain(struct CUstream_st *s)
{
    int rc = run_all(&s->queue);
    clear(&s->queue);
    return rc;
}

int cuStreamCreate(struct CUstream_st **s, unsigned flags)
{
    CALL(true);
    *s = calloc(1, sizeof **s);
    driver.held++;
    return SUCCESS;
}

int cuStreamDestroy_v2(struct CUstream_st *s)
{
    CALL(true);
    clear(&s->queue);
    free(s);
    driver.held--;
    return SUCCESS;
}

int cuStreamSynchronize(struct CUstream_st *s)
{
    CALL(true);
    return s->capture ? STREAM_CAPTURE : drain(s);
}

/* Page-locked memory is read when the copy happens, other memory at once. */
int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t bytes, struct CUstream_st *s)
{
    CALL(true);
    bool locked = block_of(from, bytes, false) != NULL;
    struct op *o = op_new(locked ? 0 : bytes);
    o->to = (char *)(uintptr_t)to;
    o->bytes = bytes;
    o->from = locked ? from : memcpy(o->args, from, bytes);
    if (block_of(o->to, bytes, true) && (locked || !s->capture)) return submit(s, o);
    free(o);
    return INVALID_VALUE;
}

int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t bytes, struct CUstream_st *s)
{
    const char *at = (const char *)(uintptr_t)from;
    CALL(true);
    if (!block_of(at, bytes, true)) return INVALID_VALUE;
    if (!block_of(to, bytes, false)) {
        int rc = s->capture ? STREAM_CAPTURE : drain(s);
        if (!rc) memcpy(to, at, bytes);
        return rc;
    }
    struct op *o = op_new(0);
    o->to = to;
    o->from = at;
    o->bytes = bytes;
    return submit(s, o);
}

int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, struct CUstream_st *s)
{
    CALL(true);
    struct op *o = op_new(0);
    o->to = (char *)(uintptr_t)to;
    o->from = (const char *)(uintptr_t)from;
    o->bytes = bytes;
    if (block_of(o->to, bytes, true) && block_of(o->from, bytes, true)) return submit(s, o);
    free(o);
    return INVALID_VALUE;
}

int cuMemsetD8Async(uint64_t to, unsigned char value, size_t bytes, struct CUstream_st *s)
{
    CALL(true);
    if (!block_of((char *)(uintptr_t)to, bytes, true)) return INVALID_VALUE;
    struct op *o = op_new(0);
    o->to = (char *)(uintptr_t)to;
    o->bytes = bytes;
    o->value = value;
    return submit(s, o);
}

int cuLaunchKernel(struct CUfunc_st *f, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                   unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                   struct CUstream_st *s, void **args, void **extra)
{
    CALL(true);
    if (extra || block_y != 1 || block_z != 1 || (int)shared_bytes > f->shared_max)
        return INVALID_VALUE;
    struct op *o = op_new(f->args_bytes);
    o->kernel = f;
    o->at = (struct emu_launch){
        {(int)grid_x, (int)grid_y, (int)grid_z}, (int)block_x, shared_bytes, 0, 0};
    memcpy(o->args, args[0], f->args_bytes);
    return submit(s, o);
}

/* Of the chain, CUDA_CHAIN_BLOCKS are known to run on a processor. */
int cuLaunchCooperativeKernel(struct CUfunc_st *f, unsigned grid_x, unsigned grid_y,
                              unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z,
                              unsigned shared_bytes, struct CUstream_st *s, void **args)
{
    CALL(true);
    if (grid_x * grid_y * grid_z > N_SM * CUDA_CHAIN_BLOCKS) return TOO_MANY_BLOCKS;
    if (block_y != 1 || block_z != 1 || (int)shared_bytes > f->shared_max) return INVALID_VALUE;
    struct op *o = op_new(f->args_bytes);
    o->kernel = f;
    o->at = (struct emu_launch){
        {(int)grid_x, (int)grid_y, (int)grid_z}, (int)block_x, shared_bytes, 0, 1};
    memcpy(o->args, args[0], f->args_bytes);
    return submit(s, o);
}

int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *n, struct CUfunc_st *f, int threads,
                                                size_t shared_bytes)
{
    CALL(true);
    if (threads > 1024 || (int)shared_bytes > f->shared_max) return INVALID_VALUE;
    *n = CUDA_CHAIN_BLOCKS;
    return SUCCESS;
}

int cuStreamBeginCapture_v2(struct CUstream_st *s, int mode)
{
    CALL(true);
    s->capture = calloc(1, sizeof *s->capture);
    driver.held++;
    return SUCCESS;
}

int cuStreamEndCapture(struct CUstream_st *s, struct CUgraph_st **graph)
{
    *graph = s->capture;
    s->capture = NULL;
    CALL(true);
    return *graph ? SUCCESS : INVALID_VALUE;
}

int cuGraphInstantiateWithFlags(struct CUgraphExec_st **exec, struct CUgraph_st *graph,
                                unsigned long long flags)
{
    CALL(true);
    *exec = calloc(1, sizeof **exec);
    driver.held++;
    for (struct op *o = graph->first; o; o = o->next) {
        size_t extra = o->kernel ? o->kernel->args_bytes : 0;
        struct op *copy = op_new(extra);
        memcpy(copy, o, sizeof *o + extra);
        add(&(*exec)->graph, copy);
    }
    return SUCCESS;
}

int cuGraphDestroy(struct CUgraph_st *graph)
{
    CALL(true);
    clear(graph);
    free(graph);
    driver.held--;
    return SUCCESS;
}

int cuGraphExecDestroy(struct CUgraphExec_st *exec)
{
    CALL(true);
    clear(&exec->graph);
    free(exec);
    driver.held--;
    return SUCCESS;
}

int cuGraphLaunch(struct CUgraphExec_st *exec, struct CUstream_st *s)
{
    CALL(true);
    int rc = drain(s);
    return rc ? rc : run_all(&exec->graph);
}

/* ---- other functions ------------------------------------------------------------------------- */

int cuInit(unsigned flags)
{
    CALL(false);
    return SUCCESS;
}

int cuDriverGetVersion(int *version)
{
    CALL(false);
    *version = driver.version;
    return SUCCESS;
}

int cuGetErrorName(int error, const char **name)
{
    *name = error == OUT_OF_MEMORY   ? "CUDA_ERROR_OUT_OF_MEMORY"
            : error == LAUNCH_FAILED ? "CUDA_ERROR_LAUNCH_FAILED"
                                     : "CUDA_ERROR_EMULATED";
    return SUCCESS;
}

int cuGetErrorString(int error, const char **text)
{
    *text = error == LAUNCH_FAILED ? driver.text : "made up by a test";
    return SUCCESS;
}

int cuDeviceGetCount(int *n)
{
    CALL(false);
    *n = N_DEVICES;
    return SUCCESS;
}

int cuDeviceGet(int *device, int ordinal)
{
    CALL(false);
    *device = ordinal + 10; /* a handle is not an ordinal */
    return ordinal < N_DEVICES ? SUCCESS : INVALID_VALUE;
}

int cuDeviceGetName(char *name, int bytes, int device)
{
    CALL(false);
    snprintf(name, (size_t)bytes, "%s", device == 10 ? "Emulated GPU" : "Emulated Orin");
    return SUCCESS;
}

int cuDeviceGetPCIBusId(char *bus, int bytes, int device)
{
    CALL(false);
    snprintf(bus, (size_t)bytes, "0000:0%d:00.0",
             device == 10 ? 2 : 1); /* not in ordinals' order */
    return SUCCESS;
}

int cuDeviceGetAttribute(int *value, int attribute, int device)
{
    CALL(false);
    switch (attribute) {
    case 13: *value = 1000000; break; /* clock, kHz */
    case 16: *value = N_SM; break;    /* multiprocessors */
    case 18: *value = device == 11; break;
    case 95: *value = 1; break; /* cooperative launches */
    case 75: *value = 8; break;
    case 76: *value = device == 10 ? 9 : 7; break;
    default: return INVALID_VALUE;
    }
    return SUCCESS;
}

int cuDeviceTotalMem_v2(size_t *bytes, int device)
{
    CALL(false);
    *bytes = driver.total;
    return SUCCESS;
}

int cuDevicePrimaryCtxRetain(struct CUctx_st **context, int device)
{
    CALL(false);
    *context = &contexts[device - 10];
    driver.held++;
    return SUCCESS;
}

int cuDevicePrimaryCtxRelease_v2(int device)
{
    CALL(false);
    driver.held--;
    current = NULL;
    return SUCCESS;
}

int cuCtxSetCurrent(struct CUctx_st *context)
{
    CALL(false);
    current = context;
    return SUCCESS;
}

int cuModuleLoadDataEx(struct CUmod_st **module, const void *image, unsigned n_options,
                       int *options, void **values)
{
    static struct CUmod_st one;
    char *log = NULL;
    size_t log_bytes = 0;
    for (unsigned i = 0; i < n_options; i++) {
        if (options[i] == 5) log = values[i]; /* the compiler's messages, and their size */
        if (options[i] == 6) log_bytes = (size_t)(uintptr_t)values[i];
    }
    int rc = begins(__func__, true);
    if (rc && log) snprintf(log, log_bytes, "ptxas: a line of the compiler");
    if (rc) return rc;
    const char *bytes = image;
    const bool elf = !memcmp(image, "\177ELF", 4), of_13 = elf && bytes[8] >= 8; /* its ABI */
    if ((of_13 && driver.version < 13000) || (!elf && !strstr(image, ".version 8.2")))
        return INVALID_IMAGE;
    *module = &one;
    driver.held++;
    return SUCCESS;
}

int cuModuleUnload(struct CUmod_st *module)
{
    CALL(true);
    driver.held--;
    return SUCCESS;
}

int cuModuleGetFunction(struct CUfunc_st **f, struct CUmod_st *module, const char *name)
{
    CALL(true);
    for (int i = 0; i < N_KERNELS; i++)
        if (!strcmp(kernels[i].name, name)) {
            *f = &kernels[i];
            return SUCCESS;
        }
    return NOT_FOUND;
}

int cuFuncSetAttribute(struct CUfunc_st *f, int attribute, int value)
{
    CALL(true);
    if (attribute == 8 && value <= CUDA_SHARED_MAX)
        f->shared_max = value;
    else if (attribute == 9 && value >= -1 && value <= 100)
        f->carveout = value;
    else
        return INVALID_VALUE;
    return SUCCESS;
}

/* 0 for attributes that only real functions have: there are no registers here. */
int cuFuncGetAttribute(int *value, int attribute, struct CUfunc_st *f)
{
    CALL(true);
    *value = attribute == 9 ? f->carveout : 0;
    return SUCCESS;
}
