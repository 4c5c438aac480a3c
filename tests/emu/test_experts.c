/* Products of sorted rows with experts' matrices, of each weight type, against the C reference. */
#include "tests/emu/matrix.h"

#define BY_TYPE(name)                                                                           \
    {                                                                                           \
        [KN_Q4] = name##_q4, [KN_Q8] = name##_q8, [KN_Q4A] = name##_q4a, [KN_Q5A] = name##_q5a, \
        [KN_Q6] = name##_q6, [KN_MX4] = name##_mx4                                              \
    }

typedef const char *expert_kernel(const struct emu_launch *, const struct cuda_expert *);

static const enum kn_type types[] = {KN_Q4, KN_Q8, KN_Q4A, KN_Q5A, KN_Q6, KN_MX4};

enum { EXPERTS = 3, USED = 2 };

static void launch(enum kn_type type, bool chunk, const struct cuda_expert *job, int tiles)
{
    static expert_kernel *const few[KN_TYPES] = BY_TYPE(experts_few);
    static expert_kernel *const many[KN_TYPES] = BY_TYPE(experts_many);

    if (chunk)
        LAUNCH(many[type], job, (job->n_out + 63) / 64, tiles, 1, 128, 0, 2);
    else
        LAUNCH(few[type], job, job->n_out / 16, tiles, 1, 128, CUDA_FEW_SHARED, 2);
}

/* The row of expert e that token t of x gives; bias: of all experts, or NULL. */
static void check_row(const struct matrix *m, int e, int n_out, const struct kn_act *x, int t,
                      const float *bias, const float *y)
{
    AUTO_BUFFERS;
    const struct kn_weight w = kn_weight_rows(&m->cpu, e * n_out, (e + 1) * n_out);
    const struct kn_act row = act_from(x, t);
    float *want = take((size_t)n_out * sizeof *want);

    kn_table("ref")->matmul[w.type](
        &(struct kn_matmul){&w, &row, 1, 0, n_out, want, (size_t)n_out});
    for (int r = 0; r < n_out; r++)
        assert_near((double)y[r], (double)(want[r] + (bias ? bias[e * n_out + r] : 0)),
                    1e-4 * w.n_in / 32, "expert");
}

/* Tokens choose experts 0 and 2, or 2 and 1; the second product reads the sorted rows. */
static void check_experts(enum kn_type type, bool chunk, int n_out, int n_in, int n_tok)
{
    AUTO_BUFFERS;
    struct rng rng = {(uint64_t)(n_out * 31 + n_in * 7 + n_tok)};
    struct matrix m = matrix_new(&rng, type, EXPERTS * n_out, n_in);
    const int rows = n_tok * USED, tile = chunk ? CUDA_EXPERT_MANY : CUDA_EXPERT_FEW;
    const int tiles = rows / tile + EXPERTS;
    const size_t bytes = (size_t)(rows * n_out) * sizeof(float);
    struct kn_act x = act_new(&rng, rows, n_in, 2.0f);
    struct cuda_act act = cuda_act_from(&x, rows);
    int32_t *chosen = take((size_t)rows * 4), *place = take((size_t)rows * 4);
    int32_t *from = take((size_t)rows * 4), *n_tiles = take(4);
    struct cuda_expert_rows *list = take((size_t)tiles * sizeof *list);
    float *bias = take((size_t)(EXPERTS * n_out) * 4), *y = guarded(bytes);
    const struct cuda_sort sort = {chosen, rows, USED, EXPERTS, tile, place, from, list, n_tiles};
    struct cuda_expert job = {.w = m.gpu,
                              .n_out = n_out,
                              .bias = bias,
                              .act = act,
                              .from = from,
                              .tiles = list,
                              .n_tiles = n_tiles,
                              .y = y};

    rng_fill(&rng, bias, (size_t)(EXPERTS * n_out), 1.0f);
    for (int i = 0; i < rows; i++) chosen[i] = i % 2 ? (i % 4 == 1 ? 2 : 1) : i % 4 == 0 ? 0 : 2;
    LAUNCH(experts_sort, &sort, 1, 1, 1, 256, CUDA_SORT_SHARED(EXPERTS), 1);
    assert_true(*n_tiles <= tiles);
    for (int sorted = 0; sorted < 2; sorted++) {
        if (sorted) job.from = NULL;
        launch(type, chunk, &job, tiles);
        for (int i = 0; i < rows; i++)
            check_row(&m, chosen[i], n_out, &x, sorted ? place[i] : i / USED, bias,
                      y + place[i] * n_out);
    }
}

/* Of each token a row of each of the heads. */
static void check_heads(enum kn_type type, int n_out, int n_in, int n_tok)
{
    AUTO_BUFFERS;
    struct rng rng = {(uint64_t)(n_out * 31 + n_in * 7 + n_tok)};
    struct matrix m = matrix_new(&rng, type, EXPERTS * n_out, n_in);
    const int rows = n_tok * EXPERTS;
    const bool chunk = n_tok > CUDA_EXPERT_FEW;
    const int tile = chunk ? CUDA_EXPERT_MANY : CUDA_EXPERT_FEW;
    const int tiles = (n_tok + tile - 1) / tile * EXPERTS;
    struct kn_act x = act_new(&rng, rows, n_in, 2.0f);
    float *y = guarded((size_t)(rows * n_out) * sizeof *y);
    const struct cuda_expert job = {.w = m.gpu,
                                    .n_out = n_out,
                                    .act = cuda_act_from(&x, rows),
                                    .y = y,
                                    .n_head = EXPERTS,
                                    .n_tok = n_tok};

    launch(type, chunk, &job, tiles);
    for (int i = 0; i < rows; i++) check_row(&m, i % EXPERTS, n_out, &x, i, NULL, y + i * n_out);
}

TEST(heads)
{
    for (int i = 0; i < COUNT(types); i++) {
        check_heads(types[i], 32, 96, 5);
        check_heads(types[i], 80, 128, 67);
    }
}

TEST(few_rows)
{
    for (int i = 0; i < COUNT(types); i++) {
        check_experts(types[i], false, 32, 96, 1);
        check_experts(types[i], false, 48, 1088, 13);
    }
}

TEST(many_rows)
{
    for (int i = 0; i < COUNT(types); i++) check_experts(types[i], true, 80, 160, 70);
}
