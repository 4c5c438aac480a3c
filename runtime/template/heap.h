/* heap: the memory of one template or of one rendering, with its limits and its only error exit.
 *
 * A template comes from a model file and may be hostile. All memory for it is allocated here and
 * released at once; its computations are counted in steps, its nesting in levels. An exceeded
 * limit, and every error in a template, leaves through heap_fail: one longjmp to the function that
 * called setjmp on `fault`. All memory has this one owner, so nothing leaks. */
#ifndef RETAIN_RUNTIME_TEMPLATE_HEAP_H
#define RETAIN_RUNTIME_TEMPLATE_HEAP_H

#include <setjmp.h>
#include <stddef.h>

#include "base/err.h"

struct heap_block;

struct heap {
    struct heap_block *blocks; /* newest first */
    size_t used, used_max;     /* bytes */
    size_t steps, steps_max;
    int depth, depth_max;
    int line; /* line in the template, for messages; 0 = none */
    struct err *e;
    jmp_buf fault; /* its value is the error code */
};

/* Zero-initialise, then set the limits, `e` and `fault`. */
void heap_release(struct heap *h);

/* Allocates n * size zeroed bytes. Fails when used_max would be exceeded. */
void *heap_take(struct heap *h, size_t n, size_t size);

/* Moves the `old` bytes at p to a block of `size` bytes; returns p itself if it can grow in
 * place. */
void *heap_grow(struct heap *h, void *p, size_t old, size_t size);

/* Counts n steps. */
void heap_step(struct heap *h, size_t n);

/* Called around every recursion. */
void heap_enter(struct heap *h);
void heap_leave(struct heap *h);

/* Fills *e with "line N of the chat template: …" and leaves. */
_Noreturn void heap_fail_as(struct heap *h, int code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
#define heap_fail(h, ...) heap_fail_as(h, ERR_FORMAT, __VA_ARGS__)

#endif
