/* Family "olmoe" (OLMoE, arXiv 2409.02060): queries and keys are normed over the whole row; the
 * weights of experts are not normalized. */
#include "runtime/model/family.h"

const struct model_family family_olmoe = {
    .arch = "olmoe",
    .experts = true,
    .layer = {.qk_norm = MODEL_QK_NORM_ROW},
    .bind = family_bind,
};
