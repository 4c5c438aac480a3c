/* Recurrent layers: the gated delta rule, Mamba-2 and short convolutions (struct model_recurrent).
 * Tokens are computed one after the other: a thread has a channel of the convolution, and four
 * threads have a column of a head's state, which stays in shared memory for the whole chunk. */
#include "kernels/cuda/act.cuh"

enum { COLUMNS = CUDA_RECUR_COLUMNS, THREADS = 128, PARTS = THREADS / COLUMNS };

DEVICE float softplus(float x)
{
    return x > 20.0f ? x : log2_of(1.0f + exp_of(x)) * 0.69314718f;
}

DEVICE float sigmoid(float x)
{
    return 1.0f / (1.0f + exp_of(-x));
}

DEVICE int n_out_of(const struct cuda_recur &a)
{
    return a.kind == CUDA_CONVOLUTION ? a.n_channel : a.n_head * a.head_dim;
}

KERNEL(recur_prepare, struct cuda_recur, CUDA_NORM_THREADS, 1)
{
    const int64_t row = (int64_t)block_x() * a.n_channel, heads = (int64_t)block_x() * a.n_head;

    if (a.kind == CUDA_CONVOLUTION) {
        for (int i = thread_id(); i < a.n_channel; i += CUDA_NORM_THREADS)
            a.in[row + i] *= a.y[row + i];
        return;
    }
    for (int i = thread_id(); i < a.n_head; i += CUDA_NORM_THREADS) {
        const float step = softplus(a.decay[heads + i] + a.step_bias[i]);
        a.rate[heads + i] = a.kind == CUDA_DELTA ? sigmoid(a.rate[heads + i]) : step;
        a.decay[heads + i] = exp_of(a.a[i] * step);
    }
}

KERNEL(recur_convolve, struct cuda_recur, 128, 1)
{
    const int c = block_x() * 128 + thread_id(), before = a.n_taps - 1;
    float in[CUDA_RECUR_TAPS_MAX], taps[CUDA_RECUR_TAPS_MAX];

    if (c >= a.n_channel) return;
    UNROLL
    for (int j = 0; j < CUDA_RECUR_TAPS_MAX; j++) {
        in[j] = j < before ? a.window[(int64_t)j * a.n_channel + c] : 0.0f;
        taps[j] = j <= before ? a.taps[(int64_t)j * a.n_channel + c] : 0.0f;
    }
    for (int t = 0; t < a.n_tok; t++) {
        float *x = a.in + (int64_t)t * a.n_channel + c, sum = a.taps_bias ? a.taps_bias[c] : 0.0f;
        const float now = *x;
        UNROLL
        for (int j = 0; j < CUDA_RECUR_TAPS_MAX; j++) {
            if (j == before) in[j] = now;
            if (j <= before) sum = fma_f32(taps[j], in[j], sum);
        }
        *x = a.kind == CUDA_CONVOLUTION ? sum : silu(sum);
        UNROLL
        for (int j = 0; j + 1 < CUDA_RECUR_TAPS_MAX; j++)
            if (j < before) in[j] = in[j + 1];
    }
    UNROLL
    for (int j = 0; j < CUDA_RECUR_TAPS_MAX; j++)
        if (j < before) a.window[(int64_t)j * a.n_channel + c] = in[j];
}

/* Queries come before keys; both get the length 1, queries then 1 / sqrt(key_dim). */
KERNEL(recur_unit, struct cuda_recur, 32, 1)
{
    const bool is_key = block_y() >= a.n_key_head;
    float *x = a.in + (int64_t)block_x() * a.n_channel + (int64_t)block_y() * a.key_dim, sum = 0.0f;

    for (int i = lane_id(); i < a.key_dim; i += 32) sum = fma_f32(x[i], x[i], sum);
    const float length = sqrt_of(warp_sum(sum) + 1e-6f);
    const float by = 1.0f / (is_key ? length : length * sqrt_of((float)a.key_dim));
    for (int i = lane_id(); i < a.key_dim; i += 32) x[i] *= by;
}

