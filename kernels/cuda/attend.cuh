/* attend: tiles of cache units, shared by the attention kernels. */
#ifndef RETAIN_KERNELS_CUDA_ATTEND_CUH
#define RETAIN_KERNELS_CUDA_ATTEND_CUH

#include "kernels/cuda/args.h"
#include "kernels/cuda/device.cuh"

#define LOG2E 1.44269504088896f

enum { TILE = CUDA_TILE };

/* Bytes of a 4-bit key or value: one block of two halves and 16 nibble bytes per 32 numbers. */
template <int DIM> struct unit {
    enum { BYTES = DIM / 32 * 20, WORDS = BYTES / 4, TILE_BYTES = TILE * BYTES };
};

#endif
