#include "runtime/model/family.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "runtime/model/recurrent.h"

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
    struct model_source from; /* its name and windowed are set when it is bound */
};

/* NVFP4 has a factor for each matrix. The router's is a norm; those of ffn_down_exps are weights of
 * what experts give. */
static bool has_factors(const struct model *m, int layer, const char *tensor)
{
    char name[NAME_MAX_BYTES];
    return strcmp(tensor, "ffn_gate_inp") != 0 && strcmp(tensor, "ffn_down_exps") != 0 &&
           layer_has(m, name, layer, tensor, "scale");
}

static int bind_part(struct model *m, int layer, const struct part *p, struct err *e)
{
    char name[NAME_MAX_BYTES];
    struct model_source s = p->from;
    s.name = name;
    s.windowed = m->layers[layer].is_windowed;
    bool bias = p->bias && layer_has(m, name, layer, p->tensor, "bias");
    int rc = bias ? model_bind_vector(m, p->bias, &s, p->n_out, e) : 0;
    layer_has(m, name, layer, p->tensor, "weight");
    if (!rc) rc = model_bind_matrix(m, p->w, &s, p->n_out, p->n_in, e);
    if (rc || !has_factors(m, layer, p->tensor)) return rc;
    m->has_factors = true;
    const struct model_source factors = {.name = name};
    layer_has(m, name, layer, p->tensor, "scale");
    return model_bind_vector(m, &p->w->factors, &factors, s.n_stack ? s.n_stack : 1, e);
}

static int bind_parts(struct model *m, int layer, const struct part *p, size_t n, struct err *e)
{
    int rc = 0;
    for (size_t i = 0; !rc && i < n; i++) rc = bind_part(m, layer, &p[i], e);
    return rc;
}

static int bind_rotated(struct model *m, int layer, const float **v, const char *tensor, int n,
                        bool rotated, struct err *e)
{
    char name[NAME_MAX_BYTES];
    const struct model_source s = {
        .name = name, .rotated = rotated, .windowed = m->layers[layer].is_windowed};
    snprintf(name, sizeof name, "blk.%d.%s", layer, tensor);
    return model_bind_vector(m, v, &s, n, e);
}

int family_bind_vector(struct model *m, int layer, const float **v, const char *tensor, int n,
                       struct err *e)
{
    return bind_rotated(m, layer, v, tensor, n, false, e);
}

int family_bind_optional(struct model *m, int layer, const float **v, const char *tensor, int n,
                         struct err *e)
{
    char name[NAME_MAX_BYTES];
    snprintf(name, sizeof name, "blk.%d.%s", layer, tensor);
    return gguf_tensor_find(m->file, name) ? family_bind_vector(m, layer, v, tensor, n, e) : 0;
}

/* Binds the norms around half a layer, those that it has. */
static int bind_norms(struct model *m, int layer, const char *half, const float **before,
                      const char *half_after, const float **after, struct err *e)
{
    const enum model_norms norms = m->layers[layer].norms;
    int rc = 0;
    if (norms != MODEL_NORMS_AFTER) rc = family_bind_vector(m, layer, before, half, m->n_embd, e);
    if (!rc && norms != MODEL_NORMS_BEFORE)
        rc = family_bind_vector(m, layer, after, half_after, m->n_embd, e);
    return rc;
}

/* Whether the file has its own order of rows. */
static bool is_rotated(const struct model *m, const struct model_heads *h)
{
    return m->family->rope_pairs || h->rope->n_rot < h->head_dim;
}

static int bind_qk_norms(struct model *m, int layer, struct err *e)
{
    struct model_layer *l = &m->layers[layer];
    const struct model_heads h = model_heads(m, l->is_windowed);
    const bool row = l->qk_norm == MODEL_QK_NORM_ROW, rotated = is_rotated(m, &h);
    if (l->qk_norm == MODEL_QK_NORM_NONE || l->no_attention) return 0;
    int rc = bind_rotated(m, layer, &l->q_norm, "attn_q_norm.weight",
                          row ? heads_n_q(&h) : h.head_dim, rotated, e);
    if (l->shares_kv) return rc;
    return rc ? rc
              : bind_rotated(m, layer, &l->k_norm, "attn_k_norm.weight",
                             row ? heads_n_kv(&h) : h.head_dim, rotated, e);
}

