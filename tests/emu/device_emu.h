/* device_emu: the operations of kernels/cuda/device.cuh, for a compiler other than nvcc. */
#ifndef RETAIN_TESTS_DEVICE_EMU_H
#define RETAIN_TESTS_DEVICE_EMU_H

#include <math.h>
#include <string.h>

#include "emu.h"

#define DEVICE static inline
#define UNROLL
#define UNROLL_BY(n)
#define KERNEL(name, args, n_threads, min_blocks)                                  \
    static void name##_body(const args &a);                                        \
    static void name##_thread(const void *a)                                       \
    {                                                                              \
        name##_body(*(const args *)a);                                             \
    }                                                                              \
    extern "C" const char *name(const struct emu_launch *at, const args *a);       \
    extern "C" const char *name(const struct emu_launch *at, const args *a)        \
    {                                                                              \
        return at->threads == (n_threads) ? emu_run(at, name##_thread, a)          \
                                          : #name " wants " #n_threads " threads"; \
    }                                                                              \
    static void name##_body(const args &a)

/* The kernel's line that calls one of these functions. */
#define HERE const char *file = __builtin_FILE(), int line = __builtin_LINE()
#define PLACE      \
    emu_place      \
    {              \
        file, line \
    }

#define shared_memory   emu_shared
#define thread_id       emu_thread
#define block_x()       emu_block(0)
#define block_y()       emu_block(1)
#define block_z()       emu_block(2)
#define grid_x()        emu_grid(0)
#define cp_async_commit emu_cp_commit
#define half_bits       emu_half_bits
#define half_float      emu_half_float
#define fma_f32         fmaf
#define sqrt_of         sqrtf
#define popcount        __builtin_popcount
#define load_fresh(p)   (*(p))

DEVICE void barrier(HERE)
{
    emu_barrier(PLACE);
}

DEVICE void warp_sync(HERE)
{
    uint32_t none[1];
    emu_warp(EMU_SYNC, 0xffffffffu, none, none, PLACE);
}

/* An operation with one or two words of each lane, and one result. */
DEVICE uint32_t words(emu_op op, uint32_t x, uint32_t y, emu_place at)
{
    const uint32_t in[2] = {x, y};
    uint32_t out;
    emu_warp(op, 0xffffffffu, in, &out, at);
    return out;
}

DEVICE uint32_t shfl_xor_u32(uint32_t x, int mask, HERE)
{
    return words(EMU_SHFL_XOR, x, (uint32_t)mask, PLACE);
}

DEVICE uint32_t shfl_u32(uint32_t x, int lane, HERE)
{
    return words(EMU_SHFL, x, (uint32_t)lane, PLACE);
}

DEVICE uint32_t warp_ballot(bool x, HERE)
{
    return words(EMU_BALLOT, x, 0, PLACE);
}

DEVICE uint32_t movmatrix(uint32_t x, HERE)
{
    return words(EMU_MOVMATRIX, x, 0, PLACE);
}

DEVICE void mma(emu_op op, void *d, const uint32_t a[4], uint32_t b0, uint32_t b1, const void *c,
                emu_place at)
{
    uint32_t in[10] = {a[0], a[1], a[2], a[3], b0, b1}, out[4];
    memcpy(in + 6, c, 16);
    emu_warp(op, 0xffffffffu, in, out, at);
    memcpy(d, out, 16);
}

DEVICE void mma_f16(float d[4], const uint32_t a[4], uint32_t b0, uint32_t b1, HERE)
{
    mma(EMU_MMA_F16, d, a, b0, b1, d, PLACE);
}

DEVICE void mma_bf16(float d[4], const uint32_t a[4], uint32_t b0, uint32_t b1, HERE)
{
    mma(EMU_MMA_BF16, d, a, b0, b1, d, PLACE);
}

DEVICE void mma_f16_halves(uint32_t d[2], const uint32_t a[4], uint32_t b0, uint32_t b1, HERE)
{
    const uint32_t in[8] = {a[0], a[1], a[2], a[3], b0, b1, d[0], d[1]};
    emu_warp(EMU_MMA_HALVES, 0xffffffffu, in, d, PLACE);
}

DEVICE void mma_s8(int32_t d[4], const uint32_t a[4], uint32_t b0, uint32_t b1, const int32_t c[4],
                   HERE)
{
    mma(EMU_MMA_S8, d, a, b0, b1, c, PLACE);
}

DEVICE void mma_s8_short(int32_t d[4], const uint32_t a[2], uint32_t b, const int32_t c[4], HERE)
{
    const uint32_t all[4] = {a[0], a[1], 0, 0};
    mma(EMU_MMA_S8, d, all, b, 0, c, PLACE);
}

DEVICE void mma_u8s8(int32_t d[4], const uint32_t a[4], uint32_t b0, uint32_t b1,
                     const int32_t c[4], HERE)
{
    mma(EMU_MMA_U8S8, d, a, b0, b1, c, PLACE);
}

DEVICE void ldmatrix_op(emu_op op, uint32_t r[4], const void *row, emu_place at)
{
    uint32_t in[2];
    memcpy(in, &row, sizeof row);
    emu_warp(op, 0xffffffffu, in, r, at);
}

DEVICE void ldmatrix(uint32_t r[4], const void *row, HERE)
{
    ldmatrix_op(EMU_LDMATRIX, r, row, PLACE);
}

DEVICE void ldmatrix_trans(uint32_t r[4], const void *row, HERE)
{
    ldmatrix_op(EMU_LDMATRIX_T, r, row, PLACE);
}

DEVICE void cp_async16(void *dst, const void *src, int n, HERE)
{
    emu_cp_async(dst, src, 16, n, PLACE);
}

DEVICE void cp_async4(void *dst, const void *src, int n, HERE)
{
    emu_cp_async(dst, src, 4, n, PLACE);
}

template <int pending> DEVICE void cp_async_wait()
{
    emu_cp_wait(pending);
}

DEVICE u32x4 load_stream(const u32x4 *p, HERE)
{
    emu_check_aligned(p, 16, PLACE);
    return *p;
}

DEVICE u32x4 load16(const u32x4 *p, HERE)
{
    emu_check_aligned(p, 16, PLACE);
    return *p;
}

DEVICE u32x2 load8(const u32x2 *p, HERE)
{
    emu_check_aligned(p, 8, PLACE);
    return *p;
}

DEVICE uint32_t permute_bytes(uint32_t a, uint32_t b, uint32_t selector)
{
    const uint64_t both = (uint64_t)b << 32 | a;
    uint32_t out = 0;
    for (int i = 0; i < 4; i++)
        out |= (uint32_t)(both >> 8 * (selector >> 4 * i & 7) & 0xff) << 8 * i;
    return out;
}

DEVICE uint32_t h2_pack(float low, float high)
{
    return half_bits(low) | (uint32_t)half_bits(high) << 16;
}

/* A product of halves is exact in float; its sum with a half is rounded to float first, which
 * changes one result in several thousand by an ulp of the half. */
DEVICE uint32_t h2_fma(uint32_t a, uint32_t b, uint32_t c)
{
    return h2_pack(fmaf(half_float((uint16_t)a), half_float((uint16_t)b), half_float((uint16_t)c)),
                   fmaf(half_float((uint16_t)(a >> 16)), half_float((uint16_t)(b >> 16)),
                        half_float((uint16_t)(c >> 16))));
}

DEVICE uint32_t h2_mul(uint32_t a, uint32_t b)
{
    return h2_pack(half_float((uint16_t)a) * half_float((uint16_t)b),
                   half_float((uint16_t)(a >> 16)) * half_float((uint16_t)(b >> 16)));
}

DEVICE uint32_t h2_sub(uint32_t a, uint32_t b)
{
    return h2_pack(half_float((uint16_t)a) - half_float((uint16_t)b),
                   half_float((uint16_t)(a >> 16)) - half_float((uint16_t)(b >> 16)));
}

DEVICE uint32_t h2_neg(uint32_t a)
{
    return a ^ 0x80008000u;
}

DEVICE float exp2_fast(float x)
{
    return x < -126.0f ? 0.0f : exp2f(x);
}

DEVICE float rsqrt_fast(float x)
{
    return 1.0f / sqrtf(x);
}

DEVICE float bits_float(uint32_t u)
{
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

DEVICE uint32_t float_bits(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

DEVICE void atomic_add(uint32_t *p, uint32_t n)
{
    *p += n;
}

DEVICE uint32_t atomic_next(uint32_t *p)
{
    return (*p)++;
}

DEVICE void count_release(uint32_t *p, uint32_t n)
{
    *p = (*p + 1) % n;
}

DEVICE uint32_t count_acquire_release(uint32_t *p, uint32_t n)
{
    const uint32_t x = *p;
    *p = (x + 1) % n;
    return x;
}

DEVICE uint32_t load_changing(const uint32_t *p, HERE)
{
    emu_poll(PLACE);
    return *p;
}

DEVICE uint32_t load_acquire(const uint32_t *p)
{
    return *p;
}

DEVICE void load_four_fresh(float x[4], const float *p)
{
    for (int i = 0; i < 4; i++) x[i] = p[i];
}

#endif
