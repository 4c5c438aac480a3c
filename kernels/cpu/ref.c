/* ref: the readable reference of every kernel, against which every instruction set is tested, and
 * the only version of kernels that take no time. */
#include "kernels/cpu/cpu.h"

#include <assert.h>
#include <math.h>

/* ---- activations ----------------------------------------------------------------------------- */

static void quantize_ref(int8_t *q, float *d, int32_t *sum, const float *x, int n)
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

static void rmsnorm_ref(float *y, const float *x, const float *w, int n, float eps)
{
    double sum = 0.0;
    for (int i = 0; i < n; i++) sum += (double)x[i] * (double)x[i];

    const float inv = (float)(1.0 / sqrt(sum / n + (double)eps));
    for (int i = 0; i < n; i++) y[i] = x[i] * inv * w[i];
}

static void silu_mul_ref(float *y, const float *gate, const float *up, int n)
{
    for (int i = 0; i < n; i++) y[i] = gate[i] / (1.0f + expf(-gate[i])) * up[i];
}

static void silu_clamped_mul_ref(float *y, const float *gate, const float *up, int n)
{
    for (int i = 0; i < n; i++) {
        const float g = gate[i] > KN_SILU_LIMIT ? KN_SILU_LIMIT : gate[i];
        const float most = up[i] > KN_SILU_LIMIT ? KN_SILU_LIMIT : up[i];
        const float u = most < -KN_SILU_LIMIT ? -KN_SILU_LIMIT : most;
        y[i] = g / (1.0f + expf(-KN_SILU_SLOPE * g)) * (u + 1.0f);
    }
}

static void gelu_mul_ref(float *y, const float *gate, const float *up, int n)
{
    for (int i = 0; i < n; i++) {
        const float x = gate[i], inner = 0.79788456f * (x + 0.044715f * x * x * x);
        y[i] = 0.5f * x * (1.0f + tanhf(inner)) * up[i];
    }
}

static void sigmoid_mul_ref(float *y, const float *gate, const float *x, int n)
{
    for (int i = 0; i < n; i++) y[i] = x[i] / (1.0f + expf(-gate[i]));
}

static void mix_ref(float *y, const float *x, int n, float kept, float share)
{
    for (int i = 0; i < n; i++) y[i] = kept * y[i] + share * x[i];
}

/* ---- numbers of a row ------------------------------------------------------------------------ */

/* A group of a row: column k is d[k / 16] * q[k] - m[k / 16]. */
struct group {
    int8_t q[KN_GROUP];
    float d[2], m[2];
};

static void read_nibbles(int8_t q[KN_GROUP], const uint8_t (*qs)[KN_PANEL][4], int lane)
{
    for (int k = 0; k < KN_GROUP; k++)
        q[k] = (int8_t)(qs[k % 16 / 4][lane][k % 4] >> k / 16 * 4 & 15);
}

static void read_values(int8_t q[KN_GROUP], const int8_t *values, const uint8_t (*qs)[KN_PANEL][4],
                        int lane)
{
    read_nibbles(q, qs, lane);
    for (int k = 0; k < KN_GROUP; k++) q[k] = values[q[k]];
}

static int low_bits(const uint8_t (*ql)[KN_PANEL][4], int lane, int k)
{
    return ql[k / 16][lane][k % 4] >> k % 16 / 4 * 2 & 3;
}

static float scale_mx4(uint8_t e)
{
    return e < 2 ? 0.0f : ldexpf(1.0f, e - 128);
}

/* The bits of e4m3 are those of a half, which has a bias of 15 instead of 7. */
static float scale_nv4(uint8_t d)
{
    return kn_float_from_half((uint16_t)(d << 7)) * 128.0f;
}

static struct group group_q4(const struct kn_q4_panel *p, int lane)
{
    const float d = kn_float_from_half(p->d[lane]);
    struct group out = {.d = {d, d}};
    read_nibbles(out.q, p->qs, lane);
    for (int k = 0; k < KN_GROUP; k++) out.q[k] = (int8_t)(out.q[k] - 8);
    return out;
}

static struct group group_q8(const struct kn_q8_panel *p, int lane)
{
    const float d = kn_float_from_half(p->d[lane]);
    struct group out = {.d = {d, d}};
    for (int k = 0; k < KN_GROUP; k++) out.q[k] = (int8_t)(p->qs[k / 4][lane][k % 4] - 128);
    return out;
}

