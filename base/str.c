#include "base/str.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/utf8.h"

void str_reserve(struct str *s, size_t n)
{
    if (n < s->cap) return;
    size_t cap = s->cap ? s->cap : 64;
    while (cap <= n) cap *= 2;
    s->data = memory_grow(s->data, cap, 1);
    s->cap = cap;
}

void str_release(struct str *s)
{
    free(s->data);
    *s = (struct str){0};
}

void str_clear(struct str *s)
{
    s->n = 0;
    if (s->data) s->data[0] = 0;
}

void str_append(struct str *s, const void *bytes, size_t n)
{
    str_reserve(s, s->n + n);
    if (n) memcpy(s->data + s->n, bytes, n);
    s->n += n;
    s->data[s->n] = 0;
}

void str_puts(struct str *s, const char *text)
{
    str_append(s, text, strlen(text));
}

void str_vprintf(struct str *s, const char *fmt, va_list ap)
{
    va_list again;
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    if (n > 0) {
        str_reserve(s, s->n + (size_t)n);
        vsnprintf(s->data + s->n, (size_t)n + 1, fmt, again);
        s->n += (size_t)n;
    }
    va_end(again);
}

void str_printf(struct str *s, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    str_vprintf(s, fmt, ap);
    va_end(ap);
}

const char *str_get(const struct str *s)
{
    return s->data ? s->data : "";
}

bool str_ends(const char *text, const char *end)
{
    const size_t n = strlen(text), n_end = strlen(end);
    return n > n_end && !strcmp(text + n - n_end, end);
}

bool str_same(const char *a, const char *b)
{
    return a && b ? !strcmp(a, b) : a == b;
}

/* ">" is escaped too, so that the text may be inside a comment. */
static void put_character(struct str *out, const char *p, size_t n)
{
    unsigned char c = (unsigned char)*p;
    if (n > 1)
        str_append(out, p, n);
    else if (c == '"' || c == '\\')
        str_printf(out, "\\%c", c);
    else if (c == '\n')
        str_puts(out, "\\n");
    else if (c < 0x20 || c == 0x7f || c == '>')
        str_printf(out, "\\u%04x", c);
    else
        str_append(out, p, 1);
}

bool str_json(struct str *out, const char *text, size_t n)
{
    bool whole = true;
    str_puts(out, "\"");
    while (n > 0) {
        int length = utf8_length(text, n);
        size_t used = length > 0 ? (size_t)length : length == 0 ? n : (size_t)-length;
        bool good = length > 0 && *text; /* many JSON readers end a string at a NUL */
        if (good)
            put_character(out, text, used);
        else
            str_puts(out, "\xef\xbf\xbd");
        whole = whole && good;
        text += used;
        n -= used;
    }
    str_puts(out, "\"");
    return whole;
}
