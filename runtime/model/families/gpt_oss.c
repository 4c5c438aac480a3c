/* Family "gpt-oss" (arXiv 2508.10925): biases everywhere, a sink per head, every second layer with
 * a window, experts whose weights are a softmax over those chosen, and a clamped SwiGLU. Files call
 * the norm of the feed-forward's input post_attention_norm. */
#include "runtime/model/family.h"

const struct model_family family_gpt_oss = {
    .arch = "gpt-oss",
    .experts = true,
    .windows = &(const struct model_windows){.step = 2},
    .layer = {.activation = MODEL_SWIGLU_CLAMPED, .experts = {.normalized = true}},
    .bind = family_bind,
};
