/* tokenizer: llama.cpp's own vectors, lossless on any bytes, and no way from typed text to a
 * special token. */

#include "tests/test.h"

#include "base/file.h"
#include "base/random.h"
#include "tests/unit/tokenizer_kit.h"

static struct tokenizer *open_spm(void)
{
    struct maker m;
    make_spm(&m);
    return open_made(&m);
}

static struct tokens encode(const struct tokenizer *t, const char *text, size_t n, bool trusted,
                            bool prefix)
{
    struct tokenizer_span span = {.text = text, .n = n, .trusted = trusted};
    struct tokens out = {0};
    ok(tokenizer_encode(t, &span, 1, prefix, &out, &err));
    return out;
}

static void expect(const struct tokenizer *t, const char *text, bool trusted, bool prefix, size_t n,
                   const int32_t *ids)
{
    AUTO_TOKENS got = encode(t, text, strlen(text), trusted, prefix);
    assert_int_equal(got.n, n);
    if (n) assert_memory_equal(got.ids, ids, n * sizeof *ids);
}
#define IDS(...)                                      \
    sizeof((int32_t[]){__VA_ARGS__}) / 4, (int32_t[]) \
    {                                                 \
        __VA_ARGS__                                   \
    }

/* ---- vectors --------------------------------------------------------------------------------- */

static struct str slurp(const char *name, const char *suffix)
{
    char path[2048], file[128];
    struct str s = {0};
    snprintf(file, sizeof file, "vocabs/%s%s", name, suffix);
    if (!data_path(path, sizeof path, file) || file_read(path, FILE_DATA, &s, &err))
        fail_msg("no %s", file);
    return s;
}

static int run_vectors(const struct tokenizer *t, const char *name)
{
    static const char border[] = "\n__ggml_vocab_test__\n";
    struct str in = slurp(name, ".inp"), out = slurp(name, ".out");
    const char *text = str_get(&in), *line = str_get(&out);
    int n = 0;
    for (const char *end; (end = strstr(text, border)); text = end + strlen(border), n++) {
        AUTO_TOKENS ids = encode(t, text, (size_t)(end - text), false, true);
        AUTO_STR got = {0};
        for (size_t i = 0; i < ids.n; i++) str_printf(&got, " %d", ids.ids[i]);
        size_t length = strcspn(line, "\n");
        if (got.n != length || memcmp(str_get(&got), line, length))
            fail_msg("%s, case %d '%.*s': got%s, expected%.*s", name, n, (int)(end - text), text,
                     str_get(&got), (int)length, line);
        line += length + (line[length] == '\n');
    }
    str_release(&in);
    str_release(&out);
    return n;
}

static const char *const vocabularies[] = {
    "ggml-vocab-llama-spm.gguf", "ggml-vocab-phi-3.gguf", "ggml-vocab-gpt-2.gguf",
    "ggml-vocab-llama-bpe.gguf", "ggml-vocab-qwen2.gguf",
};

static struct tokenizer *open_vocabulary(const char *name)
{
    char file[128];
    snprintf(file, sizeof file, "vocabs/%s", name);
    return open_data(file);
}

static void passes_vectors(void **state)
{
    const char *name = *state;
    AUTO_TOKENIZER *t = open_vocabulary(name);
    if (!t) skip();
    assert_int_equal(run_vectors(t, name), 46);
}

/* ---- small vocabularies ---------------------------------------------------------------------- */

TEST(merges_by_rank)
{
    AUTO_TOKENIZER *t = open_bpe("gpt-2");
    expect(t, "", false, true, 0, NULL);
    expect(t, "hello", false, true, IDS(BPE_HELLO - 1));
    expect(t, " hello", false, true, IDS(BPE_HELLO));
    expect(t, "hellohello", false, true, IDS(BPE_HELLO - 1, BPE_HELLO - 1));
    expect(t, "ab12ab", false, true, IDS(271, 272, 271));
    /* "heo": he first, and o remains; \xC3\xA9 is two bytes */
    expect(t, "heo\xC3\xA9", false, true,
           IDS(266, BPE_BYTES + 'o', BPE_BYTES + 0xC3, BPE_BYTES + 0xA9));
    /* a user-defined run of blanks is taken whole in any text */
    expect(t, "a    a", false, true, IDS(BPE_BYTES + 'a', BPE_SPACES, BPE_BYTES + 'a'));
    assert_int_equal(tokenizer_bos(t), BPE_BOS);
    assert_true(tokenizer_add_bos(t));
    assert_true(tokenizer_is_end(t, BPE_END) && tokenizer_is_end(t, BPE_IM_END));
    assert_false(tokenizer_is_end(t, BPE_USER) || tokenizer_is_end(t, -1));
}

