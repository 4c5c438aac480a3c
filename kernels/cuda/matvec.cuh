/* matvec: what a block computes of y = W x for 1 to 8 tokens: 16 rows of a matrix, or 32 of gate and up,
 * and one block after the other (chain.cu).
 *
 * Each of its 8 warps takes every eighth tile of 64 columns (gate and up: every second one of a panel), and
 * the warps are added in order. Loads of four tiles are in flight before the first is used, or of three large
 * ones; the first while the block still computes its input. */
#ifndef RETAIN_KERNELS_CUDA_MATVEC_CUH
#define RETAIN_KERNELS_CUDA_MATVEC_CUH

#include "kernels/cuda/linear.cuh"

/* Numbers in #ifndef have variants that tests/gpu times (GPU_VARIANTS in tests/gpu/gpu.mk). */
#ifndef MATVEC_AHEAD
#define MATVEC_AHEAD 4 /* tiles of which a warp's loads are in flight */
#endif

enum { WARPS = CUDA_MATVEC_THREADS / 32, TOKENS = CUDA_MATVEC_TOKENS };

DEVICE void load_inputs(struct inputs *x, const struct cuda_act &act, int n_tok, int n_block,
                        int block)
{
    const int g = lane_id() / 4, t = lane_id() % 4;

    x->q = {0, 0, 0, 0};
    if (g < n_tok) x->q = load16((const u32x4 *)act.q + ((int64_t)g * n_block + block) * 4 + t);
    UNROLL
    for (int k = 0; k < 2; k++) {
        x->scale[k] = {0, 0, 0, 0};
        if (2 * t + k < n_tok)
            x->scale[k] = load16((const u32x4 *)act.scale + (int64_t)(2 * t + k) * n_block + block);
    }
}

/* The tiles of a panel that a warp takes: first, first + step, ... */
template <int FORMAT> struct share {
    enum { AHEAD = CUDA_TILE_BYTES(FORMAT) > 512 ? MATVEC_AHEAD - 1 : MATVEC_AHEAD };
    struct panel<FORMAT> panel;
    int first, step, n_block;
    struct weights<FORMAT> w[AHEAD];
};

/* Starts loading the next tiles, from `block` on. */
template <int FORMAT> DEVICE void load_ahead(struct share<FORMAT> *s, int block)
{
    UNROLL
    for (int i = 0; i < share<FORMAT>::AHEAD; i++)
        if (block + i * s->step < s->n_block)
            load_weights<FORMAT>(&s->w[i], s->panel, block + i * s->step);
}

template <int FORMAT>
DEVICE struct share<FORMAT> share_of(const struct cuda_weight &m, int panel, int first, int step)
{
    const int n_block = n_block_of(m.n_in);
    struct share<FORMAT> s = {panel_of<FORMAT>(m, panel, n_block), first, step, n_block, {}};

    load_ahead<FORMAT>(&s, first);
    return s;
}

/* y[4] of this warp. */
template <int FORMAT>
DEVICE void panel_sum(float y[4], struct share<FORMAT> *s, const struct cuda_act &act, int n_tok)
{
    enum { AHEAD = share<FORMAT>::AHEAD };
    struct fragments<FORMAT> w;
    struct inputs x;

    for (int block = s->first; block < s->n_block; block += s->step * AHEAD) {
        if (block != s->first) load_ahead<FORMAT>(s, block);
        UNROLL
        for (int i = 0; i < AHEAD; i++)
            if (block + i * s->step < s->n_block) {
                load_inputs(&x, act, n_tok, s->n_block, block + i * s->step);
                unpack<FORMAT>(&w, &s->w[i]);
                add_tile<FORMAT>(y, &w, &x);
            }
    }
}

/* Stores a panel in shared memory [warp][16 rows][8 tokens]. */
DEVICE void put_panel(float *shared, const float y[4])
{
    const int g = lane_id() / 4, t = lane_id() % 4;
    float *to = shared + (warp_id() * 16 + g) * TOKENS + 2 * t;

    to[0] = y[0];
    to[1] = y[1];
    to[8 * TOKENS] = y[2];
    to[8 * TOKENS + 1] = y[3];
}

