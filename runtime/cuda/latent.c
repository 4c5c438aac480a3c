/* Latent attention, as forward/latent.c: the matrices of heads are multiplied like those of
 * experts. */
#include "runtime/cuda/parts.h"

static size_t widest(const struct model *m)
{
    return cuda_larger((size_t)m->latent.n_plain, (size_t)m->latent.rank);
}

void cuda_latent_plan(struct cuda_context *x, struct arena *a)
{
    const struct model *m = x->m;
    const struct model_latent *s = &m->latent;
    const size_t chunk = (size_t)x->chunk, rows = chunk * (size_t)m->n_head, f = sizeof(float);
    if (!s->rank) return;
    if (s->q_rank) x->latent.down = arena_take(a, chunk * (size_t)s->q_rank, f);
    x->latent.kv = arena_take(a, chunk * (size_t)m->head_dim, f);
    x->latent.q =
        arena_take(a, rows * cuda_larger((size_t)model_latent_query(m), (size_t)s->n_value), f);
    cuda_take_act(&x->latent.act, (int)widest(m), rows, a);
}

/* Rows of n numbers, normed if w is given, as the reader needs them; floats go to y. */
static struct cuda_rows rows_of(struct cuda_context *x, const float *from, int stride,
                                const float *w, int n, int n_row, struct cuda_act act, float *y)
{
    const struct cuda_norm job = {from, stride, w, n, MODEL_LATENT_EPS, act, y, NULL};
    LAUNCH(x, norm_quantize, n_row, 1, 1, CUDA_NORM_THREADS, 32, &job);
    return (struct cuda_rows){n_row, act, y, {0}};
}

/* The queries' numbers before they are absorbed, and the key's before their norm. */
static void multiply(struct cuda_context *x, const struct model_layer *l)
{
    const struct cuda_latent_rows *r = &x->latent;
    const int q_rank = x->m->latent.q_rank;
    const struct kn_weight *first = q_rank ? &l->latent.down : &l->q;
    const struct cuda_rows in = cuda_read_stream(
        x, l->attn_norm, (const struct kn_weight *const[CUDA_READERS]){first, &l->k});
    cuda_multiply(x, first, NULL, &in, 1.0f, q_rank ? r->down : r->q);
    cuda_multiply(x, &l->k, NULL, &in, 1.0f, r->kv);
    if (!q_rank) return;
    struct cuda_rows down = {1, x->wide, r->down, {r->down, l->latent.q_norm, MODEL_LATENT_EPS}};
    if (!cuda_makes_row(x, &l->q))
        down = rows_of(x, r->down, q_rank, l->latent.q_norm, q_rank, x->n, x->wide, r->down);
    cuda_multiply(x, &l->q, NULL, &down, 1.0f, r->q);
}

/* Until the rows of x->qkv and x->att are complete, they hold inputs and results of `up`. */
void cuda_run_latent(struct cuda_context *x, const struct model_layer *l)
{
    const struct model *m = x->m;
    const struct model_latent *s = &m->latent;
    const struct cuda_latent_rows *r = &x->latent;
    const struct cuda_latent_join job = {
        x->att,  r->q,       r->kv,         l->latent.kv_norm,     m->n_head,
        s->rank, s->n_plain, m->rope.n_rot, m->family->rope_pairs, MODEL_LATENT_EPS,
        x->qkv};
    cuda_keep_hidden_in(x, l);
    multiply(x, l);
    const struct cuda_rows plain =
        rows_of(x, r->q, model_latent_query(m), NULL, s->n_plain, x->n * m->n_head, r->act, x->qkv);
    cuda_multiply_heads(x, &l->latent.up, &plain, x->att);
    LAUNCH(x, latent_join, x->n, m->n_head + 1, 1, 256, 32, &job);
    cuda_finish_heads(x, l);
    cuda_observe(x, l);
}

/* Values are the rotated keys, so the magnitude of the rotation is divided out. */
void cuda_run_values(struct cuda_context *x, const struct model_layer *l)
{
    const struct model *m = x->m;
    const int rank = m->latent.rank, rows = x->n * m->n_head;
    const struct cuda_latent_part job = {x->att, rank, m->rope.n_rot, 1.0f / m->rope.magnitude,
                                         x->qkv};
    LAUNCH(x, latent_part, rows, 1, 1, 256, 0, &job);
    const struct cuda_rows in = rows_of(x, x->qkv, rank, NULL, rank, rows, x->latent.act, x->qkv);
    cuda_multiply_heads(x, &l->latent.value, &in, x->latent.q);
}
