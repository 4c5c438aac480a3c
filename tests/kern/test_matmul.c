/* matmul and row of every type on every instruction set. The reference is checked against sums in
 * double over weights unpacked here; the others against the reference. */
#include "tests/kern/kern.h"

/* The kind of scales of a quantized matrix, or of weights of a float one. */
enum fill { ORDINARY, EXTREME, TINY, HUGE_SCALE, ZERO, FILLS };

struct matrix {
    struct kn_weight w;
    double *value; /* [n_out][n_in] */
    double *size;  /* the same, as sums of magnitudes; NULL: |value| */
};

static uint16_t scale_half(struct rng *rng, enum fill fill)
{
    switch (fill) {
    case TINY: return (uint16_t)(1 + rng_below(rng, 1023)); /* denormal */
    case HUGE_SCALE: return (uint16_t)(0x7b00 + rng_below(rng, 256));
    case ZERO: return 0;
    default: return kn_half_from_float(rng_float(rng) * 0.1f);
    }
}

/* Random blocks, with the weights that they hold. */
struct blocks {
    struct rng *rng;
    enum fill fill;
    uint8_t byte; /* of an extreme row */
};

static void random_bytes(const struct blocks *b, void *out, int n, uint8_t mask)
{
    uint8_t *p = out;
    for (int i = 0; i < n; i++)
        p[i] = (b->fill == EXTREME ? b->byte : (uint8_t)rng_bits(b->rng)) & mask;
}

static void add_value(struct matrix *m, size_t at, double scaled, double min)
{
    m->value[at] = scaled - min;
    m->size[at] = fabs(scaled) + fabs(min);
}

static double half_value(uint16_t h)
{
    return (double)kn_float_from_half(h);
}

static int nibble_of(const uint8_t *qs, int k)
{
    return k < 16 ? qs[k] & 15 : qs[k - 16] >> 4;
}

/* Q4, and IQ4 with a table of values */
static void fill_q4(const struct blocks *b, struct matrix *m, void *blocks, size_t at)
{
    const bool table = m->w.type == KN_IQ4;
    uint8_t *p = blocks;

    for (int g = 0; g < m->w.n_in / 32; g++, p += 18) {
        const uint16_t d = scale_half(b->rng, b->fill);
        memcpy(p, &d, 2);
        random_bytes(b, p + 2, 16, 0xff);
        for (int k = 0; k < 32; k++) {
            const int nibble = nibble_of(p + 2, k);
            add_value(m, at++, half_value(d) * (table ? kn_values_iq4[nibble] : nibble - 8), 0);
        }
    }
}

static void fill_q8(const struct blocks *b, struct matrix *m, void *blocks, size_t at)
{
    static const uint8_t extreme[3] = {0x80, 0x7f, 0x81};
    const struct blocks bytes = {b->rng, b->fill, extreme[at / (size_t)m->w.n_in % 3]};
    uint8_t *p = blocks;

    for (int g = 0; g < m->w.n_in / 32; g++, p += 34) {
        const uint16_t d = scale_half(b->rng, b->fill);
        memcpy(p, &d, 2);
        random_bytes(&bytes, p + 2, 32, 0xff);
        for (int k = 0; k < 32; k++) add_value(m, at++, half_value(d) * (int8_t)p[2 + k], 0);
    }
}

/* Q4A: half d, half m, nibbles[16]; Q5A: half d, half m, fifth bits[4], nibbles[16] */
static void fill_affine(const struct blocks *b, struct matrix *m, void *blocks, size_t at)
{
    const int five = m->w.type == KN_Q5A, bytes = five ? 24 : 20;
    uint8_t *p = blocks;

    for (int g = 0; g < m->w.n_in / 32; g++, p += bytes) {
        const uint16_t d = scale_half(b->rng, b->fill), min = scale_half(b->rng, b->fill);
        memcpy(p, &d, 2);
        memcpy(p + 2, &min, 2);
        random_bytes(b, p + 4, bytes - 4, 0xff);
        for (int k = 0; k < 32; k++) {
            const int fifth = five ? p[4 + k / 8] >> k % 8 & 1 : 0;
            add_value(m, at++, half_value(d) * (nibble_of(p + bytes - 16, k) | fifth << 4),
                      -half_value(min));
        }
    }
}

