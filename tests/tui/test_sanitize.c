/* Attacks on a terminal, and text that must stay unchanged. */

#include "tests/test.h"

#include "base/utf8_width.h"
#include "cli/print/sanitize.h"

static const char *const attacks[] = {
    "\033]0;title\007",
    "\033]8;;http://evil\033\\link\033]8;;\033\\",
    "\033[2J\033[H",
    "\033[31mred",
    "\033]52;c;ZXZpbA==\007",
    "\033P+q544e\033\\",
    "\033[6n",
    "\033c",
    "\033[?1049h",
    "\033[20;1t",
    "\xC2\x9B"
    "31m",
    "\xC2\x9D"
    "0;x\xC2\x9C",
    "\x9B"
    "31m",
    "\x90 raw c1",
    "\b\b\b\bover",
    "\rback",
    "\x7F\x7F",
    "\v\f\016\017",
    "\xE2\x80\xAE"
    "gpj.exe",
    "\xE2\x81\xA6x\xE2\x81\xA9",
    "\xE2\x80\x8F rlm",
    "\xD8\x9C alm",
    "\xF3\xA0\x81\x81\xF3\xA0\x81\x82 tags",
    "\xE2\x80\xA8 line separator",
    "\xC0\x80 overlong",
    "\xED\xA0\x80 surrogate",
    "\xF4\x90\x80\x80 too large",
    "\xE2\x82",
    "\xFF\xFE",
    "cut \xF0\x9F",
};
enum { N_ATTACKS = sizeof attacks / sizeof attacks[0] };

/* Only printable text, \n and \t remain, and it is valid UTF-8 without characters that re-order. */
static void assert_clean(const struct str *s, bool ascii)
{
    for (size_t at = 0; at < s->n;) {
        uint32_t cp;
        int length = utf8_next(s->data + at, s->n - at, &cp);
        assert_true(length > 0);
        at += (size_t)length;
        if (cp == '\n' || cp == '\t') continue;
        assert_true(cp >= 0x20 && cp != 0x7F && !(cp >= 0x80 && cp < 0xA0));
        assert_false((cp >= 0x202A && cp <= 0x202E) || (cp >= 0x2066 && cp <= 0x2069));
        assert_false(cp == 0x200E || cp == 0x200F || cp == 0x61C || cp == 0x2028 || cp == 0x2029);
        assert_false(cp >= 0xE0000 && cp <= 0xE007F);
        if (ascii) assert_true(cp < 0x7F);
    }
}

TEST(test_attacks)
{
    for (int i = 0; i < N_ATTACKS; i++)
        for (int mode = 0; mode < 4; mode++) {
            AUTO_STR out = {0};
            sanitize(attacks[i], strlen(attacks[i]), mode & 1, mode & 2, &out);
            assert_clean(&out, mode & 1);
            assert_true(out.n > 0);
        }
}

/* Splitting a stream anywhere changes nothing. */
TEST(test_pieces)
{
    AUTO_STR all = {0};
    for (int i = 0; i < N_ATTACKS; i++) str_puts(&all, attacks[i]);
    str_puts(&all, "a\r\nb 漢字 🙂 e\xCC\x81");
    AUTO_STR whole = {0};
    sanitize(all.data, all.n, false, false, &whole);
    for (size_t step = 1; step < 9; step++) {
        struct sanitizer z = {0};
        AUTO_STR out = {0};
        for (size_t at = 0; at < all.n; at += step)
            sanitize_feed(&z, all.data + at, all.n - at < step ? all.n - at : step, &out);
        sanitize_end(&z, &out);
        assert_string_equal(str_get(&out), str_get(&whole));
    }
}

TEST(test_random_bytes)
{
    unsigned seed = 1;
    for (int round = 0; round < 2000; round++) {
        char bytes[64];
        AUTO_STR out = {0};
        for (size_t i = 0; i < sizeof bytes; i++)
            bytes[i] = (char)((seed = seed * 1103515245u + 12345u) >> 16);
        sanitize(bytes, sizeof bytes, round & 1, round & 2, &out);
        assert_clean(&out, round & 1);
    }
}

TEST(test_text_is_kept)
{
    static const char text[] =
        "Plain, tab\tnewline\n漢字かな 🙂 עברית ไทย e\xCC\x81 €";
    AUTO_STR out = {0};
    sanitize(text, sizeof text - 1, false, false, &out);
    assert_string_equal(str_get(&out), text);
    str_clear(&out);
    sanitize("a\r\nb\rc", 6, false, false, &out);
    assert_string_equal(str_get(&out), "a\nb\xE2\x90\x8D"
                                       "c");
    str_clear(&out);
    sanitize("a\033[0m\xC3\xA9\n", 8, true, true, &out);
    assert_string_equal(str_get(&out), "a^[[0m?^J");
}

/* ---- breaking into lines --------------------------------------------------------------------- */

static void assert_lines(const char *text, int width, const char *expected)
{
    AUTO_STR out = {0};
    size_t n = strlen(text), shown;
    while (n > 0) {
        size_t taken = utf8_line(text, n, width, &shown);
        assert_true(taken > 0 && taken <= n && shown <= taken);
        str_append(&out, text, shown);
        str_puts(&out, "/");
        text += taken;
        n -= taken;
    }
    assert_string_equal(str_get(&out), expected);
}

TEST(test_lines)
{
    assert_lines("hello big world", 10, "hello big/world/");
    assert_lines("hello\n\nworld\n", 10, "hello//world/");
    assert_lines("abcdefghijklm", 5, "abcde/fghij/klm/");
    assert_lines("日本語のテキスト", 7, "日本語/のテキ/スト/");
    assert_lines("日本", 1, "日/本/");
    assert_lines("  indented words", 10, "  indented/words/");
    assert_lines("ab   cd", 3, "ab/cd/");
    assert_lines("e\xCC\x81"
                 "e\xCC\x81",
                 1, "e\xCC\x81/e\xCC\x81/");
    assert_int_equal(utf8_columns("a\tb", 3), 5);
    assert_int_equal(utf8_fit("日本", 6, 3), 3);
}
