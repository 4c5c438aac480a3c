/* preload: for libraries that are loaded before those of a program (LD_PRELOAD). */
#ifndef RETAIN_TESTS_PRELOAD_H
#define RETAIN_TESTS_PRELOAD_H

#include <dlfcn.h>
#include <stdlib.h>

/* The function of that name that this library hides. */
static inline void *next(const char *name)
{
    void *f = dlsym(RTLD_NEXT, name);
    if (!f) abort();
    return f;
}

#endif
