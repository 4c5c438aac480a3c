/* Decode attention: one to eight query columns (token, group) of a KV head against its units
 * (keys of S5, values of Q4), split over the cache. No dequantized data is written to memory.
 *
 * A block of four warps walks the tiles of 64 slots of its split. Each warp takes 16 keys of a
 * tile:
 *
 *   S^T [16 keys x 8 columns] = K (A operand) x Q^T (B)     mma m16n8k16
 *   O^T [dim x 8 columns]    += V^T (A) x P^T (B)           P^T is S^T by movmatrix
 *
 * Grouped heads share every byte that is read, and a warp keeps its own running softmax, so the
 * only barrier is the tile's. The four softmaxes are merged at the end, in order.
 *
 * RoPE by slot. A unit's slot is p0 + t with p0 the tile's first. The key is rotated by t: a lane
 * has the same two t of every tile, so their angles stay in its registers. The query is rotated
 * once per tile, by its distance to p0. The order of channels inside a dot product is free: step
 * (h, s) of k takes channels 16h + 4t + s + {0, 2} as "re" and their partners dim/2 further as
 * "im", which are exactly two nibbles of two words of a unit, so that a complex product is four
 * operations on whole registers.
 *
 * A key's number is 32 u (d m + n): u is the head's largest scale, m = scale (q - 16) / 32 u, n =
 * mean / 32 u, and the query takes 32 u. A code at bits 4 to 8 of a half is 2^-20 q, a subnormal
 * number, so that two fused multiply-adds make a number, with m's and n's constants in registers.
 * At bits 0 to 4 it is 2^-24 q, and d takes the 16 that m lacks.
 *
 * While one tile is computed, cp.async copies the next one, and the angles of its query are loaded.
 * A launch of few tiles takes as long as its loads one after the other, so whatever does not depend
 * on the block's piece is loaded before the piece is known, and the new unit is packed while the
 * first tile arrives.
 *
 * Heads that share a budget differ in length, and a launch lasts as long as its longest block. So
 * all blocks of a launch take pieces of the same number of tiles, and long heads more pieces. */
#include "kernels/cuda/cache.cuh"

#define SIXTEEN 0x4c004c00u /* as halves */

enum { COLS = CUDA_ATTEND_COLS, THREADS = CUDA_ATTEND_THREADS, WARPS = THREADS / 32 };

/* Bytes of a key, of a value, of a tile of keys, of a stage; see enum kn_kv in kernels.h. */
template <int DIM> struct unit {
    enum {
        GROUPS = DIM / 32,
        KEY = CUDA_KEY_BYTES(DIM),
        VALUE = CUDA_VALUE_BYTES(DIM),
        KEYS = TILE * KEY,
        STAGE = TILE * (KEY + VALUE)
    };
};

template <int DIM> struct decode {
    enum {
        STEPS = DIM / 32,  /* groups of 16 pairs; two k-steps each */
        BLOCKS = DIM / 16, /* of 16 channels of the output */
        /* bytes of a row of re and im pairs; 32 of padding to spread the banks */
        ROW = DIM * 2 + 32,
        RAW = 2 * unit<DIM>::STAGE,
        QUERIES = 2 * COLS * ROW,
        PAIRS = (COLS * DIM / 4 + THREADS - 1) / THREADS, /* of queries, that a thread rotates */
        SUMS = DIM + 4 /* floats of a column's sums; 4 of padding to spread the banks */
    };
};

/* Offset in a row of the eight bytes {re pair, im pair} of step (h, s) and lane t. */
DEVICE int pair_offset(int h, int s, int t)
{
    return ((h * 2 + s) * 4 + t) * 8;
}

/* The first channel of number e of a row's pairs; the other is two further. */
DEVICE int pair_channel(int e)
{
    return e / 8 * 16 + e % 4 * 4 + e / 4 % 2;
}

/* ---- angles of keys -------------------------------------------------------------------------- */

/* Lane t's cosines and sines of the warp's keys g and g + 8 of any tile, for steps (h, 0) and (h, 1):
 * loaded long before they are used. */
template <int DIM> struct angles {
    float cos[2][DIM / 32][4], sin[2][DIM / 32][4];
};

template <int DIM>
DEVICE void load_angles(struct angles<DIM> *a, const float *cos, const float *sin)
{
    UNROLL
    for (int k = 0; k < 2; k++) UNROLL
    for (int h = 0; h < DIM / 32; h++) {
        const int row = warp_id() * 16 + lane_id() / 4 + 8 * k;
        const int at = row * (DIM / 2) + 16 * h + 4 * (lane_id() % 4);
        load_four(a->cos[k][h], cos + at);
        load_four(a->sin[k][h], sin + at);
    }
}

/* The same as pairs of steps (h, s), at 2h + s. */
template <int DIM> struct turns {
    uint32_t cos[2][DIM / 16], sin[2][DIM / 16];
};

template <int DIM> DEVICE void pack_angles(struct turns<DIM> *to, const struct angles<DIM> &a)
{
    UNROLL
    for (int k = 0; k < 2; k++) UNROLL
    for (int i = 0; i < DIM / 16; i++) {
        const float *cos = a.cos[k][i / 2] + i % 2, *sin = a.sin[k][i / 2] + i % 2;
        to->cos[k][i] = h2_pack(cos[0], cos[2]);
        to->sin[k][i] = h2_pack(sin[0], sin[2]);
    }
}

