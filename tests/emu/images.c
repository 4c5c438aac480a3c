/* Replaces kernels/cuda/images.c in the programs of this folder, so that they need no nvcc: the
 * emulated driver needs only a name. */
#include "kernels/cuda/images.h"

#include <stddef.h>

const struct cuda_image cuda_images[] = {
    {"sm_89", 89, "\177ELF, or something like it"},
    {"ptx", 0, ".version 8.2\n"},
    {NULL, 0, NULL},
};
