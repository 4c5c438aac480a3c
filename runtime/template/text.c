#include "runtime/template/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <utf8proc.h>

#include "base/size.h"
#include "base/utf8.h"

struct text text_bytes(const char *data, size_t n)
{
    return (struct text){.data = data, .n = n};
}

struct text text_of(const char *literal)
{
    return text_bytes(literal, strlen(literal));
}

struct text text_slice(struct text t, size_t from, size_t n)
{
    return (struct text){.data = t.data + from, .marks = t.marks ? t.marks + from : NULL, .n = n};
}

bool text_equal(struct text a, struct text b)
{
    return a.n == b.n && (a.n == 0 || !memcmp(a.data, b.data, a.n));
}

bool text_is(struct text t, const char *literal)
{
    return text_equal(t, text_of(literal));
}

int text_compare(struct text a, struct text b)
{
    size_t n = a.n < b.n ? a.n : b.n;
    int order = n > 0 ? memcmp(a.data, b.data, n) : 0;
    return order ? order : (a.n > b.n) - (a.n < b.n);
}

/* ---- characters ------------------------------------------------------------------------------ */

size_t text_char(struct text t, size_t at, uint32_t *c)
{
    const char *s = t.data + at;
    int length = utf8_length(s, t.n - at);
    if (length <= 0) {
        *c = 0xFFFD;
        return 1;
    }
    *c = utf8_decode(s, length);
    return (size_t)length;
}

size_t text_length(struct text t)
{
    size_t n = 0;
    uint32_t c;
    for (size_t at = 0; at < t.n; n++) at += text_char(t, at, &c);
    return n;
}

size_t text_offset(struct text t, size_t index)
{
    size_t at = 0;
    uint32_t c;
    for (; index > 0 && at < t.n; index--) at += text_char(t, at, &c);
    return at;
}

/* ---- searching ------------------------------------------------------------------------------- */

size_t text_find(struct text t, struct text what, size_t from)
{
    if (from > t.n) return TEXT_NONE;
    if (what.n == 0) return from;
    if (from == t.n) return TEXT_NONE;
    const char *at = memmem(t.data + from, t.n - from, what.data, what.n);
    return at ? (size_t)(at - t.data) : TEXT_NONE;
}

static bool stripped(uint32_t c, const struct text *chars)
{
    uint32_t one;
    if (!chars) return utf8_is_space(c);
    for (size_t at = 0; at < chars->n;) {
        at += text_char(*chars, at, &one);
        if (one == c) return true;
    }
    return false;
}

/* The beginning of the character that ends at byte `end` > 0. */
static size_t char_before(struct text t, size_t end)
{
    uint32_t c;
    for (size_t back = end < 4 ? end : 4; back > 1; back--)
        if (text_char(text_slice(t, 0, end), end - back, &c) == back) return end - back;
    return end - 1;
}

struct text text_strip(struct heap *h, struct text t, const struct text *chars, bool left,
                       bool right)
{
    uint32_t c;
    heap_step(h, t.n / 64 * (1 + (chars ? chars->n : 0)));
    size_t from = 0, end = t.n;
    while (left && from < end) {
        size_t length = text_char(t, from, &c);
        if (!stripped(c, chars)) break;
        from += length;
    }
    while (right && end > from) {
        size_t at = char_before(t, end);
        text_char(text_slice(t, 0, end), at, &c);
        if (!stripped(c, chars)) break;
        end = at;
    }
    return text_slice(t, from, end - from);
}

/* ---- making ---------------------------------------------------------------------------------- */

static bool is_letter(uint32_t c)
{
    utf8proc_category_t category = utf8proc_category((utf8proc_int32_t)c);
    return category == UTF8PROC_CATEGORY_LU || category == UTF8PROC_CATEGORY_LL ||
           category == UTF8PROC_CATEGORY_LT;
}

static void put_upper(struct builder *b, uint32_t c, uint8_t mark)
{
    if (c == 0xDF) { /* the only common letter whose capital form has two letters */
        builder_char(b, 'S', mark);
        builder_char(b, 'S', mark);
    } else {
        builder_char(b, (uint32_t)utf8proc_toupper((utf8proc_int32_t)c), mark);
    }
}

