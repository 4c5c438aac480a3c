/* Family "smollm3" (SmolLM3): a Llama in which every fourth layer does not rotate queries and keys
 * (NoPE, arXiv 2501.18795). Files do not name these layers. */
#include "runtime/model/family.h"

#define NO_ROPE_STEP 4

static int bind(struct model *m, struct err *e)
{
    int rc = family_bind(m, e);
    for (int i = NO_ROPE_STEP - 1; !rc && i < m->n_layer; i += NO_ROPE_STEP)
        m->layers[i].no_rope = true;
    return rc;
}

const struct model_family family_smollm3 = {.arch = "smollm3", .rope_pairs = true, .bind = bind};