/* The rows of each head are those of its query, then those of its gate. */
static int bind_gated_queries(struct model *m, int layer, struct err *e)
{
    struct model_layer *l = &m->layers[layer];
    char name[NAME_MAX_BYTES];
    const struct model_heads h = model_heads(m, l->is_windowed);
    int q = heads_n_q(&h), dim = h.head_dim;
    layer_has(m, name, layer, "attn_q", "weight");
    struct model_source s = {.name = name,
                             .n_rows = 2 * q,
                             .windowed = l->is_windowed,
                             .rotated = is_rotated(m, &h),
                             .group = dim,
                             .step = 2 * dim};
    int rc = model_bind_matrix(m, &l->q, &s, q, m->n_embd, e);
    s.row0 = dim;
    s.rotated = false;
    return rc ? rc : model_bind_matrix(m, &l->attn_gate, &s, q, m->n_embd, e);
}

static int bind_attention(struct model *m, int layer, struct err *e)
{
    struct model_layer *l = &m->layers[layer];
    char name[NAME_MAX_BYTES];
    const struct model_heads h = model_heads(m, l->is_windowed);
    int q = heads_n_q(&h), kv = heads_n_kv(&h), all = heads_n_qkv(&h), first = l->is_gated ? 1 : 0;
    bool rotated = is_rotated(m, &h);
    const struct part parts[] = {
        {&l->q, &l->q_bias, "attn_q", q, m->n_embd, {.rotated = rotated}},
        {&l->k, &l->k_bias, "attn_k", kv, m->n_embd, {.rotated = rotated}},
        {&l->v, &l->v_bias, "attn_v", kv, m->n_embd, {0}},
    };
    const struct part fused[] = {
        {&l->q, &l->q_bias, "attn_qkv", q, m->n_embd, {.n_rows = all, .rotated = rotated}},
        {&l->k,
         &l->k_bias,
         "attn_qkv",
         kv,
         m->n_embd,
         {.row0 = q, .n_rows = all, .rotated = rotated}},
        {&l->v, &l->v_bias, "attn_qkv", kv, m->n_embd, {.row0 = q + kv, .n_rows = all}},
    };
    const struct part out = {&l->o, &l->o_bias, "attn_output", m->n_embd, q, {0}};
    bool one = layer_has(m, name, layer, "attn_qkv", "weight");
    int rc = l->is_gated ? bind_gated_queries(m, layer, e) : 0;
    size_t n = l->shares_kv ? 1 : one || layer_has(m, name, layer, "attn_v", "weight") ? 3 : 2;
    if (!rc) rc = bind_parts(m, layer, (one ? fused : parts) + first, n - (size_t)first, e);
    if (!rc) rc = family_bind_optional(m, layer, &l->sinks, "attn_sinks.weight", m->n_head, e);
    return rc ? rc : bind_part(m, layer, &out, e);
}

/* The matrices of each head. Files before April 2025 have one of both, in which the rows of a
 * head's keys and of its values alternate. */
