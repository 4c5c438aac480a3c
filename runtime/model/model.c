#include "runtime/model/model.h"

#include <limits.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/memory.h"
#include "base/pool.h"
#include "base/system.h"
#include "runtime/model/blocks.h"

static const struct model_family *const families[] = {
    &family_llama,     &family_phi3,      &family_qwen2,         &family_qwen3,
    &family_minicpm,   &family_granite,   &family_olmo2,         &family_smollm3,
    &family_mistral3,  &family_ernie4_5,  &family_seed_oss,      &family_glm4,
    &family_qwen35,    &family_lfm2,      &family_granitehybrid, &family_granitemoe,
    &family_olmoe,     &family_qwen2moe,  &family_qwen3moe,      &family_gemma2,
    &family_gemma3,    &family_gemma4,    &family_gpt_oss,       &family_exaone4,
    &family_lfm2moe,   &family_qwen35moe, &family_qwen3next,     &family_falcon_h1,
    &family_glm4moe,   &family_dots1,     &family_cohere2,       &family_nemotron_h,
    &family_deepseek2, &family_minicpm3,
};

/* ---- metadata -------------------------------------------------------------------------------- */

static void key_of(char *out, size_t n, const struct model *m, const char *suffix)
{
    snprintf(out, n, "%s.%s", m->arch, suffix);
}

int model_get_int(const struct model *m, const char *suffix, int min, int max, int *out,
                  struct err *e)
{
    char key[128];
    uint32_t v;
    key_of(key, sizeof key, m, suffix);
    if (!gguf_get_u32(m->file, key, &v))
        return err_set(e, ERR_FORMAT, "%s: metadata %s is missing; this is not a complete %s model",
                       gguf_name(m->file), key, m->arch);
    if (v > INT_MAX || (int)v < min || (int)v > max)
        return err_set(e, ERR_FORMAT, "%s: %s is %u, expected %d to %d", gguf_name(m->file), key, v,
                       min, max);
    *out = (int)v;
    return 0;
}

static bool has_int(const struct model *m, const char *suffix)
{
    char key[128];
    uint32_t v;
    key_of(key, sizeof key, m, suffix);
    return gguf_get_u32(m->file, key, &v);
}

int model_get_optional(const struct model *m, const char *suffix, int min, int max, int *out,
                       struct err *e)
{
    return has_int(m, suffix) ? model_get_int(m, suffix, min, max, out, e) : 0;
}

bool model_get_layers(const struct model *m, const char *suffix, struct gguf_array *out)
{
    char key[128];
    key_of(key, sizeof key, m, suffix);
    return gguf_get_array(m->file, key, out) && out->n >= (size_t)m->n_layer;
}

bool model_get_float(const struct model *m, const char *suffix, float *out)
{
    char key[128];
    key_of(key, sizeof key, m, suffix);
    return gguf_get_f32(m->file, key, out);
}

int model_get_scale(const struct model *m, const char *suffix, float *out, struct err *e)
{
    float v;
    if (!model_get_float(m, suffix, &v) || v == 0.0f) return 0;
    if (!isfinite(v) || v < 0.0f)
        return err_set(e, ERR_FORMAT, "%s: %s.%s is %g, expected a number above 0",
                       gguf_name(m->file), m->arch, suffix, (double)v);
    *out = v;
    return 0;
}

/* ---- binding --------------------------------------------------------------------------------- */

static int find(struct model *m, const char *name, int64_t n0, int64_t n1, int64_t n2,
                const struct gguf_tensor **out, struct err *e)
{
    const struct gguf_tensor *t = gguf_tensor_find(m->file, name);
    if (!t)
        return err_set(e, ERR_FORMAT, "%s: tensor %s is missing; the file is incomplete",
                       gguf_name(m->file), name);
    if (t->ne[0] != n0 || t->ne[1] != n1 || t->ne[2] != n2 || t->ne[3] != 1)
        return err_set(e, ERR_FORMAT,
                       "%s: tensor %s is %lld x %lld x %lld, its metadata says %lld x %lld x %lld",
                       gguf_name(m->file), name, (long long)t->ne[0], (long long)t->ne[1],
                       (long long)t->ne[2], (long long)n0, (long long)n1, (long long)n2);
    if (!t->data && !gguf_is_start(m->file))
        return err_set(e, ERR_FORMAT, "%s: the file ends before its tensors; download it again",
                       gguf_name(m->file));
    *out = t;
    return 0;
}

