/* Conversations with a model in which two of three layers have windows of 40 units, and with one
 * whose values are its keys: stopped, resumed, rewound, branched and killed, they continue to the
 * bit. Run on tiny random models. */

#include "runtime/session/session_parts.h"
#include "tests/unit/session_kit.h"

enum { WINDOW = 40 };

static int set_up(void **state)
{
    return engine_open_model("build/golden/families/gemma3.gguf");
}

static struct options options_for(const char *policy, const char *kv)
{
    struct options o = options_of(policy, kv, 0.8f);
    if (!strcmp(policy, "full")) o.session.plan.policy.context = 800;
    o.session.ignore_end = true;
    o.session.raw = true;
    o.session.max_tokens = 30;
    return o;
}

/* The units that a window reaches: where they are in memory may differ. */
static void same_windows(const struct cache *a, const struct cache *b)
{
    assert_int_equal(a->n_pos, b->n_pos);
    for (int i = 0; i < a->shape.n_layer * a->shape.n_head; i++) {
        const struct cache_head *p = &a->kv_heads[i], *q = &b->kv_heads[i];
        size_t n = (size_t)(a->n_pos < WINDOW ? a->n_pos : WINDOW);
        size_t from = (size_t)p->len - n, to = (size_t)q->len - n;
        assert_true((size_t)p->len >= n && (size_t)q->len >= n);
        assert_int_equal(p->pos[from], a->n_pos - (int64_t)n);
        assert_int_equal(p->pos[from] - from, p->pos[0]);
        assert_int_equal(p->pos[0] % KN_TILE, 0);
        assert_int_equal(q->pos[0] % KN_TILE, 0);
        assert_memory_equal(p->pos + from, q->pos + to, n * sizeof *p->pos);
        assert_memory_equal(p->k + from * a->k_bytes, q->k + to * a->k_bytes, n * a->k_bytes);
        assert_memory_equal(p->v + from * a->v_bytes, q->v + to * a->v_bytes, n * a->v_bytes);
    }
}

static void same(const struct session *x, const struct session *y)
{
    struct session_stats st;
    session_stats(y, &st);
    assert_int_equal(st.n_reread, 0);
    const struct cache *w = session_cache(y)->windows;
    const int64_t windowed = w ? cache_units(w) * (int64_t)(w->k_bytes + w->v_bytes) : 0;
    assert_int_equal(st.cache_used_bytes, st.units_kept * st.unit_bytes + windowed);
    same_cache(x, y);
    if (w) same_windows(session_cache(x)->windows, session_cache(y)->windows);
}

/* ---- coming back ----------------------------------------------------------------------------- */

static void random_conversations(uint64_t n)
{
    static const char *const policies[] = {"sink", "keydiff+global", "random", "full", "keydiff"};
    static const char *const kvs[] = {"q4", "q8", "f16", "f32"}; /* the same for keys and values */
    int64_t n_evicted = 0;
    for (uint64_t i = 0; i < n; i++) {
        struct options o = random_options(i, policies[i % 5]);
        plan_kv_named(kvs[i % 4], &o.session.plan.kv);
        o.session.ignore_end = true;
        o.session.raw = true;
        n_evicted += resume_equals_never_stopped(o, 5, same);
    }
    assert_true(n_evicted > 15 * (int64_t)n);
}

TEST(test_twenty_conversations)
{
    random_conversations(20);
}

TEST(test_rewind_and_branch)
{
    rewinds_and_branches(options_for("sink", "q4"), 3, same);
}

/* ---- after a kill ---------------------------------------------------------------------------- */

/* In the middle of a long answer: windows have passed the question. */
static void kill_and_continue(void)
{
    for (int n_left = 3; n_left < 260; n_left += 80) {
        struct options o = options_for("full", "f16");
        const char *dir = folder_new();
        AUTO_LOG once = {0}, again = {0};
        o.session.max_tokens = 300;
        o.session.sampling.seed = 2;
        o.session.sampling.temperature = 0.4f;
        run_victim(dir, o, 0, said[0], (struct victim){.n_tokens = n_left});
        AUTO_LIBRARY *l = open_library(dir);
        AUTO_SESSION *x = open_session(NULL, o, false);
        AUTO_SESSION *y = open_session(l, o, true);
        say(x, said[0], &once);
        assert_int_equal(reread(y), 0);
        answer(y, NULL, &again);
        const size_t cut = 4; /* the kill may have cut a character; and a text may hold a NUL */
        assert_true(again.text.n > cut);
        same(x, y);
        assert_non_null(
            memmem(once.text.data, once.text.n, again.text.data + cut, again.text.n - cut));
    }
}