/* ---- centres --------------------------------------------------------------------------------- */

/* Constants of a head's keys in shared memory, [2h + s][t] pairs of re and im: scales over u times
 * 2^15 and means; then the scales times code 16. */
template <int DIM> struct centre {
    float mean[2][2], scale[2][2]; /* of re and im of a lane, which has 2h + s = g */
};

template <int DIM> DEVICE void load_centre(struct centre<DIM> *c, const float *from)
{
    const int g = lane_id() / 4, t = lane_id() % 4, channel = g / 2 * 16 + 4 * t + g % 2;

    UNROLL
    for (int part = 0; part < 2 && g < DIM / 16; part++) UNROLL
    for (int k = 0; k < 2; k++) {
        c->mean[part][k] = from[channel + part * (DIM / 2) + 2 * k];
        c->scale[part][k] = from[channel + part * (DIM / 2) + 2 * k + DIM];
    }
}

/* Returns 32 u. */
template <int DIM> DEVICE float put_centre(char *to, const struct centre<DIM> &c)
{
    const uint32_t whole = 0x81008100u, sixteenth = 0x80108010u; /* -16 times 2^-20, times 2^-24 */
    const int g = lane_id() / 4, h = g / 2;
    uint32_t mean[2], scale[2];
    float most = 0.0f;

    UNROLL
    for (int i = 0; i < 4; i++) most = max_f32(most, c.scale[i / 2][i % 2]);
    const float span = 32.0f * warp_max(most), inverse = 1.0f / span;
    if (warp_id() || g >= DIM / 16) return span;
    UNROLL
    for (int part = 0; part < 2; part++) {
        mean[part] = h2_pack(c.mean[part][0] * inverse, c.mean[part][1] * inverse);
        scale[part] =
            h2_pack(c.scale[part][0] * 0x1p20f * inverse, c.scale[part][1] * 0x1p20f * inverse);
    }
    *((u32x4 *)to + lane_id()) = {scale[0], scale[1], mean[0], mean[1]};
    u32x2 *less = (u32x2 *)(to + DIM * 4) + lane_id();
    *less = {h2_mul(scale[0], h & 1 ? whole : sixteenth),
             h2_mul(scale[1], (h + DIM / 32) & 1 ? whole : sixteenth)};
    return span;
}

/* ---- queries --------------------------------------------------------------------------------- */

/* A thread's pairs of the columns; the numbers as they came, re and im, are in shared memory. */
template <int DIM> struct query {
    float *plain;                 /* pair k at + k * THREADS * 4 */
    int slot[decode<DIM>::PAIRS]; /* of the token; -1: the column has none */
};

struct turn { /* angles of a pair for a tile */
    float cos[2], sin[2];
};

DEVICE void load_two(float x[2], const float *row)
{
    x[0] = row[0], x[1] = row[2];
}

/* Where pair k of this thread is in a row of channels, and in the columns. */
template <int DIM> DEVICE int own_channel(int k)
{
    return pair_channel((k * THREADS + thread_id()) % (DIM / 4));
}

template <int DIM> DEVICE char *own_place(char *columns, int k)
{
    const int i = k * THREADS + thread_id();
    return columns + i / (DIM / 4) * decode<DIM>::ROW + i % (DIM / 4) * 8;
}

/* Columns without a token become zero, in both stages. */
template <int DIM>
DEVICE void load_query(struct query<DIM> *q, char *columns, const struct cuda_attend &a, int head,
                       int pos0)
{
    UNROLL
    for (int k = 0; k < decode<DIM>::PAIRS; k++) {
        const int col = (k * THREADS + thread_id()) / (DIM / 4), token = col / a.n_group;
        const float *x = a.q + token * a.q_stride + own_channel<DIM>(k) +
                         (int64_t)(head * a.n_group + col % a.n_group) * DIM;

        q->slot[k] = token < a.n_tok ? pos0 + token : -1;
        if (token < a.n_tok) {
            store_four(q->plain + k * THREADS * 4, x[0], x[2], x[DIM / 2], x[DIM / 2 + 2]);
        } else if (col < COLS) {
            char *to = own_place<DIM>(columns, k);
            *(u32x2 *)to = *(u32x2 *)(to + COLS * decode<DIM>::ROW) = {0, 0};
        }
    }
}

/* For the tile that begins with slot0. A query before the whole tile is masked later and may have
 * any finite value. */
template <int DIM>
DEVICE void load_turn(struct turn *turn, const struct query<DIM> &q, const struct cuda_attend &a,
                      int slot0)
{
    UNROLL
    for (int k = 0; k < decode<DIM>::PAIRS; k++) {
        const int at = max_int(q.slot[k] - slot0, 0) * (DIM / 2) + own_channel<DIM>(k);
        if (q.slot[k] < 0) continue;
        load_two(turn[k].cos, a.cos + at);
        load_two(turn[k].sin, a.sin + at);
    }
}

