/* device: all hardware operations that kernels use, one small function each.
 *
 * nvcc compiles them as asm. Any other C++ compiler gets the emulation in tests/emu, so the same
 * kernels run on a CPU. No kernel uses a CUDA builtin or an asm statement directly.
 *
 * Kernels are C with tile templates. Threads of a block are one-dimensional and a multiple of 32;
 * matrix fragments are always numbered with lane = 4 * g + t. A half2 is a uint32_t, the
 * lower-numbered element in the low half. Sums written as fma_f32 are contracted, others are not
 * (-fmad=false), so that both compilers round alike. */
#ifndef RETAIN_KERNELS_CUDA_DEVICE_CUH
#define RETAIN_KERNELS_CUDA_DEVICE_CUH

#include <stddef.h>
#include <stdint.h>

struct alignas(16) u32x4 {
    uint32_t x, y, z, w;
};

struct alignas(8) u32x2 {
    uint32_t x, y;
};

#ifdef __CUDACC__

#define DEVICE       static __device__ __forceinline__
#define UNROLL       _Pragma("unroll")
#define PRAGMA(text) _Pragma(#text)
#define UNROLL_BY(n) PRAGMA(unroll n)
/* min_blocks: blocks that an SM must be able to hold, which limits the registers. */
#define KERNEL(name, args, n_threads, min_blocks)                       \
    extern "C" __global__ void __launch_bounds__(n_threads, min_blocks) \
        name(const __grid_constant__ args a)

extern __shared__ __align__(16) char retain_shared[];

DEVICE char *shared_memory()
{
    return retain_shared;
}

DEVICE int thread_id()
{
    return (int)threadIdx.x;
}

DEVICE int block_x()
{
    return (int)blockIdx.x;
}

DEVICE int block_y()
{
    return (int)blockIdx.y;
}

DEVICE int block_z()
{
    return (int)blockIdx.z;
}

/* Blocks of the launch, if they are numbered by block_x alone. */
DEVICE int grid_x()
{
    return (int)gridDim.x;
}

DEVICE void barrier()
{
    __syncthreads();
}

DEVICE void warp_sync()
{
    __syncwarp();
}

DEVICE uint32_t shfl_xor_u32(uint32_t x, int mask)
{
    return __shfl_xor_sync(0xffffffffu, x, mask);
}

DEVICE uint32_t shfl_u32(uint32_t x, int lane)
{
    return __shfl_sync(0xffffffffu, x, lane);
}

DEVICE uint32_t warp_ballot(bool x)
{
    return __ballot_sync(0xffffffffu, x);
}

/* d += a b */
DEVICE void mma_f16(float d[4], const uint32_t a[4], uint32_t b0, uint32_t b1)
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* The same of bfloat16. */
DEVICE void mma_bf16(float d[4], const uint32_t a[4], uint32_t b0, uint32_t b1)
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
        "{%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* d += a b, sums of halves: d[i] are columns 2t and 2t + 1 of row g + 8i. */
DEVICE void mma_f16_halves(uint32_t d[2], const uint32_t a[4], uint32_t b0, uint32_t b1)
{
    asm("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0,%1}, {%2,%3,%4,%5}, {%6,%7}, "
        "{%0,%1};"
        : "+r"(d[0]), "+r"(d[1])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* d = a b + c */
DEVICE void mma_s8(int32_t d[4], const uint32_t a[4], uint32_t b0, uint32_t b1, const int32_t c[4])
{
    asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%10,%11,%12,%13};"
        : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "r"(c[0]), "r"(c[1]),
          "r"(c[2]), "r"(c[3]));
}