static struct group group_q4a(const struct kn_q4a_panel *p, int lane)
{
    const float d = kn_float_from_half(p->d[lane]), m = -kn_float_from_half(p->m[lane]);
    struct group out = {.d = {d, d}, .m = {m, m}};
    read_nibbles(out.q, p->qs, lane);
    return out;
}

/* Bit j of qh[lane][i] is bit 4 of column 4j+i. */
static struct group group_q5a(const struct kn_q5a_panel *p, int lane)
{
    const float d = kn_float_from_half(p->d[lane]), m = -kn_float_from_half(p->m[lane]);
    struct group out = {.d = {d, d}, .m = {m, m}};
    read_nibbles(out.q, p->qs, lane);
    for (int k = 0; k < KN_GROUP; k++)
        out.q[k] = (int8_t)(out.q[k] | (p->qh[lane][k % 4] >> k / 4 & 1) << 4);
    return out;
}

static struct group group_q6(const struct kn_q6_panel *p, int lane)
{
    struct group out = {
        .d = {kn_float_from_half(p->d[0][lane]), kn_float_from_half(p->d[1][lane])}};
    read_nibbles(out.q, p->qs, lane);
    for (int k = 0; k < KN_GROUP; k++)
        out.q[k] = (int8_t)((out.q[k] | low_bits(p->qh, lane, k) << 4) - 32);
    return out;
}

static struct group group_mx4(const struct kn_mx4_panel *p, int lane)
{
    const float d = scale_mx4(p->e[lane]);
    struct group out = {.d = {d, d}};
    read_values(out.q, kn_values_e2m1, p->qs, lane);
    return out;
}

static struct group group_nv4(const struct kn_nv4_panel *p, int lane)
{
    struct group out = {.d = {scale_nv4(p->d[0][lane]), scale_nv4(p->d[1][lane])}};
    read_values(out.q, kn_values_e2m1, p->qs, lane);
    return out;
}

static struct group group_iq4(const struct kn_q4_panel *p, int lane)
{
    const float d = kn_float_from_half(p->d[lane]);
    struct group out = {.d = {d, d}};
    read_values(out.q, kn_values_iq4, p->qs, lane);
    return out;
}

/* IQ4S and the types of IQ3 */
static struct group group_iq4s(enum kn_type type, const struct kn_iq4s_panel *p, int g, int lane)
{
    const float d = kn_float_from_half(p->d[lane]) * (float)p->scale[g][lane] * kn_code_unit(type);
    struct group out = {.d = {d, d}};
    read_values(out.q, kn_code_values(type), p->qs[g], lane);
    return out;
}

static struct group group_q4s(const struct kn_q4s_panel *p, int g, int lane)
{
    const float d = kn_float_from_half(p->d[lane]) * (float)p->scale[g][lane];
    const float m = kn_float_from_half(p->m[lane]) * (float)p->min[g][lane];
    struct group out = {.d = {d, d}, .m = {m, m}};
    read_nibbles(out.q, p->qs[g], lane);
    return out;
}

/* Q3S, and codes of 3 bits */
static struct group group_q3s(enum kn_type type, const struct kn_q3s_panel *p, int g, int lane)
{
    struct group out = {.m = {0.0f}};
    for (int h = 0; h < 2; h++)
        out.d[h] =
            kn_float_from_half(p->d[lane]) * (float)p->scale[2 * g + h][lane] * kn_code_unit(type);
    for (int k = 0; k < KN_GROUP; k++) {
        const int q = low_bits(p->ql[g], lane, k) | (p->qh[g][lane][k % 4] >> k / 4 & 1) << 2;
        out.q[k] = (int8_t)(type == KN_Q3S ? q - 4 : kn_code_values(type)[q]);
    }
    return out;
}

static struct group group_q2s(const struct kn_q2s_panel *p, int g, int lane)
{
    struct group out;
    for (int h = 0; h < 2; h++) {
        const int both = p->scale[2 * g + h][lane];
        out.d[h] = kn_float_from_half(p->d[lane]) * (float)(both & 15);
        out.m[h] = kn_float_from_half(p->m[lane]) * (float)(both >> 4);
    }
    for (int k = 0; k < KN_GROUP; k++) out.q[k] = (int8_t)low_bits(p->ql[g], lane, k);
    return out;
}

