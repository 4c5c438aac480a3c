/* Units are appended and evicted on the device as on the CPU: the same bytes, the same survivors,
 * the same counters. */
#include "tests/emu/kit.h"

#include "runtime/cache/evict.h"
#include "tests/unit/cache_kit.h"

DECLARE_KERNEL(kv_append, cuda_append);
DECLARE_KERNEL(cache_copy, cuda_copy);
DECLARE_KERNEL(key_sums, cuda_values);
DECLARE_KERNEL(key_values, cuda_values);
DECLARE_KERNEL(near_duplicates, cuda_values);
DECLARE_KERNEL(cache_rank, cuda_rank);
DECLARE_KERNEL(cache_digits, cuda_digits);
DECLARE_KERNEL(cache_choose, cuda_evict);
DECLARE_KERNEL(cache_evict, cuda_evict);

/* ---- append ---------------------------------------------------------------------------------- */

/* Numbers that are difficult to quantize. */
static void fill_hard(struct rng *rng, float *x, size_t n)
{
    rng_fill(rng, x, n, 4.0f);
    for (size_t i = 0; i < 32 && i < n; i++) x[i] = 0.25f;               /* a range of zero */
    for (size_t i = 32; i < 64 && i < n; i++) x[i] = -0.0f;              /* nothing */
    for (size_t i = 64; i < 96 && i < n; i++) x[i] *= 1e5f;              /* larger than a half */
    for (size_t i = 96; i < 128 && i < n; i++) x[i] *= 1e-8f;            /* smaller than a half */
    for (size_t i = 128; i < 160 && i < n; i++) x[i] = 3 + x[i] * 1e-3f; /* far from zero */
}

/* Copies the newest n_tok units, except the last one, out and back in over random bytes. The
 * shortest heads have fewer. */
static void check_copy(struct cuda_cache *c, int n_tok)
{
    AUTO_BUFFERS;
    const int n = n_tok > 1 ? n_tok - 1 : 1, back = n_tok + 1;
    const size_t head_bytes = (size_t)n * (size_t)(c->k_bytes + c->v_bytes + 8);
    const size_t bytes = (size_t)c->n_head * head_bytes, slots = cuda_cache_slots(c);
    struct cuda_copy job = {*c, back, n, 1, 1, 0, guarded(bytes)};
    uint8_t *k = take(slots * (size_t)c->k_bytes);
    float *score = take(slots * sizeof *score);

    for (int h = 0; h < c->n_head; h++) c->len[h] += n_tok;
    LAUNCH(cache_copy, &job, c->n_head, 1, 1, 256, 0, 1);
    for (int h = 0; h < c->n_head; h++)
        for (int i = 0; i < n; i++) {
            const int slot = c->len[h] - back + i;
            const size_t at = (size_t)i;
            const uint8_t *p = job.stage + (size_t)h * head_bytes;
            if (slot < 0) continue;
            assert_same(p + at * (size_t)c->k_bytes, cuda_key(c, h, slot), (size_t)c->k_bytes,
                        "key");
            p += (size_t)(n * c->k_bytes);
            assert_same(p + at * (size_t)c->v_bytes, cuda_value(c, h, slot), (size_t)c->v_bytes,
                        "value");
            p += (size_t)(n * c->v_bytes);
            assert_same(p + at * 4, &c->pos[cuda_place(c, h, slot)], 4, "position");
            assert_same(p + (size_t)(n + i) * 4, &c->score[cuda_place(c, h, slot)], 4, "score");
        }
    memcpy(k, c->k, slots * (size_t)c->k_bytes);
    memcpy(score, c->score, slots * sizeof *score);
    for (int h = 0; h < c->n_head; h++)
        for (int slot = c->len[h] - back; slot < c->len[h] - back + n; slot++)
            if (slot >= 0) {
                memset(cuda_key(c, h, slot), 0x55, (size_t)c->k_bytes);
                c->score[cuda_place(c, h, slot)] = -1;
            }
    job.in = 1;
    LAUNCH(cache_copy, &job, c->n_head, 1, 1, 256, 0, 2);
    assert_same(c->k, k, slots * (size_t)c->k_bytes, "keys");
    assert_same(c->score, score, slots * sizeof *score, "scores");
}

