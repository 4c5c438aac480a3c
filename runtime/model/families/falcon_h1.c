/* Family "falcon-h1" (Falcon-H1, arXiv 2507.22448): each layer has attention and a Mamba-2 part,
 * which read the same input and whose outputs are added. The model's multipliers are part of the
 * file's matrices. */
#include "runtime/model/family.h"
#include "runtime/model/recurrent.h"

static int bind(struct model *m, struct err *e)
{
    int rc = family_layers(m, e);
    if (!rc) rc = recurrent_shape(m, MODEL_SCAN, e);
    for (int i = 0; !rc && i < m->n_layer; i++) m->layers[i].is_recurrent = true;
    return rc ? rc : family_bind_layers(m, e);
}

const struct model_family family_falcon_h1 = {.arch = "falcon-h1", .bind = bind};
