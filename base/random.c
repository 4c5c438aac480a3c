#include "base/random.h"

/* splitmix64's output function, https://prng.di.unimi.it/splitmix64.c */
static uint64_t mix(uint64_t z)
{
    z += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

double random_at(uint64_t seed, uint64_t stream, uint64_t index)
{
    return (double)(mix(mix(mix(seed) + stream) + index) >> 11) * 0x1p-53;
}
