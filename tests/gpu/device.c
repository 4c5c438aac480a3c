/* Runs the tests of tests/emu on a real GPU. Each buffer of a test has a twin in device memory: a
 * launch sends all buffers to their twins, replaces their addresses in its arguments by the twins',
 * and copies all twins back. So all checks of these tests, guards and NaN included, hold for the
 * GPU. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/cuda/parts.h"
#include "tests/emu/launch.h"

static struct cuda *gpu;

/* Opens the GPU, with the first buffer. Without a GPU the test ends here and counts as skipped. */
static void open_gpu(void)
{
    struct err e;
    if (gpu || !cuda_open(&gpu, 0, &e)) return;
    printf("skip: no GPU: %s\n0 passed, 0 failed, 1 skipped\n", e.text);
    exit(0);
}

static void check(int rc, const struct err *e)
{
    if (!rc) return;
    fprintf(stderr, "%s\n", e->text);
    abort();
}

/* ---- memory: the linker sends posix_memalign and free here (--wrap) -------------------------- */

enum { BUFFERS_MAX = 4096 };

static struct buffer {
    char *host;
    size_t bytes;
    uint64_t twin;
} buffers[BUFFERS_MAX];

int __real_posix_memalign(void **out, size_t align, size_t bytes);
void __real_free(void *p);
int __wrap_posix_memalign(void **out, size_t align, size_t bytes);
void __wrap_free(void *p);

int __wrap_posix_memalign(void **out, size_t align, size_t bytes)
{
    struct err e;
    int i = 0, rc = __real_posix_memalign(out, align, bytes);
    if (rc) return rc;
    open_gpu();
    while (i < BUFFERS_MAX && buffers[i].host) i++;
    if (i == BUFFERS_MAX) abort();
    buffers[i] = (struct buffer){.host = *out, .bytes = bytes};
    check(CUDA_DO(gpu, &e, cuMemAlloc, &buffers[i].twin, bytes), &e);
    return 0;
}

void __wrap_free(void *p)
{
    for (int i = 0; p && i < BUFFERS_MAX; i++)
        if (buffers[i].host == p) {
            gpu->driver.cuMemFree(buffers[i].twin);
            buffers[i].host = NULL;
        }
    __real_free(p);
}

/* Replaces all buffer addresses in the words of a kernel's arguments by those of the twins. */
static void translate(uint64_t *words, size_t n)
{
    for (size_t k = 0; k < n; k++)
        for (int i = 0; i < BUFFERS_MAX; i++) {
            const struct buffer *b = &buffers[i];
            const uint64_t offset = words[k] - (uint64_t)(uintptr_t)b->host;
            if (!b->host || offset >= b->bytes) continue;
            words[k] = b->twin + offset;
            break;
        }
}

/* ---- launches -------------------------------------------------------------------------------- */

static int launch(enum cuda_kernel k, const struct emu_launch *at, void *args, struct err *e)
{
    void *params[] = {args};
    int rc = 0;
    for (struct buffer *b = buffers; !rc && b < buffers + BUFFERS_MAX; b++)
        if (b->host)
            rc = CUDA_DO(gpu, e, cuMemcpyHtoDAsync, b->twin, b->host, b->bytes, gpu->stream);
    if (!rc && at->cooperative)
        rc =
            CUDA_DO(gpu, e, cuLaunchCooperativeKernel, gpu->kernels[k], (unsigned)at->grid[0], 1, 1,
                    (unsigned)at->threads, 1, 1, (unsigned)at->shared_bytes, gpu->stream, params);
    else if (!rc)
        rc = CUDA_DO(gpu, e, cuLaunchKernel, gpu->kernels[k], (unsigned)at->grid[0],
                     (unsigned)at->grid[1], (unsigned)at->grid[2], (unsigned)at->threads, 1, 1,
                     (unsigned)at->shared_bytes, gpu->stream, params, NULL);
    for (struct buffer *b = buffers; !rc && b < buffers + BUFFERS_MAX; b++)
        if (b->host)
            rc = CUDA_DO(gpu, e, cuMemcpyDtoHAsync, b->host, b->twin, b->bytes, gpu->stream);
    return rc ? rc : cuda_wait(gpu, e);
}

static const char *run(enum cuda_kernel k, const struct emu_launch *at, const void *args,
                       size_t bytes)
{
    static struct err e;
    uint64_t words[256] = {0};
    if (bytes > sizeof words) abort();
    memcpy(words, args, bytes);
    translate(words, (bytes + 7) / 8);
    return launch(k, at, words, &e) ? e.text : NULL;
}

#define ENTRY(name, type)                                                   \
    const char *name(const struct emu_launch *at, const struct type *args); \
    const char *name(const struct emu_launch *at, const struct type *args)  \
    {                                                                       \
        return run(CUDA_KERNEL_##name, at, args, sizeof *args);             \
    }
CUDA_KERNELS(ENTRY)
