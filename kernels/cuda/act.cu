/* act: the operations between matrices: norms, the gate, quantization. One block of 256 threads per
 * token, or per 1024 columns of one; 8 lanes take a group of 32 columns, four each. */
#include "kernels/cuda/act.cuh"

/* shared: 32 bytes */
KERNEL(norm_quantize, struct cuda_norm, CUDA_NORM_THREADS, 3)
{
    const int token = block_x(), row = token + (a.row ? *a.row : 0);
    float held[NORM_HELD][4];

    load_columns(held, a.w, 0, a.n);
    norm_token(a.x + token * a.x_stride, a.w, held, a.n, a.eps, a.act, row,
               a.y ? a.y + (int64_t)token * a.n : NULL, (float *)shared_memory());
}

KERNEL(norm_rows, struct cuda_norm_rows, CUDA_NORM_THREADS, 1)
{
    const float *x = a.x + block_x() * a.x_stride;
    float *y = a.y + block_x() * a.y_stride, sum = 0.0f;

    for (int i = thread_id(); i < a.n; i += CUDA_NORM_THREADS) sum = fma_f32(x[i], x[i], sum);
    sum = block_sum(sum, (float *)shared_memory());
    const float inv = 1.0f / sqrt_of(sum / (float)a.n + a.eps);
    for (int i = thread_id(); i < a.n; i += CUDA_NORM_THREADS) {
        const float z = x[i] * inv * a.w[i] * a.scale;
        y[i] = a.add ? y[i] + z : z;
    }
}

KERNEL(gate_quantize, struct cuda_gate, CUDA_NORM_THREADS, 1)
{
    const int token = block_x(), i = (block_y() * CUDA_NORM_THREADS + thread_id()) * 4;
    const int64_t at = (int64_t)token * a.n + i;
    float gate[4] = {}, up[4] = {};

    if (i < a.n) {
        load_four(gate, a.gate + at);
        load_four(up, a.up + at);
    }
    UNROLL
    for (int k = 0; k < 4; k++) gate[k] = gated(a.f, gate[k], up[k]);
    quantize_four(a.act, gate, token, i / 32, a.n / 32);
}

KERNEL(gate_rows, struct cuda_gate_rows, CUDA_NORM_THREADS, 1)
{
    const int64_t gate = block_x() * a.gate_stride, up = block_x() * a.up_stride;

    for (int i = thread_id(); i < a.n; i += CUDA_NORM_THREADS)
        a.y[gate + i] = gated(a.f, a.gate[gate + i], a.up[up + i]);
}

KERNEL(scale_rows, struct cuda_scale_rows, 256, 1)
{
    const float by = a.by ? a.scale * *a.by : a.scale;

    for (int k = 0; k < 4; k++) {
        const int64_t i = (int64_t)block_x() * 1024 + k * 256 + thread_id();
        if (i >= a.n) return;
        const float x = a.x[i] * by;
        a.x[i] = a.softcap > 0.0f ? a.softcap * tanh_of(x / a.softcap) : x;
    }
}

KERNEL(centre_rows, struct cuda_centre_rows, 256, 1)
{
    float *x = a.x + (int64_t)block_x() * a.n, sum = 0.0f;

    for (int i = thread_id(); i < a.n; i += 256) sum += x[i];
    const float mean = block_sum(sum, (float *)shared_memory()) / (float)a.n;
    for (int i = thread_id(); i < a.n; i += 256) x[i] -= mean;
}

KERNEL(layer_inputs, struct cuda_layer_inputs, 32, 1)
{
    const int64_t at = ((int64_t)block_x() * a.n_layer + block_y()) * a.n;
    float sum = 0.0f;

    for (int i = lane_id(); i < a.n; i += 32) sum = fma_f32(a.x[at + i], a.x[at + i], sum);
    const float inv = 1.0f / sqrt_of(warp_sum(sum) / (float)a.n + a.eps);
    for (int i = lane_id(); i < a.n; i += 32)
        a.x[at + i] = (a.x[at + i] * inv * a.w[i] + a.scale * a.own[at + i]) * 0.70710678f;
}

KERNEL(latent_join, struct cuda_latent_join, 256, 1)
{
    const int half = a.rank / 2, n = a.n_rot / 2, dim = a.rank + a.n_rot;
    const int64_t row = (int64_t)block_x() * a.n_head + block_y();
    const bool is_key = block_y() == a.n_head;
    const float *c = is_key ? a.kv + (int64_t)block_x() * dim : a.up + row * a.rank;
    const float *p = is_key ? c + a.rank : a.q + row * (a.n_plain + a.n_rot) + a.n_plain;
    float *to = a.qkv + ((int64_t)block_x() * (a.n_head + 2) + block_y()) * dim, sum = 0.0f;

    for (int i = thread_id(); is_key && i < a.rank; i += 256) sum = fma_f32(c[i], c[i], sum);
    sum = block_sum(sum, (float *)shared_memory());
    const float inv = 1.0f / sqrt_of(sum / (float)a.rank + a.eps);
    for (int i = thread_id(); i < dim; i += 256) {
        const int side = i >= dim / 2, k = i - side * (dim / 2), at = side * half + k - n;
        const float x = k < n    ? p[a.pairs ? 2 * k + side : k + side * n]
                        : is_key ? c[at] * inv * a.w[at]
                                 : c[at];
        to[i] = x;
        if (is_key) to[i + dim] = x;
    }
}

KERNEL(latent_part, struct cuda_latent_part, 256, 1)
{
    const int half = a.rank / 2, n = a.n_rot / 2;
    const float *from = a.att + (int64_t)block_x() * (a.rank + a.n_rot) + n;

    for (int i = thread_id(); i < a.rank; i += 256)
        a.c[(int64_t)block_x() * a.rank + i] = a.scale * from[i < half ? i : i + n];
}

/* The scale of a token's query. */
DEVICE float grown(const struct cuda_heads &a, int head, int token)
{
    if (a.growth <= 0.0f || head >= a.n_head) return 1.0f;
    const int slot = a.len[head / a.n_group] + token;
    return 1.0f + a.growth * 0.693147181f * log2_of((float)(1 + slot / a.n_ctx_orig));
}

/* A warp per head. */
KERNEL(finish_heads, struct cuda_heads, 32, 1)
{
    const int head = block_y(), half = a.head_dim / 2;
    const bool is_value = head >= a.n_head + a.n_kv_head;
    const float *w = head < a.n_head ? a.q_norm : is_value ? NULL : a.k_norm;
    float *x = a.qkv + block_x() * a.stride + (int64_t)head * a.head_dim;
    float sum = 0.0f;

    for (int i = lane_id(); i < a.head_dim; i += 32) sum = fma_f32(x[i], x[i], sum);
    const float inv = 1.0f / sqrt_of(warp_sum(sum) / (float)a.head_dim + a.eps);
    const float scale = grown(a, head, block_x());
    for (int i = lane_id(); i < a.head_dim; i += 32) {
        const bool rotated = head >= a.n_head || i % half < a.n_pairs;
        const float y = w ? x[i] * inv * w[i] : is_value ? x[i] * inv : x[i];
        x[i] = (rotated ? y : y * a.still) * scale;
    }
}
