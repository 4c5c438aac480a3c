/* Reference matrix products and the retaining head: what every instruction set is measured against.
 */
#include "kernels/cpu/cpu.h"

#include <math.h>

static float dot_f32(const float *w, const float *x, int n)
{
    float sum = 0.0f;
    for (int k = 0; k < n; k++) sum += w[k] * x[k];
    return sum;
}

static float dot_f16(const uint16_t *w, const float *x, int n)
{
    float sum = 0.0f;
    for (int k = 0; k < n; k++) sum += kn_float_from_half(w[k]) * x[k];
    return sum;
}

static float dot_bf16(const uint16_t *w, const float *x, int n)
{
    float sum = 0.0f;
    for (int k = 0; k < n; k++) sum += kn_float_from_bf16(w[k]) * x[k];
    return sum;
}

void kn_matmul_f32_ref(const struct kn_matmul *job)
{
    const size_t n = (size_t)job->w->n_in;
    const float *w = job->w->data;

    for (int t = 0; t < job->n_tok; t++)
        for (int r = job->row0; r < job->row1; r++)
            job->y[(size_t)t * job->y_stride + (size_t)r] =
                dot_f32(w + (size_t)r * n, job->x->x + (size_t)t * n, (int)n);
}

void kn_matmul_f16_ref(const struct kn_matmul *job)
{
    const size_t n = (size_t)job->w->n_in;
    const uint16_t *w = job->w->data;

    for (int t = 0; t < job->n_tok; t++)
        for (int r = job->row0; r < job->row1; r++)
            job->y[(size_t)t * job->y_stride + (size_t)r] =
                dot_f16(w + (size_t)r * n, job->x->x + (size_t)t * n, (int)n);
}

void kn_matmul_bf16_ref(const struct kn_matmul *job)
{
    const size_t n = (size_t)job->w->n_in;
    const uint16_t *w = job->w->data;

    for (int t = 0; t < job->n_tok; t++)
        for (int r = job->row0; r < job->row1; r++)
            job->y[(size_t)t * job->y_stride + (size_t)r] =
                dot_bf16(w + (size_t)r * n, job->x->x + (size_t)t * n, (int)n);
}

/* sum_k (w_k - 8) x_k over the 32 columns of one row; the offset is paid with sum = sum_k x_k. */
static int32_t dot_q4_group(const struct kn_q4_panel *p, int lane, const int8_t *x, int32_t sum)
{
    int32_t dot = 0;
    for (int j = 0; j < 4; j++)
        for (int i = 0; i < 4; i++) {
            const int byte = p->qs[j][lane][i];
            dot += (byte & 15) * x[4 * j + i] + (byte >> 4) * x[16 + 4 * j + i];
        }
    return dot - 8 * sum;
}

static int32_t dot_q8_group(const struct kn_q8_panel *p, int lane, const int8_t *x, int32_t sum)
{
    int32_t dot = 0;
    for (int k = 0; k < KN_GROUP; k++) dot += p->qs[k / 4][lane][k % 4] * x[k];
    return dot - 128 * sum;
}

static float dot_q4(const struct kn_weight *w, int r, const struct kn_act *x, size_t t)
{
    const size_t n_group = (size_t)w->n_in / KN_GROUP;
    const struct kn_q4_panel *panel = w->data;
    const int lane = r % KN_PANEL;
    float y = 0.0f;

    panel += (size_t)(r / KN_PANEL) * n_group;
    for (size_t g = 0; g < n_group; g++) {
        const size_t at = t * n_group + g;
        const int32_t dot = dot_q4_group(&panel[g], lane, x->q + at * KN_GROUP, x->sum[at]);
        y += (float)dot * (kn_float_from_half(panel[g].d[lane]) * x->d[at]);
    }
    return y;
}

static float dot_q8(const struct kn_weight *w, int r, const struct kn_act *x, size_t t)
{
    const size_t n_group = (size_t)w->n_in / KN_GROUP;
    const struct kn_q8_panel *panel = w->data;
    const int lane = r % KN_PANEL;
    float y = 0.0f;

    panel += (size_t)(r / KN_PANEL) * n_group;
    for (size_t g = 0; g < n_group; g++) {
        const size_t at = t * n_group + g;
        const int32_t dot = dot_q8_group(&panel[g], lane, x->q + at * KN_GROUP, x->sum[at]);
        y += (float)dot * (kn_float_from_half(panel[g].d[lane]) * x->d[at]);
    }
    return y;
}

/* Bit 4 of column 4j+i, in place. */
static int fifth_bit(const struct kn_q5a_panel *p, int lane, int i, int j)
{
    return (p->qh[lane][i] >> j & 1) << 4;
}

static int32_t dot_q4a_group(const struct kn_q4a_panel *p, int lane, const int8_t *x)
{
    int32_t dot = 0;
    for (int j = 0; j < 4; j++)
        for (int i = 0; i < 4; i++) {
            const int byte = p->qs[j][lane][i];
            dot += (byte & 15) * x[4 * j + i] + (byte >> 4) * x[16 + 4 * j + i];
        }
    return dot;
}

static int32_t dot_q5a_group(const struct kn_q5a_panel *p, int lane, const int8_t *x)
{
    int32_t dot = 0;
    for (int j = 0; j < 4; j++)
        for (int i = 0; i < 4; i++) {
            const int byte = p->qs[j][lane][i];
            dot += ((byte & 15) | fifth_bit(p, lane, i, j)) * x[4 * j + i];
            dot += (byte >> 4 | fifth_bit(p, lane, i, j + 4)) * x[16 + 4 * j + i];
        }
    return dot;
}

