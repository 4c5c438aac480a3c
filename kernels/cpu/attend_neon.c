/* Attention on neon. */
#include "kernels/cpu/v16_neon.h"
#include "kernels/cpu/v16_attend.h"

void kn_attend_neon(const struct kn_attend *job)
{
    if (job->head_dim < 8) /* a row shorter than the 16 bytes a load takes */
        kn_attend_ref(job);
    else
        attend_v16(job);
}
