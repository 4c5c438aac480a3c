/* Reference activations: quantization, norms, the gate, and rows of the embedding. */
#include "kernels/cpu/cpu.h"

#include <math.h>
#include <string.h>

void kn_quantize_ref(int8_t *q, float *d, int32_t *sum, const float *x, int n)
{
    for (int g = 0; g < n / KN_GROUP; g++, x += KN_GROUP, q += KN_GROUP) {
        float max = 0.0f;
        int32_t total = 0;

        for (int i = 0; i < KN_GROUP; i++) max = fabsf(x[i]) > max ? fabsf(x[i]) : max;
        d[g] = max / 127.0f;
        for (int i = 0; i < KN_GROUP; i++) {
            /* a denormal d is coarse: without the clamp max / d could reach 190 */
            const float v = d[g] > 0.0f ? rintf(x[i] / d[g]) : 0.0f;
            q[i] = (int8_t)(v > 127.0f ? 127.0f : v > -127.0f ? v : -127.0f);
            total += q[i];
        }
        sum[g] = total;
    }
}

void kn_rmsnorm_ref(float *y, const float *x, const float *w, int n, float eps)
{
    double sum = 0.0;
    for (int i = 0; i < n; i++) sum += (double)x[i] * (double)x[i];

    const float inv = (float)(1.0 / sqrt(sum / n + (double)eps));
    for (int i = 0; i < n; i++) y[i] = x[i] * inv * w[i];
}

void kn_silu_mul_ref(float *y, const float *gate, const float *up, int n)
{
    for (int i = 0; i < n; i++) y[i] = gate[i] / (1.0f + expf(-gate[i])) * up[i];
}

void kn_add_ref(float *y, const float *x, int n)
{
    for (int i = 0; i < n; i++) y[i] += x[i];
}

void kn_row_f32_ref(float *out, const struct kn_weight *w, int r)
{
    const size_t n = (size_t)w->n_in;
    memcpy(out, (const float *)w->data + (size_t)r * n, n * sizeof *out);
}

void kn_row_f16_ref(float *out, const struct kn_weight *w, int r)
{
    const uint16_t *row = (const uint16_t *)w->data + (size_t)r * (size_t)w->n_in;
    for (int i = 0; i < w->n_in; i++) out[i] = kn_float_from_half(row[i]);
}

void kn_row_bf16_ref(float *out, const struct kn_weight *w, int r)
{
    const uint16_t *row = (const uint16_t *)w->data + (size_t)r * (size_t)w->n_in;
    for (int i = 0; i < w->n_in; i++) out[i] = kn_float_from_bf16(row[i]);
}

void kn_row_q4_ref(float *out, const struct kn_weight *w, int r)
{
    const int n_group = w->n_in / KN_GROUP, lane = r % KN_PANEL;
    const struct kn_q4_panel *panel = w->data;

    panel += (size_t)(r / KN_PANEL) * (size_t)n_group;
    for (int g = 0; g < n_group; g++, panel++, out += KN_GROUP) {
        const float d = kn_float_from_half(panel->d[lane]);
        for (int i = 0; i < 16; i++) {
            const int byte = panel->qs[i / 4][lane][i % 4];
            out[i] = d * (float)((byte & 15) - 8);
            out[i + 16] = d * (float)((byte >> 4) - 8);
        }
    }
}

void kn_row_q8_ref(float *out, const struct kn_weight *w, int r)
{
    const int n_group = w->n_in / KN_GROUP, lane = r % KN_PANEL;
    const struct kn_q8_panel *panel = w->data;

    panel += (size_t)(r / KN_PANEL) * (size_t)n_group;
    for (int g = 0; g < n_group; g++, panel++, out += KN_GROUP) {
        const float d = kn_float_from_half(panel->d[lane]);
        for (int i = 0; i < KN_GROUP; i++)
            out[i] = d * (float)(panel->qs[i / 4][lane][i % 4] - 128);
    }
}

void kn_row_q4a_ref(float *out, const struct kn_weight *w, int r)
{
    const int n_group = w->n_in / KN_GROUP, lane = r % KN_PANEL;
    const struct kn_q4a_panel *panel = w->data;

    panel += (size_t)(r / KN_PANEL) * (size_t)n_group;
    for (int g = 0; g < n_group; g++, panel++, out += KN_GROUP) {
        const float d = kn_float_from_half(panel->d[lane]), m = kn_float_from_half(panel->m[lane]);
        for (int i = 0; i < 16; i++) {
            const int byte = panel->qs[i / 4][lane][i % 4];
            out[i] = d * (float)(byte & 15) + m;
            out[i + 16] = d * (float)(byte >> 4) + m;
        }
    }
}

void kn_row_q5a_ref(float *out, const struct kn_weight *w, int r)
{
    const int n_group = w->n_in / KN_GROUP, lane = r % KN_PANEL;
    const struct kn_q5a_panel *panel = w->data;

    panel += (size_t)(r / KN_PANEL) * (size_t)n_group;
    for (int g = 0; g < n_group; g++, panel++, out += KN_GROUP) {
        const float d = kn_float_from_half(panel->d[lane]), m = kn_float_from_half(panel->m[lane]);
        for (int i = 0; i < 16; i++) {
            const int byte = panel->qs[i / 4][lane][i % 4];
            const int high = panel->qh[lane][i % 4] >> i / 4;
            out[i] = d * (float)((byte & 15) | (high & 1) << 4) + m;
            out[i + 16] = d * (float)(byte >> 4 | (high & 16)) + m;
        }
    }
}

void kn_row_q6_ref(float *out, const struct kn_weight *w, int r)
{
    const int n_group = w->n_in / KN_GROUP, lane = r % KN_PANEL;
    const struct kn_q6_panel *panel = w->data;

    panel += (size_t)(r / KN_PANEL) * (size_t)n_group;
    for (int g = 0; g < n_group; g++, panel++, out += KN_GROUP)
        for (int k = 0; k < KN_GROUP; k++) {
            const int h = k / 16, j = k % 16 / 4, i = k % 4;
            const int low = panel->qs[j][lane][i] >> 4 * h & 15;
            const int high = panel->qh[h][lane][i] >> 2 * j & 3;
            out[k] = kn_float_from_half(panel->d[h][lane]) * (float)((low | high << 4) - 32);
        }
}
