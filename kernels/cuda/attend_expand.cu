/* attend_expand: the units of a layer as the kernels of chunks multiply them, once for all rows:
 * keys rotated by their slot, as halves or as int8; values as halves. Slots past the newest unit
 * become zero.
 *
 * int8 as in SageAttention (arXiv 2410.02367): a tile of 64 keys has one scale, and the head's mean
 * is taken off before. That adds the same number to all logits of a row, which changes no softmax,
 * so that the mean of a sample of the keys will do. */
#include "kernels/cuda/attend_rows.cuh"

enum { THREADS = CUDA_ATTEND_THREADS };

/* Rows of the tile in a matrix of rows of row_bytes. */
DEVICE char *tile_rows(void *to, const struct cuda_expanded &units, int row_bytes)
{
    return (char *)to + ((int64_t)block_y() * units.n_tile + block_x()) * TILE * row_bytes;
}

/* Number i of the tile's runs of four pairs of a key; zeros past the newest unit. */
DEVICE void tile_pairs(float re[4], float im[4], const struct cuda_expand &a, int i, int *key,
                       int *c)
{
    const struct cuda_cache &cache = a.cache;
    const int head = a.to.head0 + block_y(), runs = cache.head_dim / 8;

    *key = i / runs;
    *c = i % runs * 4;
    const int slot = block_x() * TILE + *key;
    UNROLL
    for (int k = 0; k < 4; k++) re[k] = im[k] = 0.0f;
    if (slot < cache.len[head] + a.n_tok)
        rotated_key(re, im, cache, head, a.cos, a.sin, slot, *c);
}

DEVICE void expand_values(const struct cuda_expand &a)
{
    const struct cuda_cache &cache = a.cache;
    const int head = a.to.head0 + block_y(), runs = cache.head_dim / 4;
    char *out = tile_rows(a.to.v, a.to, cache.head_dim * 2);

    for (int i = thread_id(); i < TILE * runs; i += THREADS) {
        const int slot = block_x() * TILE + i / runs;
        float x[4] = {};
        if (slot < cache.len[head] + a.n_tok)
            unit_numbers(x, cache.v + place_of(cache, head, slot) * cache.v_bytes, cache.v_type,
                         i % runs * 4, cache.head_dim);
        ((u32x2 *)out)[i] = {h2_pack(x[0], x[1]), h2_pack(x[2], x[3])};
    }
}

KERNEL(expand_f16, struct cuda_expand, CUDA_ATTEND_THREADS, 4)
{
    const int dim = a.cache.head_dim;
    char *out = tile_rows(a.to.k, a.to, dim * 2);
    float re[4], im[4];
    int key, c;

    if (block_x() * TILE >= a.cache.len[a.to.head0 + block_y()] + a.n_tok) return;
    for (int i = thread_id(); i < TILE * dim / 8; i += THREADS) {
        tile_pairs(re, im, a, i, &key, &c);
        put_halves(out + key * dim * 2, re, im, dim, c);
    }
    expand_values(a);
}

/* The mean of up to 256 rotated keys, evenly spaced over the head. */
KERNEL(expand_mean, struct cuda_expand, CUDA_ATTEND_THREADS, 1)
{
    const struct cuda_cache &cache = a.cache;
    const int head = block_x(), dim = cache.head_dim, runs = dim / 8, at_once = THREADS / runs;
    const int len = cache.len[head] + a.n_tok, step = ceil_div(len, 256), n = ceil_div(len, step);
    const int own = thread_id() / runs, c = thread_id() % runs * 4;
    float *shared = (float *)shared_memory(); /* [at_once][dim] */
    float re[4], im[4], sum[8] = {};

    for (int i = own; i < n && own < at_once; i += at_once) {
        const int slot = i * step;
        rotated_key(re, im, cache, head, a.cos, a.sin, slot, c);
        UNROLL
        for (int k = 0; k < 4; k++) sum[k] += re[k], sum[4 + k] += im[k];
    }
    UNROLL
    for (int k = 0; k < 4 && own < at_once; k++) {
        shared[own * dim + c + k] = sum[k];
        shared[own * dim + dim / 2 + c + k] = sum[4 + k];
    }
    barrier();
    if (thread_id() >= dim) return;
    float all = 0.0f;
    for (int i = 0; i < at_once; i++) all += shared[i * dim + thread_id()];
    a.mean[head * dim + thread_id()] = all / (float)n;
}

/* The run's pairs less the mean. */
DEVICE void take_mean(float re[4], float im[4], const float *mean, int half, int c)
{
    UNROLL
    for (int k = 0; k < 4; k++) {
        re[k] -= mean[c + k];
        im[k] -= mean[half + c + k];
    }
}

KERNEL(expand_int8, struct cuda_expand, CUDA_ATTEND_THREADS, 4)
{
    const int dim = a.cache.head_dim, half = dim / 2, head = a.to.head0 + block_y();
    const int n = a.cache.len[head] + a.n_tok - block_x() * TILE; /* units from this tile on */
    const float *mean = a.mean + head * dim;
    float *shared = (float *)shared_memory(), re[4], im[4], max = 0.0f;
    char *out = tile_rows(a.to.k, a.to, dim);
    int key, c;

    if (n <= 0) return;
    for (int i = thread_id(); i < TILE * dim / 8; i += THREADS) {
        tile_pairs(re, im, a, i, &key, &c);
        if (key >= n) continue;
        take_mean(re, im, mean, half, c);
        UNROLL
        for (int k = 0; k < 4; k++) max = max_f32(max, max_f32(abs_f32(re[k]), abs_f32(im[k])));
    }
    max = warp_max(max);
    if (lane_id() == 0) shared[warp_id()] = max;
    barrier();
    UNROLL
    for (int w = 0; w < THREADS / 32; w++) max = max_f32(max, shared[w]);
    const float inverse = max > 0.0f ? 127.0f / max : 0.0f;
    for (int i = thread_id(); i < TILE * dim / 8; i += THREADS) {
        tile_pairs(re, im, a, i, &key, &c);
        const bool real = key < n;
        if (real) take_mean(re, im, mean, half, c);
        *(uint32_t *)(out + key * dim + c) = real ? pack_bytes(re, inverse) : 0;
        *(uint32_t *)(out + key * dim + half + c) = real ? pack_bytes(im, inverse) : 0;
    }
    if (thread_id() == 0) a.to.k_scale[block_y() * a.to.n_tile + block_x()] = max / 127.0f;
    expand_values(a);
}
