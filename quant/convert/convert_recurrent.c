#include <string.h>

#include "quant/convert/convert_parts.h"

/* Nemotron-H: a letter for each layer or, as transformers 5 saves it, a list of names. */
static int read_pattern(struct converter *c, struct err *e)
{
    static const struct {
        const char *type;
        enum layers kind;
    } types[] = {{"M", RECURRENT},    {"mamba", RECURRENT},     {"linear_attention", RECURRENT},
                 {"*", ATTENTION},    {"attention", ATTENTION}, {"full_attention", ATTENTION},
                 {"-", FEED_FORWARD}, {"mlp", FEED_FORWARD}};
    const char *pattern = json_text(c->config, "hybrid_override_pattern");
    const cJSON *list = json_member(c->config, "layers_block_type");
    const int n = pattern ? (int)strlen(pattern) : cJSON_GetArraySize(list);
    for (int i = 0; n == c->n_layer && i < n; i++) {
        const char letter[2] = {pattern ? pattern[i] : 0};
        const char *type = pattern ? letter : cJSON_GetStringValue(cJSON_GetArrayItem(list, i));
        for (size_t k = 0; type && k < sizeof types / sizeof *types; k++)
            if (!strcmp(types[k].type, type)) c->recurrent.kinds[i] = types[k].kind;
        if (!c->recurrent.kinds[i])
            return err_set(e, ERR_FORMAT,
                           "%s: hybrid_override_pattern or layers_block_type: layer %d is neither "
                           "Mamba-2 nor attention nor a feed-forward; experts are not supported",
                           c->config_path, i);
    }
    if (n == c->n_layer) return 0;
    return err_set(e, ERR_FORMAT, "%s: hybrid_override_pattern must name %d layers", c->config_path,
                   c->n_layer);
}

/* Which layers are recurrent. */
static int read_layer_types(struct converter *c, struct err *e)
{
    static const char *const attention[] = {"attention", "full_attention"};
    const cJSON *list = json_member(c->config, "layer_types"), *v;
    int i = 0, step = 4;
    if (c->family->id == NEMOTRON_H) return read_pattern(c, e);
    for (; i < c->n_layer && c->family->id == FALCON_H1; i++) c->recurrent.kinds[i] = LAYERS;
    if (c->family->id == FALCON_H1 && json_bool(c->config, "mamba_rms_norm", false) &&
        json_bool(c->config, "mamba_norm_before_gate", true))
        return err_set(e, ERR_FORMAT,
                       "%s: mamba_norm_before_gate: only models whose norm is after the gate are "
                       "supported",
                       c->config_path);
    if (c->family->id == FALCON_H1) return 0;
    if (!cJSON_IsArray(list) && c->family->id & DELTA) {
        int rc = convert_int_or(c, "full_attention_interval", LAYERS_MAX, step, &step, e);
        for (; !rc && i < c->n_layer; i++)
            c->recurrent.kinds[i] = (i + 1) % step ? RECURRENT : ATTENTION;
        return rc;
    }
    if (cJSON_GetArraySize(list) != c->n_layer)
        return err_set(e, ERR_FORMAT, "%s: layer_types must name %d layers", c->config_path,
                       c->n_layer);
    cJSON_ArrayForEach(v, list)
    {
        const char *type = cJSON_GetStringValue(v);
        bool attends = type && (!strcmp(type, attention[0]) || !strcmp(type, attention[1]));
        c->recurrent.kinds[i++] = attends ? ATTENTION : RECURRENT;
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
                                              "mamba_d_state", "mamba_d_head"},
                             *const mixer[] = {"conv_kernel", "n_groups", "mamba_num_heads",
                                               "ssm_state_size", "mamba_head_dim"};
    const char *const *names = c->family->id & DELTA         ? delta
                               : c->family->id == NEMOTRON_H ? mixer
                                                             : scan;
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
    c->dims[MIXED] = values + c->dims[CHANNELS];
    c->dims[HEADS2] = 2 * (int64_t)r->n_value;
    return 0;
}

