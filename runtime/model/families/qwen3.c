/* Family "qwen3": an RMSNorm per head is applied to queries and keys before they are rotated. */
#include "runtime/model/family.h"

const struct model_family family_qwen3 = {
    .arch = "qwen3", .layer = {.qk_norm = MODEL_QK_NORM_HEAD}, .bind = family_bind};