static int bind_latent_heads(struct model *m, int layer, struct err *e)
{
    struct model_latent_part *l = &m->layers[layer].latent;
    const struct model_latent *s = &m->latent;
    const int n = m->n_head, plain = s->n_plain, value = s->n_value, both = plain + value;
    const struct part parts[] = {
        {&l->up, NULL, "attn_k_b", n * s->rank, plain, {.n_stack = n, .per_head = true}},
        {&l->value, NULL, "attn_v_b", n * value, s->rank, {.n_stack = n, .per_head = true}},
    };
    const struct model_source plain_rows = {.n_rows = n * both,
                                            .n_stack = n,
                                            .step = both,
                                            .per_head = true,
                                            .transposed = true},
                              value_rows = {
                                  .row0 = plain, .n_rows = n * both, .group = value, .step = both};
    const struct part joined[] = {
        {&l->up, NULL, "attn_kv_b", n * s->rank, plain, plain_rows},
        {&l->value, NULL, "attn_kv_b", n * value, s->rank, value_rows},
    };
    char name[NAME_MAX_BYTES];
    const bool one = layer_has(m, name, layer, "attn_kv_b", "weight");
    int rc = bind_parts(m, layer, one ? joined : parts, 2, e);
    if (rc || !kn_is_quantized(l->value.type) || value % KN_PANEL == 0) return rc;
    return err_set(e, ERR_FORMAT,
                   "%s: heads with values of %d numbers cannot be run, only of a multiple of %d",
                   gguf_name(m->file), value, KN_PANEL);
}

static int bind_latent(struct model *m, int layer, struct err *e)
{
    struct model_layer *l = &m->layers[layer];
    const struct model_latent *s = &m->latent;
    const int n = m->n_head, embd = m->n_embd, q = n * model_latent_query(m);
    const struct part down[] = {
        {&l->latent.down, NULL, "attn_q_a", s->q_rank, embd, {0}},
        {&l->q, NULL, "attn_q_b", q, s->q_rank, {0}},
    };
    const struct part whole = {&l->q, NULL, "attn_q", q, embd, {0}};
    const struct part parts[] = {
        {&l->k, NULL, "attn_kv_a_mqa", s->rank + m->rope.n_rot, embd, {0}},
        {&l->o, &l->o_bias, "attn_output", embd, n * s->n_value, {0}},
    };
    int rc = s->q_rank ? bind_parts(m, layer, down, 2, e) : bind_part(m, layer, &whole, e);
    if (!rc && s->q_rank)
        rc = family_bind_vector(m, layer, &l->latent.q_norm, "attn_q_a_norm.weight", s->q_rank, e);
    if (!rc)
        rc = family_bind_vector(m, layer, &l->latent.kv_norm, "attn_kv_a_norm.weight", s->rank, e);
    if (!rc) rc = bind_parts(m, layer, parts, 2, e);
    return rc ? rc : bind_latent_heads(m, layer, e);
}

/* Binds the first half of a layer. */
static int bind_mixer(struct model *m, int layer, struct err *e)
{
    struct model_layer *l = &m->layers[layer];
    if (l->no_attention && !l->is_recurrent) return 0;
    int rc = bind_norms(m, layer, "attn_norm.weight", &l->attn_norm, "post_attention_norm.weight",
                        &l->attn_post_norm, e);
    if (!rc && !l->no_attention)
        rc = m->latent.rank ? bind_latent(m, layer, e) : bind_attention(m, layer, e);
    if (!rc && l->is_recurrent) rc = recurrent_bind(m, layer, e);
    return rc;
}

/* The router, its biases, and what scales the shared experts. */
static int bind_router(struct model *m, int layer, struct err *e)
{
    struct model_experts *x = &m->layers[layer].experts;
    const struct part router = {&x->router, &x->router_bias, "ffn_gate_inp", x->n, m->n_embd, {0}};
    int rc = bind_part(m, layer, &router, e);
    if (!rc) rc = family_bind_optional(m, layer, &x->choice_bias, "exp_probs_b.bias", x->n, e);
    if (!rc)
        rc = family_bind_optional(m, layer, &x->shared_gate, "ffn_gate_inp_shexp.weight", m->n_embd,
                                  e);
    return rc ? rc
              : family_bind_optional(m, layer, &x->weight_scale, "ffn_down_exps.scale", x->n, e);
}

/* The norms of experts beside a dense feed-forward. */
static int bind_experts_norms(struct model *m, int layer, struct err *e)
{
    struct model_experts *x = &m->layers[layer].experts;
    const struct {
        const float **v;
        const char *suffix;
    } norms[] = {{&x->router_norm, "ffn_gate_inp.scale"},
                 {&x->norm, "pre_ffw_norm_2.weight"},
                 {&x->post_norm, "post_ffw_norm_2.weight"},
                 {&x->dense_post_norm, "post_ffw_norm_1.weight"}};
    int rc = 0;
    for (size_t i = 0; !rc && x->beside && i < sizeof norms / sizeof *norms; i++)
        rc = family_bind_vector(m, layer, norms[i].v, norms[i].suffix, m->n_embd, e);
    return rc;
}

