/* Attention of the layers that attend_decode and attend_chunk are not made for: other head sizes,
 * windows, capped logits.
 *
 * A block of four warps takes 32 rows (token, group) of a KV head, or 16 of large heads. Per tile
 * of 64 slots:
 *
 *   keys to fp16 in shared memory, rotated; warp w computes S = Q K^T of 16 keys for all rows
 *   the four warps' maxima meet; weights P go to shared memory as fp16
 *   values to fp16 in the place of the keys, unless they are the keys; warp w adds P V to a
 *   quarter of the channels
 *
 * So registers hold a quarter of the output's channels, and heads of 512 numbers fit. Where shared
 * memory has room for a tile's units as well, cp.async copies the next tile's keys while this one's
 * values are used, and the reverse: one load after the other would take most of the time. A thread
 * converts the same channels of every few slots, so one rotation takes its angles from a slot to
 * the next one; each tile begins with angles of the table. */
#include "kernels/cuda/cache.cuh"

enum { THREADS = CUDA_ATTEND_THREADS, WARPS = THREADS / 32, P_ROW = TILE * 2 + 16 };

template <int MAX> struct shape {
    enum {
        ROWS = CUDA_ANY_ROWS(MAX),
        BLOCKS = ROWS / 16,             /* of 16 rows */
        PAIRS = (MAX / 16 + 3) / WARPS, /* of 16 channels, per warp */
        HALF = MAX > 512 ? 512 : MAX / 2, /* of a key, for its shares */
    };
};

/* A thread's part of a tile with rows of up to N numbers: numbers c .. c + 3 of rows `row`, row +
 * STEP and so on, BATCH of them together. */
template <int N> struct share {
    enum { STEP = THREADS * 4 / N, BATCH = 4 };
    int row, c;
};

template <int N> DEVICE struct share<N> own_share()
{
    return {thread_id() / (N / 4), thread_id() % (N / 4) * 4};
}

/* The parts of shared memory, and the work of a block. */
struct work {
    char *queries, *units, *weights; /* [ROWS][row], [TILE][row], [ROWS][P_ROW] */
    float *meet;                     /* [WARPS][ROWS] */
    char *keys, *values;             /* a tile's units as in the cache; NULL: read them there */
    int dim, row;                    /* numbers of a head; bytes of an fp16 row */
    int head, pos0, row0, n_row;     /* of the block's first row */
    int n_block;                     /* of 16 rows, that have a row */
    int base, end; /* rotations count from slot base; the block sees slots below end */
};

/* Bytes of an fp16 row; 16 of padding to spread the banks. */
DEVICE int row_bytes(int dim)
{
    return dim * 2 + 16;
}

/* The first slot that a token sees. */
DEVICE int first_slot(const struct cuda_attend_any &a, int slot)
{
    return a.window ? max_int(slot - a.window + 1, 0) : 0;
}

/* ---- to fp16 --------------------------------------------------------------------------------- */

/* Numbers c .. c + 3 of a row's query, its partners, rotated and scaled. */
DEVICE void put_rotated(char *to, const float x[4], const float y[4], const float *cosines,
                        const float *sines, float scale, int half)
{
    float re[4], im[4];

    UNROLL
    for (int k = 0; k < 4; k++) {
        re[k] = fma_f32(x[k], cosines[k], -y[k] * sines[k]) * scale;
        im[k] = fma_f32(y[k], cosines[k], x[k] * sines[k]) * scale;
    }
    *(u32x2 *)to = {h2_pack(re[0], re[1]), h2_pack(re[2], re[3])};
    *(u32x2 *)(to + half * 2) = {h2_pack(im[0], im[1]), h2_pack(im[2], im[3])};
}

/* Rows past the last one are zero. */
template <int MAX> DEVICE void put_queries(const struct cuda_attend_any &a, const struct work &w)
{
    const int half = w.dim / 2, n = half / 4;
    const float scale = a.softcap > 0.0f ? a.at.scale / a.softcap : a.at.scale * LOG2E;

    for (int i = thread_id(); i < shape<MAX>::ROWS * n; i += THREADS) {
        const int r = w.row0 + i / n, c = i % n * 4, token = r / a.at.n_group;
        float x[4] = {}, y[4] = {}, cosine[4] = {}, sine[4] = {};

        if (r < w.n_row) {
            const float *q = a.at.q + token * a.at.q_stride +
                             (int64_t)(w.head * a.at.n_group + r % a.at.n_group) * w.dim + c;
            const int64_t angle = (int64_t)(w.pos0 + token - w.base) * half + c;
            load_four(x, q);
            load_four(y, q + half);
            load_four(cosine, a.at.cos + angle);
            load_four(sine, a.at.sin + angle);
        }
        put_rotated(w.queries + i / n * w.row + c * 2, x, y, cosine, sine, scale, half);
    }
}

