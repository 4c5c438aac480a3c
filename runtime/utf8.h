/* utf8: where characters begin and end in bytes that may be anything. */
#ifndef RETAIN_RUNTIME_UTF8_H
#define RETAIN_RUNTIME_UTF8_H

#include <stddef.h>
#include <stdint.h>

/* The character at s, of which n > 0 bytes are there (Unicode 15, table 3-7):
 *   1 … 4   its length
 *   0       it is cut off by n, so far it is valid
 *   -k      the first k bytes can't be part of any character */
int utf8_length(const char *s, size_t n);

/* The code point of a character of that length (1 … 4, valid). */
uint32_t utf8_decode(const char *s, int length);

/* Writes code point c < 0x110000 to out[4]; returns its length. */
int utf8_encode(uint32_t c, char *out);

#endif