static int bind_experts(struct model *m, int layer, struct err *e)
{
    struct model_experts *x = &m->layers[layer].experts;
    char name[NAME_MAX_BYTES];
    const int n = x->n, ff = x->n_ff, embd = m->n_embd;
    const struct part parts[] = {
        {&x->gate, &x->gate_bias, "ffn_gate_exps", n * ff, embd, {.n_stack = n}},
        {&x->up, &x->up_bias, "ffn_up_exps", n * ff, embd, {.n_stack = n}},
    };
    const struct model_source gates = {.n_rows = 2 * ff, .n_stack = n},
                              values = {.row0 = ff, .n_rows = 2 * ff, .n_stack = n};
    const struct part fused[] = {
        {&x->gate, &x->gate_bias, "ffn_gate_up_exps", n * ff, embd, gates},
        {&x->up, &x->up_bias, "ffn_gate_up_exps", n * ff, embd, values},
    };
    const struct part down = {&x->down, &x->down_bias, "ffn_down_exps", n * m->n_embd,
                              ff,       {.n_stack = n}};
    bool one = layer_has(m, name, layer, "ffn_gate_up_exps", "weight");
    int rc = bind_router(m, layer, e);
    if (!rc) rc = bind_experts_norms(m, layer, e);
    if (!rc) rc = bind_parts(m, layer, one ? fused : parts, 2, e);
    return rc ? rc : bind_part(m, layer, &down, e);
}

static int dense_n_ff(const struct model *m, int layer)
{
    struct gguf_array layers;
    bool listed = model_get_layers(m, "feed_forward_length", &layers) && (size_t)layer < layers.n;
    return listed ? gguf_array_i32(&layers, (size_t)layer) : m->n_ff;
}

/* The dense feed-forward of a layer, or its shared experts. In a fused tensor the gate comes before
 * the values. */
static int bind_dense(struct model *m, int layer, struct err *e)
{
    struct model_layer *l = &m->layers[layer];
    char name[NAME_MAX_BYTES];
    const bool shared = l->experts.n > 0 && !l->experts.beside;
    const int embd = m->n_embd, ff = shared ? l->experts.n_ff_shared : dense_n_ff(m, layer);
    const char *gate = shared ? "ffn_gate_shexp" : "ffn_gate";
    const char *up = shared ? "ffn_up_shexp" : "ffn_up";
    const struct part parts[] = {
        {&l->gate, &l->gate_bias, gate, ff, embd, {0}},
        {&l->up, &l->up_bias, up, ff, embd, {0}},
    };
    const struct part fused[] = {
        {&l->gate, &l->gate_bias, up, ff, embd, {.n_rows = 2 * ff}},
        {&l->up, &l->up_bias, up, ff, embd, {.row0 = ff, .n_rows = 2 * ff}},
    };
    const struct part down = {
        &l->down, &l->down_bias, shared ? "ffn_down_shexp" : "ffn_down", embd, ff, {0}};
    const struct part alone = {&l->gate, &l->gate_bias, up, ff, embd, {0}};
    bool two = layer_has(m, name, layer, gate, "weight");
    if (shared && !layer_has(m, name, layer, up, "weight")) return 0;
    int rc = l->activation == MODEL_SQUARED_RELU ? bind_part(m, layer, &alone, e)
                                                 : bind_parts(m, layer, two ? parts : fused, 2, e);
    return rc ? rc : bind_part(m, layer, &down, e);
}

/* Seed-OSS and most families with experts have a name of their own; Falcon-H1 has no suffix. A
 * layer with one norm has it under the name of attention's. */