/* Expected bytes, with what is done to keys and values before they are packed. */
static void want_unit(uint8_t *out, const struct cuda_cache *c, int head, const float *x, int pos,
                      bool is_value)
{
    const struct kn_centre centre = centre_of(c, head);
    const enum kn_kv type = kn_kv_of(is_value ? c->v_type : c->k_type);
    float y[KN_HEAD_DIM_MAX];

    memcpy(y, x, (size_t)c->head_dim * sizeof *y);
    if (CUDA_KV_CENTRED(c->k_type) && is_value) kn_table("ref")->hadamard(y, c->head_dim);
    if (CUDA_KV_CENTRED(c->k_type) && !is_value)
        kn_table("ref")->key_centre(y, &centre, pos == 0, c->head_dim);
    if (CUDA_KV_CENTRED(c->k_type) && is_value && type == KN_KV_Q4)
        kn_table("ref")->pack_values(out, y, c->head_dim);
    else
        kn_table("ref")->kv_pack[type](out, y, c->head_dim);
}

static void check_append(int dim, int n_head, int n_tok, enum cuda_kv k_type, enum cuda_kv v_type)
{
    AUTO_BUFFERS;
    struct rng rng = {(uint64_t)(dim + n_head)};
    const int stride = n_head * dim * 2 + 3, pos0 = n_tok == 5 ? 0 : 1000;
    const size_t floats = (size_t)(n_tok * stride);
    struct cuda_cache c = cuda_cache_new(dim, n_head, n_tok + 64, k_type, v_type);
    float *qkv = take(floats * sizeof *qkv), *scores = take(64 * sizeof *scores);
    uint32_t *pos = take(sizeof *pos);
    uint8_t *want = take((size_t)(c.k_bytes + c.v_bytes));
    memcpy(c.len, (const int32_t[4]){0, 62, 9, 1}, (size_t)n_head * sizeof *c.len);
    *pos = (uint32_t)pos0;
    for (int i = 0; i < 64; i++) scores[i] = (float)i;
    const struct cuda_append job = {c, qkv, qkv + n_head * dim, stride, pos, scores, n_tok};

    fill_hard(&rng, qkv, floats);
    LAUNCH(kv_append, &job, n_tok, n_head, 1, 128, 0, 1);
    for (int t = 0; t < n_tok; t++)
        for (int h = 0; h < n_head; h++) {
            const int slot = c.len[h] + t;
            want_unit(want, &c, h, job.k + t * stride + h * dim, pos0 + t, false);
            assert_same(cuda_key(&c, h, slot), want, (size_t)c.k_bytes, "key");
            want_unit(want, &c, h, job.v + t * stride + h * dim, pos0 + t, true);
            assert_same(cuda_value(&c, h, slot), want, (size_t)c.v_bytes, "value");
            assert_int_equal(c.pos[cuda_place(&c, h, slot)], pos0 + t);
            assert_true(c.score[cuda_place(&c, h, slot)] == scores[h * n_tok + t]);
        }
    check_copy(&c, n_tok);
}

TEST(append)
{
    for (int type = CUDA_KV_Q4; type <= CUDA_KV_S5; type++) {
        const enum cuda_kv values = CUDA_KV_CENTRED(type) ? CUDA_KV_Q4 : (enum cuda_kv)type;
        check_append(64, 3, 5, (enum cuda_kv)type, values);
        check_append(96, 2, 1, (enum cuda_kv)type, values);
        check_append(128, 4, 3, (enum cuda_kv)type, values);
    }
    check_append(96, 2, 5, CUDA_KV_S4, CUDA_KV_F16);
    check_append(96, 2, 5, CUDA_KV_S5, CUDA_KV_Q5);
}

/* ---- values of units ------------------------------------------------------------------------- */