template <int DIM>
DEVICE void put_query(char *columns, const struct query<DIM> &q, const struct turn *turn,
                      float scale)
{
    UNROLL
    for (int k = 0; k < decode<DIM>::PAIRS; k++) {
        float re[2], im[2], plain[4];
        if (q.slot[k] < 0) continue;
        load_four(plain, q.plain + k * THREADS * 4);
        UNROLL
        for (int j = 0; j < 2; j++) {
            const float x = plain[j] * scale, y = plain[j + 2] * scale;
            re[j] = x * turn[k].cos[j] - y * turn[k].sin[j];
            im[j] = y * turn[k].cos[j] + x * turn[k].sin[j];
        }
        *(u32x2 *)own_place<DIM>(columns, k) = {h2_pack(re[0], re[1]), h2_pack(im[0], im[1])};
    }
}

/* ---- logits ---------------------------------------------------------------------------------- */

/* Bits 4 of lane t's pairs of a group, of which `bits` is the dword: of step s at bit s of a half,
 * in the group's second half at bit 8 + s. */
DEVICE uint32_t fifth_bits(uint32_t bits, int t)
{
    return permute_bytes(bits >> 4 * t, bits >> (4 * t + 2), 0x6420);
}

/* The pair of step s and half group h of a key, with its constants. */
template <int DIM>
DEVICE uint32_t key_pair(const uint32_t *key, int h, int s, int t, uint32_t scale, uint32_t less,
                         uint32_t mean)
{
    const int group = h / 2;
    const uint32_t four = key[4 * group + t] >> 8 * s;
    const uint32_t fifth = fifth_bits(key[4 * unit<DIM>::GROUPS + group], t);
    const uint32_t d =
        permute_bytes(key[5 * unit<DIM>::GROUPS + group / 2], 0, group & 1 ? 0x3232 : 0x1010);

    if (h & 1) {
        const uint32_t q = (four & 0x00f000f0u) | (fifth >> s & 0x01000100u);
        return h2_fma(h2_fma(q, scale, less), d, mean);
    }
    const uint32_t q = (four & 0x000f000fu) | (fifth << (4 - s) & 0x00100010u);
    return h2_fma(h2_fma(q, scale, less), h2_mul(d, SIXTEEN), mean);
}

/* Pairs of channels of the warp's key g + 8k, rotated: step s of group h. */
template <int DIM>
DEVICE void rotated_key(const uint32_t *key, const u32x4 &c, const u32x2 &less,
                        const struct turns<DIM> &a, int k, int h, int s, uint32_t *re, uint32_t *im)
{
    const int i = 2 * h + s, t = lane_id() % 4;
    const uint32_t x = key_pair<DIM>(key, h, s, t, c.x, less.x, c.z);
    const uint32_t y = key_pair<DIM>(key, h + DIM / 32, s, t, c.y, less.y, c.w);

    *re = h2_fma(x, a.cos[k][i], h2_mul(h2_neg(y), a.sin[k][i]));
    *im = h2_fma(y, a.cos[k][i], h2_mul(x, a.sin[k][i]));
}

/* c = base-2 logits of 16 keys (rows g, g + 8) and 8 columns (2t, 2t + 1). */
template <int DIM>
DEVICE void tile_logits(float c[4], const char *keys, const char *centre,
                        const struct turns<DIM> &turns, const char *queries)
{
    const int g = lane_id() / 4, t = lane_id() % 4;
    const uint32_t *key = (const uint32_t *)keys + (warp_id() * 16 + g) * (unit<DIM>::KEY / 4);
    const uint32_t *key8 = key + 2 * unit<DIM>::KEY;

    UNROLL
    for (int h = 0; h < decode<DIM>::STEPS; h++) UNROLL
    for (int s = 0; s < 2; s++) {
        const int at = (2 * h + s) * 4 + t;
        const u32x4 constants = *((const u32x4 *)centre + at);
        const u32x2 less = *((const u32x2 *)(centre + DIM * 4) + at);
        uint32_t k[4];
        rotated_key<DIM>(key, constants, less, turns, 0, h, s, &k[0], &k[2]);
        rotated_key<DIM>(key8, constants, less, turns, 1, h, s, &k[1], &k[3]);
        const u32x2 q = *(const u32x2 *)(queries + g * decode<DIM>::ROW + pair_offset(h, s, t));
        mma_f16(c, k, q.x, q.y);
    }
}

/* Position 0's key is not rotated, and differs from the mean. Adds what this difference changes in
 * row 0 of the logits c. */
template <int DIM>
DEVICE void lift_first(float c[4], const float *centre, float span, const char *queries)
{
    const int g = lane_id() / 4, t = lane_id() % 4;
    const float inverse = 1.0f / span;

    UNROLL
    for (int i = 0; i < DIM / 16; i++) {
        const u32x2 q =
            *(const u32x2 *)(queries + g * decode<DIM>::ROW + pair_offset(i / 2, i % 2, t));
        uint32_t k[4] = {};
        UNROLL
        for (int part = 0; part < 2 && g == 0; part++) {
            const float *mean = centre + i / 2 * 16 + 4 * t + i % 2 + part * (DIM / 2);
            const float *first = mean + 2 * DIM;
            k[2 * part] = h2_pack((first[0] - mean[0]) * inverse, (first[2] - mean[2]) * inverse);
        }
        mma_f16(c, k, q.x, q.y);
    }
}

/* ---- values ---------------------------------------------------------------------------------- */

/* Four values' words and scales of lane (g, t): units 2t, 2t + 1, 2t + 8, 2t + 9 of the warp. */
struct values {
    uint32_t low[2], high[2]; /* halves of the words, of units 2t and 2t + 1, then + 8 */
    uint32_t d[2], m[2];
};

