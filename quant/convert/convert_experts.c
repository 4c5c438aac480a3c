/* The numbers and keys of layers with experts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "quant/convert/convert_parts.h"
#include "quant/convert/safetensors.h"
#include "runtime/model/gguf.h"

/* Families whose settings need not say that weights of experts are divided by their sum; those
 * whose GGUF files need not. */
enum {
    ALWAYS_NORMALIZED = MIXTRAL | GPT_OSS | GEMMA4 | GRANITEMOE | GRANITE_H | QWEN35,
    NORMALIZED_IN_GGUF = ALWAYS_NORMALIZED | QWEN3MOE | QWEN3NEXT | GLM4MOE | LFM2,
    NORMALIZED_BY_DEFAULT = ALWAYS_NORMALIZED | QWEN3NEXT | GLM4MOE | DOTS1 | DEEPSEEK3 | LFM2,
    OWN_WIDTH = QWEN2MOE | QWEN3MOE | GEMMA4 | DELTA | DENSE_FIRST | LFM2,
    SIGMOID = (DENSE_FIRST & ~DEEPSEEK2) | LFM2,
};

bool convert_has_experts(const struct converter *c)
{
    int64_t n;
    return c->family->experts ||
           (c->family->id == GEMMA4 && json_bool(c->config, "enable_moe_block", false)) ||
           (c->family->id == GRANITE_H &&
            json_int(c->config, "num_local_experts", 1, INT32_MAX, &n));
}

/* Settings with which layers would differ from the tables. */
static int check(const struct converter *c, struct err *e)
{
    double limit;
    if (json_number(c->config, "swiglu_limit", &limit) && limit != 7)
        return err_set(e, ERR_FORMAT, "%s: swiglu_limit is %g, only 7 is supported", c->config_path,
                       limit);
    int64_t step = 1;
    json_int(c->config, "decoder_sparse_step", 0, INT32_MAX, &step);
    if (step != 1 || cJSON_GetArraySize(json_member(c->config, "mlp_only_layers")) > 0)
        return err_set(e, ERR_FORMAT,
                       "%s: decoder_sparse_step or mlp_only_layers: only models whose layers all "
                       "have experts are supported",
                       c->config_path);
    const char *scores = json_text(c->config, "scoring_func");
    const char *usual = c->family->id & DEEPSEEK2 ? "softmax" : "sigmoid";
    if ((json_int(c->config, "moe_layer_freq", 0, INT32_MAX, &step) && step != 1) ||
        (scores && strcmp(scores, usual)))
        return err_set(e, ERR_FORMAT,
                       "%s: moe_layer_freq must be 1, and scoring_func %s: others are not "
                       "supported",
                       c->config_path, usual);
    if (cJSON_IsNumber(json_member(c->config, "clip_qkv")))
        return err_set(e, ERR_FORMAT, "%s: clip_qkv is not supported", c->config_path);
    return 0;
}

/* The width of all shared experts together. */
static int read_shared(const struct converter *c, int n_ff, int *out, struct err *e)
{
    int64_t n = 0;
    if (c->family->id & (QWEN2MOE | DELTA))
        return convert_int(c, "shared_expert_intermediate_size", 1 << 24, out, e);
    if (c->family->id & (GRANITEMOE | GRANITE_H))
        json_int(c->config, "shared_intermediate_size", 0, 1 << 24, &n);
    else if (json_int(c->config, "n_shared_experts", 0, 64, &n))
        n *= n_ff;
    *out = (int)n;
    return 0;
}

/* Gemma 4 has experts beside the other feed-forward. GLM-4.7-Flash's settings may list the layers;
 * where a dense one comes later, its tensors are not those that are expected. */
static int n_dense(const struct converter *c)
{
    const cJSON *list = json_member(c->config, "mlp_layer_types"), *type;
    int64_t n = 0;
    if (c->family->id == GEMMA4) return c->n_layer;
    cJSON_ArrayForEach(type, list)
    {
        if (strcmp(type->valuestring ? type->valuestring : "", "dense")) break;
        n++;
    }
    json_int(c->config, "first_k_dense_replace", 0, c->n_layer, &n);
    json_int(c->config, "num_dense_layers", 0, c->n_layer, &n);
    return (int)n;
}

