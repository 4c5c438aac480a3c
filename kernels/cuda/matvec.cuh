/* matvec: what a block computes of y = W x for 1 to 8 tokens: 16 rows of a matrix, or 32 of gate and up,
 * and one block after the other (chain.cu).
 *
 * Its 8 warps take turns at a panel's quads of four tiles, 256 columns (gate and up: two warps to a
 * panel). A warp has a sum for each of the four tiles; they are added as (0 + 1) + (2 + 3), then the
 * warps in order. So a token's bits do not depend on the number of tokens.
 *
 * One token would use one of a matrix instruction's eight columns. Instead each of a quad's eight groups
 * has its column: the inputs of the others are zeros there, and all add to the same registers. Lane
 * 4g + t then holds the sums of tile t, and scales these alone: a quarter of the work for every byte.
 * The loads of the next quads are always in flight. */
#ifndef RETAIN_KERNELS_CUDA_MATVEC_CUH
#define RETAIN_KERNELS_CUDA_MATVEC_CUH

#include "kernels/cuda/linear.cuh"

enum {
    WARPS = CUDA_MATVEC_THREADS / 32,
    TOKENS = CUDA_MATVEC_TOKENS,
    QUAD = 4,
    MATVEC_RING = CUDA_MATVEC_RING / WARPS
};

/* The quads of a panel that a warp takes: first, first + step, ... */
template <int FORMAT> struct share {
    struct panel<FORMAT> panel;
    int first, step, n_block; /* n_block 0: there are none */
};

template <int FORMAT>
DEVICE struct share<FORMAT> share_of(const struct cuda_weight &m, int panel, int first, int step)
{
    const int n_block = n_block_of(m.n_in);

    return {panel_of<FORMAT>(m, panel, n_block), first, step, n_block};
}

/* ---- a product ------------------------------------------------------------------------------- */

DEVICE int blocks_of(const struct cuda_matvec &a)
{
    return ceil_div(a.w.n_out, 16);
}

DEVICE int columns_of(const struct cuda_matvec &a)
{
    return a.w.n_in;
}

template <int FORMAT> DEVICE struct share<FORMAT> own_share(const struct cuda_matvec &a, int block)
{
    return share_of<FORMAT>(a.w, block, warp_id(), WARPS);
}

/* From sums of N tokens, [warp][16 rows][N]. */
template <int N> DEVICE void write_block(const struct cuda_matvec &a, const float *sums, int block)
{
    const int row = thread_id() % 16, token = thread_id() / 16, r = block * 16 + row;
    float sum = 0.0f;

    if (token >= a.n_tok || r >= a.w.n_out) return;
    float *to = a.y + token * a.y_stride + r;
    const float before = a.add ? *to : 0.0f, bias = a.bias ? a.bias[r] : 0.0f;
    UNROLL
    for (int w = 0; w < WARPS; w++) sum += sums[(w * 16 + row) * N + token];
    sum = (sum + bias) * a.scale;
    *to = a.add ? before + sum : sum;
}

/* ---- gate and up ----------------------------------------------------------------------------- */

DEVICE int blocks_of(const struct cuda_matvec_gate &a)
{
    return a.gate.n_out / 32;
}

DEVICE int columns_of(const struct cuda_matvec_gate &a)
{
    return a.gate.n_in;
}

/* Warp w takes panel w % 4 (gate, gate, up, up), half of its quads. */
template <int FORMAT>
DEVICE struct share<FORMAT> own_share(const struct cuda_matvec_gate &a, int block)
{
    const int w = warp_id();

    return share_of<FORMAT>(w % 4 < 2 ? a.gate : a.up, block * 2 + w % 2, w / 4, 2);
}

/* A warp per token quantizes 32 rows to a group of int8. */
template <int N>
DEVICE void write_block(const struct cuda_matvec_gate &a, const float *sums, int block)
{
    const int lane = lane_id(), token = warp_id();
    const int64_t row = (int64_t)block * 32 + lane;
    float sum[2] = {};

    if (token >= a.n_tok) return; /* branches by whole warps */
    UNROLL
    for (int k = 0; k < 2; k++) UNROLL
    for (int half = 0; half < 2; half++)
        sum[k] += sums[((half * 4 + k * 2 + lane / 16) * 16 + lane % 16) * N + token];
    if (a.gate_bias) sum[0] += a.gate_bias[row];
    if (a.up_bias) sum[1] += a.up_bias[row];
    quantize_group(a.act, gated(a.f, sum[0], sum[1]), token, block, a.gate.n_out / 32);
}

