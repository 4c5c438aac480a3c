/* The whole forward pass against logits of another program: llama.cpp's where RETAIN_TEST_DATA is,
 * else NumPy's in double precision (tests/golden/make_data.py). Tightly in float, and within the
 * error of quantized activations in int8. */
#include "tests/test.h"

#include <math.h>

#include "base/file.h"
#include "cli/options/options.h"
#include "runtime/forward/context.h"
#include "runtime/forward/engine.h"
#include "tests/unit/data.h"

enum { POS_MAX = 96 };

/* The numbers of the file's first line. */
static int read_ids(const char *path, int32_t *ids, int max)
{
    FILE *f = fopen(path, "r");
    int n = 0;
    assert_non_null(f);
    for (char end = ' '; end != '\n' && n < max && fscanf(f, "%d%c", &ids[n], &end) == 2;) n++;
    fclose(f);
    return n;
}

/* Runs the golden ids in chunks and compares the rows of the last ones, or of all. */
static void compare(const char *model, const char *golden, const char *weights, const char *kv,
                    int chunk, double rms_max, double argmax_min)
{
    char path[512], file[128];
    int32_t ids[POS_MAX];
    AUTO_STR bytes = {0};
    struct options o;
    AUTO_ENGINE *g;
    AUTO_CONTEXT x;
    snprintf(file, sizeof file, "golden/logits/%s.tokens.txt", golden);
    if (!data_path(path, sizeof path, file)) skip();
    int n_pos = read_ids(path, ids, POS_MAX);
    assert_true(n_pos >= 48);
    snprintf(file, sizeof file, "golden/logits/%s.logits.f32", golden);
    ok(file_read(data_path(path, sizeof path, file), FILE_DATA, &bytes, &err));
    const float *expected = (const float *)(const void *)bytes.data; /* [n_rows][n_vocab] */
    options_init(&o);
    snprintf(file, sizeof file, "random/%s.gguf", model);
    o.engine.model = data_path(path, sizeof path, file);
    assert_non_null(o.engine.model);
    o.engine.weights =
        weights && !strcmp(weights, "f32") ? ENGINE_WEIGHTS_F32 : ENGINE_WEIGHTS_FILE;
    plan_kv_named(kv, &o.session.plan.kv);
    o.session.plan.policy = policy_choice("full");
    o.session.plan.policy.context = 128;
    o.session.plan.chunk = chunk;
    ok(engine_open(&g, &o.engine, &o.session.plan, 1, NULL, NULL, &err));
    ok(context_open(&x, g, &o.session.plan, o.session.sampling.seed, chunk, &err));
    const size_t n_vocab = (size_t)g->model->n_vocab, n_rows = bytes.n / sizeof *expected / n_vocab;
    assert_int_equal(bytes.n, n_rows * n_vocab * sizeof *expected);
    assert_true(n_rows >= 12 && n_rows <= (size_t)n_pos);
    double sum = 0;
    int agree = 0;
    for (int at = 0; at < n_pos; at += chunk) {
        int n = n_pos - at < chunk ? n_pos - at : chunk;
        forward_run(&x.forward, &x.cache, ids + at, n, n);
        for (int t = n_pos - (int)n_rows > at ? n_pos - (int)n_rows - at : 0; t < n; t++) {
            const float *row = x.forward.logits + (size_t)t * n_vocab;
            const float *want = expected + ((size_t)(at + t - n_pos) + n_rows) * n_vocab;
            for (size_t i = 0; i < n_vocab; i++) {
                double d = (double)row[i] - (double)want[i];
                sum += d * d;
            }
            agree += likeliest(row, (int)n_vocab) == likeliest(want, (int)n_vocab);
        }
    }
    double rms = sqrt(sum / (double)(n_rows * n_vocab)), share = agree / (double)n_rows;
    printf("%s (%s weights, chunk %d): rms %.2e, argmax %.1f %%\n", model,
           weights ? weights : "file", chunk, rms, 100 * share);
    assert_true(rms <= rms_max);
    assert_true(share >= argmax_min);
}

/* Weights and cache in float32, like the other program. */
TEST(test_f16_as_f32)
{
    compare("small-f16", "small-f16-as-f32", "f32", "f32", 96, 1e-4, 0.98);
    compare("small-f16", "small-f16-as-f32", "f32", "f32", 7, 1e-4, 0.98);
    compare("small-f16", "small-f16-as-f32", "f32", "f32", 1, 1e-4, 0.98);
}

TEST(test_q4_0_as_f32)
{
    compare("small-q4_0", "small-q4_0-as-f32", "f32", "f32", 32, 1e-4, 0.98);
}

TEST(test_q8_0_as_f32)
{
    compare("small-q8_0", "small-q8_0-as-f32", "f32", "f32", 32, 1e-4, 0.98);
}

TEST(test_q4_k_m_as_f32)
{
    compare("small-q4_k_m", "small-q4_k_m-as-f32", "f32", "f32", 32, 1e-4, 0.98);
}

TEST(test_f16)
{
    compare("small-f16", "small-f16-as-f32", NULL, "f16", 32, 6e-4, 0.98);
}

TEST(test_q4_0)
{
    compare("small-q4_0", "small-q4_0-as-f32", NULL, "f16", 32, 0.006, 0.95);
    compare("small-q4_0", "small-q4_0-as-f32", NULL, "f16", 1, 0.006, 0.95);
}

TEST(test_q8_0)
{
    compare("small-q8_0", "small-q8_0-as-f32", NULL, "f16", 32, 0.006, 0.91);
}

/* Q4_K and Q6_K, with an embedding in Q6_K. */
TEST(test_q4_k_m)
{
    compare("small-q4_k_m", "small-q4_k_m-as-f32", NULL, "f16", 32, 0.006, 0.95);
    compare("small-q4_k_m", "small-q4_k_m-as-f32", NULL, "f16", 1, 0.006, 0.95);
}

/* Tokens scored in batches get the same scores as in a chunk, to the bit. */
TEST(test_scores_in_batches)
{
    enum { N = 37 };
    struct options o;
    AUTO_ENGINE *g;
    AUTO_CONTEXT chunk, single;
    int32_t ids[N];
    options_init(&o);
    o.session.plan.policy = policy_choice("locret");
    o.session.plan.budget = 64;
    o.session.plan.chunk = 64;
    ok(engine_open(&g, &o.engine, &o.session.plan, 1, NULL, NULL, &err));
    ok(context_open(&chunk, g, &o.session.plan, o.session.sampling.seed, 1, &err));
    ok(context_open(&single, g, &o.session.plan, o.session.sampling.seed, 1, &err));
    for (int i = 0; i < N; i++) ids[i] = 300 + 7 * i;
    forward_run(&chunk.forward, &chunk.cache, ids, N, 1);
    for (int i = 0; i < N; i++) forward_run(&single.forward, &single.cache, ids + i, 1, 1);
    assert_int_equal(single.cache.n_unscored, N % FORWARD_SCORE_BATCH);
    context_score(&single);
    for (int i = 0; i < chunk.cache.shape.n_layer * chunk.cache.shape.n_head; i++)
        assert_memory_equal(chunk.cache.kv_heads[i].score, single.cache.kv_heads[i].score,
                            N * sizeof *chunk.cache.kv_heads[i].score);
}
