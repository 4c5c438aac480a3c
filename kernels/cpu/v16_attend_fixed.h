/* Attention over units of 4 and 5 bits in 16-bit fixed point: dequantization, RoPE by slot, Q K^T,
 * softmax and P V, fused, with sums that are exact in 32 bits.
 *
 * Words are 16-bit integers in pairs, because the multiplication adds the two products of a pair.
 * Slots are processed in tiles of 64. A query is rotated back to the tile's first slot, in float,
 * and rounded to words; a key is rotated by its place 0..63 in the tile.
 *   Keys. A unit's power of two S makes its largest number 2^13 to 2^14. q d + m becomes
 *     (q - 8) (d / S) + (m + 8 d) / S, with 5 bits (q - 16) (d / S), rotated as words of 1 / 2^15.
 *     A pair is two numbers of one slot, two places apart, so that nibbles are never moved across
 *     bytes; lanes are slots. Keys of S4 and S5 are over their head's unit instead of S: x is
 *     (q - 8) d + m + 8 d or (q - 16) d of 1 / 2^10, then mean + scale x.
 *   Queries get a length of at most 2^17 / sqrt(head_dim), so that no sum exceeds 32 bits (Cauchy
 *     and Schwarz: a key is no longer than sqrt(head_dim) 2^14).
 *   Values stay codes: sum p (q d + m) = sum (p d) q + sum p m; Q5 has m = -16 d. A pair is two
 *     slots, 16 apart; lanes are numbers of the head. The weights p d, one set per group of 32
 *     numbers, are rounded to words, with the tile's largest d as 2^15 - 1; sum p m is computed in
 *     float.
 * Rounding changes a logit by less than 2^-13 of the query's length times the length of a key whose
 * numbers are all as large as its largest, and a sum of values by less than 2^-11 of p times the
 * largest number of each group (if the tile's largest d is 4 times the others); 4 bits cost 2^-5,
 * 5 bits 2^-6.
 *
 * A row's numbers depend on the slots that it sees, never on the other rows or on n_tok. */
#ifndef RETAIN_KERNELS_CPU_V16_ATTEND_FIXED_H
#define RETAIN_KERNELS_CPU_V16_ATTEND_FIXED_H

#include "kernels/cpu/v16_attend.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum {
    FIXED_DIM = KN_HEAD_DIM_MAX,
    FIXED_GROUPS = FIXED_DIM / KN_GROUP,
    FIXED_UNIT = FIXED_GROUPS * 22, /* bytes of Q5 */
    FIXED_ROWS = 8,                 /* rows per pass over a tile */
    FIXED_PAIRS = KN_TILE / 2,      /* pairs of slots, in values and weights */
    FIXED_SPAN = 256,               /* rows that share one pass over the units */
    FIXED_SUMS = FIXED_GROUPS + 4,
    FIXED_AHEAD = 2, /* tiles that units are prefetched ahead */
};

/* d and m of a tile's keys or values. */
struct fixed_scales {
    float d[FIXED_GROUPS][KN_TILE], m[FIXED_GROUPS][KN_TILE];
};

/* The stack memory of a call. Large arrays are only as long as head_dim needs, because protected
 * stacks are touched page by page. */
struct fixed_tile {
    uint32_t *k;                             /* [pair][slot] */
    uint32_t *v;                             /* [pair of slots][head_dim] */
    uint32_t (*w)[FIXED_ROWS * FIXED_PAIRS]; /* [group]: [row][pair of slots] */
    uint8_t *padded;                         /* the units of a tile that is not full */
    _Alignas(64) float k_scale[KN_TILE];     /* S, or the head's unit */
    struct fixed_scales v_scale;
    uint32_t v_factor[FIXED_GROUPS][FIXED_PAIRS]; /* d of the first v_seen slots, over v_unit */
    float v_unit[FIXED_GROUPS];
    float q_scale[FIXED_SPAN];              /* value of a logit in units of S */
    float q_inv[FIXED_SPAN];                /* factor from a query to words */
    uint32_t q[FIXED_ROWS * FIXED_DIM / 2]; /* [row][pair] */
    float p[FIXED_ROWS * KN_TILE];          /* [row][slot]: logits in units of q_scale */
    /* factor of the old sums after a new maximum */
    float keep[FIXED_ROWS];
    float grow[FIXED_ROWS][2 * FIXED_GROUPS]; /* per group: factor of sums of words; addend */
    int v_seen; /* last, so that no vector above crosses a line of 64 bytes */
};

V16_INLINE v16 seen(const float *p, int n, v16 rest)
{
    return n >= 16 ? v16_load(p) : v16_keep_n(v16_load(p), n, rest);
}

