#include "quant/convert/convert.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "quant/convert/convert_vocab.h"
#include "quant/convert/json.h"
#include "quant/convert/safetensors.h"

#define LAYERS_MAX  256 /* the runtime's limit */
#define PART_PREFIX "language_model."

/* ---- families -------------------------------------------------------------------------------- */

enum {
    LLAMA = 1 << 0,
    QWEN2 = 1 << 1,
    QWEN3 = 1 << 2,
    PHI3 = 1 << 3,
    MINICPM = 1 << 4,
    GRANITE = 1 << 5,
    OLMO2 = 1 << 6,
    SMOLLM3 = 1 << 7,
    MISTRAL3 = 1 << 8,
    ERNIE4_5 = 1 << 9,
    SEED_OSS = 1 << 10,
    GLM4 = 1 << 11,
    ALL = (1 << 12) - 1,
    NORMS_BEFORE = ALL & ~OLMO2,
    /* biases of all matrices, if the config sets them */
    BIASES = LLAMA | GRANITE | SMOLLM3 | ERNIE4_5 | SEED_OSS,
    QKV_BIASES = BIASES | OLMO2 | QWEN2 | QWEN3 | GLM4,
    GATE_AND_UP = ALL & ~PHI3 & ~GLM4, /* two tensors */
};

static const struct family {
    const char *name; /* config.json's "architectures" */
    const char *arch; /* general.architecture */
    unsigned id;
    bool pairs; /* GGUF has rows of Q and K in neighbouring-pair order, the folder does not */
    /* The language model is one part of several: its settings are in text_config, its tensors have
     * a prefix. */
    bool in_part;
} families[] = {
    {"LlamaForCausalLM", "llama", LLAMA, true, false},
    {"MistralForCausalLM", "llama", LLAMA, true, false},
    {"Qwen2ForCausalLM", "qwen2", QWEN2, false, false},
    {"Qwen3ForCausalLM", "qwen3", QWEN3, false, false},
    {"Phi3ForCausalLM", "phi3", PHI3, false, false},
    {"MiniCPMForCausalLM", "minicpm", MINICPM, true, false},
    {"GraniteForCausalLM", "granite", GRANITE, true, false},
    {"Olmo2ForCausalLM", "olmo2", OLMO2, false, false},
    {"SmolLM3ForCausalLM", "smollm3", SMOLLM3, true, false},
    {"Ministral3ForCausalLM", "mistral3", MISTRAL3, true, false},
    {"Mistral3ForConditionalGeneration", "mistral3", MISTRAL3, true, true},
    {"Ernie4_5ForCausalLM", "ernie4_5", ERNIE4_5, false, false},
    {"SeedOssForCausalLM", "seed_oss", SEED_OSS, false, false},
    {"Glm4ForCausalLM", "glm4", GLM4, false, false},
};
#define N_FAMILIES (sizeof families / sizeof *families)

/* Sizes of a shape, by name. */
enum dim { ONE, VOCAB, EMBD, Q, KV, QKV, FF, FF2, HEAD, DIMS };

/* Tensor names: those of a layer follow "model.layers.N." and "blk.N.". A row with n_in = ONE is a
 * vector. */
