/* Markdown as drawn: how marks look, that no line above the last moves while text streams in, and
 * that hostile input stays inside the screen. */

#include "tests/test.h"

#include "tests/tui/fake_stage.h"
#include "tui/text/markdown.h"
#include "base/utf8_width.h"

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
        x += utf8_columns(s, length);
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

/* A code block as drawn, with a letter for the colour of each character: k keyword, s string, n
 * number, c comment, . other. */
static void take_colors(void *ctx, size_t from, size_t n, const struct span *spans, int n_spans)
{
    struct page *p = ctx;
    for (int i = 0, x = 0; i < n_spans; x = spans[i].x + (int)spans[i].n, i++) {
        int attr = spans[i].attr;
        const char *letter = attr == ATTR_KEYWORD   ? "k"
                             : attr == ATTR_STRING  ? "s"
                             : attr == ATTR_NUMBER  ? "n"
                             : attr == ATTR_COMMENT ? "c"
                                                    : ".";
        if (spans[i].from >= SPAN_GLYPH(SPAN_GLYPHS)) break; /* a fence */
        for (; x < spans[i].x; x++) str_puts(&p->seen, " ");
        for (uint32_t k = 0; k < spans[i].n; k++) str_puts(&p->seen, letter);
    }
    if (n_spans && spans[0].from < SPAN_GLYPH(SPAN_GLYPHS)) str_puts(&p->seen, "\n");
}

static const struct {
    const char *text, *colors;
} codes[] = {
    {"```c\nint x = 0x1F; /* a\nb */ return \"q\\\"\"; // z\n```",
     "kkk . . nnnn. cccc\ncccc kkkkkk sssss. cccc\n"},
    {"```python\ndef f(a): # no\n  s = '''x\n#y''' + \"#\"\n```",
     "kkk ..... cccc\n  . . ssss\nsssss . sss\n"},
    {"```py title=\"a\"\nif 3.5: pass\n```", "kk nnn. kkkk\n"},
    {"```bash\necho ${#x} 'a # b' # c\n```", "kkkk ..... sssssss ccc\n"},
    {"```sql\nSELECT a FROM t -- x\n```", "kkkkkk . kkkk . cccc\n"},
    {"```html\n<!-- a\nb --><p class=\"x\">\n```", "cccccc\nccccc.k kkkkk.sss.\n"},
    {"```js\nlet s = `a\nb`; f('\n```", "kkk . . ss\nss. ..s\n"},
    {"```rust\nfn f<'a>(x: &'a str) {}\n```", "kk ........ ... kkk. ..\n"},
    {"```unheard\nint x = \"y\"\n```", "...........\n"},
    {"```\nint x\n```", ".....\n"},
};

TEST(test_code)
{
    struct page p = {.text = NULL};
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        size_t n = strlen(codes[i].text);
        str_clear(&p.seen);
        markdown_block(codes[i].text, n, 0, true, 60, take_colors, &p);
        assert_string_equal(str_get(&p.seen), codes[i].colors);
    }
    /* Lines that are broken keep their colours, and a line of too many runs loses only colours. */
    static const char broken[] = "```c\nreturn \"abcdefgh\";\n```";
    str_clear(&p.seen);
    markdown_block(broken, sizeof broken - 1, 0, true, 10, take_colors, &p);
    assert_string_equal(p.seen.data, "kkkkkk\nssssssssss\n.\n");
    AUTO_STR many = {0};
    str_puts(&many, "```c\n");
    for (int i = 0; i < 400; i++) str_puts(&many, "1 ");
    str_puts(&many, "\n```");
    lay(&p, many.data, many.n, true, 2000);
    assert_non_null(strstr(p.seen.data, "1 1 1 1 \n--"));
    assert_int_equal(strlen(strstr(p.seen.data, "\n1 ")), 1 + 800 + 4);
    str_release(&p.seen);
}

/* The number at a fence is that of /copy code N. */
TEST(test_code_numbers)
{
    static const char text[] =
        "```c\na\n```\n\n- list\n  ~~~sh\n  b\n  ~~~\n\n````\n```\nc\n````\n";
    struct page p = {.text = NULL};
    AUTO_STR answer = {0}, copied = {0};
    lay(&p, text, sizeof text - 1, true, 60);
    assert_non_null(strstr(p.seen.data, "-- c  /copy code 1\na\n"));
    assert_non_null(strstr(p.seen.data, "-- sh  /copy code 2\n"));
    assert_non_null(strstr(p.seen.data, "-- /copy code 3\n```\nc\n"));
    str_puts(&answer, text);
    ok(control_copied(&answer, "code 3", &copied, &err));
    assert_string_equal(copied.data, "```\nc\n");
    str_release(&p.seen);
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
    {"```c\n**x**\n\n\ty\n```\nz", "-- c  /copy code 1\n**x**\n\n    y\n--\nz\n"},
    /* CommonMark 4.5: only a fence of the same character closes a block */
    {"```\n~~~\n**a**\n~~~ ```\n**b**\n```\n**c**",
     "-- /copy code 1\n~~~\n**a**\n~~~ ```\n**b**\n--\nc\n"},
    {"~~~\na\n```\n**b**\n~~~\n**c**", "-- /copy code 1\na\n```\n**b**\n--\nc\n"},
    {"text\n---\nmore",
     /* a heading is not recognised afterwards */
     "text\n----------------------------------------\nmore\n"},
    {"5 * 3 * 2", "5 * 3 * 2\n"},
    {"snake_case_name", "snake_case_name\n"},
    {"    four blanks", "    four blanks\n"},
};

TEST(test_marks)
{
    static struct page p;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        lay(&p, rows[i].text, strlen(rows[i].text), true, 40);
        assert_string_equal(str_get(&p.seen), rows[i].seen);
    }
    str_release(&p.seen);
}

TEST(test_wrap)
{
    static struct page p;
    static const char text[] =
        "- an item of **many words** that goes on\n\n| much | too | wide |\n|--|--|--|\n"
        "| for | the | screen |";
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
TEST(test_nothing_moves)
{
    static struct page before, now;
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
TEST(test_streamed_is_whole)
{
    struct transcript a = {0}, b = {0};
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
TEST(test_hostile)
{
    static struct page p;
    static const char *const pieces[] = {">",  "- ",   "*",  "**",   "_",     "`",    "[",
                                         "](", "|",    "\n", "1. ",  "x",     "~~",   "<a>",
                                         "![", "&#0;", "\\", "    ", "```\n", "---\n"};
    unsigned seed = 5;
    for (int round = 0; round < 300; round++) {
        AUTO_STR text = {0};
        for (int i = 0; i < 200; i++) {
            seed = seed * 1103515245u + 12345u;
            str_puts(&text, pieces[(seed >> 16) % (round % 2 ? 20 : 9)]);
        }
        lay(&p, text.data, text.n, round % 3 == 0, 1 + round % 70);
    }
    AUTO_STR deep = {0};
    for (int i = 0; i < 5000; i++) str_puts(&deep, i % 2 ? "> " : "- ");
    str_puts(&deep, "x");
    lay(&p, deep.data, deep.n, true, 80);
    str_release(&p.seen);
}
