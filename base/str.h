/* str: a growable byte string. Not for the token path: it allocates. */
#ifndef RETAIN_BASE_STR_H
#define RETAIN_BASE_STR_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

/* Zero-initialise. `data` is NUL-terminated whenever it is not NULL; `n` does not count the NUL.
 * Out of memory ends the program (memory.h). */
struct str {
    char *data;
    size_t n;
    size_t cap;
};

void str_release(struct str *s);
void str_clear(struct str *s);
void str_reserve(struct str *s, size_t n); /* room for n bytes in all */
void str_append(struct str *s, const void *bytes, size_t n);
void str_puts(struct str *s, const char *text);
void str_printf(struct str *s, const char *fmt, ...)
    __attribute__((format(printf, 2, 3), nonnull(2)));
void str_vprintf(struct str *s, const char *fmt, va_list ap)
    __attribute__((format(printf, 2, 0), nonnull(2)));
const char *str_get(const struct str *s); /* never NULL */

bool str_ends(const char *text, const char *end); /* text is longer than its end */
bool str_same(const char *a, const char *b);      /* both are equal, or both NULL */

/* Appends a JSON string; false when invalid UTF-8 or a NUL had to be replaced. */
bool str_json(struct str *out, const char *text, size_t n);

#endif
