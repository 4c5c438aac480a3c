/* attend on every instruction set, against a softmax attention in double with explicit RoPE, and
 * the header's promise: a token's bits do not depend on the other tokens of a call. */
#include "tests/kern/kern.h"

struct shape {
    enum kn_kv k_type, v_type;
    int head_dim, n_group, n_tok, slot0, pos0;
    float scale; /* of the logits; 0: 1 / sqrt(head_dim) */
    int window;  /* 0: none, as softcap */
    float softcap;
    int moved; /* the units are so many slots before those of the setup */
};

#define Q4(dim, ...) \
    ((struct shape){.k_type = KN_KV_Q4, .v_type = KN_KV_Q4, .head_dim = dim, __VA_ARGS__})

struct setup {
    struct shape s;
    int n_slot;
    void *k, *v;
    float *k_float, *v_float; /* unpacked, [slot][head_dim] */
    float *q;
    size_t q_stride;
    struct kn_rope rope;
    struct kn_centre centre;
};

/* Numbers for a key's centre: some channels far from 0, scales of 1 to 20. */
static struct kn_centre centre_new(struct rng *rng, int dim)
{
    float *x = take(3 * (size_t)dim * sizeof *x);
    struct kn_centre c = {.mean = x, .first = x + dim, .scale = x + 2 * dim};

    rng_fill(rng, x, 3 * (size_t)dim, 1.0f);
    for (int i = 0; i < dim; i++) {
        x[i] *= i % 5 ? 1.0f : 6.0f;
        x[2 * dim + i] = 0.05f + fabsf(x[2 * dim + i]);
    }
    if (dim % KN_GROUP == 0) kn_centre_words(&c, take(3 * (size_t)dim / 2 * 4), dim);
    return c;
}

static void *units_new(struct rng *rng, enum kn_kv type, int n, int dim, float **unpacked)
{
    const struct kernels *ref = kn_table("ref");
    const size_t bytes = kn_kv_bytes(type, dim);
    uint8_t *units = take((size_t)n * bytes);
    float *x = take((size_t)n * (size_t)dim * sizeof *x);

    for (int i = 0; i < n; i++) {
        float *row = x + (size_t)i * (size_t)dim;
        rng_fill(rng, row, (size_t)dim, i % 7 == 3 ? 4.0f : 1.0f);
        ref->kv_pack[type](units + (size_t)i * bytes, row, dim);
        ref->kv_unpack[type](row, units + (size_t)i * bytes, dim);
    }
    *unpacked = x;
    return units;
}

/* Exactly as many slots and positions as the last token needs: reading further is a fault. */
static struct setup setup_new(const struct shape *s)
{
    struct rng rng = {
        (uint64_t)(s->head_dim * 100003 + s->n_group * 1009 + s->n_tok * 31 + s->pos0)};
    struct setup u = {.s = *s, .n_slot = s->pos0 + s->n_tok};

    if (u.s.scale == 0) u.s.scale = 1.0f / sqrtf((float)s->head_dim);
    u.k = units_new(&rng, s->k_type, u.n_slot, s->head_dim, &u.k_float);
    u.v = units_new(&rng, s->v_type, u.n_slot, s->head_dim, &u.v_float);
    u.centre = centre_new(&rng, s->head_dim);
    for (int i = 0; kn_kv_centred(s->k_type) && i < u.n_slot; i++)
        for (int c = 0; c < s->head_dim; c++) {
            float *k = &u.k_float[i * s->head_dim + c];
            *k = (i ? u.centre.mean : u.centre.first)[c] + u.centre.scale[c] * *k;
        }
    u.q_stride = (size_t)(s->n_group * s->head_dim + 5);
    u.q = take(u.q_stride * (size_t)s->n_tok * sizeof *u.q);
    rng_fill(&rng, u.q, u.q_stride * (size_t)s->n_tok, 1.5f);
    u.rope = rope_new(u.n_slot, s->head_dim);
    return u;
}

/* m, l, acc of tokens [t0, t0 + n_tok) against slots [slot0, slot1). */
struct partial {
    float *m, *l, *acc;
    size_t rows;
    int dim;
};

