/* The kernels of avxvnni with AVX-512's encoding of vpdpbusd, for processors without AVX-VNNI:
 * tests.mk has the flags. */
#if defined(__x86_64__)
#define kn_avxvnni vnni_evex
#include "kernels/cpu/avxvnni.c"
#endif
