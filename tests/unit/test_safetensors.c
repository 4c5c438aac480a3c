/* safetensors and the folder around it: a folder written here becomes a model that runs; other
 * headers are refused by name. */

#include "tests/test.h"

#include <math.h>

#include "cli/commands/commands.h"
#include "cli/options/options.h"
#include "quant/convert/convert_vocab.h"
#include "quant/convert/safetensors.h"
#include "quant/convert/source.h"
#include "runtime/forward/engine.h"
#include "runtime/model/gguf.h"
#include "tests/unit/make_gguf.h"
#include "tests/unit/make_vocab.h"

/* ---- headers --------------------------------------------------------------------------------- */

/* A file in memory: header of n_header bytes (0 = its real length), then data. */
static int open_header(const char *header, uint64_t n_header, size_t n_data, struct err *e)
{
    struct safetensors *s;
    AUTO_STR file = {0};
    put_u64(&file, n_header ? n_header : strlen(header));
    str_puts(&file, header);
    for (size_t i = 0; i < n_data; i++) str_append(&file, "", 1);
    char *copy = malloc(file.n); /* ends at a page's end */
    memcpy(copy, file.data, file.n);
    int rc = safetensors_open_bytes(&s, copy, file.n, "test", e);
    if (!rc) {
        const struct safetensors_tensor *t = safetensors_at(s, 0);
        volatile char touch = ((const char *)t->data)[t->bytes - 1];
        (void)touch;
        assert_ptr_equal(safetensors_find(s, t->name), t);
        assert_null(safetensors_find(s, "no such tensor"));
    }
    safetensors_close(rc ? NULL : s);
    free(copy);
    return rc;
}

#define T(type, shape, offsets) \
    "{\"dtype\":\"" type "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"

TEST(opens_good_headers)
{
    ok(open_header("{\"a\":" T("F32", "[2,3]", "[0,24]") "}", 0, 24, &err));
    ok(open_header("{\"__metadata__\":{\"format\":\"pt\"},\"b\":" T(
                       "BF16", "[4]", "[8,16]") ",\"a\":" T("F16", "[2,2]", "[0,8]") "}   ",
                   0, 16, &err));
}

