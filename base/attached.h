/* attached: files in a message. Each is a fenced block whose first line names the file; they come
 * before the words of the message:
 *
 *   ```notes.txt
 *   its text
 *   ```
 *
 * A fence is longer than any in the text. A name has a dot or a slash, so that ```python is none.
 */
#ifndef RETAIN_BASE_ATTACHED_H
#define RETAIN_BASE_ATTACHED_H

#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"

struct attached {
    const char *name, *text; /* [n_name], [n_text], in the message */
    size_t n_name, n_text;
    size_t n; /* bytes of the whole block, with the end of its last line */
};

/* Whether s[0, n), the beginning of a line, begins with a file. */
bool attached_at(const char *s, size_t n, struct attached *out);
/* Whether a file begins at *at, which then moves past it and the empty lines after it. */
bool attached_next(const char *s, size_t n, size_t *at, struct attached *out);
/* Bytes of the files that a message begins with, and of the empty lines after them. */
size_t attached_skip(const char *s, size_t n);
/* Appends a file. */
void attached_put(struct str *out, const char *name, const char *text, size_t n);

#endif
