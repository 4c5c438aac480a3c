/* kv_pack and kv_unpack of every type on every instruction set: the documented formula to the bit,
 * so that a cache is saved with the same bytes on every machine. */
#include "tests/kern/kern.h"

static const float scales[] = {1.0f, 1e-3f, 300.0f, 1e-6f, 1e-9f, 70000.0f, 1e30f, 0.0f};
static const int dims[] = {32, 64, 96, 128, 256};

static float half_of(float x)
{
    return kn_float_from_half(kn_half_from_float(fmaxf(-65504, fminf(65504, x))));
}

static void want_q8(uint8_t *out, const float *x, int head_dim)
{
    memset(out, 0, kn_kv_bytes(KN_KV_Q8, head_dim));
    for (int g = 0; g < head_dim / 32; g++, out += 34, x += 32) {
        float max = 0;

        for (int i = 0; i < 32; i++) max = fmaxf(max, fabsf(x[i]));
        const float d = half_of(max / 127.0f);
        const uint16_t bits = kn_half_from_float(d);
        memcpy(out, &bits, 2);
        for (int i = 0; i < 32; i++)
            out[2 + i] = (uint8_t)(int)(d > 0 ? fmaxf(-127, fminf(127, rintf(x[i] / d))) : 0);
    }
}

/* Numbers add as in kernels.h; x is overwritten. */
static float sum_of(float x[32])
{
    for (int n = 16; n; n /= 2)
        for (int i = 0; i < n; i++) x[i] += x[i + n];
    return x[0];
}

static int code_of(float x, float d, float m)
{
    return (int)(d > 0 ? fmaxf(0, fminf(15, rintf((x - m) / d))) : 0);
}

/* The d and m with the least squared error for their own codes. */
static void fit(float *d, float *m, const float *x)
{
    float q[32], qq[32], qx[32], sums[32];

    for (int i = 0; i < 32; i++) {
        q[i] = (float)code_of(x[i], *d, *m);
        qq[i] = q[i] * q[i];
        qx[i] = q[i] * x[i];
    }
    memcpy(sums, x, sizeof sums);
    const float sq = sum_of(q), sqq = sum_of(qq), sqx = sum_of(qx), sx = sum_of(sums);
    const float det = 32 * sqq - sq * sq, best = (32 * sqx - sq * sx) / det;
    if (!(det > 0 && best > 0 && best < 65504)) return;
    *d = best;
    *m = (sx - best * sq) / 32;
}

/* Of all halves that end in z, the nearest to d; of two, the larger. */
static uint16_t half_with(float d, float m)
{
    const unsigned z = d > 0 ? (unsigned)fmaxf(0, fminf(127, rintf(m / d * -8))) : 0;
    const int half = kn_half_from_float(half_of(d));
    unsigned best = z;

    for (unsigned other = z; other < 0x7c00; other += 128)
        if (abs((int)other - half) <= abs((int)best - half)) best = other;
    return (uint16_t)best;
}

static void want_q4(uint8_t *out, const float *x, int head_dim, int fits)
{
    memset(out, 0, kn_kv_bytes(KN_KV_Q4, head_dim));
    for (int g = 0; g < head_dim / 32; g++, x += 32) {
        float m = 0, max = 0;

        for (int i = 0; i < 32; i++) {
            m = fminf(m, x[i]);
            max = fmaxf(max, x[i]);
        }
        float d = (max - m) / 15;
        for (int i = 0; i < fits; i++) fit(&d, &m, x);
        const uint16_t half = half_with(d, m);
        d = kn_float_from_half(half);
        m = (float)(half % 128) / -8 * d;
        memcpy(out + head_dim / 2 + 2 * g, &half, 2);
        for (int i = 0; i < 16; i++)
            out[16 * g + i] = (uint8_t)(code_of(x[i], d, m) | code_of(x[i + 16], d, m) << 4);
    }
}

static void want_q5(uint8_t *out, const float *x, int head_dim)
{
    memset(out, 0, kn_kv_bytes(KN_KV_Q5, head_dim));
    for (int g = 0; g < head_dim / 32; g++, x += 32) {
        float far = x[0];
        uint32_t high = 0;

        for (int i = 0; i < 32; i++)
            if (fabsf(x[i]) > fabsf(far) || (fabsf(x[i]) == fabsf(far) && x[i] > far)) far = x[i];
        const float d = half_of(far / -16.0f + 0.0f);
        const uint16_t bits = kn_half_from_float(d);
        for (int i = 0; d != 0 && i < 32; i++) {
            const int q = (int)fmaxf(0, fminf(31, rintf(x[i] / d) + 16));
            out[16 * g + i % 16] |= (uint8_t)(q % 16 << i / 16 * 4);
            high |= (uint32_t)(q / 16) << i;
        }
        memcpy(out + head_dim / 2 + 4 * g, &high, 4);
        memcpy(out + head_dim / 8 * 5 + 2 * g, &bits, 2);
    }
}

