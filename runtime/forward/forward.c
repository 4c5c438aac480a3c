#include "runtime/forward/forward.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/pool.h"
#include "base/system.h"
#include "runtime/cache/evict.h"
#include "runtime/forward/score.h"

#define TOKENS_PER_PART 16 /* of work that is cut by tokens */
#define SCORE_TOKENS    64 /* of a chunk, per pass over a retaining head's first layer */
#define ATTEND_TOKENS   FORWARD_ATTEND_TOKENS
#define SURPRISE_ROWS   16 /* tokens whose logits are worked out together */
/* Slots per part when one token attends: a fixed cut, so that the order of the sum does not depend
 * on the number of threads. */
#define ATTEND_SPLIT 1024

/* ---- memory ---------------------------------------------------------------------------------- */

static int n_q(const struct model *m)
{
    return m->n_head * m->head_dim;
}

static int n_kv(const struct model *m)
{
    return m->n_kv_head * m->head_dim;
}

static bool quantized(const struct kn_weight *w)
{
    return kn_is_quantized(w->type);
}

static void plan_act(struct kn_act *act, int n_in, size_t chunk, struct arena *a)
{
    act->n_in = n_in;
    act->q = arena_take(a, chunk, (size_t)n_in);
    act->d = arena_take(a, chunk * (size_t)(n_in / KN_GROUP + 1), sizeof(float));
    act->sum = arena_take(a, chunk * (size_t)(n_in / KN_GROUP + 1), sizeof(int32_t));
}

static bool predicts(const struct forward *f)
{
    return f->heads && f->policy->scorer == POLICY_CIS;
}

/* The inputs of retaining heads: of a chunk's tokens, and of those that wait. */
static void plan_scoring(struct forward *f, int qkv, struct arena *a)
{
    const size_t n_layer = (size_t)f->model->n_layer, n_batch = n_layer * FORWARD_SCORE_BATCH;
    const size_t n = n_batch > (size_t)f->chunk ? n_batch : (size_t)f->chunk;
    f->scores = arena_take(a, n * (size_t)f->model->n_kv_head, sizeof(float));
    plan_act(&f->act_qkv, qkv, (size_t)f->chunk, a);
    f->unscored = arena_take(a, n_layer, sizeof *f->unscored);
    for (int i = 0; i < f->model->n_layer; i++) {
        struct kn_act act = {.n_in = qkv};
        if (quantized(&f->heads->layers[i].w1))
            plan_act(&act, qkv, FORWARD_SCORE_BATCH, a);
        else
            act.x = arena_take(a, FORWARD_SCORE_BATCH * (size_t)qkv, sizeof(float));
        if (f->unscored) f->unscored[i] = act;
    }
}

/* Floats of one part's partial softmax: m, l and acc of all its rows. */
static size_t partial_floats(const struct model *m, int tokens)
{
    size_t rows = (size_t)tokens * (size_t)(m->n_head / m->n_kv_head);
    return (rows * ((size_t)m->head_dim + 2) + 15) & ~(size_t)15;
}

float *forward_partial(const struct forward *f, int thread)
{
    return f->partial + (size_t)thread * partial_floats(f->model, ATTEND_TOKENS);
}

static void plan_rope(struct forward *f, int capacity, struct arena *a)
{
    const struct model *m = f->model;
    int half = m->head_dim / 2;
    const float *freq = rope_freq(&m->rope, capacity);
    float *cosines = arena_take(a, (size_t)capacity * (size_t)half, sizeof(float));
    float *sines = arena_take(a, (size_t)capacity * (size_t)half, sizeof(float));
    uint32_t *places = NULL;
    if (m->head_dim % KN_GROUP == 0) places = arena_take(a, KN_PLACES(m->head_dim), sizeof *places);
    f->rope = (struct kn_rope){capacity, m->head_dim, cosines, sines, places};
    if (cosines) rope_turns(cosines, sines, freq, half, capacity);
    if (places) kn_rope_places(places, &f->rope);
}

