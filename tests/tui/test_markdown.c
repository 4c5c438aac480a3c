/* Markdown as drawn: how marks look, that no line above the last moves while text streams in, and
 * that hostile input stays inside the screen. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/tui/fake_stage.h"
#include "tui/text/markdown.h"
#include "tui/term/text.h"

/* Lines as displayed, each with the bytes it covers. */
struct page {
    const char *text;
    struct str seen;
    size_t starts[4096];
    int n;
    size_t covered; /* the furthest byte */
};

static void take_line(void *ctx, size_t from, size_t n, const struct span *spans, int n_spans)
{
    struct page *p = ctx;
    int x = 0;
    char glyph[1024];
    if (p->n == 4096) fail_msg("too many lines");
    p->starts[p->n++] = p->seen.n;
    for (int i = 0; i < n_spans; i++) {
        size_t length;
        const char *s = span_text(&spans[i], p->text, true, glyph, &length);
        assert_true(spans[i].x >= x);
        for (; x < spans[i].x; x++) str_puts(&p->seen, " ");
        str_append(&p->seen, s, length);
        x += text_columns(s, length);
    }
    str_puts(&p->seen, "\n");
    if (from + n > p->covered) p->covered = from + n;
}

static void lay(struct page *p, const char *text, size_t n, bool ends, int width)
{
    str_clear(&p->seen);
    p->text = text;
    p->n = 0;
    p->covered = 0;
    for (size_t at = 0, end; at < n; at = end) {
        end = markdown_block(text, n, at, ends, width, take_line, p);
        assert_true(end > at && end <= n);
    }
    assert_true(p->covered <= n);
}

static const struct {
    const char *text, *seen;
} rows[] = {
    {"# Title\n\ntext", "Title\n\ntext\n"},
    {"a **b** *c* `d` ~~e~~", "a b c d e\n"},
    {"one\ntwo\n   three", "one\ntwo\n   three\n"}, /* lines and poems keep their line breaks */
    {"- a\n- b\n  - c\n\n2. d\n10. e", "* a\n* b\n  * c\n\n2. d\n10. e\n"},
    {"- [x] done\n- [ ] to do", "* [x] done\n* [ ] to do\n"},
    {"> a\n> b", "| a\n| b\n"},
    {"[text](http://x.y) ![p](q.png)", "[text](http://x.y) ![p](q.png)\n"},
    {"[**b**](u) [r][s] <http://a.b>", "[b](u) [r][s] http://a.b\n"},
    {"<b>x</b> &amp; \\*y\\*", "<b>x</b> &amp; *y*\n"},
    {"| a | bb |\n|---|---:|\n| ccc | d |", "a   | bb\n--------\nccc |  d\n"},
    {"```c\n**x**\n\n\ty\n```\nz", "```c\n**x**\n\n\ty\n```\nz\n"},
    /* CommonMark 4.5: only a fence of the same character closes a block */
    {"```\n~~~\n**a**\n~~~ ```\n**b**\n```\n**c**", "```\n~~~\n**a**\n~~~ ```\n**b**\n```\nc\n"},
    {"~~~\na\n```\n**b**\n~~~\n**c**", "~~~\na\n```\n**b**\n~~~\nc\n"},
    {"text\n---\nmore",
     /* a heading is not recognised afterwards */
     "text\n----------------------------------------\nmore\n"},
    {"5 * 3 * 2", "5 * 3 * 2\n"},
    {"snake_case_name", "snake_case_name\n"},
    {"    four blanks", "    four blanks\n"},
};

static void test_marks(void **state)
{
    static struct page p;
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        lay(&p, rows[i].text, strlen(rows[i].text), true, 40);
        assert_string_equal(str_get(&p.seen), rows[i].seen);
    }
    str_release(&p.seen);
}

static void test_wrap(void **state)
{
    static struct page p;
    static const char text[] =
        "- an item of **many words** that goes on\n\n| much | too | wide |\n|--|--|--|\n"
        "| for | the | screen |";
    (void)state;
    lay(&p, text, sizeof text - 1, true, 20);
    assert_string_equal(str_get(&p.seen),
                        "* an item of many\n  words that goes on\n\n"
                        "| much | too | wide\n|\n|--|--|--|\n| for | the | screen\n|\n");
    str_release(&p.seen);
}

