/* ptx: the effect of each PTX instruction, for the C code that ptx.awk makes from a module.
 *
 * The emulator (tests/emu/emu.h) compiles kernels/cuda with a C++ compiler. This runs nvcc's output
 * on the same fibers instead: generated code, the text of asm statements, state spaces, widths and
 * alignment of loads, and the output of lower.awk. Registers hold bits, also of floats, and start
 * as all ones: a NaN, or an invalid address. Shared addresses are offsets from SHARED, as on a GPU,
 * so that a pointer in place of an offset is refused.
 *
 * It cannot test: ptxas, memory order, copies concurrent with other warps, bank conflicts, the
 * rounding of approximate instructions. */
#ifndef RETAIN_TESTS_PTX_H
#define RETAIN_TESTS_PTX_H

#include <fenv.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "kernels/cuda/args.h"
#include "kernels/cuda/list.h"
#include "tests/emu/emu.h"

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int8_t s8;
typedef int16_t s16;
typedef int32_t s32;
typedef int64_t s64;
typedef uint32_t f32; /* the bits of a float */

static int line; /* the line in the module of the current instruction */
#define LINE(n) line = n;
#define HERE    ((struct emu_place){"device.ptx", line})

static inline float number(f32 x)
{
    float f;
    memcpy(&f, &x, sizeof f);
    return f;
}

static inline f32 bits(float f)
{
    f32 x;
    memcpy(&x, &f, sizeof x);
    return x;
}

/* ---- special registers and address spaces ---------------------------------------------------- */

#define tid_x    ((u32)emu_thread())
#define laneid   ((u32)emu_thread() % 32)
#define ctaid_x  ((u32)emu_block(0))
#define ctaid_y  ((u32)emu_block(1))
#define ctaid_z  ((u32)emu_block(2))
#define nctaid_x ((u32)emu_grid(0))
#define nctaid_y ((u32)emu_grid(1))
#define nctaid_z ((u32)emu_grid(2))

enum { SHARED = 1024 };
#define retain_shared SHARED

static inline char *pointer(u64 at)
{
    return (char *)(uintptr_t)at;
}

static inline char *aligned(u64 at, int bytes)
{
    if (at % (u64)bytes) emu_check_aligned(pointer(at), bytes, HERE);
    return pointer(at);
}

static inline char *in_generic(u64 at, int bytes)
{
    return aligned(at, bytes);
}

static inline char *in_global(u64 at, int bytes)
{
    return aligned(at, bytes);
}

static inline char *in_local(u64 at, int bytes)
{
    return aligned(at, bytes);
}

static inline char *in_param(u64 at, int bytes)
{
    (void)bytes; /* ptxas has checked this */
    return pointer(at);
}

static inline char *in_shared(u64 at, int bytes)
{
    return emu_shared_at((int64_t)at - SHARED, bytes, HERE);
}

static inline u64 cvta_shared_u64(u64 at)
{
    return (u64)(uintptr_t)emu_shared() + at - SHARED;
}

static inline u64 cvta_to_shared_u64(u64 at)
{
    return at - (u64)(uintptr_t)emu_shared() + SHARED;
}

/* ---- loads and stores ------------------------------------------------------------------------ */

