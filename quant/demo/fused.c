/* bf16 SwiGLU, RMSNorm and causal softmax, forward and backward, for training on a CPU: PyTorch
 * runs each as half a dozen passes over memory. Built by model.py; all matrices row-major, n rows
 * of d. */
#include <math.h>
#include <stdint.h>
#include <string.h>

typedef uint16_t bf16;

static inline float f32(bf16 x)
{
    uint32_t u = (uint32_t)x << 16;
    float f;
    memcpy(&f, &u, 4);
    return f;
}

static inline bf16 round_bf16(float x)
{
    uint32_t u;
    memcpy(&u, &x, 4);
    return (bf16)((u + 0x7fff + ((u >> 16) & 1)) >> 16);
}

/* out = silu(gate) * up */
void swiglu_forward(const bf16 *gate, const bf16 *up, bf16 *out, long n)
{
#pragma omp parallel for simd
    for (long i = 0; i < n; i++) {
        float x = f32(gate[i]);
        out[i] = round_bf16(x / (1 + expf(-x)) * f32(up[i]));
    }
}

void swiglu_backward(const bf16 *gate, const bf16 *up, const bf16 *d_out, bf16 *d_gate, bf16 *d_up,
                     long n)
{
#pragma omp parallel for simd
    for (long i = 0; i < n; i++) {
        float x = f32(gate[i]), s = 1 / (1 + expf(-x)), g = f32(d_out[i]);
        d_up[i] = round_bf16(g * x * s);
        d_gate[i] = round_bf16(g * f32(up[i]) * s * (1 + x * (1 - s)));
    }
}

/* inverse: [n], 1/rms of every row, kept for the backward pass */
void rms_forward(const bf16 *x, const bf16 *weight, bf16 *out, float *inverse, long n, long d,
                 float eps)
{
#pragma omp parallel for
    for (long r = 0; r < n; r++) {
        const bf16 *xr = x + r * d;
        float sum = 0;
        for (long i = 0; i < d; i++) sum += f32(xr[i]) * f32(xr[i]);
        inverse[r] = 1 / sqrtf(sum / (float)d + eps);
        for (long i = 0; i < d; i++)
            out[r * d + i] = round_bf16(f32(xr[i]) * inverse[r] * f32(weight[i]));
    }
}

/* d_weight: [d], zeroed by the caller; its sum runs over the rows in order, so it is not split */
void rms_backward(const bf16 *x, const bf16 *weight, const bf16 *d_out, const float *inverse,
                  bf16 *d_x, float *d_weight, long n, long d)
{
    for (long r = 0; r < n; r++) {
        const bf16 *xr = x + r * d, *gr = d_out + r * d;
        float k = inverse[r], sum = 0;
        for (long i = 0; i < d; i++) {
            float v = f32(xr[i]) * k, g = f32(gr[i]);
            sum += g * f32(weight[i]) * v;
            d_weight[i] += g * v;
        }
        sum /= (float)d;
        for (long i = 0; i < d; i++)
            d_x[r * d + i] = round_bf16(k * (f32(gr[i]) * f32(weight[i]) - f32(xr[i]) * k * sum));
    }
}

/* logits: [n, end], the rows of queries start, start + 1 … of m, repeated; in place. Keys after a
 * query get the weight 0. */
void softmax_forward(bf16 *logits, long n, long m, long start, long end)
{
#pragma omp parallel for
    for (long r = 0; r < n; r++) {
        bf16 *x = logits + r * end;
        long seen = start + r % m + 1;
        float most = -INFINITY, sum = 0;
#pragma omp simd reduction(max : most)
        for (long i = 0; i < seen; i++) most = fmaxf(most, f32(x[i]));
#pragma omp simd reduction(+ : sum)
        for (long i = 0; i < seen; i++) sum += expf(f32(x[i]) - most);
        float scale = 1 / sum;
#pragma omp simd
        for (long i = 0; i < seen; i++) x[i] = round_bf16(expf(f32(x[i]) - most) * scale);
        memset(x + seen, 0, (size_t)(end - seen) * sizeof *x);
    }
}

/* d_p becomes the gradient of the logits; p: the output of softmax_forward */
void softmax_backward(const bf16 *p, bf16 *d_p, long n, long m, long start, long end)
{
#pragma omp parallel for
    for (long r = 0; r < n; r++) {
        const bf16 *w = p + r * end;
        bf16 *d = d_p + r * end;
        long seen = start + r % m + 1;
        float sum = 0;
#pragma omp simd reduction(+ : sum)
        for (long i = 0; i < seen; i++) sum += f32(w[i]) * f32(d[i]);
#pragma omp simd
        for (long i = 0; i < seen; i++) d[i] = round_bf16(f32(w[i]) * (f32(d[i]) - sum));
        memset(d + seen, 0, (size_t)(end - seen) * sizeof *d);
    }
}
