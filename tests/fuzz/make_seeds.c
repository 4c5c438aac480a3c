/* make_seeds FOLDER: writes small, valid inputs of every kind for the fuzzers to start from, into
 * FOLDER/gguf, heads, folder, tokenizer, template, questions, import and cache. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <cjson/cJSON.h>

#include "runtime/save/conversations.h"
#include "store/store.h"
#include "tests/unit/make_vocab.h"

static const char *out;

static void save(const char *kind, const char *name, const char *mark, const void *bytes, size_t n)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", out, kind);
    mkdir(path, 0777);
    snprintf(path, sizeof path, "%s/%s/%s", out, kind, name);
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(mark, 1, strlen(mark), f) != strlen(mark) || fwrite(bytes, 1, n, f) != n ||
        fclose(f)) {
        perror(path);
        exit(1);
    }
}

static void matrix(struct maker *m, const char *name, int64_t n_in, int64_t n_out)
{
    maker_tensor(m, name, GGUF_T_Q4_0, 2, (int64_t[]){n_in, n_out},
                 (uint64_t)(n_in / 32 * n_out * 18));
}

static void vector(struct maker *m, const char *name, int64_t n)
{
    maker_tensor(m, name, GGUF_T_F32, 1, &n, (uint64_t)n * 4);
}

/* A llama of one layer that opens as a model. */
static void model(const char *name, bool spm)
{
    struct maker m;
    float eps = 1e-5f;
    if (spm)
        make_spm(&m);
    else
        make_bpe(&m, "llama-bpe");
    int64_t n_vocab = spm ? SPM_WORDS : BPE_BYTES + 256 + 7;
    maker_str(&m, "general.architecture", "llama");
    maker_u32(&m, "llama.embedding_length", 32);
    maker_u32(&m, "llama.block_count", 1);
    maker_u32(&m, "llama.attention.head_count", 2);
    maker_u32(&m, "llama.attention.head_count_kv", 1);
    maker_u32(&m, "llama.feed_forward_length", 32);
    maker_u32(&m, "llama.context_length", 64);
    maker_value(&m, "llama.attention.layer_norm_rms_epsilon", GGUF_F32, &eps, 4);
    matrix(&m, "token_embd.weight", 32, n_vocab);
    vector(&m, "output_norm.weight", 32);
    vector(&m, "blk.0.attn_norm.weight", 32);
    vector(&m, "blk.0.ffn_norm.weight", 32);
    matrix(&m, "blk.0.attn_q.weight", 32, 32);
    matrix(&m, "blk.0.attn_k.weight", 32, 16);
    matrix(&m, "blk.0.attn_v.weight", 32, 16);
    matrix(&m, "blk.0.attn_output.weight", 32, 32);
    matrix(&m, "blk.0.ffn_gate.weight", 32, 32);
    matrix(&m, "blk.0.ffn_up.weight", 32, 32);
    matrix(&m, "blk.0.ffn_down.weight", 32, 32);
    maker_end(&m);
    save("gguf", name, "", m.file.data, m.file.n);
    maker_release(&m);
}

static void heads(void)
{
    struct maker m = {0};
    char digest[65] = "";
    for (int i = 0; i < 64; i++) digest[i] = 'a';
    maker_str(&m, "general.type", "retaining-heads");
    maker_str(&m, "retain.heads.activation", "silu");
    maker_str(&m, "retain.heads.base_digest", digest);
    maker_u32(&m, "retain.heads.block_count", 1);
    maker_u32(&m, "retain.heads.input_length", 64);
    maker_u32(&m, "retain.heads.hidden_length", 4);
    maker_u32(&m, "retain.heads.head_count_kv", 1);
    maker_tensor(&m, "blk.0.retain_1.weight", GGUF_T_Q8_0, 2, (int64_t[]){64, 4}, 4 * 2 * 34);
    maker_tensor(&m, "blk.0.retain_2.weight", GGUF_T_F32, 2, (int64_t[]){4, 1}, 16);
    maker_end(&m);
    save("heads", "heads", "", m.file.data, m.file.n);
    maker_release(&m);
}