TEST(test_kill)
{
    kill_and_continue();
}

/* A unit is a key, its score and its position. */
TEST(test_latent_rows)
{
    struct engine *windows = engine;
    struct session_stats st;
    ok(engine_open_model("build/golden/families/deepseek3.gguf"));
    struct session *s = open_session(NULL, options_for("sink", "q4"), false);
    session_stats(s, &st);
    assert_int_equal(st.unit_bytes, kn_kv_bytes(KN_KV_Q4, 64) + sizeof(float) + sizeof(uint32_t));
    session_close(s);
    random_conversations(10);
    kill_and_continue();
    engine_close(engine);
    engine = windows;
}

/* ---- sizes ----------------------------------------------------------------------------------- */

/* The cache takes the planned bytes, and never more, however long the conversation; windows hold
 * consecutive units. */
TEST(test_planned_bytes)
{
    enum { N = 20000, CHUNK = 100 };
    struct options o = options_for("sink", "q4");
    AUTO_CONTEXT x;
    int32_t ids[CHUNK];
    int64_t n_evicted;
    o.session.plan.chunk = CHUNK;
    o.session.plan.policy.reserve = CHUNK;
    ok(context_open(&x, engine, &o.session.plan, 1, 1, &err));
    assert_int_equal(x.cache_arena.used, x.plan.cache_bytes);
    for (int i = 0; i < CHUNK; i++) ids[i] = 3 + i * 7 % 290;
    for (int64_t n = 0; n < N; n += 1 + n % CHUNK) {
        ok(context_evict(&x, &n_evicted, &err));
        ok(context_run(&x, ids, (int)(1 + n % CHUNK), 1, &err));
        const struct cache_head *h = cache_head(x.cache.windows, 1, 0);
        assert_int_equal(h->pos[h->len - 1], x.cache.n_pos - 1);
        assert_int_equal(h->pos[0], x.cache.n_pos - h->len);
        assert_true(h->len >= WINDOW || h->pos[0] == 0);
        assert_true(h->len <= h->capacity);
    }
    assert_int_equal(x.cache_arena.used, x.plan.cache_bytes);
    assert_int_equal(x.cache.windows->n_evicted, 0);
}

/* A text that is only looked at has the logits of one that is run, and changes none after it. */
TEST(test_look)
{
    enum { TOLD = 120, LOOKED = 60, ROWS = 3 };
    struct options o = options_for("full", "q4");
    AUTO_CONTEXT looks, runs;
    const int n_vocab = engine->model->n_vocab;
    int32_t ids[TOLD + LOOKED];
    o.session.plan.chunk = TOLD;
    for (int i = 0; i < TOLD + LOOKED; i++) ids[i] = 5 + i * 7 % 200;
    ok(context_open(&looks, engine, &o.session.plan, 1, ROWS, &err));
    ok(context_open(&runs, engine, &o.session.plan, 1, ROWS, &err));
    ok(context_run(&looks, ids, TOLD, 1, &err));
    ok(context_run(&runs, ids, TOLD, 1, &err));
    for (int i = 0; i < 2; i++) ok(context_look(&looks, ids + TOLD - i, LOOKED, ROWS, &err));
    ok(context_look(&looks, ids + TOLD, LOOKED, ROWS, &err));
    assert_int_equal(looks.cache.n_pos, TOLD);
    ok(context_run(&runs, ids + TOLD, LOOKED, ROWS, &err));
    const size_t bytes = (size_t)ROWS * (size_t)n_vocab * sizeof(float);
    assert_memory_equal(looks.forward.logits, runs.forward.logits, bytes);
    ok(context_run(&looks, ids + TOLD, LOOKED, ROWS, &err));
    assert_memory_equal(looks.forward.logits, runs.forward.logits, bytes);
}

AROUND_TESTS(set_up, engine_tear_down)
