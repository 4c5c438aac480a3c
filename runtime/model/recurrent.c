#include "runtime/model/recurrent.h"

#include <stdio.h>

#include "runtime/model/family.h"

int recurrent_shape(struct model *m, enum model_recurrence kind, struct err *e)
{
    struct model_recurrent_shape *s = &m->recurrent;
    const int big = 1 << 20;
    int n_out;
    s->kind = kind;
    int rc = model_get_int(m, "ssm.conv_kernel", 2, KN_TAPS_MAX, &s->n_taps, e);
    if (!rc) rc = model_get_int(m, "ssm.state_size", 1, KN_KEY_DIM_MAX, &s->key_dim, e);
    if (!rc) rc = model_get_int(m, "ssm.group_count", 1, big, &s->n_key_head, e);
    if (!rc) rc = model_get_int(m, "ssm.time_step_rank", 1, big, &s->n_head, e);
    if (!rc) rc = model_get_int(m, "ssm.inner_size", 1, big, &n_out, e);
    if (rc) return rc;
    if (n_out % s->n_head || s->n_head % s->n_key_head)
        return err_set(e, ERR_FORMAT,
                       "%s: recurrent layers of %d numbers, %d heads and %d key heads do not fit "
                       "together",
                       gguf_name(m->file), n_out, s->n_head, s->n_key_head);
    s->head_dim = n_out / s->n_head;
    s->n_channel = n_out + 2 * s->n_key_head * s->key_dim;
    return 0;
}

int recurrent_layers(struct model *m, struct err *e)
{
    struct gguf_array heads;
    if (!model_get_layers(m, "attention.head_count_kv", &heads))
        return err_set(e, ERR_FORMAT,
                       "%s: %s.attention.head_count_kv is not a list with a number for each layer",
                       gguf_name(m->file), m->arch);
    for (int i = 0; i < m->n_layer; i++)
        m->layers[i].is_recurrent = m->layers[i].no_attention =
            gguf_array_i32(&heads, (size_t)i) == 0;
    return 0;
}

/* ---- one layer ------------------------------------------------------------------------------- */

/* Rows [row0, row0 + n_out) of n_rows of a matrix with n_embd columns. */
static int bind_rows(struct model *m, int layer, struct kn_weight *w, const char *suffix, int row0,
                     int n_out, int n_rows, struct err *e)
{
    char name[64];
    snprintf(name, sizeof name, "blk.%d.%s.weight", layer, suffix);
    const struct model_source s = {.name = name, .row0 = row0, .n_rows = n_rows};
    return model_bind_matrix(m, w, &s, n_out, m->n_embd, e);
}

static int bind_out(struct model *m, int layer, const char *suffix, struct err *e)
{
    char name[64];
    snprintf(name, sizeof name, "blk.%d.%s.weight", layer, suffix);
    return model_bind_matrix(m, &m->layers[layer].recurrent.out,
                             &(struct model_source){.name = name}, m->n_embd,
                             recurrent_n_out(&m->recurrent), e);
}

static int bind_table(struct model *m, int layer, const float **v, const char *suffix, int n_rows,
                      int n_columns, bool by_column, struct err *e)
{
    char name[64];
    snprintf(name, sizeof name, "blk.%d.%s", layer, suffix);
    return model_bind_table(m, v, name, n_rows, n_columns, by_column, e);
}

/* The convolution over time and the rates of heads. */
static int bind_taps(struct model *m, int layer, struct err *e)
{
    const struct model_recurrent_shape *s = &m->recurrent;
    struct model_recurrent *r = &m->layers[layer].recurrent;
    int rc = bind_table(m, layer, &r->taps, "ssm_conv1d.weight", s->n_channel, s->n_taps, true, e);
    return rc ? rc : family_bind_vector(m, layer, &r->step_bias, "ssm_dt.bias", s->n_head, e);
}