/* KeyDiff in double. */
static void check_values(int dim, const int *len, int n_head, enum cuda_kv type)
{
    AUTO_BUFFERS;
    struct rng rng = {(uint64_t)dim};
    struct cuda_cache c = cuda_cache_new(dim, n_head, 1100, type, CUDA_KV_Q4);
    const int pieces = (c.n_pages * CUDA_TILE + CUDA_PIECE - 1) / CUDA_PIECE;
    const size_t part_bytes = (size_t)(n_head * pieces * CUDA_VALUES_DIM) * sizeof(float);
    const struct cuda_values job = {c, guarded(cuda_cache_slots(&c) * sizeof(float)),
                                    guarded(part_bytes)};
    float x[KN_HEAD_DIM_MAX];

    for (int h = 0; h < n_head; h++) {
        c.len[h] = len[h];
        for (int s = 0; s < len[h]; s++) {
            rng_fill(&rng, x, (size_t)dim, 1.0f);
            x[3] += 2.0f;
            c.pos[cuda_place(&c, h, s)] = (uint32_t)(s + h);
            pack_key(&c, h, s, x);
        }
    }
    LAUNCH(key_sums, &job, pieces, n_head, 1, CUDA_EVICT_THREADS, CUDA_VALUES_SHARED, 5);
    LAUNCH(key_values, &job, pieces, n_head, 1, CUDA_EVICT_THREADS, CUDA_VALUES_SHARED, 6);
    for (int h = 0; h < n_head; h++) {
        double mean[KN_HEAD_DIM_MAX] = {0}, mean_square = 0;
        for (int pass = 0; pass < 2; pass++)
            for (int s = 0; s < len[h]; s++) {
                double square = 0, dot = 0;
                unpack_key(x, &c, h, s);
                for (int i = 0; i < dim; i++) square += (double)x[i] * (double)x[i];
                for (int i = 0; i < dim && !pass; i++) mean[i] += (double)x[i] / sqrt(square);
                if (!pass) continue;
                for (int i = 0; i < dim && !s; i++) mean_square += mean[i] * mean[i];
                for (int i = 0; i < dim; i++) dot += (double)x[i] * mean[i];
                assert_near((double)job.value[cuda_place(&c, h, s)],
                            -dot / sqrt(square * mean_square), 1e-5, "value of a key");
            }
    }
}

TEST(values)
{
    check_values(64, (const int[]){1090, 1, 0}, 3, CUDA_KV_Q4);
    check_values(96, (const int[]){70}, 1, CUDA_KV_Q8);
    check_values(128, (const int[]){3, 66}, 2, CUDA_KV_F16);
    check_values(64, (const int[]){7, 130}, 2, CUDA_KV_S4);
    check_values(96, (const int[]){70, 9}, 2, CUDA_KV_S5);
}

/* Signs by kn_key_signs, logarithms as Mitchell's: exponent plus mantissa. */
static void check_near_duplicates(int dim, const int *len, int n_head, enum cuda_kv type)
{
    AUTO_BUFFERS;
    struct rng rng = {(uint64_t)dim};
    struct cuda_cache c = cuda_cache_new(dim, n_head, 400, type, CUDA_KV_Q4);
    const size_t bytes = cuda_cache_slots(&c) * sizeof(float);
    const struct cuda_values job = {c, guarded(bytes), NULL};
    float x[8][KN_HEAD_DIM_MAX];
    uint16_t signs[400];

    for (int i = 0; i < 8; i++) rng_fill(&rng, x[i], (size_t)dim, 1.0f);
    for (int h = 0; h < n_head; h++) {
        c.len[h] = len[h];
        for (int s = 0; s < len[h]; s++) { /* eight kinds of units, each with a little noise */
            x[s % 8][rng_below(&rng, dim)] += 0.3f;
            float key[KN_HEAD_DIM_MAX];
            memcpy(key, x[s % 8], sizeof key);
            pack_key(&c, h, s, key);
        }
    }
    LAUNCH(near_duplicates, &job, n_head, 1, 1, CUDA_EVICT_THREADS, CUDA_NEAR_SHARED, 5);
    for (int h = 0; h < n_head; h++) {
        for (int s = 0; s < len[h]; s++)
            kn_key_signs(&signs[s], cuda_key(&c, h, s), kn_kv_of(type), dim, 1);
        for (int s = 0; s < len[h]; s++) {
            double want = 0;
            for (int shift = 0; shift < 16; shift += 8) {
                int n = 0, exponent;
                for (int i = 0; i < len[h]; i++) n += ((signs[i] ^ signs[s]) >> shift & 255) == 0;
                double mantissa = frexp(n, &exponent); /* in [0.5, 1) */
                want -= log(2) / 8 * (exponent - 1 + 2 * mantissa - 1);
            }
            assert_near((double)job.value[cuda_place(&c, h, s)], want, 1e-5, "near-duplicates");
        }
    }
}

