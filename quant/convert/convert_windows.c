/* The keys of families with windows. */
#include <math.h>
#include <string.h>

#include "quant/convert/convert_parts.h"

int convert_windows(struct converter *c, struct err *e)
{
    const cJSON *list = json_member(c->config, "layer_types"), *type;
    int n = 0;
    if (!cJSON_IsArray(list) && c->family->id != GEMMA4) return 0;
    if (cJSON_GetArraySize(list) != c->n_layer)
        return err_set(e, ERR_FORMAT, "%s: layer_types must name %d layers", c->config_path,
                       c->n_layer);
    cJSON_ArrayForEach(type, list)
    {
        const char *name = cJSON_GetStringValue(type);
        c->windowed.layers[n] = name && !strcmp(name, "sliding_attention");
        if (!c->windowed.layers[n++] && (!name || strcmp(name, "full_attention")))
            return err_set(e, ERR_FORMAT, "%s: layer_types[%d] is not known", c->config_path,
                           n - 1);
    }
    return 0;
}

void convert_windows_keys(struct converter *c)
{
    static const char *const caps[] = {"attn_logit_softcapping", "final_logit_softcapping"};
    double v;
    int64_t window;
    for (size_t i = 0; i < 2; i++)
        if (json_number(c->config, caps[i], &v) && v > 0) convert_f32(c, caps[i], v);
    if (json_number(c->config, "query_pre_attn_scalar", &v) && v > 0 && v != c->head_dim)
        convert_f32(c, "attention.scale", 1 / sqrt(v));
    if (json_number(c->rope_windowed, "rope_theta", &v) ||
        json_number(c->config, "rope_local_base_freq", &v))
        convert_f32(c, "rope.freq_base_swa", v);
    if (json_number(c->config, "logit_scale", &v)) convert_f32(c, "logit_scale", v);
    if (json_int(c->config, "sliding_window", 1, INT32_MAX, &window) &&
        cJSON_IsArray(json_member(c->config, "layer_types")))
        convert_bools(c, "attention.sliding_window_pattern", c->windowed.layers, c->n_layer);
}
