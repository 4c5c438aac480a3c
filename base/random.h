/* random: the project's only random number generator, a hash (splitmix64). It has no state to keep
 * or save, so a resumed conversation draws the same numbers as an uninterrupted one. */
#ifndef RETAIN_BASE_RANDOM_H
#define RETAIN_BASE_RANDOM_H

#include <stdint.h>

/* A uniform number in [0, 1) from (seed, stream, index). */
double random_at(uint64_t seed, uint64_t stream, uint64_t index);

#endif
