/* Chunk attention: many query rows (token, group) of a KV head against its units, causal.
 *
 * A block of eight warps takes 128 rows, a warp 16. attend_expand has rotated and dequantized the
 * units. Tiles of 64 slots are copied by cp.async, one ahead; S = Q K^T and O += P V by matrix
 * instructions, with Q and O in registers. Only tiles on the diagonal are masked.
 *
 * The values of a tile are multiplied while the next tile's logits become weights, so that matrix
 * instructions run together with the softmax. Three stages hold values, and two hold keys.
 *
 * Two kernels for each head size:
 *   attend_chunk: halves, float sums.
 *   attend_int8:  S of int8 with a scale per row and one per tile of keys, as SageAttention
 *                 (arXiv 2410.02367); P V of a tile with sums of halves, which GeForce adds at twice
 *                 the rate, and these into float sums. Weights are at most 2^-6, so that a tile's
 *                 64 cannot overflow a half. */
#include "kernels/cuda/attend_rows.cuh"
#include "kernels/cuda/linear.cuh"

enum { THREADS = CUDA_CHUNK_THREADS, ROWS = CUDA_ATTEND_ROWS };

enum mode { FLOATS, INT8 };

template <int DIM, enum mode MODE>
struct chunk {
    enum {
        STEPS = MODE == FLOATS ? DIM / 16 : DIM / 32, /* of k in Q K^T */
        BLOCKS = DIM / 8,                             /* of 8 channels of the output */
        KEY = MODE == FLOATS ? DIM * 2 : DIM,         /* bytes of a key and of a value */
        VALUE = DIM * 2, KEY_ROW = KEY + 16, /* in shared memory; 16 of padding spread the banks */
        VALUE_ROW = VALUE + 16,
        KEYS = TILE *KEY_ROW, VALUES = TILE *VALUE_ROW, /* of a tile */
        LIFT = MODE == INT8 ? 6 : 0 /* weights are at most 2^-LIFT */
    };
};

/* Starts copying 64 rows of BYTES bytes to rows of BYTES + 16. */
template <int BYTES> DEVICE void copy_rows(char *dst, const char *src)
{
    enum { LANES = BYTES / 16 };

    UNROLL
    for (int first = 0; first < TILE * LANES; first += THREADS) {
        const int i = first + thread_id();
        if (TILE * LANES % THREADS && i >= TILE * LANES) break;
        cp_async16(dst + i / LANES * (BYTES + 16) + i % LANES * 16, src + i * 16, 16);
    }
}

/* Where the keys and values of the block's tile number i are: two stages of keys, three of
 * values. */
template <int DIM, enum mode MODE> DEVICE char *keys_of(int i)
{
    return shared_memory() + i % 2 * chunk<DIM, MODE>::KEYS;
}

template <int DIM, enum mode MODE> DEVICE char *values_of(int i)
{
    return shared_memory() + 2 * chunk<DIM, MODE>::KEYS + i % 3 * chunk<DIM, MODE>::VALUES;
}

/* Tile number `tile` of all heads' tiles, which is the block's number i. */
template <int DIM, enum mode MODE>
DEVICE void copy_tile(int i, const struct cuda_expanded &units, int64_t tile)
{
    typedef chunk<DIM, MODE> size;

    copy_rows<size::KEY>(keys_of<DIM, MODE>(i), (const char *)units.k + tile * TILE * size::KEY);
    copy_rows<size::VALUE>(values_of<DIM, MODE>(i),
                           (const char *)units.v + tile * TILE * size::VALUE);
}

/* ---- logits ---------------------------------------------------------------------------------- */

/* Channels 16u + 4t .. + 3 of a row (u < DIM/32) and their partners, rotated. */
template <int DIM>
DEVICE void query_runs(float re[4], float im[4], const struct cuda_attend &a, int head, int pos0,
                       int i, int n_row, int u)
{
    const int c = 16 * u + 4 * (lane_id() % 4);

    rotated_pairs<DIM>(re, im, a, head, pos0, i, n_row, c);
    rotated_pairs<DIM>(re + 2, im + 2, a, head, pos0, i, n_row, c + 2);
}

