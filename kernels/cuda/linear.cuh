/* linear: int4 to int8 weights times int8 activations on tensor cores, a group of 32 columns per
 * mma m16n8k32, so that every integer sum equals the CPU's and only the order of float sums may
 * differ.
 *
 * A warp computes panels of 16 rows; lane 4g + t holds rows g and g + 8, tokens 2t and 2t + 1. */
#ifndef RETAIN_KERNELS_CUDA_LINEAR_CUH
#define RETAIN_KERNELS_CUDA_LINEAR_CUH

#include "kernels/cuda/act.cuh"

/* A lane's part of a tile of 16 rows x 64 columns. */
template <int FORMAT> struct weights {
    enum {
        WIDE = FORMAT > CUDA_MX4, /* two halves of scales for a row and group */
        QUANTS = FORMAT == CUDA_Q8 ? 2 : 1,
        HIGHS = FORMAT == CUDA_Q6 ? 2 : FORMAT == CUDA_Q5A ? 1 : 0,
    };
    u32x4 q[QUANTS], high[HIGHS > 0 ? HIGHS : 1];
    u32x4 d; /* [group][row >= 8]: two halves each if WIDE, else one, in x and y */
};

/* `tile` counts over panels: panel * n_block + block. */
template <int FORMAT>
DEVICE void load_weights(struct weights<FORMAT> *w, const struct cuda_weight &m, int64_t tile)
{
    typedef struct weights<FORMAT> part;
    const char *q = (const char *)m.q + tile * CUDA_TILE_BYTES(FORMAT);
    const char *d = (const char *)m.d + tile * CUDA_TILE_SCALE_BYTES(FORMAT);
    const int g = lane_id() / 4;

    UNROLL
    for (int i = 0; i < part::QUANTS; i++) w->q[i] = load_stream((const u32x4 *)q + i * 32 + lane_id());
    UNROLL
    for (int i = 0; i < part::HIGHS; i++)
        w->high[i] = load16((const u32x4 *)(q + 512) + g * part::HIGHS + i);
    if (part::WIDE) {
        w->d = load16((const u32x4 *)d + g);
    } else {
        const u32x2 narrow = load8((const u32x2 *)d + g);
        w->d = {narrow.x, narrow.y, 0, 0};
    }
}

/* The bits above a nibble, in place: of columns 4t + i (half 0) or 16 + 4t + i (half 1). */
template <int FORMAT>
DEVICE uint32_t high_bits(const struct weights<FORMAT> *w, int group, int row8, int half)
{
    const int t = lane_id() % 4;

    if (FORMAT == CUDA_Q5A) {
        const u32x4 h = w->high[0];
        const uint32_t word = group ? (row8 ? h.w : h.z) : (row8 ? h.y : h.x);
        return (word >> (t + 4 * half) & 0x01010101u) << 4;
    }
    const u32x4 h = w->high[group && FORMAT == CUDA_Q6];
    const uint32_t word = row8 ? (half ? h.w : h.z) : (half ? h.y : h.x);
    return (word >> 2 * t & 0x03030303u) << 4;
}

/* Subtracts 32 from bytes of 0 .. 63, as signed bytes. */
DEVICE uint32_t less32(uint32_t v)
{
    const uint32_t x = v ^ 0x20202020u, sign = x & 0x20202020u;
    return x | sign << 1 | sign << 2;
}

/* The numbers of four codes of 4-bit floats, one in each byte, times 2 (kn_values_e2m1). */
DEVICE uint32_t e2m1_numbers(uint32_t codes)
{
    const uint32_t pairs = (codes | codes >> 4) & 0x00ff00ffu, all = pairs | pairs >> 8;
    const uint32_t negative = (codes >> 3 & 0x01010101u) * 0xffu, select = all & 0x7777u;
    const uint32_t above = permute_bytes(0x03020100u, 0x0c080604u, select);
    const uint32_t below = permute_bytes(0xfdfeff00u, 0xf4f8fafcu, select);
    return (above & ~negative) | (below & negative);
}

