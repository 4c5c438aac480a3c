/* attached: the code blocks of a Markdown text, between lines of ``` or ~~~ (CommonMark 4.5, but
 * with any indentation, as models write them in lists), and files in a message. Each of these is a
 * fenced block whose first line names the file; they come before the words of the message:
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

/* ---- blocks ---- */

struct fence {
    size_t at;           /* byte where its first line begins */
    size_t name, n_name; /* the rest of the first line, after its marks */
    size_t from, end;    /* the lines of code */
    size_t next;         /* byte after the block */
    bool closed;         /* else it ends with the text */
};

/* The end of the line at `at`, without its newline. */
size_t fence_line_end(const char *s, size_t n, size_t at);
/* Whether s[0, n), a line, opens a block. */
bool fence_opens(const char *s, size_t n);
/* The first block of s [n] that begins at or after the line at `at`. */
bool fence_next(const char *s, size_t n, size_t at, struct fence *out);

/* ---- files ---- */

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
