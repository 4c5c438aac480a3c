/* Recurrent layers over v16, see v16.h: channels and columns of a state are independent, so each
 * register holds 16 of them, and all of a call's tokens pass through one register's before the
 * next. */
#ifndef RETAIN_KERNELS_CPU_V16_RECUR_H
#define RETAIN_KERNELS_CPU_V16_RECUR_H

#include "kernels/cpu/v16.h"

static inline void convolve_v16(const struct kn_convolve *job)
{
    const int n = job->n_channel, before = job->n_taps - 1;
    v16 in[KN_TAPS_MAX], taps[KN_TAPS_MAX];

    for (int c = job->c0; c < job->c1; c += 16) {
        const int w = job->c1 - c < 16 ? job->c1 - c : 16;
        const v16 bias = job->bias ? v16_load_n(job->bias + c, w) : v16_zero();

        for (int j = 0; j <= before; j++) taps[j] = v16_load_n(job->taps + j * n + c, w);
        for (int j = 0; j < before; j++) in[j] = v16_load_n(job->state + j * n + c, w);
        for (int t = 0; t < job->n_tok; t++) {
            float *x = job->x + (size_t)t * (size_t)n + c;
            v16 sum = bias;

            in[before] = v16_load_n(x, w);
            for (int j = 0; j <= before; j++) sum = v16_fma(taps[j], in[j], sum);
            v16_store_n(x, job->silu ? v16_silu(sum) : sum, w);
            for (int j = 0; j < before; j++) in[j] = in[j + 1];
        }
        for (int j = 0; j < before; j++) v16_store_n(job->state + j * n + c, in[j], w);
    }
}

/* S^T k of 16 columns of a state that is about to decay: four sums, so that additions overlap. */
V16_INLINE v16 recur_known(const float *s, size_t stride, const float *k, int key_dim, v16 decay)
{
    v16 sum[4] = {v16_zero(), v16_zero(), v16_zero(), v16_zero()};
    int i = 0;

    for (; i + 4 <= key_dim; i += 4)
#pragma GCC unroll 4
        for (int j = 0; j < 4; j++) {
            const v16 row = v16_mul(decay, v16_load(s + (size_t)(i + j) * stride));
            sum[j] = v16_fma(v16_set1(k[i + j]), row, sum[j]);
        }
    for (; i < key_dim; i++) {
        const v16 row = v16_mul(decay, v16_load(s + (size_t)i * stride));
        sum[0] = v16_fma(v16_set1(k[i]), row, sum[0]);
    }
    return v16_add(v16_add(sum[0], sum[1]), v16_add(sum[2], sum[3]));
}

/* S = decay S + k add^T; returns S^T q. */
V16_INLINE v16 recur_step(float *s, size_t stride, const float *k, const float *q, int key_dim,
                          v16 decay, v16 add)
{
    v16 sum[4] = {v16_zero(), v16_zero(), v16_zero(), v16_zero()};
    int i = 0;

    for (; i + 4 <= key_dim; i += 4)
#pragma GCC unroll 4
        for (int j = 0; j < 4; j++) {
            float *at = s + (size_t)(i + j) * stride;
            const v16 row = v16_fma(v16_set1(k[i + j]), add, v16_mul(decay, v16_load(at)));
            v16_store(at, row);
            sum[j] = v16_fma(v16_set1(q[i + j]), row, sum[j]);
        }
    for (; i < key_dim; i++) {
        float *at = s + (size_t)i * stride;
        const v16 row = v16_fma(v16_set1(k[i]), add, v16_mul(decay, v16_load(at)));
        v16_store(at, row);
        sum[0] = v16_fma(v16_set1(q[i]), row, sum[0]);
    }
    return v16_add(v16_add(sum[0], sum[1]), v16_add(sum[2], sum[3]));
}

/* All tokens through columns [c, c + w) of the state, which are at s; 16 are there. */
V16_INLINE void recur_columns(const struct kn_recur *job, float *s, size_t stride, int c, int w)
{
    for (int t = 0; t < job->n_tok; t++) {
        const size_t at = (size_t)t * job->stride;
        const v16 decay = v16_set1(job->decay[(size_t)t * job->rate_stride]);
        const v16 rate = v16_set1(job->rate[(size_t)t * job->rate_stride]);
        const v16 v = v16_load_n(job->v + at + c, w);
        v16 add = v;

        if (job->delta) add = v16_sub(v, recur_known(s, stride, job->k + at, job->key_dim, decay));
        const v16 y = recur_step(s, stride, job->k + at, job->q + at, job->key_dim, decay,
                                 v16_mul(rate, add));
        v16_store_n(job->y + (size_t)t * job->y_stride + c, v16_fma(v16_set1(job->skip), v, y), w);
    }
}

static inline void recur_v16(const struct kn_recur *job)
{
    const size_t stride = (size_t)job->value_dim;
    _Alignas(64) float
        block[KN_KEY_DIM_MAX * 16]; /* 16 columns side by side: they are in the first cache */

    for (int c = job->c0; c < job->c1; c += 16) {
        const int w = job->c1 - c < 16 ? job->c1 - c : 16;
        float *s = job->state + c;

        if (job->n_tok == 1 && w == 16)
            recur_columns(job, s, stride, c, 16);
        else {
            for (int i = 0; i < job->key_dim; i++)
                v16_store(block + i * 16, v16_load_n(s + (size_t)i * stride, w));
            recur_columns(job, block, 16, c, w);
            for (int i = 0; i < job->key_dim; i++)
                v16_store_n(s + (size_t)i * stride, v16_load(block + i * 16), w);
        }
    }
}

#endif