static struct partial run(const char *isa, const struct setup *u, int t0, int n_tok, int slot0,
                          int slot1)
{
    struct partial p = {.rows = (size_t)(n_tok * u->s.n_group), .dim = u->s.head_dim};

    p.m = guarded(p.rows * sizeof(float));
    p.l = guarded(p.rows * sizeof(float));
    p.acc = guarded(p.rows * (size_t)p.dim * sizeof(float));
    const struct kn_attend job = {
        .k_type = u->s.k_type,
        .v_type = u->s.v_type,
        .head_dim = u->s.head_dim,
        .n_group = u->s.n_group,
        .k = (uint8_t *)u->k + (size_t)u->s.moved * kn_kv_bytes(u->s.k_type, u->s.head_dim),
        .v = (uint8_t *)u->v + (size_t)u->s.moved * kn_kv_bytes(u->s.v_type, u->s.head_dim),
        .slot0 = slot0,
        .slot1 = slot1,
        .n_tok = n_tok,
        .pos0 = u->s.pos0 - u->s.moved + t0,
        .q = u->q + (size_t)t0 * u->q_stride,
        .q_stride = u->q_stride,
        .rope = &u->rope,
        .scale = u->s.scale,
        .softcap = u->s.softcap,
        .window = u->s.window,
        .m = p.m,
        .l = p.l,
        .acc = p.acc,
        .centre = &u->centre,
        .first = !u->s.moved,
    };
    kn_table(isa)->attend(&job);
    return p;
}

/* ---- in double ------------------------------------------------------------------------------ */

/* The cosines and sines of a position, which are kept: many queries turn the same keys. */
static const double (*turns(int dim, int pos))[2]
{
    enum { KEPT = 4096 };
    static double kept[KEPT][KN_HEAD_DIM_MAX / 2][2];
    static int dims[KEPT], places[KEPT];
    const int at = pos % KEPT;

    if (dims[at] == dim && places[at] == pos) return (const double(*)[2])kept[at];
    for (int i = 0; i < dim / 2; i++) {
        const double angle = pos * pow(10000.0, -2.0 * i / dim);
        kept[at][i][0] = cos(angle);
        kept[at][i][1] = sin(angle);
    }
    dims[at] = dim;
    places[at] = pos;
    return (const double(*)[2])kept[at];
}

static void rotate_double(double *x, const float *in, int dim, int pos)
{
    const double(*turn)[2] = turns(dim, pos);
    for (int i = 0; i < dim / 2; i++) {
        const double c = turn[i][0], s = turn[i][1];
        const double a = (double)in[i], b = (double)in[i + dim / 2];
        x[i] = a * c - b * s;
        x[i + dim / 2] = b * c + a * s;
    }
}

/* The size that rounding errors of logits scale with: in float the sum of the products' sizes; in
 * fixed point the query's length times the length of a key whose numbers are all as large as its
 * largest. */
struct size {
    double products, lengths;
};

/* Logits of one query; returns their maximum. */
static double logits_double(double *logit, const struct setup *u, const float *q, int pos,
                            int slot0, int end, struct size *size)
{
    const int dim = u->s.head_dim;
    const double cap = (double)u->s.softcap;
    double max = -INFINITY, square = 0, qr[KN_HEAD_DIM_MAX], kr[KN_HEAD_DIM_MAX];

    *size = (struct size){0};
    rotate_double(qr, q, dim, pos);
    for (int i = 0; i < dim; i++) square += qr[i] * qr[i];
    for (int s = slot0; s < end; s++) {
        const float *k = u->k_float + (size_t)s * (size_t)dim;
        double dot = 0, mag = 0, largest = 0;

        rotate_double(kr, k, dim, s);
        for (int i = 0; i < dim; i++) {
            dot += qr[i] * kr[i];
            mag += fabs(qr[i] * kr[i]);
            largest = fmax(largest, fabs((double)k[i]));
        }
        logit[s] = dot * (double)u->s.scale;
        if (u->s.softcap > 0) logit[s] = cap * tanh(logit[s] / cap);
        max = fmax(max, logit[s]);
        size->products = fmax(size->products, mag * (double)u->s.scale);
        size->lengths = fmax(size->lengths, sqrt(square * dim) * largest * (double)u->s.scale);
    }
    return max;
}

/* Units of 4 and 5 bits are computed in 16-bit fixed point. */
static int fixed(const struct setup *u, const char *isa)
{
    const int keys = u->s.k_type >= KN_KV_Q4 && u->s.k_type <= KN_KV_S5,
              values = u->s.v_type == KN_KV_Q4 || u->s.v_type == KN_KV_Q5;
    return strcmp(isa, "ref") != 0 && keys && values && u->s.softcap == 0;
}

/* Without fmax, which causes an internal error of gcc 12 for ARM here. */
static double largest_of(const float *group)
{
    double largest = 0;

    for (int j = 0; j < KN_GROUP; j++) {
        const double size = fabs((double)group[j]);

        if (size > largest) largest = size;
    }
    return largest;
}

