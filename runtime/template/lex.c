#include "runtime/template/lex.h"

#include <string.h>

#include "base/utf8.h"

void lexer_init(struct lexer *l, struct heap *h, const char *source, size_t n)
{
    char *clean = heap_take(h, n + 1, 1);
    size_t k = 0;
    for (size_t i = 0; i < n; i++) {
        if (source[i] == '\r' && i + 1 < n && source[i + 1] == '\n') continue;
        clean[k++] = (char)(source[i] == '\r' ? '\n' : source[i]);
    }
    if (k > 0 && clean[k - 1] == '\n') k--;
    *l = (struct lexer){.heap = h, .source = text_bytes(clean, k), .line = 1, .line_starts = true};
}

static bool sees(const struct lexer *l, size_t at, const char *what)
{
    size_t n = strlen(what);
    return l->source.n - at >= n && !memcmp(l->source.data + at, what, n);
}

static char peek(const struct lexer *l, size_t ahead)
{
    return l->at + ahead < l->source.n ? l->source.data[l->at + ahead] : '\0';
}

static void advance(struct lexer *l, size_t to)
{
    for (; l->at < to; l->at++)
        if (l->source.data[l->at] == '\n') l->line++;
    l->heap->line = l->line;
}

static void skip_blanks(struct lexer *l)
{
    uint32_t c;
    while (l->at < l->source.n) {
        size_t length = text_char(l->source, l->at, &c);
        if (!utf8_is_space(c)) return;
        advance(l, l->at + length);
    }
}

/* ---- between tags ---------------------------------------------------------------------------- */

/* The beginning of the next tag; its '{' is followed by one of %, { and #. */
static size_t find_tag(const struct lexer *l)
{
    const char *s = l->source.data;
    for (size_t at = l->at; at + 1 < l->source.n; at++)
        if (s[at] == '{' && (s[at + 1] == '%' || s[at + 1] == '{' || s[at + 1] == '#')) return at;
    return l->source.n;
}

/* The data before a tag at `end`, without the blanks removed by the tag's sign or lstrip_blocks. */
static struct text data_before(const struct lexer *l, size_t end, bool is_print)
{
    struct text data = text_slice(l->source, l->at, end - l->at);
    char sign = end + 2 < l->source.n ? l->source.data[end + 2] : '\0';
    if (end == l->source.n) return data;
    if (sign == '-') return text_strip(l->heap, data, NULL, false, true);
    if (sign == '+' || is_print) return data;
    const char *newline = memrchr(data.data, '\n', data.n);
    size_t line = newline ? (size_t)(newline - data.data) + 1 : 0;
    if (line == 0 && !l->line_starts) return data;
    struct text tail = text_slice(data, line, data.n - line);
    return text_strip(l->heap, tail, NULL, true, false).n == 0 ? text_slice(data, 0, line) : data;
}

/* After the two closing characters at l->at: skips a line break if the tag removes it; after '-'
 * all blanks. */
static void close_tag(struct lexer *l, char sign, bool trims)
{
    size_t from = l->at;
    advance(l, l->at + 2);
    if (sign == '-')
        skip_blanks(l);
    else if (trims && sign != '+' && peek(l, 0) == '\n')
        advance(l, l->at + 1);
    l->line_starts = l->at > from && l->source.data[l->at - 1] == '\n';
}

static void skip_comment(struct lexer *l)
{
    struct text end = text_of("#}");
    size_t at = text_find(l->source, end, l->at + 2);
    if (at == TEXT_NONE) heap_fail(l->heap, "a comment has no end");
    char sign = at > l->at + 2 ? l->source.data[at - 1] : '\0';
    advance(l, at);
    close_tag(l, sign, true);
}

static void open_tag(struct lexer *l, size_t at, bool is_print)
{
    advance(l, at + 2);
    if (peek(l, 0) == '-' || peek(l, 0) == '+') advance(l, l->at + 1);
    l->state = is_print ? LEX_IN_PRINT : LEX_IN_BLOCK;
    l->opened = is_print ? LEX_PRINT : LEX_BLOCK;
    l->n_brackets = 0;
}

static struct token lex_data(struct lexer *l)
{
    size_t at = find_tag(l);
    char second = at < l->source.n ? l->source.data[at + 1] : '\0';
    struct token t = {.kind = LEX_DATA, .line = l->line, .text = data_before(l, at, second == '{')};
    if (at == l->source.n) {
        advance(l, at);
    } else if (second == '#') {
        advance(l, at);
        skip_comment(l);
    } else {
        open_tag(l, at, second == '{');
    }
    return t;
}

/* ---- inside tags ----------------------------------------------------------------------------- */

static bool is_name_char(uint32_t c, bool first)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c >= 0x80 ||
           (!first && c >= '0' && c <= '9');
}

