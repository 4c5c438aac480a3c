/* Family "lfm2" (LFM2 and LFM2.5): layers with short convolutions between layers with attention,
 * which are those with KV heads in the metadata. */
#include "runtime/model/family.h"

static int bind(struct model *m, struct err *e)
{
    struct gguf_array heads;
    if (!model_get_layers(m, "attention.head_count_kv", &heads))
        return err_set(e, ERR_FORMAT,
                       "%s: lfm2.attention.head_count_kv is not a list with a number per layer",
                       gguf_name(m->file));
    int rc = family_layers(m, e);
    if (rc) return rc;
    m->recurrent =
        (struct model_recurrent_shape){.kind = MODEL_CONVOLUTION, .n_channel = m->n_embd};
    for (int i = 0; i < m->n_layer; i++)
        m->layers[i].is_recurrent = m->layers[i].no_attention =
            gguf_array_i32(&heads, (size_t)i) == 0;
    rc = model_get_int(m, "shortconv.l_cache", 2, KN_TAPS_MAX, &m->recurrent.n_taps, e);
    return rc ? rc : family_bind_layers(m, e);
}

const struct model_family family_lfm2 = {
    .arch = "lfm2", .layer = {.qk_norm = MODEL_QK_NORM_HEAD}, .bind = bind};
