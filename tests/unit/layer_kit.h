/* layer_kit: one attention layer, built by hand, for tests of policies: 4 query heads over 2 KV
 * heads, a cache of floats, and RoPE in double precision. */
#ifndef RETAIN_TESTS_LAYER_KIT_H
#define RETAIN_TESTS_LAYER_KIT_H

#include "tests/test.h"

#include <math.h>

#include "runtime/forward/forward.h"
#include "runtime/model/retaining.h"
#include "tests/unit/cache_kit.h"

enum { DIM = 32, HALF = DIM / 2, KV = 2, GROUP = 2, HEADS = KV * GROUP, N = 48, ROW = 8 * DIM };

struct layer {
    struct model model;
    struct policy policy;
    struct retaining heads;
    struct forward f;
    struct cache c;
    struct arena scratch, units;
    float freq[HALF];
    struct model_layer layer;
    float qkv[N][ROW]; /* q of 4 heads, k of 2, v of 2 */
};

/* An empty cache under this policy, and the inputs of one chunk of N tokens. */
static inline struct layer *layer_new(const char *policy, bool shared, uint64_t seed)
{
    struct layer *l = calloc(1, sizeof *l);
    struct arena plan;
    l->policy = *policy_named(policy);
    for (int i = 0; i < HALF; i++) l->freq[i] = (float)pow(10000, -(double)i / HALF);
    l->model = (struct model){.n_layer = 1,
                              .n_head = HEADS,
                              .n_kv_head = KV,
                              .head_dim = DIM,
                              .n_embd = 32,
                              .n_ff = 32,
                              .n_vocab = 32,
                              .attn_scale = 0.5f,
                              .layers = &l->layer,
                              .n_kv_layer = 1,
                              .kv_layers = {&l->layer},
                              .rope = {.n_rot = DIM, .n_ctx_orig = 4096, .freq = l->freq}};
    struct cache_shape shape = {.n_layer = 1,
                                .n_head = KV,
                                .head_dim = DIM,
                                .k_type = KN_KV_F32,
                                .v_type = KN_KV_F32,
                                .capacity = N,
                                .head_max = shared ? N : 0,
                                .shared = shared};
    struct forward_opts o = {.model = &l->model,
                             .kernels = kn_table(NULL),
                             .pool = pool,
                             .policy = &l->policy,
                             .seed = seed,
                             .shape = &shape,
                             .chunk = N,
                             .n_logits = 1,
                             .n_threads = 2};
    arena_init_plan(&plan, "scratch");
    forward_plan(&l->f, &o, &plan);
    ok(arena_init(&l->scratch, "scratch", plan.used, &err));
    forward_plan(&l->f, &o, &l->scratch);
    ok(cache_kit_open(&l->c, &l->units, &shape, &err));
    return l;
}

static inline void layer_free(struct layer *l)
{
    arena_release(&l->scratch);
    arena_release(&l->units);
    free(l);
}

/* Appends token t's unit to a KV head. */
static inline void layer_append(struct layer *l, int head, int t, float score)
{
    struct cache_head *h = &l->c.kv_heads[head];
    size_t s = (size_t)h->len++;
    const float *k = l->qkv[t] + (HEADS + head) * DIM, *v = k + KV * DIM;
    l->f.kernels->kv_pack[KN_KV_F32](h->k + s * l->c.k_bytes, k, DIM);
    l->f.kernels->kv_pack[KN_KV_F32](h->v + s * l->c.v_bytes, v, DIM);
    h->score[s] = score;
    h->pos[s] = (uint32_t)t;
}

#endif