/* The same of 16 columns: mma_s8 with a[2], a[3] and b1 of zeros. */
DEVICE void mma_s8_short(int32_t d[4], const uint32_t a[2], uint32_t b, const int32_t c[4])
{
    asm("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5}, {%6}, "
        "{%7,%8,%9,%10};"
        : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(b), "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3]));
}

DEVICE void mma_u8s8(int32_t d[4], const uint32_t a[4], uint32_t b0, uint32_t b1,
                     const int32_t c[4])
{
    asm("mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%10,%11,%12,%13};"
        : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "r"(c[0]), "r"(c[1]),
          "r"(c[2]), "r"(c[3]));
}

DEVICE uint32_t movmatrix(uint32_t x)
{
    uint32_t y;
    asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(y) : "r"(x));
    return y;
}

DEVICE uint32_t shared_address(const void *p)
{
    return (uint32_t)__cvta_generic_to_shared(p);
}

/* Volatile, with memory clobbers: these read data written by other threads. */
DEVICE void ldmatrix(uint32_t r[4], const void *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(shared_address(row))
                 : "memory");
}

DEVICE void ldmatrix_trans(uint32_t r[4], const void *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(shared_address(row))
                 : "memory");
}

/* Copies 16 bytes to shared memory: the first n (0..16) from src, the rest zero. */
DEVICE void cp_async16(void *dst, const void *src, int n)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(dst)),
                 "l"(src), "r"(n)
                 : "memory");
}

/* The same of 4 bytes. */
DEVICE void cp_async4(void *dst, const void *src, int n)
{
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(shared_address(dst)),
                 "l"(src), "r"(n)
                 : "memory");
}

DEVICE void cp_async_commit()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

/* Waits until at most `pending` of this thread's groups are still being copied. */
template <int pending> DEVICE void cp_async_wait()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
}

/* Weights: read once, kept out of L1. */
DEVICE u32x4 load_stream(const u32x4 *p)
{
    u32x4 v;
    asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(p));
    return v;
}

DEVICE u32x4 load16(const u32x4 *p)
{
    return *p;
}

DEVICE u32x2 load8(const u32x2 *p)
{
    return *p;
}

DEVICE uint32_t permute_bytes(uint32_t a, uint32_t b, uint32_t selector)
{
    return __byte_perm(a, b, selector);
}

DEVICE uint32_t h2_fma(uint32_t a, uint32_t b, uint32_t c)
{
    uint32_t d;
    asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
    return d;
}

DEVICE uint32_t h2_mul(uint32_t a, uint32_t b)
{
    uint32_t d;
    asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));
    return d;
}

DEVICE uint32_t h2_sub(uint32_t a, uint32_t b)
{
    uint32_t d;
    asm("sub.rn.f16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));
    return d;
}

DEVICE uint32_t h2_neg(uint32_t a)
{
    uint32_t d;
    asm("neg.f16x2 %0, %1;" : "=r"(d) : "r"(a));
    return d;
}

DEVICE uint32_t h2_pack(float low, float high)
{
    uint32_t d;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(d) : "f"(high), "f"(low));
    return d;
}

DEVICE uint16_t half_bits(float x)
{
    uint16_t h;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(x));
    return h;
}

DEVICE float half_float(uint16_t h)
{
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(h));
    return x;
}

DEVICE float fma_f32(float a, float b, float c)
{
    return __fmaf_rn(a, b, c);
}

