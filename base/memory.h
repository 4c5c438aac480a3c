/* memory: what happens when there is none left. One rule for all of retain:
 *
 * Strings, lists and rows that grow with a text take their memory here; running out ends the
 * program with one line on stderr, because no caller could do better and finished turns are on the
 * disk. Memory that is sized by a model, a file or an option is planned and taken with arena.h or
 * malloc, and too little of it is an error (ERR_FAIL, ERR_FIT) that says what it was for. */
#ifndef RETAIN_BASE_MEMORY_H
#define RETAIN_BASE_MEMORY_H

#include <stddef.h>

/* As reallocarray and calloc, but never NULL for n * size > 0. */
void *memory_grow(void *p, size_t n, size_t size);
void *memory_new(size_t n, size_t size);

#endif