/* Several value heads share a key head: GGUF has the first ones of all key heads, then the second
 * ones, … Not in Qwen3-Next. Of a matrix that reads the heads, the columns are in that order. */
void convert_tiles(struct converter *c, const struct convert_row *r, struct source_tensor *t)
{
    const struct recurrent_config *n = &c->recurrent;
    if (!r->tiled || n->n_value == n->n_key || c->family->id == QWEN3NEXT) return;
    const int first = r->tiled == TILED_VALUES ? 2 * n->n_key * n->key_dim : 0;
    const int per = n->n_value / n->n_key, size = r->n_out == HEADS ? 1 : n->value_dim;
    int32_t *order = source_make_order(c->s, t, t->n_dims == 1 || r->tiled == TILED_COLUMNS);
    for (int i = 0; i < first; i++) *order++ = i;
    for (int k = 0; k < per; k++)
        for (int key = 0; key < n->n_key; key++)
            for (int i = 0; i < size; i++) *order++ = first + (key * per + k) * size + i;
}

/* Qwen3-Next: the folder has the query, key, values and gates of a key head together. */
void convert_mixed(struct converter *c, const struct convert_row *r, struct source_tensor *t)
{
    const struct recurrent_config *n = &c->recurrent;
    const int values = n->n_value / n->n_key * n->value_dim;
    const int sizes[] = {n->key_dim, n->key_dim, values, values};
    const bool gates = r->half == GATES;
    t->ne[1] = c->dims[gates ? VALUES : CHANNELS];
    int32_t *order = source_make_order(c->s, t, false);
    for (int part = 0, first = 0; part < 4; first += sizes[part++])
        for (int head = 0; (part == 3) == gates && head < n->n_key; head++)
            for (int i = 0; i < sizes[part]; i++)
                *order++ = head * 2 * (n->key_dim + values) + first + i;
}

/* ---- factors --------------------------------------------------------------------------------- */

/* Falcon-H1's settings that multiply what a matrix gives or reads, by the matrix. */
static const struct {
    const char *gguf, *names[2];
    int at; /* of a list */
} factors[] = {
    {"token_embd.weight", {"embedding_multiplier"}, -1},
    {"output.weight", {"lm_head_multiplier"}, -1},
    {"attn_q.weight", {"attention_in_multiplier"}, -1},
    {"attn_k.weight", {"attention_in_multiplier", "key_multiplier"}, -1},
    {"attn_v.weight", {"attention_in_multiplier"}, -1},
    {"attn_output.weight", {"attention_out_multiplier"}, -1},
    {"ssm_in.weight", {"ssm_in_multiplier"}, -1},
    {"ssm_out.weight", {"ssm_out_multiplier"}, -1},
    {"ffn_gate.weight", {"mlp_multipliers"}, 0},
    {"ffn_down.weight", {"mlp_multipliers"}, 1},
};

/* A number of the settings, or of a list there; 1 if it is absent. */
static int read_factor(const struct converter *c, const char *name, int at, double *out,
                       struct err *e)
{
    const cJSON *v = json_member(c->config, name);
    if (at >= 0) v = cJSON_GetArrayItem(v, at);
    *out = !v || cJSON_IsNull(v) ? 1 : v->valuedouble;
    if (*out > 0 && *out < 1e6 && (!v || cJSON_IsNull(v) || cJSON_IsNumber(v))) return 0;
    return err_set(e, ERR_FORMAT, "%s: %s is not a number above 0", c->config_path, name);
}

