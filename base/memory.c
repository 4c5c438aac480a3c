#include "base/memory.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void *check(void *p, size_t n, size_t size)
{
    static const char line[] = "retain: out of memory\n";
    if (p || n == 0 || size == 0) return p;
    ssize_t written = write(STDERR_FILENO, line, sizeof line - 1);
    (void)written;
    abort();
}

void memory_return_large(void)
{
#ifdef M_MMAP_THRESHOLD
    mallopt(M_MMAP_THRESHOLD, 128 << 10);
#endif
}

void memory_return_free(void)
{
#ifdef __GLIBC__
    malloc_trim(0);
#endif
}

static void touch(volatile char *p, int n)
{
    const int page = 4096; /* or larger */
    for (int i = 0; p && i < n; i += page) p[i] = 0;
}

void memory_use_free(void)
{
    char stack[256 << 10], *heap = malloc(64 << 10);
    touch(stack, sizeof stack);
    touch(heap, 64 << 10);
    free(heap);
}

void *memory_grow(void *p, size_t n, size_t size)
{
    return check(reallocarray(p, n, size), n, size);
}

void *memory_new(size_t n, size_t size)
{
    return check(calloc(n, size), n, size);
}

void *memory_more(void *list, size_t n, size_t *max, size_t size)
{
    if (n < *max) return list;
    *max = *max ? 2 * *max : 64;
    return memory_grow(list, *max, size);
}

char *memory_copy(const char *text)
{
    return check(strdup(text), 1, 1);
}