/* -z / 8 is a half whose ulp is 1/8, from 128 on, taken off 128. */
template <int DIM>
DEVICE void load_values(struct values *v, const uint32_t *rows, int block, int word)
{
    const int halves = 4 * unit<DIM>::GROUPS + block / 2, pick = block % 2 ? 0x7632 : 0x5410;
    const uint32_t from_128 = 0x58005800u;

    UNROLL
    for (int i = 0; i < 2; i++) {
        const uint32_t *a = rows + i * 2 * unit<DIM>::VALUE, *b = a + unit<DIM>::VALUE / 4;
        const uint32_t x = a[4 * block + word], y = b[4 * block + word];
        v->low[i] = permute_bytes(x, y, 0x5410);
        v->high[i] = permute_bytes(x, y, 0x7632);
        v->d[i] = permute_bytes(a[halves], b[halves], pick);
        v->m[i] = h2_mul(h2_sub(from_128, (v->d[i] & 0x007f007fu) | from_128), v->d[i]);
    }
}

/* Rows g: byte `byte` of the word's half, low nibble; rows g + 8: the high nibble. A code at bits 0
 * to 3 is the end of a half from 1024 on, at bits 4 to 7 of one from 64 on. */
DEVICE void value_fragment(uint32_t a[4], const struct values *v, const uint32_t half[2], int byte)
{
    const uint32_t from_1024 = 0x64006400u, from_64 = 0x54005400u;

    UNROLL
    for (int i = 0; i < 2; i++) {
        const uint32_t q = half[i] >> 8 * byte;
        const uint32_t low = h2_sub((q & 0x000f000fu) | from_1024, from_1024);
        const uint32_t high = h2_sub((q & 0x00f000f0u) | from_64, from_64);
        a[2 * i] = h2_fma(low, v->d[i], v->m[i]);
        a[2 * i + 1] = h2_fma(high, v->d[i], v->m[i]);
    }
}

/* The channel in row g of output block j (row g + 8 is 16 further). Blocks come in fours of two
 * unit blocks, one word per lane group; an odd last unit block gives half a word each. */
template <int DIM> DEVICE int block_channel(int j, int g)
{
    if (j < DIM / 64 * 4) return (j / 4 * 2 + g / 4) * 32 + 4 * (g % 4) + j % 4;
    return DIM / 64 * 64 + 4 * (g / 2) + 2 * (g % 2) + j % 4;
}

/* o += V^T P^T for the warp's 16 units. */
template <int DIM>
DEVICE void add_values(float o[][4], const char *values, uint32_t p0, uint32_t p1)
{
    const int g = lane_id() / 4, t = lane_id() % 4;
    const uint32_t *rows =
        (const uint32_t *)values + (warp_id() * 16 + 2 * t) * (unit<DIM>::VALUE / 4);
    struct values v;
    uint32_t a[4];

    UNROLL
    for (int b = 0; b < DIM / 64; b++) {
        load_values<DIM>(&v, rows, b * 2 + g / 4, g % 4);
        UNROLL
        for (int j = 0; j < 4; j++) {
            value_fragment(a, &v, j < 2 ? v.low : v.high, j % 2);
            mma_f16(o[b * 4 + j], a, p0, p1);
        }
    }
    if (DIM % 64 == 0) return;
    load_values<DIM>(&v, rows, DIM / 64 * 2, g / 2);
    UNROLL
    for (int i = 0; i < 2; i++) v.low[i] = g % 2 ? v.high[i] : v.low[i];
    UNROLL
    for (int j = 0; j < 2; j++) {
        value_fragment(a, &v, v.low, j);
        mma_f16(o[DIM / 64 * 4 + j], a, p0, p1);
    }
}

/* ---- running softmax ------------------------------------------------------------------------- */

struct softmax { /* of the warp, for columns 2t and 2t + 1 */
    float m[2];
    float l[2]; /* this lane's part of the sum */
};

DEVICE float column_max(float x)
{
    UNROLL
    for (int mask = 4; mask < 32; mask <<= 1) x = max_f32(x, shfl_xor_f32(x, mask));
    return x;
}

DEVICE float column_sum(float x)
{
    UNROLL
    for (int mask = 4; mask < 32; mask <<= 1) x += shfl_xor_f32(x, mask);
    return x;
}

/* Converts logits to weights and rescales the sums so far. */
template <int DIM> DEVICE void softmax_step(struct softmax *s, float c[4], float o[][4])
{
    UNROLL
    for (int k = 0; k < 2; k++) {
        const float m = max_f32(s->m[k], column_max(max_f32(c[k], c[k + 2])));
        const float safe = m == -INF ? 0.0f : m; /* no visible slot yet: all weights are 0 */
        const float keep = exp2_fast(s->m[k] - safe);

        s->m[k] = m;
        c[k] = exp2_fast(c[k] - safe);
        c[k + 2] = exp2_fast(c[k + 2] - safe);
        s->l[k] = s->l[k] * keep + (c[k] + c[k + 2]);
        UNROLL
        for (int j = 0; j < decode<DIM>::BLOCKS; j++) {
            o[j][k] *= keep;
            o[j][k + 2] *= keep;
        }
    }
}