static const char *ffn_norm_name(const struct model *m, int layer)
{
    const struct model_layer *l = &m->layers[layer];
    char name[NAME_MAX_BYTES];
    bool renamed = l->norms == MODEL_NORMS_BEFORE &&
                   layer_has(m, name, layer, "post_attention_norm", "weight");
    if (l->is_parallel || (l->no_attention && !l->is_recurrent)) return "attn_norm.weight";
    snprintf(name, sizeof name, "blk.%d.ffn_norm", layer);
    if (gguf_tensor_find(m->file, name)) return "ffn_norm";
    return renamed ? "post_attention_norm.weight" : "ffn_norm.weight";
}

static int bind_feed_forward(struct model *m, int layer, struct err *e)
{
    struct model_layer *l = &m->layers[layer];
    if (l->no_feed_forward) return 0;
    int rc = bind_norms(m, layer, ffn_norm_name(m, layer), &l->ffn_norm, "post_ffw_norm.weight",
                        &l->ffn_post_norm, e);
    if (!rc && l->experts.n) rc = bind_experts(m, layer, e);
    return rc ? rc : bind_dense(m, layer, e);
}

/* The parts that a layer has after its feed-forward. */
static int bind_ending(struct model *m, int layer, struct err *e)
{
    struct model_layer *l = &m->layers[layer];
    char name[NAME_MAX_BYTES];
    const int n = m->layer_inputs.n;
    const struct part parts[] = {
        {&l->input_gate, NULL, "inp_gate", n, m->n_embd, {0}},
        {&l->input_out, NULL, "proj", m->n_embd, n, {0}},
    };
    int rc = n ? bind_parts(m, layer, parts, 2, e) : 0;
    if (!rc && n)
        rc = family_bind_vector(m, layer, &l->input_norm, "post_norm.weight", m->n_embd, e);
    l->is_scaled = layer_has(m, name, layer, "layer_output_scale", "weight");
    if (!rc && l->is_scaled)
        rc = family_bind_vector(m, layer, &l->out_scale, "layer_output_scale.weight", 1, e);
    return rc;
}

static int bind_layer_inputs(struct model *m, struct err *e)
{
    static const struct model_source embedding = {.name = "per_layer_token_embd.weight"},
                                     projection = {.name = "per_layer_model_proj.weight"},
                                     norm = {.name = "per_layer_proj_norm.weight"};
    struct model_layer_inputs *p = &m->layer_inputs;
    const int all = m->n_layer * p->n;
    int rc = model_bind_matrix(m, &p->embedding, &embedding, m->n_vocab, all, e);
    if (!rc) rc = model_bind_matrix(m, &p->projection, &projection, all, m->n_embd, e);
    return rc ? rc : model_bind_vector(m, &p->norm, &norm, p->n, e);
}

/* Gives layers with attention their numbers in the KV cache or its windows, layers with a recurrent
 * part theirs in the recurrent state. */
static void number_layers(struct model *m)
{
    for (int i = 0; i < m->n_layer; i++) {
        struct model_layer *l = &m->layers[i];
        l->kv_layer = l->no_attention  ? -1
                      : l->is_windowed ? m->windowed.n_layer - l->shares_kv
                                       : m->n_kv_layer - l->shares_kv;
        if (!l->no_attention && l->is_windowed) m->windowed.n_layer += !l->shares_kv;
        if (!l->no_attention && !l->is_windowed && !l->shares_kv) m->kv_layers[m->n_kv_layer++] = l;
        l->state_layer = l->is_recurrent ? m->recurrent.n_layer++ : -1;
    }
}

/* The tensors of the MTP layer that other layers lack. A file may leave out its embedding, output
 * and norm: it uses the model's then. */