/* A fragments of 16 rows as int8, and the scales of rows g and g + 8. Run u of a row is half u % 2
 * of step u / 2. */
template <int DIM>
DEVICE void load_int8_queries(uint32_t q[][4], float scale[2], const struct cuda_attend &a,
                              int head, int pos0, int row0, int n_row)
{
    float re[4], im[4];

    UNROLL
    for (int i = 0; i < 2; i++) {
        const int row = row0 + lane_id() / 4 + 8 * i;
        float max = 0.0f;
        UNROLL
        for (int u = 0; u < DIM / 32; u++) {
            query_runs<DIM>(re, im, a, head, pos0, row, n_row, u);
            UNROLL
            for (int k = 0; k < 4; k++) max = max_f32(max, max_f32(abs_f32(re[k]), abs_f32(im[k])));
        }
        max = quad_max(max);
        scale[i] = max / 127.0f;
        const float inverse = max > 0.0f ? 127.0f / max : 0.0f;
        UNROLL
        for (int u = 0; u < DIM / 32; u++) {
            const int v = u + DIM / 32;
            query_runs<DIM>(re, im, a, head, pos0, row, n_row, u);
            q[u / 2][i + u % 2 * 2] = pack_bytes(re, inverse);
            q[v / 2][i + v % 2 * 2] = pack_bytes(im, inverse);
        }
    }
}

/* s[j] = logits of 16 rows and keys 8j .. 8j + 7; scale: of rows g and g + 8 times that of the
 * keys. The integer sums are read as floats, see linear.cuh. */
template <int DIM, int ROW>
DEVICE void int8_logits(float s[8][4], const uint32_t q[][4], const float scale[2],
                        const char *keys)
{
    const int32_t start[4] = {MAGIC, MAGIC, MAGIC, MAGIC};
    const float from[2] = {-MAGIC_FLOAT * scale[0], -MAGIC_FLOAT * scale[1]};
    const int lane = lane_id();

    UNROLL
    for (int j = 0; j < 8; j += 2) {
        const char *row = keys + (8 * j + lane / 16 * 8 + lane % 8) * ROW + lane / 8 % 2 * 16;
        int32_t c[2][4];
        UNROLL
        for (int step = 0; step < DIM / 32; step++) {
            uint32_t b[4];
            ldmatrix(b, row + step * 32);
            mma_s8(c[0], q[step], b[0], b[1], step ? c[0] : start);
            mma_s8(c[1], q[step], b[2], b[3], step ? c[1] : start);
        }
        UNROLL
        for (int k = 0; k < 2; k++) UNROLL
        for (int r = 0; r < 4; r++)
            s[j + k][r] = fma_f32(bits_float((uint32_t)c[k][r]), scale[r / 2], from[r / 2]);
    }
}

/* ---- weights and sums ------------------------------------------------------------------------ */

struct softmax { /* of rows g and g + 8 */
    float m[2], l[2];
    float keep[2]; /* factors of the sums so far */
};

/* The rows' new maxima. */
DEVICE void softmax_max(struct softmax *w, const float s[8][4])
{
    UNROLL
    for (int i = 0; i < 2; i++) {
        float max = -INF;
        UNROLL
        for (int j = 0; j < 8; j++) max = max_f32(max, max_f32(s[j][2 * i], s[j][2 * i + 1]));
        const float m = max_f32(w->m[i], quad_max(max));
        w->keep[i] = exp2_fast(w->m[i] - (m == -INF ? 0.0f : m));
        w->m[i] = m;
    }
}