TEST(refuses_hostile_headers)
{
    static const struct {
        const char *header;
        uint64_t n_header;
        size_t n_data;
        const char *says; /* in the message */
    } cases[] = {
        {"{}", 0, 4, "holds no tensors"},
        {"[]", 0, 4, "not a JSON object"},
        {"{", 0, 4, "not valid JSON"},
        {"{\"a\":1}", 0, 4, "'a' is not a JSON object"},
        {"{\"a\":{}}", 0, 4, "'a' has no dtype"},
        {"{}", UINT64_MAX, 4, "claims a header"},
        {"{}", UINT64_MAX - 7, 4, "claims a header"},
        {"{}", 100, 4, "claims a header"},
        {"{\"a\":" T("I64", "[1]", "[0,8]") "}", 0, 8, "dtype I64"},
        {"{\"a\":" T("F32", "[2]", "[0,4]") "}", 0, 4, "shape"},
        {"{\"a\":" T("F32", "[1]", "[0,8]") "}", 0, 8, "shape"},
        {"{\"a\":" T("F32", "[-1]", "[0,4]") "}", 0, 4, "dimension"},
        {"{\"a\":" T("F32", "[0]", "[0,0]") "}", 0, 0, "dimension"},
        {"{\"a\":" T("F32", "[1.5]", "[0,4]") "}", 0, 4, "dimension"},
        {"{\"a\":" T("F32", "[1e300]", "[0,4]") "}", 0, 4, "dimension"},
        {"{\"a\":" T("F32", "[\"1\"]", "[0,4]") "}", 0, 4, "dimension"},
        {"{\"a\":" T("F32", "[1,1,1,1,1]", "[0,4]") "}", 0, 4, "more than 4"},
        {"{\"a\":" T("F32", "[4294967296,4294967296,4]", "[0,4]") "}", 0, 4, "larger than"},
        {"{\"a\":" T("F32", "[4611686018427387905]", "[0,4]") "}", 0, 4, "dimension"},
        {"{\"a\":" T("F32", "[1]", "[0,4]") "}", 0, 3, "bytes 0 to 4"},
        {"{\"a\":" T("F32", "[1]", "[4,0]") "}", 0, 4, "bytes 4 to 0"},
        {"{\"a\":" T("F32", "[1]", "[-4,0]") "}", 0, 4, "data_offsets"},
        {"{\"a\":" T("F32", "[1]", "[0]") "}", 0, 4, "data_offsets"},
        {"{\"a\":" T("F32", "[1]", "[0,1e30]") "}", 0, 4, "data_offsets"},
        {"{\"a\":" T("F32", "[1]", "{}") "}", 0, 4, "data_offsets"},
        {"{\"a\":" T("F32", "[1]", "[4,8]") "}", 0, 8, "hole"},
        {"{\"a\":" T("F32", "[1]", "[0,4]") "}", 0, 8, "8 bytes of data"},
        {"{\"a\":" T("F32", "[2]", "[0,8]") ",\"b\":" T("F32", "[2]", "[4,12]") "}", 0, 12,
         "overlaps"},
        {"{\"a\":" T("F32", "[1]", "[0,4]") ",\"a\":" T("F32", "[1]", "[4,8]") "}", 0, 8, "twice"},
        {"{\"\\u001b[2Ja\":{}}", 0, 4, "'?[2Ja'"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        refused(open_header(cases[i].header, cases[i].n_header, cases[i].n_data, &err), ERR_FORMAT,
                cases[i].says);
}

TEST(refuses_what_would_not_fit)
{
    AUTO_STR deep = {0};
    for (int i = 0; i < 100000; i++) str_puts(&deep, "[");
    assert_int_equal(open_header(str_get(&deep), 0, 0, &err), ERR_FORMAT);
    str_clear(&deep);
    str_puts(&deep, "{\"a\":[0");
    for (int i = 0; i < 9000000; i++) str_append(&deep, ",0", i < 8999990 ? 2 : 0);
    assert_int_equal(open_header(str_get(&deep), 0, 0, &err), ERR_FORMAT);
}

/* Every truncated file is refused, and no byte after its end is read. */
TEST(refuses_cut_files)
{
    static const char header[] = "{\"a\":" T("F32", "[2,3]", "[0,24]") "}";
    AUTO_STR file = {0};
    struct safetensors *s;
    put_u64(&file, strlen(header));
    str_puts(&file, header);
    for (int i = 0; i < 24; i++) str_append(&file, "x", 1);
    for (size_t n = 0; n < file.n; n++) {
        AUTO_FREE char *copy = malloc(n + 1);
        memcpy(copy, file.data, n);
        AUTO_FREE char *end = malloc(n ? n : 1);
        memcpy(end, copy, n);
        assert_int_equal(safetensors_open_bytes(&s, end, n, "cut", &err), ERR_FORMAT);
        assert_null(s);
    }
}

/* ---- a folder -------------------------------------------------------------------------------- */

#define N_EMBD 64
#define N_FF   96
#define N_HEAD 2
#define N_WORD (256 + 10 + 7)

struct folder {
    const char *path, *out;
};

static int make_folder(void **state)
{
    static struct folder f;
    f.path = folder_new();
    f.out = path_in(f.path, "out.gguf");
    *state = &f;
    return 0;
}

static void put_file(const struct folder *f, const char *name, const void *bytes, size_t n)
{
    write_file(path_in(f->path, name), bytes, n);
}

static void put_text_file(const struct folder *f, const char *name, const char *text)
{
    write_text(path_in(f->path, name), text);
}

struct weights {
    struct str header, data;
    uint32_t seed;
};

static void add_weight(struct weights *w, const char *name, int n_out, int n_in)
{
    size_t begin = w->data.n, n = (size_t)n_out * (size_t)(n_in ? n_in : 1);
    for (size_t i = 0; i < n; i++) {
        w->seed = w->seed * 1664525u + 1013904223u;
        float x = n_in ? ((float)(w->seed >> 8) / 16777216.0f - 0.5f) * 0.3f : 1.0f;
        uint32_t bits;
        memcpy(&bits, &x, sizeof bits);
        uint16_t half = (uint16_t)(bits >> 16); /* BF16 */
        str_append(&w->data, &half, sizeof half);
    }
    str_printf(&w->header, "%s\"%s\":{\"dtype\":\"BF16\",\"shape\":[%d", w->header.n ? "," : "",
               name, n_out);
    if (n_in) str_printf(&w->header, ",%d", n_in);
    str_printf(&w->header, "],\"data_offsets\":[%zu,%zu]}", begin, w->data.n);
}

static void put_weights(const struct folder *f, const char *name, struct weights *w)
{
    AUTO_STR file = {0};
    put_u64(&file, w->header.n + 2);
    str_printf(&file, "{%s}", str_get(&w->header));
    str_append(&file, str_get(&w->data), w->data.n);
    put_file(f, name, file.data, file.n);
    str_release(&w->header);
    str_release(&w->data);
}

/* Tensors of a model of several parts. */
static const char *prefix_of(const char *family)
{
    return strcmp(family, "Mistral3ForConditionalGeneration") ? "" : "language_model.";
}

static void add_layer(struct weights *w, int i, const char *family)
{
    char name[96];
    static const struct {
        const char *name;
        int n_out, n_in;
        char families; /* all, only Qwen2, Qwen3, Olmo2, Glm4, all but Olmo2, Glm4 */
    } rows[] = {
        {"input_layernorm.weight", N_EMBD, 0, 'b'},
        {"post_attention_layernorm.weight", N_EMBD, 0, 'a'},
        {"post_feedforward_layernorm.weight", N_EMBD, 0, 'o'},
        {"post_self_attn_layernorm.weight", N_EMBD, 0, 'g'},
        {"post_mlp_layernorm.weight", N_EMBD, 0, 'g'},
        {"mlp.gate_up_proj.weight", 2 * N_FF, N_EMBD, 'g'},
        {"self_attn.q_norm.weight", N_EMBD, 0, 'o'},
        {"self_attn.k_norm.weight", N_EMBD / 2, 0, 'o'},
        {"self_attn.q_proj.weight", N_EMBD, N_EMBD, 'a'},
        {"self_attn.k_proj.weight", N_EMBD / 2, N_EMBD, 'a'},
        {"self_attn.v_proj.weight", N_EMBD / 2, N_EMBD, 'a'},
        {"self_attn.o_proj.weight", N_EMBD, N_EMBD, 'a'},
        {"mlp.gate_proj.weight", N_FF, N_EMBD, 's'},
        {"mlp.up_proj.weight", N_FF, N_EMBD, 's'},
        {"mlp.down_proj.weight", N_EMBD, N_FF, 'a'},
        {"self_attn.q_norm.weight", N_EMBD / N_HEAD, 0, '3'},
        {"self_attn.k_norm.weight", N_EMBD / N_HEAD, 0, '3'},
        {"self_attn.o_proj.bias", N_EMBD, 0, '3'},
        {"self_attn.q_proj.bias", N_EMBD, 0, 'q'},
        {"self_attn.k_proj.bias", N_EMBD / 2, 0, 'q'},
        {"self_attn.v_proj.bias", N_EMBD / 2, 0, 'q'},
    };
    const bool qwen2 = !strcmp(family, "Qwen2ForCausalLM");
    const bool qwen3 = !strcmp(family, "Qwen3ForCausalLM");
    const bool olmo2 = !strcmp(family, "Olmo2ForCausalLM");
    const bool glm4 = !strcmp(family, "Glm4ForCausalLM");
    const char *mine = olmo2 ? "aos" : qwen3 ? "ab3s" : qwen2 ? "abqs" : glm4 ? "abg" : "abs";
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        if (!strchr(mine, rows[k].families)) continue;
        snprintf(name, sizeof name, "%smodel.layers.%d.%s", prefix_of(family), i, rows[k].name);
        add_weight(w, name, rows[k].n_out, rows[k].n_in);
    }
}

static void put_config(const struct folder *f, const char *family, const char *more)
{
    AUTO_STR text = {0};
    const bool part = *prefix_of(family);
    str_printf(&text,
               "{\"architectures\":[\"%s\"],%s\"hidden_size\":%d,\"intermediate_size\":%d,"
               "\"num_hidden_layers\":2,\"num_attention_heads\":%d,\"num_key_value_heads\":1,"
               "\"vocab_size\":%d,\"max_position_embeddings\":256,\"rms_norm_eps\":1e-5,"
               "\"rope_theta\":10000.0,\"hidden_act\":\"silu\",\"eos_token_id\":[4,6]%s}%s",
               family, part ? "\"text_config\":{" : "", N_EMBD, N_FF, N_HEAD, N_WORD, more,
               part ? ",\"eos_token_id\":[4,6]}" : "");
    put_text_file(f, "config.json", str_get(&text));
}

/* The vocabulary of make_vocab.h: marks, bytes, "hello". */
static void put_tokenizer(const struct folder *f, const char *pre_tokenizer)
{
    AUTO_STR text = {0};
    char byte[3];
    static const char *const joined[] = {"he", "ll", "hell", "hello", "\xC4\xA0hello", "ab", "12"};
    str_puts(&text, "{\"added_tokens\":[{\"id\":0,\"content\":\"<s>\",\"special\":true}");
    for (int i = 1; i < 10; i++)
        str_printf(&text, ",{\"id\":%d,\"content\":\"<|%d|>\",\"special\":%s}", i, i,
                   i % 2 ? "true" : "false");
    str_printf(
        &text,
        "],\"normalizer\":null,\"pre_tokenizer\":%s,\"post_processor\":{\"type\":"
        "\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"<s>\"}}]},\"model\":{"
        "\"type\":\"BPE\",\"ignore_merges\":true,\"vocab\":{",
        pre_tokenizer);
    for (int b = 0; b < 256; b++) {
        write_byte(b, byte);
        str_printf(&text, "\"%s%s\":%d,", *byte == '"' || *byte == '\\' ? "\\" : "", byte, b + 10);
    }
    for (int i = 0; i < 7; i++) str_printf(&text, "%s\"%s\":%d", i ? "," : "", joined[i], i + 266);
    str_puts(&text,
             "},\"merges\":[\"h e\",[\"l\",\"l\"],\"he ll\",\"hell o\",[\" \",\"hello\"]]}}");
    put_text_file(f, "tokenizer.json", str_get(&text));
    put_text_file(f, "tokenizer_config.json",
                  "{\"bos_token\":\"<s>\",\"eos_token\":{\"content\":\"<|4|>\"},"
                  "\"chat_template\":[{\"name\":\"default\",\"template\":\"{{ hi }}\"}]}");
}

#define LLAMA3                                                                                \
    "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{\"Regex\":\"" \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|\\\\p{N}{1,3}| "    \
    "?[^\\\\s\\\\p{L}"                                                                        \
    "\\\\p{N}]+[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+\"},\"behavior\":"     \
    "\"Isolated\","                                                                           \
    "\"invert\":false},{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":false}]}"