static struct group group_at(const struct kn_weight *w, int r, int g)
{
    const int n_group = w->n_in / KN_GROUP, lane = r % KN_PANEL;
    const size_t at = (size_t)(r / KN_PANEL) * (size_t)n_group + (size_t)g;

    switch (w->type) {
    case KN_Q4: return group_q4((const struct kn_q4_panel *)w->data + at, lane);
    case KN_Q8: return group_q8((const struct kn_q8_panel *)w->data + at, lane);
    case KN_Q4A: return group_q4a((const struct kn_q4a_panel *)w->data + at, lane);
    case KN_Q5A: return group_q5a((const struct kn_q5a_panel *)w->data + at, lane);
    case KN_Q6: return group_q6((const struct kn_q6_panel *)w->data + at, lane);
    case KN_IQ4: return group_iq4((const struct kn_q4_panel *)w->data + at, lane);
    case KN_MX4: return group_mx4((const struct kn_mx4_panel *)w->data + at, lane);
    case KN_NV4: return group_nv4((const struct kn_nv4_panel *)w->data + at, lane);
    case KN_IQ4S:
    case KN_IQ3X:
    case KN_IQ3S:
        return group_iq4s(w->type, (const struct kn_iq4s_panel *)w->data + at / 8, g % 8, lane);
    case KN_Q4S: return group_q4s((const struct kn_q4s_panel *)w->data + at / 8, g % 8, lane);
    case KN_Q3S:
    case KN_IQ2:
    case KN_IQ1:
        return group_q3s(w->type, (const struct kn_q3s_panel *)w->data + at / 8, g % 8, lane);
    default: return group_q2s((const struct kn_q2s_panel *)w->data + at / 8, g % 8, lane);
    }
}

static bool is_float(enum kn_type type)
{
    return type == KN_F32 || type == KN_F16 || type == KN_BF16;
}

/* Number i of a matrix of floats or halves. */
static float number_at(const struct kn_weight *w, size_t i)
{
    if (w->type == KN_F32) return ((const float *)w->data)[i];
    const uint16_t half = ((const uint16_t *)w->data)[i];
    return w->type == KN_F16 ? kn_float_from_half(half) : kn_float_from_bf16(half);
}

void kn_row(float *out, const struct kn_weight *w, int r)
{
    const size_t n = (size_t)w->n_in;
    for (size_t k = 0; is_float(w->type) && k < n; k++) out[k] = number_at(w, (size_t)r * n + k);
    for (int k = 0; !is_float(w->type) && k < w->n_in; k += KN_GROUP) {
        const struct group group = group_at(w, r, k / KN_GROUP);
        for (int i = 0; i < KN_GROUP; i++)
            out[k + i] = group.d[i / 16] * (float)group.q[i] - group.m[i / 16];
    }
}

/* ---- matrix products ------------------------------------------------------------------------- */

static float dot_floats(const struct kn_weight *w, int r, const float *x)
{
    const size_t n = (size_t)w->n_in;
    float sum = 0.0f;
    for (size_t k = 0; k < n; k++) sum += number_at(w, (size_t)r * n + k) * x[k];
    return sum;
}

/* Columns that one product of integers covers: a group, or the half that has a scale. */
static int columns_of(enum kn_type type)
{
    const bool whole = type == KN_Q4 || type == KN_Q8 || type == KN_Q4A || type == KN_Q5A;
    return whole ? KN_GROUP : KN_GROUP / 2;
}

/* sum_k (d q_k - m) x_k: the minimum is multiplied by the sum of the activations. */
static float dot_groups(const struct kn_weight *w, int r, const struct kn_act *x, size_t t)
{
    const size_t n_group = (size_t)w->n_in / KN_GROUP;
    const int n = columns_of(w->type);
    float y = 0.0f;

    for (size_t g = 0; g < n_group; g++) {
        const struct group group = group_at(w, r, (int)g);
        const size_t at = t * n_group + g;
        for (int begin = 0; begin < KN_GROUP; begin += n) {
            const int8_t *q = group.q + begin, *u = x->q + at * KN_GROUP + begin;
            int32_t dot = 0, sum = 0;
            for (int k = 0; k < n; k++) {
                dot += q[k] * u[k];
                sum += u[k];
            }
            y += (float)dot * (group.d[begin / 16] * x->d[at]);
            y -= group.m[begin / 16] * (x->d[at] * (float)sum);
        }
    }
    return y;
}