TEST(finds_near_duplicates)
{
    check_near_duplicates(64, (const int[]){330, 1, 0}, 3, CUDA_KV_Q4);
    check_near_duplicates(96, (const int[]){270}, 1, CUDA_KV_Q8);
    check_near_duplicates(128, (const int[]){3, 366}, 2, CUDA_KV_F16);
    check_near_duplicates(64, (const int[]){330}, 1, CUDA_KV_S4);
    check_near_duplicates(96, (const int[]){270}, 1, CUDA_KV_S5);
}

/* Whether a unit is ranked before another: a larger key, or an equal key and older. */
static bool before(const uint32_t *key, int a, int b)
{
    return key[a] > key[b] || (key[a] == key[b] && a < b);
}

static int place_among(const uint32_t *key, int n, int s)
{
    int better = 0;
    for (int i = 0; i < n; i++) better += before(key, i, s);
    return better;
}

/* Of struct cuda_digits. */
#define TOTAL_BYTES(n_head) ((size_t)(n_head)*4 * 256 * sizeof(uint32_t))

/* Scores in the order of their keys; the protected and the best first, surplus units last. */
TEST(ranks)
{
    AUTO_BUFFERS;
    enum { LEN = 150, SAFE = 30, MOST = 90 };
    struct rng rng = {3};
    struct cuda_cache c = cuda_cache_new(64, 2, LEN, CUDA_KV_Q4, CUDA_KV_Q4);
    const size_t bytes = cuda_cache_slots(&c) * sizeof(uint32_t);
    float *std = take_copy((const float[]){1.5f, -0.5f}, 8);
    float *mean = take_copy((const float[]){-3.0f, 0.25f}, 8);
    struct cuda_rank job = {.cache = c,
                            .sinks = 4,
                            .stabilizers = 10,
                            .scored = 1,
                            .std = std,
                            .mean = mean,
                            .key = guarded(bytes),
                            .total = guarded(TOTAL_BYTES(2))};
    uint32_t plain[LEN];

    for (int h = 0; h < 2; h++) {
        c.len[h] = LEN;
        for (int s = 0; s < LEN; s++) {
            c.pos[cuda_place(&c, h, s)] = (uint32_t)s;
            c.score[cuda_place(&c, h, s)] = (float)(rng_below(&rng, 7) - 3) * 0.5f;
        }
    }
    c.score[cuda_place(&c, 1, 50)] = NAN;
    LAUNCH(cache_rank, &job, 2, 1, 1, CUDA_EVICT_THREADS, CUDA_RANK_SHARED, 1);
    for (int h = 0; h < 2; h++)
        for (int a = 4; a < LEN - 10; a++)
            for (int b = 4; b < LEN - 10; b++) {
                const float x = c.score[cuda_place(&c, h, a)] * std[h] + mean[h];
                const float y = c.score[cuda_place(&c, h, b)] * std[h] + mean[h];
                const uint32_t i = job.key[cuda_place(&c, h, a)], k = job.key[cuda_place(&c, h, b)];
                assert_int_equal(i > k, x > y || (!isnan(x) && isnan(y)));
                assert_int_equal(i == k, x == y || (isnan(x) && isnan(y)));
            }
    for (int s = 0; s < LEN; s++) {
        plain[s] = job.key[cuda_place(&c, 1, s)];
        if (s < 4 || s >= LEN - 10) assert_true(plain[s] == UINT32_MAX);
    }
    job.safe = SAFE;
    job.most = MOST;
    for (uint64_t seed = 2; seed < 8; seed++) {
        LAUNCH(cache_rank, &job, 2, 1, 1, CUDA_EVICT_THREADS, CUDA_RANK_SHARED, seed);
        for (int s = 0; s < LEN; s++) {
            const int place = place_among(plain, LEN, s);
            const uint32_t got = job.key[cuda_place(&c, 1, s)];
            assert_true(got == (place < SAFE ? UINT32_MAX : place < MOST ? plain[s] : 0));
        }
    }
    for (size_t i = 0; i < TOTAL_BYTES(2) / 4; i++) assert_int_equal(job.total[i], 0);
}