static const struct row {
    const char *hf, *gguf;
    enum dim n_out, n_in;
    unsigned needed, allowed; /* bits of families */
    bool in_layer;
} rows[] = {
    {"model.embed_tokens.weight", "token_embd.weight", VOCAB, EMBD, ALL, ALL, false},
    {"model.norm.weight", "output_norm.weight", EMBD, ONE, ALL, ALL, false},
    {"lm_head.weight", "output.weight", VOCAB, EMBD, 0, ALL, false},
    {"input_layernorm.weight", "attn_norm.weight", EMBD, ONE, NORMS_BEFORE, NORMS_BEFORE, true},
    {"self_attn.q_proj.weight", "attn_q.weight", Q, EMBD, ALL & ~PHI3, ALL & ~PHI3, true},
    {"self_attn.q_proj.bias", "attn_q.bias", Q, ONE, QWEN2, QKV_BIASES, true},
    {"self_attn.k_proj.weight", "attn_k.weight", KV, EMBD, ALL & ~PHI3, ALL & ~PHI3, true},
    {"self_attn.k_proj.bias", "attn_k.bias", KV, ONE, QWEN2, QKV_BIASES, true},
    {"self_attn.v_proj.weight", "attn_v.weight", KV, EMBD, ALL & ~PHI3, ALL & ~PHI3, true},
    {"self_attn.v_proj.bias", "attn_v.bias", KV, ONE, QWEN2, QKV_BIASES, true},
    {"self_attn.qkv_proj.weight", "attn_qkv.weight", QKV, EMBD, PHI3, PHI3, true},
    {"self_attn.q_norm.weight", "attn_q_norm.weight", HEAD, ONE, QWEN3, QWEN3, true},
    {"self_attn.k_norm.weight", "attn_k_norm.weight", HEAD, ONE, QWEN3, QWEN3, true},
    {"self_attn.q_norm.weight", "attn_q_norm.weight", Q, ONE, OLMO2, OLMO2, true},
    {"self_attn.k_norm.weight", "attn_k_norm.weight", KV, ONE, OLMO2, OLMO2, true},
    {"self_attn.o_proj.weight", "attn_output.weight", EMBD, Q, ALL, ALL, true},
    {"self_attn.o_proj.bias", "attn_output.bias", EMBD, ONE, 0, BIASES | OLMO2 | QWEN3, true},
    {"post_attention_layernorm.weight", "ffn_norm.weight", EMBD, ONE, NORMS_BEFORE & ~SEED_OSS,
     NORMS_BEFORE & ~SEED_OSS, true},
    {"post_attention_layernorm.weight", "post_attention_norm.weight", EMBD, ONE, SEED_OSS, SEED_OSS,
     true},
    {"post_self_attn_layernorm.weight", "post_attention_norm.weight", EMBD, ONE, GLM4, GLM4, true},
    {"post_mlp_layernorm.weight", "post_ffw_norm.weight", EMBD, ONE, GLM4, GLM4, true},
    {"post_attention_layernorm.weight", "post_attention_norm.weight", EMBD, ONE, OLMO2, OLMO2,
     true},
    {"post_feedforward_layernorm.weight", "post_ffw_norm.weight", EMBD, ONE, OLMO2, OLMO2, true},
    {"mlp.gate_proj.weight", "ffn_gate.weight", FF, EMBD, GATE_AND_UP, GATE_AND_UP, true},
    {"mlp.gate_proj.bias", "ffn_gate.bias", FF, ONE, 0, BIASES, true},
    {"mlp.up_proj.weight", "ffn_up.weight", FF, EMBD, GATE_AND_UP, GATE_AND_UP, true},
    {"mlp.up_proj.bias", "ffn_up.bias", FF, ONE, 0, BIASES, true},
    {"mlp.gate_up_proj.weight", "ffn_up.weight", FF2, EMBD, PHI3 | GLM4, PHI3 | GLM4, true},
    {"mlp.down_proj.weight", "ffn_down.weight", EMBD, FF, ALL, ALL, true},
    {"mlp.down_proj.bias", "ffn_down.bias", EMBD, ONE, 0, BIASES, true},
};
#define N_ROWS (sizeof rows / sizeof *rows)

struct converter {
    struct source *s;
    cJSON *root;         /* config.json */
    const cJSON *config; /* the language model's settings in it */
    const cJSON *rope;   /* rope_parameters or rope_scaling, or NULL */
    char config_path[1024];
    const struct family *family;
    int n_layer, n_head, n_kv_head, head_dim, n_ctx;
    int64_t dims[DIMS];
    bool tied;
};

/* ---- config.json ----------------------------------------------------------------------------- */

static int config_int(const struct converter *c, const char *name, int max, int *out, struct err *e)
{
    int64_t v;
    if (!json_int(c->config, name, 1, max, &v))
        return err_set(e, ERR_FORMAT, "%s: %s is missing or not a number from 1 to %d",
                       c->config_path, name, max);
    *out = (int)v;
    return 0;
}

/* The value, or `otherwise` when it is absent or null. */
static int config_int_or(const struct converter *c, const char *name, int max, int otherwise,
                         int *out, struct err *e)
{
    const cJSON *v = json_member(c->config, name);
    *out = otherwise;
    return !v || cJSON_IsNull(v) ? 0 : config_int(c, name, max, out, e);
}