static int bind_mtp_ends(struct model *m, struct err *e)
{
    struct model_mtp *p = &m->mtp;
    const int i = m->n_layer, n = m->n_embd;
    const struct part project = {&p->project, NULL, "nextn.eh_proj", n, 2 * n, {0}};
    const struct part shared[] = {
        {&p->embedding, NULL, "nextn.embed_tokens", m->n_vocab, n, {0}},
        {&p->output, NULL, "nextn.shared_head_head", m->n_vocab, n, {0}},
    };
    char name[NAME_MAX_BYTES];
    int rc = bind_part(m, i, &project, e);
    if (!rc) rc = family_bind_vector(m, i, &p->embedding_norm, "nextn.enorm.weight", n, e);
    if (!rc) rc = family_bind_vector(m, i, &p->hidden_norm, "nextn.hnorm.weight", n, e);
    for (int k = 0; !rc && k < 2; k++)
        if (layer_has(m, name, i, shared[k].tensor, "weight")) rc = bind_part(m, i, &shared[k], e);
    return rc ? rc
              : family_bind_optional(m, i, &p->output_norm, "nextn.shared_head_norm.weight", n, e);
}

/* Files may have been written without it. */
static int bind_mtp(struct model *m, struct err *e)
{
    char name[NAME_MAX_BYTES];
    const int i = m->n_layer;
    if (!m->family->mtp || !m->n_mtp || !layer_has(m, name, i, "nextn.eh_proj", "weight")) return 0;
    m->mtp = (struct model_mtp){.layer = &m->layers[i], .item0 = m->n_items};
    m->layers[i].state_layer = -1;
    int rc = bind_mtp_ends(m, e);
    if (!rc) rc = bind_mixer(m, i, e);
    if (!rc) rc = bind_feed_forward(m, i, e);
    if (!rc) rc = bind_qk_norms(m, i, e);
    return rc;
}

int family_bind_layers(struct model *m, struct err *e)
{
    /* LFM2's name for the output's norm is another */
    bool renamed = gguf_tensor_find(m->file, "token_embd_norm.weight") != NULL;
    const struct model_source norm = {.name = renamed ? "token_embd_norm.weight"
                                                      : "output_norm.weight"};
    static const struct model_source embedding = {.name = "token_embd.weight"},
                                     output = {.name = "output.weight"},
                                     bias = {.name = "output.bias"};
    int rc = model_bind_matrix(m, &m->embedding, &embedding, m->n_vocab, m->n_embd, e);
    number_layers(m);
    if (!rc && m->n_kv_layer == 0)
        rc = err_set(e, ERR_FORMAT,
                     "%s: no layer has attention; recurrent models without it are not supported",
                     gguf_name(m->file));
    if (m->layer_inputs.n) rc = rc ? rc : bind_layer_inputs(m, e);
    for (int i = 0; !rc && i < m->n_layer; i++) {
        rc = bind_mixer(m, i, e);
        if (!rc) rc = bind_feed_forward(m, i, e);
        if (!rc) rc = bind_ending(m, i, e);
    }
    if (!rc) rc = model_bind_vector(m, &m->output_norm, &norm, m->n_embd, e);
    m->tied = !gguf_tensor_find(m->file, output.name);
    if (!rc && !m->tied) rc = model_bind_matrix(m, &m->output, &output, m->n_vocab, m->n_embd, e);
    if (!rc && gguf_tensor_find(m->file, bias.name))
        rc = model_bind_vector(m, &m->output_bias, &bias, m->n_vocab, e);
    /* last: weight caches depend on this order of items */
    for (int i = 0; !rc && i < m->n_layer; i++) rc = bind_qk_norms(m, i, e);
    return rc ? rc : bind_mtp(m, e);
}

/* ---- experts --------------------------------------------------------------------------------- */

enum { EXPERT_FF_MAX = 1 << 20 };

enum { GATING_SIGMOID = 2, GATING_CHOSEN = 3 }; /* softmax of the chosen: 1, normalized */

/* A file may leave out what makes scores: experts that a bias chooses have sigmoids (llama.cpp
 * knows GLM-4.7-Flash by the number of its layers). */
