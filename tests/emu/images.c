/* Replaces kernels/cuda/images.c in the programs of this folder, so that they need no nvcc: the
 * emulated driver needs only a name. */
#include "kernels/cuda/images.h"

#include <stddef.h>

static const struct cuda_image images[] = {
    {"sm_89", 89, 13000, "\177ELF, or something like it"},
    {"ptx", 0, 0, ".version 8.2\n"},
    {0},
};

const struct cuda_image *cuda_images(void)
{
    return images;
}
