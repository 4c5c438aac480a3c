/* Family "phi3": Phi-3 and Phi-4-mini. Q, K and V are one tensor, gate and up another; LongRoPE
 * scaling in those with 128K of context; Phi-4-mini rotates three quarters of each head. The
 * sliding window in some files of Phi-3-mini-4k (2,047 of 4,096) is not applied. */
#include "runtime/model/family.h"

const struct model_family family_phi3 = {.arch = "phi3", .bind = family_bind};
