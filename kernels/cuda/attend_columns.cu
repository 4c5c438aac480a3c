/* Column sums of attention, which the attention policies use as scores. */
#include "kernels/cuda/attend_rows.cuh"

enum { THREADS = CUDA_ATTEND_THREADS, ROWS = THREADS / 32 * 16, WARPS = THREADS / 32 };

/* A tile's keys as halves; 16 bytes of padding spread the banks. The table ends with the cache, so
 * slots past `end`, which are zero, are rotated by its last row. */
template <int DIM>
DEVICE void expand_keys(char *out, const char *raw, const struct cuda_attend &a, int slot0, int end)
{
    for (int i = thread_id(); i < TILE * DIM / 8; i += THREADS) {
        const int key = i / (DIM / 8), c = i % (DIM / 8) * 4;
        float re[4], im[4];

        rotated_key(re, im, raw + key * a.cache.k_bytes, a.cache, a.cos, a.sin,
                    min_int(slot0 + key, end - 1), c);
        put_halves(out + key * (DIM * 2 + 16), re, im, DIM, c);
    }
}

/* Column sums of one tile of slots over all rows: keys are converted to fp16 once, then all rows
 * are processed. A warp adds its rows in order, and the four warps are added in order. */
template <int DIM> DEVICE void column_sums(const struct cuda_colsum &a)
{
    const struct cuda_cache &c = a.at.cache;
    char *raw = shared_memory(), *keys = raw + TILE * c.k_bytes;
    const int head = block_y(), slot0 = block_x() * TILE, pos0 = a.at.cache.len[head];
    const int n_row = a.at.n_tok * a.at.n_group, end = pos0 + a.at.n_tok;
    const int t = lane_id() % 4;
    float sum[8][2] = {};

    if (slot0 >= end) return; /* the whole block: this head is shorter */
    tile_copy(raw, c.k, c.k_bytes, c.pages + head * c.n_pages, block_x(), end, THREADS);
    cp_async_commit();
    cp_async_wait<0>();
    barrier();
    expand_keys<DIM>(keys, raw, a.at, slot0, end);
    barrier();
    for (int row0 = warp_id() * 16; row0 < n_row; row0 += ROWS) {
        uint32_t q[DIM / 16][4];
        float s[8][4], lse[2];
        int last[2];

        last_slots(last, a.at, pos0, row0, n_row);
        load_queries<DIM>(q, a.at, head, pos0, row0, n_row);
        half_logits<DIM, DIM * 2 + 16>(s, q, keys);
        mask_logits(s, last, slot0);
        UNROLL
        for (int i = 0; i < 2; i++) {
            const int r = row0 + lane_id() / 4 + 8 * i;
            lse[i] = r < n_row ? a.lse[(int64_t)head * n_row + r] : 0.0f;
        }
        UNROLL
        for (int j = 0; j < 8; j++) UNROLL
        for (int k = 0; k < 2; k++)
            sum[j][k] += exp2_fast(s[j][k] - lse[0]) + exp2_fast(s[j][k + 2] - lse[1]);
    }
    float *shared = (float *)raw; /* [warp][64]; the units are no longer read */
    UNROLL
    for (int j = 0; j < 8; j++) UNROLL
    for (int k = 0; k < 2; k++) {
        float x = sum[j][k];
        UNROLL
        for (int mask = 4; mask < 32; mask <<= 1) x += shfl_xor_f32(x, mask);
        if (lane_id() < 4) shared[warp_id() * TILE + 8 * j + 2 * t + k] = x;
    }
    barrier();
    const int i = thread_id();
    if (i >= TILE || slot0 + i >= end) return;
    float x = 0.0f;
    UNROLL
    for (int w = 0; w < WARPS; w++) x += shared[w * TILE + i];
    if (a.sum)
        a.sum[head * a.sum_stride + slot0 + i] = x;
    else
        c.score[place_of(c, head, slot0 + i)] += x;
}

KERNEL(colsum_64, struct cuda_colsum, CUDA_ATTEND_THREADS, 2)
{
    column_sums<64>(a);
}

KERNEL(colsum_96, struct cuda_colsum, CUDA_ATTEND_THREADS, 2)
{
    column_sums<96>(a);
}

KERNEL(colsum_128, struct cuda_colsum, CUDA_ATTEND_THREADS, 2)
{
    column_sums<128>(a);
}
