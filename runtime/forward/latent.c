#include "runtime/forward/forward_parts.h"

#include <string.h>

#include "base/pool.h"

#define BLOCK 64 /* tokens of one head that share a pass over its matrix */

/* Numbers of a row of one head: the inputs and outputs of its products. */
static int widest(const struct model *m)
{
    return m->latent.n_plain > m->latent.rank ? m->latent.n_plain : m->latent.rank;
}

void latent_plan(struct forward *f, struct arena *a)
{
    const struct model *m = f->model;
    const struct model_latent *s = &m->latent;
    struct latent_rows *r = &f->latent;
    const size_t chunk = (size_t)f->chunk, rows = (size_t)f->n_threads * BLOCK;
    const int all = model_latent_query(m), query = all > s->n_value ? all : s->n_value;
    if (s->q_rank) r->down = arena_take(a, chunk * (size_t)s->q_rank, sizeof(float));
    r->q = arena_take(a, chunk * (size_t)(m->n_head * query), sizeof(float));
    r->kv = arena_take(a, chunk * (size_t)m->head_dim, sizeof(float));
    r->in = arena_take(a, rows * (size_t)widest(m), sizeof(float));
    r->out = arena_take(a, rows * (size_t)s->rank, sizeof(float));
    linear_plan(&r->act, widest(m), rows, a);
}

/* ---- rows in the kernels' order -------------------------------------------------------------- */

/* A query or key of `rank` latent and n_rot rotated numbers; the file has the latter in pairs, or
 * in halves. */
static void join_row(const struct model *m, float *out, const float *latent, const float *rotated)
{
    const int half = m->latent.rank / 2, n = m->rope.n_rot / 2;
    const int step = m->family->rope_pairs ? 2 : 1, second = m->family->rope_pairs ? 1 : n;
    for (int side = 0; side < 2; side++, out += n + half) {
        for (int i = 0; i < n; i++) out[i] = rotated[i * step + side * second];
        memcpy(out + n, latent + side * half, (size_t)half * sizeof *out);
    }
}

static void latent_of(const struct model *m, float *latent, const float *row)
{
    const int half = m->latent.rank / 2, n = m->rope.n_rot / 2;
    memcpy(latent, row + n, (size_t)half * sizeof *row);
    memcpy(latent + half, row + 2 * n + half, (size_t)half * sizeof *row);
}

/* ---- products of one head -------------------------------------------------------------------- */

struct head_job {
    struct layer_step *s;
    int n_blocks; /* of tokens */
};

/* The block's inputs, n rows of f->latent.in, times the head's matrix of a stack. */
static void multiply(const struct forward *f, const struct kn_weight *stack, int head, int n,
                     int thread, float *y, int y_stride)
{
    const int n_out = stack->n_out / f->model->n_head, n_in = stack->n_in;
    const struct kn_weight w = kn_weight_rows(stack, head * n_out, (head + 1) * n_out);
    const size_t row = (size_t)thread * BLOCK, at = row * (size_t)widest(f->model);
    const size_t group = row * (size_t)(widest(f->model) / KN_GROUP + 1);
    const struct latent_rows *r = &f->latent;
    const struct kn_act act = {n_in, r->in + at, r->act.q + at, r->act.d + group,
                               r->act.sum + group};
    for (int t = 0; kn_is_quantized(w.type) && t < n; t++) linear_quantize(f, &act, act.x, t);
    f->kernels->matmul[w.type](&(struct kn_matmul){
        .w = &w, .x = &act, .n_tok = n, .row1 = n_out, .y = y, .y_stride = (size_t)y_stride});
    for (int t = 0; stack->factors && t < n; t++)
        linear_scale(y + (size_t)t * (size_t)y_stride, stack->factors[head], n_out);
}

/* The first token of a part, and how many it has; the part's head. */
static int tokens_of(const struct head_job *j, int part, int *head, int *n)
{
    const int t0 = part % j->n_blocks * BLOCK, left = j->s->n - t0;
    *head = part / j->n_blocks;
    *n = left < BLOCK ? left : BLOCK;
    return t0;
}

static void run_heads(struct layer_step *s, void (*part)(void *ctx, int part, int thread))
{
    struct head_job j = {s, linear_parts(s->n, BLOCK)};
    pool_run(s->f->pool, s->f->model->n_head * j.n_blocks, part, &j);
}