#define LOAD(op, space, type)                                \
    static inline type op##_##type(u64 at)                   \
    {                                                        \
        type x;                                              \
        memcpy(&x, in_##space(at, (int)sizeof x), sizeof x); \
        return x;                                            \
    }
#define LOAD2(op, space)                          \
    static inline void op(u32 *a, u32 *b, u64 at) \
    {                                             \
        const char *p = in_##space(at, 8);        \
        memcpy(a, p, 4);                          \
        memcpy(b, p + 4, 4);                      \
    }
#define LOAD4(op, space)                                          \
    static inline void op(u32 *a, u32 *b, u32 *c, u32 *d, u64 at) \
    {                                                             \
        const char *p = in_##space(at, 16);                       \
        memcpy(a, p, 4);                                          \
        memcpy(b, p + 4, 4);                                      \
        memcpy(c, p + 8, 4);                                      \
        memcpy(d, p + 12, 4);                                     \
    }
#define STORE(op, space, type)                               \
    static inline void op(u64 at, type x)                    \
    {                                                        \
        memcpy(in_##space(at, (int)sizeof x), &x, sizeof x); \
    }
#define STORE2(op, space)                       \
    static inline void op(u64 at, u32 a, u32 b) \
    {                                           \
        char *p = in_##space(at, 8);            \
        memcpy(p, &a, 4);                       \
        memcpy(p + 4, &b, 4);                   \
    }
#define STORE4(op, space)                                     \
    static inline void op(u64 at, u32 a, u32 b, u32 c, u32 d) \
    {                                                         \
        char *p = in_##space(at, 16);                         \
        memcpy(p, &a, 4);                                     \
        memcpy(p + 4, &b, 4);                                 \
        memcpy(p + 8, &c, 4);                                 \
        memcpy(p + 12, &d, 4);                                \
    }

LOAD(ld_param, param, u32)
LOAD(ld_param, param, s32)
LOAD(ld_param, param, u64)
LOAD(ld_param, param, f32)
LOAD2(ld_param_v2_u32, param)
LOAD2(ld_param_v2_f32, param)
LOAD(ld_global, global, u8)
LOAD(ld_global, global, s8)
LOAD(ld_global, global, u16)
LOAD(ld_global, global, u32)
LOAD(ld_global, global, s32)
LOAD(ld_global, global, f32)
LOAD(ld_global_cg, global, f32)
LOAD2(ld_global_v2_u32, global)
LOAD(ld_changing_global, global, u32)
LOAD4(ld_global_v4_u32, global)
LOAD4(ld_global_v4_f32, global)
LOAD4(ld_global_cg_v4_f32, global)
LOAD4(ld_global_nc_L1_no_allocate_v4_u32, global)
static inline u32 ld_relaxed_gpu_global_u32(u64 at)
{
    emu_poll(HERE);
    return ld_changing_global_u32(at);
}

static inline u32 ld_acquire_gpu_global_u32(u64 at)
{
    return ld_changing_global_u32(at);
}

LOAD(ld_shared, shared, u16)
LOAD(ld_shared, shared, u32)
LOAD(ld_shared, shared, f32)
LOAD2(ld_shared_v2_u32, shared)
LOAD2(ld_shared_v2_f32, shared)
LOAD4(ld_shared_v4_u32, shared)
LOAD4(ld_shared_v4_f32, shared)
LOAD(ld_local, local, u32)
LOAD(ld, generic, u16)
LOAD(ld, generic, u32)
LOAD2(ld_v2_u32, generic)
LOAD4(ld_v4_u32, generic)
STORE(st_global_u8, global, u8)
STORE(st_global_u16, global, u16)
STORE(st_global_u32, global, u32)
STORE(st_global_f32, global, f32)
STORE(st_shared_u8, shared, u8)
STORE(st_shared_u16, shared, u16)
STORE(st_shared_u32, shared, u32)
STORE(st_shared_f32, shared, f32)
STORE2(st_shared_v2_u32, shared)
STORE2(st_shared_v2_f32, shared)
STORE2(st_global_v2_u32, global)
STORE4(st_shared_v4_u32, shared)
STORE4(st_global_v4_u32, global)
STORE4(st_global_v4_f32, global)
STORE(st_local_u32, local, u32)

/* Blocks and threads run one at a time. */
#define ATOMIC_ADD(op, space)           \
    static inline u32 op(u64 at, u32 n) \
    {                                   \
        u32 x, sum;                     \
        char *p = in_##space(at, 4);    \
        memcpy(&x, p, 4);               \
        sum = x + n;                    \
        memcpy(p, &sum, 4);             \
        return x;                       \
    }
ATOMIC_ADD(atom_global_add_u32, global)
ATOMIC_ADD(atom_shared_add_u32, shared)

static inline u32 atom_acq_rel_gpu_global_inc_u32(u64 at, u32 last)
{
    u32 x, next;
    char *p = in_global(at, 4);
    memcpy(&x, p, 4);
    next = x >= last ? 0 : x + 1;
    memcpy(p, &next, 4);
    return x;
}

static inline void red_release_gpu_global_inc_u32(u64 at, u32 last)
{
    atom_acq_rel_gpu_global_inc_u32(at, last);
}

/* ---- one operation of one type --------------------------------------------------------------- */

#define UNARY(op, type, result)   \
    static inline type op(type a) \
    {                             \
        return (type)(result);    \
    }
#define BINARY(op, type, result)          \
    static inline type op(type a, type b) \
    {                                     \
        return (type)(result);            \
    }
#define COMPARE(op, type, result)         \
    static inline bool op(type a, type b) \
    {                                     \
        return result;                    \
    }
#define SELECT(op, type)                          \
    static inline type op(type a, type b, bool p) \
    {                                             \
        return p ? a : b;                         \
    }
#define CONVERT(op, to, from, result) \
    static inline to op(from a)       \
    {                                 \
        return (to)(result);          \
    }
#define UNARY_F32(op, result)      \
    static inline u32 op(u32 x)    \
    {                              \
        const float a = number(x); \
        return bits(result);       \
    }
#define BINARY_F32(op, result)                    \
    static inline u32 op(u32 x, u32 y)            \
    {                                             \
        const float a = number(x), b = number(y); \
        return bits(result);                      \
    }
#define COMPARE_F32(op, result)                   \
    static inline bool op(u32 x, u32 y)           \
    {                                             \
        const float a = number(x), b = number(y); \
        return result;                            \
    }

/* The commonest operations are macros, for the compiler: without optimizing, a call takes it three
 * times as long. */
#define mov_u16(a)            (a)
#define mov_u32(a)            ((u32)(a))
#define mov_b32(a)            (a)
#define mov_f32(a)            (a)
#define mov_u64(a)            (a)
#define mov_b64(a)            (a)
#define mov_pred(a)           (a)
#define cvta_to_global_u64(a) (a)
#define cvt_s64_s32(a)        ((u64)(s32)(a))
#define add_s32(a, b)         ((u32)(a) + (u32)(b))
#define add_s64(a, b)         ((u64)(a) + (u64)(b))
#define sub_s32(a, b)         ((u32)(a) - (u32)(b))
#define mul_lo_s32(a, b)      ((u32)(a) * (u32)(b))
#define mul_lo_s64(a, b)      ((u64)(a) * (u64)(b))
#define mul_wide_s32(a, b)    ((u64)((s64)(s32)(a) * (s32)(b)))
#define and_b32(a, b)         ((u32)(a) & (u32)(b))
#define or_b32(a, b)          ((u32)(a) | (u32)(b))
#define or_pred(a, b)         ((a) || (b))
#define setp_eq_s32(a, b)     ((s32)(a) == (s32)(b))
#define setp_lt_s32(a, b)     ((s32)(a) < (s32)(b))
#define setp_gt_s32(a, b)     ((s32)(a) > (s32)(b))
#define setp_ge_s32(a, b)     ((s32)(a) >= (s32)(b))
#define selp_f32(a, b, p)     ((p) ? (a) : (b))
#define shl_b32(a, n)         ((n) < 32 ? (u32)(a) << (n) : 0)
#define shl_b64(a, n)         ((n) < 64 ? (u64)(a) << (n) : 0)
#define shr_u32(a, n)         ((n) < 32 ? (u32)(a) >> (n) : 0)
#define shr_s32(a, n)         ((s32)(a) >> ((n) < 32 ? (n) : 31))

static inline void mov_b32_split(u16 *low, u16 *high, u32 a)
{
    *low = (u16)a;
    *high = (u16)(a >> 16);
}

static inline u32 mov_b32_join(u16 low, u16 high)
{
    return low | (u32)high << 16;
}

static inline void mov_b64_split(u32 *low, u32 *high, u64 a)
{
    *low = (u32)a;
    *high = (u32)(a >> 32);
}

static inline u64 mov_b64_join(u32 low, u32 high)
{
    return low | (u64)high << 32;
}

/* Signs matter only for division, comparison and shifts. */
UNARY(neg_s32, u32, 0u - a)
BINARY(add_u64, u64, a + b)
BINARY(mul_hi_s32, s32, (s64)a *b >> 32)
BINARY(div_s32, s32, a / b)
BINARY(div_u32, u32, a / b)
BINARY(rem_s32, s32, a % b)
BINARY(rem_s64, s64, a % b)
BINARY(rem_u32, u32, a % b)
BINARY(max_s32, s32, a > b ? a : b)
BINARY(min_s32, s32, a < b ? a : b)
BINARY(max_u32, u32, a > b ? a : b)
BINARY(min_u32, u32, a < b ? a : b)
BINARY(and_b64, u64, a &b)
BINARY(and_b16, u16, (u16)(a &b))
BINARY(xor_b32, u32, a ^ b)
BINARY(or_b64, u64, a | b)
BINARY(and_pred, bool, a &&b)
BINARY(xor_pred, bool, a != b)
UNARY(not_b32, u32, ~a)
UNARY(neg_f16x2, u32, a ^ 0x80008000u)
UNARY(not_pred, bool, !a)
UNARY(popc_b32, u32, __builtin_popcount(a))

static inline u32 mul_wide_u16(u16 a, u16 b)
{
    return (u32)a * b;
}

static inline u64 mul_wide_u32(u32 a, u32 b)
{
    return (u64)a * b;
}

static inline u32 mad_lo_s32(u32 a, u32 b, u32 c)
{
    return a * b + c;
}

/* Distances beyond the width shift out all bits. */
#define SHIFT(op, type, result, beyond)                        \
    static inline type op(type a, u32 n)                       \
    {                                                          \
        return (type)(n < 8 * sizeof a ? (result) : (beyond)); \
    }
SHIFT(shr_u64, u64, a >> n, 0)
SHIFT(shr_s16, s16, a >> n, a < 0 ? -1 : 0)

/* The lowest n bits of a, placed into b from bit `at` on. */
#define INSERT(op, type)                                                             \
    static inline type op(type a, type b, u32 at, u32 n)                             \
    {                                                                                \
        const u32 width = 8 * sizeof a;                                              \
        at &= 255;                                                                   \
        n &= 255;                                                                    \
        if (at >= width || !n) return b;                                             \
        const type mask = (type)((n < width ? ((type)1 << n) - 1 : (type)-1) << at); \
        return (type)((b & ~mask) | (a << at & mask));                               \
    }
INSERT(bfi_b32, u32)
INSERT(bfi_b64, u64)

/* Byte i is byte s of the eight bytes b:a, or its sign; s = nibble i of the selector. */
static inline u32 prmt_b32(u32 a, u32 b, u32 selector)
{
    const u64 both = (u64)b << 32 | a;
    u32 out = 0;
    for (int i = 0; i < 4; i++) {
        const u32 s = selector >> 4 * i & 15;
        u32 byte = (u32)(both >> 8 * (s & 7)) & 255;
        if (s & 8) byte = byte & 128 ? 255 : 0;
        out |= byte << 8 * i;
    }
    return out;
}

COMPARE(setp_ne_s16, s16, a != b)
COMPARE(setp_eq_s16, s16, a == b)
COMPARE(setp_eq_b32, u32, a == b)
COMPARE(setp_ne_s32, s32, a != b)
COMPARE(setp_le_s32, s32, a <= b)
COMPARE(setp_lt_u32, u32, a < b)
COMPARE(setp_le_u32, u32, a <= b)
COMPARE(setp_gt_u32, u32, a > b)
COMPARE(setp_ge_u32, u32, a >= b)
COMPARE(setp_eq_s64, s64, a == b)
COMPARE(setp_lt_s64, s64, a < b)
COMPARE(setp_ge_s64, s64, a >= b)
COMPARE(setp_ne_s64, s64, a != b)
COMPARE(setp_gt_s64, s64, a > b)
COMPARE(setp_gt_u64, u64, a > b)
COMPARE_F32(setp_eq_f32, a == b)
COMPARE_F32(setp_lt_f32, a < b)
COMPARE_F32(setp_le_f32, a <= b)
COMPARE_F32(setp_gt_f32, a > b)
COMPARE_F32(setp_ge_f32, a >= b)
COMPARE_F32(setp_leu_f32, !(a > b))
COMPARE_F32(setp_geu_f32, !(a < b))
COMPARE_F32(setp_neu_f32, !(a == b))
COMPARE_F32(setp_nan_f32, a != a || b != b)
SELECT(selp_u16, u16)
SELECT(selp_b32, u32)
SELECT(selp_u32, u32)
SELECT(selp_u64, u64)
SELECT(selp_b64, u64)

/* ---- floats ---------------------------------------------------------------------------------- */

BINARY_F32(add_rn_f32, a + b)
BINARY_F32(sub_rn_f32, a - b)
BINARY_F32(mul_rn_f32, a *b)
BINARY_F32(div_rn_f32, a / b)
BINARY_F32(max_f32, fmaxf(a, b))
BINARY_F32(min_f32, fminf(a, b))
UNARY_F32(neg_f32, -a)
UNARY_F32(sqrt_rn_f32, sqrtf(a))
UNARY_F32(rsqrt_approx_ftz_f32, 1.0f / sqrtf(a))
UNARY_F32(rcp_rn_f32, 1.0f / a)
UNARY_F32(ex2_approx_ftz_f32, a < -126.0f ? 0.0f : exp2f(a))
UNARY_F32(cvt_rni_f32_f32, rintf(a))
UNARY_F32(cvt_sat_f32_f32, a > 1.0f ? 1.0f : a > 0.0f ? a : 0.0f) /* NaN: 0 */

static inline u32 fma_rn_f32(u32 a, u32 b, u32 c)
{
    return bits(fmaf(number(a), number(b), number(c)));
}

static inline u32 fma_rm_f32(u32 a, u32 b, u32 c)
{
    volatile float x = number(a), sum;
    fesetround(FE_DOWNWARD);
    sum = fmaf(x, number(b), number(c));
    fesetround(FE_TONEAREST);
    return bits(sum);
}

CONVERT(cvt_u16_u32, u16, u32, a)
CONVERT(cvt_u32_u16, u32, u16, a)
CONVERT(cvt_s16_s8, s16, u16, (s8)a)
CONVERT(cvt_u32_u64, u32, u64, a)
CONVERT(cvt_u64_u32, u64, u32, a)
CONVERT(cvt_rn_f32_s16, u32, s16, bits((float)a))
CONVERT(cvt_rn_f32_u16, u32, u16, bits((float)a))
CONVERT(cvt_rn_f32_s32, u32, s32, bits((float)a))
CONVERT(cvt_rn_f32_u32, u32, u32, bits((float)a))
CONVERT(cvt_f32_f16, u32, u16, bits(emu_half_float(a)))
CONVERT(cvt_rn_f16_f32, u16, u32, emu_half_bits(number(a)))

/* Rounds toward zero; out of range: the type's limit; NaN: 0. */
static inline u32 cvt_rzi_s32_f32(u32 x)
{
    const float a = number(x);
    return a >= 0x1p31f ? INT32_MAX : a < -0x1p31f ? (u32)INT32_MIN : a == a ? (u32)(s32)a : 0;
}

static inline u32 cvt_rzi_u32_f32(u32 x)
{
    const float a = number(x);
    return a >= 0x1p32f ? UINT32_MAX : a > 0 ? (u32)a : 0;
}

/* The first operand is the upper half. */
static inline u32 cvt_rn_f16x2_f32(u32 high, u32 low)
{
    return emu_half_bits(number(low)) | (u32)emu_half_bits(number(high)) << 16;
}

/* a + b of doubles as a half, rounded once: the intermediate sum is rounded "to odd", which keeps
 * the bits that decide. */
static inline u16 half_sum(double a, double b)
{
    double sum = a + b, part = sum - a, lost = (a - (sum - part)) + (b - part);
    u64 word;
    memcpy(&word, &sum, sizeof word);
    if (isfinite(sum) && lost != 0 && !(word & 1))
        sum = nextafter(sum, lost > 0 ? INFINITY : -INFINITY);
    float f = (float)sum;
    if (isfinite(f) && (double)f != sum && !(bits(f) & 1))
        f = nextafterf(f, sum > (double)f ? INFINITY : -INFINITY);
    return emu_half_bits(f);
}

static inline double half(u32 x)
{
    return (double)emu_half_float((u16)x);
}

/* For both halves; a product of two halves is exact in a double. */
static inline u32 fma_rn_f16x2(u32 a, u32 b, u32 c)
{
    return half_sum(half(a) * half(b), half(c)) |
           (u32)half_sum(half(a >> 16) * half(b >> 16), half(c >> 16)) << 16;
}

static inline u32 mul_rn_f16x2(u32 a, u32 b)
{
    return half_sum(half(a) * half(b), 0) | (u32)half_sum(half(a >> 16) * half(b >> 16), 0) << 16;
}

static inline u32 sub_rn_f16x2(u32 a, u32 b)
{
    return half_sum(half(a), -half(b)) | (u32)half_sum(half(a >> 16), -half(b >> 16)) << 16;
}

/* ---- with other threads ---------------------------------------------------------------------- */

static inline void bar_sync(u32 barrier)
{
    if (barrier) emu_fail("barrier other than 0", HERE);
    emu_barrier(HERE);
}

static inline void bar_warp_sync(u32 lanes)
{
    u32 none;
    emu_warp(EMU_SYNC, lanes, &none, &none, HERE);
}

#define SHUFFLE(op, how)                                                                \
    static inline void op(u32 *out, bool *in_range, u32 a, u32 b, u32 clamp, u32 lanes) \
    {                                                                                   \
        const u32 in[2] = {a, b};                                                       \
        if (clamp != 31) emu_fail("shuffle of a part of a warp", HERE);                 \
        emu_warp(how, lanes, in, out, HERE);                                            \
        *in_range = true;                                                               \
    }
SHUFFLE(shfl_sync_bfly_b32, EMU_SHFL_XOR)
SHUFFLE(shfl_sync_idx_b32, EMU_SHFL)

static inline u32 vote_sync_ballot_b32(bool p, u32 lanes)
{
    const u32 in = p;
    u32 out;
    emu_warp(EMU_BALLOT, lanes, &in, &out, HERE);
    return out;
}

static inline u32 movmatrix_sync_aligned_m8n8_trans_b16(u32 a)
{
    u32 out;
    emu_warp(EMU_MOVMATRIX, 0xffffffffu, &a, &out, HERE);
    return out;
}

#define LDMATRIX(op, kind)                                             \
    static inline void op(u32 *d0, u32 *d1, u32 *d2, u32 *d3, u64 row) \
    {                                                                  \
        const char *p = in_shared(row, 16);                            \
        u32 in[2], out[4];                                             \
        memcpy(in, &p, sizeof p);                                      \
        emu_warp(kind, 0xffffffffu, in, out, HERE);                    \
        *d0 = out[0], *d1 = out[1], *d2 = out[2], *d3 = out[3];        \
    }
LDMATRIX(ldmatrix_sync_aligned_m8n8_x4_shared_b16, EMU_LDMATRIX)
LDMATRIX(ldmatrix_sync_aligned_m8n8_x4_trans_shared_b16, EMU_LDMATRIX_T)

#define MMA(op, kind)                                                                         \
    static inline void op(u32 *d0, u32 *d1, u32 *d2, u32 *d3, u32 a0, u32 a1, u32 a2, u32 a3, \
                          u32 b0, u32 b1, u32 c0, u32 c1, u32 c2, u32 c3)                     \
    {                                                                                         \
        const u32 in[10] = {a0, a1, a2, a3, b0, b1, c0, c1, c2, c3};                          \
        u32 out[4];                                                                           \
        emu_warp(kind, 0xffffffffu, in, out, HERE);                                           \
        *d0 = out[0], *d1 = out[1], *d2 = out[2], *d3 = out[3];                               \
    }
MMA(mma_sync_aligned_m16n8k16_row_col_f32_f16_f16_f32, EMU_MMA_F16)
MMA(mma_sync_aligned_m16n8k16_row_col_f32_bf16_bf16_f32, EMU_MMA_BF16)
MMA(mma_sync_aligned_m16n8k32_row_col_s32_s8_s8_s32, EMU_MMA_S8)
MMA(mma_sync_aligned_m16n8k32_row_col_s32_u8_s8_s32, EMU_MMA_U8S8)

static inline void mma_sync_aligned_m16n8k16_row_col_s32_s8_s8_s32(u32 *d0, u32 *d1, u32 *d2,
                                                                   u32 *d3, u32 a0, u32 a1, u32 b,
                                                                   u32 c0, u32 c1, u32 c2, u32 c3)
{
    mma_sync_aligned_m16n8k32_row_col_s32_s8_s8_s32(d0, d1, d2, d3, a0, a1, 0, 0, b, 0, c0, c1, c2,
                                                    c3);
}

static inline void mma_sync_aligned_m16n8k16_row_col_f16_f16_f16_f16(u32 *d0, u32 *d1, u32 a0,
                                                                     u32 a1, u32 a2, u32 a3, u32 b0,
                                                                     u32 b1, u32 c0, u32 c1)
{
    const u32 in[8] = {a0, a1, a2, a3, b0, b1, c0, c1};
    u32 out[2];
    emu_warp(EMU_MMA_HALVES, 0xffffffffu, in, out, HERE);
    *d0 = out[0], *d1 = out[1];
}

static inline void cp_async_cg_shared_global(u64 to, u64 from, s32 size, s32 n)
{
    emu_cp_async(in_shared(to, size), pointer(from), size, n, HERE);
}

static inline void cp_async_ca_shared_global(u64 to, u64 from, s32 size, s32 n)
{
    emu_cp_async(in_shared(to, size), pointer(from), size, n, HERE);
}

static inline void cp_async_commit_group(void)
{
    emu_cp_commit();
}

static inline void cp_async_wait_group(s32 pending)
{
    emu_cp_wait(pending);
}

#endif