static void want_f16(uint8_t *out, const float *x, int head_dim)
{
    for (int i = 0; i < head_dim; i++) {
        const uint16_t h = kn_half_from_float(half_of(x[i]));
        memcpy(out + 2 * i, &h, 2);
    }
}

/* x as in the header, from the bytes. */
static double unpacked(enum kn_kv type, const uint8_t *unit, int i, int head_dim)
{
    const bool five = type == KN_KV_Q5 || type == KN_KV_S5;
    const int g = i / 32, nibble = unit[16 * g + i % 16] >> (i % 32 < 16 ? 0 : 4) & 15;
    const uint8_t *at =
        type == KN_KV_Q8 ? unit + 34 * g : unit + head_dim / 8 * (five ? 5 : 4) + 2 * g;
    uint16_t half;

    if (type == KN_KV_F16) at = unit + 2 * i;
    if (type == KN_KV_F32) return (double)((const float *)(const void *)unit)[i];
    memcpy(&half, at, 2);
    const double d = (double)kn_float_from_half(half);
    if (type == KN_KV_F16) return d;
    if (type == KN_KV_Q8) return d * (int8_t)at[2 + i % 32];
    if (five) return d * (nibble + 16 * (unit[head_dim / 2 + i / 8] >> i % 8 & 1) - 16);
    return d * (nibble - half % 128 / 8.0);
}

static void check(enum kn_kv type, int head_dim, const float *x)
{
    const size_t bytes = kn_kv_bytes(type, head_dim), n = (size_t)head_dim;
    uint8_t want[KN_HEAD_DIM_MAX * 4];

    if (type == KN_KV_F16) want_f16(want, x, head_dim);
    if (type == KN_KV_F32) memcpy(want, x, n * sizeof *x);
    if (type == KN_KV_Q8) want_q8(want, x, head_dim);
    if (type == KN_KV_Q4 || type == KN_KV_S4) want_q4(want, x, head_dim, 0);
    if (type == KN_KV_Q5 || type == KN_KV_S5) want_q5(want, x, head_dim);
    for (const char *const *isa = kn_isa_list(); *isa; isa++) {
        AUTO_BUFFERS;
        uint8_t *unit = guarded(bytes);
        float *back = guarded(n * sizeof *back);

        kn_table(*isa)->kv_pack[type](unit, x, head_dim);
        assert_same(unit, want, bytes, *isa);
        kn_table(*isa)->kv_unpack[type](back, unit, head_dim);
        for (int i = 0; i < head_dim; i++) {
            const double exact = unpacked(type, unit, i, head_dim);
            assert_near((double)back[i], exact, fabs(exact) * 1e-7, *isa);
        }
    }
}

TEST(test_formula)
{
    for (int type = 0; type < KN_KV_TYPES; type++)
        for (int d = 0; d < COUNT(dims); d++)
            for (int s = 0; s < COUNT(scales); s++)
                for (int round = 0; round < 20; round++) {
                    AUTO_BUFFERS;
                    struct rng rng = {(uint64_t)(((type * 10 + d) * 10 + s) * 100 + round)};
                    float *x = take((size_t)dims[d] * sizeof *x);

                    rng_fill(&rng, x, (size_t)dims[d], scales[s]);
                    for (int i = 0; round % 4 == 1 && i < dims[d]; i++)
                        x[i] = fabsf(x[i]); /* one sign only */
                    for (int i = 0; round % 4 == 2 && i < dims[d]; i++) x[i] = x[0]; /* all equal */
                    if (round % 4 == 3) x[dims[d] / 2] *= 50; /* one outlier */
                    if (round == 7) x[1] = -x[dims[d] / 2];   /* or two */
                    check((enum kn_kv)type, dims[d], x);
                }
}

TEST(test_any_even)
{
    for (int dim = 2; dim <= 80; dim += 2) {
        AUTO_BUFFERS;
        struct rng rng = {(uint64_t)dim};
        float *x = take((size_t)dim * sizeof *x);

        rng_fill(&rng, x, (size_t)dim, 100.0f);
        check(KN_KV_F16, dim, x);
        check(KN_KV_F32, dim, x);
    }
}

