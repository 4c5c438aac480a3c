/* matmul: y = W x for chunks, and the retaining head, whose second layer is the epilogue.
 *
 * A block computes 128 rows x 64 tokens, a warp 32 rows (two panels). Weights are loaded from
 * memory to registers in fragment order, without shared memory; 64 tokens x 64 columns of
 * activations and their scales are copied by cp.async, three stages deep, and read by all four
 * warps. Per tile and warp: 32 mma, 8 x 3 shared loads of 16 bytes, 2 (Q4) or 4 (Q8) of weights
 * (Q4A has more scales, Q5A and Q6 have high bits, and no free registers to load them ahead). */
#include "kernels/cuda/cache.cuh"
#include "kernels/cuda/linear.cuh"

enum {
    THREADS = CUDA_MATMUL_THREADS,
    TOKENS = CUDA_MATMUL_TOKENS,
    STAGES = CUDA_MATMUL_STAGES,
    Q_BYTES = TOKENS * CUDA_BLOCK,
    STAGE_BYTES = TOKENS * (CUDA_BLOCK + 16),
    PANELS = 2,       /* per warp */
    COLS = TOKENS / 8 /* blocks of 8 tokens */
};

/* Starts copying a block of columns of 64 tokens; tokens from n_tok on become zero. */
DEVICE void copy_inputs(char *stage, const struct cuda_act &act, int token0, int n_tok, int n_block,
                        int block)
{
    for (int i = thread_id(); i < TOKENS * 5; i += THREADS) {
        const int token = i < TOKENS * 4 ? i / 4 : i - TOKENS * 4, from = token0 + token;
        const int64_t at = (int64_t)(from < n_tok ? from : 0) * n_block + block;
        const int n = from < n_tok ? 16 : 0;

        if (i < TOKENS * 4)
            cp_async16(stage + i * 16, act.q + at * CUDA_BLOCK + i % 4 * 16, n);
        else
            cp_async16(stage + Q_BYTES + token * 16, act.scale + at * 2, n);
    }
}

DEVICE void stage_inputs(struct inputs *x, const char *stage, int col)
{
    const int g = lane_id() / 4, t = lane_id() % 4;

    x->q = load16((const u32x4 *)stage + (col * 8 + g) * 4 + t);
    UNROLL
    for (int k = 0; k < 2; k++)
        x->scale[k] = load16((const u32x4 *)(stage + Q_BYTES) + col * 8 + 2 * t + k);
}

typedef float tile_sum[PANELS][COLS][4];

/* The weights of this warp's panels; a panel beyond the matrix repeats the last. */
template <int FORMAT>
DEVICE void load_panels(struct weights<FORMAT> w[PANELS], const struct cuda_weight &m, int n_block,
                        int block)
{
    const int last = ceil_div(m.n_out, 16) - 1;

    UNROLL
    for (int p = 0; p < PANELS; p++) {
        const int panel = min_int(block_x() * 8 + warp_id() * PANELS + p, last);
        load_weights<FORMAT>(&w[p], m, (int64_t)panel * n_block + block);
    }
}

template <int FORMAT>
DEVICE void matmul_tile(tile_sum y, const struct cuda_weight &m, const struct cuda_act &act,
                        int n_tok)
{
    char *shared = shared_memory();
    const int n_block = n_block_of(m.n_in), token0 = block_y() * TOKENS;
    enum { AHEAD = weights<FORMAT>::HIGHS == 0 }; /* registers for the next tile's weights */
    struct weights<FORMAT> w[PANELS], next[PANELS];
    struct inputs x;

    for (int s = 0; s < STAGES - 1; s++) {
        if (s < n_block) copy_inputs(shared + s * STAGE_BYTES, act, token0, n_tok, n_block, s);
        cp_async_commit();
    }
    if (AHEAD) load_panels<FORMAT>(next, m, n_block, 0);
    for (int block = 0; block < n_block; block++) {
        const int ahead = block + STAGES - 1;
        UNROLL
        for (int p = 0; p < PANELS && AHEAD; p++) w[p] = next[p];
        if (!AHEAD)
            load_panels<FORMAT>(w, m, n_block, block);
        else if (block + 1 < n_block)
            load_panels<FORMAT>(next, m, n_block, block + 1);
        cp_async_wait<STAGES - 2>();
        barrier(); /* this stage has arrived for all, and the previous one is no longer read */
        if (ahead < n_block)
            copy_inputs(shared + ahead % STAGES * STAGE_BYTES, act, token0, n_tok, n_block, ahead);
        cp_async_commit();
        const char *stage = shared + block % STAGES * STAGE_BYTES;
        UNROLL
        for (int col = 0; col < COLS; col++) {
            stage_inputs(&x, stage, col);
            UNROLL
            for (int p = 0; p < PANELS; p++) add_tile<FORMAT>(y[p][col], &w[p], &x);
        }
    }
}

