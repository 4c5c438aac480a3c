#include "runtime/cuda/parts.h"
#include "runtime/model/recurrent.h"

_Static_assert((int)CUDA_DELTA == (int)MODEL_DELTA && (int)CUDA_SCAN == (int)MODEL_SCAN &&
                   (int)CUDA_CONVOLUTION == (int)MODEL_CONVOLUTION,
               "the device's numbers are the model's");

/* ---- memory ---------------------------------------------------------------------------------- */

void cuda_recurrent_plan(struct cuda_context *x, struct arena *cache, struct arena *scratch)
{
    const struct model_recurrent_shape *s = &x->m->recurrent;
    struct cuda_recurrent_rows *r = &x->recurrent;
    const size_t chunk = (size_t)x->chunk, n_layer = (size_t)x->n_recurrent, f = sizeof(float);
    if (n_layer == 0) return;
    r->n_layer = (size_t)(recurrent_n_window(s) + recurrent_n_matrix(s));
    r->n_step = (size_t)(s->n_channel + 2 * s->n_head);
    r->layers_bytes = n_layer * r->n_layer * f;
    r->steps_bytes = n_layer * r->n_step * f;
    r->hidden_bytes = model_is_split(x->m) ? 0 : (size_t)x->m->n_embd * f;
    r->layers = arena_take(cache, 1, r->layers_bytes);
    if (r->hidden_bytes) r->hidden = arena_take(cache, 1, r->hidden_bytes);
    r->step = arena_take(cache, 1, r->steps_bytes);
    r->tried = arena_take(scratch, CUDA_TRY_MAX, r->steps_bytes);
    r->untried = arena_take(scratch, r->n_layer, f);
    r->in = arena_take(scratch, chunk * (size_t)s->n_channel, f);
    r->gate = arena_take(scratch, chunk * (size_t)recurrent_n_out(s), f);
    r->y = arena_take(scratch, chunk * (size_t)recurrent_n_out(s), f);
    r->rate = arena_take(scratch, chunk * (size_t)s->n_head, f);
    r->decay = arena_take(scratch, chunk * (size_t)s->n_head, f);
}

/* ---- a layer --------------------------------------------------------------------------------- */

static struct cuda_recur job_of(const struct cuda_context *x, const struct model_layer *l)
{
    const struct model_recurrent_shape *s = &x->m->recurrent;
    const struct model_recurrent *w = &l->recurrent;
    const struct cuda_recurrent_rows *r = &x->recurrent;
    float *state = r->layers + (size_t)l->state_layer * r->n_layer;
    return (struct cuda_recur){
        .kind = (enum cuda_recurrence)s->kind,
        .n_tok = x->n,
        .n_channel = s->n_channel,
        .n_taps = s->n_taps,
        .n_key_head = s->n_key_head,
        .n_head = s->n_head,
        .key_dim = s->key_dim,
        .head_dim = s->head_dim,
        .tiled = s->tiled,
        .in = r->in,
        .gate = r->gate,
        .y = r->y,
        .rate = r->rate,
        .decay = r->decay,
        .taps = w->taps,
        .taps_bias = w->taps_bias,
        .a = w->a,
        .step_bias = w->step_bias,
        .skip = w->skip,
        .norm = w->norm,
        .eps = x->m->norm_eps,
        .window = state,
        .matrices = state + recurrent_n_window(s),
    };
}

static void project(struct cuda_context *x, const struct model_layer *l)
{
    const struct model_recurrent *w = &l->recurrent;
    const struct cuda_recurrent_rows *r = &x->recurrent;
    const struct cuda_rows in = cuda_ready_stream(x, l->attn_norm);
    cuda_multiply(x, &w->in, NULL, &in, 1.0f, r->in);
    cuda_multiply(x, &w->gate, NULL, &in, 1.0f, r->gate);
    cuda_multiply(x, &w->in_gate, NULL, &in, 1.0f, r->y);
    cuda_multiply(x, &w->step, NULL, &in, 1.0f, r->decay);
    cuda_multiply(x, &w->beta, NULL, &in, 1.0f, r->rate);
}

/* Copies the inputs of token t's step out of the rows, or back into them; kept: the steps of all
 * layers. */
static void copy_step(struct cuda_context *x, const struct model_layer *l, int t, float *kept,
                      bool back)
{
    const struct model_recurrent_shape *s = &x->m->recurrent;
    const struct cuda_recurrent_rows *r = &x->recurrent;
    float *parts[] = {r->in, r->rate, r->decay};
    const size_t n[] = {(size_t)s->n_channel, (size_t)s->n_head, (size_t)s->n_head};
    kept += (size_t)l->state_layer * r->n_step;
    for (int i = 0; i < 3; kept += n[i++]) {
        float *row = parts[i] + (size_t)t * n[i];
        if (!x->rc && n[i])
            x->rc =
                cuda_copy(x->g, back ? row : kept, back ? kept : row, n[i] * sizeof *kept, x->e);
    }
}

/* The steps of tried token t in all layers. */
static float *tried_steps(const struct cuda_context *x, int t)
{
    return x->recurrent.tried + (size_t)(t * x->n_recurrent) * x->recurrent.n_step;
}