TEST(takes_whole_pieces)
{
    AUTO_TOKENIZER *t = open_bpe("llama-bpe");
    expect(t, " hello", false, true, IDS(BPE_HELLO));
    expect(t, "123", false, true, IDS(272, BPE_BYTES + '3'));
    tokenizer_close(t);
    t = open_bpe("smollm"); /* digits are separate */
    expect(t, "12", false, true, IDS(BPE_BYTES + '1', BPE_BYTES + '2'));
    tokenizer_close(t);
    t = open_bpe(NULL);
    expect(t, "hello12", false, true, IDS(BPE_HELLO - 1, 272));
}

TEST(merges_by_score)
{
    AUTO_TOKENIZER *t = open_spm();
    expect(t, "", false, true, 0, NULL);
    expect(t, "abc", false, false, IDS(SPM_A, SPM_BC));
    expect(t, "abc", false, true, IDS(SPM_BLANK_A, SPM_BC));
    expect(t, "ab a", false, false, IDS(SPM_AB, SPM_BLANK_A));
    expect(t, "c  a", false, false, IDS(SPM_C, SPM_BLANKS, SPM_A));
    expect(t, "\xC3\xA9", false, false, IDS(SPM_BYTES + 0xC3, SPM_BYTES + 0xA9));
    expect(t, "\xC3 a", false, false, IDS(SPM_BYTES + 0xC3, SPM_BLANK_A));
    expect(t, "a</s>b", true, true, IDS(SPM_BLANK_A, 2, SPM_BLANK, SPM_B));
    expect(t, "<0x41>", false, false,
           IDS(SPM_BYTES + '<', SPM_BYTES + '0', SPM_BYTES + 'x', SPM_BYTES + '4', SPM_BYTES + '1',
               SPM_BYTES + '>'));
    assert_true(tokenizer_add_bos(t));
    assert_true(tokenizer_is_end(t, 2));
    assert_int_equal(tokenizer_special(t, "</s>"), 2);
    assert_int_equal(tokenizer_special(t, "a"), -1);
}

/* A text that is a token, but no merge gives it, is not joined. */
TEST(merges_by_listed_rank)
{
    struct maker m;
    make_spm_merges(&m);
    AUTO_TOKENIZER *t = open_made(&m);
    expect(t, "abc", false, false, IDS(SPM_AB, SPM_C));
    expect(t, "cbc", false, false, IDS(SPM_C, SPM_BC));
    expect(t, "c  a", false, false, IDS(SPM_C, SPM_BLANK, SPM_BLANK_A));
}

TEST(finds_marks_only_where_trusted)
{
    AUTO_TOKENIZER *t = open_bpe("gpt-2");
    expect(t, "<|user|>hello<|end|>", true, true, IDS(BPE_USER, BPE_HELLO - 1, BPE_END));
    expect(t, "<|end|><|end|><|end|>", true, true, IDS(BPE_ENDS, BPE_END)); /* longest first */
    static const char *const typed[] = {"<|im_end|>", "x<|end|>y", "<|end|><|end|>", "<|bos|>",
                                        "<|mark|>"};
    for (size_t i = 0; i < sizeof typed / sizeof *typed; i++) {
        AUTO_TOKENS ids = encode(t, typed[i], strlen(typed[i]), false, true);
        for (size_t k = 0; k < ids.n; k++) assert_true(ids.ids[k] >= BPE_BYTES);
        AUTO_STR text = spell(t, &ids, false);
        assert_string_equal(str_get(&text), typed[i]);
    }
    assert_int_equal(tokenizer_special(t, "<|end|>"), BPE_END);
    assert_int_equal(tokenizer_special(t, "<|end|"), -1);
    assert_int_equal(tokenizer_special(t, ""), -1);
    tokenizer_close(t);
    t = open_spm(); /* a typed end of a thought is text, though the file calls it user-defined */
    AUTO_TOKENS own = encode(t, "</think>", 8, true, false);
    AUTO_TOKENS typed_end = encode(t, "</think>", 8, false, false);
    assert_int_equal(own.n, 1);
    assert_int_equal(own.ids[0], SPM_THINK);
    for (size_t k = 0; k < typed_end.n; k++) assert_int_not_equal(typed_end.ids[k], SPM_THINK);
}

