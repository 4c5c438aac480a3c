/* Units come and go on the device as on the CPU: the same bytes, the same survivors, the same
 * counters. */
#include "tests/emu/kit.h"

#include "runtime/base/pool.h"
#include "runtime/evict.h"

DECLARE_KERNEL(kv_append, cuda_append);
DECLARE_KERNEL(cache_gather, cuda_gather);
DECLARE_KERNEL(cache_evict, cuda_evict);

/* ---- append ---------------------------------------------------------------------------------- */

/* Numbers that quantization stumbles over. */
static void fill_hard(struct rng *rng, float *x, size_t n)
{
    rng_fill(rng, x, n, 4.0f);
    for (size_t i = 0; i < 32 && i < n; i++) x[i] = 0.25f;               /* no range */
    for (size_t i = 32; i < 64 && i < n; i++) x[i] = -0.0f;              /* nothing */
    for (size_t i = 64; i < 96 && i < n; i++) x[i] *= 1e5f;              /* beyond a half */
    for (size_t i = 96; i < 128 && i < n; i++) x[i] *= 1e-8f;            /* below one */
    for (size_t i = 128; i < 160 && i < n; i++) x[i] = 3 + x[i] * 1e-3f; /* far from zero */
}

/* All but the newest of the n_tok units that were just added. */
static void check_gather(struct cuda_cache *c, int n_tok, size_t unit)
{
    const size_t n = n_tok > 1 ? (size_t)n_tok - 1 : 1;
    const size_t head_bytes = n * 2 * unit, bytes = (size_t)c->n_head * head_bytes;
    uint8_t *out = guarded(bytes);
    const struct cuda_gather job = {*c, n_tok, (int)n, out};

    for (int h = 0; h < c->n_head; h++) c->len[h] += n_tok;
    LAUNCH(cache_gather, &job, c->n_head, 1, 1, 256, 0, 1);
    for (int h = 0; h < c->n_head; h++) {
        const size_t slot = (size_t)(c->len[h] - n_tok);
        const uint8_t *p = out + (size_t)h * head_bytes;
        assert_same(p, c->k + h * c->k_stride + slot * unit, n * unit, "keys");
        assert_same(p + n * unit, c->v + h * c->v_stride + slot * unit, n * unit, "values");
    }
    guarded_free(out, bytes);
}

static enum kn_kv kv_of(enum cuda_kv type)
{
    return type == CUDA_KV_Q4 ? KN_KV_Q4 : type == CUDA_KV_Q8 ? KN_KV_Q8 : KN_KV_F16;
}

static void check_append(int dim, int n_head, int n_tok, enum cuda_kv type)
{
    struct rng rng = {(uint64_t)(dim + n_head)};
    const int capacity = n_tok + 9, stride = n_head * dim * 2 + 3;
    const size_t unit = kn_kv_bytes(kv_of(type), dim), floats = (size_t)(n_tok * stride);
    const size_t head_bytes = ((size_t)capacity * unit + 15) & ~(size_t)15;
    const size_t bytes = head_bytes * (size_t)n_head, n_pos = (size_t)(n_head * capacity);
    float *qkv = take(floats * sizeof *qkv);
    int32_t *len = take(8 * sizeof *len);
    uint32_t *pos = take(sizeof *pos);
    float *scores = take(64 * sizeof *scores);
    memcpy(len, (const int32_t[8]){0, 5, 9, 1}, 8 * sizeof *len);
    *pos = 1000;
    for (int i = 0; i < 64; i++) scores[i] = (float)i;
    struct cuda_append job = {
        .cache = {guarded(bytes), guarded(bytes), (int64_t)head_bytes, (int64_t)head_bytes,
                  guarded(n_pos * 4), take(n_pos * 4), capacity, len, n_head, dim, (int)unit,
                  (int)unit, type, type},
        .k = qkv,
        .v = qkv + n_head * dim,
        .stride = stride,
        .pos = pos,
        .score = scores,
        .n_tok = n_tok,
    };
    uint8_t *want = take(unit);

    fill_hard(&rng, qkv, floats);
    LAUNCH(kv_append, &job, n_tok, n_head, 1, 128, 0, 1);
    for (int t = 0; t < n_tok; t++)
        for (int h = 0; h < n_head; h++) {
            const size_t slot = (size_t)(len[h] + t), at = (size_t)h * head_bytes + slot * unit;
            kn_table("ref")->kv_pack[kv_of(type)](want, job.k + t * stride + h * dim, dim);
            assert_same(job.cache.k + at, want, unit, "key");
            kn_table("ref")->kv_pack[kv_of(type)](want, job.v + t * stride + h * dim, dim);
            assert_same(job.cache.v + at, want, unit, "value");
            assert_int_equal(job.cache.pos[(size_t)(h * capacity) + slot], 1000 + t);
            assert_true(job.cache.score[(size_t)(h * capacity) + slot] == scores[h * n_tok + t]);
        }
    check_gather(&job.cache, n_tok, unit);
    free(job.cache.score);
    free(len);
    free(pos);
    free(scores);
    guarded_free(job.cache.k, bytes);
    guarded_free(job.cache.v, bytes);
    guarded_free(job.cache.pos, n_pos * 4);
    free(qkv);
    free(want);
}

