#include "runtime/model/family.h"

#include <math.h>
#include <stdio.h>

#define NAME_MAX_BYTES 64

static bool layer_has(const struct model *m, char name[NAME_MAX_BYTES], int layer,
                      const char *tensor, const char *kind)
{
    snprintf(name, NAME_MAX_BYTES, "blk.%d.%s.%s", layer, tensor, kind);
    return gguf_tensor_find(m->file, name) != NULL;
}

/* A matrix and its bias, if there is one. */
struct part {
    struct kn_weight *w;
    const float **bias;
    const char *tensor;
    int n_out, n_in;
    int row0, n_rows; /* as in struct model_source */
    bool rotated;
};

static int bind_part(struct model *m, int layer, const struct part *p, struct err *e)
{
    char name[NAME_MAX_BYTES];
    struct model_source s = {name, p->row0, p->n_rows, p->rotated};
    bool bias = layer_has(m, name, layer, p->tensor, "bias");
    int rc = bias ? model_bind_vector(m, p->bias, &s, p->n_out, e) : 0;
    layer_has(m, name, layer, p->tensor, "weight");
    return rc ? rc : model_bind_matrix(m, p->w, &s, p->n_out, p->n_in, e);
}

static int bind_parts(struct model *m, int layer, const struct part *p, size_t n, struct err *e)
{
    int rc = 0;
    for (size_t i = 0; !rc && i < n; i++) rc = bind_part(m, layer, &p[i], e);
    return rc;
}

static int bind_vector(struct model *m, int layer, const float **v, const char *suffix, int n,
                       bool rotated, struct err *e)
{
    char name[NAME_MAX_BYTES];
    const struct model_source s = {.name = name, .rotated = rotated};
    snprintf(name, sizeof name, "blk.%d.%s", layer, suffix);
    return model_bind_vector(m, v, &s, n, e);
}

/* Binds the norms around half a layer, those that it has. */
static int bind_norms(struct model *m, int layer, const char *half, const float **before,
                      const char *half_after, const float **after, struct err *e)
{
    const enum model_norms norms = m->layers[layer].norms;
    int rc = 0;
    if (norms != MODEL_NORMS_AFTER) rc = bind_vector(m, layer, before, half, m->n_embd, false, e);
    if (!rc && norms != MODEL_NORMS_BEFORE)
        rc = bind_vector(m, layer, after, half_after, m->n_embd, false, e);
    return rc;
}

static bool is_rotated(const struct model *m) /* whether the file has its own order of rows */
{
    return m->family->rope_pairs || m->rope.n_rot < m->head_dim;
}

static int bind_qk_norms(struct model *m, int layer, struct err *e)
{
    struct model_layer *l = &m->layers[layer];
    const bool row = l->qk_norm == MODEL_QK_NORM_ROW, rotated = is_rotated(m);
    if (l->qk_norm == MODEL_QK_NORM_NONE) return 0;
    int rc = bind_vector(m, layer, &l->q_norm, "attn_q_norm.weight",
                         row ? model_n_q(m) : m->head_dim, rotated, e);
    return rc ? rc
              : bind_vector(m, layer, &l->k_norm, "attn_k_norm.weight",
                            row ? model_n_kv(m) : m->head_dim, rotated, e);
}

static int bind_attention(struct model *m, int layer, struct err *e)
{
    struct model_layer *l = &m->layers[layer];
    char name[NAME_MAX_BYTES];
    int q = model_n_q(m), kv = model_n_kv(m), all = model_n_qkv(m);
    bool rotated = is_rotated(m);
    const struct part parts[] = {
        {&l->q, &l->q_bias, "attn_q", q, m->n_embd, 0, 0, rotated},
        {&l->k, &l->k_bias, "attn_k", kv, m->n_embd, 0, 0, rotated},
        {&l->v, &l->v_bias, "attn_v", kv, m->n_embd, 0, 0, false},
    };
    const struct part fused[] = {
        {&l->q, &l->q_bias, "attn_qkv", q, m->n_embd, 0, all, rotated},
        {&l->k, &l->k_bias, "attn_qkv", kv, m->n_embd, q, all, rotated},
        {&l->v, &l->v_bias, "attn_qkv", kv, m->n_embd, q + kv, all, false},
    };
    const struct part out = {&l->o, &l->o_bias, "attn_output", m->n_embd, q, 0, 0, false};
    bool one = layer_has(m, name, layer, "attn_qkv", "weight");
    int rc = bind_norms(m, layer, "attn_norm.weight", &l->attn_norm, "post_attention_norm.weight",
                        &l->attn_post_norm, e);
    if (!rc) rc = bind_parts(m, layer, one ? fused : parts, 3, e);
    return rc ? rc : bind_part(m, layer, &out, e);
}

