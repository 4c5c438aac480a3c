#include "base/utf8_width.h"

#include <langinfo.h>
#include <string.h>
#include <wchar.h>

static bool continuation(unsigned char c)
{
    return (c & 0xC0) == 0x80;
}

int utf8_next(const char *s, size_t n, uint32_t *cp)
{
    int length = n > 0 ? utf8_length(s, n) : 0;
    if (length > 0) *cp = utf8_decode(s, length);
    return length < 0 ? -1 : length;
}

/* One character or one bad byte. */
static size_t step(const char *s, size_t n, size_t at, uint32_t *cp)
{
    int length = utf8_next(s + at, n - at, cp);
    if (length > 0) return (size_t)length;
    *cp = UTF8_REPLACEMENT;
    return 1;
}

size_t utf8_after(const char *s, size_t n, size_t at)
{
    uint32_t cp;
    if (at >= n) return n;
    at += step(s, n, at, &cp);
    while (at < n) {
        size_t next = step(s, n, at, &cp);
        if (cp < 0x80 || !utf8_known(cp) || utf8_width(cp) > 0) break;
        at += next;
    }
    return at;
}

size_t utf8_before(const char *s, size_t n, size_t at)
{
    uint32_t cp;
    if (at > n) at = n;
    while (at > 0) {
        size_t from = at - 1;
        while (from > 0 && at - from < 4 && continuation((unsigned char)s[from])) from--;
        if (step(s, at, from, &cp) != at - from) {
            from = at - 1;
            cp = UTF8_REPLACEMENT;
        }
        at = from;
        if (cp < 0x80 || !utf8_known(cp) || utf8_width(cp) > 0) break;
    }
    return at;
}

bool utf8_known(uint32_t cp)
{
    return cp < 0x7F ? cp >= 0x20 : wcwidth((wchar_t)cp) >= 0;
}

int utf8_width(uint32_t cp)
{
    if (cp < 0x7F) return 1;
    if (cp == 0xFE0F || cp == 0x200D) return 0; /* terminals disagree about them: never drawn */
    int width = wcwidth((wchar_t)cp);
    return width < 0 ? 1 : width;
}

int utf8_columns(const char *s, size_t n)
{
    int columns = 0;
    for (size_t at = 0; at < n;) {
        uint32_t cp;
        at += step(s, n, at, &cp);
        columns += utf8_width(cp);
    }
    return columns;
}

size_t utf8_fit(const char *s, size_t n, int columns)
{
    for (size_t at = 0, end; at < n; at = end) {
        uint32_t cp;
        end = at + step(s, n, at, &cp);
        columns -= utf8_width(cp);
        if (columns < 0) return at;
    }
    return n;
}

bool utf8_locale(void)
{
    return strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
}
