/* score on every instruction set, against eq. 3 of arXiv 2410.01805 in double. */
#include "tests/kern/kern.h"

struct head {
    struct kn_weight w1;
    float *w2, *w1_float; /* w1 unpacked */
    int n_head;
};

static struct head head_new(struct rng *rng, enum kn_type type, int n_in, int n_hidden, int n_head)
{
    const size_t bytes = kn_weight_bytes(type, n_hidden, n_in), n = (size_t)n_hidden * (size_t)n_in;
    void *data = take(bytes);
    struct head h = {.w1 = {type, n_hidden, n_in, data}, .n_head = n_head};

    h.w2 = take((size_t)n_head * (size_t)n_hidden * sizeof(float));
    h.w1_float = take(n * sizeof(float));
    rng_fill(rng, h.w2, (size_t)n_head * (size_t)n_hidden, 1.0f);
    memset(data, 0, bytes);
    if (type == KN_F32) {
        rng_fill(rng, data, n, 0.5f);
    } else {
        uint8_t *blocks = take((size_t)n_in / 32 * 34);
        for (int r = 0; r < n_hidden; r++) {
            for (int i = 0; i < n_in / 32 * 34; i++) blocks[i] = (uint8_t)rng_bits(rng);
            for (int g = 0; g < n_in / 32; g++) {
                const uint16_t d = kn_half_from_float(0.004f * rng_float(rng));
                memcpy(blocks + 34 * g, &d, 2);
            }
            kn_pack(KN_Q8, data, r, n_in, blocks);
        }
    }
    for (int r = 0; r < n_hidden; r++) kn_row(h.w1_float + (size_t)r * (size_t)n_in, &h.w1, r);
    return h;
}

static void want_scores(double *out, double *mag, const struct head *h, const struct kn_act *x,
                        int t)
{
    const int n_in = h->w1.n_in;

    memset(out, 0, (size_t)h->n_head * sizeof *out);
    memset(mag, 0, (size_t)h->n_head * sizeof *mag);
    for (int j = 0; j < h->w1.n_out; j++) {
        double sum = 0;

        for (int k = 0; k < n_in; k++) {
            const size_t at = (size_t)t * (size_t)n_in + (size_t)k;
            const double v =
                h->w1.type == KN_Q8 ? (double)x->d[at / 32] * x->q[at] : (double)x->x[at];
            sum += (double)h->w1_float[(size_t)j * (size_t)n_in + (size_t)k] * v;
        }
        for (int i = 0; i < h->n_head; i++) {
            const double term = sum / (1 + exp(-sum)) * (double)h->w2[i * h->w1.n_out + j];
            out[i] += term;
            mag[i] += fabs(term);
        }
    }
}

static void check(enum kn_type type, int n_in, int n_hidden, int n_head, int n_tok)
{
    AUTO_BUFFERS;
    struct rng rng = {(uint64_t)(n_in * 7919 + n_hidden * 101 + n_tok)};
    struct head h = head_new(&rng, type, n_in, n_hidden, n_head);
    struct kn_act x = act_new(&rng, n_tok, n_in, 2.0f);
    const size_t bytes = (size_t)n_tok * (size_t)n_head * sizeof(float);

    for (const char *const *isa = kn_isa_list(); *isa; isa++) {
        float *out = guarded(bytes), *single = guarded(bytes);
        const struct kn_score job = {&h.w1, h.w2, &x, n_tok, n_head, out};

        kn_table(*isa)->score(&job);
        for (int t = 0; t < n_tok; t++) {
            const struct kn_act one = act_from(&x, t);
            const struct kn_score alone = {&h.w1, h.w2, &one, 1, n_head, single + t * n_head};
            double want[64], mag[64];

            kn_table(*isa)->score(&alone);
            want_scores(want, mag, &h, &x, t);
            for (int i = 0; i < n_head; i++)
                assert_near((double)out[t * n_head + i], want[i], 4e-6 * (mag[i] + 1), *isa);
        }
        assert_same(out, single, bytes, "tokens one by one");
    }
}

TEST(test_score)
{
    static const int hidden[] = {1, 16, 40, 128, 129, 300}, toks[] = {1, 2, 7, 16, 33, 65};

    for (int j = 0; j < COUNT(hidden); j++)
        for (int t = 0; t < COUNT(toks); t++) {
            check(KN_Q8, 96, hidden[j], 1 + j * 3, toks[t]);
            check(KN_F32, 96, hidden[j], 1 + j * 3, toks[t]);
            check(KN_F32, 37, hidden[j], 32, toks[t]);
        }
}
