/* Float matrices and operations on rows of floats, against sums in double and the C reference. */
#include "tests/emu/kit.h"

#include "kernels/cuda/list.h"

#define ENTRY(name, args) DECLARE_KERNEL(name, args);
CUDA_KERNELS(ENTRY)
#undef ENTRY

typedef const char *floats_kernel(const struct emu_launch *, const struct cuda_floats *);
typedef const char *embed_kernel(const struct emu_launch *, const struct cuda_embed *);

/* Random weights; both types of 16 bits hold them exactly. */
static struct kn_weight weight_new(struct rng *rng, enum kn_type type, int n_out, int n_in)
{
    const size_t n = (size_t)(n_out * n_in);
    void *data = take(n * 4);
    for (size_t i = 0; i < n; i++) {
        const float x = (float)(rng_below(rng, 255) - 127) / 64.0f; /* 7 bits */
        if (type == KN_F32) ((float *)data)[i] = x / 3.0f;          /* 24 */
        if (type == KN_F16) ((uint16_t *)data)[i] = kn_half_from_float(x);
        if (type == KN_BF16) {
            uint32_t bits;
            memcpy(&bits, &x, 4);
            ((uint16_t *)data)[i] = (uint16_t)(bits >> 16);
        }
    }
    return (struct kn_weight){.type = type, .n_out = n_out, .n_in = n_in, .data = data};
}

static void check_matrix(enum kn_type type, bool chunk, int n_out, int n_in, int n_tok)
{
    AUTO_BUFFERS;
    static floats_kernel *const few[] = {
        [KN_F32] = matvec_f32, [KN_F16] = matvec_f16, [KN_BF16] = matvec_bf16};
    static floats_kernel *const many[] = {
        [KN_F32] = matmul_f32, [KN_F16] = matmul_f16, [KN_BF16] = matmul_bf16};
    /* Inputs beside bfloat16 are rounded to 16 bits, and each of up to six matrix instructions for
     * 16 columns cuts the sum off after 24. */
    const double off = !chunk ? 0x1p-20 : (type == KN_BF16 ? 0x1p-16 : 0x1p-20) + n_in * 0x1p-24;
    struct rng rng = {(uint64_t)(n_out * 31 + n_in * 7 + n_tok)};
    const struct kn_weight w = weight_new(&rng, type, n_out, n_in);
    const int stride = n_out + 3, x_stride = n_in + 8;
    const size_t bytes = (size_t)(n_tok * stride) * sizeof(float);
    float *x = take((size_t)(n_tok * x_stride) * 4), *bias = take((size_t)n_out * 4);
    float *row = take((size_t)n_in * 4), *y = guarded(bytes);
    struct cuda_floats job = {w.data, n_out, n_in, x, x_stride, n_tok, bias, 0.5f, 0, y, stride};

    rng_fill(&rng, x, (size_t)(n_tok * x_stride), 1.0f);
    rng_fill(&rng, bias, (size_t)n_out, 1.0f);
    for (uint64_t seed = 1; seed < 3; seed++) { /* the second sum is added to the first */
        if (chunk)
            LAUNCH(many[type], &job, (n_out + 127) / 128, (n_tok + 127) / 128, 1, 256,
                   CUDA_FLOATS_SHARED, seed);
        else
            LAUNCH(few[type], &job, (n_out + 7) / 8, 1, 1, 256, 0, seed);
        job.add = 1;
    }
    for (int r = 0; r < n_out; r++) {
        kn_row(row, &w, r);
        for (int t = 0; t < n_tok; t++) {
            double sum = (double)bias[r], size = fabs(sum);
            for (int c = 0; c < n_in; c++) {
                const double term = (double)row[c] * (double)x[t * x_stride + c];
                sum += term;
                size += fabs(term);
            }
            assert_near((double)y[t * stride + r], sum, size * off, "float matrix");
        }
    }
}

TEST(matrices)
{
    for (int type = KN_F32; type <= KN_BF16; type++) {
        check_matrix(type, false, 1, 8, 1);
        check_matrix(type, false, 21, 264, 8);
        check_matrix(type, false, 40, 776, 3);
        check_matrix(type, true, 16, 32, 9);
        check_matrix(type, true, 130, 104, 70);
        check_matrix(type, true, 77, 200, 131);
    }
}

