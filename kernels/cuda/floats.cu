/* floats: y = W x with weights of 32 or 16 bits, and rows of such matrices. Inputs are floats and
 * sums are in float, as on the CPU. A few tokens: a warp per row, bound by the weights' bytes. A
 * chunk: tiles of 64 rows x 64 tokens in shared memory. */
#include "kernels/cuda/floats.cuh"

enum {
    THREADS = CUDA_FLOATS_THREADS,
    WARPS = THREADS / 32,
    TOKENS = CUDA_MATVEC_TOKENS,
    TILE = CUDA_FLOATS_TILE,
    DEPTH = 16,      /* columns of a step of matmul */
    ROW = TILE + 4,  /* floats of a column of a tile; 4 of padding to spread the banks */
};

DEVICE void put_sum(const struct cuda_floats &a, int row, int token, float sum)
{
    float *to = a.y + token * a.y_stride + row;
    const float y = (sum + (a.bias ? a.bias[row] : 0.0f)) * a.scale;
    *to = a.add ? *to + y : y;
}

/* ---- a few tokens ---------------------------------------------------------------------------- */

template <int TYPE> DEVICE void matvec(const struct cuda_floats &a)
{
    const int row = block_x() * WARPS + warp_id();
    float sum[TOKENS] = {};

    if (row >= a.n_out) return;
    for (int c = lane_id() * 8; c < a.n_in; c += 256) {
        float w[8], x[8];
        load_weights8<TYPE>(w, a.w, (int64_t)row * a.n_in + c);
        UNROLL
        for (int t = 0; t < TOKENS; t++) {
            if (t >= a.n_tok) break;
            load_floats8(x, a.x + t * a.x_stride + c);
            UNROLL
            for (int i = 0; i < 8; i++) sum[t] = fma_f32(w[i], x[i], sum[t]);
        }
    }
    UNROLL
    for (int t = 0; t < TOKENS; t++) {
        if (t >= a.n_tok) break;
        const float all = warp_sum(sum[t]);
        if (lane_id() == 0) put_sum(a, row, t, all);
    }
}

KERNEL(matvec_f32, struct cuda_floats, CUDA_FLOATS_THREADS, 2)
{
    matvec<F32>(a);
}

KERNEL(matvec_f16, struct cuda_floats, CUDA_FLOATS_THREADS, 2)
{
    matvec<F16>(a);
}

KERNEL(matvec_bf16, struct cuda_floats, CUDA_FLOATS_THREADS, 2)
{
    matvec<BF16>(a);
}

/* ---- chunks ---------------------------------------------------------------------------------- */

/* Copies 16 columns of 64 rows of the matrix and of 64 tokens, column after column; rows, tokens
 * and columns past the last are zero. 256 threads: one half copies weights, the other inputs. */
template <int TYPE> DEVICE void copy_step(float *w, float *x, const struct cuda_floats &a, int c0)
{
    const int i = thread_id() % 128, at = i / 2, c = c0 + i % 2 * 8;
    const bool is_input = thread_id() >= 128;
    const int row = block_x() * TILE + at, token = block_y() * TILE + at;
    float v[8] = {}, *to = (is_input ? x : w) + i % 2 * 8 * ROW + at;

    if (c < a.n_in && is_input && token < a.n_tok)
        load_floats8(v, a.x + token * a.x_stride + c);
    else if (c < a.n_in && !is_input && row < a.n_out)
        load_weights8<TYPE>(v, a.w, (int64_t)row * a.n_in + c);
    UNROLL
    for (int k = 0; k < 8; k++) to[k * ROW] = v[k];
}

/* A thread computes 4 rows x 4 tokens. */
template <int TYPE> DEVICE void matmul(const struct cuda_floats &a)
{
    float *w = (float *)shared_memory(), *x = w + DEPTH * ROW, sum[4][4] = {};
    const int r0 = thread_id() % 16 * 4, t0 = thread_id() / 16 * 4;

    for (int c = 0; c < a.n_in; c += DEPTH) {
        copy_step<TYPE>(w, x, a, c);
        barrier();
        UNROLL
        for (int k = 0; k < DEPTH; k++) UNROLL
        for (int i = 0; i < 4; i++) UNROLL
        for (int j = 0; j < 4; j++)
            sum[i][j] = fma_f32(w[k * ROW + r0 + i], x[k * ROW + t0 + j], sum[i][j]);
        barrier(); /* all have read this step */
    }
    UNROLL
    for (int i = 0; i < 4; i++) UNROLL
    for (int j = 0; j < 4; j++) {
        const int row = block_x() * TILE + r0 + i, token = block_y() * TILE + t0 + j;
        if (row < a.n_out && token < a.n_tok) put_sum(a, row, token, sum[i][j]);
    }
}

KERNEL(matmul_f32, struct cuda_floats, CUDA_FLOATS_THREADS, 2)
{
    matmul<F32>(a);
}

KERNEL(matmul_f16, struct cuda_floats, CUDA_FLOATS_THREADS, 2)
{
    matmul<F16>(a);
}

KERNEL(matmul_bf16, struct cuda_floats, CUDA_FLOATS_THREADS, 2)
{
    matmul<BF16>(a);
}

/* ---- rows ------------------------------------------------------------------------------------ */

template <int TYPE> DEVICE void embed(const struct cuda_embed &a)
{
    const int64_t row = (int64_t)a.ids[block_x()] * a.w.n_in;
    float x[8];

    for (int c = thread_id() * 8; c < a.w.n_in; c += 128 * 8) {
        load_weights8<TYPE>(x, a.w.q, row + c);
        UNROLL
        for (int i = 0; i < 8; i++) a.x[(int64_t)block_x() * a.w.n_in + c + i] = x[i] * a.scale;
    }
}

KERNEL(embed_f32, struct cuda_embed, 128, 1)
{
    embed<F32>(a);
}

KERNEL(embed_f16, struct cuda_embed, 128, 1)
{
    embed<F16>(a);
}

KERNEL(embed_bf16, struct cuda_embed, 128, 1)
{
    embed<BF16>(a);
}