static void put_model(const struct folder *f, const char *family, const char *more)
{
    struct weights w = {.seed = 3};
    put_config(f, family, more);
    put_tokenizer(f, LLAMA3);
    static const char *const names[] = {"model.embed_tokens.weight", "lm_head.weight",
                                        "model.norm.weight"};
    char name[96];
    for (int i = 0; i < 3; i++) {
        snprintf(name, sizeof name, "%s%s", prefix_of(family), names[i]);
        add_weight(&w, name, i < 2 ? N_WORD : N_EMBD, i < 2 ? N_EMBD : 0);
    }
    if (*prefix_of(family)) add_weight(&w, "vision_tower.ln_pre.weight", N_EMBD, 0);
    for (int i = 0; i < 2; i++) add_layer(&w, i, family);
    put_weights(f, "model.safetensors", &w);
}

static int run(const struct folder *f, const char *type)
{
    struct options o;
    options_init(&o);
    o.args[0] = f->path;
    o.args[1] = f->out;
    o.n_args = 2;
    o.quantize.type = type;
    o.force = true;
    o.engine.threads = 1;
    return cmd_quantize(&o);
}

static void check_tokenizer(const struct engine *g)
{
    AUTO_TOKENS ids = {0};
    struct tokenizer_span span = {"<s> hello", 9, true};
    ok(tokenizer_encode(g->tokenizer, &span, 1, true, &ids, &err));
    assert_int_equal(ids.n, 2);
    assert_int_equal(ids.ids[0], 0);
    assert_int_equal(ids.ids[1], 270);
    assert_int_equal(tokenizer_bos(g->tokenizer), 0);
    assert_int_equal(tokenizer_eos(g->tokenizer), 4);
    assert_true(tokenizer_add_bos(g->tokenizer));
}

