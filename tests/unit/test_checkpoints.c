/* `retain quantize` of checkpoints with recurrent layers, windows or experts: tensors and settings
 * are those of the same models as GGUF (tests/golden/make_recurrent.py, make_windows.py,
 * make_families.py, make_folders.py), which test_families runs. */
#include "tests/test.h"

#include <math.h>

#include "quant/convert/convert_vocab.h"
#include "quant/convert/source.h"
#include "runtime/model/gguf.h"

static const struct source_tensor *find(const struct source *s, const char *name)
{
    for (size_t i = 0; i < s->n_tensors; i++)
        if (!strcmp(s->tensors[i].name, name)) return &s->tensors[i];
    fail_msg("the folder gives no %s", name);
    return NULL;
}

static void same_tensor(const struct source_tensor *want, const struct source_tensor *got)
{
    float a[512], b[512];
    for (int i = 0; i < 4; i++)
        if (got->ne[i] != want->ne[i]) fail_msg("%s has another shape", want->name);
    assert_true(want->ne[0] <= 512);
    for (int64_t r = 0; r < source_rows(want); r++) {
        source_row_floats(want, r, a);
        source_row_floats(got, r, b);
        for (int64_t i = 0; i < want->ne[0]; i++)
            if (!(fabsf(a[i] - b[i]) <= 1e-6f * (1 + fabsf(a[i]))))
                fail_msg("%s[%d][%d] is %g, expected %g", want->name, (int)r, (int)i, (double)b[i],
                         (double)a[i]);
    }
}

/* What the files say in another way: which layers have windows; widths of experts; that weights are
 * divided by their sum, as always in GLM. */
static bool says_otherwise(struct gguf_str key)
{
    static const char *const keys[] = {".full_attention_interval",
                                       "gemma3.attention.sliding_window_pattern",
                                       "qwen3next.rope.dimension_sections",
                                       "granitemoe.expert_feed_forward_length",
                                       "glm4moe.expert_weights_norm",
                                       "glm4moe.expert_shared_feed_forward_length",
                                       "dots1.expert_shared_feed_forward_length"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const size_t n = strlen(keys[i]);
        if (n <= key.n && !memcmp(keys[i], key.data + key.n - n, n)) return true;
    }
    return false;
}

/* Every setting of the model in the file is one of the folder's. */
static void same_settings(const struct source *file, const struct source *folder)
{
    struct gguf_str key;
    struct gguf_array value;
    bool is_array;
    const struct str *all = &folder->keys.bytes;
    for (size_t i = 0; gguf_key_at(file->gguf, i, &key, &value, &is_array); i++) {
        struct gguf_keys one = {0};
        if (!strncmp(key.data, "general.", 8) || !strncmp(key.data, "tokenizer.", 10)) continue;
        gguf_keys_copy(&one, key, &value, is_array);
        if (!memmem(all->data, all->n, one.bytes.data, one.bytes.n) && !says_otherwise(key))
            fail_msg("the folder gives another %.*s", (int)key.n, key.data);
        gguf_keys_release(&one);
    }
}

static void same_as(const char *name, const char *listed)
{
    char path[128];
    struct source *folder, *file;
    size_t n_layers = 0;
    snprintf(path, sizeof path, "build/golden/checkpoints/%s%s", name, listed);
    ok(source_open(&folder, path, &err));
    assert_string_equal(folder->notice, "");
    snprintf(path, sizeof path, "build/golden/families/%s.gguf", name);
    ok(source_open(&file, path, &err));
    for (size_t i = 0; i < file->n_tensors; i++) {
        const struct source_tensor *t = &file->tensors[i];
        same_tensor(t, find(folder, t->name));
        n_layers++;
    }
    if (!strcmp(name, "falcon-h1")) /* its output has another factor than the embedding */
        same_tensor(find(file, "token_embd.weight"), find(folder, "output.weight")), n_layers++;
    assert_int_equal(folder->n_tensors, n_layers);
    same_settings(file, folder);
    source_close(folder);
    source_close(file);
}

