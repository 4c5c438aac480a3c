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

/* Where units of Q4 and Q5 have the halves of their groups. */
DEVICE int halves_at(bool five, int n_group)
{
    return n_group * (five ? 20 : 16);
}

/* A group's half, and a lane's code, of which bit 4 is stored elsewhere. */
DEVICE void put_group(uint8_t *unit, int group, int halves, uint32_t q, uint16_t half)
{
    const uint32_t partner = shfl_xor_u32(q, 16);

    if (lane_id() < 16) unit[group * 16 + lane_id()] = (uint8_t)((q & 15) | partner << 4);
    if (lane_id() == 0) *(uint16_t *)(unit + halves + group * 2) = half;
}

/* The step and the minimum with the least squared error for the warp's codes q, unless that fails,
 * as in kernels.pack_values. */
DEVICE void fit(float *d, float *m, float x, float q)
{
    const float sq = warp_sum(q), sqq = warp_sum(q * q), sx = warp_sum(x), sqx = warp_sum(q * x);
    const float det = 32.0f * sqq - sq * sq, fitted = (32.0f * sqx - sq * sx) / det;

    if (!(det > 0.0f && fitted > 0.0f && fitted < 65504.0f)) return;
    *d = fitted;
    *m = (sx - fitted * sq) / 32.0f;
}

/* -z / 8 d of a half d of Q4. */
DEVICE float min_q4(uint16_t half, float d)
{
    return (float)(half & 127) * -0.125f * d;
}

/* As kn_q4_half in cpu.h. */
DEVICE uint16_t half_q4(float d, float m)
{
    const float z = d > 0.0f ? round_even(m / d * -8.0f) : 0.0f;
    const int last = (int)(z > 0.0f ? z < 127.0f ? z : 127.0f : 0.0f);
    const int first = (half_saturated(d) + 64 - last) / 128;

    return (uint16_t)(min_int(first, 0xf7) * 128 + last);
}

DEVICE float code_q4(float x, float d, float m)
{
    const float q = d > 0.0f ? round_even((x - m) / d) : 0.0f;
    return q > 15.0f ? 15.0f : q > 0.0f ? q : 0.0f;
}

/* The least and the largest of the lanes' numbers. */
DEVICE void lanes_range(float *min, float *max, float x)
{
    *min = *max = x;
    UNROLL
    for (int mask = 16; mask; mask >>= 1) {
        *min = min_f32(*min, shfl_xor_f32(*min, mask));
        *max = max_f32(*max, shfl_xor_f32(*max, mask));
    }
}

/* A warp packs 32 numbers, one per lane, as kernels.kv_pack[KN_KV_Q4] does; fits: as
 * kernels.pack_values. */
DEVICE void pack_q4(uint8_t *unit, int group, int n_group, float x, bool fits)
{
    float min, max;

    lanes_range(&min, &max, x);
    float m = min_f32(min, 0.0f), d = (max_f32(max, 0.0f) - m) / 15.0f;

    for (int i = 0; fits && i < CUDA_FITS; i++) fit(&d, &m, x, code_q4(x, d, m));
    const uint16_t half = half_q4(d, m);
    d = half_float(half);
    put_group(unit, group, halves_at(false, n_group), (uint32_t)code_q4(x, d, min_q4(half, d)),
              half);
}

/* As kv_pack[KN_KV_Q5]. */
DEVICE void pack_q5(uint8_t *unit, int group, int n_group, float x)
{
    float min, max;

    lanes_range(&min, &max, x);
    const uint16_t half = half_saturated((max >= -min ? max : min) / -16.0f + 0.0f);
    const float d = half_float(half);
    const float v = d != 0.0f ? round_even(x / d) : -16.0f;
    const uint32_t q = (uint32_t)(int)((v > 15.0f ? 15.0f : v > -16.0f ? v : -16.0f) + 16.0f);
    const uint32_t high = warp_ballot(q > 15);

    if (lane_id() == 0) ((uint32_t *)unit)[n_group * 4 + group] = high;
    put_group(unit, group, halves_at(true, n_group), q, half);
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

/* Packs one of a unit's n_group groups. fits: as kernels.pack_values does. */
DEVICE void pack(uint8_t *unit, float x, enum cuda_kv type, int group, int n_group, bool fits)
{
    if (type == CUDA_KV_F16) {
        *(uint16_t *)(unit + group * 64 + lane_id() * 2) = half_saturated(x);
        return;
    }
    const bool four = type == CUDA_KV_Q4 || type == CUDA_KV_S4;
    if (four)
        pack_q4(unit, group, n_group, x, fits);
    else if (type == CUDA_KV_Q8)
        pack_group_q8(unit + group * 34, x);
    else
        pack_q5(unit, group, n_group, x);
    /* pads an odd number of groups to 4 bytes */
    if (group + 1 == n_group && n_group % 2 && lane_id() == 0)
        *(uint16_t *)(unit + n_group * (four ? 18 : type == CUDA_KV_Q8 ? 34 : 22)) = 0;
}

/* Number i of a head's key less its centre, as key_centre in kernels.h. */
DEVICE float centred(float x, const struct cuda_cache &c, int head, bool first, int i)
{
    const float *mean = c.centres + head * 3 * c.head_dim, *scale = mean + c.head_dim;
    const float far = 28.0f, less = (x - mean[i + (first ? 2 * c.head_dim : 0)]) / scale[i];

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

/* Four numbers of a unit of dim numbers as stored, from channel c on, a multiple of 4. */
DEVICE void unit_numbers(float x[4], const void *unit, enum cuda_kv type, int c, int dim)
{
    const bool four = type == CUDA_KV_Q4 || type == CUDA_KV_S4;

    if (four || type == CUDA_KV_Q5 || type == CUDA_KV_S5) {
        const uint8_t *bytes = (const uint8_t *)unit, *halves = bytes + halves_at(!four, dim / 32);
        const uint32_t q = *(const uint32_t *)(bytes + c / 32 * 16 + c % 16) >> c % 32 / 16 * 4;
        const uint16_t half = ((const uint16_t *)halves)[c / 32];
        const float d = half_float(half);
        if (four) {
            const float m = min_q4(half, d);
            UNROLL
            for (int i = 0; i < 4; i++) x[i] = fma_f32(d, (float)(q >> 8 * i & 15), m);
        } else {
            const uint32_t high = ((const uint32_t *)unit)[dim / 8 + c / 32] >> c % 32;
            UNROLL
            for (int i = 0; i < 4; i++)
                x[i] = d * (float)((int)((q >> 8 * i & 15) | (high >> i & 1) << 4) - 16);
        }
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

    unit_numbers(x, cache.k + place * cache.k_bytes, cache.k_type, c, cache.head_dim);
    if (!CUDA_KV_CENTRED(cache.k_type)) return;
    const float *centre = cache.centres + head * 3 * cache.head_dim + c;
    const bool first = slot == 0 && cache.pos[place] == 0;
    load_four(mean, centre + (first ? 2 * cache.head_dim : 0));
    load_four(scale, centre + cache.head_dim);
    UNROLL
    for (int i = 0; i < 4; i++) x[i] = fma_f32(scale[i], x[i], mean[i]);
}

#endif
