/* Reference attention: one unit at a time, online softmax (Milakov and Gimelshein,
 * arXiv 1805.02867). */
#include "kernels/cpu/ref_rows.h"

#include <assert.h>
#include <math.h>

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
    const size_t row = (size_t)t * (size_t)n_group;
    float k[KN_HEAD_DIM_MAX], v[KN_HEAD_DIM_MAX], q[KN_HEAD_DIM_MAX];

    for (int g = 0; g < n_group; g++) {
        float *m = job->m + row + g, *l = job->l + row + g;
        float *acc = job->acc + (row + (size_t)g) * (size_t)dim;

        *m = -INFINITY;
        *l = 0.0f;
        for (int i = 0; i < dim; i++) acc[i] = 0.0f;
        ref_rotate(q, job->q + (size_t)t * job->q_stride + (size_t)(g * dim), job->rope, pos);
        for (int s = job->slot0; s < end; s++) {
            float dot = 0.0f;

            ref_unpack(k, job->k_type, job->k, s, dim);
            ref_unpack(v, job->v_type, job->v, s, dim);
            ref_rotate(k, k, job->rope, s);
            for (int i = 0; i < dim; i++) dot += q[i] * k[i];
            online_step(m, l, acc, dot * job->scale, v, dim);
        }
    }
}

void kn_attend_ref(const struct kn_attend *job)
{
    assert(job->head_dim <= KN_HEAD_DIM_MAX && job->slot0 % KN_TILE == 0);
    for (int t = 0; t < job->n_tok; t++) attend_token(job, t);
}
