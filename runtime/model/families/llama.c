/* Family "llama": Llama 1 to 3, Mistral, TinyLlama, SmolLM2, and Mixtral, which has experts.
 * RMSNorm, rotary embedding, grouped-query attention, SwiGLU; the other families are variations of
 * it. The file's rows of Q and K are in pairs. */
#include "runtime/model/family.h"

const struct model_family family_llama = {.arch = "llama",
                                          .rope_pairs = true,
                                          .experts = true,
                                          .layer = {.experts = {.normalized = true}},
                                          .bind = family_bind};
