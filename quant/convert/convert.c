/* convert: reads a Hugging Face folder (config.json, tokenizer, *.safetensors) as a source and
 * translates its names, hyper-parameters and vocabulary to GGUF, as llama.cpp does.
 *
 * Families: convert_rows.c. Unknown tensors, missing tensors and tensors of another shape than the
 * config says are refused by name: nothing is guessed. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/nearest.h"
#include "base/str.h"
#include "quant/convert/convert_parts.h"
#include "quant/convert/convert_vocab.h"
#include "quant/convert/json.h"
#include "quant/convert/safetensors.h"
#include "runtime/model/gguf.h"

/* ---- config.json ----------------------------------------------------------------------------- */

int convert_int(const struct converter *c, const char *name, int max, int *out, struct err *e)
{
    int64_t v;
    if (!json_int(c->config, name, 1, max, &v))
        return err_set(e, ERR_FORMAT, "%s: %s is missing or not a number from 1 to %d",
                       c->config_path, name, max);
    *out = (int)v;
    return 0;
}

/* The value, or `otherwise` when it is absent or null. */
int convert_int_or(const struct converter *c, const char *name, int max, int otherwise, int *out,
                   struct err *e)
{
    const cJSON *v = json_member(c->config, name);
    *out = otherwise;
    return !v || cJSON_IsNull(v) ? 0 : convert_int(c, name, max, out, e);
}

/* Names the nearest family or, if none is near, all by GGUF's shorter names. */
static int unknown_family(const struct converter *c, const char *name, struct err *e)
{
    struct nearest near = nearest_to(name, strlen(name));
    const struct utf8_shown shown = json_show(name);
    char known[512] = "";
    for (size_t i = 0; i < convert_n_families; i++) nearest_offer(&near, convert_families[i].name);
    if (near.name)
        return err_set(
            e, ERR_FORMAT,
            "%s: model family \"%s\" (architectures) is not known, the nearest is %s; if "
            "the model runs as GGUF, start from that file",
            c->config_path, shown.text, near.name);
    for (size_t i = 0; i < convert_n_families; i++) {
        const size_t n = strlen(known);
        const char *arch = convert_families[i].arch;
        if (i && !strcmp(arch, convert_families[i - 1].arch)) continue;
        snprintf(known + n, sizeof known - n, "%s%s", n ? ", " : "", arch);
    }
    return err_set(e, ERR_FORMAT,
                   "%s: model family \"%s\" (architectures) is not known; known are: %s",
                   c->config_path, shown.text, known);
}

/* Whether GGUF's name of the family begins so. */
static bool is_arch(const struct converter *c, const char *start)
{
    return !strncmp(c->family->arch, start, strlen(start));
}

/* Mistral's models with images have one name for two families. */
static int find_family(struct converter *c, struct err *e)
{
    const char *type,
        *name = cJSON_GetStringValue(cJSON_GetArrayItem(json_member(c->root, "architectures"), 0));
    for (size_t i = 0; name && i < convert_n_families; i++) {
        if (strcmp(name, convert_families[i].name)) continue;
        c->family = &convert_families[i];
        c->config = c->family->part ? json_member(c->root, "text_config") : c->root;
        type = json_text(c->config, "model_type");
        if (is_arch(c, "mistral4") == (type && !strcmp(type, "mistral4"))) return 0;
    }
    return unknown_family(c, name ? name : "", e);
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
    const char *act = json_text(c->config, "hidden_activation");
    const char *expected = c->family->id & (GEMMA | GEMMA4) ? "gelu_pytorch_tanh" : "silu";
    if (!act) act = json_text(c->config, "hidden_act");
    if (c->family->id == NEMOTRON_H)
        act = json_text(c->config, "mlp_hidden_act"), expected = "relu2";
    const cJSON *form = json_member(c->root, "quantization_config");
    const char *method = json_text(form, "quant_method");
    const bool mxfp4 = c->family->id == GPT_OSS && method && !strcmp(method, "mxfp4");
    if (cJSON_IsObject(form) && !mxfp4)
        return err_set(
            e, ERR_FORMAT,
            "%s: the model is already quantized (quantization_config); use the original one",
            c->config_path);
    if (act && strcmp(act, expected)) {
        struct utf8_shown shown = json_show(act);
        return err_set(e, ERR_FORMAT, "%s: hidden_act is %s, only %s is supported", c->config_path,
                       shown.text, expected);
    }
    static const char *const experts[] = {"num_local_experts", "num_experts"};
    const bool allowed = c->family->experts || c->family->id & (GEMMA4 | GRANITE_H);
    for (size_t i = 0; !allowed && i < 2; i++)
        if (json_int(c->config, experts[i], 2, INT32_MAX, &n))
            return err_set(e, ERR_FORMAT,
                           "%s: %s is %d, mixtures of experts are not supported in a %s",
                           c->config_path, experts[i], (int)n, c->family->name);
    return 0;
}