TEST_WITH(makes_a_model_that_runs, make_folder, NULL)
{
    const struct folder *f = *state;
    static const char *const families[] = {"LlamaForCausalLM",
                                           "MistralForCausalLM",
                                           "Qwen2ForCausalLM",
                                           "Olmo2ForCausalLM",
                                           "SmolLM3ForCausalLM",
                                           "Ernie4_5ForCausalLM",
                                           "Mistral3ForConditionalGeneration",
                                           "SeedOssForCausalLM",
                                           "Glm4ForCausalLM",
                                           "Qwen3ForCausalLM"};
    for (int i = 0; i < 20; i++) {
        struct options o;
        AUTO_ENGINE *g;
        struct gguf_str s;
        put_model(f, families[i / 2], "");
        assert_int_equal(run(f, i % 2 ? "q4" : "q8"), 0);
        options_init(&o);
        o.engine.model = f->out;
        o.engine.threads = 1;
        o.engine.heads.none = true;
        ok(engine_open(&g, &o.engine, &o.session.plan, 1, NULL, NULL, &err));
        assert_int_equal(g->model->n_layer, 2);
        assert_int_equal(g->model->n_kv_head, 1);
        assert_int_equal(g->model->head_dim, N_EMBD / N_HEAD);
        check_tokenizer(g);
        assert_true(gguf_get_str(g->model->file, "tokenizer.chat_template", &s) && s.n == 8);
        assert_true(gguf_get_str(g->model->file, "tokenizer.ggml.pre", &s) && s.n == 9);
    }
}

