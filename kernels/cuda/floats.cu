/* floats: y = W x with weights of 32 or 16 bits, and rows of such matrices. Inputs are floats and
 * sums are in float, as on the CPU. A few tokens: a warp per row, bound by the weights' bytes. A
 * chunk: tiles of 128 rows x 128 tokens on tensor cores, eight warps of 64 x 32. */
#include "kernels/cuda/floats.cuh"

enum {
    THREADS = CUDA_FLOATS_THREADS,
    WARPS = THREADS / 32,
    TOKENS = CUDA_MATVEC_TOKENS,
    TILE = CUDA_FLOATS_TILE,
    DEPTH = CUDA_FLOATS_DEPTH,
};

DEVICE void put_sum(const struct cuda_floats &a, int row, int token, float sum)
{
    float *to = a.y + token * a.y_stride + row;
    const float y = (sum + (a.bias ? a.bias[row] : 0.0f)) * a.scale;
    *to = a.add ? *to + y : y;
}

/* ---- a few tokens ---------------------------------------------------------------------------- */

template <int TYPE> DEVICE void matvec(const struct cuda_floats &a)
{
    const int row = block_x() * WARPS + warp_id();
    float sum[TOKENS] = {};

    if (row >= a.n_out) return;
    for (int c = lane_id() * 8; c < a.n_in; c += 256) {
        float w[8], x[8];
        load_weights8<TYPE>(w, a.w, (int64_t)row * a.n_in + c);
        UNROLL
        for (int t = 0; t < TOKENS; t++) {
            if (t >= a.n_tok) break;
            load_floats8(x, a.x + t * a.x_stride + c);
            UNROLL
            for (int i = 0; i < 8; i++) sum[t] = fma_f32(w[i], x[i], sum[t]);
        }
    }
    UNROLL
    for (int t = 0; t < TOKENS; t++) {
        if (t >= a.n_tok) break;
        const float all = warp_sum(sum[t]);
        if (lane_id() == 0) put_sum(a, row, t, all);
    }
}

KERNEL_OF(matvec_f32, struct cuda_floats, CUDA_FLOATS_THREADS, 2, matvec<F32>)
KERNEL_OF(matvec_f16, struct cuda_floats, CUDA_FLOATS_THREADS, 2, matvec<F16>)
KERNEL_OF(matvec_bf16, struct cuda_floats, CUDA_FLOATS_THREADS, 2, matvec<BF16>)

/* ---- chunks ---------------------------------------------------------------------------------- */

/* Tensor cores multiply numbers of 16 bits, so a float becomes a sum of them. With f16 weights it is
 * two halves of x / 16 (22 bits of x, from 2^-21 to 2^20), with bf16 weights two bfloat16 (16 bits),
 * with f32 weights, which routers have, three (24 bits). Weights of 16 bits are exact. */
template <int TYPE> struct parts {
    enum { INPUTS = TYPE == F32 ? 3 : 2, WEIGHTS = TYPE == F32 ? 3 : 1 };
};

/* Two floats as words of two parts. */
template <int TYPE> DEVICE void split(uint32_t part[], u32x2 x)
{
    float rest[2] = {bits_float(x.x), bits_float(x.y)};

    if (TYPE == F16) {
        UNROLL
        for (int i = 0; i < 2; i++)
            rest[i] = max_f32(min_f32(rest[i] * 0.0625f, 65504.0f), -65504.0f);
        part[0] = h2_pack(rest[0], rest[1]);
        part[1] = h2_pack(rest[0] - half_float((uint16_t)part[0]),
                          rest[1] - half_float((uint16_t)(part[0] >> 16)));
    }
    UNROLL
    for (int k = 0; k < parts<TYPE>::INPUTS && TYPE != F16; k++) { /* the last is rounded */
        uint32_t bits[2];
        UNROLL
        for (int i = 0; i < 2; i++) {
            bits[i] = float_bits(rest[i]) + (k + 1 < parts<TYPE>::INPUTS ? 0 : 0x8000u);
            rest[i] -= bits_float(bits[i] & 0xffff0000u);
        }
        part[k] = permute_bytes(bits[0], bits[1], 0x7632);
    }
}

