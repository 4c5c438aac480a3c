/* Time of each kernel at the shapes of four models, next to its bound by the time model
 * (ceilings.h). Rows are printed as they are measured; at the end the rows farthest from their
 * bounds. Usage: speed DIVISOR PART; DIVISOR makes all sizes smaller, for a dry run. Parts:
 *
 *   images    load times of cubin and PTX, registers of each kernel as loaded
 *   kernels   the device's ceilings, then each kernel
 *   counters  one shape, for a profiler
 *   FILE.ptx  another build of some kernels (make gpu VARIANTS=…), to be compared with the
 *             program's
 *
 * Weights and units are random bytes, in several copies that together exceed any L2; launches use
 * the copies in turn. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/system.h"
#include "kernels/cuda/images.h"
#include "tests/gpu/timed.h"

static const struct shape shapes[] = {
    {"8B", 4096, 14336, 8, 4, 128},
    {"3B", 3072, 8192, 8, 3, 128},
    {"1B", 2048, 8192, 8, 4, 64},
    {"Phi-3", 3072, 8192, 32, 1, 96},
};

/* A function of the driver that the program does not use itself. */
static void *driver_function(const char *name)
{
    void *p = dlsym(now.gpu->driver.library, name);
    if (!p) timed_check(err_set(&now.error, ERR_FAIL, "the driver has no %s", name));
    return p;
}

/* ---- the kernels as the driver loads them ---------------------------------------------------- */

static void time_images(void)
{
    printf("%-20s %10s\n", "image", "load ms");
    for (const struct cuda_image *i = cuda_images(); i->name; i++) {
        struct CUmod_st *module;
        if (i->arch && i->arch != now.gpu->device.arch) continue;
        int64_t t0 = system_clock_ns();
        int rc = CUDA_DO(now.gpu, &now.error, cuModuleLoadDataEx, &module, i->data, 0, NULL, NULL);
        if (rc)
            printf("%-20s %10s %s\n", i->name, "failed", now.error.text);
        else
            printf("%-20s %10.1f\n", i->name, 1e3 * seconds_since(t0));
        if (!rc) now.gpu->driver.cuModuleUnload(module);
        fflush(stdout);
    }
    printf("\n");
}

static void print_registers(void)
{
    enum { LOCAL_BYTES = 3, REGISTERS = 4 }; /* attributes of a function */
    int (*get)(int *value, int attribute, struct CUfunc_st *f);
    *(void **)&get = driver_function("cuFuncGetAttribute");
    printf("%-20s %10s %10s\n", "kernel", "registers", "local B");
    for (int i = 0; i < CUDA_N_KERNELS; i++) {
        int registers = 0, local = 0;
        if (!get(&registers, REGISTERS, now.gpu->kernels[i]) &&
            !get(&local, LOCAL_BYTES, now.gpu->kernels[i]))
            printf("%-20s %10d %10d\n", timed_names[i], registers, local);
    }
    printf("\n");
    fflush(stdout);
}
static void time_shape(const struct shape *s, bool all_formats)
{
    use_shape(s);
    time_matrices(all_formats);
    time_attention();
    time_cache();
}

static void time_kernels(void)
{
    const int n = (int)(sizeof shapes / sizeof *shapes);
    for (int i = 0; i<n; i += now.divisor> 1 ? 3 : 1) time_shape(&shapes[i], i == 0);
    time_sampling();
}

/* ---- variants -------------------------------------------------------------------------------- */

/* Exchanges the kernels that the file has. */
static void use_variant(const char *path)
{
    static char ptx[4 << 20];
    struct CUmod_st *module;
    FILE *f = fopen(path, "rb");
    size_t n = f ? fread(ptx, 1, sizeof ptx - 1, f) : 0;
    if (f) fclose(f);
    ptx[n] = '\0';
    if (!n) timed_check(err_set(&now.error, ERR_FAIL, "%s cannot be read", path));
    timed_check(CUDA_DO(now.gpu, &now.error, cuModuleLoadDataEx, &module, ptx, 0, NULL, NULL));
    for (int k = 0; k < CUDA_N_KERNELS; k++) {
        struct CUfunc_st *found;
        now.variant.has[k] =
            !now.gpu->driver.cuModuleGetFunction(&found, module, timed_names[k]) &&
            !now.gpu->driver.cuFuncSetAttribute(found, CUDA_MAX_DYNAMIC_SHARED, CUDA_SHARED_MAX) &&
            !now.gpu->driver.cuFuncSetAttribute(found, CUDA_SHARED_CARVEOUT, 100);
        if (now.variant.has[k]) now.gpu->kernels[k] = found;
    }
}

/* All rows of the file's kernels, of the shapes of 8B and 1B. */
static void time_variant(const char *path)
{
    const char *base = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    snprintf(now.variant.name, sizeof now.variant.name, "%s", base);
    if (strrchr(now.variant.name, '.')) *strrchr(now.variant.name, '.') = '\0';
    use_variant(path);
    time_shape(&shapes[0], true);
    if (now.divisor == 1) time_shape(&shapes[2], false);
}

int main(int argc, char **argv)
{
    static char folder[400];
    if (argc < 3) {
        fprintf(stderr, "usage: speed DIVISOR images|kernels|counters|FILE.ptx\n");
        return 2;
    }
    const char *part = argv[2];
    now.divisor = atoi(argv[1]) > 0 ? atoi(argv[1]) : 1;
    snprintf(folder, sizeof folder, "%s", argv[0]);
    if (strrchr(folder, '/')) *strrchr(folder, '/') = '\0';
    now.folder = folder;
    if (cuda_open(&now.gpu, 0, &now.error)) {
        printf("skip: no GPU: %s\n", now.error.text);
        return 0;
    }
    const struct cuda_device *d = cuda_device(now.gpu);
    printf("%s, sm_%d, %d SMs, driver %d, %s\n\n", d->name, d->arch, d->n_sm, d->driver, d->image);
    if (!strcmp(part, "images")) {
        time_images();
        print_registers();
        return 0;
    }
    timed_check(ceilings_measure(&now.ceilings, now.gpu, folder, now.divisor > 1, &now.error));
    take_memory();
    timed_head();
    if (!strcmp(part, "kernels")) time_kernels();
    if (strchr(part, '.')) time_variant(part);
    if (!strcmp(part, "counters")) time_shape(&shapes[0], false);
    timed_gaps();
    return 0; /* the driver frees the memory */
}
