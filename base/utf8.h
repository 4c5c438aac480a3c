/* utf8: finds characters in arbitrary bytes. */
#ifndef RETAIN_BASE_UTF8_H
#define RETAIN_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The character at s, of which n > 0 bytes are available (Unicode 15, table 3-7):
 *   1 … 4   its length
 *   0       it is cut off after n bytes, valid so far
 *   -k      the first k bytes can't be part of any character */
int utf8_length(const char *s, size_t n);

/* The first byte of s[0, n) that is part of no character; n = none. */
size_t utf8_invalid(const char *s, size_t n);

/* The code point of a character of that length (1 … 4, valid). */
uint32_t utf8_decode(const char *s, int length);

/* White space, as Python's str.isspace. */
bool utf8_is_space(uint32_t c);

/* Code points without a glyph that change how others are shown, and the controls beyond ASCII. */
bool utf8_hidden(uint32_t c);

/* Writes code point c < 0x110000 to out[4]; returns its length. */
int utf8_encode(uint32_t c, char *out);

/* Joins bytes to whole characters while streaming: feed bytes, get the longest prefix that ends at
 * a character border. Invalid bytes are replaced by U+FFFD as soon as they cannot become valid. */
struct utf8_join {
    char pending[4];
    int n;
};
/* out must hold 3 * (n + 4) bytes; returns the bytes written. flush: no more bytes will follow. */
size_t utf8_join(struct utf8_join *j, const char *bytes, size_t n, bool flush, char *out);

/* A name from a file, for use in messages: truncated to fit, with no character that a terminal acts
 * on. */
struct utf8_shown {
    char text[96];
};
struct utf8_shown utf8_show(const char *s, size_t n);

#endif