/* The state's part of a layer: from inputs and rates to y. */
static void step(struct cuda_context *x, const struct cuda_recur *job)
{
    LAUNCH(x, recur_convolve, cuda_parts_of(job->n_channel, 128), 1, 1, 128, 0, job);
    if (job->kind == CUDA_DELTA)
        LAUNCH(x, recur_unit, job->n_tok, 2 * job->n_key_head, 1, 32, 0, job);
    if (job->kind != CUDA_CONVOLUTION)
        LAUNCH(x, recur_heads, job->n_head, cuda_parts_of(job->head_dim, CUDA_RECUR_COLUMNS), 1,
               128, CUDA_RECUR_SHARED(job->key_dim), job);
}

/* The state takes the tokens and is put back, so that each can be added when it is accepted. */
static void try_step(struct cuda_context *x, const struct model_layer *l,
                     const struct cuda_recur *job)
{
    const size_t bytes = x->recurrent.n_layer * sizeof(float);
    for (int t = 0; t < x->n; t++) copy_step(x, l, t, tried_steps(x, t), false);
    if (!x->rc) x->rc = cuda_copy(x->g, x->recurrent.untried, job->window, bytes, x->e);
    step(x, job);
    if (!x->rc) x->rc = cuda_copy(x->g, job->window, x->recurrent.untried, bytes, x->e);
}

void cuda_run_recurrent(struct cuda_context *x, const struct model_layer *l)
{
    const struct cuda_recur job = job_of(x, l);
    project(x, l);
    LAUNCH(x, recur_prepare, x->n, 1, 1, CUDA_NORM_THREADS, 0, &job);
    if (x->n == 1) copy_step(x, l, 0, x->recurrent.step, false);
    if (x->tries)
        try_step(x, l, &job);
    else
        step(x, &job);
    LAUNCH(x, recur_finish, x->n, 1, 1, CUDA_NORM_THREADS, 0, &job);
}

/* ---- the state ------------------------------------------------------------------------------- */

void cuda_keep_hidden(struct cuda_context *x)
{
    const size_t n = (size_t)x->m->n_embd;
    if (!x->recurrent.hidden || x->tries) return;
    cuda_end_chain(x);
    if (!x->rc)
        x->rc = cuda_copy(x->g, x->recurrent.hidden, x->x + (size_t)(x->n - 1) * n,
                          n * sizeof(float), x->e);
}

/* The host's layers, steps and hidden row are not adjacent. */
void cuda_put_state(struct cuda_context *x)
{
    struct recurrent_state *s = &x->cache->recurrent;
    const struct cuda_recurrent_rows *r = &x->recurrent;
    if (!x->n_recurrent || !s->changed) return;
    if (!x->rc) x->rc = cuda_put(x->g, r->layers, s->layers, r->layers_bytes, x->e);
    if (!x->rc) x->rc = cuda_put(x->g, r->hidden, s->hidden, r->hidden_bytes, x->e);
    if (!x->rc) x->rc = cuda_wait(x->g, x->e);
    if (!x->rc) s->changed = false;
}

int cuda_get_state(struct cuda_context *x)
{
    struct recurrent_state *s = &x->cache->recurrent;
    const struct cuda_recurrent_rows *r = &x->recurrent;
    if (!x->n_recurrent || s->changed) return x->rc;
    cuda_get_now(x, s->layers, r->layers, r->layers_bytes);
    return cuda_get_now(x, s->hidden, r->hidden, r->hidden_bytes);
}

void cuda_get_steps(struct cuda_context *x)
{
    const struct recurrent_state *s = &x->cache->recurrent;
    if (x->n_recurrent) cuda_get_now(x, s->step, x->recurrent.step, x->recurrent.steps_bytes);
}

/* Makes the state the one after the newest token's step. */
static void repeat_steps(struct cuda_context *x)
{
    x->n = 1;
    for (int i = 0; i < x->n_layer; i++) {
        const struct model_layer *l = &x->m->layers[i];
        if (!l->is_recurrent) continue;
        const struct cuda_recur job = job_of(x, l);
        copy_step(x, l, 0, x->recurrent.step, true);
        step(x, &job);
    }
}

void cuda_repeat(struct cuda_context *x)
{
    const struct recurrent_state *s = &x->cache->recurrent;
    struct err e;
    if (x->broken) return;
    if (!cuda_begin(x, &e)) cuda_put_state(x);
    if (!x->rc) x->rc = cuda_put(x->g, x->recurrent.step, s->step, x->recurrent.steps_bytes, &e);
    repeat_steps(x);
    if (!x->rc) cuda_get_state(x);
    if (x->rc) cuda_break(x, &e);
}

void cuda_accept(struct cuda_context *x, int i)
{
    const size_t n_embd = (size_t)x->m->n_embd;
    struct err e;
    if (!x->n_recurrent || x->broken) return;
    if (!cuda_begin(x, &e))
        x->rc = cuda_copy(x->g, x->recurrent.step, tried_steps(x, i), x->recurrent.steps_bytes, &e);
    repeat_steps(x);
    if (!x->rc && x->recurrent.hidden)
        x->rc = cuda_copy(x->g, x->recurrent.hidden, x->x + (size_t)i * n_embd,
                          n_embd * sizeof(float), &e);
    if (x->rc) cuda_break(x, &e);
}

int cuda_run_again(struct cuda_context *x, struct err *e)
{
    if (cuda_begin(x, e)) return x->rc;
    cuda_put_state(x);
    x->n = x->rows = 1;
    if (!x->rc)
        x->rc = cuda_copy(x->g, x->x, x->recurrent.hidden, (size_t)x->m->n_embd * sizeof(float), e);
    cuda_run_logits(x);
    return x->rc ? x->rc : cuda_wait(x->g, e);
}
