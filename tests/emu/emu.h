/* emu: a GPU's block on one CPU thread, for kernels/cuda/device.cuh when it is not compiled by
 * nvcc.
 *
 * Each thread of a block is a fiber. A fiber runs until it needs others: at a shuffle, a matrix
 * instruction or another warp-wide operation it waits for the 31 other lanes of its warp, at a
 * barrier for its block. The next warp and lane are chosen at random, from the launch's seed. It is
 * strict on purpose:
 *   - shared memory starts as NaN, has exactly the requested size, and is 16-byte aligned, no more;
 *   - cp.async arrives at its wait and not before; until then its destination is old bytes or NaN;
 *   - all 32 lanes must reach the same warp operation at the same line, all threads of the block
 *     the same barrier; the error names the thread that does not;
 *   - threads may wait for other blocks in a cooperative launch only;
 *   - vector loads, ldmatrix rows and cp.async addresses must be aligned, and shared addresses must
 *     be inside shared memory.
 * Matrix instructions follow the fragment tables of the PTX manual (9.7.14.5), products exact, sums
 * in double, rounded once.
 *
 * It cannot test: memory order and fences, bank conflicts, registers, the rounding of approximate
 * instructions, speed; nor the text of asm statements, which tests/ptx runs. */
#ifndef RETAIN_TESTS_EMU_H
#define RETAIN_TESTS_EMU_H

#include "launch.h"

struct emu_place { /* a line of a kernel */
    const char *file;
    int line;
};

enum emu_op {
    EMU_SHFL_XOR,   /* in: value, mask          out: value */
    EMU_SHFL,       /* in: value, source lane   out: value */
    EMU_BALLOT,     /* in: 0 or 1               out: bits */
    EMU_SYNC,       /* */
    EMU_MMA_F16,    /* in: a[4] b[2] c[4]       out: d[4]; m16n8k16, c and d float */
    EMU_MMA_BF16,   /* the same of bfloat16 */
    EMU_MMA_HALVES, /* in: a[4] b[2] c[2]       out: d[2]; m16n8k16, c and d halves */
    EMU_MMA_S8,     /* as F16, m16n8k32, a and b signed bytes, c and d int32 */
    EMU_MMA_U8S8,   /* same, a unsigned */
    EMU_MOVMATRIX,  /* in: two halves           out: two halves of the transposed 8 x 8 */
    EMU_LDMATRIX,   /* in: address (2 words)    out: r[4] */
    EMU_LDMATRIX_T, /* same, each 8 x 8 transposed */
};

#ifdef __cplusplus
extern "C" {
#endif

typedef void emu_body(const void *args);

const char *emu_run(const struct emu_launch *at, emu_body *body, const void *args);

int emu_thread(void);
int emu_block(int axis);
int emu_grid(int axis);
char *emu_shared(void);
/* The calling thread waits for another block: others run first. */
void emu_poll(struct emu_place at);
void emu_barrier(struct emu_place at);
void emu_warp(enum emu_op op, uint32_t mask, const uint32_t *in, uint32_t *out,
              struct emu_place at);
void emu_cp_async(void *dst, const void *src, int bytes, int src_bytes, struct emu_place at);
void emu_cp_commit(void);
void emu_cp_wait(int pending);
void emu_check_aligned(const void *p, int align, struct emu_place at);
/* Bytes at an offset of shared memory, which must be a multiple of their number. */
char *emu_shared_at(int64_t offset, int bytes, struct emu_place at);
/* Ends the launch with `what` as its message. */
void emu_fail(const char *what, struct emu_place at);

float emu_half_float(uint16_t h);
uint16_t emu_half_bits(float x);

#ifdef __cplusplus
}
#endif

#endif
