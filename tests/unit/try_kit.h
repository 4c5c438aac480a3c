/* try_kit: speculation changes no bit: tokens that are tried several at once and accepted one by
 * one leave the cache, its counters, scores and logits as tokens that are run alone. */
#ifndef RETAIN_TESTS_TRY_KIT_H
#define RETAIN_TESTS_TRY_KIT_H

#include "runtime/cuda/cuda.h"
#include "runtime/forward/context.h"
#include "tests/unit/session_kit.h"

static inline int32_t id_at(const struct engine *g, int i)
{
    return (300 + (i * 7919 + i / 5 * 31) % 1500) % g->model->n_vocab;
}

static inline void make_room(struct context *x, int n)
{
    int64_t n_evicted;
    if (cache_room(&x->cache) < n) ok(context_evict(x, &n_evicted, &err));
}

enum { TRY_CHUNK = 60 };

/* A cache with the first `begin` tokens, some chunks. */
static inline void open_context(struct context *x, struct engine *g, const char *policy,
                                const char *kv, int begin)
{
    struct options o = options_of(policy, kv, 0);
    int32_t ids[TRY_CHUNK];
    o.session.plan.budget = begin;
    o.session.plan.chunk = TRY_CHUNK;
    ok(context_open(x, g, &o.session.plan, 1, FORWARD_TRY_MAX, &err));
    for (int at = 0; at < begin; at += TRY_CHUNK) {
        for (int i = 0; i < TRY_CHUNK; i++) ids[i] = id_at(g, at + i);
        make_room(x, TRY_CHUNK);
        ok(context_run(x, ids, TRY_CHUNK, 1, &err));
    }
}

static inline void same_logits(struct context *a, struct context *b)
{
    float *x, *y;
    ok(context_logits(a, &x, &err));
    ok(context_logits(b, &y, &err));
    assert_memory_equal(x, y, (size_t)a->engine->model->n_vocab * sizeof *x);
}

/* Tries tokens [at, at + n), of which those from at + n_right on are wrong. */
static inline void try_tokens(struct context *x, int at, int n, int n_right)
{
    int32_t ids[FORWARD_TRY_MAX];
    for (int i = 0; i < n; i++) ids[i] = i < n_right ? id_at(x->engine, at + i) : 2;
    ok(context_try(x, ids, n, &err));
}

static inline void same_state(const struct recurrent_state *a, const struct recurrent_state *b)
{
    if (!a->layers) return;
    assert_memory_equal(a->layers, b->layers, recurrent_state_layer_bytes(a));
    assert_memory_equal(a->hidden, b->hidden, (size_t)a->shape.n_hidden * sizeof(float));
    assert_memory_equal(a->step, b->step, recurrent_state_step_bytes(a));
}

/* Runs tokens [begin, end) alone, and some at a time with wrong ones behind them. */
static inline void compare_tries(struct engine *g, const char *policy, const char *kv, int begin,
                                 int end)
{
    struct context alone, tried;
    open_context(&alone, g, policy, kv, begin);
    open_context(&tried, g, policy, kv, begin);
    const int most = context_try_max(&tried);
    assert_int_equal(most, g->gpu ? CUDA_TRY_MAX : FORWARD_TRY_MAX);
    for (int at = begin, round = 0; at < end; round++) {
        int n = 1 + round * 5 % most, n_right = 1 + round * 3 % n;
        make_room(&alone, most);
        make_room(&tried, most);
        if (n > 1) try_tokens(&tried, at, n, n_right);
        for (int i = 0; i < n_right; i++, at++) {
            int32_t id = id_at(g, at);
            if (i > 0) context_accept(&tried);
            if (n == 1) ok(context_run(&tried, &id, 1, 1, &err));
            ok(context_run(&alone, &id, 1, 1, &err));
            same_logits(&alone, &tried);
            assert_int_equal(alone.cache.n_pos, tried.cache.n_pos);
        }
    }
    struct context *const both[] = {&alone, &tried};
    int64_t n_evicted[2]; /* by the scores of tried tokens */
    for (int i = 0; i < 2; i++) {
        ok(context_evict(both[i], &n_evicted[i], &err));
        context_score(both[i]);
        ok(cache_fetch(&both[i]->cache, cache_len_max(&both[i]->cache), &err));
        ok(cache_fetch(&both[i]->cache, 1, &err));
        ok(cache_fetch_state(&both[i]->cache, &err));
    }
    assert_int_equal(n_evicted[0], n_evicted[1]);
    same_units(&alone.cache, &tried.cache);
    same_state(&alone.cache.recurrent, &tried.cache.recurrent);
    context_release(&alone);
    context_release(&tried);
}

#endif