static void fill_q6(const struct blocks *b, struct matrix *m, void *blocks, size_t at)
{
    const int n = m->w.n_in / 32;
    struct kn_q6_block *p = blocks;

    for (int g = 0; g < n; g++, p++) {
        for (int h = 0; h < 2; h++) p->d[h] = scale_half(b->rng, b->fill);
        random_bytes(b, p->q, 32, 63);
        for (int k = 0; k < 32; k++)
            add_value(m, at++, half_value(p->d[k / 16]) * (p->q[k] - 32), 0);
    }
}

static void fill_mx4(const struct blocks *b, struct matrix *m, void *blocks, size_t at)
{
    static const uint8_t e[FILLS] = {120, 128, 4, 225, 1};
    uint8_t *p = blocks;

    for (int g = 0; g < m->w.n_in / 32; g++, p += 17) {
        p[0] = (uint8_t)(e[b->fill] + (b->fill == ZERO ? -(g & 1) : rng_below(b->rng, 5)));
        random_bytes(b, p + 1, 16, 0xff);
        const double d = p[0] < 2 ? 0 : ldexp(1, p[0] - 128);
        for (int k = 0; k < 32; k++) add_value(m, at++, d * kn_values_e2m1[nibble_of(p + 1, k)], 0);
    }
}

/* e4m3, halved: 3 bits of mantissa, an exponent with a bias of 7 */
static double e4m3(int d)
{
    return 0.5 * (d < 8 ? ldexp(d, -9) : ldexp(8 + d % 8, d / 8 - 10));
}

static void fill_nv4(const struct blocks *b, struct matrix *m, void *blocks, size_t at)
{
    const int n = m->w.n_in / 32;
    struct kn_nv4_block *p = blocks;

    for (int g = 0; g < n; g++, p++) {
        for (int h = 0; h < 2; h++)
            p->d[h] = b->fill == ZERO ? 0 : (uint8_t)rng_below(b->rng, b->fill == TINY ? 8 : 127);
        random_bytes(b, p->qs, 16, 0xff);
        for (int k = 0; k < 32; k++)
            add_value(m, at++, e4m3(p->d[k / 16]) * kn_values_e2m1[nibble_of(p->qs, k)], 0);
    }
}

/* 4-bit codes: the values as the formats say, and what they are divided by */
static void fill_iq4s(const struct blocks *b, struct matrix *m, void *blocks, size_t at)
{
    static const int8_t xxs[16] = {4,  12,  20,  28,  36,  44,  52,  62,
                                   -4, -12, -20, -28, -36, -44, -52, -62},
                        s[16] = {-15, -13, -11, -9, -7, -5, -3, -1, 1, 3, 5, 7, 9, 11, 13, 15};
    const int8_t *values = m->w.type == KN_IQ3X ? xxs : m->w.type == KN_IQ3S ? s : kn_values_iq4;
    const double unit = m->w.type == KN_IQ3X ? 0.25 : 1;
    const int n = m->w.n_in / KN_SUPER;
    struct kn_iq4s_block *p = blocks;

    for (int g = 0; g < n; g++, p++) {
        p->d = scale_half(b->rng, b->fill);
        random_bytes(b, p->qs, 128, 0xff);
        for (int i = 0; i < 8; i++)
            p->scale[i] = (int8_t)(b->fill == EXTREME ? -32 : rng_below(b->rng, 64) - 32);
        for (int k = 0; k < KN_SUPER; k++)
            add_value(m, at++,
                      half_value(p->d) * p->scale[k / 32] * unit *
                          values[nibble_of(p->qs[k / 32], k % 32)],
                      0);
    }
}

static void fill_q4s(const struct blocks *b, struct matrix *m, void *blocks, size_t at)
{
    const int n = m->w.n_in / KN_SUPER;
    struct kn_q4s_block *p = blocks;

    for (int g = 0; g < n; g++, p++) {
        p->d = scale_half(b->rng, b->fill);
        p->m = scale_half(b->rng, b->fill);
        random_bytes(b, p->scale, 8, 63);
        random_bytes(b, p->min, 8, 63);
        random_bytes(b, p->qs, 128, 0xff);
        for (int k = 0; k < KN_SUPER; k++)
            add_value(m, at++,
                      half_value(p->d) * p->scale[k / 32] * nibble_of(p->qs[k / 32], k % 32),
                      half_value(p->m) * p->min[k / 32]);
    }
}