/* 2^x to 2 ulp; 2^-inf is 0. */
DEVICE float exp2_fast(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* 1 / sqrt(x) to 2 ulp. */
DEVICE float rsqrt_fast(float x)
{
    float y;
    asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

DEVICE float sqrt_of(float x)
{
    return __fsqrt_rn(x);
}

DEVICE float bits_float(uint32_t u)
{
    return __uint_as_float(u);
}

DEVICE uint32_t float_bits(float x)
{
    return __float_as_uint(x);
}

DEVICE int popcount(uint32_t x)
{
    return __popc(x);
}

/* Integers only: their sum does not depend on the order. */
DEVICE void atomic_add(uint32_t *p, uint32_t n)
{
    atomicAdd(p, n);
}

/* *p++: the next index in a list whose order does not matter. */
DEVICE uint32_t atomic_next(uint32_t *p)
{
    return atomicAdd(p, 1u);
}

/* Counts: *p = (*p + 1) % n. A release: who counts after it sees what this thread wrote before. */
DEVICE void count_release(uint32_t *p, uint32_t n)
{
    asm volatile("red.release.gpu.global.inc.u32 [%0], %1;" ::"l"(p), "r"(n - 1) : "memory");
}

/* The same, with acquire order: afterwards this thread sees what others wrote before they counted.
 * Returns the old *p. */
DEVICE uint32_t count_acquire_release(uint32_t *p, uint32_t n)
{
    uint32_t x;
    asm volatile("atom.acq_rel.gpu.global.inc.u32 %0, [%1], %2;"
                 : "=r"(x)
                 : "l"(p), "r"(n - 1)
                 : "memory");
    return x;
}

/* Reads a number for which this thread waits until other blocks have changed it. load_acquire must
 * follow: at every poll it would empty the L1 of the multiprocessor. */
DEVICE uint32_t load_changing(const uint32_t *p)
{
    uint32_t x;
    asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(x) : "l"(p) : "memory");
    return x;
}

/* Later reads see everything that was written before this number. A fence would also wait for loads
 * in flight. */
DEVICE uint32_t load_acquire(const uint32_t *p)
{
    uint32_t x;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(x) : "l"(p) : "memory");
    return x;
}

/* Reads data that another block wrote during this launch. */
DEVICE float load_fresh(const float *p)
{
    float x;
    asm volatile("ld.global.cg.f32 %0, [%1];" : "=f"(x) : "l"(p) : "memory");
    return x;
}

DEVICE void load_four_fresh(float x[4], const float *p)
{
    asm volatile("ld.global.cg.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(x[0]), "=f"(x[1]), "=f"(x[2]), "=f"(x[3])
                 : "l"(p)
                 : "memory");
}

#else
#include <device_emu.h> /* tests/emu */
#endif

/* ---- built from the above -------------------------------------------------------------------- */

/* A kernel that only calls f(a). */
#define KERNEL_OF(name, args, n_threads, min_blocks, f) \
    KERNEL(name, args, n_threads, min_blocks)           \
    {                                                   \
        f(a);                                           \
    }

/* Of a number and NaN: the number. */
DEVICE float max_f32(float a, float b)
{
    return fmaxf(a, b);
}

DEVICE float min_f32(float a, float b)
{
    return fminf(a, b);
}

DEVICE float log2_of(float x)
{
    return log2f(x);
}

DEVICE float exp_of(float x)
{
    return expf(x);
}

DEVICE float round_even(float x)
{
    return rintf(x);
}

#define INF bits_float(0x7f800000u)

DEVICE int lane_id()
{
    return thread_id() % 32;
}

DEVICE int warp_id()
{
    return thread_id() / 32;
}

DEVICE int min_int(int a, int b)
{
    return a < b ? a : b;
}

DEVICE int max_int(int a, int b)
{
    return a > b ? a : b;
}

DEVICE float abs_f32(float x)
{
    return bits_float(float_bits(x) & 0x7fffffffu);
}

DEVICE int ceil_div(int a, int b)
{
    return (a + b - 1) / b;
}

DEVICE float shfl_xor_f32(float x, int mask)
{
    return bits_float(shfl_xor_u32(float_bits(x), mask));
}

DEVICE float shfl_f32(float x, int lane)
{
    return bits_float(shfl_u32(float_bits(x), lane));
}

/* Where a block of a product of `rows` x `tokens` works. Blocks start in the order of super-tiles:
 * `super` row blocks for all tokens, then the next. The blocks that run at one time share their
 * weights and inputs in L2. */
struct area {
    int row0, token0;
};

