/* Weight types: bit for bit against vectors made with ggml (data/golden), against formulas in
 * double written here number by number, and through panels and products of every instruction
 * set. */
#include "tests/kern/kern.h"

#include "base/file.h"
#include "runtime/model/blocks.h"
#include "runtime/model/gguf.h"
#include "runtime/model/model.h"
#include "tests/unit/data.h"

/* ---- the formats, number by number ----------------------------------------------------------- */

/* The parts of a number: w = d q - m. */
struct parts {
    double d, q, m;
};

static double half_at(const uint8_t *p)
{
    return (double)kn_float_from_half((uint16_t)(p[0] | p[1] << 8));
}

/* The bit at `bit` of a little-endian bit string. */
static int bit_of(const uint8_t *p, int bit)
{
    return p[bit / 8] >> bit % 8 & 1;
}

static int nibble(uint8_t byte, int high)
{
    return high ? byte >> 4 : byte & 15;
}

static struct parts part_q4_0(const uint8_t *p, int k)
{
    return (struct parts){half_at(p), nibble(p[2 + k % 16], k / 16) - 8, 0};
}

static struct parts part_q4_1(const uint8_t *p, int k)
{
    return (struct parts){half_at(p), nibble(p[4 + k % 16], k / 16), -half_at(p + 2)};
}

static struct parts part_q5_0(const uint8_t *p, int k)
{
    return (struct parts){half_at(p), nibble(p[6 + k % 16], k / 16) + 16 * bit_of(p + 2, k) - 16,
                          0};
}

static struct parts part_q5_1(const uint8_t *p, int k)
{
    return (struct parts){half_at(p), nibble(p[8 + k % 16], k / 16) + 16 * bit_of(p + 4, k),
                          -half_at(p + 2)};
}

static struct parts part_q8_0(const uint8_t *p, int k)
{
    return (struct parts){half_at(p), (int8_t)p[2 + k], 0};
}

static struct parts part_q2_k(const uint8_t *p, int k)
{
    const int quarter = k % 128 / 32; /* which two bits of the half's bytes */
    return (struct parts){half_at(p + 80) * (p[k / 16] & 15),
                          p[16 + k / 128 * 32 + k % 32] >> 2 * quarter & 3,
                          half_at(p + 82) * (p[k / 16] >> 4)};
}

static struct parts part_q3_k(const uint8_t *p, int k)
{
    const uint8_t *s = p + 96;
    const int i = k / 16, quarter = k % 128 / 32;
    const int scale = nibble(s[i % 8], i / 8) + 16 * (s[8 + i % 4] >> 2 * (i / 4) & 3) - 32;
    const int low = p[32 + k / 128 * 32 + k % 32] >> 2 * quarter & 3;
    return (struct parts){half_at(p + 108) * scale, low - 4 * !bit_of(p + k % 32, k / 32), 0};
}

/* The packed 6-bit pairs of Q4_K and Q5_K, in their twelve bytes: four scales, four minima, both
 * with two bits of the last four scales and minima in their upper bits, then four bytes with those
 * scales' and minima's nibbles. */
static int k_scale(const uint8_t *s, int j, int min)
{
    if (j < 4) return s[j + 4 * min] & 63;
    return nibble(s[j + 4], min) + 16 * (s[j - 4 + 4 * min] >> 6);
}

static struct parts part_q4_k(const uint8_t *p, int k)
{
    const int j = k / 32;
    return (struct parts){half_at(p) * k_scale(p + 4, j, 0),
                          nibble(p[16 + k / 64 * 32 + k % 32], j % 2),
                          half_at(p + 2) * k_scale(p + 4, j, 1)};
}

static struct parts part_q5_k(const uint8_t *p, int k)
{
    const int j = k / 32, low = nibble(p[48 + k / 64 * 32 + k % 32], j % 2);
    return (struct parts){half_at(p) * k_scale(p + 4, j, 0), low + 16 * bit_of(p + 16 + k % 32, j),
                          half_at(p + 2) * k_scale(p + 4, j, 1)};
}

static struct parts part_q6_k(const uint8_t *p, int k)
{
    const int half = k / 128, l = k % 32, quarter = k % 128 / 32;
    const int low = nibble(p[half * 64 + quarter % 2 * 32 + l], quarter / 2);
    const int high = p[128 + half * 32 + l] >> 2 * quarter & 3;
    return (struct parts){half_at(p + 208) * (int8_t)p[192 + k / 16], low + 16 * high - 32, 0};
}

