/* rate: arguments of the kernels in rate.cu. Grid: any; RATE_THREADS threads. */
#ifndef RETAIN_TESTS_GPU_RATE_H
#define RETAIN_TESTS_GPU_RATE_H

#include <stdint.h>

#define RATE_THREADS  256
#define RATE_PRODUCTS 8 /* matrix instructions of a warp that are in flight */
#define RATE_LOADS    8 /* loads of a thread that are in flight */

/* rate_f16, rate_s8: a warp does n * RATE_PRODUCTS matrix instructions, of 16 x 8 x 16
 * multiply-adds (f16) or 16 x 8 x 32 (s8). rate_read: all threads together read `bytes` n times. */
struct rate {
    int n;
    float *out;       /* [blocks][RATE_THREADS] */
    const void *from; /* for rate_read */
    int64_t bytes;    /* a multiple of blocks * RATE_THREADS * RATE_LOADS * 16 */
};

#endif