static int find_family(struct converter *c, struct err *e)
{
    const char *name =
        cJSON_GetStringValue(cJSON_GetArrayItem(json_member(c->root, "architectures"), 0));
    char known[512] = "";
    for (size_t i = 0; i < N_FAMILIES; i++) {
        if (name && !strcmp(name, families[i].name)) {
            c->family = &families[i];
            c->config = c->family->in_part ? json_member(c->root, "text_config") : c->root;
            return 0;
        }
        size_t n = strlen(known);
        snprintf(known + n, sizeof known - n, "%s%s", n ? ", " : "", families[i].name);
    }
    struct utf8_shown shown = json_show(name ? name : "");
    return err_set(e, ERR_FORMAT,
                   "%s: model family \"%s\" (architectures) is not known; known are: "
                   "%s",
                   c->config_path, shown.text, known);
}

/* GGUF files of SmolLM3 do not name the layers without rotation: they are every fourth. */
static int check_no_rope(const struct converter *c, struct err *e)
{
    const cJSON *rotates, *list = json_member(c->config, "no_rope_layers");
    int64_t step;
    int i = 0;
    bool known = !json_int(c->config, "no_rope_layer_interval", 0, INT32_MAX, &step) || step == 4;
    if (!(c->family->id & SMOLLM3)) return 0;
    if (cJSON_GetArraySize(list) > 0) known = cJSON_GetArraySize(list) == c->n_layer;
    cJSON_ArrayForEach(rotates, list) known = known && rotates->valuedouble == (++i % 4 != 0);
    if (known) return 0;
    return err_set(e, ERR_FORMAT,
                   "%s: no_rope_layers: only models where every fourth layer has no rotary "
                   "embedding are supported",
                   c->config_path);
}

/* Refuses settings that would make the model differ from the tables. */
static int check_config(const struct converter *c, struct err *e)
{
    int64_t n;
    const char *act = json_text(c->config, "hidden_act");
    if (cJSON_IsObject(json_member(c->root, "quantization_config")))
        return err_set(
            e, ERR_FORMAT,
            "%s: the model is already quantized (quantization_config); use the original one",
            c->config_path);
    if (act && strcmp(act, "silu")) {
        struct utf8_shown shown = json_show(act);
        return err_set(e, ERR_FORMAT, "%s: hidden_act is %s, only silu is supported",
                       c->config_path, shown.text);
    }
    static const char *const experts[] = {"num_local_experts", "num_experts"};
    for (size_t i = 0; i < 2; i++)
        if (json_int(c->config, experts[i], 2, INT32_MAX, &n))
            return err_set(e, ERR_FORMAT, "%s: %s is %d, mixtures of experts are not supported",
                           c->config_path, experts[i], (int)n);
    return 0;
}

static int read_config(struct converter *c, struct err *e)
{
    const int big = 1 << 24;
    int n_embd = 0, n_ff = 0, n_vocab = 0;
    int rc = config_int(c, "hidden_size", big, &n_embd, e);
    if (!rc) rc = config_int(c, "num_hidden_layers", LAYERS_MAX, &c->n_layer, e);
    if (!rc) rc = config_int(c, "num_attention_heads", 4096, &c->n_head, e);
    if (!rc) rc = config_int(c, "intermediate_size", big, &n_ff, e);
    if (!rc) rc = config_int(c, "vocab_size", big, &n_vocab, e);
    if (!rc) rc = config_int(c, "max_position_embeddings", INT32_MAX, &c->n_ctx, e);
    if (!rc) rc = config_int_or(c, "num_key_value_heads", c->n_head, c->n_head, &c->n_kv_head, e);
    if (!rc) rc = config_int_or(c, "head_dim", 1024, n_embd / c->n_head, &c->head_dim, e);
    if (rc) return rc;
    if (c->n_head % c->n_kv_head || c->head_dim < 2 || c->head_dim % 2)
        return err_set(e, ERR_FORMAT, "%s: %d heads, %d KV heads, head size %d do not fit together",
                       c->config_path, c->n_head, c->n_kv_head, c->head_dim);
    int64_t q = (int64_t)c->n_head * c->head_dim, kv = (int64_t)c->n_kv_head * c->head_dim;
    const int64_t dims[DIMS] = {
        [ONE] = 1,           [VOCAB] = n_vocab,  [EMBD] = n_embd, [Q] = q,
        [KV] = kv,           [QKV] = q + 2 * kv, [FF] = n_ff,     [FF2] = 2 * (int64_t)n_ff,
        [HEAD] = c->head_dim};
    memcpy(c->dims, dims, sizeof dims);
    c->tied = json_bool(c->config, "tie_word_embeddings",
                        json_bool(c->root, "tie_word_embeddings", c->family->id & ERNIE4_5));
    c->rope = json_member(c->config, "rope_parameters");
    if (!cJSON_IsObject(c->rope)) c->rope = json_member(c->config, "rope_scaling");
    return 0;
}

