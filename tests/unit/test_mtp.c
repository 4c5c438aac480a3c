/* The MTP layer: its logits against those of an independent implementation (tests/golden), and
 * conversations in which it proposes tokens, which are the same to the bit with and without. */
#include "tests/test.h"

#include <math.h>

#include "base/file.h"
#include "runtime/forward/context.h"
#include "runtime/session/proposer.h"
#include "tests/unit/session_kit.h"

enum { N_TOKENS = 300, N_ROWS = 16, N_VOCAB = 300, STEP = 6, N_KEPT = N_VOCAB / STEP };

/* Of every STEP-th token of the vocabulary after token `position`, and after one more. */
struct golden {
    int32_t ids[N_TOKENS], positions[N_ROWS];
    float rows[2 * (N_ROWS - 1)][N_KEPT];
};

static void read_golden(void *out, size_t bytes, const char *name)
{
    AUTO_STR file = {0};
    ok(file_read(path_in("tests/golden/families", name), FILE_DATA, &file, &err));
    assert_true(file.n >= bytes);
    memcpy(out, file.data, bytes);
}

static double error_of(const float *logits, const float *golden)
{
    double max = 0, norm = 0;
    for (int i = 0; i < N_KEPT; i++) {
        const double d = fabs((double)logits[STEP * i] - (double)golden[i]);
        if (!(d <= max)) max = d;
        norm += (double)golden[i] * (double)golden[i];
    }
    return max / sqrt(norm / N_KEPT);
}

/* Logits after `id`, or NULL. */
static const float *read_next(struct context *x, int32_t id)
{
    struct mtp_guess out;
    ok(mtp_read(&x->mtp, &x->cache, id, &out, &err));
    return out.id < 0 ? NULL : x->mtp.forward.logits;
}

static const float *read_proposal(struct context *x, int32_t id)
{
    struct mtp_guess out;
    ok(mtp_read_proposal(&x->mtp, id, &out, &err));
    return x->mtp.forward.logits;
}

/* Runs the tokens in chunks, and asks at the golden positions: before the token is run. */
static double worst_error(struct engine *g, const struct golden *gold, int chunk)
{
    struct options o = options_of("full:context=512", "f32", 0);
    AUTO_CONTEXT x;
    double worst = 0;
    int at = 0;
    o.session.plan.chunk = chunk;
    ok(context_open(&x, g, &o.session.plan, 1, 2, &err));
    for (int i = 1; i < N_ROWS; i++) {
        const int end = gold->positions[i];
        if (end == MTP_WINDOW && chunk > 2) continue; /* a chunk is kept in two parts */
        for (int n; at < end; at += n) {
            n = end - at < chunk ? end - at : chunk;
            ok(context_run(&x, gold->ids + at, n, 1, &err));
        }
        const float *row = read_next(&x, gold->ids[end]);
        worst = fmax(worst, error_of(row, gold->rows[2 * i - 2]));
        row = read_proposal(&x, gold->ids[(end + 1) % N_TOKENS]);
        worst = fmax(worst, error_of(row, gold->rows[2 * i - 1]));
    }
    return worst;
}

static void compare(const char *name)
{
    static struct golden gold;
    struct options o = options_of("full:context=512", "f32", 0);
    AUTO_ENGINE *g;
    char path[96];
    snprintf(path, sizeof path, "%s.mtp", name);
    read_golden(gold.rows, sizeof gold.rows, path);
    read_golden(&gold, offsetof(struct golden, rows), "ids");
    snprintf(path, sizeof path, "build/golden/families/%s.gguf", name);
    o.engine.model = path;
    o.engine.weights = ENGINE_WEIGHTS_F32;
    ok(engine_open(&g, &o.engine, &o.session.plan, 1, NULL, NULL, &err));
    for (int chunk = 2; chunk <= 128; chunk *= 8) {
        const double error = worst_error(g, &gold, chunk);
        printf("%s, chunks of %d: error %.1e\n", name, chunk, error);
        assert_true(error < 1e-3);
    }
}

TEST(test_logits_are_those_of_an_independent_implementation)
{
    compare("glm4moe");   /* with an embedding, an output and a norm of its own; experts */
    compare("qwen35");    /* with a norm of its own, gated attention */
    compare("qwen35moe"); /* with nothing of its own */
    compare("deepseek3"); /* with latent attention */
}

/* ---- the conversation ------------------------------------------------------------------------ */

static int32_t id_at(int i)
{
    return (int32_t)((i * 7919 + i / 5 * 31) % N_VOCAB);
}

