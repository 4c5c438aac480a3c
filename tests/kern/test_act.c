/* quantize, rmsnorm, silu_mul, silu_clamped_mul, gelu_mul, sigmoid_mul, add on every instruction
 * set, against formulas in double. */
#include "tests/kern/kern.h"

static const float scales[] = {1.0f, 1e-3f, 1e4f, 1e-38f, 3e-44f, 1e38f, 0.0f};

static void check_quantize(const float *x, size_t n)
{
    const size_t groups = n / KN_GROUP;

    for (const char *const *isa = kn_isa_list(); *isa; isa++) {
        AUTO_BUFFERS;
        int8_t *q = guarded(n);
        float *d = guarded(groups * sizeof *d);
        int32_t *sum = guarded(groups * sizeof *sum);

        kn_table(*isa)->quantize(q, d, sum, x, (int)n);
        for (size_t g = 0; g < groups; g++) {
            float max = 0;
            int32_t total = 0;

            for (size_t k = g * KN_GROUP; k < (g + 1) * KN_GROUP; k++)
                max = fmaxf(max, fabsf(x[k]));
            assert_true(d[g] == max / 127.0f);
            for (size_t k = g * KN_GROUP; k < (g + 1) * KN_GROUP; k++) {
                const float want = d[g] > 0 ? rintf(x[k] / d[g]) : 0;
                assert_int_equal(q[k], (int)fmaxf(-127, fminf(127, want)));
                total += q[k];
            }
            assert_int_equal(sum[g], total);
        }
    }
}

TEST(test_quantize)
{
    static const int sizes[] = {32, 64, 96, 4096};

    for (int i = 0; i < COUNT(sizes); i++)
        for (int s = 0; s < COUNT(scales); s++) {
            AUTO_BUFFERS;
            const size_t n = (size_t)sizes[i];
            struct rng rng = {(uint64_t)(i * 10 + s)};
            float *x = take(n * sizeof *x);

            rng_fill(&rng, x, n, scales[s]);
            memset(x, 0, 7 * sizeof *x);
            if (i == 3) memset(x + 64, 0, KN_GROUP * sizeof *x); /* a group of zeros */
            check_quantize(x, n);
        }
}

/* Numbers at, just below and just above k + 1/2 scales: only an exact quotient rounds them like a
 * division. */
TEST(test_quantize_ties)
{
    AUTO_BUFFERS;
    enum { N = 64 * KN_GROUP };
    struct rng rng = {77};
    float *x = take(N * sizeof *x);

    for (int round = 0; round < 200; round++) {
        for (int i = 0; i < N; i++) {
            if (i % KN_GROUP == 0) {
                x[i] = ldexpf(1.5f + 0.5f * rng_float(&rng), rng_below(&rng, 140) - 70);
                continue;
            }
            const float d = x[i - i % KN_GROUP] / 127.0f;
            x[i] = d * ((float)rng_below(&rng, 253) - 126.0f + 0.5f);
            for (int steps = rng_below(&rng, 4); steps > 0; steps--)
                x[i] = nextafterf(x[i], i % 2 ? INFINITY : -INFINITY);
        }
        check_quantize(x, N);
    }
}

static void check_rmsnorm(const struct kernels *k, const float *x, const float *w, int n)
{
    AUTO_BUFFERS;
    const size_t bytes = (size_t)n * sizeof(float);
    float *y = guarded(bytes);
    double sum = 0;

    for (int i = 0; i < n; i++) sum += (double)x[i] * (double)x[i];
    k->rmsnorm(y, x, w, n, 1e-5f);
    for (int i = 0; i < n; i++) {
        const double want = (double)x[i] / sqrt(sum / n + 1e-5) * (double)w[i];
        assert_near((double)y[i], want, 2e-6 * fabs(want) + 1e-40, "rmsnorm");
    }
    float *in_place = guarded(bytes);
    memcpy(in_place, x, bytes);
    k->rmsnorm(in_place, in_place, w, n, 1e-5f);
    assert_same(in_place, y, bytes, "rmsnorm in place");
}

/* What gate and up become, and how far the kernel may be from it. */
static double want_silu(double g, double u, double *bound)
{
    const double want = g / (1 + exp(-g)) * u;
    /* the vector exponential ends at e^88: no accuracy is promised below 1e-35 */
    *bound = 1e-6 * fabs(want) + 1e-35 * fabs(u);
    return want;
}

