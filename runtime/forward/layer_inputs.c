#include "runtime/forward/forward_parts.h"

#include <math.h>

static size_t row_of(const struct model *m)
{
    return (size_t)m->n_layer * (size_t)m->layer_inputs.n;
}

void layer_inputs_plan(struct forward *f, struct arena *a)
{
    const size_t row = row_of(f->model);
    f->layer_inputs = arena_take(a, (size_t)f->chunk * row, sizeof(float));
    f->layer_rows = arena_take(a, (size_t)f->n_threads * row, sizeof(float));
}

struct job {
    const struct forward *f;
    const int32_t *ids;
};

/* Norms a token's projections and adds its own inputs. */
static void add_own(void *ctx, int t, int thread)
{
    const struct job *j = ctx;
    const struct forward *f = j->f;
    const struct model *m = f->model;
    const struct model_layer_inputs *p = &m->layer_inputs;
    const int all = (int)row_of(m);
    float *own = f->layer_rows + (size_t)thread * (size_t)all;
    float *x = f->layer_inputs + (size_t)t * (size_t)all;
    linear_norm(f, x, all, p->n, p->norm, true);
    kn_row(own, &p->embedding, j->ids[t]);
    linear_scale(own, sqrtf((float)p->n), all);
    f->kernels->mix(x, own, all, 1.0f, 1.0f);
    linear_scale(x, sqrtf(0.5f), all);
}

void layer_inputs_run(struct forward *f, const int32_t *ids, int n)
{
    const struct model *m = f->model;
    struct linear l = {.f = f, .x = f->x, .n = n, .scale = 1.0f / sqrtf((float)m->n_embd)};
    linear_add(&l, &m->layer_inputs.projection, NULL, f->layer_inputs, (int)row_of(m));
    linear_run(&l);
    linear_each(f, n, add_own, &(struct job){f, ids});
}

void layer_inputs_join(struct layer_step *s)
{
    struct forward *f = s->f;
    const struct model *m = f->model;
    const int n = m->layer_inputs.n;
    const size_t row = row_of(m), layer = (size_t)(s->layer - m->layers);
    struct linear l = {.f = f, .x = f->x, .n = s->n, .scale = 1.0f};
    linear_add(&l, &s->layer->input_gate, NULL, f->gate, n);
    linear_run(&l);
    for (int t = 0; t < s->n; t++) {
        float *gate = f->gate + t * n;
        const float *in = f->layer_inputs + (size_t)t * row + layer * (size_t)n;
        f->kernels->gelu_mul(gate, gate, in, n);
    }
}
