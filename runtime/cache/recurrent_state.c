#include "runtime/cache/recurrent_state.h"

#include <string.h>

static size_t layer_floats(const struct recurrent_state_shape *s)
{
    return (size_t)(s->n_window + s->n_matrices);
}

void recurrent_state_plan(struct recurrent_state *s, const struct recurrent_state_shape *shape,
                          struct arena *a)
{
    const size_t n = (size_t)shape->n_layer;
    *s = (struct recurrent_state){.shape = *shape};
    if (n == 0) return;
    s->layers = arena_take(a, n * layer_floats(shape), sizeof(float));
    s->hidden = arena_take(a, (size_t)shape->n_hidden, sizeof(float));
    s->step = arena_take(a, n * (size_t)shape->n_step, sizeof(float));
    recurrent_state_clear(s);
}

void recurrent_state_clear(struct recurrent_state *s)
{
    const struct recurrent_state_shape *h = &s->shape;
    if (!s->layers) return;
    memset(s->layers, 0, (size_t)h->n_layer * layer_floats(h) * sizeof *s->layers);
    memset(s->hidden, 0, (size_t)h->n_hidden * sizeof *s->hidden);
    memset(s->step, 0, recurrent_state_step_bytes(s));
    s->changed = true;
}

float *recurrent_state_window(const struct recurrent_state *s, int layer)
{
    return s->layers + (size_t)layer * layer_floats(&s->shape);
}

float *recurrent_state_matrices(const struct recurrent_state *s, int layer)
{
    return recurrent_state_window(s, layer) + s->shape.n_window;
}

float *recurrent_state_step(const struct recurrent_state *s, int layer)
{
    return s->step + (size_t)layer * (size_t)s->shape.n_step;
}

size_t recurrent_state_layer_bytes(const struct recurrent_state *s)
{
    return (size_t)s->shape.n_layer * layer_floats(&s->shape) * sizeof(float);
}

size_t recurrent_state_bytes(const struct recurrent_state *s)
{
    return recurrent_state_layer_bytes(s) + (size_t)s->shape.n_hidden * sizeof(float);
}

size_t recurrent_state_step_bytes(const struct recurrent_state *s)
{
    return (size_t)s->shape.n_layer * (size_t)s->shape.n_step * sizeof(float);
}
