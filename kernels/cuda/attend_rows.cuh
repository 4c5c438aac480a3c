/* attend_rows: query rows (token, group) of a KV head as fragments, shared by the kernels of
 * chunks. A warp takes 16 rows; lane 4g + t holds rows g and g + 8. */
#ifndef RETAIN_KERNELS_CUDA_ATTEND_ROWS_CUH
#define RETAIN_KERNELS_CUDA_ATTEND_ROWS_CUH

#include "kernels/cuda/cache.cuh"

/* Channels c, c + 1 (c < DIM/2) of a row and their partners, rotated, times the logits' scale. Rows
 * past the last are zero. */
template <int DIM>
DEVICE void rotated_pairs(float re[2], float im[2], const struct cuda_attend &a, int head, int pos0,
                          int i, int n_row, int c)
{
    const int token = i / a.n_group, group = i % a.n_group;

    UNROLL
    for (int k = 0; k < 2; k++) re[k] = im[k] = 0.0f;
    if (i >= n_row) return;
    const float *q = a.q + token * a.q_stride + (int64_t)(head * a.n_group + group) * DIM + c;
    const int64_t row = (int64_t)(pos0 + token) * (DIM / 2) + c;
    UNROLL
    for (int k = 0; k < 2; k++) {
        const float cosine = a.cos[row + k], sine = a.sin[row + k];
        const float x = q[k], y = q[k + DIM / 2];
        re[k] = (x * cosine - y * sine) * (a.scale * LOG2E);
        im[k] = (y * cosine + x * sine) * (a.scale * LOG2E);
    }
}

/* A fragments of the warp's 16 rows as halves, the first of which is row0. */
template <int DIM>
DEVICE void load_queries(uint32_t q[][4], const struct cuda_attend &a, int head, int pos0, int row0,
                         int n_row)
{
    const int g = lane_id() / 4, t = lane_id() % 4;

    UNROLL
    for (int s = 0; s < DIM / 32; s++) UNROLL
    for (int r = 0; r < 4; r++) {
        float re[2], im[2];
        rotated_pairs<DIM>(re, im, a, head, pos0, row0 + g + 8 * (r & 1), n_row,
                           16 * s + 2 * t + 8 * (r >> 1));
        q[s][r] = h2_pack(re[0], re[1]);
        q[s + DIM / 32][r] = h2_pack(im[0], im[1]);
    }
}

/* s[j] = logits of 16 rows and keys 8j .. 8j + 7 of a tile of halves with rows of ROW bytes. */
template <int DIM, int ROW>
DEVICE void half_logits(float s[8][4], const uint32_t q[][4], const char *keys)
{
    const int lane = lane_id();

    UNROLL
    for (int j = 0; j < 8; j++) {
        const char *row = keys + (8 * j + lane % 8) * ROW + lane / 8 * 16;
        UNROLL
        for (int r = 0; r < 4; r++) s[j][r] = 0.0f;
        UNROLL
        for (int step = 0; step < DIM / 16; step += 2) {
            uint32_t b[4];
            ldmatrix(b, row + step * 32);
            mma_f16(s[j], q[step], b[0], b[1]);
            mma_f16(s[j], q[step + 1], b[2], b[3]);
        }
    }
}

/* A row sees slots up to its own; rows past the last one see no slot. last[i] of rows g and g +
 * 8. */
DEVICE void mask_logits(float s[8][4], const int last[2], int slot0)
{
    const int t = lane_id() % 4;

    UNROLL
    for (int j = 0; j < 8; j++) UNROLL
    for (int r = 0; r < 4; r++)
        if (slot0 + 8 * j + 2 * t + r % 2 > last[r / 2]) s[j][r] = -INF;
}

DEVICE void last_slots(int last[2], const struct cuda_attend &a, int pos0, int row0, int n_row)
{
    UNROLL
    for (int i = 0; i < 2; i++) {
        const int r = row0 + lane_id() / 4 + 8 * i;
        last[i] = r < n_row ? pos0 + r / a.n_group : -1;
    }
}

/* Four numbers times `inverse`, which are then in -127 .. 127, as bytes. */
DEVICE uint32_t pack_bytes(const float x[4], float inverse)
{
    uint32_t word = 0;

    UNROLL
    for (int k = 0; k < 4; k++) word |= ((uint32_t)(int)round_even(x[k] * inverse) & 255) << 8 * k;
    return word;
}

/* ---- keys ------------------------------------------------------------------------------------ */

/* Four neighbouring pairs of a key, from channel c (c < dim/2) on, rotated by its slot. */
DEVICE void rotated_key(float re[4], float im[4], const struct cuda_cache &cache, int head,
                        const float *cosines, const float *sines, int slot, int c)
{
    const int half = cache.head_dim / 2;
    const int64_t row = (int64_t)slot * half + c, place = place_of(cache, head, slot);
    float x[4], y[4], cosine[4], sine[4];

    key_numbers(x, cache, head, place, slot, c);
    key_numbers(y, cache, head, place, slot, c + half);
    load_four(cosine, cosines + row);
    load_four(sine, sines + row);
    UNROLL
    for (int k = 0; k < 4; k++) {
        re[k] = x[k] * cosine[k] - y[k] * sine[k];
        im[k] = y[k] * cosine[k] + x[k] * sine[k];
    }
}

/* Writes them as halves to a row of keys. */
DEVICE void put_halves(char *row, const float re[4], const float im[4], int dim, int c)
{
    *(u32x2 *)(row + c * 2) = {h2_pack(re[0], re[1]), h2_pack(re[2], re[3])};
    *(u32x2 *)(row + c * 2 + dim) = {h2_pack(im[0], im[1]), h2_pack(im[2], im[3])};
}

#endif
