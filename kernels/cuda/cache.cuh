/* cache: address, packing and reading of a unit. */
#ifndef RETAIN_KERNELS_CUDA_CACHE_CUH
#define RETAIN_KERNELS_CUDA_CACHE_CUH

#include "kernels/cuda/act.cuh"

#define LOG2E 1.44269504088896f

enum { TILE = CUDA_TILE };

/* The index of a head's slot in the pool. */
DEVICE int64_t place_of(const struct cuda_cache &c, int head, int slot)
{
    return (int64_t)c.pages[head * c.n_pages + slot / CUDA_TILE] * CUDA_TILE + slot % CUDA_TILE;
}

/* ---- packing --------------------------------------------------------------------------------- */

/* A lane's code and the two halves of its block, which lane 0 stores. */
DEVICE void put_block(uint8_t *to, float code, uint32_t halves)
{
    const uint32_t q = (uint32_t)code;
    const uint32_t partner = shfl_xor_u32(q, 16);

    if (lane_id() < 16) to[4 + lane_id()] = (uint8_t)(q | partner << 4);
    if (lane_id() == 0) *(uint32_t *)to = halves;
}

/* The step and the minimum with the least squared error for the warp's codes q, as in
 * kernels.pack_values; false: they stay. */
DEVICE bool fit(float *d, float *m, float x, float q)
{
    const float sq = warp_sum(q), sqq = warp_sum(q * q), sx = warp_sum(x), sqx = warp_sum(q * x);
    const float det = 32.0f * sqq - sq * sq;
    const float fitted = half_float(half_saturated((32.0f * sqx - sq * sx) / det));

    if (!(det > 0.0f && fitted > 0.0f && fitted < 65504.0f)) return false;
    *d = fitted;
    *m = half_float(half_saturated((sx - fitted * sq) / 32.0f + 0.0f));
    return true;
}

DEVICE float code_q4(float x, float d, float m)
{
    const float q = d > 0.0f ? round_even((x - m) / d) : 0.0f;
    return q > 15.0f ? 15.0f : q > 0.0f ? q : 0.0f;
}

/* The least and the largest of the numbers of a lane's group of so many lanes. */
DEVICE void lanes_range(float *min, float *max, float x, int lanes)
{
    *min = *max = x;
    UNROLL
    for (int mask = lanes / 2; mask; mask >>= 1) {
        *min = min_f32(*min, shfl_xor_f32(*min, mask));
        *max = max_f32(*max, shfl_xor_f32(*max, mask));
    }
}

/* A warp packs 32 numbers, one per lane, as kernels.kv_pack[KN_KV_Q4] does: asymmetric, both
 * constants rounded to half first; fits: as kernels.pack_values. */
DEVICE void pack_group(uint8_t *to, float x, bool fits)
{
    float min, max;

    lanes_range(&min, &max, x, 32);
    float d = half_float(half_saturated((max - min) / 15.0f + 0.0f)); /* -0 is 0 */
    float m = half_float(half_saturated(min + 0.0f));
    float q = code_q4(x, d, m);

    for (int i = 0; fits && i < CUDA_FITS && fit(&d, &m, x, q); i++) q = code_q4(x, d, m);
    put_block(to, q, half_bits(d) | (uint32_t)half_bits(m) << 16);
}

/* The sum of squared errors of the half warp's numbers with step d, in kernels.kv_pack's order. */
DEVICE float error_s4(float x, float d, float *code)
{
    const float q = d != 0.0f ? round_even(x / d) : -8.0f;

    *code = q > 7.0f ? 7.0f : q > -8.0f ? q : -8.0f;
    float sum = d * *code - x;
    sum *= sum;
    UNROLL
    for (int mask = 8; mask; mask >>= 1) sum += shfl_xor_f32(sum, mask);
    return sum;
}