static struct token lex_name(struct lexer *l, struct token t)
{
    size_t end = l->at;
    while (end < l->source.n && is_name_char((uint8_t)l->source.data[end], false)) end++;
    t.kind = LEX_NAME;
    t.text = text_slice(l->source, l->at, end - l->at);
    advance(l, end);
    return t;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static struct token lex_number(struct lexer *l, struct token t)
{
    size_t end = l->at;
    int64_t n = 0;
    bool over = false;
    for (; end < l->source.n && is_digit(l->source.data[end]); end++)
        over = over || __builtin_mul_overflow(n, 10, &n) ||
               __builtin_add_overflow(n, l->source.data[end] - '0', &n);
    if (over) heap_fail(l->heap, "a number is too large");
    t.kind = LEX_NUMBER;
    t.value = value_int(n);
    advance(l, end);
    return t;
}

/* The escape whose backslash is before s[*at]. */
static void put_escape(struct builder *b, struct text s, size_t *at)
{
    static const char letters[] = "nrt\\'\"", meanings[] = "\n\r\t\\'\"";
    char c = s.data[(*at)++];
    const char *known = c ? strchr(letters, c) : NULL;
    if (known)
        builder_char(b, (uint8_t)meanings[known - letters], 0);
    else if (c != '\n')
        heap_fail(b->heap, "a string has an escape other than \\n, \\r, \\t, \\\\ and quotes");
}

static struct token lex_string(struct lexer *l, struct token t)
{
    struct builder b = {.heap = l->heap};
    char quote = peek(l, 0);
    size_t end = l->at + 1;
    while (end < l->source.n && l->source.data[end] != quote)
        end += l->source.data[end] == '\\' ? 2 : 1;
    if (end >= l->source.n) heap_fail(l->heap, "a string has no end");
    struct text s = text_slice(l->source, l->at + 1, end - l->at - 1);
    t.kind = LEX_STRING;
    t.text = s;
    if (s.n > 0 && memchr(s.data, '\\', s.n)) {
        for (size_t at = 0, from; at < s.n;) {
            for (from = at; at < s.n && s.data[at] != '\\'; at++) {
            }
            builder_put(&b, text_slice(s, from, at - from));
            if (at < s.n && ++at < s.n) put_escape(&b, s, &at);
        }
        t.text = builder_end(&b);
    }
    advance(l, end + 1);
    return t;
}

/* The parser finds those that do not match. */
static void track_bracket(struct lexer *l, char c)
{
    if (strchr("([{", c)) l->n_brackets++;
    if (strchr(")]}", c) && l->n_brackets > 0) l->n_brackets--;
}

static struct token lex_operator(struct lexer *l, struct token t)
{
    static const struct {
        char text[3];
        enum lex_operator op;
    } twos[] = {{"==", LEX_EQUAL}, {"!=", LEX_UNEQUAL}, {">=", LEX_AT_LEAST}, {"<=", LEX_AT_MOST}};
    size_t length = 1;
    t.kind = LEX_OPERATOR;
    t.op = (uint8_t)peek(l, 0);
    for (size_t i = 0; i < sizeof twos / sizeof *twos; i++)
        if (sees(l, l->at, twos[i].text)) {
            t.op = (int)twos[i].op;
            length = 2;
        }
    if (length == 1 && (t.op == 0 || !strchr("+-*%~[](){}><=.:|,", t.op)))
        heap_fail(l->heap, "unexpected character (byte 0x%02x)", (unsigned)t.op);
    if (length == 1) track_bracket(l, (char)t.op);
    t.text = text_slice(l->source, l->at, length);
    advance(l, l->at + length);
    return t;
}

/* Whether the tag ends here. */
static bool lex_close(struct lexer *l, struct token *t)
{
    bool block = l->state == LEX_IN_BLOCK;
    const char *end = block ? "%}" : "}}";
    char sign = peek(l, 0);
    bool with_sign = (sign == '-' || (sign == '+' && block)) && sees(l, l->at + 1, end);
    if (l->n_brackets > 0 || !(with_sign || sees(l, l->at, end))) return false;
    if (with_sign) advance(l, l->at + 1);
    close_tag(l, with_sign ? sign : '\0', block);
    l->state = LEX_IN_DATA;
    t->kind = block ? LEX_BLOCK_END : LEX_PRINT_END;
    t->text = text_of(end);
    return true;
}

struct token lexer_next(struct lexer *l)
{
    struct token t = {.kind = LEX_END, .line = l->line, .text = text_of("the end")};
    heap_step(l->heap, 1);
    if (l->opened != LEX_END) {
        t.kind = l->opened;
        t.text = text_of(l->opened == LEX_BLOCK ? "{%" : "{{");
        l->opened = LEX_END;
        return t;
    }
    while (l->state == LEX_IN_DATA) {
        if (l->at == l->source.n) return t;
        struct token data = lex_data(l);
        if (data.text.n > 0) return data;
        if (l->opened != LEX_END) return lexer_next(l);
    }
    skip_blanks(l);
    t.line = l->line;
    char c = peek(l, 0);
    if (l->at == l->source.n) heap_fail(l->heap, "a tag has no end");
    if (lex_close(l, &t)) return t;
    if (is_digit(c)) return lex_number(l, t);
    if (c == '\'' || c == '"') return lex_string(l, t);
    if (is_name_char((uint8_t)c, true)) return lex_name(l, t);
    return lex_operator(l, t);
}
