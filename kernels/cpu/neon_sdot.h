/* dot_half of neon_panels.h with sdot: 4 products of signed bytes added to a row. */
#ifndef RETAIN_KERNELS_CPU_NEON_SDOT_H
#define RETAIN_KERNELS_CPU_NEON_SDOT_H

#include "kernels/cpu/neon_panels.h"

V16_INLINE void dot_half(enum kn_type type, int32x4_t *dot, int T, const int8x16_t w[8],
                         const int8_t *q, int h)
{
    (void)type;
#pragma GCC unroll 8
    for (int t = 0; t < T; t++) {
        const int8x16_t x = vld1q_s8(q + t * KN_GROUP + 16 * h);

        dot[t] = vdotq_laneq_s32(dot[t], w[4 * h], x, 0);
        dot[t] = vdotq_laneq_s32(dot[t], w[4 * h + 1], x, 1);
        dot[t] = vdotq_laneq_s32(dot[t], w[4 * h + 2], x, 2);
        dot[t] = vdotq_laneq_s32(dot[t], w[4 * h + 3], x, 3);
    }
}

#endif