/* As kv_pack[KN_KV_S4]: symmetric, a step for each half of the warp. */
DEVICE void pack_group_s4(uint8_t *to, float x)
{
    float min, max;

    lanes_range(&min, &max, x, 16);
    const float far = max >= -min ? max : min;
    const float a = half_float(half_saturated(far / -8.0f + 0.0f));
    const float b = half_float(half_saturated(far / 7.0f));
    float q, other;
    const float error = error_s4(x, a, &q);
    const bool better = error_s4(x, b, &other) < error && a != 0.0f;
    const uint32_t bits = half_bits(better ? b : a);

    put_block(to, (better ? other : q) + 8.0f, bits | shfl_xor_u32(bits, 16) << 16);
}

/* As kv_pack[KN_KV_Q5]: 22 bytes, aligned to 2. */
DEVICE void pack_group_q5(uint8_t *to, float x)
{
    float min, max;

    lanes_range(&min, &max, x, 32);
    const uint16_t d_bits = half_saturated((max >= -min ? max : min) / -16.0f + 0.0f);
    const float d = half_float(d_bits);
    const float v = d != 0.0f ? round_even(x / d) : -16.0f;
    const uint32_t q = (uint32_t)(int)((v > 15.0f ? 15.0f : v > -16.0f ? v : -16.0f) + 16.0f);
    const uint32_t partner = shfl_xor_u32(q, 16), high = warp_ballot(q > 15);

    if (lane_id() < 16) to[6 + lane_id()] = (uint8_t)((q & 15) | partner << 4);
    if (lane_id() < 3)
        ((uint16_t *)to)[lane_id()] = (uint16_t)(lane_id() ? high >> 16 * (lane_id() - 1) : d_bits);
}

/* As kv_pack[KN_KV_Q8]: 34 bytes, aligned to 2. */
DEVICE void pack_group_q8(uint8_t *to, float x)
{
    const uint16_t d_bits = half_saturated(warp_max(abs_f32(x)) / 127.0f);
    const float d = half_float(d_bits);
    const float v = d > 0.0f ? round_even(x / d) : 0.0f;

    to[2 + lane_id()] = (uint8_t)(int8_t)(v > 127.0f ? 127.0f : v > -127.0f ? v : -127.0f);
    if (lane_id() == 0) *(uint16_t *)to = d_bits;
}

/* Packs one of the n_group groups of a unit. fits: it is a value beside a key with a centre. */
DEVICE void pack(uint8_t *unit, float x, enum cuda_kv type, int group, int n_group, bool fits)
{
    if (type == CUDA_KV_Q4) {
        pack_group(unit + group * 20, x, fits);
    } else if (type == CUDA_KV_S4) {
        pack_group_s4(unit + group * 20, x);
    } else if (type == CUDA_KV_F16) {
        *(uint16_t *)(unit + group * 64 + lane_id() * 2) = half_saturated(x);
    } else {
        const int bytes = type == CUDA_KV_Q8 ? 34 : 22;
        if (type == CUDA_KV_Q8)
            pack_group_q8(unit + group * bytes, x);
        else
            pack_group_q5(unit + group * bytes, x);
        /* pads an odd number of groups to 4 bytes */
        if (group + 1 == n_group && n_group % 2 && lane_id() == 0)
            *(uint16_t *)(unit + n_group * bytes) = 0;
    }
}

/* Number i of a head's key less its centre, as key_centre in kernels.h. */
DEVICE float centred(float x, const struct cuda_cache &c, int head, bool first, int i)
{
    const float *mean = c.centres + head * 3 * c.head_dim, *scale = mean + c.head_dim;
    const float far = 31.0f, less = (x - mean[i + (first ? 2 * c.head_dim : 0)]) / scale[i];

    return less > far ? far : less > -far ? less : -far;
}

/* Packs a head's key and value, [head_dim] floats, by 128 threads; first: the key of position 0. */
DEVICE void pack_unit(const struct cuda_cache &c, int head, uint8_t *key, uint8_t *value,
                      const float *k, const float *v, bool first)
{
    const int n_group = ceil_div(c.head_dim, 32);
    const bool less = CUDA_KV_CENTRED(c.k_type);

    for (int i = warp_id(); i < (c.v_bytes ? 2 : 1) * n_group; i += 4) {
        const bool is_value = i >= n_group;
        const int group = is_value ? i - n_group : i;
        const int own = group * 32 + lane_id();
        if (own >= c.head_dim) continue; /* only units of halfs end so */
        const float x = is_value ? v[own] : k[own];
        if (is_value)
            pack(value, less ? hadamard(x) : x, c.v_type, group, n_group, less);
        else
            pack(key, less ? centred(x, c, head, first, own) : x, c.k_type, group, n_group, false);
    }
}

