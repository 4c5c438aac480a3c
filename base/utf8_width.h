/* utf8_width: characters on a screen: code points, and how many columns each takes.
 *
 * The widths are libc's, which terminals use: with any other table the cursor would be in a
 * different column than on the terminal. They depend on LC_CTYPE, so call setlocale first. */
#ifndef RETAIN_BASE_UTF8_WIDTH_H
#define RETAIN_BASE_UTF8_WIDTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/utf8.h"

#define UTF8_REPLACEMENT 0xFFFDu

/* Bytes of the first character of s[0, n): its length and *cp; 0 when more bytes are needed (or
 * n = 0); -1 when the first byte begins no valid character. */
int utf8_next(const char *s, size_t n, uint32_t *cp);

/* Start of the character before / after byte `at`; combining marks stay with their base. */
size_t utf8_before(const char *s, size_t n, size_t at);
size_t utf8_after(const char *s, size_t n, size_t at);

/* Columns: 0 for marks that join the character before them, 1, or 2. Characters unknown to libc
 * have width 1: they are drawn as a replacement. */
int utf8_width(uint32_t cp);
bool utf8_known(uint32_t cp); /* libc has a width for it */

/* Columns of a text whose only control characters are tabs. */
int utf8_columns(const char *s, size_t n);

/* Bytes of the longest beginning of such a text that takes at most so many columns. */
size_t utf8_fit(const char *s, size_t n, int columns);

/* The first line of a text for a screen `width` columns wide: returns the bytes it takes up, and in
 * *n_shown how many of them are drawn (the newline, or the spaces at the break, are not). Breaks
 * after spaces, between wide characters, and inside a word only when it fills a line. Takes at
 * least one character. */
size_t utf8_line(const char *s, size_t n, int width, size_t *n_shown);
/* The last of n lines that begins at or before `at`; the first, if none does. */
int utf8_line_at(const size_t *starts, int n, size_t at);

/* The locale's character set is UTF-8. */
bool utf8_locale(void);

#endif