/* In a fused tensor the gate comes before the values. */
static int bind_feed_forward(struct model *m, int layer, struct err *e)
{
    struct model_layer *l = &m->layers[layer];
    char name[NAME_MAX_BYTES];
    int embd = m->n_embd, ff = m->n_ff;
    const struct part parts[] = {
        {&l->gate, &l->gate_bias, "ffn_gate", ff, embd, 0, 0, false},
        {&l->up, &l->up_bias, "ffn_up", ff, embd, 0, 0, false},
    };
    const struct part fused[] = {
        {&l->gate, &l->gate_bias, "ffn_up", ff, embd, 0, 2 * ff, false},
        {&l->up, &l->up_bias, "ffn_up", ff, embd, ff, 2 * ff, false},
    };
    const struct part down = {&l->down, &l->down_bias, "ffn_down", embd, ff, 0, 0, false};
    bool two = layer_has(m, name, layer, "ffn_gate", "weight");
    /* Seed-OSS */
    bool renamed = l->norms == MODEL_NORMS_BEFORE &&
                   layer_has(m, name, layer, "post_attention_norm", "weight");
    int rc = bind_norms(m, layer, renamed ? "post_attention_norm.weight" : "ffn_norm.weight",
                        &l->ffn_norm, "post_ffw_norm.weight", &l->ffn_post_norm, e);
    if (!rc) rc = bind_parts(m, layer, two ? parts : fused, 2, e);
    return rc ? rc : bind_part(m, layer, &down, e);
}

void family_layers(struct model *m)
{
    for (int i = 0; i < m->n_layer; i++) m->layers[i] = m->family->layer;
}

/* Gives layers with attention their numbers in the KV cache. */
static void number_layers(struct model *m)
{
    for (int i = 0; i < m->n_layer; i++) {
        struct model_layer *l = &m->layers[i];
        l->kv_layer = l->no_attention ? -1 : m->n_kv_layer;
        if (!l->no_attention) m->kv_layers[m->n_kv_layer++] = l;
    }
}

int family_bind_layers(struct model *m, struct err *e)
{
    static const struct model_source embedding = {.name = "token_embd.weight"},
                                     norm = {.name = "output_norm.weight"},
                                     output = {.name = "output.weight"},
                                     bias = {.name = "output.bias"};
    int rc = model_bind_matrix(m, &m->embedding, &embedding, m->n_vocab, m->n_embd, e);
    number_layers(m);
    for (int i = 0; !rc && i < m->n_layer; i++) {
        rc = bind_attention(m, i, e);
        if (!rc) rc = bind_feed_forward(m, i, e);
    }
    if (!rc) rc = model_bind_vector(m, &m->output_norm, &norm, m->n_embd, e);
    m->tied = !gguf_tensor_find(m->file, output.name);
    if (!rc && !m->tied) rc = model_bind_matrix(m, &m->output, &output, m->n_vocab, m->n_embd, e);
    if (!rc && gguf_tensor_find(m->file, bias.name))
        rc = model_bind_vector(m, &m->output_bias, &bias, m->n_vocab, e);
    /* last: weight caches depend on this order of items */
    for (int i = 0; !rc && i < m->n_layer; i++) rc = bind_qk_norms(m, i, e);
    return rc;
}

int family_bind(struct model *m, struct err *e)
{
    family_layers(m);
    return family_bind_layers(m, e);
}

int family_get_scale(const struct model *m, const char *suffix, float *out, struct err *e)
{
    float v;
    if (!model_get_float(m, suffix, &v)) return 0;
    if (!isfinite(v) || v <= 0.0f)
        return err_set(e, ERR_FORMAT, "%s: %s.%s is %g, expected a number above 0",
                       gguf_name(m->file), m->family->arch, suffix, (double)v);
    *out = v;
    return 0;
}
