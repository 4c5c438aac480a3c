/* Attention statistics on avx512. */
#include "kernels/cpu/v16_avx512.h"
#include "kernels/cpu/v16_stats.h"

void kn_attend_stats_avx512(const struct kn_stats *job)
{
    static stats_unpack *const unpack[KN_KV_TYPES] = {
        [KN_KV_F16] = kn_kv_unpack_f16_avx512,
        [KN_KV_F32] = kn_kv_unpack_f32_ref,
        [KN_KV_Q8] = kn_kv_unpack_q8_avx512,
        [KN_KV_Q4] = kn_kv_unpack_q4_avx512,
    };
    attend_stats_v16(job, unpack[job->k_type]);
}