/* The width of the feed-forward. LFM2's may follow from a larger number. */
static int read_n_ff(const struct converter *c, int *out, struct err *e)
{
    const int big = 1 << 24;
    int64_t multiple = 1;
    double factor = 1;
    const bool experts = convert_has_experts(c);
    const bool shared = c->family->id == GRANITE_H && !experts;
    const char *name = shared ? "shared_intermediate_size" : "intermediate_size";
    if (experts && c->family->id & DELTA) /* all layers have experts */
        return convert_int_or(c, name, big, 1, out, e);
    int rc = convert_int(c, name, big, out, e);
    if (rc || c->family->id != LFM2 || experts ||
        !json_bool(c->config, "block_auto_adjust_ff_dim", false))
        return rc;
    json_number(c->config, "block_ffn_dim_multiplier", &factor);
    json_int(c->config, "block_multiple_of", 1, big, &multiple);
    int64_t n = (int64_t)(factor * (double)(2 * (int64_t)*out / 3));
    *out = (int)((n + multiple - 1) / multiple * multiple);
    return 0;
}

/* A number that a config.json of Gemma 3 leaves out if it is the usual one. */
static int read_usual(const struct converter *c, const char *name, int max, int gemma3, int *out,
                      struct err *e)
{
    if (c->family->id != GEMMA3) return convert_int(c, name, max, out, e);
    return convert_int_or(c, name, max, gemma3, out, e);
}

static int read_config(struct converter *c, struct err *e)
{
    const int big = 1 << 24;
    int n_embd = 0, n_ff = 0, n_vocab = 0;
    int rc = convert_int(c, "hidden_size", big, &n_embd, e);
    const int listed = cJSON_GetArraySize(json_member(c->config, "layers_block_type"));
    if (!rc && listed > 0 && listed <= LAYERS_MAX)
        rc = convert_int_or(c, "num_hidden_layers", LAYERS_MAX, listed, &c->n_layer, e);
    else if (!rc)
        rc = convert_int(c, "num_hidden_layers", LAYERS_MAX, &c->n_layer, e);
    if (!rc) rc = read_usual(c, "num_attention_heads", 4096, 8, &c->n_head, e);
    if (!rc) rc = read_n_ff(c, &n_ff, e);
    if (!rc) rc = read_usual(c, "vocab_size", big, 262208, &n_vocab, e);
    if (!rc) rc = read_usual(c, "max_position_embeddings", INT32_MAX, 131072, &c->n_ctx, e);
    if (rc) return rc;
    const bool gemma = c->family->id & GEMMA, latent = c->family->id & LATENT;
    const int n_kv = c->family->id == GEMMA3 && c->n_head >= 4 ? 4 : c->n_head;
    const int head_dim = gemma ? 256 : n_embd / c->n_head;
    rc = convert_int_or(c, "num_key_value_heads", c->n_head, n_kv, &c->n_kv_head, e);
    if (!rc && latent) rc = convert_int(c, "qk_rope_head_dim", 1024, &c->head_dim, e);
    if (!rc && !latent) rc = convert_int_or(c, "head_dim", 1024, head_dim, &c->head_dim, e);
    if (rc) return rc;
    if (c->n_head % c->n_kv_head || c->head_dim < 2 || c->head_dim % 2)
        return err_set(e, ERR_FORMAT, "%s: %d heads, %d KV heads, head size %d do not fit together",
                       c->config_path, c->n_head, c->n_kv_head, c->head_dim);
    int64_t q = (int64_t)c->n_head * c->head_dim, kv = (int64_t)c->n_kv_head * c->head_dim;
    const int64_t dims[DIMS] = {[ONE] = 1,
                                [VOCAB] = n_vocab,
                                [EMBD] = n_embd,
                                [EMBD2] = 2 * (int64_t)n_embd,
                                [Q] = q,
                                [KV] = kv,
                                [QKV] = q + 2 * kv,
                                [FF] = n_ff,
                                [FF2] = 2 * (int64_t)n_ff,
                                [HEAD] = c->head_dim,
                                [Q2] = 2 * q,
                                [Q_HEADS] = c->n_head};
    memcpy(c->dims, dims, sizeof dims);
    if (c->family->id & HYBRID) rc = convert_recurrent(c, e);
    if (!rc && c->family->id & (WINDOWED | OLMO2)) rc = convert_windows(c, e);
    if (!rc && c->family->id == GEMMA4) rc = convert_gemma4(c, e);
    if (!rc && latent) rc = convert_latent(c, e);
    c->experts.n_dense = LAYERS_MAX;
    if (!rc && convert_has_experts(c)) rc = convert_experts(c, e);
    if (rc) return rc;
    c->tied = json_bool(c->config, "tie_word_embeddings",
                        json_bool(c->root, "tie_word_embeddings",
                                  c->family->id & (ERNIE4_5 | GEMMA | GEMMA4 | COHERE2)));
    c->rope = json_member(c->config, "rope_parameters");
    if (!cJSON_IsObject(c->rope)) c->rope = json_member(c->config, "rope_scaling");
    if (cJSON_IsObject(json_member(c->rope, "full_attention"))) {
        c->rope_windowed = json_member(c->rope, "sliding_attention");
        c->rope = json_member(c->rope, "full_attention");
    }
    return 0;
}