DEVICE struct area area_of(int n_out, int rows, int n_tok, int tokens, int super)
{
    const int n_row = ceil_div(n_out, rows), n_token = ceil_div(n_tok, tokens);
    const int i = block_y() * n_row + block_x(), first = i / (super * n_token) * super;
    const int high = min_int(n_row - first, super), within = i - first * n_token;

    return {(first + within % high) * rows, within / high * tokens};
}

/* Over the 32 lanes, in the order of a butterfly. */
DEVICE float warp_max(float x)
{
    UNROLL
    for (int mask = 16; mask; mask >>= 1) x = max_f32(x, shfl_xor_f32(x, mask));
    return x;
}

DEVICE float warp_sum(float x)
{
    UNROLL
    for (int mask = 16; mask; mask >>= 1) x += shfl_xor_f32(x, mask);
    return x;
}

/* The number x in place i. */
struct best {
    float x;
    int i;
};

/* The larger one; on ties the first. */
DEVICE struct best better(struct best a, struct best b)
{
    return b.x > a.x || (b.x == a.x && b.i < a.i) ? b : a;
}

DEVICE struct best warp_best(struct best b)
{
    UNROLL
    for (int mask = 16; mask; mask >>= 1) {
        const struct best other = {shfl_xor_f32(b.x, mask), (int)shfl_xor_u32((uint32_t)b.i, mask)};
        b = better(b, other);
    }
    return b;
}

/* Over the four lanes 4g + t that share a row of a fragment. */
DEVICE float quad_max(float x)
{
    x = max_f32(x, shfl_xor_f32(x, 1));
    return max_f32(x, shfl_xor_f32(x, 2));
}

DEVICE float quad_sum(float x)
{
    x += shfl_xor_f32(x, 1);
    return x + shfl_xor_f32(x, 2);
}

DEVICE int32_t warp_sum_int(int32_t x)
{
    UNROLL
    for (int mask = 16; mask; mask >>= 1) x += (int32_t)shfl_xor_u32((uint32_t)x, mask);
    return x;
}

/* The sum over this lane and those before it. */
DEVICE int32_t warp_sums_int(int32_t x)
{
    UNROLL
    for (int step = 1; step < 32; step *= 2) {
        const int32_t y = (int32_t)shfl_u32((uint32_t)x, max_int(lane_id() - step, 0));
        if (lane_id() >= step) x += y;
    }
    return x;
}

/* The digit of the *n-th largest of keys that were counted by digit: count[256], in shared memory.
 * *n becomes its rank among the keys with this digit. If there are fewer keys: digit 0. Every warp
 * finds it; lane l adds the counts of the eight digits from 255 - 8 l down. */
DEVICE int digit_of_nth(const uint32_t *count, int *n)
{
    int digit = 255 - 8 * lane_id(), sum = 0;

    UNROLL
    for (int i = 0; i < 8; i++) sum += (int)count[digit - i];
    const int upto = warp_sums_int(sum);
    const int lane = min_int(popcount(warp_ballot(upto < *n)), 31);
    *n -= (int)shfl_u32((uint32_t)(upto - sum), lane);
    digit = 255 - 8 * lane;
    while (digit > 0 && (int)count[digit] < *n) *n -= (int)count[digit--];
    return digit;
}

/* Called by all threads of a block after they wrote their part of a result: true in the last of n
 * blocks. The ticket is then 0 again, and load_fresh reads the other blocks' parts. shared: 4
 * bytes. */
DEVICE bool last_block(uint32_t *ticket, int n, uint32_t *shared)
{
    barrier();
    if (thread_id() == 0)
        *shared = count_acquire_release(ticket, (uint32_t)n) == (uint32_t)n - 1;
    barrier();
    return *shared;
}

/* Scales that overflow a half saturate, as on the CPU. */
DEVICE uint16_t half_saturated(float x)
{
    return half_bits(min_f32(max_f32(x, -65504.0f), 65504.0f));
}

#endif
