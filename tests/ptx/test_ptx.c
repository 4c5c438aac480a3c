/* The instructions of ptx.h against the PTX manual (9.7): differences from C, limits of ranges, and
 * code that must be refused. */
#include "tests/test.h"

#include "tests/ptx/ptx.h"

TEST(integers)
{
    assert_int_equal(shl_b32(1, 31), 0x80000000u);
    assert_int_equal(shl_b32(1, 32), 0);
    assert_int_equal(shl_b64(1, 64), 0);
    assert_int_equal(shr_u32(0x80000000u, 200), 0);
    assert_int_equal(shr_u64((u64)1 << 63, 63), 1);
    assert_int_equal(shr_s32(-5, 1), -3);
    assert_int_equal(shr_s32(-5, 32), -1);
    assert_int_equal(shr_s32(5, 32), 0);
    assert_int_equal(shr_s16((s16)0x8000, 16), -1);
    assert_int_equal(mul_hi_s32(-1, 2), -1);
    assert_int_equal(mul_hi_s32(1 << 30, 8), 2);
    assert_true(mul_wide_s32(-3, 5) == (u64)-15);
    assert_true(mul_wide_u32(0xffffffffu, 2) == 0x1fffffffeu);
    assert_int_equal(mad_lo_s32(0x10000, 0x10000, 7), 7);
    assert_int_equal(div_s32(-7, 2), -3);
    assert_int_equal(rem_s32(-7, 2), -1);
    assert_int_equal(rem_u32(0xffffffffu, 4), 3);
    assert_true(rem_s64(-(1ll << 40) - 1, 4) == -1);
    assert_int_equal(min_s32(-1, 1), -1);
    assert_int_equal(bfi_b32(0xff, 0x12345678u, 8, 4), 0x12345f78u);
    assert_int_equal(bfi_b32(0xff, 0x12345678u, 32, 4), 0x12345678u);
    assert_int_equal(bfi_b32(0xab, 0x12345678u, 0, 32), 0xab);
    assert_true(bfi_b64(0xffffffffu, 1, 32, 32) == 0xffffffff00000001u);
    assert_int_equal(prmt_b32(0x33221100u, 0x77665544u, 0x7520), 0x77552200u);
    assert_int_equal(prmt_b32(0x00008000u, 0, 0x9999), 0xffffffffu); /* a replicated sign */
    assert_int_equal(popc_b32(0xf0f0f0f0u), 16);
    assert_int_equal(cvt_s16_s8(0x1280), (s16)0xff80);
    assert_true((s64)cvt_s64_s32(-1) == -1);
    assert_int_equal(mov_b32_join(0x1234, 0xabcd), 0xabcd1234u);
}

TEST(floats)
{
    const f32 nan = 0x7fc00000, one = bits(1.0f), tiny = bits(0x1p-30f);
    assert_int_equal(setp_gt_f32(nan, one), 0);
    assert_int_equal(setp_leu_f32(nan, one), 1);
    assert_int_equal(setp_leu_f32(one, one), 1);
    assert_int_equal(max_f32(nan, one), one);
    assert_int_equal(min_f32(one, nan), one);
    assert_int_equal(cvt_sat_f32_f32(nan), 0);
    assert_int_equal(cvt_sat_f32_f32(bits(1.5f)), one);
    assert_int_equal(cvt_rni_f32_f32(bits(2.5f)), bits(2.0f));
    assert_int_equal(cvt_rzi_s32_f32(nan), 0);
    assert_int_equal(cvt_rzi_s32_f32(bits(-3e9f)), 0x80000000u);
    assert_int_equal(cvt_rzi_s32_f32(bits(-2.7f)), (u32)-2);
    assert_int_equal(cvt_rzi_u32_f32(bits(-1.0f)), 0);
    assert_int_equal(cvt_rzi_u32_f32(bits(5e9f)), UINT32_MAX);
    assert_int_equal(cvt_rn_f32_u32(0x80000000u), bits(0x1p31f));
    assert_int_equal(ex2_approx_ftz_f32(bits(-127.0f)), 0);
    assert_int_equal(ex2_approx_ftz_f32(bits(3.0f)), bits(8.0f));
    /* 1 + 2^-30 is between 1 and the next float; 1 - 2^-30 between the previous one and 1 */
    assert_int_equal(fma_rn_f32(one, one, tiny), one);
    assert_int_equal(fma_rm_f32(one, one, tiny), one);
    assert_int_equal(fma_rm_f32(one, one, tiny | 0x80000000u), one - 1);
    /* the first operand is the upper half */
    assert_int_equal(cvt_rn_f16x2_f32(one, bits(-2.0f)), 0x3c00c000u);
}