/* 2^x for x <= 0, relative error 2^-22 (minimax on -1/2..1/2); 2^-100 below -100. */
V16_INLINE v16 fixed_exp2(v16 x)
{
    const v16 in = v16_max(v16_set1(-100.0f), x), n = v16_round(in), r = v16_sub(in, n);
    v16 p = v16_set1(1.326472731307149e-3f);

    p = v16_fma(p, r, v16_set1(9.671512991189957e-3f));
    p = v16_fma(p, r, v16_set1(5.550733581185341e-2f));
    p = v16_fma(p, r, v16_set1(2.4022242426872253e-1f));
    p = v16_fma(p, r, v16_set1(6.931470036506653e-1f));
    p = v16_fma(p, r, v16_set1(1.0f));
    return v16_scale2(p, n);
}

/* ---- units ---------------------------------------------------------------------------------- */

/* The tile's units, of which n_slot exist; fewer than 64 are copied, because rows beyond the end
 * must not be read. */
static inline const uint8_t *tile_units(struct fixed_tile *tile, const void *units, enum kn_kv type,
                                        int head_dim, int p0, int n_slot)
{
    const size_t bytes = kn_kv_bytes(type, head_dim);
    const uint8_t *base = (const uint8_t *)units + (size_t)p0 * bytes;

    if (n_slot == KN_TILE) return base;
    memset(tile->padded, 0, KN_TILE * bytes);
    memcpy(tile->padded, base, (size_t)n_slot * bytes);
    return tile->padded;
}

/* Prefetches 16 units of a later tile: a few at a time, since more than a dozen outstanding lines
 * delay the others. */
V16_INLINE void fetch_units(const uint8_t *units, size_t stride)
{
    units += FIXED_AHEAD * KN_TILE * stride;
#pragma GCC unroll 11
    for (size_t i = 0; i < 16 * stride; i += 64) __builtin_prefetch(units + i);
}

/* ---- keys ----------------------------------------------------------------------------------- */

/* d and m of a group for 16 slots, as words: (q - 8) 2^12 times d, plus m, is a number over S, or
 * of 1 / 2^10; with 5 bits (q - 16) 2^11 times d. */
struct fixed_scale {
    v16i d, m;
};

/* Of a group of Q4 or, with five, Q5. halves: columns of dwords. */
V16_INLINE struct affine group_scale(const v16i *halves, int g, bool five)
{
    struct affine a = affine_of(halves[g / 2], g);
    if (five) a.m = v16_mul(a.d, v16_set1(-16.0f));
    return a;
}

/* Of a times `by`. */
V16_INLINE struct fixed_scale scale_words(struct affine a, v16 by, bool five)
{
    const v16 middle = v16_mul(v16_mul(a.d, by), v16_set1(five ? 16.0f : 8.0f));
    const v16i d = v16i_round(middle), m = v16i_round(v16_add(v16_mul(a.m, by), middle));
    return (struct fixed_scale){v16i_words(d, d), v16i_words(m, m)};
}

V16_INLINE void scale_keys(struct fixed_scale *out, float *k_scale, const v16i *halves, int n_group,
                           bool five)
{
    v16 top = v16_set1(0x1p-60f);
    struct affine a[FIXED_GROUPS];

    for (int g = 0; g < n_group; g++) {
        a[g] = group_scale(halves, g, five);
        const v16 end = v16_fma(a[g].d, v16_set1(15.0f), a[g].m); /* of Q5 -d */
        top = v16_max(top, v16_max(v16_abs(a[g].m), v16_abs(end)));
    }
    const v16 e = v16_sub(v16_exponent(top), v16_set1(13.0f));
    const v16 inv = v16_pow2(v16_sub(v16_zero(), e));

    v16_store(k_scale, v16_pow2(e));
    for (int g = 0; g < n_group; g++) out[g] = scale_words(a[g], inv, five);
}

/* Of keys that have a centre. */
V16_INLINE void scale_centred(struct fixed_scale *out, const v16i *halves, int n_group, bool five)
{
    for (int g = 0; g < n_group; g++)
        out[g] = scale_words(group_scale(halves, g, five), v16_set1(0x1p10f), five);
}

/* (q - 8) 2^12 or (q - 16) 2^11 of two numbers, to words over S or, with a centre, over its unit;
 * i: the dword of the two in its tables. */
V16_INLINE v16i number_words(v16i q, struct fixed_scale s, const struct kn_centre *centre,
                             bool five, int i)
{
    const v16i x = v16i_mul_words(q, s.d), y = five ? x : v16i_add_words(x, s.m);
    if (!centre) return y;
    return v16i_add_words(v16i_mul_words(y, v16i_set1(centre->scale_words[i])),
                          v16i_set1(centre->mean_words[i]));
}

