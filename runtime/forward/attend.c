#include "runtime/forward/forward_parts.h"

#include <math.h>
#include <string.h>

#include "base/pool.h"

#define ATTEND_TOKENS 32 /* queries that share one pass over the keys of a head */
/* Slots per part when few tokens attend: fixed, so that the order of the sum does not depend on the
 * number of threads, and is the same for one token and several. */
#define ATTEND_SPLIT 1024

/* Floats of one part's partial softmax: m, l and acc of all its rows. */
static size_t partial_of(const struct model_heads *h, int tokens)
{
    size_t rows = (size_t)tokens * (size_t)heads_group(h);
    return (rows * ((size_t)h->head_dim + 2) + 15) & ~(size_t)15;
}

/* The larger of the two kinds of layers. */
static size_t partial_floats(const struct model *m, int tokens)
{
    const struct model_heads h = model_heads(m, false), w = model_heads(m, m->windowed.n_layer > 0);
    size_t a = partial_of(&h, tokens), b = partial_of(&w, tokens);
    return a > b ? a : b;
}

void attend_plan(struct forward *f, int longest, struct arena *a)
{
    const struct model *m = f->model;
    const struct model_windowed *w = &m->windowed;
    size_t splits = (size_t)linear_parts(longest, ATTEND_SPLIT);
    size_t parts = (size_t)m->n_kv_head * splits;
    int most = f->chunk < FORWARD_TRY_MAX ? f->chunk : FORWARD_TRY_MAX;
    /* a window may begin and end anywhere in a part */
    size_t windowed = (size_t)w->n_kv_head * (size_t)(w->n_units / ATTEND_SPLIT + 3);
    size_t few = (w->n_layer && windowed > parts ? windowed : parts) * partial_floats(m, most);
    size_t many = (size_t)f->n_threads * partial_floats(m, ATTEND_TOKENS);
    f->partial = arena_take(a, few > many ? few : many, sizeof(float));
    if (!model_has(m).normed_values) return;
    float *ones = arena_take(a, KN_HEAD_DIM_MAX, sizeof *ones);
    for (int i = 0; ones && i < KN_HEAD_DIM_MAX; i++) ones[i] = 1.0f;
    f->ones = ones;
}

/* ---- units ----------------------------------------------------------------------------------- */

/* The slot of the chunk's first unit in a head. The layer whose units are shared has
 * counted them. */
static int slot_of_first(const struct layer_step *s, int head)
{
    return cache_head(s->c, s->index, head)->len - (s->layer->shares_kv ? s->n : 0);
}

/* The operations of some families on a token's queries and keys before they are rotated. */
static void finish_heads(const struct layer_step *s, float *q)
{
    const struct model_layer *l = s->layer;
    const struct model_heads h = model_heads(s->f->model, l->is_windowed);
    const bool rows = l->qk_norm == MODEL_QK_NORM_ROW;
    int dim = h.head_dim, half = dim / 2, n_pairs = l->no_rope ? 0 : h.rope->n_rot / 2;
    int nq = heads_n_q(&h), nkv = heads_n_kv(&h);
    float *k = q + nq, still = 1.0f / (h.rope->magnitude * h.rope->magnitude);
    if (l->q_norm) linear_norm(s->f, q, nq, rows ? nq : dim, l->q_norm, true);
    if (l->k.n_out && !l->v.n_out) memcpy(k + nkv, k, (size_t)nkv * sizeof *k);
    if (l->k_norm) linear_norm(s->f, k, nkv, rows ? nkv : dim, l->k_norm, true);
    if (l->norms_values && l->k.n_out) linear_norm(s->f, k + nkv, nkv, dim, s->f->ones, true);
    /* attn_scale includes the magnitude, which applies only to rotated numbers */
    for (float *head = q; still != 1.0f && n_pairs < half && head < k; head += dim) {
        linear_scale(head + n_pairs, still, half - n_pairs);
        linear_scale(head + half + n_pairs, still, half - n_pairs);
    }
}

/* Scales token t's queries by the slots that they get; see struct model. */
static void grow_queries(const struct layer_step *s, float *q, int t)
{
    const struct model *m = s->f->model;
    const struct model_heads h = model_heads(m, s->layer->is_windowed);
    const int n = heads_group(&h) * h.head_dim;
    for (int i = 0; m->query_growth > 0.0f && i < h.n_kv_head; i++, q += n) {
        const int times = (slot_of_first(s, i) + t) / h.rope->n_ctx_orig;
        if (times > 0) linear_scale(q, 1.0f + m->query_growth * logf(1.0f + (float)times), n);
    }
}

/* Packs one unit: a key less its centre, if its type has one, and the value beside it transformed;
 * values of Q4 are then fitted. */
