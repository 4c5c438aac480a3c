/* matmul: y = W x for chunks, and the retaining head, whose second layer is the epilogue.
 *
 * A block computes 128 rows x 64 tokens, a warp 32 rows (two panels). Weights are loaded from
 * memory to registers in fragment order, without shared memory, a tile ahead; 64 tokens x 64 columns
 * of activations and their scales are copied by cp.async, four stages deep, and read by all four
 * warps. Per tile and warp: 32 mma, 8 x 3 shared loads of 16 bytes, 2 (Q4) or 4 (Q8) of weights. */
#include "kernels/cuda/cache.cuh"
#include "kernels/cuda/linear.cuh"

enum {
    THREADS = CUDA_MATMUL_THREADS,
    ROWS = CUDA_MATMUL_ROWS,
    TOKENS = CUDA_MATMUL_TOKENS,
    STAGES = CUDA_MATMUL_STAGES,
    Q_BYTES = TOKENS * CUDA_BLOCK,
    STAGE_BYTES = TOKENS * (CUDA_BLOCK + 16),
    PANELS = 2,        /* per warp */
    COLS = TOKENS / 8, /* blocks of 8 tokens */
    SUPER = 8          /* row blocks of a super-tile */
};

/* ---- activations ----------------------------------------------------------------------------- */

/* Whether the inputs' sums of groups are multiplied as well: the weights have minima. */
template <int FORMAT> DEVICE constexpr bool needs_sums()
{
    return FORMAT == CUDA_Q4A || FORMAT == CUDA_Q5A;
}

/* The part of each stage that a thread copies: a quarter of the quants of two tokens, and a scale of a token
 * or, where the sums of groups count, in threads below 64 both scales and sums. Tokens from n_tok on become
 * zero. */
struct copier {
    int block[3], bytes[3]; /* the first block of the two tokens, and of the scales' */
};

template <int FORMAT> DEVICE struct copier copier_of(int token0, int n_tok, int n_block)
{
    const int i = thread_id();
    const int token[3] = {token0 + i / 4, token0 + i / 4 + TOKENS / 2,
                          token0 + (needs_sums<FORMAT>() ? i % TOKENS : i / 2)};
    struct copier c;

    UNROLL
    for (int k = 0; k < 3; k++) {
        c.block[k] = min_int(token[k], n_tok - 1) * n_block;
        c.bytes[k] = token[k] >= n_tok ? 0 : k < 2 || needs_sums<FORMAT>() ? 16 : 4;
    }
    return c;
}

/* Starts copying a block of columns. */
template <int FORMAT>
DEVICE void copy_stage(const struct copier *c, const struct cuda_act &act, int block, char *stage)
{
    const int i = thread_id();
    const struct cuda_scale *scales = act.scale + (int64_t)(c->block[2] + block) * 2;

    UNROLL
    for (int k = 0; k < 2; k++)
        cp_async16(stage + k * (Q_BYTES / 2) + i * 16,
                   act.q + (int64_t)(c->block[k] + block) * CUDA_BLOCK + i % 4 * 16, c->bytes[k]);
    if (!needs_sums<FORMAT>())
        cp_async4(stage + Q_BYTES + i * 4, &scales[i % 2].d, c->bytes[2]);
    else if (i < TOKENS)
        cp_async16(stage + Q_BYTES + i * 16, scales, c->bytes[2]);
}

template <int FORMAT> DEVICE void stage_inputs(struct inputs *x, const char *stage, int col)
{
    const int g = lane_id() / 4, t = lane_id() % 4;
    const u32x4 *scales = (const u32x4 *)(stage + Q_BYTES);

    x->q = load16((const u32x4 *)stage + (col * 8 + g) * 4 + t);
    if (needs_sums<FORMAT>()) {
        UNROLL
        for (int k = 0; k < 2; k++) x->scale[k] = load16(scales + col * 8 + 2 * t + k);
    } else {
        const u32x4 d = load16(scales + col * 4 + t);
        x->scale[0] = {d.x, 0, d.y, 0}, x->scale[1] = {d.z, 0, d.w, 0};
    }
}

/* ---- the product ----------------------------------------------------------------------------- */

typedef float tile_sum[PANELS][COLS][4];

/* y += W x of the warp's panels of 16 rows from row0 on; a panel beyond the matrix repeats the last. */
template <int FORMAT>
DEVICE void matmul_rows(tile_sum y, const struct cuda_weight &m, const struct cuda_act &act,
                        struct area at, int n_tok)
{
    char *shared = shared_memory();
    const int n_block = n_block_of(m.n_in), last = ceil_div(m.n_out, 16) - 1;
    const int first = at.row0 / 16 + warp_id() * PANELS;
    const struct panel<FORMAT> from = panel_of<FORMAT>(m, 0, n_block);
    int tile[PANELS] = {min_int(first, last) * n_block, min_int(first + 1, last) * n_block};
    const struct copier copier = copier_of<FORMAT>(at.token0, n_tok, n_block);
    struct weights<FORMAT> next[PANELS];
    struct fragments<FORMAT> w[PANELS];
    struct inputs x;
    enum { AHEAD = FORMAT != CUDA_Q6 }; /* registers for the next tile's weights */