/* The last slots that columns 2t and 2t + 1 see. */
DEVICE void last_slots(int last[2], const struct cuda_attend &a, int pos0)
{
    UNROLL
    for (int k = 0; k < 2; k++) {
        const int token = (2 * (lane_id() % 4) + k) / a.n_group;
        last[k] = token < a.n_tok ? pos0 + token : -1;
    }
}

DEVICE void mask_logits(float c[4], const int last[2], int slot0)
{
    const int slot = slot0 + warp_id() * 16 + lane_id() / 4;

    UNROLL
    for (int k = 0; k < 2; k++) {
        if (slot > last[k]) c[k] = -INF;
        if (slot + 8 > last[k]) c[k + 2] = -INF;
    }
}

/* ---- equal work ------------------------------------------------------------------------------ */

/* The tiles of a block. */
struct piece {
    int head;        /* n_head: the block has none */
    int first, last; /* tiles of that head */
    int row, n;      /* number of the head's first piece in the launch; its pieces */
};

/* Heads of a launch. A lane looks at every 32nd head; most launches have no more. */
struct heads {
    const int32_t *len;
    int n, n_tok;
    int tiles; /* of head lane_id() */
};

/* 0 beyond the last head. */
DEVICE int tiles_of(const struct heads &h, int head)
{
    return head < h.n ? ceil_div(h.len[head] + h.n_tok, TILE) : 0;
}

DEVICE int pieces_of(int tiles, int size)
{
    return (int)((uint32_t)(tiles + size - 1) / (uint32_t)size);
}

/* Of all heads. */
DEVICE int all_pieces(const struct heads &h, int size)
{
    int n = pieces_of(h.tiles, size);

    for (int head = 32 + lane_id(); head < h.n; head += 32) n += pieces_of(tiles_of(h, head), size);
    return warp_sum_int(n);
}

/* The smallest number of tiles with which `most` pieces are enough for all heads, or up to 1/32
 * more; most >= n. */
DEVICE int piece_size(const struct heads &h, int most)
{
    int size = max_int(pieces_of(all_pieces(h, 1), most), 1);

    while (all_pieces(h, size) > most) size += 1 + size / 32;
    return size;
}

/* Piece number `index` of the launch, or with `head` >= 0 that head's first one. By a warp. */
DEVICE struct piece find_piece(const int32_t *len, int n_head, int n_tok, int most, int index,
                               int head)
{
    struct heads h = {len, n_head, n_tok, 0};
    h.tiles = tiles_of(h, lane_id());
    const int size = piece_size(h, most);
    struct piece p = {0, 0, 0, 0, 0};

    for (int row = 0, tiles = h.tiles;;) {
        const int n = pieces_of(tiles, size), end = row + warp_sums_int(n);
        const bool before = head >= 0 ? p.head + lane_id() < head : end <= index;
        const int n_before = popcount(warp_ballot(before)), own = min_int(n_before, 31);
        p.n = (int)shfl_u32((uint32_t)n, own);
        row = (int)shfl_u32((uint32_t)end, own);
        p.row = row - p.n;
        p.head += n_before;
        p.last = (int)shfl_u32((uint32_t)tiles, own);
        if (n_before < 32 || p.head >= n_head) break;
        tiles = tiles_of(h, p.head + lane_id());
    }
    p.head = min_int(p.head, n_head);
    p.first = (index - p.row) * size;
    p.last = min_int(p.first + size, p.last);
    return p;
}

DEVICE struct piece own_piece(const struct cuda_attend &a)
{
    const int n_head = a.cache.n_head;

    return find_piece(a.cache.len, n_head, a.n_tok, a.n_split * n_head,
                      block_y() * a.n_split + block_x(), -1);
}

/* ---- the piece's result ---------------------------------------------------------------------- */

/* Stores the warps' sums in shared memory: m and l [warp][8], acc [warp][8][SUMS]. */
template <int DIM> DEVICE void put_warp(float *shared, const struct softmax *s, float o[][4])
{
    const int g = lane_id() / 4, t = lane_id() % 4, w = warp_id();

    UNROLL
    for (int k = 0; k < 2; k++) {
        const float l = column_sum(s->l[k]);
        const int col = 2 * t + k;
        float *acc = shared + 2 * WARPS * COLS + (w * COLS + col) * decode<DIM>::SUMS;
        if (g == 0) {
            shared[w * COLS + col] = s->m[k];
            shared[(WARPS + w) * COLS + col] = l;
        }
        UNROLL
        for (int j = 0; j < DIM / 64 * 4; j += 4) UNROLL
        for (int i = k; i < 4; i += 2)
            store_four(acc + block_channel<DIM>(j, g) + i / 2 * 16, o[j][i], o[j + 1][i],
                       o[j + 2][i], o[j + 3][i]);
        UNROLL
        for (int j = DIM / 64 * 4; j < decode<DIM>::BLOCKS; j++) {
            acc[block_channel<DIM>(j, g)] = o[j][k];
            acc[block_channel<DIM>(j, g) + 16] = o[j][k + 2];
        }
    }
}