/* n / 2^48 as a half, ties to even, in integers. */
static u16 rounded(__int128 n)
{
    const u32 sign = n < 0 ? 0x8000 : 0;
    unsigned __int128 m = (unsigned __int128)(n < 0 ? -n : n), unit = (unsigned __int128)1 << 24;
    int exponent = 0; /* 0: subnormal, in steps of 2^-24 */
    while (m >= unit << 11 && exponent < 40) unit <<= 1, exponent++;
    u32 steps = (u32)(m / unit);
    const unsigned __int128 rest = m % unit;
    steps += rest > unit / 2 || (rest == unit / 2 && (steps & 1));
    /* steps is 0 .. 2048; from 1024 on its top bit counts as one more exponent */
    const u32 half = ((u32)exponent << 10) + steps;
    return (u16)(sign | (half < 0x7c00 ? half : 0x7c00));
}

static __int128 whole(u16 h) /* in steps of 2^-24 */
{
    const int exponent = h >> 10 & 31;
    const __int128 m = exponent ? (__int128)((h & 1023) + 1024) << (exponent - 1) : h & 1023;
    return h & 0x8000 ? -m : m;
}

/* Products and sums of halves are rounded once. */
TEST(halves)
{
    u32 seed = 1;
    for (int i = 0; i < 300000; i++) {
        u16 v[3];
        for (int k = 0; k < 3; k++) {
            seed = seed * 1664525u + 1013904223u;
            v[k] = (u16)(seed >> 16);
            if ((v[k] & 0x7c00) == 0x7c00) v[k] ^= 0x4000; /* no infinity, no NaN */
        }
        /* sometimes c is so far below the product that it only decides ties, or the reverse */
        if (i % 4 == 0) v[2] = (u16)((v[2] & 0x83ff) | (i / 4 % 8) << 10);
        const u16 want = rounded(whole(v[0]) * whole(v[1]) + (whole(v[2]) << 24));
        const u32 got = fma_rn_f16x2(v[0], v[1], v[2]);
        if (((got ^ want) & 0x7fff) || (want & 0x7fff && (got ^ want) & 0x8000))
            fail_msg("%04x * %04x + %04x: %04x, not %04x", v[0], v[1], v[2], got & 0xffff, want);
    }
    assert_int_equal(mul_rn_f16x2(0x3c004000u, 0xc0003800u), 0xc0003c00u);
    assert_int_equal(sub_rn_f16x2(0x3c004000u, 0x3c003c00u), 0x00003c00u);
    assert_int_equal(fma_rn_f16x2(0x7bff, 0x4000, 0) & 0xffff, 0x7c00);
}

/* ---- addresses ------------------------------------------------------------------------------- */

static _Alignas(16) char memory[64];

static void load_words(const void *at)
{
    u32 a, b, c, d;
    LINE(12)
    ld_global_v4_u32(&a, &b, &c, &d, (u64)(uintptr_t)memory + *(const u64 *)at);
}

static void load_shared(const void *at)
{
    LINE(34)
    ld_shared_u32(*(const u64 *)at);
}

/* A pointer into shared memory, given to an instruction that takes an offset, and the reverse. */
static void load_pointer(const void *at)
{
    const u64 p = cvta_shared_u64(*(const u64 *)at);
    st_shared_u32(cvta_to_shared_u64(p), 5);
    LINE(56)
    ld_shared_u32(p);
}

static const char *said(emu_body *body, u64 at)
{
    const struct emu_launch launch = {{1, 1, 1}, 32, 64, 1, 0};
    return emu_run(&launch, body, &at);
}

static void stops(emu_body *body, u64 at, const char *place, const char *words)
{
    const char *text = said(body, at);
    assert_non_null(text);
    if (!strstr(text, place) || !strstr(text, words)) fail_msg("said: %s", text);
}

TEST(addresses)
{
    assert_null(said(load_words, 16));
    stops(load_words, 8, "device.ptx:12", "16-byte aligned");
    assert_null(said(load_shared, SHARED + 60));
    stops(load_shared, SHARED + 64, "device.ptx:34", "beyond shared memory");
    stops(load_shared, SHARED + 2, "device.ptx:34", "4-byte aligned");
    stops(load_shared, 0, "device.ptx:34", "beyond shared memory");
    stops(load_pointer, SHARED, "device.ptx:56", "beyond shared memory");
}
