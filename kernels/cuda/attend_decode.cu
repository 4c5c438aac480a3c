/* Decode attention: one to eight query columns (token, group) of a KV head against its 4-bit units
 * (keys of S4), split over the cache. No dequantized data is written to memory.
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
 * RoPE by slot. A unit's slot is p0 + t with p0 the tile's first. The key is rotated by t, from a
 * table of 64 rows in shared memory that serves every tile; the query is rotated once per tile, by
 * its distance to p0. The order of channels inside a dot product is free: step (h, s) of k takes
 * channels 16h + 4t + s + {0, 2} as "re" and their partners dim/2 further as "im", which are
 * exactly two nibbles of two words of a unit, so that a complex product is four operations on whole
 * registers.
 *
 * A key's number is 32 u (d m + n): u is the head's largest scale, m = scale (q - 8) / 32 u, n =
 * mean / 32 u, and the query takes 32 u. A code at bits 4 to 7 of a half is 2^-20 q, a subnormal
 * number, so that two fused multiply-adds make a number, with m's and n's constants in registers.
 *
 * While one tile is computed, cp.async copies the tile after the next.
 *
 * Heads that share a budget differ in length, and a launch lasts as long as its longest block. So
 * all blocks of a launch take pieces of the same number of tiles, and long heads more pieces. */
#include "kernels/cuda/act.cuh"
#include "kernels/cuda/attend.cuh"
#include "kernels/cuda/cache.cuh"

enum { COLS = CUDA_ATTEND_COLS, THREADS = CUDA_ATTEND_THREADS, WARPS = THREADS / 32 };