/* A thread's constants of keys: the channels c .. c + 3 and their partners. */
template <int MAX> struct key_part {
    struct share<shape<MAX>::HALF> own;
    float cosine[4], sine[4]; /* of STEP slots */
    float mean[2][4], scale[2][4];
};

template <int MAX>
DEVICE void describe_keys(struct key_part<MAX> *p, const struct cuda_attend_any &a,
                          const struct work &w)
{
    const int half = w.dim / 2;
    float still[4]; /* the length of all angles */

    p->own = own_share<shape<MAX>::HALF>();
    if (p->own.c >= half) return;
    load_four(still, a.at.cos + p->own.c);
    load_four(p->cosine, a.at.cos + share<shape<MAX>::HALF>::STEP * half + p->own.c);
    load_four(p->sine, a.at.sin + share<shape<MAX>::HALF>::STEP * half + p->own.c);
    UNROLL
    for (int k = 0; k < 4; k++) p->cosine[k] /= still[k], p->sine[k] /= still[k];
    if (!CUDA_KV_CENTRED(a.at.cache.k_type)) return;
    UNROLL
    for (int part = 0; part < 2; part++) {
        const float *centre = a.at.cache.centres + w.head * 3 * w.dim + p->own.c + part * half;
        load_four(p->mean[part], centre);
        load_four(p->scale[part], centre + w.dim);
    }
}

/* Four numbers of the key in a slot, which is at `place` of the pool. */
template <int MAX>
DEVICE void key_four(float x[4], const struct cuda_attend_any &a, const struct work &w,
                     const struct key_part<MAX> &p, const void *key, enum cuda_kv type, int part,
                     bool first)
{
    const int c = p.own.c + part * (w.dim / 2);
    const float *other = a.at.cache.centres + (w.head * 3 + 2) * w.dim + c;

    unit_numbers(x, key, type, c, w.dim);
    UNROLL
    for (int k = 0; k < 4 && CUDA_KV_CENTRED(type); k++)
        x[k] = fma_f32(p.scale[part][k], x[k], first ? other[k] : p.mean[part][k]);
}

/* The angles of the row STEP slots further. */
template <int MAX> DEVICE void turn(float cosine[4], float sine[4], const struct key_part<MAX> &p)
{
    UNROLL
    for (int k = 0; k < 4; k++) {
        const float c = cosine[k];
        cosine[k] = fma_f32(c, p.cosine[k], -sine[k] * p.sine[k]);
        sine[k] = fma_f32(sine[k], p.cosine[k], c * p.sine[k]);
    }
}

/* Slots past `end` get the numbers of the last one. */
template <int MAX>
DEVICE void put_keys(const struct cuda_attend_any &a, const struct work &w,
                     const struct key_part<MAX> &p, int64_t unit0, int slot0, enum cuda_kv type)
{
    typedef share<shape<MAX>::HALF> own;
    const int half = w.dim / 2, bytes = a.at.cache.k_bytes, last = w.end - 1 - slot0;
    const int64_t angle = (int64_t)(min_int(p.own.row, last) + slot0 - w.base) * half + p.own.c;
    const char *keys = w.keys ? w.keys : (const char *)a.at.cache.k + unit0 * bytes;
    const bool first = CUDA_KV_CENTRED(type) && slot0 == 0 && a.at.cache.pos[unit0] == 0;
    float cosine[4], sine[4];

    if (p.own.c >= half) return;
    load_four(cosine, a.at.cos + angle);
    load_four(sine, a.at.sin + angle);
    for (int row = p.own.row; row < TILE; row += own::BATCH * own::STEP) {
        float x[own::BATCH][4], y[own::BATCH][4];
        UNROLL
        for (int i = 0; i < own::BATCH; i++) {
            const char *key = keys + min_int(row + i * own::STEP, last) * bytes;
            key_four<MAX>(x[i], a, w, p, key, type, 0, first && row + i == 0);
            key_four<MAX>(y[i], a, w, p, key, type, 1, first && row + i == 0);
        }
        UNROLL
        for (int i = 0; i < own::BATCH; i++) {
            put_rotated(w.units + (row + i * own::STEP) * w.row + p.own.c * 2, x[i], y[i], cosine,
                        sine, 1.0f, half);
            turn<MAX>(cosine, sine, p);
        }
    }
}

