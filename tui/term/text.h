/* text: breaks clean text into screen lines. */
#ifndef RETAIN_TUI_TERM_TEXT_H
#define RETAIN_TUI_TERM_TEXT_H

#include <stddef.h>

/* The first line of s[0, n) for a screen `width` columns wide: returns the bytes it takes up, and
 * in *n_shown how many of them are drawn (the newline, or the spaces at the break, are not). Breaks
 * after spaces, between wide characters, and inside a word only when it fills a line. Takes at
 * least one character. Tabs stop every 4 columns. */
size_t text_line(const char *s, size_t n, int width, size_t *n_shown);

/* Columns of s[0, n), tabs included. */
int text_columns(const char *s, size_t n);

/* Bytes of s[0, n) that lie before `column`. */
size_t text_at_column(const char *s, size_t n, int column);

#endif
