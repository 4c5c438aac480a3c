/* Family "olmo2" (OLMo 2, arXiv 2501.00656): each half of a layer norms its output instead of its
 * input, and queries and keys are normed over the whole row. OLMo 3 has the same tensors, but
 * sliding windows in most layers, which are not supported. */
#include "runtime/model/family.h"

static int bind(struct model *m, struct err *e)
{
    uint32_t window;
    if (gguf_get_u32(m->file, "olmo2.attention.sliding_window", &window) && window > 0)
        return err_set(e, ERR_FORMAT,
                       "%s: attention inside a window of %u positions (OLMo 3) is not supported; "
                       "use an OLMo 2 model",
                       gguf_name(m->file), window);
    return family_bind(m, e);
}

const struct model_family family_olmo2 = {
    .arch = "olmo2",
    .layer = {.norms = MODEL_NORMS_AFTER, .qk_norm = MODEL_QK_NORM_ROW},
    .bind = bind,
};
