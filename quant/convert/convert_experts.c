/* The numbers and keys of layers with experts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "quant/convert/convert_parts.h"
#include "quant/convert/safetensors.h"
#include "runtime/model/gguf.h"

/* Families whose settings need not say that weights of experts are divided by their sum. */
enum { ALWAYS_NORMALIZED = MIXTRAL | GPT_OSS | GEMMA4 };

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
    if (cJSON_IsNumber(json_member(c->config, "clip_qkv")))
        return err_set(e, ERR_FORMAT, "%s: clip_qkv is not supported", c->config_path);
    return 0;
}

int convert_experts(struct converter *c, struct err *e)
{
    enum { COUNT_MAX = 1024, BIG = 1 << 24 };
    const unsigned id = c->family->id;
    int n = 0, n_ff = 0, n_shared = 0;
    int rc = check(c, e);
    const bool local = json_member(c->config, "num_local_experts") != NULL;
    if (!rc) rc = convert_int(c, local ? "num_local_experts" : "num_experts", COUNT_MAX, &n, e);
    const char *used = id == GEMMA4 ? "top_k_experts" : "num_experts_per_tok";
    if (!rc) rc = convert_int(c, used, n, &c->experts.n_used, e);
    bool own_width = id & (QWEN2MOE | QWEN3MOE | GEMMA4);
    if (!rc)
        rc = convert_int(c, own_width ? "moe_intermediate_size" : "intermediate_size", BIG, &n_ff,
                         e);
    if (!rc && id == QWEN2MOE)
        rc = convert_int(c, "shared_expert_intermediate_size", BIG, &n_shared, e);
    c->experts.normalized = id & ALWAYS_NORMALIZED || json_bool(c->config, "norm_topk_prob", false);
    c->dims[N_EXPERTS] = n;
    c->dims[EXPERT_FF] = n_ff;
    c->dims[EXPERT_FF2] = 2 * (int64_t)n_ff;
    c->dims[SHARED_FF] = n_shared;
    return rc;
}

void convert_experts_keys(struct converter *c)
{
    char key[96];
    const unsigned id = c->family->id;
    const bool usual = id & (ALWAYS_NORMALIZED | QWEN3MOE);
    convert_u32(c, "expert_count", c->dims[N_EXPERTS]);
    convert_u32(c, "expert_used_count", c->experts.n_used);
    if (id & (QWEN2MOE | QWEN3MOE | GEMMA4 | GPT_OSS))
        convert_u32(c, "expert_feed_forward_length", c->dims[EXPERT_FF]);
    if (id == QWEN2MOE) convert_u32(c, "expert_shared_feed_forward_length", c->dims[SHARED_FF]);
    snprintf(key, sizeof key, "%s.expert_weights_norm", c->family->arch);
    if (c->experts.normalized != usual) gguf_keys_bool(&c->s->keys, key, c->experts.normalized);
}

/* Adds a tensor of the folder as a stack in GGUF's order; `rows` are the folder's for each expert.
 */
static int add_stack(struct converter *c, const struct convert_row *r, const char *gguf,
                     const struct safetensors_tensor *t, struct err *e)
{
    const bool vector = r->n_in == ONE, as_gguf = r->stacked == STACKED;
    const int64_t n_out = c->dims[r->n_out], n_in = c->dims[r->n_in], n = c->dims[N_EXPERTS];
    const int step = r->stacked == STACKED_EVEN || r->stacked == STACKED_ODD ? 2 : 1;
    const int64_t rows = as_gguf ? n_out : n_in, columns = as_gguf ? n_in : step * n_out;
    const bool right = vector ? t->n_dims == 2 && t->shape[1] == step * n_out
                              : t->n_dims == 3 && t->shape[1] == rows && t->shape[2] == columns;
    if (!right || t->shape[0] != n || t->type == SAFETENSORS_BYTES)
        return err_set(e, ERR_FORMAT,
                       "%s: tensor '%s' is not %lld x %lld x %lld, which config.json says",
                       c->s->path, t->name, (long long)n, (long long)rows, (long long)columns);
    struct source_tensor *to = source_add(c->s, gguf);
    if (!to) return err_set(e, ERR_FAIL, "out of memory for the list of tensors");
    to->type = t->type;
    to->data = t->data;
    to->n_dims = vector ? 2 : 3;
    to->ne[0] = vector ? n_out : n_in;
    to->ne[1] = vector ? n : n_out;
    to->ne[2] = vector ? 1 : n;
    if (!as_gguf)
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
    if (!to) return err_set(e, ERR_FAIL, "out of memory for the list of tensors");
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