static int read_experts(const struct model *m, struct model_experts *x, struct err *e)
{
    int gating = 0, shared = 0;
    bool normalized;
    char key[96];
    int rc = model_get_optional(m, "expert_count", 0, MODEL_EXPERTS_MAX, &x->n, e);
    if (rc || !x->n) return rc;
    x->n_ff = m->n_ff;
    rc = model_get_int(m, "expert_used_count", 1, x->n, &x->n_used, e);
    if (!rc)
        rc = model_get_optional(m, "expert_feed_forward_length", 1, EXPERT_FF_MAX, &x->n_ff, e);
    if (!rc) rc = model_get_optional(m, "expert_shared_count", 0, MODEL_EXPERTS_MAX, &shared, e);
    if (rc) return rc;
    x->n_ff_shared = shared * x->n_ff;
    rc = model_get_optional(m, "expert_shared_feed_forward_length", 0, EXPERT_FF_MAX,
                            &x->n_ff_shared, e);
    if (!rc) rc = model_get_optional(m, "expert_gating_func", 0, 3, &gating, e);
    if (!rc) rc = model_get_optional(m, "expert_group_count", 0, x->n, &x->n_groups, e);
    if (!rc)
        rc = model_get_optional(m, "expert_group_used_count", 0, x->n_groups, &x->n_groups_used, e);
    snprintf(key, sizeof key, "blk.%d.exp_probs_b.bias", m->n_layer - 1);
    if (gating || gguf_tensor_find(m->file, key)) x->sigmoid = !gating || gating == GATING_SIGMOID;
    if (gating == GATING_CHOSEN) x->normalized = true;
    snprintf(key, sizeof key, "%s.expert_weights_norm", m->arch);
    if (gguf_get_bool(m->file, key, &normalized)) x->normalized = normalized;
    x->scale = 1.0f;
    return rc ? rc : model_get_scale(m, "expert_weights_scale", &x->scale, e);
}

/* Groups are of equal size, have two experts at least, and hold all that a token uses. */
static int check_groups(const struct model *m, const struct model_experts *x, struct err *e)
{
    const int g = x->n_groups;
    if (g <= 1 || (x->n % g == 0 && x->n / g >= 2 && x->n_groups_used >= 1 &&
                   x->n / g * x->n_groups_used >= x->n_used))
        return 0;
    return err_set(e, ERR_FORMAT,
                   "%s: %d experts in %d groups, of which %d are used for %d experts",
                   gguf_name(m->file), x->n, g, x->n_groups_used, x->n_used);
}

/* ---- windows --------------------------------------------------------------------------------- */

#define UNITS_MAX (1 << 20)

/* The layers are listed, or every step-th has no window. */
static int choose_layers(struct model *m, int step, struct err *e)
{
    static const char pattern[] = "attention.sliding_window_pattern";
    struct gguf_array list;
    int n_windowed = 0;
    bool listed = model_get_layers(m, pattern, &list);
    int rc = model_get_optional(m, pattern, 1, MODEL_LAYERS_MAX, &step, e);
    for (int i = 0; !rc && i < m->n_layer; i++) {
        struct model_layer *l = &m->layers[i];
        l->is_windowed =
            listed ? gguf_array_i32(&list, (size_t)i) != 0 : step && (i + 1) % step != 0;
        n_windowed += l->is_windowed;
    }
    if (!rc && n_windowed == m->n_layer)
        return err_set(e, ERR_FORMAT,
                       "%s: all layers have windows of %d positions; such models cannot be run",
                       gguf_name(m->file), m->windowed.n_units);
    return rc;
}

/* Layers with windows may have other numbers of KV heads, all of them the same. */
static int read_kv_heads(struct model *m, struct err *e)
{
    struct gguf_array list;
    int *const kinds[] = {&m->n_kv_head, &m->windowed.n_kv_head};
    m->windowed.n_kv_head = m->n_kv_head;
    if (!model_get_layers(m, "attention.head_count_kv", &list)) return 0;
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < m->n_layer; i++) {
            int n = gguf_array_i32(&list, (size_t)i), *kind = kinds[m->layers[i].is_windowed];
            if (pass && (n != *kind || n < 1 || m->n_head % n))
                return err_set(e, ERR_FORMAT, "%s: layer %d has %d KV heads, expected %d",
                               gguf_name(m->file), i, n, *kind);
            *kind = n;
        }
    return 0;
}