/* The weighted sum of values, and of their sizes: each value's own, or the largest of its group. */
static void values_double(double *sum, double *mag, const struct setup *u, const double *weight,
                          int slot0, int end, int grouped)
{
    const int dim = u->s.head_dim;
    double largest = 0;

    for (int i = 0; i < dim; i++) sum[i] = mag[i] = 0;
    for (int s = slot0; s < end; s++) {
        const float *v = u->v_float + (size_t)s * (size_t)dim;

        for (int i = 0; i < dim; i++) {
            if (grouped && i % KN_GROUP == 0) largest = largest_of(v + i);
            sum[i] += weight[s] * (double)v[i];
            mag[i] += weight[s] * (grouped ? largest : fabs((double)v[i]));
        }
    }
}

/* The allowed error of an instruction set: in logits, and relative to the size of a sum of
 * values. */
struct tolerance {
    double logit, value;
};

static struct tolerance tolerance_of(const struct setup *u, const char *isa, struct size size)
{
    const double unit = 1e-6 * (u->n_slot > 1000 ? 4 : 1);
    struct tolerance t = {unit * (size.products + 2 + (double)u->s.softcap), 0};

    t.value = 4 * t.logit;
    if (fixed(u, isa)) {
        t.logit += 0x1p-13 * size.lengths;
        t.value = 2 * t.logit + 0x1p-11;
    }
    return t;
}

/* A row of each instruction set's result against the sums in double. */
static void check_row(const struct setup *u, const struct partial *parts, int t, int g, int slot0,
                      int slot1)
{
    AUTO_BUFFERS;
    const int dim = u->s.head_dim, pos = u->s.pos0 + t, end = pos + 1 < slot1 ? pos + 1 : slot1;
    const size_t row = (size_t)(t * u->s.n_group + g);
    const float *q = u->q + (size_t)t * u->q_stride + (size_t)(g * dim);
    if (u->s.window && slot0 < pos + 1 - u->s.window) slot0 = pos + 1 - u->s.window;
    double *logit = take((size_t)(u->n_slot + 1) * sizeof *logit);
    struct size size;
    double want[KN_HEAD_DIM_MAX], mag[2][KN_HEAD_DIM_MAX]; /* of fixed() */
    double sum = 0, max = logits_double(logit, u, q, pos, slot0, end, &size);

    for (int s = slot0; s < end; s++) sum += logit[s] = exp(logit[s] - max);
    for (int k = 0; k < 2; k++)
        values_double(want, mag[k], u, logit, slot0, end, k && dim % KN_GROUP == 0);
    for (const char *const *isa = kn_isa_list(); *isa; isa++, parts++) {
        const struct tolerance tolerance = tolerance_of(u, *isa, size);
        const float *acc = parts->acc + row * (size_t)dim;

        assert_near((double)parts->l[row], sum, 4 * tolerance.logit * sum, *isa);
        if (end <= slot0)
            assert_true(parts->m[row] == -INFINITY);
        else
            assert_near((double)parts->m[row], max, tolerance.logit, *isa);
        for (int i = 0; i < dim; i++)
            assert_near((double)acc[i], want[i],
                        end <= slot0 ? 0 : tolerance.value * mag[fixed(u, *isa)][i] + 1e-35, *isa);
    }
}

/* ---- checks --------------------------------------------------------------------------------- */

static void check_values(const struct setup *u, int slot0, int slot1)
{
    enum { ISAS_MAX = 8 };
    AUTO_BUFFERS;
    struct partial parts[ISAS_MAX];
    int n = 0;

    for (const char *const *isa = kn_isa_list(); *isa; isa++) {
        assert_true(n < ISAS_MAX);
        parts[n++] = run(*isa, u, 0, u->s.n_tok, slot0, slot1);
    }
    for (int t = 0; t < u->s.n_tok; t++)
        for (int g = 0; g < u->s.n_group; g++) check_row(u, parts, t, g, slot0, slot1);
}

/* Each token alone, with no more slots than it sees, against all tokens at once. */
static void check_company(const char *isa, const struct setup *u)
{
    AUTO_BUFFERS;
    const size_t n_group = (size_t)u->s.n_group, dim = (size_t)u->s.head_dim;
    struct partial all = run(isa, u, 0, u->s.n_tok, u->s.slot0, u->n_slot);

    for (int t = 0; t < u->s.n_tok; t++) {
        const size_t row = (size_t)t * n_group;
        struct partial one = run(isa, u, t, 1, u->s.slot0, u->s.pos0 + t + 1);

        assert_same(one.m, all.m + row, n_group * 4, "m alone and in company");
        assert_same(one.l, all.l + row, n_group * 4, "l alone and in company");
        assert_same(one.acc, all.acc + row * dim, n_group * dim * 4, "acc alone and in company");
    }
}