/* ---- tensors --------------------------------------------------------------------------------- */

/* The name of a tensor without the prefix of the part that the language model is. */
static const char *own_name(const struct converter *c, const char *name)
{
    size_t n = strlen(PART_PREFIX);
    return c->family->in_part && !strncmp(name, PART_PREFIX, n) ? name + n : name;
}

/* Tensors of old files that are not needed, and parts for images. */
static bool is_ignored(const struct converter *c, const char *name)
{
    static const char *const ends[] = {".rotary_emb.inv_freq"};
    static const char *const parts[] = {"vision_tower.", "multi_modal_projector."};
    size_t n = strlen(name);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        size_t m = strlen(ends[i]);
        if (n > m && !strcmp(name + n - m, ends[i])) return true;
    }
    for (size_t i = 0; c->family->in_part && i < sizeof parts / sizeof *parts; i++)
        if (!strncmp(name, parts[i], strlen(parts[i]))) return true;
    return c->tied && !strcmp(own_name(c, name), "lm_head.weight"); /* a copy of the embedding */
}

static bool is_known(const struct converter *c, const char *name)
{
    static const char prefix[] = "model.layers.";
    int layer = 0, n = 0;
    bool in_layer = !strncmp(name, prefix, strlen(prefix)) &&
                    sscanf(name + strlen(prefix), "%4d.%n", &layer, &n) == 1 && n > 0;
    if (in_layer && (layer < 0 || layer >= c->n_layer)) return false;
    const char *rest = in_layer ? name + strlen(prefix) + n : name;
    for (size_t i = 0; i < N_ROWS; i++)
        if (rows[i].in_layer == in_layer && rows[i].allowed & c->family->id &&
            !strcmp(rest, rows[i].hf))
            return true;
    return false;
}

static int check_names(const struct converter *c, struct err *e)
{
    for (size_t i = 0; i < safetensors_n(c->s->weights); i++) {
        const char *name = safetensors_at(c->s->weights, i)->name;
        if (is_ignored(c, name) || is_known(c, own_name(c, name))) continue;
        struct utf8_shown shown = json_show(name);
        return err_set(e, ERR_FORMAT,
                       "%s: tensor '%s' is not known in a %s of %d layers; without it the "
                       "converted model would be wrong",
                       c->s->path, shown.text, c->family->name, c->n_layer);
    }
    return 0;
}

static int check_shape(const struct converter *c, const struct row *r,
                       const struct safetensors_tensor *t, struct err *e)
{
    int64_t n_out = c->dims[r->n_out], n_in = c->dims[r->n_in];
    bool vector = r->n_in == ONE;
    if (t->n_dims == (vector ? 1 : 2) && t->shape[0] == n_out && (vector || t->shape[1] == n_in))
        return 0;
    struct utf8_shown shown = json_show(t->name);
    return err_set(e, ERR_FORMAT, "%s: tensor '%s' is %lld x %lld, config.json says %lld x %lld",
                   c->s->path, shown.text, (long long)(t->n_dims ? t->shape[0] : 0),
                   (long long)(t->n_dims > 1 ? t->shape[1] : 1), (long long)n_out, (long long)n_in);
}

