#include "base/arena.h"
#include "runtime/model/blocks.h"
#include "runtime/model/model.h"

/* The layer that an item belongs to; -1: none, as the embedding. */
static int layer_of(const struct model *m, const struct model_load_item *it)
{
    const void *p = it->weight ? (const void *)it->weight : (const void *)it->vector;
    const uintptr_t at = (uintptr_t)p, first = (uintptr_t)m->layers;
    if (at < first || at >= (uintptr_t)(m->layers + m->n_layer)) return -1;
    return (int)((at - first) / sizeof *m->layers);
}

bool model_on_device(const struct model *m, const struct model_load_item *it)
{
    const int layer = layer_of(m, it);
    if (layer < 0) return m->n_device > m->n_layer;
    return layer < m->n_device && (it->n_stack == 1 || layer < m->n_device_experts);
}

void model_place(struct model *m, int n, int n_experts)
{
    m->n_device = n;
    m->n_device_experts = n_experts;
    for (int i = 0; i < m->n_items && !m->as_f32; i++) {
        const struct model_load_item *it = &m->items[i];
        if (it->weight && !it->n_transposed)
            it->weight->type = blocks_kernel_type(it->tensor->type, model_on_device(m, it));
    }
}

bool model_experts_on_host(const struct model *m, int layer)
{
    return m->layers[layer].experts.n > 1 && layer < m->n_device && layer >= m->n_device_experts;
}

int model_n_host_experts(const struct model *m)
{
    int n = 0;
    for (int i = 0; i < m->n_layer; i++) n += model_experts_on_host(m, i);
    return n;
}

size_t model_host_experts_bytes(const struct model *m)
{
    struct arena a;
    arena_init_plan(&a, "experts");
    for (int i = 0; i < m->n_items; i++) {
        const struct model_load_item *it = &m->items[i];
        const struct kn_weight *w = it->weight;
        if (it->n_stack == 1 || model_on_device(m, it)) continue;
        arena_take(&a, w ? kn_weight_bytes(w->type, w->n_out, w->n_in) : (size_t)it->n,
                   w ? 1 : sizeof(float));
    }
    return a.used;
}

struct model_counts model_count_layers(const struct model *m, int n)
{
    struct model_counts c = {0};
    for (int i = 0; i < n; i++) {
        const struct model_layer *l = &m->layers[i];
        const bool has_units = !l->no_attention && !l->shares_kv;
        c.n_kv += has_units && !l->is_windowed;
        c.n_windowed += has_units && l->is_windowed;
        c.n_recurrent += l->is_recurrent;
    }
    return c;
}