static int add_item(struct model *m, struct model_load_item item)
{
    m->items = memory_more(m->items, (size_t)m->n_items, &m->items_max, sizeof *m->items);
    item.from.name = NULL;
    m->items[m->n_items++] = item;
    return 0;
}

int model_bind_matrix(struct model *m, struct kn_weight *w, const struct model_source *s, int n_out,
                      int n_in, struct err *e)
{
    const struct gguf_tensor *t;
    const int n_stack = s->n_stack ? s->n_stack : 1;
    const int per = n_out / n_stack;
    int rc = s->transposed ? find(m, s->name, per, s->n_rows, 1, &t, e)
                           : find(m, s->name, n_in, s->n_rows ? s->n_rows : per, n_stack, &t, e);
    if (rc) return rc;
    if (!blocks_readable(t->type)) {
        const struct gguf_tensor_type *known = gguf_tensor_type(t->type);
        return err_set(e, ERR_FORMAT,
                       "%s: tensor %s has type %s, which cannot be run; "
                       "use a file in Q4_K_M, Q4_0, Q5_K_M, Q6_K, Q8_0 or F16",
                       gguf_name(m->file), s->name, known ? known->name : "?");
    }
    const enum kn_type type = m->as_f32       ? KN_F32
                              : s->transposed ? KN_F16
                                              : blocks_kernel_type(t->type, false);
    if (n_stack > 1 && kn_is_quantized(type) && per % KN_PANEL)
        return err_set(e, ERR_FORMAT,
                       "%s: experts or heads with %d rows in %s cannot be run, only with a "
                       "multiple of %d",
                       gguf_name(m->file), per, s->name, KN_PANEL);
    *w = (struct kn_weight){.type = type, .n_out = n_out, .n_in = n_in};
    return add_item(m, (struct model_load_item){.weight = w,
                                                .tensor = t,
                                                .from = *s,
                                                .n_stack = s->per_head ? 1 : n_stack,
                                                .n_transposed = s->transposed ? n_stack : 0});
}

static int check_floats(const struct model *m, const struct gguf_tensor *t, const char *name,
                        struct err *e)
{
    if (blocks_readable(t->type) && gguf_tensor_type(t->type)->block == 1) return 0;
    return err_set(e, ERR_FORMAT, "%s: tensor %s is a vector, expected F32, F16 or BF16",
                   gguf_name(m->file), name);
}

int model_bind_vector(struct model *m, const float **v, const struct model_source *s, int n,
                      struct err *e)
{
    const struct gguf_tensor *t;
    const int n_stack = s->n_stack ? s->n_stack : 1;
    int rc = find(m, s->name, s->n_rows ? s->n_rows : n / n_stack, n_stack, 1, &t, e);
    if (rc) return rc;
    rc = check_floats(m, t, s->name, e);
    if (rc) return rc;
    return add_item(m, (struct model_load_item){
                           .vector = v, .tensor = t, .from = *s, .n = n, .n_stack = n_stack});
}

int model_bind_table(struct model *m, const float **v, const char *name, int n_rows, int n_columns,
                     bool by_column, struct err *e)
{
    const struct gguf_tensor *t;
    int rc = find(m, name, n_columns, n_rows, 1, &t, e);
    if (!rc) rc = check_floats(m, t, name, e);
    if (rc) return rc;
    return add_item(m, (struct model_load_item){.vector = v,
                                                .tensor = t,
                                                .n = n_rows * n_columns,
                                                .n_stack = 1,
                                                .by_column = by_column});
}

/* ---- opening --------------------------------------------------------------------------------- */

static bool named(struct gguf_str arch, const char *name)
{
    return strlen(name) == arch.n && !memcmp(name, arch.data, arch.n);
}

