/* heap: the memory of one template or of one rendering, with its limits and its only way out.
 *
 * A template comes from a model file and may be hostile. All memory that it causes is taken here
 * and released at once; what it computes is counted in steps, how far it nests in levels. A limit
 * that is exceeded, and every error in a template, leaves through heap_fail: one longjmp to the
 * function that called setjmp on `fault`. Nothing else owns memory, so nothing leaks. */
#ifndef RETAIN_RUNTIME_TEMPLATE_HEAP_H
#define RETAIN_RUNTIME_TEMPLATE_HEAP_H

#include <setjmp.h>
#include <stddef.h>

#include "base/err.h"

struct heap_block;

struct heap {
    struct heap_block *blocks; /* the newest first */
    size_t used, used_max;     /* bytes */
    size_t steps, steps_max;
    int depth, depth_max;
    int line; /* of the template, for messages; 0 = none */
    struct err *e;
    jmp_buf fault; /* its value is the error code */
};

/* Zero-initialise, then set the limits, `e` and `fault`. */
void heap_release(struct heap *h);

/* n * size zeroed bytes. Fails when used_max would be exceeded. */
void *heap_take(struct heap *h, size_t n, size_t size);

/* The `old` bytes at p in a place of `size` bytes; p itself if there is room behind it. */
void *heap_grow(struct heap *h, void *p, size_t old, size_t size);

/* Counts n steps. */
void heap_step(struct heap *h, size_t n);

/* Around everything that calls itself. */
void heap_enter(struct heap *h);
void heap_leave(struct heap *h);

/* Fills *e with "line N of the chat template: …" and leaves. */
_Noreturn void heap_fail(struct heap *h, int code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#endif
