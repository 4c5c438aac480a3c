#include "runtime/forward/score.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/pool.h"
#include "runtime/cache/evict.h"
#include "runtime/forward/attend.h"
#include "runtime/forward/forward.h"

/* ---- state ----------------------------------------------------------------------------------- */

static bool has_window(const struct policy *p)
{
    return p->scorer == POLICY_ATTENTION && p->window > 0;
}

int score_state_floats(const struct policy *p, const struct model *m)
{
    return has_window(p) ? p->window * model_n_q(m) : 0;
}

bool score_can_try(const struct policy *p, const struct model *m)
{
    return score_state_floats(p, m) == 0;
}

struct job {
    struct forward *f;
    struct cache *c;
    int layer, n;   /* observing */
    const float *q; /* [n] queries at distances of `stride`, from position pos on */
    size_t stride;
    int64_t pos;
};

static const float *query(const struct forward *f, int t)
{
    const struct model *m = f->model;
    return f->qkv + (size_t)t * (size_t)model_n_qkv(m);
}

static struct kn_stats stats_args(const struct forward *f, const struct cache *c, int index)
{
    const struct model *m = f->model;
    const bool centred = c->shape.k_type == KN_KV_S4;
    return (struct kn_stats){
        .centre = centred ? &m->centres[index] : NULL,
        .first = c->kv_heads[index].pos[0] == 0,
        .stat = KN_STAT_SUM,
        .k_type = c->shape.k_type,
        .head_dim = m->head_dim,
        .n_group = model_group(m),
        .k = c->kv_heads[index].k,
        .rope = forward_rope(f, f->model->kv_layers[index / c->shape.n_head]),
        .scale = m->attn_scale,
        .softcap = m->attn_softcap,
    };
}

/* ---- observing ------------------------------------------------------------------------------- */

/* The query of position p is kept in row p % window. */
static void remember(const struct job *j)
{
    const int window = j->f->policy->window;
    const size_t row = (size_t)model_n_q(j->f->model);
    float *ring = cache_state(j->c, j->layer);
    for (int t = j->n > window ? j->n - window : 0; t < j->n; t++)
        memcpy(ring + (size_t)((j->pos + t) % window) * row, j->q + (size_t)t * j->stride,
               row * sizeof *ring);
}

void score_queries(struct forward *f, struct cache *c, int layer, const float *q, size_t stride,
                   int64_t pos, int n)
{
    struct job j = {.f = f, .c = c, .layer = layer, .n = n, .q = q, .stride = stride, .pos = pos};
    if (has_window(f->policy)) remember(&j);
}

void score_observe(struct forward *f, struct cache *c, int layer, int n)
{
    score_queries(f, c, layer, query(f, 0), (size_t)model_n_qkv(f->model), c->n_pos, n);
}

/* ---- the window ------------------------------------------------------------------------------ */

/* Evaluates queries of rows [row, row + n) of the ring; the first of them is in slot pos0. */
static void ask(const struct job *j, int index, int row, int pos0, int n, float *out, int thread)
{
    const struct forward *f = j->f;
    const struct cache *c = j->c;
    struct kn_stats s = stats_args(f, c, index);
    size_t rows = (size_t)n * (size_t)s.n_group;
    float *lse = attend_partial(f, thread), *l = lse + rows;
    s.q_stride = (size_t)model_n_q(f->model);
    s.q = cache_state(c, index / c->shape.n_head) + (size_t)row * s.q_stride +
          index % c->shape.n_head * s.n_group * s.head_dim;
    s.n_tok = n;
    s.pos0 = pos0;
    s.slot1 = pos0 + n < c->kv_heads[index].len ? pos0 + n : c->kv_heads[index].len;
    struct kn_attend a = {
        .k_type = s.k_type,
        .v_type = c->shape.v_type,
        .head_dim = s.head_dim,
        .n_group = s.n_group,
        .k = s.k,
        .v = c->kv_heads[index].v,
        .slot1 = s.slot1,
        .n_tok = n,
        .pos0 = pos0,
        .q = s.q,
        .q_stride = s.q_stride,
        .rope = s.rope,
        .scale = s.scale,
        .m = lse,
        .l = l,
        .acc = l + rows,
        .centre = s.centre,
        .first = s.first,
    };
    f->kernels->attend(&a);
    for (size_t i = 0; i < rows; i++) lse[i] += logf(l[i]);
    s.lse = lse;
    s.lse_stride = (size_t)s.n_group;
    s.out = out;
    f->kernels->attend_stats(&s);
}

/* The newest units are protected, so the query of position p still has its unit, in slot len -
 * (n_pos - p). */
static void window_values(const struct job *j, int index, float *out, int thread)
{
    const struct cache_head *h = &j->c->kv_heads[index];
    int window = j->f->policy->window;
    int64_t n = window < j->c->n_pos ? window : j->c->n_pos;
    if (n > h->len) n = h->len;
    memset(out, 0, (size_t)h->len * sizeof *out);
    const int64_t end = j->c->n_pos;
    for (int64_t p = end - n; p < end;) {
        int row = (int)(p % window), part = window - row;
        if (part > FORWARD_ATTEND_TOKENS) part = FORWARD_ATTEND_TOKENS;
        if (part > end - p) part = (int)(end - p);
        ask(j, index, row, h->len - (int)(end - p), part, out, thread);
        p += part;
    }
}

