#include "quant/heads/heads_linear.h"

#include <string.h>

#include "quant/heads/heads_file.h"

static size_t n_heads(const struct model *m)
{
    return (size_t)m->n_kv_layer * (size_t)m->n_kv_head;
}

static size_t n_sizes(const struct model *m)
{
    return (size_t)m->n_kv_layer * (size_t)model_n_qkv(m);
}

void heads_linear_plan(struct heads_linear *l, const struct model *m, struct arena *a)
{
    *l = (struct heads_linear){.model = m, .n_unit = 2 * m->head_dim};
    l->weight = arena_take(a, n_heads(m) * (size_t)l->n_unit, sizeof *l->weight);
    l->mean = arena_take(a, n_heads(m), sizeof *l->mean);
    l->std = arena_take(a, n_heads(m), sizeof *l->std);
    for (size_t i = 0; l->std && i < n_heads(m); i++) l->std[i] = 1;
    l->size = arena_take(a, n_sizes(m), sizeof *l->size);
}

void heads_linear_copy(struct heads_linear *to, const struct heads_linear *from)
{
    const size_t n = n_heads(to->model);
    memcpy(to->weight, from->weight, n * (size_t)to->n_unit * sizeof *to->weight);
    memcpy(to->mean, from->mean, n * sizeof *to->mean);
    memcpy(to->size, from->size, n_sizes(to->model) * sizeof *to->size);
}

void heads_linear_row(const struct heads_linear *l, int layer, enum retaining_part part, int r,
                      float *out)
{
    const struct model *m = l->model;
    const int dim = m->head_dim, head = r / HEADS_LINEAR_SIDES;
    if (part == RETAINING_W2) {
        memset(out, 0, (size_t)(HEADS_LINEAR_SIDES * m->n_kv_head) * sizeof *out);
        out[HEADS_LINEAR_SIDES * r] = 1;
        out[HEADS_LINEAR_SIDES * r + 1] = -1;
        return;
    }
    const float *w = l->weight + (layer * m->n_kv_head + head) * l->n_unit;
    const float side = r % HEADS_LINEAR_SIDES ? -1 : 1;
    memset(out, 0, (size_t)model_n_qkv(m) * sizeof *out);
    for (int i = 0; i < dim; i++) {
        out[(m->n_head + head) * dim + i] = side * w[i];
        out[(m->n_head + m->n_kv_head + head) * dim + i] = side * w[dim + i];
    }
}

static int row_of(void *ctx, int layer, enum retaining_part part, int r, float *out, struct err *e)
{
    (void)e;
    heads_linear_row(ctx, layer, part, r, out);
    return 0;
}

int heads_linear_write(const struct heads_linear *l, const char *path, bool force, char hex[65],
                       struct err *e)
{
    const struct model *m = l->model;
    struct heads_linear own = *l;
    struct heads_file file = {
        .model = m,
        .shape = {RETAINING_SILU, m->n_kv_layer, model_n_qkv(m), HEADS_LINEAR_SIDES * m->n_kv_head,
                  m->n_kv_head, 0, 0},
        .settings = {-1, -1, -1, -1},
        .n_unit = l->n_unit,
        .label = "share",
        .mean = l->mean,
        .std = l->std,
        .row = row_of,
        .ctx = &own,
    };
    return heads_file_write(&file, path, force, hex, e);
}