/* A family that is much like one that is not known; "" = none. */
static const char *nearest_family(struct gguf_str arch)
{
    static const char *const table[][2] = {
        {"gemma3n", "gemma4 (E2B, E4B)"}, {"gemma", "gemma2"},
        {"command-r", "cohere2"},         {"cohere2moe", "cohere2"},
        {"nemotron_h_moe", "nemotron_h"}, {"nemotron", "nemotron_h"},
        {"mamba2", "granitehybrid"},      {"exaone-moe", "exaone4"},
        {"ernie4_5-moe", "ernie4_5"},     {"phimoe", "phi3"},
        {"deepseek32", "deepseek2"},      {"glm-dsa", "deepseek2"},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (named(arch, table[i][0])) return table[i][1];
    return "";
}

/* Other names of families. Of models that also read pictures only the text part runs: in text all
 * parts of a position are equal, so their rotation in sections is the plain one. */
static const struct {
    const char *arch;
    const struct model_family *family;
} aliases[] = {
    {"qwen2vl", &family_qwen2},
    {"qwen3vl", &family_qwen3},
    {"qwen3vlmoe", &family_qwen3moe},
    {"mistral4", &family_deepseek2},
};

bool model_stem(const char *path, char *out, size_t bytes)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    size_t n = strlen(name);
    bool gguf = n > 5 && !strcasecmp(name + n - 5, ".gguf");
    if (gguf) n -= 5;
    /* a part of a model: NAME-00001-of-00003 */
    if (gguf && n > 15 && !strncmp(name + n - 9, "-of-", 4) && name[n - 15] == '-') n -= 15;
    snprintf(out, bytes, "%.*s", (int)n, name);
    return gguf;
}

static void set_name(struct model *m)
{
    struct gguf_str s;
    char stem[sizeof m->name];
    bool named = gguf_get_str(m->file, "general.name", &s) && s.n > 0;
    bool file = model_stem(gguf_name(m->file), stem, sizeof stem);
    snprintf(m->title, sizeof m->title, "%s", named ? gguf_show(s).text : stem);
    snprintf(m->name, sizeof m->name, "%s", file ? stem : m->title);
}

static int find_family(struct model *m, struct err *e)
{
    const struct gguf *file = m->file;
    struct gguf_str arch, type;
    if (gguf_get_str(file, "general.type", &type) && type.n != 5)
        return err_set(e, ERR_FORMAT, "%s is a GGUF file of type \"%s\", not a model",
                       gguf_name(file), gguf_show(type).text);
    if (!gguf_get_str(file, "general.architecture", &arch))
        return err_set(e, ERR_FORMAT, "%s: general.architecture is missing; this is not a model",
                       gguf_name(file));
    for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++)
        if (named(arch, aliases[i].arch)) m->family = aliases[i].family;
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        if (named(arch, families[i]->arch)) m->family = families[i];
    const char *nearest = nearest_family(arch);
    if (!m->family)
        return err_set(
            e, ERR_FORMAT,
            "%s: model family \"%s\" is not known%s%s; docs/conformance.md lists those that are",
            gguf_name(file), gguf_show(arch).text, *nearest ? ", the nearest is " : "", nearest);
    snprintf(m->arch, sizeof m->arch, "%.*s", (int)arch.n, arch.data);
    set_name(m);
    return 0;
}

/* The first of two names of a number that the file has. */
static int get_either(const struct model *m, const char *suffix, const char *other, int max,
                      int *out, struct err *e)
{
    return model_get_int(m, has_int(m, suffix) ? suffix : other, 1, max, out, e);
}

/* Files with matrices of each head give the size of their products another name. */
static int read_latent(struct model *m, struct err *e)
{
    struct model_latent *s = &m->latent;
    const int big = 1 << 16;
    int n_rot = 0, query = 0;
    int rc = model_get_int(m, "attention.kv_lora_rank", 2, KN_HEAD_DIM_MAX, &s->rank, e);
    if (!rc) rc = model_get_optional(m, "attention.q_lora_rank", 0, big, &s->q_rank, e);
    if (!rc) rc = model_get_int(m, "rope.dimension_count", 2, KN_HEAD_DIM_MAX, &n_rot, e);
    if (!rc) rc = get_either(m, "attention.key_length_mla", "attention.key_length", big, &query, e);
    s->n_value = m->n_embd / m->n_head;
    if (!rc && has_int(m, "attention.value_length")) /* MiniCPM 3 has none */
        rc = get_either(m, "attention.value_length_mla", "attention.value_length", big, &s->n_value,
                        e);
    if (rc) return rc;
    m->n_kv_head = 1;
    m->head_dim = s->rank + n_rot;
    s->n_plain = query - n_rot;
    if (s->rank % 2 || n_rot % 2 || s->n_plain < 1 || s->n_value < 1)
        return err_set(e, ERR_FORMAT,
                       "%s: latent rows of %d numbers, %d rotated and queries of %d do not fit "
                       "together",
                       gguf_name(m->file), s->rank, n_rot, query);
    return 0;
}