/* 16 slots of a tile whose keys are dequantized and rotated. */
struct fixed_keys {
    uint32_t *k;                  /* [pair][KN_TILE] */
    const uint32_t *cos;          /* as k, of half as many pairs; sin: after them */
    int n_step;                   /* 16 numbers each, and their partners */
    v16i unit[FIXED_UNIT / 4];    /* columns of dwords */
    v16i fifth[2 * FIXED_GROUPS]; /* of 5 bits, by steps: see fifth_bits */
    struct fixed_scale s[FIXED_GROUPS];
};

/* Two numbers of a dword, as the words (q - 8) 2^12 or, with their fifth bits, (q - 16) 2^11. */
V16_INLINE v16i key_codes(const v16i *four, unsigned left, bool five, v16i fifth, unsigned odd)
{
    const v16i x = v16i_load(four);
    return five ? v16i_top_fives(x, left, fifth, odd) : v16i_top_nibbles(x, left);
}

/* The 16 numbers x of step i and their partners y, in low (0) or high (1) nibbles. */
V16_INLINE void rotate_step(const struct fixed_keys *keys, const struct kn_centre *centre,
                            bool five, int i, int x_high, int y_high)
{
    const int j = i + keys->n_step, apart = keys->n_step * 8;
    const v16i *x4 = keys->unit + i / 2 * 4, *y4 = keys->unit + j / 2 * 4;
    const struct fixed_scale x = keys->s[i / 2], y = keys->s[j / 2];
    uint32_t *out = keys->k + i * 8 * KN_TILE, *other = out + apart * KN_TILE;
    const uint32_t *cos = keys->cos + i * 8 * KN_TILE, *sin = cos + apart * KN_TILE;
    v16i x5 = v16i_set1(0), y5 = v16i_set1(0);

    if (five) {
        x5 = keys->fifth[i];
        y5 = keys->fifth[j];
    }
    for (int at = 8 * i, end = at + 8; at < end; x4++, y4++) {
#pragma GCC unroll 2
        for (unsigned odd = 0; odd < 2; odd++, at++) {
            const unsigned left = 12 - 8 * odd;
            const v16i a = key_codes(x4, left - 4 * (unsigned)x_high, five, x5, odd);
            const v16i b = key_codes(y4, left - 4 * (unsigned)y_high, five, y5, odd);
            const v16i u = number_words(a, x, centre, five, at);
            const v16i v = number_words(b, y, centre, five, at + apart);
            const v16i c = v16i_load(cos), s = v16i_load(sin);

            v16i_store(out, v16i_sub_words(v16i_mul_words(u, c), v16i_mul_words(v, s)));
            v16i_store(other, v16i_add_words(v16i_mul_words(v, c), v16i_mul_words(u, s)));
            out += KN_TILE;
            other += KN_TILE;
            cos += KN_TILE;
            sin += KN_TILE;
        }
        if (five) {
            x5 = v16i_shift(x5, 4);
            y5 = v16i_shift(y5, 4);
        }
    }
}

/* crossed: the number of steps is odd, so that partners are in the other nibbles. */
V16_INLINE void rotate_steps(const struct fixed_keys *keys, const struct kn_centre *centre,
                             bool five, int crossed)
{
    for (int i = 0; i < keys->n_step; i += 2) {
        rotate_step(keys, centre, five, i, 0, crossed);
        if (i + 1 < keys->n_step) rotate_step(keys, centre, five, i + 1, 1, !crossed);
    }
}

/* x: the fifth bits of 16 numbers in the low half of each dword. Flipped, they are signs. The words
 * of a dword begin with number 0 and number 2, as its codes do. */
V16_INLINE v16i fifth_bits(v16i x)
{
    return v16i_xor(v16i_words(x, v16i_shift(x, 2)), v16i_set1(0xffffffff));
}

/* 16 units. Of 5 bits, their fifth bits too; of the others, nibbles are flipped, so that they are
 * numbers of -8 to 7. */
V16_INLINE void load_units(struct fixed_keys *keys, const uint8_t *units, size_t stride, bool five)
{
    const int n_dword = (int)(stride / 4), n_nibble = 4 * keys->n_step;

#pragma GCC unroll 3
    for (int i = 0; i < n_dword; i += 4) { /* the last four may overlap */
        const int first = i + 4 <= n_dword ? i : n_dword - 4;
        v16i column[4];

        v16_load_columns(column, units + 4 * first, stride);
#pragma GCC unroll 4
        for (int c = 0; c < 4; c++)
            keys->unit[first + c] = five || first + c >= n_nibble
                                        ? column[c]
                                        : v16i_xor(column[c], v16i_set1(0x88888888));
    }
    for (int g = 0; five && g < keys->n_step; g++) {
        keys->fifth[2 * g] = fifth_bits(keys->unit[n_nibble + g]);
        keys->fifth[2 * g + 1] = fifth_bits(v16i_shift(keys->unit[n_nibble + g], 16));
    }
}

