#include <stdio.h>
#include <string.h>

#include "quant/convert/convert_parts.h"
#include "runtime/model/gguf.h"

/* Which layers are recurrent. */
static int read_layer_types(struct converter *c, struct err *e)
{
    static const char *const attention[] = {"attention", "full_attention"};
    const cJSON *list = json_member(c->config, "layer_types"), *v;
    int i = 0, step = 4;
    if (!cJSON_IsArray(list) && c->family->id == QWEN35) {
        int rc = convert_int_or(c, "full_attention_interval", LAYERS_MAX, step, &step, e);
        for (; !rc && i < c->n_layer; i++) c->recurrent.layers[i] = (i + 1) % step != 0;
        return rc;
    }
    if (cJSON_GetArraySize(list) != c->n_layer)
        return err_set(e, ERR_FORMAT, "%s: layer_types must name %d layers", c->config_path,
                       c->n_layer);
    cJSON_ArrayForEach(v, list)
    {
        const char *type = cJSON_GetStringValue(v);
        bool attends = type && (!strcmp(type, attention[0]) || !strcmp(type, attention[1]));
        c->recurrent.layers[i++] = !attends;
    }
    return 0;
}

/* Names of the numbers of recurrent layers. */
int convert_recurrent(struct converter *c, struct err *e)
{
    static const char *const delta[] = {"linear_conv_kernel_dim", "linear_num_key_heads",
                                        "linear_num_value_heads", "linear_key_head_dim",
                                        "linear_value_head_dim"},
                             *const scan[] = {"mamba_d_conv", "mamba_n_groups", "mamba_n_heads",
                                              "mamba_d_state", "mamba_d_head"};
    const char *const *names = c->family->id == QWEN35 ? delta : scan;
    struct recurrent_config *r = &c->recurrent;
    const int big = 1 << 16;
    int rc = read_layer_types(c, e);
    if (c->family->id == LFM2) {
        if (!rc) rc = convert_int(c, "conv_L_cache", 64, &r->n_taps, e);
        c->dims[TAPS] = r->n_taps;
        c->dims[EMBD3] = 3 * c->dims[EMBD];
        return rc;
    }
    int *const numbers[] = {&r->n_taps, &r->n_key, &r->n_value, &r->key_dim, &r->value_dim};
    for (size_t i = 0; !rc && i < 5; i++) rc = convert_int(c, names[i], big, numbers[i], e);
    if (rc) return rc;
    if (r->n_value % r->n_key)
        return err_set(e, ERR_FORMAT, "%s: %d heads do not share %d key heads evenly",
                       c->config_path, r->n_value, r->n_key);
    const int64_t values = (int64_t)r->n_value * r->value_dim;
    c->dims[TAPS] = r->n_taps;
    c->dims[CHANNELS] = values + 2 * (int64_t)r->n_key * r->key_dim;
    c->dims[VALUES] = values;
    c->dims[HEADS] = r->n_value;
    c->dims[VALUE] = r->value_dim;
    c->dims[IN] = values + c->dims[CHANNELS] + r->n_value;
    return 0;
}

/* How GGUF orders the value heads of a tensor: only where several share a key head. */
struct source_tiles convert_tiles(const struct converter *c, const struct convert_row *r)
{
    const struct recurrent_config *n = &c->recurrent;
    if (!r->tiled || n->n_value == n->n_key) return (struct source_tiles){0};
    const bool heads = r->n_out == HEADS;
    return (struct source_tiles){
        .groups = n->n_key,
        .per = n->n_value / n->n_key,
        .size = heads ? 1 : n->value_dim,
        .first = r->tiled == TILED_VALUES ? 2 * n->n_key * n->key_dim : 0,
        .columns = r->tiled == TILED_COLUMNS,
    };
}

/* ---- keys ------------------------------------------------------------------------------------ */

/* A number for each layer, 0 for recurrent ones. */
static void kv_heads_key(struct converter *c)
{
    char key[96];
    int32_t heads[LAYERS_MAX];
    for (int i = 0; i < c->n_layer; i++) heads[i] = c->recurrent.layers[i] ? 0 : c->n_kv_head;
    snprintf(key, sizeof key, "%s.attention.head_count_kv", c->family->arch);
    gguf_keys_array(&c->s->keys, key, GGUF_I32, (uint64_t)c->n_layer, heads,
                    (size_t)c->n_layer * sizeof *heads);
}

static void recurrent_layers_key(struct converter *c)
{
    bool layers[LAYERS_MAX];
    for (int i = 0; i < c->n_layer; i++) layers[i] = c->recurrent.layers[i];
    gguf_keys_array(&c->s->keys, "qwen35.attention.recurrent_layers", GGUF_BOOL,
                    (uint64_t)c->n_layer, layers, (size_t)c->n_layer);
}

void convert_recurrent_keys(struct converter *c)
{
    const struct recurrent_config *r = &c->recurrent;
    int32_t sections[] = {11, 11, 10, 0}; /* pairs of a head by coordinate, for images */
    const cJSON *given = json_member(c->rope, "mrope_section");
    if (c->family->id != QWEN35) kv_heads_key(c);
    if (c->family->id == LFM2) {
        convert_u32(c, "shortconv.l_cache", r->n_taps);
        return;
    }
    convert_u32(c, "ssm.conv_kernel", r->n_taps);
    convert_u32(c, "ssm.state_size", r->key_dim);
    convert_u32(c, "ssm.group_count", r->n_key);
    convert_u32(c, "ssm.time_step_rank", r->n_value);
    convert_u32(c, "ssm.inner_size", (int64_t)r->n_value * r->value_dim);
    if (c->family->id == QWEN35) {
        for (int i = 0; i < 3 && cJSON_GetArraySize(given) == 3; i++)
            sections[i] = cJSON_GetArrayItem(given, i)->valueint;
        recurrent_layers_key(c);
        gguf_keys_array(&c->s->keys, "qwen35.rope.dimension_sections", GGUF_I32, 4, sections,
                        sizeof sections);
        return;
    }
    const char *positions = json_text(c->config, "position_embedding_type");
    gguf_keys_bool(&c->s->keys, "granitehybrid.rope.scaling.finetuned",
                   positions && !strcmp(positions, "rope"));
}
