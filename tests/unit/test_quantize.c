/* quantize: blocks equal those of the format's reference encoder, searched ones are never worse,
 * and a written file opens. */

#include "tests/test.h"

#include <math.h>
#include <sodium.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/file.h"
#include "cli/commands/commands.h"
#include "cli/options/options.h"
#include "quant/convert/encode.h"
#include "quant/convert/gguf_write.h"
#include "quant/convert/source.h"
#include "runtime/model/blocks.h"
#include "runtime/model/gguf.h"
#include "tests/unit/data.h"
#include "tests/unit/make_gguf.h"

#define N 4096

static float uniform(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (float)(*seed >> 8) / 16777216.0f - 0.5f;
}

/* Roughly normal, with occasional outliers. */
static void fill(float *x, size_t n, uint32_t seed, float scale)
{
    for (size_t i = 0; i < n; i++) {
        float sum = 0;
        for (int k = 0; k < 6; k++) sum += uniform(&seed);
        x[i] = scale * sum * (i % 97 == 0 ? 6.0f : 1.0f);
    }
}

/* ---- encoders -------------------------------------------------------------------------------- */

TEST(equals_reference)
{
    static const struct {
        const char *file;
        void (*encode)(void *blocks, const float *x, size_t n);
    } cases[] = {{"golden/q8_0.ref.q", encode_q8_0},
                 {"golden/q4_0.ref.q", encode_q4_0_plain},
                 {"golden/f16.ref.q", encode_f16}};
    char path[512];
    AUTO_STR input = {0}, expected = {0};
    if (!data_path(path, sizeof path, "golden/input.f32")) skip();
    ok(file_read(path, FILE_DATA, &input, &err));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (!data_path(path, sizeof path, cases[i].file)) continue;
        str_clear(&expected);
        ok(file_read(path, FILE_DATA, &expected, &err));
        AUTO_FREE char *blocks = malloc(expected.n);
        cases[i].encode(blocks, (const float *)(void *)input.data, input.n / sizeof(float));
        assert_memory_equal(blocks, expected.data, expected.n);
    }
}

/* One block against the rule, written out in doubles. */
TEST(q8_0_is_the_rule)
{
    float x[32], back[32];
    uint8_t block[ENCODE_Q8_0_BYTES];
    fill(x, 32, 7, 0.1f);
    encode_q8_0(block, x, 32);
    blocks_to_float(back, GGUF_T_Q8_0, block, 32);
    float most = 0;
    for (int i = 0; i < 32; i++) most = fmaxf(most, fabsf(x[i]));
    for (int i = 0; i < 32; i++) {
        assert_int_equal((int8_t)block[2 + i], (int)roundf(x[i] * (1 / (most / 127))));
        assert_true(fabsf(back[i] - x[i]) <= most / 127 * 0.51f + most * 0.0005f);
    }
}

/* The sum that the search minimises, for one block (encode.h). */
static double error_of(const uint8_t *block, const float *x)
{
    float back[32], mean = 0;
    double sum = 0;
    blocks_to_float(back, GGUF_T_Q4_0, block, 32);
    for (int i = 0; i < 32; i++) mean += x[i] * x[i] / 32;
    for (int i = 0; i < 32; i++) {
        double miss = (double)x[i] - (double)back[i];
        sum += miss * miss * (double)sqrtf(mean + x[i] * x[i]);
    }
    return sum;
}

TEST(search_is_never_worse)
{
    static float x[N];
    static uint8_t plain[N / 32 * 18], searched[N / 32 * 18];
    static const float scales[] = {1, 1e-3f, 1e-6f, 1e-30f, 3000};
    double sum_plain = 0, sum_searched = 0;
    for (uint32_t round = 0; round < 20; round++) {
        fill(x, N, round + 1, scales[round % 5]);
        if (round == 6) memset(x, 0, sizeof x / 2);
        encode_q4_0_plain(plain, x, N);
        encode_q4_0(searched, x, N);
        for (size_t b = 0; b < N / 32; b++) {
            double before = error_of(plain + 18 * b, x + 32 * b);
            double after = error_of(searched + 18 * b, x + 32 * b);
            assert_true(after <= before * 1.00001);
            if (scales[round % 5] == 1) {
                sum_plain += before;
                sum_searched += after;
            }
        }
    }
    assert_true(sum_searched < 0.98 * sum_plain);
}

/* A block that int4 holds exactly stays exact. */
TEST(search_keeps_what_is_exact)
{
    float x[32], back[32];
    uint8_t block[ENCODE_Q4_0_BYTES];
    for (int i = 0; i < 32; i++) x[i] = 0.25f * (float)(i % 16 - 8);
    encode_q4_0(block, x, 32);
    blocks_to_float(back, GGUF_T_Q4_0, block, 32);
    assert_memory_equal(x, back, sizeof x);
    memset(x, 0, sizeof x);
    encode_q4_0(block, x, 32);
    blocks_to_float(back, GGUF_T_Q4_0, block, 32);
    for (int i = 0; i < 32; i++) assert_true(back[i] == 0);
}