static void append(void **state)
{
    (void)state;
    for (int type = CUDA_KV_Q4; type <= CUDA_KV_F16; type++) {
        check_append(64, 3, 5, (enum cuda_kv)type);
        check_append(96, 2, 1, (enum cuda_kv)type);
        check_append(128, 4, 3, (enum cuda_kv)type);
    }
}

/* ---- evict ----------------------------------------------------------------------------------- */

struct pair { /* one cache on both sides */
    struct arena arena;
    struct cache cpu;
    struct cuda_cache gpu;
    size_t k_bytes, n_slot;
};

static struct pair pair_new(int dim, int n_head, int capacity)
{
    struct err e;
    struct arena plan;
    struct pair p;
    const struct cache_shape shape = {.n_layer = 1,
                                      .n_head = n_head,
                                      .head_dim = dim,
                                      .k_type = KN_KV_Q4,
                                      .v_type = KN_KV_Q4,
                                      .capacity = capacity};

    arena_init_plan(&plan, "cache");
    cache_plan(&p.cpu, &shape, &plan);
    assert_int_equal(arena_init(&p.arena, "cache", plan.used, &e), 0);
    cache_plan(&p.cpu, &shape, &p.arena);
    const size_t head = ((size_t)capacity * p.cpu.k_bytes + 15) & ~(size_t)15;
    p.k_bytes = head * (size_t)n_head;
    p.n_slot = (size_t)(n_head * capacity);
    p.gpu = (struct cuda_cache){guarded(p.k_bytes),
                                guarded(p.k_bytes),
                                (int64_t)head,
                                (int64_t)head,
                                guarded(p.n_slot * 4),
                                guarded(p.n_slot * 4),
                                capacity,
                                take((size_t)n_head * 4),
                                n_head,
                                dim,
                                (int)p.cpu.k_bytes,
                                (int)p.cpu.v_bytes,
                                CUDA_KV_Q4,
                                CUDA_KV_Q4};
    return p;
}

static void pair_fill(struct pair *p, struct rng *rng, const int *len, int n_distinct)
{
    int64_t seen = 0;
    for (int h = 0; h < p->gpu.n_head; h++) {
        struct cache_head *c = &p->cpu.heads[h];
        uint32_t pos = 0;

        c->len = p->gpu.len[h] = len[h];
        for (int s = 0; s < len[h]; s++) {
            pos += 1 + (uint32_t)rng_below(rng, 3);
            c->pos[s] = pos;
            c->score[s] = (float)(rng_below(rng, n_distinct) - n_distinct / 2) * 0.5f;
            if (rng_below(rng, 50) == 0) c->score[s] = NAN;
            if (rng_below(rng, 50) == 0) c->score[s] = -0.0f;
            for (size_t i = 0; i < p->cpu.k_bytes; i++) {
                c->k[(size_t)s * p->cpu.k_bytes + i] = (uint8_t)rng_bits(rng);
                c->v[(size_t)s * p->cpu.k_bytes + i] = (uint8_t)rng_bits(rng);
            }
        }
        if (pos >= seen) seen = pos + 1;
        const size_t bytes = (size_t)len[h] * p->cpu.k_bytes, at = (size_t)(h * p->gpu.stride);
        memcpy(p->gpu.k + h * p->gpu.k_stride, c->k, bytes);
        memcpy(p->gpu.v + h * p->gpu.v_stride, c->v, bytes);
        memcpy(p->gpu.pos + at, c->pos, (size_t)len[h] * 4);
        memcpy(p->gpu.score + at, c->score, (size_t)len[h] * 4);
    }
    cache_imported(&p->cpu, seen);
}