/* ---- keys ------------------------------------------------------------------------------------ */

enum { KEY_BYTES = 96 };

static const char *key_of(const struct converter *c, const char *suffix, char out[KEY_BYTES])
{
    snprintf(out, KEY_BYTES, "%s.%s", c->family->arch, suffix);
    return out;
}

void convert_u32(struct converter *c, const char *suffix, int64_t v)
{
    char key[KEY_BYTES];
    gguf_keys_u32(&c->s->keys, key_of(c, suffix, key), (uint32_t)v);
}

void convert_f32(struct converter *c, const char *suffix, double v)
{
    char key[KEY_BYTES];
    gguf_keys_f32(&c->s->keys, key_of(c, suffix, key), (float)v);
}

void convert_bool(struct converter *c, const char *suffix, bool v)
{
    char key[KEY_BYTES];
    gguf_keys_bool(&c->s->keys, key_of(c, suffix, key), v);
}

void convert_bools(struct converter *c, const char *suffix, const bool *v, int n)
{
    char key[KEY_BYTES];
    gguf_keys_array(&c->s->keys, key_of(c, suffix, key), GGUF_BOOL, (uint64_t)n, v,
                    (size_t)n * sizeof *v);
}

void convert_i32s(struct converter *c, const char *suffix, const int32_t *v, int n)
{
    char key[KEY_BYTES];
    gguf_keys_array(&c->s->keys, key_of(c, suffix, key), GGUF_I32, (uint64_t)n, v,
                    (size_t)n * sizeof *v);
}

/* ---- tensors --------------------------------------------------------------------------------- */

#define PART "language_model."
enum { NAME_BYTES = 192 };

/* The name of a tensor as if the language model were the whole. */
static void own_name(const struct converter *c, const char *name, char out[NAME_BYTES])
{
    const char *part = c->family->part;
    size_t n = part ? strlen(part) : 0;
    bool in_part = part && !strncmp(name, part, n) && !strncmp(name + n, PART, strlen(PART));
    snprintf(out, NAME_BYTES, "%.*s%s", (int)(in_part ? n : 0), name,
             in_part ? name + n + strlen(PART) : name);
}

/* The reverse. Of a part after "model.", names without that are as they are. */
static void part_name(const struct converter *c, const char *own, char out[NAME_BYTES])
{
    const char *part = c->family->part;
    size_t n = part ? strlen(part) : 0;
    if (part && !strncmp(own, part, n))
        snprintf(out, NAME_BYTES, "%s" PART "%.128s", part, own + n);
    else
        snprintf(out, NAME_BYTES, "%.128s", own);
}

