/* driver: a libcuda.so.1 whose devices are the emulator. Programs find it like NVIDIA's: by
 * LD_LIBRARY_PATH, or because a test has loaded it before. The same host code and the same kernels
 * run.
 *
 * It is strict on purpose: memory starts as NaN, addresses are checked against allocations, copies
 * from and to page-locked memory happen only when the stream is waited for, blocks run in a
 * different order at every launch, and calls fail on a thread that did not make the context
 * current.
 *
 * Two devices: "Emulated GPU", sm_89, and "Emulated Orin", sm_87 and integrated. Driver 13.0.
 *
 * EMU_DRIVER_MEMORY in the environment is the number of bytes of device memory, else 1 GiB.
 *
 * The following functions are for tests, to be looked up in the library (dlsym). */
#ifndef RETAIN_TESTS_EMU_DRIVER_H
#define RETAIN_TESTS_EMU_DRIVER_H

#include <stddef.h>
#include <stdint.h>

/* From now on the nth call (from 1) of `call` returns `error`, once; NULL: none fails. */
typedef void emu_driver_fail_fn(const char *call, int nth, int error);
/* Calls since the last emu_driver_fail; NULL = executed launches, including those of graphs. */
typedef int emu_driver_calls_fn(const char *call);
/* Sets the bytes of device memory; existing allocations stay. */
typedef void emu_driver_memory_fn(size_t bytes);
/* `before` gets every launch and its arguments before it runs; run = false: kernels then do
 * nothing. */
typedef void emu_driver_watch_fn(void (*before)(void *ctx, const char *kernel, const void *args),
                                 void *ctx, int run);
/* Result of cuDriverGetVersion. */
typedef void emu_driver_version_fn(int version);
/* Number of allocations of any kind that were not freed. */
typedef int emu_driver_held_fn(void);
/* Bytes of page-locked memory that were ever asked for. */
typedef size_t emu_driver_host_bytes_fn(void);

#endif