static int read_lengths(struct model *m, struct err *e)
{
    m->head_dim = m->n_embd / m->n_head;
    int rc = model_get_optional(m, "attention.key_length", 2, 1024, &m->head_dim, e);
    int n_value = m->head_dim;
    if (!rc) rc = model_get_optional(m, "attention.value_length", 0, INT_MAX, &n_value, e);
    if (rc || n_value == m->head_dim) return rc;
    return err_set(e, ERR_FORMAT,
                   "%s: models with keys of %d numbers and values of %d are not supported",
                   gguf_name(m->file), m->head_dim, n_value);
}

static int read_head_dim(struct model *m, struct err *e)
{
    int rc = m->family->latent ? read_latent(m, e) : read_lengths(m, e);
    if (rc) return rc;
    if (m->n_head % m->n_kv_head || m->head_dim % 2 || m->head_dim < 2)
        return err_set(e, ERR_FORMAT, "%s: %d heads, %d KV heads, head size %d do not fit together",
                       gguf_name(m->file), m->n_head, m->n_kv_head, m->head_dim);
    if (m->head_dim > KN_HEAD_DIM_MAX)
        return err_set(e, ERR_FORMAT, "%s: heads of %d numbers cannot be run, %d at most",
                       gguf_name(m->file), m->head_dim, KN_HEAD_DIM_MAX);
    return 0;
}

/* A file may have experts in a family that this program knows only without. */
static int refuse_experts(const struct model *m, struct err *e)
{
    int n = 0;
    int rc = m->family->experts ? 0 : model_get_optional(m, "expert_count", 0, INT_MAX, &n, e);
    if (rc || n == 0) return rc;
    return err_set(e, ERR_FORMAT,
                   "%s: a %s model with %d experts cannot be run, only one without experts",
                   gguf_name(m->file), m->arch, n);
}

static int read_vocabulary(struct model *m, struct err *e)
{
    struct gguf_array tokens;
    if (!gguf_get_array(m->file, "tokenizer.ggml.tokens", &tokens) || tokens.n == 0 ||
        tokens.n > 1 << 24)
        return err_set(e, ERR_FORMAT, "%s: the file has no vocabulary (tokenizer.ggml.tokens)",
                       gguf_name(m->file));
    m->n_vocab = (int)tokens.n;
    return 0;
}

/* One number, or one per layer, where 0 marks a layer without attention. */
static int read_kv_heads(struct model *m, struct err *e)
{
    struct gguf_array layers;
    m->n_kv_head = m->n_head;
    int rc = model_get_optional(m, "attention.head_count_kv", 1, m->n_head, &m->n_kv_head, e);
    if (rc || !model_get_layers(m, "attention.head_count_kv", &layers)) return rc;
    for (int i = 0, first = 0; i < m->n_layer; i++) {
        int n = gguf_array_i32(&layers, (size_t)i);
        if (n < 0 || n > m->n_head || (n && first && n != first && !m->family->windows))
            return err_set(e, ERR_FORMAT, "%s: layer %d has %d KV heads; %s", gguf_name(m->file), i,
                           n, "layers with different numbers of them are not supported");
        if (n) m->n_kv_head = first = n;
    }
    return 0;
}

/* One number, or one per layer, where 0 marks a layer without a feed-forward: the largest. */
static int read_n_ff(struct model *m, struct err *e)
{
    static const char suffix[] = "feed_forward_length";
    struct gguf_array layers;
    if (!model_get_layers(m, suffix, &layers))
        return model_get_int(m, suffix, 1, 1 << 24, &m->n_ff, e);
    for (int i = 0; i < m->n_layer; i++) {
        const int n = gguf_array_i32(&layers, (size_t)i);
        if (n < 0 || n > 1 << 24)
            return err_set(e, ERR_FORMAT, "%s: %s of layer %d is %d, expected 0 or more",
                           gguf_name(m->file), suffix, i, n);
        if (n > m->n_ff) m->n_ff = n;
    }
    return m->n_ff ? 0
                   : err_set(e, ERR_FORMAT, "%s: no layer has a feed-forward", gguf_name(m->file));
}