/* Half h of a group, whose 16 activations x points at. */
static int32_t dot_q6_half(const struct kn_q6_panel *p, int lane, int h, const int8_t *x)
{
    int32_t dot = 0;
    for (int k = 0; k < 16; k++) {
        const int low = p->qs[k / 4][lane][k % 4] >> 4 * h & 15;
        const int high = p->qh[h][lane][k % 4] >> k / 4 * 2 & 3;
        dot += ((low | high << 4) - 32) * x[k];
    }
    return dot;
}

/* sum_k (d q_k + m) x_k: the minimum is multiplied with the sum of the activations. */
static float dot_q4a(const struct kn_weight *w, int r, const struct kn_act *x, size_t t)
{
    const size_t n_group = (size_t)w->n_in / KN_GROUP;
    const struct kn_q4a_panel *panel = w->data;
    const int lane = r % KN_PANEL;
    float y = 0.0f;

    panel += (size_t)(r / KN_PANEL) * n_group;
    for (size_t g = 0; g < n_group; g++) {
        const size_t at = t * n_group + g;
        const int32_t dot = dot_q4a_group(&panel[g], lane, x->q + at * KN_GROUP);
        y += (float)dot * (kn_float_from_half(panel[g].d[lane]) * x->d[at]);
        y += kn_float_from_half(panel[g].m[lane]) * (x->d[at] * (float)x->sum[at]);
    }
    return y;
}

static float dot_q5a(const struct kn_weight *w, int r, const struct kn_act *x, size_t t)
{
    const size_t n_group = (size_t)w->n_in / KN_GROUP;
    const struct kn_q5a_panel *panel = w->data;
    const int lane = r % KN_PANEL;
    float y = 0.0f;

    panel += (size_t)(r / KN_PANEL) * n_group;
    for (size_t g = 0; g < n_group; g++) {
        const size_t at = t * n_group + g;
        const int32_t dot = dot_q5a_group(&panel[g], lane, x->q + at * KN_GROUP);
        y += (float)dot * (kn_float_from_half(panel[g].d[lane]) * x->d[at]);
        y += kn_float_from_half(panel[g].m[lane]) * (x->d[at] * (float)x->sum[at]);
    }
    return y;
}

static float dot_q6(const struct kn_weight *w, int r, const struct kn_act *x, size_t t)
{
    const size_t n_group = (size_t)w->n_in / KN_GROUP;
    const struct kn_q6_panel *panel = w->data;
    const int lane = r % KN_PANEL;
    float y = 0.0f;

    panel += (size_t)(r / KN_PANEL) * n_group;
    for (size_t g = 0; g < n_group; g++) {
        const size_t at = t * n_group + g;
        for (int h = 0; h < 2; h++) {
            const int32_t dot = dot_q6_half(&panel[g], lane, h, x->q + at * KN_GROUP + 16 * h);
            y += (float)dot * (kn_float_from_half(panel[g].d[h][lane]) * x->d[at]);
        }
    }
    return y;
}

void kn_matmul_q4_ref(const struct kn_matmul *job)
{
    for (size_t t = 0; t < (size_t)job->n_tok; t++)
        for (int r = job->row0; r < job->row1; r++)
            job->y[t * job->y_stride + (size_t)r] = dot_q4(job->w, r, job->x, t);
}

void kn_matmul_q8_ref(const struct kn_matmul *job)
{
    for (size_t t = 0; t < (size_t)job->n_tok; t++)
        for (int r = job->row0; r < job->row1; r++)
            job->y[t * job->y_stride + (size_t)r] = dot_q8(job->w, r, job->x, t);
}

void kn_matmul_q4a_ref(const struct kn_matmul *job)
{
    for (size_t t = 0; t < (size_t)job->n_tok; t++)
        for (int r = job->row0; r < job->row1; r++)
            job->y[t * job->y_stride + (size_t)r] = dot_q4a(job->w, r, job->x, t);
}

void kn_matmul_q5a_ref(const struct kn_matmul *job)
{
    for (size_t t = 0; t < (size_t)job->n_tok; t++)
        for (int r = job->row0; r < job->row1; r++)
            job->y[t * job->y_stride + (size_t)r] = dot_q5a(job->w, r, job->x, t);
}

void kn_matmul_q6_ref(const struct kn_matmul *job)
{
    for (size_t t = 0; t < (size_t)job->n_tok; t++)
        for (int r = job->row0; r < job->row1; r++)
            job->y[t * job->y_stride + (size_t)r] = dot_q6(job->w, r, job->x, t);
}

/* Hidden layer of the retaining head. */
static float hidden(const struct kn_score *job, int j, size_t t)
{
    const struct kn_weight *w = job->w1;
    const size_t n = (size_t)w->n_in;

    if (w->type == KN_Q8) return dot_q8(w, j, job->x, t);
    return dot_f32((const float *)w->data + (size_t)j * n, job->x->x + t * n, w->n_in);
}

void kn_score_ref(const struct kn_score *job)
{
    const size_t n_head = (size_t)job->n_head, n_hidden = (size_t)job->w1->n_out;

    for (size_t t = 0; t < (size_t)job->n_tok; t++) {
        float *out = job->out + t * n_head;

        for (size_t h = 0; h < n_head; h++) out[h] = 0.0f;
        for (size_t j = 0; j < n_hidden; j++) {
            const float x = hidden(job, (int)j, t), act = x / (1.0f + expf(-x));
            for (size_t h = 0; h < n_head; h++) out[h] += job->w2[h * n_hidden + j] * act;
        }
    }
}