/* five: keys of Q5 and S5. */
V16_INLINE void expand_keys_in(struct fixed_tile *tile, const uint8_t *units,
                               const uint32_t *places, const struct kn_centre *centre, bool five,
                               int head_dim)
{
    const int n_group = head_dim / KN_GROUP;
    const size_t stride = kn_kv_bytes(five ? KN_KV_S5 : KN_KV_Q4, head_dim);
    struct fixed_keys keys;
    const v16i *halves = keys.unit + kn_halves_at(five, n_group) / 4;

    keys.k = tile->k;
    keys.cos = places;
    keys.n_step = n_group;
    for (int at = 0; at < KN_TILE; at += 16, units += 16 * stride) {
        fetch_units(units, stride);
        load_units(&keys, units, stride, five);
        if (centre)
            scale_centred(keys.s, halves, n_group, five);
        else
            scale_keys(keys.s, tile->k_scale + at, halves, n_group, five);
        if (n_group % 2)
            rotate_steps(&keys, centre, five, 1);
        else
            rotate_steps(&keys, centre, five, 0);
        keys.k += 16;
        keys.cos += 16;
    }
}

/* Heads of 64 with bounds and addresses that are constants: a quarter fewer instructions. */
V16_INLINE void expand_keys_of(struct fixed_tile *tile, const uint8_t *units,
                               const uint32_t *places, const struct kn_centre *centre, bool five,
                               int head_dim)
{
    if (head_dim == 64)
        expand_keys_in(tile, units, places, centre, five, 64);
    else
        expand_keys_in(tile, units, places, centre, five, head_dim);
}

V16_APART void expand_q4_keys(struct fixed_tile *tile, const uint8_t *units, const uint32_t *places,
                              int head_dim)
{
    expand_keys_of(tile, units, places, NULL, false, head_dim);
}

V16_APART void expand_q5_keys(struct fixed_tile *tile, const uint8_t *units, const uint32_t *places,
                              int head_dim)
{
    expand_keys_of(tile, units, places, NULL, true, head_dim);
}

V16_APART void expand_s4(struct fixed_tile *tile, const uint8_t *units, const uint32_t *places,
                         const struct kn_centre *centre, int head_dim)
{
    expand_keys_of(tile, units, places, centre, false, head_dim);
}

V16_APART void expand_s5(struct fixed_tile *tile, const uint8_t *units, const uint32_t *places,
                         const struct kn_centre *centre, int head_dim)
{
    expand_keys_of(tile, units, places, centre, true, head_dim);
}

/* lift: slot 0 has the key of position 0, which is not rotated at place 0. */
static inline void expand_centred_keys(struct fixed_tile *tile, const uint8_t *units,
                                       const struct kn_attend *job, bool lift)
{
    const struct kn_centre centre = *job->centre;
    const int head_dim = job->head_dim;

    if (job->k_type == KN_KV_S5)
        expand_s5(tile, units, job->rope->places, &centre, head_dim);
    else
        expand_s4(tile, units, job->rope->places, &centre, head_dim);
    for (int i = 0; lift && i < head_dim / 2; i++) {
        const uint32_t x = tile->k[i * KN_TILE], y = centre.lift_words[i];
        tile->k[i * KN_TILE] = ((x + y) & 0xffff) | (((x >> 16) + (y >> 16)) << 16);
    }
}

/* ---- values --------------------------------------------------------------------------------- */

/* d and m of all slots, group by group, as floats. five: of Q5. */
V16_INLINE void load_scales(struct fixed_scales *out, const uint8_t *units, size_t stride,
                            int n_group, bool five)
{
    units += kn_halves_at(five, n_group);
    for (int s = 0; s < KN_TILE; s += 16, units += 16 * stride)
        for (int g = 0; g < n_group; g += 2) {
            const v16i both = v16i_load_strided(units + 2 * g, stride);

#pragma GCC unroll 2
            for (int k = 0; k < 2; k++) { /* after the last of an odd number are zeros */
                const struct affine a = group_scale(&both, k, five);
                v16_store(out->d[g + k] + s, a.d);
                v16_store(out->m[g + k] + s, a.m);
            }
        }
}

/* Of numbers in words, 16 numbers of two slots: Q5's bit 4, whose bits are at a and b. */
V16_INLINE v16i value_codes(v16i q, const uint8_t *a, const uint8_t *b, bool five)
{
    return five ? v16i_fifth_bits(q, kn_half_at(a), kn_half_at(b)) : q;
}

