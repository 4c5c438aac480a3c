/* Families "qwen35" (Qwen3.5 and 3.6, dense), "qwen35moe", with experts, and "qwen3next": layers
 * with the gated delta rule and, every fourth, with gated attention, of whose heads a quarter is
 * rotated. The rotation of images is the plain one for text. In files of Qwen3-Next the heads that
 * share a key head are neighbours. */

#include "runtime/model/family.h"
#include "runtime/model/recurrent.h"

#define ATTENTION_STEP 4

/* Layers are listed, or every n-th has attention. */
static int choose_layers(struct model *m, struct err *e)
{
    struct gguf_array list;
    int step = ATTENTION_STEP;
    bool listed = model_get_layers(m, "attention.recurrent_layers", &list);
    int rc = model_get_optional(m, "full_attention_interval", 1, MODEL_LAYERS_MAX, &step, e);
    m->layers[m->n_layer].is_gated = true; /* of the MTP layer */
    for (int i = 0; !rc && i < m->n_layer; i++) {
        struct model_layer *l = &m->layers[i];
        l->is_recurrent = listed ? gguf_array_i32(&list, (size_t)i) != 0 : (i + 1) % step != 0;
        l->no_attention = l->is_recurrent;
        l->is_gated = !l->is_recurrent;
    }
    return rc;
}

static int bind(struct model *m, struct err *e)
{
    int rc = family_layers(m, e);
    if (!rc) rc = recurrent_shape(m, MODEL_DELTA, e);
    m->recurrent.tiled = m->family != &family_qwen3next;
    if (!rc) rc = choose_layers(m, e);
    return rc ? rc : family_bind_layers(m, e);
}

const struct model_family family_qwen35 = {
    .arch = "qwen35",
    .mtp = true,
    .layer = {.qk_norm = MODEL_QK_NORM_HEAD},
    .bind = bind,
};

const struct model_family family_qwen35moe = {
    .arch = "qwen35moe",
    .experts = true,
    .mtp = true,
    .layer = {.qk_norm = MODEL_QK_NORM_HEAD, .experts = {.normalized = true}},
    .bind = bind,
};

const struct model_family family_qwen3next = {
    .arch = "qwen3next",
    .experts = true,
    .mtp = true,
    .layer = {.qk_norm = MODEL_QK_NORM_HEAD, .experts = {.normalized = true}},
    .bind = bind,
};