/* y[i] = sum_j (-1)^(number of common bits of i and j) x[j] / sqrt(32). */
TEST(test_hadamard)
{
    const struct kernels *ref = kn_table("ref");
    struct rng rng = {7};
    float x[96], y[96], other[96];

    rng_fill(&rng, x, 96, 1.0f);
    memcpy(y, x, sizeof y);
    ref->hadamard(y, 96);
    for (int i = 0; i < 96; i++) {
        double want = 0;

        for (int j = 0; j < 32; j++)
            want +=
                (double)x[i / 32 * 32 + j] * (__builtin_parity((unsigned)(i & j & 31)) ? -1 : 1);
        assert_near((double)y[i], want / sqrt(32), 1e-6, "transform");
    }
    for (const char *const *isa = kn_isa_list(); *isa; isa++) {
        memcpy(other, x, sizeof other);
        kn_table(*isa)->hadamard(other, 96);
        assert_same(other, y, sizeof y, *isa);
    }
    ref->hadamard(y, 96);
    for (int i = 0; i < 96; i++) assert_near((double)y[i], (double)x[i], 1e-6, "its inverse");
}

TEST(test_centre)
{
    struct rng rng = {8};
    float mean[2][96], scale[96], x[96], y[96];
    const struct kn_centre c = {.mean = mean[0], .first = mean[1], .scale = scale};

    rng_fill(&rng, mean[0], 2 * 96, 9.0f);
    rng_fill(&rng, x, 96, 9.0f);
    for (int i = 0; i < 96; i++) scale[i] = 0.1f + (float)i / 32;
    x[5] = 1e6f, x[50] = -1e6f, x[95] = NAN;
    for (const char *const *isa = kn_isa_list(); *isa; isa++)
        for (int first = 0; first < 2; first++) {
            memcpy(y, x, sizeof y);
            kn_table(*isa)->key_centre(y, &c, first, 96);
            for (int i = 0; i < 95; i++) {
                const float want = (x[i] - mean[first][i]) / scale[i];
                assert_true(y[i] == fminf(fmaxf(want, -KN_CENTRE_FAR), KN_CENTRE_FAR));
            }
            assert_true(y[95] == -KN_CENTRE_FAR);
        }
}

static double squared_error(const uint8_t *unit, const float *x, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++) sum += pow(unpacked(KN_KV_Q4, unit, i, n) - (double)x[i], 2);
    return sum;
}

/* Fitted values are a tenth less wrong than others of Q4. */
TEST(test_fit)
{
    double fitted = 0, plain = 0;
    for (int round = 0; round < 400; round++) {
        struct rng rng = {(uint64_t)round};
        const int dim = round % 2 ? 96 : 64;
        const size_t bytes = kn_kv_bytes(KN_KV_Q4, dim);
        uint8_t a[56], b[56];
        float x[96];

        rng_fill(&rng, x, (size_t)dim, round % 5 ? 1.0f : 1e3f);
        for (int i = 0; i < 32 && round % 50 == 7; i++) x[i] = round < 100 ? 0.0f : 3.0f;
        if (round % 50 == 9) x[round % 32] = 1e30f;
        want_q4(a, x, dim, KN_FITS);
        for (const char *const *isa = kn_isa_list(); *isa; isa++) {
            kn_table(*isa)->pack_values(b, x, dim);
            assert_same(b, a, bytes, *isa);
        }
        if (round % 50 == 9) continue;
        kn_table("ref")->kv_pack[KN_KV_Q4](b, x, dim);
        fitted += squared_error(a, x, dim) / (round % 5 ? 1 : 1e6);
        plain += squared_error(b, x, dim) / (round % 5 ? 1 : 1e6);
    }
    printf("fitted values: %.3f of the squared error\n", fitted / plain);
    assert_true(fitted < plain * 0.92);
}

/* The signs of packed keys equal the signs of the unpacked numbers. */
TEST(test_signs)
{
    static const int small[] = {8, 12, 32, 64, 128};
    for (int type = 0; type < KN_KV_TYPES; type++)
        for (int d = type < KN_KV_Q8 ? 0 : 2; d < COUNT(small); d++)
            for (int round = 0; round < 50; round++) {
                AUTO_BUFFERS;
                const int dim = small[d], half = dim < 32 ? dim / 2 : 16;
                const size_t bytes = kn_kv_bytes(type, dim);
                struct rng rng = {(uint64_t)((type * 10 + d) * 100 + round)};
                uint8_t *keys = guarded(2 * bytes);
                uint16_t got[2];
                float x[KN_HEAD_DIM_MAX];

                for (int i = 0; i < 2; i++) {
                    rng_fill(&rng, x, (size_t)dim, 1.0f);
                    kn_table("ref")->kv_pack[type](keys + (size_t)i * bytes, x, dim);
                }
                kn_key_signs(got, keys, type, dim, 2);
                for (int k = 0; k < 2; k++) {
                    kn_table("ref")->kv_unpack[type](x, keys + (size_t)k * bytes, dim);
                    const float *a = x + dim - 2 * half, *b = x + dim - half;
                    unsigned want = 0;
                    for (int i = 0; i < 16; i++) want |= (a[i % half] >= b[i % half]) * 1u << i;
                    assert_int_equal(got[k], want);
                }
            }
}
