/* linear: int4 and int8 weights times int8 activations on tensor cores, a group of 32 columns per
 * mma m16n8k32, so that every integer sum is the CPU's and only the floats' order may differ.
 *
 * A warp works on panels of 16 rows; lane 4g + t holds rows g and g + 8, tokens 2t and 2t + 1. */
#ifndef RETAIN_KERNELS_CUDA_LINEAR_CUH
#define RETAIN_KERNELS_CUDA_LINEAR_CUH

#include "kernels/cuda/act.cuh"

/* Lane's part of a tile of 16 rows x 64 columns: quants and scales [group][row >= 8]. */
template <int BITS> struct weights {
    u32x4 q[BITS / 4];
    u32x2 d;
};

/* `tile` counts over panels: panel * n_block + block. */
template <int BITS>
DEVICE void load_weights(struct weights<BITS> *w, const struct cuda_weight &m, int64_t tile)
{
    UNROLL
    for (int i = 0; i < BITS / 4; i++)
        w->q[i] = load_stream((const u32x4 *)m.q + (tile * (BITS / 4) + i) * 32 + lane_id());
    w->d = load8((const u32x2 *)m.d + tile * 8 + lane_id() / 4);
}

/* A fragment of a group, 0 or 1. Q4 stays unsigned, 0 .. 15. */
template <int BITS>
DEVICE void weight_fragment(uint32_t a[4], const struct weights<BITS> *w, int group)
{
    if (BITS == 8) {
        const u32x4 q = w->q[BITS / 4 > 1 ? group : 0];
        a[0] = q.x, a[1] = q.y, a[2] = q.z, a[3] = q.w;
        return;
    }
    const uint32_t low = group ? w->q[0].z : w->q[0].x, high = group ? w->q[0].w : w->q[0].y;
    a[0] = low & 0x0f0f0f0fu;
    a[1] = high & 0x0f0f0f0fu;
    a[2] = low >> 4 & 0x0f0f0f0fu;
    a[3] = high >> 4 & 0x0f0f0f0fu;
}

/* Lane's part of 8 tokens x 64 columns: B fragments of both groups (token g), and both groups'
 * scales of tokens 2t and 2t + 1, as {d, sum, d, sum}. */
struct inputs {
    u32x4 q, scale[2];
};

/* y[r] += for r = row half * 2 + token: as the CPU, the group's exact integer sum times the product
 * of the scales. The sum starts at 12582912 = 1.5 * 2^23 in the bits of a float, so that the result
 * is read as a float; an integer sum stays below 2^22. Q4's offset of 8 is paid there too. */
template <int BITS>
DEVICE void add_group(float y[4], const uint32_t a[4], float d_low, float d_high,
                      const struct inputs *x, int group)
{
    const uint32_t b0 = group ? x->q.z : x->q.x, b1 = group ? x->q.w : x->q.y;
    const int32_t magic = 0x4b400000;
    float d[2];
    int32_t c[4];

    UNROLL
    for (int k = 0; k < 2; k++) {
        const u32x4 s = x->scale[k];
        d[k] = bits_float(group ? s.z : s.x);
        c[k] = c[k + 2] = BITS == 8 ? magic : magic - 8 * (int32_t)(group ? s.w : s.y);
    }
    if (BITS == 8)
        mma_s8(c, a, b0, b1);
    else
        mma_u8s8(c, a, b0, b1);
    UNROLL
    for (int r = 0; r < 4; r++) {
        const float dot = bits_float((uint32_t)c[r]) - 12582912.0f;
        y[r] = fma_f32(dot, (r < 2 ? d_low : d_high) * d[r % 2], y[r]);
    }
}

/* Both groups of a tile. */
template <int BITS>
DEVICE void add_tile(float y[4], const struct weights<BITS> *w, const struct inputs *x)
{
    UNROLL
    for (int group = 0; group < 2; group++) {
        const uint32_t d = group ? w->d.y : w->d.x;
        uint32_t a[4];
        weight_fragment<BITS>(a, w, group);
        add_group<BITS>(y, a, half_float((uint16_t)d), half_float((uint16_t)(d >> 16)), x, group);
    }
}

#endif
