/* arena: one block of memory whose size was planned, cut into pieces that live as long as it does.
 *
 * There are three: engine (weights), session (cache pool), step (scratch). `plan` adds up what each
 * will hold with the same arena_take calls on an unbacked arena, so that plan and use cannot
 * differ. */
#ifndef RETAIN_BASE_ARENA_H
#define RETAIN_BASE_ARENA_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

#define ARENA_ALIGN 64 /* a cache line, and the widest vector */

struct arena {
    const char *tag; /* "weights", "cache", "scratch": how memory is reported */
    char *base;      /* NULL while planning */
    size_t bytes;    /* capacity; 0 while planning */
    size_t used;     /* high-water mark of the bytes taken */
};

/* An arena without memory: arena_take only counts, and returns NULL. */
void arena_init_plan(struct arena *a, const char *tag);

/* Backs the arena with zeroed, page-aligned memory, in large pages if the system has them. ERR_FIT
 * when the system has none. */
int arena_init(struct arena *a, const char *tag, size_t bytes, struct err *e);
/* The same for memory that is used little by little: a small page becomes resident when it is first
 * written to. */
int arena_init_sparse(struct arena *a, const char *tag, size_t bytes, struct err *e);

/* Asks the system for large pages for the parts that are not resident yet. */
void arena_use_large(const struct arena *a);

/* Makes all its pages resident, so that the process does not grow when they are first written;
 * keeps their contents. No other thread may write to the arena during the call. */
void arena_use_all(const struct arena *a);

/* For a zeroed or released arena whose pieces one function takes: true twice, first to plan the
 * arena, then backed by memory. *rc: why that failed.
 *
 *     while (arena_make(&f->arena, "fit", &rc, e)) plan(f, &f->arena); */
bool arena_make(struct arena *a, const char *tag, int *rc, struct err *e);

void arena_release(struct arena *a);

/* n * size bytes, aligned to ARENA_ALIGN. Asserts that a backed arena was planned large enough;
 * sizes must have been checked by the caller (n and size come from a validated model). */
void *arena_take(struct arena *a, size_t n, size_t size);

#endif