/* A score is at least that of the unit's age. */
TEST(ranks_by_age)
{
    AUTO_BUFFERS;
    enum { LEN = 100, NEXT = 5000 };
    struct cuda_cache c = cuda_cache_new(64, 1, LEN, CUDA_KV_Q4, CUDA_KV_Q4);
    const size_t bytes = cuda_cache_slots(&c) * sizeof(uint32_t);
    float *scale = take_copy((const float[]){1, 0}, 8);
    struct cuda_rank job = {.cache = c,
                            .scored = 1,
                            .std = scale,
                            .mean = scale + 1,
                            .recency = 50.0f / 24,
                            .n_pos = NEXT,
                            .key = guarded(bytes),
                            .total = guarded(TOTAL_BYTES(1))};

    c.len[0] = LEN;
    for (int s = 0; s < LEN; s++) {
        c.pos[cuda_place(&c, 0, s)] = (uint32_t)(NEXT - LEN + s);
        c.score[cuda_place(&c, 0, s)] = s % 3 ? s % 3 == 1 ? -2.5f : -9.0f : NAN;
    }
    LAUNCH(cache_rank, &job, 1, 1, 1, CUDA_EVICT_THREADS, CUDA_RANK_SHARED, 1);
    for (int s = 0; s < LEN; s++) {
        int exponent;
        const double twice = 2 * frexp((LEN - s) * 50 / 24.0, &exponent); /* Mitchell's log2 */
        const double least = -(exponent - 1 + twice - 1) * log(2);
        const float score = c.score[cuda_place(&c, 0, s)];
        const uint32_t key = job.key[cuda_place(&c, 0, s)];
        const uint32_t bits = key & 0x80000000u ? key & 0x7fffffffu : ~key;
        float got;
        memcpy(&got, &bits, sizeof got);
        assert_near((double)got, fmax((double)score, least), 1e-5, "score by age");
    }
}

static int falling(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x < y) - (x > y);
}

/* Two heads that share: the counts after each launch are those of the digits of the keep-th largest
 * key. The third one keeps all its units. */
TEST(digits)
{
    AUTO_BUFFERS;
    enum { LEN = 300, OTHER = 7, KEEP = 180 };
    struct rng rng = {9};
    struct cuda_cache c = cuda_cache_new(64, 3, LEN, CUDA_KV_Q4, CUDA_KV_Q4);
    uint32_t *key = take(cuda_cache_slots(&c) * sizeof *key), all[LEN + OTHER];
    int32_t *keep = take(3 * sizeof *keep);
    struct cuda_digits job = {c, key, keep, 2, 0, guarded(TOTAL_BYTES(3)), guarded(3 * 256 * 4)};

    memcpy(c.len, (const int32_t[3]){LEN, OTHER, LEN}, 3 * sizeof *c.len);
    memcpy(keep, (const int32_t[3]){KEEP, KEEP, CUDA_KEEP_ALL}, 3 * sizeof *keep);
    memset(job.total, 0, TOTAL_BYTES(3));
    for (int i = 0; i < LEN + OTHER; i++) /* few digits each: ties */
        key[cuda_place(&c, i / LEN, i % LEN)] = all[i] =
            0x12000000 + ((uint32_t)rng_bits(&rng) & 0x01010303);
    qsort(all, LEN + OTHER, sizeof *all, falling);
    for (int shift = 24; shift >= 0; shift -= 8, job.n_known++) {
        LAUNCH(cache_digits, &job, 3, 1, 1, CUDA_EVICT_THREADS, CUDA_RANK_SHARED, 3);
        for (uint32_t digit = 0; digit < 256; digit++) {
            const uint64_t line = (all[KEEP - 1] >> shift & ~UINT64_C(255)) | digit;
            uint32_t want = 0, last = 0;
            for (int i = 0; i < LEN + OTHER; i++) {
                const bool has = key[cuda_place(&c, i / LEN, i % LEN)] >> shift == line;
                want += has;
                last += has && i >= LEN;
            }
            assert_int_equal(job.total[job.n_known * 3 * 256 + (int)digit], want);
            if (shift == 0) assert_int_equal(job.last[256 + digit], last);
        }
    }
}

/* ---- evict ----------------------------------------------------------------------------------- */

struct pair { /* the same cache on both sides */
    struct arena arena;
    struct cache cpu;
    struct cuda_cache gpu;
};

static struct pair pair_new(int dim, int n_head, int capacity, bool shares)
{
    struct pair p;
    const struct cache_shape shape = {.n_layer = 1,
                                      .n_head = n_head,
                                      .head_dim = dim,
                                      .k_type = KN_KV_Q4,
                                      .v_type = KN_KV_Q4,
                                      .capacity = capacity,
                                      .shared = shares};

    ok(cache_kit_open(&p.cpu, &p.arena, &shape, &err));
    p.gpu = cuda_cache_new(dim, n_head, capacity, CUDA_KV_Q4, CUDA_KV_Q4);
    return p;
}

