#include "base/utf8.h"

#include <string.h>

int utf8_length(const char *s, size_t n)
{
    const unsigned char *b = (const unsigned char *)s;
    if (b[0] < 0x80) return 1;
    if (b[0] < 0xC2 || b[0] > 0xF4) return -1;
    int length = b[0] < 0xE0 ? 2 : b[0] < 0xF0 ? 3 : 4;
    /* The second byte's range excludes overlong forms, surrogates and code points beyond
     * U+10FFFF. */
    unsigned char low = b[0] == 0xE0 ? 0xA0 : b[0] == 0xF0 ? 0x90 : 0x80;
    unsigned char high = b[0] == 0xED ? 0x9F : b[0] == 0xF4 ? 0x8F : 0xBF;
    for (int i = 1; i < length; i++, low = 0x80, high = 0xBF) {
        if ((size_t)i >= n) return 0;
        if (b[i] < low || b[i] > high) return -i;
    }
    return length;
}

size_t utf8_invalid(const char *s, size_t n)
{
    for (size_t i = 0; i < n;) {
        int length = (unsigned char)s[i] < 0x80 ? 1 : utf8_length(s + i, n - i);
        if (length <= 0) return i;
        i += (size_t)length;
    }
    return n;
}

uint32_t utf8_decode(const char *s, int length)
{
    const unsigned char *b = (const unsigned char *)s;
    uint32_t c = length == 1 ? b[0] : b[0] & (0xFFu >> (length + 1));
    for (int i = 1; i < length; i++) c = c << 6 | (b[i] & 0x3Fu);
    return c;
}

int utf8_encode(uint32_t c, char *out)
{
    static const unsigned char lead[5] = {0, 0, 0xC0, 0xE0, 0xF0};
    int length = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (int i = length - 1; i > 0; i--, c >>= 6) out[i] = (char)(0x80 | (c & 0x3F));
    out[0] = (char)(lead[length] | c);
    return length;
}

static size_t put_replacement(char *out)
{
    memcpy(out, "\xEF\xBF\xBD", 3);
    return 3;
}

size_t utf8_join(struct utf8_join *j, const char *bytes, size_t n, bool flush, char *out)
{
    size_t written = 0;
    for (size_t i = 0; i < n; i++) {
        j->pending[j->n++] = bytes[i];
        while (j->n > 0) {
            int length = utf8_length(j->pending, (size_t)j->n);
            if (length == 0) break;
            int used = length > 0 ? length : -length;
            if (length > 0) {
                memcpy(out + written, j->pending, (size_t)used);
                written += (size_t)used;
            } else {
                written += put_replacement(out + written);
            }
            j->n -= used;
            memmove(j->pending, j->pending + used, (size_t)j->n);
        }
    }
    if (flush && j->n > 0) {
        written += put_replacement(out + written);
        j->n = 0;
    }
    return written;
}

bool utf8_is_space(uint32_t c)
{
    return (c >= 9 && c <= 13) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 ||
           c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 ||
           c == 0x202F || c == 0x205F || c == 0x3000;
}

bool utf8_hidden(uint32_t cp)
{
    static const struct {
        uint32_t first, last;
    } ranges[] = {
        {0x80, 0x9F},       /* C1: CSI, OSC, … in one character */
        {0x61C, 0x61C},     /* Arabic letter mark */
        {0x200E, 0x200F},   /* LRM, RLM */
        {0x2028, 0x202E},   /* line and paragraph separator, bidi embeddings and overrides */
        {0x2066, 0x206F},   /* bidi isolates, deprecated format characters */
        {0xFFF9, 0xFFFB},   /* interlinear annotation */
        {0xE0000, 0xE007F}, /* tags: invisible text */
    };
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++)
        if (cp >= ranges[i].first && cp <= ranges[i].last) return true;
    return false;
}

struct utf8_shown utf8_show(const char *s, size_t n)
{
    struct utf8_shown out = {{0}};
    for (size_t at = 0, used = 0; at < n;) {
        int length = utf8_length(s + at, n - at);
        uint32_t c = length > 0 ? utf8_decode(s + at, length) : 0;
        bool shown = c >= 0x20 && c != 0x7F && !utf8_hidden(c);
        size_t width = shown ? (size_t)length : 1;
        if (used + width >= sizeof out.text) break;
        memcpy(out.text + used, shown ? s + at : "?", width);
        used += width;
        at += length > 0 ? (size_t)length : length < 0 ? (size_t)-length : n - at;
    }
    return out;
}
