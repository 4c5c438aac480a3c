#include "runtime/cuda/parts.h"

/* A split model's other layers are scored on the CPU in smaller batches, and after a crash, units
 * without scores are run again, which a recurrent state does not allow. */
bool cuda_scores_later(const struct cuda_context *x)
{
    return x->retaining && x->n == 1 && !x->tries && !model_is_split(x->m) && !x->n_recurrent;
}

void cuda_scores_plan(struct cuda_context *x, struct arena *a)
{
    const size_t n_tok = cuda_larger((size_t)x->chunk, CACHE_UNSCORED_MAX);
    x->new_scores = arena_take(a, (size_t)x->n_heads * n_tok, sizeof *x->new_scores);
    if (!x->retaining) return;
    const int parts = cuda_parts_of(x->retaining->shape.n_hidden, CUDA_MATMUL_ROWS);
    x->score_part = arena_take(a, (size_t)(x->m->n_kv_head * parts) * n_tok, sizeof(float));
    cuda_take_act(&x->unscored, x->retaining->shape.n_in,
                  (size_t)x->kv.n_layer * CACHE_UNSCORED_MAX, a);
}

/* Scores n_tok inputs in x->wide or of x->unscored, in the slots from len + first on. */
static void score(struct cuda_context *x, const struct model_layer *l, struct cuda_act in,
                  int n_tok, int first)
{
    const struct retaining *h = x->retaining;
    const int parts = cuda_parts_of(h->shape.n_hidden, CUDA_MATMUL_ROWS), layer = l->kv_layer;
    const struct cuda_head *head = &x->g->heads[layer];
    const struct cuda_score job = {cuda_weight_of(&head->w1), head->w2,     in, n_tok,
                                   h->shape.n_head,           x->score_part};
    const struct cuda_score_sum sum = {x->score_part,
                                       parts,
                                       n_tok,
                                       first,
                                       x->kv.layers[layer],
                                       x->new_scores + layer * h->shape.n_head * n_tok};
    LAUNCH(x, score_q8, parts, cuda_parts_of(n_tok, CUDA_MATMUL_TOKENS), 1, CUDA_MATMUL_THREADS,
           CUDA_SCORE_SHARED, &job);
    LAUNCH(x, score_sum, cuda_parts_of(n_tok * h->shape.n_head, 128), 1, 1, 128, 0, &sum);
}

void cuda_score_step(struct cuda_context *x, const struct model_layer *l)
{
    const int n = model_n_qkv(x->m);
    cuda_norm_quantize(x, x->qkv, n, NULL, n, x->n, x->wide, NULL);
    score(x, l, x->wide, x->n, 0);
}

/* ---- generated tokens ------------------------------------------------------------------------ */

static struct cuda_act unscored_of(const struct cuda_context *x, const struct model_layer *l)
{
    const size_t blocks = (size_t)cuda_parts_of(x->retaining->shape.n_in, CUDA_BLOCK);
    const size_t at = (size_t)l->kv_layer * CACHE_UNSCORED_MAX * blocks;
    return (struct cuda_act){x->unscored.q + at * CUDA_BLOCK, x->unscored.scale + at * 2};
}

struct cuda_kept cuda_kept_input(struct cuda_context *x, const struct model_layer *l)
{
    if (!cuda_scores_later(x)) return (struct cuda_kept){0};
    return (struct cuda_kept){x->qkv, model_n_qkv(x->m), unscored_of(x, l), &x->step->n_unscored};
}

void cuda_keep_input(struct cuda_context *x, const struct model_layer *l)
{
    const int n = model_n_qkv(x->m);
    const struct cuda_norm job = {
        x->qkv, n, NULL, n, 0.0f, unscored_of(x, l), NULL, &x->step->n_unscored};
    LAUNCH(x, norm_quantize, 1, 1, 1, CUDA_NORM_THREADS, 32, &job);
}

static void take_scores(struct cuda_context *x, int n)
{
    const struct cache *c = x->cache;
    for (int i = 0; i < x->n_heads; i++) {
        const struct cache_head *h = &c->kv_heads[i];
        for (int t = 0; t < n; t++) h->score[h->len - n + t] = x->scores_host[i * n + t];
    }
}

void cuda_score(struct cuda_context *x)
{
    const int n = x->cache->n_unscored;
    const size_t bytes = (size_t)(x->n_heads * n) * sizeof *x->new_scores;
    struct err e;
    if (!n || x->broken) return;
    if (!cuda_begin(x, &e)) cuda_put_lengths(x);
    for (int i = 0; i < x->n_layer; i++) {
        const struct model_layer *l = &x->m->layers[i];
        if (l->is_windowed || l->shares_kv || l->no_attention) continue;
        score(x, l, unscored_of(x, l), n, -n);
    }
    if (!x->rc && !cuda_get_now(x, x->scores_host, x->new_scores, bytes)) take_scores(x, n);
    x->cache->n_unscored = 0;
    if (x->rc) cuda_break(x, &e);
}
