/* Experts: the router's choice, the rows of each expert side by side, and products of these rows
 * with the expert's matrix, so that a token reads only the experts it is routed to and a chunk reads
 * each expert's weights once for up to 64 of its rows. */
#include "kernels/cuda/floats.cuh"
#include "kernels/cuda/linear.cuh"

enum { THREADS = CUDA_EXPERT_THREADS, WARPS = THREADS / 32, AHEAD = 4 };

/* ---- choosing -------------------------------------------------------------------------------- */

/* The first of the largest of n numbers, of a warp; numbers that are not comparable count as
 * small. */
DEVICE int warp_largest(const float *v, int n)
{
    struct best b = {-INF, n};

    for (int i = lane_id(); i < n; i += 32) b = better(b, {v[i], i});
    b = warp_best(b);
    return b.i < n ? b.i : 0;
}

DEVICE float warp_all_sum(const float *v, int n)
{
    float sum = 0.0f;

    for (int i = lane_id(); i < n; i += 32) sum += v[i];
    return warp_sum(sum);
}

/* Logits to the numbers s of struct model_experts. */
DEVICE void gate_logits(const struct cuda_choose &a, const float *logits, float *s)
{
    float max = -INF;

    for (int i = lane_id(); i < a.n; i += 32) max = max_f32(max, logits[i]);
    max = warp_max(max);
    for (int i = lane_id(); i < a.n; i += 32)
        s[i] = a.sigmoid ? 1.0f / (1.0f + exp_of(-logits[i])) : exp_of(logits[i] - max);
    warp_sync();
    if (a.sigmoid) return;
    const float sum = warp_all_sum(s, a.n);
    for (int i = lane_id(); i < a.n; i += 32) s[i] /= sum;
    warp_sync();
}

/* Leaves only the experts of the best groups: a lane has whole groups; a group's worth is the sum of
 * its two largest numbers, of probabilities the largest. */
DEVICE void close_groups(const struct cuda_choose &a, float *v, float *worth)
{
    const int size = a.n / a.n_groups;

    for (int g = lane_id(); g < a.n_groups; g += 32) {
        float first = -INF, second = -INF;
        for (int i = g * size; i < (g + 1) * size; i++) {
            second = v[i] > first ? first : v[i] > second ? v[i] : second;
            first = v[i] > first ? v[i] : first;
        }
        worth[g] = a.sigmoid ? first + second : first;
    }
    warp_sync();
    for (int k = 0; k < a.n_groups_used; k++) {
        const int g = warp_largest(worth, a.n_groups);
        warp_sync();
        if (lane_id() == 0) worth[g] = bits_float(0x7fc00000u); /* used: not comparable */
        warp_sync();
    }
    for (int i = lane_id(); i < a.n; i += 32)
        if (worth[i / size] == worth[i / size]) v[i] = -INF;
    warp_sync();
}

KERNEL(experts_choose, struct cuda_choose, 32, 1)
{
    float *s = (float *)shared_memory(), *v = s + a.n, *worth = v + a.n, sum = 0.0f;
    const int64_t token = block_x();
    int32_t *chosen = a.chosen + token * a.n_used;
    float *weight = a.weight + token * a.n_used, logit = 0.0f;

    gate_logits(a, a.logits + token * a.n, s);
    for (int i = lane_id(); i < a.n; i += 32) v[i] = a.choice_bias ? s[i] + a.choice_bias[i] : s[i];
    warp_sync();
    if (a.n_groups > 1) close_groups(a, v, worth);
    for (int k = 0; k < a.n_used; k++) {
        const int e = warp_largest(v, a.n);
        warp_sync();
        sum += s[e];
        if (lane_id() == 0) chosen[k] = e, weight[k] = s[e], v[e] = bits_float(0x7fc00000u);
        warp_sync();
    }
    const float scale = a.normalized ? a.scale / (sum + 1e-20f) : a.scale;
    for (int k = lane_id(); k < a.n_used; k += 32)
        weight[k] = s[chosen[k]] * scale * (a.weight_scale ? a.weight_scale[chosen[k]] : 1.0f);
    for (int i = lane_id(); a.shared_gate && i < a.n_embd; i += 32)
        logit = fma_f32(a.x[token * a.n_embd + i], a.shared_gate[i], logit);
    logit = warp_sum(logit);
    if (lane_id() == 0) a.shared[token] = a.shared_gate ? 1.0f / (1.0f + exp_of(-logit)) : 1.0f;
}

