/* preload: for libraries that are loaded before those of a program (LD_PRELOAD). */
#ifndef RETAIN_TESTS_PRELOAD_H
#define RETAIN_TESTS_PRELOAD_H

#include <dlfcn.h>
#include <stdarg.h>
#include <stdlib.h>

/* The function of that name that this library hides. */
static inline void *next(const char *name)
{
    void *f = dlsym(RTLD_NEXT, name);
    if (!f) abort();
    return f;
}

/* open or open64, whose third argument may be missing; `result` may use real, path, flags, mode. */
#define OPEN(name, result)                                              \
    int name(const char *path, int flags, ...);                         \
    int name(const char *path, int flags, ...)                          \
    {                                                                   \
        static int (*real)(const char *, int, ...);                     \
        va_list rest;                                                   \
        va_start(rest, flags);                                          \
        unsigned mode = va_arg(rest, unsigned);                         \
        va_end(rest);                                                   \
        if (!real) real = (int (*)(const char *, int, ...))next(#name); \
        return result;                                                  \
    }

#endif