/* The same of values. */
template <int MAX>
DEVICE void put_values(const struct cuda_attend_any &a, const struct work &w, int64_t unit0,
                       int slot0, enum cuda_kv type)
{
    typedef share<MAX> own;
    const own at = own_share<MAX>();
    const int bytes = a.at.cache.v_bytes, last = w.end - 1 - slot0;
    const char *values = w.values ? w.values : (const char *)a.at.cache.v + unit0 * bytes;

    if (at.c >= w.dim) return;
    for (int row = at.row; row < TILE; row += own::BATCH * own::STEP) {
        u32x2 halves[own::BATCH];
        UNROLL
        for (int i = 0; i < own::BATCH; i++) {
            const char *value = values + min_int(row + i * own::STEP, last) * bytes;
            float x[4];
            unit_numbers(x, value, type, at.c, w.dim);
            halves[i] = {h2_pack(x[0], x[1]), h2_pack(x[2], x[3])};
        }
        UNROLL
        for (int i = 0; i < own::BATCH; i++)
            *(u32x2 *)(w.units + (row + i * own::STEP) * w.row + at.c * 2) = halves[i];
    }
}

/* Code for each type: which one is asked once per tile. */
template <int MAX>
DEVICE void put_units(const struct cuda_attend_any &a, const struct work &w,
                      const struct key_part<MAX> *keys, int64_t unit0, int slot0)
{
    switch (keys ? a.at.cache.k_type : a.at.cache.v_type) {
#define CASE(type)                                          \
    case type:                                              \
        if (keys)                                           \
            put_keys<MAX>(a, w, *keys, unit0, slot0, type); \
        else                                                \
            put_values<MAX>(a, w, unit0, slot0, type);      \
        break
        CASE(CUDA_KV_Q4);
        CASE(CUDA_KV_Q8);
        CASE(CUDA_KV_F16);
        CASE(CUDA_KV_Q5);
        CASE(CUDA_KV_S4);
        CASE(CUDA_KV_S5);
#undef CASE
    }
}

/* Starts copying a tile's keys, or its values, if they are to be in shared memory. */
DEVICE void copy_units(char *to, const uint8_t *units, int bytes, const int32_t *pages, int tile,
                       int n)
{
    for (int i = thread_id() * 16; to && tile < n && i < TILE * bytes; i += THREADS * 16)
        cp_async16(to + i, units + (int64_t)pages[tile] * (TILE * bytes) + i, 16);
    cp_async_commit();
}

/* ---- logits ---------------------------------------------------------------------------------- */

/* s[b][j] = rows 16b .. 16b + 15 and keys 16 warp + 8j .. + 7. */
template <int MAX> DEVICE void tile_logits(float s[][2][4], const struct work &w)
{
    const int lane = lane_id();
    const char *key =
        w.units + (warp_id() * 16 + lane / 16 * 8 + lane % 8) * w.row + lane / 8 % 2 * 16;
    const char *query = w.queries + lane % 16 * w.row + lane / 16 * 16;

    for (int step = 0; step < w.dim / 16; step++) {
        uint32_t k[4], q[4];
        ldmatrix(k, key + step * 32);
        UNROLL
        for (int b = 0; b < shape<MAX>::BLOCKS; b++) {
            if (b >= w.n_block) continue;
            ldmatrix(q, query + b * 16 * w.row + step * 32);
            mma_f16(s[b][0], q, k[0], k[1]);
            mma_f16(s[b][1], q, k[2], k[3]);
        }
    }
}

/* The last slots that rows g and g + 8 of each block see. */
template <int MAX>
DEVICE void last_slots(int last[][2], const struct cuda_attend_any &a, const struct work &w)
{
    UNROLL
    for (int b = 0; b < shape<MAX>::BLOCKS; b++) UNROLL
    for (int i = 0; i < 2; i++) {
        const int row = w.row0 + b * 16 + lane_id() / 4 + 8 * i;
        last[b][i] = row < w.n_row ? w.pos0 + row / a.at.n_group : -1;
    }
}