/* Stores the position and the score of a unit; score NULL: another kernel stores it. */
DEVICE void mark_unit(const struct cuda_cache &c, int64_t at, uint32_t pos, const float *score)
{
    c.pos[at] = pos;
    if (score) c.score[at] = *score;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Four numbers of a word, low (shift 0) or high (4) nibbles. */
DEVICE void dequantize4(float x[4], uint32_t word, int shift, uint32_t scale)
{
    const float d = half_float((uint16_t)scale), m = half_float((uint16_t)(scale >> 16));

    UNROLL
    for (int i = 0; i < 4; i++) x[i] = fma_f32(d, (float)(word >> (8 * i + shift) & 15), m);
}

/* Four numbers of a unit as stored, from channel c on, a multiple of 4. */
DEVICE void unit_numbers(float x[4], const void *unit, enum cuda_kv type, int c)
{
    if (type == CUDA_KV_Q4) {
        const uint32_t *words = (const uint32_t *)unit + c / 32 * 5;
        dequantize4(x, words[1 + c % 16 / 4], c % 32 / 16 * 4, words[0]);
    } else if (type == CUDA_KV_S4) {
        const uint32_t *words = (const uint32_t *)unit + c / 32 * 5;
        const uint32_t q = words[1 + c % 16 / 4] >> c % 32 / 16 * 4;
        const float d = half_float((uint16_t)(words[0] >> c % 32 / 16 * 16));
        UNROLL
        for (int i = 0; i < 4; i++) x[i] = d * (float)((int)(q >> 8 * i & 15) - 8);
    } else if (type == CUDA_KV_Q5 || type == CUDA_KV_S5) { /* blocks of 22 bytes */
        const uint16_t *block = (const uint16_t *)unit + c / 32 * 11;
        const uint16_t *nibbles = block + 3 + c % 16 / 2;
        const float d = half_float(block[0]);
        const uint32_t q = (nibbles[0] | (uint32_t)nibbles[1] << 16) >> c % 32 / 16 * 4;
        const uint32_t high = (uint32_t)block[1 + c % 32 / 16] >> c % 16;
        UNROLL
        for (int i = 0; i < 4; i++)
            x[i] = d * (float)((int)((q >> 8 * i & 15) | (high >> i & 1) << 4) - 16);
    } else if (type == CUDA_KV_Q8) { /* blocks of 34 bytes: two of them at a time */
        const uint16_t *block = (const uint16_t *)unit + c / 32 * 17;
        const float d = half_float(block[0]);
        const uint32_t q = block[1 + c % 32 / 2] | (uint32_t)block[2 + c % 32 / 2] << 16;
        UNROLL
        for (int i = 0; i < 4; i++) x[i] = d * (float)(int8_t)(q >> 8 * i);
    } else {
        const u32x2 q = load8((const u32x2 *)unit + c / 4);
        x[0] = half_float((uint16_t)q.x), x[1] = half_float((uint16_t)(q.x >> 16));
        x[2] = half_float((uint16_t)q.y), x[3] = half_float((uint16_t)(q.y >> 16));
    }
}

/* Four numbers of the key in a head's slot, which is at `place` of the pool. */
DEVICE void key_numbers(float x[4], const struct cuda_cache &cache, int head, int64_t place,
                        int slot, int c)
{
    float mean[4], scale[4];

    unit_numbers(x, cache.k + place * cache.k_bytes, cache.k_type, c);
    if (!CUDA_KV_CENTRED(cache.k_type)) return;
    const float *centre = cache.centres + head * 3 * cache.head_dim + c;
    const bool first = slot == 0 && cache.pos[place] == 0;
    load_four(mean, centre + (first ? 2 * cache.head_dim : 0));
    load_four(scale, centre + cache.head_dim);
    UNROLL
    for (int i = 0; i < 4; i++) x[i] = fma_f32(scale[i], x[i], mean[i]);
}

#endif