/* ---- one token: quads in shared memory ------------------------------------------------------- */

/* The next quads of a warp's blocks are being copied to its ring: tiles, then their scales. */
template <int FORMAT> struct ring {
    enum {
        TILES = QUAD * CUDA_TILE_BYTES(FORMAT),
        SCALES = QUAD * CUDA_TILE_SCALE_BYTES(FORMAT),
        BYTES = TILES + SCALES,
        N = MATVEC_RING / BYTES
    };
    char *shared;
    int to, from;      /* quads to be copied, and to be used, next: bytes in the ring */
    const char *q, *d; /* this lane's part of the quad to be copied next */
    int left, block;   /* tiles of its panel from there on */
};

/* To a block's first quad. */
template <int FORMAT> DEVICE void aim(struct ring<FORMAT> *r, const struct share<FORMAT> &s, int block)
{
    const int tile = s.first * QUAD, at = lane_id() * 16;

    r->q = s.panel.q + tile * CUDA_TILE_BYTES(FORMAT) + at;
    r->d = s.panel.d + tile * CUDA_TILE_SCALE_BYTES(FORMAT) + at;
    r->left = s.n_block - tile;
    r->block = block;
}

/* Of the tiles that there are; the scales of others are zeros. */
template <int FORMAT> DEVICE void copy_quad(const struct ring<FORMAT> &r)
{
    const int at = lane_id() * 16;
    char *to = r.shared + r.to + at;

    if (r.left >= QUAD)
        UNROLL
        for (int i = 0; i < ring<FORMAT>::TILES; i += 512) cp_async16(to + i, r.q + i, 16);
    else
        UNROLL
        for (int i = 0; i < ring<FORMAT>::TILES; i += 512)
            if (i + at < r.left * CUDA_TILE_BYTES(FORMAT)) cp_async16(to + i, r.q + i, 16);
    if (at < ring<FORMAT>::SCALES)
        cp_async16(to + ring<FORMAT>::TILES, r.d,
                   at < r.left * CUDA_TILE_SCALE_BYTES(FORMAT) ? 16 : 0);
}

template <int FORMAT> DEVICE int after(int at)
{
    typedef struct ring<FORMAT> ring;

    return at < (ring::N - 1) * ring::BYTES ? at + ring::BYTES : 0;
}

/* The next of blocks up to n. */
template <int FORMAT, class JOB>
DEVICE void copy_next(const JOB &a, struct ring<FORMAT> *r, int n, int step)
{
    if (r->left <= 0 && r->block + step < n)
        aim<FORMAT>(r, own_share<FORMAT>(a, r->block + step), r->block + step);
    if (r->left > 0) {
        const int by = own_share<FORMAT>(a, 0).step;
        copy_quad<FORMAT>(*r);
        r->to = after<FORMAT>(r->to);
        r->q += by * ring<FORMAT>::TILES;
        r->d += by * ring<FORMAT>::SCALES;
        r->left -= by * QUAD;
    }
    cp_async_commit();
}

/* Starts copying the first quads of blocks first, first + step, ... up to n. */
template <int FORMAT, class JOB>
DEVICE struct ring<FORMAT> ring_of(const JOB &a, int first, int n, int step)
{
    struct ring<FORMAT> r = {shared_memory() + CUDA_MATVEC_SUMS + warp_id() * MATVEC_RING, 0, 0,
                             NULL, NULL, 0, first};

    if (first < n) aim<FORMAT>(&r, own_share<FORMAT>(a, first), first);
    warp_sync(); /* the ring was read */
    UNROLL_BY(1)
    for (int i = 1; i < ring<FORMAT>::N; i++) copy_next<FORMAT>(a, &r, n, step);
    return r;
}

/* A lane's part of the inputs of a quad: the column of group g, and the scales of tile t. */
struct column {
    u32x2 q;
    u32x4 scale;
};

