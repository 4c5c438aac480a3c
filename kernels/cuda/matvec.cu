/* matvec: y = W x for 1 to 8 tokens, the speed of a generated token. Bound by the weights' bytes:
 * each is read once, 16 bytes per lane, straight into the registers that matrix instructions read;
 * eight tokens cost what one costs.
 *
 * A block takes 16 rows; its 8 warps take every eighth tile of 64 columns, and are added in order.
 * Loads of four tiles are under way before the first is used. */
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

/* y[4] of this warp: tiles first, first + step, ... of a panel. */
template <int BITS>
DEVICE void panel_sum(float y[4], const struct cuda_weight &m, const struct cuda_act &act,
                      int n_tok, int panel, int first, int step)
{
    const int n_block = n_block_of(m.n_in);
    struct weights<BITS> w[AHEAD];
    struct inputs x;

    for (int block = first; block < n_block; block += step * AHEAD) {
        UNROLL
        for (int i = 0; i < AHEAD; i++)
            if (block + i * step < n_block)
                load_weights<BITS>(&w[i], m, (int64_t)panel * n_block + block + i * step);
        UNROLL
        for (int i = 0; i < AHEAD; i++)
            if (block + i * step < n_block) {
                load_inputs(&x, act, n_tok, n_block, block + i * step);
                add_tile<BITS>(y, &w[i], &x);
            }
    }
}

/* To shared memory [warp][16 rows][8 tokens]. */
DEVICE void put_panel(float *shared, const float y[4])
{
    const int g = lane_id() / 4, t = lane_id() % 4;
    float *to = shared + (warp_id() * 16 + g) * TOKENS + 2 * t;

    to[0] = y[0];
    to[1] = y[1];
    to[8 * TOKENS] = y[2];
    to[8 * TOKENS + 1] = y[3];
}

/* shared: 4096 bytes */
template <int BITS> DEVICE void matvec(const struct cuda_matvec &a)
{
    float *shared = (float *)shared_memory(), y[4] = {};
    const int row = thread_id() % 16, token = thread_id() / 16;
    const int r = block_x() * 16 + row;
    float sum = 0.0f;

    panel_sum<BITS>(y, a.w, a.x, a.n_tok, block_x(), warp_id(), WARPS);
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
    matvec<4>(a);
}

KERNEL(matvec_q8, struct cuda_matvec, CUDA_MATVEC_THREADS, 2)
{
    matvec<8>(a);
}

/* 32 rows of the gate and the same of the other matrix: warp w takes panel w % 4 (gate, gate, up,
 * up), half of its columns. Then a warp per token turns 32 rows into a group of int8.
 * shared: 4096 bytes */
template <int BITS> DEVICE void matvec_gate(const struct cuda_matvec_gate &a)
{
    float *shared = (float *)shared_memory(), y[4] = {};
    const int w = warp_id(), lane = lane_id(), token = w;
    const int64_t row = (int64_t)block_x() * 32 + lane;
    float sum[2] = {};

    panel_sum<BITS>(y, w % 4 < 2 ? a.gate : a.up, a.x, a.n_tok, block_x() * 2 + w % 2, w / 4, 2);
    put_panel(shared, y);
    barrier();
    if (token >= a.n_tok) return; /* whole warps */
    UNROLL
    for (int k = 0; k < 2; k++) UNROLL
    for (int half = 0; half < 2; half++)
        sum[k] += shared[((half * 4 + k * 2 + lane / 16) * 16 + lane % 16) * TOKENS + token];
    if (a.gate_bias) sum[0] += a.gate_bias[row];
    if (a.up_bias) sum[1] += a.up_bias[row];
    quantize_group(a.act, silu(sum[0]) * sum[1], token, block_x(), a.gate.n_out / 32);
}

KERNEL(matvec_gate_q4, struct cuda_matvec_gate, CUDA_MATVEC_THREADS, 2)
{
    matvec_gate<4>(a);
}

KERNEL(matvec_gate_q8, struct cuda_matvec_gate, CUDA_MATVEC_THREADS, 2)
{
    matvec_gate<8>(a);
}

/* Rows of a matrix as floats. A thread takes columns; a column's place follows from the layout. */
template <int BITS> DEVICE void embed(const struct cuda_embed &a)
{
    const int r = a.ids[block_x()], row = r % 16, n_block = n_block_of(a.w.n_in);
    const uint8_t *q = (const uint8_t *)a.w.q;

    for (int c = thread_id(); c < a.w.n_in; c += 128) {
        const int64_t tile = (int64_t)(r / 16) * n_block + c / 64;
        const int group = c % 64 / 32, t = c % 16 / 4, lane = row % 8 * 4 + t;
        const float d = half_float(a.w.d[tile * 32 + row % 8 * 4 + group * 2 + row / 8]);
        int v;

        if (BITS == 4) {
            const int byte = q[tile * 512 + lane * 16 + group * 8 + row / 8 * 4 + c % 4];
            v = (c % 32 < 16 ? byte & 15 : byte >> 4) - 8;
        } else {
            v = (int8_t)
                q[tile * 1024 + group * 512 + lane * 16 + c % 32 / 16 * 8 + row / 8 * 4 + c % 4];
        }
        a.x[(int64_t)block_x() * a.w.n_in + c] = d * (float)v * a.scale;
    }
}

KERNEL(embed_q4, struct cuda_embed, 128, 1)
{
    embed<4>(a);
}

KERNEL(embed_q8, struct cuda_embed, 128, 1)
{
    embed<8>(a);
}
