/* Replaces kernels/cuda/images.c in the programs of the run on a GPU: the device code is in files
 * of the folder `images` beside the program, once for all of them. */
#include "kernels/cuda/images.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* As the Makefile names them for kernels/cuda/images.c. */
#define ENTRY(sm) {"sm_" #sm, sm, CUDA_COMPILER, NULL},
static struct cuda_image images[] = {CUDA_IMAGES(ENTRY){"ptx", 0, 0, NULL}, {0}};

/* NULL if it cannot be read. The PTX ends with a zero: a file's last page is filled with them, and
 * its size is no multiple of a page (gpu.mk). */
static const void *map(const char *folder, size_t n, const char *name)
{
    char path[600];
    struct stat s;
    snprintf(path, sizeof path, "%.*simages/%s", (int)n, folder, name);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0 || fstat(file, &s)) return NULL;
    void *p = mmap(NULL, (size_t)s.st_size, PROT_READ, MAP_PRIVATE, file, 0);
    close(file);
    return p == MAP_FAILED ? NULL : p;
}

const struct cuda_image *cuda_images(void)
{
    const char *self = (const char *)getauxval(AT_EXECFN),
               *slash = self ? strrchr(self, '/') : NULL;
    for (struct cuda_image *i = images; slash && i->name && !i->data; i++) {
        i->data = map(self, (size_t)(slash + 1 - self), i->name);
        if (!i->data) i->name = NULL;
    }
    return images;
}
