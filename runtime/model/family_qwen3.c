/* Family "qwen3": an RMSNorm per head is applied to queries and keys before they are rotated. */
#include "runtime/model/family.h"

static int bind(struct model *m, struct err *e)
{
    int rc = family_bind(m, e);
    bool turned = m->rope.n_rot < m->head_dim;
    for (int i = 0; !rc && i < m->n_layer; i++) {
        struct model_layer *l = &m->layers[i];
        rc = family_bind_layer_vector(m, &l->q_norm, i, "attn_q_norm.weight", m->head_dim, turned,
                                      e);
        if (!rc)
            rc = family_bind_layer_vector(m, &l->k_norm, i, "attn_k_norm.weight", m->head_dim,
                                          turned, e);
    }
    return rc;
}

const struct model_family family_qwen3 = {"qwen3", false, bind};