static double want_silu_clamped(double g, double u, double *bound)
{
    g = fmin(g, 7), u = fmax(-7, fmin(u, 7));
    const double silu = g / (1 + exp(-1.702 * g));
    *bound = (3e-6 + 2e-7 * fabs(g)) * fabs(silu) * (fabs(u) + 1) + 1e-35;
    return silu * (u + 1);
}

static double want_gelu(double g, double u, double *bound)
{
    const double t = sqrt(2 / M_PI) * (g + 0.044715 * g * g * g);
    const double want = g / (1 + exp(-2 * t)) * u;
    *bound = 4e-6 * fabs(want) + 2e-6 * fabs(g * u);
    return want;
}

static double want_sigmoid(double g, double x, double *bound)
{
    const double want = x / (1 + exp(-g));
    *bound = 1e-6 * fabs(want) + 1e-35 * fabs(x);
    return want;
}

/* Where `in_place` is, the result may replace it. */
static void check_product(void (*kernel)(float *, const float *, const float *, int),
                          double (*formula)(double, double, double *), const float *gate,
                          const float *up, const float *in_place, int n, const char *what)
{
    AUTO_BUFFERS;
    const size_t bytes = (size_t)n * sizeof(float);
    float *y = guarded(bytes), *same = guarded(bytes);

    kernel(y, gate, up, n);
    for (int i = 0; i < n; i++) {
        double bound, want = formula((double)gate[i], (double)up[i], &bound);
        assert_near((double)y[i], want, bound, what);
    }
    memcpy(same, in_place, bytes);
    kernel(same, in_place == gate ? same : gate, in_place == up ? same : up, n);
    assert_same(same, y, bytes, what);
}

static void check_mix(const struct kernels *k, const float *a, const float *b, int n)
{
    AUTO_BUFFERS;
    const size_t bytes = (size_t)n * sizeof(float);
    float *y = guarded(bytes);

    memcpy(y, a, bytes);
    k->mix(y, b, n, 1.0f, 1.0f);
    for (int i = 0; i < n; i++) assert_true(y[i] == a[i] + b[i]);
    memcpy(y, a, bytes);
    k->mix(y, b, n, 0.3f, -2.5f);
    for (int i = 0; i < n; i++)
        assert_near((double)y[i], 0.3 * (double)a[i] - 2.5 * (double)b[i],
                    4e-7 * fabs((double)a[i]) + 4e-7 * fabs((double)b[i]), "mix");
}

TEST(test_elementwise)
{
    static const float spread[] = {1.0f, 12.0f, 300.0f, 1e-4f, 0.0f};

    for (int n = 1; n <= 600; n += n < 70 ? 1 : 53)
        for (int s = 0; s < COUNT(spread); s++) {
            AUTO_BUFFERS;
            struct rng rng = {(uint64_t)(n * 10 + s)};
            float *a = take((size_t)n * sizeof *a), *b = take((size_t)n * sizeof *b);

            rng_fill(&rng, a, (size_t)n, spread[s]);
            rng_fill(&rng, b, (size_t)n, 2.0f);
            for (const char *const *isa = kn_isa_list(); *isa; isa++) {
                check_rmsnorm(kn_table(*isa), a, b, n);
                const struct kernels *k = kn_table(*isa);
                check_product(k->silu_mul, want_silu, a, b, a, n, "silu");
                check_product(k->silu_clamped_mul, want_silu_clamped, a, b, a, n, "silu clamped");
                check_product(k->gelu_mul, want_gelu, a, b, a, n, "gelu");
                check_product(k->sigmoid_mul, want_sigmoid, a, b, b, n, "sigmoid");
                check_mix(kn_table(*isa), a, b, n);
            }
        }
}

/* A broken model must not look intact. */
TEST(test_nan_stays)
{
    for (const char *const *isa = kn_isa_list(); *isa; isa++) {
        float x[32], ones[32];

        for (int i = 0; i < 32; i++) x[i] = ones[i] = 1.0f;
        x[5] = NAN;
        kn_table(*isa)->silu_mul(x, x, ones, 32);
        assert_true(isnan(x[5]) && !isnan(x[4]));
        kn_table(*isa)->rmsnorm(x, x, ones, 32, 1e-5f);
        assert_true(isnan(x[0]));
    }
}
