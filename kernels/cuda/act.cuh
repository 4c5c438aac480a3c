/* act: int8 activations in fragment order, see args.h. */
#ifndef RETAIN_KERNELS_CUDA_ACT_CUH
#define RETAIN_KERNELS_CUDA_ACT_CUH

#include "kernels/cuda/args.h"
#include "kernels/cuda/device.cuh"

/* Number of 64-column blocks for n columns. */
DEVICE int n_block_of(int n)
{
    return ceil_div(n, CUDA_BLOCK);
}

/* round_even(x / d) within +-127, by the reciprocal of d unless its error could matter. */
DEVICE int quantized(float x, float d, float reciprocal)
{
    const float y = x * reciprocal, near = round_even(y);
    const float v = abs_f32(y - near) < 0.4999f ? near : d > 0.0f ? round_even(x / d) : 0.0f;

    return (int)(v > 127.0f ? 127.0f : v > -127.0f ? v : -127.0f);
}

/* A warp stores its 32 numbers, lane i holding column i of the group: d = max|x| / 127, rounded to
 * nearest even, as in kernels.quantize. */
DEVICE void quantize_group(const struct cuda_act &act, float x, int token, int group, int n_group)
{
    const int lane = lane_id();
    const float d = warp_max(abs_f32(x)) / 127.0f;
    const int q = quantized(x, d, 1.0f / d);
    const int sum = warp_sum_int(q);
    const int64_t block = (int64_t)token * ceil_div(n_group, 2) + group / 2;
    int8_t *to = act.q + block * CUDA_BLOCK + lane % 16 / 4 * 16 + lane / 16 * 4 + lane % 4;
    struct cuda_scale *scale = act.scale + block * 2;

    to[group % 2 * 8] = (int8_t)q;
    if (lane == 0) scale[group % 2] = {d, d * (float)sum};
    if (group % 2 || group + 1 < n_group) return;
    to[8] = 0; /* the partner of an odd last group */
    if (lane == 0) scale[1] = {0.0f, 0.0f};
}

/* The same by 8 lanes: lane i of them holds columns 4i .. 4i + 3. Lanes whose group is beyond the
 * last take part in the shuffles only. */
DEVICE void quantize_four(const struct cuda_act &act, const float x[4], int token, int group,
                          int n_group)
{
    const int lane = lane_id() % 8;
    float max = 0.0f;
    int32_t sum = 0;
    uint32_t word = 0;

    UNROLL
    for (int i = 0; i < 4; i++) max = max_f32(max, abs_f32(x[i]));
    UNROLL
    for (int mask = 4; mask; mask >>= 1) max = max_f32(max, shfl_xor_f32(max, mask));
    const float d = max / 127.0f, reciprocal = 1.0f / d;
    UNROLL
    for (int i = 0; i < 4; i++) {
        const int q = quantized(x[i], d, reciprocal);
        sum += q;
        word |= (uint32_t)(q & 255) << 8 * i;
    }
    UNROLL
    for (int mask = 4; mask; mask >>= 1) sum += (int32_t)shfl_xor_u32((uint32_t)sum, mask);
    if (group >= n_group) return;
    const int64_t block = (int64_t)token * ceil_div(n_group, 2) + group / 2;
    uint32_t *to = (uint32_t *)(act.q + block * CUDA_BLOCK) + lane % 4 * 4 + lane / 4;
    struct cuda_scale *scale = act.scale + block * 2;

    to[group % 2 * 2] = word;
    if (lane == 0) scale[group % 2] = {d, d * (float)sum};
    if (group % 2 || group + 1 < n_group) return;
    to[2] = 0; /* the partner of an odd last group */
    if (lane == 0) scale[1] = {0.0f, 0.0f};
}

/* The Hadamard transform of a warp's 32 numbers, one per lane: the bits of kernels.h's hadamard. */
DEVICE float hadamard(float x)
{
    UNROLL
    for (int step = 1; step < 32; step *= 2) {
        const float y = shfl_xor_f32(x, step);
        x = lane_id() & step ? y - x : x + y;
    }
    return x * 0.17677669529663687f; /* 1 / sqrt(32) */
}

/* The same of 8 lanes' 32 numbers, four per lane. */
DEVICE void hadamard_four(float x[4])
{
    const float a = x[0] + x[1], b = x[0] - x[1], c = x[2] + x[3], d = x[2] - x[3];

    x[0] = a + c, x[1] = b + d, x[2] = a - c, x[3] = b - d;
    UNROLL
    for (int i = 0; i < 4; i++) {
        UNROLL
        for (int step = 1; step < 8; step *= 2) {
            const float y = shfl_xor_f32(x[i], step);
            x[i] = lane_id() & step ? y - x[i] : x[i] + y;
        }
        x[i] *= 0.17677669529663687f;
    }
}

