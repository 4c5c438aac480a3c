/* size: arithmetic on byte counts that come from a file or the user. */
#ifndef RETAIN_BASE_SIZE_H
#define RETAIN_BASE_SIZE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* *out = a * b, or a + b; false when that overflows (then *out is SIZE_MAX). */
static inline bool size_mul(size_t a, size_t b, size_t *out)
{
    if (!__builtin_mul_overflow(a, b, out)) return true;
    *out = SIZE_MAX;
    return false;
}

static inline bool size_add(size_t a, size_t b, size_t *out)
{
    if (!__builtin_add_overflow(a, b, out)) return true;
    *out = SIZE_MAX;
    return false;
}

/* The next multiple of `align` (a power of two). Only for sizes that are already checked. */
static inline size_t size_align(size_t n, size_t align)
{
    return (n + align - 1) & ~(align - 1);
}

#endif
