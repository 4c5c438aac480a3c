/* Every family against logits of an independent implementation (tests/golden/make_families.py,
 * make_recurrent.py): the same 300 tokens in chunks of 1, 7 and 128, with float weights. Logits
 * have a standard deviation of about 1; the error is the largest difference in units of it. */
#include "tests/test.h"

#include <math.h>

#include "cli/options/options.h"
#include "runtime/forward/context.h"
#include "runtime/forward/engine.h"

#define FOLDER "tests/golden/families/"
#define MODELS "build/golden/families/" /* drawn from FOLDER, make_models.c */

enum { N_TOKENS = 300, N_ROWS = 16, N_VOCAB = 300, STEP = 6, N_KEPT = N_VOCAB / STEP };

struct golden {
    struct {
        int32_t ids[N_TOKENS], positions[N_ROWS];
    } run;
    float rows[N_ROWS][N_KEPT]; /* of every STEP-th token of the vocabulary */
};

/* All of the file. */
static void read_numbers(void *out, size_t bytes, const char *name)
{
    char path[128];
    snprintf(path, sizeof path, FOLDER "%s", name);
    FILE *f = fopen(path, "rb");
    if (!f) fail_msg("%s is missing", path);
    assert_int_equal(fread(out, bytes, 1, f), 1);
    assert_int_equal(fgetc(f), EOF);
    fclose(f);
}

static void read_golden(struct golden *g, const char *name)
{
    char file[64];
    snprintf(file, sizeof file, "%s.logits", name);
    read_numbers(g->rows, sizeof g->rows, file);
    read_numbers(&g->run, sizeof g->run, "ids");
}

/* Runs the tokens and keeps the rows at the golden positions. */
static void run(struct context *x, const struct golden *g, int chunk, float out[N_ROWS][N_VOCAB])
{
    int row = 0;
    cache_clear(&x->cache);
    for (int at = 0; at < N_TOKENS; at += chunk) {
        int n = N_TOKENS - at < chunk ? N_TOKENS - at : chunk;
        forward_run(&x->forward, &x->cache, g->run.ids + at, n, n);
        for (; row < N_ROWS && g->run.positions[row] < at + n; row++)
            memcpy(out[row], x->forward.logits + (size_t)(g->run.positions[row] - at) * N_VOCAB,
                   sizeof out[row]);
    }
    assert_int_equal(row, N_ROWS);
}

/* Differences relative to the root mean square of the expected numbers. */
struct error {
    double max, rms;
};

static struct error error_of(float got[N_ROWS][N_VOCAB], const struct golden *g)
{
    double max = 0, sum = 0, norm = 0;
    for (int r = 0; r < N_ROWS; r++)
        for (int i = 0; i < N_KEPT; i++) {
            double d = fabs((double)got[r][STEP * i] - (double)g->rows[r][i]);
            norm += (double)g->rows[r][i] * (double)g->rows[r][i];
            sum += d * d;
            if (!(d <= max)) max = d; /* a NaN counts as the largest */
        }
    return (struct error){max / sqrt(norm / (N_ROWS * N_KEPT)), sqrt(sum / norm)};
}

struct row {
    const char *model, *golden;
    int context; /* positions that the conversation may reach */
};

static void set_options(struct options *o, const struct row *r, char path[128], int chunk)
{
    options_init(o);
    snprintf(path, 128, MODELS "%s.gguf", r->model);
    o->engine.model = path;
    o->session.plan.policy = policy_choice("full");
    o->session.plan.policy.context = r->context;
    o->session.plan.chunk = chunk;
}

/* Uses floats throughout if the cache can hold them; a cache of halves costs half a thousandth per
 * unit. */
static double open_exact(struct context *x, struct engine *g, struct options *o, int chunk)
{
    plan_kv_named("f32", &o->session.plan.kv);
    if (!context_open(x, g, &o->session.plan, o->session.sampling.seed, chunk, &err)) return 1e-3;
    plan_kv_named("f16", &o->session.plan.kv);
    ok(context_open(x, g, &o->session.plan, o->session.sampling.seed, chunk, &err));
    return 5e-3;
}

