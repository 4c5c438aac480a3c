/* pretokenizer: where every kind splits a text. Each case is a list of pieces; the text is all of
 * them joined. */

#include "tests/test.h"

#include "base/str.h"
#include "runtime/token/pretokenizer.h"

#define PIECES_MAX 16

static const struct split {
    const char *name;
    const char *pieces[PIECES_MAX];
} splits[] = {
    {"gpt-2", {"I", "'m", " 1234", " x", "_", "y", "  ", " \xE4\xB8\xAD\xE6\x96\x87", "\n\n"}},
    {"mpt", {"I", "'", "M", " 1234"}},
    {"phi-2", {"I", "'m", " 1234"}},
    {"olmo", {"I", "'m", " 1234"}},
    {"smollm", {"x", "1", "2", " ", "3", " a"}},
    {"starcoder", {"x", "1", "2", " ", "3", " a"}},
    {"refact", {"x", "1", "2"}},
    {"command-r", {"x", "1", "2"}},
    {"llama-bpe", {"a", "+b", "123", "4", " c"}},
    {"qwen2", {"it", "'S", " ", "1", "2", "e", "\xCC\x81\n\n", " a"}},
    {"seed-coder", {"it", "'S", " ", "1", "2", "e", "\xCC\x81", "\n\n", " !?", "\n", " ", " a"}},
    {"superbpe",
     {"32\xC2\xB2"
      "2",
      "432\xC2\xBD"
      "4",
      "x"}},
    {"superbpe", {"a b ", "12", "345", " c, d\n e ", "1", "234", "567", "."}},
    {"superbpe",
     {"x",
      "\xC2\xBD"
      "12",
      "345", "y", "1"}},
    /* a mark stays with its letter, also at a word's beginning and without a letter */
    {"qwen35", {"it", "'S", " ", "1", "2", "e\xCC\x81t", " \xCC\x81", "!?\n", " a"}},
    {"qwen35", {"\xE0\xA4\x95\xE0\xA4\xBF", " \xE0\xA4\x95\xE0\xA4\xBF", "\r\n"}},
    /* capitals begin a word, a suffix stays with it, three digits, '/' after punctuation */
    {"gpt-4o", {"get", "HTTPResponse's", " I'M", " ", "123", "45", " ://", "x"}},
    {"gpt-4o",
     {"\xC3\x89"
      "COLEs",
      " \xC3\x89"
      "cole",
      "Te\xCC\x81t", "  ", " b", " \n\n"}},
    {"llama4", {"don't", " ", "123", "4"}},
    {"tekken", {"get", "Response", "'s", " I", "'M", " ", "1", "2", " //", "x"}},
    {"tiny_aya", {"Get", "Response's", " ", "1", "234", "567", ".", "123", "4", "th", " //", "x"}},
    /* Han is separate from all else, also from kana; no '/' after punctuation */
    {"kimi-k2",
     {"get", "HTTPResponse's", " ", "\xE4\xB8\xAD\xE6\x96\x87", "abc", "\xE4\xB8\xAD", "x", " ",
      "123", "4", " //", " \n\n", " ", " b"}},
    {"kimi-k2",
     {"\xE3\x81\xAE", "\xE3\x80\x85", "\xE3\x82\xAB", "  ", " \xE3\x82\xAB", "!?\n", "/"}},
    {"kimi-k2",
     {"Don'T", " ", "\xE4\xBA\x8C\xE3\x80\x87", "\xEF\xBC\x92\xEF\xBC\x93", "\xE5\xB9\xB4"}},
    /* line ends are separate; scripts with case, punctuation, scripts without case, digits */
    {"deepseek-llm",
     {"it", "'", "s", " ", "123", "\xE4\xB8\xAD", "\xE3\x80\x82", "\n", "\n", "  "}},
    {"deepseek-llm", {"a", "  ", " \xD0\x96", " ", "\xEC\x98\x81"}},
    {"deepseek-coder", {"if", "(", "x", "==", "1", "2", ")", "\n", "\n", "   ", " y", "+\t\t"}},
    {"deepseek-coder", {"\xEC\x98\x81", ".", "\xE0\xA5\xA6", "\xE4\xB8\xAD", "\xE3\x80\x82"}},
    /* punctuation begins a word of ASCII; kana and Han are together, separate from the rest */
    {"deepseek-v3",
     {"123", "4", ".get", "(\"", "x", "\"", "  ", " e\xCC\x81", " !?\n\n", " ", " b"}},
    {"deepseek-v3", {"a", "\xE4\xB8\xAD\xE3\x81\xAE\xE3\x82\xAB", "\xEC\x98\x81\xE9\xBE\xA6"}},
    {"joyai-llm", {"123", "4"}},
    {"falcon", {"a", "+`", "b", "123", "456", "7", " ", "$", "x", "  ", " y"}},
    {"default", {"a", "+", "b", "123", "456", "7"}},
};

