/* edit_distance: how many edits two short words are apart, for "did you mean …?". */
#ifndef RETAIN_BASE_EDIT_DISTANCE_H
#define RETAIN_BASE_EDIT_DISTANCE_H

#include <stddef.h>

#define EDIT_DISTANCE_BYTES_MAX 32

/* Levenshtein distance of a[0, n_a) and b; INT_MAX when either is longer than
 * EDIT_DISTANCE_BYTES_MAX. */
int edit_distance(const char *a, size_t n_a, const char *b);

#endif
