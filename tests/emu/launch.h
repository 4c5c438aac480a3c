/* launch: how a test runs a device kernel on the CPU. See emu.h for what is emulated.
 *
 * Every KERNEL(name, args, …) of kernels/cuda becomes a function
 *   const char *name(const struct emu_launch *at, const args *a);
 * that returns NULL, or what went wrong and where: a divergent barrier, a deadlock, a misaligned or
 * stray access, a limit exceeded. The message lives until the next launch. */
#ifndef RETAIN_TESTS_EMU_LAUNCH_H
#define RETAIN_TESTS_EMU_LAUNCH_H

#include <stddef.h>
#include <stdint.h>

struct emu_launch {
    int grid[3];
    int threads; /* per block, a multiple of 32 */
    size_t shared_bytes;
    uint64_t seed; /* of the order in which blocks, warps and lanes run */
};

#endif