/* A fragment of a group, 0 or 1. Q4, Q4A and Q5A stay unsigned. */
template <int FORMAT>
DEVICE void weight_fragment(uint32_t a[4], const struct weights<FORMAT> *w, int group)
{
    if (FORMAT == CUDA_Q8) {
        const u32x4 q = w->q[FORMAT == CUDA_Q8 ? group : 0];
        a[0] = q.x, a[1] = q.y, a[2] = q.z, a[3] = q.w;
        return;
    }
    const uint32_t low = group ? w->q[0].z : w->q[0].x, high = group ? w->q[0].w : w->q[0].y;
    a[0] = low & 0x0f0f0f0fu;
    a[1] = high & 0x0f0f0f0fu;
    a[2] = low >> 4 & 0x0f0f0f0fu;
    a[3] = high >> 4 & 0x0f0f0f0fu;
    UNROLL
    for (int r = 0; r < 4 && weights<FORMAT>::HIGHS > 0; r++)
        a[r] |= high_bits<FORMAT>(w, group, r & 1, r >> 1);
    UNROLL
    for (int r = 0; r < 4 && FORMAT == CUDA_Q6; r++) a[r] = less32(a[r]);
    UNROLL
    for (int r = 0; r < 4 && FORMAT == CUDA_MX4; r++) a[r] = e2m1_numbers(a[r]);
}

/* A lane's part of 8 tokens x 64 columns: B fragments of both groups (token g), and both groups'
 * scales of tokens 2t and 2t + 1, as {d, sum, d, sum}. */
struct inputs {
    u32x4 q, scale[2];
};

/* An integer sum starts at 12582912 = 1.5 * 2^23 in the bits of a float, so that the result is read
 * as a float; it stays below 2^22. */
enum { MAGIC = 0x4b400000 };

DEVICE float sum_of(int32_t c)
{
    return bits_float((uint32_t)c) - 12582912.0f;
}

/* y[r] += for r = row half * 2 + token: as on the CPU, the group's exact integer sum times the
 * product of the scales. scale[i]: of row g + 8 i, one half or two. The sum corrects for Q4's
 * offset of 8. */
template <int FORMAT>
DEVICE void add_group(float y[4], const uint32_t a[4], const uint32_t scale[2],
                      const struct inputs *x, int group)
{
    const uint32_t b0 = group ? x->q.z : x->q.x, b1 = group ? x->q.w : x->q.y;
    float d[2], sum[2], low[2], high[2];
    int32_t c[4];

    UNROLL
    for (int k = 0; k < 2; k++) {
        const u32x4 s = x->scale[k];
        const int32_t all = (int32_t)(group ? s.w : s.y);
        d[k] = bits_float(group ? s.z : s.x);
        sum[k] = (float)all;
        c[k] = c[k + 2] = FORMAT == CUDA_Q4 ? MAGIC - 8 * all : MAGIC;
        low[k] = FORMAT == CUDA_MX4 ? bits_float(scale[k] << 16) : half_float((uint16_t)scale[k]);
        high[k] = half_float((uint16_t)(scale[k] >> 16));
    }
    if (FORMAT == CUDA_Q6) { /* each half of the group has its scale */
        const uint32_t first[4] = {a[0], a[1], 0, 0}, second[4] = {0, 0, a[2], a[3]};
        int32_t c2[4] = {MAGIC, MAGIC, MAGIC, MAGIC};
        mma_s8(c, first, b0, 0);
        mma_s8(c2, second, 0, b1);
        UNROLL
        for (int r = 0; r < 4; r++)
            y[r] = fma_f32(sum_of(c2[r]), high[r / 2] * d[r % 2], y[r]);
    } else if (FORMAT == CUDA_Q8 || FORMAT == CUDA_MX4) {
        mma_s8(c, a, b0, b1);
    } else {
        mma_u8s8(c, a, b0, b1);
    }
    UNROLL
    for (int r = 0; r < 4; r++) {
        y[r] = fma_f32(sum_of(c[r]), low[r / 2] * d[r % 2], y[r]);
        if (FORMAT == CUDA_Q4A || FORMAT == CUDA_Q5A)
            y[r] = fma_f32(sum[r % 2], high[r / 2] * d[r % 2], y[r]);
    }
}

/* Both groups of a tile. */
template <int FORMAT>
DEVICE void add_tile(float y[4], const struct weights<FORMAT> *w, const struct inputs *x)
{
    UNROLL
    for (int group = 0; group < 2; group++) {
        const uint32_t narrow = group ? w->d.y : w->d.x;
        const uint32_t scale[2] = {
            !weights<FORMAT>::WIDE ? narrow & 0xffff : group ? w->d.z : w->d.x,
            !weights<FORMAT>::WIDE ? narrow >> 16 : group ? w->d.w : w->d.y};
        uint32_t a[4];
        weight_fragment<FORMAT>(a, w, group);
        add_group<FORMAT>(y, a, scale, x, group);
    }
}

#endif