/* ---- keys ------------------------------------------------------------------------------------ */

static void unpack_key(const struct job *j, int index, int s, float *k)
{
    const struct cache *c = j->c;
    const struct cache_head *h = &c->kv_heads[index];
    const int dim = c->shape.head_dim;
    j->f->kernels->kv_unpack[c->shape.k_type](k, h->k + (size_t)s * c->k_bytes, dim);
    if (c->shape.k_type == KN_KV_S4)
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

/* ---- units that were read without heads -------------------------------------------------------
 */

/* The score that heads in closed form give a unit's key and value as they are stored. */
static float unit_score(const struct job *j, int index, int s)
{
    const struct cache *c = j->c;
    const struct cache_head *h = &c->kv_heads[index];
    const int dim = c->shape.head_dim;
    const float *w = j->f->retaining->unit + (size_t)index * (size_t)j->f->retaining->n_unit;
    float k[KN_HEAD_DIM_MAX], v[KN_HEAD_DIM_MAX], sum = 0;
    unpack_key(j, index, s, k);
    j->f->kernels->kv_unpack[c->shape.v_type](v, h->v + (size_t)s * c->v_bytes, dim);
    if (c->shape.k_type == KN_KV_S4) kn_hadamard(v, dim);
    for (int i = 0; i < dim; i++) sum += w[i] * k[i];
    for (int i = 0; i < dim; i++) sum += w[dim + i] * v[i];
    return sum;
}

/* They are the first ones; scores that they were saved with, or returned with, are replaced. */
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
    if (from > 0) pool_run(f->pool, c->shape.n_layer * c->shape.n_head, adopt_part, &j);
}

/* ---- near-duplicates ------------------------------------------------------------------------- */

enum { SIGN_TABLES = 2, SIGN_CELLS = 256 };

/* 2^23 log2 n, by linear interpolation between powers of two (Mitchell 1962), at most 0.09 too
 * small: the bits of a float. n >= 1. */
static int32_t log_bits(int32_t n)
{
    float x = (float)n;
    int32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits - 0x3f800000;
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

#define POOLING_MAX 63

/* SnapKV: the maximum over neighbours on both sides, for all units except those of the window,
 * which are kept in any case. */
static void pool_values(const struct policy *p, float *x, int len)
{
    const int width = p->pooling < POOLING_MAX ? p->pooling : POOLING_MAX, half = width / 2;
    const int n = has_window(p) && p->window > 1 ? len - p->window : len;
    float before[POOLING_MAX]; /* overwritten values of the last `half` units */
    for (int s = 0; s < n; s++) {
        float own = x[s], max = own;
        for (int i = 1; i <= half && i <= s; i++)
            if (before[(s - i) % half] > max) max = before[(s - i) % half];
        for (int i = 1; i <= half && s + i < n; i++)
            if (x[s + i] > max) max = x[s + i];
        if (half) before[s % half] = own;
        x[s] = max;
    }
}

/* Predictions compete with those of other heads as logarithms of the share of attention that a unit
 * will get: heads predict labels that were standardised head by head. Labels of another kind are
 * not comparable between heads, and compete standardised. */
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
    if (has_window(p))
        window_values(j, index, out, thread);
    else if (p->scorer == POLICY_KEYS)
        key_values(j, index, out);
    else if (p->scorer == POLICY_POSITION) /* ages: floats cannot hold positions beyond 2^24 */
        for (int s = 0; s < h->len; s++) out[s] = (float)((int64_t)h->pos[s] - j->c->n_pos);
    else
        memcpy(out, h->score, (size_t)h->len * sizeof *out);
    if (p->scorer == POLICY_CIS && j->c->shape.share != CACHE_HEAD &&
        retaining_comparable(j->f->retaining)) {
        calibrate(j->f, index, out, h->len);
        if (p->near_duplicates) discount_duplicates(j, index, out, thread);
    }
    if (p->pooling > 1) pool_values(p, out, h->len);
}

/* All heads of a layer hold the same tokens, in the same slots. */
static void average_heads(const struct job *j)
{
    const struct cache *c = j->c;
    for (int l = 0; l < c->shape.n_layer; l++)
        for (int s = 0; s < cache_head(c, l, 0)->len; s++) {
            float sum = 0;
            for (int i = 0; i < c->shape.n_head; i++)
                sum += j->f->slots[cache_head(c, l, i)->slot0 + (size_t)s].value;
            for (int i = 0; i < c->shape.n_head; i++)
                j->f->slots[cache_head(c, l, i)->slot0 + (size_t)s].value =
                    sum / (float)c->shape.n_head;
        }
}

void score_values(struct forward *f, struct cache *c)
{
    struct job j = {.f = f, .c = c};
    pool_run(f->pool, c->shape.n_layer * c->shape.n_head, values_part, &j);
    if (f->policy->same_heads) average_heads(&j);
}