static int take_tensor(struct converter *c, const struct row *r, int layer, struct err *e)
{
    char hf[128], gguf[64];
    const char *prefix = c->family->in_part ? PART_PREFIX : "";
    if (!(r->allowed & c->family->id)) return 0;
    snprintf(hf, sizeof hf, "%s%s", prefix, r->hf);
    snprintf(gguf, sizeof gguf, "%s", r->gguf);
    if (r->in_layer) {
        snprintf(hf, sizeof hf, "%smodel.layers.%d.%s", prefix, layer, r->hf);
        snprintf(gguf, sizeof gguf, "blk.%d.%s", layer, r->gguf);
    }
    bool output = !strcmp(r->hf, "lm_head.weight");
    if (output && c->tied) return 0;
    bool needed = r->needed & c->family->id ||
                  (output && cJSON_IsFalse(json_member(c->config, "tie_word_embeddings")));
    const struct safetensors_tensor *t = safetensors_find(c->s->weights, hf);
    if (!t && needed)
        return err_set(e, ERR_FORMAT, "%s: tensor '%s' is missing; the folder is incomplete",
                       c->s->path, hf);
    if (!t) return 0;
    int rc = check_shape(c, r, t, e);
    if (rc) return rc;
    struct source_tensor *to = source_add(c->s, gguf);
    if (!to) return err_set(e, ERR_FAIL, "out of memory for the list of tensors");
    to->type = t->type;
    to->data = t->data;
    to->n_dims = t->n_dims;
    for (int i = 0; i < t->n_dims; i++) to->ne[i] = t->shape[t->n_dims - 1 - i];
    if (c->family->pairs && r->n_out == Q && r->in_layer) to->pair_heads = c->n_head;
    bool is_key = !strncmp(r->gguf, "attn_k.", 7);
    if (c->family->pairs && is_key) to->pair_heads = c->n_kv_head;
    return 0;
}

static int take_tensors(struct converter *c, struct err *e)
{
    int rc = check_names(c, e);
    for (size_t i = 0; !rc && i < N_ROWS; i++)
        if (!rows[i].in_layer) rc = take_tensor(c, &rows[i], 0, e);
    for (int layer = 0; !rc && layer < c->n_layer; layer++)
        for (size_t i = 0; !rc && i < N_ROWS; i++)
            if (rows[i].in_layer) rc = take_tensor(c, &rows[i], layer, e);
    return rc;
}

/* ---- rotary embedding ------------------------------------------------------------------------ */

static double rope_number(const struct converter *c, const char *name, double otherwise)
{
    double v;
    return json_number(c->rope, name, &v) || json_number(c->config, name, &v) ? v : otherwise;
}

static void rope_key(struct converter *c, const char *suffix, const char *name)
{
    char key[96];
    double v;
    snprintf(key, sizeof key, "%s.rope.scaling.%s", c->family->arch, suffix);
    if (json_number(c->rope, name, &v)) gguf_keys_f32(&c->s->keys, key, (float)v);
}

static void rope_type_key(struct converter *c, const char *type)
{
    char key[96];
    snprintf(key, sizeof key, "%s.rope.scaling.type", c->family->arch);
    gguf_keys_str(&c->s->keys, key, type);
}

static void rope_trained_key(struct converter *c)
{
    char key[96];
    double n = rope_number(c, "original_max_position_embeddings", 0);
    snprintf(key, sizeof key, "%s.rope.scaling.original_context_length", c->family->arch);
    if (n >= 1 && n <= INT32_MAX) gguf_keys_u32(&c->s->keys, key, (uint32_t)n);
}

/* Llama 3.1: low frequencies are divided by `factor`, high ones are kept, those between are
 * interpolated. */
static int rope_llama3(struct converter *c, double base, struct err *e)
{
    double factor = rope_number(c, "factor", 8), low = rope_number(c, "low_freq_factor", 1),
           high = rope_number(c, "high_freq_factor", 4),
           trained = rope_number(c, "original_max_position_embeddings", 8192);
    int half = c->head_dim / 2;
    if (!(factor > 0) || !(low > 0) || !(high > low) || !(trained > 0))
        return err_set(e, ERR_FORMAT, "%s: rope_scaling of type llama3 has invalid values",
                       c->config_path);
    float *out = source_add_vector(c->s, "rope_freqs.weight", half);
    if (!out) return err_set(e, ERR_FAIL, "out of memory for rotary frequencies");
    for (int i = 0; i < half; i++) {
        double wave = 2 * acos(-1) * pow(base, 2.0 * i / c->head_dim);
        double slide = (trained / wave - low) / (high - low);
        if (wave < trained / high)
            out[i] = 1;
        else if (wave > trained / low)
            out[i] = (float)factor;
        else
            out[i] = (float)(1 / ((1 - slide) / factor + slide));
    }
    return 0;
}