/* ---- experts --------------------------------------------------------------------------------- */

static void put_mixtral(const struct folder *f, int n_experts, const char *more)
{
    static const char *const both[] = {"input_layernorm.weight", "post_attention_layernorm.weight"};
    static const char *const attention[] = {"q", "k", "v", "o"};
    struct weights w = {.seed = 5};
    char name[96];
    put_config(f, "MixtralForCausalLM", more);
    put_tokenizer(f, LLAMA3);
    add_weight(&w, "model.embed_tokens.weight", N_WORD, N_EMBD);
    add_weight(&w, "lm_head.weight", N_WORD, N_EMBD);
    add_weight(&w, "model.norm.weight", N_EMBD, 0);
    for (int i = 0; i < 2; i++) {
#define NAME(...) (snprintf(name, sizeof name, "model.layers.%d." __VA_ARGS__), name)
        for (int k = 0; k < 2; k++) add_weight(&w, NAME("%s", i, both[k]), N_EMBD, 0);
        for (int k = 0; k < 4; k++)
            add_weight(&w, NAME("self_attn.%s_proj.weight", i, attention[k]),
                       k % 3 ? N_EMBD / 2 : N_EMBD, N_EMBD);
        add_weight(&w, NAME("block_sparse_moe.gate.weight", i), 3, N_EMBD);
        for (int e = 0; e < 3 * n_experts; e++)
            add_weight(&w, NAME("block_sparse_moe.experts.%d.w%d.weight", i, e / 3, e % 3 + 1),
                       e % 3 == 1 ? N_EMBD : N_FF, e % 3 == 1 ? N_FF : N_EMBD);
#undef NAME
    }
    put_weights(f, "model.safetensors", &w);
}

/* The stack named `gguf` has the folder's matrices, in the order of the experts. */
static void check_stack(const struct source *s, const char *gguf, int w)
{
    const struct source_tensor *t = s->tensors;
    char name[96], row[1024];
    while (t < s->tensors + s->n_tensors && strcmp(t->name, gguf) != 0) t++;
    assert_true(t < s->tensors + s->n_tensors);
    assert_true(t->n_dims == 3 && t->ne[2] == 3 && t->ne[1] == (w == 2 ? N_EMBD : N_FF));
    for (int64_t r = 0; r < source_rows(t); r++) {
        snprintf(name, sizeof name, "model.layers.1.block_sparse_moe.experts.%d.w%d.weight",
                 (int)(r / t->ne[1]), w);
        const struct safetensors_tensor *from = safetensors_find(s->weights, name);
        assert_non_null(from);
        size_t bytes = source_row_bytes(t), at = (size_t)(r % t->ne[1]) * bytes;
        assert_true(bytes <= sizeof row);
        source_row_copy(t, r, row);
        assert_memory_equal(row, (const char *)from->data + at, bytes);
    }
}

TEST_WITH(stacks_experts, make_folder, NULL)
{
    const char *more = ",\"num_local_experts\":3,\"num_experts_per_tok\":2";
    const struct folder *f = *state;
    struct options o;
    struct engine *g;
    struct source *s;
    put_mixtral(f, 3, more);
    ok(source_open(&s, f->path, &err));
    assert_string_equal(s->notice, "");
    check_stack(s, "blk.1.ffn_gate_exps.weight", 1);
    check_stack(s, "blk.1.ffn_down_exps.weight", 2);
    check_stack(s, "blk.1.ffn_up_exps.weight", 3);
    source_close(s);
    assert_int_equal(run(f, "q8"), 0);
    options_init(&o);
    o.engine.model = f->out;
    o.engine.heads.none = true;
    ok(engine_open(&g, &o.engine, &o.session.plan, 1, NULL, NULL, &err));
    assert_true(g->model->layers[1].experts.n == 3 && g->model->layers[1].experts.n_used == 2);
    engine_close(g);
    put_mixtral(f, 2, more);
    refused(source_open(&s, f->path, &err), ERR_FORMAT, "experts.2.w1.weight' is missing");
    put_mixtral(f, 4, more);
    refused(source_open(&s, f->path, &err), ERR_FORMAT, "experts.3.w1.weight' is not known");
    put_model(f, "LlamaForCausalLM", more);
    refused(source_open(&s, f->path, &err), ERR_FORMAT,
            "num_local_experts is 3, mixtures of experts");
    put_model(f, "Gemma3nForConditionalGeneration", more);
    refused(source_open(&s, f->path, &err), ERR_FORMAT, "is not known, the nearest is Gemma3ForC");
    put_model(f, "KimiK2ForCausalLM", more);
    refused(source_open(&s, f->path, &err), ERR_FORMAT, "known are: llama, qwen2, qwen3, phi3");
    assert_string_equal(err.text + strlen(err.text) - strlen("dots1"), "dots1");
}