/* Tensors of old files that are not needed, and parts for images. */
static bool is_ignored(const struct converter *c, const char *name)
{
    static const char *const parts[] = {
        "vision_tower.",      "multi_modal_projector.", "model.visual.",     "model.vision_tower.",
        "model.audio_tower.", "model.embed_vision.",    "model.embed_audio."};
    char own[NAME_BYTES];
    if (str_ends(name, ".rotary_emb.inv_freq")) return true;
    for (size_t i = 0; c->family->part && i < sizeof parts / sizeof *parts; i++)
        if (!strncmp(name, parts[i], strlen(parts[i]))) return true;
    own_name(c, name, own);
    return c->tied && !strcmp(own, "lm_head.weight"); /* a copy of the embedding */
}

static const char *layers_prefix(const struct converter *c)
{
    return c->family->id == NEMOTRON_H ? "backbone.layers." : "model.layers.";
}

/* The name of a layer's tensor. Qwen's MTP layers are not numbered after the others, and what other
 * layers lack belongs to all of them. */
static void layer_name(const struct converter *c, int layer, enum layers kind, const char *rest,
                       char out[NAME_BYTES])
{
    const bool apart = c->family->id & DELTA && layer >= c->n_layer;
    if (apart && kind == MTP)
        snprintf(out, NAME_BYTES, "mtp.%s", rest);
    else
        snprintf(out, NAME_BYTES, "%s%d.%s", apart ? "mtp.layers." : layers_prefix(c),
                 apart ? layer - c->n_layer : layer, rest);
}

/* The layer of a name, and what follows it; -1: of none. */
static int layer_of(const struct converter *c, const char *name, const char **rest)
{
    const bool apart = c->family->id & DELTA && !strncmp(name, "mtp.", 4);
    const char *prefix = apart ? "mtp.layers." : layers_prefix(c);
    int layer = 0, n = 0;
    const bool numbered = !strncmp(name, prefix, strlen(prefix)) &&
                          sscanf(name + strlen(prefix), "%4d.%n", &layer, &n) == 1 && n > 0;
    *rest = name + (numbered ? strlen(prefix) + (size_t)n : apart ? 4 : 0);
    if (numbered && layer < 0) return LAYERS_MAX;
    return apart ? c->n_layer + layer : numbered ? layer : -1;
}

/* The layers after the last that the folder has: no more than its settings name. */
static int count_mtp(const struct converter *c)
{
    const char *rest;
    int64_t most = c->family->id & DELTA ? LAYERS_MAX : 0;
    int n = 0;
    json_int(c->config, "num_nextn_predict_layers", 0, LAYERS_MAX, &most);
    for (size_t i = 0; i < safetensors_n(c->s->weights); i++) {
        const int layer = layer_of(c, safetensors_at(c->s->weights, i)->name, &rest);
        if (layer >= c->n_layer + n) n = layer + 1 - c->n_layer;
    }
    return c->family->id & (NEXTN | DELTA) && n <= most && c->n_layer + n <= LAYERS_MAX ? n : 0;
}

static bool is_known(const struct converter *c, const char *name)
{
    const char *rest;
    const int layer = layer_of(c, name, &rest);
    const bool in_layer = layer >= 0;
    if (layer >= c->n_layer + c->n_mtp) return false;
    for (size_t i = 0; i < convert_n_rows; i++)
        if ((convert_rows[i].layers != NO_LAYER) == in_layer &&
            (convert_rows[i].needed | convert_rows[i].optional) & c->family->id &&
            convert_is_named(c, &convert_rows[i], rest))
            return true;
    return false;
}

static int check_names(const struct converter *c, struct err *e)
{
    for (size_t i = 0; i < safetensors_n(c->s->weights); i++) {
        const char *name = safetensors_at(c->s->weights, i)->name;
        char own[NAME_BYTES];
        own_name(c, name, own);
        if (is_ignored(c, name) || is_known(c, own)) continue;
        struct utf8_shown shown = json_show(name);
        return err_set(e, ERR_FORMAT,
                       "%s: tensor '%s' is not known in a %s of %d layers; without it the "
                       "converted model would be wrong",
                       c->s->path, shown.text, c->family->name, c->n_layer);
    }
    return 0;
}