V16_INLINE void expand_values_of(struct fixed_tile *tile, const uint8_t *units, int head_dim,
                                 bool five)
{
    const int n_group = head_dim / KN_GROUP;
    const size_t stride = kn_kv_bytes(five ? KN_KV_Q5 : KN_KV_Q4, head_dim), far = 16 * stride;

    load_scales(&tile->v_scale, units, stride, n_group, five);
    tile->v_seen = 0;
    for (int pair = 0; pair < FIXED_PAIRS; pair += 2) {
        const uint8_t *q = units + (size_t)(pair / 16 * 32 + pair % 16) * stride;
        const uint8_t *a = q + n_group * 16; /* bits 4 */
        uint32_t *out = tile->v + pair * head_dim;

        if (pair % 8 == 0) fetch_units(units + (size_t)(2 * pair) * stride, stride);
        for (int g = 0; g < n_group; g++, q += 16, a += 4, out += KN_GROUP) {
            const uint8_t *b = a + stride;
            const v16i x = v16i_load_quads(q, q + stride, q + far, q + far + stride);
            v16i_store(out, value_codes(v16i_low_nibbles(x, 0), a, a + far, five));
            v16i_store(out + 16, value_codes(v16i_low_nibbles(x, 4), a + 2, a + far + 2, five));
            v16i_store(out + head_dim, value_codes(v16i_low_nibbles(x, 8), b, b + far, five));
            v16i_store(out + head_dim + 16,
                       value_codes(v16i_low_nibbles(x, 12), b + 2, b + far + 2, five));
        }
    }
}

V16_APART void expand_q4_values(struct fixed_tile *tile, const uint8_t *units, int head_dim)
{
    expand_values_of(tile, units, head_dim, false);
}

V16_APART void expand_q5_values(struct fixed_tile *tile, const uint8_t *units, int head_dim)
{
    expand_values_of(tile, units, head_dim, true);
}

/* Factors of the codes if the first n_slot slots are visible. */
static inline void scale_values(struct fixed_tile *tile, int n_group, int n_slot)
{
    if (tile->v_seen == n_slot) return;
    tile->v_seen = n_slot;
    for (int g = 0; g < n_group; g++) {
        const float *d = tile->v_scale.d[g];
        v16 top = v16_zero();

        for (int i = 0; i < n_slot; i += 16)
            top = v16_max(v16_abs(seen(d + i, n_slot - i, v16_zero())), top);
        const float max = v16_top(top);
        const v16 inv = v16_set1(max > 0.0f ? 32767.0f / max : 0.0f);
        for (int i = 0; i < KN_TILE; i += 32) {
            const v16 a = v16_mul(seen(d + i, n_slot - i, v16_zero()), inv);
            const v16 b = v16_mul(seen(d + i + 16, n_slot - i - 16, v16_zero()), inv);
            v16i_store(tile->v_factor[g] + i / 2, v16i_words(v16i_round(a), v16i_round(b)));
        }
        tile->v_unit[g] = max * (32768.0f / (32767.0f * 32767.0f));
    }
}

/* ---- queries -------------------------------------------------------------------------------- */

/* The largest scale that keeps sums in 32 bits and queries in 16, with 1 % margin for rounding. */
static inline float query_length(int head_dim)
{
    return 0.99f * 0x1p17f / sqrtf((float)head_dim);
}

static inline void scale_query(struct fixed_tile *tile, const struct kn_attend *job, int r)
{
    const float *q = query_of(job, r);
    v16 square = v16_zero();

    for (int d = 0; d < job->head_dim; d += 16) {
        const v16 x = v16_load(q + d);
        square = v16_fma(x, x, square);
    }
    const float length = sqrtf(v16_sum(square)), max = query_length(job->head_dim);
    /* cosines and sines of keys are over 32767, and words multiply over 32768 */
    const float scaled = length > 0x1p-100f ? length : 1.0f; /* hidden slots need a scale above 0 */
    tile->q_scale[r % FIXED_SPAN] = job->scale * (scaled / max) * (32768.0f / 32767.0f);
    tile->q_inv[r % FIXED_SPAN] = length > 0x1p-100f ? max / length : 0.0f;
}

/* Row r of the job, rotated to slot p0. */
static inline void rotate_query_fixed(uint32_t *out, const struct fixed_tile *tile,
                                      const struct kn_attend *job, int r, int p0)
{
    const int half = job->head_dim / 2;
    const float *q = query_of(job, r);
    const size_t at = (size_t)(job->pos0 + r / job->n_group - p0) * (size_t)half;
    const v16 inv = v16_set1(tile->q_inv[r % FIXED_SPAN]);

    for (int d = 0; d < half; d += 16) {
        const v16 a = v16_mul(v16_load(q + d), inv), b = v16_mul(v16_load(q + half + d), inv);
        const v16 c = v16_load(job->rope->cos + at + d), s = v16_load(job->rope->sin + at + d);

        v16_store_words(out + d / 2, v16_fnma(b, s, v16_mul(a, c)));
        v16_store_words(out + (half + d) / 2, v16_fma(a, s, v16_mul(b, c)));
        __builtin_prefetch(job->rope->cos + at + d - KN_TILE * half);
        __builtin_prefetch(job->rope->sin + at + d - KN_TILE * half);
    }
}

