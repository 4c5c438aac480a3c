/* Family "olmo2" (OLMo 2, arXiv 2501.00656, and OLMo 3): each half of a layer norms its output
 * instead of its input, and queries and keys are normed over the whole row. In OLMo 3 all but every
 * fourth layer have windows; their rotation is not scaled. */
#include "runtime/model/family.h"

const struct model_family family_olmo2 = {
    .arch = "olmo2",
    .windows = &(const struct model_windows){.step = 4, .plain = true},
    .layer = {.norms = MODEL_NORMS_AFTER, .qk_norm = MODEL_QK_NORM_ROW},
    .bind = family_bind,
};