TEST(embedding)
{
    AUTO_BUFFERS;
    static embed_kernel *const rows[] = {
        [KN_F32] = embed_f32, [KN_F16] = embed_f16, [KN_BF16] = embed_bf16};
    int32_t *ids = take_copy((const int32_t[]){0, 36, 17}, 3 * sizeof *ids);
    struct rng rng = {11};
    for (int type = KN_F32; type <= KN_BF16; type++) {
        const struct kn_weight w = weight_new(&rng, type, 37, 1064);
        float *x = guarded(3 * 1064 * 4), want[1064];
        const struct cuda_embed job = {{w.data, NULL, 37, 1064}, ids, 2.0f, x};
        LAUNCH(rows[type], &job, 3, 1, 1, 128, 0, 1);
        for (int t = 0; t < 3; t++) {
            kn_row(want, &w, ids[t]);
            for (int c = 0; c < 1064; c++) assert_true(x[t * 1064 + c] == 2.0f * want[c]);
        }
    }
}

TEST(scaled)
{
    AUTO_BUFFERS;
    enum { N = 1300 };
    struct rng rng = {3};
    float *x = guarded(N * 4), *by = take_copy(&(const float){3.0f}, 4), was[N];
    for (int k = 0; k < 2; k++) {
        const struct cuda_scale_rows job = {x, N, k ? by : NULL, 0.5f, k ? 0.0f : 7.0f};
        rng_fill(&rng, x, N, 30.0f);
        memcpy(was, x, sizeof was);
        LAUNCH(scale_rows, &job, 2, 1, 1, 256, 0, 1);
        for (int i = 0; i < N; i++) {
            const double v = (double)was[i] * (k ? 1.5 : 0.5), want = k ? v : 7 * tanh(v / 7);
            assert_near((double)x[i], want, 1e-5 * fabs(want) + 2e-6, "scaled");
        }
    }
}

TEST(centred)
{
    AUTO_BUFFERS;
    enum { N = 1060, ROWS = 3 };
    struct rng rng = {5};
    float *x = guarded(ROWS * N * 4), was[ROWS * N];
    const struct cuda_centre_rows job = {x, N};
    rng_fill(&rng, x, ROWS * N, 3.0f);
    for (int i = 0; i < ROWS * N; i++) was[i] = x[i] += (float)(i / N);
    LAUNCH(centre_rows, &job, ROWS, 1, 1, 256, 32, 1);
    for (int r = 0; r < ROWS; r++) {
        double sum = 0;
        for (int i = 0; i < N; i++) sum += (double)was[r * N + i];
        for (int i = 0; i < N; i++)
            assert_near((double)x[r * N + i], (double)was[r * N + i] - sum / N, 2e-6, "centred");
    }
}

TEST(inputs_of_layers)
{
    AUTO_BUFFERS;
    enum { N = 48, LAYERS = 3, TOKENS = 2, ALL = N * LAYERS * TOKENS };
    struct rng rng = {8};
    float *x = guarded(ALL * 4), *own = take(ALL * 4), *w = take(N * 4), was[ALL];
    const struct cuda_layer_inputs job = {x, own, w, N, LAYERS, 1e-6f, 4.0f};
    rng_fill(&rng, x, ALL, 2.0f);
    rng_fill(&rng, own, ALL, 1.0f);
    rng_fill(&rng, w, N, 1.0f);
    memcpy(was, x, sizeof was);
    LAUNCH(layer_inputs, &job, TOKENS, LAYERS, 1, 32, 0, 1);
    for (int row = 0; row < ALL / N; row++) {
        double square = 0;
        for (int i = 0; i < N; i++) square += (double)was[row * N + i] * (double)was[row * N + i];
        for (int i = 0; i < N; i++) {
            const int at = row * N + i;
            const double normed = (double)was[at] / sqrt(square / N + 1e-6) * (double)w[i];
            assert_near((double)x[at], (normed + 4 * (double)own[at]) * sqrt(0.5), 1e-5, "input");
        }
    }
}