static int rope_factors(struct converter *c, const char *member, const char *name, struct err *e)
{
    const cJSON *list = json_member(c->rope, member), *v;
    int half = (int)(rope_number(c, "partial_rotary_factor", 1) * c->head_dim) / 2, i = 0;
    if (cJSON_GetArraySize(list) != half)
        return err_set(e, ERR_FORMAT, "%s: rope_scaling.%s must be %d numbers", c->config_path,
                       member, half);
    float *out = source_add_vector(c->s, name, half);
    if (!out) return err_set(e, ERR_FAIL, "out of memory for rotary frequencies");
    cJSON_ArrayForEach(v, list)
    {
        if (!cJSON_IsNumber(v) || !(v->valuedouble > 0) || !(v->valuedouble < 1e9))
            return err_set(e, ERR_FORMAT, "%s: rope_scaling.%s holds an invalid factor",
                           c->config_path, member);
        out[i++] = (float)v->valuedouble;
    }
    return 0;
}

/* LongRoPE (arXiv 2402.13753), as Phi-3 has it. */
static int rope_long(struct converter *c, struct err *e)
{
    double trained = rope_number(c, "original_max_position_embeddings", 0);
    char key[96];
    if (!(trained > 1))
        return err_set(e, ERR_FORMAT, "%s: original_max_position_embeddings is missing",
                       c->config_path);
    double scale = c->n_ctx / trained;
    double attn = scale > 1 ? sqrt(1 + log(scale) / log(trained)) : 1;
    snprintf(key, sizeof key, "%s.rope.scaling.attn_factor", c->family->arch);
    if (c->family->id == PHI3)
        gguf_keys_f32(&c->s->keys, key, (float)attn);
    else
        rope_type_key(c, "longrope");
    rope_trained_key(c);
    int rc = rope_factors(c, "long_factor", "rope_factors_long.weight", e);
    if (!rc) rc = rope_factors(c, "short_factor", "rope_factors_short.weight", e);
    return rc;
}

/* The scale of rotated queries and keys (YaRN, arXiv 2309.00071, eq. 22). */
static double yarn_magnitude(double factor, double weight)
{
    return factor > 1 ? 1 + 0.1 * weight * log(factor) : 1;
}

/* Writes the config's own scale as a multiple of the usual one. */
static void rope_magnitude(struct converter *c)
{
    char key[96];
    double weight = rope_number(c, "mscale", 0), all_dims = rope_number(c, "mscale_all_dim", 0),
           factor = rope_number(c, "factor", 1), usual = yarn_magnitude(factor, 1), own = usual;
    if (weight && all_dims) own = yarn_magnitude(factor, weight) / yarn_magnitude(factor, all_dims);
    own = rope_number(c, "attention_factor", own);
    snprintf(key, sizeof key, "%s.rope.scaling.attn_factor", c->family->arch);
    if (own > 0 && own != usual) gguf_keys_f32(&c->s->keys, key, (float)(own / usual));
}

static int take_rope(struct converter *c, struct err *e)
{
    char key[96];
    double base = rope_number(c, "rope_theta", 10000);
    double share = rope_number(c, "partial_rotary_factor", c->family->id & GLM4 ? 0.5 : 1);
    int rotated = (int)(share * c->head_dim);
    const char *type = json_text(c->rope, "rope_type");
    if (!type) type = json_text(c->rope, "type");
    if (!(base > 1) || !(base < 1e15) || rotated < 2 || rotated > c->head_dim)
        return err_set(e, ERR_FORMAT, "%s: rope_theta %g or partial_rotary_factor is invalid",
                       c->config_path, base);
    snprintf(key, sizeof key, "%s.rope.freq_base", c->family->arch);
    gguf_keys_f32(&c->s->keys, key, (float)base);
    snprintf(key, sizeof key, "%s.rope.dimension_count", c->family->arch);
    gguf_keys_u32(&c->s->keys, key, (uint32_t)rotated);
    if (!type || !strcmp(type, "default")) {
        if (c->family->id == PHI3) rope_trained_key(c);
        return 0;
    }
    if (!strcmp(type, "llama3")) return rope_llama3(c, base, e);
    if (!strcmp(type, "su") || !strcmp(type, "longrope")) return rope_long(c, e);
    bool yarn = !strcmp(type, "yarn");
    if (!yarn && strcmp(type, "linear")) {
        struct utf8_shown shown = json_show(type);
        return err_set(e, ERR_FORMAT,
                       "%s: rope_scaling of type \"%s\" is not known; known are: "
                       "linear, llama3, yarn, longrope, su",
                       c->config_path, shown.text);
    }
    rope_type_key(c, type);
    rope_key(c, "factor", "factor");
    if (!yarn) return 0;
    rope_trained_key(c);
    rope_key(c, "yarn_ext_factor", "extrapolation_factor");
    rope_key(c, "yarn_beta_fast", "beta_fast");
    rope_key(c, "yarn_beta_slow", "beta_slow");
    rope_magnitude(c);
    return 0;
}

