/* matvec: y = W x for 1 to 8 tokens: determines the speed of generation. Bound by the weights'
 * bytes: each is read once, 16 bytes per lane, directly into the registers of the matrix
 * instructions; eight tokens take as long as one.
 *
 * A block takes 16 rows; each of its 8 warps takes every eighth tile of 64 columns, and the warps
 * are added in order. Loads of four tiles are in flight before the first is used, the first four while
 * the block still computes its input. */
#include "kernels/cuda/linear.cuh"

enum { WARPS = CUDA_MATVEC_THREADS / 32, AHEAD = 4, TOKENS = CUDA_MATVEC_TOKENS };

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
    struct panel<FORMAT> panel;
    int first, step, n_block;
    struct weights<FORMAT> w[AHEAD];
};

/* Starts loading four tiles, from `block` on. */
template <int FORMAT> DEVICE void load_ahead(struct share<FORMAT> *s, int block)
{
    UNROLL
    for (int i = 0; i < AHEAD; i++)
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

template <int FORMAT> DEVICE void matvec(const struct cuda_matvec &a)
{
    float *shared = (float *)shared_memory(), y[4] = {};
    const int row = thread_id() % 16, token = thread_id() / 16;
    const int r = block_x() * 16 + row;
    struct share<FORMAT> w = share_of<FORMAT>(a.w, block_x(), warp_id(), WARPS);
    float sum = 0.0f;

    const struct cuda_act x = input_of(a.x, a.made, a.w.n_in);
    panel_sum<FORMAT>(y, &w, x, a.n_tok);
    put_panel(shared, y);
    barrier();
    if (token >= a.n_tok || r >= a.w.n_out) return;
    UNROLL
    for (int w = 0; w < WARPS; w++) sum += shared[(w * 16 + row) * TOKENS + token];
    float *to = a.y + token * a.y_stride + r;
    sum = (sum + (a.bias ? a.bias[r] : 0.0f)) * a.scale;
    *to = a.add ? *to + sum : sum;
}

KERNEL(matvec_q4, struct cuda_matvec, CUDA_MATVEC_THREADS, 2)
{
    matvec<CUDA_Q4>(a);
}

KERNEL(matvec_q8, struct cuda_matvec, CUDA_MATVEC_THREADS, 2)
{
    matvec<CUDA_Q8>(a);
}

KERNEL(matvec_q4a, struct cuda_matvec, CUDA_MATVEC_THREADS, 2)
{
    matvec<CUDA_Q4A>(a);
}

KERNEL(matvec_q5a, struct cuda_matvec, CUDA_MATVEC_THREADS, 2)
{
    matvec<CUDA_Q5A>(a);
}

KERNEL(matvec_q6, struct cuda_matvec, CUDA_MATVEC_THREADS, 2)
{
    matvec<CUDA_Q6>(a);
}

/* 32 rows of the gate and the same of the other matrix: warp w takes panel w % 4 (gate, gate, up,
 * up), half of its columns. Then a warp per token quantizes 32 rows to a group of int8. */
template <int FORMAT> DEVICE void matvec_gate(const struct cuda_matvec_gate &a)
{
    float *shared = (float *)shared_memory(), y[4] = {};
    const int w = warp_id(), lane = lane_id(), token = w;
    const int64_t row = (int64_t)block_x() * 32 + lane;
    struct share<FORMAT> share =
        share_of<FORMAT>(w % 4 < 2 ? a.gate : a.up, block_x() * 2 + w % 2, w / 4, 2);
    float sum[2] = {};

    const struct cuda_act x = input_of(a.x, a.made, a.gate.n_in);
    panel_sum<FORMAT>(y, &share, x, a.n_tok);
    put_panel(shared, y);
    barrier();
    if (token >= a.n_tok) return; /* branches by whole warps */
    UNROLL
    for (int k = 0; k < 2; k++) UNROLL
    for (int half = 0; half < 2; half++)
        sum[k] += shared[((half * 4 + k * 2 + lane / 16) * 16 + lane % 16) * TOKENS + token];
    if (a.gate_bias) sum[0] += a.gate_bias[row];
    if (a.up_bias) sum[1] += a.up_bias[row];
    quantize_group(a.act, gated(a.f, sum[0], sum[1]), token, block_x(), a.gate.n_out / 32);
}

KERNEL(matvec_gate_q4, struct cuda_matvec_gate, CUDA_MATVEC_THREADS, 2)
{
    matvec_gate<CUDA_Q4>(a);
}

KERNEL(matvec_gate_q8, struct cuda_matvec_gate, CUDA_MATVEC_THREADS, 2)
{
    matvec_gate<CUDA_Q8>(a);
}

KERNEL(matvec_gate_q4a, struct cuda_matvec_gate, CUDA_MATVEC_THREADS, 2)
{
    matvec_gate<CUDA_Q4A>(a);
}

KERNEL(matvec_gate_q5a, struct cuda_matvec_gate, CUDA_MATVEC_THREADS, 2)
{
    matvec_gate<CUDA_Q5A>(a);
}

KERNEL(matvec_gate_q6, struct cuda_matvec_gate, CUDA_MATVEC_THREADS, 2)
{
    matvec_gate<CUDA_Q6>(a);
}

/* A number of a tile, before its scale. */
template <int FORMAT> DEVICE int quant_at(const uint8_t *tile, int row, int c)
{
    const int group = c % 64 / 32, half = c % 32 / 16, t = c % 16 / 4, i = c % 4, r8 = row / 8;
    const int lane = row % 8 * 4 + t, pair = row % 8 * 4 + group * 2 + r8;

    if (FORMAT == CUDA_Q8) return (int8_t)tile[group * 512 + lane * 16 + half * 8 + r8 * 4 + i];
    const int low = tile[lane * 16 + group * 8 + r8 * 4 + i] >> 4 * half & 15;
    if (FORMAT == CUDA_Q4) return (low ^ 8) - 8;
    if (FORMAT == CUDA_Q4A) return low;
    if (FORMAT == CUDA_Q5A) return low | (tile[512 + pair * 4 + i] >> (t + 4 * half) & 1) << 4;
    return (low | (tile[512 + (pair * 2 + half) * 4 + i] >> 2 * t & 3) << 4) - 32;
}

/* Rows of a matrix as floats. A thread takes columns; the layout gives a column's place. */
template <int FORMAT> DEVICE void embed(const struct cuda_embed &a)
{
    enum { WIDE = weights<FORMAT>::WIDE };
    const int r = a.ids[block_x()], row = r % 16, n_block = n_block_of(a.w.n_in);
    const int64_t panel = (int64_t)(r / 16) * n_block;

    for (int c = thread_id(); c < a.w.n_in; c += 128) {
        const int64_t tile = panel + c / 64;
        const int pair = row % 8 * 4 + c % 64 / 32 * 2 + row / 8;
        const uint16_t *d = a.w.d + (tile * 32 + pair) * (1 + WIDE);
        const int q = quant_at<FORMAT>((const uint8_t *)a.w.q + tile * CUDA_TILE_BYTES(FORMAT), row, c);
        const bool second = FORMAT == CUDA_Q6 && c % 32 >= 16;
        float x = half_float(d[second]) * (float)q;

        if (WIDE && FORMAT != CUDA_Q6) x += half_float(d[WIDE]);
        a.x[(int64_t)block_x() * a.w.n_in + c] = x * a.scale;
    }
}

KERNEL(embed_q4, struct cuda_embed, 128, 1)
{
    embed<CUDA_Q4>(a);
}

KERNEL(embed_q8, struct cuda_embed, 128, 1)
{
    embed<CUDA_Q8>(a);
}

KERNEL(embed_q4a, struct cuda_embed, 128, 1)
{
    embed<CUDA_Q4A>(a);
}

KERNEL(embed_q5a, struct cuda_embed, 128, 1)
{
    embed<CUDA_Q5A>(a);
}

KERNEL(embed_q6, struct cuda_embed, 128, 1)
{
    embed<CUDA_Q6>(a);
}