/* y[row] += the sums of tile t. */
template <int FORMAT>
DEVICE void add_column(float y[2], const int32_t c[4], const int32_t c2[4], const u32x4 &d,
                       const struct column &x)
{
    struct scales<FORMAT> scales;

    unpack_scales<FORMAT>(&scales, d);
    UNROLL
    for (int group = 0; group < 2; group++) UNROLL
    for (int row = 0; row < 2; row++)
        y[row] = add_group<FORMAT>(y[row], c[row * 2 + group], c2[row * 2 + group], &scales, group,
                                   row, bits_float(group ? x.scale.z : x.scale.x),
                                   bits_float(group ? x.scale.w : x.scale.y));
}

/* y[2] += the next quad of the ring. */
template <int FORMAT>
DEVICE void add_quad(float y[2], const char *quad, const struct column &x)
{
    const int g = lane_id() / 4, t = lane_id() % 4;
    constexpr int32_t START = start_bits<FORMAT>();
    int32_t c[4] = {START, START, START, START}, c2[4] = {START, START, START, START};
    struct weights<FORMAT> w;
    uint32_t a[4];

    UNROLL
    for (int k = 0; k < QUAD; k++) {
        load_quants<FORMAT, false>(&w, quad + k * CUDA_TILE_BYTES(FORMAT));
        UNROLL
        for (int group = 0; group < 2; group++) {
            const bool is_mine = g == 2 * k + group;
            weight_fragment<FORMAT>(a, &w, group);
            multiply_group<FORMAT>(c, c2, a, is_mine ? x.q.x : 0, is_mine ? x.q.y : 0);
        }
    }
    add_column<FORMAT>(
        y, c, c2,
        load_scales<FORMAT>(quad + ring<FORMAT>::TILES + t * CUDA_TILE_SCALE_BYTES(FORMAT)), x);
}

/* y[2], rows g and g + 8 of a block. */
template <int FORMAT, class JOB>
DEVICE void column_sum(float y[2], const JOB &a, struct ring<FORMAT> *r, const struct share<FORMAT> &s,
                       const struct cuda_act &act, int n, int step)
{
    const int g = lane_id() / 4, t = lane_id() % 4, by = s.step * QUAD, tile = s.first * QUAD;
    const u32x2 *q = (const u32x2 *)act.q + (tile + g / 2) * 8 + t * 2 + g % 2;
    const u32x4 *scale = (const u32x4 *)act.scale + tile + t;

    for (int left = s.n_block - tile; left > 0; left -= by, q += by * 8, scale += by) {
        struct column x = {{0, 0}, {0, 0, 0, 0}}; /* beyond the last tile */
        if (g / 2 < left) x.q = load8(q);
        if (t < left) x.scale = load16(scale);
        cp_async_wait<ring<FORMAT>::N - 2>();
        warp_sync(); /* all lanes' copies; and the quad before has been read */
        copy_next<FORMAT>(a, r, n, step);
        add_quad<FORMAT>(y, r->shared + r->from, x);
        r->from = after<FORMAT>(r->from);
    }
    UNROLL
    for (int row = 0; row < 2; row++) y[row] = quad_sum(y[row]);
}

/* ---- up to 8 tokens -------------------------------------------------------------------------- */

DEVICE void load_inputs(struct inputs *x, const struct cuda_act &act, int n_tok, int n_block,
                        int block)
{
    const int g = lane_id() / 4, t = lane_id() % 4;

    x->q = {0, 0, 0, 0};
    if (g < n_tok) x->q = load16((const u32x4 *)act.q + ((int64_t)g * n_block + block) * 4 + t);
    UNROLL
    for (int k = 0; k < 2; k++) {
        x->scale[k] = {0, 0, 0, 0};
        if (2 * t + k < n_tok)
            x->scale[k] = load16((const u32x4 *)act.scale + (int64_t)(2 * t + k) * n_block + block);
    }
}