/* ---- keys ------------------------------------------------------------------------------------ */

static void arch_u32(struct converter *c, const char *suffix, int64_t v)
{
    char key[96];
    snprintf(key, sizeof key, "%s.%s", c->family->arch, suffix);
    gguf_keys_u32(&c->s->keys, key, (uint32_t)v);
}

static void arch_f32(struct converter *c, const char *suffix, double v)
{
    char key[96];
    snprintf(key, sizeof key, "%s.%s", c->family->arch, suffix);
    gguf_keys_f32(&c->s->keys, key, (float)v);
}

static int minicpm_keys(struct converter *c, struct err *e)
{
    double embd, depth, base;
    if (!json_number(c->config, "scale_emb", &embd) ||
        !json_number(c->config, "scale_depth", &depth) ||
        !json_number(c->config, "dim_model_base", &base) || !(base > 0))
        return err_set(e, ERR_FORMAT, "%s: scale_emb, scale_depth or dim_model_base is missing",
                       c->config_path);
    arch_f32(c, "embedding_scale", embd);
    arch_f32(c, "residual_scale", depth / sqrt(c->n_layer));
    arch_f32(c, "logit_scale", (double)c->dims[EMBD] / base);
    return 0;
}

static int granite_keys(struct converter *c, struct err *e)
{
    static const char *const names[][2] = {{"embedding_multiplier", "embedding_scale"},
                                           {"residual_multiplier", "residual_scale"},
                                           {"attention_multiplier", "attention.scale"},
                                           {"logits_scaling", "logit_scale"}};
    double v;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (!json_number(c->config, names[i][0], &v) || !(v > 0))
            return err_set(e, ERR_FORMAT, "%s: %s is missing or not above 0", c->config_path,
                           names[i][0]);
        arch_f32(c, names[i][1], v);
    }
    return 0;
}

/* Tokens that a token attends to, 0 = all. */
static int64_t sliding_window(const struct converter *c)
{
    int64_t n;
    bool used = !(c->family->id & (QWEN2 | QWEN3 | SMOLLM3)); /* unless their config says so */
    used = json_bool(c->config, "use_sliding_window", used);
    return used && json_int(c->config, "sliding_window", 1, INT32_MAX, &n) ? n : 0;
}

/* Adds the sampling settings that the model's makers recommend. */
static void sampling_keys(struct converter *c)
{
    static const char *const names[][2] = {{"temperature", "general.sampling.temp"},
                                           {"top_p", "general.sampling.top_p"}};
    char path[1024];
    cJSON *o;
    struct err ignored; /* most folders have no such file */
    int64_t top_k;
    double v;
    snprintf(path, sizeof path, "%s/generation_config.json", c->s->path);
    if (json_read(&o, path, &ignored)) return;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (json_number(o, names[i][0], &v) && v >= 0)
            gguf_keys_f32(&c->s->keys, names[i][1], (float)v);
    if (json_int(o, "top_k", 0, INT32_MAX, &top_k))
        gguf_keys_u32(&c->s->keys, "general.sampling.top_k", (uint32_t)top_k);
    cJSON_Delete(o);
}

static int take_keys(struct converter *c, struct err *e)
{
    const char *slash = strrchr(c->s->path, '/');
    const char *name = slash ? slash + 1 : c->s->path;
    double eps;
    if (!json_number(c->config, "rms_norm_eps", &eps) || !(eps > 0) || !(eps < 1))
        return err_set(e, ERR_FORMAT, "%s: rms_norm_eps is missing", c->config_path);
    gguf_keys_str(&c->s->keys, "general.architecture", c->family->arch);
    gguf_keys_str(&c->s->keys, "general.type", "model");
    gguf_keys_str(&c->s->keys, "general.name", name);
    sampling_keys(c);
    arch_u32(c, "block_count", c->n_layer);
    arch_u32(c, "context_length", c->n_ctx);
    arch_u32(c, "embedding_length", c->dims[EMBD]);
    arch_u32(c, "feed_forward_length", c->dims[FF]);
    arch_u32(c, "attention.head_count", c->n_head);
    arch_u32(c, "attention.head_count_kv", c->n_kv_head);
    arch_u32(c, "attention.key_length", c->head_dim);
    arch_u32(c, "attention.value_length", c->head_dim);
    arch_f32(c, "attention.layer_norm_rms_epsilon", eps);
    arch_u32(c, "vocab_size", c->dims[VOCAB]);
    int64_t window = sliding_window(c);
    if (window > 0 || c->family->id == PHI3) arch_u32(c, "attention.sliding_window", window);
    double beta;
    if (c->family->id == MISTRAL3 && json_number(c->rope, "llama_4_scaling_beta", &beta))
        arch_f32(c, "attention.temperature_scale", beta);
    if (c->family->id == GRANITE) return granite_keys(c, e);
    return c->family->id == MINICPM ? minicpm_keys(c, e) : 0;
}