TEST(reads_spans_as_one_text)
{
    AUTO_TOKENIZER *t = open_bpe("gpt-2");
    AUTO_TOKENS out = {0};
    struct tokenizer_span joined[] = {{"<|user|> ", 9, true}, {"hello", 5, false}};
    ok(tokenizer_encode(t, joined, 2, true, &out, &err));
    assert_int_equal(out.n, 2);
    assert_int_equal(out.ids[1], BPE_HELLO);
    /* a mark must not cross a border */
    struct tokenizer_span split[] = {{"<|e", 3, true}, {"nd|>", 4, true}};
    out.n = 0;
    ok(tokenizer_encode(t, split, 2, true, &out, &err));
    assert_true(out.n > 1);
}

TEST(gives_bytes)
{
    AUTO_TOKENIZER *t = open_bpe("gpt-2");
    size_t n;
    assert_memory_equal(tokenizer_bytes(t, BPE_HELLO, false, &n), " hello", 6);
    assert_int_equal(n, 6);
    assert_int_equal(*tokenizer_bytes(t, BPE_BYTES, false, &n), 0);
    assert_int_equal(n, 1);
    tokenizer_bytes(t, BPE_END, false, &n);
    assert_int_equal(n, 0);
    assert_memory_equal(tokenizer_bytes(t, BPE_END, true, &n), "<|end|>", 7);
    assert_int_equal(n, 7);
    tokenizer_bytes(t, -1, true, &n);
    assert_int_equal(n, 0);
    tokenizer_bytes(t, tokenizer_n_vocab(t), true, &n);
    assert_int_equal(n, 0);
}

/* ---- losslessness ---------------------------------------------------------------------------- */

/* Words, numbers, blanks, scripts, marks and invalid bytes, about n bytes, always the same. Without
 * U+2581, which SPM vocabularies use for the space and cannot distinguish from it. */
static struct str mixed_text(size_t n)
{
    static const char *const bits[] = {
        "hello",
        " hello",
        "the ",
        "12",
        " 3.14",
        "\n",
        "\r\n\n",
        "  ",
        "\t",
        "    ",
        "'ll",
        "'S",
        "\xC3\xA9t\xC3\xA9",
        "\xE4\xB8\xAD\xE6\x96\x87",
        "\xF0\x9F\x98\x80",
        "\xE2\x80\x8D",
        "\xD9\xA1\xD9\xA2",
        "\xC2\xA0",
        "\xE3\x80\x80",
        "<|im_end|>",
        "</s>",
        "<0x41>",
        "!?...",
        "\xFF",
        "\xC3",
        "\xE2\x95",
        "\xED\xA0\x80",
        "\xC0\xAF",
        "\xF4\x90\x80\x80",
        "a",
        "ab",
        "_",
    };
    enum { N_BITS = sizeof bits / sizeof *bits };
    struct str s = {0};
    for (uint64_t i = 0; s.n < n; i++) {
        double u = random_at(3, 0, i);
        char byte = (char)(random_at(3, 1, i) * 256);
        if (u < .02)
            str_append(&s, &byte, 1); /* NUL too */
        else
            str_puts(&s, bits[(size_t)(random_at(3, 2, i) * N_BITS)]);
    }
    return s;
}

static void check_round_trip(const struct tokenizer *t, const struct str *text)
{
    AUTO_TOKENS ids = encode(t, text->data, text->n, false, false);
    AUTO_STR back = spell(t, &ids, false);
    assert_int_equal(back.n, text->n);
    assert_memory_equal(back.data, text->data, text->n);
}

TEST(loses_nothing)
{
    AUTO_STR text = mixed_text(1 << 20);
    static const char *const pres[] = {"gpt-2",  "llama-bpe", "qwen2",
                                       "smollm", "tekken",    "default"};
    for (size_t i = 0; i < sizeof pres / sizeof *pres; i++) {
        AUTO_TOKENIZER *t = open_bpe(pres[i]);
        check_round_trip(t, &text);
    }
    AUTO_TOKENIZER *t = open_spm();
    check_round_trip(t, &text);
}

