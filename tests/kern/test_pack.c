/* pack.c and table.c: halves, sizes, the merge, the choice of a table. test_matmul.c has the
 * panels. */
#include "tests/kern/kern.h"

/* The value of a half, from its fields. */
static double half_value(unsigned h)
{
    const int exponent = h >> 10 & 31, fraction = h & 1023;
    const double sign = h & 0x8000 ? -1.0 : 1.0;

    if (exponent == 31) return fraction ? NAN : sign * INFINITY;
    if (exponent == 0) return sign * ldexp(fraction, -24);
    return sign * ldexp(1024 + fraction, exponent - 25);
}

TEST(test_half_values)
{
    for (unsigned h = 0; h < 65536; h++) {
        const float x = kn_float_from_half((uint16_t)h);
        const double want = half_value(h);

        if (isnan(want)) {
            assert_true(isnan(x));
            assert_int_equal(kn_half_from_float(x), h | 0x200); /* quiet, payload kept */
            continue;
        }
        assert_true((double)x == want && !signbit(x) == !(h & 0x8000));
        assert_int_equal(kn_half_from_float(x), h);
    }
}

/* Every midpoint between two halves is rounded to the even one, its neighbours to the nearer
 * one. */
TEST(test_half_rounding)
{
    for (unsigned h = 0; h < 0x7c00; h++) {
        const unsigned even = h & 1 ? h + 1 : h;
        const double below = half_value(h), above = h == 0x7bff ? 65536.0 : half_value(h + 1);
        const float middle = (float)((below + above) / 2);

        assert_int_equal(kn_half_from_float(middle), even);
        assert_int_equal(kn_half_from_float(nextafterf(middle, 0.0f)), h);
        assert_int_equal(kn_half_from_float(nextafterf(middle, INFINITY)), h + 1);
        assert_int_equal(kn_half_from_float(-middle), even | 0x8000);
    }
    assert_int_equal(kn_half_from_float(1e30f), 0x7c00);
    assert_int_equal(kn_half_from_float(-INFINITY), 0xfc00);
    assert_int_equal(kn_half_from_float(1e-30f), 0);
    assert_int_equal(kn_half_from_float(-0.0f), 0x8000);
}

TEST(test_bf16)
{
    assert_true(kn_float_from_bf16(0x3f80) == 1.0f);
    assert_true(kn_float_from_bf16(0xc040) == -3.0f);
}

TEST(test_bytes)
{
    assert_int_equal(kn_weight_bytes(KN_F32, 3, 5), 60);
    assert_int_equal(kn_weight_bytes(KN_F16, 3, 5), 30);
    assert_int_equal(kn_weight_bytes(KN_BF16, 3, 5), 30);
    assert_int_equal(kn_weight_bytes(KN_Q4, 17, 64), 2 * 2 * 288);
    assert_int_equal(kn_weight_bytes(KN_Q8, 16, 96), 3 * 544);
    assert_int_equal(kn_weight_bytes(KN_Q4, 200000, 65536), (size_t)12500 * 2048 * 288);
    assert_int_equal(kn_weight_bytes(KN_Q4A, 17, 64), 2 * 2 * 320);
    assert_int_equal(kn_weight_bytes(KN_Q5A, 17, 64), 2 * 2 * 384);
    assert_int_equal(kn_weight_bytes(KN_Q6, 17, 64), 2 * 2 * 448);
    assert_int_equal(kn_kv_bytes(KN_KV_F16, 8), 16);
    assert_int_equal(kn_kv_bytes(KN_KV_Q4, 128), 72);
    assert_int_equal(kn_kv_bytes(KN_KV_S4, 96), 56);
    assert_int_equal(kn_kv_bytes(KN_KV_Q8, 128), 136);
    assert_int_equal(kn_kv_bytes(KN_KV_Q8, 96), 104);
    assert_int_equal(kn_kv_bytes(KN_KV_Q8, 32), 36);
    assert_int_equal(kn_kv_bytes(KN_KV_Q5, 96), 68);
    assert_int_equal(kn_kv_bytes(KN_KV_S5, 128), 88);
}

/* Parts of a softmax over numbers merge to the softmax over all of them. */
TEST(test_merge)
{
    AUTO_BUFFERS;
    enum { PARTS = 4, ROWS = 3, DIM = 5, EACH = 7 };
    struct rng rng = {3};
    float m[PARTS][ROWS], l[PARTS][ROWS], acc[PARTS][ROWS][DIM];
    float *out = guarded(sizeof(float) * ROWS * DIM);
    double sum[ROWS] = {0}, want[ROWS][DIM] = {{0}};

    for (int p = 0; p < PARTS; p++)
        for (int r = 0; r < ROWS; r++) {
            float logit[EACH], v[EACH][DIM];

            m[p][r] = -INFINITY;
            l[p][r] = 0;
            memset(acc[p][r], 0, sizeof acc[p][r]);
            if (p == 1 || r == 2) continue; /* an empty part, and a row without visible slots */
            for (int i = 0; i < EACH; i++) {
                logit[i] = rng_float(&rng) * 20;
                rng_fill(&rng, v[i], DIM, 1);
                m[p][r] = fmaxf(m[p][r], logit[i]);
            }
            for (int i = 0; i < EACH; i++) {
                l[p][r] += expf(logit[i] - m[p][r]);
                sum[r] += exp(logit[i]);
                for (int d = 0; d < DIM; d++) {
                    acc[p][r][d] += expf(logit[i] - m[p][r]) * v[i][d];
                    want[r][d] += exp(logit[i]) * v[i][d];
                }
            }
        }
    for (int with = 0; with < 2; with++) {
        float sinks[ROWS];
        for (int r = 0; r < ROWS; r++) sinks[r] = (float)(3 * r) - 2.0f;
        struct kn_partial all = {m[0], l[0], acc[0][0]};
        for (int p = 1; p < PARTS && !with; p++)
            kn_attend_add(kn_table("ref"), all, (struct kn_partial){m[p], l[p], acc[p][0]}, ROWS,
                          DIM);
        kn_attend_finish(out, all, with ? sinks : NULL, ROWS, DIM);
        for (int r = 0; r < ROWS; r++)
            for (int d = 0; d < DIM; d++) {
                const double whole = sum[r] + (with ? exp((double)sinks[r]) : 0);
                assert_near(out[r * DIM + d], r == 2 ? 0 : want[r][d] / whole, 2e-6, "merge");
            }
    }
}

TEST(test_table)
{
    const char *const *list = kn_isa_list();
    int n = 0;

    for (; list[n]; n++) {
        const struct kernels *k = kn_table(list[n]);
        assert_non_null(k);
        assert_string_equal(k->isa, list[n]);
        for (int t = 0; t < KN_TYPES; t++) assert_non_null(k->matmul[t]);
        for (int t = 0; t < KN_KV_TYPES; t++) assert_true(k->kv_pack[t] && k->kv_unpack[t]);
        assert_true(k->score && k->quantize && k->rmsnorm && k->silu_mul && k->mix && k->attend);
    }
    assert_true(n >= 1);
    assert_string_equal(list[n - 1], "ref");
    assert_ptr_equal(kn_table(NULL), kn_table(list[0]));
    assert_ptr_equal(kn_table("auto"), kn_table(list[0]));
    assert_null(kn_table("z80"));
}