static void pack_unit(const struct layer_step *s, int head, size_t slot, const float *k,
                      const float *v, bool first)
{
    const struct forward *f = s->f;
    const struct cache_head *h = cache_head(s->c, s->index, head);
    const int dim = s->c->shape.head_dim;
    const bool centred = kn_kv_centred(s->c->shape.k_type);
    float x[2][KN_HEAD_DIM_MAX];
    if (centred) {
        k = memcpy(x[0], k, (size_t)dim * sizeof *k);
        v = memcpy(x[1], v, (size_t)dim * sizeof *v);
        f->kernels->key_centre(x[0], forward_centre(f, s->layer, head), first, dim);
        f->kernels->hadamard(x[1], dim);
    }
    f->kernels->kv_pack[s->c->shape.k_type](h->k + slot * s->c->k_bytes, k, dim);
    if (s->c->shape.v_type == KN_KV_KEY) return;
    if (centred && s->c->shape.v_type == KN_KV_Q4)
        f->kernels->pack_values(h->v + slot * s->c->v_bytes, v, dim);
    else
        f->kernels->kv_pack[s->c->shape.v_type](h->v + slot * s->c->v_bytes, v, dim);
}

/* Packs a token's keys and values into every head of the layer; also sets scores that need no
 * model. */
static void append_token(void *ctx, int t, int thread)
{
    const struct layer_step *s = ctx;
    const struct forward *f = s->f;
    const struct model_heads a = model_heads(f->model, s->layer->is_windowed);
    float *q = f->qkv + (size_t)t * (size_t)heads_n_qkv(&a);
    const float *k = q + heads_n_q(&a), *v = k + heads_n_kv(&a);
    const int64_t pos = s->c->n_pos + t;
    (void)thread;
    finish_heads(s, q);
    grow_queries(s, q, t);
    for (int i = 0; !s->layer->shares_kv && i < a.n_kv_head; i++) {
        struct cache_head *h = cache_head(s->c, s->index, i);
        size_t slot = (size_t)(h->len + t);
        pack_unit(s, i, slot, k + i * a.head_dim, v + i * a.head_dim, pos == 0);
        h->pos[slot] = (uint32_t)pos;
        h->score[slot] =
            a.window ? 0 : policy_score(f->policy, f->seed, s->index * a.n_kv_head + i, pos);
    }
}

/* ---- attention ------------------------------------------------------------------------------- */

/* Parts of the job: first scoring by token block, because those parts take longest, then attention
 * by (head, token block or slot split). */
struct attend_job {
    struct layer_step *s;
    int n_score;
    int n_splits; /* few tokens: parts per head; 0 = many */
    int slot0;    /* of the first part; below 0: that part begins before the first slot */
    int n_blocks; /* many tokens: token blocks per head */
};

