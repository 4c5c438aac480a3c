#include "runtime/model/windows.h"

#include <math.h>

#include "runtime/model/family.h"

#define UNITS_MAX (1 << 20)

/* The layers are listed, or every step-th has no window. */
static int choose_layers(struct model *m, int step, struct err *e)
{
    static const char pattern[] = "attention.sliding_window_pattern";
    struct gguf_array list;
    int n_windowed = 0;
    bool listed = model_get_layers(m, pattern, &list);
    int rc = model_get_optional(m, pattern, 1, MODEL_LAYERS_MAX, &step, e);
    for (int i = 0; !rc && i < m->n_layer; i++) {
        struct model_layer *l = &m->layers[i];
        l->is_windowed =
            listed ? gguf_array_i32(&list, (size_t)i) != 0 : step && (i + 1) % step != 0;
        n_windowed += l->is_windowed;
    }
    if (!rc && n_windowed == m->n_layer)
        return err_set(e, ERR_FORMAT,
                       "%s: all layers have windows of %d positions; such models cannot be run",
                       gguf_name(m->file), m->windowed.n_units);
    return rc;
}

/* Layers with windows may have other numbers of KV heads, all of them the same. */
static int read_kv_heads(struct model *m, struct err *e)
{
    struct gguf_array list;
    int *const kinds[] = {&m->n_kv_head, &m->windowed.n_kv_head};
    m->windowed.n_kv_head = m->n_kv_head;
    if (!model_get_layers(m, "attention.head_count_kv", &list)) return 0;
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < m->n_layer; i++) {
            int n = gguf_array_i32(&list, (size_t)i), *kind = kinds[m->layers[i].is_windowed];
            if (pass && (n != *kind || n < 1 || m->n_head % n))
                return err_set(e, ERR_FORMAT, "%s: layer %d has %d KV heads, expected %d",
                               gguf_name(m->file), i, n, *kind);
            *kind = n;
        }
    return 0;
}

/* A number of heads of layers with windows, if it differs. */
static int get_other(const struct model *m, const char *suffix, int *out, struct err *e)
{
    const int before = *out;
    int rc = model_get_optional(m, suffix, 2, KN_HEAD_DIM_MAX, out, e);
    if (rc || *out == before || *out % 2 == 0) return rc;
    return err_set(e, ERR_FORMAT, "%s: %s.%s is %d, expected an even number", gguf_name(m->file),
                   m->arch, suffix, *out);
}

static int read_heads(struct model *m, struct err *e)
{
    struct model_windowed *w = &m->windowed;
    const bool plain = m->family->windows->plain;
    float base = 10000.0f;
    int n_value, n_rot;
    w->head_dim = m->head_dim;
    int rc = get_other(m, "attention.key_length_swa", &w->head_dim, e);
    n_value = w->head_dim;
    if (!rc) rc = get_other(m, "attention.value_length_swa", &n_value, e);
    if (!rc && n_value != w->head_dim)
        rc = err_set(e, ERR_FORMAT, "%s: keys of %d and values of %d numbers are not supported",
                     gguf_name(m->file), w->head_dim, n_value);
    n_rot = m->rope.n_rot < w->head_dim ? m->rope.n_rot : w->head_dim;
    if (!rc) rc = get_other(m, "rope.dimension_count_swa", &n_rot, e);
    if (!rc) rc = model_get_scale(m, "rope.freq_base", &base, e);
    if (m->family->windows->rope_base != 0.0f) base = m->family->windows->rope_base;
    if (!rc) rc = model_get_scale(m, "rope.freq_base_swa", &base, e);
    if (rc) return rc;
    if (n_rot > w->head_dim || base <= 1.0f)
        return err_set(e, ERR_FORMAT,
                       "%s: %d numbers of a head of %d cannot be rotated with frequency base %g",
                       gguf_name(m->file), n_rot, w->head_dim, (double)base);
    rc = plain ? rope_init_plain(&w->rope, n_rot, w->head_dim, base, e)
               : rope_init(&w->rope, m, w->head_dim, e);
    w->attn_scale = w->rope.magnitude * w->rope.magnitude / sqrtf((float)w->head_dim);
    return rc;
}

int windows_read(struct model *m, struct err *e)
{
    m->windowed.n_units = m->family->windows->n_units;
    int rc =
        model_get_optional(m, "attention.sliding_window", 0, UNITS_MAX, &m->windowed.n_units, e);
    m->window = m->n_ctx; /* windows are applied */
    if (rc || m->windowed.n_units == 0) return rc;
    rc = choose_layers(m, m->family->windows->step, e);
    if (!rc) rc = read_kv_heads(m, e);
    return rc ? rc : read_heads(m, e);
}
