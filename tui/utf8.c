#include "tui/utf8.h"

#include <langinfo.h>
#include <string.h>
#include <wchar.h>

static bool continuation(unsigned char c)
{
    return (c & 0xC0) == 0x80;
}

int utf8_next(const char *s, size_t n, uint32_t *cp)
{
    static const uint32_t smallest[5] = {0, 0, 0x80, 0x800, 0x10000};
    if (n == 0) return 0;
    unsigned char c = (unsigned char)s[0];
    int length = c < 0x80 ? 1 : c < 0xC2 ? -1 : c < 0xE0 ? 2 : c < 0xF0 ? 3 : c < 0xF5 ? 4 : -1;
    if (length < 0) return -1;
    uint32_t value = length == 1 ? c : (uint32_t)(c & (0xFF >> (length + 1)));
    for (int i = 1; i < length; i++) {
        if ((size_t)i >= n) return 0;
        unsigned char next = (unsigned char)s[i];
        if (!continuation(next)) return -1;
        value = value << 6 | (next & 0x3F);
    }
    if (value < smallest[length] || value > 0x10FFFF) return -1;
    if (value >= 0xD800 && value <= 0xDFFF) return -1;
    *cp = value;
    return length;
}

int utf8_put(uint32_t cp, char *out)
{
    if (cp < 0x80) {
        out[0] = (char)cp;
        return 1;
    }
    int length = cp < 0x800 ? 2 : cp < 0x10000 ? 3 : 4;
    for (int i = length - 1; i > 0; i--) {
        out[i] = (char)(0x80 | (cp & 0x3F));
        cp >>= 6;
    }
    out[0] = (char)((0xF00 >> length & 0xFF) | cp);
    return length;
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

bool utf8_locale(void)
{
    return strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
}