/* integers of 3 bits, or codes: 8, 25, 43 and their negatives, or -1, 0, 1 plus or minus 1/8, eight
 * times each */
static void fill_q3s(const struct blocks *b, struct matrix *m, void *blocks, size_t at)
{
    static const int8_t linear[8] = {-4, -3, -2, -1, 0, 1, 2, 3};
    static const int8_t iq2[8] = {8, 25, 43, 0, -8, -25, -43, 0},
                        iq1[8] = {-9, -1, 7, 0, -7, 1, 9, 0};
    const int8_t *values = m->w.type == KN_IQ2 ? iq2 : m->w.type == KN_IQ1 ? iq1 : linear;
    const double unit = m->w.type == KN_Q3S ? 1 : 0.125;
    const int n = m->w.n_in / KN_SUPER;
    struct kn_q3s_block *p = blocks;

    for (int g = 0; g < n; g++, p++) {
        p->d = scale_half(b->rng, b->fill);
        random_bytes(b, p->q, KN_SUPER, 7);
        for (int i = 0; i < 16; i++)
            p->scale[i] = (int8_t)(b->fill == EXTREME ? -32 : rng_below(b->rng, 64) - 32);
        for (int k = 0; k < KN_SUPER; k++)
            add_value(m, at++, half_value(p->d) * p->scale[k / 16] * unit * values[p->q[k]], 0);
    }
}

static void fill_q2s(const struct blocks *b, struct matrix *m, void *blocks, size_t at)
{
    const int n = m->w.n_in / KN_SUPER;
    struct kn_q2s_block *p = blocks;

    for (int g = 0; g < n; g++, p++) {
        p->d = scale_half(b->rng, b->fill);
        p->m = scale_half(b->rng, b->fill);
        random_bytes(b, p->scale, 16, 0xff);
        random_bytes(b, p->q, KN_SUPER, 3);
        for (int k = 0; k < KN_SUPER; k++)
            add_value(m, at++, half_value(p->d) * (p->scale[k / 16] & 15) * p->q[k],
                      half_value(p->m) * (p->scale[k / 16] >> 4));
    }
}

static void fill_quantized(struct rng *rng, struct matrix *m, enum fill fill)
{
    static void (*const fills[KN_TYPES])(const struct blocks *, struct matrix *, void *, size_t) = {
        [KN_Q4] = fill_q4,      [KN_Q8] = fill_q8,     [KN_Q4A] = fill_affine,
        [KN_Q5A] = fill_affine, [KN_Q6] = fill_q6,     [KN_IQ4] = fill_q4,
        [KN_MX4] = fill_mx4,    [KN_NV4] = fill_nv4,   [KN_IQ4S] = fill_iq4s,
        [KN_Q4S] = fill_q4s,    [KN_Q3S] = fill_q3s,   [KN_Q2S] = fill_q2s,
        [KN_IQ3X] = fill_iq4s,  [KN_IQ3S] = fill_iq4s, [KN_IQ2] = fill_q3s,
        [KN_IQ1] = fill_q3s,
    };
    void *blocks = take(2 * (size_t)m->w.n_in); /* more than any type takes */

    for (int r = 0; r < m->w.n_out; r++) {
        const struct blocks b = {rng, fill, r % 2 ? 0xff : 0x00};
        fills[m->w.type](&b, m, blocks, (size_t)r * (size_t)m->w.n_in);
        kn_pack(m->w.type, (void *)m->w.data, r, m->w.n_in, blocks);
    }
}

static void fill_float(struct rng *rng, struct matrix *m, enum fill fill)
{
    static const float scale[FILLS] = {1.0f, 60000.0f, 1e-6f, 1e4f, 0.0f};
    const size_t n = (size_t)m->w.n_out * (size_t)m->w.n_in;
    uint16_t *halves = (uint16_t *)m->w.data;
    float *floats = (float *)m->w.data;

    for (size_t i = 0; i < n; i++) {
        const float x = rng_float(rng) * scale[fill];
        uint32_t bits;

        memcpy(&bits, &x, sizeof bits);
        if (m->w.type == KN_F32) {
            floats[i] = x;
            m->value[i] = (double)x;
        } else if (m->w.type == KN_F16) {
            halves[i] = kn_half_from_float(x);
            m->value[i] = (double)kn_float_from_half(halves[i]);
        } else {
            halves[i] = (uint16_t)(bits >> 16);
            m->value[i] = (double)kn_float_from_bf16(halves[i]);
        }
    }
}