/* Caps logits and hides the slots that a row does not see. */
template <int MAX>
DEVICE void finish_logits(float s[][2][4], const struct cuda_attend_any &a, const struct work &w,
                          const int last[][2], int slot0)
{
    const int t = lane_id() % 4;

    UNROLL
    for (int b = 0; b < shape<MAX>::BLOCKS; b++) UNROLL
    for (int r = 0; r < 4 && b < w.n_block; r++) {
        const int to = last[b][r / 2], from = first_slot(a, to);
        UNROLL
        for (int j = 0; j < 2; j++) {
            const int slot = slot0 + warp_id() * 16 + j * 8 + 2 * t + r % 2;
            float *x = &s[b][j][r];
            if (a.softcap > 0.0f) *x = a.softcap * LOG2E * tanh_of(*x);
            if (slot > to || slot < from) *x = -INF;
        }
    }
}

/* ---- running softmax ------------------------------------------------------------------------- */

/* Of rows g and g + 8 of each block: m is that of all warps, l of this warp's keys and lane. */
template <int MAX> struct softmax {
    float m[shape<MAX>::BLOCKS][2], l[shape<MAX>::BLOCKS][2];
};

/* Stores this warp's maxima, for all warps to read after a barrier. */
template <int MAX> DEVICE void put_maxima(const float s[][2][4], const struct work &w)
{
    const int g = lane_id() / 4;

    UNROLL
    for (int b = 0; b < shape<MAX>::BLOCKS; b++) UNROLL
    for (int i = 0; i < 2; i++) {
        if (b >= w.n_block) continue;
        const float low = max_f32(s[b][0][2 * i], s[b][0][2 * i + 1]);
        const float x = quad_max(max_f32(low, max_f32(s[b][1][2 * i], s[b][1][2 * i + 1])));
        if (lane_id() % 4 == 0) w.meet[warp_id() * shape<MAX>::ROWS + b * 16 + g + 8 * i] = x;
    }
}

/* Converts logits to weights in shared memory and rescales the sums so far. */
template <int MAX>
DEVICE void softmax_step(struct softmax<MAX> *f, const float s[][2][4],
                         float o[][shape<MAX>::BLOCKS][2][4], const struct work &w)
{
    const int g = lane_id() / 4, t = lane_id() % 4;

    UNROLL
    for (int b = 0; b < shape<MAX>::BLOCKS; b++) UNROLL
    for (int i = 0; i < 2; i++) {
        const int row = b * 16 + g + 8 * i;
        if (b >= w.n_block) continue;
        float m = f->m[b][i];
        for (int k = 0; k < WARPS; k++) m = max_f32(m, w.meet[k * shape<MAX>::ROWS + row]);
        const float safe = m == -INF ? 0.0f : m; /* no visible slot yet: all weights are 0 */
        const float keep = exp2_fast(f->m[b][i] - safe);
        f->m[b][i] = m;
        f->l[b][i] *= keep;
        UNROLL
        for (int j = 0; j < 2; j++) {
            const float x = exp2_fast(s[b][j][2 * i] - safe),
                        y = exp2_fast(s[b][j][2 * i + 1] - safe);
            f->l[b][i] += x + y;
            *(uint32_t *)(w.weights + row * P_ROW + (warp_id() * 16 + j * 8 + 2 * t) * 2) =
                h2_pack(x, y);
        }
        UNROLL
        for (int p = 0; p < shape<MAX>::PAIRS; p++) UNROLL
        for (int j = 0; j < 2; j++) {
            o[p][b][j][2 * i] *= keep;
            o[p][b][j][2 * i + 1] *= keep;
        }
    }
}