static int read_hparams(struct model *m, struct err *e)
{
    const int big = 1 << 24;
    uint32_t v;
    char key[128];
    int rc = model_get_int(m, "embedding_length", 1, big, &m->n_embd, e);
    if (!rc) rc = model_get_int(m, "block_count", 1, MODEL_LAYERS_MAX, &m->n_layer, e);
    if (!rc) rc = model_get_optional(m, "nextn_predict_layers", 0, m->n_layer - 1, &m->n_mtp, e);
    m->n_layer -= m->n_mtp;
    if (!rc) rc = model_get_int(m, "attention.head_count", 1, 4096, &m->n_head, e);
    if (!rc) rc = read_n_ff(m, e);
    if (!rc) rc = model_get_int(m, "context_length", 1, INT_MAX, &m->n_ctx, e);
    if (rc) return rc;
    rc = read_kv_heads(m, e);
    if (rc) return rc;
    m->window = m->n_ctx;
    key_of(key, sizeof key, m, "attention.sliding_window");
    if (gguf_get_u32(m->file, key, &v) && v > 0 && v < (uint32_t)m->n_ctx) m->window = (int)v;
    if (!model_get_float(m, "attention.layer_norm_rms_epsilon", &m->norm_eps) &&
        !model_get_float(m, "attention.layer_norm_epsilon", &m->norm_eps))
        m->norm_eps = 1e-5f;
    m->embed_scale = m->residual_scale = m->logit_scale = 1.0f;
    rc = read_head_dim(m, e);
    if (!rc) rc = refuse_experts(m, e);
    return rc ? rc : read_vocabulary(m, e);
}

/* Call after the other numbers are read: reads the rotation of heads, which sets the scale of their
 * products. */
static int read_rope(struct model *m, struct err *e)
{
    int rc = rope_init(&m->rope, m, m->head_dim, e);
    const int n = m->latent.rank ? model_latent_query(m) : m->head_dim;
    m->attn_scale = m->rope.magnitude * m->rope.magnitude / sqrtf((float)n);
    return rc;
}

static size_t bytes_of_type(const struct model *m, uint32_t type)
{
    size_t bytes = 0;
    for (int i = 0; i < m->n_items; i++)
        if (m->items[i].weight && m->items[i].tensor->type == type)
            bytes += m->items[i].tensor->bytes;
    return bytes;
}

/* The names of general.file_type, as llama.cpp numbers them. */
static const char *type_of_file(const struct gguf *g)
{
    static const char *const names[] = {
        [0] = "F32",      [1] = "F16",      [2] = "Q4_0",    [3] = "Q4_1",    [7] = "Q8_0",
        [8] = "Q5_0",     [9] = "Q5_1",     [10] = "Q2_K",   [11] = "Q3_K_S", [12] = "Q3_K_M",
        [13] = "Q3_K_L",  [14] = "Q4_K_S",  [15] = "Q4_K_M", [16] = "Q5_K_S", [17] = "Q5_K_M",
        [18] = "Q6_K",    [19] = "IQ2_XXS", [20] = "IQ2_XS", [21] = "Q2_K_S", [22] = "IQ3_XS",
        [23] = "IQ3_XXS", [24] = "IQ1_S",   [25] = "IQ4_NL", [26] = "IQ3_S",  [27] = "IQ3_M",
        [28] = "IQ2_S",   [29] = "IQ2_M",   [30] = "IQ4_XS", [31] = "IQ1_M",  [32] = "BF16",
        [36] = "TQ1_0",   [37] = "TQ2_0",   [38] = "MXFP4",
    };
    uint32_t type;
    bool known = gguf_get_u32(g, "general.file_type", &type) && type < sizeof names / sizeof *names;
    return known ? names[type] : NULL;
}

/* The file's own, or the type of most bytes. */
static void set_type(struct model *m)
{
    const char *own = m->as_f32 ? NULL : type_of_file(m->file);
    size_t best = 0;
    if (own) {
        snprintf(m->type, sizeof m->type, "%s", own);
        return;
    }
    for (int i = 0; i < m->n_items; i++) {
        const struct gguf_tensor *t = m->items[i].tensor;
        size_t bytes = m->items[i].weight ? bytes_of_type(m, t->type) : 0;
        if (bytes <= best) continue;
        best = bytes;
        snprintf(m->type, sizeof m->type, "%s",
                 m->as_f32 ? "F32" : gguf_tensor_type(t->type)->name);
    }
}

/* Whether a tensor belongs to a block after the layers. */
static bool is_of_mtp(const struct model *m, struct gguf_str name)
{
    char text[32];
    int block, end = 0;
    snprintf(text, sizeof text, "%.*s", (int)(name.n < 31 ? name.n : 31), name.data);
    return sscanf(text, "blk.%d.%n", &block, &end) == 1 && end && block >= m->n_layer &&
           block < m->n_layer + m->n_mtp;
}