static void loses_nothing_with(void **state)
{
    AUTO_TOKENIZER *t = open_vocabulary(*state);
    if (!t) skip();
    AUTO_STR text = mixed_text(1 << 20);
    check_round_trip(t, &text);
    AUTO_TOKENS ids = encode(t, "<|im_end|></s>", 14, false, true);
    for (size_t i = 0; i < ids.n; i++) assert_false(tokenizer_is_end(t, ids.ids[i]));
}

__attribute__((constructor)) static void add_vocabularies(void)
{
    for (size_t i = 0; i < sizeof vocabularies / sizeof *vocabularies; i++) {
        test_add(__LINE__, vocabularies[i], passes_vectors, NULL, NULL, (void *)vocabularies[i]);
        test_add(__LINE__, vocabularies[i], loses_nothing_with, NULL, NULL,
                 (void *)vocabularies[i]);
    }
}

/* A page without a border: the time must not grow with the square of its length. */
TEST(takes_long_words)
{
    AUTO_STR text = {0};
    for (int i = 0; i < 1 << 20; i++) str_append(&text, i % 3 ? "a" : "b", 1);
    AUTO_TOKENIZER *bpe = open_bpe("gpt-2"), *spm = open_spm();
    check_round_trip(bpe, &text);
    check_round_trip(spm, &text);
    memset(text.data, ' ', text.n);
    check_round_trip(bpe, &text);
    check_round_trip(spm, &text);
}

/* ---- streaming ------------------------------------------------------------------------------- */

static void check_join(const char *in, const char *expected)
{
    for (int step = 1; step < 5; step++) {
        struct utf8_join j = {0};
        char out[256];
        size_t n = 0, length = strlen(in);
        for (size_t at = 0; at < length; at += (size_t)step) {
            size_t part = length - at < (size_t)step ? length - at : (size_t)step;
            n += utf8_join(&j, in + at, part, false, out + n);
        }
        n += utf8_join(&j, "", 0, true, out + n);
        out[n] = 0;
        assert_string_equal(out, expected);
    }
}

#define R "\xEF\xBF\xBD"
TEST(joins_characters)
{
    check_join("", "");
    check_join("h\xC3\xA9\xE4\xB8\xAD\xF0\x9F\x98\x80!", "h\xC3\xA9\xE4\xB8\xAD\xF0\x9F\x98\x80!");
    check_join("\xF0\x9F\x98", R);
    check_join("\xE2\x82"
               "A",
               R "A");
    check_join("\xC0\xAF", R R);
    check_join("\xED\xA0\x80", R R R);
    check_join("\xF4\x90\x80\x80", R R R R);
    check_join("\xF0\x9F\xC3\xA9", R "\xC3\xA9");
    check_join("\x80\xFF\xFE", R R R);
    struct utf8_join j = {0};
    char out[32];
    assert_int_equal(utf8_join(&j, "a\xE4\xB8", 3, false, out), 1);
    assert_int_equal(utf8_join(&j, "\xAD", 1, false, out), 3);
}

TEST(shows_names)
{
    static const char bytes[] = "\033]2;\a\r\n\177 \xC2\x9B \xE2\x80\xAE \0 \xFF\xE4 \xE4\xB8\xAD.";
    assert_string_equal(utf8_show(bytes, sizeof bytes - 1).text, "?]2;???? ? ? ? ?? \xE4\xB8\xAD.");
    char many[300];
    struct utf8_shown shown;
    for (size_t i = 0; i < sizeof many; i += 3) memcpy(many + i, "\xE4\xB8\xAD", 3);
    for (size_t n = 0; n < sizeof many; n++) {
        shown = utf8_show(many, n);
        size_t length = strlen(shown.text);
        size_t expected = n < 96 ? n / 3 * 3 + (n % 3 > 0) : 93; /* whole characters only */
        if (length != expected) fail_msg("%zu bytes are shown as %zu", n, length);
    }
}

/* ---- invalid files --------------------------------------------------------------------------- */

