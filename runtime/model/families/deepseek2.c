/* Family "deepseek2" (arXiv 2405.04434, 2412.19437): latent attention; dense layers first, then
 * layers with experts and shared ones. The files of DeepSeek V2 to V3.1, GLM-4.7-Flash and others,
 * which differ in the numbers of their metadata; "mistral4" (Mistral Small 4), whose
 * queries grow. */
#include <math.h>

#include "runtime/model/family.h"

static int bind(struct model *m, struct err *e)
{
    float factor = 1.0f, share = 0.0f;
    int rc = model_get_scale(m, "rope.scaling.factor", &factor, e);
    if (!rc) rc = model_get_scale(m, "rope.scaling.yarn_log_multiplier", &share, e);
    /* YaRN's magnitude is part of the products' scale and applies to all numbers of a head, not to
     * the rotated ones only. The file has a tenth of the configuration's mscale_all_dim. */
    const float grown = factor > 1.0f ? 1.0f + share * logf(factor) : 1.0f;
    m->rope.magnitude = 1.0f;
    m->attn_scale = grown * grown / sqrtf((float)model_latent_query(m));
    if (!rc) rc = model_get_scale(m, "attention.temperature_scale", &m->query_growth, e);
    return rc ? rc : family_bind(m, e);
}

const struct model_family family_deepseek2 = {
    .arch = "deepseek2",
    .rope_pairs = true,
    .experts = true,
    .mtp = true,
    .latent = true,
    .bind = bind,
};
