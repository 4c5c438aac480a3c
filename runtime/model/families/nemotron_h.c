/* Family "nemotron_h" (Nemotron-H, arXiv 2504.03624, and Nemotron Nano 2): each layer is one of
 * Mamba-2, attention, which does not rotate, and a feed-forward without a gate. */
#include "runtime/model/family.h"
#include "runtime/model/recurrent.h"

static int bind(struct model *m, struct err *e)
{
    struct gguf_array n_ff;
    int rc = family_layers(m, e);
    if (!rc) rc = recurrent_shape(m, MODEL_SCAN, e);
    if (!rc) rc = recurrent_layers(m, e);
    if (!rc && !model_get_layers(m, "feed_forward_length", &n_ff))
        rc =
            err_set(e, ERR_FORMAT,
                    "%s: nemotron_h.feed_forward_length is not a list with a number for each layer",
                    gguf_name(m->file));
    for (int i = 0; !rc && i < m->n_layer; i++) {
        struct model_layer *l = &m->layers[i];
        l->no_feed_forward = gguf_array_i32(&n_ff, (size_t)i) == 0;
        if (!l->no_feed_forward) l->is_recurrent = false, l->no_attention = true;
    }
    return rc ? rc : family_bind_layers(m, e);
}

const struct model_family family_nemotron_h = {
    .arch = "nemotron_h",
    .layer = {.activation = MODEL_SQUARED_RELU, .no_rope = true},
    .bind = bind,
};