/* ---- Q K^T ---------------------------------------------------------------------------------- */

/* R rows against 16 V16_FIXED_SLOTS slots: p[r][slot]. */
V16_INLINE void fixed_logits_tile(int R, float *p, const uint32_t *q, const uint32_t *k,
                                  const float *k_scale, int n_pair)
{
    v16i sum[4 * V16_FIXED_SLOTS];

#pragma GCC unroll 16
    for (int i = 0; i < R * V16_FIXED_SLOTS; i++) sum[i] = v16i_set1(0);
    for (int d = 0; d < n_pair; d++, k += KN_TILE) {
        v16i x[V16_FIXED_SLOTS];

#pragma GCC unroll 4
        for (int w = 0; w < V16_FIXED_SLOTS; w++) x[w] = v16i_load_once(k + 16 * w);
#pragma GCC unroll 4
        for (int r = 0; r < R; r++) {
            const v16i y = v16i_set1(q[r * n_pair + d]);
#pragma GCC unroll 4
            for (int w = 0; w < V16_FIXED_SLOTS; w++)
                sum[r * V16_FIXED_SLOTS + w] =
                    v16i_dot_words(sum[r * V16_FIXED_SLOTS + w], x[w], y);
        }
    }
#pragma GCC unroll 4
    for (int r = 0; r < R; r++)
#pragma GCC unroll 4
        for (int w = 0; w < V16_FIXED_SLOTS; w++)
            v16_store(p + r * KN_TILE + 16 * w, v16_mul(v16_from_ints(sum[r * V16_FIXED_SLOTS + w]),
                                                        v16_load(k_scale + 16 * w)));
}

V16_INLINE void fixed_logits_rows(int R, struct fixed_tile *tile, int r, int n_slot, int dim)
{
    const int n_pair = dim / 2;

    for (int s = 0; s < n_slot; s += 16 * V16_FIXED_SLOTS)
        fixed_logits_tile(R, tile->p + r * KN_TILE + s, tile->q + r * n_pair, tile->k + s,
                          tile->k_scale + s, n_pair);
}

V16_APART void fixed_logits(struct fixed_tile *tile, int n_row, int n_slot, int dim)
{
    int r = 0;

    for (; r + 4 <= n_row; r += 4) fixed_logits_rows(4, tile, r, n_slot, dim);
    if (n_row - r == 3)
        fixed_logits_rows(3, tile, r, n_slot, dim);
    else if (n_row - r == 2)
        fixed_logits_rows(2, tile, r, n_slot, dim);
    else if (n_row - r == 1)
        fixed_logits_rows(1, tile, r, n_slot, dim);
}

/* ---- softmax -------------------------------------------------------------------------------- */

static inline float row_top(const float *p, int n_slot)
{
    v16 top = v16_set1(-INFINITY);

    for (int s = 0; s < n_slot; s += 16)
        top = v16_max(seen(p + s, n_slot - s, v16_set1(-INFINITY)), top);
    return v16_top(top);
}

/* Row i of the tile: converts its logits, relative to their maximum, to the weights of the nibbles.
 * sums[0] is the sum of the exponentials, sums[1 + g] that of their products with m. */
static inline void row_weights(struct fixed_tile *tile, int i, int n_slot, float top, float to_log2,
                               int n_group, float *sums)
{
    const v16 one = v16_set1(32767.0f);
    v16 sum[FIXED_SUMS], e[4];
    v16i words[2];

    sum[0] = v16_zero();
#pragma GCC unroll 4
    for (int h = 0; h < 4; h++) {
        const v16 x = v16_sub(v16_load(tile->p + i * KN_TILE + 16 * h), v16_set1(top));
        e[h] = fixed_exp2(v16_mul(x, v16_set1(to_log2)));
        if (n_slot < 16 * h + 16) e[h] = v16_keep_n(e[h], n_slot - 16 * h, v16_zero());
        sum[0] = v16_add(sum[0], e[h]);
    }
#pragma GCC unroll 2
    for (int h = 0; h < 2; h++)
        words[h] =
            v16i_words(v16i_round(v16_mul(e[2 * h], one)), v16i_round(v16_mul(e[2 * h + 1], one)));
    for (int g = 0; g < n_group; g++) {
        const float *m = tile->v_scale.m[g];
        v16 with_m = v16_zero();

#pragma GCC unroll 2
        for (int h = 0; h < 2; h++)
            v16i_store(tile->w[g] + i * FIXED_PAIRS + 16 * h,
                       v16i_mul_words(words[h], v16i_load(tile->v_factor[g] + 16 * h)));
#pragma GCC unroll 4
        for (int h = 0; h < 4; h++) with_m = v16_fma(e[h], v16_load(m + 16 * h), with_m);
        sum[1 + g] = with_m;
    }
    for (int g = n_group + 1; g < n_group + 4; g++) sum[g] = v16_zero();
    for (int g = 0; g < n_group + 1; g += 4)
        v16_sum4(sums + g, sum[g], sum[g + 1], sum[g + 2], sum[g + 3]);
}

