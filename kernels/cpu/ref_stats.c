/* Reference attention statistics: one query and one slot at a time. */
#include "kernels/cpu/cpu.h"

#include <assert.h>
#include <math.h>

static void unpack(float *dst, const struct kn_stats *job, int slot)
{
    const size_t bytes = kn_kv_bytes(job->k_type, job->head_dim);
    const uint8_t *src = (const uint8_t *)job->k + (size_t)slot * bytes;

    switch (job->k_type) {
    case KN_KV_F16: kn_kv_unpack_f16_ref(dst, src, job->head_dim); break;
    case KN_KV_F32: kn_kv_unpack_f32_ref(dst, src, job->head_dim); break;
    case KN_KV_Q8: kn_kv_unpack_q8_ref(dst, src, job->head_dim); break;
    case KN_KV_Q4: kn_kv_unpack_q4_ref(dst, src, job->head_dim); break;
    case KN_KV_TYPES: assert(0 && "no such cache type");
    }
}

/* dst may be x. */
static void rotate(float *dst, const float *x, const struct kn_rope *rope, int pos)
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

static float share(const struct kn_stats *job, const float *k, int t, int g)
{
    float q[KN_HEAD_DIM_MAX], dot = 0.0f;

    rotate(q, job->q + (size_t)t * job->q_stride + (size_t)(g * job->head_dim), job->rope,
           job->pos0 + t);
    for (int i = 0; i < job->head_dim; i++) dot += q[i] * k[i];
    return expf(dot * job->scale - job->lse[(size_t)t * job->lse_stride + (size_t)g]);
}

void kn_attend_stats_ref(const struct kn_stats *job)
{
    float k[KN_HEAD_DIM_MAX];

    assert(job->head_dim <= KN_HEAD_DIM_MAX);
    for (int s = job->slot0; s < job->slot1; s++) {
        unpack(k, job, s);
        rotate(k, k, job->rope, s);
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
