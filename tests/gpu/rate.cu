/* Measures the peak rate of the matrix units, without any other work; speed.c compares matmul and
 * attend_chunk with it. Every warp keeps eight products in flight. */
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