static void pair_fill(struct pair *p, struct rng *rng, const int *len, int n_distinct)
{
    const size_t unit = p->cpu.k_bytes;
    int64_t seen = 0;
    for (int h = 0; h < p->gpu.n_head; h++) {
        struct cache_head *c = &p->cpu.kv_heads[h];
        uint32_t pos = 0;

        c->len = p->gpu.len[h] = len[h];
        for (int s = 0; s < len[h]; s++) {
            const size_t at = cuda_place(&p->gpu, h, s);
            pos += 1 + (uint32_t)rng_below(rng, 3);
            c->pos[s] = pos;
            c->score[s] = (float)(rng_below(rng, n_distinct) - n_distinct / 2) * 0.5f;
            if (rng_below(rng, 50) == 0) c->score[s] = NAN;
            if (rng_below(rng, 50) == 0) c->score[s] = -0.0f;
            for (size_t i = 0; i < unit; i++) {
                c->k[(size_t)s * unit + i] = (uint8_t)rng_bits(rng);
                c->v[(size_t)s * unit + i] = (uint8_t)rng_bits(rng);
            }
            p->gpu.pos[at] = c->pos[s];
            p->gpu.score[at] = c->score[s];
            memcpy(cuda_key(&p->gpu, h, s), c->k + (size_t)s * unit, unit);
            memcpy(cuda_value(&p->gpu, h, s), c->v + (size_t)s * unit, unit);
        }
        if (pos >= seen) seen = pos + 1;
    }
    cache_imported(&p->cpu, seen);
}

static void check_same(const struct pair *p)
{
    const size_t unit = p->cpu.k_bytes;
    for (int h = 0; h < p->gpu.n_head; h++) {
        const struct cache_head *c = &p->cpu.kv_heads[h];

        assert_int_equal(p->gpu.len[h], c->len);
        for (int s = 0; s < c->len; s++) {
            const size_t at = cuda_place(&p->gpu, h, s);
            assert_int_equal(p->gpu.pos[at], c->pos[s]);
            assert_same(&p->gpu.score[at], &c->score[s], 4, "score");
            assert_same(cuda_key(&p->gpu, h, s), c->k + (size_t)s * unit, unit, "key");
            assert_same(cuda_value(&p->gpu, h, s), c->v + (size_t)s * unit, unit, "value");
        }
    }
}

/* A bit for each of n units, whose positions were pos: whether the CPU kept it. */
static void check_stays(const uint32_t *stays, const uint32_t *pos, int n,
                        const struct cache_head *kept)
{
    if (kept->len == n) return; /* it was not cut */
    for (int s = 0; s < n; s++) {
        const int at = cache_slot(kept, pos[s]);
        assert_int_equal(stays[s / 32] >> s % 32 & 1, at < kept->len && kept->pos[at] == pos[s]);
    }
}

/* How many units of the heads, or of each, stay. */
static int32_t keep_of(const struct cache *c, const struct evict_rule *rule, int head)
{
    struct evict_share s = {.units = c->kv_heads[head].len, .keep = rule->budget};
    if (c->shape.shared) s = evict_share(c, rule);
    return s.units > s.keep ? (int32_t)s.keep : CUDA_KEEP_ALL;
}

/* All launches of an eviction. */
static void launch_evict(const struct pair *p, const struct evict_rule *rule, int32_t *keep,
                         uint32_t *stays)
{
    AUTO_BUFFERS;
    const int n = p->gpu.n_head;
    const bool shares = p->cpu.shape.shared;
    struct cuda_pin *pins = take_copy(rule->pins, (size_t)rule->n_pins * sizeof *pins);
    struct cuda_rank rank = {.cache = p->gpu,
                             .sinks = rule->sinks,
                             .stabilizers = evict_newest(rule),
                             .scored = 1,
                             .safe = shares ? evict_safe(rule) : 0,
                             .most = shares ? rule->head_budget_max : 0,
                             .key = guarded(cuda_cache_slots(&p->gpu) * 4),
                             .pins = pins,
                             .n_pins = rule->n_pins,
                             .total = guarded(TOTAL_BYTES(n))};
    struct cuda_evict job = {{.cache = p->gpu,
                              .key = rank.key,
                              .keep = keep,
                              .n_group = shares ? n : 1,
                              .total = rank.total,
                              .last = guarded((size_t)n * 256 * 4)},
                             stays};
    LAUNCH(cache_rank, &rank, n, 1, 1, CUDA_EVICT_THREADS, CUDA_RANK_SHARED, 1);
    for (; job.digits.n_known < 4; job.digits.n_known++)
        LAUNCH(cache_digits, &job.digits, n, 1, 1, CUDA_EVICT_THREADS, CUDA_RANK_SHARED, 2);
    LAUNCH(cache_choose, &job, n, 1, 1, CUDA_EVICT_THREADS, CUDA_RANK_SHARED, 3);
    LAUNCH(cache_evict, &job, n, 1, 1, CUDA_EVICT_THREADS, CUDA_EVICT_SHARED(2 * p->cpu.k_bytes),
           1);
}

