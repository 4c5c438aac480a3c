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

/* Where a lane reads a panel's tiles, which follow each other. */
template <int FORMAT> struct panel {
    const char *q, *d;
};

/* From tile 0 of a panel on. */
template <int FORMAT>
DEVICE struct panel<FORMAT> panel_of(const struct cuda_weight &m, int panel, int n_block)
{
    const int64_t tile = (int64_t)panel * n_block;

    return {(const char *)m.q + tile * CUDA_TILE_BYTES(FORMAT),
            (const char *)m.d + tile * CUDA_TILE_SCALE_BYTES(FORMAT)};
}

/* The numbers of the tile at q; STREAM: in global memory, read once. */
template <int FORMAT, bool STREAM>
DEVICE void load_quants(struct weights<FORMAT> *w, const char *q)
{
    typedef struct weights<FORMAT> part;
    const u32x4 *at = (const u32x4 *)q + lane_id();

    UNROLL
    for (int i = 0; i < part::QUANTS; i++)
        w->q[i] = STREAM ? load_stream(at + i * 32) : load16(at + i * 32);
    UNROLL
    for (int i = 0; i < part::HIGHS; i++)
        w->high[i] = load16((const u32x4 *)(q + 512) + lane_id() / 4 * part::HIGHS + i);
}

/* The scales of rows g and g + 8 of the tile whose scales are at d. */
template <int FORMAT> DEVICE u32x4 load_scales(const char *d)
{
    const int g = lane_id() / 4;

    if (weights<FORMAT>::WIDE) return load16((const u32x4 *)d + g);
    const u32x2 narrow = load8((const u32x2 *)d + g);
    return {narrow.x, narrow.y, 0, 0};
}

/* Tile number `tile` of the panel. */
template <int FORMAT>
DEVICE void load_weights(struct weights<FORMAT> *w, const struct panel<FORMAT> &p, int tile)
{
    load_quants<FORMAT, true>(w, p.q + (int64_t)tile * CUDA_TILE_BYTES(FORMAT));
    w->d = load_scales<FORMAT>(p.d + (int64_t)tile * CUDA_TILE_SCALE_BYTES(FORMAT));
}

