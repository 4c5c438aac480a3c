/* The best tokens of a row of logits, against the CPU's sampler. */
#include "tests/emu/kit.h"

#include "runtime/token/sampler.h"

DECLARE_KERNEL(argmax, cuda_argmax);
DECLARE_KERNEL(top_k, cuda_top);

TEST(largest)
{
    AUTO_BUFFERS;
    enum { N = 3000 };
    struct rng rng = {3};
    float *logits = take(3 * N * sizeof *logits);
    int32_t *id = take(3 * sizeof *id);
    const struct cuda_argmax job = {logits, N, id};

    rng_fill(&rng, logits, N, 1.0f);
    logits[0] = NAN;
    logits[1234] = logits[2999] = 5.0f;
    for (int i = 0; i < N; i++) logits[N + i] = -INFINITY;
    for (int i = 0; i < N; i++) logits[2 * N + i] = NAN;
    LAUNCH(argmax, &job, 3, 1, 1, 1024, 256, 1);
    assert_int_equal(id[0], 1234);
    assert_int_equal(id[1], 0);
    assert_int_equal(id[2], 0);
}

/* The chain with top-k only: candidates in order. In parts: those of each part, then of these. */
static void check_top(struct rng *rng, int n, int k, int n_distinct, int part)
{
    AUTO_BUFFERS;
    const struct sampling s = {.temperature = 1, .top_k = k, .top_p = 1, .repeat_penalty = 1};
    struct sampler_entry *want = take((size_t)n * sizeof *want);
    float *logits = take((size_t)n * sizeof *logits), *logit = guarded((size_t)k * 4);
    int32_t *id = guarded((size_t)k * 4), *n_out = take(sizeof *n_out);
    const int parts = (n + part - 1) / part;
    const size_t part_bytes = (size_t)(parts * k) * 4;
    float *part_logit = guarded(part_bytes);
    int32_t *part_id = guarded(part_bytes), *part_n = take((size_t)parts * 4);
    const struct cuda_top each = {logits, n, k, part_id, part_logit, part_n, part, NULL};
    const struct cuda_top all = {part_logit, parts * k, k, id, logit, n_out, parts * k, part_id};

    for (int i = 0; i < n; i++) logits[i] = (float)(rng_below(rng, n_distinct) - n_distinct / 2);
    for (int i = 0; i < n; i += 97) logits[i] = i % 2 ? NAN : -INFINITY;
    for (int i = 1; i < n; i += 89) logits[i] = -0.0f;
    LAUNCH(top_k, &each, parts, 1, 1, 1024, CUDA_TOP_SHARED, rng_bits(rng));
    LAUNCH(top_k, &all, 1, 1, 1, 1024, CUDA_TOP_SHARED, rng_bits(rng));
    assert_int_equal(*n_out, sampler_candidates(&s, logits, n, NULL, 0, want));
    for (int i = 0; i < *n_out; i++) {
        assert_int_equal(id[i], want[i].id);
        assert_true(logit[i] == logits[id[i]]);
    }
}

TEST(likeliest_token)
{
    struct rng rng = {21};
    check_top(&rng, 2048, 40, 100000, 2048);
    check_top(&rng, 3001, 40, 5, 700); /* ties */
    check_top(&rng, 1500, 256, 300, 600);
    check_top(&rng, 100, 1, 7, 60);
    check_top(&rng, 30, 29, 10, 16); /* fewer candidates than requested */
}
