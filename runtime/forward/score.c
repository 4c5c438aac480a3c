#include "runtime/forward/forward_parts.h"

#include <math.h>
#include <string.h>

#include "base/pool.h"
#include "runtime/cache/evict.h"

struct job {
    struct forward *f;
    struct cache *c;
};

/* ---- keys ------------------------------------------------------------------------------------ */

static void unpack_key(const struct job *j, int index, int s, float *k)
{
    const struct cache *c = j->c;
    const struct cache_head *h = &c->kv_heads[index];
    const int dim = c->shape.head_dim;
    j->f->kernels->kv_unpack[c->shape.k_type](k, h->k + (size_t)s * c->k_bytes, dim);
    if (kn_kv_centred(c->shape.k_type))
        kn_key_restore(k, &j->f->model->centres[index], h->pos[s] == 0, dim);
}

static float norm_of(const float *x, int n)
{
    float sum = 0;
    for (int i = 0; i < n; i++) sum += x[i] * x[i];
    return sqrtf(sum);
}

/* KeyDiff, eq. 4: -cos(k, mean of k / |k|). Keys before RoPE. */
static void key_values(const struct job *j, int index, float *out)
{
    const struct cache_head *h = &j->c->kv_heads[index];
    int dim = j->c->shape.head_dim;
    float k[KN_HEAD_DIM_MAX], mean[KN_HEAD_DIM_MAX] = {0};
    for (int s = 0; s < h->len; s++) {
        unpack_key(j, index, s, k);
        float norm = norm_of(k, dim) + 1e-20f;
        for (int i = 0; i < dim; i++) mean[i] += k[i] / norm;
    }
    float mean_norm = norm_of(mean, dim) + 1e-20f; /* the cosine does not depend on the count */
    for (int s = 0; s < h->len; s++) {
        float dot = 0;
        unpack_key(j, index, s, k);
        for (int i = 0; i < dim; i++) dot += k[i] * mean[i];
        out[s] = -dot / (mean_norm * (norm_of(k, dim) + 1e-20f));
    }
}

/* ---- units read without heads ---------------------------------------------------------------- */

/* The score that heads in closed form give a unit's key and value as they are stored. */
static float unit_score(const struct job *j, int index, int s)
{
    const struct cache *c = j->c;
    const struct cache_head *h = &c->kv_heads[index];
    const int dim = c->shape.head_dim;
    const float *w = j->f->retaining->unit + (size_t)index * (size_t)j->f->retaining->n_unit;
    float k[KN_HEAD_DIM_MAX], v[KN_HEAD_DIM_MAX], sum = 0;
    unpack_key(j, index, s, k);
    if (c->shape.v_type == KN_KV_KEY)
        memcpy(v, k, sizeof v);
    else
        j->f->kernels->kv_unpack[c->shape.v_type](v, h->v + (size_t)s * c->v_bytes, dim);
    if (kn_kv_centred(c->shape.k_type)) j->f->kernels->hadamard(v, dim);
    for (int i = 0; i < dim; i++) sum += w[i] * k[i];
    for (int i = 0; i < dim; i++) sum += w[dim + i] * v[i];
    return sum;
}

/* They are a head's first units. A score that such a unit was saved or returned with is
 * replaced. */
static void adopt_part(void *ctx, int index, int thread)
{
    const struct job *j = ctx;
    const struct cache_head *h = &j->c->kv_heads[index];
    (void)thread;
    for (int s = 0; s < h->len && h->pos[s] < j->f->heads_from; s++)
        h->score[s] = unit_score(j, index, s);
}

void score_adopt(struct forward *f, struct cache *c, int64_t from)
{
    struct job j = {.f = f, .c = c};
    f->heads_from = from;
    if (from > 0) pool_run(f->pool, cache_n_heads(c), adopt_part, &j);
}

/* ---- near-duplicates ------------------------------------------------------------------------- */

enum { SIGN_TABLES = 2, SIGN_CELLS = 256 };

/* 2^23 log2 n, by linear interpolation between powers of two (Mitchell 1962), at most 0.09 too
 * small: the bits of a float. n >= 1. */
static int32_t log_bits(int32_t n)
{
    return (int32_t)kn_bits_from_float((float)n) - 0x3f800000;
}

/* Subtracts a quarter of the logarithm of the number of the head's units with the same eight signs
 * as this one, averaged over two tables. */
static void discount_duplicates(const struct job *j, int index, float *x, int thread)
{
    const float nat = 0.693147181f / (float)(4 * SIGN_TABLES << 23);
    const struct cache_head *h = &j->c->kv_heads[index];
    uint16_t *signs = (uint16_t *)j->f->derive + (size_t)thread * (size_t)j->f->rope.n_pos;
    int32_t count[SIGN_TABLES][SIGN_CELLS] = {0};
    kn_key_signs(signs, h->k, j->c->shape.k_type, j->c->shape.head_dim, h->len);
    for (int s = 0; s < h->len; s++)
        for (int t = 0; t < SIGN_TABLES; t++) count[t][signs[s] >> 8 * t & 255]++;
    for (int t = 0; t < SIGN_TABLES; t++)
        for (int i = 0; i < SIGN_CELLS; i++) count[t][i] = log_bits(count[t][i]);
    for (int s = 0; s < h->len; s++) {
        int32_t sum = 0;
        for (int t = 0; t < SIGN_TABLES; t++) sum += count[t][signs[s] >> 8 * t & 255];
        x[s] -= (float)sum * nat;
    }
}

/* ---- all scorers ----------------------------------------------------------------------------- */

/* A retaining head predicts a label that was standardised for each KV head. If the labels are
 * logarithms of the share of attention that a unit will get, units of different heads compare after
 * this is undone. Other labels are not comparable, and stay as they are. */
static void calibrate(const struct forward *f, int index, float *x, int n)
{
    float mean = f->retaining->label_mean[index], std = f->retaining->label_std[index];
    for (int s = 0; s < n; s++) x[s] = x[s] * std + mean;
}

static void values_part(void *ctx, int index, int thread)
{
    const struct job *j = ctx;
    const struct policy *p = j->f->policy;
    const struct cache_head *h = &j->c->kv_heads[index];
    float *out = &j->f->slots[h->slot0].value;
    if (j->f->heads_from > 0) adopt_part(ctx, index, thread);
    if (p->scorer == POLICY_KEYS)
        key_values(j, index, out);
    else if (p->scorer == POLICY_POSITION) /* ages: floats cannot hold positions beyond 2^24 */
        for (int s = 0; s < h->len; s++) out[s] = (float)((int64_t)h->pos[s] - j->c->n_pos);
    else
        memcpy(out, h->score, (size_t)h->len * sizeof *out);
    if (p->scorer == POLICY_CIS && j->c->shape.shared && retaining_comparable(j->f->retaining)) {
        calibrate(j->f, index, out, h->len);
        if (p->near_duplicates) discount_duplicates(j, index, out, thread);
    }
}

void score_values(struct forward *f, struct cache *c)
{
    struct job j = {.f = f, .c = c};
    pool_run(f->pool, cache_n_heads(c), values_part, &j);
}
