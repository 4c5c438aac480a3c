/* convolve and recur on every instruction set, against their formulas in double; tokens one by one
 * and all at once give the same bits. */
#include "tests/kern/kern.h"

static void fill(struct rng *rng, float **x, size_t n, float scale)
{
    *x = take(n * sizeof **x);
    rng_fill(rng, *x, n, scale);
}

/* ---- convolution ----------------------------------------------------------------------------- */

static void want_convolved(double *out, double *state, const struct kn_convolve *j)
{
    const int n = j->n_channel, before = j->n_taps - 1;

    for (int i = 0; i < before * n; i++) state[i] = (double)j->state[i];
    for (int c = 0; c < n; c++)
        for (int t = 0; t < j->n_tok; t++) {
            double sum = j->bias ? (double)j->bias[c] : 0;
            for (int i = 0; i <= before; i++) {
                const int at = t - before + i;
                sum += (double)j->taps[i * n + c] *
                       (double)(at < 0 ? j->state[(at + before) * n + c] : j->x[at * n + c]);
            }
            out[t * n + c] = j->silu ? sum / (1 + exp(-sum)) : sum;
        }
    for (int i = 0; i < before; i++)
        for (int c = 0; c < n; c++) {
            const int at = j->n_tok - before + i;
            state[i * n + c] =
                (double)(at < 0 ? j->state[(at + before) * n + c] : j->x[at * n + c]);
        }
}

static void check_convolve(int n, int n_taps, int n_tok, int silu)
{
    AUTO_BUFFERS;
    struct rng rng = {(uint64_t)(n * 100 + n_taps * 10 + n_tok)};
    const size_t x_n = (size_t)(n * n_tok), s_n = (size_t)(n * (n_taps - 1));
    float *taps, *bias, *x, *state;
    double want[40 * 80], want_state[7 * 80];

    fill(&rng, &taps, (size_t)(n * n_taps), 1);
    fill(&rng, &bias, (size_t)n, 1);
    fill(&rng, &x, x_n, 2);
    fill(&rng, &state, s_n, 2);
    for (const char *const *isa = kn_isa_list(); *isa; isa++) {
        float *y = guarded(x_n * sizeof *y), *s = guarded(s_n * sizeof *s);
        float *one = guarded(x_n * sizeof *y), *s1 = guarded(s_n * sizeof *s);
        struct kn_convolve j = {n, n_taps, n_tok, 0, n, silu, taps, n % 2 ? bias : NULL, state, x};

        want_convolved(want, want_state, &j);
        memcpy(y, x, x_n * sizeof *y);
        memcpy(one, x, x_n * sizeof *y);
        memcpy(s, state, s_n * sizeof *s);
        memcpy(s1, state, s_n * sizeof *s);
        j.x = y;
        j.state = s;
        for (j.c0 = 0; j.c0 < n; j.c0 = j.c1) {
            j.c1 = j.c0 + 32 < n ? j.c0 + 32 : n;
            kn_table(*isa)->convolve(&j);
        }
        for (size_t i = 0; i < x_n; i++) assert_near((double)y[i], want[i], 4e-6, "convolve");
        for (size_t i = 0; i < s_n; i++) assert_true((double)s[i] == want_state[i]);
        for (int t = 0; t < n_tok; t++) {
            struct kn_convolve step = j;
            step.c0 = 0, step.c1 = n, step.n_tok = 1, step.state = s1, step.x = one + t * n;
            kn_table(*isa)->convolve(&step);
        }
        assert_same(one, y, x_n * sizeof *y, "convolve one by one");
        assert_same(s1, s, s_n * sizeof *s, "convolve's state one by one");
    }
}

TEST(test_convolve)
{
    for (int n = 1; n <= 80; n += 13)
        for (int n_taps = 2; n_taps <= 5; n_taps++)
            for (int n_tok = 1; n_tok <= 40; n_tok += 13) check_convolve(n, n_taps, n_tok, n % 3);
}

/* ---- recurrence ------------------------------------------------------------------------------ */

enum { DIM_MAX = 80 };