template <int DIM> struct decode {
    enum {
        STEPS = DIM / 32,   /* groups of 16 pairs; two k-steps each */
        BLOCKS = DIM / 16,  /* of 16 channels of the output */
        /* bytes of a row of re and im pairs; 32 of padding to spread the banks */
        ROW = DIM * 2 + 32,
        RAW = 4 * unit<DIM>::TILE_BYTES, /* two stages of keys and values */
        TABLE = TILE * ROW,
        QUERIES = 2 * COLS * ROW,
        PAIRS = DIM * 2 /* bytes of a number of each channel, as pairs */
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

/* ---- centres --------------------------------------------------------------------------------- */

/* Of pairs (h, s) of lane t, at 2h + s: re, im. */
template <int DIM> struct centre {
    u32x2 scale[DIM / 16], less[DIM / 16], mean[DIM / 16];
};

/* 32 u of a head. */
template <int DIM> DEVICE float centre_span(const float *centre)
{
    float most = 0.0f;

    UNROLL
    for (int i = 0; i < DIM; i += 32) most = max_f32(most, centre[DIM + i + lane_id()]);
    return 32.0f * warp_max(most);
}

/* Pairs of scales over u times 2^15, of means, and of the first key less the mean. */
template <int DIM> DEVICE void fill_centre(char *to, const float *centre, float span)
{
    for (int i = thread_id(); i < 3 * DIM / 2; i += THREADS) {
        const int which = i / (DIM / 2), e = i % (DIM / 2) / 2;
        const float *x = centre + pair_channel(e) + i % 2 * (DIM / 2);
        const float inverse = (which ? 1.0f : 0x1p20f) / span;
        float a = x[0], b = x[2];

        if (which == 0) a = x[DIM], b = x[DIM + 2];
        if (which == 2) a = x[2 * DIM] - a, b = x[2 * DIM + 2] - b;
        ((uint32_t *)to)[i] = h2_pack(a * inverse, b * inverse);
    }
}

template <int DIM> DEVICE void load_centre(struct centre<DIM> *c, const char *from)
{
    const uint32_t eight = 0x80808080u; /* -8 times 2^-20 */

    UNROLL
    for (int i = 0; i < DIM / 16; i++) {
        const char *at = from + pair_offset(i / 2, i % 2, lane_id() % 4);
        c->scale[i] = *(const u32x2 *)at;
        c->less[i] = {h2_mul(c->scale[i].x, eight), h2_mul(c->scale[i].y, eight)};
        c->mean[i] = *(const u32x2 *)(at + decode<DIM>::PAIRS);
    }
}

/* Rows 0 .. 63 of the RoPE table as half2 pairs of cos and sin. */
template <int DIM> DEVICE void fill_table(char *table, const float *cosines, const float *sines)
{
    for (int i = thread_id(); i < TILE * DIM / 4; i += THREADS) {
        const int row = i / (DIM / 4), e = i % (DIM / 4), channel = pair_channel(e);
        const float *c = cosines + row * (DIM / 2) + channel;
        const float *s = sines + row * (DIM / 2) + channel;

        *(u32x2 *)(table + row * decode<DIM>::ROW + e * 8) = {h2_pack(c[0], c[2]),
                                                              h2_pack(s[0], s[2])};
    }
}

/* Column `col`, rotated by its distance to the tile's first slot and scaled to base-2 logits of
 * keys over `span`. A query before the whole tile is masked later and may have any finite value. */
template <int DIM>
DEVICE void rotate_queries(char *out, const struct cuda_attend &a, int head, int pos0, int slot0,
                           float span)
{
    const float scale = a.scale * LOG2E * span;

    for (int i = thread_id(); i < COLS * DIM / 4; i += THREADS) {
        const int col = i / (DIM / 4), e = i % (DIM / 4), token = col / a.n_group;
        const int channel = pair_channel(e);
        u32x2 *to = (u32x2 *)(out + col * decode<DIM>::ROW + e * 8);

        if (token >= a.n_tok) {
            *to = {0, 0};
            continue;
        }
        const int64_t row = (int64_t)max_int(pos0 + token - slot0, 0) * (DIM / 2) + channel;
        const float *q = a.q + token * a.q_stride +
                         (int64_t)(head * a.n_group + col % a.n_group) * DIM + channel;
        float re[2], im[2];
        UNROLL
        for (int k = 0; k < 2; k++) {
            const float c = a.cos[row + 2 * k], s = a.sin[row + 2 * k];
            const float x = q[2 * k], y = q[2 * k + DIM / 2];
            re[k] = (x * c - y * s) * scale;
            im[k] = (y * c + x * s) * scale;
        }
        *to = {h2_pack(re[0], re[1]), h2_pack(im[0], im[1])};
    }
}

/* The pair of step s and half group h of a key, with its constants. */
DEVICE uint32_t key_pair(const uint32_t *key, int h, int s, int t, uint32_t scale, uint32_t less,
                         uint32_t mean)
{
    const uint32_t *block = key + h / 2 * 5;
    const int from = 8 * s + 4 * (h & 1); /* of the code's bits */
    const uint32_t q = from < 4 ? block[1 + t] << (4 - from) : block[1 + t] >> (from - 4);
    const uint32_t d = permute_bytes(block[0], 0, h & 1 ? 0x3232 : 0x1010);

    return h2_fma(h2_fma(q & 0x00f000f0u, scale, less), d, mean);
}

/* Pairs of channels of one key, rotated: step s of group h. */
template <int DIM>
DEVICE void rotated_key(const uint32_t *key, const struct centre<DIM> &c, const char *table, int h,
                        int s, int t, uint32_t *re, uint32_t *im)
{
    const int i = 2 * h + s;
    const uint32_t x = key_pair(key, h, s, t, c.scale[i].x, c.less[i].x, c.mean[i].x);
    const uint32_t y =
        key_pair(key, h + DIM / 32, s, t, c.scale[i].y, c.less[i].y, c.mean[i].y);
    const u32x2 angle = *(const u32x2 *)(table + pair_offset(h, s, t));

    *re = h2_fma(x, angle.x, h2_mul(y ^ 0x80008000u, angle.y));
    *im = h2_fma(y, angle.x, h2_mul(x, angle.y));
}

/* c = base-2 logits of 16 keys (rows g, g + 8) and 8 columns (2t, 2t + 1). */
template <int DIM>
DEVICE void tile_logits(float c[4], const char *keys, const struct centre<DIM> &centre,
                        const char *table, const char *queries)
{
    const int g = lane_id() / 4, t = lane_id() % 4, row = warp_id() * 16 + g;
    const uint32_t *key = (const uint32_t *)keys + row * unit<DIM>::WORDS;
    const uint32_t *key8 = key + 8 * unit<DIM>::WORDS;
    const char *angle = table + row * decode<DIM>::ROW, *angle8 = angle + 8 * decode<DIM>::ROW;

    UNROLL
    for (int h = 0; h < decode<DIM>::STEPS; h++) UNROLL
    for (int s = 0; s < 2; s++) {
        uint32_t k[4];
        rotated_key<DIM>(key, centre, angle, h, s, t, &k[0], &k[2]);
        rotated_key<DIM>(key8, centre, angle8, h, s, t, &k[1], &k[3]);
        const u32x2 q = *(const u32x2 *)(queries + g * decode<DIM>::ROW + pair_offset(h, s, t));
        mma_f16(c, k, q.x, q.y);
    }
}

/* c = logits of row 0 for what the key of position 0, which is not rotated, has beyond the mean. */
template <int DIM> DEVICE void lift_first(float c[4], const char *lift, const char *queries)
{
    const int g = lane_id() / 4, t = lane_id() % 4;

    UNROLL
    for (int i = 0; i < DIM / 16; i++) {
        const int at = pair_offset(i / 2, i % 2, t);
        const u32x2 q = *(const u32x2 *)(queries + g * decode<DIM>::ROW + at);
        const u32x2 x = *(const u32x2 *)(lift + at);
        const uint32_t k[4] = {g ? 0 : x.x, 0, g ? 0 : x.y, 0};
        mma_f16(c, k, q.x, q.y);
    }
}

/* ---- values ---------------------------------------------------------------------------------- */

/* Four values' words and scales of lane (g, t): units 2t, 2t + 1, 2t + 8, 2t + 9 of the warp. */
struct values {
    uint32_t low[2], high[2]; /* halves of the words, of units 2t and 2t + 1, then + 8 */
    uint32_t d[2], m[2];
};

DEVICE void load_values(struct values *v, const uint32_t *rows, int n_words, int block, int word)
{
    UNROLL
    for (int i = 0; i < 2; i++) {
        const uint32_t *a = rows + i * 8 * n_words + block * 5, *b = a + n_words;
        v->low[i] = permute_bytes(a[1 + word], b[1 + word], 0x5410);
        v->high[i] = permute_bytes(a[1 + word], b[1 + word], 0x7632);
        v->d[i] = permute_bytes(a[0], b[0], 0x5410);
        v->m[i] = permute_bytes(a[0], b[0], 0x7632);
    }
}

/* Rows g: byte `byte` of the word's half, low nibble; rows g + 8: the high nibble. */
DEVICE void value_fragment(uint32_t a[4], const struct values *v, const uint32_t half[2], int byte)
{
    UNROLL
    for (int i = 0; i < 2; i++) {
        a[2 * i] = dequantize2(half[i], 8 * byte, v->d[i], v->m[i]);
        a[2 * i + 1] = dequantize2(half[i], 8 * byte + 4, v->d[i], v->m[i]);
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
    const uint32_t *rows = (const uint32_t *)values + (warp_id() * 16 + 2 * t) * unit<DIM>::WORDS;
    struct values v;
    uint32_t a[4];

    UNROLL
    for (int b = 0; b < DIM / 64; b++) {
        load_values(&v, rows, unit<DIM>::WORDS, b * 2 + g / 4, g % 4);
        UNROLL
        for (int j = 0; j < 4; j++) {
            value_fragment(a, &v, j < 2 ? v.low : v.high, j % 2);
            mma_f16(o[b * 4 + j], a, p0, p1);
        }
    }
    if (DIM % 64 == 0) return;
    load_values(&v, rows, unit<DIM>::WORDS, DIM / 64 * 2, g / 2);
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

/* Column c of the tile sees slots up to its own. */
DEVICE void mask_logits(float c[4], const struct cuda_attend &a, int pos0, int slot0)
{
    const int g = lane_id() / 4, t = lane_id() % 4, slot = slot0 + warp_id() * 16 + g;

    UNROLL
    for (int k = 0; k < 2; k++) {
        const int token = (2 * t + k) / a.n_group, last = token < a.n_tok ? pos0 + token : -1;
        if (slot > last) c[k] = -INF;
        if (slot + 8 > last) c[k + 2] = -INF;
    }
}

/* ---- equal work ------------------------------------------------------------------------------ */

/* The tiles of a block. */
struct piece {
    int head;        /* n_head: the block has none */
    int first, last; /* tiles of that head */
    int row, n;      /* number of the head's first piece in the launch; its pieces */
};

DEVICE int pieces_of(const int32_t *len, int head, int n_tok, int size)
{
    return ceil_div(ceil_div(len[head] + n_tok, TILE), size);
}

/* Of all heads. A lane per head. */
DEVICE int all_pieces(const int32_t *len, int n_head, int n_tok, int size)
{
    int n = 0;

    for (int h = lane_id(); h < n_head; h += 32) n += pieces_of(len, h, n_tok, size);
    return warp_sum_int(n);
}

/* The smallest number of tiles with which `most` pieces are enough for all heads, or up to 1/32
 * more; most >= n_head. */
DEVICE int piece_size(const int32_t *len, int n_head, int n_tok, int most)
{
    int size = max_int(ceil_div(all_pieces(len, n_head, n_tok, 1), most), 1);

    while (all_pieces(len, n_head, n_tok, size) > most) size += 1 + size / 32;
    return size;
}

/* Piece number `index` of the launch, or with `head` >= 0 that head's first one. */
DEVICE struct piece find_piece(const int32_t *len, int n_head, int n_tok, int most, int index, int head)
{
    const int size = piece_size(len, n_head, n_tok, most);
    struct piece p = {0, 0, 0, 0, 0};

    for (; p.head < n_head; p.head++) {
        p.n = pieces_of(len, p.head, n_tok, size);
        if (head >= 0 ? p.head == head : index < p.row + p.n) break;
        p.row += p.n;
    }
    p.first = (index - p.row) * size;
    if (p.head < n_head) p.last = min_int(p.first + size, ceil_div(len[p.head] + n_tok, TILE));
    return p;
}

DEVICE struct piece own_piece(const struct cuda_attend &a)
{
    const int n_head = a.cache.n_head;

    return find_piece(a.cache.len, n_head, a.n_tok, a.n_split * n_head,
                      block_y() * a.n_split + block_x(), -1);
}

/* ---- the piece's result ---------------------------------------------------------------------- */

/* Stores the warps' sums in shared memory: m and l [warp][8], acc [warp][8][DIM]. */
template <int DIM> DEVICE void put_warp(float *shared, const struct softmax *s, float o[][4])
{
    const int g = lane_id() / 4, t = lane_id() % 4, w = warp_id();
    float *acc = shared + 2 * WARPS * COLS + w * COLS * DIM;

    UNROLL
    for (int k = 0; k < 2; k++) {
        const float l = column_sum(s->l[k]);
        const int col = 2 * t + k;
        if (g == 0) {
            shared[w * COLS + col] = s->m[k];
            shared[(WARPS + w) * COLS + col] = l;
        }
        UNROLL
        for (int j = 0; j < decode<DIM>::BLOCKS; j++) {
            acc[col * DIM + block_channel<DIM>(j, g)] = o[j][k];
            acc[col * DIM + block_channel<DIM>(j, g) + 16] = o[j][k + 2];
        }
    }
}

template <int DIM>
DEVICE void write_piece(const struct cuda_attend &a, const float *shared)
{
    const int n_col = a.n_tok * a.n_group;
    const int64_t row0 = ((int64_t)block_y() * a.n_split + block_x()) * n_col;

    for (int i = thread_id(); i < n_col * DIM; i += THREADS) {
        const int col = i / DIM, channel = i % DIM;
        float m = -INF, l = 0.0f, acc = 0.0f;
        UNROLL
        for (int w = 0; w < WARPS; w++) m = max_f32(m, shared[w * COLS + col]);
        const float safe = m == -INF ? 0.0f : m;
        UNROLL
        for (int w = 0; w < WARPS; w++) {
            const float share = exp2_fast(shared[w * COLS + col] - safe);
            l += shared[(WARPS + w) * COLS + col] * share;
            acc += shared[2 * WARPS * COLS + (w * COLS + col) * DIM + channel] * share;
        }
        a.acc[(row0 + col) * DIM + channel] = acc;
        if (channel == 0) {
            a.m[row0 + col] = m;
            a.l[row0 + col] = l;
        }
    }
}

/* ---- the kernel ------------------------------------------------------------------------------ */

template <int DIM> DEVICE void attend_decode(const struct cuda_attend &a, const struct piece &p)
{
    enum { TILE_BYTES = unit<DIM>::TILE_BYTES, ROW = decode<DIM>::ROW };
    char *raw = shared_memory(); /* [2 stages][keys, values][TILE_BYTES] */
    char *table = raw + decode<DIM>::RAW, *queries = table + decode<DIM>::TABLE;
    char *constants = queries + decode<DIM>::QUERIES; /* of the centre */
    const int head = p.head, first = p.first, last = p.last;
    const int pos0 = a.cache.len[head], len = pos0 + a.n_tok;
    const int32_t *pages = a.cache.pages + head * a.cache.n_pages;
    const uint8_t *k = a.cache.k, *v = a.cache.v;
    const float *of_head = a.cache.centres + head * 3 * DIM;
    const float span = centre_span<DIM>(of_head);
    struct centre<DIM> centre;
    struct softmax s = {{-INF, -INF}, {0.0f, 0.0f}};
    float o[decode<DIM>::BLOCKS][4] = {}, first_key[4] = {};

    tile_copy(raw, k, unit<DIM>::BYTES, pages, first, len, THREADS);
    tile_copy(raw + TILE_BYTES, v, unit<DIM>::BYTES, pages, first, len, THREADS);
    cp_async_commit();
    fill_table<DIM>(table, a.cos, a.sin);
    fill_centre<DIM>(constants, of_head, span);
    rotate_queries<DIM>(queries, a, head, pos0, first * TILE, span);
    barrier();
    load_centre<DIM>(&centre, constants);
    if (first == 0 && warp_id() == 0 && a.cache.pos[(int64_t)pages[0] * TILE] == 0)
        lift_first<DIM>(first_key, constants + 2 * decode<DIM>::PAIRS, queries);
    for (int tile = first; tile < last; tile++) {
        const int stage = (tile - first) & 1;
        char *now = raw + stage * 2 * TILE_BYTES, *next = raw + (stage ^ 1) * 2 * TILE_BYTES;
        float c[4] = {first_key[0], first_key[1], 0.0f, 0.0f};

        first_key[0] = first_key[1] = 0.0f;
        cp_async_wait<0>();
        barrier(); /* this tile has arrived for all, and the other stage is no longer read */
        if (tile + 1 < last) {
            tile_copy(next, k, unit<DIM>::BYTES, pages, tile + 1, len, THREADS);
            tile_copy(next + TILE_BYTES, v, unit<DIM>::BYTES, pages, tile + 1, len, THREADS);
            rotate_queries<DIM>(queries + (stage ^ 1) * COLS * ROW, a, head, pos0,
                                (tile + 1) * TILE, span);
        }
        cp_async_commit();
        tile_logits<DIM>(c, now, centre, table, queries + stage * COLS * ROW);
        mask_logits(c, a, pos0, tile * TILE);
        softmax_step<DIM>(&s, c, o);
        add_values<DIM>(o, now + TILE_BYTES, movmatrix(h2_pack(c[0], c[1])),
                        movmatrix(h2_pack(c[2], c[3])));
    }
    barrier(); /* the stages are reused for the sums */
    put_warp<DIM>((float *)raw, &s, o);
    barrier();
    write_piece<DIM>(a, (const float *)raw);
}

template <int DIM> DEVICE void decode_piece(const struct cuda_attend &a)
{
    const struct piece p = own_piece(a);

    if (p.head < a.cache.n_head) attend_decode<DIM>(a, p);
}

KERNEL(attend_decode_64, struct cuda_attend, CUDA_ATTEND_THREADS, 2)
{
    decode_piece<64>(a);
}

KERNEL(attend_decode_96, struct cuda_attend, CUDA_ATTEND_THREADS, 2)
{
    decode_piece<96>(a);
}

KERNEL(attend_decode_128, struct cuda_attend, CUDA_ATTEND_THREADS, 2)
{
    decode_piece<128>(a);
}

/* A warp merges n pieces of a row, from row0 on, in order; then quantizes to int8 for the output
 * matrix. A lane takes four channels. Loads of AHEAD pieces are in flight together. */
DEVICE void merge_row(const struct cuda_merge &a, int head, int row, int row0, int n)
{
    enum { AHEAD = 8 };
    const int n_row = a.n_tok * a.n_group, channel = lane_id() * 4, stride = n_row * a.head_dim;
    const int64_t at = (int64_t)row0 * n_row + row;
    const float *m = a.m + at, *l = a.l + at;
    const float *acc = a.acc + at * a.head_dim + channel;
    const bool used = channel < a.head_dim;
    float max = -INF, sum = 0.0f, out[4] = {};

    for (int i = lane_id(); i < n; i += 32) max = max_f32(max, load_fresh(&m[(int64_t)i * n_row]));
    max = warp_max(max);
    const float safe = max == -INF ? 0.0f : max;
    for (int first = 0; first < n; first += AHEAD) {
        float part[AHEAD][4] = {}, weight[AHEAD], length[AHEAD];
        UNROLL
        for (int i = 0; i < AHEAD; i++) {
            const bool there = first + i < n;
            const int64_t piece = first + i;
            weight[i] = there ? load_fresh(&m[piece * n_row]) : -INF;
            length[i] = there ? load_fresh(&l[piece * n_row]) : 0.0f;
            if (there && used) load_four_fresh(part[i], acc + piece * stride);
        }
        UNROLL
        for (int i = 0; i < AHEAD; i++) {
            const float share = exp2_fast(weight[i] - safe);
            sum += length[i] * share;
            UNROLL
            for (int k = 0; k < 4; k++) out[k] += part[i][k] * share;
        }
    }
    const int token = row / a.n_group, query = head * a.n_group + row % a.n_group;
    const int all = a.n_head * a.n_group * a.head_dim, column = query * a.head_dim + channel;
    UNROLL
    for (int k = 0; k < 4; k++) out[k] = sum > 0.0f ? out[k] / sum : 0.0f;
    if (a.transformed) hadamard_four(out);
    UNROLL
    for (int k = 0; k < 4 && a.out && used; k++) a.out[(int64_t)token * all + column + k] = out[k];
    quantize_four(a.act, out, token, used ? column / 32 : all / 32, all / 32);
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

template <int DIM> DEVICE void attend_one(const struct cuda_attend_one &a)
{
    const struct cuda_attend &at = a.at;
    const struct piece p = own_piece(at);

    if (a.kept.x)
        keep_input(a.kept, block_y() * at.n_split + block_x(), at.cache.n_head * at.n_split);
    if (p.head == at.cache.n_head) return;
    const int head = p.head, slot = at.cache.len[head];
    if (p.last == ceil_div(slot + 1, TILE)) { /* this block has the last tile */
        append_unit(at.cache, head, slot, a.k + head * DIM, a.v + head * DIM, *a.pos,
                    a.score ? a.score + head : NULL);
        memory_fence();
        barrier();
    }
    attend_decode<DIM>(at, p);
    if (!last_block(&a.ticket[head], p.n, (uint32_t *)shared_memory())) return;
    const struct cuda_merge merge = {at.m,       at.l,          at.acc, at.n_split, 1,
                                     at.n_group, at.cache.n_head, DIM,    a.act,      NULL,
                                     NULL,       1};
    for (int row = warp_id(); row < at.n_group; row += WARPS) merge_row(merge, head, row, p.row, p.n);
}

KERNEL(attend_one_64, struct cuda_attend_one, CUDA_ATTEND_THREADS, 2)
{
    attend_one<64>(a);
}

KERNEL(attend_one_96, struct cuda_attend_one, CUDA_ATTEND_THREADS, 2)
{
    attend_one<96>(a);
}

KERNEL(attend_one_128, struct cuda_attend_one, CUDA_ATTEND_THREADS, 2)
{
    attend_one<128>(a);
}