/* A tensor that the family did not bind is a part of the model that the computation would omit. */
static int refuse_unused(const struct model *m, struct err *e)
{
    for (size_t k = 0; k < gguf_n_tensors(m->file); k++) {
        const struct gguf_tensor *t = gguf_tensor_at(m->file, k);
        /* How NVFP4's makers round what a matrix reads to 4 bits; here it is rounded to 8. */
        const bool scale =
            t->name.n > 12 && !memcmp(t->name.data + t->name.n - 12, ".input_scale", 12);
        /* rope.c reads tensors with this prefix */
        bool used =
            (t->name.n > 6 && !memcmp(t->name.data, "rope_f", 6)) || is_of_mtp(m, t->name) || scale;
        for (int i = 0; !used && i < m->n_items; i++) used = m->items[i].tensor == t;
        if (!used)
            return err_set(
                e, ERR_FORMAT,
                "%s: tensor %s does not belong to a %s model; this variant is not supported",
                gguf_name(m->file), gguf_show(t->name).text, m->arch);
    }
    return 0;
}

int model_open(struct model **out, struct gguf *file, bool as_f32, struct err *e)
{
    struct model *m = memory_new(1, sizeof *m);
    *out = NULL;
    m->file = file;
    m->as_f32 = as_f32;
    int rc = find_family(m, e);
    if (!rc) rc = read_hparams(m, e);
    if (!rc) rc = read_rope(m, e);
    if (!rc) m->layers = memory_new((size_t)m->n_layer + 1, sizeof *m->layers);
    if (!rc) rc = m->family->bind(m, e);
    if (!rc) rc = refuse_unused(m, e);
    if (rc) {
        model_close(m);
        return rc;
    }
    model_list_ops(m);
    set_type(m);
    *out = m;
    return 0;
}

void model_close(struct model *m)
{
    if (!m) return;
    gguf_close(m->file);
    rope_release(&m->rope);
    rope_release(&m->windowed.rope);
    free(m->layers);
    free(m->items);
    free(m);
}

/* ---- loading --------------------------------------------------------------------------------- */

void model_plan(struct model *m, struct arena *a)
{
    for (int i = 0; i < m->n_items; i++) {
        struct model_load_item *it = &m->items[i];
        struct kn_weight *w = it->weight;
        if (model_on_device(m, it)) continue;
        void *p = w ? arena_take(a, 1, kn_weight_bytes(w->type, w->n_out, w->n_in))
                    : arena_take(a, (size_t)it->n, sizeof(float));
        if (!a->base) continue;
        if (w)
            w->data = p;
        else
            *it->vector = p;
    }
    if (m->tied) m->output = m->embedding;
}

#define ROWS_PER_PART 64 /* a multiple of KN_PANEL */

/* The row in the file for row r of rotated heads. In the file the n_rot rotated numbers of a head
 * come first, with the numbers of a pair either adjacent or n_rot / 2 apart. In the kernels' order
 * the numbers of a pair are half a head apart, and the unrotated ones come last in each half. */
static int rotated_row(const struct model *m, bool windowed, int r)
{
    const struct model_heads h = model_heads(m, windowed);
    int dim = h.head_dim, half = dim / 2, n_rot = h.rope->n_rot, n_pairs = n_rot / 2;
    int head = r / dim * dim, i = r % half, second = r % dim / half;
    if (i >= n_pairs) return head + n_rot + i - n_pairs + second * (half - n_pairs);
    return head + (m->family->rope_pairs ? 2 * i + second : i + second * n_pairs);
}

/* Row r of the rows that an item takes from each matrix of its tensor, one after another. */
static int64_t source_row(const struct model *m, const struct model_load_item *it, int r)
{
    const int per = (it->weight ? it->weight->n_out : it->n) / it->n_stack;
    const int64_t matrix = it->tensor->ne[it->weight ? 1 : 0];
    int row = it->from.rotated ? rotated_row(m, it->from.windowed, r % per) : r % per;
    if (it->from.step) row = row / it->from.group * it->from.step + row % it->from.group;
    return r / per * matrix + it->from.row0 + row;
}

/* Where number i of a vector is in its tensor. */
static int64_t source_number(const struct model *m, const struct model_load_item *it, int i)
{
    const int64_t n_columns = it->tensor->ne[0], n_rows = it->tensor->ne[1];
    return it->by_column ? i % n_rows * n_columns + i / n_rows : source_row(m, it, i);
}

struct load_job {
    const struct model *m;
    const struct model_load_item *it;
};