/* Logits become weights, at most 2^-lift. */
DEVICE void softmax_weights(struct softmax *w, float s[8][4], float lift)
{
    UNROLL
    for (int i = 0; i < 2; i++) {
        const float from = (w->m[i] == -INF ? 0.0f : w->m[i]) + lift;
        float sum = 0.0f;
        UNROLL
        for (int j = 0; j < 8; j++) {
            s[j][2 * i] = exp2_fast(s[j][2 * i] - from);
            s[j][2 * i + 1] = exp2_fast(s[j][2 * i + 1] - from);
            sum += s[j][2 * i] + s[j][2 * i + 1];
        }
        w->l[i] = w->l[i] * w->keep[i] + sum;
    }
}

/* o *= keep, unless no row of the warp has a new maximum. */
template <int BLOCKS> DEVICE void rescale(float o[][4], const float keep[2])
{
    if (!warp_ballot(keep[0] != 1.0f || keep[1] != 1.0f)) return;
    UNROLL
    for (int j = 0; j < BLOCKS; j++) UNROLL
    for (int r = 0; r < 4; r++) o[j][r] *= keep[r / 2];
}

/* o = o * keep + the tile's sum, two halves of each row. */
DEVICE void add_halves(float o[4], const uint32_t sum[2], const float keep[2])
{
    UNROLL
    for (int i = 0; i < 2; i++) {
        o[2 * i] = fma_f32(o[2 * i], keep[i], half_float((uint16_t)sum[i]));
        o[2 * i + 1] = fma_f32(o[2 * i + 1], keep[i], half_float((uint16_t)(sum[i] >> 16)));
    }
}

/* Accumulators of S become A fragments of P. */
DEVICE void pack_weights(uint32_t a[TILE / 16][4], const float p[8][4])
{
    UNROLL
    for (int k = 0; k < TILE / 16; k++) UNROLL
    for (int r = 0; r < 4; r++)
        a[k][r] = h2_pack(p[2 * k + r / 2][r % 2 * 2], p[2 * k + r / 2][r % 2 * 2 + 1]);
}

/* o += P V; INT8: o = o * keep + P V. */
template <int DIM, enum mode MODE>
DEVICE void add_values(float o[][4], const uint32_t a[TILE / 16][4], const float keep[2],
                       const char *values)
{
    enum { ROW = chunk<DIM, MODE>::VALUE_ROW };
    const int lane = lane_id();
    const char *row = values + (lane / 8 % 2 * 8 + lane % 8) * ROW + lane / 16 * 16;

    UNROLL
    for (int j = 0; j < chunk<DIM, MODE>::BLOCKS; j += 2) {
        uint32_t sum[2][2] = {};
        UNROLL
        for (int k = 0; k < TILE / 16; k++) {
            uint32_t b[4];
            ldmatrix_trans(b, row + k * 16 * ROW + j * 16);
            UNROLL
            for (int i = 0; i < 2; i++)
                if (MODE == INT8)
                    mma_f16_halves(sum[i], a[k], b[2 * i], b[2 * i + 1]);
                else
                    mma_f16(o[j + i], a[k], b[2 * i], b[2 * i + 1]);
        }
        UNROLL
        for (int i = 0; i < 2 && MODE == INT8; i++) add_halves(o[j + i], sum[i], keep);
    }
}

template <int DIM>
DEVICE void write_rows(const struct cuda_attend &a, const struct softmax *w, float o[][4], int head,
                       int row0, int n_row, float lift)
{
    const int64_t base = ((int64_t)head * a.n_split + block_z()) * n_row;
    const int g = lane_id() / 4, t = lane_id() % 4;

    UNROLL
    for (int i = 0; i < 2; i++) {
        const int r = row0 + g + 8 * i;
        const float l = quad_sum(w->l[i]);
        if (r >= n_row) continue;
        if (t == 0) {
            a.m[base + r] = w->m[i] + lift;
            a.l[base + r] = l;
        }
        UNROLL
        for (int j = 0; j < DIM / 8; j++)
            *(u32x2 *)(a.acc + (base + r) * DIM + 8 * j + 2 * t) = {float_bits(o[j][2 * i]),
                                                                    float_bits(o[j][2 * i + 1])};
    }
}