static void want_recurred(double *y, double *s, const struct kn_recur *j)
{
    const int key = j->key_dim, value = j->value_dim;

    for (int i = 0; i < key * value; i++) s[i] = (double)j->state[i];
    for (int t = 0; t < j->n_tok; t++) {
        const size_t at = (size_t)t * j->stride;
        for (int c = 0; c < value; c++) {
            double add = (double)j->v[at + (size_t)c], out = (double)j->skip * add;
            for (int i = 0; i < key; i++) {
                s[i * value + c] *= (double)j->decay[(size_t)t * j->rate_stride];
                if (j->delta) add -= (double)j->k[at + (size_t)i] * s[i * value + c];
            }
            add *= (double)j->rate[(size_t)t * j->rate_stride];
            for (int i = 0; i < key; i++) {
                s[i * value + c] += (double)j->k[at + (size_t)i] * add;
                out += (double)j->q[at + (size_t)i] * s[i * value + c];
            }
            y[t * value + c] = out;
        }
    }
}

static void check_recur(int key, int value, int n_tok, int delta)
{
    AUTO_BUFFERS;
    struct rng rng = {(uint64_t)(key * 1000 + value * 10 + n_tok)};
    const size_t row = (size_t)(2 * key + value), s_n = (size_t)(key * value);
    const size_t y_n = (size_t)(n_tok * value);
    float *x, *rates, *state;
    static double want[DIM_MAX * DIM_MAX], want_state[DIM_MAX * DIM_MAX];

    fill(&rng, &x, row * (size_t)n_tok, 1 / sqrtf((float)key));
    fill(&rng, &rates, (size_t)n_tok * 2, 1);
    fill(&rng, &state, s_n, 1);
    for (int i = 0; i < 2 * n_tok; i++) rates[i] = 0.5f + 0.5f * rates[i];
    struct kn_recur j = {.key_dim = key,
                         .value_dim = value,
                         .n_tok = n_tok,
                         .delta = delta,
                         .skip = delta ? 0 : 0.7f,
                         .q = x,
                         .k = x + key,
                         .v = x + 2 * key,
                         .stride = row,
                         .decay = rates,
                         .rate = rates + 1,
                         .rate_stride = 2,
                         .state = state,
                         .y_stride = (size_t)value};
    want_recurred(want, want_state, &j);
    for (const char *const *isa = kn_isa_list(); *isa; isa++) {
        float *y = guarded(y_n * sizeof *y), *s = guarded(s_n * sizeof *s);
        float *one = guarded(y_n * sizeof *y), *s1 = guarded(s_n * sizeof *s);

        memcpy(s, state, s_n * sizeof *s);
        memcpy(s1, state, s_n * sizeof *s);
        j.state = s;
        j.y = y;
        j.n_tok = n_tok;
        for (j.c0 = 0; j.c0 < value; j.c0 = j.c1) {
            j.c1 = j.c0 + 32 < value ? j.c0 + 32 : value;
            kn_table(*isa)->recur(&j);
        }
        for (size_t i = 0; i < y_n; i++) assert_near((double)y[i], want[i], 1e-5, "recur");
        for (size_t i = 0; i < s_n; i++) assert_near((double)s[i], want_state[i], 1e-5, "state");
        for (int t = 0; t < n_tok; t++) {
            struct kn_recur step = j;
            step.c0 = 0, step.c1 = value, step.n_tok = 1, step.state = s1;
            step.q += (size_t)t * row, step.k += (size_t)t * row, step.v += (size_t)t * row;
            step.decay += 2 * t, step.rate += 2 * t, step.y = one + t * value;
            kn_table(*isa)->recur(&step);
        }
        assert_same(one, y, y_n * sizeof *y, "recur one by one");
        assert_same(s1, s, s_n * sizeof *s, "recur's state one by one");
    }
}

TEST(test_recur)
{
    for (int key = 1; key <= DIM_MAX; key += 11)
        for (int value = 4; value <= DIM_MAX; value += 12)
            for (int n_tok = 1; n_tok <= 21; n_tok += 10)
                for (int delta = 0; delta < 2; delta++) check_recur(key, value, n_tok, delta);
}
