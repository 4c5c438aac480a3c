/* Family "qwen2": Qwen 2 and 2.5 and what was distilled into them. Biases on Q, K and V; pairs that
 * turn together are half a head apart. */
#include "runtime/model/family.h"

const struct model_family family_qwen2 = {"qwen2", false, family_bind};