static int check_shape(const struct converter *c, const struct convert_row *r,
                       const struct safetensors_tensor *t, struct err *e)
{
    int64_t n_out = c->dims[r->n_out], n_in = c->dims[r->n_in];
    bool vector = r->n_in == ONE;
    if (t->type == SAFETENSORS_BYTES)
        return err_set(e, ERR_FORMAT,
                       "%s: tensor '%s' has dtype U8; supported are F32, F16 and BF16: use the "
                       "original, unquantized model",
                       c->s->path, t->name);
    if (r->n_in == TAPS && t->n_dims == 3 && t->shape[0] == n_out && t->shape[1] == 1 &&
        t->shape[2] == n_in)
        return 0;
    if (t->n_dims == (vector ? 1 : 2) && t->shape[0] == n_out && (vector || t->shape[1] == n_in))
        return 0;
    struct utf8_shown shown = json_show(t->name);
    return err_set(e, ERR_FORMAT, "%s: tensor '%s' is %lld x %lld, config.json says %lld x %lld",
                   c->s->path, shown.text, (long long)(t->n_dims ? t->shape[0] : 0),
                   (long long)(t->n_dims > 1 ? t->shape[1] : 1), (long long)n_out, (long long)n_in);
}

/* Norms of recurrent layers are as in GGUF. */
static bool adds_one(const struct converter *c, const struct convert_row *r)
{
    return c->family->id & NORMS_PLUS_ONE && r->layers != RECURRENT && strstr(r->hf, "norm");
}

/* Adds a tensor that has the right shape. */
static int add_tensor(struct converter *c, const struct convert_row *r, const char *gguf,
                      const struct safetensors_tensor *t, struct err *e)
{
    struct source_tensor *to = source_add(c->s, gguf);
    to->type = t->type;
    to->data = t->data;
    to->n_dims = t->n_dims;
    for (int i = 0; i < t->n_dims; i++) to->ne[i] = t->shape[t->n_dims - 1 - i];
    if (t->n_dims == 3) { /* [channel][1][tap] */
        to->n_dims = 2;
        to->ne[1] = to->ne[2];
        to->ne[2] = 1;
    }
    if (r->column) {
        to->n_dims = 2;
        to->ne[1] = to->ne[0];
        to->ne[0] = 1;
    }
    if (r->n_out == VALUES && r->n_in == ONE) { /* a row per key head */
        to->n_dims = 2;
        to->ne[1] = c->recurrent.n_key;
        to->ne[0] /= to->ne[1];
    }
    if (r->n_out == ONE) to->n_dims = 1; /* [1][n_in] */
    if (r->half >= QUERIES_KEYS_VALUES) {
        convert_mixed(c, r, to);
        return 0;
    }
    if (r->half && r->n_out == KEYS_VALUES) {
        convert_latent_heads(c, r->half, to);
        return 0;
    }
    if (r->half) {
        to->ne[1] /= 2;
        if (r->half == SECOND) to->data = (const char *)t->data + t->bytes / 2;
    }
    to->change = adds_one(c, r) ? SOURCE_PLUS_ONE : r->change;
    convert_tiles(c, r, to);
    bool is_key = !strncmp(r->gguf, "attn_k.", 7), is_query = r->n_out == Q && r->layers;
    if (c->family->pairs && (is_query || is_key))
        source_order_pairs(c->s, to, is_key ? c->n_kv_head : c->n_head);
    return convert_factors(c, to, e);
}

/* Finds a tensor of the folder; *t NULL: it is not there, and not needed. */
static int find_tensor(const struct converter *c, const struct convert_row *r, const char *own,
                       const struct safetensors_tensor **t, struct err *e)
{
    char hf[NAME_BYTES];
    const bool output = !strcmp(r->hf, "lm_head.weight");
    bool needed = (r->needed & c->family->id && c->dims[r->n_out] && c->dims[r->n_in]) ||
                  (output && cJSON_IsFalse(json_member(c->config, "tie_word_embeddings")));
    *t = NULL;
    if (output && c->tied && c->family->id != FALCON_H1) return 0;
    part_name(c, output && c->tied ? "model.embed_tokens.weight" : own, hf);
    *t = safetensors_find(c->s->weights, hf);
    if (!*t && needed)
        return err_set(e, ERR_FORMAT, "%s: tensor '%s' is missing; the folder is incomplete",
                       c->s->path, hf);
    return *t ? check_shape(c, r, *t, e) : 0;
}

