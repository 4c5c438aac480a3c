/* act: the operations between matrices: norms, the gate, quantization. One block of 256 threads per
 * token; each of its 8 warps takes groups of 32 columns, a lane per column. */
#include "kernels/cuda/act.cuh"

enum { WARPS = CUDA_NORM_THREADS / 32 };

/* shared: 32 bytes */
KERNEL(norm_quantize, struct cuda_norm, CUDA_NORM_THREADS, 1)
{
    const int token = block_x();

    norm_token(a.x + token * a.x_stride, a.w, a.n, a.eps, a.act, token,
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
    const int token = block_x(), n_group = a.n / 32;

    for (int group = warp_id(); group < n_group; group += WARPS) {
        const int64_t i = (int64_t)token * a.n + group * 32 + lane_id();
        quantize_group(a.act, silu(a.gate[i]) * a.up[i], token, group, n_group);
    }
}

/* A warp per head. */
KERNEL(finish_heads, struct cuda_heads, 32, 1)
{
    const int head = block_y(), half = a.head_dim / 2;
    const float *w = head < a.n_head ? a.q_norm : a.k_norm;
    float *x = a.qkv + block_x() * a.stride + (int64_t)head * a.head_dim;
    float sum = 0.0f;

    for (int i = lane_id(); i < a.head_dim; i += 32) sum = fma_f32(x[i], x[i], sum);
    const float inv = 1.0f / sqrt_of(warp_sum(sum) / (float)a.head_dim + a.eps);
    for (int i = lane_id(); i < a.head_dim; i += 32) {
        const bool rotated = head >= a.n_head || i % half < a.n_pairs;
        const float y = w ? x[i] * inv * w[i] : x[i];
        x[i] = rotated ? y : y * a.still;
    }
}