KERNEL(recur_heads, struct cuda_recur, 128, 2)
{
    float *s = (float *)shared_memory(), *q = s + a.key_dim * (COLUMNS + 1), *k = q + a.key_dim;
    const int head = block_x(), part = thread_id() % PARTS, own = thread_id() / PARTS;
    const int c = block_y() * COLUMNS + own, n_key = a.n_key_head * a.key_dim;
    const int n_out = a.n_head * a.head_dim;
    const int key = (a.tiled ? head % a.n_key_head : head / (a.n_head / a.n_key_head)) * a.key_dim;
    const bool delta = a.kind == CUDA_DELTA, real = c < a.head_dim;
    const float *q0 = a.in + (delta ? 0 : n_out + n_key) + key;
    const float *k0 = a.in + (delta ? n_key : n_out) + key;
    const float *v0 = a.in + (delta ? 2 * n_key : 0) + head * a.head_dim;
    float *state = a.matrices + (int64_t)head * a.key_dim * a.head_dim;
    const float skip = a.skip ? a.skip[head] : 0.0f;

    for (int i = part; i < a.key_dim; i += PARTS)
        s[i * (COLUMNS + 1) + own] = real ? state[(int64_t)i * a.head_dim + c] : 0.0f;
    for (int t = 0; t < a.n_tok; t++) {
        const int64_t row = (int64_t)t * a.n_channel;
        const float decay = a.decay[(int64_t)t * a.n_head + head];
        const float rate = a.rate[(int64_t)t * a.n_head + head];
        const float v = real ? v0[row + c] : 0.0f;
        float known = 0.0f, y = 0.0f;

        barrier(); /* the last token's are no longer read */
        for (int i = thread_id(); i < a.key_dim; i += THREADS) q[i] = q0[row + i], k[i] = k0[row + i];
        barrier();
        for (int i = part; i < a.key_dim; i += PARTS) {
            float *at = &s[i * (COLUMNS + 1) + own];
            *at *= decay;
            known = fma_f32(k[i], *at, known);
        }
        const float add = rate * (delta ? v - quad_sum(known) : v);
        for (int i = part; i < a.key_dim; i += PARTS) {
            float *at = &s[i * (COLUMNS + 1) + own];
            *at = fma_f32(k[i], add, *at);
            y = fma_f32(q[i], *at, y);
        }
        y = quad_sum(y);
        if (part == 0 && real) a.y[(int64_t)t * n_out + head * a.head_dim + c] = fma_f32(skip, v, y);
    }
    for (int i = part; real && i < a.key_dim; i += PARTS)
        state[(int64_t)i * a.head_dim + c] = s[i * (COLUMNS + 1) + own];
}

/* A warp per head, or per group of heads that share a key. */
KERNEL(recur_finish, struct cuda_recur, CUDA_NORM_THREADS, 1)
{
    const int n = n_out_of(a), lane = lane_id();
    const int size = a.kind == CUDA_DELTA ? a.head_dim : a.kind == CUDA_SCAN ? n / a.n_key_head : n;
    const bool gate_first = a.kind == CUDA_SCAN;
    const int64_t row = (int64_t)block_x() * n;

    if (a.kind == CUDA_CONVOLUTION) {
        for (int i = thread_id(); i < n; i += CUDA_NORM_THREADS)
            a.y[row + i] = a.in[row + i] * a.gate[row + i];
        return;
    }
    for (int at = warp_id() * size; at < n; at += CUDA_NORM_THREADS / 32 * size) {
        float *y = a.y + row + at, sum = 0.0f;
        const float *gate = a.gate + row + at, *w = a.norm ? a.norm + (gate_first ? at : 0) : NULL;
        for (int i = lane; i < size; i += 32) {
            if (gate_first) y[i] *= silu(gate[i]);
            sum = fma_f32(y[i], y[i], sum);
        }
        const float inv = 1.0f / sqrt_of(warp_sum(sum) / (float)size + a.eps);
        for (int i = lane; i < size; i += 32) {
            const float normed = w ? y[i] * inv * w[i] : y[i];
            y[i] = gate_first ? normed : normed * silu(gate[i]);
        }
    }
}