/* The input, computed in shared memory after the sums if it is not ready. */
DEVICE struct cuda_act input_of(const struct cuda_act &ready, const struct cuda_input &made, int n_in)
{
    char *shared = shared_memory() + CUDA_MATVEC_SHARED;
    const struct cuda_act act = {(int8_t *)shared,
                                 (struct cuda_scale *)(shared + n_block_of(n_in) * CUDA_BLOCK)};

    if (!made.x) return ready;
    norm_token(made.x, made.w, n_in, made.eps, act, 0, NULL, (float *)shared_memory());
    barrier();
    return act;
}

/* ---- a product ------------------------------------------------------------------------------- */

DEVICE int blocks_of(const struct cuda_matvec &a)
{
    return ceil_div(a.w.n_out, 16);
}

DEVICE int columns_of(const struct cuda_matvec &a)
{
    return a.w.n_in;
}

template <int FORMAT> DEVICE struct share<FORMAT> own_share(const struct cuda_matvec &a, int block)
{
    return share_of<FORMAT>(a.w, block, warp_id(), WARPS);
}

DEVICE void write_block(const struct cuda_matvec &a, const float *shared, int block)
{
    const int row = thread_id() % 16, token = thread_id() / 16, r = block * 16 + row;
    float sum = 0.0f;

    if (token >= a.n_tok || r >= a.w.n_out) return;
    UNROLL
    for (int w = 0; w < WARPS; w++) sum += shared[(w * 16 + row) * TOKENS + token];
    float *to = a.y + token * a.y_stride + r;
    sum = (sum + (a.bias ? a.bias[r] : 0.0f)) * a.scale;
    *to = a.add ? *to + sum : sum;
}

/* ---- gate and up ----------------------------------------------------------------------------- */

DEVICE int blocks_of(const struct cuda_matvec_gate &a)
{
    return a.gate.n_out / 32;
}

DEVICE int columns_of(const struct cuda_matvec_gate &a)
{
    return a.gate.n_in;
}

/* Warp w takes panel w % 4 (gate, gate, up, up), half of its columns. */
template <int FORMAT>
DEVICE struct share<FORMAT> own_share(const struct cuda_matvec_gate &a, int block)
{
    const int w = warp_id();

    return share_of<FORMAT>(w % 4 < 2 ? a.gate : a.up, block * 2 + w % 2, w / 4, 2);
}

/* A warp per token quantizes 32 rows to a group of int8. */
DEVICE void write_block(const struct cuda_matvec_gate &a, const float *shared, int block)
{
    const int lane = lane_id(), token = warp_id();
    const int64_t row = (int64_t)block * 32 + lane;
    float sum[2] = {};

    if (token >= a.n_tok) return; /* branches by whole warps */
    UNROLL
    for (int k = 0; k < 2; k++) UNROLL
    for (int half = 0; half < 2; half++)
        sum[k] += shared[((half * 4 + k * 2 + lane / 16) * 16 + lane % 16) * TOKENS + token];
    if (a.gate_bias) sum[0] += a.gate_bias[row];
    if (a.up_bias) sum[1] += a.up_bias[row];
    quantize_group(a.act, gated(a.f, sum[0], sum[1]), token, block, a.gate.n_out / 32);
}

/* ---- blocks ---------------------------------------------------------------------------------- */

/* Blocks first, first + step, ... of a job, whose first share is being loaded. */
template <int FORMAT, class JOB>
DEVICE void compute_blocks(const JOB &a, struct share<FORMAT> *w, int first, int step)
{
    float *shared = (float *)shared_memory();
    const int n = blocks_of(a);

    if (first >= n) return;
    const struct cuda_act x = input_of(a.x, a.made, columns_of(a));
    for (int block = first; block < n; block += step) {
        float y[4] = {};
        panel_sum<FORMAT>(y, w, x, a.n_tok);
        if (block + step < n) *w = own_share<FORMAT>(a, block + step);
        put_panel(shared, y);
        barrier();
        write_block(a, shared, block);
        barrier(); /* the sums have been read */
    }
}

template <int FORMAT, class JOB> DEVICE void compute_one(const JOB &a)
{
    struct share<FORMAT> w = own_share<FORMAT>(a, block_x());

    compute_blocks<FORMAT>(a, &w, block_x(), blocks_of(a));
}

#endif