/* A thread merges four channels of the warps. */
template <int DIM> DEVICE void write_piece(const struct cuda_attend &a, const float *shared)
{
    const int n_col = a.n_tok * a.n_group;
    const int64_t row0 = ((int64_t)block_y() * a.n_split + block_x()) * n_col;

    for (int i = thread_id(); i < n_col * (DIM / 4); i += THREADS) {
        const int col = i / (DIM / 4), channel = i % (DIM / 4) * 4;
        float m = -INF, l = 0.0f, acc[4] = {};
        UNROLL
        for (int w = 0; w < WARPS; w++) m = max_f32(m, shared[w * COLS + col]);
        const float safe = m == -INF ? 0.0f : m;
        UNROLL
        for (int w = 0; w < WARPS; w++) {
            const float share = exp2_fast(shared[w * COLS + col] - safe);
            float x[4];
            load_four(x,
                      shared + 2 * WARPS * COLS + (w * COLS + col) * decode<DIM>::SUMS + channel);
            l += shared[(WARPS + w) * COLS + col] * share;
            UNROLL
            for (int k = 0; k < 4; k++) acc[k] += x[k] * share;
        }
        store_four(a.acc + (row0 + col) * DIM + channel, acc[0], acc[1], acc[2], acc[3]);
        if (channel == 0) {
            a.m[row0 + col] = m;
            a.l[row0 + col] = l;
        }
    }
}

/* ---- the kernel ------------------------------------------------------------------------------ */

/* The parts of shared memory. */
template <int DIM> struct parts {
    char *raw;     /* [2 stages][keys, values][TILE_BYTES] */
    char *queries; /* [2 stages][COLS][ROW] */
    char *plain;   /* [PAIRS][THREADS] four floats of a query */
    char *centre;  /* of the head */
    char *fresh;   /* the new unit's key and value */
};

template <int DIM> DEVICE struct parts<DIM> parts_of()
{
    char *raw = shared_memory(), *queries = raw + decode<DIM>::RAW;
    char *plain = queries + decode<DIM>::QUERIES;
    char *centre = plain + decode<DIM>::PAIRS * THREADS * 16;

    return {raw, queries, plain, centre, centre + DIM * 6};
}

/* Starts copying a tile's keys and values to a stage; slots from `end` on become zero, which is a
 * unit of zeros. */
template <int DIM>
DEVICE void copy_stage(const struct cuda_attend &a, char *stage, int head, int tile, int end)
{
    enum { KEYS = unit<DIM>::KEYS, STAGE = unit<DIM>::STAGE };
    const int64_t page = a.cache.pages[head * a.cache.n_pages + tile];
    const uint8_t *keys = a.cache.k + page * KEYS;
    const uint8_t *values = a.cache.v + page * (STAGE - KEYS) - KEYS;
    const int n = min_int(end - tile * TILE, TILE);

    UNROLL
    for (int first = 0; first < STAGE; first += THREADS * 16) {
        const int to = first + thread_id() * 16;
        const int left = to < KEYS ? n * unit<DIM>::KEY - to : n * unit<DIM>::VALUE + KEYS - to;
        if (to < STAGE)
            cp_async16(stage + to, (to < KEYS ? keys : values) + to, max_int(0, min_int(left, 16)));
    }
    cp_async_commit();
}

/* Puts the new unit, which no memory has yet, at the end of the last tile. */
template <int DIM> DEVICE void put_fresh(char *stage, const char *fresh, int slot)
{
    enum { KEY = unit<DIM>::KEY, VALUE = unit<DIM>::VALUE };
    char *key = stage + slot % TILE * KEY, *value = stage + unit<DIM>::KEYS + slot % TILE * VALUE;

    for (int i = thread_id() * 4; i < KEY + VALUE; i += THREADS * 4)
        *(uint32_t *)(i < KEY ? key + i : value + i - KEY) = *(const uint32_t *)(fresh + i);
    barrier();
}

/* Attends to the tiles of a piece; the first is being copied to stage 0. With `packs` the last
 * token's unit is in parts.fresh, not in its tile. */
template <int DIM>
DEVICE void attend_decode(const struct cuda_attend &a, const struct piece &p,
                          const struct turns<DIM> &turns, bool packs)
{
    enum { STAGE = unit<DIM>::STAGE, QUERY = COLS * decode<DIM>::ROW };
    const struct parts<DIM> parts = parts_of<DIM>();
    const int pos0 = a.cache.len[p.head], end = pos0 + a.n_tok - packs;
    const float *of_head = a.cache.centres + p.head * 3 * DIM;
    struct centre<DIM> centre = {};
    struct query<DIM> query = {(float *)parts.plain + thread_id() * 4, {}};
    struct turn turn[decode<DIM>::PAIRS];
    struct softmax s = {{-INF, -INF}, {0.0f, 0.0f}};
    float o[decode<DIM>::BLOCKS][4] = {};
    int last[2];

    load_centre<DIM>(&centre, of_head);
    load_query<DIM>(&query, parts.queries, a, p.head, pos0);
    load_turn<DIM>(turn, query, a, p.first * TILE);
    last_slots(last, a, pos0);
    const float span = put_centre<DIM>(parts.centre, centre), scale = a.scale * LOG2E * span;
    put_query<DIM>(parts.queries, query, turn, scale);
    const bool lifts = p.first == 0 && warp_id() == 0 &&
                       a.cache.pos[place_of(a.cache, p.head, 0)] == 0;
    for (int tile = p.first; tile < p.last; tile++) {
        const int stage = (tile - p.first) & 1;
        char *now = parts.raw + stage * STAGE;
        float c[4] = {};

        cp_async_wait<0>();
        barrier(); /* all threads have this tile, and no longer read the other stage */
        if (tile + 1 < p.last) {
            copy_stage<DIM>(a, parts.raw + (stage ^ 1) * STAGE, p.head, tile + 1, end);
            load_turn<DIM>(turn, query, a, (tile + 1) * TILE);
        } else if (packs) {
            put_fresh<DIM>(now, parts.fresh, end);
        }
        if (lifts && tile == 0) lift_first<DIM>(c, of_head, span, parts.queries);
        tile_logits<DIM>(c, now, parts.centre, turns, parts.queries + stage * QUERY);
        mask_logits(c, last, tile * TILE);
        softmax_step<DIM>(&s, c, o);
        add_values<DIM>(o, now + unit<DIM>::KEYS, movmatrix(h2_pack(c[0], c[1])),
                        movmatrix(h2_pack(c[2], c[3])));
        if (tile + 1 < p.last)
            put_query<DIM>(parts.queries + (stage ^ 1) * QUERY, query, turn, scale);
    }
    barrier(); /* the stages are reused for the sums */
    put_warp<DIM>((float *)parts.raw, &s, o);
    barrier();
    write_piece<DIM>(a, (const float *)parts.raw);
}