static void refuse(struct maker *m, const char *says)
{
    AUTO_GGUF *g;
    struct tokenizer *t;
    maker_end(m);
    ok(gguf_open_bytes(&g, m->file.data, m->file.n, "made", &err));
    refused(tokenizer_open(&t, g, &err), ERR_FORMAT, says);
    assert_null(t);
    if (!strstr(err.text, "made")) fail_msg("'%s' does not name the file", err.text);
    maker_release(m);
}

TEST(refuses_bad_files)
{
    static const struct word two[] = {{"a", 1, 0}, {"b", 1, 0}};
    struct maker m = {0};
    refuse(&m, "no vocabulary");
    m = (struct maker){0};
    maker_str(&m, "tokenizer.ggml.model", "bert");
    refuse(&m, "unknown tokenizer 'bert' (tokenizer.ggml.model); known are llama, gpt2");
    m = (struct maker){0};
    maker_str(&m, "tokenizer.ggml.model", "llama");
    refuse(&m, "tokenizer.ggml.tokens");
    m = (struct maker){0};
    maker_str(&m, "tokenizer.ggml.model", "gpt2");
    maker_words(&m, two, 2);
    refuse(&m, "no merges");
    make_bpe(&m, "martian");
    refuse(&m, "unknown pre-tokenizer 'martian'");
    make_bpe(&m, "martian");
    refuse(&m, "known are llama-bpe");
    m = (struct maker){0};
    maker_str(&m, "tokenizer.ggml.model", "gpt2");
    maker_words(&m, two, 2);
    maker_array(&m, "tokenizer.ggml.merges", GGUF_STRING, 1);
    put_text(&m.keys, "ab", 2);
    refuse(&m, "merge 0 is not two texts");
    m = (struct maker){0};
    maker_str(&m, "tokenizer.ggml.model", "llama");
    maker_array(&m, "tokenizer.ggml.tokens", GGUF_STRING, 1);
    put_text(&m.keys, "a", 1);
    maker_array(&m, "tokenizer.ggml.scores", GGUF_F32, 0);
    refuse(&m, "1 tokens but 0 scores");
}

/* Strange but readable: ids out of range, an empty text, equal texts, a merge to a text that is not
 * a token. */
TEST(lives_with_odd_files)
{
    static const struct word odd[] = {{"", 1, 0}, {"a", 1, 0}, {"a", 1, 0}, {"b", 77, 0}};
    struct maker m = {0};
    maker_str(&m, "tokenizer.ggml.model", "gpt2");
    maker_words(&m, odd, 4);
    maker_array(&m, "tokenizer.ggml.merges", GGUF_STRING, 1);
    put_text(&m.keys, "a b", 3);
    maker_u32(&m, "tokenizer.ggml.bos_token_id", 99);
    maker_u32(&m, "tokenizer.ggml.eos_token_id", UINT32_MAX);
    maker_bool(&m, "tokenizer.ggml.add_bos_token", true);
    AUTO_TOKENIZER *t = open_made(&m);
    assert_int_equal(tokenizer_bos(t), -1);
    assert_int_equal(tokenizer_eos(t), -1);
    assert_false(tokenizer_add_bos(t));
    expect(t, "abz", false, true, IDS(2, 3)); /* z has no token at all */
}

/* Every wrong byte in a vocabulary: an error line, or a tokenizer that stays inside its memory. */
static void survive_wrong_bytes(struct maker *m, uint64_t stream)
{
    maker_end(m);
    for (uint64_t i = 0; i < 1500; i++) {
        size_t at = (size_t)(random_at(5, stream, 2 * i) * (double)m->file.n);
        char old = m->file.data[at];
        m->file.data[at] = (char)(random_at(5, stream, 2 * i + 1) * 256);
        struct gguf *g;
        struct tokenizer *t = NULL;
        if (!gguf_open_bytes(&g, m->file.data, m->file.n, "made", NULL) &&
            !tokenizer_open(&t, g, NULL)) {
            AUTO_TOKENS ids = encode(t, "hello <|user|> ab\xFF\xE4\xB8\xAD 12", 24, true, true);
            AUTO_STR text = spell(t, &ids, true);
        }
        tokenizer_close(t);
        gguf_close(g);
        m->file.data[at] = old;
    }
    maker_release(m);
}

TEST(survives_damaged_vocabularies)
{
    struct maker m;
    make_bpe(&m, "gpt-2");
    survive_wrong_bytes(&m, 0);
    make_spm(&m);
    survive_wrong_bytes(&m, 1);
}
