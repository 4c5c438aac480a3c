/* The numbers and keys of layers with experts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "quant/convert/convert_parts.h"

/* Settings with which layers would differ from the tables. */
static int check(const struct converter *c, struct err *e)
{
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
    if (!rc) rc = convert_int(c, "num_experts_per_tok", n, &c->experts.n_used, e);
    bool own_width = id & (QWEN2MOE | QWEN3MOE);
    if (!rc)
        rc = convert_int(c, own_width ? "moe_intermediate_size" : "intermediate_size", BIG, &n_ff,
                         e);
    if (!rc && id == QWEN2MOE)
        rc = convert_int(c, "shared_expert_intermediate_size", BIG, &n_shared, e);
    c->experts.normalized = id == MIXTRAL || json_bool(c->config, "norm_topk_prob", false);
    c->dims[N_EXPERTS] = n;
    c->dims[EXPERT_FF] = n_ff;
    c->dims[SHARED_FF] = n_shared;
    return rc;
}

void convert_experts_keys(struct converter *c)
{
    char key[96];
    const unsigned id = c->family->id;
    const bool usual = id & (MIXTRAL | QWEN3MOE);
    convert_u32(c, "expert_count", c->dims[N_EXPERTS]);
    convert_u32(c, "expert_used_count", c->experts.n_used);
    if (id & (QWEN2MOE | QWEN3MOE))
        convert_u32(c, "expert_feed_forward_length", c->dims[EXPERT_FF]);
    if (id == QWEN2MOE) convert_u32(c, "expert_shared_feed_forward_length", c->dims[SHARED_FF]);
    snprintf(key, sizeof key, "%s.expert_weights_norm", c->family->arch);
    if (c->experts.normalized != usual) gguf_keys_bool(&c->s->keys, key, c->experts.normalized);
}

bool convert_is_named(const struct converter *c, const struct convert_row *r, const char *name)
{
    const size_t n = strcspn(r->hf, "*");
    if (!r->hf[n]) return !strcmp(name, r->hf);
    if (strncmp(name, r->hf, n)) return false;
    const size_t digits = strspn(name + n, "0123456789");
    return digits >= 1 && digits <= 4 && atoi(name + n) < c->dims[N_EXPERTS] &&
           !strcmp(name + n + digits, r->hf + n + 1);
}