template <int DIM> DEVICE void decode_piece(const struct cuda_attend &a)
{
    struct angles<DIM> angles;
    struct turns<DIM> turns;

    load_angles<DIM>(&angles, a.cos, a.sin);
    const struct piece p = own_piece(a);
    if (p.head == a.cache.n_head) return;
    copy_stage<DIM>(a, parts_of<DIM>().raw, p.head, p.first, a.cache.len[p.head] + a.n_tok);
    pack_angles<DIM>(&turns, angles);
    attend_decode<DIM>(a, p, turns, false);
}

KERNEL_OF(attend_decode_64, struct cuda_attend, CUDA_ATTEND_THREADS, CUDA_ATTEND_BLOCKS(64),
          decode_piece<64>)
KERNEL_OF(attend_decode_96, struct cuda_attend, CUDA_ATTEND_THREADS, CUDA_ATTEND_BLOCKS(96),
          decode_piece<96>)
KERNEL_OF(attend_decode_128, struct cuda_attend, CUDA_ATTEND_THREADS, CUDA_ATTEND_BLOCKS(128),
          decode_piece<128>)

enum { MERGE_AHEAD = 16 };

/* Four channels of up to MERGE_AHEAD pieces, every n_side-th of the next n. */
DEVICE void load_pieces(float part[][4], const float *acc, int64_t stride, int n, int n_side)
{
    UNROLL
    for (int i = 0; i < MERGE_AHEAD; i++)
        if (i * n_side < n) load_four_fresh(part[i], acc + i * n_side * stride);
}

/* The maximum and the sum of the lane's piece of the next n. */
DEVICE void load_weights(float w[2], const struct cuda_merge &a, int64_t at, int n)
{
    const int64_t own = at + (int64_t)lane_id() * (a.n_tok * a.n_group);

    w[0] = lane_id() < n ? load_fresh(a.m + own) : -INF;
    w[1] = lane_id() < n ? load_fresh(a.l + own) : 0.0f;
}

/* A warp merges n pieces of a row, from row0 on; then quantizes to int8 for the output matrix.
 * Lanes hold the maxima and sums of 32 pieces; a lane adds four channels, of heads of 64 numbers of
 * every second piece. Loads of many pieces are in flight together. */
DEVICE void merge_row(const struct cuda_merge &a, int head, int row, int row0, int n)
{
    const int n_row = a.n_tok * a.n_group, n_side = a.head_dim > 64 ? 1 : 2;
    const int lane = lane_id(), side = n_side > 1 ? lane / 16 : 0;
    const int channel = (n_side > 1 ? lane % 16 : lane) * 4;
    const int64_t at = (int64_t)row0 * n_row + row, stride = (int64_t)n_row * a.head_dim;
    const float *acc = a.acc + (at + side * n_row) * a.head_dim + channel;
    const bool used = channel < a.head_dim;
    float max = -INF, sum = 0.0f, out[4] = {}, part[MERGE_AHEAD][4] = {}, next[2];

    load_weights(next, a, at, n);
    for (int first = 0; first < n; first += 32) {
        const int count = min_int(n - first, 32);
        const float m = next[0], l = next[1];
        if (used) load_pieces(part, acc + first * stride, stride, count - side, n_side);
        load_weights(next, a, at + (int64_t)(first + 32) * n_row, n - first - 32);
        const float higher = max_f32(max, warp_max(m)), safe = higher == -INF ? 0.0f : higher;
        const float keep = exp2_fast(max - safe), share = exp2_fast(m - safe);
        max = higher;
        sum = sum * keep + warp_sum(l * share);
        UNROLL
        for (int k = 0; k < 4; k++) out[k] *= keep;
        for (int done = 0; done < count; done += MERGE_AHEAD * n_side) {
            if (done && used)
                load_pieces(part, acc + (first + done) * stride, stride, count - side - done,
                            n_side);
            UNROLL
            for (int i = 0; i < MERGE_AHEAD; i++) {
                const int piece = done + i * n_side + side;
                if (piece - side >= count) continue;
                const float by = shfl_f32(share, piece % 32);
                UNROLL
                for (int k = 0; k < 4 && piece < count; k++) out[k] += part[i][k] * by;
            }
        }
    }
    UNROLL
    for (int k = 0; k < 4 && n_side > 1; k++) out[k] += shfl_xor_f32(out[k], 16);
    const int token = row / a.n_group, query = head * a.n_group + row % a.n_group;
    const int all = a.n_head * a.n_group * a.head_dim, column = query * a.head_dim + channel;
    const bool stores = used && side == 0;
    const float inverse = sum > 0.0f ? 1.0f / sum : 0.0f;
    UNROLL
    for (int k = 0; k < 4; k++) out[k] *= inverse;
    if (a.transformed) hadamard_four(out);
    if (a.out && stores)
        store_four(a.out + (int64_t)token * all + column, out[0], out[1], out[2], out[3]);
    quantize_four(a.act, out, token, stores ? column / 32 : all / 32, all / 32);
}