void forward_plan(struct forward *f, const struct forward_opts *o, struct arena *a)
{
    const struct model *m = o->model;
    size_t chunk = (size_t)o->chunk;
    int qkv = n_q(m) + 2 * n_kv(m);
    int widest = m->n_ff > m->n_embd ? m->n_ff : m->n_embd;
    if (n_q(m) > widest) widest = n_q(m);
    *f = (struct forward){
        .model = m,
        .heads = o->heads,
        .kernels = o->kernels,
        .pool = o->pool,
        .policy = o->policy,
        .seed = o->seed,
        .chunk = o->chunk,
        .n_logits = o->n_logits,
        .n_threads = o->n_threads,
    };
    const struct cache_shape *shape = o->shape;
    int longest = cache_head_max(shape);
    plan_rope(f, longest, a);
    f->x = arena_take(a, chunk * (size_t)m->n_embd, sizeof(float));
    f->norm = arena_take(a, chunk * (size_t)m->n_embd, sizeof(float));
    f->qkv = arena_take(a, chunk * (size_t)qkv, sizeof(float));
    f->att = arena_take(a, chunk * (size_t)n_q(m), sizeof(float));
    f->gate = arena_take(a, chunk * (size_t)m->n_ff, sizeof(float));
    f->up = arena_take(a, chunk * (size_t)m->n_ff, sizeof(float));
    f->tmp = arena_take(a, chunk * (size_t)m->n_embd, sizeof(float));
    plan_act(&f->act, widest, chunk, a);
    if (predicts(f)) plan_scoring(f, qkv, a);
    /* One token attends in many parts; many tokens in one part per thread at a time. */
    int splits = (longest + ATTEND_SPLIT - 1) / ATTEND_SPLIT;
    size_t one = (size_t)(m->n_kv_head * splits) * partial_floats(m, 1);
    size_t many = (size_t)o->n_threads * partial_floats(m, ATTEND_TOKENS);
    f->partial = arena_take(a, one > many ? one : many, sizeof(float));
    f->logits = arena_take(a, (size_t)o->n_logits * (size_t)m->n_vocab, sizeof(float));
    const struct policy *p = o->policy;
    if (p->scorer != POLICY_KEEP_ALL)
        f->slots = arena_take(a, cache_slots(shape), sizeof *f->slots);
    if (policy_accumulates(p)) f->lse = arena_take(a, chunk * (size_t)m->n_head, sizeof(float));
    if (p->scorer == POLICY_EXPECTED || p->alike)
        f->derive = arena_take(a, (size_t)o->n_threads * (size_t)longest, sizeof(float));
    if (policy_uses(p, POLICY_SURPRISAL))
        f->surprise = arena_take(a, SURPRISE_ROWS * (size_t)m->n_vocab, sizeof(float));
}

/* ---- parts of a job -------------------------------------------------------------------------- */

/* Everything a part needs to know about the chunk that is being run. */
struct step {
    struct forward *f;
    struct cache *c;
    const struct model_layer *layer;
    int index; /* of the layer */
    int n;     /* tokens in this chunk */
};

/* Token t's row of an activation; the scales' stride follows from n_in. */
static void quantize_row(const struct forward *f, const struct kn_act *a, const float *x, int t)
{
    size_t n = (size_t)a->n_in, g = n / KN_GROUP;
    f->kernels->quantize(a->q + (size_t)t * n, a->d + (size_t)t * g, a->sum + (size_t)t * g,
                         x + (size_t)t * n, a->n_in);
}

struct rows_job {
    struct forward *f;
    int n;
    struct kn_act *act;
    const float *x;    /* [n][act->n_in] */
    const float *norm; /* weights of the norm to apply first, or NULL */
    bool quantize;
};

static void rows_part(void *ctx, int part, int thread)
{
    (void)thread;
    const struct rows_job *j = ctx;
    struct forward *f = j->f;
    int end = (part + 1) * TOKENS_PER_PART;
    for (int t = part * TOKENS_PER_PART; t < end && t < j->n; t++) {
        size_t at = (size_t)t * (size_t)j->act->n_in;
        if (j->norm)
            f->kernels->rmsnorm(f->norm + at, j->x + at, j->norm, j->act->n_in, f->model->norm_eps);
        if (j->quantize) quantize_row(f, j->act, j->act->x, t);
    }
}

static int parts_of(int n, int size)
{
    return (n + size - 1) / size;
}