/* The values of all slots that a token sees, and company. */
static void check_setup(const struct setup *u)
{
    check_values(u, u->s.slot0, u->n_slot);
    for (const char *const *isa = kn_isa_list(); *isa; isa++) check_company(*isa, u);
}

static void check_shape(const struct shape *s)
{
    AUTO_BUFFERS;
    const struct setup u = setup_new(s);

    check_setup(&u);
}

TEST(test_slot_counts)
{
    static const int before[] = {0, 1, 14, 62, 63, 64, 65, 127, 200};
    static const int toks[] = {1, 2, 5, 33};

    for (int b = 0; b < COUNT(before); b++)
        for (int t = 0; t < COUNT(toks); t++) {
            const struct shape s = Q4(64, .n_group = 4, .n_tok = toks[t], .pos0 = before[b]);
            check_shape(&s);
        }
}

TEST(test_groups_and_types)
{
    static const int dims[] = {32, 64, 96, 128, 160, 256, 512, 576};

    for (int d = 0; d < COUNT(dims); d++)
        for (int types = 0; types < KN_KV_TYPES * KN_KV_TYPES; types++)
            for (int n_group = 1; n_group <= 8; n_group += d == 1 ? 1 : 3) {
                /* values have no centre */
                if (kn_kv_centred((enum kn_kv)(types / KN_KV_TYPES))) continue;
                const struct shape s = {.k_type = (enum kn_kv)(types % KN_KV_TYPES),
                                        .v_type = (enum kn_kv)(types / KN_KV_TYPES),
                                        .head_dim = dims[d],
                                        .n_group = n_group,
                                        .n_tok = 3,
                                        .pos0 = 70};
                check_shape(&s);
            }
}

TEST(test_any_even)
{
    for (int dim = 2; dim <= 84; dim += 2)
        for (int type = KN_KV_F16; type <= KN_KV_F32; type++) {
            const struct shape s = {.k_type = (enum kn_kv)type,
                                    .v_type = (enum kn_kv)type,
                                    .head_dim = dim,
                                    .n_group = 3,
                                    .n_tok = 4,
                                    .pos0 = 77};
            check_shape(&s);
        }
}

/* Far positions, a later part of the cache, logits with differences of hundreds. */
TEST(test_far_and_steep)
{
    const struct shape far = Q4(64, .n_group = 2, .n_tok = 3, .pos0 = 5100, .slot0 = 4992);
    const struct shape steep = {.k_type = KN_KV_Q4,
                                .v_type = KN_KV_Q8,
                                .head_dim = 128,
                                .n_group = 2,
                                .n_tok = 9,
                                .pos0 = 200,
                                .scale = 8.0f};

    check_shape(&far);
    check_shape(&steep);
}

/* Ranges of which a token sees no slot, or that end before it: parts of a split cache. */
TEST(test_parts)
{
    AUTO_BUFFERS;
    const struct shape s = Q4(64, .n_group = 4, .n_tok = 20, .pos0 = 120);
    struct setup u = setup_new(&s);

    check_values(&u, 128, 140); /* the first 8 tokens see no slot */
    check_values(&u, 64, 128);
    check_values(&u, 0, 37);
    check_values(&u, 64, 64);
    check_values(&u, 128, 64);
}

/* Overwrites slot s of k with numbers that are difficult for 16 bits. */
static void worst_unit(struct setup *u, int s)
{
    const int dim = u->s.head_dim;
    const size_t bytes = kn_kv_bytes(KN_KV_Q4, dim);
    float *k = u->k_float + (size_t)s * (size_t)dim;
    uint8_t *unit = (uint8_t *)u->k + (size_t)s * bytes;

    for (int i = 0; i < dim; i++) switch (s % 8) {
        case 0: k[i] = 0; break;
        /* one channel much larger than the others */
        case 1: k[i] = i == s % dim ? 300.0f : k[i]; break;
        case 2: k[i] = 9.0f + 0.01f * k[i]; break;          /* all nearly equal */
        case 3: k[i] = i % 2 ? 65504.0f : -65504.0f; break; /* the largest possible */
        case 4: k[i] *= 1e-6f; break;                       /* halves become denormal */
        case 5: k[i] = i < KN_GROUP ? 1e-3f * k[i] : k[i]; break;
        case 6: k[i] = -7.0f; break;
        default: break;
        }
    kn_table("ref")->kv_pack[KN_KV_Q4](unit, k, dim);
    kn_table("ref")->kv_unpack[KN_KV_Q4](k, unit, dim);
}