static void folder(void)
{
    static const char header[] =
        "{\"__metadata__\":{\"format\":\"pt\"},\"a.weight\":{\"dtype\":\"F32\",\"shape\":[2,2],"
        "\"data_offsets\":[0,16]},\"b\":{\"dtype\":\"BF16\",\"shape\":[4],\"data_offsets\":[16,24]}"
        "}";
    static const char tokenizer[] =
        "{\"added_tokens\":[{\"id\":0,\"content\":\"<s>\",\"special\":true}],\"normalizer\":null,"
        "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":true},"
        "\"model\":{\"type\":\"BPE\",\"ignore_merges\":false,\"vocab\":{\"a\":1,\"b\":2,\"ab\":3},"
        "\"merges\":[\"a b\",[\"a\",\"ab\"]]}}";
    static const char split[] =
        "{\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\","
        "\"pattern\""
        ":{\"Regex\":\"x\"},\"behavior\":\"Isolated\",\"invert\":false},{\"type\":\"Digits\","
        "\"individual_digits\":true}]},\"model\":{\"type\":\"BPE\"}}";
    static const char pieces[] = "\x0a\x0e\x0a\x05<unk>\x15\0\0\0\0\x18\x02"
                                 "\x0a\x0a\x0a\x01"
                                 "a\x15\0\0\x80\xbf\x18\x01\x12\x02\x18\x02\x1a\x02\x18\x01";
    struct str file = {0};
    put_u64(&file, strlen(header));
    str_puts(&file, header);
    for (int i = 0; i < 24; i++) str_append(&file, "x", 1);
    save("folder", "safetensors", "s", file.data, file.n);
    save("folder", "tokenizer", "t", tokenizer, strlen(tokenizer));
    save("folder", "split", "t", split, strlen(split));
    save("folder", "sentencepiece", "m", pieces, sizeof pieces - 1);
    str_release(&file);
}

static void texts(void)
{
    static const char *const all[] = {
        "hello hello's 12345  \n\n x_y",
        "<|im_start|>user<|end|><|end|>",
        "\xE2\x96\x81\xF0\x9F\x98\x80",
        "abc \xFF\xC0\x80 \xED\xA0\x80",
        "\xE6\x97\xA5\xE6\x9C\xAC\xE8\xAA\x9E e\xCC\x81",
    };
    char name[32], mark[3] = "";
    for (int kind = 0; kind < 7; kind++)
        for (int i = 0; i < 5; i++) {
            snprintf(name, sizeof name, "text%d-%d", kind, i);
            mark[0] = (char)(kind + (i % 2 ? 133 : 7)); /* 133 = 0 modulo 7, and trusted */
            mark[1] = (char)(1 + i * 60);
            save("tokenizer", name, mark, all[i], strlen(all[i]));
        }
}

static void templates(void)
{
    static const char *const all[] = {
        ("{% for m in messages %}{% if loop.first and m.role == 'system' %}{{ m.content|trim }}"
         "{% elif not loop.last %}{{- '<' ~ m['role'] ~ '>' + m['content'][1:-1] }}{% else -%}"
         "{{ m|tojson(indent=2) }}{% endif %}{% endfor %}{{ bos_token if add_generation_prompt }}"),
        ("{% macro f(a, b=[1, 2]) %}{{ a.split('</think>')|last }}{{ caller() }}{% endmacro %}"
         "{% call f(messages[0].content) %}x{% endcall %}{% set ns = namespace(n=0) %}"
         "{% set ns.n = ns.n + 1 %}{% filter upper %}{{ ns.n }}{% endfilter %}"),
        ("{{ messages|selectattr('role', 'equalto', 'user')|map(attribute='content')|join('|') }}"
         "{{ messages|sort(attribute='role')|length }}{{ {'a': (1, none)}|dictsort }}"
         "{% for k, v in messages[0].items() %}{{ loop.index }}{{ '%s'|format(v) }}{% endfor %}"),
        ("{# c #}{% set x %}b{% endset %}{{ x * 3 if false }}"
         "{{ 'A b'.replace('b', 'c').title()[1:].split('A') is not none and 7 in [7] }}"),
    };
    char name[16];
    for (int i = 0; i < 4; i++) {
        snprintf(name, sizeof name, "jinja%d", i);
        save("template", name, "", all[i], strlen(all[i]));
    }
}

/* A hub's answers after an address, and a conversation as `retain export --json` writes it. */
static void downloads(void)
{
    static const char hub[] =
        "hf:a/b:Q4_K_M\n{\"branches\":[{\"name\":\"main\",\"targetCommit\":"
        "\"0123456789abcdef0123456789abcdef01234567\"}]}\0"
        "[{\"type\":\"file\",\"size\":9,\"path\":\"x-Q4_K_M-00001-of-00002.gguf\","
        "\"lfs\":{\"oid\":\"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\"}}]\0"
        "[{\"type\":\"file\",\"size\":7,\"path\":\"x-Q4_K_M-00002-of-00002.gguf\"},"
        "{\"type\":\"file\",\"size\":7,\"path\":\"../x.gguf\"}]";
    static const char talk[] =
        "{\"format\":\"retain-conversation\",\"version\":1,\"name\":\"talk\",\"title\":\"\","
        "\"created_ms\":1,\"updated_ms\":2,\"messages\":[{\"role\":\"user\",\"text\":\"Hi\","
        "\"created_ms\":1,\"tokens\":[1,2]},{\"role\":\"assistant\",\"text\":\"Yes\","
        "\"created_ms\":2,\"tokens\":[3]}]}";
    save("hub", "split", "", hub, sizeof hub - 1);
    save("import", "talk", "", talk, sizeof talk - 1);
}

