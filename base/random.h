/* random: the project's one generator of random numbers, a hash (splitmix64): nothing has to be
 * kept or saved, and a resumed conversation draws the numbers it would have drawn. */
#ifndef RETAIN_BASE_RANDOM_H
#define RETAIN_BASE_RANDOM_H

#include <stdint.h>

/* A uniform number in [0, 1) from (seed, stream, index). */
double random_at(uint64_t seed, uint64_t stream, uint64_t index);

#endif