/* The order of an expert's rows does not matter: each row has its own sums. */
KERNEL(experts_sort, struct cuda_sort, 256, 1)
{
    uint32_t *first = (uint32_t *)shared_memory(); /* [n + 1] */

    for (int e = thread_id(); e <= a.n; e += 256) first[e] = 0;
    barrier();
    for (int i = thread_id(); i < a.n_choice; i += 256) atomic_add(&first[a.chosen[i]], 1);
    barrier();
    if (thread_id() == 0) {
        int n_tiles = 0;
        uint32_t row = 0;
        for (int e = 0; e < a.n; e++) {
            const uint32_t n = first[e];
            for (uint32_t r = 0; r < n; r += (uint32_t)a.tile)
                a.tiles[n_tiles++] = {e, (int32_t)(row + r), min_int((int)(n - r), a.tile)};
            first[e] = row;
            row += n;
        }
        *a.n_tiles = n_tiles;
    }
    barrier();
    for (int i = thread_id(); i < a.n_choice; i += 256) {
        const int32_t row = (int32_t)atomic_next(&first[a.chosen[i]]);
        a.place[i] = row;
        a.from[row] = i / a.n_used;
    }
}

/* ---- products -------------------------------------------------------------------------------- */

/* Rows of one matrix: first, first + step and so on; n 0: none. */
struct tile {
    int expert, first, n, step;
};

/* The block's tile, of up to `size` rows. */
DEVICE struct tile own_tile(const struct cuda_expert &a, int size)
{
    if (a.tiles) {
        if (block_y() >= *a.n_tiles) return {0, 0, 0, 1};
        const struct cuda_expert_rows t = a.tiles[block_y()];
        return {t.expert, t.first, t.n, 1};
    }
    const int per = ceil_div(a.n_tok, size), head = block_y() / per, token = block_y() % per * size;
    return {head, token * a.n_head + head, min_int(a.n_tok - token, size), a.n_head};
}

DEVICE int64_t source_of(const struct cuda_expert &a, const struct tile &t, int i)
{
    return a.from ? a.from[t.first + i] : t.first + i * t.step;
}

/* Inputs of eight rows of a tile, from row i on; rows past the last are zero. */
DEVICE void load_rows(struct inputs *x, const struct cuda_expert &a, const struct tile &t, int i,
                      int n_block, int block)
{
    const int g = i + lane_id() / 4, c = i + 2 * (lane_id() % 4);

    x->q = {0, 0, 0, 0};
    if (g < t.n)
        x->q = load16((const u32x4 *)a.act.q + (source_of(a, t, g) * n_block + block) * 4 +
                      lane_id() % 4);
    UNROLL
    for (int k = 0; k < 2; k++) {
        x->scale[k] = {0, 0, 0, 0};
        if (c + k < t.n)
            x->scale[k] = load16((const u32x4 *)a.act.scale + source_of(a, t, c + k) * n_block + block);
    }
}

DEVICE void put_row(const struct cuda_expert &a, const struct tile &t, int i, int row, float sum)
{
    const float bias = a.bias ? a.bias[(int64_t)t.expert * a.n_out + row] : 0.0f;
    a.y[(int64_t)(t.first + i * t.step) * a.n_out + row] = sum + bias;
}

/* A block computes 16 rows of the matrix; a warp takes every fourth tile of 64 columns. */
template <int FORMAT> DEVICE void few(const struct cuda_expert &a)
{
    float *shared = (float *)shared_memory(), y[4] = {};
    const int n_block = n_block_of(a.w.n_in), g = lane_id() / 4, t = lane_id() % 4;
    struct weights<FORMAT> w[AHEAD];
    struct fragments<FORMAT> f;
    struct inputs x;

    const struct tile tile = own_tile(a, CUDA_EXPERT_FEW);
    if (!tile.n) return;
    const struct panel<FORMAT> panel =
        panel_of<FORMAT>(a.w, tile.expert * (a.n_out / 16) + block_x(), n_block);
    for (int block = warp_id(); block < n_block; block += WARPS * AHEAD) {
        UNROLL
        for (int i = 0; i < AHEAD; i++)
            if (block + i * WARPS < n_block)
                load_weights<FORMAT>(&w[i], panel, block + i * WARPS);
        UNROLL
        for (int i = 0; i < AHEAD; i++)
            if (block + i * WARPS < n_block) {
                load_rows(&x, a, tile, 0, n_block, block + i * WARPS);
                unpack<FORMAT>(&f, &w[i]);
                add_tile<FORMAT>(y, &f, &x);
            }
    }
    UNROLL
    for (int r = 0; r < 4; r++)
        shared[(warp_id() * 16 + g + r / 2 * 8) * CUDA_EXPERT_FEW + 2 * t + r % 2] = y[r];
    barrier();
    const int row = thread_id() % 16, i = thread_id() / 16;
    if (i >= tile.n) return;
    float sum = 0.0f;
    UNROLL
    for (int k = 0; k < WARPS; k++) sum += shared[(k * 16 + row) * CUDA_EXPERT_FEW + i];
    put_row(a, tile, i, block_x() * 16 + row, sum);
}