/* The matrices of all experts. */
static int take_stack(struct converter *c, const struct convert_row *r, int layer, const char *gguf,
                      struct err *e)
{
    const int at = (int)strcspn(r->hf, "*"), n = (int)c->dims[N_EXPERTS];
    const struct safetensors_tensor *t;
    const void **stack = NULL;
    char own[NAME_BYTES], rest[NAME_BYTES];
    uint32_t type = 0;
    for (int i = 0; i < n; i++) {
        snprintf(rest, sizeof rest, "%.*s%d%s", at, r->hf, i, r->hf + at + 1);
        layer_name(c, layer, r->layers, rest, own);
        int rc = find_tensor(c, r, own, &t, e);
        if (!rc && i == 0) rc = add_tensor(c, r, gguf, t, e);
        if (rc) return rc;
        if (i == 0) stack = source_make_stack(c->s, n);
        if (i > 0 && t->type != type)
            return err_set(e, ERR_FORMAT, "%s: tensor '%s' has another type than those before it",
                           c->s->path, own);
        type = t->type;
        stack[i] = t->data;
    }
    return 0;
}

/* Whether the layer has the part of the row. */
static bool is_of_layer(const struct converter *c, const struct convert_row *r, int layer)
{
    const enum layers kind = c->recurrent.kinds[layer];
    const bool dense = layer < c->experts.n_dense;
    if (r->stacked && !c->experts.stacked) return false;
    if (r->layers == DENSE || r->layers == SPARSE) return dense == (r->layers == DENSE);
    if (r->layers == MTP)
        return layer == c->n_layer || (layer > c->n_layer && !(c->family->id & DELTA));
    return kind <= LAYERS || r->layers <= LAYERS || r->layers == kind;
}

static int take_tensor(struct converter *c, const struct convert_row *r, int layer, struct err *e)
{
    const struct safetensors_tensor *t;
    char own[NAME_BYTES], hf[NAME_BYTES], gguf[64];
    if (!((r->needed | r->optional) & c->family->id)) return 0;
    const bool of_keys = !strncmp(r->gguf, "attn_k", 6) || !strncmp(r->gguf, "attn_v.", 7);
    if (of_keys && c->windowed.n_shared && layer >= c->n_layer - c->windowed.n_shared) return 0;
    if (!is_of_layer(c, r, layer)) return 0;
    snprintf(own, sizeof own, "%s", r->hf);
    snprintf(gguf, sizeof gguf, "%s", r->gguf);
    if (r->layers) {
        layer_name(c, layer, r->layers, r->hf, own);
        snprintf(gguf, sizeof gguf, "blk.%d.%s", layer, r->gguf);
    }
    part_name(c, own, hf);
    if (r->stacked) return convert_stack(c, r, hf, gguf, e);
    if (strchr(r->hf, '*')) return c->experts.stacked ? 0 : take_stack(c, r, layer, gguf, e);
    int rc = find_tensor(c, r, own, &t, e);
    return rc || !t ? rc : add_tensor(c, r, gguf, t, e);
}

/* Whether the folder has the matrices of experts one by one. */
static bool has_single_experts(const struct converter *c)
{
    for (size_t i = 0; i < safetensors_n(c->s->weights); i++) {
        const char *at = strstr(safetensors_at(c->s->weights, i)->name, ".experts.");
        if (at && strspn(at + strlen(".experts."), "0123456789")) return true;
    }
    return false;
}

static int take_tensors(struct converter *c, struct err *e)
{
    int rc = check_names(c, e);
    c->experts.stacked = !has_single_experts(c);
    for (size_t i = 0; !rc && i < convert_n_rows; i++)
        if (!convert_rows[i].layers) rc = take_tensor(c, &convert_rows[i], 0, e);
    for (int layer = 0; !rc && layer < c->n_layer + c->n_mtp; layer++) {
        if (c->family->id == GEMMA4) convert_gemma4_layer(c, layer);
        for (size_t i = 0; !rc && i < convert_n_rows; i++)
            if (convert_rows[i].layers) rc = take_tensor(c, &convert_rows[i], layer, e);
    }
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
    double v;
    if (json_number(c->rope, name, &v)) convert_f32(c, suffix, v);
}

