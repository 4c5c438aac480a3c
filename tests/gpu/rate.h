/* rate: arguments of the kernels in rate.cu. Grid: any; a warp does n * RATE_PRODUCTS matrix
 * instructions, of 16 x 8 x 16 multiply-adds (f16) or 16 x 8 x 32 (s8). */
#ifndef RETAIN_TESTS_GPU_RATE_H
#define RETAIN_TESTS_GPU_RATE_H

#define RATE_THREADS  256
#define RATE_PRODUCTS 8

struct rate {
    int n;
    float *out; /* [blocks][RATE_THREADS] */
};

#endif