/* Prepares the input of matrices: norm (optional) and int8 form (if one of them reads it). */
static struct kn_act *prepare(struct forward *f, const float *x, int n_in, const float *norm,
                              bool quantize, int n)
{
    struct kn_act *a = &f->act;
    a->n_in = n_in;
    a->x = norm ? f->norm : x;
    struct rows_job job = {f, n, a, x, norm, quantize};
    pool_run(f->pool, parts_of(n, TOKENS_PER_PART), rows_part, &job);
    return a;
}

#define LINEAR_MAX 3

/* Up to three matrices with one input, cut into parts by rows. */
struct linear {
    struct forward *f;
    float scale; /* of y, bias included; usually 1 */
    struct kn_matmul m[LINEAR_MAX];
    const float *bias[LINEAR_MAX]; /* [n_out] or NULL */
    int n_matrices;
    float *add_to; /* [n][y_stride]: y is added here afterwards; NULL = not */
    bool swiglu;   /* matrix 0 is the gate, matrix 1 the value: y0 = silu(y0) * y1 */
};

static void multiply(float *y, float scale, int n)
{
    for (int i = 0; i < n; i++) y[i] *= scale;
}

static void linear_rows(const struct linear *l, int i, int row0, int row1)
{
    struct kn_matmul m = l->m[i];
    m.row0 = row0;
    m.row1 = row1;
    l->f->kernels->matmul[m.w->type](&m);
    for (int t = 0; t < m.n_tok; t++) {
        float *y = m.y + (size_t)t * m.y_stride + (size_t)row0;
        if (l->bias[i]) l->f->kernels->add(y, l->bias[i] + row0, row1 - row0);
        if (l->scale != 1.0f) multiply(y, l->scale, row1 - row0);
    }
}

/* Rows [row0, row1) of matrix i, and what is done with them. */
static void linear_finish(const struct linear *l, int i, int row0, int row1)
{
    const struct kn_matmul *m = &l->m[i];
    linear_rows(l, i, row0, row1);
    if (l->swiglu) linear_rows(l, 1, row0, row1);
    for (int t = 0; t < m->n_tok; t++) {
        size_t at = (size_t)t * m->y_stride + (size_t)row0;
        if (l->swiglu) l->f->kernels->silu_mul(m->y + at, m->y + at, l->m[1].y + at, row1 - row0);
        if (l->add_to) l->f->kernels->add(l->add_to + at, m->y + at, row1 - row0);
    }
}

/* Panels [begin, end), counted through the matrices. */
static void linear_panels(void *ctx, int begin, int end, int thread)
{
    const struct linear *l = ctx;
    (void)thread;
    for (int i = 0; i < l->n_matrices && end > 0; i++) {
        int n_out = l->m[i].w->n_out, n = parts_of(n_out, KN_PANEL);
        int row0 = begin * KN_PANEL, row1 = end < n ? end * KN_PANEL : n_out;
        if (begin < n) linear_finish(l, i, row0, row1);
        begin = begin > n ? begin - n : 0;
        end -= n;
    }
}

static void linear_add(struct linear *l, const struct kn_weight *w, const float *bias,
                       const struct kn_act *x, int n, float *y, int y_stride)
{
    if (l->f->watch) l->f->watch(l->f->watch_ctx, w, x->x, n);
    l->bias[l->n_matrices] = bias;
    l->m[l->n_matrices++] =
        (struct kn_matmul){.w = w, .x = x, .n_tok = n, .y = y, .y_stride = (size_t)y_stride};
}

/* One token: as many panels together as kernels read at once. Many: more, since each span sorts the
 * tokens' numbers for itself. */
#define SPAN_ONE  8
#define SPAN_MANY 16

static void linear_run(struct linear *l)
{
    int panels = 0, n = l->swiglu ? 1 : l->n_matrices;
    for (int i = 0; i < n; i++) panels += parts_of(l->m[i].w->n_out, KN_PANEL);
    pool_run_spans(l->f->pool, panels, l->m[0].n_tok == 1 ? SPAN_ONE : SPAN_MANY, linear_panels, l);
}

static int64_t score_begins(const struct forward *f)
{
    return f->score_ns ? system_clock_ns() : 0;
}