static void rope_type_key(struct converter *c, const char *type)
{
    char key[KEY_BYTES];
    gguf_keys_str(&c->s->keys, key_of(c, "rope.scaling.type", key), type);
}

static void rope_trained_key(struct converter *c)
{
    double n = rope_number(c, "original_max_position_embeddings", 0);
    if (n >= 1 && n <= INT32_MAX)
        convert_u32(c, "rope.scaling.original_context_length", (int64_t)n);
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
    if (!(trained > 1))
        return err_set(e, ERR_FORMAT, "%s: original_max_position_embeddings is missing",
                       c->config_path);
    double scale = c->n_ctx / trained;
    double attn = scale > 1 ? sqrt(1 + log(scale) / log(trained)) : 1;
    if (c->family->id == PHI3)
        convert_f32(c, "rope.scaling.attn_factor", attn);
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

/* Writes the config's own scale as a multiple of the usual one. With latent attention it is part of
 * the products' scale, of which GGUF has a tenth of the weight. */
static int rope_magnitude(struct converter *c, struct err *e)
{
    double weight = rope_number(c, "mscale", 0), all_dims = rope_number(c, "mscale_all_dim", 0),
           factor = rope_number(c, "factor", 1), usual = yarn_magnitude(factor, 1), own = usual;
    if (weight && all_dims) own = yarn_magnitude(factor, weight) / yarn_magnitude(factor, all_dims);
    own = rope_number(c, "attention_factor", own);
    if (c->family->id & DEEPSEEKS) {
        if (all_dims > 0) convert_f32(c, "rope.scaling.yarn_log_multiplier", 0.1 * all_dims);
        if (own == 1) return 0;
        return err_set(e, ERR_FORMAT, "%s: mscale must be mscale_all_dim in a %s", c->config_path,
                       c->family->name);
    }
    if (own > 0 && own != usual) convert_f32(c, "rope.scaling.attn_factor", own / usual);
    return 0;
}

/* Gemma 4: frequencies are those of a whole head, and only the first pairs rotate. */
static int rope_proportional(struct converter *c, double share)
{
    const int half = c->head_dim / 2, rotated = (int)(share * c->head_dim / 2);
    float *out = source_add_vector(c->s, "rope_freqs.weight", half);
    for (int i = 0; i < half; i++) out[i] = i < rotated ? 1 : 1e30f;
    return 0;
}

static int take_rope(struct converter *c, struct err *e)
{
    const double usual = c->family->id & (GLM4 | GLM4MOE) ? 0.5 : c->family->id & DELTA ? 0.25 : 1;
    double base = rope_number(c, "rope_theta", c->family->id == GEMMA3 ? 1e6 : 10000);
    double share = rope_number(c, "partial_rotary_factor", usual);
    if (c->family->id & LATENT) share = 1; /* head_dim is what rotates */
    const char *type = json_text(c->rope, "rope_type");
    if (!type) type = json_text(c->rope, "type");
    const bool proportional = c->family->id == GEMMA4 && type && !strcmp(type, "proportional");
    int rotated = (int)(proportional ? c->head_dim : share * c->head_dim);
    if (!(base > 1) || !(base < 1e15) || rotated < 2 || rotated > c->head_dim)
        return err_set(e, ERR_FORMAT, "%s: rope_theta %g or partial_rotary_factor is invalid",
                       c->config_path, base);
    convert_f32(c, "rope.freq_base", base);
    convert_u32(c, "rope.dimension_count", rotated);
    if (!type || !strcmp(type, "default")) {
        if (c->family->id == PHI3) rope_trained_key(c);
        return 0;
    }
    if (!strcmp(type, "llama3")) return rope_llama3(c, base, e);
    if (proportional) return rope_proportional(c, share);
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
    rope_key(c, "rope.scaling.factor", "factor");
    if (!yarn) return 0;
    rope_trained_key(c);
    rope_key(c, "rope.scaling.yarn_ext_factor", "extrapolation_factor");
    rope_key(c, "rope.scaling.yarn_beta_fast", "beta_fast");
    rope_key(c, "rope.scaling.yarn_beta_slow", "beta_slow");
    return rope_magnitude(c, e);
}

/* ---- settings -------------------------------------------------------------------------------- */

static int minicpm_keys(struct converter *c, struct err *e)
{
    double embd, depth, base;
    if (!json_number(c->config, "scale_emb", &embd) ||
        !json_number(c->config, "scale_depth", &depth) ||
        !json_number(c->config, "dim_model_base", &base) || !(base > 0))
        return err_set(e, ERR_FORMAT, "%s: scale_emb, scale_depth or dim_model_base is missing",
                       c->config_path);
    convert_f32(c, "embedding_scale", embd);
    convert_f32(c, "residual_scale", depth / sqrt(c->n_layer));
    convert_f32(c, "logit_scale", (double)c->dims[EMBD] / base);
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
        convert_f32(c, names[i][1], v);
    }
    return 0;
}