/* Few distinct scores: ties everywhere. */
static void check_evict(int dim, const int *len, int n_head, struct evict_rule rule, int n_distinct,
                        bool shares)
{
    AUTO_BUFFERS;
    struct rng rng = {(uint64_t)(dim + len[0] + n_distinct)};
    struct pair p = pair_new(dim, n_head, 400, shares);
    union evict_slot *slots = take(cache_slots(&p.cpu.shape) * sizeof *slots);
    uint32_t *stays = guarded((size_t)(n_head * 2 * p.gpu.n_pages) * 4);
    uint32_t *pos = take(cuda_cache_slots(&p.gpu) * sizeof *pos);
    int32_t *keep = take((size_t)n_head * sizeof *keep);

    pair_fill(&p, &rng, len, n_distinct);
    for (int h = 0; h < n_head; h++) keep[h] = keep_of(&p.cpu, &rule, h);
    for (int h = 0; h < n_head; h++)
        memcpy(pos + (size_t)(h * 400), p.cpu.kv_heads[h].pos, (size_t)len[h] * sizeof *pos);
    launch_evict(&p, &rule, keep, stays);
    evict_values(&p.cpu, slots);
    evict(&p.cpu, &rule, pool, slots);
    check_same(&p);
    for (int h = 0; h < n_head; h++)
        check_stays(stays + (size_t)(h * 2 * p.gpu.n_pages), pos + (size_t)(h * 400), len[h],
                    &p.cpu.kv_heads[h]);
    arena_release(&p.arena);
}

/* Pinned positions stay, and take the room of the newest. */
TEST(eviction_with_pins)
{
    const struct evict_pin pins[] = {{10, 30}, {31, 32}, {120, 150}};
    const struct evict_rule rule = {
        .budget = 100, .sinks = 4, .stabilizers = 80, .pins = pins, .n_pins = 3};
    check_evict(64, (const int[]){300, 25, 140}, 3, rule, 1000, false);
    check_evict(128, (const int[]){200, 101}, 2, rule, 3, false);
}

TEST(eviction)
{
    check_evict(64, (const int[]){300, 0, 100}, 3,
                (struct evict_rule){.budget = 100, .sinks = 4, .stabilizers = 20}, 1000, false);
    check_evict(64, (const int[]){400, 101}, 2,
                (struct evict_rule){.budget = 100, .sinks = 0, .stabilizers = 0}, 3, false);
    check_evict(96, (const int[]){130}, 1,
                (struct evict_rule){.budget = 129, .sinks = 10, .stabilizers = 119}, 8, false);
    check_evict(128, (const int[]){200, 65}, 2,
                (struct evict_rule){.budget = 64, .sinks = 0, .stabilizers = 64}, 50, false);
    check_evict(128, (const int[]){70}, 1,
                (struct evict_rule){.budget = 1, .sinks = 0, .stabilizers = 0}, 1, false);
}

/* Heads that share a budget: the lower head wins ties, and none goes below its safeguard or above
 * its limit. */
TEST(eviction_of_sharing_heads)
{
    const struct evict_rule rule = {
        .budget = 100, .sinks = 4, .stabilizers = 20, .head_budget_max = 160, .floor_pct = 50};
    check_evict(64, (const int[]){300, 20, 200, 90}, 4, rule, 1000, true);
    check_evict(64, (const int[]){300, 20, 200, 90}, 4, rule, 3, true);
    check_evict(128, (const int[]){90, 100, 60}, 3, rule, 3, true);
}

AROUND_TESTS(pool_set_up, pool_tear_down)