/* Rates and steps: two matrices, or one with those of each key head's heads side by side. */
static int bind_rates(struct model *m, int layer, struct err *e)
{
    const struct model_recurrent_shape *s = &m->recurrent;
    struct model_recurrent *r = &m->layers[layer].recurrent;
    const int per = s->n_head / s->n_key_head;
    char name[64];
    snprintf(name, sizeof name, "blk.%d.ssm_ba.weight", layer);
    struct model_source both = {
        .name = name, .n_rows = 2 * s->n_head, .group = per, .step = 2 * per};
    int rc;
    if (gguf_tensor_find(m->file, name)) {
        rc = model_bind_matrix(m, &r->beta, &both, s->n_head, m->n_embd, e);
        both.row0 = per;
        return rc ? rc : model_bind_matrix(m, &r->step, &both, s->n_head, m->n_embd, e);
    }
    rc = bind_rows(m, layer, &r->beta, "ssm_beta", 0, s->n_head, 0, e);
    return rc ? rc : bind_rows(m, layer, &r->step, "ssm_alpha", 0, s->n_head, 0, e);
}

static int bind_delta(struct model *m, int layer, struct err *e)
{
    const struct model_recurrent_shape *s = &m->recurrent;
    struct model_recurrent *r = &m->layers[layer].recurrent;
    int rc = bind_rows(m, layer, &r->in, "attn_qkv", 0, s->n_channel, 0, e);
    if (!rc) rc = bind_rows(m, layer, &r->gate, "attn_gate", 0, recurrent_n_out(s), 0, e);
    if (!rc) rc = bind_rates(m, layer, e);
    if (!rc) rc = bind_taps(m, layer, e);
    if (!rc) rc = family_bind_vector(m, layer, &r->a, "ssm_a", s->n_head, e);
    if (!rc) rc = family_bind_vector(m, layer, &r->norm, "ssm_norm.weight", s->head_dim, e);
    return rc ? rc : bind_out(m, layer, "ssm_out", e);
}

static int bind_convolution(struct model *m, int layer, struct err *e)
{
    const struct model_recurrent_shape *s = &m->recurrent;
    struct model_recurrent *r = &m->layers[layer].recurrent;
    const int n = s->n_channel;
    int rc = bind_rows(m, layer, &r->in_gate, "shortconv.in_proj", 0, n, 3 * n, e);
    if (!rc) rc = bind_rows(m, layer, &r->gate, "shortconv.in_proj", n, n, 3 * n, e);
    if (!rc) rc = bind_rows(m, layer, &r->in, "shortconv.in_proj", 2 * n, n, 3 * n, e);
    if (!rc) rc = bind_table(m, layer, &r->taps, "shortconv.conv.weight", n, s->n_taps, true, e);
    return rc ? rc : bind_out(m, layer, "shortconv.out_proj", e);
}

/* One matrix: gate, input of the convolution, step. */
static int bind_scan(struct model *m, int layer, struct err *e)
{
    const struct model_recurrent_shape *s = &m->recurrent;
    struct model_recurrent *r = &m->layers[layer].recurrent;
    const int n = recurrent_n_out(s), n_rows = n + s->n_channel + s->n_head;
    char name[64];
    int rc = bind_rows(m, layer, &r->gate, "ssm_in", 0, n, n_rows, e);
    if (!rc) rc = bind_rows(m, layer, &r->in, "ssm_in", n, s->n_channel, n_rows, e);
    if (!rc) rc = bind_rows(m, layer, &r->step, "ssm_in", n + s->n_channel, s->n_head, n_rows, e);
    if (!rc) rc = bind_taps(m, layer, e);
    if (!rc) rc = family_bind_optional(m, layer, &r->taps_bias, "ssm_conv1d.bias", s->n_channel, e);
    if (!rc) rc = bind_table(m, layer, &r->a, "ssm_a", s->n_head, 1, false, e);
    if (!rc) rc = bind_table(m, layer, &r->skip, "ssm_d", s->n_head, 1, false, e);
    snprintf(name, sizeof name, "blk.%d.ssm_norm.weight", layer);
    if (!rc && (m->family != &family_falcon_h1 || gguf_tensor_find(m->file, name)))
        rc = bind_table(m, layer, &r->norm, "ssm_norm.weight", s->n_key_head, n / s->n_key_head,
                        false, e);
    return rc ? rc : bind_out(m, layer, "ssm_out", e);
}

int recurrent_bind(struct model *m, int layer, struct err *e)
{
    switch (m->recurrent.kind) {
    case MODEL_DELTA: return bind_delta(m, layer, e);
    case MODEL_SCAN: return bind_scan(m, layer, e);
    default: return bind_convolution(m, layer, e);
    }
}
