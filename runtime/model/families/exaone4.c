/* Family "exaone4" (EXAONE 4.0, arXiv 2507.11407): norms of outputs, as in OLMo 2, and of heads of
 * queries and keys. In the 32B model all but every fourth layer have windows, and only they rotate
 * queries and keys. */
#include "runtime/model/family.h"

static int bind(struct model *m, struct err *e)
{
    int rc = family_layers(m, e);
    for (int i = 0; !rc && i < m->n_layer; i++)
        m->layers[i].no_rope = m->windowed.n_units > 0 && !m->layers[i].is_windowed;
    return rc ? rc : family_bind_layers(m, e);
}

const struct model_family family_exaone4 = {
    .arch = "exaone4",
    .windows = &(const struct model_windows){.step = 4},
    .layer = {.norms = MODEL_NORMS_AFTER, .qk_norm = MODEL_QK_NORM_HEAD},
    .bind = bind,
};