/* Each worst unit alone in the first tile, and queries of zeros. */
TEST(test_worst_units)
{
    const struct shape s = Q4(96, .n_group = 3, .n_tok = 2, .pos0 = 70);

    for (int kind = 0; kind < 8; kind++) {
        AUTO_BUFFERS;
        struct setup u = setup_new(&s);

        for (int slot = kind; slot < u.n_slot; slot += 8) worst_unit(&u, slot);
        memset(u.q, 0, (size_t)s.head_dim * sizeof *u.q);
        check_setup(&u);
    }
}

/* The same units, all moved down by two tiles. */
static void check_moved(const char *isa, struct setup *u)
{
    AUTO_BUFFERS;
    const size_t n_group = (size_t)u->s.n_group, n = (size_t)u->s.n_tok * n_group;
    struct partial here = run(isa, u, 0, u->s.n_tok, 0, u->n_slot), there;

    u->s.moved = 2 * KN_TILE;
    there = run(isa, u, 0, u->s.n_tok, 0, u->n_slot - u->s.moved);
    u->s.moved = 0;
    assert_same(here.m, there.m, n * 4, "m of moved units");
    assert_same(here.l, there.l, n * 4, "l of moved units");
    assert_same(here.acc, there.acc, n * (size_t)u->s.head_dim * 4, "acc of moved units");
}

static void check_window(struct shape s, int window, int before, int n_tok)
{
    AUTO_BUFFERS;
    s.window = window;
    s.pos0 = before;
    s.n_tok = n_tok;
    struct setup u = setup_new(&s);

    memset(u.q, 0, (size_t)s.head_dim * sizeof *u.q);
    check_setup(&u);
    check_values(&u, 128, u.n_slot);
    check_values(&u, 0, 128);
    for (const char *const *isa = kn_isa_list(); *isa && before - window >= 2 * KN_TILE; isa++)
        check_moved(*isa, &u);
}

TEST(test_windows)
{
    static const struct shape shapes[] = {
        {.k_type = KN_KV_Q4, .v_type = KN_KV_Q4, .head_dim = 64, .n_group = 3},
        {.k_type = KN_KV_Q8, .v_type = KN_KV_F16, .head_dim = 32, .n_group = 1, .softcap = 3},
    };
    static const int windows[] = {1, 5, 64, 100}, before[] = {0, 70, 300}, toks[] = {1, 20, 150};

    for (int s = 0; s < COUNT(shapes); s++)
        for (int w = 0; w < COUNT(windows); w++)
            for (int b = 0; b < COUNT(before); b++)
                for (int t = 0; t < COUNT(toks); t++)
                    check_window(shapes[s], windows[w], before[b], toks[t]);
}

TEST(test_softcap)
{
    const struct shape s =
        Q4(64, .n_group = 2, .n_tok = 9, .pos0 = 200, .scale = 3.0f, .softcap = 50.0f);

    check_shape(&s);
}

static struct kn_partial sums_of(const struct partial *p)
{
    return (struct kn_partial){p->m, p->l, p->acc};
}

TEST(test_merged_parts)
{
    AUTO_BUFFERS;
    enum { DIM = 64, GROUP = 4 };
    const struct shape s = Q4(DIM, .n_group = GROUP, .n_tok = 1, .pos0 = 299);
    struct setup u = setup_new(&s);

    for (const char *const *isa = kn_isa_list(); *isa; isa++) {
        float parts[GROUP * DIM], whole[GROUP * DIM];
        struct partial all = run(*isa, &u, 0, 1, 0, 300), sum = run(*isa, &u, 0, 1, 0, 128);

        for (int i = 128; i < 300; i += 128) {
            struct partial p = run(*isa, &u, 0, 1, i, i + 128 < 300 ? i + 128 : 300);
            kn_attend_add(kn_table(*isa), sums_of(&sum), sums_of(&p), GROUP, DIM);
        }
        kn_attend_finish(parts, sums_of(&sum), NULL, GROUP, DIM);
        kn_attend_finish(whole, sums_of(&all), NULL, GROUP, DIM);
        for (int i = 0; i < GROUP * DIM; i++)
            assert_near((double)parts[i], (double)whole[i], 4e-6, "three parts");
    }
}