static const int iq4[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                            1,    13,   25,  38,  53,  69,  89,  113};

static struct parts part_iq4_nl(const uint8_t *p, int k)
{
    return (struct parts){half_at(p), iq4[nibble(p[2 + k % 16], k / 16)], 0};
}

static struct parts part_iq4_xs(const uint8_t *p, int k)
{
    const int j = k / 32, high = bit_of(p + 2, 2 * j) + 2 * bit_of(p + 2, 2 * j + 1);
    const int scale = nibble(p[4 + j / 2], j % 2) + 16 * high - 32;
    return (struct parts){half_at(p) * scale, iq4[nibble(p[8 + 16 * j + k % 16], k % 32 / 16)], 0};
}

/* Offsets of a block's half scales; -1: it has only one. */
static const struct format {
    uint32_t type;
    const char *file; /* in data/golden */
    int d, d2;
    bool exact; /* its panels hold the same numbers */
    struct parts (*part)(const uint8_t *p, int k);
} formats[] = {
    {GGUF_T_Q4_0, "q4_0", 0, -1, true, part_q4_0},
    {GGUF_T_Q4_1, "q4_1", 0, 2, true, part_q4_1},
    {GGUF_T_Q5_0, "q5_0", 0, -1, true, part_q5_0},
    {GGUF_T_Q5_1, "q5_1", 0, 2, true, part_q5_1},
    {GGUF_T_Q8_0, "q8_0", 0, -1, true, part_q8_0},
    {GGUF_T_Q2_K, "q2_K", 80, 82, false, part_q2_k},
    {GGUF_T_Q3_K, "q3_K", 108, -1, false, part_q3_k},
    {GGUF_T_Q4_K, "q4_K", 0, 2, false, part_q4_k},
    {GGUF_T_Q5_K, "q5_K", 0, 2, false, part_q5_k},
    {GGUF_T_Q6_K, "q6_K", 208, -1, false, part_q6_k},
    {GGUF_T_IQ4_NL, "iq4_nl", 0, -1, true, part_iq4_nl},
    {GGUF_T_IQ4_XS, "iq4_xs", 0, -1, false, part_iq4_xs},
};

/* ---- random blocks --------------------------------------------------------------------------- */

static void put_half(uint8_t *p, float x)
{
    const uint16_t h = kn_half_from_float(x);
    memcpy(p, &h, sizeof h);
}

/* Random payload, with scales of ordinary weights. */
static uint8_t *random_blocks(struct rng *rng, const struct format *f, size_t n)
{
    const struct gguf_tensor_type *t = gguf_tensor_type(f->type);
    const size_t n_block = n / (size_t)t->block, bytes = (size_t)t->block_bytes;
    uint8_t *blocks = take(n_block * bytes);

    for (size_t i = 0; i < n_block * bytes; i++) blocks[i] = (uint8_t)rng_bits(rng);
    for (size_t b = 0; b < n_block; b++) {
        put_half(blocks + b * bytes + f->d, rng_float(rng) * 0.01f);
        if (f->d2 >= 0) put_half(blocks + b * bytes + f->d2, rng_float(rng) * 0.01f);
    }
    return blocks;
}

static struct parts part_at(const struct format *f, const uint8_t *blocks, size_t i)
{
    const struct gguf_tensor_type *t = gguf_tensor_type(f->type);
    const size_t block = (size_t)t->block;
    return f->part(blocks + i / block * (size_t)t->block_bytes, (int)(i % block));
}

/* ---- to floats ------------------------------------------------------------------------------- */

static struct kn_weight weight_new(enum kn_type type, int n_out, int n_in)
{
    const size_t bytes = kn_weight_bytes(type, n_out, n_in);
    return (struct kn_weight){
        .type = type, .n_out = n_out, .n_in = n_in, .data = memset(take(bytes), 0, bytes)};
}

static void check_golden(uint32_t type, const char *name, const char *kind)
{
    char path[512], file[64];
    AUTO_STR blocks = {0}, want = {0};
    const struct gguf_tensor_type *t = gguf_tensor_type(type);

    snprintf(file, sizeof file, "golden/%s.%s.q", name, kind);
    if (!data_path(path, sizeof path, file)) skip();
    ok(file_read(path, FILE_DATA, &blocks, &err));
    snprintf(file, sizeof file, "golden/%s.%s.f32", name, kind);
    ok(file_read(data_path(path, sizeof path, file), FILE_DATA, &want, &err));
    const float *numbers = (const float *)(void *)want.data;
    const size_t n = want.n / sizeof *numbers;
    AUTO_BUFFERS;
    float *got = take(want.n);
    assert_int_equal(blocks.n, n / (size_t)t->block * (size_t)t->block_bytes);
    assert_true(blocks_readable(type));
    blocks_to_float(got, type, blocks.data, n);
    for (size_t i = 0; i < n; i++)
        if (memcmp(&got[i], &numbers[i], sizeof *got))
            fail_msg("%s.%s: number %zu is %.9g, ggml says %.9g", name, kind, i, (double)got[i],
                     (double)numbers[i]);
}

