/* Family "gemma4" (Gemma 4): a Gemma 3 whose layers with and without windows have heads of
 * different sizes and numbers. Values are normed; layers without windows may use their keys as
 * values. In the small models (E2B, E4B) the last layers attend to the keys and values of earlier
 * ones, and every layer gets an additional input. 26B-A4B has experts beside the feed-forwards.
 * Products are not scaled. */
#include <math.h>

#include "runtime/model/family.h"

#define ROPE_BASE 10000.0f /* of layers with windows */

/* The last n layers have no keys and values. Before them there is a layer of either kind. */
static int share(struct model *m, int n, struct err *e)
{
    int n_own[2] = {0};
    for (int i = 0; i < m->n_layer; i++) {
        struct model_layer *l = &m->layers[i];
        l->shares_kv = i >= m->n_layer - n;
        if (l->shares_kv && n_own[l->is_windowed] == 0)
            return err_set(e, ERR_FORMAT, "%s: layer %d shares the keys of no earlier layer",
                           gguf_name(m->file), i);
        n_own[l->is_windowed] += !l->shares_kv;
    }
    return 0;
}

static int bind(struct model *m, struct err *e)
{
    int n_shared = 0;
    m->embed_scale = sqrtf((float)m->n_embd);
    int rc = model_get_scale(m, "final_logit_softcapping", &m->logit_softcap, e);
    if (!rc) rc = family_layers(m, e);
    if (!rc)
        rc = model_get_optional(m, "attention.shared_kv_layers", 0, m->n_layer - 1, &n_shared, e);
    if (!rc)
        rc = model_get_optional(m, "embedding_length_per_layer_input", 0, 1 << 16,
                                &m->layer_inputs.n, e);
    if (!rc) rc = share(m, n_shared, e);
    m->attn_scale = m->windowed.attn_scale = 1.0f;
    return rc ? rc : family_bind_layers(m, e);
}

const struct model_family family_gemma4 = {
    .arch = "gemma4",
    .experts = true,
    .windows = &(const struct model_windows){.step = 6, .plain = true, .rope_base = ROPE_BASE},
    .layer = {.norms = MODEL_NORMS_BOTH,
              .qk_norm = MODEL_QK_NORM_HEAD,
              .norms_values = true,
              .activation = MODEL_GEGLU,
              .experts = {.normalized = true, .beside = true}},
    .bind = bind,
};
