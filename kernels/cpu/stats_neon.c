/* Attention statistics on neon. */
#include "kernels/cpu/v16_neon.h"
#include "kernels/cpu/v16_stats.h"

void kn_attend_stats_neon(const struct kn_stats *job)
{
    static stats_unpack *const unpack[KN_KV_TYPES] = {
        [KN_KV_F16] = kn_kv_unpack_f16_neon,
        [KN_KV_F32] = kn_kv_unpack_f32_ref,
        [KN_KV_Q8] = kn_kv_unpack_q8_neon,
        [KN_KV_Q4] = kn_kv_unpack_q4_neon,
    };
    attend_stats_v16(job, unpack[job->k_type]);
}
