/* Family "ernie4_5" (dense ERNIE 4.5): a Llama. Mixtures are "ernie4_5-moe". */
#include "runtime/model/family.h"

const struct model_family family_ernie4_5 = {
    .arch = "ernie4_5",
    .rope_pairs = true,
    .bind = family_bind,
};
