/* memory: allocation that cannot fail. One rule for the whole program:
 *
 * Records, strings and lists take their memory here, also lists with an entry for each word, row or
 * tensor of a file. Running out ends the program with one line on stderr, because no caller could
 * do better and finished turns are on disk. Blocks of a stated size (weights, caches, scratch) are
 * planned and allocated with arena.h or malloc; if there is too little, the error (ERR_FAIL,
 * ERR_FIT) names its purpose. */
#ifndef RETAIN_BASE_MEMORY_H
#define RETAIN_BASE_MEMORY_H

#include <stddef.h>

/* Like reallocarray, calloc and strdup, but never NULL for n * size > 0. */
void *memory_grow(void *p, size_t n, size_t size);
void *memory_new(size_t n, size_t size);
char *memory_copy(const char *text);

/* A list of n elements with room for *max, twice as long if it has no room for one more. */
void *memory_more(void *list, size_t n, size_t *max, size_t size);

/* Large blocks return to the system when they are freed. By default glibc raises its limit for them
 * with each one that is freed, so that the passing buffers of a long conversation stay with the
 * process. Call it first. */
void memory_return_large(void);
/* The pages of small blocks that were freed return to the system, too. Call it after work that took
 * many of them: blocks that were taken meanwhile and are still in use would keep them. */
void memory_return_free(void);
/* Makes free pages of the heap and of the stack resident, so that the process does not grow later,
 * when a message needs longer strings or deeper calls than those before. */
void memory_use_free(void);

#endif