/* A row in a layout after Q6 holds the numbers themselves, but for scales below 2^-126. */
static void check_packed(uint32_t type, const uint8_t *blocks, const float *want, size_t n)
{
    AUTO_BUFFERS;
    struct kn_weight w = weight_new(blocks_kernel_type(type, false), 1, (int)n);
    float *got = take(n * sizeof *got);

    blocks_pack(&w, 0, type, blocks);
    kn_row(got, &w, 0);
    for (size_t i = 0; i < n && w.type >= KN_IQ4; i++)
        if (isfinite(want[i]) && !(fabsf(got[i] - want[i]) < 0x1p-122f))
            fail_msg("type %d: packed number %zu is %.9g, gguf-py says %.9g", (int)type, i,
                     (double)got[i], (double)want[i]);
}

/* Random blocks of every type, with NaN and infinite scales: tests/golden/make_blocks.py. */
TEST(test_golden_types)
{
    int n_types = 0;
    const char *path = getenv("BLOCKS");
    AUTO_STR all = {0};

    ok(file_read(path ? path : "tests/golden/blocks.bin", FILE_DATA, &all, &err));
    for (size_t at = 0; at < all.n; n_types++) {
        AUTO_BUFFERS;
        int32_t head[3];
        memcpy(head, all.data + at, sizeof head);
        const uint8_t *blocks = (uint8_t *)all.data + at + sizeof head, *want = blocks + head[2];
        const size_t n = (size_t)head[1];
        float *got = take(n * sizeof *got);
        assert_true(blocks_readable((uint32_t)head[0]));
        blocks_to_float(got, (uint32_t)head[0], blocks, n);
        for (size_t i = 0; i < n; i++) {
            float number;
            memcpy(&number, want + 4 * i, sizeof number);
            if (memcmp(&got[i], &number, sizeof number) && !(isnan(got[i]) && isnan(number)))
                fail_msg("type %d: number %zu is %.9g, gguf-py says %.9g", head[0], i,
                         (double)got[i], (double)number);
        }
        check_packed((uint32_t)head[0], blocks, got, n);
        at += sizeof head + (size_t)head[2] + 4 * n;
    }
    assert_int_equal(n_types, 23);
}

TEST(test_golden)
{
    check_golden(GGUF_T_F16, "f16", "ref");
    check_golden(GGUF_T_BF16, "bf16", "ref");
    for (int i = 0; i < COUNT(formats); i++) {
        check_golden(formats[i].type, formats[i].file, "ref");
        if (strstr("q4_0 q4_1 q4_K q6_K q8_0", formats[i].file))
            check_golden(formats[i].type, formats[i].file, "rnd");
    }
}

/* A float product and a float difference: three roundings at most. */
TEST(test_formulas)
{
    enum { N = 64 * 256 };
    static float got[N];

    for (int i = 0; i < COUNT(formats); i++) {
        AUTO_BUFFERS;
        struct rng rng = {i};
        uint8_t *blocks = random_blocks(&rng, &formats[i], N);
        blocks_to_float(got, formats[i].type, blocks, N);
        for (size_t k = 0; k < N; k++) {
            const struct parts p = part_at(&formats[i], blocks, k);
            const double off = fabs((double)got[k] - (p.d * p.q - p.m));
            if (!(off <= 0x3p-24 * (fabs(p.d * p.q) + fabs(p.m))))
                fail_msg("%s: number %zu is off by %g", formats[i].file, k, off);
        }
    }
}

