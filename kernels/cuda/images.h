/* images: the device code of the program. Cubins run on their architecture and later ones of the
 * same major number, but not from desktop to Jetson, with a driver at least as new as the compiler
 * that made them; the PTX, lowered to version 8.2, serves every other pair of GPU (sm_80 and later)
 * and driver (CUDA 12.2 and later), which compiles it when it is loaded. */
#ifndef RETAIN_KERNELS_CUDA_IMAGES_H
#define RETAIN_KERNELS_CUDA_IMAGES_H

struct cuda_image {
    const char *name; /* "sm_89", "ptx" */
    int arch;         /* 89; 0 = PTX */
    int driver;       /* the oldest that takes it: 13000 = CUDA 13.0 */
    const void *data; /* the argument of cuModuleLoadDataEx */
};

/* Cubins, then the PTX; name NULL ends the list. Empty in a build without nvcc. */
const struct cuda_image *cuda_images(void);

#endif
