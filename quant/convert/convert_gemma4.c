/* Gemma 4: layers with and without windows have heads of other sizes and numbers; the last layers
 * may use the keys and values of earlier ones, with wider feed-forwards. */
#include <stdio.h>

#include "quant/convert/convert_parts.h"

/* A number of layers without windows: a member of its own, or that of the first such layer in
 * per_layer_config; otherwise it stays. */
static int read_global(const struct converter *c, const char *own, const char *name, int max,
                       int *out, struct err *e)
{
    char layer[16];
    int64_t v = *out;
    int first = 0;
    while (first < c->n_layer && c->windowed.layers[first]) first++;
    snprintf(layer, sizeof layer, "%d", first);
    const cJSON *config = json_member(json_member(c->config, "per_layer_config"), layer);
    const cJSON *found = json_member(c->config, own);
    if (!found || cJSON_IsNull(found)) found = json_member(config, name);
    if (found && !cJSON_IsNull(found) && !json_is_int(found, 1, max, &v))
        return err_set(e, ERR_FORMAT, "%s: %s is not a number from 1 to %d", c->config_path, own,
                       max);
    *out = (int)v;
    return 0;
}

/* The numbers of layers with windows are known. */
int convert_gemma4(struct converter *c, struct err *e)
{
    struct windowed_config *w = &c->windowed;
    int64_t n_inputs = 0, n_shared = 0;
    w->n_kv_head = c->n_kv_head;
    w->head_dim = c->head_dim;
    int rc = read_global(c, "global_head_dim", "head_dim", 1024, &c->head_dim, e);
    if (!rc)
        rc = read_global(c, "num_global_key_value_heads", "num_key_value_heads", c->n_head,
                         &c->n_kv_head, e);
    json_int(c->config, "num_kv_shared_layers", 0, c->n_layer - 1, &n_shared);
    json_int(c->config, "hidden_size_per_layer_input", 0, 1 << 16, &n_inputs);
    w->n_shared = (int)n_shared;
    w->doubles_feed_forward = json_bool(c->config, "use_double_wide_mlp", false);
    c->dims[INPUT] = n_inputs;
    c->dims[INPUTS] = n_inputs * c->n_layer;
    return rc;
}

static bool is_shared(const struct converter *c, int layer)
{
    return layer >= c->n_layer - c->windowed.n_shared;
}

void convert_gemma4_layer(struct converter *c, int layer)
{
    const bool windowed = c->windowed.layers[layer];
    const int64_t head_dim = windowed ? c->windowed.head_dim : c->head_dim;
    const bool wide = c->windowed.doubles_feed_forward && is_shared(c, layer);
    int64_t n_ff = 0;
    json_int(c->config, "intermediate_size", 1, INT32_MAX, &n_ff);
    c->dims[HEAD] = head_dim;
    c->dims[Q] = c->n_head * head_dim;
    c->dims[KV] = (windowed ? c->windowed.n_kv_head : c->n_kv_head) * head_dim;
    c->dims[FF] = wide ? 2 * n_ff : n_ff;
}

void convert_gemma4_keys(struct converter *c)
{
    const struct windowed_config *w = &c->windowed;
    int32_t heads[LAYERS_MAX], n_ff[LAYERS_MAX];
    for (int i = 0; i < c->n_layer; i++) {
        heads[i] = w->layers[i] ? w->n_kv_head : c->n_kv_head;
        n_ff[i] = (int32_t)c->dims[FF] * (is_shared(c, i) ? 2 : 1);
    }
    convert_i32s(c, "attention.head_count_kv", heads, c->n_layer);
    if (w->doubles_feed_forward)
        convert_i32s(c, "feed_forward_length", n_ff, c->n_layer);
    else
        convert_u32(c, "feed_forward_length", c->dims[FF]);
    convert_u32(c, "attention.key_length_swa", w->head_dim);
    convert_u32(c, "attention.value_length_swa", w->head_dim);
    convert_u32(c, "rope.dimension_count_swa", w->head_dim);
    convert_u32(c, "attention.shared_kv_layers", w->n_shared);
    convert_u32(c, "embedding_length_per_layer_input", c->dims[INPUT]);
}