/* ---- queries and keys ------------------------------------------------------------------------ */

static void query_part(void *ctx, int part, int thread)
{
    const struct head_job *j = ctx;
    const struct forward *f = j->s->f;
    const struct model *m = f->model;
    const size_t rank = (size_t)m->latent.rank, plain = (size_t)m->latent.n_plain;
    const size_t query = (size_t)model_latent_query(m);
    float *in = f->latent.in + (size_t)thread * BLOCK * (size_t)widest(m);
    float *out = f->latent.out + (size_t)thread * BLOCK * rank;
    int head, n, t0 = tokens_of(j, part, &head, &n);
    const float *q = f->latent.q + ((size_t)t0 * (size_t)m->n_head + (size_t)head) * query;
    const size_t stride = (size_t)m->n_head * query;
    for (size_t t = 0; t < (size_t)n; t++)
        memcpy(in + t * plain, q + t * stride, plain * sizeof *in);
    multiply(f, &j->s->layer->latent.up, head, n, thread, out, (int)rank);
    for (size_t t = 0; t < (size_t)n; t++)
        join_row(m,
                 f->qkv + ((size_t)t0 + t) * (size_t)model_n_qkv(m) + (size_t)(head * m->head_dim),
                 out + t * rank, q + t * stride + plain);
}

/* Norms what the next products read of a token, and completes its key. */
static void norm_row(void *ctx, int t, int thread)
{
    const struct layer_step *s = ctx;
    const struct forward *f = s->f;
    const struct model *m = f->model;
    const struct model_latent_part *l = &s->layer->latent;
    const int q_rank = m->latent.q_rank;
    float *down = q_rank ? f->latent.down + (size_t)t * (size_t)q_rank : NULL;
    float *kv = f->latent.kv + (size_t)t * (size_t)m->head_dim;
    (void)thread;
    if (down) f->kernels->rmsnorm(down, down, l->q_norm, q_rank, MODEL_LATENT_EPS);
    f->kernels->rmsnorm(kv, kv, l->kv_norm, m->latent.rank, MODEL_LATENT_EPS);
    join_row(m, f->qkv + (size_t)t * (size_t)model_n_qkv(m) + (size_t)model_n_q(m), kv,
             kv + m->latent.rank);
}

void latent_run(struct layer_step *s)
{
    struct forward *f = s->f;
    const struct model_layer *l = s->layer;
    const struct model *m = f->model;
    const int n_q = m->n_head * model_latent_query(m), q_rank = m->latent.q_rank;
    struct linear first = {.f = f, .x = f->x, .norm = l->attn_norm, .n = s->n, .scale = 1.0f};
    struct linear second = {.f = f, .x = f->latent.down, .n = s->n, .scale = 1.0f};
    if (q_rank)
        linear_add(&first, &l->latent.down, NULL, f->latent.down, q_rank);
    else
        linear_add(&first, &l->q, NULL, f->latent.q, n_q);
    linear_add(&first, &l->k, NULL, f->latent.kv, m->head_dim);
    linear_run(&first);
    linear_each(f, s->n, norm_row, s);
    if (q_rank) linear_add(&second, &l->q, NULL, f->latent.q, n_q);
    if (q_rank) linear_run(&second);
    run_heads(s, query_part);
}

/* ---- outputs --------------------------------------------------------------------------------- */

static void value_part(void *ctx, int part, int thread)
{
    const struct head_job *j = ctx;
    const struct forward *f = j->s->f;
    const struct model *m = f->model;
    const size_t n_head = (size_t)m->n_head, rank = (size_t)m->latent.rank;
    float *in = f->latent.in + (size_t)thread * BLOCK * (size_t)widest(m);
    int head, n, t0 = tokens_of(j, part, &head, &n), n_value = m->latent.n_value;
    const size_t row = (size_t)t0 * n_head + (size_t)head;
    for (size_t t = 0; t < (size_t)n; t++)
        latent_of(m, in + t * rank, f->att + (row + t * n_head) * (size_t)m->head_dim);
    multiply(f, &j->s->layer->latent.value, head, n, thread, f->latent.q + row * (size_t)n_value,
             m->n_head * n_value);
}

void latent_values(struct layer_step *s)
{
    run_heads(s, value_part);
}
