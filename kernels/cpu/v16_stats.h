/* Attention statistics: sixteen slots at a time.
 *
 * The keys of a tile are rotated by their slots and stored as columns (lane = slot), so that the
 * logits of 16 slots are one chain of FMAs without a horizontal sum. Each lane's chain is the same
 * for every range of slots. */
#ifndef RETAIN_KERNELS_CPU_V16_STATS_H
#define RETAIN_KERNELS_CPU_V16_STATS_H

#include "kernels/cpu/v16_act.h"

#include <assert.h>
#include <string.h>

enum { STATS_TILE = 64, STATS_DIM = KN_HEAD_DIM_MAX };

struct stats_tile {
    _Alignas(64) float k[STATS_DIM * STATS_TILE]; /* [dim][slot] */
    float q[STATS_DIM];
    float sum[STATS_TILE]; /* over the group, of one token */
    float out[STATS_TILE];
};

/* x may be the result. */
static inline void stats_rotate(float *dst, size_t step, const float *x, const struct kn_rope *rope,
                                int pos)
{
    const int half = rope->head_dim / 2;
    const float *cos = rope->cos + (size_t)pos * (size_t)half;
    const float *sin = rope->sin + (size_t)pos * (size_t)half;

    for (int i = 0; i < half; i++) {
        const float a = x[i], b = x[i + half];
        dst[(size_t)i * step] = a * cos[i] - b * sin[i];
        dst[(size_t)(i + half) * step] = b * cos[i] + a * sin[i];
    }
}

static inline void stats_unpack(float *dst, const void *src, enum kn_kv type, int head_dim)
{
    switch (type) {
    case KN_KV_F16: kv_unpack_f16_v16(dst, src, head_dim); break;
    case KN_KV_Q8: kv_unpack_q8_v16(dst, src, head_dim); break;
    case KN_KV_Q4: kv_unpack_q4_v16(dst, src, head_dim); break;
    case KN_KV_S4: kv_unpack_s4_v16(dst, src, head_dim); break;
    default: kn_kv_unpack_f32_ref(dst, src, head_dim);
    }
}

static inline void stats_keys(struct stats_tile *tile, const struct kn_stats *job, int s0, int n)
{
    const size_t bytes = kn_kv_bytes(job->k_type, job->head_dim);
    float k[STATS_DIM];

    for (int s = 0; s < n; s++) {
        stats_unpack(k, (const uint8_t *)job->k + (size_t)(s0 + s) * bytes, job->k_type,
                     job->head_dim);
        if (job->k_type == KN_KV_S4)
            kn_key_restore(k, job->centre, job->first && s0 + s == 0, job->head_dim);
        stats_rotate(tile->k + s, STATS_TILE, k, job->rope, s0 + s);
    }
}

/* One token: its p for the first n slots of the tile, summed over the group. */
static inline void stats_token(struct stats_tile *tile, const struct kn_stats *job, int t, int n)
{
    for (int i = 0; i < n; i += 16) v16_store(tile->sum + i, v16_zero());
    for (int g = 0; g < job->n_group; g++) {
        const float *q = job->q + (size_t)t * job->q_stride + (size_t)(g * job->head_dim);
        const v16 lse = v16_set1(job->lse[(size_t)t * job->lse_stride + (size_t)g]);

        stats_rotate(tile->q, 1, q, job->rope, job->pos0 + t);
        for (int i = 0; i < n; i += 16) {
            v16 dot = v16_zero();

            for (int d = 0; d < job->head_dim; d++)
                dot = v16_fma(v16_set1(tile->q[d]), v16_load(tile->k + d * STATS_TILE + i), dot);
            v16 logit = v16_mul(dot, v16_set1(job->scale));
            if (job->softcap > 0.0f) logit = v16_softcap(logit, job->softcap);
            const v16 p = v16_exp(v16_sub(logit, lse));
            v16_store(tile->sum + i, v16_add(v16_load(tile->sum + i), p));
            if (job->stat == KN_STAT_MAX) {
                const v16 old = v16_load(tile->out + i), top = v16_max(old, p);
                v16_store(tile->out + i, n - i < 16 ? v16_keep_n(top, n - i, old) : top);
            }
        }
    }
}

/* Adds a token's share to the first n slots of the tile. */
static inline void stats_add(struct stats_tile *tile, const struct kn_stats *job, int n)
{
    const float mean = 1.0f / (float)job->n_group;

    if (job->stat == KN_STAT_MAX) return;
    for (int s = 0; s < n; s++) tile->out[s] += tile->sum[s] * mean;
}

static inline void attend_stats_v16(const struct kn_stats *job)
{
    struct stats_tile tile;

    assert(job->head_dim <= STATS_DIM);
    memset(tile.k, 0, sizeof(float) * STATS_TILE * (size_t)job->head_dim);
    for (int s0 = job->slot0; s0 < job->slot1; s0 += STATS_TILE) {
        const int n = job->slot1 - s0 < STATS_TILE ? job->slot1 - s0 : STATS_TILE;
        const int t0 = s0 > job->pos0 ? s0 - job->pos0 : 0;

        stats_keys(&tile, job, s0, n);
        memset(tile.out, 0, sizeof tile.out);
        memcpy(tile.out, job->out + s0, (size_t)n * sizeof(float));
        for (int t = t0; t < job->n_tok; t++) {
            const int sees = job->pos0 + t + 1 - s0 < n ? job->pos0 + t + 1 - s0 : n;
            stats_token(&tile, job, t, sees);
            stats_add(&tile, job, sees);
        }
        memcpy(job->out + s0, tile.out, (size_t)n * sizeof(float));
    }
}

#endif