static struct kn_attend attend_args(const struct layer_step *s, int head)
{
    const struct forward *f = s->f;
    const struct model_heads a = model_heads(f->model, s->layer->is_windowed);
    const struct cache_head *h = cache_head(s->c, s->index, head);
    int group = heads_group(&a);
    const struct cache_shape *c = &s->c->shape;
    const bool centred = kn_kv_centred(c->k_type), one = c->v_type == KN_KV_KEY;
    return (struct kn_attend){
        .centre = centred ? forward_centre(f, s->layer, head) : NULL,
        .first = h->pos[0] == 0,
        .k_type = c->k_type,
        .v_type = one ? c->k_type : c->v_type,
        .head_dim = a.head_dim,
        .n_group = group,
        .k = h->k,
        .v = one ? h->k : h->v,
        .q = f->qkv + (size_t)(head * group * a.head_dim),
        .q_stride = (size_t)(heads_n_qkv(&a)),
        .rope = forward_rope(f, s->layer),
        .scale = a.scale,
        .softcap = f->model->attn_softcap,
        .window = a.window,
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
    const struct model_heads h = model_heads(f->model, j->s->layer->is_windowed);
    size_t rows = (size_t)(j->s->n * heads_group(&h)), n = (size_t)j->n_splits;
    float *m = f->partial + (size_t)head * n * partial_floats(f->model, j->s->n);
    return (struct split_parts){rows, m, m + n * rows, m + 2 * n * rows};
}

/* The sinks of a KV head's group, or NULL. */
static const float *sinks_of(const struct layer_step *s, int head, int group)
{
    return s->layer->sinks ? s->layer->sinks + head * group : NULL;
}

/* All tokens with the slots of one part. */
static void attend_split(const struct attend_job *j, int head, int split)
{
    const struct layer_step *s = j->s;
    struct kn_attend a = attend_args(s, head);
    struct split_parts p = split_parts(j, head);
    size_t at = (size_t)split * p.rows;
    a.n_tok = s->n;
    a.pos0 = slot_of_first(s, head);
    a.slot0 = j->slot0 + split * ATTEND_SPLIT;
    a.slot1 = a.pos0 + s->n;
    if (a.slot1 > a.slot0 + ATTEND_SPLIT) a.slot1 = a.slot0 + ATTEND_SPLIT;
    if (a.slot0 < 0) a.slot0 = 0;
    a.m = p.m + at;
    a.l = p.l + at;
    a.acc = p.acc + at * (size_t)a.head_dim;
    s->f->kernels->attend(&a);
}

/* Undoes the transform of values beside keys with centres in n results of attention. */
static void restore_values(const struct layer_step *s, float *out, int n)
{
    if (kn_kv_centred(s->c->shape.k_type)) s->f->kernels->hadamard(out, n * s->c->shape.head_dim);
}

/* A block of tokens with all slots that they see; merged at once. */
static void attend_block(const struct attend_job *j, int head, int block, int thread)
{
    const struct layer_step *s = j->s;
    const struct forward *f = s->f;
    struct kn_attend a = attend_args(s, head);
    int t0 = block * ATTEND_TOKENS, n = s->n - t0 < ATTEND_TOKENS ? s->n - t0 : ATTEND_TOKENS;
    size_t rows = (size_t)n * (size_t)a.n_group;
    const float *sinks = sinks_of(s, head, a.n_group);
    float *base = f->partial + (size_t)thread * partial_floats(f->model, ATTEND_TOKENS);
    a.n_tok = n;
    a.pos0 = slot_of_first(s, head) + t0;
    a.slot0 = 0;
    a.slot1 = a.pos0 + n;
    a.q += (size_t)t0 * a.q_stride;
    a.m = base;
    a.l = base + rows;
    a.acc = base + 2 * rows;
    f->kernels->attend(&a);
    for (int t = 0; t < n; t++) {
        size_t r = (size_t)t * (size_t)a.n_group;
        float *out =
            f->att + ((size_t)(t0 + t) * (size_t)f->model->n_head + (size_t)(head * a.n_group)) *
                         (size_t)a.head_dim;
        kn_attend_merge(out, a.m + r, a.l + r, a.acc + r * (size_t)a.head_dim, sinks, 1, 0,
                        a.n_group, a.head_dim);
        restore_values(s, out, a.n_group);
    }
}

static void attend_part(void *ctx, int part, int thread)
{
    const struct attend_job *j = ctx;
    int at = part - j->n_score;
    if (at < 0)
        cis_part(j->s, part, thread);
    else if (j->n_splits)
        attend_split(j, at / j->n_splits, at % j->n_splits);
    else
        attend_block(j, at / j->n_blocks, at % j->n_blocks, thread);
}

/* A token's rows of one head. */
static void merge_token(const struct attend_job *j, int head, int t)
{
    const struct forward *f = j->s->f;
    const struct model_heads h = model_heads(f->model, j->s->layer->is_windowed);
    const int group = heads_group(&h);
    const size_t dim = (size_t)h.head_dim;
    const float *sinks = sinks_of(j->s, head, group);
    struct split_parts p = split_parts(j, head);
    size_t r = (size_t)(t * group), row = (size_t)(t * h.n_head + head * group);
    kn_attend_merge(f->att + row * dim, p.m + r, p.l + r, p.acc + r * dim, sinks, j->n_splits,
                    (int)p.rows, group, h.head_dim);
    restore_values(j->s, f->att + row * dim, group);
}

/* Parts of a window begin at positions that are multiples of ATTEND_SPLIT, so that they are the
 * same wherever its units are. */
static void split_window(struct attend_job *j, int window)
{
    const struct layer_step *s = j->s;
    const int64_t n_pos = s->c->n_pos, slot0_pos = n_pos - slot_of_first(s, 0);
    const int64_t first = n_pos + 1 > window ? (n_pos + 1 - window) / ATTEND_SPLIT : 0;
    j->n_splits = (int)((n_pos + s->n - 1) / ATTEND_SPLIT - first) + 1;
    j->slot0 = (int)(first * ATTEND_SPLIT - slot0_pos);
}

static void split_units(struct attend_job *j, int n_kv_head)
{
    int longest = 0;
    for (int i = 0; i < n_kv_head; i++) {
        int len = slot_of_first(j->s, i);
        if (len > longest) longest = len;
    }
    j->n_splits = linear_parts(longest + j->s->n, ATTEND_SPLIT);
}

static void attend(struct layer_step *s)
{
    struct forward *f = s->f;
    const struct model_heads h = model_heads(f->model, s->layer->is_windowed);
    struct attend_job j = {.s = s};
    if (s->n <= FORWARD_TRY_MAX && h.window)
        split_window(&j, h.window);
    else if (s->n <= FORWARD_TRY_MAX)
        split_units(&j, h.n_kv_head);
    j.n_blocks = linear_parts(s->n, ATTEND_TOKENS);
    j.n_score = h.window || s->layer->shares_kv ? 0 : cis_parts(f, s->n);
    int n_attend = h.n_kv_head * (j.n_splits ? j.n_splits : j.n_blocks);
    pool_run(f->pool, j.n_score + n_attend, attend_part, &j);
    for (int i = 0; j.n_splits && i < h.n_kv_head; i++)
        for (int t = 0; t < s->n; t++) merge_token(&j, i, t);
}

void attend_run(struct layer_step *s)
{
    linear_each(s->f, s->n, append_token, s);
    attend(s);
    if (s->layer->shares_kv) return;
    if (!s->layer->is_windowed) cis_write(s);
    for (int i = 0; i < s->c->shape.n_head; i++) cache_head(s->c, s->index, i)->len += s->n;
}