/* o[p][b][j] += rows 16b .. and channels 16 (4p + warp) + 8j .. + 7. */
template <int MAX> DEVICE void add_values(float o[][shape<MAX>::BLOCKS][2][4], const struct work &w)
{
    const int lane = lane_id();
    const char *weight = w.weights + lane % 16 * P_ROW + lane / 16 * 16;
    const char *value = w.units + (lane / 8 % 2 * 8 + lane % 8) * w.row + lane / 16 * 16;

    UNROLL
    for (int k = 0; k < TILE / 16; k++) {
        uint32_t a[shape<MAX>::BLOCKS][4];
        UNROLL
        for (int b = 0; b < shape<MAX>::BLOCKS; b++)
            if (b < w.n_block) ldmatrix(a[b], weight + b * 16 * P_ROW + k * 32);
        UNROLL
        for (int p = 0; p < shape<MAX>::PAIRS; p++) {
            const int pair = p * WARPS + warp_id();
            uint32_t v[4];
            if (pair * 16 >= w.dim) continue; /* the whole warp */
            ldmatrix_trans(v, value + k * 16 * w.row + pair * 32);
            UNROLL
            for (int b = 0; b < shape<MAX>::BLOCKS; b++) {
                if (b >= w.n_block) continue;
                mma_f16(o[p][b][0], a[b], v[0], v[1]);
                mma_f16(o[p][b][1], a[b], v[2], v[3]);
            }
        }
    }
}

/* ---- the result ------------------------------------------------------------------------------ */

template <int MAX>
DEVICE void write_rows(const struct cuda_attend_any &a, const struct work &w,
                       const struct softmax<MAX> *f, float o[][shape<MAX>::BLOCKS][2][4])
{
    const int64_t base = ((int64_t)w.head * a.at.n_split + block_z()) * w.n_row + w.row0;
    const int g = lane_id() / 4, t = lane_id() % 4;

    UNROLL
    for (int b = 0; b < shape<MAX>::BLOCKS; b++) UNROLL
    for (int i = 0; i < 2; i++) {
        const int r = b * 16 + g + 8 * i;
        const float l = quad_sum(f->l[b][i]);
        if (t == 0) w.meet[warp_id() * shape<MAX>::ROWS + r] = l;
        if (w.row0 + r >= w.n_row) continue;
        if (t == 0 && warp_id() == 0) a.at.m[base + r] = f->m[b][i];
        UNROLL
        for (int p = 0; p < shape<MAX>::PAIRS; p++) {
            const int c = (p * WARPS + warp_id()) * 16 + 2 * t;
            if (c >= w.dim) continue;
            float *to = a.at.acc + (base + r) * w.dim + c;
            UNROLL
            for (int j = 0; j < 2; j++)
                to[8 * j] = o[p][b][j][2 * i], to[8 * j + 1] = o[p][b][j][2 * i + 1];
        }
    }
    barrier();
    const int r = thread_id();
    if (r >= shape<MAX>::ROWS || w.row0 + r >= w.n_row) return;
    float l = 0.0f;
    for (int k = 0; k < WARPS; k++) l += w.meet[k * shape<MAX>::ROWS + r];
    a.at.l[base + r] = l;
}

/* ---- the kernels ----------------------------------------------------------------------------- */

template <int MAX> DEVICE struct work describe(const struct cuda_attend_any &a)
{
    enum { ROWS = shape<MAX>::ROWS };
    const int dim = a.at.cache.head_dim, row = row_bytes(dim), head = block_y();
    const int pos0 = a.at.cache.len[head], n_row = a.at.n_tok * a.at.n_group;
    const int row0 = block_x() * ROWS, last = min_int(row0 + ROWS, n_row) - 1;
    struct work w = {};

    w.queries = shared_memory();
    w.units = w.queries + ROWS * row;
    w.weights = w.units + TILE * row;
    w.meet = (float *)(w.weights + ROWS * P_ROW);
    if (CUDA_ANY_COPIES(MAX, dim, a.at.cache.k_bytes + a.at.cache.v_bytes)) {
        w.keys = (char *)(w.meet + WARPS * ROWS);
        w.values = w.keys + TILE * a.at.cache.k_bytes;
    }
    w.dim = dim, w.row = row;
    w.head = head, w.pos0 = pos0, w.row0 = row0, w.n_row = n_row;
    w.n_block = last / 16 - row0 / 16 + 1;
    w.base = first_slot(a, pos0 + row0 / a.at.n_group) / TILE * TILE;
    w.end = pos0 + last / a.at.n_group + 1;
    return w;
}