static void same_model(const char *name)
{
    same_as(name, "");
}

TEST(test_same_models)
{
    same_model("qwen35");
    same_model("lfm2");
    same_model("granitehybrid");
    same_model("falcon-h1");
    same_model("nemotron_h");
    same_as("nemotron_h", "-listed");
    same_model("gemma3");
    same_model("exaone4");
    same_model("cohere2");
    same_model("gpt-oss");
    same_model("gemma4-e2b");
    same_model("gemma4-moe");
    same_model("granitemoe");
    same_model("glm4moe");
    same_model("dots1");
    same_model("qwen35moe");
    same_model("qwen3next");
    same_model("lfm2moe");
    same_model("olmo3");
    same_model("deepseek2");
    same_model("deepseek3");
    same_model("mistral4");
    same_model("minicpm3");
}

/* gpt-oss: codes in order and exponents apart; every second row from the second on. */
TEST(test_mxfp4_of_two_tensors)
{
    static const double values[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
    enum { EXPERTS = 2, ROWS = 3, IN = 64 };
    uint8_t codes[EXPERTS * 2 * ROWS * IN / 2], exponents[EXPERTS * 2 * ROWS * IN / 32];
    for (size_t i = 0; i < sizeof codes; i++) codes[i] = (uint8_t)(i * 89 + i / 7);
    for (size_t i = 0; i < sizeof exponents; i++) exponents[i] = (uint8_t)(120 + i);
    const struct source_tensor t = {
        .type = GGUF_T_MXFP4,
        .n_dims = 3,
        .ne = {IN, ROWS, EXPERTS, 1},
        .data = codes,
        .exponents = exponents,
        .strides = {.first = IN, .matrix = 2 * ROWS * IN, .row = 2 * IN, .number = 1}};
    uint8_t row[IN / 32 * 17];
    const struct source_tensor copied = {
        .type = GGUF_T_MXFP4, .n_dims = 1, .ne = {IN, 1, 1, 1}, .data = row};
    assert_true(source_is_plain(&t));
    for (int r = 0; r < ROWS * EXPERTS; r++) {
        float got[IN], again[IN];
        source_row_floats(&t, r, got);
        source_row_copy(&t, r, row);
        source_row_floats(&copied, 0, again);
        for (int i = 0; i < IN; i++) {
            const int at = (2 * r + 1) * IN + i, code = codes[at / 2] >> at % 2 * 4 & 15;
            const double size = ldexp(values[code & 7], exponents[at / 32] - 127);
            assert_true(got[i] == (float)(code & 8 ? -size : size));
            assert_true(again[i] == got[i]);
        }
    }
}

/* Gemma 4's tokenizer.json: blanks are U+2581, bytes are tokens. */
TEST(test_ranked_vocabulary)
{
    static const char text[] =
        "{\"normalizer\":{\"type\":\"Replace\",\"content\":\"\xE2\x96\x81\"},\"model\":{"
        "\"type\":\"BPE\",\"byte_fallback\":true,\"vocab\":{\"<unk>\":0,\"<0x41>\":1,\"a\":2},"
        "\"merges\":[]}}";
    const int32_t types[] = {2, 6, 1, 5};
    struct gguf_keys k = {0}, want = {0};
    cJSON *o = cJSON_Parse(text);
    ok(convert_vocab_bpe(&k, o, 4, "it", &err));
    gguf_keys_str(&want, "tokenizer.ggml.model", "gemma4");
    assert_non_null(memmem(k.bytes.data, k.bytes.n, want.bytes.data, want.bytes.n));
    assert_non_null(memmem(k.bytes.data, k.bytes.n, types, sizeof types));
    gguf_keys_release(&k);
    gguf_keys_release(&want);
    cJSON_Delete(o);
}
