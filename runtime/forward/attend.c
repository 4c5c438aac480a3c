#include "runtime/forward/attend.h"

#include <math.h>

#include "base/pool.h"
#include "runtime/forward/cis.h"
#include "runtime/forward/forward_parts.h"
#include "runtime/forward/linear.h"

#define ATTEND_TOKENS FORWARD_ATTEND_TOKENS
/* Slots per part when few tokens attend: fixed, so that the order of the sum does not depend on the
 * number of threads, and is the same for one token and several. */
#define ATTEND_SPLIT 1024

/* Floats of one part's partial softmax: m, l and acc of all its rows. */
static size_t partial_floats(const struct model *m, int tokens)
{
    size_t rows = (size_t)tokens * (size_t)(model_group(m));
    return (rows * ((size_t)m->head_dim + 2) + 15) & ~(size_t)15;
}

float *attend_partial(const struct forward *f, int thread)
{
    return f->partial + (size_t)thread * partial_floats(f->model, ATTEND_TOKENS);
}

void attend_plan(struct forward *f, int longest, struct arena *a)
{
    const struct model *m = f->model;
    size_t splits = (size_t)linear_parts(longest, ATTEND_SPLIT);
    int most = f->chunk < FORWARD_TRY_MAX ? f->chunk : FORWARD_TRY_MAX;
    size_t few = (size_t)m->n_kv_head * splits * partial_floats(m, most);
    size_t many = (size_t)f->n_threads * partial_floats(m, ATTEND_TOKENS);
    f->partial = arena_take(a, few > many ? few : many, sizeof(float));
}

/* ---- units ----------------------------------------------------------------------------------- */

/* Applies RMSNorm to n numbers, `size` of them at a time. */
static void norm_parts(const struct forward *f, float *x, int n, int size, const float *w)
{
    for (int i = 0; i < n; i += size)
        f->kernels->rmsnorm(x + i, x + i, w, size, f->model->norm_eps);
}

/* The operations of some families on a token's queries and keys before they are rotated. */
static void finish_heads(const struct layer_step *s, float *q)
{
    const struct model *m = s->f->model;
    const struct model_layer *l = s->layer;
    const bool rows = l->qk_norm == MODEL_QK_NORM_ROW;
    int dim = m->head_dim, half = dim / 2, n_pairs = l->no_rope ? 0 : m->rope.n_rot / 2;
    int nq = model_n_q(m), nkv = model_n_kv(m);
    float *k = q + nq, still = 1.0f / (m->rope.magnitude * m->rope.magnitude);
    if (l->q_norm) norm_parts(s->f, q, nq, rows ? nq : dim, l->q_norm);
    if (l->k_norm) norm_parts(s->f, k, nkv, rows ? nkv : dim, l->k_norm);
    /* attn_scale includes the magnitude, which applies only to rotated numbers */
    for (float *head = q; still != 1.0f && n_pairs < half && head < k; head += dim) {
        linear_scale(head + n_pairs, still, half - n_pairs);
        linear_scale(head + half + n_pairs, still, half - n_pairs);
    }
}

/* Packs a few tokens' keys and values into every head of the layer; also sets scores that need no
 * model. */
static void append_part(void *ctx, int part, int thread)
{
    (void)thread;
    const struct layer_step *s = ctx;
    const struct forward *f = s->f;
    const struct model *m = f->model;
    size_t row = (size_t)(model_n_qkv(m));
    int end = (part + 1) * LINEAR_TOKENS;
    for (int t = part * LINEAR_TOKENS; t < end && t < s->n; t++) {
        float *q = f->qkv + (size_t)t * row;
        const float *k = q + model_n_q(m), *v = k + model_n_kv(m);
        finish_heads(s, q);
        int64_t pos = s->c->n_pos + t;
        for (int i = 0; i < m->n_kv_head; i++) {
            struct cache_head *h = cache_head(s->c, s->index, i);
            size_t slot = (size_t)(h->len + t);
            f->kernels->kv_pack[s->c->shape.k_type](h->k + slot * s->c->k_bytes,
                                                    k + i * m->head_dim, m->head_dim);
            f->kernels->kv_pack[s->c->shape.v_type](h->v + slot * s->c->v_bytes,
                                                    v + i * m->head_dim, m->head_dim);
            h->pos[slot] = (uint32_t)pos;
            h->score[slot] = policy_score(f->policy, f->seed, s->index * m->n_kv_head + i, pos);
        }
    }
}

/* ---- attention ------------------------------------------------------------------------------- */

/* Parts of the job: first scoring by token block, because those parts take longest, then attention
 * by (head, token block or slot split). */
struct attend_job {
    struct layer_step *s;
    int n_score;
    int n_splits; /* few tokens: parts per head; 0 = many */
    int n_blocks; /* many tokens: token blocks per head */
};

static struct kn_attend attend_args(const struct layer_step *s, int head)
{
    const struct forward *f = s->f;
    const struct model *m = f->model;
    const struct cache_head *h = cache_head(s->c, s->index, head);
    int group = model_group(m);
    return (struct kn_attend){
        .k_type = s->c->shape.k_type,
        .v_type = s->c->shape.v_type,
        .head_dim = m->head_dim,
        .n_group = group,
        .k = h->k,
        .v = h->v,
        .q = f->qkv + (size_t)(head * group * m->head_dim),
        .q_stride = (size_t)(model_n_qkv(m)),
        .rope = forward_rope(f, s->index),
        .scale = m->attn_scale,
    };
}

/* The partial softmaxes of a head's splits: m and l [split][rows], then acc [split][rows][dim]. A
 * row is a token's query in one head of the group. */
struct split_parts {
    size_t rows;
    float *m, *l, *acc;
};

