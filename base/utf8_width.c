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

/* The bytes of the first character of s [n], at `column`, and its columns: tabs stop every 4. */
static size_t advance(const char *s, size_t n, int column, int *width)
{
    uint32_t cp;
    size_t length = step(s, n, 0, &cp);
    *width = cp == '\t' ? 4 - column % 4 : utf8_width(cp);
    return length;
}

int utf8_columns(const char *s, size_t n)
{
    int column = 0, w;
    for (size_t at = 0; at < n; column += w) at += advance(s + at, n - at, column, &w);
    return column;
}

size_t utf8_fit(const char *s, size_t n, int columns)
{
    int column = 0, w;
    for (size_t at = 0, length; at < n; at += length, column += w) {
        length = advance(s + at, n - at, column, &w);
        if (column + w > columns) return at;
    }
    return n;
}

size_t utf8_line(const char *s, size_t n, int width, size_t *n_shown)
{
    size_t at = 0, cut = 0, shown = 0; /* the last place to break: bytes taken, bytes drawn */
    int column = 0;
    bool word = false, wide = false; /* a word has begun; the character before was wide */
    if (width < 1) width = 1;
    for (; at < n && s[at] != '\n';) {
        int w;
        size_t length = advance(s + at, n - at, column, &w);
        bool space = s[at] == ' ';
        if (at > 0 && w > 0 && !space && s[at - 1] != ' ' && (w == 2 || wide)) cut = shown = at;
        if (column + w > width && !space && at > 0) break;
        if (space && word) {
            /* spaces at the right edge are not drawn */
            if (s[at - 1] != ' ') shown = at;
            cut = at + 1;
        }
        word = word || !space;
        if (w > 0) wide = w == 2;
        column += w;
        at += length;
    }
    bool whole = at == n || s[at] == '\n';
    if (whole || cut == 0) cut = at;
    *n_shown = whole ? (column > width && shown > 0 && s[at - 1] == ' ' ? shown : at)
                     : (cut == at && shown == 0 ? at : shown);
    return cut + (at < n && s[at] == '\n');
}

int utf8_line_at(const size_t *starts, int n, size_t at)
{
    int low = 0, high = n;
    while (high - low > 1) {
        int middle = low + (high - low) / 2;
        if (starts[middle] <= at)
            low = middle;
        else
            high = middle;
    }
    return low;
}

bool utf8_locale(void)
{
    return strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
}
