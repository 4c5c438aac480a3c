/* Speculation changes no bit (try_kit.h), of tokens and of whole conversations. TALKS=200 for the
 * long run. */

#include "base/random.h"
#include "tests/unit/make_model.h"
#include "tests/unit/try_kit.h"

enum { BEGIN = 1020, END = 1060 }; /* attention over one split, then over two */

TEST(test_tokens_tried_are_as_tokens_run_alone)
{
    compare_tries(engine, "keeper", "q4", BEGIN, END);
    compare_tries(engine, "keydiff+global", "q8:q4", BEGIN, END);
    compare_tries(engine, "sink", "f16", BEGIN, END);
    compare_tries(engine, "random", "f32", BEGIN, END);
    compare_tries(engine, "full:context=2000", "q4", BEGIN, END);
}

/* Layers with windows, sinks, caps, other numbers of heads; recurrent layers of each kind, also
 * with attention in one layer (falcon-h1) and with experts. */
TEST(test_models_with_other_layers)
{
    static const char *const models[] = {"gemma2", "gemma3",        "olmo3",     "qwen35moe",
                                         "lfm2",   "granitehybrid", "falcon-h1", "deepseek3"};
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        struct options o = options_of("sink", "f16", 0);
        AUTO_ENGINE *g;
        char path[64];
        snprintf(path, sizeof path, "build/golden/families/%s.gguf", models[i]);
        o.engine.model = path;
        ok(engine_open(&g, &o.engine, &o.session.plan, 1, NULL, NULL, &err));
        compare_tries(g, "sink", "f16", BEGIN, END);
        compare_tries(g, "keydiff+global", "f32", BEGIN, END);
    }
}

/* ---- conversations --------------------------------------------------------------------------- */

static const char *const repeated[] = {
    "My locker code is 48213.",
    "Repeat: the blue fox sat on the red box.",
    "Repeat: the blue fox sat on the red box and the green fox sat on the old box.",
    "Repeat: the blue fox sat on the red box and the green fox sat on the old box.",
    "Tell me a story about a fox.",
    "What is my locker code?",
    "Tell me a joke.",
    "Repeat: my sister has a red box.",
};
enum { N_REPEATED = sizeof repeated / sizeof *repeated, N_TURNS = 10 };

struct talk {
    struct options o;
    uint64_t seed;
    const char *dir; /* NULL = private */
    struct conversations *l;
    struct session *s;
    struct log log;
    int64_t n_accepted;
    char branch[STORE_NAME_MAX]; /* the conversation goes on there */
};

static void open_talk(struct talk *t, uint64_t seed, bool speculate)
{
    const char *policies[] = {"keeper", "keydiff+global", "sink", "locret"};
    if (!engine->retaining) policies[0] = policies[3] = "random";
    *t =
        (struct talk){.o = options_of(policies[seed % 4], "q4", seed % 2 ? 0.7f : 0), .seed = seed};
    t->o.session.sampling.seed = 1 + seed;
    t->o.session.plan.speculate.off = !speculate;
    t->o.session.plan.speculate.n = seed % 3 == 0 ? 5 : PLAN_SPECULATE_MAX;
    t->o.session.ignore_end = seed % 5 == 0;
    if (seed % 7 == 2) t->o.session.recall.chooser = RECALL_OFF;
    if (engine->retaining ? seed % 8 != 3 : seed % 5 == 1) {
        t->dir = folder_new();
        t->l = open_library(t->dir);
    }
    t->s = open_session(t->l, t->o, false);
}

static void close_talk(struct talk *t)
{
    session_close(t->s);
    conversations_close(t->l);
    str_release(&t->log.text);
}

/* The conversation goes on in a branch of up to three turns ago. */
static void branch(struct talk *t, int n_back)
{
    const int64_t n = turns_of(t->s), turn = n > n_back ? n - n_back : 1;
    ok(session_branch(t->s, turn, NULL, t->branch, &err));
    t->o.session.conversation = t->branch;
    reopen(&t->s, t->l, t->o);
    assert_int_equal(turns_of(t->s), turn);
}