int convert_experts(struct converter *c, struct err *e)
{
    static const char *const counts[] = {"num_local_experts", "num_experts", "n_routed_experts"};
    enum { COUNT_MAX = 1024, BIG = 1 << 24 };
    const unsigned id = c->family->id;
    int n = 0, n_ff = 0, n_shared = 0, at = 0;
    int rc = check(c, e);
    while (at < 2 && !json_member(c->config, counts[at])) at++;
    if (!rc) rc = convert_int(c, counts[at], COUNT_MAX, &n, e);
    const char *used = id == GEMMA4 ? "top_k_experts" : "num_experts_per_tok";
    if (!rc) rc = convert_int(c, used, n, &c->experts.n_used, e);
    const char *width = id & OWN_WIDTH ? "moe_intermediate_size" : "intermediate_size";
    if (!rc) rc = convert_int(c, width, BIG, &n_ff, e);
    if (!rc) rc = read_shared(c, n_ff, &n_shared, e);
    c->experts.n_dense = n_dense(c);
    c->experts.normalized = id & ALWAYS_NORMALIZED || json_bool(c->config, "norm_topk_prob",
                                                                (id & NORMALIZED_BY_DEFAULT) != 0);
    c->dims[N_EXPERTS] = n;
    c->dims[EXPERT_FF] = n_ff;
    c->dims[EXPERT_FF2] = 2 * (int64_t)n_ff;
    c->dims[SHARED_FF] = n_shared;
    c->dims[SHARED_FF2] = 2 * (int64_t)n_shared;
    return rc;
}

/* The key of a number that the settings may have. */
static void number_key(struct converter *c, const char *suffix, const char *name)
{
    int64_t n;
    if (json_int(c->config, name, 0, INT32_MAX, &n)) convert_u32(c, suffix, n);
}

/* Groups of experts, and the factor of what they give. */
static void routing_keys(struct converter *c)
{
    double factor;
    const char *choice = json_text(c->config, "topk_method");
    if (!choice || strcmp(choice, "greedy")) {
        number_key(c, "expert_group_count", "n_group");
        number_key(c, "expert_group_used_count", "topk_group");
    }
    number_key(c, "expert_shared_count", "n_shared_experts");
    if (c->family->id & (DENSE_FIRST | LFM2))
        convert_u32(c, "leading_dense_block_count", c->experts.n_dense);
    if (c->family->id & SIGMOID) convert_u32(c, "expert_gating_func", 2);
    if (json_number(c->config, "routed_scaling_factor", &factor) && factor > 0)
        convert_f32(c, "expert_weights_scale", factor);
}

void convert_experts_keys(struct converter *c)
{
    const unsigned id = c->family->id;
    const bool usual = id & NORMALIZED_IN_GGUF;
    convert_u32(c, "expert_count", c->dims[N_EXPERTS]);
    convert_u32(c, "expert_used_count", c->experts.n_used);
    if (id & (OWN_WIDTH | GPT_OSS))
        convert_u32(c, "expert_feed_forward_length", c->dims[EXPERT_FF]);
    if (c->dims[SHARED_FF] && !(id & DENSE_FIRST))
        convert_u32(c, "expert_shared_feed_forward_length", c->dims[SHARED_FF]);
    routing_keys(c);
    if (c->experts.normalized != usual)
        convert_bool(c, "expert_weights_norm", c->experts.normalized);
}

/* Adds a tensor of the folder as a stack in GGUF's order; `rows` are the folder's for each
 * expert. */
static int add_stack(struct converter *c, const struct convert_row *r, const char *gguf,
                     const struct safetensors_tensor *t, struct err *e)
{
    const bool vector = r->n_in == ONE, as_gguf = r->stacked == STACKED;
    const bool half = r->stacked == STACKED_FIRST || r->stacked == STACKED_SECOND;
    const int64_t n_out = c->dims[r->n_out], n_in = c->dims[r->n_in], n = c->dims[N_EXPERTS];
    const int step = r->stacked == STACKED_EVEN || r->stacked == STACKED_ODD ? 2 : 1;
    const int64_t rows = half ? 2 * n_out : as_gguf ? n_out : n_in;
    const int64_t columns = half || as_gguf ? n_in : step * n_out;
    const bool right = vector ? t->n_dims == 2 && t->shape[1] == step * n_out
                              : t->n_dims == 3 && t->shape[1] == rows && t->shape[2] == columns;
    if (!right || t->shape[0] != n || t->type == SAFETENSORS_BYTES)
        return err_set(e, ERR_FORMAT,
                       "%s: tensor '%s' is not %lld x %lld x %lld, which config.json says",
                       c->s->path, t->name, (long long)n, (long long)rows, (long long)columns);
    struct source_tensor *to = source_add(c->s, gguf);
    to->type = t->type;
    to->data = t->data;
    to->n_dims = vector ? 2 : 3;
    to->ne[0] = vector ? n_out : n_in;
    to->ne[1] = vector ? n : n_out;
    to->ne[2] = vector ? 1 : n;
    if (half)
        to->strides =
            (struct source_strides){.first = r->stacked == STACKED_SECOND ? n_out * n_in : 0,
                                    .matrix = rows * n_in,
                                    .row = n_in,
                                    .number = 1};
    else if (!as_gguf)
        to->strides = (struct source_strides){.first = r->stacked == STACKED_ODD,
                                              .matrix = rows * columns,
                                              .row = vector ? columns : step,
                                              .number = vector ? step : columns};
    return 0;
}

