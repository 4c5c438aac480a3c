/* Attention on avx512. */
#include "kernels/cpu/v16_avx512.h"
#include "kernels/cpu/v16_attend.h"
#include "kernels/cpu/v16_attend_fixed.h"

void kn_attend_avx512(const struct kn_attend *job)
{
    if (job->head_dim < 8) /* a row shorter than the 16 bytes a load takes */
        kn_attend_ref(job);
    else if (job->k_type == KN_KV_Q4 && job->v_type == KN_KV_Q4)
        attend_fixed_v16(job);
    else
        attend_v16(job);
}