static void compare(const struct row *r)
{
    static const int chunks[] = {1, 7, 128};
    static float got[3][N_ROWS][N_VOCAB];
    static struct golden golden;
    struct options o;
    struct engine *g;
    char path[128];
    read_golden(&golden, r->golden);
    for (int i = 0; i < 3; i++) {
        struct context x;
        set_options(&o, r, path, chunks[i]);
        o.engine.weights = ENGINE_WEIGHTS_F32;
        ok(engine_open(&g, &o.engine, &o.session.plan, 1, NULL, NULL, &err));
        double max = open_exact(&x, g, &o, chunks[i]);
        run(&x, &golden, chunks[i], got[i]);
        double error = error_of(got[i], &golden).max;
        printf("%s, chunks of %d, kv %s: error %.1e\n", r->golden, chunks[i],
               plan_kv_name(o.session.plan.kv.k), error);
        assert_true(error <= max);
        context_release(&x);
        engine_close(g);
    }
    assert_memory_equal(got[0], got[2], sizeof got[0]);
    assert_memory_equal(got[1], got[2], sizeof got[0]);
}

static void test_family(void **state)
{
    compare(*state);
}

/* Matrices as in the file, units in the default format: the same bits for every chunk size and any
 * number of threads. */
static void compare_file(const struct row *r, const char *kv, double rms_max)
{
    static const int chunks[] = {1, 7, 128};
    static float got[3][N_ROWS][N_VOCAB];
    static struct golden golden;
    char path[128];
    read_golden(&golden, r->golden);
    for (int i = 0; i < 3; i++) {
        struct options o;
        AUTO_ENGINE *g;
        AUTO_CONTEXT x;
        set_options(&o, r, path, chunks[i]);
        plan_kv_named(kv, &o.session.plan.kv);
        o.engine.threads = 1 + i;
        ok(engine_open(&g, &o.engine, &o.session.plan, 1, NULL, NULL, &err));
        ok(context_open(&x, g, &o.session.plan, o.session.sampling.seed, chunks[i], &err));
        run(&x, &golden, chunks[i], got[i]);
    }
    struct error error = error_of(got[0], &golden);
    printf("%s, weights as in the file, kv %s: error %.1e, at most %.1e\n", r->golden, kv,
           error.rms, error.max);
    assert_true(error.rms <= rms_max);
    assert_memory_equal(got[0], got[2], sizeof got[0]);
    assert_memory_equal(got[1], got[2], sizeof got[0]);
}

/* phi3 is Q8_0 and gets int8 activations, which alone change its logits by 3.5 % (the reference
 * with rounded activations): random weights are very sensitive. 4-bit units change llama's by 9
 * %. */
TEST(test_file_weights)
{
    compare_file(&(struct row){"phi3", "phi3-long", 512}, "f16", 0.06);
    compare_file(&(struct row){"qwen3moe", "qwen3moe", 512}, "f16", 0.06);
    compare_file(&(struct row){"llama", "llama", 512}, "f16", 5e-4);
    compare_file(&(struct row){"llama", "llama", 512}, "q4", 0.15);
    compare_file(&(struct row){"nvfp4", "nvfp4", 512}, "f16", 0.06);
}

/* ---- bytes that a token reads ---------------------------------------------------------------- */

static _Atomic int64_t bytes_read;
static const struct kernels *uncounted;

static void count_matmul(const struct kn_matmul *job)
{
    bytes_read += (int64_t)kn_weight_bytes(job->w->type, job->row1 - job->row0, job->w->n_in);
    uncounted->matmul[job->w->type](job);
}

/* One token reads the experts that it is routed to and no others: the bytes that bench reports. */
TEST(test_bytes_read)
{
    const struct row r = {"qwen3moe", "qwen3moe", 512};
    struct options o;
    AUTO_ENGINE *g;
    AUTO_CONTEXT x;
    char path[128];
    const int32_t id = 7;
    set_options(&o, &r, path, 8);
    ok(engine_open(&g, &o.engine, &o.session.plan, 1, NULL, NULL, &err));
    ok(context_open(&x, g, &o.session.plan, 0, 1, &err));
    struct kernels counted = *g->kernels;
    uncounted = g->kernels;
    for (int i = 0; i < KN_TYPES; i++) counted.matmul[i] = count_matmul;
    x.forward.kernels = &counted;
    const double want = context_bytes_per_token(&x);
    bytes_read = 0;
    forward_run(&x.forward, &x.cache, &id, 1, 1);
    printf("read %lld bytes of weights, expected %.0f\n", (long long)bytes_read, want);
    assert_true(fabs((double)bytes_read - want) <= 0.01 * want);
}