/* On n_threads threads, which began together. */
static void score_ended(const struct forward *f, int64_t began_ns, int n_threads)
{
    if (f->score_ns) *f->score_ns += (system_clock_ns() - began_ns) * n_threads;
}

/* ---- units ----------------------------------------------------------------------------------- */

/* What some families do to a token's queries and keys before they are rotated. */
static void finish_heads(const struct step *s, float *q)
{
    const struct forward *f = s->f;
    const struct model *m = f->model;
    const struct model_layer *l = s->layer;
    int dim = m->head_dim, half = dim / 2, n_pairs = m->rope.n_rot / 2;
    float *k = q + n_q(m), still = 1.0f / (m->rope.magnitude * m->rope.magnitude);
    for (float *head = q; l->q_norm && head < k; head += dim)
        f->kernels->rmsnorm(head, head, l->q_norm, dim, m->norm_eps);
    for (float *head = k; l->k_norm && head < k + n_kv(m); head += dim)
        f->kernels->rmsnorm(head, head, l->k_norm, dim, m->norm_eps);
    /* attn_scale holds the magnitude, which is meant for what turns alone. */
    for (float *head = q; still != 1.0f && n_pairs < half && head < k; head += dim) {
        multiply(head + n_pairs, still, half - n_pairs);
        multiply(head + half + n_pairs, still, half - n_pairs);
    }
}

/* Packs a few tokens' keys and values into every head of the layer; scores that need no model are
 * set here. */
