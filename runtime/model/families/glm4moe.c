/* Families "glm4moe" (GLM-4.5 and later) and "dots1" (dots.llm1): dense layers first, then layers
 * with experts and shared ones; scores of experts are sigmoids, and a bias chooses them. Files call
 * GLM's norm of the feed-forward's input post_attention_norm; GLM norms queries and keys if the
 * file has the weights. */
#include "runtime/model/family.h"

static int bind_glm(struct model *m, struct err *e)
{
    int rc = family_layers(m, e);
    if (!rc && gguf_tensor_find(m->file, "blk.0.attn_q_norm.weight"))
        for (int i = 0; i <= m->n_layer; i++) m->layers[i].qk_norm = MODEL_QK_NORM_HEAD;
    return rc ? rc : family_bind_layers(m, e);
}

const struct model_family family_glm4moe = {
    .arch = "glm4moe",
    .experts = true,
    .mtp = true,
    .layer = {.experts = {.sigmoid = true, .normalized = true}},
    .bind = bind_glm,
};

const struct model_family family_dots1 = {
    .arch = "dots1",
    .experts = true,
    .layer = {.qk_norm = MODEL_QK_NORM_HEAD, .experts = {.sigmoid = true}},
    .bind = family_bind,
};