/* Greedy text of models with experts is that of a dense evaluation, which computes all experts. */
TEST(test_greedy)
{
    enum { PROMPT = 8, N = 40 };
    char name[32], path[128];
    int n_models = 0;
    FILE *f = fopen("tests/golden/greedy.txt", "r");
    assert_non_null(f);
    for (; fscanf(f, "%31s", name) == 1; n_models++) {
        const struct row r = {name, name, 512};
        int32_t want[N], got[N];
        struct options o;
        AUTO_ENGINE *g;
        AUTO_CONTEXT x;
        for (int i = 0; i < N; i++) assert_int_equal(fscanf(f, "%d", &want[i]), 1);
        set_options(&o, &r, path, PROMPT);
        o.engine.weights = ENGINE_WEIGHTS_F32;
        plan_kv_named("f32", &o.session.plan.kv);
        ok(engine_open(&g, &o.engine, &o.session.plan, 1, NULL, NULL, &err));
        ok(context_open(&x, g, &o.session.plan, 0, 1, &err));
        memcpy(got, want, PROMPT * sizeof *got);
        for (int at = 0, n = PROMPT; at + n < N; at += n, n = 1) {
            forward_run(&x.forward, &x.cache, got + at, n, 1);
            got[at + n] = likeliest(x.forward.logits, N_VOCAB);
        }
        if (memcmp(got, want, sizeof want) != 0) fail_msg("%s", name);
    }
    assert_int_equal(n_models, 8);
    fclose(f);
}

/* A window that the file names is not applied; a plan that exceeds it has a notice. */
TEST(test_window)
{
    for (int context = 96; context <= 512; context += 416) {
        struct options o;
        AUTO_ENGINE *g;
        AUTO_CONTEXT x;
        char path[128];
        set_options(&o, &(struct row){"qwen2", "qwen2", context}, path, 32);
        ok(engine_open(&g, &o.engine, &o.session.plan, 1, NULL, NULL, &err));
        ok(context_open(&x, g, &o.session.plan, 0, 1, &err));
        assert_int_equal(strstr(x.plan.notice, "last 100 positions") != NULL, context == 512);
    }
}

/* ---- refused models -------------------------------------------------------------------------- */

static struct err refused;

/* Opens a copy of a model in which every `from` is replaced by `to`, of equal length. */
static void refuse_bytes(const char *model, const void *from, const void *to, size_t length)
{
    static char bytes[1 << 20];
    char path[128];
    struct gguf *file;
    struct model *m;
    snprintf(path, sizeof path, MODELS "%s.gguf", model);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    size_t n = fread(bytes, 1, sizeof bytes, f);
    fclose(f);
    for (size_t at = 0; at + length <= n; at++)
        if (!memcmp(bytes + at, from, length)) memcpy(bytes + at, to, length);
    refused = (struct err){0};
    if (gguf_open_bytes(&file, bytes, n, "changed", &refused)) fail_msg("%s", refused.text);
    assert_int_equal(model_open(&m, file, false, &refused), ERR_FORMAT);
    assert_null(m);
}

static void refuse(const char *model, const char *from, const char *to)
{
    assert_int_equal(strlen(from), strlen(to));
    refuse_bytes(model, from, to, strlen(from));
}

static void expect_said(const char *part)
{
    if (!strstr(refused.text, part)) fail_msg("\"%s\" does not say \"%s\"", refused.text, part);
}

/* A list of KV heads by layer in which no layer has any. */
static void refuse_without_attention(void)
{
#define LIST "head_count_kv\11\0\0\0\5\0\0\0\3\0\0\0\0\0\0\0\0\0\0\0"
    static const char from[] = LIST "\1\0\0\0", to[] = LIST "\0\0\0\0";
    refuse_bytes("lfm2", from, to, sizeof from - 1);
    expect_said("no layer has attention");
#undef LIST
}

