#include "runtime/forward/cis_net.h"

#include <assert.h>
#include <float.h>
#include <math.h>

#define GATE_EPSILON 1e-6f /* of a gate's norms, whatever the model's */

size_t cis_net_floats(const struct retaining *h)
{
    return h->shape.form == RETAINING_SILU ? 0 : CIS_NET_TOKENS * (size_t)h->shape.n_hidden;
}

static float dot(const float *a, const float *b, int n)
{
    float sum = 0;
    for (int i = 0; i < n; i++) sum += a[i] * b[i];
    return sum;
}

static float gelu(float x)
{
    return 0.5f * x * (1 + erff(x * 0.70710678f));
}

/* W2 gelu(z) + b2; z already has its bias. */
static void finish_gelu(const struct retaining *h, const struct retaining_layer *l, float *z,
                        float *out)
{
    const int n = h->shape.n_hidden;
    for (int i = 0; i < n; i++) z[i] = gelu(z[i]);
    for (int i = 0; i < h->shape.n_head; i++)
        out[i] =
            l->part[RETAINING_BIAS2][i] + dot(l->part[RETAINING_W2] + (size_t)i * (size_t)n, z, n);
}

/* RMSNorm of one vector of a gate; which: 0 = queries, 1 = keys. */
static void norm(const struct retaining *h, const struct retaining_layer *l, int which, float *x)
{
    const int n = h->shape.n_rank;
    const float *w = l->part[RETAINING_NORMS] + which * n;
    float scale = 1 / sqrtf(dot(x, x, n) / (float)n + GATE_EPSILON);
    for (int i = 0; i < n; i++) x[i] *= scale * w[i];
}

/* z: the queries of all heads, then the keys. */
static void finish_gate(const struct retaining *h, const struct retaining_layer *l, float *z,
                        float *out)
{
    const int rank = h->shape.n_rank, n_base = h->shape.n_base, group = retaining_group(&h->shape);
    const float root = 1 / sqrtf((float)rank);
    for (int i = 0; i < h->shape.n_head; i++) {
        float *q = z + i * group * rank, *k = z + (h->shape.n_head * group + i) * rank, mean = 0;
        const float *base = l->part[RETAINING_BASE] + i * n_base * rank;
        norm(h, l, 1, k);
        for (int g = 0; g < group; g++, q += rank) {
            norm(h, l, 0, q);
            float logit = dot(k, q, rank) * root + l->part[RETAINING_BIAS2][i * group + g], sum = 1;
            for (int s = 0; s < n_base; s++)
                sum += expf(dot(base + s * rank, q, rank) * root - logit);
            mean += 1 / sum / (float)group;
        }
        out[i] = logf(fmaxf(mean, FLT_MIN));
    }
}

static void finish_linear(const struct retaining *h, const struct retaining_layer *l, float *z,
                          float *out)
{
    (void)l;
    for (int i = 0; i < h->shape.n_head; i++) out[i] = z[i];
}

void cis_net_score(const struct retaining *h, int layer, const struct kernels *k,
                   const struct kn_act *x, int n, float *scratch, float *out)
{
    static void (*const finish[RETAINING_FORMS])(const struct retaining *,
                                                 const struct retaining_layer *, float *,
                                                 float *) = {[RETAINING_GELU] = finish_gelu,
                                                             [RETAINING_LINEAR] = finish_linear,
                                                             [RETAINING_GATE] = finish_gate};
    const struct retaining_layer *l = &h->layers[layer];
    const int n_hidden = h->shape.n_hidden, n_head = h->shape.n_head;
    assert(n <= CIS_NET_TOKENS);
    if (h->shape.form == RETAINING_SILU) {
        struct kn_score job = {&l->w1, l->part[RETAINING_W2], x, n, n_head, out};
        k->score(&job);
        return;
    }
    struct kn_matmul first = {&l->w1, x, n, 0, n_hidden, scratch, (size_t)n_hidden};
    k->matmul[l->w1.type](&first);
    int n_bias, one;
    retaining_part_shape(&h->shape, RETAINING_BIAS1, &one, &n_bias);
    for (int t = 0; t < n; t++) {
        float *z = scratch + (size_t)t * (size_t)n_hidden;
        k->mix(z, l->part[RETAINING_BIAS1], n_bias, 1.0f, 1.0f);
        finish[h->shape.form](h, l, z, out + t * n_head);
    }
}