/* A turn, sometimes stopped in its middle, and sometimes after closing and resuming, or in a
 * branch. */
static void take_turn(struct talk *t, int turn)
{
    uint64_t r = (uint64_t)(random_at(t->seed, 0, (uint64_t)turn) * 1e9);
    struct session_stats st;
    if (t->l && turn && r % 5 == 0) reopen(&t->s, t->l, t->o);
    if (t->l && turn && r % 6 == 1) branch(t, (int)(r >> 4) % 4);
    t->log.n_pieces = 0;
    t->log.stop_after = r % 4 == 1 ? 1 + (int)(r >> 8) % 12 : 0;
    say(t->s, repeated[(r >> 16) % N_REPEATED], &t->log);
    session_stats(t->s, &st);
    t->n_accepted += st.n_accepted;
    if (t->l && r % 7 == 2) {
        t->log.stop_after = 0;
        regenerate(t->s, &t->log);
    }
}

struct counts {
    int64_t n_proposed, n_accepted;
};

/* The same conversation with speculation and without. */
static void compare_talk(uint64_t seed, int n_turns, struct counts *counts)
{
    struct session_stats st;
    struct talk with, without;
    open_talk(&with, seed, true);
    open_talk(&without, seed, false);
    for (int i = 0; i < n_turns; i++) {
        take_turn(&with, i);
        take_turn(&without, i);
        assert_string_equal(str_get(&with.log.text), str_get(&without.log.text));
        assert_true(with.log.logits == without.log.logits);
        same_cache(with.s, without.s);
        session_stats(with.s, &st);
        counts->n_proposed += st.n_proposed;
        counts->n_accepted += st.n_accepted;
    }
    assert_int_equal(without.n_accepted, 0);
    close_talk(&with);
    close_talk(&without);
}

static uint64_t n_talks(uint64_t usual)
{
    const char *talks = getenv("TALKS");
    return talks ? strtoull(talks, NULL, 10) : usual;
}

TEST(test_conversations_are_the_same_with_and_without)
{
    const uint64_t n = n_talks(8);
    struct counts c = {0};
    for (uint64_t seed = 1; seed <= n; seed++) compare_talk(seed, N_TURNS, &c);
    assert_true(c.n_accepted > 20 * (int64_t)n);
}

/* A model whose MTP layer proposes a word that may follow the newest one: greedy answers often have
 * it, drawn ones sometimes. */
TEST(test_an_mtp_layer_changes_no_token)
{
    struct engine *demo = engine;
    struct counts c[2] = {0};
    struct maker m;
    assert_true(make_model(&m, "mtp"));
    struct options o = options_of("sink", "q4", 0);
    o.engine.model = write_file(path_in(folder_new(), "mtp.gguf"), m.file.data, m.file.n);
    maker_release(&m);
    ok(engine_open(&engine, &o.engine, &o.session.plan, 1, NULL, NULL, &err));
    assert_non_null(engine->model->mtp.layer);
    const uint64_t n = n_talks(20);
    for (uint64_t seed = 1; seed <= n; seed++) compare_talk(seed, 4, &c[seed % 2]);
    for (int i = 0; i < 2; i++)
        printf("%s: %lld of %lld proposals right\n", i ? "drawn" : "greedy",
               (long long)c[i].n_accepted, (long long)c[i].n_proposed);
    engine_close(engine);
    engine = demo;
    assert_true(c[0].n_accepted > 10 * (int64_t)n && c[1].n_accepted > 2 * (int64_t)n);
    assert_true(c[0].n_proposed > c[0].n_accepted && c[1].n_proposed > c[1].n_accepted);
}

AROUND_TESTS(engine_set_up, engine_tear_down)