template <int MAX> DEVICE void attend_any(const struct cuda_attend_any &a)
{
    const struct work w = describe<MAX>(a);
    const struct cuda_cache &c = a.at.cache;
    const int first_tile = w.base / TILE, n_tile = ceil_div(w.end, TILE) - first_tile;
    const int per = ceil_div(n_tile, a.at.n_split), first = block_z() * per;
    const int stop = first_tile + min_int(first + per, n_tile);
    const int32_t *pages = c.pages + w.head * c.n_pages;
    struct key_part<MAX> keys = {
    };
    struct softmax<MAX> f;
    float o[shape<MAX>::PAIRS][shape<MAX>::BLOCKS][2][4] = {};
    int last[shape<MAX>::BLOCKS][2];

    UNROLL
    for (int b = 0; b < shape<MAX>::BLOCKS; b++) UNROLL
    for (int i = 0; i < 2; i++) f.m[b][i] = -INF, f.l[b][i] = 0.0f;
    copy_units(w.keys, c.k, c.k_bytes, pages, first_tile + first, stop);
    copy_units(w.values, c.v, c.v_bytes, pages, first_tile + first, stop);
    describe_keys<MAX>(&keys, a, w);
    put_queries<MAX>(a, w);
    last_slots<MAX>(last, a, w);
    for (int tile = first_tile + first; tile < stop; tile++) {
        const int64_t unit0 = (int64_t)pages[tile] * TILE;
        float s[shape<MAX>::BLOCKS][2][4] = {};

        cp_async_wait<1>();
        barrier(); /* keys have arrived; the last tile's values are no longer read */
        put_units<MAX>(a, w, &keys, unit0, tile * TILE);
        barrier();
        copy_units(w.keys, c.k, c.k_bytes, pages, tile + 1, stop);
        tile_logits<MAX>(s, w);
        finish_logits<MAX>(s, a, w, last, tile * TILE);
        put_maxima<MAX>(s, w);
        cp_async_wait<1>();
        barrier(); /* maxima and values are there, keys and weights no longer read */
        softmax_step<MAX>(&f, s, o, w);
        if (MAX <= 512 && c.v_bytes) put_units<MAX>(a, w, NULL, unit0, tile * TILE);
        barrier();
        copy_units(w.values, c.v, c.v_bytes, pages, tile + 1, stop);
        add_values<MAX>(o, w);
    }
    barrier(); /* maxima are no longer read */
    write_rows<MAX>(a, w, &f, o);
}

KERNEL_OF(attend_any_64, struct cuda_attend_any, CUDA_ATTEND_THREADS, 2, attend_any<64>)
KERNEL_OF(attend_any_128, struct cuda_attend_any, CUDA_ATTEND_THREADS, 2, attend_any<128>)
KERNEL_OF(attend_any_256, struct cuda_attend_any, CUDA_ATTEND_THREADS, 1, attend_any<256>)
KERNEL_OF(attend_any_512, struct cuda_attend_any, CUDA_ATTEND_THREADS, 1, attend_any<512>)
KERNEL_OF(attend_any_576, struct cuda_attend_any, CUDA_ATTEND_THREADS, 1, attend_any<576>)

KERNEL(merge_any, struct cuda_merge_any, 128, 1)
{
    const int head = block_y(), row = block_x(), n_row = a.n_tok * a.n_group;
    const int token = row / a.n_group, query = head * a.n_group + row % a.n_group;
    const int64_t first = (int64_t)head * a.n_split * n_row + row;
    const float sink = a.sinks ? a.sinks[query] * LOG2E : -INF;
    float m = sink, sum = 0.0f;

    for (int i = 0; i < a.n_split; i++) m = max_f32(m, a.m[first + (int64_t)i * n_row]);
    const float safe = m == -INF ? 0.0f : m;
    for (int i = 0; i < a.n_split; i++)
        sum += a.l[first + (int64_t)i * n_row] * exp2_fast(a.m[first + (int64_t)i * n_row] - safe);
    sum += exp2_fast(sink - safe);
    for (int c = thread_id(); c < a.head_dim; c += 128) {
        const int64_t to = ((int64_t)token * a.n_head * a.n_group + query) * a.head_dim + c;
        float x = 0.0f;
        for (int i = 0; i < a.n_split; i++) {
            const int64_t at = first + (int64_t)i * n_row;
            x += a.acc[at * a.head_dim + c] * exp2_fast(a.m[at] - safe);
        }
        x = sum > 0.0f ? x / sum : 0.0f;
        if (a.transformed) x = hadamard(x);
        a.out[to] = a.gate ? x / (1.0f + exp_of(-a.gate[to])) : x;
    }
}