/* A number of heads of layers with windows, if it differs. */
static int get_other(const struct model *m, const char *suffix, int *out, struct err *e)
{
    const int before = *out;
    int rc = model_get_optional(m, suffix, 2, KN_HEAD_DIM_MAX, out, e);
    if (rc || *out == before || *out % 2 == 0) return rc;
    return err_set(e, ERR_FORMAT, "%s: %s.%s is %d, expected an even number", gguf_name(m->file),
                   m->arch, suffix, *out);
}

static int read_heads(struct model *m, struct err *e)
{
    struct model_windowed *w = &m->windowed;
    const bool plain = m->family->windows->plain;
    float base = 10000.0f;
    int n_value, n_rot;
    w->head_dim = m->head_dim;
    int rc = get_other(m, "attention.key_length_swa", &w->head_dim, e);
    n_value = w->head_dim;
    if (!rc) rc = get_other(m, "attention.value_length_swa", &n_value, e);
    if (!rc && n_value != w->head_dim)
        rc = err_set(e, ERR_FORMAT, "%s: keys of %d and values of %d numbers are not supported",
                     gguf_name(m->file), w->head_dim, n_value);
    n_rot = m->rope.n_rot < w->head_dim ? m->rope.n_rot : w->head_dim;
    if (!rc) rc = get_other(m, "rope.dimension_count_swa", &n_rot, e);
    if (!rc) rc = model_get_scale(m, "rope.freq_base", &base, e);
    if (m->family->windows->rope_base != 0.0f) base = m->family->windows->rope_base;
    if (!rc) rc = model_get_scale(m, "rope.freq_base_swa", &base, e);
    if (rc) return rc;
    if (n_rot > w->head_dim || base <= 1.0f)
        return err_set(e, ERR_FORMAT,
                       "%s: %d numbers of a head of %d cannot be rotated with frequency base %g",
                       gguf_name(m->file), n_rot, w->head_dim, (double)base);
    rc = plain ? rope_init_plain(&w->rope, n_rot, w->head_dim, base, e)
               : rope_init(&w->rope, m, w->head_dim, e);
    w->attn_scale = w->rope.magnitude * w->rope.magnitude / sqrtf((float)w->head_dim);
    return rc;
}

/* Sets m->windowed and is_windowed of all layers, by the file and the family's defaults. */
static int read_windows(struct model *m, struct err *e)
{
    m->windowed.n_units = m->family->windows->n_units;
    int rc =
        model_get_optional(m, "attention.sliding_window", 0, UNITS_MAX, &m->windowed.n_units, e);
    m->window = m->n_ctx; /* windows are applied */
    if (rc || m->windowed.n_units == 0) return rc;
    rc = choose_layers(m, m->family->windows->step, e);
    if (!rc) rc = read_kv_heads(m, e);
    return rc ? rc : read_heads(m, e);
}

/* ---- layers ---------------------------------------------------------------------------------- */

int family_layers(struct model *m, struct err *e)
{
    struct model_experts x = m->family->layer.experts;
    int n_dense = 0, rc = 0;
    for (int i = 0; i <= m->n_layer; i++) m->layers[i] = m->family->layer;
    if (m->family->windows) rc = read_windows(m, e);
    if (rc || !m->family->experts) return rc;
    rc = model_get_optional(m, "leading_dense_block_count", 0, m->n_layer, &n_dense, e);
    if (!rc) rc = read_experts(m, &x, e);
    if (!rc) rc = check_groups(m, &x, e);
    for (int i = 0; !rc && i <= m->n_layer; i++) m->layers[i].experts = x;
    for (int i = 0; !rc && i < n_dense; i++) m->layers[i].experts.n = 0;
    return rc;
}

int family_bind(struct model *m, struct err *e)
{
    int rc = family_layers(m, e);
    return rc ? rc : family_bind_layers(m, e);
}
