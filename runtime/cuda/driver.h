/* driver: the CUDA driver's functions, loaded at run time from libcuda.so.1. Building and starting
 * this program needs no CUDA header or library.
 *
 * Names are those of CUDA 11 and 12, which 13 still has; a later version's suffix (_v2) is part of
 * the name, because plain names mean the oldest version. */
#ifndef RETAIN_RUNTIME_CUDA_DRIVER_H
#define RETAIN_RUNTIME_CUDA_DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct CUctx_st;
struct CUmod_st;
struct CUfunc_st;
struct CUstream_st;
struct CUgraph_st;
struct CUgraphExec_st;

enum { /* results */
       CUDA_OUT_OF_MEMORY = 2,
       CUDA_INVALID_VALUE = 1,
       CUDA_NO_BINARY = 209,
       CUDA_NOT_FOUND = 500,
       CUDA_OUT_OF_RESOURCES = 701, /* registers or shared memory for a launch */
       CUDA_TOO_MANY_BLOCKS = 720,  /* for a cooperative launch */
       CUDA_NOT_PERMITTED = 800,
       CUDA_NOT_SUPPORTED = 801,
       CUDA_CAPTURE_ERRORS = 900, /* to 909 */
};

enum { /* device attributes */
       CUDA_MULTIPROCESSORS = 16,
       CUDA_INTEGRATED = 18,
       CUDA_CC_MAJOR = 75,
       CUDA_CC_MINOR = 76,
       CUDA_COOPERATIVE = 95,
};

/* function attributes; the carveout: per cent of L1 that is shared memory */
enum { CUDA_MAX_DYNAMIC_SHARED = 8, CUDA_SHARED_CARVEOUT = 9 };
enum { CUDA_JIT_ERROR_LOG = 5, CUDA_JIT_ERROR_LOG_BYTES = 6 }; /* options of a module */
enum { CUDA_CAPTURE_THREAD_LOCAL = 1 };                        /* mode of a stream's capture */

/* F(name, version, parameters). cuLaunchCooperativeKernel: all blocks run at one time, or it
 * fails. */
/* clang-format off */
#define CUDA_FUNCTIONS(F) \
    F(cuInit, "", (unsigned flags))                                                               \
    F(cuDriverGetVersion, "", (int *version))                                                     \
    F(cuGetErrorName, "", (int error, const char **name))                                         \
    F(cuGetErrorString, "", (int error, const char **text))                                       \
    F(cuDeviceGetCount, "", (int *n))                                                             \
    F(cuDeviceGet, "", (int *device, int ordinal))                                                \
    F(cuDeviceGetName, "", (char *name, int bytes, int device))                                   \
    F(cuDeviceGetAttribute, "", (int *value, int attribute, int device))                          \
    F(cuDeviceGetPCIBusId, "", (char *bus, int bytes, int device))                                \
    F(cuDeviceTotalMem, "_v2", (size_t *bytes, int device))                                       \
    F(cuDevicePrimaryCtxRetain, "", (struct CUctx_st **context, int device))                      \
    F(cuDevicePrimaryCtxRelease, "_v2", (int device))                                             \
    F(cuCtxSetCurrent, "", (struct CUctx_st *context))                                            \
    F(cuModuleLoadDataEx, "",                                                                     \
      (struct CUmod_st **module, const void *image, unsigned n_options, int *options,             \
       void **values))                                                                            \
    F(cuModuleUnload, "", (struct CUmod_st *module))                                              \
    F(cuModuleGetFunction, "", (struct CUfunc_st **f, struct CUmod_st *module, const char *name)) \
    F(cuFuncSetAttribute, "", (struct CUfunc_st *f, int attribute, int value))                    \
    F(cuMemGetInfo, "_v2", (size_t *free, size_t *total))                                         \
    F(cuMemAlloc, "_v2", (uint64_t *address, size_t bytes))                                       \
    F(cuMemFree, "_v2", (uint64_t address))                                                       \
    F(cuMemHostAlloc, "", (void **p, size_t bytes, unsigned flags))                               \
    F(cuMemFreeHost, "", (void *p))                                                               \
    F(cuMemcpyHtoDAsync, "_v2",                                                                   \
      (uint64_t to, const void *from, size_t bytes, struct CUstream_st *s))                       \
    F(cuMemcpyDtoHAsync, "_v2", (void *to, uint64_t from, size_t bytes, struct CUstream_st *s))   \
    F(cuMemcpyDtoDAsync, "_v2", (uint64_t to, uint64_t from, size_t bytes, struct CUstream_st *s)) \
    F(cuMemsetD8Async, "",                                                                        \
      (uint64_t to, unsigned char value, size_t bytes, struct CUstream_st *s))                    \
    F(cuStreamCreate, "", (struct CUstream_st **s, unsigned flags))                               \
    F(cuStreamDestroy, "_v2", (struct CUstream_st *s))                                            \
    F(cuStreamSynchronize, "", (struct CUstream_st *s))                                           \
    F(cuStreamBeginCapture, "_v2", (struct CUstream_st *s, int mode))                             \
    F(cuStreamEndCapture, "", (struct CUstream_st *s, struct CUgraph_st **graph))                 \
    F(cuGraphInstantiateWithFlags, "",                                                            \
      (struct CUgraphExec_st **exec, struct CUgraph_st *graph, unsigned long long flags))         \
    F(cuGraphDestroy, "", (struct CUgraph_st *graph))                                             \
    F(cuGraphExecDestroy, "", (struct CUgraphExec_st *exec))                                      \
    F(cuGraphLaunch, "", (struct CUgraphExec_st *exec, struct CUstream_st *s))                    \
    F(cuOccupancyMaxActiveBlocksPerMultiprocessor, "",                                            \
      (int *n, struct CUfunc_st *f, int threads, size_t shared_bytes))                            \
    F(cuLaunchKernel, "",                                                                         \
      (struct CUfunc_st *f, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,  \
       unsigned block_y, unsigned block_z, unsigned shared_bytes, struct CUstream_st *s,          \
       void **args, void **extra))                                                                \
    F(cuLaunchCooperativeKernel, "",                                                              \
      (struct CUfunc_st *f, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,  \
       unsigned block_y, unsigned block_z, unsigned shared_bytes, struct CUstream_st *s,          \
       void **args))
/* clang-format on */

struct cuda_driver {
    void *library;
    int failure; /* the result of the last call that failed */
#define FIELD(name, version, parameters) int(*name) parameters;
    CUDA_FUNCTIONS(FIELD)
#undef FIELD
};

/* Finds and starts the driver; ERR_FAIL names the missing part. */
int cuda_driver_open(struct cuda_driver *d, struct err *e);
void cuda_driver_close(struct cuda_driver *d);

/* Checks the result of a call: 0, or an error that names the call, its source line and the device's
 * ordinal (-1 = none yet). ERR_FIT when out of memory. */
int cuda_check(struct cuda_driver *d, int result, const char *call, const char *file, int line,
               int device, struct err *e);

/* Whether the call that failed last was refused: nothing ran, and the context is as it was. All
 * other errors of launches stay until the context is released. */
bool cuda_refused(const struct cuda_driver *d);

#define CUDA_CALL(d, device, e, function, ...) \
    cuda_check(d, (d)->function(__VA_ARGS__), #function, __FILE__, __LINE__, device, e)

#endif
