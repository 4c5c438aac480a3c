/* avxvnni: AVX2 with the 256-bit vpdpbusd of AVX-VNNI, for processors without AVX-512. Differs from
 * avx2.c only in the products with quantized weights: it multiplies 4 unsigned weights with 4
 * signed activations per lane and adds them to 32 bits, so that all weights are read plus their
 * offset. Integer sums are exact and float sums in the same order: the bits are those of avx2. */
#include "kernels/cpu/v8_panels.h"

V16_INLINE int is_signed(enum kn_type type)
{
    (void)type;
    return 0;
}

V16_INLINE int has_start(enum kn_type type)
{
    return panel_offset(type) != 0;
}

V16_INLINE void panel_starts(enum kn_type type, int32_t start[2], const int8_t *q, int32_t sum,
                             int32_t first)
{
    (void)q;
    offset_starts(start, panel_offset(type), sum, first);
}

V16_INLINE __m256i dot_four(enum kn_type type, __m256i dot, __m256i w, __m256i x)
{
    (void)type;
#ifdef __AVXVNNI__
    return _mm256_dpbusd_avx_epi32(dot, w, x);
#else
    return _mm256_dpbusd_epi32(dot, w, x); /* the same instruction as AVX-512 encodes it */
#endif
}

V16_INLINE __m256i dot_end(enum kn_type type, __m256i dot, int32_t start)
{
    (void)type;
    (void)start;
    return dot;
}

const struct kernels kn_avxvnni = V16_PRODUCTS_TABLE("avxvnni");