template <int FORMAT> DEVICE void matmul(const struct cuda_matvec &a)
{
    const int g = lane_id() / 4, t = lane_id() % 4;
    tile_sum y = {};

    matmul_tile<FORMAT>(y, a.w, a.x, a.n_tok);
    UNROLL
    for (int p = 0; p < PANELS; p++) UNROLL
    for (int r = 0; r < 4; r++) {
        const int row = block_x() * 128 + warp_id() * 32 + p * 16 + g + r / 2 * 8;
        if (row >= a.w.n_out) continue;
        const float bias = a.bias ? a.bias[row] : 0.0f;
        UNROLL
        for (int col = 0; col < COLS; col++) {
            const int token = block_y() * TOKENS + col * 8 + 2 * t + r % 2;
            if (token >= a.n_tok) continue;
            float *to = a.y + token * a.y_stride + row;
            const float sum = (y[p][col][r] + bias) * a.scale;
            *to = a.add ? *to + sum : sum;
        }
    }
}

KERNEL(matmul_q4, struct cuda_matvec, CUDA_MATMUL_THREADS, 2)
{
    matmul<CUDA_Q4>(a);
}

KERNEL(matmul_q8, struct cuda_matvec, CUDA_MATMUL_THREADS, 2)
{
    matmul<CUDA_Q8>(a);
}

KERNEL(matmul_q4a, struct cuda_matvec, CUDA_MATMUL_THREADS, 2)
{
    matmul<CUDA_Q4A>(a);
}

KERNEL(matmul_q5a, struct cuda_matvec, CUDA_MATMUL_THREADS, 2)
{
    matmul<CUDA_Q5A>(a);
}

KERNEL(matmul_q6, struct cuda_matvec, CUDA_MATMUL_THREADS, 2)
{
    matmul<CUDA_Q6>(a);
}

/* ---- the retaining head ---------------------------------------------------------------------- */

/* Rows beyond the hidden layer give 0. [row][token + padding] */
DEVICE void put_hidden(float *shared, const tile_sum y, int n_hidden)
{
    const int g = lane_id() / 4, t = lane_id() % 4;

    UNROLL
    for (int p = 0; p < PANELS; p++) UNROLL
    for (int r = 0; r < 4; r++) {
        const int row = warp_id() * 32 + p * 16 + g + r / 2 * 8;
        const bool real = block_x() * 128 + row < n_hidden;
        UNROLL
        for (int col = 0; col < COLS; col++)
            shared[row * (TOKENS + 1) + col * 8 + 2 * t + r % 2] = real ? silu(y[p][col][r]) : 0.0f;
    }
}

/* The second layer in float: 1 % of the first one's work. Two threads per token, alternating over
 * heads. */
KERNEL(score_q8, struct cuda_score, CUDA_MATMUL_THREADS, 2)
{
    float *shared = (float *)shared_memory();
    const int n_hidden = a.w1.n_out, row0 = block_x() * 128;
    const int n_row = min_int(n_hidden - row0, 128);
    const int lane_token = thread_id() % TOKENS, token = block_y() * TOKENS + lane_token;
    tile_sum y = {};

    matmul_tile<CUDA_Q8>(y, a.w1, a.x, a.n_tok);
    barrier(); /* the stages are reused for the hidden layer */
    put_hidden(shared, y, n_hidden);
    barrier();
    if (token >= a.n_tok) return;
    for (int h = thread_id() / TOKENS; h < a.n_head; h += THREADS / TOKENS) {
        const float *w2 = a.w2 + (int64_t)h * n_hidden + row0;
        float sum = 0.0f;
        for (int j = 0; j < n_row; j++)
            sum = fma_f32(w2[j], shared[j * (TOKENS + 1) + lane_token], sum);
        a.part[((int64_t)block_x() * a.n_tok + token) * a.n_head + h] = sum;
    }
}

KERNEL(score_sum, struct cuda_score_sum, 128, 1)
{
    const int n_head = a.cache.n_head, n = a.n_tok * n_head, i = block_x() * 128 + thread_id();
    float sum = 0.0f;

    if (i >= n) return;
    for (int p = 0; p < a.n_part; p++) sum += a.part[(int64_t)p * n + i];
    const int head = i % n_head, token = i / n_head;
    a.cache.score[place_of(a.cache, head, a.cache.len[head] + token)] = sum;
    if (a.copy) a.copy[head * a.n_tok + token] = sum;
}
