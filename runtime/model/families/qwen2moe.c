/* Family "qwen2moe" (Qwen1.5-MoE, Qwen2-57B-A14B): a Qwen2 whose layers have experts, and a shared
 * expert that a separate gate scales. */
#include "runtime/model/family.h"

const struct model_family family_qwen2moe = {
    .arch = "qwen2moe", .experts = true, .bind = family_bind};