/* Tokens that a token attends to, 0 = all. */
static int64_t sliding_window(const struct converter *c)
{
    int64_t n;
    bool used = !(c->family->id & (QWEN2 | QWEN3 | SMOLLM3 | QWEN2MOE | QWEN3MOE |
                                   DOTS1)); /* unless their config sets it */
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
    const bool centred = c->family->id == COHERE2; /* LayerNorm */
    const char *eps_name = c->family->id == LFM2         ? "norm_eps"
                           : c->family->id == NEMOTRON_H ? "layer_norm_epsilon"
                           : centred                     ? "layer_norm_eps"
                                                         : "rms_norm_eps";
    bool has_eps = json_number(c->config, eps_name, &eps);
    if (!has_eps) has_eps = json_number(c->config, "rms_norm_eps", &eps);
    if (!has_eps && c->family->id == GEMMA3) eps = 1e-6, has_eps = true;
    if (!has_eps || !(eps > 0) || !(eps < 1))
        return err_set(e, ERR_FORMAT, "%s: %s is missing", c->config_path, eps_name);
    gguf_keys_str(&c->s->keys, "general.architecture", c->family->arch);
    gguf_keys_str(&c->s->keys, "general.type", "model");
    gguf_keys_str(&c->s->keys, "general.name", name);
    sampling_keys(c);
    convert_u32(c, "block_count", c->n_layer + c->n_mtp);
    if (c->n_mtp) convert_u32(c, "nextn_predict_layers", c->n_mtp);
    convert_u32(c, "context_length", c->n_ctx);
    convert_u32(c, "embedding_length", c->dims[EMBD]);
    if (!(c->family->id & (NEMOTRON_H | GEMMA4)))
        convert_u32(c, "feed_forward_length", c->dims[FF]);
    convert_u32(c, "attention.head_count", c->n_head);
    if (!(c->family->id & KV_HEADS_BY_LAYER))
        convert_u32(c, "attention.head_count_kv", c->n_kv_head);
    if (c->family->id & LATENT) {
        convert_latent_keys(c);
    } else {
        convert_u32(c, "attention.key_length", c->head_dim);
        convert_u32(c, "attention.value_length", c->head_dim);
    }
    convert_f32(c, centred ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon",
                eps);
    convert_u32(c, "vocab_size", c->dims[VOCAB]);
    int64_t window = sliding_window(c);
    if (window > 0 || c->family->id == PHI3) convert_u32(c, "attention.sliding_window", window);
    double beta;
    if (is_arch(c, "mistral") && json_number(c->rope, "llama_4_scaling_beta", &beta))
        convert_f32(c, "attention.temperature_scale", beta);
    if (c->family->id & HYBRID) convert_recurrent_keys(c);
    if (c->dims[N_EXPERTS]) convert_experts_keys(c);
    if (c->family->id == GEMMA4) convert_gemma4_keys(c);
    if (c->family->id & (WINDOWED | OLMO2)) convert_windows_keys(c);
    if (is_arch(c, "granite")) return granite_keys(c, e);
    return is_arch(c, "minicpm") ? minicpm_keys(c, e) : 0;
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
    if (!rc) rc = safetensors_open(&s->weights, s->path, e);
    if (!rc) c.n_mtp = count_mtp(&c);
    for (int i = 0; !rc && i < c.n_mtp; i++) c.recurrent.kinds[c.n_layer + i] = ATTENTION;
    if (!rc) rc = take_keys(&c, e);
    if (!rc) rc = take_rope(&c, e);
    if (!rc) rc = convert_vocab(&s->keys, s->path, c.root, (int)c.dims[VOCAB], e);
    if (!rc) rc = take_tensors(&c, e);
    cJSON_Delete(c.root);
    return rc;
}