/* The template's own file counts first, as in transformers; the ends are those of all files. */
TEST_WITH(takes_template_and_ends_of_the_folder, make_folder, NULL)
{
    const struct folder *f = *state;
    for (int i = 0; i < 2; i++) {
        AUTO_GGUF *file;
        struct gguf_str s;
        uint32_t eos, eot;
        put_model(f, "LlamaForCausalLM", "");
        if (i) put_text_file(f, "chat_template.jinja", "{{ own }}!");
        if (i) put_text_file(f, "generation_config.json", "{\"eos_token_id\":[4,7]}");
        assert_int_equal(run(f, "q8"), 0);
        ok(gguf_open(&file, f->out, &err));
        assert_true(gguf_get_str(file, "tokenizer.chat_template", &s));
        assert_int_equal(s.n, i ? 10 : 8);
        assert_true(gguf_get_u32(file, "tokenizer.ggml.eos_token_id", &eos) && eos == 4);
        assert_true(gguf_get_u32(file, "tokenizer.ggml.eot_token_id", &eot));
        assert_int_equal(eot, i ? 7 : 6);
    }
}

/* Granite's four scales, under the names that GGUF has for them. */
TEST_WITH(keeps_scales, make_folder, NULL)
{
    const struct folder *f = *state;
    struct options o;
    AUTO_ENGINE *g;
    put_model(f, "GraniteForCausalLM",
              ",\"embedding_multiplier\":12,\"residual_multiplier\":0.22,"
              "\"attention_multiplier\":0.0625,\"logits_scaling\":8");
    assert_int_equal(run(f, "q8"), 0);
    options_init(&o);
    o.engine.model = f->out;
    o.engine.threads = 1;
    o.engine.heads.none = true;
    ok(engine_open(&g, &o.engine, &o.session.plan, 1, NULL, NULL, &err));
    const struct model *m = g->model;
    assert_true(m->embed_scale == 12.0f && m->residual_scale == 0.22f);
    assert_true(m->attn_scale == 0.0625f && m->logit_scale == 0.125f);
}

/* The scale that a model sets for YaRN, and the scale of distant queries. */
TEST_WITH(keeps_yarn_magnitude, make_folder, NULL)
{
    static const struct {
        const char *more;
        double magnitude;
    } cases[] = {
        {"", 1 + 0.1 * 1.386294361},
        {",\"attention_factor\":1.3", 1.3},
        {",\"mscale\":1,\"mscale_all_dim\":1,\"llama_4_scaling_beta\":0.1", 1},
    };
    const struct folder *f = *state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct gguf *file;
        struct model *m;
        char more[256];
        snprintf(more, sizeof more,
                 ",\"rope_parameters\":{\"rope_type\":\"yarn\",\"rope_theta\":10000,"
                 "\"factor\":4,\"original_max_position_embeddings\":64%s}",
                 cases[i].more);
        put_model(f, "Ministral3ForCausalLM", more);
        assert_int_equal(run(f, "q8"), 0);
        ok(gguf_open(&file, f->out, &err));
        ok(model_open(&m, file, false, &err));
        assert_true(fabs((double)m->rope.magnitude - cases[i].magnitude) < 1e-6);
        assert_int_equal(m->n_ctx, 256);
        assert_true(m->query_growth == (i == 2 ? 0.1f : 0.0f));
        model_close(m);
    }
}

/* A window is kept for the runtime's notice. */
TEST_WITH(keeps_a_window, make_folder, NULL)
{
    const struct folder *f = *state;
    AUTO_GGUF *file;
    uint32_t window;
    put_model(f, "MistralForCausalLM",
              ",\"sliding_window\":40,\"layer_types\":[\"full_attention\"]");
    assert_int_equal(run(f, "q8"), 0);
    ok(gguf_open(&file, f->out, &err));
    assert_true(gguf_get_u32(file, "llama.attention.sliding_window", &window) && window == 40);
    gguf_close(file);
    put_model(f, "Qwen2ForCausalLM", ",\"sliding_window\":40");
    assert_int_equal(run(f, "q8"), 0);
    ok(gguf_open(&file, f->out, &err));
    assert_false(gguf_get_u32(file, "qwen2.attention.sliding_window", &window));
}

