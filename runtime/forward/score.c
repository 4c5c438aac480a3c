#include "runtime/forward/score.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/pool.h"
#include "runtime/cache/evict.h"
#include "runtime/forward/attend.h"
#include "runtime/forward/forward.h"

#define OBSERVE_SPLIT  1024 /* slots per part */
#define QUERIES_AHEAD  512  /* Expected Attention's n_future_positions */
#define QUERIES_SKIP   4    /* its n_sink: the first queries differ from all others */
#define QUERIES_MEMORY 4096 /* approximate number of queries that mean and variance cover */

/* ---- state ----------------------------------------------------------------------------------- */

static bool has_window(const struct policy *p)
{
    return (p->scorer == POLICY_ATTENTION || p->scorer == POLICY_COUNTS) && p->window > 0;
}

/* Per query head: mean [dim], then two variances and a covariance per RoPE pair. */
static int moment_floats(const struct model *m)
{
    return m->head_dim + 3 * (m->head_dim / 2);
}

int score_state_floats(const struct policy *p, const struct model *m)
{
    int n = has_window(p) ? p->window * model_n_q(m) : 0;
    if (p->scorer == POLICY_EXPECTED) n += m->n_head * moment_floats(m);
    if (policy_uses(p, POLICY_SURPRISAL)) n += m->n_embd;
    return n;
}

bool score_can_try(const struct policy *p, const struct model *m)
{
    return score_state_floats(p, m) == 0 && !policy_accumulates(p);
}

float *score_hidden(const struct forward *f, const struct cache *c)
{
    return cache_state(c, 0) + c->shape.n_state - f->model->n_embd;
}