/* The rows of ssm_in: gate, values, keys, queries and time steps have a factor each. */
static int part_factors(struct converter *c, float *out, struct err *e)
{
    const struct recurrent_config *r = &c->recurrent;
    const int values = (int)c->dims[VALUES], keys = r->n_key * r->key_dim;
    const int ends[] = {values, 2 * values, 2 * values + keys, 2 * values + 2 * keys,
                        (int)c->dims[IN]};
    double factor = 1;
    int rc = 0;
    for (int part = 0, i = 0; !rc && part < 5; part++) {
        rc = read_factor(c, "ssm_multipliers", part, &factor, e);
        for (; !rc && i < ends[part]; i++) out[i] *= (float)factor;
    }
    return rc;
}

int convert_factors(struct converter *c, struct source_tensor *t, struct err *e)
{
    const char *dot = !strncmp(t->name, "blk.", 4) ? strchr(t->name + 4, '.') : NULL;
    const char *name = dot ? dot + 1 : t->name;
    double product = 1, factor;
    size_t i = 0;
    while (i < sizeof factors / sizeof *factors && strcmp(factors[i].gguf, name)) i++;
    if (c->family->id != FALCON_H1 || i == sizeof factors / sizeof *factors) return 0;
    for (int j = 0; j < 2 && factors[i].names[j]; j++) {
        int rc = read_factor(c, factors[i].names[j], factors[i].at, &factor, e);
        if (rc) return rc;
        product *= factor;
    }
    float *rows = source_make_factors(c->s, t);
    for (int64_t r = 0; r < source_rows(t); r++) rows[r] = (float)product;
    return strcmp(name, "ssm_in.weight") ? 0 : part_factors(c, rows, e);
}

/* ---- keys ------------------------------------------------------------------------------------ */

/* A list with n for each layer of this kind, and 0 for the others. */
static void layers_key(struct converter *c, const char *suffix, enum layers kind, int64_t n)
{
    int32_t list[LAYERS_MAX];
    for (int i = 0; i < c->n_layer; i++) list[i] = c->recurrent.kinds[i] == kind ? (int32_t)n : 0;
    convert_i32s(c, suffix, list, c->n_layer);
}

static void recurrent_layers_key(struct converter *c)
{
    bool layers[LAYERS_MAX];
    const int n = c->n_layer + c->n_mtp;
    for (int i = 0; i < n; i++) layers[i] = c->recurrent.kinds[i] == RECURRENT;
    convert_bools(c, "attention.recurrent_layers", layers, n);
}

void convert_recurrent_keys(struct converter *c)
{
    const struct recurrent_config *r = &c->recurrent;
    int32_t sections[] = {11, 11, 10, 0}; /* pairs of a head by coordinate, for images */
    const cJSON *given = json_member(c->rope, "mrope_section");
    if (c->family->id & KV_HEADS_BY_LAYER)
        layers_key(c, "attention.head_count_kv", ATTENTION, c->n_kv_head);
    if (c->family->id == NEMOTRON_H)
        layers_key(c, "feed_forward_length", FEED_FORWARD, c->dims[FF]);
    if (c->family->id == LFM2) {
        convert_u32(c, "shortconv.l_cache", r->n_taps);
        return;
    }
    convert_u32(c, "ssm.conv_kernel", r->n_taps);
    convert_u32(c, "ssm.state_size", r->key_dim);
    convert_u32(c, "ssm.group_count", r->n_key);
    convert_u32(c, "ssm.time_step_rank", r->n_value);
    convert_u32(c, "ssm.inner_size", (int64_t)r->n_value * r->value_dim);
    if (c->family->id & DELTA) recurrent_layers_key(c);
    if (c->family->id == QWEN35) {
        for (int i = 0; i < 3 && cJSON_GetArraySize(given) == 3; i++)
            sections[i] = cJSON_GetArrayItem(given, i)->valueint;
        convert_i32s(c, "rope.dimension_sections", sections, 4);
    }
    if (c->family->id != GRANITE_H) return;
    const char *positions = json_text(c->config, "position_embedding_type");
    convert_bool(c, "rope.scaling.finetuned", positions && !strcmp(positions, "rope"));
}