/* Rows [r0, r0 + n_row) of the job: converts logits to weights and updates maxima and sums. */
V16_APART void fixed_softmax(struct fixed_tile *tile, const struct kn_attend *job, int r0,
                             int n_row, int p0)
{
    const int n_group = job->head_dim / KN_GROUP;
    const v16 log2e = v16_set1(1.44269504f),
              scale = v16_load_n(tile->q_scale + r0 % FIXED_SPAN, n_row);
    float top[16] = {0}, to_log2[16], share[16], keep[16];

    for (int r = 0; r < n_row; r++)
        top[r] = row_top(tile->p + r * KN_TILE, visible(job, r0 + r, p0));

    const v16 tile_max = v16_mul(v16_load(top), scale), old = v16_load_n(job->m + r0, n_row);
    const v16 max = v16_max(tile_max, old);
    v16_store(to_log2, v16_mul(scale, log2e));
    v16_store(keep, fixed_exp2(v16_mul(v16_sub(old, max), log2e)));
    v16_store(share, fixed_exp2(v16_mul(v16_sub(tile_max, max), log2e)));
    v16_store_n(job->m + r0, max, n_row);
    for (int r = 0; r < n_row; r++) {
        const int n_slot = visible(job, r0 + r, p0);
        float sums[FIXED_SUMS];

        scale_values(tile, n_group, n_slot);
        row_weights(tile, r, n_slot, top[r], to_log2[r], n_group, sums);
        job->l[r0 + r] = job->l[r0 + r] * keep[r] + sums[0] * share[r];
        tile->keep[r] = keep[r];
        for (int g = 0; g < n_group; g++) {
            tile->grow[r][2 * g] = share[r] * tile->v_unit[g];
            tile->grow[r][2 * g + 1] = share[r] * sums[1 + g];
        }
    }
}

/* ---- P V ------------------------------------------------------------------------------------ */

/* R rows, 16 W numbers from d on: acc[r * dim + ..] = acc * keep + sum of p v. */
V16_INLINE void fixed_values_tile(int R, int W, const struct fixed_tile *tile, float *acc, int r0,
                                  int d, int dim)
{
    const uint32_t *v = tile->v + d;
    const int g = d / KN_GROUP;
    v16i sum[4 * 4];

#pragma GCC unroll 16
    for (int i = 0; i < R * W; i++) sum[i] = v16i_set1(0);
    for (int pair = 0; pair < FIXED_PAIRS; pair++, v += dim) {
        v16i x[4];

#pragma GCC unroll 4
        for (int w = 0; w < W; w++) x[w] = v16i_load_once(v + 16 * w);
#pragma GCC unroll 4
        for (int r = 0; r < R; r++)
#pragma GCC unroll 4
            for (int w = 0; w < W; w++) {
                const uint32_t *y = &tile->w[g + w / 2][(r0 + r) * FIXED_PAIRS + pair];
                sum[r * W + w] = v16i_dot_words(sum[r * W + w], x[w], v16i_set1(*y));
            }
    }
#pragma GCC unroll 4
    for (int r = 0; r < R; r++)
#pragma GCC unroll 4
        for (int w = 0; w < W; w++) {
            const float *grow = tile->grow[r0 + r] + 2 * (g + w / 2);
            float *at = acc + (r0 + r) * dim + d + 16 * w;
            const v16 kept = v16_fma(v16_load(at), v16_set1(tile->keep[r0 + r]), v16_set1(grow[1]));
            v16_store(at, v16_fma(v16_from_ints(sum[r * W + w]), v16_set1(grow[0]), kept));
        }
}

V16_INLINE void fixed_values_rows(int R, const struct fixed_tile *tile, float *acc, int r, int dim)
{
    int d = 0;

    for (; d + 16 * V16_FIXED_WIDE <= dim; d += 16 * V16_FIXED_WIDE)
        fixed_values_tile(R, V16_FIXED_WIDE, tile, acc, r, d, dim);
    for (; d < dim; d += KN_GROUP) fixed_values_tile(R, 2, tile, acc, r, d, dim);
}