static void questions(void)
{
    static const char all[] = "{\"id\": 3, \"before\": \"b\", \"context\": \"c \xC3\xA9\", "
                              "\"question\": \"q\", \"answers\": "
                              "[\"a\", 7], \"prefix\": \"p\", \"system\": \"s\", \"metric\": "
                              "\"f1\", \"max_tokens\": 5, \"raw\": true}\n";
    static const char turns[] = "[{\"turns\": [\"Hi\", \"Hello\", \"Bye\"], \"question\": \"q\", "
                                "\"answers\": \"The \xCE\xA3\"}]";
    save("questions", "all", "", all, sizeof all - 1);
    save("questions", "turns", "", turns, sizeof turns - 1);
}

static void ok(int rc, const struct err *e)
{
    if (rc >= 0) return;
    fprintf(stderr, "%s\n", e->text);
    exit(1);
}

/* A conversation with everything that a database holds, except encryption. */
static void fill(struct store *s)
{
    static const int32_t ids[] = {1, 72, 101, 108, 108, 111};
    struct store_conversation c;
    struct err e;
    ok(store_conversation_create(s, "talk", &c, &e), &e);
    for (int i = 0; i < 4; i++) {
        struct store_message m = {.role = i % 2 ? CHAT_ASSISTANT : CHAT_USER,
                                  .text = i % 2 ? "Hello there." : "Hello",
                                  .n_text = i % 2 ? 12 : 5,
                                  .tokens = ids,
                                  .n_tokens = 6,
                                  .settings = i % 2 ? "--temp 0.8 --seed 1" : NULL};
        if (i == 3) m.thought = (struct store_thought){"Who is it?", 10, 3, 40};
        ok(store_message_add(s, c.id, &m, &e), &e);
    }
    for (int i = 0; i < 5; i++) {
        struct store_segment g = {
            .seq = i + 1, .kind = (enum store_kind)i, .bytes = "units", .n_bytes = 5};
        ok(store_segment_put(s, c.id, &g, &e), &e);
    }
    ok(store_checkpoint_put(s, c.id, &(struct store_checkpoint){2, 12}, &e), &e);
    ok(store_state_put(s, c.id, "{\"policy\":\"sink\",\"n_run\":12,\"pinned\":[1]}", &e), &e);
    ok(store_tag_add(s, c.id, "rose", &e), &e);
    struct store_tail t = {.position = 24, .token = 72, .text = "H", .n_text = 1};
    ok(store_tail_add(s, c.id, &t, &e), &e);
}

static void exports(void)
{
    char path[512], command[600];
    struct conversations *l;
    struct str json = {0};
    struct err e;
    snprintf(path, sizeof path, "%s/import", out);
    mkdir(path, 0777);
    snprintf(path, sizeof path, "%s/import/database", out);
    snprintf(command, sizeof command, "rm -f '%s'*", path);
    if (system(command)) exit(1);
    ok(conversations_open(&l, path, NULL, &e), &e);
    fill(conversations_store(l));
    ok(conversations_export(l, "talk", &json, NULL, &e), &e);
    conversations_close(l);
    save("import", "talk.json", "", str_get(&json), json.n);
    str_release(&json);
}

/* Each forgery of fuzz_cache.c once, for some policies. */
static void forgeries(void)
{
    for (int i = 0; i < 32; i++) {
        char name[16];
        uint8_t bytes[16] = {(uint8_t)(i % 7), (uint8_t)i};
        for (int j = 2; j < 16; j++) bytes[j] = (uint8_t)(i * 37 + j * 11);
        snprintf(name, sizeof name, "%d", i);
        save("cache", name, "", bytes, sizeof bytes);
    }
}

int main(int argc, char **argv)
{
    if (argc != 2) return 2;
    out = argv[1];
    mkdir(out, 0777);
    model("bpe", false);
    model("spm", true);
    heads();
    folder();
    texts();
    templates();
    downloads();
    questions();
    exports();
    forgeries();
    return 0;
}