TEST(test_refusals)
{
    refuse_without_attention();
    refuse("llama", "llama", "lemur");
    expect_said("\"lemur\"");
    expect_said("docs/conformance.md lists those that are");
    refuse("granite", "granite", "gemma3n");
    expect_said("\"gemma3n\" is not known, the nearest is gemma4");
    refuse("llama-yarn", "yarn", "yard");
    expect_said("\"yard\"");
    expect_said("none, linear, llama3, yarn, longrope");
    refuse("llama", "blk.1.attn_k.bias", "blk.1.attn_k.hint");
    expect_said("blk.1.attn_k.hint");
    refuse("qwen3", "blk.1.attn_q_norm.", "blk.1.attn_q_warm.");
    expect_said("blk.1.attn_q_norm");
    refuse("olmo2", "blk.1.post_ffw_norm.", "blk.1.post_fwd_norm.");
    expect_said("blk.1.post_ffw_norm");
    refuse("phi3", "rope_factors_short", "rope_factors_shirt");
    expect_said("rope_factors_short");
    refuse("phi3", "blk.1.attn_qkv.weight", "blk.1.attn_qvk.weight");
    expect_said("blk.1.attn_q.");
}

/* ---------------------------------------------------------------------------------------------- */

static struct row rows[] = {
    {"llama", "llama", 512},
    {"llama-linear", "llama-linear", 512},
    {"llama3", "llama3", 512},
    {"llama3-metadata", "llama3", 512},
    {"llama-yarn", "llama-yarn", 512},
    {"llama-yarn-own", "llama-yarn-own", 512},
    {"phi3", "phi3-short", 304},
    {"phi3", "phi3-long", 512},
    {"phi3-partial", "phi3-partial-short", 304},
    {"phi3-partial", "phi3-partial-long", 512},
    {"qwen2", "qwen2", 512},
    {"qwen3", "qwen3", 512},
    {"qwen2vl", "qwen2", 512},
    {"qwen3vl", "qwen3", 512},
    {"qwen3vlmoe", "qwen3moe", 512},
    {"minicpm", "minicpm", 512},
    {"granite", "granite", 512},
    {"olmo2", "olmo2", 512},
    {"smollm3", "smollm3", 512},
    {"mistral3", "mistral3", 512},
    {"ernie4_5", "ernie4_5", 512},
    {"seed_oss", "seed_oss", 512},
    {"glm4", "glm4", 512},
    {"qwen35", "qwen35", 512},
    {"lfm2", "lfm2", 512},
    {"granitehybrid", "granitehybrid", 512},
    {"falcon-h1", "falcon-h1", 512},
    {"mixtral", "mixtral", 512},
    {"qwen2moe", "qwen2moe", 512},
    {"qwen3moe", "qwen3moe", 512},
    {"nvfp4", "nvfp4", 512},
    {"olmoe", "olmoe", 512},
    {"granitemoe", "granitemoe", 512},
    {"glm4moe", "glm4moe", 512},
    {"dots1", "dots1", 512},
    {"deepseek2", "deepseek2", 512},
    {"deepseek2-joined", "deepseek2", 512},
    {"deepseek2-groups", "deepseek2-groups", 512},
    {"mistral4", "mistral4", 512},
    {"minicpm3", "minicpm3", 512},
    {"deepseek3", "deepseek3", 512},
    {"glm47flash", "glm47flash", 512},
    {"qwen35moe", "qwen35moe", 512},
    {"qwen3next", "qwen3next", 512},
    {"nemotron_h", "nemotron_h", 512},
    {"lfm2moe", "lfm2moe", 512},
    {"gemma2", "gemma2", 512},
    {"gemma3", "gemma3", 512},
    {"olmo3", "olmo3", 512},
    {"exaone4", "exaone4", 512},
    {"cohere2", "cohere2", 512},
    {"gemma4", "gemma4", 512},
    {"gemma4-e2b", "gemma4-e2b", 512},
    {"gemma4-moe", "gemma4-moe", 512},
    {"gpt-oss", "gpt-oss", 512},
};

__attribute__((constructor)) static void add_families(void)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        test_add(__LINE__, rows[i].golden, test_family, NULL, NULL, &rows[i]);
}