static void append_part(void *ctx, int part, int thread)
{
    (void)thread;
    const struct step *s = ctx;
    const struct forward *f = s->f;
    const struct model *m = f->model;
    size_t row = (size_t)(n_q(m) + 2 * n_kv(m));
    int end = (part + 1) * TOKENS_PER_PART;
    for (int t = part * TOKENS_PER_PART; t < end && t < s->n; t++) {
        float *q = f->qkv + (size_t)t * row;
        const float *k = q + n_q(m), *v = k + n_kv(m);
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

/* ---- attention and scoring ------------------------------------------------------------------- */

/* Parts of the job: first scoring by token block, the longest ones, then attention by (head, token
 * block or slot split); both read the projections, neither needs the other. */
struct attend_job {
    struct step *s;
    int n_score;
    int n_splits; /* one token: parts per head */
    int n_blocks; /* many tokens: token blocks per head */
};

static struct kn_attend attend_args(const struct step *s, int head)
{
    const struct forward *f = s->f;
    const struct model *m = f->model;
    const struct cache_head *h = cache_head(s->c, s->index, head);
    int group = m->n_head / m->n_kv_head;
    return (struct kn_attend){
        .k_type = s->c->shape.k_type,
        .v_type = s->c->shape.v_type,
        .head_dim = m->head_dim,
        .n_group = group,
        .k = h->k,
        .v = h->v,
        .q = f->qkv + (size_t)(head * group * m->head_dim),
        .q_stride = (size_t)(n_q(m) + 2 * n_kv(m)),
        .rope = &f->rope,
        .scale = m->attn_scale,
    };
}

/* One token, slots [split * ATTEND_SPLIT, …): m, l, acc of all splits of a head lie together. */
static void attend_split(const struct attend_job *j, int head, int split)
{
    const struct step *s = j->s;
    struct kn_attend a = attend_args(s, head);
    int len = cache_head(s->c, s->index, head)->len + 1;
    size_t group = (size_t)a.n_group, n = (size_t)j->n_splits;
    float *base = s->f->partial + (size_t)head * n * partial_floats(s->f->model, 1);
    a.n_tok = 1;
    a.pos0 = len - 1;
    a.slot0 = split * ATTEND_SPLIT;
    a.slot1 = a.slot0 + ATTEND_SPLIT < len ? a.slot0 + ATTEND_SPLIT : len;
    a.m = base + (size_t)split * group;
    a.l = base + (n + (size_t)split) * group;
    a.acc = base + 2 * n * group + (size_t)split * group * (size_t)a.head_dim;
    s->f->kernels->attend(&a);
}

/* A block of tokens against all they may see; merged at once. */
static void attend_block(const struct attend_job *j, int head, int block, int thread)
{
    const struct step *s = j->s;
    const struct forward *f = s->f;
    struct kn_attend a = attend_args(s, head);
    int t0 = block * ATTEND_TOKENS, n = s->n - t0 < ATTEND_TOKENS ? s->n - t0 : ATTEND_TOKENS;
    size_t rows = (size_t)n * (size_t)a.n_group;
    float *base = forward_partial(f, thread);
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
        float *out = f->att + (size_t)(t0 + t) * (size_t)n_q(f->model) +
                     (size_t)(head * a.n_group * a.head_dim);
        kn_attend_merge(out, a.m + r, a.l + r, a.acc + r * (size_t)a.head_dim, 1, a.n_group,
                        a.head_dim);
        for (int g = 0; f->lse && g < a.n_group; g++)
            f->lse[(t0 + t) * f->model->n_head + head * a.n_group + g] =
                a.m[r + (size_t)g] + logf(a.l[r + (size_t)g]);
    }
}

/* Keeps the input of a generated token's score. */
static void score_later(const struct step *s)
{
    const struct forward *f = s->f;
    struct kn_act *a = &f->unscored[s->index];
    int64_t began_ns = score_begins(f);
    size_t at = (size_t)s->c->n_unscored * (size_t)a->n_in, g = at / KN_GROUP;
    if (a->q)
        f->kernels->quantize(a->q + at, a->d + g, a->sum + g, f->qkv, a->n_in);
    else
        memcpy((float *)a->x + at, f->qkv, (size_t)a->n_in * sizeof *f->qkv);
    score_ended(f, began_ns, 1);
}

static void score_block(const struct step *s, int block)
{
    const struct forward *f = s->f;
    const struct retaining_layer *l = &f->heads->layers[s->index];
    int t0 = block * SCORE_TOKENS, n = s->n - t0 < SCORE_TOKENS ? s->n - t0 : SCORE_TOKENS;
    int64_t began_ns = score_begins(f);
    for (int t = t0; quantized(&l->w1) && t < t0 + n; t++) quantize_row(f, &f->act_qkv, f->qkv, t);
    size_t at = (size_t)t0 * (size_t)f->act_qkv.n_in, g = at / KN_GROUP;
    struct kn_act x = {f->act_qkv.n_in, f->qkv + at, f->act_qkv.q + at, f->act_qkv.d + g,
                       f->act_qkv.sum + g};
    float *out = f->scores + (size_t)t0 * (size_t)f->heads->n_head;
    struct kn_score job = {&l->w1, l->w2, &x, n, f->heads->n_head, out};
    f->kernels->score(&job);
    score_ended(f, began_ns, 1);
}

static void attend_part(void *ctx, int part, int thread)
{
    const struct attend_job *j = ctx;
    int at = part - j->n_score;
    if (at < 0 && j->s->n == 1)
        score_later(j->s);
    else if (at < 0)
        score_block(j->s, part);
    else if (j->s->n == 1)
        attend_split(j, at / j->n_splits, at % j->n_splits);
    else
        attend_block(j, at / j->n_blocks, at % j->n_blocks, thread);
}

/* log of the softmax's sum over parts: M + log(sum_i e^(m_i - M) l_i). */
static float merge_lse(const float *m, const float *l, int n, int stride)
{
    float max = m[0], sum = 0;
    for (int i = 1; i < n; i++)
        if (m[i * stride] > max) max = m[i * stride];
    for (int i = 0; i < n; i++) sum += expf(m[i * stride] - max) * l[i * stride];
    return max + logf(sum);
}

static void merge_splits(const struct attend_job *j)
{
    const struct forward *f = j->s->f;
    const struct model *m = f->model;
    int group = m->n_head / m->n_kv_head;
    size_t n = (size_t)j->n_splits;
    for (int i = 0; i < m->n_kv_head; i++) {
        const float *base = f->partial + (size_t)i * n * partial_floats(m, 1);
        const float *l = base + n * (size_t)group;
        kn_attend_merge(f->att + i * group * m->head_dim, base, l, l + n * (size_t)group,
                        j->n_splits, group, m->head_dim);
        for (int g = 0; f->lse && g < group; g++)
            f->lse[i * group + g] = merge_lse(base + g, l + g, j->n_splits, group);
    }
}

static void attend(struct step *s)
{
    struct forward *f = s->f;
    int longest = 0;
    for (int i = 0; i < f->model->n_kv_head; i++) {
        int len = cache_head(s->c, s->index, i)->len;
        if (len > longest) longest = len;
    }
    struct attend_job j = {.s = s};
    j.n_splits = parts_of(longest + 1, ATTEND_SPLIT);
    j.n_blocks = parts_of(s->n, ATTEND_TOKENS);
    j.n_score = predicts(f) ? parts_of(s->n, SCORE_TOKENS) : 0;
    int n_attend = f->model->n_kv_head * (s->n == 1 ? j.n_splits : j.n_blocks);
    pool_run(f->pool, j.n_score + n_attend, attend_part, &j);
    if (s->n == 1) merge_splits(&j);
}

/* The chunk's units become part of every head; predicted scores are written beside them. */
static void commit_units(const struct step *s)
{
    const struct forward *f = s->f;
    bool scored = predicts(f) && s->n > 1;
    for (int i = 0; i < f->model->n_kv_head; i++) {
        struct cache_head *h = cache_head(s->c, s->index, i);
        for (int t = 0; scored && t < s->n; t++)
            h->score[h->len + t] = f->scores[t * f->heads->n_head + i];
        h->len += s->n;
    }
}

/* ---- the layers ------------------------------------------------------------------------------ */

static void run_layer(struct step *s)
{
    struct forward *f = s->f;
    const struct model *m = f->model;
    const struct model_layer *l = s->layer;
    int n = s->n, row = n_q(m) + 2 * n_kv(m);

    struct kn_act *x = prepare(f, f->x, m->n_embd, l->attn_norm,
                               quantized(&l->q) || quantized(&l->k) || quantized(&l->v), n);
    struct linear qkv = {.f = f, .scale = 1.0f};
    linear_add(&qkv, &l->q, l->q_bias, x, n, f->qkv, row);
    linear_add(&qkv, &l->k, l->k_bias, x, n, f->qkv + n_q(m), row);
    linear_add(&qkv, &l->v, l->v_bias, x, n, f->qkv + n_q(m) + n_kv(m), row);
    linear_run(&qkv);

    pool_run(f->pool, parts_of(n, TOKENS_PER_PART), append_part, s);
    attend(s);
    commit_units(s);
    int64_t began_ns = score_begins(f);
    score_observe(f, s->c, s->index, n);
    score_ended(f, began_ns, f->n_threads);

    x = prepare(f, f->att, n_q(m), NULL, quantized(&l->o), n);
    struct linear out = {.f = f, .scale = m->residual_scale, .add_to = f->x};
    linear_add(&out, &l->o, l->o_bias, x, n, f->tmp, m->n_embd);
    linear_run(&out);

    x = prepare(f, f->x, m->n_embd, l->ffn_norm, quantized(&l->gate) || quantized(&l->up), n);
    struct linear ffn = {.f = f, .scale = 1.0f, .swiglu = true};
    linear_add(&ffn, &l->gate, l->gate_bias, x, n, f->gate, m->n_ff);
    linear_add(&ffn, &l->up, l->up_bias, x, n, f->up, m->n_ff);
    linear_run(&ffn);

    x = prepare(f, f->gate, m->n_ff, NULL, quantized(&l->down), n);
    struct linear down = {.f = f, .scale = m->residual_scale, .add_to = f->x};
    linear_add(&down, &l->down, l->down_bias, x, n, f->tmp, m->n_embd);
    linear_run(&down);
}

static void run_logits(struct forward *f, int n, int n_logits)
{
    const struct model *m = f->model;
    const float *last = f->x + (size_t)(n - n_logits) * (size_t)m->n_embd;
    struct kn_act *x = prepare(f, last, m->n_embd, m->output_norm, quantized(&m->output), n_logits);
    struct linear l = {.f = f, .scale = m->logit_scale};
    linear_add(&l, &m->output, m->output_bias, x, n_logits, f->logits, m->n_vocab);
    linear_run(&l);
}

/* ---- surprisal ------------------------------------------------------------------------------- */

struct surprise_job {
    const struct forward *f;
    struct cache *c;
    const int32_t *ids; /* [n] that were to be predicted */
    int n, slot_end;    /* the first of them stands slot_end units before the end of its head */
};

/* -log p(token), into the score of its units in all heads. */
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
        struct cache_head *h = &j->c->heads[i];
        h->score[h->len - j->slot_end + t] = nats;
    }
}