struct job {
    struct forward *f;
    struct cache *c;
    int layer; /* observing */
    int n, n_splits;
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
        .stat = f->policy->scorer == POLICY_COUNTS ? KN_STAT_LOW : KN_STAT_SUM,
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

/* H2O: every query of the chunk adds its attention to the scores of all units it sees. */
static void accumulate_part(void *ctx, int part, int thread)
{
    const struct job *j = ctx;
    const struct forward *f = j->f;
    int head = part / j->n_splits, slot0 = part % j->n_splits * OBSERVE_SPLIT;
    int index = j->layer * j->c->shape.n_head + head;
    const struct cache_head *h = &j->c->kv_heads[index];
    struct kn_stats s = stats_args(f, j->c, index);
    (void)thread;
    if (slot0 >= h->len) return;
    s.slot0 = slot0;
    s.slot1 = slot0 + OBSERVE_SPLIT < h->len ? slot0 + OBSERVE_SPLIT : h->len;
    s.n_tok = j->n;
    s.pos0 = h->len - j->n;
    s.q = query(f, 0) + head * s.n_group * s.head_dim;
    s.q_stride = (size_t)(query(f, 1) - query(f, 0));
    s.lse = f->lse + head * s.n_group;
    s.lse_stride = (size_t)f->model->n_head;
    s.out = h->score;
    f->kernels->attend_stats(&s);
}

/* Running mean and variance (Welford), updated query by query, so that chunks do not matter:
 *   d = x - mean, mean += d / k, var_ab += (d_a (x_b - mean_b) - var_ab) / k
 * with k = the queries so far, at most QUERIES_MEMORY: the influence of old ones fades. */
static void add_moments(float *moments, const float *x, int dim, int64_t n_before)
{
    int half = dim / 2;
    float *var = moments + dim;
    float rate = 1.0f / (float)(n_before < QUERIES_MEMORY ? n_before + 1 : QUERIES_MEMORY);
    for (int i = 0; i < half; i++, var += 3) {
        float a = x[i] - moments[i], b = x[i + half] - moments[i + half];
        moments[i] += a * rate;
        moments[i + half] += b * rate;
        float a2 = x[i] - moments[i], b2 = x[i + half] - moments[i + half];
        var[0] += (a * a2 - var[0]) * rate;
        var[1] += (b * b2 - var[1]) * rate;
        var[2] += (a * b2 - var[2]) * rate;
    }
}

static void moments_part(void *ctx, int head, int thread)
{
    const struct job *j = ctx;
    const struct model *m = j->f->model;
    float *moments = cache_state(j->c, j->layer) + (size_t)head * (size_t)moment_floats(m);
    (void)thread;
    for (int t = 0; t < j->n; t++) {
        int64_t before = j->pos + t - QUERIES_SKIP;
        const float *q = j->q + (size_t)t * j->stride + head * m->head_dim;
        if (before >= 0) add_moments(moments, q, m->head_dim, before);
    }
}

/* The query of position p is kept in row p % window. With a question in front, the first `window`
 * queries are kept, and later ones do not replace them. */
static void remember(const struct job *j)
{
    const int window = j->f->policy->window;
    const size_t row = (size_t)model_n_q(j->f->model);
    float *ring = cache_state(j->c, j->layer);
    int n = j->n, first = n > window ? n - window : 0;
    if (j->f->policy->query_first) {
        first = 0;
        if (n > window - j->pos) n = j->pos < window ? (int)(window - j->pos) : 0;
    }
    for (int t = first; t < n; t++)
        memcpy(ring + (size_t)((j->pos + t) % window) * row, j->q + (size_t)t * j->stride,
               row * sizeof *ring);
}

void score_queries(struct forward *f, struct cache *c, int layer, const float *q, size_t stride,
                   int64_t pos, int n)
{
    struct job j = {.f = f, .c = c, .layer = layer, .n = n, .q = q, .stride = stride, .pos = pos};
    if (has_window(f->policy)) remember(&j);
    if (f->policy->scorer == POLICY_EXPECTED) pool_run(f->pool, f->model->n_head, moments_part, &j);
}

void score_observe(struct forward *f, struct cache *c, int layer, int n)
{
    const struct policy *p = f->policy;
    struct job j = {.f = f, .c = c, .layer = layer, .n = n};
    score_queries(f, c, layer, query(f, 0), (size_t)model_n_qkv(f->model), c->n_pos, n);
    if (!policy_accumulates(p)) return;
    for (int i = 0; i < c->shape.n_head; i++) {
        int parts = (cache_head(c, layer, i)->len + OBSERVE_SPLIT - 1) / OBSERVE_SPLIT;
        if (parts > j.n_splits) j.n_splits = parts;
    }
    pool_run(f->pool, c->shape.n_head * j.n_splits, accumulate_part, &j);
}

/* ---- the window ------------------------------------------------------------------------------ */

/* Evaluates queries of rows [row, row + n) of the ring; the first of them is in slot pos0, or would
 * be behind the units. */
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

/* The number of queries that window_values asks. */
static int64_t n_asked(const struct job *j, const struct cache_head *h)
{
    int64_t window = j->f->policy->window;
    int64_t n = window < j->c->n_pos ? window : j->c->n_pos;
    return n < h->len ? n : h->len;
}

/* The newest units are protected, so the query of position p still has its unit, in slot len -
 * (n_pos - p). The queries of a question in front are asked as if it followed the text: behind the
 * newest unit, as far as there are positions. */
static void window_values(const struct job *j, int index, float *out, int thread)
{
    const struct cache_head *h = &j->c->kv_heads[index];
    int window = j->f->policy->window;
    int64_t n = n_asked(j, h);
    memset(out, 0, (size_t)h->len * sizeof *out);
    const bool first = j->f->policy->query_first;
    const int64_t end = first ? n : j->c->n_pos;
    const int n_pos = j->f->rope.n_pos, behind = h->len + (int)n < n_pos ? h->len + (int)n : n_pos;
    const int end_slot = first ? behind : h->len;
    for (int64_t p = end - n; p < end;) {
        int row = (int)(p % window), part = window - row;
        if (part > FORWARD_ATTEND_TOKENS) part = FORWARD_ATTEND_TOKENS;
        if (part > end - p) part = (int)(end - p);
        ask(j, index, row, end_slot - (int)(end - p), part, out, thread);
        p += part;
    }
    if (j->f->policy->scorer == POLICY_COUNTS)
        for (int s = 0; s < h->len; s++) out[s] = -out[s];
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

/* ---- expected attention ---------------------------------------------------------------------- */

/* The expected queries of a query head: mean [dim] and 2x2 variances [dim / 2][3], rotated. */
struct future {
    float mean[KN_HEAD_DIM_MAX];
    float var[KN_HEAD_DIM_MAX / 2][3];
};

/* The rotation of a pair, averaged over the next N positions after `len`, is a rotation times a
 * factor: mean of e^(i f (len + j)), j = 1 … N  =  e^(i f (len + (N + 1) / 2)) * D, D = sin(N f /
 * 2) / (N sin(f / 2)). So with R = D * rotation: mean' = R mean, var' = R var R^T. kvpress keeps
 * the whole covariance of a head; here only the 2x2 blocks of pairs are kept, which RoPE mixes: 5
 * numbers per pair instead of head_dim^2, few enough to save with each turn. */
static void look_ahead(const float *freq, int dim, const float *moments, int len,
                       struct future *out)
{
    const int half = dim / 2;
    const float *var = moments + dim;
    for (int i = 0; i < half; i++, var += 3) {
        double w = freq[i], bottom = QUERIES_AHEAD * sin(w / 2);
        double d = fabs(bottom) < 1e-12 ? 1 : sin(QUERIES_AHEAD * w / 2) / bottom;
        double angle = w * (len - 1 + (QUERIES_AHEAD + 1) / 2.0);
        float c = (float)(d * cos(angle)), s = (float)(d * sin(angle));
        float x = moments[i], y = moments[i + half];
        out->mean[i] = c * x - s * y;
        out->mean[i + half] = s * x + c * y;
        out->var[i][0] = c * c * var[0] - 2 * c * s * var[2] + s * s * var[1];
        out->var[i][1] = s * s * var[0] + 2 * c * s * var[2] + c * c * var[1];
        out->var[i][2] = c * s * (var[0] - var[1]) + (c * c - s * s) * var[2];
    }
}

/* log E[e^(q k scale)] = mean k scale + k var k scale^2 / 2, for a key in slot s. */
static float expected_logit(const struct kn_rope *rope, float scale, const struct future *u,
                            const float *k, int s)
{
    const int half = rope->head_dim / 2;
    const float *cos = rope->cos + (size_t)s * (size_t)half;
    const float *sin = rope->sin + (size_t)s * (size_t)half;
    float linear = 0, square = 0;
    for (int i = 0; i < half; i++) {
        float x = k[i] * cos[i] - k[i + half] * sin[i], y = k[i + half] * cos[i] + k[i] * sin[i];
        linear += u->mean[i] * x + u->mean[i + half] * y;
        square += u->var[i][0] * x * x + u->var[i][1] * y * y + 2 * u->var[i][2] * x * y;
    }
    return linear * scale + square * scale * scale / 2;
}

/* Expected Attention (kvpress, epsilon 0): the mean over the group's query heads of the softmax of
 * expected logits, times the value's norm. */
static void expected_values(const struct job *j, int index, float *out, int thread)
{
    const struct forward *f = j->f;
    const struct cache *c = j->c;
    const struct cache_head *h = &c->kv_heads[index];
    const struct model *m = f->model;
    int layer = index / c->shape.n_head, dim = m->head_dim, group = model_group(m);
    const struct kn_rope *rope = forward_rope(f, m->kv_layers[layer]);
    const float *freq =
        m->kv_layers[layer]->no_rope ? rope_still : rope_freq(&m->rope, rope->n_pos);
    float *logits = (float *)f->derive + (size_t)thread * (size_t)f->rope.n_pos;
    float x[KN_HEAD_DIM_MAX];
    struct future u;
    memset(out, 0, (size_t)h->len * sizeof *out);
    for (int g = 0; g < group; g++) {
        int head = index % c->shape.n_head * group + g;
        float max = -INFINITY, sum = 0;
        look_ahead(freq, dim, cache_state(c, layer) + head * moment_floats(m), h->len, &u);
        for (int s = 0; s < h->len; s++) {
            unpack_key(j, index, s, x);
            logits[s] = expected_logit(rope, m->attn_scale, &u, x, s);
            if (logits[s] > max) max = logits[s];
        }
        for (int s = 0; s < h->len; s++) sum += logits[s] = expf(logits[s] - max);
        for (int s = 0; s < h->len; s++) out[s] += logits[s] / (sum * (float)group);
    }
    for (int s = 0; s < h->len; s++) {
        f->kernels->kv_unpack[c->shape.v_type](x, h->v + (size_t)s * c->v_bytes, dim);
        out[s] *= norm_of(x, dim);
    }
}

/* ---- all scorers ----------------------------------------------------------------------------- */

#define POOLING_MAX 63

/* The maximum over a unit, the `older` >= 1 ones before it and the `newer` ones behind it. */
static void pool_over(float *x, int n, int older, int newer)
{
    float before[POOLING_MAX]; /* overwritten values of the last `older` units */
    for (int s = 0; s < n; s++) {
        float own = x[s], max = own;
        for (int i = 1; i <= older && i <= s; i++)
            if (before[(s - i) % older] > max) max = before[(s - i) % older];
        for (int i = 1; i <= newer && s + i < n; i++)
            if (x[s + i] > max) max = x[s + i];
        before[s % older] = own;
        x[s] = max;
    }
}

/* SnapKV: over neighbours on both sides, for all units except those of the window, which are kept
 * in any case. A question's queries find the beginning of a fact, which is followed by its value;
 * so there the maximum is over older units only. */
static void pool_values(const struct policy *p, float *x, int len)
{
    const int width = p->pooling < POOLING_MAX ? p->pooling : POOLING_MAX;
    if (p->query_first)
        pool_over(x, len, width - 1, 0);
    else
        pool_over(x, has_window(p) && p->window > 1 ? len - p->window : len, width / 2, width / 2);
}

/* Predictions compete with those of other heads as logarithms of the share of attention that a unit
 * will get: heads predict labels that were standardised head by head. Labels of another kind are
 * not comparable between heads, and compete standardised. */
static void calibrate(const struct forward *f, int index, float *x, int n)
{
    float mean = f->retaining->label_mean[index], std = f->retaining->label_std[index];
    for (int s = 0; s < n; s++) x[s] = x[s] * std + mean;
}

#define SHARE_LEAST (1.0f / 1024) /* of attention; as in the labels of retaining heads */

/* The queries know which units they look for, the heads which units are looked at at all. Both are
 * logarithms of a share of attention; x [len] is the sum of the former over the queries. */
static void mix_heads(const struct job *j, int index, float *x)
{
    const struct retaining *r = j->f->retaining;
    const struct cache_head *h = &j->c->kv_heads[index];
    const bool scaled = retaining_comparable(r);
    const float part = (float)j->f->policy->second_pct / 100, n = (float)n_asked(j, h);
    const float std = scaled ? r->label_std[index] : 1, mean = scaled ? r->label_mean[index] : 0;
    for (int s = 0; s < h->len; s++)
        x[s] = (1 - part) * logf(x[s] / n + SHARE_LEAST) + part * (h->score[s] * std + mean);
}

static void values_part(void *ctx, int index, int thread)
{
    const struct job *j = ctx;
    const struct policy *p = j->f->policy;
    const struct cache_head *h = &j->c->kv_heads[index];
    float *out = &j->f->slots[h->slot0].value;
    if (has_window(p))
        window_values(j, index, out, thread);
    else if (p->scorer == POLICY_KEYS)
        key_values(j, index, out);
    else if (p->scorer == POLICY_EXPECTED)
        expected_values(j, index, out, thread);
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
    if (p->mixed) mix_heads(j, index, out);
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

/* ---- surprisal ------------------------------------------------------------------------------- */

struct surprise_job {
    const struct forward *f;
    struct cache *c;
    const int32_t *ids; /* [n] the predicted tokens */
    int n, slot_end;    /* the first of them is slot_end units before the end of its head */
};

/* Writes -log p(token) as the score of its units in all heads. */
static void surprise_part(void *ctx, int t, int thread)
{
    const struct surprise_job *j = ctx;
    int n = j->f->model->n_vocab;
    const float *logits = j->f->surprise + (size_t)t * (size_t)n;
    float max = logits[0];
    double sum = 0;
    (void)thread;
    for (int i = 1; i < n; i++) max = logits[i] > max ? logits[i] : max;
    for (int i = 0; i < n; i++) sum += exp((double)(logits[i] - max));
    float nats = (float)(log(sum) - (double)(logits[j->ids[t]] - max));
    for (int i = 0; i < j->c->shape.n_layer * j->c->shape.n_head; i++) {
        struct cache_head *h = &j->c->kv_heads[i];
        h->score[h->len - j->slot_end + t] = nats;
    }
}

/* A token is predicted by the one before, so this needs the logits of every token of a prompt,
 * where other policies need only the last one's: the output matrix is applied n times instead of
 * once. The conversation's first token has no surprisal, and is a sink. */
void score_surprisal(struct forward *f, struct cache *c, const int32_t *ids, int n)
{
    const struct model *m = f->model;
    size_t row = (size_t)m->n_embd;
    float *hidden = score_hidden(f, c);
    memcpy(f->tmp, hidden, row * sizeof *hidden);
    memcpy(f->tmp + row, f->x, (size_t)(n - 1) * row * sizeof *f->x);
    memcpy(hidden, f->x + (size_t)(n - 1) * row, row * sizeof *hidden);
    for (int t = c->n_pos ? 0 : 1; t < n; t += FORWARD_SURPRISE_ROWS) {
        int part = n - t < FORWARD_SURPRISE_ROWS ? n - t : FORWARD_SURPRISE_ROWS;
        forward_output(f, f->tmp + (size_t)t * row, part, f->surprise);
        struct surprise_job job = {f, c, ids + t, part, n - t};
        pool_run(f->pool, part, surprise_part, &job);
    }
}
