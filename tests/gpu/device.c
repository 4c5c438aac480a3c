/* The kernels of tests/emu's tests on a real GPU: each launch is made by the driver, and buffers
 * are memory that both sides can access. So every check of the emulator also checks the device. */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "runtime/cuda/parts.h"
#include "tests/emu/launch.h"

static struct cuda *gpu;
static int (*alloc_managed)(uint64_t *address, size_t bytes, unsigned flags);

/* Opened with the first buffer. Without a device the test ends here: there is nothing to check. */
static void open_gpu(void)
{
    struct err e;
    if (gpu) return;
    if (cuda_open(&gpu, 0, &e)) {
        printf("skip: no GPU: %s\n0 passed, 0 failed, 1 skipped\n", e.text);
        exit(0);
    }
    void *p = dlsym(gpu->driver.library, "cuMemAllocManaged");
    if (!p) abort();
    *(void **)&alloc_managed = p;
}

/* ---- memory: the linker redirects posix_memalign and free to these (--wrap)
 * ------------------- */

enum { BUFFERS_MAX = 4096 };
static void *buffers[BUFFERS_MAX];

int __real_posix_memalign(void **out, size_t align, size_t bytes);
void __real_free(void *p);
int __wrap_posix_memalign(void **out, size_t align, size_t bytes);
void __wrap_free(void *p);

int __wrap_posix_memalign(void **out, size_t align, size_t bytes)
{
    uint64_t address;
    (void)align; /* managed memory is aligned to 256 and more */
    open_gpu();
    for (int i = 0; i < BUFFERS_MAX; i++) {
        if (buffers[i]) continue;
        if (alloc_managed(&address, bytes, 1)) abort();
        *out = buffers[i] = (void *)(uintptr_t)address;
        return 0;
    }
    abort();
}

void __wrap_free(void *p)
{
    for (int i = 0; p && i < BUFFERS_MAX; i++)
        if (buffers[i] == p) {
            buffers[i] = NULL;
            gpu->driver.cuMemFree((uint64_t)(uintptr_t)p);
            return;
        }
    __real_free(p);
}

/* ---- launches -------------------------------------------------------------------------------- */

static const char *run(enum cuda_kernel k, const struct emu_launch *at, const void *args)
{
    static struct err e;
    void *params[] = {(void *)args};
    int rc = CUDA_DO(gpu, &e, cuLaunchKernel, gpu->kernels[k], (unsigned)at->grid[0],
                     (unsigned)at->grid[1], (unsigned)at->grid[2], (unsigned)at->threads, 1, 1,
                     (unsigned)at->shared_bytes, gpu->stream, params, NULL);
    if (!rc) rc = cuda_wait(gpu, &e);
    return rc ? e.text : NULL;
}

#define ENTRY(name, type)                                                   \
    const char *name(const struct emu_launch *at, const struct type *args); \
    const char *name(const struct emu_launch *at, const struct type *args)  \
    {                                                                       \
        return run(CUDA_KERNEL_##name, at, args);                           \
    }
CUDA_KERNELS(ENTRY)