TEST(finds_what_cannot_be_stored)
{
    float x[64] = {0};
    assert_int_equal(encode_check(x, 64), 64);
    x[40] = NAN;
    assert_int_equal(encode_check(x, 64), 40);
    x[3] = -INFINITY;
    assert_int_equal(encode_check(x, 64), 3);
    x[2] = 1e6f;
    assert_int_equal(encode_check(x, 64), 2);
}

/* ---- files ----------------------------------------------------------------------------------- */

struct folder {
    const char *in, *out, *tmp;
};

static int make_folder(void **state)
{
    static struct folder f;
    const char *path = folder_new();
    f = (struct folder){path_in(path, "in.gguf"), path_in(path, "out.gguf"),
                        path_in(path, "out.gguf.tmp")};
    *state = &f;
    return 0;
}

/* Not a model that runs: every kind of tensor that quantize treats separately. */
static void write_input(const struct folder *f, float bad)
{
    AUTO_MAKER m = {0};
    float x[64 * 6];
    fill(x, 64 * 6, 5, 0.2f);
    x[64] += bad;
    maker_str(&m, "general.architecture", "llama");
    maker_u32(&m, "general.file_type", 0);
    maker_str(&m, "tokenizer.chat_template", "{{ text }}");
    maker_array(&m, "tokenizer.ggml.tokens", GGUF_STRING, 2);
    put_text(&m.keys, "a", 1);
    put_text(&m.keys, "", 0);
    maker_tensor(&m, "token_embd.weight", GGUF_T_F32, 2, (int64_t[]){64, 4}, 1024);
    maker_tensor(&m, "output_norm.weight", GGUF_T_F32, 1, (int64_t[]){64}, 256);
    maker_tensor(&m, "blk.0.attn_q.weight", GGUF_T_F32, 2, (int64_t[]){64, 6}, 1536);
    maker_tensor(&m, "blk.0.odd.weight", GGUF_T_F32, 2, (int64_t[]){10, 3}, 120);
    maker_end(&m);
    char *data = m.file.data + m.data_at;
    memcpy(data, x, 1024);
    memcpy(data + 1024, x, 256);
    memcpy(data + 1280, x, 1536);
    memcpy(data + 1280 + 1536, x, 120);
    write_file(f->in, m.file.data, m.file.n);
}

static int run(const struct folder *f, const char *type, bool force)
{
    struct options o;
    options_init(&o);
    o.args[0] = f->in;
    o.args[1] = f->out;
    o.n_args = 2;
    o.quantize.type = type;
    o.force = force;
    o.engine.threads = 2;
    return cmd_quantize(&o);
}

static void check_digests(const struct gguf *g)
{
    struct gguf_array digests;
    struct gguf_str hex;
    uint8_t digest[32];
    char expected[65];
    assert_true(gguf_get_array(g, "retain.digest.tensors", &digests));
    assert_int_equal(digests.n, gguf_n_tensors(g));
    size_t cursor = 0;
    for (size_t i = 0; gguf_array_next_str(&digests, &cursor, &hex); i++) {
        const struct gguf_tensor *t = gguf_tensor_at(g, i);
        crypto_generichash(digest, sizeof digest, t->data, t->bytes, NULL, 0);
        sodium_bin2hex(expected, sizeof expected, digest, sizeof digest);
        assert_int_equal(hex.n, 64);
        assert_memory_equal(hex.data, expected, 64);
    }
}

TEST_WITH(round_trip, make_folder, NULL)
{
    const struct folder *f = *state;
    for (int eight = 0; eight < 2; eight++) {
        struct gguf *g, *in;
        struct gguf_str s;
        struct gguf_array a;
        uint32_t u = 0, type = eight ? GGUF_T_Q8_0 : GGUF_T_Q4_0;
        uint8_t expected[6 * 2 * 34];
        write_input(f, 0);
        assert_int_equal(run(f, eight ? "q8" : NULL, eight), 0);
        ok(gguf_open(&in, f->in, &err));
        ok(gguf_open(&g, f->out, &err));
        const float *x = gguf_tensor_find(in, "blk.0.attn_q.weight")->data;
        const struct gguf_tensor *t = gguf_tensor_find(g, "blk.0.attn_q.weight");
        assert_int_equal(t->type, type);
        if (eight)
            encode_q8_0(expected, x, 384);
        else
            encode_q4_0(expected, x, 384);
        assert_memory_equal(t->data, expected, t->bytes);
        t = gguf_tensor_find(g, "token_embd.weight"); /* the output uses it too */
        assert_int_equal(t->type, GGUF_T_Q8_0);
        t = gguf_tensor_find(g, "output_norm.weight");
        assert_int_equal(t->type, GGUF_T_F32);
        assert_memory_equal(t->data, gguf_tensor_find(in, "output_norm.weight")->data, t->bytes);
        assert_int_equal(gguf_tensor_find(g, "blk.0.odd.weight")->type, GGUF_T_F16);
        assert_true(gguf_get_u32(g, "general.file_type", &u) && u == (eight ? 7 : 2));
        assert_true(gguf_get_u32(g, "general.quantization_version", &u) && u == 2);
        assert_true(gguf_get_str(g, "tokenizer.chat_template", &s) && s.n == 10);
        assert_true(gguf_get_array(g, "tokenizer.ggml.tokens", &a) && a.n == 2);
        check_digests(g);
        gguf_close(g);
        gguf_close(in);
        assert_int_equal(access(f->tmp, F_OK), -1);
    }
}

