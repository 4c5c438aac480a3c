/* rope: the angle by which each pair of a head rotates per position (RoPE, arXiv 2104.09864), read
 * from a model's metadata: plain, linear, Llama 3, YaRN (arXiv 2309.00071) and LongRoPE (arXiv
 * 2402.13753).
 *
 * Frequencies are in the kernels' order (kernels.h): number i of a head forms a pair with number
 * i + head_dim / 2. If only n_rot numbers of a head are rotated, the frequency of the pairs from
 * n_rot / 2 on is 0. */
#ifndef RETAIN_RUNTIME_MODEL_ROPE_H
#define RETAIN_RUNTIME_MODEL_ROPE_H

#include "base/err.h"
#include "kernels/kernels.h"

struct model;

struct rope {
    int n_rot;        /* numbers of a head that are rotated */
    int n_ctx_orig;   /* trained positions, before the context was extended */
    float magnitude;  /* scale of rotated queries and keys (YaRN, LongRoPE) */
    float *freq;      /* [head_dim / 2] radians per position, scaling applied */
    float *freq_long; /* for conversations that may pass n_ctx_orig; NULL = freq for all */
};

/* ERR_FORMAT for unsupported scaling. */
int rope_init(struct rope *r, const struct model *m, int head_dim, struct err *e);
/* The same without scaling, for the layers with windows of families that scale only the others. */
int rope_init_plain(struct rope *r, int n_rot, int head_dim, float base, struct err *e);
void rope_release(struct rope *r);

/* The frequencies of a conversation whose units reach n_pos positions: chosen once, since keys and
 * queries must use the same. */
const float *rope_freq(const struct rope *r, int n_pos);

/* The frequencies of layers that do not rotate: zeros. */
extern const float rope_still[KN_HEAD_DIM_MAX / 2];

/* The cosines and sines of positions [0, n_pos): [n_pos][half] each, half at most
 * KN_HEAD_DIM_MAX / 2. */
void rope_table(float *cosines, float *sines, const float *freq, int half, int n_pos);

#endif