/* A warp computes 16 rows of the matrix for up to 64 rows of inputs, which stay in L1. */
template <int FORMAT> DEVICE void many(const struct cuda_expert &a)
{
    enum { COLS = CUDA_EXPERT_MANY / 8 };
    const int n_block = n_block_of(a.w.n_in), g = lane_id() / 4, t = lane_id() % 4;
    const int own = block_x() * WARPS + warp_id();
    float y[COLS][4] = {};
    struct weights<FORMAT> next;
    struct fragments<FORMAT> w;
    struct inputs x;

    const struct tile tile = own_tile(a, CUDA_EXPERT_MANY);
    if (!tile.n || own * 16 >= a.n_out) return;
    struct panel<FORMAT> panel =
        panel_of<FORMAT>(a.w, tile.expert * (a.n_out / 16) + own, n_block);
    load_next<FORMAT>(&next, &panel);
    for (int block = 0; block < n_block; block++) {
        unpack<FORMAT>(&w, &next);
        if (block + 1 < n_block) load_next<FORMAT>(&next, &panel);
        UNROLL
        for (int col = 0; col < COLS; col++) {
            if (col * 8 >= tile.n) break; /* the whole warp */
            load_rows(&x, a, tile, col * 8, n_block, block);
            add_tile<FORMAT>(y[col], &w, &x);
        }
    }
    UNROLL
    for (int col = 0; col < COLS; col++) UNROLL
    for (int r = 0; r < 4; r++) {
        const int i = col * 8 + 2 * t + r % 2;
        if (i < tile.n) put_row(a, tile, i, own * 16 + g + r / 2 * 8, y[col][r]);
    }
}

/* A warp per row of the matrix. */
template <int TYPE> DEVICE void of_floats(const struct cuda_expert &a)
{
    const int row = block_x() * WARPS + warp_id();

    const struct tile tile = own_tile(a, CUDA_EXPERT_MANY);
    if (!tile.n || row >= a.n_out) return;
    const int64_t at = ((int64_t)tile.expert * a.n_out + row) * a.w.n_in;
    for (int i = 0; i < tile.n; i++) {
        const float *x = a.x + source_of(a, tile, i) * a.w.n_in;
        float sum = 0.0f;
        for (int c = lane_id() * 8; c < a.w.n_in; c += 256) {
            float w[8], v[8];
            load_weights8<TYPE>(w, a.w.q, at + c);
            load_floats8(v, x + c);
            UNROLL
            for (int k = 0; k < 8; k++) sum = fma_f32(w[k], v[k], sum);
        }
        sum = warp_sum(sum);
        if (lane_id() == 0) put_row(a, tile, i, row, sum);
    }
}

KERNEL_OF(experts_f32, struct cuda_expert, CUDA_EXPERT_THREADS, 2, of_floats<F32>)
KERNEL_OF(experts_f16, struct cuda_expert, CUDA_EXPERT_THREADS, 2, of_floats<F16>)
KERNEL_OF(experts_bf16, struct cuda_expert, CUDA_EXPERT_THREADS, 2, of_floats<BF16>)

#define EXPERTS(name, format)                                                                      \
    KERNEL_OF(experts_few_##name, struct cuda_expert, CUDA_EXPERT_THREADS, 2, few<format>)         \
    KERNEL_OF(experts_many_##name, struct cuda_expert, CUDA_EXPERT_THREADS, 2, many<format>)

EXPERTS(q4, CUDA_Q4)
EXPERTS(q8, CUDA_Q8)
EXPERTS(q4a, CUDA_Q4A)
EXPERTS(q5a, CUDA_Q5A)
EXPERTS(q6, CUDA_Q6)
EXPERTS(mx4, CUDA_MX4)

/* ---- the sum --------------------------------------------------------------------------------- */

KERNEL(experts_combine, struct cuda_combine, 256, 1)
{
    const int64_t token = block_x();
    const int32_t *place = a.place + token * a.n_used;
    const float *weight = a.weight + token * a.n_used;

    for (int i = thread_id(); i < a.n; i += 256) {
        float sum = a.base ? a.shared[token] * a.base[token * a.n + i] : 0.0f;
        for (int k = 0; k < a.n_used; k++) sum += weight[k] * a.rows[(int64_t)place[k] * a.n + i];
        float *y = a.y + token * a.n + i;
        *y = a.add ? *y + a.scale * sum : a.scale * sum;
    }
}