TEST_WITH(never_overwrites, make_folder, NULL)
{
    const struct folder *f = *state;
    AUTO_STR after = {0};
    write_input(f, 0);
    write_text(f->out, "precious");
    assert_int_equal(run(f, NULL, false), 2);
    ok(file_read(f->out, FILE_DATA, &after, &err));
    assert_string_equal(after.data, "precious");
    write_input(f, NAN); /* fails in the middle: the old file stays */
    assert_int_equal(run(f, NULL, true), 3);
    str_clear(&after);
    ok(file_read(f->out, FILE_DATA, &after, &err));
    assert_string_equal(after.data, "precious");
    assert_int_equal(access(f->tmp, F_OK), -1);
}

TEST_WITH(refuses_what_is_no_model, make_folder, NULL)
{
    const struct folder *f = *state;
    write_text(f->in, "GGUF, or so");
    assert_int_equal(run(f, NULL, false), 3);
    unlink(f->in);
    assert_int_equal(run(f, NULL, false), 3);
    assert_int_equal(mkdir(f->out, 0700), 0);
    assert_int_equal(run(f, NULL, true), 2); /* a folder is never replaced */
    assert_int_equal(rmdir(f->out), 0);
    assert_int_equal(access(f->tmp, F_OK), -1);
}

TEST(names_what_cannot_be_written)
{
    struct gguf_writer *w = NULL;
    assert_int_equal(gguf_write_open(&w, "/dev/null", true, &err), ERR_USAGE);
    assert_null(w);
    refused(gguf_write_open(&w, "/nowhere/x.gguf", true, &err), ERR_FAIL, "/nowhere/x.gguf");
}

/* A limit on the size of files simulates a full disk. */
TEST_WITH(leaves_nothing_on_a_full_disk, make_folder, NULL)
{
    const struct folder *f = *state;
    struct rlimit old, small;
    write_input(f, 0);
    getrlimit(RLIMIT_FSIZE, &old);
    small = old;
    small.rlim_cur = 700;
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &small);
    int status = run(f, NULL, false);
    setrlimit(RLIMIT_FSIZE, &old);
    assert_int_equal(status, 1);
    assert_int_equal(access(f->out, F_OK), -1);
    assert_int_equal(access(f->tmp, F_OK), -1);
}

TEST_WITH(one_writer_at_a_time, make_folder, NULL)
{
    const struct folder *f = *state;
    struct gguf_writer *a, *b;
    ok(gguf_write_open(&a, f->out, false, &err));
    assert_int_equal(gguf_write_open(&b, f->out, false, &err), ERR_FAIL);
    assert_null(b);
    assert_int_equal(access(f->tmp, F_OK), 0);
    gguf_write_close(a);
    assert_int_equal(access(f->tmp, F_OK), -1);
}

/* Rows of a head in rotate-half order are written as neighbouring pairs. */
TEST(pairs_rows)
{
    float data[8 * 2], row[2], bias[8];
    for (int i = 0; i < 16; i++) data[i] = (float)i;
    struct source s = {0};
    struct source_tensor t = {.type = GGUF_T_F32, .n_dims = 2, .ne = {2, 8, 1, 1}, .data = data};
    static const int from[8] = {0, 2, 1, 3, 4, 6, 5, 7};
    source_order_pairs(&s, &t, 2);
    for (int r = 0; r < 8; r++) {
        source_row_floats(&t, r, row);
        assert_true(row[0] == data[2 * from[r]]);
    }
    struct source_tensor v = {.type = GGUF_T_F32, .n_dims = 1, .ne = {8, 1, 1, 1}, .data = data};
    source_order_pairs(&s, &v, 2);
    source_row_floats(&v, 0, bias);
    for (int r = 0; r < 8; r++) assert_true(bias[r] == data[from[r]]);
    for (size_t i = 0; i < s.n_made; i++) free(s.made[i]);
    free(s.made);
}