DEVICE float silu(float x)
{
    return x / (1.0f + exp_of(-x));
}

/* 1 - 2 / (e^(2x) + 1), which is 1 or -1 where e^(2x) overflows or vanishes. */
DEVICE float tanh_of(float x)
{
    return 1.0f - 2.0f / (exp_of(2.0f * x) + 1.0f);
}

/* f(gate) * up, as kernels.silu_mul, silu_clamped_mul and gelu_mul, and for a squared ReLU. */
DEVICE float gated(enum cuda_activation f, float gate, float up)
{
    if (f == CUDA_SILU) return silu(gate) * up;
    if (f == CUDA_RELU) return max_f32(gate, 0.0f) * up;
    if (f == CUDA_GELU) {
        const float inner = 0.79788456f * (gate + 0.044715f * gate * gate * gate);
        return 0.5f * gate * (1.0f + tanh_of(inner)) * up;
    }
    const float g = min_f32(gate, 7.0f), u = max_f32(min_f32(up, 7.0f), -7.0f);
    return g / (1.0f + exp_of(-1.702f * g)) * (u + 1.0f);
}

/* Sum over the block's 8 warps, in order, returned to all 256 threads. `shared` holds 8 floats. */
DEVICE float block_sum(float x, float *shared)
{
    float sum = 0.0f;

    x = warp_sum(x);
    if (lane_id() == 0) shared[warp_id()] = x;
    barrier();
    UNROLL
    for (int w = 0; w < 8; w++) sum += shared[w];
    return sum;
}

DEVICE void load_four(float x[4], const float *p)
{
    const u32x4 v = load16((const u32x4 *)p);

    x[0] = bits_float(v.x);
    x[1] = bits_float(v.y);
    x[2] = bits_float(v.z);
    x[3] = bits_float(v.w);
}

enum { NORM_HELD = 4 }; /* of norm_token: 1024s of columns that are loaded at once */

/* Columns first + 1024k + 4 thread .. + 3 in z[k]; 0 beyond n. */
DEVICE void load_columns(float z[NORM_HELD][4], const float *p, int first, int n)
{
    UNROLL
    for (int k = 0; k < NORM_HELD; k++) {
        const int i = first + k * 1024 + thread_id() * 4;
        z[k][0] = z[k][1] = z[k][2] = z[k][3] = 0.0f;
        if (p && i < n) load_four(z[k], p + i);
    }
}

DEVICE void store_four(float *p, float x, float y, float z, float w)
{
    *(u32x4 *)p = {float_bits(x), float_bits(y), float_bits(z), float_bits(w)};
}

/* rmsnorm(x) * w (w NULL: x unchanged), quantized as row `token` of act, and written to y unless
 * NULL, by 256 threads. A thread takes four columns of every 1024; up to 4096 are read once. held:
 * the first columns of w. */
DEVICE void norm_token(const float *x, const float *w, float held[NORM_HELD][4], int n, float eps,
                       const struct cuda_act &act, int token, float *y, float *shared)
{
    enum { STEP = NORM_HELD * 1024 };
    float inv = 1.0f, z[NORM_HELD][4];

    if (w) {
        float sum = 0.0f;
        for (int first = 0; first < n; first += STEP) {
            load_columns(z, x, first, n);
            UNROLL
            for (int k = 0; k < NORM_HELD; k++) UNROLL
            for (int i = 0; i < 4; i++) sum = fma_f32(z[k][i], z[k][i], sum);
        }
        sum = block_sum(sum, shared);
        inv = 1.0f / sqrt_of(sum / (float)n + eps);
    }
    for (int first = 0; first < n; first += STEP) {
        if (!w || n > STEP) load_columns(z, x, first, n);
        if (first) load_columns(held, w, first, n);
        UNROLL
        for (int k = 0; k < NORM_HELD; k++) {
            const int i = first + k * 1024 + thread_id() * 4;
            if (first + k * 1024 >= n) break; /* whole warps shuffle */
            UNROLL
            for (int c = 0; c < 4 && w; c++) z[k][c] = z[k][c] * inv * held[k][c];
            UNROLL
            for (int c = 0; c < 4 && y; c++)
                if (i < n) y[i + c] = z[k][c];
            quantize_four(act, z[k], token, i / 32, n / 32);
        }
    }
}

#endif
