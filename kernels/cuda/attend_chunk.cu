/* Chunk attention: many query rows (token, group) of a KV head against its units, causal; and the
 * column sums of that attention, which the attention policies use as scores.
 *
 * A block of four warps takes 64 rows, a warp 16. Per tile of 64 slots the packed units, copied by
 * cp.async, are converted to fp16 in shared memory once for all rows: keys are rotated by their
 * slot in float and rounded once. Then S = Q K^T and O += P V in mma m16n8k16, with Q and O in
 * registers. While one tile is computed, the units of the next one are being copied. */
#include "kernels/cuda/act.cuh"
#include "kernels/cuda/attend.cuh"
#include "kernels/cuda/cache.cuh"

enum { THREADS = CUDA_ATTEND_THREADS, ROWS = CUDA_ATTEND_ROWS, WARPS = THREADS / 32 };

template <int DIM> struct chunk {
    enum {
        STEPS = DIM / 16,   /* of k in Q K^T */
        BLOCKS = DIM / 8,   /* of 8 channels of the output */
        ROW = DIM * 2 + 16, /* bytes of an fp16 key or value; 16 of padding to spread the banks */
    };
};

/* The position of a row of the block. */
struct row {
    int token, group;
};

DEVICE struct row row_at(const struct cuda_attend &a, int i)
{
    return {i / a.n_group, i % a.n_group};
}

/* ---- units to fp16 --------------------------------------------------------------------------- */

/* A thread takes four neighbouring pairs of a key. The table ends with the cache, so slots past
 * `end`, which are zero, are rotated by its last row. */
template <int DIM>
DEVICE void expand_keys(char *out, const char *raw, const struct cuda_attend &a, int slot0, int end)
{
    for (int i = thread_id(); i < TILE * DIM / 8; i += THREADS) {
        const int key = i / (DIM / 8), h = i % (DIM / 8) / 4, t = i % 4, h2 = h + DIM / 32;
        const char *unit = raw + key * a.cache.k_bytes;
        const int64_t row = (int64_t)min_int(slot0 + key, end - 1) * (DIM / 2) + 16 * h + 4 * t;
        float x[4], y[4], c[4], s[4], re[4], im[4];

        unit_numbers(x, unit, a.cache.k_type, 16 * h + 4 * t);
        unit_numbers(y, unit, a.cache.k_type, 16 * h2 + 4 * t);
        load_four(c, a.cos + row);
        load_four(s, a.sin + row);
        UNROLL
        for (int k = 0; k < 4; k++) {
            re[k] = x[k] * c[k] - y[k] * s[k];
            im[k] = y[k] * c[k] + x[k] * s[k];
        }
        char *to = out + key * chunk<DIM>::ROW + (16 * h + 4 * t) * 2;
        *(u32x2 *)to = {h2_pack(re[0], re[1]), h2_pack(re[2], re[3])};
        *(u32x2 *)(to + DIM) = {h2_pack(im[0], im[1]), h2_pack(im[2], im[3])};
    }
}

/* A thread takes a word: 4 channels of its low nibbles, 4 of its high ones, 16 further. */
template <int DIM> DEVICE void expand_values(char *out, const char *raw)
{
    for (int i = thread_id(); i < TILE * DIM / 8; i += THREADS) {
        const int unit_id = i / (DIM / 8), block = i % (DIM / 8) / 4, t = i % 4;
        const uint32_t *words = (const uint32_t *)raw + unit_id * unit<DIM>::WORDS + block * 5;
        const uint32_t d = permute_bytes(words[0], 0, 0x1010);
        const uint32_t m = permute_bytes(words[0], 0, 0x3232);
        char *to = out + unit_id * chunk<DIM>::ROW + (32 * block + 4 * t) * 2;

        UNROLL
        for (int high = 0; high < 2; high++) {
            const uint32_t q = words[1 + t] >> 4 * high & 0x0f0f0f0fu;
            const uint32_t q01 = permute_bytes(q, 0x64646464u, 0x4140); /* 1024 + q, as half */
            const uint32_t q23 = permute_bytes(q, 0x64646464u, 0x4342);
            *(u32x2 *)(to + high * 32) = {h2_fma(h2_sub(q01, 0x64006400u), d, m),
                                          h2_fma(h2_sub(q23, 0x64006400u), d, m)};
        }
    }
}