/* gpt-oss: the codes [expert][row][in / 32][16] and the exponents [expert][row][in / 32]. */
static int add_mxfp4(struct converter *c, const struct convert_row *r, const char *gguf,
                     const struct safetensors_tensor *codes,
                     const struct safetensors_tensor *exponents, struct err *e)
{
    const int64_t n_out = c->dims[r->n_out], n_in = c->dims[r->n_in];
    const int step = r->stacked == STACKED_COLUMNS ? 1 : 2;
    const int64_t shape[] = {c->dims[N_EXPERTS], step * n_out, n_in / 32, 16};
    bool right = n_in % 32 == 0 && codes->n_dims == 4 && exponents->n_dims == 3;
    for (int i = 0; i < 4; i++) right = right && codes->shape[i] == shape[i];
    for (int i = 0; i < 3; i++) right = right && exponents->shape[i] == shape[i];
    if (!right || codes->type != SAFETENSORS_BYTES || exponents->type != SAFETENSORS_BYTES)
        return err_set(e, ERR_FORMAT, "%s: tensor '%s' is not the MXFP4 that config.json says",
                       c->s->path, codes->name);
    struct source_tensor *to = source_add(c->s, gguf);
    to->type = GGUF_T_MXFP4;
    to->data = codes->data;
    to->exponents = exponents->data;
    to->n_dims = 3;
    to->ne[0] = n_in;
    to->ne[1] = n_out;
    to->ne[2] = c->dims[N_EXPERTS];
    to->strides = (struct source_strides){.first = r->stacked == STACKED_ODD ? n_in : 0,
                                          .matrix = step * n_out * n_in,
                                          .row = step * n_in,
                                          .number = 1};
    return 0;
}

int convert_stack(struct converter *c, const struct convert_row *r, const char *own,
                  const char *gguf, struct err *e)
{
    char name[256];
    const struct safetensors_tensor *t = safetensors_find(c->s->weights, own), *exponents;
    if (t) return add_stack(c, r, gguf, t, e);
    snprintf(name, sizeof name, "%s_blocks", own);
    t = safetensors_find(c->s->weights, name);
    snprintf(name, sizeof name, "%s_scales", own);
    exponents = safetensors_find(c->s->weights, name);
    if (t && exponents && c->family->id == GPT_OSS) return add_mxfp4(c, r, gguf, t, exponents, e);
    if (!(r->needed & c->family->id) && c->dims[N_EXPERTS] == 0) return 0;
    return err_set(e, ERR_FORMAT, "%s: tensor '%s' is missing; the folder is incomplete",
                   c->s->path, own);
}

/* The two parts of a stack in MXFP4. */
static bool is_part(const struct convert_row *r, const char *name)
{
    const size_t n = strlen(r->hf);
    return r->stacked && !strncmp(name, r->hf, n) &&
           (!strcmp(name + n, "_blocks") || !strcmp(name + n, "_scales"));
}

bool convert_is_named(const struct converter *c, const struct convert_row *r, const char *name)
{
    const size_t n = strcspn(r->hf, "*");
    if (!r->hf[n]) return !strcmp(name, r->hf) || (c->family->id == GPT_OSS && is_part(r, name));
    if (strncmp(name, r->hf, n)) return false;
    const size_t digits = strspn(name + n, "0123456789");
    return digits >= 1 && digits <= 4 && atoi(name + n) < c->dims[N_EXPERTS] &&
           !strcmp(name + n + digits, r->hf + n + 1);
}
