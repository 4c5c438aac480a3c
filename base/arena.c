#include "base/arena.h"

#include <assert.h>
#include <sys/mman.h>

#include "base/size.h"

void arena_init_plan(struct arena *a, const char *tag)
{
    *a = (struct arena){.tag = tag};
}

int arena_init_sparse(struct arena *a, const char *tag, size_t bytes, struct err *e)
{
    *a = (struct arena){.tag = tag};
    if (bytes == 0) return 0;
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return err_set(e, ERR_FIT,
                       "the system has no %zu bytes for %s; use a smaller --budget or model", bytes,
                       tag);
    a->base = p;
    a->bytes = bytes;
    return 0;
}

int arena_init(struct arena *a, const char *tag, size_t bytes, struct err *e)
{
    int rc = arena_init_sparse(a, tag, bytes, e);
    /* Weights and cache are read from end to end; fewer, larger pages save TLB misses. */
    if (!rc) arena_use_large(a);
    return rc;
}

bool arena_make(struct arena *a, const char *tag, int *rc, struct err *e)
{
    const bool planned = a->tag;
    if (a->base || (planned && !a->used)) return false;
    *rc = planned ? arena_init(a, tag, a->used, e) : 0;
    a->tag = tag;
    return *rc == 0;
}

void arena_use_large(const struct arena *a)
{
    if (a->bytes) madvise(a->base, a->bytes, MADV_HUGEPAGE);
}

void arena_use_all(const struct arena *a)
{
    const size_t page = 4096; /* or larger */
    for (size_t i = 0; i < a->bytes; i += page) {
        volatile char *byte = a->base + i;
        *byte = *byte;
    }
}

void arena_release(struct arena *a)
{
    if (a->base) munmap(a->base, a->bytes);
    *a = (struct arena){0};
}

void *arena_take(struct arena *a, size_t n, size_t size)
{
    size_t bytes;
    bool ok = size_mul(n, size, &bytes);
    assert(ok);
    bytes = size_align(bytes, ARENA_ALIGN);
    char *p = a->base ? a->base + a->used : NULL;
    ok = ok && size_add(a->used, bytes, &a->used);
    assert(ok && (!a->base || a->used <= a->bytes));
    return p;
}
