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

/* Starts copying a tile of the head with these pages to shared memory; slots from `end` on become
 * zero, which is a unit of zeros. */
DEVICE void tile_copy(char *dst, const uint8_t *units, int unit_bytes, const int32_t *pages,
                      int tile, int end, int n_threads)
{
    const uint8_t *from = units + (int64_t)pages[tile] * (TILE * unit_bytes);
    const int bytes = min_int(end - tile * TILE, TILE) * unit_bytes;

    for (int i = thread_id() * 16; i < TILE * unit_bytes; i += n_threads * 16)
        cp_async16(dst + i, from + i, max_int(0, min_int(bytes - i, 16)));
}

/* Two nibbles of a word, at bits `shift` and `shift` + 16, as half2: 0x6400 is 1024 as a half, with
 * 1 as the value of its last bit, so that 0x6400 | q is 1024 + q; then d * q + m. */
DEVICE uint32_t dequantize2(uint32_t word, int shift, uint32_t d, uint32_t m)
{
    const uint32_t q = (word >> shift & 0x000f000fu) | 0x64006400u;
    return h2_fma(h2_sub(q, 0x64006400u), d, m);
}

#endif
