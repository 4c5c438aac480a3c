/* Family "glm4" (GLM-4-0414): inputs and outputs of both halves of a layer are normed, half of each
 * head is rotated, gate and up are one tensor. */
#include "runtime/model/family.h"

static int bind(struct model *m, struct err *e)
{
    struct gguf_array sections;
    if (gguf_get_array(m->file, "glm4.rope.dimension_sections", &sections))
        return err_set(e, ERR_FORMAT,
                       "%s: positions of images (GLM-4.1V) are not supported; use a text model",
                       gguf_name(m->file));
    return family_bind(m, e);
}

const struct model_family family_glm4 = {
    .arch = "glm4",
    .rope_pairs = true,
    .layer = {.norms = MODEL_NORMS_BOTH},
    .bind = bind,
};