static struct matrix matrix_new(struct rng *rng, enum kn_type type, int n_out, int n_in,
                                enum fill fill)
{
    const size_t bytes = kn_weight_bytes(type, n_out, n_in);
    void *data = take(bytes);
    struct matrix m = {.w = {type, n_out, n_in, data}};

    memset(data, 0, bytes);
    m.value = take((size_t)n_out * (size_t)n_in * sizeof *m.value);
    if (kn_is_quantized(type)) {
        m.size = take((size_t)n_out * (size_t)n_in * sizeof *m.size);
        fill_quantized(rng, &m, fill);
    } else {
        fill_float(rng, &m, fill);
    }
    return m;
}

/* The activations of token t in double. */
static void act_double(double *v, const struct kn_act *x, int t, bool quantized)
{
    const size_t from = (size_t)t * (size_t)x->n_in;

    for (size_t k = 0; k < (size_t)x->n_in; k++)
        v[k] = quantized ? (double)x->d[(from + k) / KN_GROUP] * x->q[from + k]
                         : (double)x->x[from + k];
}

/* Sums and magnitudes of all outputs in double, [n_tok][n_out]; the allowed error of a float kernel
 * scales with the latter. */
struct expected {
    double *sum, *mag;
};

static struct expected expect(const struct matrix *m, const struct kn_act *x, int n_tok)
{
    const int n_out = m->w.n_out, n = m->w.n_in;
    const double *sizes = m->size ? m->size : m->value;
    const size_t bytes = (size_t)n_tok * (size_t)n_out * sizeof(double);
    const struct expected e = {take(bytes), take(bytes)};
    double *v = take((size_t)n * sizeof *v);

    for (int i = 0; i < n_tok * n_out; i++) {
        const size_t row = (size_t)(i % n_out) * (size_t)n;
        double sum = 0, mag = 0;

        if (i % n_out == 0) act_double(v, x, i / n_out, kn_is_quantized(m->w.type));
        for (int k = 0; k < n; k++) {
            sum += m->value[row + (size_t)k] * v[k];
            mag += fabs(sizes[row + (size_t)k] * v[k]);
        }
        e.sum[i] = sum;
        e.mag[i] = mag;
    }
    return e;
}

static void check_values(const struct expected *e, const struct kn_matmul *job, const char *isa)
{
    for (int t = 0, i = 0; t < job->n_tok; t++)
        for (int r = 0; r < job->w->n_out; r++, i++)
            assert_near((double)job->y[(size_t)t * job->y_stride + (size_t)r], e->sum[i],
                        2e-6 * e->mag[i] + 1e-37, isa);
}

/* The same product token by token and row range by row range: the same bits, and no write outside
 * the range. */
static void check_cuts(const struct kernels *k, const struct kn_matmul *whole, const float *want)
{
    AUTO_BUFFERS;
    const int n_out = whole->w->n_out, n_tok = whole->n_tok;
    const size_t bytes = (size_t)n_tok * whole->y_stride * sizeof(float);
    float *y = guarded(bytes);

    for (int t = 0; t < n_tok; t++)
        for (int r = 0; r < n_out;) {
            const int step = KN_PANEL * (1 + (r / KN_PANEL + t) % 3);
            const struct kn_act x = act_from(whole->x, t);
            struct kn_matmul part = *whole;

            part.x = &x;
            part.n_tok = 1;
            part.row0 = r;
            part.row1 = r + step < n_out ? r + step : n_out;
            part.y = y + (size_t)t * whole->y_stride;
            k->matmul[whole->w->type](&part);
            r += step;
        }
    assert_same(y, want, bytes, "rows and tokens cut apart");
}