/* A warp per row. */
KERNEL(attend_merge, struct cuda_merge, 128, 1)
{
    const int row = block_x() * WARPS + warp_id(), head = block_y();
    int row0 = head * a.n_split, n = a.n_split;

    if (row >= a.n_tok * a.n_group) return;
    if (a.len) {
        const struct piece p = find_piece(a.len, a.n_head, a.n_tok, a.n_split * a.n_head, 0, head);
        row0 = p.row, n = p.n;
    }
    merge_row(a, head, row, row0, n);
}

/* ---- one token in one launch ----------------------------------------------------------------- */

/* This block's part of the retaining head's input, as norm_quantize would store it. */
DEVICE void keep_input(const struct cuda_kept &a, int block, int n_block)
{
    for (int first = block * THREADS * 4; first < a.n; first += n_block * THREADS * 4) {
        const int i = first + thread_id() * 4;
        float x[4] = {};
        if (i < a.n) load_four(x, a.x + i);
        quantize_four(a.act, x, *a.row, i / 32, a.n / 32);
    }
}

/* Packs the new unit to shared memory and stores it. */
template <int DIM> DEVICE void pack_fresh(const struct cuda_attend_one &a, int head, int slot)
{
    enum { KEY = unit<DIM>::KEY, VALUE = unit<DIM>::VALUE };
    struct cuda_cache c = a.at.cache;
    c.head_dim = DIM, c.k_type = CUDA_KV_S5, c.v_type = CUDA_KV_Q4; /* as the compiler should know */
    const int64_t at = place_of(c, head, slot);
    char *fresh = parts_of<DIM>().fresh;

    pack_unit(c, head, (uint8_t *)fresh, (uint8_t *)fresh + KEY, a.k + head * DIM, a.v + head * DIM,
              *a.pos == 0);
    if (thread_id() == 0) mark_unit(c, at, *a.pos, a.score ? a.score + head : NULL);
    barrier();
    for (int i = thread_id() * 4; i < KEY + VALUE; i += THREADS * 4) {
        uint8_t *to = i < KEY ? c.k + at * KEY + i : c.v + at * VALUE + i - KEY;
        *(uint32_t *)to = *(const uint32_t *)(fresh + i);
    }
}

template <int DIM> DEVICE void attend_one(const struct cuda_attend_one &a)
{
    const struct cuda_attend &at = a.at;
    const int n_block = at.cache.n_head * at.n_split, block = block_y() * at.n_split + block_x();
    struct angles<DIM> angles;
    struct turns<DIM> turns;

    load_angles<DIM>(&angles, at.cos, at.sin);
    const struct piece p = own_piece(at);
    const bool idle = p.head == at.cache.n_head;
    const int slot = idle ? 0 : at.cache.len[p.head];
    const bool packs = !idle && p.last == ceil_div(slot + 1, TILE); /* it has the last tile */
    if (!idle) copy_stage<DIM>(at, parts_of<DIM>().raw, p.head, p.first, slot + 1 - packs);
    if (a.kept.x) keep_input(a.kept, n_block - 1 - block, n_block); /* the last ones may be idle */
    if (idle) return;
    pack_angles<DIM>(&turns, angles);
    if (packs) pack_fresh<DIM>(a, p.head, slot);
    attend_decode<DIM>(at, p, turns, packs);
    if (!last_block(&a.ticket[p.head], p.n, (uint32_t *)shared_memory())) return;
    const struct cuda_merge merge = {
        at.m, at.l, at.acc, at.n_split, 1, at.n_group, at.cache.n_head, DIM, a.act, NULL, NULL, 1};
    for (int row = warp_id(); row < at.n_group; row += WARPS)
        merge_row(merge, p.head, row, p.row, p.n);
}

KERNEL_OF(attend_one_64, struct cuda_attend_one, CUDA_ATTEND_THREADS, CUDA_ATTEND_BLOCKS(64),
          attend_one<64>)
KERNEL_OF(attend_one_96, struct cuda_attend_one, CUDA_ATTEND_THREADS, CUDA_ATTEND_BLOCKS(96),
          attend_one<96>)
KERNEL_OF(attend_one_128, struct cuda_attend_one, CUDA_ATTEND_THREADS, CUDA_ATTEND_BLOCKS(128),
          attend_one<128>)