/* The token before predicts a token, so this needs the logits of every token of a prompt, where
 * other policies need the last one's: the output matrix runs n times instead of once. The
 * conversation's first token has no surprisal, and is a sink. */
static void run_surprise(struct forward *f, struct cache *c, const int32_t *ids, int n)
{
    const struct model *m = f->model;
    size_t row = (size_t)m->n_embd;
    float *hidden = score_hidden(f, c);
    memcpy(f->tmp, hidden, row * sizeof *hidden);
    memcpy(f->tmp + row, f->x, (size_t)(n - 1) * row * sizeof *f->x);
    memcpy(hidden, f->x + (size_t)(n - 1) * row, row * sizeof *hidden);
    for (int t = c->n_pos ? 0 : 1; t < n; t += SURPRISE_ROWS) {
        int part = n - t < SURPRISE_ROWS ? n - t : SURPRISE_ROWS;
        struct kn_act *x = prepare(f, f->tmp + (size_t)t * row, m->n_embd, m->output_norm,
                                   quantized(&m->output), part);
        struct linear l = {.f = f, .scale = m->logit_scale};
        linear_add(&l, &m->output, m->output_bias, x, part, f->surprise, m->n_vocab);
        linear_run(&l);
        struct surprise_job job = {f, c, ids + t, part, n - t};
        pool_run(f->pool, part, surprise_part, &job);
    }
}

