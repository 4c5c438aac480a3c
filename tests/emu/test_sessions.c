/* Conversations on the emulated GPU, with all layers or some, of models whose layers have windows,
 * latent rows, a recurrent state or an MTP layer: stopped and resumed after each turn, and killed
 * inside an answer, they continue with the same text, with speculation and without. */

#include "runtime/cuda/cuda.h"
#include "runtime/session/session_parts.h"
#include "tests/unit/make_model.h"
#include "tests/unit/session_kit.h"

static int64_t n_accepted; /* proposals, in all conversations of `resume` */

/* n_layers: on the GPU, the others on the CPU; 0 = all. */
static void engine_for(const char *model, int n_layers)
{
    struct options o;
    options_init(&o);
    ok(options_set(&o, OPTIONS_MODEL, "device", "cuda", &err));
    o.engine.model = model;
    o.engine.gpu_layers = n_layers;
    o.engine.threads = 1; /* a forked child has no other threads */
    o.session.plan.policy = policy_choice("sink");
    ok(engine_open(&engine, &o.engine, &o.session.plan, 1, NULL, NULL, &err));
    assert_non_null(engine->gpu);
}

static struct options options_for(const char *policy)
{
    struct options o = options_of(policy, "f16", 0.8f);
    o.session.ignore_end = true;
    o.session.raw = true;
    o.session.max_tokens = 7;
    o.session.plan.budget = 24; /* the second turn evicts */
    o.session.plan.policy.reserve = 16;
    return o;
}

static void same(const struct session *x, const struct session *y)
{
    assert_int_equal(reread(y), 0);
    ok(cache_fetch(session_cache(x), 1 << 20, &err));
    ok(cache_fetch(session_cache(y), 1 << 20, &err));
    same_cache(x, y);
    const struct recurrent_state *a = &session_cache(x)->recurrent,
                                 *b = &session_cache(y)->recurrent;
    if (!a->shape.n_layer) return;
    if (cache_fetch_state(session_cache(x), &err) || cache_fetch_state(session_cache(y), &err))
        fail_msg("%s", err.text);
    assert_memory_equal(a->layers, b->layers, recurrent_state_layer_bytes(a));
    assert_memory_equal(a->hidden, b->hidden, (size_t)a->shape.n_hidden * 4);
}

static void resume(const char *policy)
{
    struct options o = options_for(policy);
    struct session_stats st;
    AUTO_LOG once = {0}, often = {0};
    NEW_LIBRARY(l);
    o.session.plan.speculate.off = true;
    AUTO_SESSION *x = open_session(NULL, o, false);
    o.session.plan.speculate = (struct plan_speculate){.n = 4};
    AUTO_SESSION *y = open_session(l, o, false);
    for (int i = 0; i < 2; i++) {
        say(x, said[i], &once);
        say(y, said[i], &often);
        session_stats(y, &st);
        n_accepted += st.n_accepted;
        reopen(&y, l, o);
        same(x, y);
    }
    assert_string_equal(str_get(&once.text), str_get(&often.text));
    assert_true(once.n_evicted > 0);
}

/* The killed answer is saved up to its last token; the next turn is that of a conversation that was
 * stopped there. */
static void killed(void)
{
    enum { TOKENS = 4 };
    struct options o = options_for("sink");
    AUTO_LOG once = {0}, again = {0};
    const char *dir = folder_new();
    run_victim(dir, o, 0, said[0], (struct victim){.n_tokens = TOKENS});
    AUTO_LIBRARY *l = open_library(dir);
    AUTO_SESSION *y = open_session(l, o, true), *x;
    assert_int_equal(reread(y), 0);
    o.session.max_tokens = TOKENS;
    x = open_session(NULL, o, false);
    say(x, said[0], &once);
    assert_int_equal(session_cache(x)->n_pos, session_cache(y)->n_pos);
    str_clear(&once.text);
    say(x, said[1], &once);
    say(y, said[1], &again);
    assert_memory_equal(str_get(&again.text), str_get(&once.text), once.text.n - 1);
}

TEST(windows)
{
    engine_for("build/golden/families/gemma3.gguf", 0);
    resume("sink");
    killed();
    engine_close(engine);
    engine_for("build/golden/families/gemma3.gguf", 2);
    resume("keydiff+global");
    killed();
    engine_close(engine);
}

TEST(latent)
{
    engine_for("build/golden/families/deepseek3.gguf", 0);
    resume("keydiff+global");
    killed();
    engine_close(engine);
    engine_for("build/golden/families/deepseek3.gguf", 2);
    resume("sink");
    engine_close(engine);
}

/* The newest token's logits, computed again from its kept row, as when a conversation is
 * resumed. */
static void same_again(void)
{
    const size_t bytes = (size_t)engine->model->n_vocab * sizeof(float);
    struct options o = options_for("sink");
    AUTO_CONTEXT x;
    const int32_t id = 5;
    float *got, *want = malloc(bytes);
    ok(context_open(&x, engine, &o.session.plan, 1, 1, &err));
    ok(context_run(&x, &id, 1, 1, &err));
    ok(context_logits(&x, &got, &err));
    memcpy(want, got, bytes);
    ok(context_run_again(&x, id, &err));
    ok(context_logits(&x, &got, &err));
    assert_memory_equal(got, want, bytes);
    free(want);
}

TEST(recurrent)
{
    engine_for("build/golden/families/qwen35.gguf", 0);
    same_again();
    resume("sink");
    killed();
    engine_close(engine);
    engine_for("build/golden/families/qwen35.gguf", 2);
    resume("sink");
    killed();
    engine_close(engine);
}

/* A layer that proposes a word that may follow the newest one: all of the model on the GPU, or the
 * last layer and the MTP layer on the CPU. */
TEST(mtp)
{
    struct maker m;
    assert_true(make_model(&m, "mtp"));
    const char *model = write_file(path_in(folder_new(), "mtp.gguf"), m.file.data, m.file.n);
    maker_release(&m);
    for (int n_layers = 0; n_layers < 2; n_layers++) {
        engine_for(model, n_layers);
        n_accepted = 0;
        resume(n_layers ? "sink" : "keydiff+global");
        printf("%lld proposals right\n", (long long)n_accepted);
        assert_true(n_accepted > 4);
        killed();
        engine_close(engine);
    }
}

/* Units that no kernel evicts are evicted by the CPU. */
TEST(shapes)
{
    const struct cache_shape wide = {.head_dim = 256, .k_type = KN_KV_Q4, .v_type = KN_KV_Q4},
                             large = {.head_dim = 512, .k_type = KN_KV_F16, .v_type = KN_KV_F16},
                             small = {.head_dim = 16, .k_type = KN_KV_F16, .v_type = KN_KV_F16};
    assert_true(cuda_leaves_eviction(policy_named("keydiff"), &wide, NULL));
    assert_false(cuda_leaves_eviction(policy_named("sink"), &wide, NULL));
    assert_true(cuda_leaves_eviction(policy_named("sink"), &large, NULL));
    assert_true(cuda_leaves_eviction(policy_named("keeper"), &small, NULL));
    engine_for("build/golden/families/exaone4.gguf", 0);
    resume("keydiff+global");
    engine_close(engine);
}