static struct pretokenizer *open_named(const char *name)
{
    struct pretokenizer *p;
    ok(pretokenizer_open(&p, name, strlen(name), &err));
    return p;
}

static void put_piece(void *ctx, const char *text, size_t n)
{
    str_append(ctx, text, n);
    str_puts(ctx, "\x1f");
}

TEST(cuts_where_it_should)
{
    for (size_t i = 0; i < sizeof splits / sizeof *splits; i++) {
        AUTO_STR text = {0}, expected = {0}, got = {0};
        struct pretokenizer *p = open_named(splits[i].name);
        for (const char *const *piece = splits[i].pieces; *piece; piece++) {
            str_puts(&text, *piece);
            put_piece(&expected, *piece, strlen(*piece));
        }
        ok(pretokenizer_split(p, str_get(&text), text.n, put_piece, &got, &err));
        if (strcmp(str_get(&got), str_get(&expected)))
            fail_msg("%s, case %zu: '%s' instead of '%s'", splits[i].name, i, str_get(&got),
                     str_get(&expected));
        pretokenizer_close(p);
    }
}

static void count_bytes(void *ctx, const char *text, size_t n)
{
    *(size_t *)ctx += n;
}

/* A page of the same character must not fail or take very long. */
TEST(takes_long_runs)
{
    static const char *const units[] = {"a", "A", " ", "\n", "!", "7", "\xE4\xB8\xAD", "\xCC\x81"};
    enum { TIMES = 20000 };
    for (size_t i = 0; i < sizeof splits / sizeof *splits; i++) {
        struct pretokenizer *p = open_named(splits[i].name);
        for (size_t u = 0; u < sizeof units / sizeof *units; u++) {
            AUTO_STR text = {0};
            size_t n = 0;
            for (int k = 0; k < TIMES; k++) str_puts(&text, units[u]);
            if (pretokenizer_split(p, str_get(&text), text.n, count_bytes, &n, &err))
                fail_msg("%s, unit %zu: %s", splits[i].name, u, err.text);
            assert_int_equal(n, text.n);
        }
        pretokenizer_close(p);
    }
}

TEST(whole_pieces_and_bos)
{
    static const struct {
        const char *name;
        bool takes_whole, adds_bos;
    } rows[] = {
        {"llama-bpe", true, true}, {"tekken", true, true},        {"gpt-4o", false, false},
        {"qwen35", false, false},  {"falcon", false, false},      {"glm4", true, false},
        {"phi-2", false, false},   {"chatglm-bpe", false, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct pretokenizer *p = open_named(rows[i].name);
        assert_int_equal(pretokenizer_takes_whole(p), rows[i].takes_whole);
        assert_int_equal(pretokenizer_adds_bos(p), rows[i].adds_bos);
        pretokenizer_close(p);
    }
}

TEST(refuses_unknown_names)
{
    static const char name[] = "gpt";
    struct pretokenizer *p;
    refused(pretokenizer_open(&p, name, strlen(name), &err), ERR_FORMAT, "'gpt'");
    assert_non_null(strstr(err.text, "deepseek-v3"));
    assert_non_null(strstr(err.text, "default"));
    assert_null(p);
}
