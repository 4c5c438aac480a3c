#include "runtime/template/lex.h"

#include <errno.h>
#include <stdlib.h>
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
    struct text newline = text_of("\n");
    size_t at = text_find_last(l->heap, data, newline), line = at == TEXT_NONE ? 0 : at + 1;
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

/* Whether a tag that begins at `at` is {% name %}, with any signs; *end: its closing characters,
 * *sign: the sign in front of them. */
static bool is_tag(const struct lexer *l, size_t at, const char *name, size_t *end, char *sign)
{
    struct lexer k = *l;
    *sign = '\0';
    if (!sees(l, at, "{%")) return false;
    k.at = at + 2;
    if (peek(&k, 0) == '-' || peek(&k, 0) == '+') k.at++;
    skip_blanks(&k);
    bool named = sees(&k, k.at, name);
    k.at += named ? strlen(name) : 0;
    skip_blanks(&k);
    if (peek(&k, 0) == '-' || peek(&k, 0) == '+') *sign = k.source.data[k.at++];
    *end = k.at;
    l->heap->line = l->line;
    return named && sees(&k, k.at, "%}");
}

/* The data of a raw block whose opening tag ends at l->at. */
static struct text lex_raw(struct lexer *l)
{
    size_t end;
    char sign;
    for (size_t at = l->at; at < l->source.n; at++) {
        if (l->source.data[at] != '{' || !is_tag(l, at, "endraw", &end, &sign)) continue;
        struct text data = data_before(l, at, false);
        advance(l, end);
        close_tag(l, sign, true);
        return data;
    }
    heap_fail(l->heap, "a raw block has no end");
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
    size_t at = find_tag(l), end;
    char sign, second = at < l->source.n ? l->source.data[at + 1] : '\0';
    struct token t = {.kind = LEX_DATA, .line = l->line, .text = data_before(l, at, second == '{')};
    if (at == l->source.n) {
        advance(l, at);
    } else if (second == '#') {
        advance(l, at);
        skip_comment(l);
    } else if (is_tag(l, at, "raw", &end, &sign)) {
        advance(l, end);
        close_tag(l, sign, false);
        struct text raw = lex_raw(l);
        t.text = text_join2(l->heap, t.text, raw);
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

/* Copies digits without underscores; returns the number of source bytes. */
static size_t copy_digits(const struct lexer *l, size_t from, char *out, size_t *n, size_t cap)
{
    size_t at = from;
    while (is_digit(peek(l, at)) || (peek(l, at) == '_' && is_digit(peek(l, at + 1)))) {
        if (*n + 2 < cap && peek(l, at) != '_') out[(*n)++] = peek(l, at);
        at++;
    }
    return at - from;
}

static struct token lex_number(struct lexer *l, struct token t)
{
    char digits[128];
    size_t n = 0, length = copy_digits(l, 0, digits, &n, sizeof digits / 3);
    bool real = false, after_dot = l->at > 0 && l->source.data[l->at - 1] == '.'; /* x.0.1 */
    if (!after_dot && peek(l, length) == '.' && is_digit(peek(l, length + 1))) {
        digits[n++] = '.';
        length += 1 + copy_digits(l, length + 1, digits, &n, sizeof digits * 2 / 3);
        real = true;
    }
    size_t e = length + 1 + (peek(l, length + 1) == '-' || peek(l, length + 1) == '+');
    if (!after_dot && (peek(l, length) == 'e' || peek(l, length) == 'E') && is_digit(peek(l, e))) {
        for (; length < e; length++) digits[n++] = peek(l, length);
        length += copy_digits(l, length, digits, &n, sizeof digits);
        real = true;
    }
    digits[n] = '\0';
    errno = 0;
    t.kind = LEX_NUMBER;
    t.value = real ? value_float(strtod(digits, NULL)) : value_int(strtoll(digits, NULL, 10));
    if (!real && errno) heap_fail(l->heap, "the number %s is too large", digits);
    advance(l, l->at + length);
    return t;
}

/* Of a digit; 16: it is none. */
static uint32_t digit_value(char c)
{
    return (uint32_t)(is_digit(c)            ? c - '0'
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                             : 16);
}

/* Digits of an escape at s[*at], at most `most`. */
static uint32_t escape_number(struct text s, size_t *at, int most, uint32_t base)
{
    uint32_t c = 0;
    for (; most > 0 && *at < s.n && digit_value(s.data[*at]) < base; most--)
        c = c * base + digit_value(s.data[(*at)++]);
    return c;
}

/* The escape whose backslash is before s[*at]. */
static void put_escape(struct builder *b, struct text s, size_t *at)
{
    static const char letters[] = "ntrabfv\\'\"", meanings[] = "\n\t\r\a\b\f\v\\'\"";
    char c = s.data[*at];
    const char *known = c ? strchr(letters, c) : NULL;
    if (c == '\n') {
        (*at)++;
    } else if (known) {
        (*at)++;
        builder_char(b, (uint8_t)meanings[known - letters], 0);
    } else if (digit_value(c) < 8) {
        builder_char(b, escape_number(s, at, 3, 8), 0);
    } else if (c == 'x' || c == 'u' || c == 'U') {
        int most = c == 'x' ? 2 : c == 'u' ? 4 : 8;
        (*at)++;
        builder_char(b, escape_number(s, at, most, 16), 0);
    } else {
        builder_puts(b, "\\");
    }
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
    } twos[] = {{"//", LEX_FLOOR},   {"**", LEX_POWER},    {"==", LEX_EQUAL},
                {"!=", LEX_UNEQUAL}, {">=", LEX_AT_LEAST}, {"<=", LEX_AT_MOST}};
    size_t length = 1;
    t.kind = LEX_OPERATOR;
    t.op = (uint8_t)peek(l, 0);
    for (size_t i = 0; i < sizeof twos / sizeof *twos; i++)
        if (sees(l, l->at, twos[i].text)) {
            t.op = (int)twos[i].op;
            length = 2;
        }
    if (length == 1 && (t.op == 0 || !strchr("+-/*%~[](){}><=.:|,;", t.op)))
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