/* y[4] of this warp, as add_tile has them. */
template <int FORMAT>
DEVICE void panel_sum(float y[4], const struct share<FORMAT> &s, const struct cuda_act &act, int n_tok)
{
    enum { AHEAD = CUDA_TILE_BYTES(FORMAT) > 512 ? 2 : 4 }; /* tiles of which loads are in flight */
    struct weights<FORMAT> w[AHEAD] = {};
    struct fragments<FORMAT> f;
    struct inputs x;
    float sum[QUAD][4] = {};

    UNROLL
    for (int i = 0; i < AHEAD; i++)
        if (s.first * QUAD + i < s.n_block) load_weights<FORMAT>(&w[i], s.panel, s.first * QUAD + i);
    for (int quad = s.first; quad * QUAD < s.n_block; quad += s.step)
        UNROLL
        for (int i = 0; i < QUAD; i++) {
            const int tile = quad * QUAD + i, k = i + AHEAD;
            const int then = (quad + k / QUAD * s.step) * QUAD + k % QUAD;
            if (tile < s.n_block) {
                load_inputs(&x, act, n_tok, s.n_block, tile);
                unpack<FORMAT>(&f, &w[i % AHEAD]);
                if (then < s.n_block) load_weights<FORMAT>(&w[i % AHEAD], s.panel, then);
                add_tile<FORMAT>(sum[i], &f, &x);
            }
        }
    UNROLL
    for (int r = 0; r < 4; r++) y[r] = (sum[0][r] + sum[1][r]) + (sum[2][r] + sum[3][r]);
}

/* ---- blocks ---------------------------------------------------------------------------------- */

/* One token's input, computed in shared memory after the sums if it is not ready. */
DEVICE struct cuda_act input_of(const struct cuda_act &ready, const struct cuda_input &made,
                                float norm[NORM_HELD][4], int n_in)
{
    char *shared = shared_memory() + CUDA_MATVEC_SHARED;
    const struct cuda_act act = {(int8_t *)shared,
                                 (struct cuda_scale *)(shared + n_block_of(n_in) * CUDA_BLOCK)};

    if (!made.x) return ready;
    norm_token(made.x, made.w, norm, n_in, made.eps, act, 0, NULL, (float *)shared_memory());
    barrier();
    return act;
}

/* One token: blocks first, first + step, ... of a job, whose first quads are being copied; norm: as in
 * norm_token. Only warp 0 writes, while the others go on: the sums have two places. */
template <int FORMAT, class JOB>
DEVICE void compute_blocks(const JOB &a, struct ring<FORMAT> *r, float norm[NORM_HELD][4], int first,
                           int step)
{
    const int n = blocks_of(a), g = lane_id() / 4, t = lane_id() % 4;
    const struct cuda_act x = input_of(a.x, a.made, norm, columns_of(a));

    for (int block = first, odd = 0; block < n; block += step, odd ^= 1) {
        float y[2] = {}, *to = (float *)shared_memory() + odd * WARPS * 16;
        column_sum<FORMAT>(y, a, r, own_share<FORMAT>(a, block), x, n, step);
        if (t == 0) to[warp_id() * 16 + g] = y[0];
        if (t == 0) to[warp_id() * 16 + g + 8] = y[1];
        barrier();
        write_block<1>(a, to, block);
    }
}

template <int FORMAT, class JOB> DEVICE void compute_few(const JOB &a, const struct share<FORMAT> &s)
{
    float *sums = (float *)shared_memory(), y[4];
    const int g = lane_id() / 4, t = lane_id() % 4;

    panel_sum<FORMAT>(y, s, a.x, a.n_tok);
    UNROLL
    for (int r = 0; r < 4; r++) sums[(warp_id() * 16 + g + r / 2 * 8) * TOKENS + 2 * t + r % 2] = y[r];
    barrier();
    write_block<TOKENS>(a, sums, block_x());
}

template <int FORMAT, class JOB> DEVICE void compute_one(const JOB &a)
{
    const int n = blocks_of(a);

    if (a.n_tok > 1) {
        compute_few<FORMAT>(a, own_share<FORMAT>(a, block_x()));
    } else {
        struct ring<FORMAT> r = ring_of<FORMAT>(a, block_x(), n, n);
        float norm[NORM_HELD][4];
        load_columns(norm, a.made.w, 0, columns_of(a));
        compute_blocks<FORMAT>(a, &r, norm, block_x(), n);
    }
}

#endif
