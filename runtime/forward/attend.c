#include "runtime/forward/forward_parts.h"

#include <math.h>
#include <string.h>

#include "base/pool.h"

#define ATTEND_TOKENS 32    /* queries that share one pass over the keys of a head */
#define PART_MAX      1024  /* slots */
#define MERGE_ALONE   65536 /* numbers of partial softmaxes that one thread merges quickly */

/* The slot of the chunk's first unit in a head. The layer whose units are shared has
 * counted them. */
static int slot_of_first(const struct layer_step *s, int head)
{
    return cache_head(s->c, s->index, head)->len - (s->layer->shares_kv ? s->n : 0);
}

/* ---- parts of the slots ---------------------------------------------------------------------- */

/* A head's slots are split into parts, whose softmaxes are merged in order. Where parts begin
 * depends on the model and on the slot alone: so the bits of a result depend neither on the number
 * of threads nor on the tokens that run together. With 1,024 slots a layer has 8 parts or more. */

/* Slots of a layer's smallest parts. */
static int smallest_part(const struct model_heads *h)
{
    int n = PART_MAX / 8;
    for (int i = 2; i <= h->n_kv_head && n < PART_MAX; i *= 2) n *= 2;
    return n;
}

/* The slot after the part that begins at `slot`. In a window all parts have one length. */
static int part_end(const struct model_heads *h, int slot)
{
    int n = smallest_part(h);
    while (!h->window && n < PART_MAX && slot >= 8 * n) n *= 2;
    return slot + n;
}

/* Parts that begin in [slot, slot1). */
static int count_parts(const struct model_heads *h, int slot, int slot1)
{
    int n = 0;
    for (; slot < slot1; slot = part_end(h, slot)) n++;
    return n;
}

/* The first slot, perhaps before slot 0, of the parts that the head's token t and later ones of the
 * chunk see. In a window parts begin at positions that are multiples of their length, so that they
 * are the same wherever its units are. */
static int first_part(const struct layer_step *s, const struct model_heads *h, int head, int t)
{
    const int64_t size = smallest_part(h), pos = s->c->n_pos + t;
    const int64_t begin = pos + 1 > h->window ? (pos + 1 - h->window) / size * size : 0;
    return h->window ? (int)(begin - (s->c->n_pos - slot_of_first(s, head))) : 0;
}

/* Floats of one part's partial softmax: m, l and acc of all its rows. */
static size_t partial_floats(const struct model_heads *h, int tokens)
{
    size_t rows = (size_t)tokens * (size_t)heads_group(h);
    return (rows * ((size_t)h->head_dim + 2) + 15) & ~(size_t)15;
}

static struct kn_partial partial_in(float *memory, int rows)
{
    return (struct kn_partial){memory, memory + rows, memory + 2 * rows};
}

/* Memory of the layers of one kind. */
static size_t partials_of(const struct forward *f, const struct model_heads *h, int n_parts)
{
    const int most = f->chunk < FORWARD_TRY_MAX ? f->chunk : FORWARD_TRY_MAX;
    const size_t few = (size_t)(h->n_kv_head * n_parts) * partial_floats(h, most);
    const size_t many = 2 * (size_t)f->n_threads * partial_floats(h, ATTEND_TOKENS);
    return few > many ? few : many;
}

void attend_plan(struct forward *f, int longest, struct arena *a)
{
    const struct model *m = f->model;
    const struct model_heads h = model_heads(m, false), w = model_heads(m, m->windowed.n_layer > 0);
    const size_t all = partials_of(f, &h, count_parts(&h, 0, longest));
    /* a window may begin and end anywhere in a part */
    const size_t windowed = partials_of(f, &w, w.window / smallest_part(&w) + 3);
    f->partial = arena_take(a, w.window && windowed > all ? windowed : all, sizeof(float));
    if (!model_has(m).normed_values) return;
    float *ones = arena_take(a, KN_HEAD_DIM_MAX, sizeof *ones);
    for (int i = 0; ones && i < KN_HEAD_DIM_MAX; i++) ones[i] = 1.0f;
    f->ones = ones;
}

/* ---- units ----------------------------------------------------------------------------------- */

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
 * by head and token block or part of the slots. */