static const char document[] =
    "# A heading\n\nA paragraph with **bold words that are long enough to be wrapped** and *some "
    "emphasis that is wrapped too*, `code with ** inside`, and a [link to "
    "somewhere](http://example.org/"
    "a_b_c) at its end.\nA second line.\n\n- first item\n- second item with **bold\n  over lines** "
    "of it\n"
    "  - nested item, long enough to be wrapped at this width, that is all\n- [x] a task\n\n1. "
    "one\n2. two\n\n"
    "> a quote that is long enough to be wrapped once or twice at this width\n> and goes on\n\n"
    "Title\n---\n\n```python\ndef f(x):\n    return x ** 2  # **not "
    "bold**\n\n\nprint(f(2))\n```\n\n"
    "Last __words__ with 漢字 and e\xCC\x81, 2 * 3 * 4 and snake_case_names.\n";

/* While text streams in, only its last line (and the lines after it) is drawn again. */
static void test_nothing_moves(void **state)
{
    static struct page before, now;
    (void)state;
    for (int width = 24; width <= 60; width += 9) {
        before.n = 0;
        for (size_t n = 1; n < sizeof document; n++) {
            if (((unsigned char)document[n] & 0xC0) == 0x80) continue; /* whole characters only */
            lay(&now, document, n, false, width);
            int settled = before.n - 1;
            size_t length = settled > 0 ? before.starts[settled] : 0;
            if (settled > 0 &&
                (now.n < settled || memcmp(now.seen.data, before.seen.data, length) != 0))
                fail_msg("width %d, byte %zu: was\n%.*s\nis\n%s", width, n, (int)length,
                         before.seen.data, now.seen.data);
            struct page swap = before;
            before = now;
            now = swap;
        }
    }
    str_release(&before.seen);
    str_release(&now.seen);
}

/* The same through the transcript, which lays out only the lines that can still change. */
static void test_streamed_is_whole(void **state)
{
    struct transcript a = {0}, b = {0};
    (void)state;
    struct message *streamed = transcript_add(&a, CHAT_ASSISTANT, "", 0);
    for (size_t n = 0; n + 1 < sizeof document; n++) {
        transcript_append(streamed, document + n, 1);
        transcript_layout(&a, 40);
    }
    transcript_close(streamed);
    transcript_layout(&a, 40);
    struct message *whole = transcript_add(&b, CHAT_ASSISTANT, document, sizeof document - 1);
    transcript_close(whole);
    transcript_layout(&b, 40);
    assert_int_equal(streamed->n_lines, whole->n_lines);
    for (int i = 0; i < whole->n_lines; i++) {
        assert_int_equal(streamed->lines[i].from, whole->lines[i].from);
        assert_int_equal(streamed->lines[i].n, whole->lines[i].n);
    }
    transcript_layout(&a, 30); /* another width and back */
    transcript_layout(&a, 40);
    assert_int_equal(streamed->n_lines, whole->n_lines);
    assert_string_equal(str_get(&streamed->raw), document);
    transcript_clear(&a);
    transcript_clear(&b);
}

/* Nested and repeated marks: bounded work, and every displayed byte is one of the text. */
static void test_hostile(void **state)
{
    static struct page p;
    static const char *const pieces[] = {">",  "- ",   "*",  "**",   "_",     "`",    "[",
                                         "](", "|",    "\n", "1. ",  "x",     "~~",   "<a>",
                                         "![", "&#0;", "\\", "    ", "```\n", "---\n"};
    unsigned seed = 5;
    (void)state;
    for (int round = 0; round < 300; round++) {
        struct str text = {0};
        for (int i = 0; i < 200; i++) {
            seed = seed * 1103515245u + 12345u;
            str_puts(&text, pieces[(seed >> 16) % (round % 2 ? 20 : 9)]);
        }
        lay(&p, text.data, text.n, round % 3 == 0, 1 + round % 70);
        str_release(&text);
    }
    struct str deep = {0};
    for (int i = 0; i < 5000; i++) str_puts(&deep, i % 2 ? "> " : "- ");
    str_puts(&deep, "x");
    lay(&p, deep.data, deep.n, true, 80);
    str_release(&deep);
    str_release(&p.seen);
}

int main(void)
{
    setlocale(LC_ALL, "C.UTF-8");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_marks),         cmocka_unit_test(test_wrap),
        cmocka_unit_test(test_nothing_moves), cmocka_unit_test(test_streamed_is_whole),
        cmocka_unit_test(test_hostile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