/* Rows of a stage in shared memory: DEPTH numbers of SIZE bytes and padding that spreads the banks. */
template <int SIZE> struct rows {
    enum { BYTES = DEPTH * SIZE + 8 * SIZE, LANES = DEPTH * SIZE / 16 };
};

/* Starts copying columns from c0 on of TILE rows; rows and columns past the last become zero. */
template <int SIZE>
DEVICE void copy_rows(char *to, const char *from, int64_t stride, int n_row, int c0, int n_col)
{
    enum { LANES = rows<SIZE>::LANES, STEP = THREADS / LANES };
    const int lane = thread_id() % LANES, row = thread_id() / LANES, c = c0 + lane * (16 / SIZE);

    UNROLL
    for (int i = 0; i < TILE; i += STEP) {
        const bool here = row + i < n_row && c < n_col;
        cp_async16(to + (row + i) * rows<SIZE>::BYTES + lane * 16,
                   here ? from + ((row + i) * stride + c) * SIZE : from, here ? 16 : 0);
    }
}

/* A step: TILE rows of weights and TILE tokens; nothing from the last column on. */
template <int TYPE>
DEVICE void copy_columns(char *stage, const struct cuda_floats &a, int row0, int token0, int c)
{
    enum { SIZE = TYPE == F32 ? 4 : 2 };

    if (c >= a.n_in) return;
    copy_rows<SIZE>(stage, (const char *)a.w + (int64_t)row0 * a.n_in * SIZE, a.n_in,
                    a.n_out - row0, c, a.n_in);
    copy_rows<4>(stage + TILE * rows<SIZE>::BYTES, (const char *)(a.x + token0 * a.x_stride),
                 a.x_stride, a.n_tok - token0, c, a.n_in);
}

/* Word i of all parts of a fragment's 8 rows x 16 columns of floats. */
template <int TYPE> DEVICE void split_pair(uint32_t part[], const char *floats, int i)
{
    const char *at = floats + lane_id() / 4 * rows<4>::BYTES + lane_id() % 4 * 8;

    split<TYPE>(part, load8((const u32x2 *)(at + i * 32)));
}

/* 16 rows x 16 columns of weights as a fragment, or three. */
template <int TYPE> DEVICE void weight_parts(uint32_t w[][4], const char *at)
{
    if (TYPE != F32)
        ldmatrix(w[0], at + lane_id() % 16 * rows<2>::BYTES + lane_id() / 16 * 16);
    UNROLL
    for (int i = 0; i < 4 && TYPE == F32; i++) {
        uint32_t part[parts<F32>::WEIGHTS];
        split_pair<F32>(part, at + i % 2 * 8 * rows<4>::BYTES, i / 2);
        UNROLL
        for (int k = 0; k < parts<TYPE>::WEIGHTS; k++) w[k][i] = part[k];
    }
}

typedef float tile_sum[4][4][4]; /* [16 rows][8 tokens] of a warp's 64 x 32 */

/* sum += w x of 16 columns. */
template <int TYPE> DEVICE void add_columns(tile_sum sum, const char *w, const char *x)
{
    enum { INPUTS = parts<TYPE>::INPUTS, WEIGHTS = parts<TYPE>::WEIGHTS };
    uint32_t a[WEIGHTS][4], b[4][2][INPUTS]; /* b: [8 tokens] */

    UNROLL
    for (int j = 0; j < 4; j++) UNROLL
    for (int i = 0; i < 2; i++) split_pair<TYPE>(b[j][i], x + j * 8 * rows<4>::BYTES, i);
    UNROLL
    for (int p = 0; p < 4; p++) {
        weight_parts<TYPE>(a, w + p * 16 * rows<TYPE == F32 ? 4 : 2>::BYTES);
        UNROLL
        for (int k = 0; k < WEIGHTS; k++) UNROLL
        for (int i = 0; i + k < INPUTS; i++) UNROLL /* the other products vanish */
        for (int j = 0; j < 4; j++)
            if (TYPE == F16)
                mma_f16(sum[p][j], a[k], b[j][0][i], b[j][1][i]);
            else
                mma_bf16(sum[p][j], a[k], b[j][0][i], b[j][1][i]);
    }
}

