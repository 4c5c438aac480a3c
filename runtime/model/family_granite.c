/* Family "granite" (Granite 3 and dense Granite 4): a Llama with four scales: of the embeddings, of
 * each layer's output, of attention and of logits; the last is a divisor in the file. */
#include "runtime/model/family.h"

static int bind(struct model *m, struct err *e)
{
    float attention = 0.0f, divisor = 1.0f;
    int rc = family_get_scale(m, "embedding_scale", &m->embed_scale, e);
    if (!rc) rc = family_get_scale(m, "residual_scale", &m->residual_scale, e);
    if (!rc) rc = family_get_scale(m, "attention.scale", &attention, e);
    if (!rc) rc = family_get_scale(m, "logit_scale", &divisor, e);
    if (attention > 0.0f) m->attn_scale = attention * m->rope.magnitude * m->rope.magnitude;
    m->logit_scale = 1.0f / divisor;
    return rc ? rc : family_bind(m, e);
}

const struct model_family family_granite = {.arch = "granite", .rope_pairs = true, .bind = bind};
