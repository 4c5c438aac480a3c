/* Measures the peak rate of the matrix units and of reads, without any other work: the ceilings that
 * speed.c compares the kernels with. Every warp keeps eight products, or loads, in flight. */
#include "kernels/cuda/device.cuh"
#include "tests/gpu/rate.h"

enum { UNDER_WAY = RATE_PRODUCTS };

KERNEL(rate_f16, struct rate, RATE_THREADS, 1)
{
    const uint32_t x[4] = {(uint32_t)lane_id(), 1, 2, 3};
    float d[UNDER_WAY][4] = {}, sum = 0.0f;

    for (int i = 0; i < a.n; i++) UNROLL
    for (int j = 0; j < UNDER_WAY; j++) mma_f16(d[j], x, x[0], (uint32_t)j);
    UNROLL
    for (int j = 0; j < UNDER_WAY; j++) sum += d[j][0] + d[j][1] + d[j][2] + d[j][3];
    a.out[block_x() * RATE_THREADS + thread_id()] = sum;
}

KERNEL(rate_s8, struct rate, RATE_THREADS, 1)
{
    const uint32_t x[4] = {(uint32_t)lane_id(), 1, 2, 3};
    int32_t d[UNDER_WAY][4] = {}, sum = 0;

    for (int i = 0; i < a.n; i++) UNROLL
    for (int j = 0; j < UNDER_WAY; j++) mma_s8(d[j], x, x[0], (uint32_t)j, d[j]);
    UNROLL
    for (int j = 0; j < UNDER_WAY; j++) sum += d[j][0] + d[j][1] + d[j][2] + d[j][3];
    a.out[block_x() * RATE_THREADS + thread_id()] = (float)sum;
}

KERNEL(rate_read, struct rate, RATE_THREADS, 2)
{
    const int64_t step = (int64_t)grid_x() * RATE_THREADS, n = a.bytes / 16;
    uint32_t sum = 0;

    for (int i = 0; i < a.n; i++)
        for (int64_t at = block_x() * RATE_THREADS + thread_id(); at < n; at += RATE_LOADS * step) {
            u32x4 v[RATE_LOADS];
            UNROLL
            for (int j = 0; j < RATE_LOADS; j++)
                v[j] = load_stream((const u32x4 *)a.from + at + j * step);
            UNROLL
            for (int j = 0; j < RATE_LOADS; j++) sum ^= v[j].x ^ v[j].y ^ v[j].z ^ v[j].w;
        }
    a.out[block_x() * RATE_THREADS + thread_id()] = (float)sum;
}
