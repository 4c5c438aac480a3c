/* Conversations with a model that has recurrent layers: a state takes each token once and forgets
 * nothing, so every way back must find it saved. Run on a tiny random model. */
#include "runtime/session/session_parts.h"
#include "base/file.h"
#include "tests/unit/session_kit.h"

static const char *model_path;

/* Makes the tokens that stand for single bytes words of ASCII: "<0x41>" becomes "w0x41.". A random
 * answer is a text then, which its tokens spell. */
static void make_words(char *bytes, size_t n)
{
    static const int32_t byte_type = 6, word_type = 1;
    for (size_t i = 0; i + 6 <= n; i++)
        if (!memcmp(bytes + i, "<0x", 3) && bytes[i + 5] == '>') {
            bytes[i] = 'w';
            bytes[i + 5] = '.';
        }
    for (size_t i = 0; i + 256 * sizeof byte_type <= n; i++) {
        size_t k = 0;
        while (k < 256 && !memcmp(bytes + i + k * 4, &byte_type, 4)) k++;
        for (size_t j = 0; k == 256 && j < k; j++) memcpy(bytes + i + j * 4, &word_type, 4);
    }
}

static int set_up(void **state)
{
    AUTO_STR bytes = {0};
    ok(file_read("build/golden/families/qwen35.gguf", FILE_DATA, &bytes, &err));
    make_words(bytes.data, bytes.n);
    model_path = write_file(path_in(folder_new(), "qwen35.gguf"), bytes.data, bytes.n);
    return engine_open_model(model_path);
}

static struct options options_for(const char *policy)
{
    struct options o = options_of(policy, "q4", 0);
    o.session.ignore_end = true;
    o.session.raw = true; /* no template writes a random answer otherwise */
    o.session.max_tokens = 30;
    return o;
}

static const struct recurrent_state *state_of(const struct session *s)
{
    return &session_cache(s)->recurrent;
}

static void same(const struct session *x, const struct session *y)
{
    same_cache(x, y);
    assert_memory_equal(state_of(x)->layers, state_of(y)->layers,
                        recurrent_state_layer_bytes(state_of(x)));
}

/* ---- coming back ----------------------------------------------------------------------------- */

TEST(test_resume)
{
    static const char *const policies[] = {"sink", "keydiff+global"};
    for (size_t i = 0; i < sizeof policies / sizeof *policies; i++)
        assert_true(resume_equals_never_stopped(options_for(policies[i]), N_SAID, same) > 0);
}

TEST(test_regenerate)
{
    regenerates_the_same(options_for("keydiff+global"), same);
}

TEST(test_rewind_and_branch)
{
    rewinds_and_branches(options_for("sink"), 5, same);
}

/* Where only the newest state is left, rewinding to an older checkpoint replays its turns. */
TEST(test_no_rewind_without_a_state)
{
    struct options o = options_for("sink");
    const char *dir = folder_new();
    AUTO_LIBRARY *l = open_library(dir);
    AUTO_SESSION *s = open_session(l, o, false);
    AUTO_LOG log = {0};
    for (int turn = 0; turn < 5; turn++) say(s, said[turn], &log);
    assert_int_equal(session_rewind_cost(s, 3), 0);
    session_close(s);
    change_library(dir, "DELETE FROM segment WHERE kind = 2 AND seq < "
                        "(SELECT max(seq) FROM segment WHERE kind = 2)");
    s = open_session(l, o, true);
    assert_int_equal(reread(s), 0);
    int64_t cost = session_rewind_cost(s, 3);
    assert_true(cost > 50);
    ok(session_rewind(s, 3, NULL, &err));
    assert_int_equal(reread(s), cost);
    say(s, said[5], &log);
}

/* ---- after a kill ---------------------------------------------------------------------------- */

static const char *notes_path; /* a file: positions run, then the state */

static void write_notes(const struct session *s)
{
    AUTO_STR notes = {0};
    str_append(&notes, &s->ctx.cache.n_pos, sizeof(int64_t));
    str_append(&notes, state_of(s)->layers, recurrent_state_layer_bytes(state_of(s)));
    write_file(notes_path, notes.data, notes.n);
}

/* In the middle of an answer, before, at and after an eviction inside it: nothing is read again. */
TEST(test_kill_in_answer)
{
    static const int moments[] = {1, 2, 9, 24, 25, 29};
    for (size_t i = 0; i < sizeof moments / sizeof *moments; i++) {
        struct options o = options_for(i % 2 ? "sink" : "keydiff+global");
        const char *dir = folder_new();
        AUTO_STR notes = {0};
        notes_path = path_in(dir, "notes");
        run_victim(dir, o, 1, said[1],
                   (struct victim){.n_tokens = moments[i], .last = write_notes});
        AUTO_LIBRARY *l = open_library(dir);
        AUTO_SESSION *s = open_session(l, o, true);
        const struct recurrent_state *now = state_of(s);
        ok(file_read(notes_path, FILE_DATA, &notes, &err));
        assert_int_equal(notes.n, sizeof(int64_t) + recurrent_state_layer_bytes(now));
        assert_int_equal(reread(s), 0);
        assert_memory_equal(&s->ctx.cache.n_pos, notes.data, sizeof(int64_t));
        assert_int_equal(s->pending.n, 1);
        assert_memory_equal(now->layers, notes.data + sizeof(int64_t),
                            recurrent_state_layer_bytes(now));
    }
}

