/* Family "mistral3" (Mistral Small 3.1 and later, Ministral 3): a Llama. Ministral 3 multiplies the
 * query at position p by 1 + beta ln(1 + floor(p / original)), which is 1 within the context that
 * YaRN extended. Positions are slots of the cache, so a plan that stays within that context needs
 * no such scale; it becomes the model's context. */
#include "runtime/model/family.h"

static int bind(struct model *m, struct err *e)
{
    float beta;
    if (model_get_float(m, "attention.temperature_scale", &beta) && beta != 0.0f &&
        m->rope.n_ctx_orig < m->n_ctx)
        m->n_ctx = m->rope.n_ctx_orig;
    return family_bind(m, e);
}

const struct model_family family_mistral3 = {.arch = "mistral3", .rope_pairs = true, .bind = bind};
