#include "runtime/template/heap.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"

/* Large enough to be returned to the system with each rendering (memory_return_large), so that the
 * process does not grow by the pages that a block happened to touch. */
#define BLOCK ((size_t)128 << 10)
#define ALIGN 16

struct heap_block {
    struct heap_block *next;
    size_t used, cap; /* bytes after the header */
    _Alignas(ALIGN) char data[];
};

void heap_release(struct heap *h)
{
    for (struct heap_block *b = h->blocks, *next; b; b = next) {
        next = b->next;
        free(b);
    }
    h->blocks = NULL;
    h->used = 0;
}

static _Noreturn void fail_memory(struct heap *h)
{
    heap_fail(h, "needs more than %zu MiB of memory", h->used_max >> 20);
}

static void count(struct heap *h, size_t n)
{
    if (n > h->used_max - h->used) fail_memory(h);
    h->used += n;
}

void *heap_take(struct heap *h, size_t n, size_t size)
{
    size_t bytes;
    if (!size_mul(n, size, &bytes) || bytes > h->used_max) fail_memory(h);
    bytes = size_align(bytes, ALIGN);
    count(h, bytes);
    struct heap_block *b = h->blocks;
    if (!b || bytes > b->cap - b->used) {
        size_t cap = bytes > BLOCK / 4 ? bytes : BLOCK;
        struct heap_block *made = calloc(1, sizeof *made + cap);
        if (!made) heap_fail_as(h, ERR_FIT, "the system has no memory for it");
        made->cap = cap;
        made->next = b;
        h->blocks = b = made;
    }
    void *p = b->data + b->used;
    b->used += bytes;
    return p;
}

void *heap_grow(struct heap *h, void *p, size_t old, size_t size)
{
    struct heap_block *b = h->blocks;
    if (size > h->used_max) fail_memory(h);
    if (p) {
        size_t there = size_align(old, ALIGN), more = size_align(size, ALIGN) - there;
        if ((char *)p + there == b->data + b->used && more <= b->cap - b->used) {
            count(h, more);
            b->used += more;
            return p;
        }
    }
    void *made = heap_take(h, size, 1);
    if (old > 0) memcpy(made, p, old);
    return made;
}

void heap_step(struct heap *h, size_t n)
{
    if (n > h->steps_max - h->steps) heap_fail(h, "takes too many steps");
    h->steps += n;
}

void heap_enter(struct heap *h)
{
    if (h->depth == h->depth_max) heap_fail(h, "nests too deeply");
    h->depth++;
}

void heap_leave(struct heap *h)
{
    h->depth--;
}

_Noreturn void heap_fail_as(struct heap *h, int code, const char *fmt, ...)
{
    char text[320];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    for (char *c = text; *c; c++) /* it may contain text of the template */
        if ((unsigned char)*c < ' ' || *c == 0x7F) *c = ' ';
    if (h->line > 0)
        err_set(h->e, code, "line %d of the chat template: %s", h->line, text);
    else
        err_set(h->e, code, "the chat template: %s", text);
    longjmp(h->fault, code);
}
