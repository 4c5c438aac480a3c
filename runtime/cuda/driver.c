#include "runtime/cuda/driver.h"

#include <dlfcn.h>
#include <string.h>

#define LIBRARY "libcuda.so.1"

static const struct {
    const char *name;
    size_t at;
} symbols[] = {
#define SYMBOL(name, version, parameters) {#name version, offsetof(struct cuda_driver, name)},
    CUDA_FUNCTIONS(SYMBOL)
#undef SYMBOL
};

static int find_symbols(struct cuda_driver *d, struct err *e)
{
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        void *p = dlsym(d->library, symbols[i].name);
        if (!p)
            return err_set(e, ERR_FAIL, "the CUDA driver (" LIBRARY ") is too old: it has no %s",
                           symbols[i].name);
        memcpy((char *)d + symbols[i].at, &p, sizeof p);
    }
    return 0;
}

int cuda_driver_open(struct cuda_driver *d, struct err *e)
{
    /* It stays loaded: its threads may outlive the last context, and a second load after an unload
     * has crashed. */
    *d = (struct cuda_driver){.library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE)};
    if (!d->library)
        return err_set(e, ERR_FAIL, "there is no CUDA driver: " LIBRARY " was not found");
    int rc = find_symbols(d, e);
    if (!rc) rc = CUDA_CALL(d, -1, e, cuInit, 0);
    if (rc) cuda_driver_close(d);
    return rc;
}

void cuda_driver_close(struct cuda_driver *d)
{
    if (d->library) dlclose(d->library);
    d->library = NULL;
}

bool cuda_refused(const struct cuda_driver *d)
{
    return d->failure == CUDA_INVALID_VALUE || d->failure == CUDA_OUT_OF_RESOURCES ||
           d->failure == CUDA_TOO_MANY_BLOCKS || d->failure == CUDA_NOT_PERMITTED ||
           d->failure == CUDA_NOT_SUPPORTED || d->failure / 10 == CUDA_CAPTURE_ERRORS / 10;
}

int cuda_check(struct cuda_driver *d, int result, const char *call, const char *file, int line,
               int device, struct err *e)
{
    const char *name = NULL, *text = NULL, *slash = strrchr(file, '/');
    if (!result) return 0;
    d->failure = result;
    if (d->cuGetErrorName(result, &name) || !name) name = "an unknown error";
    if (d->cuGetErrorString(result, &text) || !text) text = "no text";
    if (slash) file = slash + 1;
    const int code = result == CUDA_OUT_OF_MEMORY ? ERR_FIT : ERR_FAIL;
    if (device < 0)
        return err_set(e, code, "CUDA: %s failed: %s (%d: %s), at %s:%d", call, name, result, text,
                       file, line);
    return err_set(e, code, "cuda:%d: %s failed: %s (%d: %s), at %s:%d%s", device, call, name,
                   result, text, file, line,
                   code == ERR_FIT ? "; --device cpu runs without it" : "");
}