struct text text_to_case(struct heap *h, struct text t, enum text_case to)
{
    struct builder b = {.heap = h};
    bool in_word = false;
    uint32_t c;
    heap_step(h, t.n / 2);
    for (size_t at = 0, length; at < t.n; at += length) {
        length = text_char(t, at, &c);
        uint8_t mark = t.marks ? t.marks[at] : 0;
        bool up = to == TEXT_UPPER || (to == TEXT_CAPITALIZE && at == 0) ||
                  (to == TEXT_TITLE && !in_word);
        in_word = is_letter(c);
        if (c == 0xFFFD)
            builder_put(&b, text_slice(t, at, length));
        else if (up)
            put_upper(&b, c, mark);
        else
            builder_char(&b, (uint32_t)utf8proc_tolower((utf8proc_int32_t)c), mark);
    }
    return builder_end(&b);
}

struct text text_replace(struct heap *h, struct text t, struct text from, struct text to)
{
    struct builder b = {.heap = h};
    size_t at = 0, hit;
    if (from.n == 0) heap_fail(h, "a text without characters cannot be replaced");
    heap_step(h, t.n / 16);
    while ((hit = text_find(t, from, at)) != TEXT_NONE) {
        heap_step(h, 1);
        builder_put(&b, text_slice(t, at, hit - at));
        builder_put(&b, to);
        at = hit + from.n;
    }
    if (at == 0) return t;
    builder_put(&b, text_slice(t, at, t.n - at));
    return builder_end(&b);
}

struct text text_repeat(struct heap *h, struct text t, int64_t n)
{
    struct builder b = {.heap = h};
    size_t bytes;
    if (n <= 0 || t.n == 0) return text_of("");
    if (!size_mul(t.n, (size_t)n, &bytes) || bytes > h->used_max)
        heap_fail(h, "repeats a text of %zu bytes %lld times", t.n, (long long)n);
    heap_step(h, (size_t)n / 4 + bytes / 64);
    for (; n > 0; n--) builder_put(&b, t);
    return builder_end(&b);
}

struct text text_join2(struct heap *h, struct text a, struct text b)
{
    struct builder out = {.heap = h};
    if (a.n == 0) return b;
    if (b.n == 0) return a;
    heap_step(h, (a.n + b.n) / 64);
    builder_put(&out, a);
    builder_put(&out, b);
    return builder_end(&out);
}

/* ---- builder --------------------------------------------------------------------------------- */

static size_t grown(size_t cap, size_t n)
{
    size_t twice = cap < 32 ? 64 : 2 * cap;
    return twice > n ? twice : n;
}

static void reserve(struct builder *b, size_t more, bool marked)
{
    size_t n = b->n + more;
    if (n > b->cap) {
        size_t cap = grown(b->cap, n);
        b->data = heap_grow(b->heap, b->data, b->cap, cap);
        b->cap = cap;
    }
    if ((marked || b->marks) && n > b->cap_marks) {
        size_t cap = b->cap;
        b->marks = heap_grow(b->heap, b->marks, b->cap_marks, cap);
        b->cap_marks = cap;
    }
}

void builder_put(struct builder *b, struct text t)
{
    if (t.n == 0) return;
    reserve(b, t.n, t.marks);
    memcpy(b->data + b->n, t.data, t.n);
    if (t.marks)
        memcpy(b->marks + b->n, t.marks, t.n);
    else if (b->marks)
        memset(b->marks + b->n, 0, t.n);
    b->n += t.n;
}

void builder_puts(struct builder *b, const char *literal)
{
    builder_put(b, text_of(literal));
}

void builder_printf(struct builder *b, const char *fmt, ...)
{
    char text[64];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    builder_puts(b, text);
}

void builder_char(struct builder *b, uint32_t c, uint8_t mark)
{
    char bytes[4];
    const uint8_t marked[4] = {mark, mark, mark, mark};
    int n = utf8_encode(c < 0x110000 ? c : 0xFFFD, bytes);
    builder_put(b, (struct text){.data = bytes, .marks = mark ? marked : NULL, .n = (size_t)n});
}

struct text builder_end(const struct builder *b)
{
    return (struct text){.data = b->data ? b->data : "", .marks = b->marks, .n = b->n};
}
