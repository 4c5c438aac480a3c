/* Families "granite" (Granite 3 and dense Granite 4), "granitemoe", with experts, and
 * "granitehybrid" (Granite 4 H): a Llama with four scales: of the embeddings, of each layer's
 * output, of attention and of logits; the last is a divisor in the file. In Granite 4 H most layers
 * are Mamba-2, and attention does not rotate. */
#include "runtime/model/family.h"
#include "runtime/model/recurrent.h"

static int read_scales(struct model *m, struct err *e)
{
    float attention = 0.0f, divisor = 1.0f;
    int rc = model_get_scale(m, "embedding_scale", &m->embed_scale, e);
    if (!rc) rc = model_get_scale(m, "residual_scale", &m->residual_scale, e);
    if (!rc) rc = model_get_scale(m, "attention.scale", &attention, e);
    if (!rc) rc = model_get_scale(m, "logit_scale", &divisor, e);
    if (attention > 0.0f) m->attn_scale = attention * m->rope.magnitude * m->rope.magnitude;
    m->logit_scale = 1.0f / divisor;
    return rc;
}

static int bind(struct model *m, struct err *e)
{
    int rc = read_scales(m, e);
    return rc ? rc : family_bind(m, e);
}

/* Files say with this key whether attention rotates. */
static int bind_hybrid(struct model *m, struct err *e)
{
    bool rotates = true;
    gguf_get_bool(m->file, "granitehybrid.rope.scaling.finetuned", &rotates);
    int rc = read_scales(m, e);
    if (!rc) rc = family_layers(m, e);
    for (int i = 0; !rc && i < m->n_layer; i++) m->layers[i].no_rope = !rotates;
    if (!rc) rc = recurrent_shape(m, MODEL_SCAN, e);
    if (!rc) rc = recurrent_layers(m, e);
    return rc ? rc : family_bind_layers(m, e);
}

const struct model_family family_granite = {.arch = "granite", .rope_pairs = true, .bind = bind};

const struct model_family family_granitehybrid = {
    .arch = "granitehybrid",
    .rope_pairs = true,
    .experts = true,
    .layer = {.experts = {.normalized = true}},
    .bind = bind_hybrid,
};

const struct model_family family_granitemoe = {
    .arch = "granitemoe",
    .rope_pairs = true,
    .experts = true,
    .layer = {.experts = {.normalized = true}},
    .bind = bind,
};