struct attend_job {
    struct layer_step *s;
    struct model_heads h;
    int n_score;
    int n_parts;  /* few tokens: parts of the slots per head; 0 = many */
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

/* n tokens from token t on with the slots of the part that begins at slot0, which is after the
 * returned one. */
static int attend_slots(const struct attend_job *j, int head, int t, int n, int slot0,
                        struct kn_partial out)
{
    const struct layer_step *s = j->s;
    struct kn_attend a = attend_args(s, head);
    const int end = part_end(&j->h, slot0);
    a.n_tok = n;
    a.pos0 = slot_of_first(s, head) + t;
    a.slot0 = slot0 < 0 ? 0 : slot0;
    a.slot1 = end < a.pos0 + n ? end : a.pos0 + n;
    a.q += (size_t)t * a.q_stride;
    a.m = out.m;
    a.l = out.l;
    a.acc = out.acc;
    s->f->kernels->attend(&a);
    return end;
}

/* Where the partial softmax of all tokens and one part is. */
static struct kn_partial partial_at(const struct attend_job *j, int head, int part)
{
    const size_t i = (size_t)head * (size_t)j->n_parts + (size_t)part;
    float *memory = j->s->f->partial + i * partial_floats(&j->h, j->s->n);
    return partial_in(memory, j->s->n * heads_group(&j->h));
}

/* All tokens with one part. */
static void attend_few(const struct attend_job *j, int head, int part)
{
    int slot = first_part(j->s, &j->h, head, 0);
    for (int i = 0; i < part; i++) slot = part_end(&j->h, slot);
    attend_slots(j, head, 0, j->s->n, slot, partial_at(j, head, part));
}

/* Undoes the transform of values beside keys with centres in n results of attention. */
static void restore_values(const struct layer_step *s, float *out, int n)
{
    if (kn_kv_centred(s->c->shape.k_type)) s->f->kernels->hadamard(out, n * s->c->shape.head_dim);
}

/* Results of token t's n rows from `row` on, which are of one head. */
static void finish_rows(const struct attend_job *j, int t, int row, int n, struct kn_partial sum)
{
    const struct layer_step *s = j->s;
    const struct model_heads *h = &j->h;
    float *out = s->f->att + (size_t)(t * h->n_head + row) * (size_t)h->head_dim;
    kn_attend_finish(out, sum, s->layer->sinks ? s->layer->sinks + row : NULL, n, h->head_dim);
    restore_values(s, out, n);
}

/* A block of tokens with all parts that they see. */
static void attend_block(const struct attend_job *j, int head, int block, int thread)
{
    const struct layer_step *s = j->s;
    const int t0 = block * ATTEND_TOKENS, group = heads_group(&j->h);
    const int n = s->n - t0 < ATTEND_TOKENS ? s->n - t0 : ATTEND_TOKENS;
    const int end = slot_of_first(s, head) + t0 + n;
    const size_t floats = partial_floats(&j->h, ATTEND_TOKENS);
    float *memory = s->f->partial + 2 * (size_t)thread * floats;
    struct kn_partial sum = partial_in(memory, n * group);
    const struct kn_partial part = partial_in(memory + floats, n * group);
    int slot = attend_slots(j, head, t0, n, first_part(s, &j->h, head, t0), sum);
    while (slot < end) {
        slot = attend_slots(j, head, t0, n, slot, part);
        kn_attend_add(s->f->kernels, sum, part, n * group, j->h.head_dim);
    }
    for (int t = t0; t < t0 + n; t++) {
        finish_rows(j, t, head * group, group, sum);
        sum = kn_partial_at(sum, group, j->h.head_dim);
    }
}

static void attend_part(void *ctx, int part, int thread)
{
    const struct attend_job *j = ctx;
    int at = part - j->n_score;
    if (at < 0)
        cis_part(j->s, part, thread);
    else if (j->n_parts)
        attend_few(j, at / j->n_parts, at % j->n_parts);
    else
        attend_block(j, at / j->n_blocks, at % j->n_blocks, thread);
}

/* A token's query in one head: adds the later parts to the first one. */
static void merge_row(void *ctx, int i, int thread)
{
    const struct attend_job *j = ctx;
    const int t = i / j->h.n_head, row = i % j->h.n_head, group = heads_group(&j->h);
    const int head = row / group, at = t * group + row % group, dim = j->h.head_dim;
    struct kn_partial sum = kn_partial_at(partial_at(j, head, 0), at, dim);
    (void)thread;
    for (int p = 1; p < j->n_parts; p++)
        kn_attend_add(j->s->f->kernels, sum, kn_partial_at(partial_at(j, head, p), at, dim), 1,
                      dim);
    finish_rows(j, t, row, 1, sum);
}

/* Parts of the head that has most. */
static int parts_of_heads(const struct layer_step *s, const struct model_heads *h)
{
    int most = 0;
    for (int i = 0; i < h->n_kv_head; i++) {
        const int n = count_parts(h, first_part(s, h, i, 0), slot_of_first(s, i) + s->n);
        if (n > most) most = n;
    }
    return most;
}

static void attend(struct layer_step *s)
{
    struct forward *f = s->f;
    struct attend_job j = {.s = s, .h = model_heads(f->model, s->layer->is_windowed)};
    const int n_kv = j.h.n_kv_head, n_row = s->n * j.h.n_head;
    if (s->n <= FORWARD_TRY_MAX) j.n_parts = parts_of_heads(s, &j.h);
    j.n_blocks = linear_parts(s->n, ATTEND_TOKENS);
    j.n_score = j.h.window || s->layer->shares_kv ? 0 : cis_parts(f, s->n);
    pool_run(f->pool, j.n_score + n_kv * (j.n_parts ? j.n_parts : j.n_blocks), attend_part, &j);
    if (!j.n_parts) return;
    if ((int64_t)j.n_parts * n_row * j.h.head_dim > MERGE_ALONE)
        pool_run(f->pool, n_row, merge_row, &j);
    else
        for (int i = 0; i < n_row; i++) merge_row(&j, i, 0);
}

void attend_run(struct layer_step *s)
{
    linear_each(s->f, s->n, append_token, s);
    attend(s);
    if (s->layer->shares_kv) return;
    if (!s->layer->is_windowed) cis_write(s);
    for (int i = 0; i < s->c->shape.n_head; i++) cache_head(s->c, s->index, i)->len += s->n;
}