static const char *const long_message =
    "Here is a long message, which is read in many small chunks, so that a kill can come between "
    "two of them. It says nothing of interest, but it says it at length, and then once more.";

/* Inside a prompt, while no state was due: the conversation returns to the newest state, and what
 * was written after it is removed. */
static void kill_in_prompt(const char *policy)
{
    struct options o = options_for(policy);
    const char *dir = folder_new();
    AUTO_LOG once = {0}, again = {0};
    if (!strcmp(policy, "full")) o.session.plan.policy.context = 512;
    run_victim(dir, o, 1, long_message, (struct victim){.n_chunks = 5});
    AUTO_SESSION *x = open_session(NULL, o, false);
    say(x, said[0], &once);
    int64_t before = x->ctx.cache.n_pos;
    str_clear(&once.text);
    say(x, long_message, &once);
    AUTO_LIBRARY *l = open_library(dir);
    AUTO_SESSION *s = open_session(l, o, true);
    assert_int_equal(reread(s), 0);
    assert_true(s->ctx.cache.n_pos >= before && s->ctx.cache.n_pos <= before + 16);
    answer(s, NULL, &again);
    str_puts(&again.text, "\n");
    assert_string_equal(str_get(&again.text), str_get(&once.text));
    reopen(&s, l, o);
    assert_int_equal(reread(s), 0);
    same(x, s);
}

TEST(test_kill_in_prompt)
{
    kill_in_prompt("full");
    kill_in_prompt("sink");
}

/* ---- sizes ----------------------------------------------------------------------------------- */

/* After many tokens the state has the size it was planned with, and is still finite. */
TEST(test_constant_size)
{
    enum { N = 100000, CHUNK = 128 };
    struct options o = options_for("sink");
    AUTO_CONTEXT x;
    int32_t ids[CHUNK];
    int64_t n_evicted;
    double sum = 0;
    o.session.plan.chunk = CHUNK;
    ok(context_open(&x, engine, &o.session.plan, 1, 1, &err));
    const size_t bytes = x.state_arena.used, planned = x.plan.state_bytes;
    for (int i = 0; i < CHUNK; i++) ids[i] = 3 + i * 7 % 290;
    for (int64_t n = 0; n < N; n += CHUNK) {
        ok(context_evict(&x, &n_evicted, &err));
        ok(context_run(&x, ids, CHUNK, 1, &err));
    }
    assert_true(x.cache.n_pos >= N);
    assert_int_equal(x.state_arena.used, bytes);
    assert_int_equal(planned, bytes);
    for (size_t i = 0; i < bytes / sizeof(float) / 2; i++)
        sum += (double)x.cache.recurrent.layers[i];
    assert_true(sum - sum == 0);
}

/* A thousand tokens one by one and in chunks leave the same state and logits. */
TEST(test_chunks_of_recurrent_layers)
{
    enum { N = 1000 };
    static const char *const names[] = {"qwen35",    "lfm2",      "granitehybrid",
                                        "falcon-h1", "qwen3next", "nemotron_h"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct options o = options_for("full:context=1000");
        struct context x[2];
        AUTO_ENGINE *g;
        char path[64];
        int32_t ids[N];
        snprintf(path, sizeof path, "build/golden/families/%s.gguf", names[i]);
        o.engine.model = path;
        o.session.plan.budget = 0;
        o.session.plan.chunk = 128;
        plan_kv_named("f32", &o.session.plan.kv);
        ok(engine_open(&g, &o.engine, &o.session.plan, 1, NULL, NULL, &err));
        for (int n = 0; n < N; n++) ids[n] = 3 + (n * 7919 + n / 5 * 31) % 290;
        for (int k = 0; k < 2; k++) {
            const int step = k ? 128 : 1;
            ok(context_open(&x[k], g, &o.session.plan, 1, 1, &err));
            for (int at = 0; at < N; at += step) {
                const int n = at + step > N ? N - at : step;
                ok(context_run(&x[k], ids + at, n, 1, &err));
            }
        }
        const struct recurrent_state *r = &x[0].cache.recurrent;
        assert_memory_equal(r->layers, x[1].cache.recurrent.layers, recurrent_state_layer_bytes(r));
        assert_memory_equal(x[0].forward.logits, x[1].forward.logits,
                            (size_t)g->model->n_vocab * sizeof(float));
        context_release(&x[0]);
        context_release(&x[1]);
    }
}

AROUND_TESTS(set_up, engine_tear_down)
