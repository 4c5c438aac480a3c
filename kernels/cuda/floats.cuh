/* floats: reads weights of 32 or 16 bits. */
#ifndef RETAIN_KERNELS_CUDA_FLOATS_CUH
#define RETAIN_KERNELS_CUDA_FLOATS_CUH

#include "kernels/cuda/args.h"
#include "kernels/cuda/device.cuh"

enum weight { F32, F16, BF16 };

/* Eight weights, from number `at` of the matrix on. */
template <int TYPE> DEVICE void load_weights8(float x[8], const void *w, int64_t at)
{
    uint32_t word[8];
    const u32x4 *p = (const u32x4 *)((const char *)w + at * (TYPE == F32 ? 4 : 2));
    const u32x4 low = load16(p);

    word[0] = low.x, word[1] = low.y, word[2] = low.z, word[3] = low.w;
    if (TYPE == F32) {
        const u32x4 high = load16(p + (TYPE == F32));
        word[4] = high.x, word[5] = high.y, word[6] = high.z, word[7] = high.w;
    }
    UNROLL
    for (int i = 0; i < 8; i++) {
        const uint32_t bits = TYPE == F32 ? word[i] : word[i / 2] >> 16 * (i % 2) & 0xffff;
        x[i] = TYPE == F16 ? half_float((uint16_t)bits) : bits_float(TYPE == F32 ? bits : bits << 16);
    }
}

DEVICE void load_floats8(float x[8], const float *p)
{
    UNROLL
    for (int i = 0; i < 2; i++) {
        const u32x4 v = load16((const u32x4 *)p + i);
        x[4 * i] = bits_float(v.x), x[4 * i + 1] = bits_float(v.y);
        x[4 * i + 2] = bits_float(v.z), x[4 * i + 3] = bits_float(v.w);
    }
}

#endif
