/* Family "qwen3moe" (Qwen3-30B-A3B, Qwen3-Coder-30B): a Qwen3 whose layers have experts. */
#include "runtime/model/family.h"

const struct model_family family_qwen3moe = {
    .arch = "qwen3moe",
    .experts = true,
    .layer = {.qk_norm = MODEL_QK_NORM_HEAD, .experts = {.normalized = true}},
    .bind = family_bind,
};