    for (int s = 0; s < STAGES - 1; s++) {
        if (s < n_block) copy_stage<FORMAT>(&copier, act, s, shared + s * STAGE_BYTES);
        cp_async_commit();
    }
    UNROLL
    for (int p = 0; p < PANELS && AHEAD; p++) load_weights<FORMAT>(&next[p], from, tile[p]);
    for (int block = 0; block < n_block; block++) {
        UNROLL
        for (int p = 0; p < PANELS; p++) {
            if (!AHEAD) load_weights<FORMAT>(&next[p], from, tile[p] + block);
            unpack<FORMAT>(&w[p], &next[p]);
        }
        UNROLL
        for (int p = 0; p < PANELS && AHEAD && block + 1 < n_block; p++)
            load_weights<FORMAT>(&next[p], from, tile[p] + block + 1);
        cp_async_wait<STAGES - 2>();
        barrier(); /* this stage has arrived for all, and the previous one is no longer read */
        if (block + STAGES - 1 < n_block)
            copy_stage<FORMAT>(&copier, act, block + STAGES - 1,
                               shared + (block + STAGES - 1) % STAGES * STAGE_BYTES);
        cp_async_commit();
        UNROLL
        for (int col = 0; col < COLS; col++) {
            stage_inputs<FORMAT>(&x, shared + block % STAGES * STAGE_BYTES, col);
            UNROLL
            for (int p = 0; p < PANELS; p++) add_tile<FORMAT>(y[p][col], &w[p], &x);
        }
    }
}

template <int FORMAT> DEVICE void matmul(const struct cuda_matvec &a)
{
    const int g = lane_id() / 4, t = lane_id() % 4;
    const struct area at = area_of(a.w.n_out, ROWS, a.n_tok, TOKENS, SUPER);
    tile_sum y = {};

    matmul_rows<FORMAT>(y, a.w, a.x, at, a.n_tok);
    UNROLL
    for (int p = 0; p < PANELS; p++) UNROLL
    for (int r = 0; r < 4; r++) {
        const int row = at.row0 + warp_id() * 32 + p * 16 + g + r / 2 * 8;
        if (row >= a.w.n_out) continue;
        const float bias = a.bias ? a.bias[row] : 0.0f;
        UNROLL
        for (int col = 0; col < COLS; col++) {
            const int token = at.token0 + col * 8 + 2 * t + r % 2;
            if (token >= a.n_tok) continue;
            float *to = a.y + token * a.y_stride + row;
            const float sum = (y[p][col][r] + bias) * a.scale;
            *to = a.add ? *to + sum : sum;
        }
    }
}

KERNEL_OF(matmul_q4, struct cuda_matvec, CUDA_MATMUL_THREADS, 3, matmul<CUDA_Q4>)
KERNEL_OF(matmul_q8, struct cuda_matvec, CUDA_MATMUL_THREADS, 2, matmul<CUDA_Q8>)
KERNEL_OF(matmul_q4a, struct cuda_matvec, CUDA_MATMUL_THREADS, 2, matmul<CUDA_Q4A>)
KERNEL_OF(matmul_q5a, struct cuda_matvec, CUDA_MATMUL_THREADS, 2, matmul<CUDA_Q5A>)
KERNEL_OF(matmul_q6, struct cuda_matvec, CUDA_MATMUL_THREADS, 3, matmul<CUDA_Q6>)

/* ---- the retaining head ---------------------------------------------------------------------- */

/* The first n_row rows of the hidden layer, [row][token + padding]; the others are 0. */
DEVICE void put_hidden(float *shared, const tile_sum y, int n_row)
{
    const int g = lane_id() / 4, t = lane_id() % 4;

    UNROLL
    for (int p = 0; p < PANELS; p++) UNROLL
    for (int r = 0; r < 4; r++) {
        const int row = warp_id() * 32 + p * 16 + g + r / 2 * 8;
        UNROLL
        for (int col = 0; col < COLS; col++)
            shared[row * (TOKENS + 1) + col * 8 + 2 * t + r % 2] = row < n_row ? silu(y[p][col][r]) : 0.0f;
    }
}

/* The second layer in float: 1 % of the first one's work. Two threads per token, alternating over
 * heads. */
KERNEL(score_q8, struct cuda_score, CUDA_MATMUL_THREADS, 2)
{
    float *shared = (float *)shared_memory();
    const struct area at = area_of(a.w1.n_out, ROWS, a.n_tok, TOKENS, SUPER);
    const int n_hidden = a.w1.n_out, n_row = min_int(n_hidden - at.row0, ROWS);
    const int lane_token = thread_id() % TOKENS, token = at.token0 + lane_token;
    tile_sum y = {};

    matmul_rows<CUDA_Q8>(y, a.w1, a.x, at, a.n_tok);
    barrier(); /* the stages are reused for the hidden layer */
    put_hidden(shared, y, n_row);
    barrier();
    if (token >= a.n_tok) return;
    for (int h = thread_id() / TOKENS; h < a.n_head; h += THREADS / TOKENS) {
        const float *w2 = a.w2 + (int64_t)h * n_hidden + at.row0;
        float sum = 0.0f;
        for (int j = 0; j < n_row; j++)
            sum = fma_f32(w2[j], shared[j * (TOKENS + 1) + lane_token], sum);
        a.part[((int64_t)at.row0 / ROWS * a.n_tok + token) * a.n_head + h] = sum;
    }
}

KERNEL(score_sum, struct cuda_score_sum, 128, 1)
{
    const int n_head = a.cache.n_head, n = a.n_tok * n_head, i = block_x() * 128 + thread_id();
    float sum = 0.0f;

    if (i >= n) return;
    for (int p = 0; p < a.n_part; p++) sum += a.part[(int64_t)p * n + i];
    const int head = i % n_head, token = i / n_head;
    a.cache.score[place_of(a.cache, head, a.cache.len[head] + a.first + token)] = sum;
    if (a.copy) a.copy[head * a.n_tok + token] = sum;
}
