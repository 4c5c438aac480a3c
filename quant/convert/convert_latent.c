/* Latent attention: the folder has the rows of a head's keys and of its values one after another;
 * GGUF has a matrix of each kind for each head, of MiniCPM 3 the folder's. */
#include "quant/convert/convert_parts.h"

int convert_latent(struct converter *c, struct err *e)
{
    struct latent_config *l = &c->latent;
    const int big = 1 << 16;
    int rank = 0, q_rank = 0;
    int rc = convert_int(c, "kv_lora_rank", big, &rank, e);
    if (!rc) rc = convert_int(c, "qk_nope_head_dim", big, &l->n_plain, e);
    if (!rc) rc = convert_int(c, "v_head_dim", big, &l->n_value, e);
    if (!rc) rc = convert_int_or(c, "q_lora_rank", big, 0, &q_rank, e);
    if (rc) return rc;
    if (c->family->id & DEEPSEEKS && !json_bool(c->config, "rope_interleave", true))
        return err_set(e, ERR_FORMAT, "%s: rope_interleave is false, which is not supported",
                       c->config_path);
    const int64_t queries = (int64_t)c->n_head * (l->n_plain + c->head_dim);
    c->dims[RANK] = rank;
    c->dims[KV] = rank + c->head_dim;
    c->dims[Q_RANK] = q_rank;
    c->dims[QUERIES] = queries;
    c->dims[Q2] = q_rank ? 0 : queries;
    c->dims[KEYS_VALUES] = (int64_t)c->n_head * (l->n_plain + l->n_value);
    c->dims[Q] = (int64_t)c->n_head * l->n_value;
    if (c->family->id != MINICPM3) c->n_kv_head = 1;
    return 0;
}

void convert_latent_keys(struct converter *c)
{
    const bool joined = c->family->id == MINICPM3;
    const int64_t query = c->latent.n_plain + c->head_dim, value = c->latent.n_value;
    convert_u32(c, "attention.key_length", joined ? query : c->dims[KV]);
    convert_u32(c, "attention.value_length", joined ? value : c->dims[RANK]);
    if (!joined) convert_u32(c, "attention.key_length_mla", query);
    if (!joined) convert_u32(c, "attention.value_length_mla", value);
    convert_u32(c, "attention.kv_lora_rank", c->dims[RANK]);
    if (c->dims[Q_RANK]) convert_u32(c, "attention.q_lora_rank", c->dims[Q_RANK]);
}

void convert_latent_heads(const struct converter *c, enum half half, struct source_tensor *t)
{
    const int64_t plain = c->latent.n_plain, value = c->latent.n_value, rank = c->dims[RANK];
    const bool keys = half == FIRST;
    t->n_dims = 3;
    t->ne[0] = keys ? plain : rank;
    t->ne[1] = keys ? rank : value;
    t->ne[2] = c->n_head;
    t->strides = (struct source_strides){.first = keys ? 0 : plain * rank,
                                         .matrix = (plain + value) * rank,
                                         .row = keys ? 1 : rank,
                                         .number = keys ? rank : 1};
}