/* ---- the kernels ----------------------------------------------------------------------------- */

template <int DIM, enum mode MODE> DEVICE void attend_chunk(const struct cuda_attend &a)
{
    typedef chunk<DIM, MODE> size;
    const int head = a.units.head0 + block_y(), pos0 = a.cache.len[head];
    const int n_row = a.n_tok * a.n_group;
    const int block_row = block_x() * ROWS, row0 = block_row + warp_id() * 16;
    const int last_row = min_int(block_row + ROWS, n_row) - 1;
    const int n_tile = ceil_div(pos0 + last_row / a.n_group + 1, TILE); /* that the block sees */
    const int per = ceil_div(n_tile, a.n_split), first = block_z() * per;
    const int stop = min_int(first + per, n_tile);
    const int all_see = pos0 + row0 / a.n_group; /* slots that the warp's first row sees */
    const int64_t tiles = (int64_t)block_y() * a.units.n_tile;
    struct softmax w = {{-INF, -INF}, {0.0f, 0.0f}, {1.0f, 1.0f}};
    float o[size::BLOCKS][4] = {}, row_scale[2] = {};
    uint32_t q[size::STEPS][4], p[TILE / 16][4] = {};
    int last[2];

    if (first < stop) copy_tile<DIM, MODE>(0, a.units, tiles + first);
    cp_async_commit();
    last_slots(last, a, pos0, row0, n_row);
    if (MODE == FLOATS)
        load_queries<DIM>(q, a, head, pos0, row0, n_row);
    else
        load_int8_queries<DIM>(q, row_scale, a, head, pos0, row0, n_row);
    for (int tile = first; tile < stop; tile++) {
        const int i = tile - first;
        const float keep[2] = {w.keep[0], w.keep[1]};
        float s[8][4];

        cp_async_wait<0>();
        barrier(); /* all threads have this tile, and have read the one that the next replaces */
        if (tile + 1 < stop) copy_tile<DIM, MODE>(i + 1, a.units, tiles + tile + 1);
        cp_async_commit();
        if (MODE != INT8) rescale<size::BLOCKS>(o, keep);
        if (MODE == FLOATS) {
            half_logits<DIM, size::KEY_ROW>(s, q, keys_of<DIM, MODE>(i));
        } else {
            const float scale = a.units.k_scale[tiles + tile];
            const float both[2] = {row_scale[0] * scale, row_scale[1] * scale};
            int8_logits<DIM, size::KEY_ROW>(s, q, both, keys_of<DIM, MODE>(i));
        }
        if (tile * TILE + TILE - 1 > all_see) mask_logits(s, last, tile * TILE);
        softmax_max(&w, s);
        add_values<DIM, MODE>(o, p, keep, values_of<DIM, MODE>(i ? i - 1 : 0)); /* first: p is 0 */
        softmax_weights(&w, s, size::LIFT);
        pack_weights(p, s);
    }
    if (first < stop) {
        if (MODE != INT8) rescale<size::BLOCKS>(o, w.keep);
        add_values<DIM, MODE>(o, p, w.keep, values_of<DIM, MODE>(stop - 1 - first));
    }
    write_rows<DIM>(a, &w, o, head, row0, n_row, size::LIFT);
}

#define ATTEND(dim)                                                       \
    KERNEL(attend_chunk_##dim, struct cuda_attend, CUDA_CHUNK_THREADS, 1) \
    {                                                                     \
        attend_chunk<dim, FLOATS>(a);                                     \
    }                                                                     \
    KERNEL(attend_int8_##dim, struct cuda_attend, CUDA_CHUNK_THREADS, 1)  \
    {                                                                     \
        attend_chunk<dim, INT8>(a);                                       \
    }

ATTEND(64)
ATTEND(96)
ATTEND(128)