/* Rows [r0, end) of a matrix of a stack, at most ROWS_PER_PART: columns of the file's. */
static void load_columns(const struct kn_weight *w, const struct model_load_item *it, int per,
                         int r0, int end, int to)
{
    const size_t row_bytes = gguf_row_bytes(it->tensor->type, per);
    const size_t n_in = (size_t)w->n_in, row0 = (size_t)(r0 / per * it->from.step + it->from.row0);
    float from[KN_HEAD_DIM_MAX], *x = (float *)w->data + (size_t)to * n_in;
    uint16_t *half = (uint16_t *)w->data + (size_t)to * n_in;
    for (size_t i = 0; i < n_in; i++) {
        blocks_to_float(from, it->tensor->type,
                        (const char *)it->tensor->data + (row0 + i) * row_bytes, (size_t)per);
        for (size_t r = 0; r < (size_t)(end - r0); r++) {
            const float v = from[(size_t)(r0 % per) + r];
            if (w->type == KN_F32)
                x[r * n_in + i] = v;
            else
                half[r * n_in + i] = kn_half_from_float(v);
        }
    }
}

static void load_transposed(const struct kn_weight *w, const struct model_load_item *it, int r0,
                            int end)
{
    const int per = it->weight->n_out / it->n_transposed;
    for (int r = r0, stop; r < end; r = stop) {
        stop = (r / per + 1) * per < end ? (r / per + 1) * per : end;
        load_columns(w, it, per, r, stop, r - r0);
    }
}

/* Loads rows [r0, end) of the item's matrix as rows 0, 1, … of w. */
static void load_range(const struct kn_weight *w, const struct model *m,
                       const struct model_load_item *it, int r0, int end)
{
    size_t row_bytes = gguf_row_bytes(it->tensor->type, w->n_in);
    if (it->n_transposed) {
        load_transposed(w, it, r0, end);
        return;
    }
    for (int r = r0; r < end; r++) {
        size_t row = (size_t)source_row(m, it, r);
        const char *src = (const char *)it->tensor->data + row * row_bytes;
        blocks_pack(w, r - r0, it->tensor->type, src);
    }
}

/* So the file's pages and the weights made of them are not both in memory, but for a part. */
static void forget_range(const struct load_job *job, int r0, int end)
{
    const struct gguf_tensor *t = job->it->tensor;
    if (job->it->n_transposed) return; /* other parts read the same rows */
    int64_t first = source_row(job->m, job->it, r0), n = end - r0;
    size_t row_bytes = t->bytes / (size_t)(t->ne[1] * t->ne[2]);
    if (source_row(job->m, job->it, end - 1) - first != n - 1) return; /* in another order */
    gguf_forget(job->m->file, (const char *)t->data + (size_t)first * row_bytes,
                (size_t)n * row_bytes, false);
}

static void load_rows(void *ctx, int part, int thread)
{
    (void)thread;
    const struct load_job *job = ctx;
    const struct kn_weight *w = job->it->weight;
    int r0 = part * ROWS_PER_PART;
    int end = w->n_out - r0 < ROWS_PER_PART ? w->n_out : r0 + ROWS_PER_PART;
    struct kn_weight rows = kn_weight_rows(w, r0, end);
    load_range(&rows, job->m, job->it, r0, end);
    forget_range(job, r0, end);
}

static void load_vector(float *out, const struct model *m, const struct model_load_item *it)
{
    const struct gguf_tensor *t = it->tensor;
    size_t bytes = (size_t)gguf_tensor_type(t->type)->block_bytes;
    for (int i = 0; i < it->n; i++)
        blocks_to_float(out + i, t->type,
                        (const char *)t->data + (size_t)source_number(m, it, i) * bytes, 1);
}

int64_t model_item_bytes(const struct model_load_item *it)
{
    int64_t rows = it->weight ? it->weight->n_out : it->n;
    const int64_t *ne = it->tensor->ne;
    if (it->n_transposed) rows = (int64_t)it->n_transposed * it->weight->n_in;
    return (int64_t)it->tensor->bytes / (it->weight ? ne[1] * ne[2] : ne[0] * ne[1]) * rows;
}

void model_load_item(const struct model *m, int i, struct pool *p)
{
    const struct model_load_item *it = &m->items[i];
    struct load_job job = {m, it};
    if (it->weight)
        pool_run(p, (it->weight->n_out + ROWS_PER_PART - 1) / ROWS_PER_PART, load_rows, &job);
    else
        load_vector((float *)*it->vector, m, it);
}

