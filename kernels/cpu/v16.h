/* v16: sixteen floats at a time, the same algorithm for every instruction set.
 *
 * The file of an instruction set includes v16_<isa>.h (types and operations), then the bodies:
 * v16_act.h, v16_matmul.h, v16_attend.h and so on, whose functions are entries of its table. An
 * instruction set must provide:
 *
 *   v16_zero v16_set1 v16_load v16_store     the last two need no alignment
 *   v16_load_n v16_store_n                   only the first n lanes; the others load as zero
 *   v16_keep_n(x, n, rest)                   the first n lanes of x, then those of rest
 *   v16_add v16_sub v16_mul v16_div v16_abs
 *   v16_fma(a, b, c) v16_fnma(a, b, c)       c + a b, c - a b, rounded once
 *   v16_max(a, b) v16_min(a, b)              b where either is not a number
 *   v16_sum v16_top v16_bottom               of all lanes, in a fixed order
 *   v16_sum4 v16_top4(out, a, b, c, d)       of four at once, in the same order
 *   v16_swap(x, step)                        lane i gets lane i ^ step, of 1, 2, 4, 8
 *   v16_round v16_pow2                       nearest even; 2^n for an integral n in -126..127
 *   v16_zero_below(x, key, limit)            0 where key < limit, else x
 *   v16_load_half v16_store_half v16_load_bf16
 *   v16_half_bits(x) v16_half_value(h)       of one float
 *   v16_store_i8, v16_store_nibbles          round and narrow; low and high nibbles of 16 bytes
 *   v16_store_groups(q, sum, x[8])           four times 32 of them, and the sum of each 32
 *   v16_unpack_q4(q, d, m, out)              one group of a cache unit: 32 floats
 *   v16_unpack_q8(group, out)
 *   v16_widen_q5(out, q, high)               32 codes of Q5, less 16
 *   v16_load_columns(out, base, stride)      out[i] lane r = dword i of row r, for 4 x 16
 *   v16i_load v16i_store
 *   v16_sum_i8(q)                            of 16 signed bytes
 *   v16i_shift(x, n)                         right, filling with zeros
 *   v16i_nibble v16i_seven v16i_byte         the 4, 7, 8 bits from `shift` up, the last signed
 *   v16i_half                                binary16
 *
 * For attention in fixed point (v16_attend_fixed.h), a v16i as 32 signed words or 16 dwords:
 *   v16i_set1 v16i_round v16_from_ints       dwords; nearest even
 *   v16i_words(low, high)                    the low words of both as low and high words
 *   v16i_add_words v16i_sub_words
 *   v16i_mul_words(a, b)                     (a b + 2^14) / 2^15, rounded down
 *   v16i_dot_words(sum, a, b)                sum + the two products of each dword's words
 *   v16i_top_nibbles(x, left)                of each word << left, the signed bits 12 to 15, 2^12
 *   v16i_top_fives(x, left, high, bit)       those bits as 11 to 14, `bit` of high as 15
 *   v16i_xor
 *   v16i_low_nibbles(x, right)               bits right to right + 3 of each word
 *   v16i_fifth_bits(x, low, high)            x or 16 in the words of dword i whose bit i is set
 *   v16_store_words(p, x)                    rounded to words; of each four the middle two swapped
 *   v16i_load_quads(a, b, c, d)              dword i = byte i of each
 *   v16i_load_once(p)                        to a register that is used several times
 *   v16i_load_strided(base, stride)          dword i = the one at base + i stride
 *   v16_exponent(x)                          floor(log2 x) of a normal x > 0
 *   v16_scale2(x, n)                         x 2^n for an integral n in -126..0
 *
 * and the shapes of its register tiles: V16_DOT_*, V16_QK_ROWS, V16_PV_WIDE, V16_FIXED_*. */
#ifndef RETAIN_KERNELS_CPU_V16_H
#define RETAIN_KERNELS_CPU_V16_H

#define V16_INLINE static inline __attribute__((always_inline))
/* a function that is never inlined, so that it has all registers */
#define V16_APART static __attribute__((noinline))

/* e^x to 2 units in the last place (Cephes expf); 0 below -87.3, where floats become denormal.
 * Clamped at e^88, so the result is never infinite. */
V16_INLINE v16 v16_exp(v16 x)
{
    const v16 low = v16_set1(-87.33f);
    const v16 in = v16_max(low, v16_min(v16_set1(88.0f), x));
    const v16 n = v16_round(v16_mul(in, v16_set1(1.44269504f)));
    const v16 r = v16_fnma(n, v16_set1(-2.12194440e-4f), v16_fnma(n, v16_set1(0.693359375f), in));
    v16 p = v16_set1(1.9875691500e-4f);

    p = v16_fma(p, r, v16_set1(1.3981999507e-3f));
    p = v16_fma(p, r, v16_set1(8.3334519073e-3f));
    p = v16_fma(p, r, v16_set1(4.1665795894e-2f));
    p = v16_fma(p, r, v16_set1(1.6666665459e-1f));
    p = v16_fma(p, r, v16_set1(5.0000001201e-1f));
    p = v16_add(v16_fma(p, v16_mul(r, r), r), v16_set1(1.0f));
    return v16_zero_below(v16_mul(p, v16_pow2(n)), x, low);
}

V16_INLINE v16 v16_sigmoid(v16 x)
{
    const v16 e = v16_exp(v16_sub(v16_zero(), x));
    return v16_div(v16_set1(1.0f), v16_add(v16_set1(1.0f), e));
}

/* cap * tanh(x / cap), with an error of about 1e-7 cap. */
V16_INLINE v16 v16_softcap(v16 x, float cap)
{
    const v16 s = v16_sigmoid(v16_mul(x, v16_set1(2.0f / cap)));
    return v16_fma(s, v16_set1(2.0f * cap), v16_set1(-cap));
}

V16_INLINE v16 v16_silu_clamped(v16 gate, v16 up)
{
    const v16 limit = v16_set1(KN_SILU_LIMIT), one = v16_set1(1.0f);
    const v16 g = v16_min(limit, gate), u = v16_max(v16_set1(-KN_SILU_LIMIT), v16_min(limit, up));
    const v16 e = v16_exp(v16_mul(g, v16_set1(-KN_SILU_SLOPE)));
    return v16_mul(v16_div(g, v16_add(one, e)), v16_add(u, one));
}

/* The approximation with tanh. */
V16_INLINE v16 v16_gelu(v16 x)
{
    const v16 cubic = v16_fma(v16_mul(x, x), v16_set1(0.0713548163f), v16_set1(1.59576912f));
    return v16_mul(x, v16_sigmoid(v16_mul(x, cubic)));
}

V16_INLINE v16 v16_silu(v16 x)
{
    const v16 e = v16_exp(v16_sub(v16_zero(), x));
    return v16_div(x, v16_add(v16_set1(1.0f), e));
}

#endif
