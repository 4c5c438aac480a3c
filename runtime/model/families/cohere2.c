/* Family "cohere2" (Command R7B, Command A): attention and feed-forward read the same norm, a
 * LayerNorm without bias, and their outputs are added. All but every fourth layer have windows, and
 * only they rotate queries and keys. */
#include "runtime/model/family.h"

static int bind(struct model *m, struct err *e)
{
    m->is_centred = true;
    int rc = model_get_scale(m, "logit_scale", &m->logit_scale, e);
    if (!rc) rc = family_layers(m, e);
    for (int i = 0; !rc && i < m->n_layer; i++) m->layers[i].no_rope = !m->layers[i].is_windowed;
    return rc ? rc : family_bind_layers(m, e);
}

const struct model_family family_cohere2 = {
    .arch = "cohere2",
    .rope_pairs = true,
    .windows = &(const struct model_windows){.step = 4},
    .layer = {.is_parallel = true},
    .bind = bind,
};