static float dot_row(const struct kn_weight *w, int r, const struct kn_act *x, size_t t)
{
    if (is_float(w->type)) return dot_floats(w, r, x->x + t * (size_t)w->n_in);
    return dot_groups(w, r, x, t);
}

static void matmul_ref(const struct kn_matmul *job)
{
    for (size_t t = 0; t < (size_t)job->n_tok; t++)
        for (int r = job->row0; r < job->row1; r++)
            job->y[t * job->y_stride + (size_t)r] = dot_row(job->w, r, job->x, t);
}

/* ---- retaining heads ------------------------------------------------------------------------- */

static void score_ref(const struct kn_score *job)
{
    const size_t n_head = (size_t)job->n_head, n_hidden = (size_t)job->w1->n_out;

    for (size_t t = 0; t < (size_t)job->n_tok; t++) {
        float *out = job->out + t * n_head;

        for (size_t h = 0; h < n_head; h++) out[h] = 0.0f;
        for (size_t j = 0; j < n_hidden; j++) {
            const float x = dot_row(job->w1, (int)j, job->x, t), act = x / (1.0f + expf(-x));
            for (size_t h = 0; h < n_head; h++) out[h] += job->w2[h * n_hidden + j] * act;
        }
    }
}

/* ---- attention ------------------------------------------------------------------------------- */

/* Unpacks row `slot` of a head's keys or values to dst[head_dim]. */
static inline void unpack_row(float *dst, enum kn_kv type, const void *rows, int slot, int head_dim)
{
    kn_ref.kv_unpack[type](dst, (const uint8_t *)rows + (size_t)slot * kn_kv_bytes(type, head_dim),
                           head_dim);
}

/* dst may be x. */
static inline void rotate_row(float *dst, const float *x, const struct kn_rope *rope, int pos)
{
    const int half = rope->head_dim / 2;
    const float *cos = rope->cos + (size_t)pos * (size_t)half;
    const float *sin = rope->sin + (size_t)pos * (size_t)half;

    for (int i = 0; i < half; i++) {
        const float a = x[i], b = x[i + half];
        dst[i] = a * cos[i] - b * sin[i];
        dst[i + half] = b * cos[i] + a * sin[i];
    }
}

/* One unit at a time, online softmax (Milakov and Gimelshein, arXiv 1805.02867). */

static float capped(float logit, float softcap)
{
    return softcap > 0.0f ? softcap * tanhf(logit / softcap) : logit;
}

/* Adds one slot to the running softmax of one query. */
static void online_step(float *m, float *l, float *acc, float logit, const float *v, int head_dim)
{
    const float max = logit > *m ? logit : *m;
    const float keep = *m == -INFINITY ? 0.0f : expf(*m - max), p = expf(logit - max);

    *m = max;
    *l = *l * keep + p;
    for (int i = 0; i < head_dim; i++) acc[i] = acc[i] * keep + p * v[i];
}

static void attend_token(const struct kn_attend *job, int t)
{
    const int dim = job->head_dim, n_group = job->n_group, pos = job->pos0 + t;
    const int end = pos + 1 < job->slot1 ? pos + 1 : job->slot1;
    const int first = job->window && pos + 1 > job->window ? pos + 1 - job->window : 0;
    /* with a window, angles are counted from its first tile */
    const int origin = job->window ? first / KN_TILE * KN_TILE : 0;
    const size_t row = (size_t)t * (size_t)n_group;
    float k[KN_HEAD_DIM_MAX], v[KN_HEAD_DIM_MAX], q[KN_HEAD_DIM_MAX];

    for (int g = 0; g < n_group; g++) {
        float *m = job->m + row + g, *l = job->l + row + g;
        float *acc = job->acc + (row + (size_t)g) * (size_t)dim;

        *m = -INFINITY;
        *l = 0.0f;
        for (int i = 0; i < dim; i++) acc[i] = 0.0f;
        rotate_row(q, job->q + (size_t)t * job->q_stride + (size_t)(g * dim), job->rope,
                   pos - origin);
        for (int s = first > job->slot0 ? first : job->slot0; s < end; s++) {
            float dot = 0.0f;

            unpack_row(k, job->k_type, job->k, s, dim);
            if (kn_kv_centred(job->k_type))
                kn_key_restore(k, job->centre, job->first && s == 0, dim);
            unpack_row(v, job->v_type, job->v, s, dim);
            rotate_row(k, k, job->rope, s - origin);
            for (int i = 0; i < dim; i++) dot += q[i] * k[i];
            online_step(m, l, acc, capped(dot * job->scale, job->softcap), v, dim);
        }
    }
}