/* ---- scoring what waits ---------------------------------------------------------------------- */

struct score_job {
    struct forward *f;
    struct cache *c;
};

static void score_layer(void *ctx, int layer, int thread)
{
    const struct score_job *j = ctx;
    const struct forward *f = j->f;
    const struct retaining_layer *l = &f->heads->layers[layer];
    int n = j->c->n_unscored, n_head = f->heads->n_head;
    int64_t began_ns = score_begins(f);
    (void)thread;
    float *out = f->scores + (size_t)layer * FORWARD_SCORE_BATCH * (size_t)n_head;
    struct kn_score job = {&l->w1, l->w2, &f->unscored[layer], n, n_head, out};
    f->kernels->score(&job);
    for (int i = 0; i < n_head; i++) {
        struct cache_head *h = cache_head(j->c, layer, i);
        for (int t = 0; t < n; t++) h->score[h->len - n + t] = out[t * n_head + i];
    }
    score_ended(f, began_ns, 1);
}

void forward_score(struct forward *f, struct cache *c)
{
    struct score_job j = {f, c};
    if (c->n_unscored == 0) return;
    pool_run(f->pool, f->model->n_layer, score_layer, &j);
    c->n_unscored = 0;
}

/* ---- a chunk --------------------------------------------------------------------------------- */

void forward_run(struct forward *f, struct cache *c, const int32_t *ids, int n, int n_logits)
{
    const struct model *m = f->model;
    assert(n >= 1 && n <= f->chunk && n_logits <= f->n_logits && n_logits <= n);
    assert(cache_room(c) >= n);
    if (n > 1) forward_score(f, c);
    for (int t = 0; t < n; t++) {
        assert(ids[t] >= 0 && ids[t] < m->n_vocab);
        float *x = f->x + (size_t)t * (size_t)m->n_embd;
        f->kernels->row[m->embedding.type](x, &m->embedding, ids[t]);
        if (m->embed_scale != 1.0f) multiply(x, m->embed_scale, m->n_embd);
    }
    for (int i = 0; i < m->n_layer; i++) {
        struct step s = {f, c, &m->layers[i], i, n};
        run_layer(&s);
    }
    if (policy_uses(f->policy, POLICY_SURPRISAL)) run_surprise(f, c, ids, n);
    cache_appended(c, n);
    if (predicts(f) && n == 1 && ++c->n_unscored == FORWARD_SCORE_BATCH) forward_score(f, c);
    if (n_logits) run_logits(f, n, n_logits);
}
