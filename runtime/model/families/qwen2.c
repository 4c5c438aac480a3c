/* Family "qwen2": Qwen 2 and 2.5 and models distilled into them. Biases on Q, K and V; the two
 * numbers of a rotated pair are half a head apart. */
#include "runtime/model/family.h"

const struct model_family family_qwen2 = {.arch = "qwen2", .bind = family_bind};