void kn_attend_ref(const struct kn_attend *job)
{
    assert(job->head_dim <= KN_HEAD_DIM_MAX && job->slot0 % KN_TILE == 0);
    for (int t = 0; t < job->n_tok; t++) attend_token(job, t);
}

/* ---- recurrent layers ------------------------------------------------------------------------ */

static void convolve_ref(const struct kn_convolve *job)
{
    const int n = job->n_channel, before = job->n_taps - 1;
    float in[KN_TAPS_MAX];

    assert(job->n_taps <= KN_TAPS_MAX);
    for (int c = job->c0; c < job->c1; c++) {
        for (int j = 0; j < before; j++) in[j] = job->state[j * n + c];
        for (int t = 0; t < job->n_tok; t++) {
            float *x = job->x + (size_t)t * (size_t)n + c, sum = job->bias ? job->bias[c] : 0.0f;
            in[before] = *x;
            for (int j = 0; j <= before; j++) sum += job->taps[j * n + c] * in[j];
            *x = job->silu ? sum / (1.0f + expf(-sum)) : sum;
            for (int j = 0; j < before; j++) in[j] = in[j + 1];
        }
        for (int j = 0; j < before; j++) job->state[j * n + c] = in[j];
    }
}

static void recur_ref(const struct kn_recur *job)
{
    for (int t = 0; t < job->n_tok; t++) {
        const float *q = job->q + (size_t)t * job->stride, *k = job->k + (size_t)t * job->stride;
        const float *v = job->v + (size_t)t * job->stride;
        const float decay = job->decay[(size_t)t * job->rate_stride];
        const float rate = job->rate[(size_t)t * job->rate_stride];

        for (int c = job->c0; c < job->c1; c++) {
            float *s = job->state + c, known = 0.0f, y = 0.0f;
            for (int i = 0; i < job->key_dim; i++) {
                s[i * job->value_dim] *= decay;
                if (job->delta) known += k[i] * s[i * job->value_dim];
            }
            for (int i = 0; i < job->key_dim; i++) {
                s[i * job->value_dim] += k[i] * (rate * (v[c] - known));
                y += q[i] * s[i * job->value_dim];
            }
            job->y[(size_t)t * job->y_stride + (size_t)c] = y + job->skip * v[c];
        }
    }
}

/* ---- the table ------------------------------------------------------------------------------- */

const struct kernels kn_ref = {
    .isa = "ref",
    .matmul = {[0 ... KN_TYPES - 1] = matmul_ref},
    .score = score_ref,
    .quantize = quantize_ref,
    .rmsnorm = rmsnorm_ref,
    .silu_mul = silu_mul_ref,
    .silu_clamped_mul = silu_clamped_mul_ref,
    .gelu_mul = gelu_mul_ref,
    .sigmoid_mul = sigmoid_mul_ref,
    .mix = mix_ref,
    .kv_pack =
        {
            [KN_KV_F16] = kn_kv_pack_f16_ref,
            [KN_KV_F32] = kn_kv_pack_f32_ref,
            [KN_KV_Q8] = kn_kv_pack_q8_ref,
            [KN_KV_Q4] = kn_kv_pack_q4_ref,
            [KN_KV_S4] = kn_kv_pack_q4_ref,
            [KN_KV_Q5] = kn_kv_pack_q5_ref,
            [KN_KV_S5] = kn_kv_pack_q5_ref,
        },
    .pack_values = kn_pack_values_ref,
    .key_centre = kn_key_centre_ref,
    .hadamard = kn_hadamard_ref,
    .kv_unpack =
        {
            [KN_KV_F16] = kn_kv_unpack_f16_ref,
            [KN_KV_F32] = kn_kv_unpack_f32_ref,
            [KN_KV_Q8] = kn_kv_unpack_q8_ref,
            [KN_KV_Q4] = kn_kv_unpack_q4_ref,
            [KN_KV_S4] = kn_kv_unpack_q4_ref,
            [KN_KV_Q5] = kn_kv_unpack_q5_ref,
            [KN_KV_S5] = kn_kv_unpack_q5_ref,
        },
    .attend = kn_attend_ref,
    .convolve = convolve_ref,
    .recur = recur_ref,
};
