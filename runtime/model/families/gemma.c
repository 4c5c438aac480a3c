/* Families "gemma2" (arXiv 2408.00118) and "gemma3" (arXiv 2503.19786): inputs and outputs of both
 * halves of a layer are normed, GELU instead of SiLU, embeddings are scaled by the root of their
 * length. Every second layer of Gemma 2 has a window, and logits are capped; of Gemma 3 all but
 * every sixth have one, with a second rotation, and heads of queries and keys are normed.
 *
 * The largest models divide products by the width per head instead of the heads' size. Files do not
 * give it: it follows from the number of layers. */
#include <math.h>

#include "runtime/model/family.h"

#define GEMMA2_WINDOW    4096
#define GEMMA2_27B       46 /* layers */
#define GEMMA3_27B       62
#define GEMMA3_ROPE_BASE 10000.0f

static int bind_gemma(struct model *m, int wide_layers, struct err *e)
{
    float scale = 0.0f;
    m->embed_scale = sqrtf((float)m->n_embd);
    int rc = model_get_scale(m, "attn_logit_softcapping", &m->attn_softcap, e);
    if (!rc) rc = model_get_scale(m, "final_logit_softcapping", &m->logit_softcap, e);
    if (!rc) rc = model_get_scale(m, "attention.scale", &scale, e);
    if (!rc) rc = family_layers(m, e);
    if (rc) return rc;
    if (scale == 0.0f && m->n_layer == wide_layers)
        scale = 1.0f / sqrtf((float)(m->n_embd / m->n_head));
    if (scale != 0.0f) m->attn_scale = m->windowed.attn_scale = scale;
    return family_bind_layers(m, e);
}

static int bind_gemma2(struct model *m, struct err *e)
{
    return bind_gemma(m, GEMMA2_27B, e);
}

static int bind_gemma3(struct model *m, struct err *e)
{
    return bind_gemma(m, GEMMA3_27B, e);
}

const struct model_family family_gemma2 = {
    .arch = "gemma2",
    .windows = &(const struct model_windows){.n_units = GEMMA2_WINDOW, .step = 2},
    .layer = {.norms = MODEL_NORMS_BOTH, .activation = MODEL_GEGLU},
    .bind = bind_gemma2,
};

const struct model_family family_gemma3 = {
    .arch = "gemma3",
    .windows =
        &(const struct model_windows){.step = 6, .plain = true, .rope_base = GEMMA3_ROPE_BASE},
    .layer = {.norms = MODEL_NORMS_BOTH, .qk_norm = MODEL_QK_NORM_HEAD, .activation = MODEL_GEGLU},
    .bind = bind_gemma3,
};
