#include "kernels/cuda/images.h"

/* The Makefile defines the list: CUDA_IMAGES(X) is X(87) X(89) …; the files are in CUDA_DIR, and
 * CUDA_COMPILER (13000 = CUDA 13.0) made them. */
#ifdef CUDA_DIR

#define EMBED(symbol, path)                    \
    __asm__(".section .rodata\n"               \
            ".balign 64\n"                     \
            ".globl " symbol "\n" symbol ":\n" \
            ".incbin \"" path "\"\n"           \
            ".byte 0\n"                        \
            ".previous\n")

#define DEFINE(sm)                                       \
    EMBED("cuda_sm_" #sm, CUDA_DIR "/sm_" #sm ".cubin"); \
    extern const unsigned char cuda_sm_##sm[];
#define ENTRY(sm) {"sm_" #sm, sm, CUDA_COMPILER, cuda_sm_##sm},

EMBED("cuda_ptx", CUDA_DIR "/device.ptx");
extern const unsigned char cuda_ptx[];
CUDA_IMAGES(DEFINE)

static const struct cuda_image images[] = {
    CUDA_IMAGES(ENTRY){"ptx", 0, 0, cuda_ptx},
    {0},
};

#else

static const struct cuda_image images[] = {{0}};

#endif

const struct cuda_image *cuda_images(void)
{
    return images;
}