/* Shards give the same model as one file. */
TEST_WITH(reads_shards, make_folder, NULL)
{
    const struct folder *f = *state;
    struct weights a = {.seed = 3}, b = {.seed = 4};
    put_config(f, "LlamaForCausalLM", ",\"tie_word_embeddings\":true");
    put_tokenizer(f, LLAMA3);
    add_weight(&a, "model.embed_tokens.weight", N_WORD, N_EMBD);
    add_layer(&a, 0, "LlamaForCausalLM");
    add_layer(&b, 1, "LlamaForCausalLM");
    add_weight(&b, "model.norm.weight", N_EMBD, 0);
    put_weights(f, "a.safetensors", &a);
    put_weights(f, "b.safetensors", &b);
    put_text_file(f, "model.safetensors.index.json",
                  "{\"weight_map\":{\"model.embed_tokens.weight\":\"a.safetensors\","
                  "\"model.norm.weight\":\"b.safetensors\"}}");
    assert_int_equal(run(f, "q8"), 0);
    put_text_file(f, "model.safetensors.index.json",
                  "{\"weight_map\":{\"model.embed_tokens.weight\":\"a.safetensors\","
                  "\"model.norm.weight\":\"a.safetensors\"}}");
    assert_int_equal(run(f, "q8"), 3); /* it is in file b */
    put_text_file(f, "model.safetensors.index.json",
                  "{\"weight_map\":{\"model.norm.weight\":\"../b.safetensors\"}}");
    assert_int_equal(run(f, "q8"), 3);
    put_text_file(f, "model.safetensors.index.json", "{\"weight_map\":{\"x\":1}}");
    assert_int_equal(run(f, "q8"), 3);
}

static void put_piece(struct str *s, const char *text, float score, char type)
{
    size_t n = strlen(text);
    char head[4] = {0x0a, (char)(2 + n + 5 + 2), 0x0a, (char)n};
    str_append(s, head, 4);
    str_append(s, text, n);
    str_append(s, "\x15", 1);
    str_append(s, &score, 4);
    str_append(s, "\x18", 1);
    str_append(s, &type, 1);
}

TEST_WITH(refuses_what_it_does_not_know, make_folder, NULL)
{
    const struct folder *f = *state;
    static const struct {
        const char *family, *more;
    } cases[] = {
        {"FalconForCausalLM", ""},
        {"LlamaForCausalLM", ",\"quantization_config\":{\"quant_method\":\"gptq\"}"},
        {"LlamaForCausalLM", ",\"num_local_experts\":8"},
        {"LlamaForCausalLM", ",\"rope_scaling\":{\"type\":\"dynamic\",\"factor\":2}"},
        {"LlamaForCausalLM", ",\"rope_scaling\":{\"rope_type\":\"longrope\"}"},
        {"LlamaForCausalLM", ",\"head_dim\":48"},
        {"LlamaForCausalLM", ",\"head_dim\":-2"},
        {"LlamaForCausalLM", ",\"head_dim\":1e99"},
        {"GraniteForCausalLM", ""}, /* without its scales */
        {"SmolLM3ForCausalLM", ",\"no_rope_layers\":[1,0]"},
        {"SmolLM3ForCausalLM", ",\"no_rope_layer_interval\":2"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        put_model(f, cases[i].family, cases[i].more);
        assert_int_equal(run(f, "q8"), 3);
        assert_int_equal(access(f->out, F_OK), -1);
    }
    put_model(f, "LlamaForCausalLM", "");
    put_config(f, "Qwen3ForCausalLM", ""); /* without its norms of Q and K */
    assert_int_equal(run(f, "q8"), 3);
    put_model(f, "LlamaForCausalLM", "");
    put_tokenizer(f, "{\"type\":\"Metaspace\"}");
    assert_int_equal(run(f, "q8"), 3);
    put_text_file(f, "tokenizer.json", "{\"model\":{\"type\":\"Unigram\"}}");
    assert_int_equal(run(f, "q8"), 3);
    put_text_file(f, "tokenizer.json", "not JSON");
    assert_int_equal(run(f, "q8"), 3);
}

/* Settings with which layers would differ from the tables. */
TEST_WITH(refuses_other_layers, make_folder, NULL)
{
#define DEEP                                                                              \
    ",\"kv_lora_rank\":8,\"qk_nope_head_dim\":4,\"qk_rope_head_dim\":4,\"v_head_dim\":4," \
    "\"n_routed_experts\":4,\"num_experts_per_tok\":2,\"moe_intermediate_size\":8"
    static const char *const cases[][3] = {
        {"DeepseekV3ForCausalLM", DEEP ",\"rope_interleave\":false", "rope_interleave is false"},
        {"DeepseekV3ForCausalLM", DEEP ",\"scoring_func\":\"softmax\"", "scoring_func sigmoid"},
        {"DeepseekV2ForCausalLM", DEEP ",\"scoring_func\":\"sigmoid\"", "scoring_func softmax"},
        {"DeepseekV3ForCausalLM",
         DEEP ",\"rope_scaling\":{\"type\":\"yarn\",\"factor\":4,\"mscale\":1}",
         "mscale must be mscale_all_dim"},
        {"NemotronHForCausalLM", ",\"mlp_hidden_act\":\"relu2\",\"hybrid_override_pattern\":\"ME\"",
         "layer 1 is neither"},
        {"NemotronHForCausalLM",
         ",\"mlp_hidden_act\":\"relu2\",\"layers_block_type\":[\"mamba\",\"moe\"]",
         "layer 1 is neither"},
    };
    const struct folder *f = *state;
    struct source *s;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        put_model(f, cases[i][0], cases[i][1]);
        refused(source_open(&s, f->path, &err), ERR_FORMAT, cases[i][2]);
    }
#undef DEEP
}