template <int TYPE> DEVICE void matmul(const struct cuda_floats &a)
{
    enum {
        STAGES = TYPE == F32 ? 2 : CUDA_FLOATS_STAGES,
        SIZE = TYPE == F32 ? 4 : 2,
        W_ROW = rows<SIZE>::BYTES,
        X_ROW = rows<4>::BYTES,
        STAGE = TILE * (W_ROW + X_ROW)
    };
    const struct area at = area_of(a.n_out, TILE, a.n_tok, TILE, 8);
    const int row0 = at.row0, token0 = at.token0;
    const int warp_row = warp_id() % 2 * 64, warp_token = warp_id() / 2 * 32;
    char *shared = shared_memory();
    tile_sum sum = {};
    int stage = 0, filled = STAGES - 1; /* read and written next */

    for (int s = 0; s < STAGES - 1; s++) {
        copy_columns<TYPE>(shared + s * STAGE, a, row0, token0, s * DEPTH);
        cp_async_commit();
    }
    for (int c = 0; c < a.n_in; c += DEPTH) {
        const char *now = shared + stage * STAGE;
        cp_async_wait<STAGES - 2>();
        barrier(); /* this stage has arrived for all, and the previous one is no longer read */
        copy_columns<TYPE>(shared + filled * STAGE, a, row0, token0, c + (STAGES - 1) * DEPTH);
        cp_async_commit();
        UNROLL_BY(1) /* registers */
        for (int k = 0; k < DEPTH; k += 16)
            add_columns<TYPE>(sum, now + warp_row * W_ROW + k * SIZE,
                              now + TILE * W_ROW + warp_token * X_ROW + k * 4);
        filled = stage;
        stage = stage + 1 < STAGES ? stage + 1 : 0;
    }
    UNROLL
    for (int p = 0; p < 4; p++) UNROLL
    for (int j = 0; j < 4; j++) UNROLL
    for (int r = 0; r < 4; r++) {
        const int row = row0 + warp_row + p * 16 + lane_id() / 4 + r / 2 * 8;
        const int token = token0 + warp_token + j * 8 + lane_id() % 4 * 2 + r % 2;
        if (row < a.n_out && token < a.n_tok)
            put_sum(a, row, token, TYPE == F16 ? sum[p][j][r] * 16.0f : sum[p][j][r]);
    }
}

KERNEL_OF(matmul_f32, struct cuda_floats, CUDA_FLOATS_THREADS, 1, matmul<F32>)
KERNEL_OF(matmul_f16, struct cuda_floats, CUDA_FLOATS_THREADS, 2, matmul<F16>)
KERNEL_OF(matmul_bf16, struct cuda_floats, CUDA_FLOATS_THREADS, 2, matmul<BF16>)

/* ---- rows ------------------------------------------------------------------------------------ */

template <int TYPE> DEVICE void embed(const struct cuda_embed &a)
{
    const int64_t row = (int64_t)a.ids[block_x()] * a.w.n_in;
    float x[8];

    for (int c = thread_id() * 8; c < a.w.n_in; c += 128 * 8) {
        load_weights8<TYPE>(x, a.w.q, row + c);
        UNROLL
        for (int i = 0; i < 8; i++) a.x[(int64_t)block_x() * a.w.n_in + c + i] = x[i] * a.scale;
    }
}

KERNEL_OF(embed_f32, struct cuda_embed, 128, 1, embed<F32>)
KERNEL_OF(embed_f16, struct cuda_embed, 128, 1, embed<F16>)
KERNEL_OF(embed_bf16, struct cuda_embed, 128, 1, embed<BF16>)
