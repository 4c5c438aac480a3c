#include "quant/heads/heads_source.h"

#include <stdio.h>
#include <string.h>

#define SIDE_MAX 65536 /* hidden numbers, rank, base keys */

static const struct heads_source sources[] = {
    {.author = "Locret (arXiv 2410.01805)",
     .form = RETAINING_SILU,
     .pieces = {{RETAINING_W1, "model.layers.%d.self_attn.fc1.weight"},
                {RETAINING_W2, "model.layers.%d.self_attn.fc2.weight"}}},
    {.author = "KVzap (arXiv 2601.07891)",
     .form = RETAINING_GELU,
     .compares = true,
     .pieces = {{RETAINING_W1, "layers.%d.0.weight"},
                {RETAINING_BIAS1, "layers.%d.0.bias"},
                {RETAINING_W2, "layers.%d.2.weight"},
                {RETAINING_BIAS2, "layers.%d.2.bias"}}},
    {.author = "KVzap (arXiv 2601.07891)",
     .form = RETAINING_LINEAR,
     .compares = true,
     .pieces = {{RETAINING_W1, "layers.%d.weight"}, {RETAINING_BIAS1, "layers.%d.bias"}}},
    {.author = "Fast KVzip (arXiv 2601.17668)",
     .form = RETAINING_GATE,
     .compares = true,
     .pieces = {{RETAINING_W1, "module.%d.q_proj.weight"},
                {RETAINING_W1, "module.%d.k_proj.weight"},
                {RETAINING_BIAS1, "module.%d.q_proj.bias"},
                {RETAINING_NORMS, "module.%d.q_norm.weight"},
                {RETAINING_NORMS, "module.%d.k_norm.weight"},
                {RETAINING_BASE, "module.%d.k_base"},
                {RETAINING_BIAS2, "module.%d.b"}}},
};
#define N_SOURCES (sizeof sources / sizeof *sources)

static const struct safetensors_tensor *find(const struct heads_tensors *t,
                                             const struct heads_source *s, int piece, int layer)
{
    char name[80];
    snprintf(name, sizeof name, s->pieces[piece].name, layer);
    return safetensors_find(t->safetensors, name);
}

const struct heads_source *heads_source_of(const struct heads_tensors *t, struct err *e)
{
    for (size_t i = 0; i < N_SOURCES; i++)
        if (find(t, &sources[i], 0, 0)) return &sources[i];
    err_set(e, ERR_FORMAT,
            "%s holds no retaining heads: it has neither model.layers.0.self_attn.fc1.weight "
            "(Locret) nor layers.0.weight or layers.0.0.weight (KVzap) nor "
            "module.0.q_proj.weight (Fast KVzip)",
            t->path);
    return NULL;
}

/* ---- shapes ---------------------------------------------------------------------------------- */

/* Size i of a piece of the first layer; 0: it is missing or has fewer dimensions. */
static int side(const struct heads_source *s, const struct heads_tensors *t, int piece, int i)
{
    const struct safetensors_tensor *x = find(t, s, piece, 0);
    return x && i < x->n_dims && x->shape[i] <= SIDE_MAX ? (int)x->shape[i] : 0;
}

int heads_source_shape(const struct heads_source *s, const struct heads_tensors *t,
                       const struct model *m, struct retaining_shape *out, struct err *e)
{
    *out = (struct retaining_shape){.form = s->form,
                                    .n_layer = m->n_kv_layer,
                                    .n_in = retaining_n_in(s->form, m),
                                    .n_hidden = side(s, t, 0, 0),
                                    .n_head = m->n_kv_head};
    if (s->form == RETAINING_LINEAR) out->n_hidden = out->n_head;
    if (s->form == RETAINING_GATE) {
        out->n_rank = side(s, t, 3, 0);
        out->n_base = side(s, t, 5, 2);
        out->n_hidden = out->n_rank * (m->n_head + m->n_kv_head);
    }
    if (out->n_hidden < 1 || (s->form == RETAINING_GATE && out->n_base < 1))
        return err_set(e, ERR_FORMAT, "%s: the tensors of layer 0 do not have the shapes of %s",
                       t->path, s->author);
    if (find(t, s, 0, m->n_kv_layer))
        return err_set(e, ERR_FORMAT,
                       "%s holds heads for more layers than the %d in which %s evicts units",
                       t->path, m->n_kv_layer, m->name);
    return 0;
}

/* Rows of a piece: those of its part, but for the pieces that share one. */
static int rows_of(const struct heads_source *s, const struct retaining_shape *shape, int i,
                   int n_rows)
{
    int keys = shape->n_head * shape->n_rank;
    if (s->form != RETAINING_GATE) return n_rows;
    if (s->pieces[i].part == RETAINING_NORMS) return 1;
    return s->pieces[i].part != RETAINING_W1 ? n_rows : i == 0 ? n_rows - keys : keys;
}

int heads_source_bind(const struct heads_source *s, const struct heads_tensors *t,
                      const struct retaining_shape *shape, const struct model *m, int layer, int i,
                      const struct safetensors_tensor **out, struct err *e)
{
    const struct safetensors_tensor *x = find(t, s, i, layer);
    int n_rows, n_columns;
    int64_t n = 1;
    char name[80];
    retaining_part_shape(shape, s->pieces[i].part, &n_rows, &n_columns);
    n_rows = rows_of(s, shape, i, n_rows);
    for (int k = 0; x && k + 1 < x->n_dims; k++) n *= x->shape[k];
    *out = x;
    if (x && x->n_dims > 0 && n == n_rows && x->shape[x->n_dims - 1] == n_columns) return 0;
    snprintf(name, sizeof name, s->pieces[i].name, layer);
    return err_set(e, ERR_FORMAT, "%s: %s is missing or not %d x %d, as %s needs it", t->path, name,
                   n_rows, n_columns, m->name);
}

/* ---- settings -------------------------------------------------------------------------------- */

/* Locret: its scripts for InfiniteBench and L-Eval. KVzap: the window of its examples; it has a
 * threshold instead of a budget. Fast KVzip: keeps the newest 4,096 units, and 4 sinks. */
struct retaining_settings heads_source_settings(const struct heads_source *s, const struct model *m)
{
    switch (s->form) {
    case RETAINING_SILU:
        return m->n_kv_head == m->n_head ? (struct retaining_settings){6000, 2500, 0, 3072}
                                         : (struct retaining_settings){16384, 2500, 0, 1024};
    case RETAINING_GATE: return (struct retaining_settings){-1, 4096, 4, -1};
    default: return (struct retaining_settings){-1, 128, -1, -1};
    }
}