TEST(test_plain)
{
    static const uint16_t bf16[3] = {0x3f80, 0xc000, 0x8000}, half[3] = {0x3c00, 0xc000, 0x0001};
    static const float want[3] = {1.0f, -2.0f, -0.0f};
    float got[3];

    blocks_to_float(got, GGUF_T_BF16, bf16, 3);
    assert_memory_equal(got, want, sizeof got);
    blocks_to_float(got, GGUF_T_F32, want, 3);
    assert_memory_equal(got, want, sizeof got);
    blocks_to_float(got, GGUF_T_F16, half, 3);
    assert_true(got[0] == 1.0f && got[1] == -2.0f && got[2] == 0x1p-24f);
    assert_false(blocks_readable(15)); /* Q8_K */
    assert_false(blocks_readable(0xffffffffu));
}

/* ---- to panels and through products ---------------------------------------------------------- */

enum { ROWS = 35, COLS = 512, TOKENS = 9 };

static struct kn_weight pack_all(const struct format *f, const uint8_t *blocks, enum kn_type type)
{
    const struct gguf_tensor_type *t = gguf_tensor_type(f->type);
    const size_t row_bytes = (size_t)(COLS / t->block * t->block_bytes);
    struct kn_weight w = weight_new(type, ROWS, COLS);
    for (int r = 0; r < ROWS; r++) blocks_pack(&w, r, f->type, blocks + (size_t)r * row_bytes);
    return w;
}

/* The allowed difference of number i of a panel from the file's: none in the later types, else
 * none, a scale and a minimum rounded to half, or half a step of the new scale, which is at most
 * the largest number of its 32 over 127. */
static double panel_tolerance(const struct format *f, enum kn_type type, const uint8_t *blocks,
                              size_t i)
{
    double max = 0;
    const struct parts p = part_at(f, blocks, i);
    if (f->exact || type >= KN_IQ4) return 0;
    if (f->type != GGUF_T_Q2_K) return 0x1.01p-11 * (fabs(p.d * p.q) + fabs(p.m));
    for (size_t k = i - i % 32; k < i - i % 32 + 32; k++) {
        const struct parts b = part_at(f, blocks, k);
        max = fmax(max, fabs(b.d * b.q - b.m));
    }
    return 0.505 * max / 127 * (1 + 0x1p-10);
}

TEST(test_panels)
{
    static float want[ROWS * COLS], got[COLS];

    for (int i = 0; i < 2 * COUNT(formats); i++) {
        const struct format *f = &formats[i / 2];
        AUTO_BUFFERS;
        struct rng rng = {100 + (uint64_t)i};
        uint8_t *blocks = random_blocks(&rng, f, ROWS * COLS);
        struct kn_weight w = pack_all(f, blocks, blocks_kernel_type(f->type, i % 2));
        double sum = 0, off2 = 0;

        blocks_to_float(want, f->type, blocks, ROWS * COLS);
        for (int r = 0; r < ROWS; r++) {
            kn_row(got, &w, r);
            for (int k = 0; k < COLS; k++) {
                const size_t at = (size_t)(r * COLS + k);
                const double off = fabs((double)got[k] - (double)want[at]);
                sum += (double)want[at] * (double)want[at];
                off2 += off * off;
                if (!(off <= panel_tolerance(f, w.type, blocks, at)))
                    fail_msg("%s: row %d, column %d is %g, the file says %g", f->file, r, k,
                             (double)got[k], (double)want[at]);
            }
        }
        printf("%-7s relative rms error %.2e\n", f->file, sqrt(off2 / sum));
    }
}

/* An embedding is the same bits with the matrix in memory and with its rows in the file only, as
 * where a GPU has it. */
TEST(test_embedding)
{
    static float want[COLS], got[COLS];
    for (int i = 0; i < COUNT(formats); i++) {
        const struct format *f = &formats[i];
        AUTO_BUFFERS;
        struct rng rng = {i};
        uint8_t *blocks = random_blocks(&rng, f, ROWS * COLS);
        struct gguf_tensor t = {.type = f->type, .ne = {COLS, ROWS, 1, 1}, .data = blocks};
        struct model here = {.n_embd = COLS, .n_items = 1}, there = here;
        there.n_device = 1;
        struct model_load_item item[2] = {{.weight = &there.embedding, .tensor = &t, .n_stack = 1},
                                          {.weight = &here.embedding, .tensor = &t, .n_stack = 1}};
        here.embedding = pack_all(f, blocks, blocks_kernel_type(f->type, false));
        there.embedding = (struct kn_weight){
            .type = blocks_kernel_type(f->type, true), .n_out = ROWS, .n_in = COLS};
        there.items = &item[0];
        here.items = &item[1];
        assert_int_equal(model_embedding_bytes(&here), 0);
        void *packed = take(model_embedding_bytes(&there));
        for (int r = ROWS - 1; r >= 0; r--) {
            model_embedding(&here, r, NULL, want);
            model_embedding(&there, r, packed, got);
            assert_memory_equal(want, got, sizeof want);
        }
    }
}