static const struct model_load_item *embedding_item(const struct model *m)
{
    const struct model_load_item *it = m->items;
    while (it->weight != &m->embedding) it++;
    return it;
}

/* One row of the embedding in the CPU's layout. */
static struct kn_weight embedding_row(const struct model *m)
{
    const enum kn_type type =
        m->as_f32 ? KN_F32 : blocks_kernel_type(embedding_item(m)->tensor->type, false);
    return (struct kn_weight){.type = type, .n_out = 1, .n_in = m->n_embd};
}

size_t model_embedding_bytes(const struct model *m)
{
    const struct kn_weight row = embedding_row(m);
    if (!model_on_device(m, embedding_item(m))) return 0;
    return kn_weight_bytes(row.type, 1, row.n_in);
}

void model_embedding(const struct model *m, int32_t id, void *packed, float *out)
{
    struct kn_weight row = embedding_row(m);
    if (!model_on_device(m, embedding_item(m))) {
        kn_row(out, &m->embedding, id);
        return;
    }
    row.data = memset(packed, 0, kn_weight_bytes(row.type, 1, row.n_in));
    load_range(&row, m, embedding_item(m), id, id + 1);
    kn_row(out, &row, 0);
}

int model_load(struct model *m, struct pool *p, int (*progress)(void *, int64_t, int64_t),
               void *ctx, struct err *e)
{
    int64_t done = 0, total = 0;
    for (int i = 0; i < m->n_items; i++) total += model_item_bytes(&m->items[i]);
    for (int i = 0; i < m->n_items; i++) {
        if (model_on_device(m, &m->items[i])) continue;
        model_load_item(m, i, p);
        gguf_forget(m->file, m->items[i].tensor->data, m->items[i].tensor->bytes, false);
        done += model_item_bytes(&m->items[i]);
        if (progress && progress(ctx, done, total))
            return err_set(e, ERR_STOP, "loading was interrupted");
    }
    gguf_forget_data(m->file);
    return 0;
}

/* ---- comparing ------------------------------------------------------------------------------- */

struct hold_job {
    const struct model *m;
    const struct model_load_item *it; /* NULL: part i is item i, and one panel is enough */
    uint32_t first;                   /* of these panels, another one at each start */
    atomic_bool differs;
};

static bool holds_panel(const struct model *m, const struct model_load_item *it, int panel)
{
    const struct kn_weight *w = it->weight;
    int r0 = panel * KN_PANEL;
    int end = w->n_out - r0 < KN_PANEL ? w->n_out : r0 + KN_PANEL;
    struct kn_weight held = kn_weight_rows(w, r0, end), now = held;
    size_t bytes = kn_weight_bytes(w->type, end - r0, w->n_in);
    void *p = calloc(1, bytes);
    if (!p) return false;
    now.data = p;
    load_range(&now, m, it, r0, end);
    bool same = !memcmp(held.data, p, bytes);
    free(p);
    return same;
}

static bool holds_vector(const struct model *m, const struct model_load_item *it)
{
    float *now = calloc((size_t)it->n, sizeof *now);
    if (!now) return false;
    load_vector(now, m, it);
    bool same = !memcmp(*it->vector, now, (size_t)it->n * sizeof *now);
    free(now);
    return same;
}

static void compare(void *ctx, int part, int thread)
{
    (void)thread;
    struct hold_job *job = ctx;
    const struct model_load_item *it = job->it ? job->it : &job->m->items[part];
    int n_panels = it->weight ? (it->weight->n_out + KN_PANEL - 1) / KN_PANEL : 1;
    /* scattered over the matrix */
    int panel = job->it ? part : (int)(((int64_t)part * 7919 + job->first) % n_panels);
    bool same = it->weight ? holds_panel(job->m, it, panel) : holds_vector(job->m, it);
    if (!same) atomic_store(&job->differs, true);
}

bool model_holds(const struct model *m, struct pool *p, bool all)
{
    struct hold_job job = {.m = m, .first = (uint32_t)system_clock_ns() >> 10};
    if (!all) pool_run(p, m->n_items, compare, &job);
    for (int i = 0; all && i < m->n_items; i++) {
        job.it = &m->items[i];
        const struct kn_weight *w = job.it->weight;
        pool_run(p, w ? (w->n_out + KN_PANEL - 1) / KN_PANEL : 1, compare, &job);
    }
    return !atomic_load(&job.differs);
}