static void pair_free(struct pair *p)
{
    guarded_free(p->gpu.k, p->k_bytes);
    guarded_free(p->gpu.v, p->k_bytes);
    guarded_free(p->gpu.pos, p->n_slot * 4);
    guarded_free(p->gpu.score, p->n_slot * 4);
    free(p->gpu.len);
    arena_release(&p->arena);
}

static void check_same(const struct pair *p)
{
    for (int h = 0; h < p->gpu.n_head; h++) {
        const struct cache_head *c = &p->cpu.heads[h];
        const size_t n = (size_t)c->len, at = (size_t)(h * p->gpu.stride);

        assert_int_equal(p->gpu.len[h], c->len);
        assert_same(p->gpu.pos + at, c->pos, n * 4, "positions");
        assert_same(p->gpu.score + at, c->score, n * 4, "scores");
        assert_same(p->gpu.k + h * p->gpu.k_stride, c->k, n * p->cpu.k_bytes, "keys");
        assert_same(p->gpu.v + h * p->gpu.v_stride, c->v, n * p->cpu.k_bytes, "values");
    }
}

/* Few distinct scores: ties everywhere. */
static void check_evict(int dim, const int *len, int n_head, struct evict_rule rule, int n_distinct)
{
    struct rng rng = {(uint64_t)(dim + len[0] + n_distinct)};
    struct pair p = pair_new(dim, n_head, 400);
    struct pool *pool;
    struct err e;
    union evict_slot *slots = take(cache_slots(&p.cpu.shape) * sizeof *slots);
    const size_t kept_bytes = (size_t)(n_head * RETENTION_COLS) * 4;
    uint32_t *kept = take(kept_bytes), *width = take(sizeof *width);

    pair_fill(&p, &rng, len, n_distinct);
    *width = (uint32_t)p.cpu.col_width;
    memcpy(kept, p.cpu.kept, kept_bytes);
    const struct cuda_evict job = {p.gpu, rule.budget,    rule.sinks, rule.stabilizers,
                                   kept,  RETENTION_COLS, width};
    LAUNCH(cache_evict, &job, n_head, 1, 1, CUDA_EVICT_THREADS,
           CUDA_EVICT_SHARED(2 * p.cpu.k_bytes), 1);
    assert_int_equal(pool_open(&pool, 1, &e), 0);
    evict_values(&p.cpu, slots);
    evict(&p.cpu, &rule, pool, slots);
    check_same(&p);
    assert_same(kept, p.cpu.kept, kept_bytes, "retention counters");
    pool_close(pool);
    free(slots);
    free(width);
    free(kept);
    pair_free(&p);
}

static void eviction(void **state)
{
    (void)state;
    check_evict(64, (const int[]){300, 0, 100}, 3,
                (struct evict_rule){.budget = 100, .sinks = 4, .stabilizers = 20}, 1000);
    check_evict(64, (const int[]){400, 101}, 2,
                (struct evict_rule){.budget = 100, .sinks = 0, .stabilizers = 0}, 3);
    check_evict(96, (const int[]){130}, 1,
                (struct evict_rule){.budget = 129, .sinks = 10, .stabilizers = 119}, 8);
    check_evict(128, (const int[]){200, 65}, 2,
                (struct evict_rule){.budget = 64, .sinks = 0, .stabilizers = 64}, 50);
    check_evict(128, (const int[]){70}, 1,
                (struct evict_rule){.budget = 1, .sinks = 0, .stabilizers = 0}, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(append),
        cmocka_unit_test(eviction),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
