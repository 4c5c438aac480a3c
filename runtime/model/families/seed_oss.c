/* Family "seed_oss" (Seed-OSS): a Llama with biases of Q, K and V. Its files call the norm of the
 * feed-forward's input post_attention_norm. */
#include "runtime/model/family.h"

const struct model_family family_seed_oss = {.arch = "seed_oss", .bind = family_bind};
