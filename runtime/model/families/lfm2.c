/* Families "lfm2" (LFM2 and LFM2.5) and "lfm2moe", with experts in all but the first layers: short
 * convolutions in most layers, attention in the others. */
#include "runtime/model/family.h"
#include "runtime/model/recurrent.h"

static int bind(struct model *m, struct err *e)
{
    struct model_recurrent_shape *s = &m->recurrent;
    int rc = family_layers(m, e);
    *s = (struct model_recurrent_shape){.kind = MODEL_CONVOLUTION, .n_channel = m->n_embd};
    if (!rc) rc = recurrent_layers(m, e);
    if (!rc) rc = model_get_int(m, "shortconv.l_cache", 2, KN_TAPS_MAX, &s->n_taps, e);
    return rc ? rc : family_bind_layers(m, e);
}

const struct model_family family_lfm2 = {
    .arch = "lfm2", .layer = {.qk_norm = MODEL_QK_NORM_HEAD}, .bind = bind};

const struct model_family family_lfm2moe = {
    .arch = "lfm2moe",
    .experts = true,
    .layer = {.qk_norm = MODEL_QK_NORM_HEAD, .experts = {.sigmoid = true, .normalized = true}},
    .bind = bind,
};
