/* Families "minicpm" (arXiv 2404.06395), a Llama, and "minicpm3", with latent attention: three
 * scales keep widths and depths comparable: of the embeddings, of each layer's output, of the
 * logits. Files of early 2024 and MiniCPM 3 don't contain them; for MiniCPM-1B and 2B, the only
 * models at that time, and MiniCPM3-4B they follow from the shape. */
#include <math.h>

#include "runtime/model/family.h"

#define EMBED_SCALE 12.0f  /* scale_emb */
#define DEPTH_SCALE 1.4f   /* scale_depth */
#define BASE_WIDTH  256.0f /* dim_model_base */

static int bind(struct model *m, struct err *e)
{
    float divisor = (float)m->n_embd / BASE_WIDTH;
    m->embed_scale = EMBED_SCALE;
    m->residual_scale = DEPTH_SCALE / sqrtf((float)m->n_layer);
    int rc = model_get_scale(m, "embedding_scale", &m->embed_scale, e);
    if (!rc) rc = model_get_scale(m, "residual_scale", &m->residual_scale, e);
    if (!rc) rc = model_get_scale(m, "logit_scale", &divisor, e);
    m->logit_scale = 1.0f / divisor;
    return rc ? rc : family_bind(m, e);
}

const struct model_family family_minicpm = {.arch = "minicpm", .rope_pairs = true, .bind = bind};
const struct model_family family_minicpm3 = {.arch = "minicpm3", .latent = true, .bind = bind};
