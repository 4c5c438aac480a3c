/* Reference attention statistics: one query and one slot at a time. */
#include "kernels/cpu/ref_rows.h"

#include <assert.h>
#include <math.h>

static float share(const struct kn_stats *job, const float *k, int t, int g)
{
    float q[KN_HEAD_DIM_MAX], dot = 0.0f;

    ref_rotate(q, job->q + (size_t)t * job->q_stride + (size_t)(g * job->head_dim), job->rope,
               job->pos0 + t);
    for (int i = 0; i < job->head_dim; i++) dot += q[i] * k[i];
    return expf(dot * job->scale - job->lse[(size_t)t * job->lse_stride + (size_t)g]);
}

void kn_attend_stats_ref(const struct kn_stats *job)
{
    float k[KN_HEAD_DIM_MAX];

    assert(job->head_dim <= KN_HEAD_DIM_MAX);
    for (int s = job->slot0; s < job->slot1; s++) {
        ref_unpack(k, job->k_type, job->k, s, job->head_dim);
        ref_rotate(k, k, job->rope, s);
        for (int t = s > job->pos0 ? s - job->pos0 : 0; t < job->n_tok; t++) {
            float mean = 0.0f, max = job->stat == KN_STAT_MAX ? job->out[s] : 0.0f;

            for (int g = 0; g < job->n_group; g++) {
                const float p = share(job, k, t, g);
                mean += p;
                max = p > max ? p : max;
            }
            mean /= (float)job->n_group;
            if (job->stat == KN_STAT_SUM) job->out[s] += mean;
            if (job->stat == KN_STAT_MAX) job->out[s] = max;
            if (job->stat == KN_STAT_LOW) job->out[s] += mean < 1.0f / (float)(job->pos0 + t + 1);
        }
    }
}