static void run_tokens(struct context *x, int from, int end)
{
    for (int i = from; i < end; i++) {
        const int32_t id = id_at(i);
        ok(context_run(x, &id, 1, 1, &err));
    }
}

static void same_row(const float *a, const float *b)
{
    assert_non_null(a);
    assert_non_null(b);
    assert_memory_equal(a, b, N_VOCAB * sizeof *a);
}

/* Two contexts with the same tokens. Proposals, and tokens just before the window, leave no trace,
 * also while the oldest units are dropped; after a reload the layer's cache is empty. */
TEST(test_it_follows_the_conversation)
{
    enum { SKIPPED = 101 + MTP_WINDOW, END = SKIPPED + 2 * MTP_WINDOW + 50 };
    struct options o = options_of("full:context=2000", "f32", 0);
    AUTO_ENGINE *g;
    AUTO_CONTEXT x, y;
    static float kept[N_VOCAB];
    o.engine.model = "build/golden/families/glm4moe.gguf";
    ok(engine_open(&g, &o.engine, &o.session.plan, 1, NULL, NULL, &err));
    ok(context_open(&x, g, &o.session.plan, 1, 2, &err));
    ok(context_open(&y, g, &o.session.plan, 1, 2, &err));
    assert_null(read_next(&x, 1)); /* nothing was run */
    for (int i = 0; i < 100; i++) {
        run_tokens(&x, i, i + 1);
        read_next(&x, id_at(i + 1));
    }
    run_tokens(&x, 100, SKIPPED);
    run_tokens(&y, 0, SKIPPED);
    for (int i = SKIPPED; i < END; i++) {
        memcpy(kept, read_next(&x, id_at(i)), sizeof kept);
        same_row(read_next(&y, id_at(i)), kept);
        for (int k = 0; k < i % 4; k++) read_proposal(&x, id_at(3 * i + k));
        run_tokens(&x, i, i + 1);
        run_tokens(&y, i, i + 1);
    }
    cache_clear(&x.cache);
    assert_null(read_next(&x, 1));
    run_tokens(&x, 0, 20);
    context_release(&y);
    ok(context_open(&y, g, &o.session.plan, 1, 2, &err));
    run_tokens(&y, 0, 20);
    same_row(read_next(&x, 5), read_next(&y, 5));
}

/* Its memory is part of the plan, and none is taken without speculation. */
TEST(test_it_is_planned)
{
    struct options o = options_of("sink", "q4", 0);
    AUTO_ENGINE *g;
    AUTO_CONTEXT x;
    o.engine.model = "build/golden/families/glm4moe.gguf";
    ok(engine_open(&g, &o.engine, &o.session.plan, 1, NULL, NULL, &err));
    ok(context_open(&x, g, &o.session.plan, 1, 1, &err));
    const size_t with = x.plan.scratch_bytes;
    assert_true(mtp_is_open(&x.mtp) && x.scratch.used == with);
    context_release(&x);
    o.session.plan.speculate.off = true;
    ok(context_open(&x, g, &o.session.plan, 1, 1, &err));
    assert_false(mtp_is_open(&x.mtp));
    assert_true(x.plan.scratch_bytes < with);
}

/* Where two tokens cost too much for one proposal, and four no more, several are made; none where
 * even right ones do not pay. */
TEST(test_as_many_proposals_as_pay)
{
    struct options o = options_of("full:context=512", "f32", 0);
    struct proposer d;
    AUTO_ENGINE *g;
    AUTO_CONTEXT x;
    double ns[FORWARD_TRY_MAX + 1] = {0, 1e12};
    struct proposer_wish wish = {.max = 8, .ns = ns};
    int32_t out[FORWARD_TRY_MAX];
    struct mtp_guess next;
    o.engine.model = "build/golden/families/glm4moe.gguf";
    ok(engine_open(&g, &o.engine, &o.session.plan, 1, NULL, NULL, &err));
    ok(context_open(&x, g, &o.session.plan, 1, 2, &err));
    proposer_init(&d, &x);
    run_tokens(&x, 0, 20);
    proposer_add(&d, 5);
    ok(mtp_read(&x.mtp, &x.cache, 5, &next, &err));
    ns[2] = ns[3] = ns[4] = (1 + 1.001 * next.p) * 1e12;
    const int n = proposer_propose(&d, &wish, out);
    assert_true(n == 2 || n == 3);
    ns[2] = ns[3] = ns[4] = 5e12;
    assert_int_equal(proposer_propose(&d, &wish, out), 0);
    wish = (struct proposer_wish){.max = 5, .all = true, .ns = ns};
    assert_int_equal(proposer_propose(&d, &wish, out), 5);
}