/* Added tokens of a folder without tokenizer.json have their ids as keys: none has an id here. */
TEST_WITH(refuses_added_tokens_without_ids, make_folder, NULL)
{
    static const char *const lists[] = {"[{\"content\":\"x\"}]", "{\"\":{\"content\":\"x\"}}",
                                        "{\"1x\":{\"content\":\"x\"}}", "{\"1\":7}"};
    const struct folder *f = *state;
    AUTO_STR model = {0}, config = {0};
    put_piece(&model, "<unk>", 0, 2);
    put_piece(&model, "<s>", 0, 3);
    str_append(&model, "\x12\x02\x18\x02", 4); /* trainer: BPE */
    put_file(f, "tokenizer.model", model.data, model.n);
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        struct gguf_keys k = {0};
        str_clear(&config);
        str_printf(&config, "{\"added_tokens_decoder\":%s}", lists[i]);
        put_text_file(f, "tokenizer_config.json", config.data);
        refused(convert_vocab(&k, f->path, NULL, 5, &err), ERR_FORMAT, "has no id from 0 to 4");
        gguf_keys_release(&k);
    }
}

/* Llama 3.1: divisors of the frequencies, by the formula in its reference code. */
TEST_WITH(scales_rope, make_folder, NULL)
{
    const struct folder *f = *state;
    AUTO_GGUF *g;
    put_model(f, "LlamaForCausalLM",
              ",\"rope_scaling\":{\"rope_type\":\"llama3\",\"factor\":8.0,\"low_freq_factor\":1.0,"
              "\"high_freq_factor\":4.0,\"original_max_position_embeddings\":64}");
    assert_int_equal(run(f, "q4"), 0);
    ok(gguf_open(&g, f->out, &err));
    const struct gguf_tensor *t = gguf_tensor_find(g, "rope_freqs.weight");
    assert_non_null(t);
    assert_int_equal(t->ne[0], N_EMBD / N_HEAD / 2);
    for (int i = 0; i < 16; i++) {
        float got;
        memcpy(&got, (const char *)t->data + 4 * i, 4);
        double wave = 2 * acos(-1) * pow(10000, i / 16.0);
        double smooth = (64 / wave - 1) / 3;
        double want = wave < 16 ? 1 : wave > 64 ? 8 : 1 / ((1 - smooth) / 8 + smooth);
        assert_true(fabs(got - want) < 1e-5 * want);
    }
}

/* ---- SentencePiece --------------------------------------------------------------------------- */

TEST(reads_sentencepiece)
{
    AUTO_STR model = {0};
    struct gguf_keys k = {0};
    put_piece(&model, "<unk>", 0, 2);
    put_piece(&model, "<s>", 0, 3);
    put_piece(&model, "\xE2\x96\x81hi", -1.5f, 1);
    str_append(&model, "\x12\x02\x18\x02", 4); /* trainer: BPE */
    str_append(&model, "\x1a\x02\x18\x00", 4); /* normalizer: no space in front */
    ok(convert_vocab_spm(&k, model.data, model.n, NULL, 5, "m", &err));
    assert_int_equal(k.n, 6);
    gguf_keys_release(&k);
    assert_int_equal(convert_vocab_spm(&k, model.data, model.n, NULL, 2, "m", &err), ERR_FORMAT);
    for (size_t n = 0; n < model.n; n++) { /* truncated anywhere: refused, or a shorter list */
        AUTO_FREE char *copy = malloc(n ? n : 1);
        memcpy(copy, model.data, n);
        convert_vocab_spm(&k, copy, n, NULL, 5, "m", &err);
        gguf_keys_release(&k);
    }
}