/* ---- ignored keys ---------------------------------------------------------------------------- */

/* Members of config.json that are read, or that change nothing that a model computes. */
static const char known_keys[] =
    "architectures attention_bias attention_dropout attention_multiplier "
    "attention_out_bias auto_map bos_token_id dim_model_base dtype embedding_multiplier "
    "embd_pdrop eos_token_id head_dim hidden_act hidden_size initializer_range "
    "intermediate_size logits_scaling max_position_embeddings max_window_layers mlp_bias "
    "model_type no_rope_layers no_rope_layer_interval num_attention_heads num_experts "
    "num_hidden_layers num_key_value_heads num_local_experts "
    "original_max_position_embeddings pad_token_id partial_rotary_factor pretraining_tp "
    "quantization_config resid_pdrop residual_dropout residual_multiplier rms_norm_eps "
    "rope_parameters rope_scaling rope_theta scale_depth scale_emb sliding_window "
    "tie_word_embeddings torch_dtype transformers_version unk_token_id use_bias use_cache "
    "use_sliding_window vocab_size";

/* Null, false, 0 and empty: a part that the model does not have. */
static bool is_off(const cJSON *v)
{
    return cJSON_IsNull(v) || cJSON_IsFalse(v) || (cJSON_IsNumber(v) && v->valuedouble == 0) ||
           (cJSON_IsArray(v) && cJSON_GetArraySize(v) == 0);
}

/* Layers without windows or other kinds of attention. */
static bool is_plain_layers(const cJSON *v)
{
    const cJSON *o;
    bool plain = !strcmp(v->string, "layer_types");
    cJSON_ArrayForEach(o, v)
    {
        const char *type = cJSON_GetStringValue(o);
        plain = plain && type && !strcmp(type, "full_attention");
    }
    return plain;
}

static bool is_known_key(const cJSON *v)
{
    const size_t n = strlen(v->string);
    for (const char *at = known_keys; *at; at += strcspn(at, " "), at += strspn(at, " "))
        if (strcspn(at, " ") == n && !strncmp(at, v->string, n)) return true;
    return v->string[0] == '_' || is_off(v) || is_plain_layers(v);
}

/* Names the settings that have no influence on the converted model. */
static void note_ignored_keys(const struct converter *c)
{
    char *out = c->s->notice;
    const size_t size = sizeof c->s->notice;
    const cJSON *v;
    cJSON_ArrayForEach(v, c->config)
    {
        if (is_known_key(v)) continue;
        struct utf8_shown shown = json_show(v->string);
        const size_t n = strlen(out);
        snprintf(out + n, size - n, "%s%s", n ? ", " : "config.json: ignored: ", shown.text);
    }
}

int convert_open(struct source *s, struct err *e)
{
    struct converter c = {.s = s};
    snprintf(c.config_path, sizeof c.config_path, "%s/config.json", s->path);
    int rc = json_read(&c.root, c.config_path, e);
    if (!rc) rc = find_family(&c, e);
    if (!rc) rc = check_config(&c, e);
    if (!rc) rc = read_config(&c, e);
    if (!rc) rc = check_no_rope(&c, e);
    if (!rc) rc = take_keys(&c, e);
    if (!rc) rc = take_rope(&c, e);
    if (!rc) rc = convert_vocab(&s->keys, s->path, c.root, (int)c.dims[VOCAB], e);
    if (!rc) rc = safetensors_open(&s->weights, s->path, e);
    if (!rc) rc = take_tensors(&c, e);
    if (!rc) note_ignored_keys(&c);
    cJSON_Delete(c.root);
    return rc;
}
