/* Attention kernels against a softmax in double over the same units: the bound is fp16's, 2^-10 of
 * the sum of the terms' sizes, in the logits and in the values. */
#include "tests/emu/kit.h"

/* Kernels of which there is one for each size of heads. */
#define DECLARE_DIMS(name, args)     \
    DECLARE_KERNEL(name##_64, args); \
    DECLARE_KERNEL(name##_96, args); \
    DECLARE_KERNEL(name##_128, args)
#define LAUNCH_DIM(name, dim, ...)                         \
    do {                                                   \
        if ((dim) == 64) LAUNCH(name##_64, __VA_ARGS__);   \
        if ((dim) == 96) LAUNCH(name##_96, __VA_ARGS__);   \
        if ((dim) == 128) LAUNCH(name##_128, __VA_ARGS__); \
    } while (0)

DECLARE_DIMS(attend_decode, cuda_attend);
DECLARE_KERNEL(attend_merge, cuda_merge);
DECLARE_KERNEL(expand_f16, cuda_expand);
DECLARE_KERNEL(expand_mean, cuda_expand);
DECLARE_KERNEL(expand_int8, cuda_expand);
DECLARE_DIMS(attend_int8, cuda_attend);
DECLARE_DIMS(attend_chunk, cuda_attend);

struct shape {
    int dim, n_group, n_head, n_tok, n_split;
    int len[4]; /* units before the tokens */
    enum cuda_kv k_type, v_type;
    bool is_latent; /* the values are the rotated keys */
};

#define OF(k, v, ...) ((struct shape){__VA_ARGS__, CUDA_KV_##k, CUDA_KV_##v, false})
#define DEFAULT(...)  OF(S5, Q4, __VA_ARGS__)
#define PLAIN(...)    OF(Q4, Q4, __VA_ARGS__)
#define HALFS(...)    OF(F16, F16, __VA_ARGS__)

struct fixture {
    struct shape shape;
    struct cuda_attend args;
    struct kn_rope rope;
    float *q;
    int n_row, n_out;
    size_t partial_floats;
    int window; /* of attend_any; 0 = none */
    float softcap;
    const float *sinks; /* [n_head * n_group], or NULL */
    bool is_int8;       /* keys of chunks */
    struct cuda_expand expand;
};

static int longest(const struct shape *s)
{
    int n = 0;
    for (int h = 0; h < s->n_head; h++) n = s->len[h] > n ? s->len[h] : n;
    return n + s->n_tok;
}

/* Random numbers; real keys and values have such channels. */
static void fill_unit(struct rng *rng, float *x, int dim, float scale)
{
    rng_fill(rng, x, (size_t)dim, scale);
    for (int k = 0; k < dim; k += 7) x[k] += 1.5f * scale;
}

/* Fills a head's units; the cache after the last one is NaN. Even heads begin at position 0. */
static void fill_head(struct rng *rng, struct cuda_cache *c, int head, int len)
{
    const struct kn_centre centre = centre_of(c, head);
    float x[KN_HEAD_DIM_MAX];

    for (int i = 0; i < len; i++) {
        c->pos[cuda_place(c, head, i)] = (uint32_t)(i + head % 2);
        fill_unit(rng, x, c->head_dim, 1.0f);
        for (int k = 0; k < c->head_dim && CUDA_KV_CENTRED(c->k_type); k++)
            x[k] = (i || head % 2 ? centre.mean : centre.first)[k] + centre.scale[k] * x[k];
        pack_key(c, head, i, x);
        if (!c->v_bytes) continue;
        fill_unit(rng, x, c->head_dim, 3.0f);
        kn_table("ref")->kv_pack[kn_kv_of(c->v_type)](cuda_value(c, head, i), x, c->head_dim);
    }
}

static struct fixture fixture_new(const struct shape *s, uint64_t seed)
{
    struct rng rng = {seed};
    const int capacity = longest(s) + 3, n_query = s->n_head * s->n_group;
    struct fixture f = {.shape = *s, .n_row = s->n_tok * s->n_group};
    struct cuda_attend *a = &f.args;

    f.n_out = n_query * s->dim;
    f.rope = rope_new(capacity > 64 ? capacity : 64, s->dim);
    f.q = take((size_t)(s->n_tok * n_query * s->dim) * sizeof(float));
    rng_fill(&rng, f.q, (size_t)(s->n_tok * n_query * s->dim), 2.0f);
    a->cache = cuda_cache_new(s->dim, s->n_head, capacity, s->k_type, s->v_type);
    if (s->is_latent) a->cache.v_bytes = 0;
    memcpy(a->cache.len, s->len, (size_t)s->n_head * sizeof *s->len);
    for (int h = 0; h < s->n_head; h++) fill_head(&rng, &a->cache, h, s->len[h] + s->n_tok);
    a->q = f.q;
    a->q_stride = f.n_out;
    a->cos = f.rope.cos;
    a->sin = f.rope.sin;
    a->n_tok = s->n_tok;
    a->n_group = s->n_group;
    a->n_split = s->n_split;
    a->scale = 1.0f / sqrtf((float)s->dim);
    f.partial_floats = (size_t)(s->n_head * s->n_split * f.n_row);
    a->m = guarded(f.partial_floats * sizeof(float));
    a->l = guarded(f.partial_floats * sizeof(float));
    a->acc = guarded(f.partial_floats * (size_t)s->dim * sizeof(float));
    return f;
}

/* ---- expected results ------------------------------------------------------------------------ */

static void rotate(double *y, const float *x, const struct kn_rope *rope, int pos)
{
    const int half = rope->head_dim / 2;
    for (int i = 0; i < half; i++) {
        const double c = (double)rope->cos[pos * half + i], s = (double)rope->sin[pos * half + i];
        y[i] = (double)x[i] * c - (double)x[i + half] * s;
        y[i + half] = (double)x[i + half] * c + (double)x[i] * s;
    }
}

/* Logit of a query and a slot, and the size of its terms: pairs count with their length, which a
 * rotation does not change. */
static double exact_logit(const struct fixture *f, int head, const float *q, int pos, int slot,
                          double *size)
{
    const int dim = f->shape.dim, half = dim / 2;
    double rq[KN_HEAD_DIM_MAX], rk[KN_HEAD_DIM_MAX], dot = 0;
    float k[KN_HEAD_DIM_MAX];

    unpack_key(k, &f->args.cache, head, slot);
    rotate(rq, q, &f->rope, pos);
    rotate(rk, k, &f->rope, slot);
    const double cap = (double)f->softcap;
    *size = 0;
    for (int i = 0; i < dim; i++) dot += rq[i] * rk[i];
    for (int i = 0; i < half; i++) *size += hypot(rq[i], rq[i + half]) * hypot(rk[i], rk[i + half]);
    *size *= (double)f->args.scale;
    dot *= (double)f->args.scale;
    return cap > 0 ? cap * tanh(dot / cap) : dot;
}

/* The same of int8 numbers: the query's rounded here, the keys' as attend_expand left them, so that
 * only one step of a number may differ. The head's mean is left out of all logits. */
static double int8_logit(const struct fixture *f, int head, const float *q, int pos, int slot,
                         double *size)
{
    const int dim = f->shape.dim;
    const int64_t row = (int64_t)head * f->expand.to.n_tile * CUDA_TILE + slot;
    const int8_t *key = (const int8_t *)f->expand.to.k + row * dim;
    const double scale = (double)f->expand.to.k_scale[row / CUDA_TILE] * (double)f->args.scale;
    double rq[KN_HEAD_DIM_MAX], max = 0, dot = 0;

    rotate(rq, q, &f->rope, pos);
    for (int i = 0; i < dim; i++) max = fmax(max, fabs(rq[i]));
    for (int i = 0; i < dim; i++) dot += rint(rq[i] * 127 / max) * key[i];
    *size = 127 * max / 127 * scale * 0x1p10 / 2;
    return dot * max / 127 * scale;
}

/* The value in a slot. */
static void exact_value(double *out, const struct fixture *f, int head, int slot)
{
    const struct cuda_cache *c = &f->args.cache;
    float x[KN_HEAD_DIM_MAX];

    if (f->shape.is_latent)
        unpack_key(x, c, head, slot);
    else
        kn_table("ref")->kv_unpack[kn_kv_of(c->v_type)](x, cuda_value(c, head, slot), c->head_dim);
    if (f->shape.is_latent) rotate(out, x, &f->rope, slot);
    for (int i = 0; i < c->head_dim && !f->shape.is_latent; i++) out[i] = (double)x[i];
}

struct wanted {
    double out[KN_HEAD_DIM_MAX], bound[KN_HEAD_DIM_MAX];
};

/* Undoes the transform of values; errors of a group add up as independent ones do. */
static void restore(struct wanted *w, int dim)
{
    for (int at = 0; at < dim; at += 32) {
        double x[32], square = 0;
        for (int i = 0; i < 32; i++) {
            x[i] = 0;
            for (int j = 0; j < 32; j++)
                x[i] += (__builtin_parity((unsigned)(i & j)) ? -1 : 1) * w->out[at + j] / sqrt(32);
            square += w->bound[at + i] * w->bound[at + i] / 32;
        }
        for (int i = 0; i < 32; i++) w->out[at + i] = x[i], w->bound[at + i] = 2 * sqrt(square);
    }
}

static void want(struct wanted *w, const struct fixture *f, int head, int row)
{
    AUTO_BUFFERS;
    const struct shape *s = &f->shape;
    const int token = row / s->n_group, pos = s->len[head] + token;
    const float *q = f->q + token * f->n_out + (head * s->n_group + row % s->n_group) * s->dim;
    const int first = f->window && pos >= f->window ? pos - f->window + 1 : 0;
    double *logits = take((size_t)(pos + 1) * sizeof *logits), max = -INFINITY, sum = 0, size = 0;

    if (f->sinks) max = (double)f->sinks[head * s->n_group + row % s->n_group];
    const double sink = max;
    for (int i = first; i <= pos; i++) {
        double terms;
        logits[i] = f->is_int8 ? int8_logit(f, head, q, pos, i, &terms)
                               : exact_logit(f, head, q, pos, i, &terms);
        max = fmax(max, logits[i]);
        size = fmax(size, terms);
    }
    for (int i = first; i <= pos; i++) sum += exp(logits[i] - max);
    sum += exp(sink - max);
    memset(w, 0, sizeof *w);
    for (int i = first; i <= pos; i++) {
        double value[KN_HEAD_DIM_MAX];
        exact_value(value, f, head, i);
        for (int k = 0; k < s->dim; k++) {
            const double term = exp(logits[i] - max) / sum * value[k];
            w->out[k] += term;
            w->bound[k] += fabs(term) * 0x1p-10 * (1 + 2 * size);
        }
    }
    if (CUDA_KV_CENTRED(s->k_type)) restore(w, s->dim);
}

/* ---- decode ---------------------------------------------------------------------------------- */

static void run_decode(struct fixture *f, uint64_t seed)
{
    const struct shape *s = &f->shape;
    const int x = s->n_split, y = s->n_head;
    const size_t shared = CUDA_DECODE_SHARED((size_t)s->dim);

    LAUNCH_DIM(attend_decode, s->dim, &f->args, x, y, 1, 128, shared, seed);
}

/* pieces: heads have pieces by their lengths. Checks merged output against `want`, int8
 * output against the CPU's of the same floats. */
static void check_merged(struct fixture *f, bool pieces, uint64_t seed)
{
    AUTO_BUFFERS;
    const struct shape *s = &f->shape;
    const size_t out_bytes = (size_t)(s->n_tok * f->n_out) * sizeof(float);
    struct cuda_merge m = {.m = f->args.m,
                           .l = f->args.l,
                           .acc = f->args.acc,
                           .n_split = s->n_split,
                           .n_tok = s->n_tok,
                           .n_group = s->n_group,
                           .n_head = s->n_head,
                           .head_dim = s->dim,
                           .len = pieces ? f->args.cache.len : NULL,
                           .transformed = CUDA_KV_CENTRED(s->k_type)};
    struct wanted w;
    double off = 0;

    m.act = cuda_act_new(s->n_tok, f->n_out);
    m.out = guarded(out_bytes);
    LAUNCH(attend_merge, &m, (f->n_row + 3) / 4, s->n_head, 1, 128, 0, seed);
    for (int h = 0; h < s->n_head; h++)
        for (int row = 0; row < f->n_row; row++) {
            const float *out =
                m.out + row / s->n_group * f->n_out + (h * s->n_group + row % s->n_group) * s->dim;
            want(&w, f, h, row);
            for (int c = 0; c < s->dim; c++) {
                assert_near((double)out[c], w.out[c], w.bound[c], "attention");
                off += fabs((double)out[c] - w.out[c]) / (w.bound[c] + 1e-30);
            }
        }
    /* a constant that is wrong by a code can hide below the bounds, but not on average */
    assert_true(!pieces || off < 0.006 * s->n_head * f->n_row * s->dim);
    struct kn_act act = {.n_in = f->n_out,
                         .x = m.out,
                         .q = take((size_t)(s->n_tok * f->n_out)),
                         .d = take(out_bytes),
                         .sum = take(out_bytes)};
    kn_table("ref")->quantize(act.q, act.d, act.sum, m.out, s->n_tok * f->n_out);
    struct cuda_act same = cuda_act_from(&act, s->n_tok);
    const size_t n = (size_t)(s->n_tok * ((f->n_out + 63) / 64));
    assert_same(m.act.q, same.q, n * 64, "quantized attention");
    assert_same(m.act.scale, same.scale, n * 16, "scales of attention");
}

static void check_decode(struct shape s)
{
    AUTO_BUFFERS;
    struct fixture f = fixture_new(&s, (uint64_t)(s.dim * 1000 + s.n_group * 100 + s.len[0]));
    const size_t bytes = f.partial_floats * (size_t)s.dim * sizeof(float);
    void *first = take(bytes);

    run_decode(&f, 1);
    memcpy(first, f.args.acc, bytes);
    memset(f.args.acc, 0xff, bytes);
    run_decode(&f, 2); /* another order of warps, but the same bits */
    assert_same(f.args.acc, first, bytes, "another order");
    check_merged(&f, true, 3);
}

TEST(decode_shapes)
{
    static const int dims[] = {64, 96, 128};
    for (int d = 0; d < COUNT(dims); d++) {
        check_decode(DEFAULT(dims[d], 1, 1, 1, 1, {0}));
        check_decode(DEFAULT(dims[d], 4, 2, 1, 3, {63, 130}));
        check_decode(DEFAULT(dims[d], 8, 1, 1, 2, {64}));
    }
}

TEST(decode_groups)
{
    for (int g = 1; g <= 8; g++) check_decode(DEFAULT(64, g, 1, 1, 2, {100 + g}));
}

TEST(decode_lengths)
{
    static const int lengths[] = {1, 15, 16, 62, 65, 127, 191};
    for (int i = 0; i < COUNT(lengths); i++) check_decode(DEFAULT(128, 4, 1, 1, 2, {lengths[i]}));
}

TEST(decode_tokens)
{
    check_decode(DEFAULT(64, 1, 1, 8, 2, {60}));
    check_decode(DEFAULT(96, 3, 2, 2, 2, {63, 0}));
    check_decode(DEFAULT(128, 2, 1, 4, 1, {0}));
}

TEST(decode_splits)
{
    check_decode(DEFAULT(64, 4, 3, 1, 7, {200, 0, 640})); /* most splits of one are empty */
}

/* Blocks of a launch have pieces of equal size: 1, 1 and 16 tiles are 10 pieces of up to 2, not
 * three times 4. */
TEST(decode_pieces)
{
    AUTO_BUFFERS;
    const struct shape s = DEFAULT(64, 1, 3, 1, 4, {0, 5, 1000});
    struct fixture f = fixture_new(&s, 9);
    run_decode(&f, 1);
    for (int i = 0; i < 12; i++) assert_int_equal(isnan(f.args.m[i]) != 0, i >= 10);
    check_merged(&f, true, 2);
}

/* ---- one token in one launch ----------------------------------------------------------------- */

DECLARE_DIMS(attend_one, cuda_attend_one);
DECLARE_KERNEL(kv_append, cuda_append);
DECLARE_KERNEL(norm_quantize, cuda_norm);

/* kv_append, attend_decode and attend_merge, and their results: units, then int8. */
static void check_one(struct shape s)
{
    AUTO_BUFFERS;
    struct fixture f = fixture_new(&s, (uint64_t)(s.dim * 1000 + s.len[0]));
    const int dim = s.dim, n_kv = s.n_head * dim;
    const size_t act_bytes = (size_t)((f.n_out + 63) / 64) * 64;
    struct rng rng = {7};
    float *kv = take((size_t)n_kv * 12), *score = take(16);
    uint32_t *pos = take(4), *ticket = take(16);
    struct cuda_cache *c = &f.args.cache;
    const int n_in = 3 * n_kv;
    const size_t in_blocks = (size_t)((n_in + 63) / 64);
    int32_t *row = take_copy(&(const int32_t){2}, sizeof *row);
    struct cuda_act act[2] = {cuda_act_new(1, f.n_out), cuda_act_new(1, f.n_out)};
    struct cuda_act kept[2] = {cuda_act_new(3, n_in), cuda_act_new(3, n_in)};
    const size_t bytes = cuda_cache_slots(c) * (size_t)c->k_bytes,
                 v_bytes = cuda_cache_slots(c) * (size_t)c->v_bytes;
    uint8_t *units = take(bytes + v_bytes);

    rng_fill(&rng, kv, (size_t)n_kv * 3, 1.0f);
    for (int h = 0; h < 4; h++) score[h] = (float)h, ticket[h] = 0;
    *pos = 77;
    const struct cuda_append append = {*c, kv, kv + n_kv, 2 * n_kv, pos, score, 1};
    const struct cuda_merge merge = {.m = f.args.m,
                                     .l = f.args.l,
                                     .acc = f.args.acc,
                                     .n_split = s.n_split,
                                     .n_tok = 1,
                                     .n_group = s.n_group,
                                     .n_head = s.n_head,
                                     .head_dim = dim,
                                     .act = act[0],
                                     .len = c->len,
                                     .transformed = 1};
    LAUNCH(kv_append, &append, 1, s.n_head, 1, 128, 0, 1);
    run_decode(&f, 2);
    LAUNCH(attend_merge, &merge, (f.n_row + 3) / 4, s.n_head, 1, 128, 0, 3);
    memcpy(units, c->k, bytes);
    memcpy(units + bytes, c->v, v_bytes);
    const struct cuda_norm keep = {kv, n_in, NULL, n_in, 0.0f, kept[0], NULL, row};
    LAUNCH(norm_quantize, &keep, 1, 1, 1, 256, 32, 4);
    const struct cuda_attend_one job = {f.args, kv,     kv + n_kv, pos,
                                        score,  ticket, act[1],    {kv, n_in, kept[1], row}};
    for (uint64_t seed = 4; seed < 6; seed++) {
        const size_t shared = CUDA_DECODE_SHARED((size_t)dim);
        for (int h = 0; h < s.n_head; h++) { /* the new unit is not yet present */
            memset(cuda_key(c, h, s.len[h]), 0xff, (size_t)c->k_bytes);
            memset(cuda_value(c, h, s.len[h]), 0xff, (size_t)c->v_bytes);
            c->pos[cuda_place(c, h, s.len[h])] = 0;
        }
        memset(act[1].q, 0x55, act_bytes);
        LAUNCH_DIM(attend_one, dim, &job, s.n_split, s.n_head, 1, 128, shared, seed);
        assert_same(c->k, units, bytes, "keys");
        assert_same(c->v, units + bytes, v_bytes, "values");
        assert_same(act[1].q, act[0].q, act_bytes, "merged");
        assert_same(act[1].scale, act[0].scale, act_bytes / 4, "scales of merged");
        assert_same(kept[1].q, kept[0].q, 3 * in_blocks * 64, "kept");
        assert_same(kept[1].scale, kept[0].scale, 3 * in_blocks * 16, "scales of kept");
        for (int h = 0; h < s.n_head; h++) {
            assert_int_equal(c->pos[cuda_place(c, h, s.len[h])], 77);
            assert_true(c->score[cuda_place(c, h, s.len[h])] == score[h]);
        }
    }
}

TEST(one_token)
{
    check_one(DEFAULT(64, 2, 2, 1, 3, {0, 130}));
    check_one(DEFAULT(96, 1, 3, 1, 2, {63, 64, 5}));
    check_one(DEFAULT(128, 8, 1, 1, 4, {200}));
}

/* ---- chunks and column sums ------------------------------------------------------------------ */

static void expanded_new(struct fixture *f, bool is_int8)
{
    const struct shape *s = &f->shape;
    const int n_tile = (longest(s) + CUDA_TILE - 1) / CUDA_TILE;
    const size_t numbers = (size_t)(s->n_head * n_tile * CUDA_TILE * s->dim);

    f->is_int8 = is_int8;
    f->expand = (struct cuda_expand){f->args.cache, f->args.cos, f->args.sin, s->n_tok, {0}, NULL};
    f->expand.to = (struct cuda_expanded){guarded(numbers * 2), guarded(numbers * 2),
                                          guarded((size_t)(s->n_head * n_tile) * 4), n_tile, 0};
    f->expand.mean = guarded((size_t)(s->n_head * s->dim) * 4);
}

static void launch_chunk(struct fixture *f, const struct cuda_attend *at, int n_heads,
                         uint64_t seed)
{
    const struct shape *s = &f->shape;
    const int x = (f->n_row + CUDA_ATTEND_ROWS - 1) / CUDA_ATTEND_ROWS, z = s->n_split;
    const size_t wide = CUDA_CHUNK_SHARED((size_t)s->dim, 2u),
                 narrow = CUDA_CHUNK_SHARED((size_t)s->dim, 1u);

    if (f->is_int8)
        LAUNCH_DIM(attend_int8, s->dim, at, x, n_heads, z, 256, narrow, seed);
    else
        LAUNCH_DIM(attend_chunk, s->dim, at, x, n_heads, z, 256, wide, seed);
}

/* The first head alone, then the others. */
static void run_chunk(struct fixture *f, uint64_t seed)
{
    const int heads = f->shape.n_head, dim = f->shape.dim;

    if (f->is_int8) LAUNCH(expand_mean, &f->expand, heads, 1, 1, 128, CUDA_EXPAND_SHARED, seed + 1);
    for (int head = 0; head < heads; head = head ? heads : 1) {
        const int n = head ? heads - head : 1;
        struct cuda_expand expand = f->expand;
        struct cuda_attend at = f->args;
        struct cuda_expanded *to = &expand.to;
        const size_t tiles = (size_t)(head * to->n_tile);
        to->head0 = head;
        to->k = (char *)to->k + tiles * CUDA_TILE * (size_t)(dim * (f->is_int8 ? 1 : 2));
        to->v += tiles * CUDA_TILE * (size_t)dim;
        to->k_scale += tiles;
        at.units = expand.to;
        if (f->is_int8)
            LAUNCH(expand_int8, &expand, to->n_tile, n, 1, 128, CUDA_EXPAND_SHARED, seed + 2);
        else
            LAUNCH(expand_f16, &expand, to->n_tile, n, 1, 128, CUDA_EXPAND_SHARED, seed + 2);
        launch_chunk(f, &at, n, seed);
    }
}

/* int8 keys: half a step from the rotated key less the mean; the tile's largest is 127. */
static void check_int8_keys(const struct fixture *f, int head)
{
    const int dim = f->shape.dim, len = f->shape.len[head] + f->shape.n_tok;
    const float *mean = f->expand.mean + head * dim;
    const int64_t tile0 = (int64_t)head * f->expand.to.n_tile;

    for (int slot = 0; slot < (len + CUDA_TILE - 1) / CUDA_TILE * CUDA_TILE; slot++) {
        const int8_t *q = (const int8_t *)f->expand.to.k + (tile0 * CUDA_TILE + slot) * dim;
        const double d = (double)f->expand.to.k_scale[tile0 + slot / CUDA_TILE];
        float key[KN_HEAD_DIM_MAX];
        double rotated[KN_HEAD_DIM_MAX];
        if (slot < len) unpack_key(key, &f->args.cache, head, slot);
        if (slot < len) rotate(rotated, key, &f->rope, slot);
        for (int i = 0; i < dim; i++) {
            if (slot >= len) assert_int_equal(q[i], 0);
            if (slot < len)
                assert_near(q[i] * d, rotated[i] - (double)mean[i], d * 0.5001 + 1e-6, "int8 key");
        }
    }
    for (int64_t tile = 0; tile < (len + CUDA_TILE - 1) / CUDA_TILE; tile++) {
        const int8_t *q = (const int8_t *)f->expand.to.k + (tile0 + tile) * CUDA_TILE * dim;
        int max = 0;
        for (int i = 0; i < CUDA_TILE * dim; i++) max = abs(q[i]) > max ? abs(q[i]) : max;
        assert_int_equal(max, f->expand.to.k_scale[tile0 + tile] > 0.0f ? 127 : 0);
    }
}

/* The mean of every unit of a short head. */
static void check_mean(const struct fixture *f, int head)
{
    const int dim = f->shape.dim, len = f->shape.len[head] + f->shape.n_tok;
    double sum[KN_HEAD_DIM_MAX] = {0}, rotated[KN_HEAD_DIM_MAX];
    float key[KN_HEAD_DIM_MAX];

    for (int slot = 0; slot < len; slot++) {
        unpack_key(key, &f->args.cache, head, slot);
        rotate(rotated, key, &f->rope, slot);
        for (int i = 0; i < dim; i++) sum[i] += rotated[i];
    }
    for (int i = 0; i < dim; i++)
        assert_near((double)f->expand.mean[head * dim + i], sum[i] / len, 1e-5, "mean of keys");
}

static void check_chunk_as(struct shape s, bool is_int8)
{
    AUTO_BUFFERS;
    struct fixture f = fixture_new(&s, (uint64_t)(s.dim * 1000 + s.n_tok * 100 + s.len[0]));
    const size_t bytes = f.partial_floats * (size_t)s.dim * sizeof(float);
    void *first = take(bytes);

    expanded_new(&f, is_int8);
    run_chunk(&f, 1);
    memcpy(first, f.args.acc, bytes);
    memset(f.args.acc, 0xff, bytes);
    run_chunk(&f, 2);
    assert_same(f.args.acc, first, bytes, "another order");
    for (int h = 0; h < s.n_head && is_int8; h++) {
        check_mean(&f, h);
        check_int8_keys(&f, h);
    }
    check_merged(&f, false, 3);
}

static void check_chunk(struct shape s)
{
    check_chunk_as(s, false);
    check_chunk_as(s, true);
}

TEST(chunk_shapes)
{
    check_chunk(DEFAULT(64, 1, 1, 1, 1, {0}));
    check_chunk(DEFAULT(64, 4, 2, 17, 1, {0, 50}));
    check_chunk(DEFAULT(96, 1, 1, 65, 1, {63}));
    check_chunk(DEFAULT(96, 3, 1, 22, 2, {100}));
    check_chunk(DEFAULT(128, 8, 1, 9, 1, {128}));
    check_chunk(DEFAULT(128, 2, 1, 33, 3, {40})); /* a split that some rows do not reach */
}

TEST(chunk_kinds)
{
    static const int dims[] = {64, 96, 128};
    for (int d = 0; d < COUNT(dims); d++) {
        check_chunk(OF(Q8, Q8, dims[d], 2, 1, 5, 1, {70}));
        check_chunk(OF(F16, F16, dims[d], 4, 1, 1, 2, {90}));
        check_chunk(OF(Q8, Q4, dims[d], 1, 2, 3, 1, {9, 62}));
    }
    check_chunk(OF(Q4, F16, 64, 1, 1, 3, 1, {61}));
    check_chunk(OF(S4, Q8, 96, 1, 2, 3, 1, {61, 5}));
    check_chunk(OF(S5, Q5, 96, 1, 2, 3, 1, {61, 5}));
    check_chunk(PLAIN(128, 2, 1, 5, 1, {70}));
}

/* ---- other heads, windows, capped logits ----------------------------------------------------- */

DECLARE_KERNEL(attend_any_64, cuda_attend_any);
DECLARE_KERNEL(attend_any_128, cuda_attend_any);
DECLARE_KERNEL(attend_any_256, cuda_attend_any);
DECLARE_KERNEL(attend_any_512, cuda_attend_any);
DECLARE_KERNEL(attend_any_576, cuda_attend_any);
DECLARE_KERNEL(merge_any, cuda_merge_any);

static void run_any(struct fixture *f, uint64_t seed)
{
    const struct shape *s = &f->shape;
    const struct cuda_attend_any job = {f->args, f->window, f->softcap};
    int most = 64;
    while (most < s->dim) most *= 2;
    const int x = (f->n_row + CUDA_ANY_ROWS(most) - 1) / CUDA_ANY_ROWS(most), z = s->n_split;
    const size_t shared =
        CUDA_ANY_SHARED(most, (size_t)s->dim, f->args.cache.k_bytes + f->args.cache.v_bytes);

    assert_true(shared <= CUDA_SHARED_MAX);
    if (most == 64) LAUNCH(attend_any_64, &job, x, s->n_head, z, 128, shared, seed);
    if (most == 128) LAUNCH(attend_any_128, &job, x, s->n_head, z, 128, shared, seed);
    if (most == 256) LAUNCH(attend_any_256, &job, x, s->n_head, z, 128, shared, seed);
    if (most == 512) LAUNCH(attend_any_512, &job, x, s->n_head, z, 128, shared, seed);
    if (most == 1024) LAUNCH(attend_any_576, &job, x, s->n_head, z, 128, shared, seed);
}

static void check_any_merged(struct fixture *f, const float *gate)
{
    AUTO_BUFFERS;
    const struct shape *s = &f->shape;
    const size_t bytes = (size_t)(s->n_tok * f->n_out) * sizeof(float);
    const struct cuda_merge_any m = {
        f->args.m, f->args.l, f->args.acc, s->n_split, s->n_tok,       s->n_group,
        s->n_head, s->dim,    f->sinks,    gate,       guarded(bytes), CUDA_KV_CENTRED(s->k_type)};
    struct wanted w;

    LAUNCH(merge_any, &m, f->n_row, s->n_head, 1, 128, 0, 3);
    for (int h = 0; h < s->n_head; h++)
        for (int row = 0; row < f->n_row; row++) {
            const int at =
                row / s->n_group * f->n_out + (h * s->n_group + row % s->n_group) * s->dim;
            want(&w, f, h, row);
            for (int c = 0; c < s->dim; c++) {
                const double open = gate ? 1 / (1 + exp(-(double)gate[at + c])) : 1;
                assert_near((double)m.out[at + c], w.out[c] * open, w.bound[c], "attention");
            }
        }
}

static void check_any(struct shape s, int window, float softcap, bool more)
{
    AUTO_BUFFERS;
    struct fixture f = fixture_new(&s, (uint64_t)(s.dim * 1000 + s.n_tok * 100 + s.len[0]));
    const size_t bytes = f.partial_floats * (size_t)s.dim * sizeof(float);
    void *first = take(bytes);
    struct rng rng = {5};
    float *gate = take((size_t)(s.n_tok * f.n_out) * 4), *sinks = take(64 * 4);

    rng_fill(&rng, gate, (size_t)(s.n_tok * f.n_out), 2.0f);
    rng_fill(&rng, sinks, 64, 4.0f);
    f.window = window;
    f.softcap = softcap;
    if (more) f.sinks = sinks;
    run_any(&f, 1);
    memcpy(first, f.args.acc, bytes);
    memset(f.args.acc, 0xff, bytes);
    run_any(&f, 2);
    assert_same(f.args.acc, first, bytes, "another order");
    check_any_merged(&f, more ? gate : NULL);
}

TEST(any_heads)
{
    check_any(HALFS(16, 2, 2, 5, 1, {0, 70}), 0, 0, false);
    check_any(HALFS(80, 4, 1, 9, 2, {100}), 0, 0, true);
    check_any(DEFAULT(256, 1, 2, 1, 3, {63, 200}), 0, 0, false);
    check_any(DEFAULT(256, 2, 1, 20, 1, {40}), 0, 30.0f, false);
    check_any(OF(Q8, Q4, 512, 2, 1, 3, 2, {90}), 0, 0, true);
    check_any(DEFAULT(512, 8, 1, 5, 1, {30}), 0, 0, false);
    check_any(PLAIN(64, 4, 2, 1, 2, {100, 9}), 0, 0, true);
    check_any(OF(S5, Q5, 96, 2, 2, 1, 2, {0, 100}), 0, 0, true);
    check_any(OF(Q5, Q4, 256, 2, 1, 3, 1, {70}), 0, 0, false);
}

/* Rows of DeepSeek, Mistral Small 4 and MiniCPM 3, and short ones. */
TEST(latent_rows)
{
    check_any((struct shape){576, 16, 1, 1, 2, {150}, CUDA_KV_Q4, CUDA_KV_F16, true}, 0, 0, false);
    check_any((struct shape){576, 3, 1, 7, 1, {60}, CUDA_KV_F16, CUDA_KV_F16, true}, 0, 0, false);
    check_any((struct shape){320, 5, 1, 4, 1, {70}, CUDA_KV_Q8, CUDA_KV_F16, true}, 0, 0, false);
    check_any((struct shape){288, 2, 1, 9, 3, {10}, CUDA_KV_Q5, CUDA_KV_F16, true}, 0, 0, false);
    check_any((struct shape){48, 4, 1, 5, 1, {0}, CUDA_KV_F16, CUDA_KV_F16, true}, 0, 0, false);
}

TEST(any_windows)
{
    check_any(DEFAULT(128, 8, 1, 1, 3, {300}), 100, 0, true); /* one token */
    check_any(DEFAULT(64, 1, 2, 70, 1, {0, 190}), 33, 0, false);
    check_any(DEFAULT(96, 2, 1, 40, 2, {127}), 64, 50.0f, true);
    check_any(HALFS(64, 4, 1, 3, 7, {5}), 1, 0, false);      /* itself */
    check_any(HALFS(256, 2, 1, 2, 1, {62}), 1000, 0, false); /* all */
}

/* A window has the same bits wherever its units are. */
TEST(any_places)
{
    AUTO_BUFFERS;
    const struct shape s = HALFS(64, 2, 1, 40, 2, {150});
    struct fixture f = fixture_new(&s, 9), g = fixture_new(&s, 9);
    struct cuda_cache *c = &g.args.cache;
    f.window = g.window = 70;
    c->pages++; /* without the first page, which no window reaches */
    c->len[0] -= CUDA_TILE;
    run_any(&f, 1);
    run_any(&g, 2);
    assert_same(g.args.acc, f.args.acc, f.partial_floats * (size_t)s.dim * 4, "sums");
    assert_same(g.args.m, f.args.m, f.partial_floats * 4, "maxima");
    assert_same(g.args.l, f.args.l, f.partial_floats * 4, "lengths");
    c->pages--;
}