static struct split_parts split_parts(const struct attend_job *j, int head)
{
    const struct forward *f = j->s->f;
    size_t rows = (size_t)(j->s->n * model_group(f->model)), n = (size_t)j->n_splits;
    float *m = f->partial + (size_t)head * n * partial_floats(f->model, j->s->n);
    return (struct split_parts){rows, m, m + n * rows, m + 2 * n * rows};
}

/* All tokens with slots [split * ATTEND_SPLIT, …). */
static void attend_split(const struct attend_job *j, int head, int split)
{
    const struct layer_step *s = j->s;
    struct kn_attend a = attend_args(s, head);
    struct split_parts p = split_parts(j, head);
    size_t at = (size_t)split * p.rows;
    a.n_tok = s->n;
    a.pos0 = cache_head(s->c, s->index, head)->len;
    a.slot0 = split * ATTEND_SPLIT;
    a.slot1 = a.pos0 + s->n;
    if (a.slot1 > a.slot0 + ATTEND_SPLIT) a.slot1 = a.slot0 + ATTEND_SPLIT;
    a.m = p.m + at;
    a.l = p.l + at;
    a.acc = p.acc + at * (size_t)a.head_dim;
    s->f->kernels->attend(&a);
}

/* A block of tokens with all slots that they see; merged at once. */
static void attend_block(const struct attend_job *j, int head, int block, int thread)
{
    const struct layer_step *s = j->s;
    const struct forward *f = s->f;
    struct kn_attend a = attend_args(s, head);
    int t0 = block * ATTEND_TOKENS, n = s->n - t0 < ATTEND_TOKENS ? s->n - t0 : ATTEND_TOKENS;
    size_t rows = (size_t)n * (size_t)a.n_group;
    float *base = attend_partial(f, thread);
    a.n_tok = n;
    a.pos0 = cache_head(s->c, s->index, head)->len + t0;
    a.slot0 = 0;
    a.slot1 = a.pos0 + n;
    a.q += (size_t)t0 * a.q_stride;
    a.m = base;
    a.l = base + rows;
    a.acc = base + 2 * rows;
    f->kernels->attend(&a);
    for (int t = 0; t < n; t++) {
        size_t r = (size_t)t * (size_t)a.n_group;
        float *out = f->att + (size_t)(t0 + t) * (size_t)model_n_q(f->model) +
                     (size_t)(head * a.n_group * a.head_dim);
        kn_attend_merge(out, a.m + r, a.l + r, a.acc + r * (size_t)a.head_dim, NULL, 1, 0,
                        a.n_group, a.head_dim);
        for (int g = 0; f->lse && g < a.n_group; g++)
            f->lse[(t0 + t) * f->model->n_head + head * a.n_group + g] =
                a.m[r + (size_t)g] + logf(a.l[r + (size_t)g]);
    }
}

static void attend_part(void *ctx, int part, int thread)
{
    const struct attend_job *j = ctx;
    int at = part - j->n_score;
    if (at < 0)
        cis_part(j->s, part);
    else if (j->n_splits)
        attend_split(j, at / j->n_splits, at % j->n_splits);
    else
        attend_block(j, at / j->n_blocks, at % j->n_blocks, thread);
}

/* log of the softmax's sum over parts: M + log(sum_i e^(m_i - M) l_i). */
static float merge_lse(const float *m, const float *l, int n, size_t stride)
{
    float max = m[0], sum = 0;
    for (int i = 1; i < n; i++)
        if (m[(size_t)i * stride] > max) max = m[(size_t)i * stride];
    for (int i = 0; i < n; i++) sum += expf(m[(size_t)i * stride] - max) * l[(size_t)i * stride];
    return max + logf(sum);
}

/* A token's rows of one head. */
static void merge_token(const struct attend_job *j, int head, int t)
{
    const struct forward *f = j->s->f;
    const struct model *m = f->model;
    int group = model_group(m);
    struct split_parts p = split_parts(j, head);
    size_t r = (size_t)(t * group), row = (size_t)(t * m->n_head + head * group);
    kn_attend_merge(f->att + row * (size_t)m->head_dim, p.m + r, p.l + r,
                    p.acc + r * (size_t)m->head_dim, NULL, j->n_splits, (int)p.rows, group,
                    m->head_dim);
    for (size_t g = 0; f->lse && g < (size_t)group; g++)
        f->lse[row + g] = merge_lse(p.m + r + g, p.l + r + g, j->n_splits, p.rows);
}

static void attend(struct layer_step *s)
{
    struct forward *f = s->f;
    int longest = 0;
    for (int i = 0; i < f->model->n_kv_head; i++) {
        int len = cache_head(s->c, s->index, i)->len;
        if (len > longest) longest = len;
    }
    struct attend_job j = {.s = s};
    if (s->n <= FORWARD_TRY_MAX) j.n_splits = linear_parts(longest + s->n, ATTEND_SPLIT);
    j.n_blocks = linear_parts(s->n, ATTEND_TOKENS);
    j.n_score = cis_parts(f, s->n);
    int n_attend = f->model->n_kv_head * (j.n_splits ? j.n_splits : j.n_blocks);
    pool_run(f->pool, j.n_score + n_attend, attend_part, &j);
    for (int i = 0; j.n_splits && i < f->model->n_kv_head; i++)
        for (int t = 0; t < s->n; t++) merge_token(&j, i, t);
}

void attend_run(struct layer_step *s)
{
    pool_run(s->f->pool, linear_parts(s->n, LINEAR_TOKENS), append_part, s);
    attend(s);
    cis_write(s);
    for (int i = 0; i < s->f->model->n_kv_head; i++) cache_head(s->c, s->index, i)->len += s->n;
}