/* A row of the file times quantized activations in double, and the error allowed for rounding
 * weights and sums. */
static void check_product(const struct format *f, enum kn_type type, const uint8_t *blocks,
                          const struct kn_act *x, const float *y, const char *isa)
{
    for (int r = 0; r < ROWS; r++)
        for (int t = 0; t < TOKENS; t++) {
            double want = 0, slack = 0;
            for (int k = 0; k < COLS; k++) {
                const size_t at = (size_t)(r * COLS + k), i = (size_t)(t * COLS + k);
                const struct parts p = part_at(f, blocks, at);
                const double v = (double)x->d[i / KN_GROUP] * x->q[i];
                const double size = fabs(p.d * p.q) + fabs(p.m);
                want += (p.d * p.q - p.m) * v;
                slack += fabs(v) * (panel_tolerance(f, type, blocks, at) + 2e-6 * size);
            }
            const double got = (double)y[t * ROWS + r];
            if (!(fabs(got - want) <= slack))
                fail_msg("%s on %s: row %d, token %d is %g, want %g within %g", f->file, isa, r, t,
                         got, want, slack);
        }
}

TEST(test_products)
{
    static float y[TOKENS * ROWS];

    for (int i = 0; i < 2 * COUNT(formats); i++) {
        const struct format *f = &formats[i / 2];
        AUTO_BUFFERS;
        struct rng rng = {200 + i};
        uint8_t *blocks = random_blocks(&rng, f, ROWS * COLS);
        struct kn_weight w = pack_all(f, blocks, blocks_kernel_type(f->type, i % 2));
        struct kn_act x = act_new(&rng, TOKENS, COLS, 1.0f);

        for (const char *const *isa = kn_isa_list(); *isa; isa++) {
            const struct kn_matmul job = {
                .w = &w, .x = &x, .n_tok = TOKENS, .row1 = ROWS, .y = y, .y_stride = ROWS};
            kn_table(*isa)->matmul[w.type](&job);
            check_product(f, w.type, blocks, &x, y, *isa);
        }
    }
}

/* --weights f32 keeps the numbers of blocks_to_float; invalid scales stay finite in panels. */
TEST(test_pack_edges)
{
    static float want[ROWS * COLS], got[COLS];

    for (int i = 0; i < 2 * COUNT(formats); i++) {
        const struct format *f = &formats[i / 2];
        const struct gguf_tensor_type *t = gguf_tensor_type(f->type);
        AUTO_BUFFERS;
        struct rng rng = {300 + i};
        uint8_t *blocks = random_blocks(&rng, f, ROWS * COLS);
        struct kn_weight w = pack_all(f, blocks, KN_F32);
        blocks_to_float(want, f->type, blocks, ROWS * COLS);
        assert_memory_equal(w.data, want, sizeof want);

        for (size_t b = 0; b < (size_t)ROWS * COLS / (size_t)t->block; b++)
            put_half(blocks + b * (size_t)t->block_bytes + f->d, b % 2 ? 65504.0f : -65504.0f);
        w = pack_all(f, blocks, blocks_kernel_type(f->type, i % 2));
        for (int r = 0; r < ROWS; r++) {
            kn_row(got, &w, r);
            for (int k = 0; k < COLS; k++) assert_true(isfinite(got[k]));
        }
    }
}

/* What a model occupies in memory is what its file has, within 5 %. */
TEST(test_memory)
{
    enum { N_OUT = 64, N_IN = 4096 };
    static const uint32_t types[] = {GGUF_T_Q4_0,   GGUF_T_Q4_1,  GGUF_T_Q4_K,  GGUF_T_IQ4_NL,
                                     GGUF_T_IQ4_XS, GGUF_T_MXFP4, GGUF_T_NVFP4, GGUF_T_Q3_K,
                                     GGUF_T_Q2_K,   GGUF_T_Q8_0};
    for (int i = 0; i < COUNT(types); i++) {
        const struct gguf_tensor_type *t = gguf_tensor_type(types[i]);
        const double file = (double)N_OUT * N_IN / t->block * t->block_bytes;
        const size_t memory = kn_weight_bytes(blocks_kernel_type(types[i], false), N_OUT, N_IN);
        if ((double)memory > 1.05 * file) fail_msg("%s", t->name);
    }
}