V16_APART void fixed_values(const struct fixed_tile *tile, float *acc, int n_row, int dim)
{
    int r = 0;

    for (; r + 4 <= n_row; r += 4) fixed_values_rows(4, tile, acc, r, dim);
    if (n_row - r == 3)
        fixed_values_rows(3, tile, acc, r, dim);
    else if (n_row - r == 2)
        fixed_values_rows(2, tile, acc, r, dim);
    else if (n_row - r == 1)
        fixed_values_rows(1, tile, acc, r, dim);
}

/* ---- all tiles ------------------------------------------------------------------------------ */

/* Computes rows [r0, r0 + n_row) of the job, for which slots of the tile at p0 are visible. */
static inline void fixed_rows(struct fixed_tile *tile, const struct kn_attend *job, int r0,
                              int n_row, int p0)
{
    const int dim = job->head_dim;

    for (int r = 0; r < n_row; r++)
        rotate_query_fixed(tile->q + r * dim / 2, tile, job, r0 + r, p0);
    fixed_logits(tile, n_row, visible(job, r0 + n_row - 1, p0), dim);
    if (job->window) hide_outside(tile->p, job, r0, n_row, p0); /* they weigh 2^-100 at most */
    fixed_softmax(tile, job, r0, n_row, p0);
    fixed_values(tile, job->acc + (size_t)r0 * (size_t)dim, n_row, dim);
}

/* Computes rows [r0, r1) of the job, at most FIXED_SPAN. */
static inline void fixed_span(struct fixed_tile *tile, const struct kn_attend *job, int r0, int r1)
{
    const int dim = job->head_dim, t1 = job->pos0 + (r1 - 1) / job->n_group + 1;
    const int end = t1 < job->slot1 ? t1 : job->slot1;

    for (int r = r0; r < r1; r++) scale_query(tile, job, r);
    for (int p0 = first_tile(job, r0); p0 < end; p0 += KN_TILE) {
        const int n_slot = end - p0 < KN_TILE ? end - p0 : KN_TILE;
        /* the first row that sees the tile */
        const int sees = p0 > job->pos0 ? (p0 - job->pos0) * job->n_group : 0;
        const int reach = rows_in_reach(job, r1, p0);

        const uint8_t *units = tile_units(tile, job->k, job->k_type, dim, p0, n_slot);
        if (kn_kv_centred(job->k_type))
            expand_centred_keys(tile, units, job, job->first && !p0);
        else if (job->k_type == KN_KV_Q5)
            expand_q5_keys(tile, units, job->rope->places, dim);
        else
            expand_q4_keys(tile, units, job->rope->places, dim);
        units = tile_units(tile, job->v, job->v_type, dim, p0, n_slot);
        if (job->v_type == KN_KV_Q5)
            expand_q5_values(tile, units, dim);
        else
            expand_q4_values(tile, units, dim);
        for (int r = r0 > sees ? r0 : sees; r < reach; r += FIXED_ROWS)
            fixed_rows(tile, job, r, reach - r < FIXED_ROWS ? reach - r : FIXED_ROWS, p0);
    }
}

static inline void attend_fixed(const struct kn_attend *job)
{
    const int rows = job->n_tok * job->n_group, dim = job->head_dim, n_group = dim / KN_GROUP;

    assert(dim > 0 && dim <= FIXED_DIM && dim % KN_GROUP == 0 && job->slot0 % KN_TILE == 0);
    v16i k[dim / 2 * KN_TILE / 16], v[FIXED_PAIRS * dim / 16];
    v16i w[n_group * FIXED_ROWS * FIXED_PAIRS / 16];
    uint8_t padded[KN_TILE * kn_kv_bytes(KN_KV_Q5, dim)];
    struct fixed_tile tile;
    tile.k = (uint32_t *)(void *)k;
    tile.v = (uint32_t *)(void *)v;
    tile.w = (void *)w;
    tile.padded = padded;
    for (int i = 0; kn_kv_centred(job->k_type) && i < KN_TILE; i++)
        tile.k_scale[i] = job->centre->unit;
    clear_sums(job);
    for (int r = 0; r < rows; r += FIXED_SPAN)
        fixed_span(&tile, job, r, rows - r < FIXED_SPAN ? rows : r + FIXED_SPAN);
}

/* Units of 4 and 5 bits in fixed point; all others and capped logits in float. */
static inline void attend_v16(const struct kn_attend *job)
{
    const bool keys = job->k_type >= KN_KV_Q4 && job->k_type <= KN_KV_S5,
               values = job->v_type == KN_KV_Q4 || job->v_type == KN_KV_Q5;

    if (keys && values && !(job->softcap > 0.0f))
        attend_fixed(job);
    else
        attend_float_v16(job);
}

#endif