/* The next tile of the panel. */
template <int FORMAT> DEVICE void load_next(struct weights<FORMAT> *w, struct panel<FORMAT> *p)
{
    load_weights<FORMAT>(w, *p, 0);
    p->q += CUDA_TILE_BYTES(FORMAT);
    p->d += CUDA_TILE_SCALE_BYTES(FORMAT);
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

/* A fragment of a group, 0 or 1. Q4's signed bytes are 16 times the number; Q4A and Q5A stay
 * unsigned. */
template <int FORMAT>
DEVICE void weight_fragment(uint32_t a[4], const struct weights<FORMAT> *w, int group)
{
    if (FORMAT == CUDA_Q8) {
        const u32x4 q = w->q[FORMAT == CUDA_Q8 ? group : 0];
        a[0] = q.x, a[1] = q.y, a[2] = q.z, a[3] = q.w;
        return;
    }
    const uint32_t low = group ? w->q[0].z : w->q[0].x, high = group ? w->q[0].w : w->q[0].y;
    if (FORMAT == CUDA_Q4) {
        a[0] = low << 4 & 0xf0f0f0f0u;
        a[1] = high << 4 & 0xf0f0f0f0u;
        a[2] = low & 0xf0f0f0f0u;
        a[3] = high & 0xf0f0f0f0u;
        return;
    }
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

/* An integer sum starts at 12582912 = 1.5 * 2^23 in the bits of a float, so that its result is read
 * as a float; it stays below 2^22. With d of a half's precision, MAGIC * d is exact, so that
 * fma(result, d, -MAGIC * d) is the sum times d, rounded once. */
enum { MAGIC = 0x4b400000 };
#define MAGIC_FLOAT 12582912.0f

/* Q4's integer sums are 16 times the numbers': a start with a smaller exponent divides them. */
template <int FORMAT> DEVICE constexpr int32_t start_bits()
{
    return FORMAT == CUDA_Q4 ? MAGIC - (4 << 23) : MAGIC;
}

template <int FORMAT> DEVICE constexpr float start_float()
{
    return FORMAT == CUDA_Q4 ? MAGIC_FLOAT / 16 : MAGIC_FLOAT;
}

/* Scales of rows g and g + 8, [group][row]. */
template <int FORMAT> struct scales {
    float d[2][2];
    float start[2][2]; /* -start_float * d */
    float d2[2][2];    /* Q6: of the group's second half; Q4A and Q5A: m */
};

template <int FORMAT> DEVICE void unpack_scales(struct scales<FORMAT> *s, const u32x4 &from)
{
    UNROLL
    for (int group = 0; group < 2; group++) {
        UNROLL
        for (int row = 0; row < 2; row++) {
            const uint32_t narrow = (group ? from.y : from.x) >> 16 * row;
            const uint32_t wide = group ? (row ? from.w : from.z) : (row ? from.y : from.x);
            const uint32_t scale = weights<FORMAT>::WIDE ? wide : narrow;
            const float d =
                FORMAT == CUDA_MX4 ? bits_float(scale << 16) : half_float((uint16_t)scale);

            s->d[group][row] = d;
            s->start[group][row] = -start_float<FORMAT>() * d;
            if (!weights<FORMAT>::WIDE) continue;
            s->d2[group][row] = half_float((uint16_t)(scale >> 16));
        }
    }
}

/* A tile as the matrix instructions want it. */
template <int FORMAT> struct fragments {
    uint32_t a[2][4]; /* [group] */
    struct scales<FORMAT> scales;
};

template <int FORMAT>
DEVICE void unpack(struct fragments<FORMAT> *f, const struct weights<FORMAT> *w)
{
    UNROLL
    for (int group = 0; group < 2; group++) weight_fragment<FORMAT>(f->a[group], w, group);
    unpack_scales<FORMAT>(&f->scales, w->d);
}

/* Integer sums of a group: c += a b; of Q6, c of its first half and c2 of the second. */
template <int FORMAT>
DEVICE void multiply_group(int32_t c[4], int32_t c2[4], const uint32_t a[4], uint32_t b0, uint32_t b1)
{
    if (FORMAT == CUDA_Q6) {
        mma_s8_short(c, a, b0, c);
        mma_s8_short(c2, a + 2, b1, c2);
    } else if (FORMAT != CUDA_Q4A && FORMAT != CUDA_Q5A) {
        mma_s8(c, a, b0, b1, c);
    } else {
        mma_u8s8(c, a, b0, b1, c);
    }
}

/* y + the sum of a group times the weights' scale, times the inputs' scale d. sum: the inputs'. */
template <int FORMAT>
DEVICE float add_group(float y, int32_t c, int32_t c2, const struct scales<FORMAT> *w, int group,
                       int row, float d, float sum)
{
    float part = fma_f32(bits_float((uint32_t)c), w->d[group][row], w->start[group][row]);

    if (FORMAT == CUDA_Q6)
        part = fma_f32(bits_float((uint32_t)c2) - start_float<FORMAT>(), w->d2[group][row], part);
    y = fma_f32(part, d, y);
    if (FORMAT == CUDA_Q4A || FORMAT == CUDA_Q5A) y = fma_f32(w->d2[group][row], sum, y);
    return y;
}

/* A lane's part of 8 tokens x 64 columns: B fragments of both groups (token g), and both groups'
 * scales of tokens 2t and 2t + 1, as {d, sum, d, sum}. */
struct inputs {
    u32x4 q, scale[2];
};

/* y[r] += w x for r = row half * 2 + token. */
template <int FORMAT>
DEVICE void add_tile(float y[4], const struct fragments<FORMAT> *w, const struct inputs *x)
{
    UNROLL
    for (int group = 0; group < 2; group++) {
        const uint32_t b0 = group ? x->q.z : x->q.x, b1 = group ? x->q.w : x->q.y;
        constexpr int32_t START = start_bits<FORMAT>();
        int32_t c[4] = {START, START, START, START}, c2[4] = {START, START, START, START};

        multiply_group<FORMAT>(c, c2, w->a[group], b0, b1);
        UNROLL
        for (int r = 0; r < 4; r++) {
            const u32x4 s = x->scale[r % 2];
            y[r] = add_group<FORMAT>(y[r], c[r], c2[r], &w->scales, group, r / 2,
                                     bits_float(group ? s.z : s.x), bits_float(group ? s.w : s.y));
        }
    }
}

#endif