template <int DIM> DEVICE void expand_wide_values(char *out, const char *raw, const struct cuda_cache &c)
{
    for (int i = thread_id(); i < TILE * DIM / 4; i += THREADS) {
        const int unit_id = i / (DIM / 4), channel = i % (DIM / 4) * 4;
        float x[4];

        unit_numbers(x, raw + unit_id * c.v_bytes, c.v_type, channel);
        *(u32x2 *)(out + unit_id * chunk<DIM>::ROW + channel * 2) = {h2_pack(x[0], x[1]),
                                                                    h2_pack(x[2], x[3])};
    }
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* Pair of channels c, c + 1 (c < DIM/2) of a row, rotated; {re, im}. */
template <int DIM>
DEVICE u32x2 rotated_query(const struct cuda_attend &a, int head, int pos0, int i, int n_row, int c)
{
    const struct row r = row_at(a, i);
    float re[2], im[2];

    if (i >= n_row) return {0, 0};
    const float *q = a.q + r.token * a.q_stride + (int64_t)(head * a.n_group + r.group) * DIM + c;
    const int64_t row = (int64_t)(pos0 + r.token) * (DIM / 2) + c;
    UNROLL
    for (int k = 0; k < 2; k++) {
        const float cosine = a.cos[row + k], sine = a.sin[row + k];
        const float x = q[k], y = q[k + DIM / 2];
        re[k] = (x * cosine - y * sine) * (a.scale * LOG2E);
        im[k] = (y * cosine + x * sine) * (a.scale * LOG2E);
    }
    return {h2_pack(re[0], re[1]), h2_pack(im[0], im[1])};
}

/* A fragments of the warp's 16 rows, the first of which is row0. */
template <int DIM>
DEVICE void load_queries(uint32_t q[][4], const struct cuda_attend &a, int head, int pos0, int row0,
                         int n_row)
{
    const int g = lane_id() / 4, t = lane_id() % 4;

    UNROLL
    for (int s = 0; s < DIM / 32; s++) UNROLL
    for (int r = 0; r < 4; r++) {
        const u32x2 pair = rotated_query<DIM>(a, head, pos0, row0 + g + 8 * (r & 1), n_row,
                                              16 * s + 2 * t + 8 * (r >> 1));
        q[s][r] = pair.x;
        q[s + DIM / 32][r] = pair.y;
    }
}

/* s[j] = logits of 16 rows and keys 8j .. 8j + 7 of the tile. */
template <int DIM> DEVICE void tile_logits(float s[8][4], const uint32_t q[][4], const char *keys)
{
    const int lane = lane_id();

    UNROLL
    for (int j = 0; j < 8; j++) {
        const char *row = keys + (8 * j + lane % 8) * chunk<DIM>::ROW + lane / 8 * 16;
        UNROLL
        for (int r = 0; r < 4; r++) s[j][r] = 0.0f;
        UNROLL
        for (int step = 0; step < chunk<DIM>::STEPS; step += 2) {
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

/* Maximum over the four lanes that share a row. */
DEVICE float row_max(float x)
{
    x = max_f32(x, shfl_xor_f32(x, 1));
    return max_f32(x, shfl_xor_f32(x, 2));
}

DEVICE float row_sum(float x)
{
    x += shfl_xor_f32(x, 1);
    return x + shfl_xor_f32(x, 2);
}

struct softmax { /* of rows g and g + 8 */
    float m[2], l[2];
};

template <int DIM> DEVICE void softmax_step(struct softmax *w, float s[8][4], float o[][4])
{
    UNROLL
    for (int i = 0; i < 2; i++) {
        float max = -INF, sum = 0.0f;
        UNROLL
        for (int j = 0; j < 8; j++) max = max_f32(max, max_f32(s[j][2 * i], s[j][2 * i + 1]));
        const float m = max_f32(w->m[i], row_max(max));
        const float safe = m == -INF ? 0.0f : m;
        const float keep = exp2_fast(w->m[i] - safe);
        UNROLL
        for (int j = 0; j < 8; j++) {
            s[j][2 * i] = exp2_fast(s[j][2 * i] - safe);
            s[j][2 * i + 1] = exp2_fast(s[j][2 * i + 1] - safe);
            sum += s[j][2 * i] + s[j][2 * i + 1];
        }
        w->m[i] = m;
        w->l[i] = w->l[i] * keep + sum;
        UNROLL
        for (int j = 0; j < chunk<DIM>::BLOCKS; j++) {
            o[j][2 * i] *= keep;
            o[j][2 * i + 1] *= keep;
        }
    }
}

/* o += P V: accumulators of S are A fragments of P. */
template <int DIM> DEVICE void add_values(float o[][4], const float p[8][4], const char *values)
{
    const int lane = lane_id();
    const char *row = values + (lane / 8 % 2 * 8 + lane % 8) * chunk<DIM>::ROW + lane / 16 * 16;

    UNROLL
    for (int k = 0; k < TILE / 16; k++) {
        const uint32_t a[4] = {h2_pack(p[2 * k][0], p[2 * k][1]), h2_pack(p[2 * k][2], p[2 * k][3]),
                               h2_pack(p[2 * k + 1][0], p[2 * k + 1][1]),
                               h2_pack(p[2 * k + 1][2], p[2 * k + 1][3])};
        UNROLL
        for (int j = 0; j < chunk<DIM>::BLOCKS; j += 2) {
            uint32_t b[4];
            ldmatrix_trans(b, row + k * 16 * chunk<DIM>::ROW + j * 16);
            mma_f16(o[j], a, b[0], b[1]);
            mma_f16(o[j + 1], a, b[2], b[3]);
        }
    }
}

template <int DIM>
DEVICE void write_rows(const struct cuda_attend &a, const struct softmax *w, float o[][4], int head,
                       int row0, int n_row)
{
    const int64_t base = ((int64_t)head * a.n_split + block_z()) * n_row;
    const int g = lane_id() / 4, t = lane_id() % 4;

    UNROLL
    for (int i = 0; i < 2; i++) {
        const int r = row0 + g + 8 * i;
        const float l = row_sum(w->l[i]);
        if (r >= n_row) continue;
        if (t == 0) {
            a.m[base + r] = w->m[i];
            a.l[base + r] = l;
        }
        UNROLL
        for (int j = 0; j < chunk<DIM>::BLOCKS; j++) {
            float *to = a.acc + (base + r) * DIM + 8 * j + 2 * t;
            to[0] = o[j][2 * i];
            to[1] = o[j][2 * i + 1];
        }
    }
}

/* ---- the kernels ----------------------------------------------------------------------------- */

template <int DIM> DEVICE void attend_chunk(const struct cuda_attend &a)
{
    char *raw_k = shared_memory(), *raw_v = raw_k + TILE * a.cache.k_bytes;
    char *keys = raw_v + TILE * a.cache.v_bytes, *values = keys + TILE * chunk<DIM>::ROW;
    const int head = block_y(), pos0 = a.cache.len[head], n_row = a.n_tok * a.n_group;
    const int block_row = block_x() * ROWS, row0 = block_row + warp_id() * 16;
    const int last_row = min_int(block_row + ROWS, n_row) - 1;
    const int end = pos0 + last_row / a.n_group + 1; /* slots the block sees */
    const int n_tile = ceil_div(end, TILE), per = ceil_div(n_tile, a.n_split);
    const int first = block_z() * per, stop = min_int(first + per, n_tile);
    const int32_t *pages = a.cache.pages + head * a.cache.n_pages;
    const uint8_t *k = a.cache.k, *v = a.cache.v;
    struct softmax w = {{-INF, -INF}, {0.0f, 0.0f}};
    float o[chunk<DIM>::BLOCKS][4] = {};
    uint32_t q[chunk<DIM>::STEPS][4];
    int last[2];

    last_slots(last, a, pos0, row0, n_row);
    load_queries<DIM>(q, a, head, pos0, row0, n_row);
    if (first < stop) {
        tile_copy(raw_k, k, a.cache.k_bytes, pages, first, end, THREADS);
        tile_copy(raw_v, v, a.cache.v_bytes, pages, first, end, THREADS);
    }
    cp_async_commit();
    for (int tile = first; tile < stop; tile++) {
        float s[8][4];

        cp_async_wait<0>();
        barrier(); /* the units have arrived, and the last tile's fp16 is no longer read */
        expand_keys<DIM>(keys, raw_k, a, tile * TILE, end);
        if (a.cache.v_type == CUDA_KV_Q4)
            expand_values<DIM>(values, raw_v);
        else
            expand_wide_values<DIM>(values, raw_v, a.cache);
        barrier();
        if (tile + 1 < stop) {
            tile_copy(raw_k, k, a.cache.k_bytes, pages, tile + 1, end, THREADS);
            tile_copy(raw_v, v, a.cache.v_bytes, pages, tile + 1, end, THREADS);
        }
        cp_async_commit();
        tile_logits<DIM>(s, q, keys);
        mask_logits(s, last, tile * TILE);
        softmax_step<DIM>(&w, s, o);
        add_values<DIM>(o, s, values);
    }
    write_rows<DIM>(a, &w, o, head, row0, n_row);
}

KERNEL(attend_chunk_64, struct cuda_attend, CUDA_ATTEND_THREADS, 2)
{
    attend_chunk<64>(a);
}

KERNEL(attend_chunk_96, struct cuda_attend, CUDA_ATTEND_THREADS, 2)
{
    attend_chunk<96>(a);
}

KERNEL(attend_chunk_128, struct cuda_attend, CUDA_ATTEND_THREADS, 2)
{
    attend_chunk<128>(a);
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
        uint32_t q[chunk<DIM>::STEPS][4];
        float s[8][4], lse[2];
        int last[2];

        last_slots(last, a.at, pos0, row0, n_row);
        load_queries<DIM>(q, a.at, head, pos0, row0, n_row);
        tile_logits<DIM>(s, q, keys);
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
    a.sum[head * a.sum_stride + slot0 + i] = x;
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
