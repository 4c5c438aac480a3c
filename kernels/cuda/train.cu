/* train: the kernels that train retaining heads, beyond products of float matrices (floats.cu):
 * labels from logits, the loss, and the step. quant/heads has the same on the CPU, with the
 * formulas. */
#include "kernels/cuda/act.cuh"

#define LN2 0.693147181f

/* ---- labels ---------------------------------------------------------------------------------- */

/* A block per row. */
KERNEL(train_rotate, struct cuda_train_rotate, 64, 1)
{
    const int row = block_x(), half = a.dim / 2;
    const int token = a.token ? a.token[row / a.n_group] : row / a.n_group;
    const float *x = a.x + (int64_t)token * a.stride + row % a.n_group * a.dim;
    const float *c = a.cos + (int64_t)token * half, *s = a.sin + (int64_t)token * half;
    float *to = a.to + (int64_t)row * a.dim;

    for (int i = thread_id(); i < half; i += 64) {
        to[i] = x[i] * c[i] - x[i + half] * s[i];
        to[i + half] = x[i + half] * c[i] + x[i] * s[i];
    }
}

/* The largest of the block's 256 numbers, for all threads. `shared` holds 8 floats. */
DEVICE float block_max(float x, float *shared)
{
    x = warp_max(x);
    if (lane_id() == 0) shared[warp_id()] = x;
    barrier();
    for (int w = 0; w < 8; w++) x = max_f32(x, shared[w]);
    return x;
}

/* A block per row: logits of the slots that the row's token sees, and the logarithm of the sum of
 * their softmax. */
KERNEL(train_rows, struct cuda_train_rows, 256, 1)
{
    const int row = block_x(), last = a.token[row / a.n_group];
    float *logit = a.logits + row * a.stride, *shared = (float *)shared_memory();
    const float sink = a.sinks ? a.sinks[row % a.n_group] : -INF;
    float max = sink, sum = 0.0f;

    for (int s = thread_id(); s <= last; s += 256) {
        float x = logit[s] * a.scale;
        if (a.softcap > 0.0f) x = a.softcap * tanh_of(x / a.softcap);
        logit[s] = x;
        max = max_f32(max, x);
    }
    max = block_max(max, shared);
    for (int s = thread_id(); s <= last; s += 256) sum += exp_of(logit[s] - max);
    sum = block_sum(sum, shared + 8);
    if (thread_id() == 0)
        a.base[row] = max + LN2 * log2_of(sum + exp_of(sink - max));
}

/* A thread per slot: the largest of the rows' logits, less the row's base. */
KERNEL(train_columns, struct cuda_train_columns, 128, 1)
{
    const int s = block_x() * 128 + thread_id();

    if (s >= a.n_context) return;
    float *label = a.label + (int64_t)s * a.n_head, best = a.first ? -INF : *label;
    for (int row = 0; row < a.n_row; row++)
        if (s <= a.token[row / a.n_group])
            best = max_f32(best, a.logits[row * a.stride + s] - a.base[row]);
    *label = best;
}

/* ---- the net --------------------------------------------------------------------------------- */

KERNEL(train_silu, struct cuda_train_silu, 256, 1)
{
    const int64_t i = (int64_t)block_x() * 256 + thread_id();

    if (i < a.n) a.y[i] = silu(a.x[i]);
}

/* The loss of 256 scores, their part in `loss`, and its slopes. */
KERNEL(train_loss, struct cuda_train_loss, 256, 1)
{
    const int i = block_x() * 256 + thread_id(), h = i % a.n_head;
    float loss = 0.0f;

    if (i < a.n * a.n_head) {
        const float label = LN2 * log2_of(exp_of(a.label[i]) + a.noise);
        const float off = a.score[i] - (label - a.mean[h]);
        const float size = abs_f32(off);
        a.slope[i] = a.weight * (size < 1.0f ? off : off < 0.0f ? -1.0f : 1.0f);
        loss = a.weight * (size < 1.0f ? 0.5f * off * off : size - 0.5f);
    }
    loss = block_sum(loss, (float *)shared_memory());
    if (thread_id() == 0) a.loss[block_x()] = loss;
}

/* The number of row t and column c that is transposed. */
DEVICE float transposed(const struct cuda_train_transpose &a, int t, int c)
{
    const float x = a.x[t * a.stride + c];
    float sum = 0.0f;

    if (a.what == CUDA_TRANSPOSE_COPY) return x;
    if (a.what == CUDA_TRANSPOSE_SILU) return silu(x);
    for (int h = 0; h < a.n_head; h++)
        sum = fma_f32(a.slope[t * a.n_head + h], a.w2[h * a.n_col + c], sum);
    const float s = 1.0f / (1.0f + exp_of(-x));
    return sum * s * (1.0f + x * (1.0f - s));
}

/* A tile of 32 rows x 32 columns; rows past the last are zero. */
KERNEL(train_transpose, struct cuda_train_transpose, 256, 1)
{
    float *tile = (float *)shared_memory(); /* [32][33] */
    const int t0 = block_y() * 32, c0 = block_x() * 32, i = thread_id() % 32;

    for (int k = thread_id() / 32; k < 32; k += 8) {
        const int t = t0 + k, c = c0 + i;
        tile[k * 33 + i] = t < a.n && c < a.n_col ? transposed(a, t, c) : 0.0f;
    }
    barrier();
    for (int k = thread_id() / 32; k < 32; k += 8)
        if (c0 + k < a.n_col && t0 + i < a.n_pad)
            a.to[(int64_t)(c0 + k) * a.n_pad + t0 + i] = tile[i * 33 + k];
}

/* AdamW: betas .9 and .95, epsilon 1e-8, decay .01; gradients are clipped, then zero. */
KERNEL(train_step, struct cuda_train_step, 256, 1)
{
    const int64_t i = (int64_t)block_x() * 256 + thread_id();

    if (i >= a.n) return;
    const float g = min_f32(max_f32(a.gradient[i], -a.clip), a.clip);
    const float first = 0.9f * a.first[i] + 0.1f * g;
    const float second = 0.95f * a.second[i] + 0.05f * g * g;
    const float root = sqrt_of(second / a.unbias2) + 1e-8f;
    const float pace = i < a.n_first ? a.pace[i % a.n_in] : 1.0f;
    a.weight[i] -= a.rate * (0.01f * a.weight[i] + pace * first / a.unbias1 / root);
    a.first[i] = first;
    a.second[i] = second;
    a.gradient[i] = 0.0f;
}