/* n_in: of types with super-groups, eight times as many columns. */
static void check_shape(enum kn_type type, int n_out, int n_in, int n_tok, enum fill fill)
{
    AUTO_BUFFERS;
    if (kn_columns(type) == KN_SUPER && n_in % KN_SUPER) n_in *= KN_SUPER / KN_GROUP;
    struct rng rng = {(uint64_t)(n_out * 1000003 + n_in * 1009 + n_tok * 31 + (int)fill)};
    struct matrix m = matrix_new(&rng, type, n_out, n_in, fill);
    struct kn_act x = act_new(&rng, n_tok, n_in, fill == EXTREME ? 1000.0f : 1.0f);
    const size_t stride = (size_t)n_out + 3, bytes = (size_t)n_tok * stride * sizeof(float);

    if (fill == EXTREME && x.q) /* every activation at the end of its range */
        for (int i = 0; i < n_tok * n_in / KN_GROUP; i++) {
            memset(x.q + i * KN_GROUP, i % 2 ? 127 : -127, KN_GROUP);
            x.sum[i] = (i % 2 ? 127 : -127) * KN_GROUP;
        }
    const struct expected expected = expect(&m, &x, n_tok);
    for (const char *const *isa = kn_isa_list(); *isa; isa++) {
        const struct kernels *k = kn_table(*isa);
        float *y = guarded(bytes), untouched;
        const struct kn_matmul job = {
            .w = &m.w, .x = &x, .n_tok = n_tok, .row1 = n_out, .y = y, .y_stride = stride};

        k->matmul[type](&job);
        check_values(&expected, &job, *isa);
        memset(&untouched, 0xff, sizeof untouched);
        for (int t = 0; t < n_tok; t++)
            for (int i = n_out; i < (int)stride; i++)
                assert_memory_equal(&y[(size_t)t * stride + (size_t)i], &untouched, 4);
        check_cuts(k, &job, y);
    }
}

TEST(test_quantized)
{
    static const int outs[] = {1, 15, 16, 17, 33, 70}, ins[] = {32, 64, 96, 288};

    for (int type = KN_Q4; type < KN_TYPES; type++) {
        for (int o = 0; o < COUNT(outs); o++)
            for (int i = 0; i < (type < KN_IQ4 ? COUNT(ins) : 2); i++)
                for (int n_tok = 1; n_tok <= 33; n_tok += n_tok < 18 ? 1 + (type >= KN_IQ4S) : 5)
                    check_shape((enum kn_type)type, outs[o], ins[i], n_tok, ORDINARY);
        for (int n_tok = 1; n_tok <= 9; n_tok += 4) /* enough rows for 8 panels at a time */
            check_shape((enum kn_type)type, 207, 576, n_tok, ORDINARY);
        for (int fill = 0; fill < FILLS; fill++) {
            check_shape((enum kn_type)type, 35, 160, 11, (enum fill)fill);
            check_shape((enum kn_type)type, 207, 160, 1, (enum fill)fill);
        }
        check_shape((enum kn_type)type, 17, 16384, 33,
                    ORDINARY); /* more than one block of tokens */
    }
}

TEST(test_float)
{
    static const int outs[] = {1, 3, 8, 17, 35}, ins[] = {1, 7, 16, 31, 64, 100};
    static const int toks[] = {1, 2, 3, 4, 5, 9, 33};

    for (int type = KN_F32; type <= KN_BF16; type++) {
        for (int o = 0; o < COUNT(outs); o++)
            for (int i = 0; i < COUNT(ins); i++)
                for (int t = 0; t < COUNT(toks); t++)
                    check_shape((enum kn_type)type, outs[o], ins[i], toks[t], ORDINARY);
        for (int fill = 0; fill < FILLS; fill++)
            check_shape((enum kn_type)type, 35, 160, 11, (enum fill)fill);
        check_shape((enum kn_type)type, 17, 16384, 9, ORDINARY);
    }
}

TEST(test_row)
{
    enum { OUT = 19, IN = 768 };

    for (int type = 0; type < KN_TYPES; type++)
        for (int fill = 0; fill < FILLS; fill++) {
            AUTO_BUFFERS;
            struct rng rng = {(uint64_t)(type * 10 + fill)};
            struct matrix m = matrix_new(&rng, (enum kn_type)type, OUT, IN, (enum fill)fill);

            for (int r = 0; r < OUT; r++) {
                float *out = guarded(IN * sizeof *out);
                kn_row(out, &m.w, r);
                for (int k = 0; k < IN; k++) assert_true(out[k] == (float)m.value[r * IN + k]);
            }
        }
}
