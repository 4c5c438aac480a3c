/* launch: runs a device kernel on the CPU, for tests. See emu.h for what is emulated.
 *
 * Every KERNEL(name, args, …) of kernels/cuda becomes a function
 *   const char *name(const struct emu_launch *at, const args *a);
 * that returns NULL, or an error and its place: a divergent barrier, a deadlock, a misaligned or
 * stray access, an exceeded limit. The message is valid until the next launch. */
#ifndef RETAIN_TESTS_EMU_LAUNCH_H
#define RETAIN_TESTS_EMU_LAUNCH_H

#include <stddef.h>
#include <stdint.h>

struct emu_launch {
    int grid[3];
    int threads; /* per block, a multiple of 32 */
    size_t shared_bytes;
    uint64_t seed;   /* seed of the order of blocks, warps and lanes */
    int cooperative; /* all blocks run at one time and may wait for each other */
};

#endif
